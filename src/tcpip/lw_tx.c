/* SPDX-License-Identifier: MIT */
/* What a stream sends. Its owner writes into chunks or lends memory; the pieces wait here until the
 * windows have room, so that TCP gets whole large segments and its own queue stays short. */
#include <errno.h>

#include "tcpip/lw.h"

enum {
    PUSH_AT_ONCE = 8,
    /* What lw_tx_room() tells at most, and what that may take: any two chunks that follow each other
     * hold more than one chunk's worth of pieces; a lent piece may be split between segments. */
    ROOM_MAX = 2 * NET_CHUNK,
    CHUNK_STOCK = 5,
    ITEMS_SPARE = 44,
    ITEMS_OF_PIECE = 2, /* what one more commit or lend adds; keeps what lw_tx_room() promised */
};

void lw_tx_on_acked(struct lw_stream *s, uint32_t n)
{
    s->base.tx_acked += n;
    bool idle = s->base.tx_acked == s->base.tx_queued && s->tx_reserved == 0;
    net_txmem_release(&s->tx_mem, &s->net->chunks, s->base.tx_acked, idle);
}

void lw_tx_drop(struct lw_stream *s)
{
    net_txmem_drop(&s->tx_mem, &s->net->chunks);
    s->item_count = 0;
    s->tx_reserved = 0;
}

/* --- room --- */

static bool may_send(const struct lw_stream *s)
{
    return s->pcb != NULL && s->up && !s->fin_out;
}

/* With so many items to spare, and chunks in stock, so that what lw_tx_room() promises needs no
 * allocation. */
static uint32_t room(const struct lw_stream *s, uint32_t spare)
{
    if (!may_send(s) || s->item_count + spare > LW_ITEMS ||
        !net_chunks_stock(&s->net->chunks, CHUNK_STOCK)) {
        return 0;
    }
    uint64_t limit = min_u32(min_u32(s->pcb->cwnd, s->pcb->snd_wnd), TCP_SND_BUF) + LW_AHEAD;
    uint64_t used = s->base.tx_queued - s->base.tx_acked;
    return limit > used ? (uint32_t)min_u64(limit - used, ROOM_MAX) : 0;
}

uint32_t lw_tx_room(struct net_stream *stream)
{
    struct lw_stream *s = lw_stream_of(stream);
    uint32_t n = room(s, ITEMS_SPARE);
    s->want_room |= n < NET_CHUNK;
    return n;
}

static bool refuse(struct lw_stream *s)
{
    s->want_room = true;
    return false;
}

/* A chunk's worth is what the owner may ask for at most, and he is not called for less. */
void lw_tx_tell_room(struct lw_stream *s)
{
    if (s->want_room && !s->orphan && s->listener == NULL && room(s, ITEMS_SPARE) >= NET_CHUNK) {
        s->want_room = false;
        net_tell(&s->net->base, &s->base.news, NET_EV_ROOM);
    }
}

/* --- queueing --- */

static struct lw_item *last_item(struct lw_stream *s)
{
    return &s->items[(s->item_first + s->item_count - 1) % LW_ITEMS];
}

static void add_item(struct lw_stream *s, struct lw_item item)
{
    struct lw_item *last = last_item(s);
    if (s->item_count > 0 && !item.head && item.lent == last->lent && last->p + last->n == item.p) {
        last->n += item.n;
    } else {
        s->item_count++;
        *last_item(s) = item;
    }
    s->tx_fill = (item.head ? 0 : s->tx_fill) + item.n;
    s->base.tx_queued += item.n;
    lw_stream_dirty(s);
}

uint8_t *lw_tx_reserve(struct net_stream *stream, uint32_t n)
{
    struct lw_stream *s = lw_stream_of(stream);
    if (n > NET_CHUNK || room(s, ITEMS_OF_PIECE) < n) {
        refuse(s);
        return NULL;
    }
    lw_stream_widen(s);
    uint8_t *p = net_txmem_reserve(&s->tx_mem, &s->net->chunks, n);
    if (p == NULL) {
        refuse(s);
        return NULL;
    }
    s->tx_reserved = n;
    s->tx_head = s->item_count == 0 || s->tx_fill + n > s->pcb->mss;
    return p;
}

void lw_tx_commit(struct net_stream *stream, uint32_t n)
{
    struct lw_stream *s = lw_stream_of(stream);
    n = min_u32(n, s->tx_reserved);
    s->tx_reserved = 0;
    if (n > 0) {
        const uint8_t *p = net_txmem_commit(&s->tx_mem, n, s->base.tx_queued + n);
        add_item(s, (struct lw_item){p, n, s->tx_head, false});
    }
}

/* Lent pieces fill the present segment to its end and go on in the next. */
bool lw_tx_lend(struct net_stream *stream, const void *p, uint32_t n)
{
    struct lw_stream *s = lw_stream_of(stream);
    if (room(s, ITEMS_OF_PIECE) < n) {
        return refuse(s);
    }
    lw_stream_widen(s);
    const uint8_t *d = p;
    uint32_t mss = s->pcb->mss;
    bool head = s->item_count == 0 || s->tx_fill >= mss;
    if (!head && n > mss - s->tx_fill) {
        uint32_t first = mss - s->tx_fill;
        add_item(s, (struct lw_item){d, first, false, true});
        d += first;
        n -= first;
        head = true;
    }
    if (n > 0) {
        add_item(s, (struct lw_item){d, n, head, true});
    }
    return true;
}

