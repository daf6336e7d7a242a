/* SPDX-License-Identifier: MIT */
/* Plays one vector file as the peer of an implementation under test (docs/vectors.md). */
#ifndef UIW_CONFORM_PLAY_H
#define UIW_CONFORM_PLAY_H

#include <stdio.h>

#include "base/verdict.h"
#include "script.h"
#include "transport.h"

enum play_result {
    PLAY_PASS,
    PLAY_FAIL,
    PLAY_SOFT, /* only what the RFCs recommend was missed */
    PLAY_SKIP, /* cannot be driven from here */
};

/* Called for every piece before it is sent, with its offset among all octets of its stream. */
typedef void play_tap(void *arg, uint64_t at, uint8_t *p, uint32_t n);

struct play;

/* Where only a layer of the stack is tested: what is above it there is the caller's, who learns from the
 * file what it would do. It may ask the player for values (play_int.h), and fail the file. */
struct play_above {
    /* `>`: before that message, or end of TCP, is waited for. */
    void (*want)(void *arg, struct play *p, const struct script_line *l, const char *what);
    /* `<`: what is in the FPDU that is about to be sent. p NULL: it is none, on purpose. */
    void (*sent)(void *arg, struct play *p, const struct script_line *l, struct span ulpdu);
    /* `!`: false when that layer cannot tell. */
    bool (*sees)(void *arg, struct play *p, const struct script_line *l);
    void *arg;
};

struct play_cfg {
    struct transport *tr;
    const struct play_above *above; /* NULL: the whole stack is tested */
    bool responder;    /* the tested end speaks the responder's protocol (docs/vectors.md) */
    bool blind;        /* its events do not tell why a connection ended, nor what was solicited */
    bool listens;      /* without it: the tested end connects to us by itself */
    unsigned limit_ms; /* how long an expectation waits, unless the file says otherwise */
    unsigned
        least_ms; /* shorter limits of a line mean this: a real clock goes on while nobody runs */
    unsigned pause_ms; /* between an accepting Reply and our first FPDU */
    unsigned gap_ms;   /* before each file */
    bool host_order;   /* take a Terminate whose control word is in host order for right */
    struct script **all;
    unsigned all_cnt; /* where octets of other vectors are looked up */
    FILE *trace;      /* every message, or NULL */
    play_tap *tap;
    void *tap_arg;
};

struct play_out {
    enum play_result result;
    unsigned line;   /* where */
    char why[1000];  /* of anything but PASS */
    char log[60000]; /* what the tested end's events were, as far as fetched */
    uint64_t ms;
    struct verdict term; /* of the last Terminate that came; ok: none did */
    bool closed;         /* TCP ended where something was awaited */
    bool mute;           /* a responder gave no answer: it may be of no more use */
    uint64_t octets;     /* that we sent on the longest stream */
};

void play_run(const struct play_cfg *cfg, const struct script *s, struct play_out *out);

enum { PLAY_HELLO = 300 };

enum play_peer {
    PLAY_PEER_NONE, /* takes no TCP connection, tried for limit_ms */
    PLAY_PEER_PLAIN,
    PLAY_PEER_RESPONDER, /* what it calls itself is in text */
};

/* What there is to be tested. */
enum play_peer play_probe(const struct play_cfg *cfg, char text[PLAY_HELLO]);

#endif
