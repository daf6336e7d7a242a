/* SPDX-License-Identifier: MIT */
/* What IPv6 adds: addresses and their scopes, both families on one net, neighbours, gateways, extension
 * headers. (The tests of streams themselves run over IPv6 as they are, see family.h.) */
#include "net_testing.h"
#include "tcpip/vnet.h"

enum { PORT = 4791, ICMP6 = 58, NS = 135, NA = 136 };

static struct wire_ends w;
static struct seen l, a, b;
static uint64_t rnd_state = 1;

static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rnd_state >> 33) % below;
}

/* What left a net: the last TCP frame, and how it looks for its neighbours. */
struct watch {
    uint8_t frame[2048];
    uint32_t len;
    uint32_t solicitations, advertisements, from_nowhere;
};

static struct watch from_a, from_b;

static void on_frame(void *arg, const uint8_t *f, uint32_t len)
{
    struct watch *x = arg;
    struct vnet_tcp t;
    if (vnet_find_tcp(f, len, len, &t)) {
        x->len = len;
        memcpy(x->frame, f, min_u32(len, sizeof x->frame));
    } else if (vnet_type(f) == VNET_TYPE_IP6 && f[20] == ICMP6) {
        static const uint8_t none[16];
        x->solicitations += f[54] == NS;
        x->advertisements += f[54] == NA;
        x->from_nowhere += memcmp(f + 22, none, 16) == 0;
    }
}

static struct net *open_end(const char *ip4, const char *ip6, const char *gw6, uint8_t last)
{
    struct net_cfg cfg = {.kind = NET_PAIR, .name = "w", .mtu = 1500, .mac = {2, 0, 0, 0, 0, last}};
    char err[NET_ERR_TEXT] = "";
    struct net *net = NULL;
    if (ip4 != NULL) {
        inet_pton(AF_INET, ip4, &cfg.ip);
    }
    if (ip6 != NULL) {
        inet_pton(AF_INET6, ip6, &cfg.ip6);
    }
    if (gw6 != NULL) {
        inet_pton(AF_INET6, gw6, &cfg.gw6);
    }
    if (net_open(&cfg, &net, err) != 0) {
        fail_msg("%s", err);
    }
    return net;
}

static void begin(const char *a4, const char *a6, const char *b4, const char *b6)
{
    memset(&l, 0, sizeof l);
    a = b = l;
    memset(&from_a, 0, sizeof from_a);
    from_b = from_a;
    net_clock_virtual(1000);
    w = (struct wire_ends){open_end(a4, a6, NULL, 1), open_end(b4, b6, NULL, 2), 0};
    net_wire_watch(w.a, on_frame, &from_a);
    net_wire_watch(w.b, on_frame, &from_b);
}

static void drop(struct seen *s)
{
    if (s->s != NULL) {
        net_stream_close(s->s, true);
    }
    *s = (struct seen){0};
}

static void end(void)
{
    drop(&a);
    drop(&b);
    if (l.l != NULL) {
        net_listener_close(l.l);
    }
    wire_close(&w);
}

static struct sockaddr_in6 at6(const char *ip, uint16_t port)
{
    struct sockaddr_in6 in = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    assert_int_equal(inet_pton(AF_INET6, ip, &in.sin6_addr), 1);
    return in;
}

static struct sockaddr_in at4(const char *ip, uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    assert_int_equal(inet_pton(AF_INET, ip, &in.sin_addr), 1);
    return in;
}

static void text_of(const struct sockaddr_storage *ss, char text[INET6_ADDRSTRLEN])
{
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    memcpy(&in, ss, sizeof in);
    memcpy(&in6, ss, sizeof in6);
    if (ss->ss_family == AF_INET6) {
        assert_int_equal(in6.sin6_scope_id, 0);
        inet_ntop(AF_INET6, &in6.sin6_addr, text, INET6_ADDRSTRLEN);
    } else {
        inet_ntop(AF_INET, &in.sin_addr, text, INET6_ADDRSTRLEN);
    }
}

