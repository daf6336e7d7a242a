/* SPDX-License-Identifier: MIT */
#include "out.h"

static void tell_frame(FILE *f, const char *name, const struct mpa_frame *m)
{
    fprintf(f, "  %-8s rev %u, markers %s, CRC %s", name, m->rev,
            m->markers ? "asked" : "not asked", m->crc ? "asked" : "not asked");
    if (m->enhanced) {
        fprintf(f, ", IRD %u, ORD %u", m->ird, m->ord);
    }
    if (m->p2p) {
        fprintf(f, ", peer-to-peer with RTR %s", out_rtr(m->rtr));
    }
    fprintf(f, ", %u octets of private data%s\n", m->pd_len, m->reject ? ", REJECTED" : "");
}

static void tell_agreed(FILE *f, const struct conn *c)
{
    const struct agreed *a = c->agreed;
    if (a == NULL) {
        fprintf(f, "  set-up   not in the capture\n");
        return;
    }
    if (a->have_req) {
        tell_frame(f, "Request", &a->req);
    }
    if (a->have_rep) {
        tell_frame(f, "Reply", &a->rep);
    }
    if (a->bad) {
        fprintf(f, "  set-up   failed: a frame was malformed\n");
    } else if (a->have_req && a->have_rep && !a->rejected) {
        fprintf(
            f,
            "  agreed   CRC %s, markers to the server %s, to the client %s, Initiator is the %s\n",
            a->req.crc || a->rep.crc ? "on" : "off", c->h[0].s.rx.markers ? "on" : "off",
            c->h[1].s.rx.markers ? "on" : "off", a->initiator == 0 ? "client" : "server");
        for (unsigned dir = 0; dir < DIRS; dir++) {
            uint16_t limit = setup_read_limit(c, dir);
            if (limit != MPA_DEPTH_UNSET) {
                fprintf(f, "           the %s may have %u Reads and Atomics open\n",
                        dir == 0 ? "client" : "server", limit);
            }
        }
    } else if (!a->rejected) {
        fprintf(f, "  set-up   not finished in the capture\n");
    }
}

static void tell_sizes(FILE *f, const struct op_stats *o)
{
    for (unsigned b = 0; b < SIZE_BUCKETS; b++) {
        if (o->size[b] > 0) {
            uint64_t low = b == 0 ? 0 : 1ull << (b - 1);
            uint64_t high = b == 0 ? 0 : (1ull << b) - 1;
            fprintf(f, "           %12llu .. %-12llu %llu\n", (unsigned long long)low,
                    (unsigned long long)high, (unsigned long long)o->size[b]);
        }
    }
    if (o->sizeless > 0) {
        fprintf(f, "                 not captured         %llu\n", (unsigned long long)o->sizeless);
    }
}

static void tell_tcp(FILE *f, const struct half *h)
{
    const struct half_stats *st = &h->st;
    fprintf(f,
            "    TCP      %llu segments, %llu octets, %llu retransmitted, %llu overlapping, "
            "%llu out of order",
            (unsigned long long)st->segments, (unsigned long long)st->octets,
            (unsigned long long)st->retrans, (unsigned long long)st->overlap,
            (unsigned long long)st->out_of_order);
    fprintf(f, ", %llu with a bad checksum\n", (unsigned long long)st->bad_sum);
    if (st->missing + st->cut + st->undecoded > 0) {
        fprintf(f, "    not seen %llu octets missing, %llu behind the snaplen, %llu not decoded\n",
                (unsigned long long)st->missing, (unsigned long long)st->cut,
                (unsigned long long)st->undecoded);
    }
}

static void tell_reads(FILE *f, const struct conn *c, unsigned dir)
{
    char a[5][32];
    const struct rdma *x = c->h[dir].x;
    uint16_t limit = setup_read_limit(c, dir);
    const struct latency *l = c->stats != NULL ? c->stats->read[dir] : NULL;
    if (x == NULL || x->reads_peak == 0) {
        return;
    }
    fprintf(f, "    Reads    %u outstanding at most, ", x->reads_peak);
    if (limit == MPA_DEPTH_UNSET) {
        fprintf(f, "limit not known");
    } else {
        fprintf(f, "the peer's IRD is %u", limit);
    }
    fprintf(f, ", %u without an answer\n", x->reads);
    if (l != NULL) {
        fprintf(f, "    latency  min %s, median %s, p90 %s, p99 %s, max %s\n",
                out_duration(l->min, a[0]), out_duration(stats_percentile(l, 0.5), a[1]),
                out_duration(stats_percentile(l, 0.9), a[2]),
                out_duration(stats_percentile(l, 0.99), a[3]), out_duration(l->max, a[4]));
    }
}

