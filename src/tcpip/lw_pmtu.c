/* SPDX-License-Identifier: MIT */
/* A router has no room for a packet of ours, and says so (RFC 1191, RFC 8201). lwIP does not listen. Anybody can
 * send such a message, so it is believed only of octets that are on their way on a connection of ours, and
 * never of less than what is reasonable (RFC 5927 sec 4, 6.3). */
#include "base/log.h"
#include "lwip/prot/icmp.h"
#include "lwip/prot/icmp6.h"
#include "tcpip/lw.h"

enum {
    ICMP_HEAD = 8,
    QUOTED_TCP = 8, /* ports and sequence number: all that has to be quoted */
    LEAST4 = VNET_IP4 + ICMP_HEAD + VNET_IP4 + QUOTED_TCP,
    LEAST6 = ICMP_HEAD + VNET_IP6 + QUOTED_TCP, /* behind the IP header */
    MTU4_LEAST = 552,
    MTU6_LEAST = 1280,
};

/* What the message says. */
struct too_big {
    const uint8_t *quoted; /* the IP header of the packet that was dropped */
    uint32_t mtu;
    bool v6;
};

/* Whether the packet of that length is such a message; the frame's address was ours. */
static bool read4(const uint8_t *ip, uint32_t len, struct too_big *m)
{
    const uint8_t *icmp = ip + VNET_IP4;
    uint32_t total = get_be16(ip + 2);
    if (len < LEAST4 || ip[0] != 0x45 || ip[9] != IP_PROTO_ICMP ||
        (get_be16(ip + 6) & 0x3fff) != 0 || total > len || total < LEAST4 || icmp[0] != ICMP_DUR ||
        icmp[1] != ICMP_DUR_FRAG || vnet_sum_end(vnet_sum(0, ip, VNET_IP4)) != 0 ||
        vnet_sum_end(vnet_sum(0, icmp, total - VNET_IP4)) != 0) {
        return false;
    }
    const uint8_t *q = icmp + ICMP_HEAD;
    *m = (struct too_big){q, max_u32(get_be16(icmp + 6), MTU4_LEAST), false};
    return q[0] == 0x45 && q[9] == IP_PROTO_TCP && (get_be16(q + 6) & 0x1fff) == 0 &&
           get_be16(q + 2) > m->mtu;
}

static bool read6(const uint8_t *ip, uint32_t len, struct too_big *m)
{
    const uint8_t *icmp = ip + VNET_IP6;
    uint32_t total = get_be16(ip + 4);
    if (len < VNET_IP6 + LEAST6 || ip[6] != IP6_NEXTH_ICMP6 || total > len - VNET_IP6 ||
        total < LEAST6 || icmp[0] != ICMP6_TYPE_PTB) {
        return false;
    }
    uint8_t rest[4] = {0, 0, 0, IP6_NEXTH_ICMP6};
    put_be16(rest, total);
    uint64_t sum = vnet_sum(vnet_sum(0, ip + 8, 32), rest, sizeof rest);
    if (vnet_sum_end(vnet_sum(sum, icmp, total)) != 0) {
        return false;
    }
    const uint8_t *q = icmp + ICMP_HEAD;
    *m = (struct too_big){q, max_u32(get_be32(icmp + 4), MTU6_LEAST), true};
    return q[6] == IP6_NEXTH_TCP && VNET_IP6 + (uint32_t)get_be16(q + 4) > m->mtu;
}

static bool on_its_way(const struct tcp_pcb *pcb, uint32_t seq)
{
    return seq - pcb->lastack < pcb->snd_nxt - pcb->lastack;
}

/* As a frame has its Ethernet header, so something stands in front of what is quoted. */
static void believe(struct lw_net *net, const struct too_big *m)
{
    struct vnet_tcp t = {.l4 = VNET_ETH + (m->v6 ? VNET_IP6 : VNET_IP4), .v6 = m->v6};
    const uint8_t *f = m->quoted - VNET_ETH;
    struct lw_stream *s = lw_table_sender(net, f, &t);
    if (s == NULL || s->pcb == NULL || !on_its_way(s->pcb, get_be32(f + t.l4 + 4))) {
        return;
    }
    if (m->mtu < (s->path_mtu != 0 ? s->path_mtu : net->link->mtu)) {
        log_line(LOG_DEBUG, "%s: the path of a connection has an MTU of %u", net->label, m->mtu);
        s->path_mtu = (uint16_t)m->mtu;
        lw_stream_mtu(s);
    }
}

void lw_pmtu_input(struct lw_net *net, const struct frame *f)
{
    struct too_big m;
    if (f->next != NULL || f->len < VNET_ETH + VNET_IP4 ||
        memcmp(f->data, net->nif.hwaddr, 6) != 0) {
        return;
    }
    const uint8_t *ip = f->data + VNET_ETH;
    uint32_t len = f->len - VNET_ETH;
    uint16_t type = vnet_type(f->data);
    if ((type == VNET_TYPE_IP4 && read4(ip, len, &m)) ||
        (type == VNET_TYPE_IP6 && read6(ip, len, &m))) {
        believe(net, &m);
    }
}
