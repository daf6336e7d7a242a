/* SPDX-License-Identifier: MIT */
/* Many connections: how one is found among them, and what those cost that do nothing. In virtual time. */
#include "net_stream_testing.h"

static uint32_t segments;

static void count_segments(void *arg, const uint8_t *f, uint32_t len)
{
    (void)arg;
    segments += len >= 14 + test_headers() && f[14 + (test_v6() ? 6 : 9)] == IPPROTO_TCP;
}

/* A wire whose end b listens for so many connections of end a, and where. */
static struct sockaddr_storage expect_many(struct seen *c, struct seen *d, int n, uint32_t mtu)
{
    struct sockaddr_storage at = test_addr("198.18.0.2", 4791);
    begin(mtu);
    memset(c, 0, (size_t)n * sizeof *c);
    memset(d, 0, (size_t)n * sizeof *d);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&at, n, &l, &l.l), 0);
    return at;
}

/* --- idle ones --- */

/* How often a net that is left to itself for so long wants to be turned. */
static uint32_t turns_in(uint64_t ms)
{
    uint64_t end = net_now_ms() + ms;
    uint32_t turns = 0;
    while (net_now_ms() < end) {
        int t = net_timeout_ms(w.a);
        assert_true(t >= 0);
        net_clock_advance(t > 0 ? (uint64_t)t : 1);
        turn_one(w.a);
        turn_one(w.b);
        turns++;
    }
    return turns;
}

/* No tick of 10 ms runs for a connection without anything to do, and it does again when there is. */
static void test_idle_is_still(void **state)
{
    (void)state;
    connected(1500);
    run_for(&w, 100);
    segments = 0;
    net_wire_watch(w.a, count_segments, NULL);
    assert_in_range(turns_in(10000), 1, 120); /* neighbours and multicast groups have timers, too */
    assert_int_equal(segments, 0);
    struct net_wire dead = {.loss_ppm = 1000000}, fine = {0};
    net_wire_set(w.a, &dead);
    put(&a, 100);
    turn_one(w.a);
    net_wire_set(w.a, &fine);
    run_for(&w, 1000); /* the retransmission timer */
    assert_int_equal(b.received, 100);
    run_for(&w, 8000);
    put(&b, 100);
    turn_one(w.b);
    turn_one(w.a);
    turn_one(w.b);
    assert_int_equal(a.received, 100);
    assert_in_range(net_timeout_ms(w.a), 1, 10);
    assert_int_equal(net_tx_acked(b.s), 0);
    run_for(&w, 20); /* the ACK is delayed, though not for ever */
    assert_int_equal(net_tx_acked(b.s), 100);
    end(false);
}

/* The peer is asked once in 15 s, not by both ends at every chance, and not while it talks. */
static void test_idle_is_asked(void **state)
{
    (void)state;
    connected(1500);
    run_for(&w, 10000);
    put(&a, 100);
    run_for(&w, 1000);
    segments = 0;
    net_wire_watch(w.a, count_segments, NULL);
    run_for(&w, 13000);
    assert_int_equal(segments, 0);
    run_for(&w, 300000);
    assert_in_range(segments, 300 / 15, 2 * 310 / 15);
    assert_false((a.events | b.events) & NET_EV_CLOSED);
    end(false);
}

/* Of many that wait, all are asked, and live. */
static void test_all_are_asked(void **state)
{
    (void)state;
    enum { MANY = 500 };
    static struct seen c[MANY], d[MANY];
    struct sockaddr_storage at = expect_many(c, d, MANY, 1500);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&at, &c[i], &c[i].s), 0);
        assert_true(run_until(&w, has_event, &c[i], 1000));
        d[i].s = net_accept(l.l);
        assert_non_null(d[i].s);
        net_stream_set_user(d[i].s, &d[i]);
    }
    run_for(&w, 100000);
    for (int i = 0; i < MANY; i++) {
        assert_false((c[i].events | d[i].events) & NET_EV_CLOSED);
    }
    struct net_wire dead = {.loss_ppm = 1000000};
    net_wire_set(w.b, &dead);
    run_for(&w, 15000 + 6 * 3000);
    for (int i = 0; i < MANY; i++) {
        assert_true(c[i].events & NET_EV_CLOSED);
        assert_int_equal(c[i].error, -ETIMEDOUT);
        net_stream_close(c[i].s, true);
        net_stream_close(d[i].s, true);
    }
    end(true);
}

