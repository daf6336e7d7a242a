/* SPDX-License-Identifier: MIT */
/* Whether it pays to turn the loop for a while before sleeping. When both ends of a connection are awake on
 * processors of their own, answers come sooner than a sleeper wakes up. When they share one, a spinner only
 * keeps the other from answering. So it is tried, given up after some losses in a row, and tried again for
 * longer from time to time: an end that sleeps has to wake up before the other can see that spinning would
 * pay. */
#ifndef UIW_API_SPIN_H
#define UIW_API_SPIN_H

#include <stdatomic.h>

/* Counted without a lock: being exact gains nothing. */
struct spinning {
    atomic_uint lost;     /* times in a row */
    atomic_uint back_off; /* how many waits are to go by without, after a loss; 0: none */
    atomic_uint skip;     /* how many of these are left */
};

/* For counters that need not be exact when several threads count. */
static inline void count_up(atomic_uint *n)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* How long to spin in the wait that begins now, given what a first try may take. Each spin ends in
 * spin_won() or spin_lost(). */
unsigned spin_time(struct spinning *s, unsigned us);
void spin_won(struct spinning *s);
void spin_lost(struct spinning *s);

#endif
