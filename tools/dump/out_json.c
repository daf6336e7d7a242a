/* SPDX-License-Identifier: MIT */
/* One JSON object per line; uiw-dump(1) describes the fields. */
#include <jansson.h>

#include "out.h"

static void set(json_t *o, const char *key, json_t *v)
{
    json_object_set_new(o, key, v);
}

static void set_u64(json_t *o, const char *key, uint64_t v)
{
    set(o, key, json_integer((json_int_t)v));
}

/* 64-bit offsets do not fit a double, which is what many readers make of a number. */
static void set_hex(json_t *o, const char *key, uint64_t v, int digits)
{
    char text[24];
    snprintf(text, sizeof text, "0x%0*llx", digits, (unsigned long long)v);
    set(o, key, json_string(text));
}

static void set_octets(json_t *o, const char *key, struct cursor c)
{
    static const char digit[] = "0123456789abcdef";
    size_t n = c.left;
    char *text = n > 0 ? malloc(2 * n) : NULL;
    uint8_t b;
    for (size_t i = 0; text != NULL && cursor_take(&c, 1, &b); i++) {
        text[2 * i] = digit[b >> 4];
        text[2 * i + 1] = digit[b & 15];
    }
    set(o, key, text != NULL ? json_stringn(text, 2 * n) : json_string(""));
    free(text);
}

static void set_bytes(json_t *o, const char *key, const uint8_t *p, uint32_t n)
{
    struct span v = {p, n};
    set_octets(o, key, cursor_of(&v, n > 0 ? 1 : 0));
}

static void write_line(const struct out_json *o, json_t *j)
{
    json_dumpf(j, o->cfg.f, JSON_COMPACT | JSON_REAL_PRECISION(16));
    fputc('\n', o->cfg.f);
    json_decref(j);
}

static json_t *begin(const char *kind)
{
    json_t *j = json_object();
    set(j, "kind", json_string(kind));
    return j;
}

static json_t *begin_at(const struct out_json *o, const char *kind, const struct place *at)
{
    json_t *j = begin(kind);
    set(j, "time", json_real((double)(at->ns / 1000) / 1e6));
    set_u64(j, "time_ns", at->ns);
    set(j, "since_start", json_real(out_time(o->cfg.d, at->ns)));
    set_u64(j, "frame", at->frame);
    set_u64(j, "conn", at->conn->id);
    set(j, "dir", json_string(at->dir == 0 ? "c2s" : "s2c"));
    return j;
}

static void tell_conn(void *ctx, const struct conn *c)
{
    char text[ADDR_TEXT];
    const struct out_json *o = ctx;
    struct place at = {.ns = c->first_ns, .frame = c->first_frame, .conn = c};
    json_t *j = begin_at(o, "connection", &at);
    set(j, "client", json_string(out_end(c, 0, text)));
    set(j, "server", json_string(out_end(c, 1, text)));
    write_line(o, j);
}

static void tell_setup(void *ctx, const struct setup_view *v)
{
    const struct out_json *o = ctx;
    const struct mpa_frame *f = &v->f;
    json_t *j = begin_at(o, "setup", &v->at);
    set(j, "type", json_string(f->reply ? "reply" : "request"));
    set(j, "malformed", v->bad != NULL ? json_string(v->bad) : json_null());
    set_u64(j, "rev", f->rev);
    set(j, "markers", json_boolean(f->markers));
    set(j, "crc", json_boolean(f->crc));
    set(j, "reject", json_boolean(f->reject));
    set(j, "s", json_boolean((v->octet16 & MPA_FLAG_S) != 0));
    set(j, "enhanced", json_boolean(f->enhanced));
    set_u64(j, "pd_length", v->pd_length);
    if (f->enhanced) {
        set(j, "p2p", json_boolean(f->p2p));
        set(j, "rtr", json_string(out_rtr(f->rtr)));
        set_u64(j, "ird", f->ird);
        set_u64(j, "ord", f->ord);
    }
    if (v->whole) {
        set_bytes(j, "private_data", f->pd, f->pd_len);
    }
    write_line(o, j);
}

static void set_read(json_t *j, const struct rdmap_read_request *r)
{
    set_u64(j, "length", r->len);
    set_hex(j, "sink_stag", r->sink_stag, 8);
    set_hex(j, "sink_to", r->sink_to, 16);
    set_hex(j, "src_stag", r->src_stag, 8);
    set_hex(j, "src_to", r->src_to, 16);
}

