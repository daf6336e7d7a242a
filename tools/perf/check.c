/* SPDX-License-Identifier: MIT */
/* The content of messages with --check: every message has its own, and every octet is compared. */
#include <string.h>

#include "session.h"

enum { POISON = 0xa5 };

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 29;
}

uint64_t check_seed(const struct link *l, bool from_server, uint64_t n)
{
    return mix(mix(n + 1) + l->index * 2 + (from_server ? 1 : 0));
}

static uint64_t word(uint64_t seed, uint64_t at)
{
    return (seed + at) * UINT64_C(0xff51afd7ed558ccd);
}

void check_fill(uint8_t *to, uint64_t length, uint64_t seed)
{
    uint64_t at = 0, w;

    for (; length - at >= 8; at += 8) {
        w = word(seed, at);
        memcpy(to + at, &w, 8);
    }
    w = word(seed, at);
    memcpy(to + at, &w, length - at);
}

bool check_same(const uint8_t *from, uint64_t length, uint64_t seed)
{
    uint64_t at = 0, w;

    for (; length - at >= 8; at += 8) {
        w = word(seed, at);
        if (memcmp(from + at, &w, 8) != 0)
            return false;
    }
    w = word(seed, at);
    return memcmp(from + at, &w, length - at) == 0;
}

/* Of what lies ready to be read in a slot, apart from all messages. */
static uint64_t source_seed(const struct link *l, bool of_server, uint32_t slot)
{
    return check_seed(l, of_server, UINT64_C(1) << 50 | slot);
}

void check_prepare(struct link *l)
{
    const struct perf_job *job = &l->s->job;
    uint64_t size = l->s->run.size;

    memset(l->in, 0, perf_area(job));
    memset(l->out, 0, perf_area(job));
    for (uint32_t i = 0; job->check && job->op == PERF_READ && i < l->w->slots; i++)
        check_fill(l->in + i * l->w->stride, size, source_seed(l, l->s->server, i));
}

void check_post(struct link *l, uint64_t n, uint32_t slot)
{
    const struct perf_job *job = &l->s->job;
    uint8_t *at = l->out + slot * l->w->stride;

    if (job->op == PERF_WRITE || job->op == PERF_SEND)
        check_fill(at, l->s->run.size, check_seed(l, l->s->server, n));
    else
        memset(at, POISON, l->s->run.size);
}

static bool retired_right(struct link *l, uint64_t n)
{
    uint32_t slot = (uint32_t)(n % l->w->slots);
    const uint8_t *at = l->out + slot * l->w->stride;
    uint64_t old;

    if (l->s->job.op == PERF_READ)
        return check_same(at, l->s->run.size, source_seed(l, !l->s->server, slot));
    /* Each Atomic finds what the one before has left. */
    memcpy(&old, at, sizeof old);
    return old == n;
}

void check_retired(struct link *l, uint64_t n)
{
    if (!retired_right(l, n))
        l->w->errors++;
}

void check_received(struct link *l, const uint8_t *from, uint32_t length)
{
    if (length != l->s->run.size ||
        !check_same(from, length, check_seed(l, !l->s->server, l->received)))
        l->w->errors++;
}

void check_read_back(struct link *l)
{
    for (uint64_t i = 0; i < l->posted - l->lap_begin; i++) {
        if (memcmp(l->out + i * l->w->stride, l->back + i * l->w->stride, l->s->run.size) != 0)
            l->w->errors++;
    }
}
