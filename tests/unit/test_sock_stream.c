/* SPDX-License-Identifier: MIT */
/* Streams over the kernel's sockets: how they begin, and what goes in and out. */
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sock_testing.h"

/* --- opening --- */

static void refuses(struct net_cfg cfg, int error, const char *text)
{
    char err[NET_ERR_TEXT] = "";
    struct net *net;
    cfg.kind = NET_SOCK;
    assert_int_equal(net_open(&cfg, &net, err), error);
    if (strstr(err, text) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err, text);
    }
}

static void test_open_errors(void **state)
{
    (void)state;
    refuses((struct net_cfg){.name = "nowhere"}, -EINVAL, "sock nowhere: not an IPv4 or IPv6");
    refuses((struct net_cfg){.name = "fe80::1%none"}, -ENODEV,
            "sock fe80::1%none: no such interface");
    refuses((struct net_cfg){.name = "198.18.99.99"}, -EADDRNOTAVAIL,
            "sock 198.18.99.99: no interface of this host has that address");
    refuses((struct net_cfg){.name = "127.0.0.1", .cc = "nonesuch"}, -ENOENT,
            "cc=nonesuch is refused by the kernel");
    refuses((struct net_cfg){.mtu = 500}, -EINVAL, "MTU");
    net_close(sock_net_with((struct net_cfg){.cc = "reno"}));
    net_close(sock_net_with((struct net_cfg){.name = "::1"}));
}

/* --- set-up --- */

static void test_addresses(void **state)
{
    (void)state;
    connected();
    struct sockaddr_storage local, remote;
    struct sockaddr_in *la = (struct sockaddr_in *)&local, *ra = (struct sockaddr_in *)&remote;
    net_stream_local(e.b.s, &local);
    net_listener_addr(e.l.l, &remote);
    assert_memory_equal(la, ra, sizeof *la);
    assert_int_equal(la->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    net_stream_remote(e.b.s, &remote);
    net_stream_local(e.a.s, &local);
    assert_memory_equal(la, ra, sizeof *la);
    assert_int_equal(net_emss(e.a.s) % 4, 0);
    assert_true(net_emss(e.a.s) > 16000); /* loopback's MTU is 64 KB */
    assert_int_equal(net_mtu(e.net[0]), 65535);
    assert_false(net_kind_shares_loop(NET_SOCK));
    end();
}

static void test_ipv6(void **state)
{
    (void)state;
    begin_with((struct net_cfg){.name = "::1"});
    struct sockaddr_in6 at = {.sin6_family = AF_INET6}; /* any is the device's address */
    struct sockaddr_in four = addr4("127.0.0.1", 9);
    struct sockaddr_storage ss;
    assert_int_equal(net_listen(e.net[1], (struct sockaddr *)&at, 8, &e.l, &e.l.l), 0);
    net_listener_addr(e.l.l, &ss);
    assert_true(IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&ss)->sin6_addr));
    assert_int_equal(net_connect(e.net[0], NULL, (struct sockaddr *)&four, &e.a, &e.a.s),
                     -EAFNOSUPPORT);
    meet(&e.a, &e.b);
    net_stream_remote(e.b.s, &ss);
    assert_int_equal(ss.ss_family, AF_INET6);
    put(&e.a, 100000);
    receives(&e.b, 100000);
    end();
}

