/* SPDX-License-Identifier: MIT */
/* When a link that brings many small segments is left alone for a moment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tcpip/rest.h"

enum { EMSS = 1448 };

/* Segments of that many octets, a batch each 100 us, with a look at the empty link after each. How many looks led to a rest; *now goes on. */
static uint32_t stream(struct rest *r, uint64_t *now, uint32_t batches, uint32_t batch,
                       uint32_t octets)
{
    uint32_t rests = 0;
    for (uint32_t i = 0; i < batches; i++) {
        *now += 100;
        for (uint32_t k = 0; k < batch; k++) {
            rest_came(r, octets, EMSS);
        }
        rests += rest_time(r, *now) > 0;
    }
    return rests;
}

static void test_bulk(void **state)
{
    (void)state;
    struct rest r = {0};
    uint64_t now = 5000000;
    assert_int_equal(stream(&r, &now, 1000, 4, EMSS), 1000 - (REST_RUN / 4 - 1));
    assert_int_equal(rest_time(&r, now + 1), 0); /* none came while we rested */
    assert_int_equal(stream(&r, &now, 10, 4, EMSS), 10);
    now += REST_MEMORY_US + 1;
    assert_int_equal(stream(&r, &now, REST_RUN / 4 - 1, 4, EMSS), 0);
    assert_int_equal(stream(&r, &now, 1, 4, EMSS), 1);
}

/* One at a time: resting is tried, given up, and tried again after as many as at first. */
static void test_far_between(void **state)
{
    (void)state;
    struct rest r = {0};
    uint64_t now = 5000000;
    assert_int_equal(stream(&r, &now, REST_RUN + REST_POOR, 1, EMSS), REST_POOR);
    assert_int_equal(stream(&r, &now, REST_RUN - 1, 1, EMSS), 0);
    assert_int_equal(stream(&r, &now, 1, 2, EMSS), 1);
}

/* Requests and answers, of many segments each. */
static void test_answers(void **state)
{
    (void)state;
    struct rest r = {0};
    uint64_t now = 5000000;
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(stream(&r, &now, REST_RUN / 4 - 1, 4, EMSS), 0);
        rest_over(&r);
    }
}

/* Put together by somebody else, they come less often: a moment that is short, and one of them is enough. */
static void test_long(void **state)
{
    (void)state;
    struct rest r = {0};
    uint64_t now = 5000000;
    assert_int_equal(stream(&r, &now, 1000, 1, 44 * EMSS), 1000 - (REST_RUN - 1));
    assert_int_equal(rest_time(&r, now + 1), 0); /* none came while we rested */
    rest_came(&r, 44 * EMSS, EMSS);
    assert_int_equal(rest_time(&r, now + 2), REST_LONG_US);
    rest_came(&r, EMSS, EMSS);
    assert_int_equal(rest_time(&r, now + 3), REST_US);
    rest_over(&r);
    assert_int_equal(stream(&r, &now, REST_RUN - 1, 1, 44 * EMSS), 0);
}

/* Short ones end messages or are messages. */
static void test_other_sizes(void **state)
{
    (void)state;
    const uint32_t octets[] = {1, 64, EMSS / 2, EMSS + 1, REST_SEGMENT_MAX};
    for (unsigned i = 0; i < sizeof octets / sizeof octets[0]; i++) {
        struct rest r = {0};
        uint64_t now = 5000000;
        assert_int_equal(stream(&r, &now, 1000, 4, octets[i]), 0);
    }
    struct rest r = {0};
    rest_came(&r, 8948, 8948);
    assert_int_equal(r.run, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bulk),        cmocka_unit_test(test_far_between),
        cmocka_unit_test(test_answers),     cmocka_unit_test(test_long),
        cmocka_unit_test(test_other_sizes),
    };
    cmocka_set_test_filter(getenv("UIW_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
