/* SPDX-License-Identifier: MIT */
/* Finds an FPDU boundary in the middle of a stream: by the length chain with headers that make sense
 * and CRCs, and by Markers (RFC 5044 sec 6). A candidate gathers evidence, counted in bits: octets
 * that mean nothing would look like this with a chance of 1 in 2^bits. */
#include "base/crc32c.h"
#include "mpa/mpa_fpdu.h"

#include "dump.h"

enum {
    CHAIN_MAX = 8,        /* FPDUs of a chain that are looked at */
    NEED_AT_SEGMENT = 28, /* bits, where a TCP segment begins: most senders begin FPDUs there */
    NEED_ANYWHERE = 44,   /* some 2^16 places are looked at, so 28 are left */
    SURE_MAX = 255,
    MARKERS_MIN = 3,      /* in a row, before their distance is believed */
    MARKERS_ONLY = 16384, /* octets to look for them in, where none was a wrong guess */
};

struct
try {
    struct conn *c;
    struct stream *s;
    bool markers;
    bool crc_known, crc; /* by agreement */
    /* result */
    unsigned bits, fpdus;
    bool crc_good, crc_bad;
};

bool sync_header_fits(const uint8_t *p)
{
    bool tagged = (p[0] & 0x80) != 0;
    unsigned opcode = rdmap_opcode(p[1]);
    bool known = opcode <= RDMAP_ATOMIC_RESPONSE;
    return (p[0] & 0x3f) == DDP_VERSION && (p[1] & 0xf0) == RDMAP_VERSION << 6 && known &&
           tagged == (opcode == RDMAP_WRITE || opcode == RDMAP_READ_RESPONSE);
}

/* What a header that fits is worth: its fixed bits, less for zeros, which are common in any data. */
static unsigned worth(const struct ddp_seg *seg)
{
    if (seg->hdr.tagged) {
        return 13;
    }
    unsigned bits = 11 + 10; /* QN */
    if (!rdmap_opcode_invalidates(rdmap_opcode(seg->hdr.ulp))) {
        bits += seg->hdr.ulp32 == 0 ? 8 : 0;
    }
    return bits + (seg->hdr.mo < 1u << 24 ? 3 : 0);
}

/* What it adds that this segment goes on where the one before it stopped. */
static unsigned follows(const struct ddp_seg *a, const struct ddp_seg *b)
{
    if (a->hdr.tagged && b->hdr.tagged && !a->hdr.last && a->hdr.ulp == b->hdr.ulp) {
        return b->hdr.stag == a->hdr.stag && b->hdr.to == a->hdr.to + a->plen ? 40 : 0;
    }
    if (!a->hdr.tagged && !b->hdr.tagged && a->hdr.qn == b->hdr.qn) {
        bool next = a->hdr.last ? b->hdr.msn == a->hdr.msn + 1 && b->hdr.mo == 0
                                : b->hdr.msn == a->hdr.msn && b->hdr.mo == a->hdr.mo + a->plen;
        return next ? 24 : 0;
    }
    return 0;
}

/* Judges the CRC of an FPDU of n octets at p. False: it speaks against the candidate. */
static bool weigh_crc(struct try *t, const uint8_t *p, uint32_t n, uint32_t wire)
{
    if (t->crc_known && !t->crc) {
        t->bits += wire == 0 ? 16 : 0;
        return true;
    }
    if (n > t->s->work) {
        return true; /* too much was computed for too few octets: do without */
    }
    t->s->work -= n;
    bool good = crc32c_final(crc32c_add(CRC32C_INIT, p, n)) == wire;
    t->crc_good |= good;
    t->crc_bad |= !good;
    t->bits += good ? 32 : wire == 0 ? 16 : 0;
    return good || !t->crc_known;
}

/* One FPDU of a chain. Its octets when it fits; 0: not whole, but what is there fits; -1: no. */
static int weigh(struct try *t, uint32_t at, uint32_t pos, struct ddp_seg *seg)
{
    const struct stream *s = t->s;
    struct span v = {s->buf + at, s->n - at};
    uint32_t lead = mpa_fpdu_lead(t->markers, pos);
    uint32_t first;
    uint32_t head = at + lead + MPA_LEN_FIELD + DDP_UNTAGGED_LEN;
    if (v.n < lead + MPA_LEN_FIELD + 2 || (s->holes > 0 && stream_holes(s, at, head, &first) > 0)) {
        return 0;
    }
    uint32_t len = get_be16(v.p + lead);
    if (len < DDP_TAGGED_LEN || len > MPA_MULPDU_MAX ||
        !sync_header_fits(v.p + lead + MPA_LEN_FIELD)) {
        return -1;
    }
    struct cursor in = cursor_of(&v, 1);
    static struct mpa_ulpdu u; /* 16 KB that need no room on the stack */
    struct mpa_rx rx = {.markers = t->markers, .crc = false, .pos = pos};
    struct verdict why;
    enum mpa_rx_result res = mpa_rx_next(&rx, &in, &u, &why);
    if (res == MPA_RX_BAD) {
        return -1;
    }
    if (res == MPA_RX_MORE) {
        t->bits += (v.p[lead + MPA_LEN_FIELD] & 0x80) != 0 ? 13 : 11;
        return 0;
    }
    struct cursor ulpdu = cursor_of(u.v, u.cnt);
    if (ddp_seg_parse(ulpdu, seg).bad || rdmap_check_control(&seg->hdr, true).bad) {
        return -1;
    }
    t->bits += worth(seg) + 16 * u.markers;
    bool cut = s->holes > 0 && stream_holes(s, at, at + u.used, &first) > 0;
    if (t->fpdus < 3 && !cut && !weigh_crc(t, v.p, u.used - MPA_CRC_LEN, u.crc_wire)) {
        return -1;
    }
    t->fpdus++;
    return (int)u.used;
}

