/* SPDX-License-Identifier: MIT */
/* A wire in memory between two nets of one process, for tests. Frames are queued with the time of
 * their arrival, never handed over at once: lwIP cannot be re-entered. What happens to them depends
 * on the seed and on nothing else. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tcpip/lw.h"
#include "tcpip/net_test.h"

enum { FLOWS = 64 };

/* Where the data of a direction of a connection begins. */
struct flow {
    uint16_t from, to;
    uint32_t first;
};

struct link_pair {
    struct link base;
    struct list node;
    struct link_pair *peer;
    char name[NET_NAME_MAX];
    struct net_wire wire;
    uint64_t random;
    struct frame *first, *last; /* arriving */
    uint32_t arriving;
    struct frame *held; /* leaving, behind the next one */
    struct flow flow[FLOWS];
    uint32_t flows;
    uint64_t frames, lost;
    net_wire_watcher *watcher, *tap;
    void *watcher_arg, *tap_arg;
    uint8_t whole[FRAME_ROOM];
};

static struct list wires = {&wires, &wires};

static struct link_pair *pair_of(struct link *l)
{
    return CONTAINER_OF(l, struct link_pair, base);
}

/* --- chance --- */

/* splitmix64 */
static uint32_t draw(struct link_pair *w)
{
    uint64_t z = (w->random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

static bool chance(struct link_pair *w, uint32_t ppm)
{
    return ppm != 0 && draw(w) % 1000000 < ppm;
}

/* --- the way to the other end --- */

static void arrive(struct link_pair *to, struct frame *f)
{
    f->next = NULL;
    if (to->first == NULL) {
        to->first = f;
    } else {
        to->last->next = f;
    }
    to->last = f;
    to->arriving++;
}

static struct frame *frame_copy(const uint8_t *d, uint32_t len, uint64_t due)
{
    struct frame *f = frame_new(len);
    if (f != NULL) {
        memcpy(f->data, d, len);
        f->len = len;
        f->due = due;
    }
    return f;
}

static void deliver(struct link_pair *w, const uint8_t *d, uint32_t len)
{
    struct frame *f = frame_copy(d, len, net_now_ms() + w->wire.delay_ms);
    if (f == NULL) {
        return;
    }
    if (w->held == NULL && chance(w, w->wire.reorder_ppm)) {
        w->held = f;
        return;
    }
    arrive(w->peer, f);
    if (w->held != NULL) {
        arrive(w->peer, w->held);
        w->held = NULL;
    }
}

static bool is_cut_off(const struct link_pair *w, const uint8_t *d, uint32_t len)
{
    struct vnet_tcp t;
    uint16_t port = w->wire.lost_port;
    return port != 0 && vnet_find_tcp(d, len, len, &t) &&
           (get_be16(d + t.l4) == port || get_be16(d + t.l4 + 2) == port);
}

static void leave(struct link_pair *w, const uint8_t *d, uint32_t len)
{
    w->frames++;
    if (w->tap != NULL) {
        w->tap(w->tap_arg, d, len);
    }
    if (w->peer == NULL) {
        return;
    }
    if (is_cut_off(w, d, len) || chance(w, w->wire.loss_ppm)) {
        w->lost++;
        return;
    }
    deliver(w, d, len);
    if (chance(w, w->wire.dup_ppm)) {
        deliver(w, d, len);
    }
}

/* --- cutting --- */

static void note_flow(struct link_pair *w, const uint8_t *f, const struct vnet_tcp *t)
{
    struct flow now = {get_be16(f + t->l4), get_be16(f + t->l4 + 2), get_be32(f + t->l4 + 4) + 1};
    for (uint32_t i = 0; i < min_u32(w->flows, FLOWS); i++) {
        if (w->flow[i].from == now.from && w->flow[i].to == now.to) {
            w->flow[i] = now;
            return;
        }
    }
    w->flow[w->flows++ % FLOWS] = now;
}

/* Octets from the beginning of the direction's data to the frame's. */
static uint32_t stream_offset(const struct link_pair *w, const uint8_t *f, const struct vnet_tcp *t)
{
    for (uint32_t i = 0; i < min_u32(w->flows, FLOWS); i++) {
        if (w->flow[i].from == get_be16(f + t->l4) && w->flow[i].to == get_be16(f + t->l4 + 2)) {
            return get_be32(f + t->l4 + 4) - w->flow[i].first;
        }
    }
    return 0;
}

/* The length of the next piece at off. */
static uint32_t piece_at(struct link_pair *w, const struct vnet_tcp *t, uint32_t off, uint32_t most,
                         uint32_t base)
{
    uint32_t n = min_u32(t->end - t->pay - off, most);
    if (w->wire.cut_every != 0) {
        n = min_u32(n, w->wire.cut_every);
    }
    if (w->wire.cut_at != 0) {
        n = min_u32(n, w->wire.cut_at - (base + off) % w->wire.cut_at);
    }
    if (n > 1 && chance(w, w->wire.cut_ppm)) {
        n = 1 + draw(w) % (n - 1);
    }
    return n;
}

static void send_pieces(struct link_pair *w, const struct vnet_tcp *t, uint32_t gso)
{
    uint8_t *piece = malloc(t->end);
    if (piece == NULL) {
        return;
    }
    uint32_t most = gso != 0 ? gso : t->end - t->pay;
    uint32_t base = stream_offset(w, w->whole, t);
    /* A random cut ends at the segment's end, or each would shift all that follow. */
    uint32_t segment = 0, pay = t->end - t->pay;
    for (uint32_t off = 0; off < pay;) {
        if (off == segment) {
            segment = min_u32(off + most, pay);
        }
        uint32_t n = piece_at(w, t, off, segment - off, base);
        leave(w, piece, vnet_piece(w->whole, t, off, n, piece));
        off += n;
    }
    free(piece);
}

/* --- link --- */

static bool pair_ready(struct link *l)
{
    const struct link_pair *w = pair_of(l);
    return w->wire.room == 0 || w->peer == NULL || w->peer->arriving < w->wire.room;
}

static int pair_tx(struct link *l, struct link_tx *tx)
{
    struct link_pair *w = pair_of(l);
    uint32_t len = 0;
    if (!pair_ready(l)) {
        return -EAGAIN;
    }
    for (uint32_t i = 1; i < tx->n; i++) {
        memcpy(w->whole + len, tx->v[i].iov_base, tx->v[i].iov_len);
        len += (uint32_t)tx->v[i].iov_len;
    }
    struct vnet_tcp t;
    bool is_tcp = vnet_find_tcp(w->whole, len, len, &t);
    if (is_tcp) {
        vnet_put_sums(w->whole, &t);
    }
    if (w->watcher != NULL) {
        w->watcher(w->watcher_arg, w->whole, len);
    }
    if (is_tcp && (w->whole[t.l4 + 13] & VNET_SYN) != 0) {
        note_flow(w, w->whole, &t);
    }
    if (is_tcp && t.end > t.pay) {
        send_pieces(w, &t, tx->vh.gso_size);
    } else {
        leave(w, w->whole, len);
    }
    return 0;
}

static uint32_t pair_rx(struct link *l, struct frame **out, uint32_t max)
{
    struct link_pair *w = pair_of(l);
    uint64_t now = net_now_ms();
    uint32_t n = 0;
    while (n < max && w->first != NULL && w->first->due <= now) {
        out[n] = w->first;
        w->first = w->first->next;
        out[n]->next = NULL;
        w->arriving--;
        n++;
    }
    return n;
}

static bool pair_sleep(struct link *l, bool want_room)
{
    (void)want_room;
    struct link_pair *w = pair_of(l);
    return w->first == NULL || w->first->due > net_now_ms();
}

static void nothing(struct link *l)
{
    (void)l;
}

static int pair_due(const struct link *l)
{
    const struct link_pair *w = CONTAINER_OF(l, const struct link_pair, base);
    if (w->first == NULL) {
        return -1;
    }
    uint64_t now = net_now_ms();
    return w->first->due > now ? (int)min_u64(w->first->due - now, 60000) : 0;
}

static void pair_close(struct link *l)
{
    struct link_pair *w = pair_of(l);
    if (w->peer != NULL) {
        w->peer->peer = NULL;
    }
    while (w->first != NULL) {
        struct frame *f = w->first;
        w->first = f->next;
        frame_free(f);
    }
    if (w->held != NULL) {
        frame_free(w->held);
    }
    list_remove(&w->node);
    free(w);
}

static const struct link_ops pair_ops = {
    .rx = pair_rx,
    .tx = pair_tx,
    .tx_ready = pair_ready,
    .sleep = pair_sleep,
    .woken = nothing,
    .tick = nothing,
    .due_ms = pair_due,
    .close = pair_close,
};

int link_pair_open(const struct net_cfg *cfg, struct link **out, char err[NET_ERR_TEXT])
{
    struct link_pair *w = calloc(1, sizeof *w);
    if (w == NULL) {
        snprintf(err, NET_ERR_TEXT, "pair %.80s: out of memory", cfg->name);
        return -ENOMEM;
    }
    strcpy(w->name, cfg->name);
    LIST_EACH(node, &wires)
    {
        struct link_pair *other = CONTAINER_OF(node, struct link_pair, node);
        if (strcmp(other->name, cfg->name) != 0) {
            continue;
        }
        if (other->peer != NULL) {
            snprintf(err, NET_ERR_TEXT, "pair %.80s: has two ends already", cfg->name);
            free(w);
            return -EBUSY;
        }
        w->peer = other;
        other->peer = w;
        break;
    }
    list_append(&wires, &w->node);
    w->base.ops = &pair_ops;
    w->base.fd = -1;
    w->base.up = true;
    w->base.mtu = min_u32(cfg->mtu != 0 ? cfg->mtu : LINK_MTU_MAX, LINK_MTU_MAX);
    *out = &w->base;
    return 0;
}

/* --- for tests --- */

static struct link_pair *wire_of(const struct net *net)
{
    const struct lw_net *lw = CONTAINER_OF(net, const struct lw_net, base);
    return lw->kind == NET_PAIR ? pair_of(lw->link) : NULL;
}

void net_wire_set(struct net *net, const struct net_wire *wire)
{
    struct link_pair *w = wire_of(net);
    if (w != NULL) {
        w->wire = *wire;
        w->random = wire->seed;
    }
}

void net_wire_stats(const struct net *net, uint64_t *frames, uint64_t *lost)
{
    const struct link_pair *w = wire_of(net);
    *frames = w != NULL ? w->frames : 0;
    *lost = w != NULL ? w->lost : 0;
}

void net_wire_remove(struct net *net)
{
    struct link_pair *w = wire_of(net);
    if (w != NULL) {
        w->base.up = false;
        w->base.gone = true;
    }
}

void net_wire_inject(struct net *net, const void *frame, uint32_t len)
{
    struct link_pair *w = wire_of(net);
    struct frame *f = w != NULL && len <= FRAME_ROOM ? frame_copy(frame, len, net_now_ms()) : NULL;
    if (f != NULL) {
        arrive(w, f);
    }
}

void net_wire_watch(struct net *net, net_wire_watcher *fn, void *arg)
{
    struct link_pair *w = wire_of(net);
    if (w != NULL) {
        w->watcher = fn;
        w->watcher_arg = arg;
    }
}

void net_wire_tap(struct net *net, net_wire_watcher *fn, void *arg)
{
    struct link_pair *w = wire_of(net);
    if (w != NULL) {
        w->tap = fn;
        w->tap_arg = arg;
    }
}
