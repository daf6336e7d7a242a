/* SPDX-License-Identifier: MIT */
/* What lwIP asks of its host: random numbers, sequence numbers, routes, failed assertions. */
#include <time.h>

#include "base/log.h"
#include "base/random.h"
#include "tcpip/lw.h"
#include "tcpip/net_test.h"
#include "uiw_hooks.h"

enum { ASSERTS_LOGGED = 20 };

static struct {
    bool fixed;
    uint32_t value;
} test_isn;

static uint64_t asserts;

void net_test_isn(bool fixed, uint32_t isn)
{
    test_isn.fixed = fixed;
    test_isn.value = isn;
}

uint32_t uiw_lwip_rand(void)
{
    return random_u32();
}

/* RFC 6528 sec 3: a clock and a keyed hash of the connection. The clock ticks each 64 ns, as Linux's
 * does: slower, and the numbers of a quick connection would overtake it. */
u32_t uiw_lwip_isn(const ip_addr_t *local_ip, u16_t local_port, const ip_addr_t *remote_ip,
                   u16_t remote_port)
{
    if (test_isn.fixed) {
        return test_isn.value;
    }
    uint8_t key[LW_KEY_MAX];
    uint32_t n = lw_addr_key(key, local_ip, local_port);
    n += lw_addr_key(key + n, remote_ip, remote_port);
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    return (u32_t)((ns >> 6) + random_keyed_hash(key, n));
}

struct netif *uiw_lwip_route4(const ip4_addr_t *src, const ip4_addr_t *dest)
{
    struct netif *near = NULL;
    LIST_EACH(node, &lw_all)
    {
        struct lw_net *net = CONTAINER_OF(node, struct lw_net, node);
        if (src != NULL && ip4_addr_eq(src, netif_ip4_addr(&net->nif))) {
            return &net->nif;
        }
        if (near == NULL && lw_on_link4(net, dest)) {
            near = &net->nif;
        }
    }
    return near;
}

struct netif *uiw_lwip_route6(const ip6_addr_t *src, const ip6_addr_t *dest)
{
    struct netif *near = NULL;
    LIST_EACH(node, &lw_all)
    {
        struct lw_net *net = CONTAINER_OF(node, struct lw_net, node);
        if (src != NULL && lw_mine6(net, src)) {
            return &net->nif;
        }
        if (near == NULL && lw_on_link6(net, dest)) {
            near = &net->nif;
        }
    }
    return near;
}

/* A packet may be the cause, so the process goes on. */
void uiw_lwip_assert(const char *msg, const char *file, int line)
{
    if (++asserts <= ASSERTS_LOGGED) {
        log_line(LOG_ERROR, "lwIP assertion failed: %s (%s:%d)", msg, file, line);
    }
}

uint64_t net_test_asserts(void)
{
    return asserts;
}
