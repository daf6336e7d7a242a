/* SPDX-License-Identifier: MIT */
#include "tcpip/vnet.h"

enum { IP_PROTO_TCP_NR = 6, TCP_OPT_END = 0, TCP_OPT_NOP = 1, TCP_OPT_MSS = 2 };

uint16_t vnet_type(const uint8_t *f)
{
    return get_be16(f + 12);
}

void vnet_put_tag(uint8_t tag[VNET_TAG], uint16_t vlan)
{
    put_be16(tag, VNET_TYPE_VLAN);
    put_be16(tag + 2, vlan);
}

bool vnet_untag(uint8_t *f, uint32_t len, uint16_t vlan)
{
    if (len < VNET_ETH + VNET_TAG || vnet_type(f) != VNET_TYPE_VLAN ||
        (get_be16(f + VNET_ETH) & 0xfff) != vlan) {
        return false;
    }
    memmove(f + VNET_TAG, f, VNET_TAG_AT);
    return true;
}

/* Length of the IP packet, 0 when it is none that has TCP right behind its header. lwIP drops IP options
 * and fragments (RFC 791), and we what has IPv6 extensions, so they need no offload either. */
static uint32_t ip4_length(const uint8_t *ip)
{
    bool plain = ip[0] == 0x45 && ip[9] == IP_PROTO_TCP_NR && (get_be16(ip + 6) & 0x3fff) == 0;
    return plain ? get_be16(ip + 2) : 0;
}

static uint32_t ip6_length(const uint8_t *ip)
{
    return ip[0] >> 4 == 6 && ip[6] == IP_PROTO_TCP_NR ? VNET_IP6 + get_be16(ip + 4) : 0;
}

bool vnet_find_tcp(const uint8_t *f, uint32_t have, uint32_t len, struct vnet_tcp *t)
{
    if (have < VNET_ETH + VNET_IP4 + VNET_TCP) {
        return false;
    }
    const uint8_t *ip = f + VNET_ETH;
    uint32_t type = vnet_type(f);
    t->v6 = type == VNET_TYPE_IP6;
    if (type != VNET_TYPE_IP4 && (!t->v6 || have < VNET_ETH + VNET_IP6 + VNET_TCP)) {
        return false;
    }
    uint32_t total = t->v6 ? ip6_length(ip) : ip4_length(ip);
    t->l4 = VNET_ETH + (t->v6 ? VNET_IP6 : VNET_IP4);
    t->end = VNET_ETH + total;
    if (t->end > len || t->end < t->l4 + VNET_TCP) {
        return false;
    }
    uint32_t doff = (uint32_t)(f[t->l4 + 12] >> 4) * 4;
    t->pay = t->l4 + doff;
    return doff >= VNET_TCP && t->pay <= t->end && t->pay <= have;
}

uint64_t vnet_sum(uint64_t sum, const void *p, size_t n)
{
    const uint8_t *b = p;
    /* The sum does not depend on the order of octets within words (RFC 1071 sec 2), so words are
     * added as they lie in memory. 32-bit words in a 64-bit sum cannot overflow for any frame. */
    for (; n >= 4; n -= 4, b += 4) {
        uint32_t w;
        memcpy(&w, b, 4);
        sum += w;
    }
    uint8_t tail[4] = {0};
    memcpy(tail, b, n);
    uint32_t w;
    memcpy(&w, tail, 4);
    return sum + w;
}

/* As it lies in memory: to be stored with memcpy. */
static uint16_t sum_fold(uint64_t sum)
{
    while (sum >> 16 != 0) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return (uint16_t)sum;
}

uint16_t vnet_sum_end(uint64_t sum)
{
    return (uint16_t)~sum_fold(sum);
}

static uint64_t pseudo_sum(const uint8_t *f, const struct vnet_tcp *t)
{
    uint8_t rest[4] = {0, IP_PROTO_TCP_NR};
    put_be16(rest + 2, t->end - t->l4);
    uint64_t sum = t->v6 ? vnet_sum(0, f + VNET_ETH + 8, 32) : vnet_sum(0, f + VNET_ETH + 12, 8);
    return vnet_sum(sum, rest, 4);
}

