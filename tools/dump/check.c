/* SPDX-License-Identifier: MIT */
/* The rules of the RFCs, checked on one FPDU, one header, one message. */
#include "mpa/mpa_fpdu.h"
#include "mpa/mpa_tx.h"

#include "dump.h"

static struct span header_of(const struct fpdu_view *f)
{
    return (struct span){f->seg.raw, f->seg.raw_len};
}

static struct span no_octets(void)
{
    return (struct span){NULL, 0};
}

/* --- MPA --- */

/* The FPDU's octets from its first on, Markers included: the spans of the ULPDU lie in the stream, so
 * the length field is two octets before the first, and so on. */
struct raw {
    struct cursor c;
    uint32_t pos; /* for Markers */
};

static void check_marker(struct dump *d, const uint8_t m[MPA_MARKER_LEN], uint32_t want)
{
    const struct fpdu_view *f = &d->fpdu;
    struct span octets = {m, MPA_MARKER_LEN};
    uint32_t ptr = get_be16(m + 2);
    if (get_be16(m) != 0) {
        dump_find(d, dump_spot(f->at, octets), REQUIRE_MARKER_RSVD, "0x%04x", get_be16(m));
    }
    if ((ptr & 3) != 0) {
        dump_find(d, dump_spot(f->at, octets), REQUIRE_MARKER_LOW, "FPDUPTR %u", ptr);
    }
    if ((ptr & ~3u) != want) {
        dump_find(d, dump_spot(f->at, octets), REQUIRE_MARKER_PTR, "FPDUPTR %u where %u is right",
                  ptr, want);
    }
}

/* Walks over the FPDU: Markers are checked, the pad octets collected. */
static uint32_t walk(struct dump *d, const struct stream *s, struct cursor c, uint8_t pad[4])
{
    const struct fpdu_view *f = &d->fpdu;
    uint32_t pos = s->rx.pos;
    uint32_t head = pos + mpa_fpdu_lead(s->rx.markers, pos);
    uint32_t skip = MPA_LEN_FIELD + f->ulpdu_len;
    uint32_t left = skip + f->pad;
    uint32_t got = 0;
    while (left > 0) {
        uint32_t n = left > f->pad ? left - f->pad : left;
        if (s->rx.markers && pos % MPA_MARKER_GAP == 0) {
            uint8_t m[MPA_MARKER_LEN];
            cursor_take(&c, MPA_MARKER_LEN, m);
            check_marker(d, m, pos + MPA_MARKER_LEN == head ? 0 : pos - head);
            pos += MPA_MARKER_LEN;
        }
        if (s->rx.markers) {
            n = min_u32(n, MPA_MARKER_GAP - pos % MPA_MARKER_GAP);
        }
        if (left <= f->pad) {
            cursor_take(&c, n, pad + got);
            got += n;
        } else {
            cursor_skip(&c, n);
        }
        left -= n;
        pos += n;
    }
    return got;
}

static void check_crc(struct dump *d)
{
    const struct fpdu_view *f = &d->fpdu;
    uint8_t wire[MPA_CRC_LEN];
    put_le32(wire, f->crc_wire);
    if (f->crc != CRC_BAD) {
        return;
    }
    if (f->crc_wire == 0) {
        dump_find(d, dump_spot(f->at, (struct span){wire, sizeof wire}), REQUIRE_CRC_SENT,
                  "the CRC field is zero");
        return;
    }
    dump_find(d, dump_spot(f->at, (struct span){wire, sizeof wire}), REQUIRE_CRC_VALUE,
              "CRC field 0x%08x is not the CRC of the %u octets before it", f->crc_wire,
              d->ulpdu.used - MPA_CRC_LEN);
}

void check_framing(struct dump *d, struct conn *c, unsigned dir)
{
    struct half *h = &c->h[dir];
    const struct fpdu_view *f = &d->fpdu;
    uint8_t pad[4] = {0};
    check_crc(d);
    if (f->missing > 0) {
        return;
    }
    if (f->pad > 0 || h->s.rx.markers) {
        struct span all = {d->fpdu_octets, d->ulpdu.used};
        walk(d, &h->s, cursor_of(&all, 1), pad);
    }
    h->st.padded += f->pad > 0;
    if (get_be32(pad) != 0) {
        h->st.pad_nonzero++;
        if (f->crc != CRC_BAD) {
            dump_find(d, dump_spot(f->at, (struct span){pad, f->pad}), REQUIRE_PAD_ZERO,
                      "%u pad octets", f->pad);
        }
    }
}

/* --- headers --- */