static void tell_direction(FILE *f, const struct conn *c, unsigned dir)
{
    const struct half *h = &c->h[dir];
    fprintf(f, "  %s\n", dir == 0 ? "client to server" : "server to client");
    tell_tcp(f, h);
    if (h->st.fpdus > 0) {
        fprintf(f,
                "    FPDUs    %llu, CRC good %llu, bad %llu, off %llu, not captured %llu; markers "
                "%llu\n",
                (unsigned long long)h->st.fpdus, (unsigned long long)h->st.crc[CRC_GOOD],
                (unsigned long long)h->st.crc[CRC_BAD], (unsigned long long)h->st.crc[CRC_OFF],
                (unsigned long long)h->st.crc[CRC_CUT], (unsigned long long)h->st.markers);
    }
    for (unsigned i = 0; i < OPCODES; i++) {
        const struct op_stats *o = h->st.op[i];
        if (o != NULL) {
            fprintf(f, "    %-16s %llu messages, %llu FPDUs, %llu octets of payload\n", op_name(i),
                    (unsigned long long)o->messages, (unsigned long long)o->fpdus,
                    (unsigned long long)o->bytes);
            tell_sizes(f, o);
        }
    }
    tell_reads(f, c, dir);
}

static void tell_regions(FILE *f, const struct conn_stats *cs)
{
    for (uint32_t i = 0; cs != NULL && i < cs->regions; i++) {
        const struct region *r = &cs->region[i];
        fprintf(f,
                "  region   STag 0x%08x 0x%llx..0x%llx %s by the %s: %llu messages, %llu octets\n",
                r->stag, (unsigned long long)r->low, (unsigned long long)r->high,
                r->written ? "written" : "read", r->dir == 0 ? "client" : "server",
                (unsigned long long)r->messages, (unsigned long long)r->bytes);
    }
    if (cs != NULL && cs->regions_lost > 0) {
        fprintf(f, "  region   and %llu accesses to other STags\n",
                (unsigned long long)cs->regions_lost);
    }
}

static void close_conn(void *ctx, const struct conn *c)
{
    const struct out_summary *o = ctx;
    FILE *f = o->cfg.f;
    char a[ADDR_TEXT];
    char b[ADDR_TEXT];
    if (!conn_is_mpa(c)) {
        return;
    }
    fprintf(f, "connection %u: %s > %s, %.6f s, %llu frames%s%s\n", c->id, out_end(c, 0, a),
            out_end(c, 1, b), (double)(c->last_ns - c->first_ns) / 1e9,
            (unsigned long long)c->frames, c->upper != UPPER_UNKNOWN ? ", " : "",
            upper_text(c->upper));
    tell_agreed(f, c);
    for (unsigned dir = 0; dir < DIRS; dir++) {
        if (c->h[dir].st.segments > 0) {
            tell_direction(f, c, dir);
        }
    }
    tell_regions(f, c->stats);
    if (c->gaps > 0) {
        fprintf(f, "  gaps     %u\n", c->gaps);
    }
    if (c->findings > 0) {
        const struct finding *x = &c->first_finding;
        fprintf(f, "  errors   %u; first: frame %llu, %s (%s): %s\n", c->findings,
                (unsigned long long)x->at.frame, require_id(x->req), require_text(x->req), x->text);
    } else {
        fprintf(f, "  errors   none\n");
    }
}

static void finish(void *ctx, const struct dump *d)
{
    const struct out_summary *o = ctx;
    FILE *f = o->cfg.f;
    fprintf(f,
            "total: %llu frames, %llu octets, %u TCP connections, %u with iWARP, %llu messages, "
            "%llu violations, %llu gaps\n",
            (unsigned long long)d->frames, (unsigned long long)d->octets, d->conns, d->mpa_conns,
            (unsigned long long)d->messages, (unsigned long long)d->findings,
            (unsigned long long)d->gaps);
    fflush(f);
}

void out_summary_sink(struct out_summary *o, struct sink *s)
{
    *s = (struct sink){.ctx = o, .close = close_conn, .finish = finish};
}