static void set_control(json_t *j, const struct ddp_hdr *h)
{
    set(j, "t", json_boolean(h->tagged));
    set(j, "l", json_boolean(h->last));
    set_u64(j, "dv", h->version);
    set_u64(j, "rv", h->ulp >> 6);
    set_u64(j, "opcode", rdmap_opcode(h->ulp));
}

static void set_target(json_t *j, const struct ddp_hdr *h)
{
    if (h->tagged) {
        set_hex(j, "stag", h->stag, 8);
        set_hex(j, "to", h->to, 16);
    } else {
        set_hex(j, "invalidate_stag", h->ulp32, 8);
        set_u64(j, "qn", h->qn);
        set_u64(j, "msn", h->msn);
        set_u64(j, "mo", h->mo);
    }
}

/* The terminated segment's headers, as they stand there and taken apart. */
static void set_terminated(json_t *j, const struct rdmap_term *t)
{
    struct ddp_hdr h;
    struct rdmap_read_request r;
    json_t *inner;
    if (out_terminated_ddp(t, &h)) {
        set_bytes(j, "terminated_ddp_header", t->ddp, t->ddp_len);
        set(j, "terminated_ddp", inner = json_object());
        set_control(inner, &h);
        set(inner, "op", json_string(op_name(rdmap_opcode(h.ulp))));
        set_target(inner, &h);
    }
    if (t->has_read) {
        set_bytes(j, "terminated_rdma_header", t->read, RDMAP_READ_REQUEST_LEN);
    }
    if (out_terminated_read(t, &r)) {
        set(j, "terminated_read", inner = json_object());
        set_read(inner, &r);
    }
}

static void set_term(json_t *j, const struct rdmap_term *t, uint32_t head_len)
{
    char text[16];
    snprintf(text, sizeof text, "%x/%x/%02x", t->v.layer, t->v.type, t->v.code);
    set(j, "error", json_string(text));
    set(j, "error_text", json_string(verdict_text(t->v)));
    set(j, "host_order", json_boolean(t->host_order));
    set(j, "m", json_boolean(t->m));
    set(j, "d", json_boolean(t->d));
    set(j, "r", json_boolean(t->r));
    if (t->m && head_len >= 6) {
        set_u64(j, "ddp_segment_length", t->seg_len);
    }
    set_terminated(j, t);
}

static void set_atomic(json_t *j, const struct rdmap_atomic_request *a)
{
    set_u64(j, "aopcode", a->op);
    set_hex(j, "id", a->id, 8);
    set_hex(j, "stag", a->stag, 8);
    set_hex(j, "to", a->to, 16);
    set_hex(j, "data", a->data, 16);
    set_hex(j, "mask", a->mask, 16);
    set_hex(j, "compare", a->compare, 16);
    set_hex(j, "compare_mask", a->compare_mask, 16);
}

static void set_operation(json_t *j, const struct msg *m)
{
    if (m->tagged) {
        set_hex(j, "stag", m->stag, 8);
        set_hex(j, "to", m->to, 16);
    } else {
        set_u64(j, "qn", m->qn);
        set_u64(j, "msn", m->msn);
    }
    if (rdmap_opcode_invalidates(m->opcode)) {
        set_hex(j, "invalidate", m->inv_stag, 8);
    }
    switch (m->whole_hdr ? m->opcode : RDMAP_WRITE) {
    case RDMAP_READ_REQUEST: set_read(j, &m->req); break;
    case RDMAP_TERMINATE: set_term(j, &m->term, m->head_len); break;
    case RDMAP_ATOMIC_REQUEST: set_atomic(j, &m->atomic); break;
    case RDMAP_ATOMIC_RESPONSE:
        set_hex(j, "id", m->result.id, 8);
        set_hex(j, "original", m->result.original, 16);
        break;
    default: break;
    }
    if ((m->opcode == RDMAP_IMMEDIATE || m->opcode == RDMAP_IMMEDIATE_SE) && m->head_len >= 8) {
        set_bytes(j, "data", m->head, 8);
    }
}

static void tell_message(void *ctx, const struct msg *m)
{
    const struct out_json *o = ctx;
    json_t *j = begin_at(o, "message", &m->at);
    set(j, "op", json_string(op_name(m->opcode)));
    set_u64(j, "bytes", m->bytes);
    set_u64(j, "fpdus", m->fpdus);
    set_u64(j, "first_frame", m->first_frame);
    set_u64(j, "duration_ns", m->at.ns >= m->first_ns ? m->at.ns - m->first_ns : 0);
    set(j, "crc", json_string(crc_text(m->crc)));
    set_operation(j, m);
    if (m->answered) {
        set_u64(j, "latency_ns", m->latency_ns);
        set_u64(j, "request_frame", m->request_frame);
    }
    if (m->missing > 0) {
        set_u64(j, "missing", m->missing);
    }
    if (m->partial) {
        set(j, "partial", json_true());
    }
    if (m->late) {
        set(j, "late", json_true());
    }
    if (m->errors > 0) {
        set_u64(j, "errors", m->errors);
        set(j, "first_error", json_string(require_id(m->first_error)));
    }
    if (m->note[0] != '\0') {
        set(j, "upper", json_string(m->note));
    }
    write_line(o, j);
}

