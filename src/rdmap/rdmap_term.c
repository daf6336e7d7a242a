/* SPDX-License-Identifier: MIT */
#include "rdmap/rdmap_term.h"

enum {
    CONTROL_LEN = 4,
    SEG_LEN_LEN = 2,
    BIT_M = 0x80, /* DDP Segment Length is valid */
    BIT_D = 0x40, /* DDP header is there */
    BIT_R = 0x20, /* Read Request header is there */
    UNKNOWN = 0xf,
};

/* RFC 5040 fig. 10: nothing of a segment goes with errors of the LLP or of this end. */
static bool tells_segment(struct verdict v)
{
    return v.layer != LAYER_LLP && v.type != RDMAP_LOCAL;
}

static bool tells_read(struct verdict v)
{
    return v.layer == LAYER_RDMAP && v.type == RDMAP_PROTECTION && v.code <= RDMAP_PROT_WRAP;
}

uint32_t rdmap_term_pack(struct verdict v, const struct rdmap_cause *cause,
                         uint8_t out[RDMAP_TERM_MAX])
{
    memset(out, 0, RDMAP_TERM_MAX);
    out[0] = (uint8_t)(v.layer << 4 | (v.type & 0xf));
    out[1] = v.code;
    uint32_t n = CONTROL_LEN;
    if (cause == NULL || cause->ddp_len == 0 || !tells_segment(v)) {
        return n;
    }
    out[2] = BIT_M | BIT_D;
    put_be16(out + n, cause->seg_len);
    n += SEG_LEN_LEN;
    uint32_t header = min_u32(cause->ddp_len, DDP_HDR_MAX);
    memcpy(out + n, cause->ddp, header);
    n += header;
    if (cause->has_read && tells_read(v)) {
        out[2] |= BIT_R;
        memcpy(out + n, cause->read, RDMAP_READ_REQUEST_LEN);
        n += RDMAP_READ_REQUEST_LEN;
    }
    return n;
}

/* What one of the two readings of the control word says. */
struct reading {
    struct verdict v;
    bool m, d, r;
};

static struct reading read_standard(const uint8_t w[CONTROL_LEN])
{
    return (struct reading){.v = verdict_bad(w[0] >> 4, w[0] & 0xf, w[1]),
                            .m = (w[2] & BIT_M) != 0,
                            .d = (w[2] & BIT_D) != 0,
                            .r = (w[2] & BIT_R) != 0};
}

static struct reading read_host_order(const uint8_t w[CONTROL_LEN])
{
    return (struct reading){.v = verdict_bad(w[0] & 0xf, w[0] >> 4, w[1]),
                            .m = (w[2] & 0x01) != 0,
                            .d = (w[2] & 0x02) != 0,
                            .r = (w[2] & 0x04) != 0};
}

/* The registry of RFC 6580 sec 3 and RFC 6581 sec 8, without what only the LLP itself may use. */
static bool is_defined(struct verdict v)
{
    switch (v.layer << 4 | v.type) {
    case LAYER_RDMAP << 4 | RDMAP_LOCAL: return true;
    case LAYER_RDMAP << 4 | RDMAP_PROTECTION:
        return v.code <= RDMAP_PROT_WRAP || v.code == RDMAP_PROT_INVALIDATE ||
               v.code == RDMAP_PROT_UNSPECIFIED;
    case LAYER_RDMAP << 4 | RDMAP_OPERATION:
        return (v.code >= RDMAP_OP_VERSION && v.code <= RDMAP_OP_INVALIDATE) ||
               v.code == RDMAP_OP_UNSPECIFIED;
    case LAYER_DDP << 4 | DDP_LOCAL: return v.code == 0;
    case LAYER_DDP << 4 | DDP_TAGGED: return v.code <= DDP_TAG_VERSION;
    case LAYER_DDP << 4 | DDP_UNTAGGED: return v.code >= DDP_UNT_QN && v.code <= DDP_UNT_VERSION;
    case LAYER_DDP << 4 | 3: /* kept for the LLP */ return true;
    case LAYER_LLP << 4 | LLP_MPA: return v.code >= MPA_ERR_LOST && v.code <= MPA_ERR_RTR;
    default: return false;
    }
}

/* The first octets of a Terminate that has total of them. */
struct part {
    const uint8_t *octets;
    uint32_t have, total;
};

/* Whether the flags explain the length. R may be set with no Read Request behind the DDP header:
 * siw does so for every protection error. */
static bool fits_length(const struct reading *r, const struct part *p)
{
    uint32_t want = CONTROL_LEN;
    uint32_t other = 0; /* with the other header, where the octet that tells was not seen */
    if (r->m || r->d) {
        want += SEG_LEN_LEN;
    }
    if (r->d) {
        bool tagged = p->have > want && (p->octets[want] & 0x80) != 0;
        other = p->have > want || p->have == p->total ? 0 : want + DDP_TAGGED_LEN;
        want += tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
    }
    return p->total == want || (r->r && p->total == want + RDMAP_READ_REQUEST_LEN) ||
           (other != 0 && p->total == other);
}

static struct reading choose(const struct part *part, bool *host_order)
{
    const uint8_t *p = part->octets;
    struct reading std = read_standard(p);
    struct reading host = read_host_order(p);
    bool std_sound = is_defined(std.v) && fits_length(&std, part);
    /* siw leaves all bits but its three flags zero, the ones that are flags to others included. */
    bool host_sound =
        (p[2] & 0xf8) == 0 && p[3] == 0 && is_defined(host.v) && fits_length(&host, part);
    *host_order = !std_sound && host_sound;
    return *host_order ? host : std;
}

/* What follows the control word, as far as the octets reach. */
static void unpack_rest(struct cursor c, struct rdmap_term *out)
{
    uint8_t word[SEG_LEN_LEN];
    if ((!out->m && !out->d) || !cursor_take(&c, SEG_LEN_LEN, word)) {
        return;
    }
    out->seg_len = out->m ? get_be16(word) : 0;
    struct span first = cursor_run(&c, 1);
    if (!out->d || first.n == 0) {
        return;
    }
    uint32_t header = (first.p[0] & 0x80) != 0 ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
    if (!cursor_take(&c, header, out->ddp)) {
        return;
    }
    out->ddp_len = header;
    out->has_read = out->r && cursor_take(&c, RDMAP_READ_REQUEST_LEN, out->read);
}

bool rdmap_term_unpack(struct cursor payload, struct rdmap_term *out)
{
    return rdmap_term_unpack_part(payload, payload.left, out);
}

bool rdmap_term_unpack_part(struct cursor payload, uint32_t total, struct rdmap_term *out)
{
    *out = (struct rdmap_term){.v = verdict_bad(UNKNOWN, UNKNOWN, RDMAP_PROT_UNSPECIFIED)};
    uint8_t buf[RDMAP_TERM_MAX] = {0};
    struct cursor peek = payload;
    uint32_t have = min_u32(payload.left, RDMAP_TERM_MAX);
    cursor_take(&peek, have, buf);
    if (have < CONTROL_LEN) {
        if (have >= 2) {
            out->v = read_standard(buf).v;
        }
        return false;
    }
    struct part part = {buf, have, total};
    struct reading r = choose(&part, &out->host_order);
    out->v = r.v;
    out->m = r.m;
    out->d = r.d;
    out->r = r.r;
    cursor_skip(&payload, CONTROL_LEN);
    unpack_rest(payload, out);
    return true;
}
