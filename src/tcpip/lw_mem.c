/* SPDX-License-Identifier: MIT */
/* Memory for lwIP: libc's, behind free lists. lwIP takes and returns two or three small pieces for each
 * segment, which is a tenth of what a short message costs. */
#include <stdlib.h>

#include "tcpip/lw.h"

enum {
    STEP = 64,
    CLASSES = 4, /* up to 256 octets: headers, pbufs and segments, but no connection */
    HELD = 1024, /* of each class at most; more go back to libc */
    NO_CLASS = CLASSES,
};

/* What is known of a piece, in front of it. */
union lw_mem_head {
    struct {
        union lw_mem_head *next; /* while it is free */
        uint32_t cls;
    };
    max_align_t align;
};

static struct {
    union lw_mem_head *free[CLASSES];
    uint32_t held[CLASSES];
} pool;

/* Sanitizers are to see what is freed as such. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static uint32_t class_of(size_t n)
{
    (void)n;
    return NO_CLASS;
}
#else
static uint32_t class_of(size_t n)
{
    return n > CLASSES * STEP ? NO_CLASS : n == 0 ? 0 : (uint32_t)((n - 1) / STEP);
}
#endif

void *uiw_lwip_malloc(size_t n)
{
    uint32_t cls = class_of(n);
    union lw_mem_head *h;
    if (cls != NO_CLASS && pool.free[cls] != NULL) {
        h = pool.free[cls];
        pool.free[cls] = h->next;
        pool.held[cls]--;
        return h + 1;
    }
    h = malloc(sizeof *h + (cls != NO_CLASS ? (cls + 1) * (size_t)STEP : n));
    if (h == NULL) {
        return NULL;
    }
    h->cls = cls;
    return h + 1;
}

void *uiw_lwip_calloc(size_t count, size_t n)
{
    if (n != 0 && count > SIZE_MAX / n) {
        return NULL;
    }
    void *p = uiw_lwip_malloc(count * n);
    return p != NULL ? memset(p, 0, count * n) : NULL;
}

void uiw_lwip_free(void *p)
{
    if (p == NULL) {
        return;
    }
    union lw_mem_head *h = (union lw_mem_head *)p - 1;
    if (h->cls == NO_CLASS || pool.held[h->cls] == HELD) {
        free(h);
        return;
    }
    h->next = pool.free[h->cls];
    pool.free[h->cls] = h;
    pool.held[h->cls]++;
}

void lw_mem_trim(void)
{
    for (uint32_t cls = 0; cls < CLASSES; cls++) {
        while (pool.free[cls] != NULL) {
            union lw_mem_head *h = pool.free[cls];
            pool.free[cls] = h->next;
            free(h);
        }
        pool.held[cls] = 0;
    }
}
