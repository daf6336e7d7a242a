/* SPDX-License-Identifier: MIT */
#include "events.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "dump.h"

enum {
    PEEK = 128, /* payload octets that are kept of an FPDU where no hex dump is asked for */
    /* Where somebody watches the output, nothing waits longer than that. */
    HURRY_NS = 1000 * 1000 * 1000,
};

enum event_kind {
    EVENT_CONN,
    EVENT_SETUP,
    EVENT_FPDU,
    EVENT_MESSAGE,
    EVENT_FINDING,
    EVENT_GAP,
    EVENT_CLOSE,
};

enum fate { FATE_SHOW, FATE_OPEN, FATE_DROP };

struct event {
    struct list mates; /* others whose fate is decided together */
    enum event_kind kind;
    enum fate fate;
    struct place at;
    uint64_t seq;
    uint64_t since; /* by the clock of those who wait */
    uint32_t cost;
    struct span payload;
    union {
        struct setup_view setup;
        struct fpdu_view fpdu;
        struct msg msg;
        struct finding finding;
        struct gap gap;
    } u;
};

static uint32_t view_size(enum event_kind kind)
{
    switch (kind) {
    case EVENT_SETUP: return sizeof(struct setup_view);
    case EVENT_FPDU: return sizeof(struct fpdu_view);
    case EVENT_MESSAGE: return sizeof(struct msg);
    case EVENT_FINDING: return sizeof(struct finding);
    case EVENT_GAP: return sizeof(struct gap);
    default: return 0;
    }
}

static struct conn *conn_of(const struct place *at)
{
    return (struct conn *)(uintptr_t)at->conn;
}

/* --- to the outputs --- */

static void tell_one(const struct sink *s, enum event_kind kind, const void *view)
{
    switch (kind) {
    case EVENT_CONN: s->conn != NULL ? s->conn(s->ctx, view) : (void)0; break;
    case EVENT_SETUP: s->setup != NULL ? s->setup(s->ctx, view) : (void)0; break;
    case EVENT_FPDU: s->fpdu != NULL ? s->fpdu(s->ctx, view) : (void)0; break;
    case EVENT_MESSAGE: s->message != NULL ? s->message(s->ctx, view) : (void)0; break;
    case EVENT_FINDING: s->finding != NULL ? s->finding(s->ctx, view) : (void)0; break;
    case EVENT_GAP: s->gap != NULL ? s->gap(s->ctx, view) : (void)0; break;
    case EVENT_CLOSE: s->close != NULL ? s->close(s->ctx, view) : (void)0; break;
    }
}

static void tell(struct dump *d, enum event_kind kind, const void *view)
{
    for (unsigned i = 0; i < d->sinks; i++) {
        tell_one(&d->sink[i], kind, view);
    }
}

/* The event ends here. */
static void let_go(struct dump *d, struct event *e)
{
    struct events *q = &d->events;
    bool whole = e->kind == EVENT_CONN || e->kind == EVENT_CLOSE;
    if (e->kind == EVENT_MESSAGE && e->at.frame < q->told) {
        e->u.msg.late = true;
        q->late++;
    }
    if (e->fate != FATE_DROP) {
        q->told = e->at.frame > q->told ? e->at.frame : q->told;
        tell(d, e->kind, whole ? (const void *)e->at.conn : &e->u);
    }
    if (e->kind == EVENT_CLOSE) {
        flow_free(d, conn_of(&e->at));
    }
    free(e);
}

/* --- the heap --- */

static bool before(const struct event *a, const struct event *b)
{
    return a->at.frame != b->at.frame ? a->at.frame < b->at.frame : a->seq < b->seq;
}

