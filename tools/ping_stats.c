/* SPDX-License-Identifier: MIT */
/* See ping_stats.h. */
#include "ping_stats.h"

enum { SUB_BITS = 6 };
_Static_assert(1 << SUB_BITS == PING_SUB, "PING_SUB is a power of two");

static unsigned bucket_of(uint64_t ns)
{
    unsigned shift = 0;

    while (ns >> shift >= 2 * PING_SUB)
        shift++;
    /* Times below 2 * PING_SUB have a bucket each; above, the top bit is implied by the shift. */
    return (unsigned)(ns >> shift) + shift * PING_SUB;
}

static uint64_t bucket_end(unsigned bucket)
{
    unsigned shift;

    if (bucket < 2 * PING_SUB)
        return bucket;
    shift = bucket / PING_SUB - 1;
    return (((uint64_t)bucket - shift * PING_SUB + 1) << shift) - 1;
}

void ping_stats_add(struct ping_stats *s, uint64_t ns)
{
    if (s->count == 0 || ns < s->min)
        s->min = ns;
    if (ns > s->max)
        s->max = ns;
    s->count++;
    s->sum += ns;
    s->buckets[bucket_of(ns)]++;
}

uint64_t ping_stats_percentile(const struct ping_stats *s, unsigned percent)
{
    uint64_t wanted = (s->count * percent + 99) / 100, seen = 0;

    for (unsigned b = 0; b < PING_BUCKETS; b++) {
        seen += s->buckets[b];
        if (seen >= wanted && seen > 0) {
            uint64_t ns = bucket_end(b);

            return ns > s->max ? s->max : ns;
        }
    }
    return 0;
}
