/* SPDX-License-Identifier: MIT */
/* TCP reassembly by sequence number: octets once and in order, holes named. */
#include <stdlib.h>

#include "dump.h"

enum {
    /* How long a hole that the other end has acknowledged may still be filled: its octets may stand
     * later in the capture when that was taken in several places. */
    HOLE_NS = 200 * 1000 * 1000,
    HOLE_FRAMES = 512,
    BY_CHANCE = 16, /* more wrong sums than that for each right one: none was meant to be right */
};

struct piece {
    struct piece *prev, *next;
    uint32_t seq, len, cap; /* cap octets of len are there */
    uint64_t frame, ns;
    uint8_t data[];
};

static int32_t seq_diff(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b);
}

/* Hands on len octets at the sequence number that is due, of which cap are there. */
static void deliver(struct dump *d, struct conn *c, unsigned dir, const struct piece *pc,
                    const uint8_t *data)
{
    struct half *h = &c->h[dir];
    struct chunk k = {.p = data, .len = pc->cap, .frame = pc->frame, .ns = pc->ns};
    h->r.next += pc->len;
    if (pc->cap > 0) {
        stream_feed(d, c, dir, &k);
    }
    if (pc->cap < pc->len) {
        h->st.cut += pc->len - pc->cap;
        k = (struct chunk){
            .p = NULL, .len = pc->len - pc->cap, .cut = true, .frame = pc->frame, .ns = pc->ns};
        stream_feed(d, c, dir, &k);
    }
}

static void unlink_piece(struct dump *d, struct reasm *r, struct piece *pc)
{
    *(pc->prev != NULL ? &pc->prev->next : &r->head) = pc->next;
    *(pc->next != NULL ? &pc->next->prev : &r->tail) = pc->prev;
    r->pieces--;
    r->bytes -= pc->cap;
    d->pool -= pc->cap;
    free(pc);
}

/* Everything that is due now. It counts as come with the frame that is being worked on, which filled a
 * hole; or, when one was given up, with its own. */
static void drain(struct dump *d, struct conn *c, unsigned dir)
{
    struct reasm *r = &c->h[dir].r;
    while (r->head != NULL && seq_diff(r->head->seq, r->next) <= 0) {
        struct piece *pc = r->head;
        uint32_t old = r->next - pc->seq;
        if (old < pc->len) {
            if (pc->frame > d->now.num) {
                d->now.num = pc->frame;
                d->now.ns = pc->ns;
            }
            struct piece rest = {.len = pc->len - old,
                                 .cap = pc->cap > old ? pc->cap - old : 0,
                                 .frame = pc->frame,
                                 .ns = pc->ns};
            deliver(d, c, dir, &rest, pc->data + min_u32(old, pc->cap));
        }
        unlink_piece(d, r, pc);
    }
    r->hole_acked = false;
}

/* The octets up to the first waiting piece are given up. */
static void give_up_hole(struct dump *d, struct conn *c, unsigned dir, const char *why)
{
    struct half *h = &c->h[dir];
    uint32_t len = h->r.head->seq - h->r.next;
    struct frame now = d->now;
    d->now.num = h->r.head->frame;
    d->now.ns = h->r.head->ns;
    struct gap g = {.at = dump_here(d, c, dir), .kind = GAP_CAPTURE, .octets = len};
    h->st.missing += len;
    if (h->s.phase != PHASE_OFF) {
        dump_gap(d, &g, "%u TCP octets are not in the capture (%s)", len, why);
    }
    struct chunk k = {.p = NULL, .len = len, .frame = d->now.num, .ns = d->now.ns};
    h->r.next += len;
    stream_feed(d, c, dir, &k);
    drain(d, c, dir);
    d->now = now;
}