static bool push(struct dump *d, struct event *e)
{
    struct events *q = &d->events;
    if (q->n == q->cap) {
        uint32_t cap = q->cap == 0 ? 64 : q->cap * 2;
        struct event **v = realloc(q->heap, cap * sizeof *v);
        if (v == NULL) {
            return false;
        }
        q->heap = v;
        q->cap = cap;
    }
    uint32_t i = q->n++;
    q->bytes += e->cost;
    for (; i > 0 && before(e, q->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        q->heap[i] = q->heap[(i - 1) / 2];
    }
    q->heap[i] = e;
    return true;
}

static struct event *pop(struct events *q)
{
    struct event *top = q->heap[0];
    struct event *last = q->heap[--q->n];
    uint32_t i = 0;
    q->bytes -= top->cost;
    for (uint32_t kid = 1; kid < q->n; kid = 2 * i + 1) {
        kid += kid + 1 < q->n && before(q->heap[kid + 1], q->heap[kid]) ? 1 : 0;
        if (!before(q->heap[kid], last)) {
            break;
        }
        q->heap[i] = q->heap[kid];
        i = kid;
    }
    q->heap[i] = last;
    return top;
}

/* The oldest one, as it is: what is still open is shown, since nothing speaks against it yet. */
static void let_top_go(struct dump *d)
{
    struct event *e = pop(&d->events);
    struct context *x = &conn_of(&e->at)->context;
    list_remove(&e->mates);
    if (e->fate == FATE_OPEN) {
        for (uint32_t i = 0; i < x->n; i++) {
            let_go(d, x->v[i]);
        }
        *x = (struct context){.released = true};
    }
    let_go(d, e);
}

void events_drain(struct dump *d)
{
    struct events *q = &d->events;
    while (q->n > 0) {
        const struct event *e = q->heap[0];
        bool full = q->n > EVENTS_MAX || q->bytes > EVENTS_BYTES;
        bool old = d->cfg.clock != NULL && d->cfg.clock() - e->since > HURRY_NS;
        if (!full && ((q->holds > 0 && !old) || e->fate == FATE_OPEN)) {
            return;
        }
        let_top_go(d);
    }
}

void events_flush(struct dump *d)
{
    while (d->events.n > 0) {
        let_top_go(d);
    }
}

void events_hold(struct dump *d, bool begin)
{
    d->events.holds += begin ? 1 : UINT32_MAX;
}

/* --- into the heap --- */

static struct event *copy(struct dump *d, enum event_kind kind, const struct place *at,
                          const void *view)
{
    uint32_t size = offsetof(struct event, u) + view_size(kind);
    uint32_t octets = 0;
    const struct fpdu_view *f = kind == EVENT_FPDU ? view : NULL;
    if (f != NULL && f->seg.raw_len > 0) {
        octets = min_u32(f->seg.payload.left, d->cfg.want_payload ? UINT32_MAX : PEEK);
    }
    struct event *e = malloc((size_t)size + octets);
    if (e == NULL) {
        return NULL;
    }
    list_init(&e->mates);
    e->kind = kind;
    e->fate = FATE_SHOW;
    e->at = *at;
    e->seq = d->events.seq++;
    e->since = d->cfg.clock != NULL ? d->cfg.clock() : 0;
    e->cost = size + octets + 64;
    if (view_size(kind) > 0) {
        memcpy((uint8_t *)e + offsetof(struct event, u), view, view_size(kind));
    }
    if (f != NULL) {
        uint8_t *p = (uint8_t *)e + size;
        struct cursor c = f->seg.payload;
        cursor_take(&c, octets, p);
        e->payload = (struct span){p, octets};
        e->u.fpdu.seg.payload = cursor_of(&e->payload, octets > 0 ? 1 : 0);
    }
    return e;
}

/* Straight to the outputs when nothing is before it, else into the heap. With an open fate the event
 * goes to the list, and NULL memory makes it shown. */
static void give(struct dump *d, enum event_kind kind, const struct place *at, const void *view,
                 struct list *open)
{
    struct events *q = &d->events;
    bool queue = q->n > 0 || q->holds > 0 || open != NULL;
    struct event *e = queue ? copy(d, kind, at, view) : NULL;
    if (e == NULL || !push(d, e)) {
        free(e);
        q->told = at->frame > q->told ? at->frame : q->told;
        tell(d, kind, view);
        return;
    }
    if (open != NULL) {
        e->fate = FATE_OPEN;
        list_append(open, &e->mates);
    }
}

/* --- what the filter says --- */

static bool wanted(const struct dump *d, const struct conn *c)
{
    return d->cfg.filter == NULL || filter_conn(d->cfg.filter, c);
}

static bool is_deep(const struct dump *d)
{
    return d->cfg.filter != NULL && filter_is_deep(d->cfg.filter);
}

/* Something of the connection is shown: so is what introduces it. */
static void release_context(struct dump *d, struct conn *c)
{
    struct context *x = &c->context;
    x->released = true;
    for (uint32_t i = 0; i < x->n; i++) {
        struct event *e = x->v[i];
        bool direct = d->events.n == 0 && d->events.holds == 0;
        if (direct || !push(d, e)) {
            let_go(d, e);
        }
    }
    x->n = 0;
}

static void show(struct dump *d, enum event_kind kind, const struct place *at, const void *view)
{
    struct conn *c = conn_of(at);
    if (!c->context.released) {
        release_context(d, c);
    }
    give(d, kind, at, view, NULL);
}

/* Shown, unless it is only worth it together with something that the filter takes. */
static void introduce(struct dump *d, enum event_kind kind, const struct place *at,
                      const void *view)
{
    struct context *x = &conn_of(at)->context;
    if (!is_deep(d) || x->released) {
        show(d, kind, at, view);
        return;
    }
    struct event *e = x->n < CONTEXT_MAX ? copy(d, kind, at, view) : NULL;
    if (e != NULL) {
        x->v[x->n++] = e;
    }
}

/* A violation, or an FPDU, that belongs to no message. */
static bool alone(const struct dump *d, const struct place *at, bool error)
{
    struct msg m = {.at = *at, .opcode = OP_NONE, .errors = error ? 1 : 0};
    return filter_message(d->cfg.filter, &m, d->start_ns);
}

static void decide(struct dump *d, struct event *e, bool yes)
{
    struct conn *c = conn_of(&e->at);
    e->fate = yes ? FATE_SHOW : FATE_DROP;
    if (yes && !c->context.released) {
        release_context(d, c);
    }
}

void events_decide(struct dump *d, struct list *waiting, bool yes)
{
    struct list *node;
    while ((node = list_shift(waiting)) != NULL) {
        decide(d, CONTAINER_OF(node, struct event, mates), yes);
    }
}

void events_settle(struct dump *d, struct list *waiting)
{
    struct list *node;
    while ((node = list_shift(waiting)) != NULL) {
        struct event *e = CONTAINER_OF(node, struct event, mates);
        decide(d, e, alone(d, &e->at, e->kind == EVENT_FINDING));
    }
}

/* --- from the core --- */

void dump_tell_conn(struct dump *d, struct conn *c)
{
    struct place at = dump_here(d, c, 0);
    if (c->told) {
        return;
    }
    c->told = true;
    d->mpa_conns++;
    if (wanted(d, c)) {
        introduce(d, EVENT_CONN, &at, c);
    }
}

void dump_setup(struct dump *d, const struct setup_view *v)
{
    if (wanted(d, v->at.conn)) {
        introduce(d, EVENT_SETUP, &v->at, v);
    }
}

void dump_fpdu(struct dump *d, const struct fpdu_view *f)
{
    const struct conn *c = f->at.conn;
    if (!d->cfg.want_fpdus || !wanted(d, c)) {
        return;
    }
    unsigned opcode = f->seg.raw_len > 0 ? rdmap_opcode(f->seg.hdr.ulp) : OP_NONE;
    int match = d->cfg.filter == NULL ? 1 : filter_fpdu(d->cfg.filter, &f->at, opcode);
    if (match > 0) {
        show(d, EVENT_FPDU, &f->at, f);
    } else if (match == 0) {
        give(d, EVENT_FPDU, &f->at, f, &c->h[f->at.dir].x->waiting);
    }
}

void dump_message(struct dump *d, struct msg *m, struct list *waiting)
{
    bool match = d->cfg.filter == NULL || filter_message(d->cfg.filter, m, d->start_ns);
    d->messages++;
    events_decide(d, waiting, match);
    if (match) {
        d->shown++;
        show(d, EVENT_MESSAGE, &m->at, m);
    }
    events_drain(d);
}

/* The message a violation belongs to is the one that is open in the segment's place; it is enough to
 * count it where a reader looks first. */
static struct rdma *blame(struct conn *c, const struct dump *d, unsigned dir, enum require req)
{
    struct rdma *x = c->h[dir].x;
    if (x == NULL || d->fpdu.at.frame != d->now.num || d->fpdu.at.conn != c ||
        d->fpdu.at.dir != dir) {
        return NULL;
    }
    if (x->pending_errors++ == 0) {
        x->pending_error = req;
    }
    return x;
}

void dump_find(struct dump *d, struct spot where, enum require req, const char *fmt, ...)
{
    struct conn *c = conn_of(&where.at);
    struct finding f = {.at = where.at, .req = req};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f.text, sizeof f.text, fmt, ap);
    va_end(ap);
    struct rdma *x = blame(c, d, where.at.dir, req);
    if (where.octets.n == 0 && x != NULL) {
        where.octets = (struct span){d->fpdu.seg.raw, d->fpdu.seg.raw_len};
    }
    f.octets_len = min_u32(where.octets.n, sizeof f.octets);
    if (f.octets_len > 0) {
        memcpy(f.octets, where.octets.p, f.octets_len);
    }
    if (c->findings++ == 0) {
        c->first_finding = f;
    }
    d->findings++;
    if (!wanted(d, c)) {
        return;
    }
    if (x != NULL && is_deep(d)) {
        give(d, EVENT_FINDING, &f.at, &f, &x->waiting);
    } else if (!is_deep(d) || alone(d, &f.at, true)) {
        show(d, EVENT_FINDING, &f.at, &f);
    }
}

