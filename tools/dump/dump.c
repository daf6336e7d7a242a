/* SPDX-License-Identifier: MIT */
#include "dump.h"

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
    events_flush(d);
    frags_free(&d->frags);
    free(d->events.heap);
    free(d->table);
    free(d);
}

struct place dump_here(const struct dump *d, const struct conn *c, unsigned dir)
{
    return (struct place){.ns = d->now.ns, .frame = d->now.num, .conn = c, .dir = dir};
}

/* Octets wait there for what came before them, or for a boundary. */
static bool is_holding(const struct half *h)
{
    bool search = h->s.phase == PHASE_SYNC || (h->s.phase == PHASE_START && h->s.searched);
    return (search && h->s.n > 0) || (h->r.head != NULL && h->s.phase != PHASE_OFF);
}

void dump_update_hold(struct dump *d, struct half *h, bool over)
{
    bool now = !over && is_holding(h);
    if (now != h->held) {
        h->held = now;
        events_hold(d, now);
    }
}

enum packet_kind dump_packet(struct dump *d, const struct frame *f, struct packet *pk,
                             const uint64_t **frames, uint32_t *count)
{
    *count = 0;
    enum packet_kind kind = packet_parse(f, pk);
    if (kind == PACKET_LINK && d->kind[kind] == 0) {
        d->odd_link = f->link;
    }
    d->kind[kind]++;
    return kind == PACKET_FRAGMENT ? frags_take(&d->frags, f, pk, frames, count) : kind;
}

static void tell_joined(struct dump *d, const struct conn *c, const uint64_t *frames, uint32_t n)
{
    for (unsigned i = 0; n > 0 && i < d->sinks; i++) {
        if (d->sink[i].joined != NULL) {
            d->sink[i].joined(d->sink[i].ctx, c, frames, n);
        }
    }
}

void dump_frame(struct dump *d, const struct frame *f)
{
    struct packet pk;
    const uint64_t *frames;
    uint32_t count;
    unsigned dir;
    if (d->frames++ == 0) {
        d->start_ns = f->ns;
    }
    d->now = *f;
    d->octets += f->len;
    d->last_ns = f->ns;
    if (dump_packet(d, f, &pk, &frames, &count) != PACKET_TCP) {
        return;
    }
    struct conn *c = flow_find(d, &pk, &dir);
    if (c == NULL) {
        return;
    }
    tell_joined(d, c, frames, count);
    c->frames += max_u32(count, 1);
    c->last_ns = f->ns > c->last_ns ? f->ns : c->last_ns;
    reasm_segment(d, c, dir, &pk);
    reasm_poll(d, c);
    for (unsigned i = 0; i < DIRS; i++) {
        dump_update_hold(d, &c->h[i], false);
    }
    events_drain(d);
}

void dump_idle(struct dump *d)
{
    events_drain(d);
}

void dump_finish(struct dump *d)
{
    while (!list_empty(&d->lru)) {
        flow_close(d, CONTAINER_OF(d->lru.next, struct conn, lru));
    }
    events_flush(d);
    frags_free(&d->frags);
    for (unsigned i = 0; i < d->sinks; i++) {
        if (d->sink[i].finish != NULL) {
            d->sink[i].finish(d->sink[i].ctx, d);
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
