/* SPDX-License-Identifier: MIT */
#include "dump.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TABLE = 2 * CONNS_MAX };

struct dump *dump_new(const struct dump_cfg *cfg)
{
    struct dump *d = calloc(1, sizeof *d);
    if (d == NULL) {
        return NULL;
    }
    d->table = calloc(TABLE, sizeof *d->table);
    if (d->table == NULL) {
        free(d);
        return NULL;
    }
    d->cfg = *cfg;
    d->mask = TABLE - 1;
    list_init(&d->lru);
    return d;
}

void dump_add_sink(struct dump *d, const struct sink *s)
{
    if (d->sinks < SINKS_MAX) {
        d->sink[d->sinks++] = *s;
        d->cfg.want_fpdus |= s->fpdu != NULL;
    }
}

void dump_free(struct dump *d)
{
    free(d->table);
    free(d);
}

struct place dump_here(const struct dump *d, const struct conn *c, unsigned dir)
{
    return (struct place){.ns = d->now.ns, .frame = d->now.num, .conn = c, .dir = dir};
}

void dump_frame(struct dump *d, const struct frame *f)
{
    struct packet pk;
    unsigned dir;
    if (d->frames++ == 0) {
        d->start_ns = f->ns;
    }
    d->now = *f;
    d->octets += f->len;
    d->last_ns = f->ns;
    enum packet_kind kind = packet_parse(f, &pk);
    d->kind[kind]++;
    if (kind != PACKET_TCP) {
        return;
    }
    struct conn *c = flow_find(d, &pk, &dir);
    if (c == NULL) {
        return;
    }
    c->frames++;
    c->last_ns = f->ns;
    reasm_segment(d, c, dir, &pk);
    reasm_poll(d, c);
}

void dump_finish(struct dump *d)
{
    while (!list_empty(&d->lru)) {
        flow_close(d, CONTAINER_OF(d->lru.next, struct conn, lru));
    }
    for (unsigned i = 0; i < d->sinks; i++) {
        if (d->sink[i].finish != NULL) {
            d->sink[i].finish(d->sink[i].ctx, d);
        }
    }
}

static bool wanted(const struct dump *d, const struct conn *c)
{
    return d->cfg.filter == NULL || filter_conn(d->cfg.filter, c);
}

void dump_tell_conn(struct dump *d, struct conn *c)
{
    if (c->told) {
        return;
    }
    c->told = true;
    d->mpa_conns++;
    for (unsigned i = 0; wanted(d, c) && i < d->sinks; i++) {
        if (d->sink[i].conn != NULL) {
            d->sink[i].conn(d->sink[i].ctx, c);
        }
    }
}

void dump_setup(struct dump *d, const struct setup_view *v)
{
    for (unsigned i = 0; wanted(d, v->at.conn) && i < d->sinks; i++) {
        if (d->sink[i].setup != NULL) {
            d->sink[i].setup(d->sink[i].ctx, v);
        }
    }
}

void dump_fpdu(struct dump *d, const struct fpdu_view *f)
{
    for (unsigned i = 0; d->cfg.want_fpdus && wanted(d, f->at.conn) && i < d->sinks; i++) {
        if (d->sink[i].fpdu != NULL) {
            d->sink[i].fpdu(d->sink[i].ctx, f);
        }
    }
}

void dump_message(struct dump *d, struct msg *m)
{
    d->messages++;
    if (d->cfg.filter != NULL && !filter_message(d->cfg.filter, m, d->start_ns)) {
        return;
    }
    d->shown++;
    for (unsigned i = 0; i < d->sinks; i++) {
        if (d->sink[i].message != NULL) {
            d->sink[i].message(d->sink[i].ctx, m);
        }
    }
}

/* The message a violation belongs to is the one that is open in the segment's place; it is enough to
 * count it where a reader looks first. */
static void blame(struct conn *c, const struct dump *d, unsigned dir, enum require req)
{
    struct rdma *x = c->h[dir].x;
    if (x == NULL || d->fpdu.at.frame != d->now.num || d->fpdu.at.conn != c ||
        d->fpdu.at.dir != dir) {
        return;
    }
    if (x->pending_errors++ == 0) {
        x->pending_error = req;
    }
}

void dump_find(struct dump *d, struct spot where, enum require req, const char *fmt, ...)
{
    struct conn *c = (struct conn *)(uintptr_t)where.at.conn;
    struct finding f = {.at = where.at, .req = req};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f.text, sizeof f.text, fmt, ap);
    va_end(ap);
    f.octets_len = min_u32(where.octets.n, sizeof f.octets);
    if (f.octets_len > 0) {
        memcpy(f.octets, where.octets.p, f.octets_len);
    }
    if (c->findings++ == 0) {
        c->first_finding = f;
    }
    d->findings++;
    blame(c, d, where.at.dir, req);
    for (unsigned i = 0; wanted(d, c) && i < d->sinks; i++) {
        if (d->sink[i].finding != NULL) {
            d->sink[i].finding(d->sink[i].ctx, &f);
        }
    }
}

void dump_gap(struct dump *d, struct gap *g, const char *fmt, ...)
{
    struct conn *c = (struct conn *)(uintptr_t)g->at.conn;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(g->text, sizeof g->text, fmt, ap);
    va_end(ap);
    c->gaps++;
    d->gaps++;
    dump_tell_conn(d, c);
    for (unsigned i = 0; wanted(d, c) && i < d->sinks; i++) {
        if (d->sink[i].gap != NULL) {
            d->sink[i].gap(d->sink[i].ctx, g);
        }
    }
}

const char *op_name(unsigned opcode)
{
    static const char *const name[OPCODES] = {
        "write",     "read_request", "read_response",  "send",
        "send_inv",  "send_se",      "send_se_inv",    "terminate",
        "immediate", "immediate_se", "atomic_request", "atomic_response",
        "op12",      "op13",         "op14",           "op15"};
    return name[opcode % OPCODES];
}

const char *crc_text(enum crc_state crc)
{
    static const char *const text[] = {[CRC_UNKNOWN] = "unknown",
                                       [CRC_OFF] = "off",
                                       [CRC_GOOD] = "good",
                                       [CRC_CUT] = "not captured",
                                       [CRC_BAD] = "bad"};
    return (size_t)crc < ARRAY_LEN(text) ? text[crc] : "?";
}

const char *gap_text(enum gap_kind kind)
{
    static const char *const text[] = {
        [GAP_CAPTURE] = "capture", [GAP_SNAPLEN] = "snaplen", [GAP_START] = "start",
        [GAP_SYNC] = "sync",       [GAP_LOST] = "lost",       [GAP_UNFINISHED] = "unfinished"};
    return (size_t)kind < ARRAY_LEN(text) ? text[kind] : "?";
}