/* The chain of FPDUs from offset at on; false when it breaks. */
static bool weigh_chain(struct try *t, uint32_t at, uint32_t pos)
{
    struct ddp_seg seg[2];
    t->bits = t->fpdus = 0;
    t->crc_good = t->crc_bad = false;
    for (unsigned i = 0; i < CHAIN_MAX; i++) {
        int used = weigh(t, at, pos, &seg[i & 1]);
        if (used < 0) {
            return false;
        }
        if (used == 0) {
            break;
        }
        t->bits += i > 0 ? follows(&seg[(i & 1) ^ 1], &seg[i & 1]) : 0;
        at += (uint32_t)used;
        pos += (uint32_t)used;
    }
    return t->fpdus > 0;
}

static bool is_mark(const struct stream *s, uint32_t at, uint32_t *i)
{
    while (*i < s->marks && s->mark[*i].at < at) {
        ++*i;
    }
    return *i < s->marks && s->mark[*i].at == at;
}

/* Candidates in rising order. pos0: marker position of the buffer's start; stride: FPDUs are a
 * multiple of 4 apart, so where one was known only each fourth octet can begin another. */
static bool scan(struct try *t, uint32_t from, uint32_t pos0, struct sync_found *out)
{
    const struct stream *s = t->s;
    uint32_t stride = s->base_known || t->markers ? 4 : 1;
    uint32_t at = from + (stride - (pos0 + from) % stride) % stride;
    uint32_t mark = 0;
    for (; at < s->n; at += stride) {
        uint32_t lead = mpa_fpdu_lead(t->markers, pos0 + at);
        if (s->n - at < lead + MPA_LEN_FIELD + DDP_TAGGED_LEN) {
            return false;
        }
        if (!sync_header_fits(s->buf + at + lead + MPA_LEN_FIELD) ||
            !weigh_chain(t, at, pos0 + at)) {
            continue;
        }
        unsigned need = is_mark(s, at, &mark) ? NEED_AT_SEGMENT : NEED_ANYWHERE;
        if (t->bits >= need) {
            bool crc_known = t->crc_known || t->crc_good || t->crc_bad;
            *out = (struct sync_found){.at = at,
                                       .markers = t->markers,
                                       .pos = pos0 + at,
                                       .crc_known = crc_known,
                                       .crc = t->crc_known ? t->crc : t->crc_good && !t->crc_bad,
                                       .sure = min_u32(t->bits, SURE_MAX),
                                       .fpdus = t->fpdus};
            return true;
        }
    }
    return false;
}

/* A Marker's own look: reserved half and low bits zero. */
static bool looks_like_marker(const uint8_t *p)
{
    return p[0] == 0 && p[1] == 0 && (p[3] & 3) == 0;
}

/* Whether Markers stand at phase + 512 k: each points to the same FPDU as the one before it, or at an
 * FPDU that began since. */
static bool phase_fits(const struct stream *s, uint32_t phase)
{
    unsigned cnt = 0;
    uint32_t before = 0;
    bool other_than_zero = false;
    for (uint32_t at = phase; at + MPA_MARKER_LEN <= s->n; at += MPA_MARKER_GAP) {
        if (!looks_like_marker(s->buf + at)) {
            return false;
        }
        uint32_t ptr = get_be16(s->buf + at + 2);
        if (cnt > 0 && ptr != before + MPA_MARKER_GAP && ptr >= MPA_MARKER_GAP) {
            return false;
        }
        other_than_zero |= ptr != 0;
        before = ptr;
        cnt++;
    }
    return cnt >= MARKERS_MIN && other_than_zero;
}

static bool scan_markers(struct try *t, uint32_t from, struct sync_found *out)
{
    for (uint32_t phase = 0; phase < MPA_MARKER_GAP; phase++) {
        if (phase_fits(t->s, phase) && scan(t, from, MPA_MARKER_GAP - phase, out)) {
            return true;
        }
    }
    return false;
}

bool sync_search(struct conn *c, unsigned dir, uint32_t from, struct sync_found *out)
{
    struct stream *s = &c->h[dir].s;
    const struct agreed *a = c->agreed;
    bool agreed = a != NULL && a->have_req && a->have_rep;
    struct try t = {.c = c, .s = s};
    if (s->n == 0) {
        return false;
    }
    t.crc_known = agreed || s->crc_known;
    t.crc = s->rx.crc;
    t.markers = s->was_mpa && s->rx.markers;
    uint32_t pos0 = (uint32_t)(s->off - s->base);
    if (agreed || (s->was_mpa && !s->guessed)) {
        return scan(&t, from, s->base_known ? pos0 : 0, out);
    }
    if (s->guess_failed && s->n < MARKERS_ONLY) {
        t.markers = true;
        return scan_markers(&t, from, out);
    }
    t.markers = false;
    if (scan(&t, from, s->base_known ? pos0 : 0, out)) {
        return true;
    }
    t.markers = true;
    return scan_markers(&t, from, out);
}
