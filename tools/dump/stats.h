/* SPDX-License-Identifier: MIT */
/* What a summary is made of: counters, histograms and regions of fixed size. */
#ifndef UIW_DUMP_STATS_H
#define UIW_DUMP_STATS_H

#include "view.h"

enum {
    SIZE_BUCKETS = 34, /* 0, 1, 2..3, 4..7, and so on */
    LATENCY_BUCKETS = 64 * 64,
    REGIONS_MAX = 256,
};

struct op_stats {
    uint64_t messages, fpdus, bytes;
    uint64_t size[SIZE_BUCKETS];
    uint64_t sizeless; /* messages of SIZE_UNKNOWN */
};

/* One direction. */
struct half_stats {
    struct op_stats *op[OPCODES]; /* NULL: never seen */
    uint64_t segments, octets;    /* TCP segments with payload, and their octets */
    uint64_t retrans, overlap, out_of_order;
    uint64_t missing;   /* octets never captured */
    uint64_t cut;       /* octets cut off by the snaplen */
    uint64_t undecoded; /* octets in no FPDU and no set-up frame */
    uint64_t bad_sum;   /* segments left out for their checksum */
    uint64_t fpdus, markers, padded, pad_nonzero, crc[CRC_BAD + 1];
    uint64_t header_lost; /* FPDUs whose header was not captured */
};

struct region {
    uint32_t stag;
    unsigned dir;       /* who asked or wrote */
    bool written;       /* else read from */
    uint64_t low, high; /* [low, high) */
    uint64_t messages, bytes;
};

struct latency {
    uint64_t count, min, max, sum;
    uint32_t bucket[LATENCY_BUCKETS];
};

struct conn_stats {
    struct latency *read[DIRS]; /* by who asked; NULL: none */
    struct region *region;
    uint32_t regions, region_cap;
    uint64_t regions_lost;
};

void stats_fpdu(struct half_stats *st, unsigned opcode, uint32_t bytes);
void stats_message(struct half_stats *st, unsigned opcode, uint64_t size);
/* Bucket 0 holds 0, bucket i sizes of i bits. */
unsigned stats_size_bucket(uint64_t size);
void stats_latency(struct conn_stats *cs, unsigned dir, uint64_t ns);
/* The latency below which a share (0..1) of all lie, within 2 per cent. */
uint64_t stats_percentile(const struct latency *l, double share);
void stats_region(struct conn_stats *cs, const struct region *add);
void stats_free(struct half_stats *st);
void conn_stats_free(struct conn_stats *cs);

#endif
