/* SPDX-License-Identifier: MIT */
/* lwIP over a TAP against the kernel's TCP, in a network namespace of this process alone. Needs
 * root; skipped (77) without. */
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "kernel_peer.h"
#include "link_pairs.h"

#define DEV "uiwtest0"
/* --- the namespace and its interface --- */

static void request(unsigned long what, struct ifreq *rq)
{
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    assert_true(s >= 0);
    strcpy(rq->ifr_name, DEV);
    assert_int_equal(ioctl(s, what, rq), 0);
    close(s);
}

static void device_flags(short flags)
{
    struct ifreq rq = {.ifr_flags = flags};
    request(SIOCSIFFLAGS, &rq);
}

static void device_mtu(int mtu)
{
    struct ifreq rq = {.ifr_mtu = mtu};
    request(SIOCSIFMTU, &rq);
}

/* Without duplicate address detection, which would wait for the carrier, and kept while it is down: the
 * kernel's streams would end with the address. */
static void device_ip6(void)
{
    char command[100], ip[INET6_ADDRSTRLEN];
    snprintf(command, sizeof command, "ip addr replace %s/64 dev " DEV " nodad",
             test_ip(KERNEL_IP, ip));
    assert_int_equal(system(command), 0);
    sh("echo 1 >/proc/sys/net/ipv6/conf/" DEV "/keep_addr_on_down");
}

/* Down, an interface loses its IPv6 addresses. */
static void device_up(void)
{
    device_flags(IFF_UP);
    if (test_v6()) {
        device_ip6();
    }
}

static int make_device(void **state)
{
    (void)state;
    int fd = open("/dev/net/tun", O_RDWR);
    struct ifreq rq = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    strcpy(rq.ifr_name, DEV);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &rq) != 0 || ioctl(fd, TUNSETPERSIST, 1) != 0) {
        return -1;
    }
    close(fd);
    struct sockaddr_in ip = {.sin_family = AF_INET}, mask = ip;
    inet_pton(AF_INET, KERNEL_IP, &ip.sin_addr);
    inet_pton(AF_INET, "255.255.255.0", &mask.sin_addr);
    memcpy(&rq.ifr_addr, &ip, sizeof ip);
    request(SIOCSIFADDR, &rq);
    memcpy(&rq.ifr_netmask, &mask, sizeof mask);
    request(SIOCSIFNETMASK, &rq);
    device_up();
    return 0;
}

static int try_open(const char *name, uint32_t mtu, struct net **out, char err[NET_ERR_TEXT])
{
    struct net_cfg cfg = {.kind = NET_TAP, .mtu = mtu};
    snprintf(cfg.name, sizeof cfg.name, "%s", name);
    test_cfg_ip(&cfg, OUR_IP);
    return net_open(&cfg, out, err);
}

static struct net *open_tap(void)
{
    char err[NET_ERR_TEXT] = "";
    struct net *net = NULL;
    if (try_open(DEV, 0, &net, err) != 0) {
        fail_msg("%s", err);
    }
    return net;
}

/* --- tests --- */

static void we_connect(int mtu)
{
    device_mtu(mtu);
    struct net *net = open_tap();
    kernel_accepts(net, emss_at(mtu));
    net_close(net);
}

static void we_listen(int mtu)
{
    device_mtu(mtu);
    struct net *net = open_tap();
    kernel_connects(net, emss_at(mtu));
    net_close(net);
}

static void test_bulk(void **state)
{
    (void)state;
    static const int mtu[] = {1500, 9000, 65521, 1280, 576};
    for (size_t i = 0; i < sizeof mtu / sizeof mtu[0] - (test_v6() ? 1 : 0); i++) {
        we_connect(mtu[i]);
        we_listen(mtu[i]);
        assert_int_equal(net_test_asserts(), 0);
    }
}

