/* SPDX-License-Identifier: MIT */
#include "base/copy.h"

#if defined(__x86_64__)
#include <emmintrin.h>

enum {
    LINE = 64,
    MUCH = 8192, /* octets; who waits for less has them sooner by way of the caches */
};

/*
 * A line that another processor holds has to be taken from it before it can be written, which a core of AMD's
 * does at 1.5 to 8 GB/s, by how far the two are apart. Stores that pass the caches take it from nobody:
 * 15 GB/s, near or far. On Intel's they were the slower ones (docs/performance.md).
 */
static bool is_better_past_caches(void)
{
    return __builtin_cpu_is("amd") != 0;
}

static void store_line(uint8_t *d, const uint8_t *s)
{
    __m128i v[LINE / sizeof(__m128i)];
    for (size_t i = 0; i < ARRAY_LEN(v); i++) {
        v[i] = _mm_loadu_si128((const __m128i *)(const void *)s + i);
    }
    for (size_t i = 0; i < ARRAY_LEN(v); i++) {
        _mm_stream_si128((__m128i *)(void *)d + i, v[i]);
    }
}

void copy_past_caches(uint8_t *d, const uint8_t *s, size_t n)
{
    size_t lead = (size_t)(-(uintptr_t)d % LINE);
    if (n < lead + LINE) {
        memcpy(d, s, n);
        return;
    }
    memcpy(d, s, lead);
    for (d += lead, s += lead, n -= lead; n >= LINE; d += LINE, s += LINE, n -= LINE) {
        store_line(d, s);
    }
    _mm_sfence(); /* such stores keep no order by themselves */
    memcpy(d, s, n);
}

void copy_across(void *dst, const void *src, size_t n)
{
    if (n >= MUCH && is_better_past_caches()) {
        copy_past_caches(dst, src, n);
    } else {
        memcpy(dst, src, n);
    }
}
#else
void copy_past_caches(uint8_t *d, const uint8_t *s, size_t n)
{
    memcpy(d, s, n);
}

void copy_across(void *dst, const void *src, size_t n)
{
    memcpy(dst, src, n);
}
#endif
