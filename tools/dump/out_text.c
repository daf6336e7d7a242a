/* SPDX-License-Identifier: MIT */
#include "out.h"

enum { DETAIL = 320 };

static const char *paint(const struct out_text *o, const char *code)
{
    return o->cfg.colour ? code : "";
}

#define RED   "\033[31m"
#define GREEN "\033[32m"
#define BLUE  "\033[34m"
#define CYAN  "\033[36m"
#define DIM   "\033[2m"
#define PLAIN "\033[0m"

static const char *colour_of(const struct msg *m)
{
    if (m->errors > 0 || m->opcode == RDMAP_TERMINATE) {
        return RED;
    }
    switch (m->opcode) {
    case RDMAP_WRITE: return BLUE;
    case RDMAP_READ_REQUEST:
    case RDMAP_READ_RESPONSE: return GREEN;
    case RDMAP_ATOMIC_REQUEST:
    case RDMAP_ATOMIC_RESPONSE: return CYAN;
    default: return "";
    }
}

static char arrow(unsigned dir)
{
    return dir == 0 ? '>' : '<';
}

static void tell_conn(void *ctx, const struct conn *c)
{
    const struct out_text *o = ctx;
    char a[ADDR_TEXT];
    char b[ADDR_TEXT];
    fprintf(o->cfg.f, "%s# connection %u: %s > %s%s\n", paint(o, DIM), c->id, out_end(c, 0, a),
            out_end(c, 1, b), paint(o, PLAIN));
}

static void tell_setup(void *ctx, const struct setup_view *v)
{
    const struct out_text *o = ctx;
    const struct mpa_frame *f = &v->f;
    FILE *out = o->cfg.f;
    fprintf(out, "%s# %.6f %u %c MPA %s rev %u markers %s CRC %s%s", paint(o, DIM),
            out_time(o->cfg.d, v->at.ns), v->at.conn->id, arrow(v->at.dir),
            f->reply ? "Reply" : "Request", f->rev, f->markers ? "on" : "off",
            f->crc ? "on" : "off", f->reject ? " REJECTED" : "");
    if (f->enhanced) {
        fprintf(out, " IRD %u ORD %u", f->ird, f->ord);
        if (f->p2p) {
            fprintf(out, " peer-to-peer, RTR %s", out_rtr(f->rtr));
        }
    }
    fprintf(out, " private data %u octets", v->whole ? f->pd_len : v->pd_length);
    fprintf(out, "%s%s%s\n", v->bad != NULL ? ": malformed, " : "", v->bad != NULL ? v->bad : "",
            paint(o, PLAIN));
    if (o->cfg.hex && v->whole && f->pd_len > 0) {
        struct span pd = {f->pd, f->pd_len};
        out_hex(out, "#     ", cursor_of(&pd, 1));
    }
}

static void ddp_header(FILE *out, const struct ddp_hdr *h)
{
    fprintf(out, " T %u L %u DV %u RV %u Opcode %u (%s)", h->tagged, h->last, h->version,
            h->ulp >> 6, rdmap_opcode(h->ulp), rdmap_opcode_text(rdmap_opcode(h->ulp)));
    if (h->tagged) {
        fprintf(out, " STag 0x%08x TO 0x%llx", h->stag, (unsigned long long)h->to);
    } else {
        fprintf(out, " InvalidateSTag 0x%08x QN %u MSN %u MO %u", h->ulp32, h->qn, h->msn, h->mo);
    }
}

static void fpdu_header(FILE *out, const struct fpdu_view *f)
{
    if (f->seg.raw_len == 0) {
        fprintf(out, " (too short for a DDP header)");
        return;
    }
    ddp_header(out, &f->seg.hdr);
    fprintf(out, " payload %u", f->seg.plen);
}

static void read_request(FILE *out, const struct rdmap_read_request *r)
{
    fprintf(out, " SinkSTag 0x%08x SinkTO 0x%llx RDMARDSZ %u SrcSTag 0x%08x SrcTO 0x%llx",
            r->sink_stag, (unsigned long long)r->sink_to, r->len, r->src_stag,
            (unsigned long long)r->src_to);
}

static bool unpack_terminate(const struct fpdu_view *f, struct rdmap_term *t)
{
    struct cursor c = f->seg.payload;
    c.left = min_u32(c.left, f->known);
    return rdmap_term_unpack_part(c, f->seg.plen, t);
}

