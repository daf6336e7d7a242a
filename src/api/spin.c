/* SPDX-License-Identifier: MIT */
#include "api/spin.h"

#include <stdbool.h>

enum {
    LOSSES = 4,    /* in a row, before it is given up */
    SKIP_MIN = 16, /* waits without, then twice as many, up to */
    SKIP_MAX = 512,
    PROBE = 5, /* times as long, when it is tried again */
};

unsigned spin_time(struct spinning *s, unsigned us)
{
    unsigned skip = atomic_load_explicit(&s->skip, memory_order_relaxed);
    if (skip > 0) {
        atomic_store_explicit(&s->skip, skip - 1, memory_order_relaxed);
        return 0;
    }
    bool probe = atomic_load_explicit(&s->back_off, memory_order_relaxed) > 0;
    return probe ? us * PROBE : us;
}

void spin_won(struct spinning *s)
{
    atomic_store_explicit(&s->lost, 0, memory_order_relaxed);
    atomic_store_explicit(&s->back_off, 0, memory_order_relaxed);
}

void spin_lost(struct spinning *s)
{
    unsigned now = atomic_load_explicit(&s->back_off, memory_order_relaxed);
    count_up(&s->lost);
    if (now > 0 || atomic_load_explicit(&s->lost, memory_order_relaxed) >= LOSSES) {
        unsigned next = now == 0 ? SKIP_MIN : now < SKIP_MAX ? 2 * now : now;
        atomic_store_explicit(&s->back_off, next, memory_order_relaxed);
        atomic_store_explicit(&s->skip, next, memory_order_relaxed);
    }
}