/* The kernel has its address on a VLAN interface upon the TAP then; other VLANs are other networks. */
static void test_vlan(void **state)
{
    (void)state;
    static const int mtu[] = {1500, 9000};
    char ip[INET6_ADDRSTRLEN];
    test_ip(KERNEL_IP, ip);
    if (system("ip link add link " DEV " name uiwvlan7 type vlan id 7 2>/dev/null") != 0) {
        print_message("  this kernel knows no VLANs: skipped\n");
        return;
    }
    sh("ip addr flush dev " DEV);
    for (size_t i = 0; i < ARRAY_LEN(mtu); i++) {
        device_mtu(mtu[i]);
        sh("ip link set uiwvlan7 up mtu %d && ip addr replace %s/%d dev uiwvlan7 %s", mtu[i], ip,
           test_v6() ? 64 : 24, test_v6() ? "nodad" : "");
        struct net *net = open_dev(NET_TAP, DEV, OUR_IP, 7);
        kernel_accepts(net, emss_at(mtu[i]));
        kernel_connects(net, emss_at(mtu[i]));
        net_close(net);
        static const uint16_t wrong[] = {0, 8};
        for (size_t k = 0; k < ARRAY_LEN(wrong); k++) {
            struct sockaddr_storage at = test_addr(KERNEL_IP, PORT);
            struct seen n = {0};
            net = open_dev(NET_TAP, DEV, OUR_IP, wrong[k]);
            assert_int_equal(net_connect(net, NULL, (struct sockaddr *)&at, &n, &n.s), 0);
            assert_false(wait_until(net, has_event, &n, 300));
            net_stream_close(n.s, true);
            net_close(net);
        }
    }
    device_mtu(1500);
    sh("ip link del uiwvlan7 && ip addr add %s/%d dev " DEV " %s", ip, test_v6() ? 64 : 24,
       test_v6() ? "nodad" : "");
}

static uint64_t goal;

static bool got_goal(void *arg)
{
    return ((struct seen *)arg)->received >= goal || was_closed(arg);
}

/* Bulk both ways; in its midst the interface goes down twice, and the MTU down and up. */
static void test_interface_changes(void **state)
{
    (void)state;
    device_mtu(4000);
    struct net *net = open_tap();
    int l = kernel_socket();
    struct sockaddr_storage at = test_addr(KERNEL_IP, PORT);
    assert_int_equal(bind(l, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(l, 1), 0);
    pid_t pid = start(kernel_server, l);
    struct seen n = {.to_send = OCTETS, .want = OCTETS, .piece = 60000};
    assert_int_equal(net_connect(net, NULL, (struct sockaddr *)&at, &n, &n.s), 0);
    assert_true(wait_until(net, has_event, &n, 5000));
    assert_int_equal(net_emss(n.s), emss_at(4000));
    for (int i = 0; i < 2; i++) {
        int mtu = i == 0 ? 1400 : 9000;
        goal = n.received + (4 << 20);
        n.hold = false;
        take_pattern(&n);
        assert_true(wait_until(net, got_goal, &n, 20000));
        device_flags(0);
        n.hold = true; /* there is something left to do afterwards */
        wait_until(net, never, NULL, 600);
        device_up();
        wait_until(net, never, NULL, 200);
        assert_false(n.events & NET_EV_CLOSED);
        device_mtu(mtu);
        wait_until(net, never, NULL, 300);
        assert_int_equal(net_mtu(net), mtu);
        assert_int_equal(net_emss(n.s), emss_at(mtu < 4000 ? mtu : 4000));
    }
    n.hold = false;
    take_pattern(&n);
    run_to_end(net, &n);
    finish(pid);
    close(l);
    net_close(net);
    device_mtu(1500);
}

static void test_unreachable(void **state)
{
    (void)state;
    device_mtu(1500);
    struct net *net = open_tap();
    struct sockaddr_storage refused = test_addr(KERNEL_IP, 9), silent = test_addr("198.18.0.77", 9),
                            off = test_addr("198.19.0.1", 9);
    struct seen n[3] = {{0}};
    assert_int_equal(net_connect(net, NULL, (struct sockaddr *)&refused, &n[0], &n[0].s), 0);
    assert_int_equal(net_connect(net, NULL, (struct sockaddr *)&silent, &n[1], &n[1].s), 0);
    assert_int_equal(net_connect(net, NULL, (struct sockaddr *)&off, &n[2], &n[2].s), 0);
    assert_true(wait_until(net, was_closed, &n[0], 3000));
    assert_int_equal(n[0].error, -ECONNREFUSED);
    assert_true(wait_until(net, was_closed, &n[2], 1000));
    assert_int_equal(n[2].error, -EHOSTUNREACH);
    assert_true(wait_until(net, was_closed, &n[1], 12000));
    assert_int_equal(n[1].error, -EHOSTUNREACH);
    for (int i = 0; i < 3; i++) {
        net_stream_close(n[i].s, true);
    }
    net_close(net);
}

static bool answered(void *arg)
{
    int s = *(int *)arg;
    uint8_t b[256];
    ssize_t n = recv(s, b, sizeof b, MSG_DONTWAIT);
    return test_v6() ? n >= 8 && b[0] == 129 : n >= 28 && b[20] == ICMP_ECHOREPLY;
}

static void test_ping(void **state)
{
    (void)state;
    struct net *net = open_tap();
    int s = test_v6() ? socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6)
                      : socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    assert_true(s >= 0);
    struct sockaddr_storage to = test_addr(OUR_IP, 0);
    uint8_t echo[64] = {ICMP_ECHO, 0, 0xf7, 0xff}; /* the checksum of that */
    echo[0] = test_v6() ? 128 : ICMP_ECHO;         /* there the kernel sums */
    assert_int_equal(sendto(s, echo, sizeof echo, 0, (struct sockaddr *)&to, sizeof to), 64);
    assert_true(wait_until(net, answered, &s, 3000));
    close(s);
    net_close(net);
}

