/* SPDX-License-Identifier: MIT */
/* Streams: how they begin, and what goes in and out. Over a wire in memory, in virtual time. */
#include "net_stream_testing.h"
#include "tcpip/vnet.h"

/* --- set-up --- */

static void test_addresses(void **state)
{
    (void)state;
    connected(1500);
    struct sockaddr_storage local, remote, want = test_addr("198.18.0.2", 4791);
    net_stream_local(b.s, &local);
    net_stream_remote(b.s, &remote);
    assert_memory_equal(&local, &want, sizeof want);
    uint16_t port = test_port(&remote);
    want = test_addr("198.18.0.1", port);
    assert_memory_equal(&remote, &want, sizeof want);
    net_stream_local(a.s, &local);
    assert_int_equal(test_port(&local), port);
    assert_true(port >= 49152);
    assert_int_equal(net_emss(a.s), 1500 - test_headers());
    assert_int_equal(net_emss(b.s), 1500 - test_headers());
    assert_int_equal(net_mtu(w.a), 1500);
    end(false);
}

static void test_listen_errors(void **state)
{
    (void)state;
    begin(1500);
    struct sockaddr_storage at = test_addr("198.18.0.2", 7), any = test_addr("0.0.0.0", 7),
                            other = test_addr("198.18.0.3", 7),
                            free_port = test_addr("198.18.0.2", 0);
    struct net_listener *one, *two, *three;
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&other, 1, NULL, &one), -EADDRNOTAVAIL);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&any, 1, NULL, &one), 0);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&at, 1, NULL, &two), -EADDRINUSE);
    /* The other net of the process has ports of its own. */
    assert_int_equal(net_listen(w.a, (struct sockaddr *)&any, 1, NULL, &two), 0);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&free_port, 1, NULL, &three), 0);
    struct sockaddr_storage ss;
    net_listener_addr(three, &ss);
    assert_true(test_port(&ss) >= 49152);
    net_listener_close(one);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&at, 1, NULL, &one), 0);
    net_listener_close(one);
    net_listener_close(two);
    net_listener_close(three);
    struct sockaddr_storage alien = {.ss_family = AF_UNIX};
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&alien, 1, NULL, &one), -EAFNOSUPPORT);
    end(true);
}

static void test_refused(void **state)
{
    (void)state;
    begin(1500);
    struct sockaddr_storage at = test_addr("198.18.0.2", 99);
    assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&at, &a, &a.s), 0);
    assert_int_equal(net_tx_room(a.s), 0);
    assert_null(net_tx_reserve(a.s, 1));
    assert_true(run_until(&w, was_closed, &a, 1000));
    assert_int_equal(a.error, -ECONNREFUSED);
    assert_int_equal(a.events, NET_EV_CLOSED);
    end(false);
}

static void test_connect_times_out(void **state)
{
    (void)state;
    begin(1500);
    struct sockaddr_storage nobody = test_addr("198.18.0.9", 1), off = test_addr("198.18.99.1", 1);
    struct seen c = {0};
    assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&nobody, &a, &a.s), 0);
    assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&off, &c, &c.s), 0);
    assert_true(run_until(&w, was_closed, &c, 100));
    assert_int_equal(c.error, -EHOSTUNREACH);
    assert_true(run_until(&w, was_closed, &a, 11000));
    assert_int_equal(a.error, -EHOSTUNREACH);
    net_stream_close(c.s, false);
    net_stream_close(a.s, false);
    /* Now the address is known, but nobody answers. */
    struct sockaddr_storage at = test_addr("198.18.0.2", 4791);
    make_stream(&w, &l, &a, &b);
    struct net_wire cut = {.loss_ppm = 1000000};
    net_wire_set(w.b, &cut);
    struct seen d = {0};
    assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&at, &d, &d.s), 0);
    assert_true(run_until(&w, was_closed, &d, 11000));
    assert_int_equal(d.error, -ETIMEDOUT);
    net_stream_close(d.s, false);
    end(true);
}

