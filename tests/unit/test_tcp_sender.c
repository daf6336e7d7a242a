/* SPDX-License-Identifier: MIT */
/* The sender's decisions, one by one, in time that the tests make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tcpip/tcp_sender.h"

enum { MSS = 1000, RTT = 20000, RUNS = 200, AT = 0xffffe000 };

static struct sack_run runs[RUNS];
static struct sack_pool pool;
static struct tcp_sender s;
static uint64_t now;

static void begin(void)
{
    pool = (struct sack_pool){0};
    sack_pool_add(&pool, runs, RUNS);
    now = 1000000;
    sender_init(&s, &pool, AT, MSS, 300000);
}

/* Sequence numbers in segments from the beginning. */
static uint32_t seq(uint32_t segment)
{
    return AT + segment * MSS;
}

static void send_up_to(uint32_t segment)
{
    while (s.board.nxt != seq(segment)) {
        sender_sent(&s, s.board.nxt + MSS, now);
    }
    sender_pushed(&s, true);
}

static void acks(uint32_t segment, uint32_t from, uint32_t to)
{
    struct sack_ack a = {.ack = seq(segment), .n = from != to};
    a.block[0] = (struct sack_block){seq(from), seq(to)};
    sender_acked(&s, &a, now);
    sender_decide(&s, now);
}

static void ack(uint32_t segment)
{
    acks(segment, 0, 0);
}

/* Sends again what may be; returns the number of segments. */
static uint32_t resend(void)
{
    struct sack_block r;
    uint32_t n = 0;
    while (sender_room(&s) >= MSS && sender_next(&s, MSS, &r)) {
        sender_resent(&s, &r, now);
        n++;
    }
    return n;
}

/* A stream under way: segments 10 to 'to' are out, one round trip has been measured. */
static void under_way(uint32_t to)
{
    begin();
    send_up_to(10);
    now += RTT;
    ack(10);
    send_up_to(to);
}

static void test_rtt(void **state)
{
    (void)state;
    begin();
    assert_int_equal(s.rto, 300000);
    send_up_to(1);
    assert_int_equal(sender_due(&s), now + 300000);
    now += RTT;
    ack(1);
    assert_int_equal(s.srtt, RTT);
    assert_int_equal(s.board.min_rtt, RTT);
    assert_int_equal(s.rto, SENDER_RTO_MIN);
    assert_int_equal(sender_due(&s), UINT64_MAX);
    for (uint32_t i = 2; i < 40; i++) {
        send_up_to(i);
        now += 400000;
        ack(i);
    }
    assert_in_range(s.srtt, 390000, 400000);
    assert_in_range(s.rto, 400000, 700000);
}

/* Three segments that arrived behind a hole: RFC 6675's threshold, at once and without a timer. */
static void test_enters_recovery(void **state)
{
    (void)state;
    under_way(30);
    uint32_t before = s.cc.cwnd;
    now += RTT;
    acks(10, 11, 12);
    acks(10, 11, 13);
    assert_int_equal(s.state, SENDER_OPEN);
    assert_int_equal(s.board.lost, 0);
    acks(10, 11, 14);
    assert_int_equal(s.state, SENDER_RECOVERY);
    assert_int_equal(s.board.lost, MSS);
    assert_int_equal(s.cc.ssthresh, (uint32_t)(before * 0.7));
    assert_int_equal(resend(), 1);
    /* What arrives lets as much go as PRR's share (RFC 6937): 7 for 10. */
    uint32_t sent = 0;
    for (uint32_t i = 15; i <= 30; i++) {
        acks(10, 11, i);
        while (sender_room(&s) >= MSS) {
            sender_sent(&s, s.board.nxt + MSS, now);
            sent++;
        }
    }
    assert_in_range(sent, 9, 14);
    now += RTT;
    ack(30);
    assert_int_equal(s.state, SENDER_OPEN);
    assert_int_equal(s.cc.cwnd, s.cc.ssthresh);
}

