/* SPDX-License-Identifier: MIT */
/* CRC-32C as RFC 5044 sec 4.4 uses it, by isa-l. */
#ifndef UIW_BASE_CRC32C_H
#define UIW_BASE_CRC32C_H

#include "base/base.h"

#define CRC32C_INIT 0xffffffffu

/* Adds n bytes to a running sum that began with CRC32C_INIT. */
uint32_t crc32c_add(uint32_t sum, const void *p, size_t n);

/* The value to send, in its wire form when written with put_le32(). */
static inline uint32_t crc32c_final(uint32_t sum)
{
    return ~sum;
}

#endif