static void check_ends(const struct net_stream *s, const char *local, const char *remote)
{
    struct sockaddr_storage ss;
    char text[INET6_ADDRSTRLEN];
    net_stream_local(s, &ss);
    text_of(&ss, text);
    assert_string_equal(text, local);
    net_stream_remote(s, &ss);
    text_of(&ss, text);
    assert_string_equal(text, remote);
}

static void listen_at(const void *addr)
{
    assert_int_equal(net_listen(w.b, addr, 8, &l, &l.l), 0);
}

/* A connection to 'to', some octets, the end; both ends see these addresses. */
static void talk(const void *to, const char *ours, const char *theirs)
{
    l.events = 0;
    assert_int_equal(net_connect(w.a, NULL, to, &a, &a.s), 0);
    uint64_t start = net_now_ms();
    assert_true(run_until(&w, can_accept, &l, 1000));
    assert_true(net_now_ms() - start <=
                20); /* nothing waits for the addresses to be proved unique */
    b.s = net_accept(l.l);
    net_stream_set_user(b.s, &b);
    a.to_send = 100000;
    send_pattern(&a);
    run_for(&w, 50);
    assert_int_equal(b.received, 100000);
    assert_int_equal(b.bad, 0);
    check_ends(a.s, ours, theirs);
    check_ends(b.s, theirs, ours);
    assert_int_equal(net_emss(a.s), strchr(ours, ':') != NULL ? 1440 : 1460);
    assert_int_equal(net_emss(b.s), net_emss(a.s));
    drop(&a);
    drop(&b);
    run_for(&w, 20);
}

/* :: is all there is; each peer is seen by its family. A02 */
static void test_both_families(void **state)
{
    (void)state;
    begin("198.18.0.1", "fd00::1", "198.18.0.2", "fd00::2");
    struct sockaddr_in6 any = at6("::", PORT), six = at6("fd00::2", PORT),
                        mapped = at6("::ffff:198.18.0.2", PORT);
    struct sockaddr_in four = at4("198.18.0.2", PORT);
    struct net_listener *second;
    listen_at(&any);
    talk(&six, "fd00::1", "fd00::2");
    talk(&four, "198.18.0.1", "198.18.0.2");
    talk(&mapped, "198.18.0.1", "198.18.0.2");
    assert_int_equal(from_a.from_nowhere + from_b.from_nowhere, 0);
    struct sockaddr_storage ss;
    char text[INET6_ADDRSTRLEN];
    net_listener_addr(l.l, &ss);
    text_of(&ss, text);
    assert_string_equal(text, "::");
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&four, 1, NULL, &second), -EADDRINUSE);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&mapped, 1, NULL, &second), -EADDRINUSE);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&six, 1, NULL, &second), -EADDRINUSE);
    net_listener_close(l.l);
    /* Of one family only, both may have the port. */
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&mapped, 1, NULL, &second), 0);
    listen_at(&six);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&any, 1, NULL, &l.l), -EADDRINUSE);
    net_listener_close(second);
    end();
}

static void test_any_port(void **state)
{
    (void)state;
    begin("198.18.0.1", "fd00::1", "198.18.0.2", "fd00::2");
    struct sockaddr_in6 any = at6("::", 0), six;
    struct sockaddr_storage ss;
    listen_at(&any);
    net_listener_addr(l.l, &ss);
    six = at6("fd00::2", test_port(&ss));
    struct sockaddr_in four = at4("198.18.0.2", test_port(&ss));
    talk(&six, "fd00::1", "fd00::2");
    talk(&four, "198.18.0.1", "198.18.0.2");
    end();
}