static void test_explicit_port(void **state)
{
    (void)state;
    begin(1500);
    struct sockaddr_storage at = test_addr("198.18.0.2", 4791), from = test_addr("198.18.0.1", 555),
                            wrong = test_addr("198.18.0.2", 555);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&at, 8, &l, &l.l), 0);
    assert_int_equal(net_connect(w.a, (struct sockaddr *)&wrong, (struct sockaddr *)&at, &a, &a.s),
                     -EADDRNOTAVAIL);
    assert_int_equal(net_connect(w.a, (struct sockaddr *)&from, (struct sockaddr *)&at, &a, &a.s),
                     0);
    struct net_stream *again;
    assert_int_equal(net_connect(w.a, (struct sockaddr *)&from, (struct sockaddr *)&at, &a, &again),
                     -EADDRINUSE);
    assert_true(run_until(&w, has_event, &a, 1000));
    assert_true(a.events & NET_EV_UP);
    b.s = net_accept(l.l);
    end(true);
}

/* --- backlog and listeners --- */

static void test_backlog(void **state)
{
    (void)state;
    begin(1500);
    struct sockaddr_storage at = test_addr("198.18.0.2", 4791);
    struct seen c[5] = {{0}};
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&at, 2, &l, &l.l), 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&at, &c[i], &c[i].s), 0);
    }
    run_for(&w, 1000);
    int up = 0;
    for (int i = 0; i < 5; i++) {
        up += (c[i].events & NET_EV_UP) != 0;
    }
    assert_int_equal(up, 2);
    struct net_stream *in[5];
    for (int i = 0; i < 5; i++) {
        in[i] = net_accept(l.l);
        assert_non_null(in[i]);
        net_stream_set_user(in[i], &b);
        run_for(&w, 4000); /* the others try again */
    }
    assert_null(net_accept(l.l));
    for (int i = 0; i < 5; i++) {
        assert_true(c[i].events & NET_EV_UP);
        net_stream_close(c[i].s, true);
        net_stream_close(in[i], true);
    }
    end(true);
}

/* N13: who was not accepted when the listener closed sees a reset, also in the handshake. */
static void test_listener_close(void **state)
{
    (void)state;
    begin(1500);
    struct sockaddr_storage at = test_addr("198.18.0.2", 4791);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&at, 4, &l, &l.l), 0);
    assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&at, &a, &a.s), 0);
    assert_true(run_until(&w, can_accept, &l, 1000));
    put(&a, 100);
    struct net_wire slow = {.delay_ms = 50};
    net_wire_set(w.b, &slow);
    struct seen c = {0};
    assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&at, &c, &c.s), 0);
    run_for(&w, 10); /* its SYN is there, the answer on its way */
    net_listener_close(l.l);
    l.l = NULL;
    assert_true(run_until(&w, was_closed, &a, 1000));
    assert_int_equal(a.error, -ECONNRESET);
    assert_true(run_until(&w, was_closed, &c, 1000));
    assert_int_equal(c.error, -ECONNRESET);
    net_stream_close(c.s, false);
    end(false);
}

/* Data and reset before it is accepted: gone without a trace. */
static void test_dies_before_accept(void **state)
{
    (void)state;
    begin(1500);
    struct sockaddr_storage at = test_addr("198.18.0.2", 4791);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&at, 1, &l, &l.l), 0);
    for (int i = 0; i < 3; i++) {
        struct seen c = {0};
        assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&at, &c, &c.s), 0);
        assert_true(run_until(&w, has_event, &c, 1000));
        assert_int_equal(c.error, 0);
        put(&c, 10);
        run_for(&w, 20);
        net_stream_close(c.s, true);
        run_for(&w, 20);
        assert_null(net_accept(l.l));
    }
    end(true);
}

static void test_relisten_beside_time_wait(void **state)
{
    (void)state;
    connected(1500);
    net_shutdown(b.s); /* the listening side closes first: its port is in TIME_WAIT */
    run_for(&w, 20);
    net_shutdown(a.s);
    assert_true(run_until(&w, was_closed, &b, 100));
    assert_int_equal(b.error, 0);
    net_stream_close(a.s, false);
    net_stream_close(b.s, false);
    net_listener_close(l.l);
    memset(&l, 0, sizeof l);
    a = b = l;
    make_stream(&w, &l, &a, &b);
    end(true);
}

/* --- data --- */

