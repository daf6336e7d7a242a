/* SPDX-License-Identifier: MIT */
/* Events on their way to the outputs. They go straight through, unless some direction may yet tell of
 * frames that are older (octets behind a hole, or in a search), or it is not decided yet whether the
 * filter takes them: then they wait, and go in the order of their frames. */
#ifndef UIW_DUMP_EVENTS_H
#define UIW_DUMP_EVENTS_H

#include "base/list.h"

#include "view.h"

enum { EVENTS_MAX = 16384, EVENTS_BYTES = 32 << 20, CONTEXT_MAX = 8 };

struct dump;
struct conn;
struct event;

struct events {
    struct event **heap; /* the oldest frame first */
    uint32_t n, cap;
    uint64_t bytes, seq;
    uint64_t told;  /* the highest frame that was told of */
    uint32_t holds; /* directions that may yet tell of older frames */
    uint64_t late;  /* messages that came behind younger ones all the same */
};

/* What is told of a connection only when something else of it is shown. */
struct context {
    struct event *v[CONTEXT_MAX];
    uint32_t n;
    bool released;
};

/* A direction begins, or stops, to hold others up. */
void events_hold(struct dump *d, bool begin);
/* Lets go what need not wait any longer. */
void events_drain(struct dump *d);
/* Lets go everything. */
void events_flush(struct dump *d);
/* The fate of what waits on the list, which is empty then. */
void events_decide(struct dump *d, struct list *waiting, bool show);
/* What waits on the list belongs to no message: each is judged alone. */
void events_settle(struct dump *d, struct list *waiting);
/* The connection's last event; frees the connection by flow_free() when it was told. */
void events_close(struct dump *d, struct conn *c);

#endif
