/* SPDX-License-Identifier: MIT */
/* Whether it pays to turn the loop for a while before sleeping. When both ends of a connection are awake on
 * processors of their own, answers come sooner than a sleeper wakes up. When they share one, a spinner only
 * keeps the other from answering. So it is tried, given up when it is in vain, and tried again now and then:
 * for long enough that the scheduler may move one of them to an idle processor, and by a clock that all
 * processes share, since it only pays when both ends do it. */
#ifndef UIW_API_SPIN_H
#define UIW_API_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Counted without a lock: being exact gains nothing. */
struct spinning {
    atomic_uint window;    /* the time, in windows, that the counts are of */
    atomic_uint won, lost; /* spins */
    atomic_uint level;     /* 0: always; n: in each 2^n-th window */
};

/* For counters that need not be exact when several threads count. */
static inline void count_up(atomic_uint *n)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Whether to spin in the wait that begins now, at that time of the monotonic clock. Each spin ends in
 * spin_won() or spin_lost(). */
bool spin_pays(struct spinning *s, uint64_t now_us);

static inline void spin_won(struct spinning *s)
{
    count_up(&s->won);
}

static inline void spin_lost(struct spinning *s)
{
    count_up(&s->lost);
}

#endif
