/* SPDX-License-Identifier: MIT */
#include "packet.h"

#include <pcap/dlt.h>

enum {
    ETH_IP4 = 0x0800,
    ETH_IP6 = 0x86dd,
    ETH_VLAN = 0x8100,
    ETH_QINQ = 0x88a8,
    ETH_QINQ_OLD = 0x9100,
    IP_TCP = 6,
    EXT_FRAGMENT = 44,
    SUM_BLOCK = 64, /* octets that are summed at a time */
    TCP_HDR = 20,
    SLL2 = 276, /* DLT_LINUX_SLL2, which old headers lack */
    RAW_OPENBSD = 14,
    TAGS_MAX = 8,
    EXT_MAX = 16,
};

/* What is left of a frame: p has cap octets, of len that were on the wire. */
struct rest {
    const uint8_t *p;
    uint32_t cap, len;
};

static bool step(struct rest *r, uint32_t n)
{
    if (n > r->cap) {
        return false;
    }
    r->p += n;
    r->cap -= n;
    r->len -= n;
    return true;
}

/* The packet ends before the frame does: padding of short Ethernet frames, an FCS. */
static void trim(struct rest *r, uint32_t len)
{
    r->len = min_u32(r->len, len);
    r->cap = min_u32(r->cap, r->len);
}

/* --- checksums --- */

static uint64_t add_carry(uint64_t a, uint64_t b)
{
    a += b;
    return a + (a < b);
}

/* Octets are summed in words of 64 bits: 2^64 - 1 is a multiple of 2^16 - 1. Four sums at a time, or each
 * addition would wait for the carry of the one before. */
static uint64_t sum_blocks(const uint8_t *p, uint32_t n)
{
    uint64_t s[4] = {0, 0, 0, 0};
    for (; n > 0; n -= 32, p += 32) {
        uint64_t w[4];
        memcpy(w, p, sizeof w);
        for (unsigned i = 0; i < 4; i++) {
            s[i] = add_carry(s[i], w[i]);
        }
    }
    return add_carry(add_carry(s[0], s[1]), add_carry(s[2], s[3]));
}

#ifdef __x86_64__
typedef uint64_t lanes __attribute__((vector_size(32)));

/* Halves of the words, so that there are no carries: there are far fewer than 2^32 of them. */
__attribute__((target("avx2"))) static uint64_t sum_wide(const uint8_t *p, uint32_t n)
{
    const lanes half = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
    lanes low = {0};
    lanes high = {0};
    for (; n > 0; n -= SUM_BLOCK, p += SUM_BLOCK) {
        lanes v;
        lanes w;
        memcpy(&v, p, sizeof v);
        memcpy(&w, p + sizeof v, sizeof w);
        low += (v & half) + (w & half);
        high += (v >> 32) + (w >> 32);
    }
    low += high;
    return low[0] + low[1] + low[2] + low[3];
}
#endif

static uint64_t sum_many(const uint8_t *p, uint32_t n)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        return sum_wide(p, n);
    }
#endif
    return sum_blocks(p, n);
}

/* The sum of 16-bit words modulo 2^16 - 1. */
static uint64_t sum_of(const uint8_t *p, uint32_t n)
{
    uint64_t tail[SUM_BLOCK / 8] = {0};
    uint32_t whole = n - n % SUM_BLOCK;
    uint64_t s = whole > 0 ? sum_many(p, whole) : 0;
    memcpy(tail, p + whole, n - whole);
    for (unsigned i = 0; i < ARRAY_LEN(tail); i++) {
        s = add_carry(s, tail[i]);
    }
    return s;
}

/* Folded to 16 bits, in the octets' own order. */
static uint32_t fold(uint64_t s)
{
    s = (s & 0xffffffff) + (s >> 32);
    s = (s & 0xffffffff) + (s >> 32);
    uint32_t v = (uint32_t)s;
    v = (v & 0xffff) + (v >> 16);
    v = (v & 0xffff) + (v >> 16);
    return v;
}

static uint64_t pseudo(const struct packet *pk, uint32_t tcp_len)
{
    uint8_t tail[8] = {0};
    put_be32(tail, tcp_len);
    tail[7] = IP_TCP;
    uint32_t n = pk->v6 ? 16 : 4;
    return add_carry(add_carry(sum_of(pk->src, n), sum_of(pk->dst, n)), sum_of(tail, sizeof tail));
}

/* A sender with checksum offload leaves the sum of the pseudo header in the field, with a length of
 * the whole or, before segmentation offload, of nothing. A link in memory leaves the field empty. */