static void test_events_and_offsets(void **state)
{
    (void)state;
    connected(1500);
    put(&a, 5000);
    assert_int_equal(net_tx_queued(a.s), 5000);
    assert_int_equal(net_tx_acked(a.s), 0);
    b.hold = true;
    run_for(&w, 50);
    assert_int_equal(net_rx_queued(b.s), 5000);
    assert_int_equal(net_tx_acked(a.s), 5000);
    assert_true(a.events & NET_EV_ACKED);
    assert_true(b.events & NET_EV_DATA);
    struct span v[16];
    uint32_t n = net_rx_peek(b.s, v, 16);
    assert_true(n >= 1);
    net_rx_consume(b.s, 1);
    assert_int_equal(net_rx_peek(b.s, v, 1), 1);
    assert_int_equal(v[0].p[0], pattern(1));
    net_rx_consume(b.s, 4999);
    assert_int_equal(net_rx_queued(b.s), 0);
    assert_int_equal(net_rx_peek(b.s, v, 16), 0);
    end(false);
}

static void test_again(void **state)
{
    (void)state;
    connected(1500);
    net_stream_again(a.s, NET_EV_DATA);
    struct net_ready r = net_next(w.a);
    assert_int_equal(r.events, 0); /* not in this round */
    assert_false(net_sleep(w.a));
    r = net_next(w.a);
    assert_ptr_equal(r.stream, a.s);
    assert_int_equal(r.events, NET_EV_DATA);
    net_stream_again(a.s, NET_EV_DATA);
    net_stream_close(a.s, true);
    assert_int_equal(net_next(w.a).events, 0);
    assert_int_equal(net_next(w.a).events, 0);
    a.s = NULL;
    end(true);
}

/* Small segments are gathered: any 64 KB in at most 256 pieces, and peeked pieces stay. */
static void check_pieces(uint32_t every)
{
    connected(1500);
    struct net_wire cut = {.cut_every = every};
    net_wire_set(w.a, &cut);
    b.hold = true;
    struct span early[4], v[512];
    put(&a, every);
    run_for(&w, 20);
    assert_int_equal(net_rx_peek(b.s, early, 4), 1);
    put(&a, 65536);
    run_for(&w, 200);
    for (uint32_t i = 0; i < early[0].n; i++) {
        assert_int_equal(early[0].p[i], pattern(i));
    }
    uint32_t n = net_rx_peek(b.s, v, 512), total = 0;
    assert_true(n <= 257);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < v[i].n; j++) {
            assert_int_equal(v[i].p[j], pattern(total + j));
        }
        total += v[i].n;
        assert_true(i == 0 || i == n - 1 || v[i].n >= 512 || v[i - 1].n >= 512 ||
                    v[i + 1].n >= 512);
    }
    assert_int_equal(total, 65536 + every);
    net_rx_consume(b.s, total);
    end(true);
}

static void test_pieces(void **state)
{
    (void)state;
    static const uint32_t every[] = {1, 2, 3, 100, 255, 511, 512, 513, 700, 1460};
    for (size_t i = 0; i < sizeof every / sizeof every[0]; i++) {
        check_pieces(min_u32(every[i], 1500 - test_headers()));
    }
}

static void test_reserve_is_contiguous_and_reused(void **state)
{
    (void)state;
    connected(0);
    uint8_t *first = net_tx_reserve(a.s, 65536);
    assert_non_null(first);
    memset(first, 1, 65536);
    net_tx_commit(a.s, 65536);
    uint8_t *p = net_tx_reserve(a.s, 100);
    assert_non_null(p);
    assert_ptr_equal(net_tx_reserve(a.s, 200), p); /* nothing committed */
    net_tx_commit(a.s, 0);
    net_tx_commit(a.s, 5); /* nothing reserved */
    assert_int_equal(net_tx_queued(a.s), 65536);
    assert_null(net_tx_reserve(a.s, 65537));
    b.hold = true;
    run_for(&w, 50);
    assert_int_equal(net_tx_acked(a.s), 65536);
    assert_int_equal(net_rx_queued(b.s), 65536);
    end(true);
}

/* What is committed at once leaves in one segment as the link sees it. */
struct watch {
    uint64_t data_frames, odd;
    uint32_t piece;
};

static void on_frame(void *arg, const uint8_t *f, uint32_t len)
{
    struct watch *x = arg;
    struct vnet_tcp t;
    if (vnet_find_tcp(f, len, len, &t) && len > t.pay) {
        x->data_frames++;
        x->odd += (len - t.pay) % x->piece != 0;
    }
}

