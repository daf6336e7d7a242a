/* SPDX-License-Identifier: MIT */
/* Streams: lent memory, closed windows, and all the ways to end. In virtual time. */
#include "net_stream_testing.h"

/* --- lending --- */

static void test_lend(void **state)
{
    (void)state;
    connected(1500);
    uint8_t *mem = malloc(1 << 20);
    for (uint32_t i = 0; i < 1 << 20; i++) {
        mem[i] = pattern(i);
    }
    a.lend = true;
    a.lent_from = mem;
    a.piece = 50000;
    put(&a, 1 << 20);
    run_for(&w, 1000);
    assert_int_equal(b.received, 1 << 20);
    assert_int_equal(b.bad, 0);
    assert_int_equal(net_tx_acked(a.s), 1 << 20);
    free(mem);
    end(false);
}

/* The memory goes away at an odd moment; the peer sees what was lent. */
static void unlend_case(uint32_t held_ms, bool close_it)
{
    connected(1500);
    struct net_wire bad = {.seed = held_ms + 1, .loss_ppm = 200000, .delay_ms = 2};
    net_wire_set(w.a, &bad);
    uint8_t *mem = malloc(200000);
    for (uint32_t i = 0; i < 200000; i++) {
        mem[i] = pattern(i);
    }
    a.lend = true;
    a.lent_from = mem;
    a.piece = 9000;
    put(&a, 200000);
    a.lend = false; /* what does not fit now is written */
    run_for(&w, held_ms);
    send_pattern(&a);
    if (close_it) {
        assert_int_equal(a.sent, 200000);
        net_stream_close(a.s, false);
        a.s = NULL;
    } else {
        net_tx_unlend(a.s, mem + 60000, 70000);
        net_tx_unlend(a.s, mem, 200000);
        net_tx_unlend(a.s, mem, 200000);
    }
    memset(mem, 0xee, 200000);
    free(mem);
    run_for(&w, 30000);
    assert_int_equal(b.received, 200000);
    assert_int_equal(b.bad, 0);
    if (close_it) {
        assert_true(b.events & NET_EV_FIN);
    }
    end(true);
}

static void test_unlend(void **state)
{
    (void)state;
    for (uint32_t ms = 0; ms < 12; ms++) {
        unlend_case(ms, false);
        unlend_case(ms, true);
    }
}

/* A lent frame that waits for the neighbour's address must not look at the memory later. */
static void test_unlend_while_address_unknown(void **state)
{
    (void)state;
    connected(1500);
    uint8_t *mem = malloc(30000);
    memset(mem, 7, 30000);
    /* Forget the address: it expires after five minutes without traffic. */
    net_close(w.b);
    w.b = open_pair("198.18.0.2", 1500);
    b.s = NULL;
    l.l = NULL;
    run_for(&w, 400000);
    if (!(a.events & NET_EV_CLOSED)) {
        net_tx_lend(a.s, mem, 30000);
    }
    net_flush(w.a);
    net_stream_close(a.s, true);
    a.s = NULL;
    free(mem);
    run_for(&w, 10000);
    end(true);
}

/* --- windows --- */

static void test_room_and_zero_window(void **state)
{
    (void)state;
    connected(1500);
    b.hold = true;
    put(&a, 32u << 20);
    run_for(&w, 500);
    assert_true(a.sent < 6u << 20);                     /* window and some more */
    assert_true(a.sent >= 4u << 20);                    /* which it fills */
    assert_true(net_rx_queued(b.s) > (4u << 20) - 128); /* the window counts in 128 octets */
    uint64_t sent = a.sent;
    run_for(&w, 60000); /* L05 */
    assert_int_equal(a.sent, sent);
    assert_false(a.events & NET_EV_CLOSED);
    b.hold = false;
    take_pattern(&b);
    run_for(&w, 3000);
    assert_int_equal(b.received, 32u << 20);
    assert_int_equal(b.bad, 0);
    end(true);
}

/* The update that opens the window is lost: the probes have to find out. */
static void test_lost_window_update(void **state)
{
    (void)state;
    connected(1500);
    b.hold = true;
    put(&a, 8u << 20);
    run_for(&w, 500);
    assert_true(net_rx_queued(b.s) > (4u << 20) - 128); /* the window counts in 128 octets */
    struct net_wire dead = {.loss_ppm = 1000000}, fine = {0};
    net_wire_set(w.b, &dead);
    b.hold = false;
    take_pattern(&b);
    run_for(&w, 100);
    net_wire_set(w.b, &fine);
    run_for(&w, 20000);
    assert_int_equal(b.received, 8u << 20);
    end(true);
}

/* --- ends --- */

