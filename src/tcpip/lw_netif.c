/* SPDX-License-Identifier: MIT */
/* Frames between lwIP and the link: what may come in, and the virtual MSS on the way out. lwIP takes
 * the link for one with an MTU of 64 KB; its SYNs leave with the true MSS, its large segments with
 * an instruction to cut them at that. */
#include <errno.h>

#include "base/log.h"
#include "lwip/etharp.h"
#include "lwip/ethip6.h"
#include "netif/ethernet.h"
#include "tcpip/lw.h"

enum { IP_PROTOCOL = VNET_ETH + 9 };

static void free_frames(struct frame *f)
{
    while (f != NULL) {
        struct frame *next = f->next;
        frame_free(f);
        f = next;
    }
}

static bool for_us(const struct lw_net *net, const uint8_t *f)
{
    return memcmp(f, net->nif.hwaddr, 6) == 0;
}

static bool is_broadcast(const uint8_t *f)
{
    return memcmp(f, "\xff\xff\xff\xff\xff\xff", 6) == 0;
}

/* The filter that a network card would be; protocols we do not speak stay out as well. */
static bool wanted(const struct lw_net *net, const struct frame *f, struct vnet_tcp *t,
                   bool *is_tcp)
{
    *is_tcp = false;
    uint32_t rest = f->next != NULL ? f->next->len : 0;
    if (f->len < VNET_ETH || f->len + rest > FRAME_MAX) {
        return false;
    }
    bool ours = for_us(net, f->data);
    uint16_t type = vnet_type(f->data);
    if (type == VNET_TYPE_ARP) {
        return ours || is_broadcast(f->data);
    }
    if (type == VNET_TYPE_IP6) {
        *is_tcp = ours && vnet_find_tcp(f->data, f->len, f->len + rest, t);
        return net->has6 && (*is_tcp || (rest == 0 && lw_nd_wanted(net, f, ours)));
    }
    if (type != VNET_TYPE_IP4 || !ours || f->len < VNET_ETH + VNET_IP4) {
        return false;
    }
    *is_tcp = f->data[IP_PROTOCOL] == IP_PROTO_TCP;
    return !*is_tcp || vnet_find_tcp(f->data, f->len, f->len + rest, t);
}

static void capture_received(struct capture *c, const struct frame *f)
{
    struct iovec v[2] = {{f->data, f->len}};
    if (f->next != NULL) {
        v[1] = (struct iovec){f->next->data, f->next->len};
    }
    capture_packet(c, false, v, f->next != NULL ? 2 : 1);
}

static struct pbuf *pbuf_of(struct frame *f)
{
    struct frame *rest = f->next;
    f->next = NULL;
    struct pbuf *p = frame_pbuf(f);
    if (rest != NULL) {
        pbuf_cat(p, frame_pbuf(rest));
    }
    return p;
}

/* Whether lwIP's Ethernet and IPv4 would find nothing to do for a segment or to object to: it is of a connection,
 * which has no strange addresses, and wanted() has seen the rest but for octets behind the datagram and the
 * header's checksum. */
static bool goes_straight(const struct lw_net *net, const struct frame *f, const struct vnet_tcp *t)
{
    uint32_t len = f->len + (f->next != NULL ? f->next->len : 0);
    return tcp_active_pcbs != NULL && !t->v6 && t->end == len &&
           (net->link->memory || vnet_sum_end(vnet_sum(0, f->data + VNET_ETH, VNET_IP4)) == 0);
}

/* As ip4_input() leaves it to TCP. */
static void input_straight(struct lw_net *net, struct pbuf *p)
{
    const struct tcp_pcb *pcb = tcp_active_pcbs;
    p->if_idx = netif_get_index(&net->nif);
    ip_data.current_netif = &net->nif;
    ip_data.current_input_netif = &net->nif;
    ip_data.current_ip4_header =
        (const struct ip_hdr *)(const void *)((uint8_t *)p->payload - VNET_IP4);
    ip_data.current_ip_header_tot_len = VNET_IP4;
    ip_addr_copy(ip_data.current_iphdr_src, pcb->remote_ip);
    ip_addr_copy(ip_data.current_iphdr_dest, pcb->local_ip);
    tcp_input(p, &net->nif);
    ip_data.current_netif = NULL;
    ip_data.current_input_netif = NULL;
    ip_data.current_ip4_header = NULL;
    ip_data.current_ip_header_tot_len = 0;
    ip4_addr_set_any(ip4_current_src_addr());
    ip4_addr_set_any(ip4_current_dest_addr());
}

