/* SPDX-License-Identifier: MIT */
/* lwIP over an interface of the system through libpcap, in a network namespace of this process alone: a
 * veth against the kernel's TCP at its other end, bridges, TAP. Needs root; skipped (77) without. */
#include <net/ethernet.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "kernel_peer.h"
#include "link_pairs.h"
#include "tcpip/vnet.h"

/* The kernel has an address at one end; the other end is ours. */
#define KERNEL_DEV "uiwk0"
#define OUR_DEV    "uiwp0"

static const uint8_t our_mac[6] = {2, 0, 0, 0, 0, 2};

static int make_veth(void **state)
{
    (void)state;
    char ip[INET6_ADDRSTRLEN];
    sh("ip link add " KERNEL_DEV " type veth peer name " OUR_DEV);
    sh("ip addr add %s/%d dev " KERNEL_DEV " %s", test_ip(KERNEL_IP, ip), test_v6() ? 64 : 24,
       test_v6() ? "nodad" : "");
    sh("ip link set " KERNEL_DEV " up && ip link set " OUR_DEV " up");
    return 0;
}

static void set_mtu(int mtu)
{
    sh("ip link set " KERNEL_DEV " mtu %d && ip link set " OUR_DEV " mtu %d", mtu, mtu);
}

static int try_open(const char *name, const char *ip, uint32_t mtu, struct net **out,
                    char err[NET_ERR_TEXT])
{
    struct net_cfg cfg = {.kind = NET_PCAP, .mtu = mtu};
    snprintf(cfg.name, sizeof cfg.name, "%s", name);
    test_cfg_ip(&cfg, ip);
    if (strcmp(ip, OUR_IP) == 0) {
        memcpy(cfg.mac, our_mac, 6);
    }
    return net_open(&cfg, out, err);
}

static struct net *open_pcap(const char *name, const char *ip)
{
    char err[NET_ERR_TEXT] = "";
    struct net *net = NULL;
    if (try_open(name, ip, 0, &net, err) != 0) {
        fail_msg("%s", err);
    }
    return net;
}

/* --- tests --- */

static void expect_error(const char *name, uint32_t mtu, int error, const char *part)
{
    char err[NET_ERR_TEXT] = "";
    struct net *net = NULL;
    assert_int_equal(try_open(name, OUR_IP, mtu, &net, err), error);
    if (strstr(err, part) == NULL || strchr(err, '\n') != NULL) {
        fail_msg("unexpected text: %s", err);
    }
}

static int open_as_nobody(int unused)
{
    (void)unused;
    char err[NET_ERR_TEXT] = "";
    struct net *net = NULL;
    if (setgid(65534) != 0 || setuid(65534) != 0) {
        return 2;
    }
    int r = try_open(OUR_DEV, OUR_IP, 0, &net, err);
    return r == -EPERM && strstr(err, "CAP_NET_RAW") != NULL ? 0 : 3;
}

static void test_errors(void **state)
{
    (void)state;
    expect_error("nosuch0", 0, -ENODEV, "no such interface");
    expect_error("lo", 0, -ENETDOWN, "the interface is down");
    expect_error("a-name-too-long-for-any", 0, -ENODEV, "no interface");
    expect_error(OUR_DEV, 9001, -EINVAL, "MTU 9001");
    sh("ip tuntap add uiwtun0 mode tun && ip link set uiwtun0 up");
    expect_error("uiwtun0", 0, -ENOTTY, "no Ethernet");
    sh("ip link del uiwtun0");
    finish(start(open_as_nobody, 0));
}

/* With the kernel's offloads its frames are up to 64 KB long and have no checksums; without, they are as
 * on a wire. */
static void test_bulk(void **state)
{
    (void)state;
    static const int mtu[] = {1500, 9000, 1280};
    for (int offload = 1; offload >= 0; offload--) {
        if (!offload &&
            system("ethtool -K " KERNEL_DEV " tx off tso off gso off >/dev/null") != 0) {
            print_message("  no ethtool: part of the test is skipped\n");
            continue;
        }
        for (size_t i = 0; i < ARRAY_LEN(mtu); i++) {
            set_mtu(mtu[i]);
            struct net *net = open_pcap(OUR_DEV, OUR_IP);
            assert_int_equal(net_mtu(net), mtu[i]);
            kernel_accepts(net, emss_at(mtu[i]));
            kernel_connects(net, emss_at(mtu[i]));
            net_close(net);
        }
    }
    (void)system("ethtool -K " KERNEL_DEV " tx on tso on gso on >/dev/null");
    set_mtu(1500);
    assert_int_equal(net_test_asserts(), 0);
}

