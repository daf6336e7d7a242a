/* SPDX-License-Identifier: MIT */
#include "pick.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Frames low..high of a connection. */
struct range {
    uint64_t low, high;
};

struct ranges {
    struct range *v;
    uint32_t n, cap;
    uint64_t setup_end; /* frames up to here are the set-up's */
    bool any;
};

/* Of all ranges together; neighbours are joined, so only scattered messages need many. */
enum { RANGES_MAX = 4 << 20 };

/* A fragment, and the frame that completed its packet. */
struct extra {
    uint64_t frame, last;
    uint32_t conn;
};

struct pick {
    bool whole, failed, mixed;
    int link; /* of the file that is written */
    struct extra *extra;
    uint32_t extras, extra_cap;
    struct ranges *conn;
    uint32_t conns, used;
};

struct pick *pick_new(bool whole)
{
    struct pick *p = calloc(1, sizeof *p);
    if (p != NULL) {
        p->whole = whole;
    }
    return p;
}

void pick_free(struct pick *p)
{
    for (uint32_t i = 0; i < p->conns; i++) {
        free(p->conn[i].v);
    }
    free(p->conn);
    free(p->extra);
    free(p);
}

static struct ranges *of_conn(struct pick *p, uint32_t id)
{
    if (id >= p->conns) {
        uint32_t n = max_u32(id + 1, p->conns * 2);
        struct ranges *v = realloc(p->conn, n * sizeof *v);
        if (v == NULL) {
            p->failed = true;
            return NULL;
        }
        memset(v + p->conns, 0, (n - p->conns) * sizeof *v);
        p->conn = v;
        p->conns = n;
    }
    return &p->conn[id];
}

static void add(struct pick *p, struct ranges *r, struct range x)
{
    struct range *last = r->n > 0 ? &r->v[r->n - 1] : NULL;
    if (last != NULL && x.low <= last->high + 1 && x.high + 1 >= last->low) {
        last->low = min_u64(last->low, x.low);
        last->high = x.high > last->high ? x.high : last->high;
        return;
    }
    if (r->n == r->cap) {
        uint32_t cap = r->cap == 0 ? 8 : r->cap * 2;
        struct range *v = p->used < RANGES_MAX ? realloc(r->v, cap * sizeof *v) : NULL;
        if (v == NULL) {
            p->failed = true;
            return;
        }
        r->v = v;
        r->cap = cap;
    }
    p->used++;
    r->v[r->n++] = x;
}

static void take_message(void *ctx, const struct msg *m)
{
    struct pick *p = ctx;
    struct ranges *r = of_conn(p, m->at.conn->id);
    if (r != NULL) {
        r->any = true;
        add(p, r, (struct range){m->low_frame, m->at.frame});
    }
}

static void take_setup(void *ctx, const struct setup_view *v)
{
    struct ranges *r = of_conn(ctx, v->at.conn->id);
    if (r != NULL) {
        r->setup_end = v->at.frame;
    }
}

static void take_conn(void *ctx, const struct conn *c)
{
    struct ranges *r = of_conn(ctx, c->id);
    if (r != NULL) {
        r->any |= ((struct pick *)ctx)->whole;
    }
}

static void take_fragments(void *ctx, const struct conn *c, const uint64_t *frames, uint32_t n)
{
    struct pick *p = ctx;
    if (p->extra_cap - p->extras < n) {
        uint32_t cap = max_u32(p->extras + n, p->extra_cap * 2);
        struct extra *v = cap <= RANGES_MAX ? realloc(p->extra, cap * sizeof *v) : NULL;
        if (v == NULL) {
            p->failed = true;
            return;
        }
        p->extra = v;
        p->extra_cap = cap;
    }
    for (uint32_t i = 0; i < n; i++) {
        p->extra[p->extras++] = (struct extra){frames[i], frames[n - 1], c->id};
    }
}

void pick_sink(struct pick *p, struct sink *s)
{
    *s = (struct sink){.ctx = p,
                       .conn = take_conn,
                       .setup = take_setup,
                       .message = take_message,
                       .joined = take_fragments};
}

static int by_low(const void *a, const void *b)
{
    const struct range *x = a;
    const struct range *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

/* Sorted and disjoint, for a binary search. */
static void tidy(struct ranges *r)
{
    if (r->n == 0) {
        return;
    }
    qsort(r->v, r->n, sizeof *r->v, by_low);
    uint32_t n = 1;
    for (uint32_t i = 1; i < r->n; i++) {
        struct range *last = &r->v[n - 1];
        if (r->v[i].low <= last->high + 1) {
            last->high = r->v[i].high > last->high ? r->v[i].high : last->high;
        } else {
            r->v[n++] = r->v[i];
        }
    }
    r->n = n;
}

static bool holds(const struct ranges *r, uint64_t frame)
{
    uint32_t low = 0;
    uint32_t high = r->n;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (frame < r->v[mid].low) {
            high = mid;
        } else if (frame > r->v[mid].high) {
            low = mid + 1;
        } else {
            return true;
        }
    }
    return false;
}

