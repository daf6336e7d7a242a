/* SPDX-License-Identifier: MIT */
/* Inside the player.
 *   play.c        life, lines, loops, variables
 *   play_value.c  values out of lines
 *   play_io.c     octets, FPDUs
 *   play_setup.c  Request and Reply
 *   play_send.c   `<`
 *   play_want.c   `>` messages, play_end.c `>` for everything else
 *   play_map.c    octets of byte vectors, with the tested end's STags put in
 *   play_ctl.c    the responder's protocol: tested, do, ! */
#ifndef UIW_CONFORM_PLAY_INT_H
#define UIW_CONFORM_PLAY_INT_H

#include "ddp/ddp_hdr.h"
#include "mpa/mpa_rx.h"
#include "mpa/mpa_setup.h"
#include "mpa/mpa_tx.h"
#include "play.h"
#include "rdmap/rdmap_hdr.h"
#include "rdmap/rdmap_term.h"

enum {
    PLAY_STREAMS = 9, /* 1..8 are the file's, 0 is for control connections */
    PLAY_REGIONS = 32,
    PLAY_VARS = 32,
    PLAY_WORDS = 16,
    PLAY_SENT = 64,
    PLAY_READS = 300,
    PLAY_MESSAGE = 1 << 21, /* octets of a message at most */
    PLAY_ULPDU = 65536,
    PLAY_FPDU = 67000,
    PLAY_QUESTION = 500, /* octets of one at most: private data that has room for its word */
};

struct play_region {
    char name[16];
    uint32_t stag;
    uint64_t to, len;
};

/* A segment that we sent: what a Terminate may speak of. */
struct play_sent {
    char name[16];
    struct rdmap_cause cause;
};

struct play_stream {
    struct tr_conn *conn;
    bool initiator; /* we are */
    bool full;      /* Request and Reply are exchanged */
    struct mpa_frame mine, theirs;
    struct mpa_tx mtx;
    struct mpa_rx mrx;
    uint8_t *in;
    uint32_t have, room;
    uint8_t *held; /* built, not sent yet */
    uint32_t held_n, held_room;
    uint64_t tx_octets;
    uint32_t tx_msn[DDP_QNS], rx_msn[DDP_QNS];
    uint32_t tx_mo[DDP_QNS];                     /* of the message that is open */
    struct rdmap_read_request asked[PLAY_READS]; /* of us, unanswered */
    unsigned asked_cnt;
    uint32_t answered;                            /* octets of the first that are sent */
    struct rdmap_read_request asking[PLAY_READS]; /* by us, unanswered */
    unsigned asking_cnt;
    struct play_sent sent[PLAY_SENT];
    unsigned sent_cnt;
};

struct play_var {
    char name[16], text[40];
};

/* How far the log was gone through for the events of a word. */
struct play_seen {
    char word[16];
    unsigned at;
};

/* The last FPDU that came. */
struct play_seg {
    struct ddp_seg seg;
    struct verdict v; /* of its header */
    uint8_t octets[PLAY_ULPDU];
    uint32_t n;
    struct span whole; /* for the cursor of seg */
};

struct play {
    const struct play_cfg *cfg;
    const struct script *s;
    struct play_out *out;
    struct play_stream *st[PLAY_STREAMS], *now;
    unsigned now_no;
    struct play_region region[PLAY_REGIONS];
    unsigned regions;
    bool regions_known, case_sent;
    bool reached;   /* the last question found somebody who took the TCP connection */
    bool initiator; /* the tested end is */
    bool moved;     /* something came in the last turn */
    char tested[PLAY_QUESTION + 1];
    char dirt[120];    /* what was wrong with an FPDU that did its work all the same */
    unsigned log_next; /* lines of the responder's log that were fetched */
    struct play_seen seen[PLAY_WORDS];
    struct play_var var[PLAY_VARS];
    unsigned vars;
    unsigned limit_ms;
    bool soft;          /* the line is a recommendation */
    bool no_region;     /* the last value named a region that the tested end cannot have */
    bool of_region;     /* it named a region */
    bool over;          /* failed, or cannot go on */
    uint32_t atomic_id; /* of the last Atomic Request that came */
    struct play_seg in;
    struct mpa_ulpdu ulpdu;
    uint8_t *msg;  /* PLAY_MESSAGE octets: built or put together */
    uint8_t *want; /* the same */
};