/* --- two nets of this process --- */

static void test_both_ends(void **state)
{
    (void)state;
    struct two t = {.net = {open_pcap(KERNEL_DEV, "198.18.0.11"), open_pcap(OUR_DEV, OUR_IP)}};
    join(&t, OUR_IP, OCTETS);
    ends_well(&t, OCTETS);
    close_both(&t);
}

/* On a bridge: a TAP, a veth of whose ends one is a port, and the bridge itself. */
static void test_bridge(void **state)
{
    (void)state;
    sh("ip link add uiwbr0 type bridge && ip link set uiwbr0 up");
    sh("ip tuntap add uiwt0 mode tap && ip link set uiwt0 master uiwbr0 up");
    sh("ip link add uiwv0 type veth peer name uiwv1");
    sh("ip link set uiwv1 master uiwbr0 up && ip link set uiwv0 up");
    static const char *const where[] = {"uiwv0", "uiwbr0"};
    for (size_t i = 0; i < ARRAY_LEN(where); i++) {
        for (int first = 0; first < 2; first++) {
            struct two t;
            t.net[first] = open_pcap(where[i], "198.18.1.1");
            t.net[1 - first] = open_dev(NET_TAP, "uiwt0", "198.18.1.2", 0);
            join(&t, first == 0 ? "198.18.1.2" : "198.18.1.1", OCTETS);
            ends_well(&t, OCTETS);
            close_both(&t);
        }
    }
    sh("ip link del uiwbr0 && ip link del uiwt0 && ip link del uiwv0");
}

/* TAP and pcap on the VLANs of one bridge: their frames have the tag, whoever cuts and sums them; what has
 * another tag, or none, is not heard. */
static void test_vlan(void **state)
{
    (void)state;
    static const struct {
        uint16_t tap, pcap;
        bool offload;
    } cases[] = {{7, 7, true}, {7, 7, false}, {4094, 4094, true},
                 {7, 8, true}, {0, 7, true},  {7, 0, true}};
    sh("ip link add uiwbr0 type bridge && ip link set uiwbr0 up");
    sh("ip tuntap add uiwt0 mode tap && ip link set uiwt0 master uiwbr0 up");
    sh("ip link add uiwv0 type veth peer name uiwv1");
    sh("ip link set uiwv1 master uiwbr0 up && ip link set uiwv0 up");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (!cases[i].offload &&
            system("ethtool -K uiwv1 tx off tso off gso off >/dev/null") != 0) {
            continue; /* else the kernel has to cut tagged frames here */
        }
        struct two t = {.net = {open_dev(NET_TAP, "uiwt0", "198.18.1.1", cases[i].tap),
                                open_dev(NET_PCAP, "uiwv0", "198.18.1.2", cases[i].pcap)}};
        if (cases[i].tap == cases[i].pcap) {
            join(&t, "198.18.1.2", OCTETS);
            ends_well(&t, OCTETS);
        } else {
            apart(&t, "198.18.1.2");
        }
        close_both(&t);
    }
    sh("ip link del uiwbr0 && ip link del uiwt0 && ip link del uiwv0");
}

/* Several nets of one process, which are one lwIP: TAP to pcap over a bridge, and two ends of shared memory,
 * with two streams at once. */