static bool wanted(const struct pick *p, uint32_t id, bool mark, uint64_t frame)
{
    if (id >= p->conns || !p->conn[id].any) {
        return false;
    }
    return p->whole || mark || frame <= p->conn[id].setup_end || holds(&p->conn[id], frame);
}

static int by_frame(const void *a, const void *b)
{
    const struct extra *x = a;
    const struct extra *y = b;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static bool wanted_fragment(const struct pick *p, uint64_t frame)
{
    const struct extra key = {.frame = frame};
    const struct extra *x =
        p->extras > 0 ? bsearch(&key, p->extra, p->extras, sizeof key, by_frame) : NULL;
    return x != NULL && wanted(p, x->conn, false, x->last);
}

static void put(pcap_dumper_t *out, const struct frame *f)
{
    struct pcap_pkthdr h = {.caplen = f->cap, .len = f->len};
    h.ts.tv_sec = (time_t)(f->ns / 1000000000);
    h.ts.tv_usec = (suseconds_t)(f->ns % 1000000000);
    pcap_dump((u_char *)out, &h, f->p);
}

/* What decides on a new connection between the same ports is kept up to date. */
static void see(struct reasm *r, const struct packet *pk)
{
    bool syn = (pk->flags & TCP_SYN) != 0;
    if (!r->started && (syn || pk->len > 0)) {
        r->started = true;
        r->syn = syn;
        r->isn = pk->seq;
    }
}

static void copy(struct pick *p, struct input *in, pcap_dumper_t *out, struct dump *again)
{
    struct frame f;
    while (input_next(in, &f) == 1) {
        struct packet pk;
        const uint64_t *frames;
        uint32_t count;
        unsigned dir;
        again->now = f;
        bool tcp = dump_packet(again, &f, &pk, &frames, &count) == PACKET_TCP;
        struct conn *c = tcp ? flow_find(again, &pk, &dir) : NULL;
        if (c != NULL) {
            see(&c->h[dir].r, &pk);
        }
        bool mark = tcp && (pk.flags & (TCP_SYN | TCP_FIN | TCP_RST)) != 0;
        if ((c != NULL && wanted(p, c->id, mark, f.num)) || wanted_fragment(p, f.num)) {
            p->mixed |= f.link != p->link;
            put(out, &f);
        }
    }
}

/* Connections of the second pass hold no data, so they are closed without a word. */
static void forget(struct dump *again)
{
    while (!list_empty(&again->lru)) {
        struct conn *c = CONTAINER_OF(again->lru.next, struct conn, lru);
        c->h[0].r.started = c->h[1].r.started = false;
        flow_close(again, c);
    }
    dump_free(again);
}

static void tidy_all(struct pick *p)
{
    for (uint32_t i = 0; i < p->conns; i++) {
        tidy(&p->conn[i]);
    }
    if (p->extras > 0) {
        qsort(p->extra, p->extras, sizeof *p->extra, by_frame);
    }
}

/* NULL, or what went wrong. */
static const char *write_all(struct pick *p, struct input *in, pcap_dumper_t *out)
{
    struct dump_cfg none = {0};
    struct dump *again = dump_new(&none);
    if (again == NULL) {
        return strerror(ENOMEM);
    }
    copy(p, in, out, again);
    forget(again);
    if (p->mixed) {
        return "the frames are of several kinds of links, which one pcap file cannot hold";
    }
    return pcap_dump_flush(out) == 0 ? NULL : strerror(errno);
}

const char *pick_write(struct pick *p, struct input *in, const char *path)
{
    struct frame first = {.link = DLT_EN10MB};
    if (p->failed) {
        return strerror(ENOMEM);
    }
    if (!input_rewind(in) || input_next(in, &first) < 0 || !input_rewind(in)) {
        return "the input cannot be read again";
    }
    tidy_all(p);
    p->link = first.link;
    FILE *file = strcmp(path, "-") == 0 ? fdopen(dup(STDOUT_FILENO), "wb") : fopen(path, "wb");
    if (file == NULL) {
        return strerror(errno);
    }
    pcap_t *form =
        pcap_open_dead_with_tstamp_precision(first.link, 262144, PCAP_TSTAMP_PRECISION_NANO);
    pcap_dumper_t *out = form != NULL ? pcap_dump_fopen(form, file) : NULL;
    const char *why = out != NULL ? write_all(p, in, out) : "the file's header cannot be written";
    if (out != NULL) {
        pcap_dump_close(out);
    } else {
        fclose(file);
    }
    if (form != NULL) {
        pcap_close(form);
    }
    return why;
}
