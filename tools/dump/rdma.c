/* SPDX-License-Identifier: MIT */
/* DDP segments to RDMA messages (RFC 5041, 5040, 7306), with what each must keep to. */
#include <stdlib.h>

#include "dump.h"

bool rdma_ready(struct conn *c, unsigned dir)
{
    struct half *h = &c->h[dir];
    if (c->stats == NULL) {
        c->stats = calloc(1, sizeof *c->stats);
    }
    if (h->x != NULL) {
        return true;
    }
    struct rdma *x = calloc(1, sizeof *x);
    if (x == NULL) {
        return false;
    }
    ddp_rx_init(&x->rx, true);
    for (unsigned i = 0; i < DDP_QNS; i++) {
        x->adopt[i] = h->s.searched;
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        x->unsure[i] = h->s.searched;
    }
    x->reads_unsure = h->s.searched;
    list_init(&x->waiting);
    for (unsigned i = 0; i < SLOTS; i++) {
        list_init(&x->slot[i].waiting);
    }
    h->x = x;
    return true;
}

void rdma_free(struct rdma *x)
{
    if (x != NULL) {
        free(x->read);
        free(x);
    }
}

static void tell_unfinished(struct dump *d, struct conn *c, unsigned dir, struct open_msg *o)
{
    const struct msg *m = &o->m;
    events_decide(d, &o->waiting,
                  d->cfg.filter == NULL || filter_message(d->cfg.filter, m, d->start_ns));
    struct gap g = {.at = dump_here(d, c, dir), .kind = GAP_UNFINISHED, .octets = m->bytes};
    dump_gap(d, &g, "the last segment of a %s was not seen, %llu octets of it were",
             rdmap_opcode_text(m->opcode), (unsigned long long)m->bytes);
    o->open = false;
}

static void drop_open(struct dump *d, struct conn *c, unsigned dir)
{
    struct rdma *x = c->h[dir].x;
    for (unsigned i = 0; x != NULL && i < SLOTS; i++) {
        if (x->slot[i].open) {
            tell_unfinished(d, c, dir, &x->slot[i]);
        }
    }
}

/* Open messages stay open: their last segment may come behind the gap. */
void rdma_lost(struct dump *d, struct conn *c, unsigned dir)
{
    struct rdma *x = c->h[dir].x;
    if (x == NULL) {
        return;
    }
    events_settle(d, &x->waiting);
    for (unsigned i = 0; i < DDP_QNS; i++) {
        x->adopt[i] = true;
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        x->unsure[i] = true;
        x->slot[i].m.partial = true;
    }
    x->reads_unsure = true;
}

void rdma_end(struct dump *d, struct conn *c, unsigned dir)
{
    if (c->h[dir].x != NULL) {
        events_settle(d, &c->h[dir].x->waiting);
    }
    drop_open(d, c, dir);
}

/* --- messages --- */

static unsigned slot_of(const struct ddp_hdr *h)
{
    if (h->tagged) {
        return rdmap_opcode(h->ulp) == RDMAP_READ_RESPONSE ? SLOT_RESPONSE : SLOT_WRITE;
    }
    return h->qn < DDP_QNS ? SLOT_QN0 + h->qn : SLOT_ODD;
}

static bool carries_payload(unsigned opcode)
{
    return opcode != RDMAP_READ_REQUEST && opcode != RDMAP_TERMINATE &&
           opcode != RDMAP_ATOMIC_REQUEST && opcode != RDMAP_ATOMIC_RESPONSE;
}

