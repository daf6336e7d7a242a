/* SPDX-License-Identifier: MIT */
/* Device strings: every fault is named, and opening a device harms nothing that was there. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim.h"

static void test_bad_strings(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *named;
    } all[] = {
        {"", "UIW_DEVICE"},
        {"tap", "KIND:NAME"},
        {"tap:,ip=198.18.0.1", "tap"},
        {"eth:x,ip=198.18.0.1", "eth"},
        {"pair:x", "ip= is missing"},
        {"pair:x,ip=1.2.3", "ip=1.2.3"},
        {"pair:x,ip=198.18.0.1/31", "/31"},
        {"pair:x,ip=127.0.0.1", "127.0.0.1"},
        {"pair:x,ip=198.18.0.255/24", "198.18.0.255"},
        {"pair:x,ip=198.18.0.0/24", "198.18.0.0"},
        {"pair:x,ip=224.0.0.1", "224.0.0.1"},
        {"pair:x,ip=198.18.0.1,gw=10.0.0.1", "gw=10.0.0.1"},
        {"pair:x,ip=198.18.0.1,gw=0.0.0.0", "gw=0.0.0.0"},
        {"pair:x,ip=198.18.0.1,gw=198.18.0.0", "gw=198.18.0.0: expected another host"},
        {"pair:x,ip=198.18.0.1,gw=198.18.0.255", "gw=198.18.0.255: expected another host"},
        {"pair:x,ip=198.18.0.1,gw=198.18.0.1", "gw=198.18.0.1: expected another host"},
        {"pair:x,ip=fd00::1,gw=fd00::1", "gw=fd00::1: expected a link-local address or another"},
        {"pair:x,ip=fe80::1,gw=fe80::1", "gw=fe80::1: expected a link-local address or another"},
        {"pair:x,ip=fd00::1,gw=::", "gw=::"},
        {"pair:x,ip=198.18.0.1,mac=00:00:00:00:00:00", "mac=00:00:00:00:00:00"},
        {"sock:fe80::1", "fe80::1 is link-local, expected its interface"},
        {"sock:,ip=fe80::1", "fe80::1 is link-local, expected its interface"},
        {"pair:x,ip=198.18.0.1,ip=198.18.0.2", "ip is given twice for IPv4"},
        {"pair:x,ip=fd00::1,ip=198.18.0.1,ip=fd00::2", "ip is given twice for IPv6"},
        {"pair:x,ip=fd00::1/63", "ip=fd00::1/63"},
        {"pair:x,ip=fd00::1/129", "ip=fd00::1/129"},
        {"pair:x,ip=fd00::g", "ip=fd00::g"},
        {"pair:x,ip=fd00::1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17", "ip=fd00::1:2"},
        {"pair:x,ip=::", "ip=::"},
        {"pair:x,ip=::1", "ip=::1/64"},
        {"pair:x,ip=ff02::1", "ip=ff02::1/64"},
        {"pair:x,ip=::ffff:198.18.0.1", "expected the address of a host"},
        {"pair:x,ip=fd00::1,gw=fd00:0:0:1::1", "gw=fd00:0:0:1::1"},
        {"pair:x,ip=fd00::1/126,gw=fd00::5", "gw=fd00::5"},
        {"pair:x,ip=fd00::1,gw=198.18.0.1", "gw= of IPv4 without"},
        {"pair:x,ip=198.18.0.1,gw=fe80::1", "gw= of IPv6 without"},
        {"pair:x,ip=198.18.0.1,", "comma"},
        {"pair:x,ip=198.18.0.1,crc=maybe", "crc=maybe"},
        {"pair:x,ip=198.18.0.1,crc", "crc"},
        {"pair:x,ip=198.18.0.1,ird=129", "ird=129"},
        {"pair:x,ip=198.18.0.1,rev=3", "rev=3"},
        {"pair:x,ip=198.18.0.1,mac=01:00:00:00:00:01", "mac"},
        {"pair:x,ip=198.18.0.1,mtu=99", "mtu=99"},
        {"tap:x,ip=198.18.0.1,mtu=1500", "mtu"},
        {"pcap:x,ip=198.18.0.1,mtu=1500", "mtu"},
        {"pcap:,ip=198.18.0.1", "pcap: expected a name"},
        {"pcap:a-name-too-long-for-any,ip=198.18.0.1", "1..15 characters"},
        {"pair:x,ip=198.18.0.1,vlan=5", "vlan=5: vlan= is for tap pcap only"},
        {"tap:x,ip=198.18.0.1,vlan=0", "vlan=0"},
        {"tap:x,ip=198.18.0.1,vlan=4095", "vlan=4095"},
        {"tap:x,ip=198.18.0.1,mtu=1500", "mtu= is for shm pair sock only"},
        {"tap:x,ip=198.18.0.1,cc=cubic", "cc= is for sock only"},
        {"sock:,gw=198.18.0.1", "gw= is for tap pcap shm pair only"},
        {"sock:,vlan=7", "vlan= is for tap pcap only"},
        {"sock:,cc=", "cc=: expected the name"},
        {"eth:x,ip=198.18.0.1", "known: tap pcap shm pair sock"},
        {"pair:x,ip=198.18.0.1,color=red", "\"color\"; known: ip gw mac mtu capture"},
        {"pair:x,ip=198.18.0.1,Ip=198.18.0.2", "\"Ip\""},
        {"pair:x,ip=198.18.0.1, crc=on", "\" crc\""},
        {"shm:/,ip=198.18.0.1", "expected NAME"},
        {"shm:a/b,ip=198.18.0.1", "expected NAME"},
    };
    struct uiw_device *dev;
    unsetenv("UIW_DEVICE");
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        assert_int_equal(uiw_device_open(all[i].spec, &dev), -EINVAL);
        if (strstr(uiw_error(), all[i].named) == NULL) {
            fail_msg("%s: \"%s\" does not name %s", all[i].spec, uiw_error(), all[i].named);
        }
    }
}

static void query(const char *spec, const char *ip, const char *ip6)
{
    struct uiw_device *dev;
    struct uiw_device_attr attr;
    char text[INET6_ADDRSTRLEN];
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    if (uiw_device_open(spec, &dev) != 0) {
        fail_msg("%s", uiw_error());
    }
    assert_int_equal(uiw_device_query(dev, &attr), 0);
    memcpy(&in, &attr.addr, sizeof in);
    memcpy(&in6, &attr.addr6, sizeof in6);
    if (ip != NULL) {
        assert_int_equal(attr.addr.ss_family, AF_INET);
        assert_string_equal(inet_ntop(AF_INET, &in.sin_addr, text, sizeof text), ip);
    } else {
        assert_memory_equal(&attr.addr, &attr.addr6, sizeof attr.addr);
    }
    if (ip6 != NULL) {
        assert_int_equal(attr.addr6.ss_family, AF_INET6);
        assert_string_equal(inet_ntop(AF_INET6, &in6.sin6_addr, text, sizeof text), ip6);
    } else {
        assert_int_equal(attr.addr6.ss_family, AF_UNSPEC);
    }
    assert_int_equal(uiw_device_close(dev), 0);
}

static void test_addresses(void **state)
{
    (void)state;
    query("pair:x,ip=198.18.0.1", "198.18.0.1", NULL);
    query("pair:x,ip=fd00::1/128,gw=fe80::1", NULL, "fd00::1");
    query("pair:x,ip=fd00::1/64,ip=198.18.0.1/24,gw=198.18.0.9,gw=fd00::9", "198.18.0.1",
          "fd00::1");
    query("pair:x,ip=fe80::17", NULL, "fe80::17");
}

/* A mistyped shm path must not cost the file that is there. */
static void test_shm_leaves_files_alone(void **state)
{
    (void)state;
    char path[64], lock[80], spec[120];
    struct uiw_device *dev;
    struct stat st;
    snprintf(path, sizeof path, "/tmp/uiw-test-%d", (int)getpid());
    snprintf(lock, sizeof lock, "%s.lock", path);
    snprintf(spec, sizeof spec, "shm:%s,ip=198.18.0.1", path);
    const char *files[] = {path, lock};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        int fd = open(files[i], O_CREAT | O_WRONLY, 0600);
        assert_int_equal(write(fd, "x", 1), 1);
        close(fd);
        assert_true(uiw_device_open(spec, &dev) < 0);
        assert_non_null(strstr(uiw_error(), files[i]));
        assert_int_equal(stat(files[i], &st), 0);
        assert_int_equal(st.st_size, 1);
        unlink(files[i]);
    }
    assert_int_equal(uiw_device_open(spec, &dev), 0);
    assert_int_equal(uiw_device_close(dev), 0);
    unlink(path);
    unlink(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_strings),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_shm_leaves_files_alone),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
