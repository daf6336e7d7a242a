/* SPDX-License-Identifier: MIT */
/* copy.h: both ways to copy leave what memcpy() does, and nothing beside it, however the two ends lie. */
#include "base/copy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROOM = 3 * 65536, SHIFTS = 67 };

static uint8_t *memory(uint8_t with)
{
    uint8_t *p = aligned_alloc(64, ROOM);
    assert_non_null(p);
    memset(p, with, ROOM);
    return p;
}

static void past_caches(void *dst, const void *src, size_t n)
{
    copy_past_caches(dst, src, n);
}

/* n octets to every place within a line and a little more. */
static void check(void (*copy)(void *, const void *, size_t), uint8_t *dst, const uint8_t *src,
                  size_t n)
{
    for (size_t to = 1; to <= SHIFTS; to++) {
        const uint8_t *from = src + to * 29 % SHIFTS;
        memset(dst, 0xee, to + n + 1);
        copy(dst + to, from, n);
        assert_memory_equal(dst + to, from, n);
        assert_int_equal(dst[to - 1], 0xee);
        assert_int_equal(dst[to + n], 0xee);
    }
}

static void copies(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,   1,   15,   63,   64,   65,   127,
                                   128, 191, 1460, 8191, 8192, 8193, 65487};
    uint8_t *src = memory(0), *dst = memory(0xee);
    for (uint32_t i = 0; i < ROOM; i++) {
        src[i] = (uint8_t)(i * 2654435761u >> 24);
    }
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        check(past_caches, dst, src, sizes[i]);
        check(copy_across, dst, src, sizes[i]);
    }
    free(src);
    free(dst);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies)};
    return cmocka_run_group_tests_name("base_copy", tests, NULL, NULL);
}
