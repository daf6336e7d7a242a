/* SPDX-License-Identifier: MIT */
/* Numbers that a peer cannot predict (OpenSSL): STags, ISNs, ports. */
#ifndef UIW_BASE_RANDOM_H
#define UIW_BASE_RANDOM_H

#include "base/base.h"

/* Fills n bytes. Aborts when the system has no entropy at all: nothing safe could follow. */
void random_bytes(void *dst, size_t n);

uint32_t random_u32(void);

/* SipHash-2-4 of n bytes under a key of this process, drawn at its first use (RFC 6528 for ISNs). */
uint64_t random_keyed_hash(const void *p, size_t n);

#endif