static enum packet_sum check_sum(const struct packet *pk, const struct rest *tcp)
{
    if (tcp->cap < tcp->len) {
        return SUM_UNKNOWN;
    }
    uint64_t head = pseudo(pk, tcp->len);
    if (fold(add_carry(head, sum_of(tcp->p, tcp->len))) == 0xffff) {
        return SUM_GOOD;
    }
    uint16_t field;
    memcpy(&field, tcp->p + 16, sizeof field);
    bool offload = field == 0 || field == fold(head) || field == fold(pseudo(pk, 0));
    return offload ? SUM_OFFLOAD : SUM_BAD;
}

/* --- TCP --- */

static uint16_t find_mss(const uint8_t *opt, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && opt[i] != 0) {
        if (opt[i] == 1) {
            i++;
            continue;
        }
        if (n - i < 2 || opt[i + 1] < 2 || opt[i + 1] > n - i) {
            break;
        }
        if (opt[i] == 2 && opt[i + 1] == 4) {
            return get_be16(opt + i + 2);
        }
        i += opt[i + 1];
    }
    return 0;
}

static enum packet_kind parse_tcp(struct rest r, struct packet *out)
{
    if (r.len < TCP_HDR) {
        return PACKET_BAD;
    }
    if (r.cap < TCP_HDR) {
        return PACKET_CUT;
    }
    const uint8_t *h = r.p;
    uint32_t hlen = (uint32_t)(h[12] >> 4) * 4;
    if (hlen < TCP_HDR || hlen > r.len) {
        return PACKET_BAD;
    }
    out->sport = get_be16(h);
    out->dport = get_be16(h + 2);
    out->seq = get_be32(h + 4);
    out->ack = get_be32(h + 8);
    out->flags = h[13];
    out->sum = check_sum(out, &r);
    out->mss = 0;
    if ((out->flags & TCP_SYN) != 0) {
        out->mss = find_mss(h + TCP_HDR, min_u32(hlen, r.cap) - TCP_HDR);
    }
    out->len = r.len - hlen;
    out->data = r.cap > hlen ? (struct span){h + hlen, r.cap - hlen} : (struct span){h, 0};
    return PACKET_TCP;
}

/* --- IP --- */

/* A fragment: what is left belongs to a packet that is put together elsewhere. */
static enum packet_kind take_part(const struct rest *r, struct packet *out)
{
    if (r->len == 0 || (out->part.more && r->len % 8 != 0)) {
        return PACKET_BAD;
    }
    out->part.len = r->len;
    out->data = (struct span){r->p, r->cap};
    return PACKET_FRAGMENT;
}

static enum packet_kind parse_ip4(struct rest r, struct packet *out)
{
    if (r.cap < 20) {
        return PACKET_CUT;
    }
    const uint8_t *h = r.p;
    uint32_t hlen = (uint32_t)(h[0] & 0x0f) * 4;
    uint32_t total = get_be16(h + 2);
    if (h[0] >> 4 != 4 || hlen < 20 || (total != 0 && total < hlen)) {
        return PACKET_BAD;
    }
    if (total != 0) { /* 0: a super-frame that was never cut into packets */
        trim(&r, total);
    }
    if (h[9] != IP_TCP) {
        return PACKET_OTHER;
    }
    if (r.cap < hlen) {
        return PACKET_CUT;
    }
    bool blank = h[10] == 0 && h[11] == 0; /* left to the device */
    if (!blank && fold(sum_of(h, hlen)) != 0xffff) {
        return PACKET_BAD;
    }
    out->v6 = false;
    out->src = h + 12;
    out->dst = h + 16;
    step(&r, hlen);
    uint32_t word = get_be16(h + 6);
    if ((word & 0x3fff) != 0) {
        out->part = (struct part){.id = get_be16(h + 4),
                                  .off = (word & 0x1fff) * 8,
                                  .next = h[9],
                                  .more = (word & 0x2000) != 0};
        return take_part(&r, out);
    }
    return parse_tcp(r, out);
}

/* Length of an extension header, 0 when there is none of that kind. */
static uint32_t ext_len(uint8_t next, const uint8_t *p)
{
    switch (next) {
    case 0:   /* hop-by-hop */
    case 43:  /* routing */
    case 60:  /* destination */
    case 135: /* mobility */
    case 139: /* HIP */
    case 140: /* shim6 */ return ((uint32_t)p[1] + 1) * 8;
    case 51: /* authentication */ return ((uint32_t)p[1] + 2) * 4;
    case EXT_FRAGMENT: return 8;
    default: return 0;
    }
}

