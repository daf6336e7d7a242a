/* SPDX-License-Identifier: MIT */
#include "api/devspec.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/error.h"

static const struct kind {
    const char *name;
    enum net_kind value;
    size_t min, max; /* length of what is behind the colon */
} kinds[] = {{"tap", NET_TAP, 1, 15},
             {"pcap", NET_PCAP, 1, 15},
             {"shm", NET_SHM, 1, 80},
             {"pair", NET_PAIR, 1, 80},
             {"sock", NET_SOCK, 0, 64}};

/* Sets of kinds. */
enum {
    ON_TAP = 1 << NET_TAP,
    ON_PCAP = 1 << NET_PCAP,
    ON_SHM = 1 << NET_SHM,
    ON_PAIR = 1 << NET_PAIR,
    ON_SOCK = 1 << NET_SOCK,
    ON_INTERFACE = ON_TAP | ON_PCAP,
    ON_LWIP = ON_INTERFACE | ON_SHM | ON_PAIR,
    ON_ALL = ON_LWIP | ON_SOCK,
};

struct key {
    const char *name;
    const char *expects;
    bool (*set)(struct devspec *s, const char *value);
    unsigned kinds;
    bool for_each_family; /* may be given twice, for IPv4 and for IPv6 */
};

enum { IP6_SEEN = 32, LIST_TEXT = 120 };

static bool is_ip6(const char *value)
{
    return strchr(value, ':') != NULL;
}

static bool number(const char *value, unsigned long max, unsigned long *out)
{
    char *end;
    if (value[0] < '0' || value[0] > '9') {
        return false;
    }
    errno = 0;
    *out = strtoul(value, &end, 10);
    return errno == 0 && *end == '\0' && *out <= max;
}

static bool one_of(const char *value, const char *yes, const char *no, bool *out)
{
    *out = strcmp(value, yes) == 0;
    return *out || strcmp(value, no) == 0;
}

static bool set_ip(struct devspec *s, const char *value)
{
    struct net_cfg *net = &s->net;
    char addr[INET6_ADDRSTRLEN];
    bool six = is_ip6(value);
    const char *slash = strchr(value, '/');
    size_t n = slash != NULL ? (size_t)(slash - value) : strlen(value);
    unsigned long least = six ? 64 : 1, most = six ? 128 : 30, prefix = six ? 64 : 24;
    if (n >= sizeof addr ||
        (slash != NULL && (!number(slash + 1, most, &prefix) || prefix < least))) {
        return false;
    }
    memcpy(addr, value, n);
    addr[n] = '\0';
    if (six) {
        net->prefix6 = (uint8_t)prefix;
        return inet_pton(AF_INET6, addr, &net->ip6) == 1 && !IN6_IS_ADDR_UNSPECIFIED(&net->ip6);
    }
    net->prefix = (uint8_t)prefix;
    return inet_pton(AF_INET, addr, &net->ip) == 1 && net->ip.s_addr != 0;
}

static bool set_gw(struct devspec *s, const char *value)
{
    return is_ip6(value) ? inet_pton(AF_INET6, value, &s->net.gw6) == 1 &&
                               !IN6_IS_ADDR_UNSPECIFIED(&s->net.gw6)
                         : inet_pton(AF_INET, value, &s->net.gw) == 1 && s->net.gw.s_addr != 0;
}

static bool set_mac(struct devspec *s, const char *value)
{
    unsigned m[6], all = 0;
    int end = 0;
    if (sscanf(value, "%2x:%2x:%2x:%2x:%2x:%2x%n", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5],
               &end) != 6 ||
        value[end] != '\0' || (m[0] & 1) != 0) {
        return false;
    }
    for (int i = 0; i < 6; i++) {
        s->net.mac[i] = (uint8_t)m[i];
        all |= m[i];
    }
    return all != 0;
}

static bool set_mtu(struct devspec *s, const char *value)
{
    unsigned long n;
    if (!number(value, 65535, &n) || n < 576) {
        return false;
    }
    s->net.mtu = (uint32_t)n;
    return true;
}

static bool set_capture(struct devspec *s, const char *value)
{
    size_t n = strlen(value);
    if (n == 0 || n >= sizeof s->net.capture) {
        return false;
    }
    memcpy(s->net.capture, value, n + 1);
    return true;
}