/* Queue, MSN and MO by the receiver's own code; where it finds fault it is set to what came. */
static void check_queue(struct dump *d, struct conn *c, unsigned dir)
{
    const struct fpdu_view *f = &d->fpdu;
    const struct ddp_seg *seg = &f->seg;
    struct rdma *x = c->h[dir].x;
    struct ddp_queue *q = seg->hdr.qn < DDP_QNS ? &x->rx.q[seg->hdr.qn] : NULL;
    if (q != NULL && x->adopt[seg->hdr.qn]) {
        *q = (struct ddp_queue){.msn = seg->hdr.msn, .mo = seg->hdr.mo};
        x->adopt[seg->hdr.qn] = false;
    }
    if (q != NULL && !q->has_buf) {
        ddp_rx_give_buffer(&x->rx, seg->hdr.qn, UINT32_MAX);
    }
    struct verdict v = ddp_rx_check(&x->rx, seg);
    if (v.bad && v.code == DDP_UNT_QN) {
        dump_find(d, dump_spot(f->at, header_of(f)), REQUIRE_QN_RANGE, "QN %u", seg->hdr.qn);
    } else if (v.bad && v.code == DDP_UNT_MSN) {
        dump_find(d, dump_spot(f->at, header_of(f)),
                  q->msn == 1 && q->mo == 0 ? REQUIRE_MSN_FIRST : REQUIRE_MSN_NEXT,
                  "MSN %u on queue %u where %u is due", seg->hdr.msn, seg->hdr.qn, q->msn);
    } else if (v.bad && v.code == DDP_UNT_MO) {
        dump_find(d, dump_spot(f->at, header_of(f)),
                  q->mo == 0 ? REQUIRE_MO_FIRST : REQUIRE_MO_NEXT, "MO %u where %u is due",
                  seg->hdr.mo, q->mo);
    } else if (v.bad) {
        dump_find(d, dump_spot(f->at, header_of(f)), REQUIRE_MO_NEXT, "%s", verdict_text(v));
    }
    if (q != NULL) {
        *q = v.bad ? (struct ddp_queue){.msn = seg->hdr.msn, .mo = seg->hdr.mo} : *q;
        ddp_rx_advance(&x->rx, seg);
    }
}

static bool is_ext(unsigned opcode)
{
    return opcode >= RDMAP_IMMEDIATE && opcode <= RDMAP_ATOMIC_RESPONSE;
}

static void check_opcode(struct dump *d)
{
    const struct fpdu_view *f = &d->fpdu;
    const struct ddp_hdr *h = &f->seg.hdr;
    unsigned opcode = rdmap_opcode(h->ulp);
    struct verdict v = rdmap_check_control(h, true);
    if (v.bad && v.code == RDMAP_OP_VERSION) {
        dump_find(d, dump_spot(f->at, header_of(f)), REQUIRE_RDMAP_VERSION_, "RV %u", h->ulp >> 6);
    } else if (v.bad && (h->tagged || h->qn < DDP_QNS || opcode > RDMAP_ATOMIC_RESPONSE)) {
        bool tagged = opcode == RDMAP_WRITE || opcode == RDMAP_READ_RESPONSE;
        bool known = opcode <= RDMAP_ATOMIC_RESPONSE;
        enum require r = !known                ? REQUIRE_OPCODE
                         : tagged != h->tagged ? REQUIRE_TAGGED_FIT
                                               : REQUIRE_QN_FIT;
        dump_find(d, dump_spot(f->at, header_of(f)), r, "opcode %u (%s), T=%d, QN %u", opcode,
                  rdmap_opcode_text(opcode), h->tagged, h->tagged ? 0 : h->qn);
    }
    if ((h->ulp & 0x30) != 0) {
        dump_find(d, dump_spot(f->at, header_of(f)), REQUIRE_RDMAP_RSVD, "control octet 0x%02x",
                  h->ulp);
    }
    if (!h->tagged && h->ulp32 != 0 && !rdmap_opcode_invalidates(opcode)) {
        dump_find(d, dump_spot(f->at, header_of(f)),
                  is_ext(opcode) ? REQUIRE_EXT_INV_ZERO : REQUIRE_INV_ZERO, "0x%08x in a %s",
                  h->ulp32, rdmap_opcode_text(opcode));
    }
}

/* A segment above the MULPDU of the largest segment that either end's MSS allows. Told once: it is
 * a setting of the sender, not an accident. */
