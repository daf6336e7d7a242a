/* SPDX-License-Identifier: MIT */
/* What a stream sends. Its owner writes into chunks or lends memory; the pieces wait here until the
 * windows have room, so that TCP gets whole large segments and its own queue stays short. */
#include <errno.h>
#include <stdlib.h>

#include "tcpip/net_int.h"

enum {
    PUSH_AT_ONCE = 8,
    /* What net_tx_room() tells at most, and what that may take: any two chunks that follow each other
     * hold more than one chunk's worth of pieces; a lent piece may be split between segments. */
    ROOM_MAX = 2 * NET_CHUNK,
    CHUNK_STOCK = 5,
    ITEMS_SPARE = 44,
    ITEMS_OF_PIECE = 2, /* what one more commit or lend adds; keeps what net_tx_room() promised */
};

/* --- chunks --- */

static struct net_chunk *chunk_new(struct net *net)
{
    struct net_chunk *c = net->chunks;
    if (c != NULL) {
        net->chunks = c->next;
        net->chunk_count--;
    } else {
        c = aligned_alloc(64, sizeof *c);
        if (c == NULL) {
            net->starved = true;
            return NULL;
        }
    }
    c->next = NULL;
    c->end = 0;
    c->used = 0;
    return c;
}

static void chunk_free(struct net *net, struct net_chunk *c)
{
    c->next = net->chunks;
    net->chunks = c;
    net->chunk_count++;
}

void net_chunks_free(struct net *net)
{
    while (net->chunks != NULL) {
        struct net_chunk *c = net->chunks;
        net->chunks = c->next;
        free(c);
    }
}

static void pop_chunk(struct net_stream *s)
{
    struct net_chunk *c = s->tx_first;
    s->tx_first = c->next;
    if (s->tx_first == NULL) {
        s->tx_last = NULL;
    }
    chunk_free(s->net, c);
}

/* The last chunk goes only when nothing may follow in it: then an idle connection holds none. */
static void release_chunks(struct net_stream *s)
{
    bool idle = s->tx_acked == s->tx_queued && s->tx_reserved == 0;
    while (s->tx_first != NULL && s->tx_first->end <= s->tx_acked &&
           (s->tx_first != s->tx_last || idle)) {
        pop_chunk(s);
    }
}

/* --- copies of what was lent --- */

static void release_copies(struct net_stream *s, uint64_t acked)
{
    struct net_copy **at = &s->tx_copies;
    while (*at != NULL) {
        struct net_copy *c = *at;
        if (c->until <= acked) {
            *at = c->next;
            free(c);
        } else {
            at = &c->next;
        }
    }
}

void net_tx_on_acked(struct net_stream *s, uint32_t n)
{
    s->tx_acked += n;
    release_chunks(s);
    if (s->tx_copies != NULL) {
        release_copies(s, s->tx_acked);
    }
}

void net_tx_drop(struct net_stream *s)
{
    release_copies(s, UINT64_MAX);
    while (s->tx_first != NULL) {
        pop_chunk(s);
    }
    s->item_count = 0;
    s->tx_reserved = 0;
}

/* --- room --- */

static bool may_send(const struct net_stream *s)
{
    return s->pcb != NULL && s->up && !s->fin_out;
}

/* Chunks in stock, so that what net_tx_room() promises needs no allocation. */
static bool stocked(struct net *net)
{
    while (net->chunk_count < CHUNK_STOCK) {
        struct net_chunk *c = aligned_alloc(64, sizeof *c);
        if (c == NULL) {
            net->starved = true;
            return false;
        }
        chunk_free(net, c);
    }
    return true;
}

/* With so many items to spare. */
static uint32_t room(const struct net_stream *s, uint32_t spare)
{
    if (!may_send(s) || s->item_count + spare > NET_ITEMS || !stocked(s->net)) {
        return 0;
    }
    uint64_t limit = min_u32(min_u32(s->pcb->cwnd, s->pcb->snd_wnd), TCP_SND_BUF) + NET_AHEAD;
    uint64_t used = s->tx_queued - s->tx_acked;
    return limit > used ? (uint32_t)min_u64(limit - used, ROOM_MAX) : 0;
}

uint32_t net_tx_room(struct net_stream *s)
{
    uint32_t n = room(s, ITEMS_SPARE);
    s->want_room |= n < NET_CHUNK;
    return n;
}

static bool refuse(struct net_stream *s)
{
    s->want_room = true;
    return false;
}

/* A chunk's worth is what the owner may ask for at most, and he is not called for less. */
void net_tx_tell_room(struct net_stream *s)
{
    if (s->want_room && !s->orphan && s->listener == NULL && room(s, ITEMS_SPARE) >= NET_CHUNK) {
        s->want_room = false;
        net_tell(s->net, &s->news, NET_EV_ROOM);
    }
}

/* --- queueing --- */

static struct net_item *last_item(struct net_stream *s)
{
    return &s->items[(s->item_first + s->item_count - 1) % NET_ITEMS];
}

static void add_item(struct net_stream *s, struct net_item item)
{
    struct net_item *last = last_item(s);
    if (s->item_count > 0 && !item.head && item.lent == last->lent && last->p + last->n == item.p) {
        last->n += item.n;
    } else {
        s->item_count++;
        *last_item(s) = item;
    }
    s->tx_fill = (item.head ? 0 : s->tx_fill) + item.n;
    s->tx_queued += item.n;
    net_stream_dirty(s);
}