static void test_several_nets(void **state)
{
    (void)state;
    sh("ip link add uiwbr0 type bridge && ip link set uiwbr0 up");
    sh("ip tuntap add uiwt0 mode tap && ip link set uiwt0 master uiwbr0 up");
    sh("ip link add uiwv0 type veth peer name uiwv1");
    sh("ip link set uiwv1 master uiwbr0 up && ip link set uiwv0 up");
    char path[64];
    snprintf(path, sizeof path, "/tmp/uiw-several-%d", (int)getpid());
    struct two t = {.net = {open_dev(NET_TAP, "uiwt0", "198.18.1.1", 0),
                            open_dev(NET_PCAP, "uiwv0", "198.18.1.2", 0)}};
    struct two m = {.net = {open_dev(NET_SHM, path, "198.18.2.1", 0),
                            open_dev(NET_SHM, path, "198.18.2.2", 0)}};
    for (int i = 0; i < 2; i++) {
        join(&t, "198.18.1.2", OCTETS);
        join(&m, "198.18.2.2", OCTETS);
        uint64_t end = net_now_ms() + 60000;
        while (!was_closed(&t.n[0]) || !was_closed(&t.n[1]) || !was_closed(&m.n[0]) ||
               !was_closed(&m.n[1])) {
            assert_true(net_now_ms() < end);
            turn_one(t.net[0]);
            turn_one(m.net[0]);
            turn_one(t.net[1]);
            turn_one(m.net[1]);
        }
        ends_well(&t, OCTETS);
        ends_well(&m, OCTETS);
    }
    /* One goes, the others stay as they are; and another net is another network. */
    close_both(&t);
    struct sockaddr_storage far = test_addr("198.18.1.2", PAIR_PORT);
    struct seen n = {0};
    assert_int_equal(net_connect(m.net[0], NULL, (struct sockaddr *)&far, &n, &n.s), 0);
    assert_true(until_both(&m, was_closed, &n, 1000));
    assert_int_equal(n.error, -EHOSTUNREACH);
    net_stream_close(n.s, true);
    join(&m, "198.18.2.2", OCTETS);
    ends_well(&m, OCTETS);
    close_both(&m);
    sh("ip link del uiwbr0 && ip link del uiwt0 && ip link del uiwv0");
}

/* --- what is not right --- */

static uint32_t put_ip(uint8_t *f)
{
    memcpy(f, our_mac, 6);
    memcpy(f + 6, "\2\0\0\0\0\7", 6);
    if (test_v6()) {
        struct in6_addr from = test_ip6("198.18.0.7"), to = test_ip6(OUR_IP);
        put_be16(f + 12, VNET_TYPE_IP6);
        memcpy(f + 14, "\x60\0\0\0\0\0\6\x40", 8);
        memcpy(f + 22, &from, 16);
        memcpy(f + 38, &to, 16);
        return 54;
    }
    put_be16(f + 12, VNET_TYPE_IP4);
    memcpy(f + 14, "\x45\0\0\0\0\0\0\0\x40\6", 10);
    inet_pton(AF_INET, "198.18.0.7", f + 26);
    inet_pton(AF_INET, OUR_IP, f + 30);
    return 34;
}

/* A SYN to our listener from an address that the kernel does not have. */
static struct vnet_tcp make_syn(uint8_t *f, uint16_t port)
{
    memset(f, 0, 100);
    uint32_t l4 = put_ip(f);
    struct vnet_tcp t = {l4, l4 + 20, l4 + 20, test_v6()};
    put_be16(f + l4, port);
    put_be16(f + l4 + 2, PORT);
    put_be32(f + l4 + 4, 1000);
    f[l4 + 12] = 0x50;
    f[l4 + 13] = VNET_SYN;
    put_be16(f + l4 + 14, 0x4000);
    vnet_put_length(f, &t);
    vnet_put_sums(f, &t);
    return t;
}

/* Somebody was asked for 198.18.0.7: we took the SYN, and would answer. */
static bool asks(void *arg)
{
    int s = *(int *)arg;
    uint8_t f[200];
    ssize_t n = recv(s, f, sizeof f, MSG_DONTWAIT);
    if (n < 42 || memcmp(f + 6, our_mac, 6) != 0) {
        return false;
    }
    struct in6_addr who = test_ip6("198.18.0.7");
    return test_v6() ? f[54] == 135 && memcmp(f + 62, &who, 16) == 0
                     : get_be16(f + 12) == VNET_TYPE_ARP && memcmp(f + 38, "\xc6\x12\0\7", 4) == 0;
}

/* Only a right checksum, or the one that says "not summed yet", gets in. */
static void test_checksums(void **state)
{
    (void)state;
    static const struct {
        int kind; /* 0: right, 1: partial, 2: wrong */
        bool taken;
    } cases[] = {{2, false}, {0, true}, {2, false}, {1, true}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct net *net = open_pcap(OUR_DEV, OUR_IP);
        struct sockaddr_storage at = test_addr(OUR_IP, PORT);
        struct seen l = {0};
        assert_int_equal(net_listen(net, (struct sockaddr *)&at, 4, &l, &l.l), 0);
        struct sockaddr_ll ll = {.sll_family = AF_PACKET,
                                 .sll_protocol = htons(ETH_P_ALL),
                                 .sll_ifindex = (int)if_nametoindex(KERNEL_DEV)};
        int s = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
        assert_int_equal(bind(s, (struct sockaddr *)&ll, sizeof ll), 0);
        uint8_t f[100];
        struct vnet_tcp t = make_syn(f, (uint16_t)(2000 + i));
        struct virtio_net_hdr vh = {0};
        if (cases[i].kind == 1) {
            vnet_offload(f, &t, 1000, &vh);
        } else if (cases[i].kind == 2) {
            f[t.l4 + 16] ^= 0x10;
        }
        assert_int_equal(send(s, f, t.end, 0), t.end);
        assert_int_equal(wait_until(net, asks, &s, 300), cases[i].taken);
        close(s);
        net_listener_close(l.l);
        net_close(net);
    }
}

