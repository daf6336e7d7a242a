/* SPDX-License-Identifier: MIT */
/* Copying to where another processor reads next. */
#ifndef UIW_BASE_COPY_H
#define UIW_BASE_COPY_H

#include "base/base.h"

/* memcpy() into memory that another processor has read and has in its caches, as in a ring between two processes. A
 * store with release order tells it of the copy, as of any other. */
void copy_across(void *dst, const void *src, size_t n);

/* What copy_across() does with much on the processors that gain by it; here for its test. */
void copy_past_caches(uint8_t *d, const uint8_t *s, size_t n);

#endif
