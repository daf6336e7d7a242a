/* SPDX-License-Identifier: MIT */
/* What the fuzzers share: taking an input apart, saying what does not hold, cutting octets into pieces. */
#ifndef UIW_TESTS_FUZZ_H
#define UIW_TESTS_FUZZ_H

#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/cursor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_MUST(cond)                                                              \
    do {                                                                             \
        if (!(cond)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #cond); \
            abort();                                                                 \
        }                                                                            \
    } while (0)

/* What is left of the input. Behind its end there are zeros. */
struct fuzz {
    const uint8_t *p;
    size_t n;
};

static inline uint8_t fuzz_u8(struct fuzz *f)
{
    if (f->n == 0) {
        return 0;
    }
    f->n--;
    return *f->p++;
}

static inline uint16_t fuzz_u16(struct fuzz *f)
{
    unsigned high = fuzz_u8(f);
    return (uint16_t)(high << 8 | fuzz_u8(f));
}

static inline uint32_t fuzz_u32(struct fuzz *f)
{
    uint32_t high = fuzz_u16(f);
    return high << 16 | fuzz_u16(f);
}

static inline uint64_t fuzz_u64(struct fuzz *f)
{
    uint64_t high = fuzz_u32(f);
    return high << 32 | fuzz_u32(f);
}

/* The next octets, at most max. */
static inline struct span fuzz_octets(struct fuzz *f, uint32_t max)
{
    struct span s = {f->p, (uint32_t)min_u64(f->n, max)};
    f->p += s.n;
    f->n -= s.n;
    return s;
}

/* The same numbers for the same seed. */
static inline uint32_t fuzz_random(uint32_t *state)
{
    uint32_t x = *state * 2654435761u + 0x9e3779b9u;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

/* FNV-1a, to compare what two runs did. */
static inline void fuzz_sum(uint64_t *sum, const void *p, size_t n)
{
    const uint8_t *o = p;
    for (size_t i = 0; i < n; i++) {
        *sum = (*sum ^ o[i]) * 0x100000001b3u;
    }
}

static inline void fuzz_sum_u64(uint64_t *sum, uint64_t v)
{
    fuzz_sum(sum, &v, sizeof v);
}

/* Octets in pieces, each in a heap block of its own size, so that a step past an end is seen. */
enum { FUZZ_PIECES = 400 };

struct fuzz_pieces {
    struct span v[FUZZ_PIECES];
    uint32_t cnt;
};

static inline struct span fuzz_copy(const uint8_t *p, uint32_t n)
{
    uint8_t *copy = malloc(n > 0 ? n : 1);
    FUZZ_MUST(copy != NULL);
    if (n > 0) {
        memcpy(copy, p, n);
    }
    return (struct span){copy, n};
}

/* Seed 0: one piece. Else lengths by the seed, at least so long that there are never more pieces. */
static inline void fuzz_cut(struct fuzz_pieces *c, const uint8_t *p, uint32_t n, uint32_t seed)
{
    uint32_t least = n / (FUZZ_PIECES - 1) + 1;
    uint32_t spread = 1u << seed % 12;
    c->cnt = 0;
    for (uint32_t at = 0; at < n;) {
        uint32_t k = seed == 0 ? n : least + fuzz_random(&seed) % spread;
        k = min_u32(k, n - at);
        c->v[c->cnt++] = fuzz_copy(p + at, k);
        at += k;
    }
}

static inline void fuzz_pieces_free(struct fuzz_pieces *c)
{
    for (uint32_t i = 0; i < c->cnt; i++) {
        free((void *)(uintptr_t)c->v[i].p);
    }
    c->cnt = 0;
}

/* The octets from the from-th on of the first cnt pieces, as spans. Returns how many spans. */
static inline uint32_t fuzz_view(const struct fuzz_pieces *c, uint32_t cnt, uint32_t from,
                                 struct span out[FUZZ_PIECES])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < cnt; i++) {
        uint32_t skip = min_u32(from, c->v[i].n);
        from -= skip;
        if (c->v[i].n > skip) {
            out[n++] = (struct span){c->v[i].p + skip, c->v[i].n - skip};
        }
    }
    return n;
}

#endif