/* --- the interface changes --- */

/* Down for a while in the midst of it: the streams go on. */
static void test_down_and_up(void **state)
{
    (void)state;
    struct two t = {.net = {open_pcap(KERNEL_DEV, "198.18.0.11"), open_pcap(OUR_DEV, OUR_IP)}};
    join(&t, OUR_IP, FOR_EVER);
    assert_true(until_both(&t, got_some, &t.n[1], 20000));
    for (int i = 0; i < 3; i++) {
        sh("ip link set " OUR_DEV " down");
        until_both(&t, never, NULL, 700);
        assert_false((t.n[0].events | t.n[1].events) & NET_EV_CLOSED);
        sh("ip link set " OUR_DEV " up");
        until_both(&t, never, NULL, 300);
    }
    ends_whole(&t);
    close_both(&t);
    sh("ip addr flush dev " KERNEL_DEV);
    sh("ip link del " KERNEL_DEV);
    make_veth(NULL);
}

/* A lower MTU counts for streams that stand already, a higher one as well. */
static void test_mtu_change(void **state)
{
    (void)state;
    set_mtu(4000);
    struct two t = {.net = {open_pcap(KERNEL_DEV, "198.18.0.11"), open_pcap(OUR_DEV, OUR_IP)}};
    join(&t, OUR_IP, FOR_EVER);
    assert_true(until_both(&t, got_some, &t.n[1], 20000));
    assert_int_equal(net_emss(t.n[0].s), emss_at(4000));
    set_mtu(1400);
    until_both(&t, never, NULL, 500);
    assert_int_equal(net_mtu(t.net[0]), 1400);
    assert_int_equal(net_emss(t.n[0].s), emss_at(1400));
    assert_int_equal(net_emss(t.n[1].s), emss_at(1400));
    set_mtu(9000);
    until_both(&t, never, NULL, 500);
    assert_int_equal(net_emss(t.n[0].s), emss_at(4000)); /* what the peer had said */
    ends_whole(&t);
    close_both(&t);
    set_mtu(1500);
}

/* Removed: the streams end, the net says so, and nothing spins. */
static void test_goes_away(void **state)
{
    (void)state;
    struct two t = {.net = {open_pcap(KERNEL_DEV, "198.18.0.11"), open_pcap(OUR_DEV, OUR_IP)}};
    join(&t, OUR_IP, FOR_EVER);
    assert_true(until_both(&t, got_some, &t.n[1], 20000));
    sh("ip link del " OUR_DEV);
    assert_true(until_both(&t, was_closed, &t.n[0], 3000));
    assert_true(until_both(&t, was_closed, &t.n[1], 3000));
    assert_int_equal(t.n[0].error, -ECONNRESET);
    uint64_t end = net_now_ms() + 300;
    uint32_t turns = 0;
    for (; net_now_ms() < end; turns++) {
        turn_both(&t);
    }
    assert_true(turns < 1000);
    assert_true(net_gone(t.net[0]));
    assert_true(net_gone(t.net[1]));
    net_stream_close(t.n[0].s, true);
    net_stream_close(t.n[1].s, true);
    net_listener_close(t.l.l);
    close_both(&t);
}

int main(void)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) {
        puts("link_pcap: skipped, it takes root and network namespaces");
        return 77;
    }
    if (system("ip link add uiwx type veth peer name uiwy 2>/dev/null && ip link del uiwx") != 0) {
        puts("link_pcap: skipped, no ip tool or no veth");
        return 77;
    }
    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),     cmocka_unit_test(test_bulk),
        cmocka_unit_test(test_both_ends),  cmocka_unit_test(test_bridge),
        cmocka_unit_test(test_vlan),       cmocka_unit_test(test_several_nets),
        cmocka_unit_test(test_checksums),  cmocka_unit_test(test_down_and_up),
        cmocka_unit_test(test_mtu_change), cmocka_unit_test(test_goes_away),
    };
    return cmocka_run_group_tests(tests, make_veth, NULL);
}
