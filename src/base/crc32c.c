/* SPDX-License-Identifier: MIT */
#include "base/crc32c.h"

#include <isa-l/crc.h>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>

/*
 * isa-l's AVX-512 form returns with the upper halves of the vector registers in use. Each SSE
 * instruction of ours after that costs a switch of the processor's state: 120 ns a sum were measured,
 * three times the sum of an FPDU at MTU 1500.
 */
__attribute__((target("avx"))) static void leave_avx(void)
{
    _mm256_zeroupper();
}

static void leave_vectors(void)
{
    if (__builtin_cpu_supports("avx")) {
        leave_avx();
    }
}
#else
static void leave_vectors(void)
{
}
#endif

uint32_t crc32c_add(uint32_t sum, const void *p, size_t n)
{
    /* isa-l takes an int; one call never sees more than one FPDU here, but be exact for all. */
    const uint8_t *b = p;
    while (n > 0) {
        int part = n > 0x40000000 ? 0x40000000 : (int)n;
        sum = crc32_iscsi((unsigned char *)(uintptr_t)b, part, sum);
        b += part;
        n -= (size_t)part;
    }
    leave_vectors();
    return sum;
}
