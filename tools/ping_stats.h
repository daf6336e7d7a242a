/* SPDX-License-Identifier: MIT */
/* Round-trip times in fixed memory, however many: exact least, mean and largest; percentiles from
 * buckets that are at most 1.6 percent wide. */
#ifndef UIW_TOOLS_PING_STATS_H
#define UIW_TOOLS_PING_STATS_H

#include <stdint.h>

/* A bucket is a power of two, cut into PING_SUB equal parts. */
enum { PING_SUB = 64, PING_BUCKETS = 60 * PING_SUB };

struct ping_stats {
    uint64_t count, sum, min, max; /* of nanoseconds */
    uint64_t buckets[PING_BUCKETS];
};

void ping_stats_add(struct ping_stats *s, uint64_t ns);

/* The time that `percent` of all did not exceed. 0 when there are none. */
uint64_t ping_stats_percentile(const struct ping_stats *s, unsigned percent);

#endif
