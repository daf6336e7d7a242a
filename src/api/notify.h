/* SPDX-License-Identifier: MIT */
/* A queue of events behind a descriptor that programs can poll: one token in the descriptor for each
 * event. A program that waits in notify_get() turns the loop meanwhile, which saves it the detour by
 * the progress thread; it sleeps with no lock held. */
#ifndef UIW_API_NOTIFY_H
#define UIW_API_NOTIFY_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"

struct loop;

enum { NOTIFY_DRIVEN = 8 };

struct notify {
    pthread_mutex_t lock;
    struct list events;
    int fd; /* eventfd, a semaphore */
    atomic_uint
        driven; /* not 0: who waits here does it in notify_get(), not in a poll() of his own */
    struct loop *loop;
};

/* 0 or negative errno with text. */
int notify_init(struct notify *n, struct loop *loop);
void notify_fini(struct notify *n); /* the events left are the owner's */

/* Queues a node; one that is queued already stays where it is, and *false* comes back. */
bool notify_raise(struct notify *n, struct list *node);

/* Takes a node back that nobody has fetched yet; true when it was queued. */
bool notify_drop(struct notify *n, struct list *node);

/* Takes back the first unfetched node that match says yes to; NULL when there is none. */
struct list *notify_drop_if(struct notify *n,
                            bool (*match)(const struct list *node, const void *key),
                            const void *key);

/* Waits for the next node as the descriptor's O_NONBLOCK flag says: 0 with *node, or a negative
 * errno. */
int notify_get(struct notify *n, struct list **node);

#endif