/* --- handing over to TCP --- */

static void eat_item(struct lw_stream *s, uint32_t n)
{
    struct lw_item *it = &s->items[s->item_first];
    it->p += n;
    it->n -= n;
    it->head = true; /* what is left of it begins the next segment */
    if (it->n == 0) {
        s->item_first = (s->item_first + 1) % LW_ITEMS;
        s->item_count--;
    }
}

/* Gives TCP the pieces of one segment; returns its length. */
static uint32_t push_segment(struct lw_stream *s)
{
    struct tcp_pcb *pcb = s->pcb;
    uint32_t done = 0, mss = pcb->mss;
    for (uint32_t i = 0; i < LW_SEG_ITEMS && s->item_count > 0 && done < mss; i++) {
        struct lw_item *it = &s->items[s->item_first];
        if (done > 0 && it->head) {
            break;
        }
        uint32_t n = min_u32(it->n, mss - done);
        bool last = n == it->n && s->item_count == 1;
        if (n > pcb->snd_buf ||
            tcp_write(pcb, it->p, (u16_t)n, last ? 0 : TCP_WRITE_FLAG_MORE) != ERR_OK) {
            break;
        }
        eat_item(s, n);
        done += n;
    }
    return done;
}

/* lwIP would fill a segment that waits to be sent with the beginning of the next, so it is given the
 * next only when none waits, or when the last one is full. A few at a time, since lwIP walks all
 * that is unacknowledged before it sends. */
static uint32_t push_some(struct lw_stream *s)
{
    uint32_t count = 0, mss = s->pcb->mss, n = mss;
    while (count < PUSH_AT_ONCE && n == mss && s->item_count > 0) {
        n = push_segment(s);
        count += n > 0;
    }
    return count;
}

void lw_tx_push(struct lw_stream *s)
{
    struct tcp_pcb *pcb = s->pcb;
    if (pcb->unsent != NULL) {
        tcp_output(pcb);
    }
    while (pcb->unsent == NULL && s->item_count > 0) {
        if (push_some(s) == 0) {
            s->net->chunks.starved |= pcb->unacked == NULL;
            break;
        }
        tcp_output(pcb);
    }
    lw_tx_tell_room(s);
}

/* --- taking lent memory back --- */

static bool touches(const void *payload, uint32_t len, uintptr_t from, uint64_t n)
{
    uintptr_t at = (uintptr_t)payload;
    return at < from ? from - at < len : at - from < n;
}

static bool in_chunk(const struct lw_stream *s, const void *payload)
{
    for (const struct net_chunk *c = s->tx_mem.first; c != NULL; c = c->next) {
        if ((uintptr_t)payload - (uintptr_t)c->data < NET_CHUNK) {
            return true;
        }
    }
    return false;
}

static bool in_copies(const struct lw_stream *s, const void *payload)
{
    for (const struct net_copy *c = s->tx_mem.copies; c != NULL; c = c->next) {
        if (c->data == payload) {
            return true;
        }
    }
    return false;
}

/* Lives until all that is queued now is acknowledged. */
static const uint8_t *keep_copy(struct lw_stream *s, const void *p, uint32_t n)
{
    return net_txmem_copy(&s->tx_mem, p, n, s->base.tx_queued);
}

static bool unlend_segments(struct lw_stream *s, struct tcp_seg *seg, uintptr_t from, uint64_t n)
{
    for (; seg != NULL; seg = seg->next) {
        /* The first pbuf has the headers, in memory of lwIP's own. */
        for (struct pbuf *q = seg->p->next; q != NULL; q = q->next) {
            if (!touches(q->payload, q->len, from, n) || in_chunk(s, q->payload) ||
                in_copies(s, q->payload)) {
                continue;
            }
            const uint8_t *copy = keep_copy(s, q->payload, q->len);
            if (copy == NULL) {
                return false;
            }
            memcpy(&q->payload, &copy, sizeof copy);
        }
    }
    return true;
}

static bool unlend_items(struct lw_stream *s, uintptr_t from, uint64_t n)
{
    for (uint32_t i = 0; i < s->item_count; i++) {
        struct lw_item *it = &s->items[(s->item_first + i) % LW_ITEMS];
        if (!it->lent || !touches(it->p, it->n, from, n)) {
            continue;
        }
        const uint8_t *copy = keep_copy(s, it->p, it->n);
        if (copy == NULL) {
            return false;
        }
        it->p = copy;
        it->lent = false;
    }
    return true;
}

static bool unlend(struct lw_stream *s, uintptr_t from, uint64_t n)
{
    return unlend_segments(s, s->pcb->unacked, from, n) &&
           unlend_segments(s, s->pcb->unsent, from, n) && unlend_items(s, from, n);
}

bool lw_tx_unlend_all(struct lw_stream *s)
{
    return unlend(s, 0, UINT64_MAX);
}

/* The memory is about to vanish, so without memory for a copy the connection has to go. */
void lw_tx_unlend(struct net_stream *stream, const void *p, uint64_t n)
{
    struct lw_stream *s = lw_stream_of(stream);
    if (s->pcb != NULL && s->up && n > 0 && !unlend(s, (uintptr_t)p, n)) {
        lw_stream_fail(s, -ENOMEM);
    }
}