/* Link-local addresses come from the MAC address (RFC 4291 appendix A); their scope is the device. */
static void test_link_local(void **state)
{
    (void)state;
    begin(NULL, "fd00::1", NULL, "fd00::2");
    struct sockaddr_in6 any = at6("::", PORT), to = at6("fe80::ff:fe00:2", PORT),
                        own = at6("fe80::ff:fe00:1", 0);
    listen_at(&any);
    talk(&to, "fe80::ff:fe00:1", "fe80::ff:fe00:2");
    to.sin6_scope_id = 77;
    talk(&to, "fe80::ff:fe00:1", "fe80::ff:fe00:2");
    net_listener_close(l.l);
    to.sin6_scope_id = 0;
    listen_at(&to);
    talk(&to, "fe80::ff:fe00:1", "fe80::ff:fe00:2");
    /* From the global address of this net to a link-local one, when asked to. */
    struct sockaddr_in6 from = at6("fd00::1", 0);
    assert_int_equal(net_connect(w.a, (struct sockaddr *)&from, (struct sockaddr *)&to, &a, &a.s),
                     0);
    assert_true(run_until(&w, has_event, &a, 1000));
    assert_true(a.events & NET_EV_UP);
    check_ends(a.s, "fd00::1", "fe80::ff:fe00:2");
    drop(&a);
    assert_int_equal(net_connect(w.b, (struct sockaddr *)&own, (struct sockaddr *)&to, &a, &a.s),
                     -EADDRNOTAVAIL);
    end();
    begin(NULL, "fe80::1", NULL, "fe80::2"); /* nothing else is needed */
    to = at6("fe80::2", PORT);
    listen_at(&any);
    talk(&to, "fe80::1", "fe80::2");
    end();
}

static void test_families_that_lack(void **state)
{
    (void)state;
    begin("198.18.0.1", NULL, NULL, "fd00::2");
    struct sockaddr_in6 six = at6("fd00::2", PORT), any6 = at6("::", PORT);
    struct sockaddr_in four = at4("198.18.0.1", PORT), any4 = at4("0.0.0.0", PORT);
    const void *const s6 = &six, *const s4 = &four, *const all4 = &any4;
    assert_int_equal(net_connect(w.a, NULL, s6, &a, &a.s), -EAFNOSUPPORT);
    assert_int_equal(net_connect(w.b, NULL, s4, &a, &a.s), -EAFNOSUPPORT);
    assert_int_equal(net_connect(w.b, s4, s6, &a, &a.s), -EADDRNOTAVAIL);
    assert_int_equal(net_listen(w.a, s6, 1, &l, &l.l), -EADDRNOTAVAIL);
    assert_int_equal(net_listen(w.b, s4, 1, &l, &l.l), -EADDRNOTAVAIL);
    assert_int_equal(net_listen(w.b, all4, 1, &l, &l.l), -EADDRNOTAVAIL);
    assert_null(l.l);
    listen_at(&any6);
    run_for(&w, 3000);
    assert_int_equal(from_a.solicitations + from_a.advertisements, 0); /* IPv4 only is just that */
    end();
}

/* The frame goes to the gateway's MAC address, and to none without one. */
static void test_gateway(void **state)
{
    (void)state;
    begin(NULL, "fd00::1", NULL, "fd00::2");
    static const char *const far[] = {"fd00:0:0:1::9", "2001:db8::1", "::1", "ff02::5", "::"};
    for (size_t i = 0; i < ARRAY_LEN(far); i++) {
        struct sockaddr_in6 to = at6(far[i], PORT);
        assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&to, &a, &a.s), 0);
        assert_true(run_until(&w, was_closed, &a, 100));
        assert_int_equal(a.error, -EHOSTUNREACH);
        drop(&a);
    }
    end();
    static const char *const gw[] = {"fd00::2", "fe80::ff:fe00:2"};
    for (size_t i = 0; i < ARRAY_LEN(gw); i++) {
        begin(NULL, "fd00::77", NULL, "fd00::2");
        net_close(w.a);
        w.a = open_end(NULL, "fd00::1", gw[i], 1);
        net_wire_watch(w.a, on_frame, &from_a);
        struct sockaddr_in6 to = at6("2001:db8::1", PORT);
        assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&to, &a, &a.s), 0);
        run_for(&w, 100);
        assert_memory_equal(from_a.frame, "\2\0\0\0\0\2", 6);
        assert_memory_equal(from_a.frame + 38, &to.sin6_addr, 16);
        drop(&a);
        end();
    }
}