static void test_pieces_do_not_straddle(void **state)
{
    (void)state;
    static const uint32_t pieces[] = {1460, 1448, 1000, 700, 7000};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        connected(1500);
        struct watch x = {.piece = pieces[i]};
        net_wire_watch(w.a, on_frame, &x);
        a.piece = pieces[i];
        put(&a, (uint64_t)pieces[i] * 3000);
        run_for(&w, 2000);
        assert_int_equal(b.received, a.to_send);
        assert_int_equal(x.odd, 0);
        assert_true(x.data_frames < a.to_send / 20000);
        end(true);
    }
}

/* A03: both ends on one net. */
static void test_to_self(void **state)
{
    (void)state;
    begin(1500);
    struct sockaddr_storage at = test_addr("198.18.0.1", 4791);
    assert_int_equal(net_listen(w.a, (struct sockaddr *)&at, 8, &l, &l.l), 0);
    assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&at, &a, &a.s), 0);
    assert_true(run_until(&w, can_accept, &l, 100));
    b.s = net_accept(l.l);
    net_stream_set_user(b.s, &b);
    a.want = b.want = a.to_send = b.to_send = 3u << 20;
    send_pattern(&a);
    send_pattern(&b);
    assert_true(run_until(&w, was_closed, &a, 1000));
    assert_true(run_until(&w, was_closed, &b, 2000));
    assert_int_equal(a.received, 3u << 20);
    assert_int_equal(b.received, 3u << 20);
    assert_int_equal(a.bad + b.bad, 0);
    end(false);
}

static void test_many_streams(void **state)
{
    (void)state;
    begin(1500);
    enum { MANY = 200 };
    static struct seen c[MANY], d[MANY];
    memset(c, 0, sizeof c);
    memset(d, 0, sizeof d);
    struct sockaddr_storage at = test_addr("198.18.0.2", 4791);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&at, MANY, &l, &l.l), 0);
    for (int i = 0; i < MANY; i++) {
        c[i].to_send = 20000 + (uint64_t)i;
        assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&at, &c[i], &c[i].s), 0);
    }
    run_for(&w, 500);
    for (int i = 0; i < MANY; i++) {
        d[i].s = net_accept(l.l);
        assert_non_null(d[i].s);
        net_stream_set_user(d[i].s, &d[i]);
    }
    run_for(&w, 500);
    uint64_t total = 0;
    for (int i = 0; i < MANY; i++) {
        total += d[i].received;
        assert_int_equal(d[i].bad, 0);
        net_stream_close(i % 2 ? c[i].s : d[i].s, i % 3 == 0);
    }
    assert_int_equal(total, MANY * 20000 + MANY * (MANY - 1) / 2);
    run_for(&w, 500);
    for (int i = 0; i < MANY; i++) {
        net_stream_close(i % 2 ? d[i].s : c[i].s, i % 5 == 0);
    }
    end(true);
}

static void test_open_errors(void **state)
{
    (void)state;
    begin(1500);
    struct net_cfg cfg = {.kind = NET_PAIR, .name = "w"};
    char err[NET_ERR_TEXT];
    struct net *net;
    assert_int_equal(net_open(&cfg, &net, err), -EINVAL);
    assert_non_null(strstr(err, "an address is missing"));
    test_cfg_ip(&cfg, "198.18.0.1");
    assert_int_equal(net_open(&cfg, &net, err), -EADDRINUSE);
    test_cfg_ip(&cfg, "198.18.0.3");
    assert_int_equal(net_open(&cfg, &net, err), -EBUSY);
    assert_non_null(strstr(err, "two ends"));
    cfg.prefix = 31;
    cfg.prefix6 = 63;
    assert_int_equal(net_open(&cfg, &net, err), -EINVAL);
    end(true);
}

int main(void)
{
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_listen_errors),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_connect_times_out),
        cmocka_unit_test(test_explicit_port),
        cmocka_unit_test(test_backlog),
        cmocka_unit_test(test_listener_close),
        cmocka_unit_test(test_dies_before_accept),
        cmocka_unit_test(test_relisten_beside_time_wait),
        cmocka_unit_test(test_events_and_offsets),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_reserve_is_contiguous_and_reused),
        cmocka_unit_test(test_pieces_do_not_straddle),
        cmocka_unit_test(test_to_self),
        cmocka_unit_test(test_many_streams),
        cmocka_unit_test(test_open_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