static void begin(struct rdma *x, struct open_msg *o, const struct fpdu_view *f)
{
    const struct ddp_hdr *h = &f->seg.hdr;
    bool *unsure = &x->unsure[slot_of(h)];
    struct msg *m = &o->m;
    *m = (struct msg){.at = f->at,
                      .first_ns = f->at.ns,
                      .first_frame = f->first_frame,
                      .low_frame = f->low_frame,
                      .opcode = rdmap_opcode(h->ulp),
                      .tagged = h->tagged,
                      .stag = h->tagged ? h->stag : 0,
                      .to = h->tagged ? h->to : 0,
                      .qn = h->tagged ? 0 : h->qn,
                      .msn = h->tagged ? 0 : h->msn,
                      .inv_stag = h->tagged ? 0 : h->ulp32,
                      .crc = f->crc};
    m->partial = *unsure && (h->tagged || h->mo != 0);
    *unsure = false;
    o->open = true;
    o->ulp = h->ulp;
    o->next_to = h->to;
}

/* Whether the segment cannot belong to the message that is open in its slot, whose end was lost: TO only
 * grows in a message. */
static bool is_other(const struct conn *c, unsigned dir, const struct open_msg *o,
                     const struct ddp_hdr *h)
{
    if (!o->m.partial) {
        return false;
    }
    if (!h->tagged) {
        return h->msn != o->m.msn;
    }
    if (h->stag != o->m.stag || (int64_t)(h->to - o->next_to) < 0) {
        return true;
    }
    return o->m.opcode == RDMAP_READ_RESPONSE && h->to != o->next_to && reads_begins(c, dir, h);
}

static void keep_head(struct msg *m, const struct fpdu_view *f)
{
    uint32_t at = f->seg.hdr.tagged ? (uint32_t)min_u64(m->bytes, HEAD_MAX) : f->seg.hdr.mo;
    if (at != m->head_len || at >= HEAD_MAX) {
        return;
    }
    struct cursor p = f->seg.payload;
    uint32_t n = min_u32(min_u32(f->known, p.left), HEAD_MAX - at);
    cursor_take(&p, n, m->head + at);
    m->head_len += n;
}

static void add(struct open_msg *o, const struct fpdu_view *f)
{
    struct msg *m = &o->m;
    keep_head(m, f);
    m->at = f->at;
    m->low_frame = min_u64(m->low_frame, f->low_frame);
    m->fpdus++;
    m->bytes += f->seg.plen;
    m->missing += f->known < f->seg.plen ? f->seg.plen - f->known : 0;
    if (f->crc > m->crc) {
        m->crc = f->crc;
    }
    o->next_to = f->seg.hdr.to + f->seg.plen;
}

/* Violations found since the FPDU began belong to its message. */
static void collect_errors(struct rdma *x, struct open_msg *o)
{
    struct msg *m = &o->m;
    struct list *node;
    while ((node = list_shift(&x->waiting)) != NULL) {
        list_append(&o->waiting, node);
    }
    if (x->pending_errors > 0) {
        m->first_error = m->errors == 0 ? x->pending_error : m->first_error;
        m->errors += x->pending_errors;
        x->pending_errors = 0;
    }
}

static void finish(struct dump *d, struct conn *c, unsigned dir, struct open_msg *o)
{
    struct msg *m = &o->m;
    const struct ddp_seg *seg = &d->fpdu.seg;
    uint64_t whole = (uint64_t)seg->hdr.mo + seg->plen;
    if (!m->tagged && m->partial && whole > m->bytes) { /* its last segment tells its length */
        m->missing += whole - m->bytes;
        m->bytes = whole;
    }
    check_message(d, c, dir, m);
    m->bytes = carries_payload(m->opcode) ? m->bytes : 0;
    reads_request(d, c, dir, m);
    reads_response(d, c, dir, m);
    collect_errors(c->h[dir].x, o);
    upper_message(c, dir, m);
    stats_message(&c->h[dir].st, m->opcode, msg_size(m));
    if (m->opcode == RDMAP_WRITE && m->bytes > 0) {
        struct region r = {.stag = m->stag,
                           .dir = dir,
                           .written = true,
                           .low = m->to,
                           .high = m->to + m->bytes,
                           .messages = 1,
                           .bytes = m->bytes};
        stats_region(c->stats, &r);
    }
    dump_message(d, m, &o->waiting);
    o->open = false;
}