static void keep(struct dump *d, struct conn *c, unsigned dir, const struct packet *pk)
{
    struct reasm *r = &c->h[dir].r;
    struct piece *after = r->tail;
    while (after != NULL && seq_diff(after->seq, pk->seq) > 0) {
        after = after->prev;
    }
    if (after != NULL && after->seq == pk->seq && after->len >= pk->len) {
        c->h[dir].st.retrans++;
        return;
    }
    struct piece *pc = malloc(sizeof *pc + pk->data.n);
    if (pc == NULL) {
        return;
    }
    *pc = (struct piece){.prev = after,
                         .next = after != NULL ? after->next : r->head,
                         .seq = pk->seq,
                         .len = pk->len,
                         .cap = pk->data.n,
                         .frame = d->now.num,
                         .ns = d->now.ns};
    memcpy(pc->data, pk->data.p, pk->data.n);
    *(pc->prev != NULL ? &pc->prev->next : &r->head) = pc;
    *(pc->next != NULL ? &pc->next->prev : &r->tail) = pc;
    r->pieces++;
    r->bytes += pc->cap;
    d->pool += pc->cap;
    while (r->head != NULL &&
           (r->bytes > REASM_BYTES || r->pieces > REASM_NODES || d->pool > POOL_BYTES)) {
        give_up_hole(d, c, dir, "too much waits behind them");
    }
}

/* Octets that are due, and perhaps older ones before them. */
static void take(struct dump *d, struct conn *c, unsigned dir, const struct packet *pk)
{
    struct half *h = &c->h[dir];
    uint32_t old = h->r.next - pk->seq;
    if (old > 0) {
        h->st.overlap++;
    }
    struct piece pc = {.len = pk->len - old,
                       .cap = pk->data.n > old ? pk->data.n - old : 0,
                       .frame = d->now.num,
                       .ns = d->now.ns};
    deliver(d, c, dir, &pc, pk->data.p + min_u32(old, pk->data.n));
    if (h->r.head != NULL) {
        drain(d, c, dir);
    }
}

/* A receiver drops a segment whose checksum is wrong; a capture beside a sender with offload shows
 * wrong ones that are right on the wire. A direction that shows hardly a right one is of that kind: one in
 * 65536 is right by chance. */
static bool is_damaged(const struct dump *d, struct half *h, const struct packet *pk)
{
    switch (pk->sum) {
    case SUM_GOOD: h->r.sum_good++; return false;
    case SUM_OFFLOAD: h->r.sum_off++; return false;
    case SUM_UNKNOWN: return false;
    default: h->r.sum_bad++; break;
    }
    return !d->cfg.ignore_sums && h->r.sum_good + h->r.sum_off > h->r.sum_bad / BY_CHANCE;
}

static void start(struct conn *c, unsigned dir, uint32_t seq, bool syn)
{
    struct reasm *r = &c->h[dir].r;
    r->started = true;
    r->syn = syn;
    r->isn = seq;
    r->next = r->sent = seq + (syn ? 1 : 0);
    stream_start(c, dir, syn);
}

static void take_payload(struct dump *d, struct conn *c, unsigned dir, const struct packet *pk)
{
    struct half *h = &c->h[dir];
    h->st.segments++;
    h->st.octets += pk->len;
    int32_t ahead = seq_diff(pk->seq, h->r.next);
    if (ahead > 0) {
        h->st.out_of_order++;
        keep(d, c, dir, pk);
    } else if (pk->len > h->r.next - pk->seq) {
        take(d, c, dir, pk);
    } else {
        h->st.retrans++;
    }
}

static void take_ack(struct conn *c, unsigned dir, const struct packet *pk)
{
    struct reasm *other = &c->h[1 - dir].r;
    if ((pk->flags & TCP_ACK) != 0 && (!other->has_ack || seq_diff(pk->ack, other->acked) > 0)) {
        other->acked = pk->ack;
        other->has_ack = true;
    }
}