/* Extension headers, then TCP. */
static enum packet_kind parse_chain(struct rest r, uint8_t next, struct packet *out)
{
    for (unsigned i = 0; next != IP_TCP; i++) {
        if (i == EXT_MAX || r.cap < 8) {
            return i == EXT_MAX || r.len < 8 ? PACKET_OTHER : PACKET_CUT;
        }
        const uint8_t *h = r.p;
        uint32_t n = ext_len(next, h);
        if (n == 0) {
            return PACKET_OTHER;
        }
        if (n > r.len) {
            return PACKET_BAD;
        }
        if (!step(&r, n)) {
            return PACKET_CUT;
        }
        uint32_t word = get_be16(h + 2);
        /* An "atomic" fragment is a whole packet (RFC 6946). */
        if (next == EXT_FRAGMENT && (word & 0xfff9) != 0) {
            static const uint8_t some[8];
            if (h[0] != IP_TCP && ext_len(h[0], some) == 0) {
                return PACKET_OTHER;
            }
            out->part = (struct part){
                .id = get_be32(h + 4), .off = word & 0xfff8, .next = h[0], .more = word & 1};
            return take_part(&r, out);
        }
        next = h[0];
    }
    return parse_tcp(r, out);
}

static enum packet_kind parse_ip6(struct rest r, struct packet *out)
{
    if (r.cap < 40) {
        return PACKET_CUT;
    }
    const uint8_t *h = r.p;
    if (h[0] >> 4 != 6) {
        return PACKET_BAD;
    }
    uint32_t plen = get_be16(h + 4);
    step(&r, 40);
    if (plen != 0) { /* 0: jumbogram or super-frame */
        trim(&r, plen);
    }
    out->v6 = true;
    out->src = h + 8;
    out->dst = h + 24;
    return parse_chain(r, h[6], out);
}

enum packet_kind packet_parse_whole(const uint8_t *p, uint32_t cap, uint32_t len,
                                    struct packet *out)
{
    struct rest r = {p, cap, len};
    enum packet_kind kind = parse_chain(r, out->part.next, out);
    return kind == PACKET_FRAGMENT ? PACKET_BAD : kind; /* no fragments of fragments */
}

static enum packet_kind parse_ip(struct rest r, struct packet *out)
{
    if (r.cap < 1) {
        return PACKET_CUT;
    }
    return r.p[0] >> 4 == 6 ? parse_ip6(r, out) : parse_ip4(r, out);
}

/* --- links --- */

static enum packet_kind by_type(struct rest r, uint32_t type, struct packet *out)
{
    for (unsigned i = 0; type == ETH_VLAN || type == ETH_QINQ || type == ETH_QINQ_OLD; i++) {
        if (r.cap < 4) {
            return PACKET_CUT;
        }
        if (i == TAGS_MAX) {
            return PACKET_OTHER;
        }
        type = get_be16(r.p + 2);
        step(&r, 4);
    }
    if (type == ETH_IP4) {
        return parse_ip4(r, out);
    }
    return type == ETH_IP6 ? parse_ip6(r, out) : PACKET_OTHER;
}

/* A header of n octets with the Ethernet type at octet at. */
static enum packet_kind typed(struct rest r, uint32_t n, uint32_t at, struct packet *out)
{
    if (r.cap < n) {
        return PACKET_CUT;
    }
    uint32_t type = get_be16(r.p + at);
    step(&r, n);
    return by_type(r, type, out);
}

enum packet_kind packet_parse(const struct frame *f, struct packet *out)
{
    struct rest r = {f->p, f->cap, f->len};
    switch (f->link) {
    case DLT_EN10MB: return typed(r, 14, 12, out);
    case DLT_LINUX_SLL: return typed(r, 16, 14, out);
    case SLL2: return typed(r, 20, 0, out);
    case DLT_NULL:
    case DLT_LOOP:
        /* The family's number depends on the system and its byte order; IP's version does not. */
        return step(&r, 4) ? parse_ip(r, out) : PACKET_CUT;
    case DLT_RAW:
    case 101: /* LINKTYPE_RAW, as files have it */
    case RAW_OPENBSD:
    case DLT_IPV4:
    case DLT_IPV6: return parse_ip(r, out);
    default: return PACKET_LINK;
    }
}

const char *packet_kind_text(enum packet_kind kind)
{
    static const char *const text[] = {
        [PACKET_TCP] = "TCP",
        [PACKET_OTHER] = "not TCP",
        [PACKET_FRAGMENT] = "IP fragment",
        [PACKET_CUT] = "cut before the end of the TCP header",
        [PACKET_BAD] = "damaged IP or TCP header",
        [PACKET_LINK] = "unknown link layer",
    };
    return (size_t)kind < ARRAY_LEN(text) ? text[kind] : "?";
}
