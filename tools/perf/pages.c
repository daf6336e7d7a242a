/* SPDX-License-Identifier: MIT */
/* See pages.h. */
#include "pages.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; newer than some C libraries */
#endif

enum { HUGE = 2 << 20, TRIES = 5 };

static uint64_t whole(uint64_t size)
{
    return (size + HUGE - 1) / HUGE * HUGE;
}

/* Whatever the host's setting of transparent huge pages is: MADV_HUGEPAGE does nothing where that is "never".
 * There must be an octet in each page to begin with. */
static int collapse(uint8_t *p, uint64_t size)
{
    int r = -1;

    for (uint64_t at = 0; at < size; at += HUGE)
        p[at] = 0;
    for (int i = 0; i < TRIES && r != 0; i++) {
        r = madvise(p, size, MADV_COLLAPSE);
        if (r != 0 && errno != EAGAIN)
            break;
    }
    return r;
}

/* Where a huge page may begin: what is mapped too much in front and behind goes back. */
static uint8_t *map(uint64_t size)
{
    uint8_t *p =
        mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t front;

    if (p == MAP_FAILED)
        return NULL;
    front = whole((uintptr_t)p) - (uintptr_t)p;
    if (front > 0)
        munmap(p, front);
    if (front < HUGE)
        munmap(p + front + size, HUGE - front);
    return p + front;
}

uint8_t *pages_make(uint64_t size, bool huge)
{
    uint8_t *p = map(whole(size));

    if (p == NULL)
        return NULL;
    if (!huge)
        madvise(p, whole(size), MADV_NOHUGEPAGE); /* fails where there are none anyway */
    if (huge && collapse(p, whole(size)) != 0) {
        int error = errno;

        pages_free(p, size);
        errno = error;
        return NULL;
    }
    memset(p, 0, size);
    return p;
}

void pages_free(uint8_t *p, uint64_t size)
{
    if (p != NULL)
        munmap(p, whole(size));
}
