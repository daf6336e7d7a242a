/* SPDX-License-Identifier: MIT */
#include "base/crc32c.h"

#include <isa-l/crc.h>

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
    return sum;
}