/* A listener at :: takes both families, and peers over IPv4 look as always. */
static void test_both_families(void **state)
{
    (void)state;
    begin_with((struct net_cfg){0});
    struct sockaddr_in6 at = {.sin6_family = AF_INET6};
    struct sockaddr_storage ss;
    struct sockaddr_in four = addr4("127.0.0.1", 0);
    assert_int_equal(net_listen(e.net[1], (struct sockaddr *)&at, 8, &e.l, &e.l.l), 0);
    net_listener_addr(e.l.l, &ss);
    memcpy(&at, &ss, sizeof at);
    four.sin_port = at.sin6_port;
    assert_int_equal(net_connect(e.net[0], NULL, (struct sockaddr *)&four, &e.a, &e.a.s), 0);
    assert_true(until(accepts, &e.b, LONG_MS));
    net_stream_remote(e.b.s, &ss);
    assert_int_equal(ss.ss_family, AF_INET);
    assert_int_equal(((struct sockaddr_in *)&ss)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    net_stream_local(e.b.s, &ss);
    assert_memory_equal(&ss, &four, sizeof four);
    struct seen c = {0}, d = {0}, m = {0}, n = {0};
    inet_pton(AF_INET6, "::1", &at.sin6_addr);
    assert_int_equal(net_connect(e.net[0], NULL, (struct sockaddr *)&at, &c, &c.s), 0);
    assert_true(until(accepts, &d, LONG_MS));
    net_stream_remote(d.s, &ss);
    assert_int_equal(ss.ss_family, AF_INET6);
    inet_pton(AF_INET6, "::ffff:127.0.0.1", &at.sin6_addr);
    assert_int_equal(net_connect(e.net[0], NULL, (struct sockaddr *)&at, &m, &m.s), 0);
    assert_true(until(accepts, &n, LONG_MS));
    net_stream_remote(m.s, &ss);
    assert_memory_equal(&ss, &four, sizeof four);
    struct seen *all[] = {&c, &d, &m, &n};
    for (int i = 0; i < 4; i++) {
        net_stream_close(all[i]->s, true);
    }
    end();
}

static void test_listen_errors(void **state)
{
    (void)state;
    begin();
    struct sockaddr_in other = addr4("127.0.0.2", 0), any = addr4("0.0.0.0", 0);
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr strange = {.sa_family = AF_UNIX};
    struct sockaddr_storage taken;
    struct net_listener *l;
    assert_int_equal(net_listen(e.net[1], (struct sockaddr *)&other, 1, NULL, &l), -EADDRNOTAVAIL);
    six.sin6_addr = in6addr_loopback;
    assert_int_equal(net_listen(e.net[1], (struct sockaddr *)&six, 1, NULL, &l), -EAFNOSUPPORT);
    assert_int_equal(net_listen(e.net[1], &strange, 1, NULL, &l), -EAFNOSUPPORT);
    assert_int_equal(net_listen(e.net[1], (struct sockaddr *)&any, 1, &e.l, &e.l.l), 0);
    net_listener_addr(e.l.l, &taken);
    assert_int_equal(net_listen(e.net[0], (struct sockaddr *)&taken, 1, NULL, &l), -EADDRINUSE);
    end();
}

static void test_refused(void **state)
{
    (void)state;
    begin();
    sock_listen_at("127.0.0.1");
    struct sockaddr_storage at;
    net_listener_addr(e.l.l, &at);
    net_listener_close(e.l.l);
    e.l.l = NULL;
    assert_int_equal(net_connect(e.net[0], NULL, (struct sockaddr *)&at, &e.a, &e.a.s), 0);
    assert_int_equal(net_tx_room(e.a.s), 0);
    assert_null(net_tx_reserve(e.a.s, 1));
    assert_true(until(was_closed, &e.a, LONG_MS));
    assert_int_equal(e.a.error, -ECONNREFUSED);
    assert_int_equal(e.a.events, NET_EV_CLOSED);
    end();
}

/* A listener whose queue is full does not answer. */
static void test_connect_times_out(void **state)
{
    (void)state;
    net_clock_virtual(1000);
    begin();
    struct sockaddr_in at = addr4("127.0.0.1", 0);
    struct seen c[8] = {{0}};
    assert_int_equal(net_listen(e.net[1], (struct sockaddr *)&at, 1, &e.l, &e.l.l), 0);
    for (int i = 0; i < 8; i++) {
        dial(&c[i]);
        turn_one(e.net[0]);
    }
    assert_int_equal(net_timeout_ms(e.net[0]), 10000);
    a_while();
    later(9999);
    int up = 0;
    for (int i = 0; i < 8; i++) {
        assert_false(c[i].events & NET_EV_CLOSED);
        up += (c[i].events & NET_EV_UP) != 0;
    }
    assert_in_range(up, 1, 7);
    later(1);
    for (int i = 0; i < 8; i++) {
        assert_true(c[i].events == NET_EV_UP ||
                    (c[i].events == NET_EV_CLOSED && c[i].error == -ETIMEDOUT));
        net_stream_close(c[i].s, true);
    }
    assert_int_equal(net_timeout_ms(e.net[0]), -1);
    end();
    net_clock_real();
}

/* In a network namespace where nothing is up. The child's status: 77 when there may be none. */
static int no_route(void)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        return 77;
    }
    begin_with((struct net_cfg){0});
    struct sockaddr_in to = addr4("198.18.0.1", 1);
    if (net_connect(e.net[0], NULL, (struct sockaddr *)&to, &e.a, &e.a.s) != 0) {
        return 1;
    }
    turn_one(e.net[0]);
    bool good = e.a.events == NET_EV_CLOSED && e.a.error == -EHOSTUNREACH;
    end();
    return good ? 0 : 2;
}