static void test_shutdown_both_ways(void **state)
{
    (void)state;
    connected(1500);
    put(&a, 100000);
    net_shutdown(a.s);
    assert_int_equal(net_tx_room(a.s), 0);
    assert_null(net_tx_reserve(a.s, 1));
    run_for(&w, 100);
    assert_int_equal(b.received, 100000);
    assert_true(b.events & NET_EV_FIN);
    assert_false(a.events & (NET_EV_CLOSED | NET_EV_FIN));
    put(&b, 100000); /* the other direction lives on */
    run_for(&w, 100);
    assert_int_equal(a.received, 100000);
    net_shutdown(b.s);
    assert_true(run_until(&w, was_closed, &b, 100));
    assert_true(run_until(&w, was_closed, &a, 100));
    assert_true(a.events & NET_EV_FIN);
    assert_int_equal(a.error, 0);
    assert_int_equal(b.error, 0);
    end(false);
}

static void test_shutdown_at_once(void **state)
{
    (void)state;
    connected(1500);
    put(&a, 50000);
    put(&b, 50000);
    net_shutdown(a.s);
    net_shutdown(b.s);
    assert_true(run_until(&w, was_closed, &a, 2000));
    assert_true(run_until(&w, was_closed, &b, 2000));
    assert_int_equal(a.received, 50000);
    assert_int_equal(b.received, 50000);
    end(false);
}

static void test_abort(void **state)
{
    (void)state;
    connected(1500);
    put(&a, 3000);
    b.hold = true;
    run_for(&w, 50);
    net_stream_close(a.s, true);
    a.s = NULL;
    assert_true(run_until(&w, was_closed, &b, 100));
    assert_int_equal(b.error, -ECONNRESET);
    assert_int_equal(net_rx_queued(b.s), 3000); /* still readable */
    b.hold = false;
    take_pattern(&b);
    assert_int_equal(b.received, 3000);
    assert_null(net_tx_reserve(b.s, 1));
    end(false);
}

/* L06: closed with data queued over a bad wire: every octet arrives, then FIN. */
static void test_close_delivers(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < 6; seed++) {
        connected(1500);
        struct net_wire bad = {.seed = seed, .loss_ppm = 100000, .delay_ms = 1};
        net_wire_set(w.a, &bad);
        net_wire_set(w.b, &bad);
        put(&a, 256 * 1024);
        assert_int_equal(a.sent, a.to_send);
        net_stream_close(a.s, false);
        a.s = NULL;
        run_for(&w, 15000); /* short of lwIP's patience with our own open end, 20 s */
        assert_int_equal(b.received, 256 * 1024);
        assert_int_equal(b.bad, 0);
        assert_true(b.events & NET_EV_FIN);
        assert_false(b.events & NET_EV_CLOSED);
        end(false);
    }
}

static void test_close_with_unread_data(void **state)
{
    (void)state;
    connected(1500);
    b.hold = true;
    put(&a, 100000);
    run_for(&w, 50);
    put(&b, 100000);
    net_stream_close(b.s, false); /* what it has queued is delivered nevertheless */
    b.s = NULL;
    run_for(&w, 500);
    assert_int_equal(a.received, 100000);
    assert_true(a.events & NET_EV_FIN);
    end(true);
}

/* Nobody takes what is left: a minute, then a reset. */
static void test_close_gives_up(void **state)
{
    (void)state;
    connected(1500);
    b.hold = true;
    put(&a, 5u << 20);
    run_for(&w, 100);
    assert_true(a.sent > 4u << 20);
    net_stream_close(a.s, false);
    a.s = NULL;
    run_for(&w, 55000);
    assert_false(b.events & NET_EV_CLOSED);
    run_for(&w, 10000);
    assert_true(b.events & NET_EV_CLOSED);
    assert_int_equal(b.error, -ECONNRESET);
    end(true);
}

static void test_peer_vanishes(void **state)
{
    (void)state;
    struct net_wire dead = {.loss_ppm = 1000000};
    connected(1500); /* idle: keep-alive finds out */
    net_wire_set(w.b, &dead);
    assert_true(run_until(&w, was_closed, &a, 60000));
    assert_int_equal(a.error, -ETIMEDOUT);
    end(true);
    connected(1500); /* with data out: retransmission does */
    net_wire_set(w.b, &dead);
    put(&a, 100000);
    assert_true(run_until(&w, was_closed, &a, 200000));
    assert_int_equal(a.error, -ETIMEDOUT);
    end(true);
    connected(1500); /* idle and alive: nothing happens */
    run_for(&w, 300000);
    assert_false((a.events | b.events) & NET_EV_CLOSED);
    end(false);
}

int main(void)
{
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lend),
        cmocka_unit_test(test_unlend),
        cmocka_unit_test(test_unlend_while_address_unknown),
        cmocka_unit_test(test_room_and_zero_window),
        cmocka_unit_test(test_lost_window_update),
        cmocka_unit_test(test_shutdown_both_ways),
        cmocka_unit_test(test_shutdown_at_once),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_close_delivers),
        cmocka_unit_test(test_close_with_unread_data),
        cmocka_unit_test(test_close_gives_up),
        cmocka_unit_test(test_peer_vanishes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
