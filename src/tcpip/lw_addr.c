/* SPDX-License-Identifier: MIT */
/* Addresses of both families: what a program gives, what is ours, and which way leads there. */
#include <errno.h>

#include "lwip/etharp.h"
#include "lwip/nd6.h"
#include "lwip/priv/nd6_priv.h"
#include "tcpip/lw.h"

/* --- between programs and lwIP --- */

static void get_ip6(struct lw_net *net, const struct in6_addr *in, ip_addr_t *out)
{
    ip_addr_set_zero_ip6(out);
    memcpy(ip_2_ip6(out)->addr, in, sizeof *in);
    ip6_addr_assign_zone(ip_2_ip6(out), IP6_UNICAST, &net->nif);
}

int lw_addr_get(struct lw_net *net, const struct sockaddr *addr, struct lw_addr *out)
{
    if (addr->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, addr, sizeof in);
        ip_addr_set_ip4_u32_val(out->ip, in.sin_addr.s_addr);
        out->port = ntohs(in.sin_port);
        return 0;
    }
    if (addr->sa_family != AF_INET6) {
        return -EAFNOSUPPORT;
    }
    struct sockaddr_in6 in;
    memcpy(&in, addr, sizeof in);
    out->port = ntohs(in.sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr)) {
        uint32_t ip;
        memcpy(&ip, &in.sin6_addr.s6_addr[12], sizeof ip);
        ip_addr_set_ip4_u32_val(out->ip, ip);
    } else {
        get_ip6(net, &in.sin6_addr, &out->ip);
    }
    return 0;
}

void lw_addr_fill(union net_addr *addr, const ip_addr_t *ip, uint16_t port)
{
    if (IP_IS_V6(ip)) {
        addr->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
        memcpy(&addr->in6.sin6_addr, ip_2_ip6(ip)->addr, sizeof addr->in6.sin6_addr);
        return;
    }
    addr->in4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    addr->in4.sin_addr.s_addr = ip4_addr_get_u32(ip_2_ip4(ip));
}

uint32_t lw_addr_key(uint8_t *key, const ip_addr_t *ip, uint16_t port)
{
    uint32_t n = IP_IS_V6(ip) ? 16 : 4;
    if (IP_IS_V6(ip)) {
        memcpy(key, ip_2_ip6(ip)->addr, n);
    } else {
        memcpy(key, &ip_2_ip4(ip)->addr, n);
    }
    put_be16(key + n, port);
    return n + 2;
}

bool lw_addr_is(const ip_addr_t *ip, const uint8_t *p, bool v6)
{
    if ((bool)IP_IS_V6(ip) != v6) {
        return false;
    }
    return v6 ? memcmp(ip_2_ip6(ip)->addr, p, 16) == 0 : memcmp(&ip_2_ip4(ip)->addr, p, 4) == 0;
}

/* --- ours --- */

static void set_address(struct lw_net *net, s8_t at, const ip_addr_t *ip)
{
    const ip6_addr_t *a = ip_2_ip6(ip);
    netif_ip6_addr_set_parts(&net->nif, at, a->addr[0], a->addr[1], a->addr[2], a->addr[3]);
    ip6_addr_assign_zone(ip_2_ip6(&net->nif.ip6_addr[at]), IP6_UNICAST, &net->nif);
    netif_ip6_addr_set_state(&net->nif, at, IP6_ADDR_PREFERRED);
}

void lw_addr_start6(struct lw_net *net, const struct net_cfg *cfg)
{
    ip_addr_t ip, gw;
    get_ip6(net, &cfg->ip6, &ip);
    get_ip6(net, &cfg->gw6, &gw);
    net->gw6 = *ip_2_ip6(&gw);
    net->prefix6 = cfg->prefix6 != 0 ? cfg->prefix6 : 64;
    net->has6 = true;
    if (ip6_addr_islinklocal(ip_2_ip6(&ip))) {
        set_address(net, LW_IP6_LOCAL, &ip);
        return;
    }
    netif_create_ip6_linklocal_address(&net->nif, 1);
    set_address(net, LW_IP6_GLOBAL, &ip);
}

static bool valid6(const struct lw_net *net, unsigned i)
{
    return ip6_addr_isvalid(netif_ip6_addr_state(&net->nif, i));
}

unsigned lw_addrs(struct lw_net *net, const ip_addr_t **out)
{
    unsigned n = 0;
    if (!ip4_addr_isany(netif_ip4_addr(&net->nif))) {
        out[n++] = netif_ip_addr4(&net->nif);
    }
    for (unsigned i = 0; i < LW_IP6_COUNT; i++) {
        if (valid6(net, i)) {
            out[n++] = netif_ip_addr6(&net->nif, i);
        }
    }
    return n;
}

bool lw_mine6(struct lw_net *net, const ip6_addr_t *ip)
{
    for (unsigned i = 0; i < LW_IP6_COUNT; i++) {
        if (valid6(net, i) && ip6_addr_zoneless_eq(ip, netif_ip6_addr(&net->nif, i))) {
            return true;
        }
    }
    return false;
}