static void take_end(struct dump *d, struct conn *c, unsigned dir, const struct packet *pk)
{
    struct reasm *r = &c->h[dir].r;
    if ((pk->flags & TCP_FIN) != 0 && !r->fin_seen) {
        r->fin_seen = true;
        r->fin_at = pk->seq + pk->len;
    }
    if (r->fin_seen && !r->fin && r->next == r->fin_at) {
        r->fin = true;
        stream_end(d, c, dir, "FIN");
    }
    if ((pk->flags & TCP_RST) != 0) {
        r->rst = true;
    }
}

void reasm_segment(struct dump *d, struct conn *c, unsigned dir, const struct packet *pk)
{
    struct half *h = &c->h[dir];
    bool syn = (pk->flags & TCP_SYN) != 0;
    if (is_damaged(d, h, pk)) {
        h->st.bad_sum += pk->len > 0;
        return;
    }
    if (syn && pk->mss != 0) {
        h->mss = pk->mss;
    }
    if (!h->r.started && (syn || pk->len > 0)) {
        start(c, dir, pk->seq, syn);
    }
    take_ack(c, dir, pk);
    if (h->r.started && seq_diff(pk->seq, h->r.sent) > 0) {
        h->r.sent = pk->seq;
    }
    if (pk->len > 0) {
        struct packet data = *pk;
        data.seq += syn ? 1 : 0;
        take_payload(d, c, dir, &data);
    }
    take_end(d, c, dir, pk);
}

bool reasm_lacks(const struct half *h)
{
    const struct reasm *r = &h->r;
    bool acked = r->started && r->has_ack && seq_diff(r->acked, r->next) > (r->fin_seen ? 1 : 0);
    return !r->started || r->head != NULL || acked;
}

void reasm_poll(struct dump *d, struct conn *c)
{
    for (unsigned dir = 0; dir < DIRS; dir++) {
        struct reasm *r = &c->h[dir].r;
        if (r->head == NULL || !r->has_ack || seq_diff(r->acked, r->head->seq) < 0) {
            continue;
        }
        if (!r->hole_acked) {
            r->hole_acked = true;
            r->hole_ns = d->now.ns;
            r->hole_frames = c->frames;
        } else if ((d->now.ns > r->hole_ns && d->now.ns - r->hole_ns > HOLE_NS) ||
                   c->frames - r->hole_frames > HOLE_FRAMES) {
            give_up_hole(d, c, dir, "the other end acknowledged them");
        }
    }
}

/* What was sent, as ACKs or this end's own numbers tell, although neither it nor anything behind it is
 * in the capture. */
static void tell_tail(struct dump *d, struct conn *c, unsigned dir)
{
    struct half *h = &c->h[dir];
    int32_t more = h->r.has_ack ? seq_diff(h->r.acked, h->r.next) : 0;
    int32_t sent = seq_diff(h->r.sent, h->r.next);
    more = more > sent ? more : sent;
    if (h->r.fin_seen && seq_diff(h->r.fin_at, h->r.next) > 0) {
        more = seq_diff(h->r.fin_at, h->r.next);
    } else if (h->r.fin || more == 1) {
        return; /* the FIN has a number of its own */
    }
    if (!h->r.started || more <= 0 || h->s.phase == PHASE_OFF) {
        return;
    }
    struct gap g = {.at = dump_here(d, c, dir), .kind = GAP_CAPTURE, .octets = (uint32_t)more};
    h->st.missing += (uint32_t)more;
    dump_gap(d, &g, "%d TCP octets at the end are not in the capture", more);
}

void reasm_end(struct dump *d, struct conn *c, unsigned dir)
{
    struct reasm *r = &c->h[dir].r;
    while (r->head != NULL) {
        give_up_hole(d, c, dir, "the capture ends");
    }
    if (r->fin_seen && r->next == r->fin_at) {
        r->fin = true;
    }
    tell_tail(d, c, dir);
    stream_end(d, c, dir, r->fin ? "FIN" : r->rst ? "RST" : "the capture's end");
}
