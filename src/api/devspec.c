/* SPDX-License-Identifier: MIT */
#include "api/devspec.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/error.h"

struct key {
    const char *name;
    const char *expects;
    bool (*set)(struct devspec *s, const char *value);
};

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
    char addr[INET_ADDRSTRLEN];
    const char *slash = strchr(value, '/');
    size_t n = slash != NULL ? (size_t)(slash - value) : strlen(value);
    unsigned long prefix = 24;
    if (n >= sizeof addr || (slash != NULL && (!number(slash + 1, 30, &prefix) || prefix == 0))) {
        return false;
    }
    memcpy(addr, value, n);
    addr[n] = '\0';
    s->net.prefix = (uint8_t)prefix;
    return inet_pton(AF_INET, addr, &s->net.ip) == 1 && s->net.ip.s_addr != 0;
}

static bool set_gw(struct devspec *s, const char *value)
{
    return inet_pton(AF_INET, value, &s->net.gw) == 1;
}

static bool set_mac(struct devspec *s, const char *value)
{
    unsigned m[6];
    int end = 0;
    if (sscanf(value, "%2x:%2x:%2x:%2x:%2x:%2x%n", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5],
               &end) != 6 ||
        value[end] != '\0' || (m[0] & 1) != 0) {
        return false;
    }
    for (int i = 0; i < 6; i++) {
        s->net.mac[i] = (uint8_t)m[i];
    }
    return true;
}

static bool set_mtu(struct devspec *s, const char *value)
{
    unsigned long n;
    if (s->net.kind == NET_TAP || !number(value, 65535, &n) || n < 576) {
        return false;
    }
    s->net.mtu = (uint32_t)n;
    return true;
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

static bool set_u16(uint16_t *out, const char *value, unsigned long max)
{
    unsigned long n;
    if (!number(value, max, &n)) {
        return false;
    }
    *out = (uint16_t)n;
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
    {"ip", "an IPv4 address with an optional prefix length 1..30, as 198.18.0.2/24", set_ip},
    {"gw", "an IPv4 address", set_gw},
    {"mac", "six hex octets of a unicast address, as 02:00:00:00:00:01", set_mac},
    {"mtu", "576..65535; not for tap, which takes the interface's", set_mtu},
    {"progress", "threaded or polled", set_progress},
    {"crc", "on or off", set_crc},
    {"markers", "on or off", set_markers},
    {"rev", "1 or 2", set_rev},
    {"ext", "on or off", set_ext},
    {"ird", "0..128", set_ird},
    {"ord", "0..128", set_ord},
    {"spin", "microseconds, 0..10000", set_spin},
    {"rnr", "seconds, 0..3600", set_rnr},
    {"setup", "seconds, 1..3600", set_setup},
};

static int set_key(struct devspec *s, unsigned *seen, const char *pair)
{
    const char *eq = strchr(pair, '=');
    size_t n = eq != NULL ? (size_t)(eq - pair) : strlen(pair);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (strlen(keys[i].name) != n || memcmp(keys[i].name, pair, n) != 0) {
            continue;
        }
        if ((*seen & 1u << i) != 0) {
            return fail(EINVAL, "device string: %s is given twice", keys[i].name);
        }
        *seen |= 1u << i;
        if (eq == NULL || !keys[i].set(s, eq + 1)) {
            return fail(EINVAL, "device string: %s: expected %s", pair, keys[i].expects);
        }
        return 0;
    }
    return fail(
        EINVAL,
        "device string: unknown key \"%.*s\"; known: ip gw mac mtu progress crc markers rev "
        "ext ird ord spin rnr setup",
        (int)n, pair);
}

static int set_name(struct devspec *s, const char *kind, const char *name)
{
    static const struct {
        const char *kind;
        enum net_kind value;
        size_t max;
    } kinds[] = {{"tap", NET_TAP, 15}, {"shm", NET_SHM, 80}, {"pair", NET_PAIR, 80}};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i].kind, kind) == 0) {
            if (name[0] == '\0' || strlen(name) > kinds[i].max) {
                return fail(EINVAL,
                            "device string: %s: expected a name of 1..%zu characters behind "
                            "the colon",
                            kind, kinds[i].max);
            }
            s->net.kind = kinds[i].value;
            memcpy(s->net.name, name, strlen(name) + 1);
            return 0;
        }
    }
    return fail(EINVAL, "device string: unknown kind \"%s\"; known: tap shm pair", kind);
}

static int check_addresses(const struct devspec *s)
{
    char ip[INET_ADDRSTRLEN], gw[INET_ADDRSTRLEN];
    uint32_t host = ntohl(s->net.ip.s_addr), mask = ~0u << (32 - s->net.prefix);
    inet_ntop(AF_INET, &s->net.ip, ip, sizeof ip);
    inet_ntop(AF_INET, &s->net.gw, gw, sizeof gw);
    if (host >> 24 == 127 || host >> 28 >= 0xe || (host & ~mask) == 0 || (host & ~mask) == ~mask) {
        return fail(EINVAL,
                    "device string: ip=%s/%u: expected the address of a host in its network", ip,
                    s->net.prefix);
    }
    if (s->net.gw.s_addr != 0 && ((ntohl(s->net.gw.s_addr) ^ host) & mask) != 0) {
        return fail(EINVAL, "device string: gw=%s: expected an address in the network of ip=%s/%u",
                    gw, ip, s->net.prefix);
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
    unsigned seen = 0;
    int err = set_name(out, first, colon + 1);
    for (char *pair; err == 0 && (pair = strtok_r(NULL, ",", &save)) != NULL;) {
        err = set_key(out, &seen, pair);
    }
    if (err == 0 && out->net.ip.s_addr == 0) {
        return fail(EINVAL, "device string: ip= is missing; expected %s", keys[0].expects);
    }
    return err != 0 ? err : check_addresses(out);
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