static void test_prefix(void **state)
{
    (void)state;
    begin(NULL, "fd00::77", NULL, "fd00::2");
    net_close(w.a);
    struct net_cfg cfg = {.kind = NET_PAIR, .name = "w", .mtu = 1500, .prefix6 = 125};
    char err[NET_ERR_TEXT];
    inet_pton(AF_INET6, "fd00::1", &cfg.ip6);
    assert_int_equal(net_open(&cfg, &w.a, err), 0);
    struct sockaddr_in6 in = at6("fd00::7", PORT), out = at6("fd00::8", PORT);
    assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&in, &a, &a.s), 0);
    assert_false(run_until(&w, was_closed, &a, 1000));
    drop(&a);
    assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&out, &a, &a.s), 0);
    assert_true(run_until(&w, was_closed, &a, 100));
    assert_int_equal(a.error, -EHOSTUNREACH);
    end();
}

/* --- frames by hand --- */

static void connected(void)
{
    begin(NULL, "fd00::1", NULL, "fd00::2");
    struct sockaddr_in6 at = at6("fd00::2", PORT);
    listen_at(&at);
    assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&at, &a, &a.s), 0);
    assert_true(run_until(&w, can_accept, &l, 1000));
    b.s = net_accept(l.l);
    net_stream_set_user(b.s, &b);
    a.to_send = b.to_send = 10;
    send_pattern(&a);
    send_pattern(&b);
    run_for(&w, 100);
}

static void still_works(void)
{
    uint64_t before = b.received;
    a.to_send += 5000;
    send_pattern(&a);
    run_for(&w, 3000);
    assert_int_equal(b.received, before + 5000);
    assert_int_equal(b.bad, 0);
    assert_false((a.events | b.events) & NET_EV_CLOSED);
}

/* The next segment of a, 100 octets, the checksums right. Returns its length. */
static uint32_t next_segment(uint8_t *f)
{
    struct vnet_tcp t;
    assert_true(vnet_find_tcp(from_a.frame, from_a.len, from_a.len, &t));
    memcpy(f, from_a.frame, t.pay);
    put_be32(f + t.l4 + 4, get_be32(f + t.l4 + 4) + t.end - t.pay);
    t.end = t.pay + 100;
    for (uint32_t i = 0; i < 100; i++) {
        f[t.pay + i] = pattern(10 + i);
    }
    vnet_put_length(f, &t);
    vnet_put_sums(f, &t);
    return t.end;
}

/* Puts n octets of extension headers, the last of which names TCP, in front of TCP. */
static uint32_t extend(uint8_t *f, uint32_t len, uint8_t first, const uint8_t *x, uint32_t n)
{
    memmove(f + 54 + n, f + 54, len - 54);
    memcpy(f + 54, x, n);
    f[20] = first;
    put_be16(f + 18, get_be16(f + 18) + n);
    return len + n;
}

static void inject(const uint8_t *f, uint32_t len)
{
    net_wire_inject(w.b, f, len);
    turn_one(w.b);
    turn_one(w.a);
}

/* TCP behind extension headers is not taken (its checksum would be nobody's business), in whatever chain
 * and with whatever lengths. */
static void test_extension_headers(void **state)
{
    (void)state;
    connected();
    static const uint8_t kinds[] = {0, 43, 44, 60, 50, 51, 59, 135, 253};
    static uint8_t good[2048], f[2048], x[64];
    uint32_t len = next_segment(good);
    for (uint32_t i = 0; i < 40000; i++) {
        memcpy(f, good, len);
        uint32_t n = 8 * (1 + rnd(4)), at = 0;
        uint8_t first = kinds[rnd(ARRAY_LEN(kinds))];
        for (uint32_t k = 0; k < n; k++) {
            x[k] = rnd(3) == 0 ? (uint8_t)rnd(256) : 0;
        }
        while (at < n) { /* a chain of headers of 8 octets, mostly */
            x[at] = at + 8 == n ? 6 : kinds[rnd(ARRAY_LEN(kinds))];
            x[at + 1] = rnd(8) == 0 ? (uint8_t)rnd(256) : 0;
            at += 8;
        }
        inject(f, extend(f, len, first, x, n));
        assert_int_equal(b.received, 10);
    }
    inject(good, len); /* but this one is */
    assert_int_equal(b.received, 110);
    end();
}

