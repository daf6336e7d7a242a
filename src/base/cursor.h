/* SPDX-License-Identifier: MIT */
/* The one way to read packet bytes: a cursor over a list of spans that never runs past their end. */
#ifndef UIW_BASE_CURSOR_H
#define UIW_BASE_CURSOR_H

#include "base/base.h"

struct cursor {
    const struct span *v; /* current span; borrowed, as are the bytes */
    uint32_t off;         /* offset in it */
    uint32_t left;        /* bytes left in all spans together */
};

/* Starts at the first byte of cnt spans. The sum of their lengths must fit 32 bits. */
static inline struct cursor cursor_of(const struct span *v, uint32_t cnt)
{
    struct cursor c = {v, 0, 0};
    for (uint32_t i = 0; i < cnt; i++) {
        c.left += v[i].n;
    }
    return c;
}

/* The longest run of contiguous bytes at the cursor, at most max; .n is 0 only when nothing is
 * left or max is 0. */
static inline struct span cursor_run(struct cursor *c, uint32_t max)
{
    if (c->left == 0 || max == 0) {
        return (struct span){NULL, 0};
    }
    while (c->off == c->v->n) {
        c->v++;
        c->off = 0;
    }
    uint32_t n = min_u32(min_u32(c->v->n - c->off, c->left), max);
    return (struct span){c->v->p + c->off, n};
}

/* Steps over n bytes that a run has just shown. */
static inline void cursor_step(struct cursor *c, uint32_t n)
{
    c->off += n;
    c->left -= n;
}

/* Skips n bytes; false, and nothing moved, when fewer are left. */
static inline bool cursor_skip(struct cursor *c, uint32_t n)
{
    if (n > c->left) {
        return false;
    }
    if (n > 0 && n <= c->v->n - c->off) { /* most often it lies in one span */
        cursor_step(c, n);
        return true;
    }
    while (n > 0) {
        struct span r = cursor_run(c, n);
        cursor_step(c, r.n);
        n -= r.n;
    }
    return true;
}

/* Copies n bytes out; false, and nothing moved, when fewer are left. */
static inline bool cursor_take(struct cursor *c, uint32_t n, void *dst)
{
    if (n > c->left) {
        return false;
    }
    if (n > 0 && n <= c->v->n - c->off) {
        memcpy(dst, c->v->p + c->off, n);
        cursor_step(c, n);
        return true;
    }
    uint8_t *d = dst;
    while (n > 0) {
        struct span r = cursor_run(c, n);
        memcpy(d, r.p, r.n);
        cursor_step(c, r.n);
        d += r.n;
        n -= r.n;
    }
    return true;
}

#endif
