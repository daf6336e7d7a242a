/* SPDX-License-Identifier: MIT */
/* Neighbour discovery (RFC 4861) is lwIP's; here is what it lacks: a filter for what it need not see, and
 * telling the neighbours of an address that may have moved. */
#include "lwip/nd6.h"
#include "lwip/prot/icmp6.h"
#include "tcpip/lw.h"

enum {
    IP6_HOPOPT = 0,
    IP6_ICMP = 58,
    NA_LEN = 32,
    NA_OVERRIDE = 0x20,
    OPT_TARGET_MAC = 2,
};

/* Of extension headers only the one that MLD queries have is let in, at its least length (RFC 2710
 * sec 3): whatever else follows in a chain of them would meet lwIP unchecked. Redirects are left
 * out, and with a gateway of our own routers, too. */
bool lw_nd_wanted(const struct lw_net *net, const struct frame *f, bool ours)
{
    const uint8_t *ip = f->data + VNET_ETH;
    uint32_t off = VNET_IP6;
    if ((!ours && (f->data[0] != 0x33 || f->data[1] != 0x33)) || f->len < VNET_ETH + off + 16) {
        return false;
    }
    uint8_t next = ip[6];
    if (next == IP6_HOPOPT && ip[off + 1] == 0) {
        next = ip[off];
        off += 8;
    }
    if (next != IP6_ICMP) {
        return false;
    }
    switch (ip[off]) {
    case ICMP6_TYPE_EREQ: return ours;
    case ICMP6_TYPE_MLQ:
    case ICMP6_TYPE_MLR:
    case ICMP6_TYPE_MLD: return off != VNET_IP6;
    case ICMP6_TYPE_NS:
    case ICMP6_TYPE_NA: return off == VNET_IP6;
    case ICMP6_TYPE_RA: return off == VNET_IP6 && ip6_addr_isany(&net->gw6);
    default: return false;
    }
}

/* An unsolicited advertisement to all nodes (RFC 4861 sec 7.2.6). */
static void announce(struct lw_net *net, const ip6_addr_t *addr)
{
    static const uint8_t all_mac[6] = {0x33, 0x33, 0, 0, 0, 1};
    static const uint8_t all_nodes[16] = {0xff, 2, [15] = 1};
    struct pbuf *p = pbuf_alloc(PBUF_RAW, VNET_ETH + VNET_IP6 + NA_LEN, PBUF_RAM);
    if (p == NULL) {
        return;
    }
    uint8_t *f = p->payload, *ip = f + VNET_ETH, *na = ip + VNET_IP6;
    memset(f, 0, p->len);
    memcpy(f, all_mac, 6);
    memcpy(f + 6, net->nif.hwaddr, 6);
    put_be16(f + 12, VNET_TYPE_IP6);
    ip[0] = 0x60;
    put_be16(ip + 4, NA_LEN);
    ip[6] = IP6_ICMP;
    ip[7] = 255;
    memcpy(ip + 8, addr->addr, 16);
    memcpy(ip + 24, all_nodes, 16);
    na[0] = ICMP6_TYPE_NA;
    na[4] = NA_OVERRIDE;
    memcpy(na + 8, addr->addr, 16);
    na[24] = OPT_TARGET_MAC;
    na[25] = 1;
    memcpy(na + 26, net->nif.hwaddr, 6);
    static const uint8_t rest[4] = {0, NA_LEN, 0, IP6_ICMP};
    uint64_t sum = vnet_sum(vnet_sum(0, ip + 8, 32), rest, sizeof rest);
    uint16_t check = vnet_sum_end(vnet_sum(sum, na, NA_LEN));
    memcpy(na + 2, &check, 2);
    net->nif.linkoutput(&net->nif, p);
    pbuf_free(p);
}

/* lwIP would repeat what was asked in vain after a second, and does not take an unsolicited
 * advertisement for an answer, so all is asked anew. */
void lw_nd_restart(struct lw_net *net)
{
    if (net->has6) {
        nd6_cleanup_netif(&net->nif);
        nd6_restart_netif(&net->nif);
    }
}

void lw_nd_announce(struct lw_net *net)
{
    for (unsigned i = 0; i < LW_IP6_COUNT; i++) {
        if (ip6_addr_isvalid(netif_ip6_addr_state(&net->nif, i))) {
            announce(net, netif_ip6_addr(&net->nif, i));
        }
    }
}