static void tell_fpdu(void *ctx, const struct fpdu_view *f)
{
    const struct out_json *o = ctx;
    json_t *j = begin_at(o, "fpdu", &f->at);
    set_u64(j, "first_frame", f->first_frame);
    set_u64(j, "offset", f->off);
    set_u64(j, "ulpdu_length", f->ulpdu_len);
    set_u64(j, "pad", f->pad);
    set_u64(j, "markers", f->markers);
    set(j, "crc", json_string(crc_text(f->crc)));
    if (f->missing == 0) {
        set_hex(j, "crc_field", f->crc_wire, 8);
    }
    if (f->seg.raw_len > 0) {
        set_control(j, &f->seg.hdr);
        set_u64(j, "payload_length", f->seg.plen);
        set_target(j, &f->seg.hdr);
        struct cursor c = f->seg.payload;
        c.left = min_u32(c.left, f->known);
        if (o->cfg.hex) {
            set_octets(j, "payload", c);
        }
    }
    write_line(o, j);
}

static void tell_finding(void *ctx, const struct finding *f)
{
    const struct out_json *o = ctx;
    json_t *j = begin_at(o, "verdict", &f->at);
    set(j, "requirement", json_string(require_id(f->req)));
    set(j, "text", json_string(require_text(f->req)));
    set(j, "seen", json_string(f->text));
    set_bytes(j, "octets", f->octets, f->octets_len);
    write_line(o, j);
}

static void tell_gap(void *ctx, const struct gap *g)
{
    const struct out_json *o = ctx;
    json_t *j = begin_at(o, "gap", &g->at);
    set(j, "reason", json_string(gap_text(g->kind)));
    set_u64(j, "octets", g->octets);
    if (g->kind == GAP_SYNC || g->kind == GAP_START) {
        set_u64(j, "sure_bits", g->sure);
    }
    set(j, "text", json_string(g->text));
    write_line(o, j);
}

/* --- summary --- */

static json_t *operations(const struct half_stats *st)
{
    json_t *all = json_object();
    for (unsigned i = 0; i < OPCODES; i++) {
        if (st->op[i] == NULL) {
            continue;
        }
        json_t *j = json_object();
        set_u64(j, "messages", st->op[i]->messages);
        set_u64(j, "fpdus", st->op[i]->fpdus);
        set_u64(j, "bytes", st->op[i]->bytes);
        json_t *sizes = json_object();
        for (unsigned b = 0; b < SIZE_BUCKETS; b++) {
            if (st->op[i]->size[b] > 0) {
                char low[24];
                snprintf(low, sizeof low, "%llu", b == 0 ? 0ull : 1ull << (b - 1));
                set_u64(sizes, low, st->op[i]->size[b]);
            }
        }
        set(j, "sizes", sizes);
        set(all, op_name(i), j);
    }
    return all;
}

static json_t *latency(const struct latency *l)
{
    json_t *j = json_object();
    set_u64(j, "count", l->count);
    set_u64(j, "min_ns", l->min);
    set_u64(j, "p50_ns", stats_percentile(l, 0.5));
    set_u64(j, "p90_ns", stats_percentile(l, 0.9));
    set_u64(j, "p99_ns", stats_percentile(l, 0.99));
    set_u64(j, "max_ns", l->max);
    return j;
}