/* The first failure counts, and ends the run unless the line is soft. Returns false. */
bool play_fail(struct play *p, const struct script_line *l, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The file itself makes no sense, whatever the RFCs only recommend. Returns false. */
bool play_wrong(struct play *p, const struct script_line *l, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Cannot be driven. Returns false. */
bool play_skip(struct play *p, const struct script_line *l, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void play_trace(struct play *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "MARK WHAT: OCTETS", the first of them. */
void play_trace_octets(struct play *p, char mark, const char *what, struct span o);

/* --- values --- */
bool play_set(struct play *p, const char *name, uint64_t value);
/* The same for a name that the file has chosen: says what is wrong with it. */
bool play_set_named(struct play *p, const struct script_line *l, const char *name, uint64_t value);
/* The line with its variables put in; arena of room octets holds the texts. */
bool play_subst(struct play *p, const struct script_line *l, struct script_line *to, char *arena);
enum { PLAY_ARENA = 4096 };

/* def when there is no such key. A region's name stands for its first offset; with stag for its
 * STag. */
uint64_t play_num(struct play *p, const struct script_line *l, const char *key, uint64_t def);
uint32_t play_stag(struct play *p, const struct script_line *l, const char *key, uint32_t def);
/* The same as a number of at most so much, or of a field of so many bits on the wire: one that is greater
 * fails the file, and is 0. */
uint64_t play_most(struct play *p, const struct script_line *l, const char *key, uint64_t def,
                   uint64_t max);
uint64_t play_field(struct play *p, const struct script_line *l, const char *key, unsigned bits,
                    uint64_t def);
uint32_t play_field32(struct play *p, const struct script_line *l, const char *key, uint32_t def);
bool play_flag(struct play *p, const struct script_line *l, const char *key, bool def);
enum { PLAY_MS = 600000 }; /* the longest time in a file */
/* When the line's `limit`, or the file's and so much more, is over. */
uint64_t play_until(struct play *p, const struct script_line *l, unsigned more);
/* The time that is the i-th word without a key. */
bool play_ms(struct play *p, const struct script_line *l, unsigned i, uint64_t *ms);
bool play_eval(struct play *p, const char *text, bool stag, uint64_t *out);
/* All octet groups among the words without keys from the from-th on; false when one is bad. */
bool play_octets(struct play *p, const struct script_line *l, unsigned from, uint8_t *out,
                 uint32_t *n);
bool play_has_octets(const struct script_line *l, unsigned from);
struct play_region *play_region(struct play *p, const char *name);

/* --- octets --- */
struct play_stream *play_stream(struct play *p, unsigned no);
void play_drop(struct play *p, unsigned no, bool reset);
void play_turn(struct play *p);
void play_wait(struct play *p, uint64_t ms);
uint64_t play_now(struct play *p);
/* Adds to what is held; sends all of it unless hold. */
bool play_send(struct play *p, const uint8_t *o, uint32_t n, bool hold);
enum tr_state play_state(const struct play *p, const struct play_stream *st);

enum play_got { PLAY_GOT, PLAY_NONE, PLAY_ENDED, PLAY_BAD };
/* The next FPDU into p->in, waiting until the time; BAD has said why. Zero-length Writes are passed
 * over unless wanted: they mean nothing to anybody, and initiators may send them. */
enum play_got play_fpdu(struct play *p, const struct script_line *l, uint64_t until, bool writes0);
/* Waits for n octets in the stream. */
bool play_need(struct play *p, uint32_t n, uint64_t until);
void play_consume(struct play_stream *st, uint32_t n);

/* --- set-up --- */
bool play_connect(struct play *p, const struct script_line *l);
bool play_accept(struct play *p, const struct script_line *l);
bool play_send_frame(struct play *p, const struct script_line *l, bool reply, bool hold);
bool play_want_frame(struct play *p, const struct script_line *l, bool reply);
bool play_setup(struct play *p, const struct script_line *l);
bool play_serve(struct play *p, const struct script_line *l);
/* Both frames are known: framing in full operation. */
void play_agree(struct play *p);
void play_learn_frame(struct play *p, struct span o);

/* --- messages --- */
bool play_line_send(struct play *p, const struct script_line *l, bool hold);
bool play_line_want(struct play *p, const struct script_line *l);
void play_will_want(struct play *p, const struct script_line *l, const char *what);
bool play_want_message(struct play *p, const struct script_line *l, const char *what);
/* Octets that mean something in either order mean what --host-order says. */
void play_host_order(const struct play *p, struct rdmap_term *t);
bool play_want_terminate(struct play *p, const struct script_line *l);
/* The payload of the Terminate that the line is about, with that verdict; returns its length. */
uint32_t play_terminate_octets(struct play *p, const struct script_line *l, struct verdict v,
                               uint8_t out[RDMAP_TERM_MAX]);
/* One FPDU as the line's framing keys say (crc, length, pad, ptr). */
bool play_frame_out(struct play *p, const struct script_line *l, struct span ulpdu, bool hold);
bool play_read0(struct play *p);
bool play_vector(struct play *p, const struct script_line *l, bool hold);
void play_note_sent(struct play *p, const struct script_line *l, struct span ulpdu);

/* --- the responder --- */
bool play_tested(struct play *p, const struct script_line *l);
bool play_case(struct play *p, const struct script_line *l); /* once, before the first connection */
bool play_do(struct play *p, const struct script_line *l);
bool play_event(struct play *p, const struct script_line *l);
bool play_regions(struct play *p, const struct script_line *l);
bool play_ask(struct play *p, const char *text, char *answer, size_t room);
bool play_alive(struct play *p, const struct script_line *l);
/* What stands in p->in, in words. */
void play_describe(struct play *p, char *out, size_t room);
/* No message came: says what did instead. Returns false. */
bool play_instead(struct play *p, const struct script_line *l, enum play_got got, const char *what);

#endif
