/* SPDX-License-Identifier: MIT */
/* Copying to where another processor reads next. */
#ifndef UIW_BASE_COPY_H
#define UIW_BASE_COPY_H

#include "base/base.h"

/* memcpy() into memory that another processor has read and has in its caches, as in a ring between two processes. What
 * is stored may become visible later than what is stored after it, until copy_across_done(). */
void copy_across(void *dst, const void *src, size_t n);

/* Comes before the store that tells the other processor of the copies. */
void copy_across_done(void);

/* What copy_across() does with much on the processors that gain by it; here for its test. */
void copy_past_caches(uint8_t *d, const uint8_t *s, size_t n);

#endif
