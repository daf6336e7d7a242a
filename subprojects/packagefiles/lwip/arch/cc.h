/* SPDX-License-Identifier: MIT
 * What lwIP asks of compiler and platform. Included by every lwIP file, so it
 * pulls in nothing but the byte order and the fixed-width types.
 */
#ifndef LWIP_ARCH_CC_H
#define LWIP_ARCH_CC_H

#include <endian.h>
#include <stdint.h>
#include <sys/types.h>

/* Implemented in src/tcpip. */
uint32_t uiw_lwip_rand(void);
void uiw_lwip_assert(const char *msg, const char *file, int line);
void *uiw_lwip_malloc(size_t n);
void *uiw_lwip_calloc(size_t count, size_t n);
void uiw_lwip_free(void *p);

/* ssize_t comes from sys/types.h; without this lwIP would pull in all of unistd.h. */
#define LWIP_NO_UNISTD_H 1

/* One instruction each instead of a call. */
#if BYTE_ORDER == LITTLE_ENDIAN
#define lwip_htons(x) __builtin_bswap16(x)
#define lwip_htonl(x) __builtin_bswap32(x)
#endif

/* lwIP prints only when its debug switches are on; ours stay off. */
#define LWIP_PLATFORM_DIAG(x) \
    do {                      \
    } while (0)

/* Some of lwIP's asserts can be reached from the wire, so a failed one is logged and execution
 * goes on: a process must not die because of a packet. */
#define LWIP_PLATFORM_ASSERT(x) uiw_lwip_assert((x), __FILE__, __LINE__)

#define LWIP_RAND() uiw_lwip_rand()

#endif