static void check_mulpdu(struct dump *d, struct conn *c, unsigned dir)
{
    const struct fpdu_view *f = &d->fpdu;
    struct rdma *x = c->h[dir].x;
    uint32_t mss = c->h[1 - dir].mss; /* what the receiver announced bounds the sender */
    if (x->told_mulpdu || mss == 0) {
        return;
    }
    uint32_t max = mpa_mulpdu(mss, c->h[dir].s.rx.markers);
    if (f->ulpdu_len > max) {
        x->told_mulpdu = true;
        dump_find(d, dump_spot(f->at, no_octets()), REQUIRE_MULPDU,
                  "ULPDU of %u octets, MULPDU is at most %u with the MSS of %u", f->ulpdu_len, max,
                  mss);
    }
}

bool check_headers(struct dump *d, struct conn *c, unsigned dir)
{
    const struct fpdu_view *f = &d->fpdu;
    const struct ddp_hdr *h = &f->seg.hdr;
    struct rdma *x = c->h[dir].x;
    if (f->crc == CRC_BAD) {
        /* No field of it can be believed, unless it is just what was due. */
        if (!h->tagged && !ddp_rx_check(&x->rx, &f->seg).bad) {
            ddp_rx_advance(&x->rx, &f->seg);
        } else if (!h->tagged && h->qn < DDP_QNS) {
            x->adopt[h->qn] = true;
        }
        return false;
    }
    if (h->version != DDP_VERSION) {
        dump_find(d, dump_spot(f->at, header_of(f)), REQUIRE_DDP_VERSION_, "DV %u", h->version);
        return true;
    }
    if ((f->seg.raw[0] & 0x3c) != 0) {
        dump_find(d, dump_spot(f->at, header_of(f)), REQUIRE_DDP_RSVD, "control octet 0x%02x",
                  f->seg.raw[0]);
    }
    check_opcode(d);
    check_mulpdu(d, c, dir);
    if (!h->tagged) {
        check_queue(d, c, dir);
    } else if (f->seg.plen > 0 && h->to + f->seg.plen < h->to) {
        dump_find(d, dump_spot(f->at, header_of(f)), REQUIRE_TO_WRAP, "TO 0x%llx and %u octets",
                  (unsigned long long)h->to, f->seg.plen);
    }
    return true;
}

/* --- who begins --- */

static bool is_rtr(const struct agreed *a, const struct ddp_seg *seg)
{
    unsigned both = a->req.rtr & a->rep.rtr;
    switch (rdmap_opcode(seg->hdr.ulp)) {
    case RDMAP_SEND: return (both & MPA_RTR_SEND) != 0 && seg->plen == 0;
    case RDMAP_WRITE: return (both & MPA_RTR_WRITE) != 0 && seg->plen == 0;
    case RDMAP_READ_REQUEST: return (both & MPA_RTR_READ) != 0;
    case RDMAP_TERMINATE: return true; /* it cannot send any (RFC 6581 sec 9.2) */
    default: return false;
    }
}

void check_first(struct dump *d, struct conn *c, unsigned dir)
{
    const struct fpdu_view *f = &d->fpdu;
    const struct agreed *a = c->agreed;
    struct rdma *x = c->h[dir].x;
    if (x->first_done) {
        return;
    }
    x->first_done = true;
    x->first_frame = f->at.frame;
    if (a == NULL || !a->have_req || !a->have_rep || c->h[dir].s.searched) {
        return;
    }
    const struct half *other = &c->h[1 - dir];
    if (dir != a->initiator) {
        bool heard = other->x != NULL && other->x->first_done;
        if (!heard && !reasm_lacks(other) && !other->s.searched &&
            rdmap_opcode(f->seg.hdr.ulp) != RDMAP_TERMINATE) {
            dump_find(d, dump_spot(f->at, header_of(f)), REQUIRE_RESPONDER_FIRST,
                      "a %s before any FPDU of the Initiator",
                      rdmap_opcode_text(rdmap_opcode(f->seg.hdr.ulp)));
        }
    } else if (a->req.p2p && a->rep.p2p && !is_rtr(a, &f->seg)) {
        dump_find(d, dump_spot(f->at, header_of(f)), REQUIRE_RTR_SENT,
                  "the first FPDU is a %s of %u octets",
                  rdmap_opcode_text(rdmap_opcode(f->seg.hdr.ulp)), f->seg.plen);
    }
}

/* --- messages --- */

static void check_length(struct dump *d, const struct msg *m, enum require r, uint64_t want)
{
    if (m->bytes != want && m->missing == 0) {
        dump_find(d, dump_spot(m->at, no_octets()), r, "%llu octets", (unsigned long long)m->bytes);
    }
}