uint8_t *net_tx_reserve(struct net_stream *s, uint32_t n)
{
    if (n > NET_CHUNK || room(s, ITEMS_OF_PIECE) < n) {
        refuse(s);
        return NULL;
    }
    net_stream_widen(s);
    struct net_chunk *c = s->tx_last;
    if (c == NULL || NET_CHUNK - c->used < n) {
        c = chunk_new(s->net);
        if (c == NULL) {
            refuse(s);
            return NULL;
        }
        if (s->tx_last != NULL) {
            s->tx_last->next = c;
        } else {
            s->tx_first = c;
        }
        s->tx_last = c;
    }
    s->tx_reserved = n;
    s->tx_head = s->item_count == 0 || s->tx_fill + n > s->pcb->mss;
    return c->data + c->used;
}

void net_tx_commit(struct net_stream *s, uint32_t n)
{
    struct net_chunk *c = s->tx_last;
    n = min_u32(n, s->tx_reserved);
    s->tx_reserved = 0;
    if (n == 0) {
        return;
    }
    add_item(s, (struct net_item){c->data + c->used, n, s->tx_head, false});
    c->used += n;
    c->end = s->tx_queued;
}

/* Lent pieces fill the present segment to its end and go on in the next. */
bool net_tx_lend(struct net_stream *s, const void *p, uint32_t n)
{
    if (room(s, ITEMS_OF_PIECE) < n) {
        return refuse(s);
    }
    net_stream_widen(s);
    const uint8_t *d = p;
    uint32_t mss = s->pcb->mss;
    bool head = s->item_count == 0 || s->tx_fill >= mss;
    if (!head && n > mss - s->tx_fill) {
        uint32_t first = mss - s->tx_fill;
        add_item(s, (struct net_item){d, first, false, true});
        d += first;
        n -= first;
        head = true;
    }
    if (n > 0) {
        add_item(s, (struct net_item){d, n, head, true});
    }
    return true;
}

uint64_t net_tx_queued(const struct net_stream *s)
{
    return s->tx_queued;
}

uint64_t net_tx_acked(const struct net_stream *s)
{
    return s->tx_acked;
}

/* --- handing over to TCP --- */

static void eat_item(struct net_stream *s, uint32_t n)
{
    struct net_item *it = &s->items[s->item_first];
    it->p += n;
    it->n -= n;
    it->head = true; /* what is left of it begins the next segment */
    if (it->n == 0) {
        s->item_first = (s->item_first + 1) % NET_ITEMS;
        s->item_count--;
    }
}

/* Gives TCP the pieces of one segment; returns its length. */
static uint32_t push_segment(struct net_stream *s)
{
    struct tcp_pcb *pcb = s->pcb;
    uint32_t done = 0, mss = pcb->mss;
    for (uint32_t i = 0; i < NET_SEG_ITEMS && s->item_count > 0 && done < mss; i++) {
        struct net_item *it = &s->items[s->item_first];
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
static uint32_t push_some(struct net_stream *s)
{
    uint32_t count = 0, mss = s->pcb->mss, n = mss;
    while (count < PUSH_AT_ONCE && n == mss && s->item_count > 0) {
        n = push_segment(s);
        count += n > 0;
    }
    return count;
}

void net_tx_push(struct net_stream *s)
{
    struct tcp_pcb *pcb = s->pcb;
    if (pcb->unsent != NULL) {
        tcp_output(pcb);
    }
    while (pcb->unsent == NULL && s->item_count > 0) {
        if (push_some(s) == 0) {
            s->net->starved |= pcb->unacked == NULL;
            break;
        }
        tcp_output(pcb);
    }
    net_tx_tell_room(s);
}

/* --- taking lent memory back --- */

static bool touches(const void *payload, uint32_t len, uintptr_t from, uint64_t n)
{
    uintptr_t at = (uintptr_t)payload;
    return at < from ? from - at < len : at - from < n;
}

static bool in_chunk(const struct net_stream *s, const void *payload)
{
    for (const struct net_chunk *c = s->tx_first; c != NULL; c = c->next) {
        if ((uintptr_t)payload - (uintptr_t)c->data < NET_CHUNK) {
            return true;
        }
    }
    return false;
}

static bool in_copies(const struct net_stream *s, const void *payload)
{
    for (const struct net_copy *c = s->tx_copies; c != NULL; c = c->next) {
        if (c->data == payload) {
            return true;
        }
    }
    return false;
}

/* A copy that lives until all that is queued now is acknowledged; NULL without memory. */
static const uint8_t *keep_copy(struct net_stream *s, const void *p, uint32_t n)
{
    struct net_copy *c = malloc(sizeof *c + n);
    if (c == NULL) {
        return NULL;
    }
    memcpy(c->data, p, n);
    c->until = s->tx_queued;
    c->next = s->tx_copies;
    s->tx_copies = c;
    return c->data;
}

static bool unlend_segments(struct net_stream *s, struct tcp_seg *seg, uintptr_t from, uint64_t n)
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

static bool unlend_items(struct net_stream *s, uintptr_t from, uint64_t n)
{
    for (uint32_t i = 0; i < s->item_count; i++) {
        struct net_item *it = &s->items[(s->item_first + i) % NET_ITEMS];
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

static bool unlend(struct net_stream *s, uintptr_t from, uint64_t n)
{
    return unlend_segments(s, s->pcb->unacked, from, n) &&
           unlend_segments(s, s->pcb->unsent, from, n) && unlend_items(s, from, n);
}

bool net_tx_unlend_all(struct net_stream *s)
{
    return unlend(s, 0, UINT64_MAX);
}

/* The memory is about to vanish, so without memory for a copy the connection has to go. */
void net_tx_unlend(struct net_stream *s, const void *p, uint64_t n)
{
    if (s->pcb != NULL && s->up && n > 0 && !unlend(s, (uintptr_t)p, n)) {
        net_stream_fail(s, -ENOMEM);
    }
}
