/* SPDX-License-Identifier: MIT */
/* For the MPA tests: repeatable random numbers, and FPDUs made octet by octet in the plainest way,
 * sharing no code with what is tested. */
#ifndef UIW_TESTS_MPA_TESTING_H
#define UIW_TESTS_MPA_TESTING_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/cursor.h"
#include "base/verdict.h"

/* --- random numbers from a printed seed; UIW_SEED repeats a run --- */

static uint64_t rnd_state;

static inline uint64_t rnd(void)
{
    uint64_t z = (rnd_state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* lo..hi, both included. */
static inline uint32_t rnd_in(uint32_t lo, uint32_t hi)
{
    return lo + (uint32_t)(rnd() % ((uint64_t)hi - lo + 1));
}

static inline void rnd_fill(uint8_t *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        p[i] = (uint8_t)rnd();
    }
}

static inline void rnd_seed(void)
{
    const char *env = getenv("UIW_SEED");
    rnd_state =
        env != NULL ? strtoull(env, NULL, 0) : (uint64_t)time(NULL) << 20 ^ (uint64_t)clock();
    printf("UIW_SEED=%" PRIu64 "\n", rnd_state);
    fflush(stdout);
}

/* Most lengths that matter are short, but every one up to max comes. */
static inline uint32_t rnd_len(uint32_t max)
{
    uint32_t bits = rnd_in(0, 16);
    uint32_t n = rnd_in(1, 1u << bits);
    return min_u32(n, max);
}

/* --- CRC32c bit by bit, of the RFC's polynomial --- */

static inline uint32_t ref_crc_add(uint32_t sum, uint8_t octet)
{
    sum ^= octet;
    for (int i = 0; i < 8; i++) {
        sum = sum & 1 ? sum >> 1 ^ 0x82f63b78u : sum >> 1;
    }
    return sum;
}

/* --- a stream of FPDUs, octet by octet --- */

enum { REF_MARKERS_MAX = 132 };

struct ref {
    bool markers, crc;
    uint32_t pos; /* stream offset of the next octet */
    uint32_t hdr; /* of the current FPDU's length field */
    uint8_t *out;
    uint32_t n;   /* octets in out */
    uint32_t sum; /* CRC of the current FPDU */
    /* where this FPDU's Markers are in out */
    uint32_t marker_at[REF_MARKERS_MAX];
    uint32_t marker_cnt;
};

static inline void ref_raw(struct ref *r, uint8_t octet)
{
    r->out[r->n++] = octet;
    r->sum = ref_crc_add(r->sum, octet);
    r->pos++;
}

static inline void ref_marker(struct ref *r, uint32_t ptr)
{
    r->marker_at[r->marker_cnt++] = r->n;
    ref_raw(r, 0);
    ref_raw(r, 0);
    ref_raw(r, (uint8_t)(ptr >> 8));
    ref_raw(r, (uint8_t)ptr);
}

static inline void ref_octet(struct ref *r, uint8_t octet)
{
    if (r->markers && r->pos % 512 == 0) {
        ref_marker(r, r->pos - r->hdr);
    }
    ref_raw(r, octet);
}

/* The CRC over the octets from..n of out, written behind them; after a change, for instance. */
static inline void ref_seal(const struct ref *r, uint32_t from, uint32_t to)
{
    uint32_t sum = 0xffffffffu;
    for (uint32_t i = from; i < to; i++) {
        sum = ref_crc_add(sum, r->out[i]);
    }
    sum = ~sum;
    for (uint32_t i = 0; i < 4; i++) {
        r->out[to + i] = (uint8_t)(sum >> 8 * i);
    }
}

/* Appends one FPDU; returns its octets. pad is the value of the pad octets. */
static inline uint32_t ref_fpdu(struct ref *r, const uint8_t *ulpdu, uint32_t len, uint8_t pad)
{
    uint32_t first = r->n;
    r->marker_cnt = 0;
    r->sum = 0xffffffffu;
    if (r->markers && r->pos % 512 == 0) {
        ref_marker(r, 0);
    }
    r->hdr = r->pos;
    ref_octet(r, (uint8_t)(len >> 8));
    ref_octet(r, (uint8_t)len);
    for (uint32_t i = 0; i < len; i++) {
        ref_octet(r, ulpdu[i]);
    }
    for (uint32_t i = 2 + len; i % 4 != 0; i++) {
        ref_octet(r, pad);
    }
    if (r->markers && r->pos % 512 == 0) {
        ref_marker(r, r->pos - r->hdr);
    }
    uint32_t sum = ~r->sum;
    for (uint32_t i = 0; i < 4; i++) {
        ref_raw(r, (uint8_t)(r->crc ? sum >> 8 * i : 0));
    }
    return r->n - first;
}

/* The pattern that the byte vectors use. */
static inline void fill_pattern(uint8_t *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        p[i] = (uint8_t)(7 * i + 3);
    }
}

/* A cursor over one span, which the caller keeps. */
static inline struct cursor cursor_flat(struct span *s, const uint8_t *p, uint32_t n)
{
    *s = (struct span){p, n};
    return cursor_of(s, 1);
}

#endif