/* Whether the kernel has it is seen when the device is opened. */
static bool set_cc(struct devspec *s, const char *value)
{
    size_t n = strlen(value);
    if (n == 0 || n >= sizeof s->net.cc) {
        return false;
    }
    memcpy(s->net.cc, value, n + 1);
    return true;
}

static bool set_u16(uint16_t *out, const char *value, unsigned long max)
{
    unsigned long n;
    if (!number(value, max, &n)) {
        return false;
    }
    *out = (uint16_t)n;
    return true;
}

static bool set_vlan(struct devspec *s, const char *value)
{
    return set_u16(&s->net.vlan, value, 4094) && s->net.vlan > 0;
}

static bool set_progress(struct devspec *s, const char *value)
{
    bool polled;
    bool ok = one_of(value, "polled", "threaded", &polled);
    s->progress = polled ? UIW_POLLED : UIW_THREADED;
    return ok;
}

static bool set_crc(struct devspec *s, const char *value)
{
    return one_of(value, "on", "off", &s->crc);
}

static bool set_markers(struct devspec *s, const char *value)
{
    return one_of(value, "on", "off", &s->markers);
}

static bool set_ext(struct devspec *s, const char *value)
{
    return one_of(value, "on", "off", &s->ext);
}

static bool set_rev(struct devspec *s, const char *value)
{
    unsigned long n;
    if (!number(value, 2, &n) || n == 0) {
        return false;
    }
    s->rev = (uint8_t)n;
    return true;
}

static bool set_ird(struct devspec *s, const char *value)
{
    return set_u16(&s->ird, value, DEVSPEC_DEPTH_MAX);
}

static bool set_ord(struct devspec *s, const char *value)
{
    return set_u16(&s->ord, value, DEVSPEC_DEPTH_MAX);
}

static bool set_u32(uint32_t *out, const char *value, unsigned long max)
{
    unsigned long n;
    if (!number(value, max, &n)) {
        return false;
    }
    *out = (uint32_t)n;
    return true;
}

static bool set_spin(struct devspec *s, const char *value)
{
    return set_u32(&s->spin_us, value, 10000);
}

static bool set_rnr(struct devspec *s, const char *value)
{
    return set_u32(&s->rnr_s, value, 3600);
}

static bool set_setup(struct devspec *s, const char *value)
{
    return set_u32(&s->setup_s, value, 3600) && s->setup_s > 0;
}

static const struct key keys[] = {
    {"ip",
     "an IPv4 address with an optional prefix length 1..30, as 198.18.0.2/24, or an IPv6 address "
     "with an optional prefix length 64..128, as fd00::2/64",
     set_ip, ON_ALL, true},
    {"gw", "an IPv4 or IPv6 address", set_gw, ON_LWIP, true},
    {"mac", "six hex octets of a unicast address, as 02:00:00:00:00:01", set_mac, ON_LWIP, false},
    {"mtu", "576..65535", set_mtu, ON_SHM | ON_PAIR | ON_SOCK, false},
    {"vlan", "1..4094", set_vlan, ON_INTERFACE, false},
    {"capture", "the path of a file, of up to 255 octets", set_capture, ON_ALL, false},
    {"cc", "the name of one of the kernel's TCP congestion controls, as cubic", set_cc, ON_SOCK,
     false},
    {"progress", "threaded or polled", set_progress, ON_ALL, false},
    {"crc", "on or off", set_crc, ON_ALL, false},
    {"markers", "on or off", set_markers, ON_ALL, false},
    {"rev", "1 or 2", set_rev, ON_ALL, false},
    {"ext", "on or off", set_ext, ON_ALL, false},
    {"ird", "0..128", set_ird, ON_ALL, false},
    {"ord", "0..128", set_ord, ON_ALL, false},
    {"spin", "microseconds, 0..10000", set_spin, ON_ALL, false},
    {"rnr", "seconds, 0..3600", set_rnr, ON_ALL, false},
    {"setup", "seconds, 1..3600", set_setup, ON_ALL, false},
};

static void add_word(char text[LIST_TEXT], const char *word)
{
    size_t n = strlen(text);
    snprintf(text + n, LIST_TEXT - n, "%s%s", n > 0 ? " " : "", word);
}

/* The kinds of a set, "tap pcap". */
static const char *kinds_text(unsigned set, char text[LIST_TEXT])
{
    text[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if ((set & 1u << kinds[i].value) != 0) {
            add_word(text, kinds[i].name);
        }
    }
    return text;
}