/* Several holes of one window: one reduction, each hole sent once. */
static void test_many_losses(void **state)
{
    (void)state;
    under_way(30);
    now += RTT;
    acks(10, 11, 13);
    acks(10, 14, 16);
    acks(10, 17, 30);
    assert_int_equal(s.board.lost, 3 * MSS);
    uint32_t ssthresh = s.cc.ssthresh, n = resend();
    now += RTT;
    for (uint32_t k = 0; k < 3 && s.state != SENDER_OPEN; k++) {
        ack(k == 0 ? 13 : k == 1 ? 16 : 30);
        n += resend();
    }
    assert_int_equal(n, 3);
    assert_int_equal(s.state, SENDER_OPEN);
    assert_int_equal(s.cc.ssthresh, ssthresh);
}

/* A few segments late by less than a quarter of the round trip, once that is known: no loss. */
static void test_reordering(void **state)
{
    (void)state;
    under_way(30);
    now += RTT;
    acks(10, 11, 13);
    ack(13); /* the first one was only late */
    assert_true(s.board.reordered);
    now += 100;
    acks(13, 14, 20);
    assert_int_equal(s.board.lost, 0);
    assert_int_equal(s.state, SENDER_OPEN);
    assert_in_range(s.look_at, now + RTT / 4 - 200, now + RTT / 4);
    now = s.look_at;
    assert_false(sender_timer(&s, now));
    sender_decide(&s, now);
    assert_int_equal(s.board.lost, MSS);
    assert_int_equal(s.state, SENDER_RECOVERY);
}

/* RFC 3708 with RFC 9438 sec 4.9: all that was sent again had arrived before. */
static void test_undo_by_dsack(void **state)
{
    (void)state;
    under_way(30);
    uint32_t before = s.cc.cwnd;
    now += RTT;
    acks(10, 11, 20);
    assert_int_equal(resend(), 1);
    now += 100;
    ack(20); /* the first one */
    acks(20, 10, 11);
    assert_int_equal(s.state, SENDER_OPEN);
    assert_true(s.cc.cwnd >= before);
    assert_true(s.board.reordered);
}

/* RFC 8985 sec 7: the last segments of a stream are lost, and nothing arrives that would tell. */
static void test_tail(void **state)
{
    (void)state;
    under_way(20);
    now += RTT;
    ack(18);
    uint64_t due = sender_due(&s);
    assert_int_equal(due, now + (uint64_t)2 * s.srtt);
    now = due;
    assert_false(sender_timer(&s, now));
    assert_true(s.probe);
    struct sack_block r = sender_tail(&s);
    assert_int_equal(r.from, seq(19));
    assert_int_equal(r.to, seq(20));
    sender_resent(&s, &r, now);
    assert_false(s.probe);
    assert_int_equal(sender_due(&s), now + s.rto); /* no second probe */
    uint32_t before = s.cc.cwnd;
    now += RTT;
    acks(18, 19, 20);
    /* One segment is less than three, but nothing was reordered here: after a short while. */
    now = s.look_at;
    sender_timer(&s, now);
    sender_decide(&s, now);
    assert_int_equal(s.state, SENDER_RECOVERY);
    assert_int_equal(resend(), 1);
    now += RTT;
    ack(20);
    assert_int_equal(s.state, SENDER_OPEN);
    assert_true(s.cc.cwnd < before);
}

/* The probe itself was what was missing: that is found when more is acknowledged. */
static void test_probe_mends(void **state)
{
    (void)state;
    under_way(20);
    now += RTT;
    ack(19);
    now = sender_due(&s);
    sender_timer(&s, now);
    struct sack_block r = sender_tail(&s);
    sender_resent(&s, &r, now);
    now += RTT;
    uint32_t before = s.cc.cwnd;
    ack(20);
    assert_true(s.cc.cwnd >= before);
    send_up_to(21);
    now += RTT;
    ack(21);
    assert_true(s.cc.cwnd < before);
}

/* It was not missing: a second acknowledgement of the same says so (RFC 8985 sec 7.4.2). */
static void test_probe_in_vain(void **state)
{
    (void)state;
    under_way(20);
    now += RTT;
    ack(19);
    now = sender_due(&s);
    sender_timer(&s, now);
    struct sack_block r = sender_tail(&s);
    sender_resent(&s, &r, now);
    uint32_t before = s.cc.cwnd;
    ack(20);
    ack(20);
    send_up_to(21);
    now += RTT;
    ack(21);
    assert_true(s.cc.cwnd >= before);
}

