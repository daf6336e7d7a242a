/* SPDX-License-Identifier: MIT */
/* CUBIC: the windows that RFC 9438 computes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tcpip/tcp_cubic.h"

enum { MSS = 1000, RTT = 100 * 1000 };

/* Round trips in which a whole window is acknowledged; returns the time after them. */
static uint64_t rounds(struct tcp_cubic *c, uint32_t cnt, uint64_t now, uint32_t rtt)
{
    for (uint32_t i = 0; i < cnt; i++) {
        uint32_t left = c->cwnd;
        now += rtt;
        while (left > 0) {
            uint32_t n = min_u32(left, 2 * MSS);
            cubic_acked(c, n, now, rtt, true);
            left -= n;
        }
    }
    return now;
}

static struct tcp_cubic after_loss_at(uint32_t cwnd)
{
    struct tcp_cubic c;
    cubic_init(&c, MSS);
    c.cwnd = cwnd;
    cubic_lost(&c);
    c.cwnd = c.ssthresh;
    return c;
}

/* RFC 5681 sec 3.1: an octet for each acknowledged. */
static void test_slow_start(void **state)
{
    (void)state;
    struct tcp_cubic c;
    cubic_init(&c, MSS);
    assert_int_equal(c.cwnd, 10 * MSS);
    rounds(&c, 3, 1, RTT);
    assert_int_equal(c.cwnd, 80 * MSS);
    c.ssthresh = 100 * MSS;
    cubic_acked(&c, 30 * MSS, 2, RTT, true);
    assert_in_range(c.cwnd, 100 * MSS, 110 * MSS);
}

/* Sec 4.6, 4.2: down to 0.7, and back at w_max after K = cbrt(w_max 0.3 / 0.4) seconds. */
static void test_cubic_region(void **state)
{
    (void)state;
    struct tcp_cubic c = after_loss_at(2000 * MSS);
    assert_int_equal(c.ssthresh, 1400 * MSS);
    uint64_t now = rounds(&c, 1, 1, RTT);
    assert_in_range((uint32_t)(c.k * 1000), 11400, 11500);
    now = rounds(&c, 55, now, RTT); /* half of K: an eighth of the gap is left */
    assert_in_range(c.cwnd, 1890 * MSS, 1950 * MSS);
    now = rounds(&c, 58, now, RTT);
    assert_in_range(c.cwnd, 1990 * MSS, 2010 * MSS);
    rounds(&c, 100, now, RTT); /* 10 s later: 0.4 x 10^3 more */
    assert_in_range(c.cwnd, 2300 * MSS, 2500 * MSS);
}

/* Sec 4.3: with small windows Reno grows faster, by 0.53 segments a round trip up to the old window and by
 * one beyond. */
static void test_reno_region(void **state)
{
    (void)state;
    struct tcp_cubic c = after_loss_at(20 * MSS);
    uint64_t now = rounds(&c, 6, 1, 10000);
    assert_in_range(c.cwnd, 16800, 17400);
    now = rounds(&c, 6, now, 10000);
    assert_in_range(c.cwnd, 19800, 20700);
    rounds(&c, 10, now, 10000);
    assert_in_range(c.cwnd, 28500, 31000);
}

/* Sec 4.7 */
static void test_fast_convergence(void **state)
{
    (void)state;
    struct tcp_cubic c = after_loss_at(100 * MSS);
    assert_in_range((uint32_t)c.w_max, 100 * MSS, 100 * MSS);
    cubic_lost(&c); /* at 70 already */
    assert_in_range((uint32_t)c.w_max, 59400, 59600);
    assert_int_equal(c.ssthresh, 49 * MSS);
    for (int i = 0; i < 50; i++) {
        c.cwnd = c.ssthresh;
        cubic_lost(&c);
    }
    assert_int_equal(c.ssthresh, 2 * MSS);
}

static void test_undo(void **state)
{
    (void)state;
    struct tcp_cubic c;
    cubic_init(&c, MSS);
    c.cwnd = 300 * MSS;
    uint32_t ssthresh = c.ssthresh;
    cubic_lost(&c);
    c.cwnd = MSS;
    cubic_undo(&c);
    assert_int_equal(c.cwnd, 300 * MSS);
    assert_int_equal(c.ssthresh, ssthresh);
}

/* Sec 5.8: a sender that has nothing to say learns nothing, and time goes by without a jump after. */
static void test_not_limited(void **state)
{
    (void)state;
    struct tcp_cubic c = after_loss_at(100 * MSS);
    uint64_t now = rounds(&c, 3, 1, RTT);
    uint32_t cwnd = c.cwnd;
    for (int i = 0; i < 600; i++) {
        now += RTT;
        cubic_acked(&c, MSS, now, RTT, false);
    }
    assert_int_equal(c.cwnd, cwnd);
    rounds(&c, 1, now, RTT);
    assert_in_range(c.cwnd, cwnd, cwnd + 4 * MSS);
}

/* RFC 5681 sec 4.1 */
static void test_idle(void **state)
{
    (void)state;
    struct tcp_cubic c;
    cubic_init(&c, MSS);
    c.cwnd = 400 * MSS;
    cubic_idle(&c, 2 * RTT + 1, RTT);
    assert_int_equal(c.cwnd, 100 * MSS);
    cubic_idle(&c, UINT64_MAX, RTT);
    assert_int_equal(c.cwnd, 10 * MSS);
    assert_true(c.ssthresh >= 300 * MSS);
}

/* No sequence of calls makes the window 0, or wrap. */
static void test_bounds(void **state)
{
    (void)state;
    struct tcp_cubic c;
    cubic_init(&c, 65000);
    uint64_t now = 1;
    for (int i = 0; i < 20000; i++) {
        now += (uint64_t)i * 1000;
        cubic_acked(&c, UINT32_MAX / 4, now, i % 7 == 0 ? 0 : UINT32_MAX, true);
        assert_in_range(c.cwnd, 65000, 1 << 28);
        if (i % 1000 == 999) {
            cubic_lost(&c);
            c.cwnd = c.ssthresh;
        }
    }
}

int main(void)
{
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_start),  cmocka_unit_test(test_cubic_region),
        cmocka_unit_test(test_reno_region), cmocka_unit_test(test_fast_convergence),
        cmocka_unit_test(test_undo),        cmocka_unit_test(test_not_limited),
        cmocka_unit_test(test_idle),        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
