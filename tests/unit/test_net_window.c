/* SPDX-License-Identifier: MIT */
/* A peer's window that is shut, or nearly so, and the loss of what leaves when it opens: lwIP sends that by itself,
 * and it has to be sent again like all else. */
#include "net_stream_testing.h"

enum {
    WHOLE = 4 << 20, /* a window */
    SOON_MS = 2000,
};

static const struct net_wire works = {.delay_ms = 1};
static const struct net_wire broken = {.delay_ms = 1, .loss_ppm = 1000000, .seed = 1};

static void connect_slow_reader(uint64_t octets)
{
    connected(1500);
    net_wire_set(w.a, &works);
    net_wire_set(w.b, &works);
    b.hold = true;
    put(&a, octets);
    net_flush(w.a);
    run_for(&w, 2000);
}

static bool has_all(void *arg)
{
    struct seen *n = arg;
    return n->received == a.to_send;
}

/* Shuts the window, opens it, and loses what the sender sends for so long. */
static void lose_after_opening(uint64_t octets, uint64_t ms)
{
    connect_slow_reader(octets);
    assert_in_range(net_tx_acked(a.s), WHOLE - 65536, WHOLE);
    net_wire_set(w.a, &broken);
    b.hold = false;
    take_pattern(&b);
    net_flush(w.b);
    run_for(&w, ms);
    net_wire_set(w.a, &works);
    assert_true(run_until(&w, has_all, &b, SOON_MS + ms));
    assert_int_equal(b.bad, 0);
    end(true);
}

static void test_opening_lost(void **state)
{
    (void)state;
    lose_after_opening(WHOLE + (2 << 20), 20);
}

static void test_opening_lost_before_the_end(void **state)
{
    (void)state;
    lose_after_opening(WHOLE + 1000, 20);
}

static void test_opening_lost_for_long(void **state)
{
    (void)state;
    lose_after_opening(WHOLE + (2 << 20), 3000);
}

static bool is_more_acked(void *arg)
{
    return net_tx_acked(a.s) > *(uint64_t *)arg;
}

/* There is room for less than a packet, and lwIP's timer sends so much. */
static void test_probe_of_small_room_lost(void **state)
{
    (void)state;
    connect_slow_reader(WHOLE - 1000);
    uint64_t before = net_tx_acked(a.s);
    assert_int_equal(before, WHOLE - 1000);
    net_wire_set(w.a, &broken);
    put(&a, 5000);
    net_flush(w.a);
    run_for(&w, 700);
    net_wire_set(w.a, &works);
    assert_true(run_until(&w, is_more_acked, &before, SOON_MS));
    b.hold = false;
    take_pattern(&b);
    net_flush(w.b);
    assert_true(run_until(&w, has_all, &b, SOON_MS));
    assert_int_equal(b.bad, 0);
    end(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opening_lost),
        cmocka_unit_test(test_opening_lost_before_the_end),
        cmocka_unit_test(test_opening_lost_for_long),
        cmocka_unit_test(test_probe_of_small_room_lost),
    };
    cmocka_set_test_filter(getenv("UIW_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