void lw_input(struct lw_net *net, struct frame *f)
{
    struct vnet_tcp t;
    bool is_tcp;
    net->rx_frames++;
    if (net->capture != NULL && f->len > 0) { /* else it was of another VLAN */
        capture_received(net->capture, f);
    }
    bool ours = wanted(net, f, &t, &is_tcp);
    if (!is_tcp) {
        lw_pmtu_input(net, f);
    }
    if (!ours) {
        net->rx_other++;
        free_frames(f);
        return;
    }
    if (is_tcp && !f->sum_ok && !vnet_tcp_sum_ok(f->data, &t)) {
        net->rx_bad_sum++;
        free_frames(f);
        return;
    }
    if (is_tcp) {
        lw_table_show(net, f->data, &t);
    }
    if (is_tcp && goes_straight(net, f, &t)) {
        f->data += t.l4;
        f->len -= t.l4;
        input_straight(net, pbuf_of(f));
    } else {
        ethernet_input(pbuf_of(f), &net->nif);
    }
    if (is_tcp) {
        lw_table_take_back();
    }
}

/* What the segments of this connection are cut at. */
static uint32_t segment_of(const struct lw_net *net, const uint8_t *f, const struct vnet_tcp *t)
{
    const struct tcp_pcb *pcb = net->out_pcb;
    if (pcb != NULL && pcb->local_port == get_be16(f + t->l4) &&
        pcb->remote_port == get_be16(f + t->l4 + 2) &&
        lw_addr_is(&pcb->remote_ip, f + VNET_ETH + (t->v6 ? 24 : 16), t->v6)) {
        const struct lw_stream *s = pcb->callback_arg;
        return s != NULL ? s->base.emss : 0;
    }
    const struct lw_stream *s = lw_table_sender(net, f, t);
    return s != NULL ? s->base.emss : 0;
}

static void put_pieces(struct link_tx *t, const struct pbuf *p, uint32_t skip)
{
    for (; p != NULL; p = p->next) {
        if (skip >= p->len) {
            skip -= p->len;
            continue;
        }
        if (t->n > LINK_PIECES) {
            t->n++;
            return;
        }
        t->v[t->n].iov_base = (uint8_t *)p->payload + skip;
        t->v[t->n].iov_len = p->len - skip;
        t->n++;
        skip = 0;
    }
}

/* The headers leave from a copy: what they get here is for this transmission only. */
static void put_tcp(struct lw_net *net, const struct pbuf *p, const struct vnet_tcp *t)
{
    uint8_t *head = net->tx_head;
    memcpy(head, p->payload, t->pay);
    if ((head[t->l4 + 13] & VNET_SYN) != 0) {
        vnet_clamp_mss(head, t, (uint16_t)lw_mss(net, t->v6));
    }
    if (!net->link->memory) {
        vnet_dont_fragment(head, t);
        uint32_t whole = net->link->mtu - (t->pay - VNET_ETH);
        uint32_t gso = t->end - t->pay > LW_SEG_MIN ? segment_of(net, head, t) : 0;
        vnet_offload(head, t, gso != 0 ? gso : whole, &net->tx.vh);
    }
    net->tx.v[1].iov_base = head;
    net->tx.v[1].iov_len = t->pay;
    net->tx.n = 2;
    put_pieces(&net->tx, p, t->pay);
}

bool lw_transmit(struct lw_net *net)
{
    struct link_tx *tx = &net->tx;
    int r = net->link->ops->tx(net->link, tx);
    if (r == -EAGAIN) {
        net->link_full = true;
        return false;
    }
    net->tx_frames++;
    net->tx_lost += r != 0;
    if (net->capture != NULL) {
        capture_packet(net->capture, true, tx->v + 1, tx->n - 1);
    }
    return true;
}