static int unknown_key(const char *name, size_t n, enum net_kind kind)
{
    char known[LIST_TEXT] = "";
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if ((keys[i].kinds & 1u << kind) != 0) {
            add_word(known, keys[i].name);
        }
    }
    return fail(EINVAL, "device string: unknown key \"%.*s\"; known: %s", (int)n, name, known);
}

static const struct key *find_key(const char *name, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (strlen(keys[i].name) == n && memcmp(keys[i].name, name, n) == 0) {
            return &keys[i];
        }
    }
    return NULL;
}

static int set_key(struct devspec *s, uint64_t *seen, const char *pair)
{
    const char *eq = strchr(pair, '=');
    size_t n = eq != NULL ? (size_t)(eq - pair) : strlen(pair);
    const struct key *k = find_key(pair, n);
    char text[LIST_TEXT];
    if (k == NULL) {
        return unknown_key(pair, n, s->net.kind);
    }
    if ((k->kinds & 1u << s->net.kind) == 0) {
        return fail(EINVAL, "device string: %s: %s= is for %s only", pair, k->name,
                    kinds_text(k->kinds, text));
    }
    bool six = k->for_each_family && eq != NULL && is_ip6(eq);
    uint64_t bit = UINT64_C(1) << (k - keys) << (six ? IP6_SEEN : 0);
    if ((*seen & bit) != 0) {
        const char *family = six ? " for IPv6" : " for IPv4";
        return fail(EINVAL, "device string: %s is given twice%s", k->name,
                    k->for_each_family ? family : "");
    }
    *seen |= bit;
    if (eq == NULL || !k->set(s, eq + 1)) {
        return fail(EINVAL, "device string: %s: expected %s", pair, k->expects);
    }
    return 0;
}

static int set_name(struct devspec *s, const char *kind, const char *name)
{
    size_t n = strlen(name);
    char text[LIST_TEXT];
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const struct kind *k = &kinds[i];
        if (strcmp(k->name, kind) != 0) {
            continue;
        }
        if (n < k->min || n > k->max) {
            return fail(EINVAL,
                        "device string: %s: expected a name of %zu..%zu characters behind "
                        "the colon",
                        kind, k->min, k->max);
        }
        s->net.kind = k->value;
        memcpy(s->net.name, name, n + 1);
        return 0;
    }
    return fail(EINVAL, "device string: unknown kind \"%s\"; known: %s", kind,
                kinds_text(ON_ALL, text));
}

/* Neither the network's own address nor its broadcast. */
static bool is_host(uint32_t host, uint32_t mask)
{
    return (host & ~mask) != 0 && (host & ~mask) != ~mask;
}

static int check_ip4(const struct net_cfg *net)
{
    char ip[INET_ADDRSTRLEN], gw[INET_ADDRSTRLEN];
    uint32_t host = ntohl(net->ip.s_addr), mask = ~0u << (32 - net->prefix);
    uint32_t way = ntohl(net->gw.s_addr);
    inet_ntop(AF_INET, &net->ip, ip, sizeof ip);
    inet_ntop(AF_INET, &net->gw, gw, sizeof gw);
    if (host >> 24 == 127 || host >> 28 >= 0xe || !is_host(host, mask)) {
        return fail(EINVAL,
                    "device string: ip=%s/%u: expected the address of a host in its network", ip,
                    net->prefix);
    }
    if (way != 0 && (((way ^ host) & mask) != 0 || way == host || !is_host(way, mask))) {
        return fail(EINVAL,
                    "device string: gw=%s: expected another host in the network of ip=%s/%u", gw,
                    ip, net->prefix);
    }
    return 0;
}

static bool same_net6(const struct in6_addr *a, const struct in6_addr *b, unsigned prefix)
{
    unsigned whole = prefix / 8, rest = prefix % 8;
    return memcmp(a, b, whole) == 0 &&
           (rest == 0 || (a->s6_addr[whole] ^ b->s6_addr[whole]) >> (8 - rest) == 0);
}

