/* SPDX-License-Identifier: MIT */
/* A path on which a router has no room for packets of the link's size, and says so. */
#include "net_testing.h"
#include "tcpip/vnet.h"

static struct wire_ends w;
static struct seen l, a, b;

/* Of the packets that left a since 'longest' was set to 0: the longest, and how many may not be cut. */
static uint8_t last[1600];
static uint32_t longest, whole;

static void on_packet(void *arg, const uint8_t *f, uint32_t len)
{
    (void)arg;
    struct vnet_tcp t;
    if (vnet_find_tcp(f, len, len, &t) && t.end > t.pay) {
        if (t.end - VNET_ETH >= longest) {
            longest = t.end - VNET_ETH;
            memcpy(last, f, min_u32(t.end, sizeof last));
        }
        whole += t.v6 || (get_be16(f + VNET_ETH + 6) & 0x4000) != 0;
    }
}

static void connected(void)
{
    memset(&l, 0, sizeof l);
    a = b = l;
    w = wire_open(1500);
    net_wire_tap(w.a, on_packet, NULL);
    make_stream(&w, &l, &a, &b);
}

static void end(void)
{
    net_stream_close(a.s, true);
    net_stream_close(b.s, true);
    net_listener_close(l.l);
    wire_close(&w);
}

/* Sends so much that something is on its way, unacknowledged, when this returns. */
static void some_on_its_way(void)
{
    longest = whole = 0;
    a.to_send += 100000;
    send_pattern(&a);
    net_flush(w.a);
}

static void all_arrives(void)
{
    run_for(&w, 3000);
    assert_int_equal(b.received, a.to_send);
    assert_int_equal(b.bad, 0);
    assert_false((a.events | b.events) & NET_EV_CLOSED);
}

/* What a message says and how it lies. */
struct message {
    uint32_t mtu;
    uint32_t seq_add, port_add, len_add;
    bool bad_sum, other_code, cut;
};

static uint32_t build4(const struct message *m, uint8_t *f)
{
    uint8_t *ip = f + VNET_ETH, *icmp = ip + 20;
    uint32_t quoted = m->cut ? 20 + 4 : 20 + 8, len = 8 + quoted;
    static const uint8_t router[4] = {198, 18, 0, 99};
    put_be16(f + 12, VNET_TYPE_IP4);
    ip[0] = 0x45;
    put_be16(ip + 2, 20 + len);
    ip[8] = 64;
    ip[9] = 1;
    memcpy(ip + 12, router, 4);
    memcpy(ip + 16, last + VNET_ETH + 12, 4);
    icmp[0] = 3;
    icmp[1] = m->other_code ? 3 : 4;
    put_be16(icmp + 6, m->mtu);
    uint8_t *q = icmp + 8;
    memcpy(q, last + VNET_ETH, quoted);
    put_be16(q + 2, get_be16(q + 2) + m->len_add);
    put_be16(q + 20, get_be16(q + 20) + m->port_add);
    if (!m->cut) {
        put_be32(q + 24, get_be32(q + 24) + m->seq_add);
    }
    uint16_t sum = vnet_sum_end(vnet_sum(0, ip, 20));
    memcpy(ip + 10, &sum, 2);
    sum = vnet_sum_end(vnet_sum(0, icmp, len));
    memcpy(icmp + 2, &sum, 2);
    icmp[3] ^= m->bad_sum;
    return VNET_ETH + 20 + len;
}

