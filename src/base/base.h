/* SPDX-License-Identifier: MIT */
/* What every layer shares: byte order, spans of borrowed bytes, small arithmetic. No I/O. */
#ifndef UIW_BASE_BASE_H
#define UIW_BASE_BASE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ARRAY_LEN(a)                    (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Borrowed bytes: valid until the function that was given them returns. */
struct span {
    const uint8_t *p;
    uint32_t n;
};

/* Bytes to be written: a piece of a registered region. */
struct mspan {
    uint8_t *p;
    uint32_t n;
};

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Wire order is big-endian everywhere except for the MPA CRC field (RFC 5044 sec 4.4). One store for each: octet by octet,
 * gcc puts neighbouring fields together by dozens of shifts. */
static inline uint16_t get_be16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return be16toh(v);
}

static inline uint32_t get_be32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return be32toh(v);
}

static inline uint64_t get_be64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return be64toh(v);
}

static inline uint32_t get_le32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static inline void put_be16(uint8_t *p, uint32_t v)
{
    uint16_t wire = htobe16((uint16_t)v);
    memcpy(p, &wire, sizeof wire);
}

static inline void put_be32(uint8_t *p, uint32_t v)
{
    uint32_t wire = htobe32(v);
    memcpy(p, &wire, sizeof wire);
}

static inline void put_be64(uint8_t *p, uint64_t v)
{
    uint64_t wire = htobe64(v);
    memcpy(p, &wire, sizeof wire);
}

static inline void put_le32(uint8_t *p, uint32_t v)
{
    uint32_t wire = htole32(v);
    memcpy(p, &wire, sizeof wire);
}

#endif