/* --- acknowledgements --- */

/* Each of so many connections sends a segment of so many octets, and no time passes. Returns how many were acknowledged. */
static uint32_t acks_at_once(uint64_t octets)
{
    enum { MANY = 100 };
    static struct seen c[MANY], d[MANY];
    uint32_t acked = 0;
    struct sockaddr_storage to = expect_many(c, d, MANY, 9000);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&to, &c[i], &c[i].s), 0);
        assert_true(run_until(&w, has_event, &c[i], 1000));
        d[i].s = net_accept(l.l);
        net_stream_set_user(d[i].s, &d[i]);
    }
    run_for(&w, 1000);
    for (int i = 0; i < MANY; i++) {
        c[i].piece = (uint32_t)octets;
        put(&c[i], octets);
    }
    net_flush(w.a);
    while (turn_one(w.b) + turn_one(w.a) > 0 || !net_sleep(w.b)) {
    }
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(d[i].received, octets);
        acked += net_tx_acked(c[i].s) == octets;
    }
    run_for(&w, 20);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(net_tx_acked(c[i].s), octets);
        net_stream_close(c[i].s, true);
        net_stream_close(d[i].s, true);
    }
    end(true);
    return acked;
}

/* A lone segment's ACK waits for company, but of many that hold much memory meanwhile only a few do. */
static void test_few_acks_are_put_off(void **state)
{
    (void)state;
    assert_int_equal(acks_at_once(100), 0);
    assert_int_equal(acks_at_once(6000), 100 - 16);
}

/* --- a link that is full --- */

/* Segments without payload are sent once: a link that had no room for them must not lose them. SYNs, their
 * answers and resets of many connections at once, with room for two frames in each direction; nothing
 * waits for a timer. */
static void test_full_link_loses_nothing(void **state)
{
    (void)state;
    enum { MANY = 50 };
    static struct seen c[MANY], d[MANY];
    struct net_wire narrow = {.room = 2};
    struct sockaddr_storage to = expect_many(c, d, MANY, 1500);
    assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&to, &a, &a.s), 0); /* neighbours */
    assert_true(run_until(&w, has_event, &a, 1000));
    net_stream_close(net_accept(l.l), true);
    net_wire_set(w.a, &narrow);
    net_wire_set(w.b, &narrow);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&to, &c[i], &c[i].s), 0);
    }
    run_for(&w, 100);
    for (int i = 0; i < MANY; i++) {
        assert_true(c[i].events & NET_EV_UP);
        d[i].s = net_accept(l.l);
        assert_non_null(d[i].s);
        net_stream_set_user(d[i].s, &d[i]);
    }
    for (int i = 0; i < MANY; i++) {
        net_stream_close(c[i].s, true);
    }
    run_for(&w, 100);
    for (int i = 0; i < MANY; i++) {
        assert_true(d[i].events & NET_EV_CLOSED);
        net_stream_close(d[i].s, true);
    }
    end(true);
}

