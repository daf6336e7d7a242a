/* SPDX-License-Identifier: MIT */
/* The kernel's TCP shows us streams, not packets. For a capture they are told as packets of up to 64 KB
 * that carry the same octets in the same order; what the wire really had, nobody here knows. */
#include <netinet/in.h>

#include "tcpip/capture.h"
#include "tcpip/vnet.h"

enum {
    PIECES = 64, /* of a packet, its headers included */
    PAYLOAD_MAX = 65535 - VNET_IP6 - VNET_TCP - 4,
    WINDOW = 65535,
    PROTO_TCP = 6,
    HOPS = 64,
};

/* Headers begin where an Ethernet frame has them, since vnet.c counts from there. */
struct packet {
    uint8_t head[VNET_HDR_MAX];
    struct vnet_tcp t;
    uint64_t sum; /* of the payload so far */
    struct iovec v[PIECES];
    uint32_t n, len;
};

static void put_ip4(struct packet *p, const struct sockaddr_in *from, const struct sockaddr_in *to)
{
    uint8_t *ip = p->head + VNET_ETH;
    put_be16(p->head + 12, VNET_TYPE_IP4);
    ip[0] = 0x45;
    put_be16(ip + 6, 0x4000); /* do not fragment */
    ip[8] = HOPS;
    ip[9] = PROTO_TCP;
    memcpy(ip + 12, &from->sin_addr, 4);
    memcpy(ip + 16, &to->sin_addr, 4);
}

static void put_ip6(struct packet *p, const struct sockaddr_in6 *from,
                    const struct sockaddr_in6 *to)
{
    uint8_t *ip = p->head + VNET_ETH;
    put_be16(p->head + 12, VNET_TYPE_IP6);
    ip[0] = 0x60;
    ip[6] = PROTO_TCP;
    ip[7] = HOPS;
    memcpy(ip + 8, &from->sin6_addr, 16);
    memcpy(ip + 24, &to->sin6_addr, 16);
}

static void packet_begin(struct packet *p, const struct capture_tcp *t, bool sent, uint8_t flags)
{
    const union net_addr *from = sent ? &t->local : &t->remote;
    const union net_addr *to = sent ? &t->remote : &t->local;
    bool v6 = from->sa.sa_family == AF_INET6;
    *p = (struct packet){.n = 1};
    if (v6) {
        put_ip6(p, &from->in6, &to->in6);
    } else {
        put_ip4(p, &from->in4, &to->in4);
    }
    p->t.v6 = v6;
    p->t.l4 = VNET_ETH + (v6 ? VNET_IP6 : VNET_IP4);
    p->t.pay = p->t.l4 + VNET_TCP;
    uint8_t *tcp = p->head + p->t.l4;
    /* The ports are at one place in both kinds of address. */
    memcpy(tcp, &from->in4.sin_port, 2);
    memcpy(tcp + 2, &to->in4.sin_port, 2);
    put_be32(tcp + 4, t->seq[sent ? 0 : 1]);
    put_be32(tcp + 8, (flags & VNET_ACK) != 0 ? t->seq[sent ? 1 : 0] : 0);
    tcp[12] = VNET_TCP / 4 << 4;
    tcp[13] = flags;
    put_be16(tcp + 14, WINDOW);
}

static void packet_end(struct packet *p, struct capture_tcp *t, bool sent)
{
    struct virtio_net_hdr vh;
    uint8_t *tcp = p->head + p->t.l4;
    p->t.end = p->t.pay + p->len;
    vnet_put_length(p->head, &p->t);
    vnet_put_ip_sum(p->head, &p->t);
    vnet_offload(p->head, &p->t, PAYLOAD_MAX, &vh); /* the pseudo header's sum */
    uint64_t sum = vnet_sum(p->sum, tcp, p->t.pay - p->t.l4);
    uint16_t check = vnet_sum_end(sum);
    memcpy(tcp + 16, &check, 2);
    p->v[0] = (struct iovec){p->head + VNET_ETH, p->t.pay - VNET_ETH};
    capture_packet(t->c, sent, p->v, p->n);
    uint32_t used = p->len + ((tcp[13] & (VNET_SYN | VNET_FIN)) != 0);
    t->seq[sent ? 0 : 1] += used;
}

static void bare(struct capture_tcp *t, bool sent, uint8_t flags)
{
    struct packet p;
    packet_begin(&p, t, sent, flags);
    packet_end(&p, t, sent);
}

void capture_tcp_open(struct capture_tcp *t, struct capture *c, const struct net_stream *s,
                      bool connected)
{
    *t = (struct capture_tcp){.c = c, .local = s->local, .remote = s->remote, .seq = {1000, 5000}};
    if (c != NULL) {
        bare(t, connected, VNET_SYN);
        bare(t, !connected, VNET_SYN | VNET_ACK);
        bare(t, connected, VNET_ACK);
    }
}

void capture_tcp_data(struct capture_tcp *t, bool sent, const struct iovec *v, uint32_t n)
{
    struct packet p;
    size_t off = 0;
    while (t->c != NULL && n > 0) {
        packet_begin(&p, t, sent, VNET_ACK | VNET_PSH);
        /* Pieces of odd length would shift the sum of what follows: such a piece ends its packet. */
        bool odd = false;
        while (n > 0 && p.n < PIECES && p.len < PAYLOAD_MAX && !odd) {
            uint32_t part = (uint32_t)min_u64(v->iov_len - off, PAYLOAD_MAX - p.len);
            const uint8_t *from = (const uint8_t *)v->iov_base + off;
            p.sum = vnet_sum(p.sum, from, part);
            p.v[p.n++] = (struct iovec){(uint8_t *)(uintptr_t)from, part};
            p.len += part;
            off += part;
            odd = part % 2 != 0;
            if (off == v->iov_len) {
                off = 0;
                v++;
                n--;
            }
        }
        if (p.len > 0) {
            packet_end(&p, t, sent);
        }
    }
}

void capture_tcp_end(struct capture_tcp *t, bool sent, bool reset)
{
    if (t->c != NULL) {
        bare(t, sent, reset ? VNET_RST | VNET_ACK : VNET_FIN | VNET_ACK);
    }
}
