/* SPDX-License-Identifier: MIT */
#include "stats.h"

#include <stdlib.h>

static struct op_stats *of_op(struct half_stats *st, unsigned opcode)
{
    struct op_stats **at = &st->op[opcode % OPCODES];
    if (*at == NULL) {
        *at = calloc(1, sizeof **at);
    }
    return *at;
}

void stats_fpdu(struct half_stats *st, unsigned opcode, uint32_t bytes)
{
    struct op_stats *o = of_op(st, opcode);
    if (o != NULL) {
        o->fpdus++;
        o->bytes += bytes;
    }
}

unsigned stats_size_bucket(uint64_t size)
{
    unsigned bits = size == 0 ? 0 : 64 - (unsigned)__builtin_clzll(size);
    return min_u32(bits, SIZE_BUCKETS - 1);
}

void stats_message(struct half_stats *st, unsigned opcode, uint64_t size)
{
    struct op_stats *o = of_op(st, opcode);
    if (o != NULL) {
        o->messages++;
        if (size == SIZE_UNKNOWN) {
            o->sizeless++;
        } else {
            o->size[stats_size_bucket(size)]++;
        }
    }
}

/* 64 buckets for each power of two. */
static unsigned latency_bucket(uint64_t ns)
{
    if (ns < 64) {
        return (unsigned)ns;
    }
    unsigned shift = 58 - (unsigned)__builtin_clzll(ns); /* 1 for 64..127 */
    unsigned b = shift * 64 + (unsigned)(ns >> (shift - 1)) % 64;
    return min_u32(b, LATENCY_BUCKETS - 1);
}

static uint64_t latency_floor(unsigned bucket)
{
    unsigned shift = bucket / 64;
    return shift == 0 ? bucket : (uint64_t)(64 + bucket % 64) << (shift - 1);
}

void stats_latency(struct conn_stats *cs, unsigned dir, uint64_t ns)
{
    if (cs == NULL) {
        return;
    }
    if (cs->read[dir] == NULL) {
        cs->read[dir] = calloc(1, sizeof *cs->read[dir]);
    }
    struct latency *l = cs->read[dir];
    if (l == NULL) {
        return;
    }
    l->min = l->count == 0 ? ns : min_u64(l->min, ns);
    l->max = l->count == 0 || ns > l->max ? ns : l->max;
    l->count++;
    l->sum += ns;
    l->bucket[latency_bucket(ns)]++;
}

uint64_t stats_percentile(const struct latency *l, double share)
{
    uint64_t rank = (uint64_t)(share * (double)l->count + 0.5);
    uint64_t seen = 0;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        seen += l->bucket[i];
        if (seen >= rank && seen > 0) {
            uint64_t v = latency_floor(i);
            return v < l->min ? l->min : min_u64(v, l->max);
        }
    }
    return l->max;
}

/* A region grows to hold what touches it; another access of the same STag joins it. */
void stats_region(struct conn_stats *cs, const struct region *add)
{
    if (cs == NULL) {
        return;
    }
    for (uint32_t i = 0; i < cs->regions; i++) {
        struct region *r = &cs->region[i];
        if (r->stag == add->stag && r->dir == add->dir && r->written == add->written) {
            r->low = min_u64(r->low, add->low);
            r->high = r->high > add->high ? r->high : add->high;
            r->messages += add->messages;
            r->bytes += add->bytes;
            return;
        }
    }
    if (cs->regions == cs->region_cap) {
        uint32_t cap = cs->region_cap == 0 ? 8 : cs->region_cap * 2;
        struct region *v = cap > REGIONS_MAX ? NULL : realloc(cs->region, cap * sizeof *v);
        if (v == NULL) {
            cs->regions_lost++;
            return;
        }
        cs->region = v;
        cs->region_cap = cap;
    }
    cs->region[cs->regions++] = *add;
}

void stats_free(struct half_stats *st)
{
    for (unsigned i = 0; i < OPCODES; i++) {
        free(st->op[i]);
        st->op[i] = NULL;
    }
}

void conn_stats_free(struct conn_stats *cs)
{
    if (cs != NULL) {
        free(cs->read[0]);
        free(cs->read[1]);
        free(cs->region);
        free(cs);
    }
}
