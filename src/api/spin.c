/* SPDX-License-Identifier: MIT */
#include "api/spin.h"

enum {
    WINDOW_SHIFT = 13, /* 8.2 ms: a scheduler's tick or two */
    FEW = 4,           /* spins in a window that prove nothing */
    LEVEL_MIN = 3,     /* one window of 8, then of 16, 32 and */
    LEVEL_MAX = 6,
};

static void judge(struct spinning *s)
{
    unsigned won = atomic_exchange_explicit(&s->won, 0, memory_order_relaxed);
    unsigned lost = atomic_exchange_explicit(&s->lost, 0, memory_order_relaxed);
    unsigned level = atomic_load_explicit(&s->level, memory_order_relaxed);
    if (won + lost < FEW) {
        return;
    }
    unsigned less = level == 0 ? LEVEL_MIN : level < LEVEL_MAX ? level + 1 : level;
    atomic_store_explicit(&s->level, won >= lost ? 0 : less, memory_order_relaxed);
}

bool spin_pays(struct spinning *s, uint64_t now_us)
{
    unsigned window = (unsigned)(now_us >> WINDOW_SHIFT);
    if (atomic_load_explicit(&s->window, memory_order_relaxed) != window) {
        atomic_store_explicit(&s->window, window, memory_order_relaxed);
        judge(s);
    }
    unsigned level = atomic_load_explicit(&s->level, memory_order_relaxed);
    return level == 0 || window % (1u << level) == 0;
}
