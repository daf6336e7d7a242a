/* SPDX-License-Identifier: MIT */
/* Tests are written with IPv4 addresses; with UIW_IPV6=1 in the environment the same tests run over
 * IPv6: 198.18.C.D then stands for
 * fd00:0:0:C::D, and 0.0.0.0 for ::. */
#ifndef UIW_TESTS_FAMILY_H
#define UIW_TESTS_FAMILY_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline bool test_v6(void)
{
    const char *want = getenv("UIW_IPV6");
    return want != NULL && strcmp(want, "1") == 0;
}

/* The octets that IP and TCP headers without options take. */
static inline uint32_t test_headers(void)
{
    return test_v6() ? 60 : 40;
}

static inline struct in6_addr test_ip6(const char *ip4)
{
    uint8_t a[4] = {0};
    struct in6_addr in = {0};
    inet_pton(AF_INET, ip4, a);
    if (a[0] != 0) {
        in.s6_addr[0] = 0xfd;
        in.s6_addr[5] = a[1] ^ 18;
        in.s6_addr[7] = a[2];
        in.s6_addr[15] = a[3];
    }
    return in;
}

/* As text, for device strings. */
static inline const char *test_ip(const char *ip4, char text[INET6_ADDRSTRLEN])
{
    struct in6_addr in = test_ip6(ip4);
    snprintf(text, INET6_ADDRSTRLEN, "%s", ip4);
    return test_v6() ? inet_ntop(AF_INET6, &in, text, INET6_ADDRSTRLEN) : text;
}

static inline struct sockaddr_storage test_addr(const char *ip4, uint16_t port)
{
    struct sockaddr_storage out = {0};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    in6.sin6_addr = test_ip6(ip4);
    inet_pton(AF_INET, ip4, &in.sin_addr);
    if (test_v6()) {
        memcpy(&out, &in6, sizeof in6);
    } else {
        memcpy(&out, &in, sizeof in);
    }
    return out;
}

static inline uint16_t test_port(const struct sockaddr_storage *addr)
{
    struct sockaddr_in in; /* the port is at the same place in both */
    memcpy(&in, addr, sizeof in);
    return ntohs(in.sin_port);
}

#endif