static void put_icmp_sum(uint8_t *f, uint32_t off, uint32_t end)
{
    uint8_t rest[4] = {0, 0, 0, ICMP6};
    put_be16(rest, end - off);
    memset(f + off + 2, 0, 2);
    uint64_t sum = vnet_sum(vnet_sum(vnet_sum(0, f + 22, 32), rest, 4), f + off, end - off);
    uint16_t s = vnet_sum_end(sum);
    memcpy(f + off + 2, &s, 2);
}

static uint32_t icmp(uint8_t *f, const char *from, const char *to, uint8_t type, uint32_t len)
{
    bool group = strncmp(to, "ff", 2) == 0;
    memset(f, 0, 54 + len);
    memcpy(f, group ? "\x33\x33\0\0\0\1" : "\2\0\0\0\0\2", 6);
    memcpy(f + 6, "\2\0\0\0\0\1", 6);
    put_be16(f + 12, VNET_TYPE_IP6);
    f[14] = 0x60;
    put_be16(f + 18, len);
    f[20] = ICMP6;
    f[21] = 255;
    inet_pton(AF_INET6, from, f + 22);
    inet_pton(AF_INET6, to, f + 38);
    f[54] = type;
    return 54 + len;
}

/* Neighbour discovery, MLD and errors full of noise, with good checksums. */
static void test_icmp_noise(void **state)
{
    (void)state;
    connected();
    static const char *const from[] = {"fd00::1", "fe80::ff:fe00:1", "::", "ff02::1", "fd00::2"};
    static const char *const to[] = {"fd00::2", "fe80::ff:fe00:2", "ff02::1", "ff02::1:ff00:2"};
    static const uint8_t types[] = {1,   2,   3,   4,   128, 129, 130, 131,
                                    132, 133, 134, 135, 136, 137, 143};
    static uint8_t f[2048];
    for (uint32_t i = 0; i < 60000; i++) {
        uint32_t len = rnd(4) == 0 ? rnd(120) : 8 * (1 + rnd(12));
        uint8_t type = types[rnd(ARRAY_LEN(types))];
        uint32_t n = icmp(f, from[rnd(5)], to[rnd(4)], type, max_u32(len, 4));
        for (uint32_t k = 58; k < n; k++) {
            f[k] = rnd(2) == 0 ? (uint8_t)rnd(256) : (uint8_t)rnd(4);
        }
        if (n > 78 && rnd(2) == 0) { /* a target that is there */
            inet_pton(AF_INET6, rnd(2) == 0 ? "fd00::2" : "fd00::1", f + 62);
        }
        if (type == NA || type == NS) {
            f[n > 80 ? 79 : 58] = 1;
        }
        put_icmp_sum(f, 54, n);
        inject(f, n);
    }
    /* a's true address has to win in the end. */
    uint32_t n = icmp(f, "fd00::1", "fd00::2", NS, 32);
    inet_pton(AF_INET6, "fd00::2", f + 62);
    memcpy(f + 78, "\1\1\2\0\0\0\0\1", 8);
    put_icmp_sum(f, 54, n);
    inject(f, n);
    still_works();
    end();
}