static uint64_t run_out(void)
{
    for (;;) {
        now = sender_due(&s);
        if (sender_timer(&s, now)) {
            return now;
        }
        sender_decide(&s, now);
        if (s.probe) {
            struct sack_block r = sender_tail(&s);
            sender_resent(&s, &r, now);
        }
        resend();
    }
}

/* RFC 6298 sec 5: the timer doubles, one segment goes, and slow start follows. */
static void test_timeout(void **state)
{
    (void)state;
    under_way(30);
    uint32_t before = s.cc.cwnd;
    uint64_t first = run_out();
    assert_int_equal(s.state, SENDER_TIMEOUT);
    assert_int_equal(s.board.lost, 20 * MSS);
    assert_int_equal(resend(), 1);
    uint64_t second = run_out();
    assert_int_equal(resend(), 1);
    uint64_t third = run_out();
    assert_int_equal(third - second, 2 * (second - first));
    assert_int_equal(s.cc.ssthresh, (uint32_t)(before * 0.7)); /* once */
    assert_int_equal(resend(), 1);
    now += RTT;
    ack(11);
    assert_int_equal(s.backoff, 0);
    assert_int_equal(resend(), 2);
    now += RTT;
    ack(13);
    assert_int_equal(resend(), 4);
    now += RTT;
    ack(17);
    assert_int_equal(resend(), 8);
    now += RTT;
    ack(30);
    assert_int_equal(s.state, SENDER_OPEN);
    assert_int_equal(s.board.lost, 0);
}

/* The way is free again after a long time: no need to wait for a timer that has doubled. */
static void test_expire(void **state)
{
    (void)state;
    under_way(30);
    for (int i = 0; i < 6; i++) {
        run_out();
        resend();
    }
    assert_true(sender_due(&s) > now + 5000000);
    sender_expire(&s);
    assert_true(sender_due(&s) <= now);
    assert_true(sender_timer(&s, now));
    sender_set_mss(&s, 3 * MSS);
    assert_true(sender_room(&s) >= MSS);
    ack(30);
    sender_expire(&s);
    assert_int_equal(sender_due(&s), UINT64_MAX);
}

/* RFC 5682: the peer was only slow, and gets nothing twice but the first. */
static void test_timeout_in_vain(void **state)
{
    (void)state;
    under_way(30);
    uint32_t before = s.cc.cwnd;
    run_out();
    assert_int_equal(resend(), 1);
    now += 1000;
    ack(13); /* as sent at first: no more than one went again */
    assert_int_equal(s.state, SENDER_OPEN);
    assert_int_equal(s.board.lost, 0);
    assert_true(s.cc.cwnd >= before);
    assert_int_equal(resend(), 0);
}

/* What is sent again meets an empty path: its answer comes sooner than any before, and is one all the same. */
static void test_timeout_on_empty_path(void **state)
{
    (void)state;
    under_way(30);
    run_out();
    assert_int_equal(resend(), 1);
    now += s.board.min_rtt / 10;
    ack(11);
    assert_int_equal(s.state, SENDER_TIMEOUT);
    assert_int_equal(s.board.lost, 19 * MSS);
    assert_int_equal(resend(), 2);
}

/* A retransmission that is lost as well is found by what was sent after it. */
static void test_lost_again(void **state)
{
    (void)state;
    under_way(30);
    now += RTT;
    acks(10, 11, 20);
    assert_int_equal(resend(), 1);
    now += 10;
    acks(10, 11, 30);
    send_up_to(34);
    now += RTT;
    acks(10, 11, 34);
    assert_int_equal(s.board.lost, MSS);
    assert_int_equal(resend(), 1);
    now += RTT;
    ack(34);
    assert_int_equal(s.state, SENDER_OPEN);
}

int main(void)
{
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rtt),
        cmocka_unit_test(test_enters_recovery),
        cmocka_unit_test(test_many_losses),
        cmocka_unit_test(test_reordering),
        cmocka_unit_test(test_undo_by_dsack),
        cmocka_unit_test(test_tail),
        cmocka_unit_test(test_probe_mends),
        cmocka_unit_test(test_probe_in_vain),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_timeout_in_vain),
        cmocka_unit_test(test_lost_again),
        cmocka_unit_test(test_expire),
        cmocka_unit_test(test_timeout_on_empty_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