/* Each of many that send as much as they can gets its part of a link that is always full. */
static void test_full_link_is_shared(void **state)
{
    (void)state;
    enum { MANY = 100, ROUNDS = 4000 };
    static struct seen c[MANY], d[MANY];
    struct net_wire narrow = {.room = 4};
    struct sockaddr_storage to = expect_many(c, d, MANY, 1500);
    for (int i = 0; i < MANY; i++) {
        c[i].to_send = UINT64_MAX;
        assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&to, &c[i], &c[i].s), 0);
        assert_true(run_until(&w, can_accept, &l, 1000));
        l.events = 0;
        d[i].s = net_accept(l.l);
        net_stream_set_user(d[i].s, &d[i]);
        net_wire_set(w.a, &narrow); /* the first has come up, and sends without end */
        net_wire_set(w.b, &narrow);
    }
    for (int i = 0; i < ROUNDS; i++) {
        turn_one(w.a);
        turn_one(w.b);
        net_clock_advance(i % 20 == 0);
    }
    uint64_t least = UINT64_MAX, most = 0;
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(d[i].bad, 0);
        least = d[i].received < least ? d[i].received : least;
        most = d[i].received > most ? d[i].received : most;
    }
    assert_in_range(least, most / 4, most);
    for (int i = 0; i < MANY; i++) {
        net_stream_close(c[i].s, true);
        net_stream_close(d[i].s, true);
    }
    end(true);
}

/* The window is closed, and the link is full for longer than it would take to send the 12 probes that may stay
 * without an answer. */
static void test_full_link_counts_no_probes(void **state)
{
    (void)state;
    struct net_wire narrow = {.room = 1}, fine = {0};
    connected(1500);
    b.hold = true;
    put(&a, 8 << 20);
    run_for(&w, 100);
    net_wire_set(w.a, &narrow);
    for (uint64_t until = net_now_ms() + 10000; net_now_ms() < until; net_clock_advance(5)) {
        turn_one(w.a);
    }
    assert_false(a.events & NET_EV_CLOSED);
    net_wire_set(w.a, &fine);
    b.hold = false;
    take_pattern(&b);
    run_for(&w, 5000);
    assert_int_equal(b.received, a.to_send);
    assert_int_equal(b.bad, 0);
    end(false);
}

/* --- ports --- */

/* A port of ours may serve one connection for each destination, and is not chosen twice for one. */
static void test_ports(void **state)
{
    (void)state;
    enum { EACH = 300 };
    static struct seen c[2][EACH];
    static bool used[2][65536];
    begin(1500);
    memset(c, 0, sizeof c);
    memset(used, 0, sizeof used);
    for (uint16_t k = 0; k < 2; k++) {
        struct sockaddr_storage at = test_addr("198.18.0.2", (uint16_t)(4791 + k)), from;
        for (int i = 0; i < EACH; i++) {
            assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&at, &a, &c[k][i].s), 0);
            net_stream_local(c[k][i].s, &from);
            assert_false(used[k][test_port(&from)]);
            used[k][test_port(&from)] = true;
        }
    }
    struct sockaddr_storage at = test_addr("198.18.0.2", 4792), from;
    struct net_stream *s;
    net_stream_local(c[0][0].s, &from);
    if (!used[1][test_port(&from)]) {
        assert_int_equal(net_connect(w.a, (struct sockaddr *)&from, (struct sockaddr *)&at, &a, &s),
                         0);
        net_stream_close(s, true);
    }
    net_stream_local(c[1][0].s, &from);
    assert_int_equal(net_connect(w.a, (struct sockaddr *)&from, (struct sockaddr *)&at, &a, &s),
                     -EADDRINUSE);
    for (int i = 0; i < 2 * EACH; i++) {
        net_stream_close(c[i % 2][i / 2].s, true);
    }
    end(true);
}

/* --- TIME-WAIT --- */

static struct sockaddr_storage from, at;

/* A connection with a port of our choice; the listening side closes first, and waits. */
static void leave_waiting(void)
{
    from = test_addr("198.18.0.1", 555);
    at = test_addr("198.18.0.2", 4791);
    begin(1500);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&at, 8, &l, &l.l), 0);
    assert_int_equal(net_connect(w.a, (struct sockaddr *)&from, (struct sockaddr *)&at, &a, &a.s),
                     0);
    assert_true(run_until(&w, can_accept, &l, 1000));
    b.s = net_accept(l.l);
    net_stream_set_user(b.s, &b);
    net_shutdown(b.s);
    run_for(&w, 20);
    net_shutdown(a.s);
    assert_true(run_until(&w, was_closed, &a, 100));
    assert_true(run_until(&w, was_closed, &b, 100));
    net_stream_close(a.s, false);
    net_stream_close(b.s, false);
    a = b = (struct seen){0};
}