static void expect_error(const char *name, uint32_t mtu, int error, const char *part)
{
    char err[NET_ERR_TEXT] = "";
    struct net *net = NULL;
    assert_int_equal(try_open(name, mtu, &net, err), error);
    if (strstr(err, part) == NULL || strchr(err, '\n') != NULL) {
        fail_msg("unexpected text: %s", err);
    }
}

static void test_errors(void **state)
{
    (void)state;
    expect_error("nosuch0", 0, -ENODEV, "no such interface");
    expect_error("lo", 0, -ENETDOWN, "down");
    expect_error("a-name-too-long-for-any", 0, -ENODEV, "no interface");
    expect_error(DEV, 9001, -EINVAL, "MTU 9001");
    int fd = open("/dev/net/tun", O_RDWR);
    struct ifreq rq = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    strcpy(rq.ifr_name, DEV);
    assert_int_equal(ioctl(fd, TUNSETIFF, &rq), 0);
    expect_error(DEV, 0, -EBUSY, "in use by another process");
    close(fd);
    device_flags(0);
    expect_error(DEV, 0, -ENETDOWN, "the interface is down");
    device_up();
}

static int open_as_nobody(int unused)
{
    (void)unused;
    char err[NET_ERR_TEXT] = "";
    struct net *net = NULL;
    if (setgid(65534) != 0 || setuid(65534) != 0) {
        return 2;
    }
    int r = try_open(DEV, 0, &net, err);
    return (r == -EPERM || r == -EACCES) && strstr(err, "ermission") != NULL ? 0 : 3;
}

static void test_permission(void **state)
{
    (void)state;
    finish(start(open_as_nobody, 0));
}

/* Down and up again: the stream goes on. Removed: it ends, and nothing spins. */
static void test_device_goes_away(void **state)
{
    (void)state;
    int s = kernel_socket();
    struct sockaddr_storage at = test_addr(KERNEL_IP, PORT);
    assert_int_equal(bind(s, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(s, 1), 0);
    struct net *net = open_tap();
    struct seen n = {.to_send = 1000};
    assert_int_equal(net_connect(net, NULL, (struct sockaddr *)&at, &n, &n.s), 0);
    assert_true(wait_until(net, has_event, &n, 5000));
    assert_false(n.events & NET_EV_CLOSED);
    device_flags(0);
    wait_until(net, was_closed, &n, 300);
    device_up();
    assert_false(n.events & NET_EV_CLOSED);
    assert_false(net_gone(net));
    char command[64];
    snprintf(command, sizeof command, "ip link del %s", DEV);
    bool removed = system(command) == 0;
    if (!removed) {
        print_message("  no ip tool: part of the test is skipped\n");
        n.events |= NET_EV_CLOSED;
    }
    assert_true(wait_until(net, was_closed, &n, 1000));
    assert_int_equal(net_gone(net), removed);
    uint32_t turns = 0;
    uint64_t until = net_now_ms() + 300;
    while (net_now_ms() < until) {
        turn_one(net);
        struct pollfd p = {net_fd(net), POLLIN, 0};
        (void)poll(&p, 1, net_timeout_ms(net));
        net_woken(net);
        turns++;
    }
    assert_true(turns < 1000);
    net_stream_close(n.s, false);
    net_close(net);
    close(s);
}

int main(void)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) {
        puts("link_tap: skipped, it takes root and network namespaces");
        return 77;
    }
    if (access("/dev/net/tun", R_OK | W_OK) != 0) {
        puts("link_tap: skipped, no /dev/net/tun");
        return 77;
    }
    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_permission),
        cmocka_unit_test(test_ping),
        cmocka_unit_test(test_bulk),
        cmocka_unit_test(test_unreachable),
        cmocka_unit_test(test_vlan),
        cmocka_unit_test(test_interface_changes),
        cmocka_unit_test(test_device_goes_away),
    };
    return cmocka_run_group_tests(tests, make_device, NULL);
}