static uint32_t build6(const struct message *m, uint8_t *f)
{
    uint8_t *ip = f + VNET_ETH, *icmp = ip + 40;
    uint32_t quoted = m->cut ? 40 + 4 : 40 + 8, len = 8 + quoted;
    put_be16(f + 12, VNET_TYPE_IP6);
    ip[0] = 0x60;
    put_be16(ip + 4, len);
    ip[6] = 58;
    ip[7] = 64;
    memcpy(ip + 8, last + VNET_ETH + 24, 16);
    memcpy(ip + 24, last + VNET_ETH + 8, 16);
    icmp[0] = m->other_code ? 1 : 2;
    put_be32(icmp + 4, m->mtu);
    uint8_t *q = icmp + 8;
    memcpy(q, last + VNET_ETH, quoted);
    put_be16(q + 4, get_be16(q + 4) + m->len_add);
    put_be16(q + 40, get_be16(q + 40) + m->port_add);
    if (!m->cut) {
        put_be32(q + 44, get_be32(q + 44) + m->seq_add);
    }
    uint8_t rest[4] = {0, 0, 0, 58};
    put_be16(rest, len);
    uint64_t pseudo = vnet_sum(vnet_sum(0, ip + 8, 32), rest, 4);
    uint16_t sum = vnet_sum_end(vnet_sum(pseudo, icmp, len));
    memcpy(icmp + 2, &sum, 2);
    icmp[3] ^= m->bad_sum;
    return VNET_ETH + 40 + len;
}

static void tell(const struct message *m)
{
    uint8_t f[256] = {0};
    memcpy(f, last + 6, 6);
    memcpy(f + 6, last, 6);
    uint32_t len = test_v6() ? build6(m, f) : build4(m, f);
    net_wire_inject(w.a, f, len);
    turn_one(w.a);
}

/* Packets are as long as the path has room for from then on, however often it narrows, and never longer
 * again; FPDUs lie in whole segments, so the EMSS is a multiple of 4. */
static void test_path_narrows(void **state)
{
    (void)state;
    static const uint32_t mtu[] = {1400, 1300, 1450};
    uint32_t now = 1500;
    connected();
    for (size_t i = 0; i < ARRAY_LEN(mtu); i++) {
        some_on_its_way();
        assert_in_range(longest, now - 3, now);
        assert_true(whole > 0);
        tell(&(struct message){.mtu = mtu[i]});
        all_arrives();
        now = min_u32(now, mtu[i]);
        assert_in_range(net_emss(a.s), now - test_headers() - 3, now - test_headers());
        assert_int_equal(net_emss(a.s) % 4, 0);
        longest = 0;
    }
    some_on_its_way();
    assert_in_range(longest, now - 3, now);
    all_arrives();
    end();
}

/* Anybody can send such messages. */
static void test_lies(void **state)
{
    (void)state;
    static const struct message lie[] = {
        {.mtu = 1400, .seq_add = 0x10000000},
        {.mtu = 1400, .seq_add = (uint32_t)-1000000},
        {.mtu = 1400, .port_add = 1},
        {.mtu = 1400, .bad_sum = true},
        {.mtu = 1400, .other_code = true},
        {.mtu = 1400, .cut = true},
        {.mtu = 1600},
        {.mtu = 1400, .len_add = (uint32_t)-1000},
    };
    connected();
    for (size_t i = 0; i < ARRAY_LEN(lie); i++) {
        some_on_its_way();
        tell(&lie[i]);
        all_arrives();
        assert_in_range(net_emss(a.s), 1500 - test_headers() - 3, 1500 - test_headers());
    }
    some_on_its_way();
    if (test_v6()) { /* more than 16 bits, of a packet that was longer still */
        tell(&(struct message){.mtu = 65560, .len_add = 64070});
    }
    tell(&(struct message){.mtu = 1400});
    assert_in_range(net_emss(a.s), 1400 - test_headers() - 3, 1400 - test_headers());
    all_arrives();
    end();
}

/* No path is as narrow as that. */
static void test_least(void **state)
{
    (void)state;
    static const uint32_t mtu[] = {0, 68};
    for (size_t i = 0; i < ARRAY_LEN(mtu); i++) {
        connected();
        some_on_its_way();
        tell(&(struct message){.mtu = mtu[i]});
        all_arrives();
        assert_int_equal(net_emss(a.s), ((test_v6() ? 1280 : 552) - test_headers()) & ~3u);
        end();
    }
}

int main(void)
{
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path_narrows),
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