static err_t link_output(struct netif *nif, struct pbuf *p)
{
    struct lw_net *net = nif->state;
    struct link_tx *tx = &net->tx;
    struct vnet_tcp t = {0};
    memset(&tx->vh, 0, sizeof tx->vh);
    tx->len = p->tot_len;
    tx->n = 1;
    if (vnet_find_tcp(p->payload, p->len, p->tot_len, &t)) {
        put_tcp(net, p, &t);
    } else {
        put_pieces(tx, p, 0);
    }
    if (tx->n > LINK_PIECES + 1) {
        log_line(LOG_ERROR, "%s: a frame of too many pieces was dropped", net->label);
        return ERR_OK;
    }
    return lw_transmit(net) || (t.end == t.pay && lw_late_keep(net)) ? ERR_OK : ERR_MEM;
}

/* To our own address: taken in at the next turn, as lwIP cannot be entered from within. */
static err_t output_to_self(struct lw_net *net, const struct pbuf *p)
{
    uint32_t len = VNET_ETH + p->tot_len;
    struct frame *f = len <= FRAME_MAX ? frame_new(len) : NULL;
    if (f == NULL) {
        return ERR_MEM;
    }
    f->len = len;
    f->sum_ok = true;
    memcpy(f->data, net->nif.hwaddr, 6);
    memcpy(f->data + 6, net->nif.hwaddr, 6);
    pbuf_copy_partial(p, f->data + VNET_ETH, p->tot_len, 0);
    put_be16(f->data + 12, f->data[VNET_ETH] >> 4 == 6 ? VNET_TYPE_IP6 : VNET_TYPE_IP4);
    struct frame **at = net->self_first == NULL ? &net->self_first : &net->self_last->next;
    *at = f;
    net->self_last = f;
    return ERR_OK;
}

uint32_t lw_input_self(struct lw_net *net)
{
    uint32_t n = 0;
    /* What this brings forth is for the next turn. */
    struct frame *f = net->self_first;
    net->self_first = NULL;
    while (f != NULL) {
        struct frame *next = f->next;
        f->next = NULL;
        lw_input(net, f);
        f = next;
        n++;
    }
    return n;
}

/* A packet may wait for its neighbour's address in a queue of lwIP that outlives the connection, and
 * with it the memory that its payload refers to. Marked volatile, payload is copied for that. */
static void mark_volatile(struct pbuf *p)
{
    for (struct pbuf *q = p->next; q != NULL; q = q->next) {
        q->type_internal |= PBUF_TYPE_FLAG_DATA_VOLATILE;
    }
}

static err_t output_ip4(struct netif *nif, struct pbuf *p, const ip4_addr_t *ip)
{
    if (ip4_addr_eq(ip, netif_ip4_addr(nif))) {
        return output_to_self(nif->state, p);
    }
    mark_volatile(p);
    return etharp_output(nif, p, ip);
}

static err_t output_ip6(struct netif *nif, struct pbuf *p, const ip6_addr_t *ip)
{
    struct lw_net *net = nif->state;
    if (lw_mine6(net, ip)) {
        return output_to_self(net, p);
    }
    mark_volatile(p);
    return ethip6_output(nif, p, lw_hop6(net, ip));
}

err_t lw_netif_init(struct netif *nif)
{
    struct lw_net *net = nif->state;
    nif->name[0] = 'u';
    nif->name[1] = 'w';
    nif->output = output_ip4;
    nif->output_ip6 = output_ip6;
    nif->linkoutput = link_output;
    nif->hwaddr_len = ETH_HWADDR_LEN;
    nif->mtu = 65535;
    nif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET | NETIF_FLAG_MLD6 |
                 NETIF_FLAG_LINK_UP;
    u16_t off = NETIF_CHECKSUM_GEN_TCP | NETIF_CHECKSUM_CHECK_TCP;
    if (net->link->memory) {
        off |= NETIF_CHECKSUM_CHECK_IP;
    }
    NETIF_SET_CHECKSUM_CTRL(nif, (u16_t)(NETIF_CHECKSUM_ENABLE_ALL & ~off));
    return ERR_OK;
}

void lw_announce(struct lw_net *net)
{
    if (!ip4_addr_isany(netif_ip4_addr(&net->nif))) {
        etharp_gratuitous(&net->nif);
    }
    lw_nd_announce(net);
}