bool lw_mine(struct lw_net *net, const ip_addr_t *ip)
{
    return IP_IS_V6(ip) ? lw_mine6(net, ip_2_ip6(ip))
                        : ip4_addr_eq(ip_2_ip4(ip), netif_ip4_addr(&net->nif));
}

/* --- the way there --- */

bool lw_on_link4(const struct lw_net *net, const ip4_addr_t *ip)
{
    const ip4_addr_t *mine = netif_ip4_addr(&net->nif);
    return !ip4_addr_isany(mine) && ip4_addr_net_eq(ip, mine, netif_ip4_netmask(&net->nif));
}

bool lw_on_link6(const struct lw_net *net, const ip6_addr_t *ip)
{
    if (ip6_addr_islinklocal(ip)) {
        return true;
    }
    const uint32_t *a = ip->addr, *b = netif_ip6_addr(&net->nif, LW_IP6_GLOBAL)->addr;
    unsigned rest = net->prefix6 - 64u;
    if (!valid6(net, LW_IP6_GLOBAL) || a[0] != b[0] || a[1] != b[1]) {
        return false;
    }
    uint64_t differ = (uint64_t)ntohl(a[2] ^ b[2]) << 32 | ntohl(a[3] ^ b[3]);
    return rest == 0 || differ >> (64 - rest) == 0;
}

/* lwIP takes each link for a /64, and knows no gateway but those that announce themselves. */
const ip6_addr_t *lw_hop6(const struct lw_net *net, const ip6_addr_t *ip)
{
    bool direct = ip6_addr_isany(&net->gw6) || ip6_addr_ismulticast(ip) || lw_on_link6(net, ip);
    return direct ? ip : &net->gw6;
}

const ip_addr_t *lw_source(struct lw_net *net, const ip_addr_t *to)
{
    if (!IP_IS_V6(to)) {
        return ip4_addr_isany(netif_ip4_addr(&net->nif)) ? NULL : netif_ip_addr4(&net->nif);
    }
    bool local = ip6_addr_islinklocal(ip_2_ip6(to)) || !valid6(net, LW_IP6_GLOBAL);
    unsigned i = local ? LW_IP6_LOCAL : LW_IP6_GLOBAL;
    return valid6(net, i) ? netif_ip_addr6(&net->nif, i) : NULL;
}

static bool reachable4(const struct lw_net *net, const ip4_addr_t *ip)
{
    if (ip4_addr_isany(ip) || ip4_addr_isbroadcast(ip, &net->nif) || ip4_addr_ismulticast(ip)) {
        return false;
    }
    return lw_on_link4(net, ip) || !ip4_addr_isany(netif_ip4_gw(&net->nif));
}

static bool reachable6(const struct lw_net *net, const ip6_addr_t *ip)
{
    if (ip6_addr_isany(ip) || ip6_addr_isloopback(ip) || ip6_addr_ismulticast(ip)) {
        return false;
    }
    return lw_on_link6(net, ip) || !ip6_addr_isany(&net->gw6) || nd6_find_route(ip) == &net->nif;
}

bool lw_reachable(struct lw_net *net, const ip_addr_t *to)
{
    return IP_IS_V6(to) ? reachable6(net, ip_2_ip6(to)) : reachable4(net, ip_2_ip4(to));
}

static bool resolved4(struct lw_net *net, ip4_addr_t hop)
{
    if (!lw_on_link4(net, &hop)) {
        hop = *netif_ip4_gw(&net->nif);
    }
    struct eth_addr *mac;
    const ip4_addr_t *found;
    return etharp_find_addr(&net->nif, &hop, &mac, &found) >= 0;
}

static bool resolved6(const struct lw_net *net, const ip6_addr_t *to)
{
    const ip6_addr_t *hop = lw_hop6(net, to);
    if (!lw_on_link6(net, hop)) {
        return true; /* the way leads over a router that has announced itself */
    }
    for (unsigned i = 0; i < LWIP_ND6_NUM_NEIGHBORS; i++) {
        const struct nd6_neighbor_cache_entry *e = &neighbor_cache[i];
        if (e->state > ND6_INCOMPLETE && e->netif == &net->nif &&
            ip6_addr_eq(&e->next_hop_address, hop)) {
            return true;
        }
    }
    return false;
}

bool lw_resolved(struct lw_net *net, const ip_addr_t *to)
{
    if (lw_mine(net, to)) {
        return true;
    }
    return IP_IS_V6(to) ? resolved6(net, ip_2_ip6(to)) : resolved4(net, *ip_2_ip4(to));
}

uint32_t lw_mss(const struct lw_net *net, bool v6)
{
    return net->link->mtu - (v6 ? VNET_IP6 : VNET_IP4) - VNET_TCP;
}