static void check_segment(struct dump *d, struct open_msg *o)
{
    const struct fpdu_view *f = &d->fpdu;
    const struct ddp_hdr *h = &f->seg.hdr;
    struct span raw = {f->seg.raw, f->seg.raw_len};
    if (o->ulp != h->ulp) {
        dump_find(d, dump_spot(f->at, raw), h->tagged ? REQUIRE_TAGGED_ULP : REQUIRE_UNTAGGED_ULP,
                  "RsvdULP 0x%02x inside a message of 0x%02x", h->ulp, o->ulp);
    }
    if (h->tagged && h->stag != o->m.stag) {
        dump_find(d, dump_spot(f->at, raw), REQUIRE_TAGGED_STAG,
                  "STag 0x%08x inside a message of 0x%08x", h->stag, o->m.stag);
    } else if (h->tagged && h->to != o->next_to && !o->m.partial) {
        dump_find(d, dump_spot(f->at, raw), REQUIRE_TO_NEXT, "TO 0x%llx where 0x%llx is due",
                  (unsigned long long)h->to, (unsigned long long)o->next_to);
    }
}

/* Octets of an open message that were not seen: TO tells how many. */
static void fill_gap(struct open_msg *o, const struct ddp_hdr *h)
{
    uint64_t lost = h->to - o->next_to;
    if (h->tagged && o->m.partial && h->stag == o->m.stag && lost < UINT32_MAX) {
        o->m.missing += lost;
        o->m.bytes += lost;
    }
}

static void after_terminate(struct dump *d, struct conn *c, unsigned dir)
{
    struct stream *s = &c->h[dir].s;
    const struct fpdu_view *f = &d->fpdu;
    if (s->after_term) {
        dump_find(d, dump_spot(f->at, (struct span){f->seg.raw, f->seg.raw_len}),
                  REQUIRE_AFTER_TERM, "%s after a Terminate",
                  rdmap_opcode_text(rdmap_opcode(f->seg.hdr.ulp)));
    }
    s->after_term |= rdmap_opcode(f->seg.hdr.ulp) == RDMAP_TERMINATE;
}

static void assemble(struct dump *d, struct conn *c, unsigned dir, bool trusted)
{
    struct rdma *x = c->h[dir].x;
    const struct fpdu_view *f = &d->fpdu;
    const struct ddp_hdr *h = &f->seg.hdr;
    struct open_msg *o = &x->slot[slot_of(h)];
    if (o->open && is_other(c, dir, o, h)) {
        tell_unfinished(d, c, dir, o);
    }
    if (!o->open) {
        begin(x, o, f);
    } else if (trusted) {
        check_segment(d, o);
        fill_gap(o, h);
    }
    add(o, f);
    collect_errors(x, o);
    if (h->last) {
        finish(d, c, dir, o);
    }
}

void rdma_fpdu(struct dump *d, struct conn *c, unsigned dir)
{
    struct fpdu_view *f = &d->fpdu;
    struct half *h = &c->h[dir];
    h->s.was_mpa = true;
    dump_tell_conn(d, c);
    if (f->seg.raw_len == 0) {
        if (f->crc != CRC_BAD) {
            dump_find(d, dump_spot(f->at, (struct span){d->fpdu_octets, d->ulpdu.used}),
                      REQUIRE_DDP_HEADER, "ULPDU_Length %u", f->ulpdu_len);
        }
        dump_fpdu(d, f);
        events_settle(d, &h->x->waiting);
        return;
    }
    unsigned opcode = rdmap_opcode(f->seg.hdr.ulp);
    f->known = min_u32(f->known, f->seg.plen);
    stats_fpdu(&h->st, opcode, carries_payload(opcode) ? f->seg.plen : 0);
    check_first(d, c, dir);
    bool trusted = check_headers(d, c, dir);
    if (trusted) {
        after_terminate(d, c, dir);
    }
    dump_fpdu(d, f);
    assemble(d, c, dir, trusted);
}
