/* SPDX-License-Identifier: MIT */
/* What a stream does about losses on a path of 10 ms there and back: chosen frames are dropped, and what
 * leaves because of it is counted on the wire, in virtual time. */
#include "net_testing.h"

#include "tcpip/vnet.h"

enum { DELAY = 5, RTT = 2 * DELAY, RTO = 200, DROPS = 64, SPACE = 8 << 20 };

/* Frames of data of one direction, by where in the stream they begin. */
struct wire_log {
    struct net *net;
    uint32_t first;         /* sequence number of the first octet */
    uint64_t octets, again; /* of data on the wire; of those, octets sent before */
    uint32_t drop[DROPS];   /* frames that hold that octet are dropped, one for each entry */
    uint32_t drops, dropped;
    bool lose_acks; /* every second of those that go back */
    uint64_t acks;
    struct net_wire wire;
    uint8_t *seen; /* for each octet: was sent */
};

static void lose_this(struct wire_log *x, bool yes)
{
    struct net_wire w = x->wire;
    w.loss_ppm = yes ? 1000000 : w.loss_ppm;
    net_wire_set(x->net, &w);
}

static void count(struct wire_log *x, uint32_t at, uint32_t n)
{
    x->octets += n;
    for (uint32_t i = at; i < at + n && i < SPACE; i++) {
        x->again += x->seen[i];
        x->seen[i] = 1;
    }
}

static void on_data(void *arg, const uint8_t *f, uint32_t len)
{
    struct wire_log *x = arg;
    struct vnet_tcp t;
    bool lose = false;
    if (!vnet_find_tcp(f, len, len, &t)) {
        return;
    }
    if ((f[t.l4 + 13] & VNET_SYN) != 0) {
        x->first = get_be32(f + t.l4 + 4) + 1;
    } else if (t.end > t.pay) {
        uint32_t at = get_be32(f + t.l4 + 4) - x->first, n = t.end - t.pay;
        count(x, at, n);
        for (uint32_t i = 0; i < x->drops && !lose; i++) {
            if (x->drop[i] - at < n) {
                lose = true;
                x->drop[i] = UINT32_MAX;
                x->dropped++;
            }
        }
    }
    if (x->drops > 0) {
        lose_this(x, lose);
    }
}

static void on_ack(void *arg, const uint8_t *f, uint32_t len)
{
    struct wire_log *x = arg;
    struct vnet_tcp t;
    bool is_ack = vnet_find_tcp(f, len, len, &t) && (f[t.l4 + 13] & VNET_SYN) == 0;
    lose_this(x, is_ack && x->acks++ % 2 == 0);
}

static struct wire_log there, back;

static void drop_at(uint32_t at)
{
    there.drop[there.drops++] = at;
}

/* Sends so many octets one way and waits until they are acknowledged; returns the ms it took. */
static uint64_t transfer(uint64_t octets, const struct net_wire *wire)
{
    struct wire_ends w = wire_open(1500);
    struct seen l = {0}, a = {.to_send = octets, .piece = 1448}, b = {0};
    there.net = w.a;
    back.net = w.b;
    there.wire = *wire;
    back.wire = *wire;
    back.wire.seed ^= 0x5555;
    there.seen = calloc(1, SPACE);
    assert_non_null(there.seen);
    net_wire_set(w.a, &there.wire);
    net_wire_set(w.b, &back.wire);
    net_wire_tap(w.a, on_data, &there);
    if (back.lose_acks) {
        net_wire_tap(w.b, on_ack, &back);
    }
    uint64_t began = net_now_ms();
    make_stream(&w, &l, &a, &b);
    while (net_tx_acked(a.s) < octets && net_now_ms() < began + 600000) {
        run_for(&w, 1);
    }
    uint64_t took = net_now_ms() - began;
    assert_int_equal(b.received, octets);
    assert_int_equal(b.bad, 0);
    assert_int_equal(net_tx_acked(a.s), octets);
    assert_int_equal(there.dropped, there.drops);
    print_message("  %llu ms, %llu octets, %llu sent again\n", (unsigned long long)took,
                  (unsigned long long)there.octets, (unsigned long long)there.again);
    net_stream_close(a.s, true);
    net_stream_close(b.s, true);
    net_listener_close(l.l);
    free(there.seen);
    wire_close(&w);
    return took;
}

static int fresh(void **state)
{
    (void)state;
    there = back = (struct wire_log){0};
    return 0;
}

static const struct net_wire path = {.delay_ms = DELAY};

/* What the same takes without a loss. */
static uint64_t clean(uint64_t octets)
{
    fresh(NULL);
    uint64_t took = transfer(octets, &path);
    assert_int_equal(there.again, 0);
    fresh(NULL);
    return took;
}

static void test_clean(void **state)
{
    (void)state;
    /* Slow start from ten segments: 1 MB in 7 round trips, and two for the set-up. */
    assert_in_range(clean(1 << 20), 7 * RTT, 12 * RTT);
    clean(6 << 20);
    clean(1);
}

static void test_one(void **state)
{
    (void)state;
    uint64_t took = clean(1 << 20);
    drop_at(300000);
    assert_true(transfer(1 << 20, &path) < took + 4 * RTT);
    assert_true(there.again <= 1460);
}