/* The headers that a Terminate has of the segment that it is about (RFC 5040 sec 4.8), a line for each. */
static void terminated(FILE *out, const struct rdmap_term *t, bool has_length)
{
    struct ddp_hdr h;
    struct rdmap_read_request r;
    struct span v = {t->read, RDMAP_READ_REQUEST_LEN};
    if (!t->m && !t->d && !t->r) {
        return;
    }
    fprintf(out, "    terminated segment");
    if (t->m && has_length) {
        fprintf(out, " of %u octets", t->seg_len);
    }
    if (out_terminated_ddp(t, &h)) {
        fprintf(out, ":");
        ddp_header(out, &h);
    } else {
        fprintf(out, ": %s", t->d ? "its DDP header is not whole" : "without its DDP header");
    }
    if (out_terminated_read(t, &r)) {
        fprintf(out, "\n    terminated Read Request:");
        read_request(out, &r);
    } else if (t->has_read) { /* R tells of a Read Request only */
        fprintf(out, "\n    terminated RDMA header, of no Read Request:\n");
        out_hex(out, "    ", cursor_of(&v, 1));
        return;
    } else if (t->r) {
        fprintf(out, "\n    terminated Read Request: its header is not there");
    }
    fputc('\n', out);
}

/* The RDMAP header of a segment that has one. */
static void rdmap_header(FILE *out, const struct fpdu_view *f)
{
    uint8_t b[RDMAP_ATOMIC_REQUEST_LEN];
    struct cursor c = f->seg.payload;
    unsigned opcode = f->seg.raw_len > 0 ? rdmap_opcode(f->seg.hdr.ulp) : RDMAP_WRITE;
    if (opcode == RDMAP_READ_REQUEST && f->known >= RDMAP_READ_REQUEST_LEN &&
        cursor_take(&c, RDMAP_READ_REQUEST_LEN, b)) {
        struct rdmap_read_request r;
        rdmap_read_request_unpack(b, &r);
        read_request(out, &r);
    } else if (opcode == RDMAP_TERMINATE) {
        struct rdmap_term t;
        bool ok = unpack_terminate(f, &t);
        fprintf(out, " Layer %u EType %u ErrorCode 0x%02x M %u D %u R %u DDPSegmentLength %u%s",
                t.v.layer, t.v.type, t.v.code, t.m, t.d, t.r, t.seg_len,
                !ok            ? " (cut short)"
                : t.host_order ? " (host order)"
                               : "");
    } else if (opcode == RDMAP_ATOMIC_REQUEST && f->known >= RDMAP_ATOMIC_REQUEST_LEN &&
               cursor_take(&c, RDMAP_ATOMIC_REQUEST_LEN, b)) {
        struct rdmap_atomic_request a;
        rdmap_atomic_request_unpack(b, &a);
        fprintf(out, " AOpCode %u RequestIdentifier 0x%08x RemoteSTag 0x%08x RemoteTO 0x%llx", a.op,
                a.id, a.stag, (unsigned long long)a.to);
        fprintf(out, " Data 0x%llx Mask 0x%llx CompareData 0x%llx CompareMask 0x%llx",
                (unsigned long long)a.data, (unsigned long long)a.mask,
                (unsigned long long)a.compare, (unsigned long long)a.compare_mask);
    } else if (opcode == RDMAP_ATOMIC_RESPONSE && f->known >= RDMAP_ATOMIC_RESPONSE_LEN &&
               cursor_take(&c, RDMAP_ATOMIC_RESPONSE_LEN, b)) {
        struct rdmap_atomic_response r;
        rdmap_atomic_response_unpack(b, &r);
        fprintf(out, " OriginalRequestIdentifier 0x%08x OriginalRemoteData 0x%llx", r.id,
                (unsigned long long)r.original);
    }
}

static void tell_fpdu(void *ctx, const struct fpdu_view *f)
{
    const struct out_text *o = ctx;
    FILE *out = o->cfg.f;
    fprintf(out, "%s. %.6f %u %c frame %llu offset %llu ULPDU_Length %u PAD %u markers %u CRC %s",
            f->crc == CRC_BAD ? paint(o, RED) : paint(o, DIM), out_time(o->cfg.d, f->at.ns),
            f->at.conn->id, arrow(f->at.dir), (unsigned long long)f->at.frame,
            (unsigned long long)f->off, f->ulpdu_len, f->pad, f->markers, crc_text(f->crc));
    if (f->crc != CRC_CUT && f->missing == 0) {
        fprintf(out, " (0x%08x)", f->crc_wire);
    } else if (f->missing > 0) {
        fprintf(out, " %u octets not captured", f->missing);
    }
    fpdu_header(out, f);
    rdmap_header(out, f);
    fprintf(out, "%s\n", paint(o, PLAIN));
    struct rdmap_term t;
    if (f->seg.raw_len > 0 && rdmap_opcode(f->seg.hdr.ulp) == RDMAP_TERMINATE &&
        unpack_terminate(f, &t)) {
        terminated(out, &t, f->known >= 6);
    }
    if (o->cfg.hex && f->seg.raw_len > 0) {
        struct cursor c = f->seg.payload;
        c.left = min_u32(c.left, f->known);
        out_hex(out, "    ", c);
    }
}

