/* SPDX-License-Identifier: MIT */
/* How many unused chunks are kept for the next stream that sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tcpip/net_txmem.h"

enum { STREAMS = 1000, FEW = 256 };

static struct net_chunks pool;
static struct net_txmem m[STREAMS];
static uint64_t sent;

static void send_one(struct net_txmem *s)
{
    assert_non_null(net_txmem_reserve(s, &pool, 100));
    net_txmem_commit(s, 100, ++sent);
}

/* Half of many streams send while the other half are done: none of their chunks goes back to the system. */
static void test_kept_while_in_use(void **state)
{
    (void)state;
    for (int i = 0; i < STREAMS; i++) {
        send_one(&m[i]);
    }
    for (int i = 0; i < STREAMS / 2; i++) {
        net_txmem_release(&m[i], &pool, sent, true);
    }
    assert_int_equal(pool.out, STREAMS / 2);
    assert_int_equal(pool.count, STREAMS / 2);
    for (int i = 0; i < STREAMS; i++) {
        send_one(&m[i % (STREAMS / 2)]);
    }
    assert_int_equal(pool.out + pool.count, STREAMS);
}

static void test_few_left(void **state)
{
    (void)state;
    for (int i = 0; i < STREAMS; i++) {
        net_txmem_drop(&m[i], &pool);
    }
    assert_int_equal(pool.out, 0);
    assert_in_range(pool.count, 1, FEW);
    assert_true(net_chunks_stock(&pool, FEW + 1));
    assert_int_equal(pool.count, FEW + 1);
    net_chunks_free(&pool);
    assert_int_equal(pool.count, 0);
}

int main(void)
{
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_while_in_use),
        cmocka_unit_test(test_few_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
