/* SPDX-License-Identifier: MIT */
/* See pages.h. */
#include "pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1; newer than some C libraries */
#endif

enum { SMALL = 4096, HUGE = 2 << 20, TRIES = 5 };

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

uint8_t *pages_make(uint64_t size, bool huge)
{
    uint64_t page = huge ? HUGE : SMALL, whole = (size + page - 1) / page * page;
    uint8_t *p = aligned_alloc(page, whole);

    if (p == NULL)
        return NULL;
    if (huge && collapse(p, whole) != 0) {
        int error = errno;

        free(p);
        errno = error;
        return NULL;
    }
    memset(p, 0, size);
    return p;
}
