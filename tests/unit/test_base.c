/* SPDX-License-Identifier: MIT */
/* base.h and cursor.h: byte order, arithmetic, and a cursor that never runs past its spans. */
#include "base/cursor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void big_endian(void **state)
{
    (void)state;
    uint8_t b[9] = {0};
    put_be16(b, 0x0102);
    assert_memory_equal(b, "\x01\x02\x00", 3);
    assert_int_equal(get_be16(b), 0x0102);
    put_be16(b, 0xffff);
    assert_int_equal(get_be16(b), 0xffff);
    put_be32(b, 0x81020304);
    assert_memory_equal(b, "\x81\x02\x03\x04\x00", 5);
    assert_true(get_be32(b) == 0x81020304);
    put_be64(b, 0x8102030405060788u);
    assert_memory_equal(b, "\x81\x02\x03\x04\x05\x06\x07\x88\x00", 9);
    assert_true(get_be64(b) == 0x8102030405060788u);
    put_be64(b, UINT64_MAX);
    assert_true(get_be64(b) == UINT64_MAX);
}

static void little_endian(void **state)
{
    (void)state;
    uint8_t b[5] = {0};
    put_le32(b, 0x81020304);
    assert_memory_equal(b, "\x04\x03\x02\x81\x00", 5);
    assert_true(get_le32(b) == 0x81020304);
    /* at odd addresses as well */
    put_le32(b + 1, 0xa0b0c0d0);
    assert_true(get_le32(b + 1) == 0xa0b0c0d0);
    assert_true(get_be32(b + 1) == 0xd0c0b0a0);
}

static void arithmetic(void **state)
{
    (void)state;
    assert_true(min_u32(1, UINT32_MAX) == 1 && min_u32(UINT32_MAX, 1) == 1);
    assert_true(max_u32(1, UINT32_MAX) == UINT32_MAX && max_u32(UINT32_MAX, 1) == UINT32_MAX);
    assert_true(min_u64(1, UINT64_MAX) == 1 && min_u64(UINT64_MAX, 1) == 1);
    struct outer {
        int a;
        struct span inner;
    } o;
    assert_ptr_equal(CONTAINER_OF(&o.inner, struct outer, inner), &o);
    int many[7];
    assert_int_equal(ARRAY_LEN(many), 7);
}

static const uint8_t text[] = "abcdefghij";

/* Ten octets in spans of which some are empty. */
static struct cursor ten(struct span v[7])
{
    v[0] = (struct span){NULL, 0};
    v[1] = (struct span){text, 3};
    v[2] = (struct span){text, 0};
    v[3] = (struct span){NULL, 0};
    v[4] = (struct span){text + 3, 1};
    v[5] = (struct span){text + 4, 6};
    v[6] = (struct span){NULL, 0};
    return cursor_of(v, 7);
}

static void cursor_takes_all(void **state)
{
    (void)state;
    for (uint32_t a = 0; a <= 10; a++) {
        for (uint32_t b = 0; a + b <= 10; b++) {
            struct span v[7];
            struct cursor c = ten(v);
            uint8_t got[11] = {0};
            assert_int_equal(c.left, 10);
            assert_true(cursor_skip(&c, a));
            assert_true(cursor_take(&c, b, got));
            assert_memory_equal(got, text + a, b);
            assert_int_equal(got[b], 0);
            assert_int_equal(c.left, 10 - a - b);
        }
    }
}

static void cursor_never_overruns(void **state)
{
    (void)state;
    volatile uint32_t all = UINT32_MAX; /* else gcc warns of the copy that is not made */
    for (uint32_t a = 0; a <= 10; a++) {
        struct span v[7];
        struct cursor c = ten(v);
        uint8_t got[16];
        assert_true(cursor_skip(&c, a));
        struct cursor before = c;
        assert_false(cursor_skip(&c, 11 - a));
        assert_false(cursor_take(&c, 11 - a, got));
        assert_false(cursor_skip(&c, UINT32_MAX));
        assert_false(cursor_take(&c, all, got));
        assert_memory_equal(&c, &before, sizeof c);
    }
    struct cursor none = cursor_of(NULL, 0);
    assert_int_equal(none.left, 0);
    assert_true(cursor_skip(&none, 0));
    assert_false(cursor_skip(&none, 1));
    assert_int_equal(cursor_run(&none, 5).n, 0);
}

static void cursor_runs(void **state)
{
    (void)state;
    for (uint32_t max = 1; max <= 12; max++) {
        struct span v[7];
        struct cursor c = ten(v);
        assert_int_equal(cursor_run(&c, 0).n, 0);
        uint32_t at = 0;
        struct span r;
        while ((r = cursor_run(&c, max)).n > 0) {
            assert_true(r.n <= max && r.n <= 10 - at);
            assert_ptr_equal(r.p, text + at);
            cursor_step(&c, r.n);
            at += r.n;
            assert_int_equal(c.left, 10 - at);
        }
        assert_int_equal(at, 10);
        assert_int_equal(cursor_run(&c, max).n, 0);
    }
}

/* A cursor may be bounded to less than its spans hold. */
static void cursor_bounded(void **state)
{
    (void)state;
    struct span v[7];
    struct cursor c = ten(v);
    c.left = 5;
    uint8_t got[8] = {0};
    assert_false(cursor_take(&c, 6, got));
    assert_true(cursor_skip(&c, 4));
    assert_int_equal(cursor_run(&c, 100).n, 1);
    assert_true(cursor_take(&c, 1, got));
    assert_int_equal(got[0], 'e');
    assert_int_equal(cursor_run(&c, 100).n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(big_endian),
        cmocka_unit_test(little_endian),
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(cursor_takes_all),
        cmocka_unit_test(cursor_never_overruns),
        cmocka_unit_test(cursor_runs),
        cmocka_unit_test(cursor_bounded),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