/* Wrong checksums and foreign addresses get no answer. */
static void test_icmp_filter(void **state)
{
    (void)state;
    connected();
    static uint8_t f[200];
    uint32_t n = icmp(f, "fd00::1", "fd00::2", NS, 32), before = from_b.advertisements;
    inet_pton(AF_INET6, "fd00::2", f + 62);
    memcpy(f + 78, "\1\1\2\0\0\0\0\1", 8);
    put_icmp_sum(f, 54, n);
    f[60] ^= 1;
    inject(f, n);
    assert_int_equal(from_b.advertisements, before);
    f[60] ^= 1;
    f[21] = 254; /* it has come over a router: RFC 4861 sec 7.1.1 */
    inject(f, n);
    assert_int_equal(from_b.advertisements, before);
    f[21] = 255;
    f[5] = 9; /* another's MAC address */
    inject(f, n);
    assert_int_equal(from_b.advertisements, before);
    f[5] = 2;
    inject(f, n);
    assert_int_equal(from_b.advertisements, before + 1);
    end();
}

/* The peer is back with another MAC address: its announcement counts. */
static void test_new_neighbour(void **state)
{
    (void)state;
    connected();
    static uint8_t f[200];
    uint32_t n = icmp(f, "fd00::1", "ff02::1", NA, 32);
    f[58] = 0x20; /* override */
    inet_pton(AF_INET6, "fd00::1", f + 62);
    memcpy(f + 78, "\2\1\2\1\2\3\4\5", 8);
    put_icmp_sum(f, 54, n);
    inject(f, n);
    b.to_send += 100;
    send_pattern(&b);
    turn_one(w.b);
    assert_memory_equal(from_b.frame, "\2\1\2\3\4\5", 6);
    end();
    /* And ours are made when a net is opened. */
    begin(NULL, "fd00::1", NULL, "fd00::2");
    net_close(w.b);
    w.b = NULL;
    from_a.advertisements = 0;
    w.b = open_end(NULL, "fd00::2", NULL, 3);
    struct sockaddr_in6 at = at6("fd00::2", PORT);
    listen_at(&at);
    talk(&at, "fd00::1", "fd00::2");
    end();
}

/* Both ends on one net, by either address. A03 */
static void test_to_self(void **state)
{
    (void)state;
    static const char *const own[] = {"fd00::2", "fe80::ff:fe00:2"};
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        begin(NULL, "fd00::1", "198.18.0.2", "fd00::2");
        struct sockaddr_in6 any = at6("::", PORT), to = at6(own[i], PORT);
        listen_at(&any);
        assert_int_equal(net_connect(w.b, NULL, (struct sockaddr *)&to, &a, &a.s), 0);
        assert_true(run_until(&w, can_accept, &l, 100));
        b.s = net_accept(l.l);
        net_stream_set_user(b.s, &b);
        a.to_send = 1u << 20;
        send_pattern(&a);
        run_for(&w, 200);
        assert_int_equal(b.received, 1u << 20);
        assert_int_equal(b.bad, 0);
        check_ends(b.s, own[i], own[i]);
        end();
    }
}

/* An address that nobody has, one that is there but silent, and the time they take. */
static void test_unreachable(void **state)
{
    (void)state;
    begin(NULL, "fd00::1", NULL, "fd00::2");
    struct sockaddr_in6 nobody = at6("fd00::9", PORT), local = at6("fe80::9", PORT);
    assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&nobody, &a, &a.s), 0);
    assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&local, &b, &b.s), 0);
    assert_true(run_until(&w, was_closed, &a, 11000));
    assert_int_equal(a.error, -EHOSTUNREACH);
    assert_true(run_until(&w, was_closed, &b, 100));
    assert_int_equal(b.error, -EHOSTUNREACH);
    end();
}

int main(void)
{
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_families),     cmocka_unit_test(test_any_port),
        cmocka_unit_test(test_link_local),        cmocka_unit_test(test_families_that_lack),
        cmocka_unit_test(test_gateway),           cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_extension_headers), cmocka_unit_test(test_icmp_noise),
        cmocka_unit_test(test_icmp_filter),       cmocka_unit_test(test_new_neighbour),
        cmocka_unit_test(test_to_self),           cmocka_unit_test(test_unreachable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