static void check_atomic(struct dump *d, struct msg *m)
{
    const struct rdmap_atomic_request *a = &m->atomic;
    struct span head = {m->head, 4};
    if ((get_be32(m->head) & 0xfffffff0) != 0) {
        dump_find(d, dump_spot(m->at, head), REQUIRE_ATOMIC_RSVD, "0x%08x", get_be32(m->head));
    }
    if (a->op != RDMAP_FETCH_ADD && a->op != RDMAP_CMP_SWAP) {
        dump_find(d, dump_spot(m->at, head), REQUIRE_ATOMIC_AOP, "AOpCode %u", a->op);
    }
    if (a->op == RDMAP_FETCH_ADD && (a->compare != 0 || a->compare_mask != UINT64_MAX)) {
        dump_find(d, dump_spot(m->at, no_octets()), REQUIRE_ATOMIC_FETCH,
                  "Compare Data 0x%llx, Compare Mask 0x%llx", (unsigned long long)a->compare,
                  (unsigned long long)a->compare_mask);
    }
}

static void check_terminate(struct dump *d, struct msg *m)
{
    struct span all = {m->head, m->head_len};
    struct cursor c = cursor_of(&all, m->head_len > 0 ? 1 : 0);
    m->whole_hdr = rdmap_term_unpack_part(c, (uint32_t)min_u64(m->bytes, UINT32_MAX), &m->term);
    const struct rdmap_term *t = &m->term;
    struct span control = {m->head, min_u32(m->head_len, 4)};
    if (!m->whole_hdr) {
        check_length(d, m, REQUIRE_TERM_LAYOUT, 4);
        return;
    }
    if (t->host_order) {
        dump_find(d, dump_spot(m->at, control), REQUIRE_TERM_LAYOUT,
                  "the fields stand in the order of siw's machine: read as %u/%u/%02x", t->v.layer,
                  t->v.type, t->v.code);
        return;
    }
    if (strstr(verdict_text(t->v), "unknown") != NULL) {
        dump_find(d, dump_spot(m->at, control), REQUIRE_TERM_CODE, "%x/%x/%02x", t->v.layer,
                  t->v.type, t->v.code);
    }
    if ((get_be16(m->head + 2) & 0x1fff) != 0) {
        dump_find(d, dump_spot(m->at, control), REQUIRE_TERM_RSVD, "0x%04x", get_be16(m->head + 2));
    }
    if (t->d && t->ddp_len == 0 && m->missing == 0) {
        dump_find(d, dump_spot(m->at, control), REQUIRE_TERM_HEADER, "D=1 in %llu octets",
                  (unsigned long long)m->bytes);
    } else if (t->r && !t->has_read && m->missing == 0) {
        dump_find(d, dump_spot(m->at, control), REQUIRE_TERM_RDMA, "R=1 in %llu octets",
                  (unsigned long long)m->bytes);
    }
}

void check_message(struct dump *d, struct conn *c, unsigned dir, struct msg *m)
{
    (void)c;
    (void)dir;
    if (m->crc == CRC_BAD) {
        return;
    }
    switch (m->opcode) {
    case RDMAP_READ_REQUEST:
        check_length(d, m, REQUIRE_READ_LENGTH, RDMAP_READ_REQUEST_LEN);
        m->whole_hdr = m->head_len >= RDMAP_READ_REQUEST_LEN;
        if (m->whole_hdr) {
            rdmap_read_request_unpack(m->head, &m->req);
        }
        break;
    case RDMAP_TERMINATE: check_terminate(d, m); break;
    case RDMAP_IMMEDIATE:
    case RDMAP_IMMEDIATE_SE: check_length(d, m, REQUIRE_IMM_LENGTH, 8); break;
    case RDMAP_ATOMIC_REQUEST:
        check_length(d, m, REQUIRE_ATOMIC_LENGTH, RDMAP_ATOMIC_REQUEST_LEN);
        m->whole_hdr = m->head_len >= RDMAP_ATOMIC_REQUEST_LEN;
        if (m->whole_hdr) {
            rdmap_atomic_request_unpack(m->head, &m->atomic);
            check_atomic(d, m);
        }
        break;
    case RDMAP_ATOMIC_RESPONSE:
        check_length(d, m, REQUIRE_ATOMIC_RESP_LEN, RDMAP_ATOMIC_RESPONSE_LEN);
        m->whole_hdr = m->head_len >= RDMAP_ATOMIC_RESPONSE_LEN;
        if (m->whole_hdr) {
            rdmap_atomic_response_unpack(m->head, &m->result);
        }
        break;
    default: break;
    }
}