static json_t *direction(const struct conn *c, unsigned dir)
{
    const struct half *h = &c->h[dir];
    const struct half_stats *st = &h->st;
    json_t *j = json_object();
    set(j, "ops", operations(st));
    set_u64(j, "tcp_segments", st->segments);
    set_u64(j, "tcp_octets", st->octets);
    set_u64(j, "retransmitted_segments", st->retrans);
    set_u64(j, "overlapping_segments", st->overlap);
    set_u64(j, "out_of_order_segments", st->out_of_order);
    set_u64(j, "bad_checksum_segments", st->bad_sum);
    set_u64(j, "offloaded_checksums", h->r.sum_off);
    set_u64(j, "missing_octets", st->missing);
    set_u64(j, "cut_octets", st->cut);
    set_u64(j, "undecoded_octets", st->undecoded);
    set_u64(j, "fpdus", st->fpdus);
    set_u64(j, "markers", st->markers);
    set_u64(j, "padded_fpdus", st->padded);
    set_u64(j, "nonzero_pads", st->pad_nonzero);
    set_u64(j, "crc_good", st->crc[CRC_GOOD]);
    set_u64(j, "crc_bad", st->crc[CRC_BAD]);
    set_u64(j, "crc_off", st->crc[CRC_OFF]);
    set_u64(j, "crc_cut", st->crc[CRC_CUT]);
    set_u64(j, "reads_outstanding_peak", h->x != NULL ? h->x->reads_peak : 0);
    set_u64(j, "reads_unanswered", h->x != NULL ? h->x->reads : 0);
    uint16_t limit = setup_read_limit(c, dir);
    set(j, "reads_limit", limit == MPA_DEPTH_UNSET ? json_null() : json_integer(limit));
    if (c->stats != NULL && c->stats->read[dir] != NULL) {
        set(j, "read_latency", latency(c->stats->read[dir]));
    }
    return j;
}

static json_t *regions(const struct conn_stats *cs)
{
    json_t *all = json_array();
    for (uint32_t i = 0; cs != NULL && i < cs->regions; i++) {
        const struct region *r = &cs->region[i];
        json_t *j = json_object();
        set_hex(j, "stag", r->stag, 8);
        set(j, "access", json_string(r->written ? "write" : "read"));
        set(j, "by", json_string(r->dir == 0 ? "client" : "server"));
        set_hex(j, "from", r->low, 16);
        set_hex(j, "to", r->high, 16);
        set_u64(j, "messages", r->messages);
        set_u64(j, "bytes", r->bytes);
        json_array_append_new(all, j);
    }
    return all;
}

static void close_conn(void *ctx, const struct conn *c)
{
    const struct out_json *o = ctx;
    char text[ADDR_TEXT];
    const struct agreed *a = c->agreed;
    json_t *j = begin("summary");
    set_u64(j, "conn", c->id);
    set(j, "client", json_string(out_end(c, 0, text)));
    set(j, "server", json_string(out_end(c, 1, text)));
    set(j, "iwarp", json_boolean(conn_is_mpa(c)));
    set(j, "upper", json_string(upper_text(c->upper)));
    set_u64(j, "frames", c->frames);
    set(j, "duration", json_real((double)(c->last_ns - c->first_ns) / 1e9));
    set(j, "established", json_boolean(a != NULL && a->have_req && a->have_rep && !a->rejected));
    set(j, "rejected", json_boolean(a != NULL && a->rejected));
    set_u64(j, "verdicts", c->findings);
    set_u64(j, "gaps", c->gaps);
    if (c->findings > 0) {
        set(j, "first_error", json_string(require_id(c->first_finding.req)));
        set_u64(j, "first_error_frame", c->first_finding.at.frame);
    }
    set(j, "c2s", direction(c, 0));
    set(j, "s2c", direction(c, 1));
    set(j, "regions", regions(c->stats));
    write_line(o, j);
}

static void finish(void *ctx, const struct dump *d)
{
    const struct out_json *o = ctx;
    json_t *j = begin("summary");
    json_t *kinds = json_object();
    set(j, "conn", json_null());
    set_u64(j, "frames", d->frames);
    set_u64(j, "connections", d->conns);
    set_u64(j, "iwarp_connections", d->mpa_conns);
    set_u64(j, "messages", d->messages);
    set_u64(j, "verdicts", d->findings);
    set_u64(j, "gaps", d->gaps);
    set_u64(j, "evicted_connections", d->evicted);
    set_u64(j, "dropped_packets", d->dropped);
    set_u64(j, "packets_of_fragments", d->frags.joined);
    set_u64(j, "lost_fragments", d->frags.lost);
    for (int k = 0; k < PACKET_KINDS; k++) {
        set_u64(kinds, packet_kind_text((enum packet_kind)k), d->kind[k]);
    }
    set(j, "frame_kinds", kinds);
    write_line(o, j);
    fflush(o->cfg.f);
}

void out_json_sink(struct out_json *o, struct sink *s)
{
    *s = (struct sink){.ctx = o,
                       .conn = tell_conn,
                       .setup = tell_setup,
                       .message = tell_message,
                       .finding = tell_finding,
                       .gap = tell_gap,
                       .close = close_conn,
                       .finish = finish};
    s->fpdu = o->cfg.fpdus ? tell_fpdu : NULL;
}