static void test_no_route(void **state)
{
    (void)state;
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(no_route());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_explicit_port(void **state)
{
    (void)state;
    begin();
    sock_listen_at("127.0.0.1");
    struct sockaddr_storage to;
    struct sockaddr_in from, other = addr4("127.0.0.2", 0), unset = addr4("127.0.0.1", 0);
    struct net_stream *s;
    net_listener_addr(e.l.l, &to);
    struct sockaddr *at = (struct sockaddr *)&to;
    assert_int_equal(net_connect(e.net[0], (struct sockaddr *)&other, at, &e.a, &s),
                     -EADDRNOTAVAIL);
    assert_int_equal(net_connect(e.net[0], NULL, (struct sockaddr *)&unset, &e.a, &s), -EINVAL);
    meet(&e.a, &e.b);
    struct sockaddr_storage mine;
    net_stream_local(e.a.s, &mine);
    memcpy(&from, &mine, sizeof from);
    assert_int_equal(net_connect(e.net[0], (struct sockaddr *)&from, at, &e.a, &s), -EADDRINUSE);
    /* Once more from the port of a connection that was reset. */
    net_stream_close(e.a.s, true);
    assert_true(until(was_closed, &e.b, LONG_MS));
    net_stream_close(e.b.s, true);
    memset(&e.a, 0, sizeof e.a);
    assert_int_equal(net_connect(e.net[0], (struct sockaddr *)&from, at, &e.a, &e.a.s), 0);
    assert_true(until(has_event, &e.a, LONG_MS));
    net_stream_local(e.a.s, &mine);
    assert_memory_equal(&mine, &from, sizeof from);
    e.b.s = net_accept(e.l.l);
    end();
}

/* --- listeners --- */

static void test_listener_close(void **state)
{
    (void)state;
    begin();
    sock_listen_at("127.0.0.1");
    dial(&e.a);
    assert_true(until(can_accept, &e.l, LONG_MS));
    put(&e.a, 100);
    net_listener_close(e.l.l);
    e.l.l = NULL;
    assert_true(until(was_closed, &e.a, LONG_MS));
    assert_int_equal(e.a.error, -ECONNRESET);
    end();
}

/* Reset before it is accepted: the kernel gives it all the same, and then says so. */
static void test_dies_before_accept(void **state)
{
    (void)state;
    begin();
    sock_listen_at("127.0.0.1");
    dial(&e.a);
    assert_true(until(can_accept, &e.l, LONG_MS));
    put(&e.a, 10);
    a_while();
    net_stream_close(e.a.s, true);
    e.a.s = NULL;
    if (until(accepts, &e.b, SHORT_MS)) {
        assert_true(until(was_closed, &e.b, LONG_MS));
        assert_int_equal(e.b.error, -ECONNRESET);
    }
    end();
}

static void test_relisten_beside_time_wait(void **state)
{
    (void)state;
    connected();
    struct sockaddr_storage at;
    net_listener_addr(e.l.l, &at);
    net_shutdown(e.b.s); /* the listening side closes first: its port is in TIME_WAIT */
    assert_true(until(saw_fin, &e.a, LONG_MS));
    net_shutdown(e.a.s);
    assert_true(until(was_closed, &e.b, LONG_MS));
    assert_int_equal(e.b.error, 0);
    net_listener_close(e.l.l);
    assert_int_equal(net_listen(e.net[1], (struct sockaddr *)&at, 1, &e.l, &e.l.l), 0);
    end();
}

/* Without a free descriptor connections wait; with one they are taken. */
static void test_out_of_descriptors(void **state)
{
    (void)state;
    net_clock_virtual(1000);
    begin();
    sock_listen_at("127.0.0.1");
    dial(&e.a);
    a_while();
    struct rlimit was, tight;
    int next = dup(0); /* the lowest free one */
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    tight = was;
    tight.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    assert_null(net_accept(e.l.l));
    struct net_stream *s;
    struct sockaddr_storage at;
    net_listener_addr(e.l.l, &at);
    assert_int_equal(net_connect(e.net[0], NULL, (struct sockaddr *)&at, &e.b, &s), -EMFILE);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    e.l.events = 0;
    turn_one(e.net[1]);
    assert_false(e.l.events & NET_EV_ACCEPT);
    assert_in_range(net_timeout_ms(e.net[1]), 1, 1000);
    later(1000);
    assert_true(e.l.events & NET_EV_ACCEPT);
    assert_true(accepts(&e.b));
    end();
    net_clock_real();
}

/* --- data --- */

static void test_events_and_offsets(void **state)
{
    (void)state;
    connected();
    put(&e.a, 5000);
    assert_int_equal(net_tx_queued(e.a.s), 5000);
    assert_int_equal(net_tx_acked(e.a.s), 0); /* nothing leaves before the flush */
    e.b.hold = true;
    a_while();
    assert_int_equal(net_rx_queued(e.b.s), 5000);
    assert_int_equal(net_tx_acked(e.a.s), 5000);
    assert_true(e.b.events & NET_EV_DATA);
    struct span v[16];
    assert_int_equal(net_rx_peek(e.b.s, v, 16), 1);
    net_rx_consume(e.b.s, 1);
    assert_int_equal(net_rx_peek(e.b.s, v, 16), 1);
    assert_int_equal(v[0].p[0], pattern(1));
    net_rx_consume(e.b.s, 4999);
    assert_int_equal(net_rx_queued(e.b.s), 0);
    assert_int_equal(net_rx_peek(e.b.s, v, 16), 0);
    end();
}

static void test_reserve(void **state)
{
    (void)state;
    connected();
    uint8_t *first = net_tx_reserve(e.a.s, 65536);
    assert_non_null(first);
    memset(first, 1, 65536);
    net_tx_commit(e.a.s, 65536);
    uint8_t *p = net_tx_reserve(e.a.s, 100);
    assert_non_null(p);
    assert_ptr_equal(net_tx_reserve(e.a.s, 200), p); /* nothing committed */
    net_tx_commit(e.a.s, 0);
    net_tx_commit(e.a.s, 5); /* nothing reserved */
    assert_int_equal(net_tx_queued(e.a.s), 65536);
    assert_null(net_tx_reserve(e.a.s, 65537));
    e.b.hold = true;
    a_while();
    assert_int_equal(net_rx_queued(e.b.s), 65536);
    end();
}

/* The promise of net_tx_room(): so much, in any 20 pieces. */
static void test_room(void **state)
{
    (void)state;
    connected();
    static uint8_t mem[65536];
    e.b.hold = true;
    uint32_t n;
    while ((n = net_tx_room(e.a.s)) >= 65536) {
        for (uint32_t i = 0; i < 10; i++) {
            assert_true(net_tx_lend(e.a.s, mem, 3000));
            assert_non_null(net_tx_reserve(e.a.s, (n - 30000) / 10));
            net_tx_commit(e.a.s, (n - 30000) / 10);
        }
    }
    e.a.events = 0;
    turn_one(e.net[0]);
    turn_one(e.net[0]);
    assert_true(e.a.events & NET_EV_ROOM);
    assert_true(e.a.events & NET_EV_ACKED);
    end();
}

/* Nobody reads: the sender fills what the kernel has for it, and goes on when there is room. */
static void test_flow_control(void **state)
{
    (void)state;
    connected();
    e.b.hold = true;
    put(&e.a, 128u << 20);
    until(NULL, NULL, 500);
    assert_true(e.a.sent < 64u << 20);
    assert_int_equal(net_rx_queued(e.b.s),
                     512 * 1024); /* a buffer's worth, the rest is the kernel's */
    assert_true(net_sleep(e.net[1]));
    uint64_t sent = e.a.sent;
    a_while();
    assert_int_equal(e.a.sent, sent);
    e.b.hold = false;
    take_pattern(&e.b);
    receives(&e.b, 128u << 20);
    end();
}

/* What was peeked at stays where it is, whatever comes behind it and however many streams there are. */
static void test_pieces_stay(void **state)
{
    (void)state;
    enum { MANY = 24 };
    connected();
    struct seen a[MANY] = {{0}}, b[MANY] = {{0}};
    struct span v[MANY][2], all[2];
    for (int i = 0; i < MANY; i++) {
        meet(&a[i], &b[i]);
        b[i].hold = true;
        put(&a[i], 1000);
    }
    a_while();
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(net_rx_peek(b[i].s, v[i], 2), 1);
        put(&a[i], 70000);
    }
    a_while();
    for (int i = 0; i < MANY; i++) {
        for (uint32_t j = 0; j < v[i][0].n; j++) {
            assert_int_equal(v[i][0].p[j], pattern(j));
        }
        net_rx_consume(b[i].s, 0); /* now it may move */
    }
    a_while();
    for (int i = 0; i < MANY; i++) {
        assert_true(net_rx_peek(b[i].s, all, 2) >= 1);
        net_rx_consume(b[i].s, 0);
        b[i].hold = false;
        take_pattern(&b[i]);
        receives(&b[i], 71000);
        net_stream_close(a[i].s, true);
        net_stream_close(b[i].s, true);
    }
    end();
}