static void connect_again(void)
{
    assert_int_equal(net_connect(w.a, (struct sockaddr *)&from, (struct sockaddr *)&at, &a, &a.s),
                     0);
    run_for(&w, 300);
}

/* What a SYN may do is in test_net_restart.c; here it has to find the connection. */
static void test_time_wait_gives_way(void **state)
{
    (void)state;
    leave_waiting();
    connect_again();
    assert_true(a.events & NET_EV_UP);
    end(true);
}

/* Where it waits, the same connection is not begun before it is over. */
static void test_time_wait_here(void **state)
{
    (void)state;
    struct net_stream *s;
    leave_waiting(); /* at b; now the other way round */
    assert_int_equal(net_connect(w.b, (struct sockaddr *)&at, (struct sockaddr *)&from, &b, &s),
                     -EADDRINUSE);
    run_for(&w, 800);
    assert_int_equal(net_connect(w.b, (struct sockaddr *)&at, (struct sockaddr *)&from, &b, &s),
                     -EADDRINUSE);
    run_for(&w, 300);
    assert_int_equal(net_connect(w.b, (struct sockaddr *)&at, (struct sockaddr *)&from, &b, &s), 0);
    net_stream_close(s, true);
    end(true);
}

struct lost_ack {
    bool fin_seen;
    uint32_t fins;
};

static void count_fins(void *arg, const uint8_t *f, uint32_t len)
{
    uint32_t tcp = test_headers() - 20 + 14;
    struct lost_ack *x = arg;
    x->fins += len >= tcp + 20 && (f[tcp + 13] & 1) != 0;
}

/* The last ACK is lost: the peer's FIN comes again, is answered again, and the wait begins anew. */
static void test_time_wait_answers(void **state)
{
    (void)state;
    struct lost_ack x = {0};
    struct net_wire dead = {.loss_ppm = 1000000}, fine = {0};
    struct net_stream *s;
    connected(1500);
    from = test_addr("198.18.0.1", 0);
    net_stream_local(a.s, &from);
    at = test_addr("198.18.0.2", 4791);
    net_wire_watch(w.a, count_fins, &x);
    net_shutdown(b.s);
    run_for(&w, 20);
    net_wire_set(w.b, &dead);
    net_shutdown(a.s);
    run_for(&w, 600);
    assert_false(a.events & NET_EV_CLOSED);
    assert_in_range(x.fins, 2, 10);
    net_wire_set(w.b, &fine);
    assert_true(run_until(&w, was_closed, &a, 2000));
    assert_int_equal(a.error, 0);
    run_for(&w, 900); /* longer than a second since it began, though not since the last FIN */
    assert_int_equal(net_connect(w.b, (struct sockaddr *)&at, (struct sockaddr *)&from, &b, &s),
                     -EADDRINUSE);
    net_wire_watch(w.a, NULL, NULL);
    end(true);
}

int main(void)
{
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_is_still),
        cmocka_unit_test(test_idle_is_asked),
        cmocka_unit_test(test_all_are_asked),
        cmocka_unit_test(test_few_acks_are_put_off),
        cmocka_unit_test(test_full_link_loses_nothing),
        cmocka_unit_test(test_full_link_is_shared),
        cmocka_unit_test(test_full_link_counts_no_probes),
        cmocka_unit_test(test_ports),
        cmocka_unit_test(test_time_wait_gives_way),
        cmocka_unit_test(test_time_wait_here),
        cmocka_unit_test(test_time_wait_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