/* Every fifth frame of a window, and a run of frames: all found at once, each sent again once. */
static void test_many(void **state)
{
    (void)state;
    uint64_t took = clean(1 << 20);
    for (uint32_t i = 0; i < 12; i++) {
        drop_at(300000 + i * 5 * 1460);
    }
    for (uint32_t i = 0; i < 12; i++) {
        drop_at(700000 + i * 1460);
    }
    assert_true(transfer(1 << 20, &path) < took + 12 * RTT);
    assert_true(there.again <= 24 * 1460);
}

/* A frame is lost, and is lost again, and again: the order of time tells, without the timer. */
static void test_lost_again(void **state)
{
    (void)state;
    uint64_t took = clean(2 << 20);
    for (uint32_t i = 0; i < 3; i++) {
        drop_at(300000);
    }
    assert_true(transfer(2 << 20, &path) < took + 12 * RTT);
    assert_true(there.again <= 3 * 1460);
}

/* The last frames: a probe brings them to light (RFC 8985 sec 7). */
static void test_tail(void **state)
{
    (void)state;
    uint64_t took = clean(100000);
    drop_at(99999);
    assert_true(transfer(100000, &path) < took + RTO / 2);
    for (uint32_t n = 2; n <= 5; n++) {
        fresh(NULL);
        for (uint32_t i = 0; i < n; i++) {
            drop_at(99999 - i * 1460);
        }
        assert_true(transfer(100000, &path) < took + RTO / 2);
        assert_true(there.again <= (n + 1) * 1460);
    }
}

/* A single frame has no others to tell of it: the probe waits for an ACK that may be delayed. */
static void test_lone(void **state)
{
    (void)state;
    drop_at(99);
    assert_true(transfer(100, &path) < 2 * RTO);
}

/* All of a flight, retransmissions as well: the timer has to do it, and doubles. */
static void test_blackout(void **state)
{
    (void)state;
    uint64_t took = clean(100000);
    for (uint32_t i = 0; i < 40; i++) {
        drop_at(99999 - i % 20 * 1460);
    }
    uint64_t with = transfer(100000, &path);
    assert_in_range(with, took + RTO, took + 20 * RTO);
}

static void test_acks_lost(void **state)
{
    (void)state;
    uint64_t took = clean(1 << 20);
    back.lose_acks = true;
    drop_at(400000);
    drop_at(410000);
    assert_true(transfer(1 << 20, &path) < took + 8 * RTT);
    assert_true(there.again <= 4 * 1460);
}

/* What arrives in another order is not lost: once that is known, little goes twice. (A frame that is held
 * back may have to wait for the next flight here, and that is more than any patience.) */
static void test_reordering(void **state)
{
    (void)state;
    uint64_t took = clean(4 << 20);
    struct net_wire w = {.seed = 5, .delay_ms = DELAY, .reorder_ppm = 100000};
    assert_true(transfer(4 << 20, &w) < 4 * took);
    assert_true(there.again < (4 << 20) / 1000);
}

/* By chance: no more goes twice than was lost, and the rate is what RFC 9438's fluid model of Reno
 * allows (1.22 segments / sqrt(p) in a round trip), give and take. */
static void test_rates(void **state)
{
    (void)state;
    static const struct {
        uint32_t ppm;
        uint64_t octets, most_ms;
    } c[] = {{1000, 6 << 20, 3000}, {10000, 3 << 20, 4000}, {50000, 1 << 20, 6000}};
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        for (uint32_t seed = 1; seed <= 3; seed++) {
            fresh(NULL);
            struct net_wire w = {.seed = seed, .delay_ms = DELAY, .loss_ppm = c[i].ppm};
            assert_true(transfer(c[i].octets, &w) < c[i].most_ms);
            assert_true(there.again < c[i].octets * c[i].ppm / 1000000 * 2 + 20 * 1460);
        }
    }
}

/* Windows around the wrap of the sequence numbers. */
static void test_wrap(void **state)
{
    (void)state;
    uint64_t took = clean(1 << 20);
    static const uint32_t isn[] = {0x7fff0000, 0xffff0000, 0xfffb0000};
    for (size_t i = 0; i < ARRAY_LEN(isn); i++) {
        fresh(NULL);
        net_test_isn(true, isn[i]);
        drop_at(0x10000 - 2);
        drop_at(0x50000 - 2);
        drop_at(0x50000 + 3000);
        assert_true(transfer(1 << 20, &path) < took + 30 * RTT); /* from a window of 40 KB on */
        assert_true(there.again <= 3 * 1460);
        net_test_isn(false, 0);
    }
}

int main(void)
{
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_clean, fresh),
        cmocka_unit_test_setup(test_one, fresh),
        cmocka_unit_test_setup(test_many, fresh),
        cmocka_unit_test_setup(test_lost_again, fresh),
        cmocka_unit_test_setup(test_tail, fresh),
        cmocka_unit_test_setup(test_lone, fresh),
        cmocka_unit_test_setup(test_blackout, fresh),
        cmocka_unit_test_setup(test_acks_lost, fresh),
        cmocka_unit_test_setup(test_reordering, fresh),
        cmocka_unit_test_setup(test_rates, fresh),
        cmocka_unit_test_setup(test_wrap, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