static void tell_message(void *ctx, const struct msg *m)
{
    const struct out_text *o = ctx;
    FILE *out = o->cfg.f;
    char detail[DETAIL];
    char took[32];
    char size[24] = "?";
    if (msg_size(m) != SIZE_UNKNOWN) {
        snprintf(size, sizeof size, "%llu", (unsigned long long)msg_size(m));
    }
    fprintf(out, "%s%.6f %u %c %-15s %s  %s", paint(o, colour_of(m)), out_time(o->cfg.d, m->at.ns),
            m->at.conn->id, arrow(m->at.dir), op_name(m->opcode), size,
            out_detail(m, detail, sizeof detail));
    if (m->answered) {
        fprintf(out, "  +%s", out_duration(m->latency_ns, took));
    }
    if (m->note[0] != '\0') {
        fprintf(out, "  [%s]", m->note);
    }
    if (m->missing > 0) {
        fprintf(out, "  (%llu octets not captured)", (unsigned long long)m->missing);
    }
    if (m->partial) {
        fprintf(out, "  (may have begun before what was seen)");
    }
    if (m->late) {
        fprintf(out, "  (told late)");
    }
    if (m->errors > 0) {
        fprintf(out, "  ! %s%s", require_text(m->first_error), m->errors > 1 ? " and more" : "");
    }
    fprintf(out, "%s\n", paint(o, PLAIN));
}

static void tell_finding(void *ctx, const struct finding *f)
{
    const struct out_text *o = ctx;
    FILE *out = o->cfg.f;
    fprintf(out, "%s! %.6f %u %c frame %llu %s: %s: %s", paint(o, RED),
            out_time(o->cfg.d, f->at.ns), f->at.conn->id, arrow(f->at.dir),
            (unsigned long long)f->at.frame, require_id(f->req), require_text(f->req), f->text);
    for (uint32_t i = 0; i < f->octets_len; i++) {
        fprintf(out, i == 0 ? " [%02x" : " %02x", f->octets[i]);
    }
    fprintf(out, "%s%s\n", f->octets_len > 0 ? "]" : "", paint(o, PLAIN));
}

static void tell_gap(void *ctx, const struct gap *g)
{
    const struct out_text *o = ctx;
    fprintf(o->cfg.f, "%s# %.6f %u %c %s: %s%s\n", paint(o, CYAN), out_time(o->cfg.d, g->at.ns),
            g->at.conn->id, arrow(g->at.dir), gap_text(g->kind), g->text, paint(o, PLAIN));
}

static void tell_frames(const struct out_text *o, const struct dump *d)
{
    if (d->frags.lost > 0) {
        fprintf(o->cfg.f, "# %llu IP fragments of packets whose other fragments are missing\n",
                (unsigned long long)d->frags.lost);
    }
    for (int k = PACKET_CUT; k < PACKET_KINDS; k++) {
        if (d->kind[k] > 0) {
            fprintf(o->cfg.f, "# %llu frames not looked into: %s", (unsigned long long)d->kind[k],
                    packet_kind_text((enum packet_kind)k));
            fprintf(o->cfg.f, k == PACKET_LINK ? " (%d is the first)\n" : "\n", d->odd_link);
        }
    }
    if (d->dropped > 0) {
        fprintf(o->cfg.f, "# %llu packets were lost while the capture was taken\n",
                (unsigned long long)d->dropped);
    }
    if (d->evicted > 0) {
        fprintf(o->cfg.f,
                "# %llu connections made room for others; if they went on they have two numbers\n",
                (unsigned long long)d->evicted);
    }
}

/* Why there is nothing above it. */
static void tell_nothing(const struct out_text *o, const struct dump *d)
{
    if (d->frames == 0) {
        fprintf(o->cfg.f, "# no frames\n");
    } else if (d->conns == 0) {
        fprintf(o->cfg.f, "# no TCP connection in %llu frames\n", (unsigned long long)d->frames);
    } else if (d->cfg.filter != NULL && d->messages > 0 && d->shown == 0) {
        fprintf(o->cfg.f, "# none of %llu messages matches the filter\n",
                (unsigned long long)d->messages);
    }
}

static void finish(void *ctx, const struct dump *d)
{
    const uint32_t others = d->conns - d->mpa_conns;
    const struct out_text *o = ctx;
    tell_frames(o, d);
    tell_nothing(o, d);
    if (others > 0) {
        fprintf(o->cfg.f, "# %u of %u TCP connections carry no iWARP that could be recognised\n",
                others, d->conns);
    }
    if (o->cfg.findings && d->findings == 0) {
        fprintf(o->cfg.f, "# no violation found in %llu messages\n",
                (unsigned long long)d->messages);
    } else if (!o->cfg.findings && d->findings > 0) {
        fprintf(o->cfg.f, "# %llu violations of requirements: --verdicts lists them\n",
                (unsigned long long)d->findings);
    }
    fflush(o->cfg.f);
}

void out_text_sink(struct out_text *o, struct sink *s)
{
    *s = (struct sink){.ctx = o, .conn = tell_conn, .gap = tell_gap, .finish = finish};
    if (o->cfg.messages) {
        s->setup = tell_setup;
        s->message = tell_message;
    }
    s->fpdu = o->cfg.fpdus ? tell_fpdu : NULL;
    s->finding = o->cfg.findings ? tell_finding : NULL;
}