/* Both ways at once, in pieces of all sizes, written and lent. */
static void transfer(uint32_t piece, bool lend, uint32_t mtu)
{
    enum { OCTETS = 24 << 20 };
    connected_with((struct net_cfg){.name = "127.0.0.1", .mtu = mtu});
    uint8_t *mem = malloc(OCTETS);
    for (uint32_t i = 0; i < OCTETS; i++) {
        mem[i] = pattern(i);
    }
    struct seen *n[] = {&e.a, &e.b};
    for (int i = 0; i < 2; i++) {
        n[i]->piece = piece;
        n[i]->lend = lend;
        n[i]->lent_from = mem;
        put(n[i], piece == 1 ? 300000 : OCTETS);
    }
    receives(&e.b, e.a.to_send);
    receives(&e.a, e.b.to_send);
    assert_int_equal(net_tx_acked(e.a.s), e.a.to_send);
    if (mtu != 0) {
        assert_in_range(net_emss(e.a.s), mtu - 60, mtu - 40);
    } else if (piece > 1) {
        assert_true(net_emss(e.a.s) > 32768); /* it has grown since the beginning */
    }
    end();
    free(mem);
}

static void test_transfers(void **state)
{
    (void)state;
    static const uint32_t piece[] = {1, 1448, 8192, 60000, 65536};
    for (size_t i = 0; i < sizeof piece / sizeof piece[0]; i++) {
        transfer(piece[i], false, 0);
        transfer(piece[i], true, 0);
    }
    transfer(1448, false, 1500);
    transfer(60000, true, 1500);
}

int main(void)
{
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_errors),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_ipv6),
        cmocka_unit_test(test_both_families),
        cmocka_unit_test(test_listen_errors),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_connect_times_out),
        cmocka_unit_test(test_no_route),
        cmocka_unit_test(test_explicit_port),
        cmocka_unit_test(test_listener_close),
        cmocka_unit_test(test_dies_before_accept),
        cmocka_unit_test(test_relisten_beside_time_wait),
        cmocka_unit_test(test_out_of_descriptors),
        cmocka_unit_test(test_events_and_offsets),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_flow_control),
        cmocka_unit_test(test_pieces_stay),
        cmocka_unit_test(test_transfers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