void dump_gap(struct dump *d, struct gap *g, const char *fmt, ...)
{
    struct conn *c = conn_of(&g->at);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(g->text, sizeof g->text, fmt, ap);
    va_end(ap);
    c->gaps++;
    d->gaps++;
    dump_tell_conn(d, c);
    if (d->cfg.filter == NULL || filter_gap(d->cfg.filter, &g->at, d->start_ns)) {
        show(d, EVENT_GAP, &g->at, g);
    }
}

/* What a closed connection still takes. */
static uint32_t cost_of(const struct conn *c)
{
    size_t n = sizeof *c + (c->stats != NULL ? sizeof *c->stats : 0);
    for (unsigned i = 0; i < DIRS; i++) {
        const struct rdma *x = c->h[i].x;
        n += x != NULL ? sizeof *x + x->read_cap * sizeof *x->read : 0;
    }
    return (uint32_t)n;
}

void events_close(struct dump *d, struct conn *c)
{
    struct events *q = &d->events;
    struct place at = dump_here(d, c, 0);
    bool yes = wanted(d, c) && (!is_deep(d) || c->context.released);
    for (uint32_t i = 0; i < c->context.n; i++) {
        free(c->context.v[i]);
    }
    c->context.n = 0;
    struct event *e = q->n > 0 || q->holds > 0 ? copy(d, EVENT_CLOSE, &at, c) : NULL;
    if (e != NULL) {
        e->fate = yes ? FATE_SHOW : FATE_DROP;
        e->cost += cost_of(c);
        if (push(d, e)) {
            return;
        }
        free(e);
    }
    events_flush(d); /* nothing may stay that names the connection */
    if (yes) {
        tell(d, EVENT_CLOSE, c);
    }
    flow_free(d, c);
}
