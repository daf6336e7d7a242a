/* SPDX-License-Identifier: MIT */
/* The tested end that is MPA alone, as the player's transport has it: what the player writes goes straight
 * into mpa_end.h, without TCP, and what that wants to send is what the player reads. All that the file says
 * of the layers above is acted out: ULPDUs that the player framed must come up as they were, and those that
 * the tested end is to send are handed down (mpa_ulp.c). It answers the responder's questions as far as
 * they are about the set-up. */
#ifndef UIW_TESTS_MPA_WORLD_H
#define UIW_TESTS_MPA_WORLD_H

#include "mpa_end.h"
#include "play.h"

enum { MPA_LOG = 200, MPA_LOG_LINE = 180, MPA_CONNS = 64 };

/* A ULPDU that the player has framed and MPA has not handed up. */
struct mpa_due {
    uint8_t *octets;
    uint32_t n;
    bool known;           /* what MPA has to make of it */
    struct verdict fault; /* if known: refused so, or ok */
};

struct tr_conn {
    struct mpa_world *w;
    struct mpa_end end;
    unsigned no; /* 0: a question */
    bool initiator, taken, fell_back, question;
    bool rejected;   /* by either */
    bool told;       /* the file has named what MPA refused */
    bool blind;      /* octets came of which nobody knows where FPDUs begin */
    uint64_t octets; /* that the player wrote */
    uint32_t last_n; /* octets of the last ULPDU that came up */
    struct mpa_due *due;
    unsigned due_cnt;
};

/* Keys of `tested`. */
struct mpa_case {
    struct mpa_cfg cfg;
    bool initiator, reject, hold;
    uint8_t pd[MPA_PD_MAX];
    uint16_t pd_len;
};

struct mpa_world {
    struct transport tr;
    struct play_cfg cfg;
    struct play_above above;
    uint64_t ms;
    uint32_t cut_at; /* the player's streams are cut at each multiple of it */
    struct mpa_case now;
    struct tr_conn *conn[MPA_CONNS];
    unsigned opened; /* connections of this case */
    char log[MPA_LOG][MPA_LOG_LINE];
    unsigned logged;
    char trouble[300]; /* the first thing that MPA did and should not have */
    unsigned up, down, frames, events, beyond; /* of this file */
    uint64_t fed;                              /* octets */
};

void mpa_world_open(struct mpa_world *w, struct script **all, unsigned all_cnt);
void mpa_world_play(struct mpa_world *w, const struct script *s, uint32_t cut,
                    struct play_out *out);

/* --- inside --- */

void mpa_trouble(struct mpa_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void mpa_log(struct tr_conn *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* mpa_ask.c: what no key changes; a question, whose answer is text. */
void mpa_case_usual(struct mpa_case *c);
void mpa_ask(struct mpa_world *w, char *question, char *out, size_t room);
/* mpa_ulp.c: what is above. */
void mpa_ulp_want(void *arg, struct play *p, const struct script_line *l, const char *what);
/* Opens the connection of a tested Initiator. */
void mpa_connect(struct mpa_world *w, bool fell_back);
/* Responder: the answer to the Request that it has. */
void mpa_answer(struct tr_conn *c, bool accept);

#endif