bool vnet_tcp_sum_ok(const uint8_t *f, const struct vnet_tcp *t)
{
    return vnet_sum_end(vnet_sum(pseudo_sum(f, t), f + t->l4, t->end - t->l4)) == 0;
}

bool vnet_tcp_sum_partial(const uint8_t *f, const struct vnet_tcp *t)
{
    uint16_t s = sum_fold(pseudo_sum(f, t));
    return memcmp(f + t->l4 + 16, &s, 2) == 0;
}

void vnet_put_ip_sum(uint8_t *f, const struct vnet_tcp *t)
{
    if (!t->v6) {
        uint8_t *sum = f + VNET_ETH + 10;
        memset(sum, 0, 2);
        uint16_t s = vnet_sum_end(vnet_sum(0, f + VNET_ETH, VNET_IP4));
        memcpy(sum, &s, 2);
    }
}

void vnet_dont_fragment(uint8_t *f, const struct vnet_tcp *t)
{
    uint8_t *flags = f + VNET_ETH + 6, *sum = f + VNET_ETH + 10;
    if (!t->v6 && (*flags & 0x40) == 0) {
        *flags |= 0x40;
        uint32_t s = get_be16(sum) + (0xffffu - 0x4000); /* RFC 1624 */
        put_be16(sum, s + (s >> 16));
    }
}

void vnet_put_sums(uint8_t *f, const struct vnet_tcp *t)
{
    vnet_put_ip_sum(f, t);
    memset(f + t->l4 + 16, 0, 2);
    uint16_t s = vnet_sum_end(vnet_sum(pseudo_sum(f, t), f + t->l4, t->end - t->l4));
    memcpy(f + t->l4 + 16, &s, 2);
}

void vnet_clamp_mss(uint8_t *f, const struct vnet_tcp *t, uint16_t mss)
{
    uint32_t i = t->l4 + VNET_TCP;
    while (i < t->pay && f[i] != TCP_OPT_END) {
        if (f[i] == TCP_OPT_NOP) {
            i++;
            continue;
        }
        uint32_t left = t->pay - i;
        if (left < 2 || f[i + 1] < 2 || f[i + 1] > left) {
            return;
        }
        if (f[i] == TCP_OPT_MSS && f[i + 1] == 4) {
            put_be16(f + i + 2, min_u32(get_be16(f + i + 2), mss));
        }
        i += f[i + 1];
    }
}

void vnet_offload(uint8_t *f, const struct vnet_tcp *t, uint32_t gso, struct virtio_net_hdr *vh)
{
    uint16_t s = sum_fold(pseudo_sum(f, t));
    memcpy(f + t->l4 + 16, &s, 2);
    vh->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
    vh->csum_start = (uint16_t)t->l4;
    vh->csum_offset = 16;
    vh->hdr_len = (uint16_t)t->pay;
    if (t->end - t->pay > gso) {
        vh->gso_type = t->v6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4;
        vh->gso_size = (uint16_t)gso;
    }
}

void vnet_put_length(uint8_t *f, const struct vnet_tcp *t)
{
    if (t->v6) {
        put_be16(f + VNET_ETH + 4, t->end - VNET_ETH - VNET_IP6);
    } else {
        put_be16(f + VNET_ETH + 2, t->end - VNET_ETH);
    }
}

uint32_t vnet_piece(const uint8_t *f, const struct vnet_tcp *t, uint32_t off, uint32_t n,
                    uint8_t *out)
{
    memcpy(out, f, t->pay);
    memcpy(out + t->pay, f + t->pay + off, n);
    struct vnet_tcp piece = {t->l4, t->pay, t->pay + n, t->v6};
    vnet_put_length(out, &piece);
    put_be32(out + t->l4 + 4, get_be32(f + t->l4 + 4) + off);
    if (t->pay + off + n < t->end) {
        out[t->l4 + 13] &= (uint8_t) ~(VNET_PSH | VNET_FIN);
    }
    vnet_put_sums(out, &piece);
    return piece.end;
}
