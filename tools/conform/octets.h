/* SPDX-License-Identifier: MIT */
/* Octets as vector files write them: hex digits in groups of any size, zero:N, pattern:N, pattern:N@K
 * (octet i of a pattern is 7i+3), "text". */
#ifndef UIW_CONFORM_OCTETS_H
#define UIW_CONFORM_OCTETS_H

#include "base/base.h"
#include "base/verdict.h"

/* One group without quotes; returns how many octets, or -1 when it makes no sense or is above max. */
int64_t octets_group(const char *s, uint8_t *out, uint32_t max);

/* The number, decimal or 0x, that begins there; returns what is behind it. NULL: none does, or it has more
 * than 64 bits. */
const char *octets_number(const char *at, uint64_t *out);
/* Whether the text is a number and nothing else, and not above max. */
bool octets_is_number(const char *text, uint64_t max, uint64_t *out);
/* LAYER/TYPE/CODE, the code in hex. */
bool octets_verdict(const char *text, struct verdict *v);

/* Octet i of the pattern. */
static inline uint8_t octets_pattern(uint64_t i)
{
    return (uint8_t)(7 * i + 3);
}

/* Hex of the first octets of p, in groups of four; room is the size of out. */
void octets_show(const uint8_t *p, uint32_t n, char *out, size_t room);

#endif
