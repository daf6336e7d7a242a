/* SPDX-License-Identifier: MIT */
/* The one ring: indexes of a fixed array between one producer and one consumer. The array is the
 * caller's; several producers (or consumers) take turns under a lock of the caller's. */
#ifndef UIW_BASE_RING_H
#define UIW_BASE_RING_H

#include <stdatomic.h>

#include "base/base.h"

struct ring {
    _Atomic uint32_t head; /* next to take */
    char apart[60];        /* producer and consumer each keep their own cache line */
    _Atomic uint32_t tail; /* next to fill */
    uint32_t cap;          /* a power of two */
};

/* The smallest capacity that holds n entries; n at most 2^31. */
static inline uint32_t ring_capacity(uint32_t n)
{
    uint32_t cap = 1;
    while (cap < n) {
        cap <<= 1;
    }
    return cap;
}

static inline void ring_init(struct ring *r, uint32_t cap)
{
    atomic_init(&r->head, 0);
    atomic_init(&r->tail, 0);
    r->cap = cap;
}

static inline uint32_t ring_slot(const struct ring *r, uint32_t index)
{
    return index & (r->cap - 1);
}

/* Producer: how many entries may be filled from its tail on. */
static inline uint32_t ring_room(struct ring *r)
{
    return r->cap - (atomic_load_explicit(&r->tail, memory_order_relaxed) -
                     atomic_load_explicit(&r->head, memory_order_acquire));
}

static inline uint32_t ring_tail(struct ring *r)
{
    return atomic_load_explicit(&r->tail, memory_order_relaxed);
}

/* Producer: n filled entries become visible. */
static inline void ring_push(struct ring *r, uint32_t n)
{
    atomic_store_explicit(&r->tail, ring_tail(r) + n, memory_order_release);
}

/* Consumer: how many entries wait from its head on. */
static inline uint32_t ring_count(struct ring *r)
{
    return atomic_load_explicit(&r->tail, memory_order_acquire) -
           atomic_load_explicit(&r->head, memory_order_relaxed);
}

static inline uint32_t ring_head(struct ring *r)
{
    return atomic_load_explicit(&r->head, memory_order_relaxed);
}

/* Consumer: gives n entries back. */
static inline void ring_pop(struct ring *r, uint32_t n)
{
    atomic_store_explicit(&r->head, ring_head(r) + n, memory_order_release);
}

#endif