static int check_ip6(const struct net_cfg *net)
{
    char ip[INET6_ADDRSTRLEN], gw[INET6_ADDRSTRLEN];
    inet_ntop(AF_INET6, &net->ip6, ip, sizeof ip);
    inet_ntop(AF_INET6, &net->gw6, gw, sizeof gw);
    if (IN6_IS_ADDR_MULTICAST(&net->ip6) || IN6_IS_ADDR_LOOPBACK(&net->ip6) ||
        IN6_IS_ADDR_V4MAPPED(&net->ip6)) {
        return fail(EINVAL, "device string: ip=%s/%u: expected the address of a host", ip,
                    net->prefix6);
    }
    if (!IN6_IS_ADDR_UNSPECIFIED(&net->gw6) &&
        (IN6_ARE_ADDR_EQUAL(&net->gw6, &net->ip6) ||
         (!IN6_IS_ADDR_LINKLOCAL(&net->gw6) && !same_net6(&net->gw6, &net->ip6, net->prefix6)))) {
        return fail(EINVAL,
                    "device string: gw=%s: expected a link-local address or another host in the "
                    "network of ip=%s/%u",
                    gw, ip, net->prefix6);
    }
    return 0;
}

/* What was given fits together. */
static int check_addresses(const struct net_cfg *net)
{
    bool four = net->ip.s_addr != 0, six = !IN6_IS_ADDR_UNSPECIFIED(&net->ip6);
    if (!four && !six) {
        return fail(EINVAL, "device string: ip= is missing; expected %s", keys[0].expects);
    }
    if ((net->gw.s_addr != 0 && !four) || (!IN6_IS_ADDR_UNSPECIFIED(&net->gw6) && !six)) {
        return fail(EINVAL, "device string: gw= of %s without an ip= of its kind",
                    four ? "IPv6" : "IPv4");
    }
    int err = four ? check_ip4(net) : 0;
    return err != 0 || !six ? err : check_ip6(net);
}

/* One address or none; whether it is one of this host is seen when the device is opened. Link-local ones
 * keep their interface in the name. */
static int check_sock(struct net_cfg *net)
{
    bool four = net->ip.s_addr != 0, six = !IN6_IS_ADDR_UNSPECIFIED(&net->ip6);
    char ip[INET6_ADDRSTRLEN];
    size_t n = strcspn(net->name, "%");
    if (four + six + (n > 0) > 1) {
        return fail(EINVAL, "device string: sock: expected one address, not several");
    }
    snprintf(ip, sizeof ip, "%.*s", (int)n, net->name);
    if (n >= sizeof ip || (n > 0 && inet_pton(AF_INET, ip, &net->ip) != 1 &&
                           inet_pton(AF_INET6, ip, &net->ip6) != 1)) {
        return fail(EINVAL, "device string: sock:%s: expected nothing, or an IPv4 or IPv6 address",
                    net->name);
    }
    if (IN6_IS_ADDR_LINKLOCAL(&net->ip6) && net->name[n] == '\0') {
        inet_ntop(AF_INET6, &net->ip6, ip, sizeof ip);
        return fail(EINVAL,
                    "device string: sock: %s is link-local, expected its interface as well, as "
                    "sock:%s%%eth0",
                    ip, ip);
    }
    return 0;
}

static int parse_parts(char *text, struct devspec *out)
{
    char *save = NULL;
    char *first = strtok_r(text, ",", &save);
    char *colon = first != NULL ? strchr(first, ':') : NULL;
    if (colon == NULL) {
        return fail(EINVAL, "device string: expected KIND:NAME[,KEY=VALUE]..., as "
                            "tap:uiw0,ip=198.18.0.2/24");
    }
    *colon = '\0';
    uint64_t seen = 0;
    int err = set_name(out, first, colon + 1);
    for (char *pair; err == 0 && (pair = strtok_r(NULL, ",", &save)) != NULL;) {
        err = set_key(out, &seen, pair);
    }
    if (err != 0) {
        return err;
    }
    return out->net.kind == NET_SOCK ? check_sock(&out->net) : check_addresses(&out->net);
}

int devspec_parse(const char *text, struct devspec *out)
{
    *out = (struct devspec){.progress = UIW_THREADED,
                            .crc = true,
                            .rev = 2,
                            .ext = true,
                            .ird = 32,
                            .ord = 32,
                            .spin_us = 20,
                            .setup_s = 10};
    char copy[DEVSPEC_LEN_MAX + 1];
    if (strlen(text) > DEVSPEC_LEN_MAX) {
        return fail(EINVAL, "device string: longer than %d characters", DEVSPEC_LEN_MAX);
    }
    if (strstr(text, ",,") != NULL || (text[0] != '\0' && text[strlen(text) - 1] == ',')) {
        return fail(EINVAL, "device string: a comma with no KEY=VALUE behind it");
    }
    memcpy(copy, text, strlen(text) + 1);
    return parse_parts(copy, out);
}
