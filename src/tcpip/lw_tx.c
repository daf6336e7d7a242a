/* SPDX-License-Identifier: MIT */
/* What a stream sends. Its owner writes into chunks or lends memory; the pieces wait here until the
 * windows have room, so that TCP gets whole large segments and its own queue stays short. */
#include <errno.h>

#include "tcpip/lw.h"

enum {
    PUSH_AT_ONCE = 8,
    UNITS_ALIKE = 64, /* octets by which Markers, or what they leave room for, may differ */
    PACKETS_TOGETHER = 16,
    /* What lw_tx_room() tells at most, and what that may take: any two chunks that follow each other
     * hold more than one chunk's worth of pieces; a lent piece may be split between segments. */
    ROOM_MAX = 2 * NET_CHUNK,
    CHUNK_STOCK = 5,
    ITEMS_SPARE = 44,
    ITEMS_OF_PIECE = 2, /* what one more commit or lend adds; keeps what lw_tx_room() promised */
    CROWDING = 4096,    /* less is made at any time: it takes little of a cache */
    WINDOW_IN_MEMORY = 128 * 1024,
    WINDOW_LEAST = 512 * 1024,
    FEW = 24, /* streams that may each have so much, and more share: a TAP queues 1000 packets */
    WINDOW_PER_US = 2000, /* octets; above 16 Gbit/s WINDOW_LEAST is part of what the path holds */
};

/* --- who shares the path --- */

/* Who has more to send than may be on its way, and a peer that takes it. Counted between sends only, so that what
 * lw_tx_room() has promised is kept while an FPDU is made. */
static void count_sharer(struct lw_stream *s, bool shares)
{
    if (shares != s->shares) {
        s->shares = shares;
        s->net->sharers = shares ? s->net->sharers + 1 : s->net->sharers - 1;
    }
}

static bool is_sharer(const struct lw_stream *s)
{
    const struct tcp_pcb *pcb = s->pcb;
    return pcb != NULL && (s->item_count > 0 || (s->want_room && pcb->unacked != NULL)) &&
           pcb->snd_wnd >= s->base.emss && s->own && s->snd.backoff == 0;
}

/* --- pieces --- */

/* The i-th that waits. */
static struct lw_item *item_at(const struct lw_stream *s, uint32_t i)
{
    return &s->items->item[(s->item_first + i) % LW_ITEMS];
}

void lw_tx_on_acked(struct lw_stream *s, uint32_t n)
{
    s->base.tx_acked += n;
    bool idle = s->base.tx_acked == s->base.tx_queued && s->tx_reserved == 0;
    net_txmem_release(&s->tx_mem, &s->net->chunks, s->base.tx_acked, idle);
}

void lw_tx_drop(struct lw_stream *s)
{
    net_txmem_drop(&s->tx_mem, &s->net->chunks);
    lw_items_give_back(s);
    count_sharer(s, false);
    s->item_count = 0;
    s->tx_reserved = 0;
}

/* --- room --- */

static bool may_send(const struct lw_stream *s)
{
    return s->pcb != NULL && s->up && !s->fin_out;
}

/* How much is worth being on its way at a time. What lies in the peer's receive window only because it
 * may is pushed out of the caches meanwhile, and each pass over it is paid for with cache misses. In
 * memory nothing takes time; elsewhere a round trip is filled, and a little more that hides pauses. Many streams
 * share both: what the path holds is there once, whatever round trips they see. */
static uint32_t window_wanted(const struct lw_stream *s)
{
    uint64_t n = WINDOW_IN_MEMORY;
    if (!s->net->link->memory) {
        uint32_t rtt = s->own ? s->snd.board.min_rtt : 0;
        uint64_t path = (uint64_t)rtt * WINDOW_PER_US;
        n = rtt > 0 ? WINDOW_LEAST + path : TCP_SND_BUF;
        if (s->own && s->net->sharers > FEW) {
            n = max_u64((WINDOW_LEAST * FEW + path) / s->net->sharers, s->pcb->mss);
        }
    }
    return (uint32_t)min_u64(n, TCP_SND_BUF);
}

/* What is made now is sent while it is in the cache; only a few streams work ahead. */
static uint32_t ahead(const struct lw_stream *s)
{
    return s->net->crowded || s->net->sharers > FEW ? 0 : LW_AHEAD;
}

/* With so many items to spare, and chunks in stock, so that what lw_tx_room() promises needs no
 * allocation. However small the window is, two chunks may be made ready: nobody is told of updates of the
 * peer's window, but of what leaves. */
static uint32_t room(const struct lw_stream *s, uint32_t spare)
{
    if (!may_send(s) || s->item_count + spare > LW_ITEMS ||
        (s->items == NULL && !lw_items_stock(s->net)) ||
        !net_chunks_stock(&s->net->chunks, CHUNK_STOCK)) {
        return 0;
    }
    uint32_t cwnd = s->own ? s->snd.cc.cwnd : s->pcb->cwnd;
    uint64_t window = min_u32(min_u32(cwnd, s->pcb->snd_wnd), window_wanted(s));
    uint64_t limit = max_u64(window + ahead(s), ROOM_MAX);
    uint64_t used = s->base.tx_queued - s->base.tx_acked;
    return limit > used ? (uint32_t)min_u64(limit - used, ROOM_MAX) : 0;
}

/* Others were there before, and will be called before. */
static bool must_wait(const struct lw_stream *s)
{
    return s->net->crowded && !s->called;
}

/* In a crowd it takes a place in the queue. */
static void wait_for_room(struct lw_stream *s)
{
    s->want_room = true;
    if (s->net->crowded) {
        lw_stream_dirty(s);
    }
}

uint32_t lw_tx_room(struct net_stream *stream)
{
    struct lw_stream *s = lw_stream_of(stream);
    uint32_t n = must_wait(s) ? 0 : room(s, ITEMS_SPARE);
    if (n < NET_CHUNK) {
        wait_for_room(s);
    }
    return n;
}

static bool refuse(struct lw_stream *s)
{
    wait_for_room(s);
    return false;
}

/* A chunk's worth is what the owner may ask for at most, and he is not called for less. */
void lw_tx_tell_room(struct lw_stream *s)
{
    if (s->want_room && !must_wait(s) && !s->orphan && s->listener == NULL &&
        room(s, ITEMS_SPARE) >= NET_CHUNK) {
        s->want_room = false;
        s->net->calls++;
        net_tell(&s->net->base, &s->base.news, NET_EV_ROOM);
    }
}

/* Its turn among those that wait for the link. */
static void call(struct lw_stream *s)
{
    bool wanted = s->want_room && !(s->net->crowded && s->net->link_full);
    s->called = wanted;
    if (wanted) {
        lw_tx_tell_room(s);
        s->called = !s->want_room;
    }
}

/* A window that is short of its largest by less than a segment may not be worth an update to the peer. */
bool lw_peer_behind(const struct net_stream *stream)
{
    const struct lw_stream *s = CONTAINER_OF(stream, const struct lw_stream, base);
    return s->pcb != NULL && s->up && s->pcb->snd_wnd + s->base.emss < s->pcb->snd_wnd_max;
}

/* --- queueing --- */

static struct lw_item *last_item(struct lw_stream *s)
{
    return item_at(s, s->item_count - 1);
}

static void add_item(struct lw_stream *s, struct lw_item item)
{
    struct lw_item *last = last_item(s);
    if (s->item_count > 0 && !item.head && item.lent == last->lent && last->p + last->n == item.p) {
        if (last->border == LW_NO_BORDER && item.border == 0) {
            last->border = (uint16_t)min_u32(last->n, LW_NO_BORDER);
        }
        last->n += item.n;
    } else {
        s->item_count++;
        *last_item(s) = item;
    }
    s->tx_wire = ((item.head ? 0 : s->tx_wire) + item.n) % s->base.emss;
    s->tx_since += min_u32(item.n, UINT32_MAX - s->tx_since);
    s->base.tx_queued += item.n;
    lw_stream_dirty(s);
}

/* A segment that ends here is large enough to be worth a frame. */
static bool may_end(const struct lw_stream *s)
{
    return s->tx_since >= PACKETS_TOGETHER * s->base.emss && !s->net->link->memory;
}

/* A unit of n octets had better begin a segment: it would lie in two packets, as all after it, since the
 * one before was shorter, the last of its message. Units of all sizes share packets nevertheless. */
static bool wants_head(const struct lw_stream *s, uint32_t wire, uint32_t n, uint32_t before)
{
    uint32_t emss = s->base.emss;
    return wire != 0 && n > emss - wire && n <= emss && n > before + UNITS_ALIKE && may_end(s);
}

/* The unit that the last item ends with gets an item of its own, which begins a segment. */
static void give_head(struct lw_stream *s)
{
    struct lw_item *last = last_item(s);
    uint32_t n = s->tx_unit;
    if (last->n > n) {
        last->n -= n;
        last->border = last->border < last->n ? last->border : LW_NO_BORDER;
        s->item_count++;
        *last_item(s) = (struct lw_item){last->p + last->n, n, 0, true, false};
    } else {
        last->head = true;
    }
    s->tx_wire = s->tx_since = n;
}

/* The kernel copies what begins a frame to where a page begins. Some processors take a third longer for a source that
 * lies otherwise; so where a segment begins anyway, a chunk does, and the other way round (lw_tx_commit()). */
static bool wants_chunk(const struct lw_stream *s, uint32_t n)
{
    return n > s->base.emss && !s->tx_lent && wants_head(s, s->tx_wire, s->base.emss, s->tx_unit);
}

uint8_t *lw_tx_reserve(struct net_stream *stream, uint32_t n)
{
    struct lw_stream *s = lw_stream_of(stream);
    if (n > NET_CHUNK || (n >= CROWDING && must_wait(s)) || room(s, ITEMS_OF_PIECE) < n) {
        refuse(s);
        return NULL;
    }
    lw_items_take(s);
    lw_stream_widen(s);
    if (wants_chunk(s, n)) {
        net_txmem_turn_over(&s->tx_mem, &s->net->chunks, CHUNK_STOCK);
    }
    uint8_t *p = net_txmem_reserve(&s->tx_mem, &s->net->chunks, n);
    if (p == NULL) {
        refuse(s);
        return NULL;
    }
    s->tx_reserved = n;
    return p;
}

void lw_tx_commit(struct net_stream *stream, uint32_t n, uint32_t unit)
{
    struct lw_stream *s = lw_stream_of(stream);
    n = min_u32(n, s->tx_reserved);
    s->tx_reserved = 0;
    if (n == 0) {
        return;
    }
    rest_over(&s->net->rest);
    bool begins = !s->tx_lent, head = false, anew = false;
    if (begins) {
        anew = wants_head(s, s->tx_wire, unit, s->tx_unit);
        head = anew || (net_txmem_fresh(&s->tx_mem) && may_end(s));
        net_txmem_mark(&s->tx_mem, n, unit);
        s->tx_unit_before = s->tx_unit;
        s->tx_unit = 0;
    }
    const uint8_t *p = net_txmem_commit(&s->tx_mem, n, s->base.tx_queued + n);
    uint16_t border = begins ? 0 : LW_NO_BORDER;
    add_item(s, (struct lw_item){p, n, border, head, false});
    s->tx_since = anew ? n : s->tx_since;
    s->tx_unit += unit;
    s->tx_unit_before = n > unit ? unit : s->tx_unit_before;
    s->tx_lent = false;
}

bool lw_tx_lend(struct net_stream *stream, const void *p, uint32_t n)
{
    struct lw_stream *s = lw_stream_of(stream);
    if (room(s, ITEMS_OF_PIECE) < n) {
        return refuse(s);
    }
    lw_items_take(s);
    lw_stream_widen(s);
    uint32_t unit = s->tx_unit;
    if (!s->tx_lent && unit > 0 && s->item_count > 0 && last_item(s)->n >= unit &&
        wants_head(s, (s->tx_wire + s->base.emss - unit) % s->base.emss, unit + n,
                   s->tx_unit_before)) {
        give_head(s);
    }
    s->tx_lent = true;
    s->tx_unit += n;
    if (n > 0) {
        add_item(s, (struct lw_item){p, n, LW_NO_BORDER, false, true});
    }
    return true;
}

/* --- handing over to TCP --- */

static void eat_item(struct lw_stream *s, uint32_t n)
{
    struct lw_item *it = item_at(s, 0);
    it->p += n;
    it->n -= n;
    if (it->border != LW_NO_BORDER) {
        it->border = it->border < n ? LW_NO_BORDER : (uint16_t)(it->border - n);
    }
    it->head = false;
    if (it->n == 0) {
        s->item_first = (s->item_first + 1) % LW_ITEMS;
        s->item_count--;
    }
}

/* Gives TCP the pieces of one segment of at most that length; returns its length. */
static uint32_t push_segment(struct lw_stream *s, uint32_t most)
{
    struct tcp_pcb *pcb = s->pcb;
    uint32_t done = 0;
    for (uint32_t i = 0; i < LW_SEG_ITEMS && s->item_count > 0 && done < most; i++) {
        struct lw_item *it = item_at(s, 0);
        if (done > 0 && it->head) {
            break;
        }
        uint32_t n = min_u32(it->n, most - done);
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

/* What may be sent of what waits, beside 'queued' octets that TCP has been given for now. */
struct allowance {
    uint32_t peer, path; /* octets that their windows have room for */
    uint32_t window;     /* the smaller of the windows */
    bool limited;        /* the path's held something back */
};

static struct allowance allowance(const struct lw_stream *s)
{
    if (!s->own) {
        return (struct allowance){UINT32_MAX, UINT32_MAX, UINT32_MAX, false};
    }
    const struct tcp_pcb *pcb = s->pcb;
    uint32_t out = pcb->snd_nxt - pcb->lastack;
    uint32_t most = min_u32(pcb->snd_wnd, window_wanted(s));
    uint32_t peer = most > out ? most - out : 0;
    uint32_t path = s->snd.board.lost > 0 ? 0 : sender_room(&s->snd);
    uint32_t window = min_u32(s->snd.cc.cwnd, most);
    if (s->snd.probe) {
        path = max_u32(path, s->snd.mss);
        window = 0;
    }
    return (struct allowance){peer, path, window, false};
}

/* Where the last unit begins that begins within 'most' octets of the item; 0: none. */
static uint32_t border_within(struct lw_stream *s, const struct lw_item *it, uint32_t most)
{
    uint32_t first = it->border != LW_NO_BORDER && it->border <= most ? it->border : 0;
    return it->lent ? 0 : max_u32(first, net_txmem_border(&s->tx_mem, it->p, most));
}

/* The octets that wait for the next segment, if they are no more than 'most'. */
static uint32_t octets_waiting(const struct lw_stream *s, uint32_t most)
{
    uint32_t n = 0, cnt = min_u32(s->item_count, LW_SEG_ITEMS);
    for (uint32_t i = 0; i < cnt && n <= most; i++) {
        const struct lw_item *it = item_at(s, i);
        if (i > 0 && it->head) {
            break;
        }
        n += it->n;
    }
    return n;
}

/* Where the last unit begins that begins within 'most' octets, of more that wait; 0: none. In memory
 * nothing is cut further, and full segments cost least; but copied units are best in one piece. */
static uint32_t find_cut(struct lw_stream *s, uint32_t most)
{
    uint32_t n = 0, cut = 0, cnt = min_u32(s->item_count, LW_SEG_ITEMS);
    for (uint32_t i = 0; i < cnt && n <= most; i++) {
        const struct lw_item *it = item_at(s, i);
        if (it->lent && s->net->link->memory) {
            return most;
        }
        uint32_t at = border_within(s, it, min_u32(it->n, most - n));
        cut = at > 0 || it->border == 0 ? n + at : cut;
        n += it->n;
    }
    return cut;
}

/* The length of the next segment; 0: it has to wait. What has to be cut is cut so that the next segment
 * begins with an FPDU as well (RFC 5044 sec 5.1), and not into pieces that would cost a frame for each
 * acknowledgement. */
static uint32_t next_length(struct lw_stream *s, struct allowance *a)
{
    uint32_t mss = s->pcb->mss, room = min_u32(a->peer, a->path), wire = s->base.emss;
    uint32_t most = min_u32(mss, room), all = octets_waiting(s, most);
    if (all <= most) {
        return all;
    }
    uint32_t cut = find_cut(s, most);
    if (room >= mss) {
        return cut > 0 ? cut : mss;
    }
    bool idle = s->pcb->unacked == NULL;
    if (idle && room >= wire) {
        return cut > 0 ? cut : room / wire * wire;
    }
    if (cut >= wire && cut >= a->window / 4) {
        return cut;
    }
    a->limited = a->path <= a->peer;
    return idle && !a->limited ? min_u32(all, mss) : 0; /* lwIP probes a window that is too small */
}

/* lwIP would fill a segment that waits to be sent with the beginning of the next, so it is given the
 * next only when none waits, or when the last one is full. A few at a time, since lwIP walks all
 * that is unacknowledged before it sends. */
static uint32_t push_some(struct lw_stream *s, struct allowance *a)
{
    uint32_t count = 0, mss = s->pcb->mss, n = mss;
    while (count < PUSH_AT_ONCE && n == mss && s->item_count > 0) {
        n = next_length(s, a);
        n = n > 0 ? push_segment(s, n) : 0;
        if (s->own) {
            a->peer -= min_u32(n, a->peer);
            a->path -= min_u32(n, a->path);
        }
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
    struct allowance a = {0};
    if (s->own) {
        lw_loss_resend(s);
    }
    if (pcb->unsent == NULL) {
        a = allowance(s);
    }
    while (pcb->unsent == NULL && s->item_count > 0) {
        if (push_some(s, &a) == 0) {
            s->net->chunks.starved |= pcb->unacked == NULL;
            break;
        }
        tcp_output(pcb);
    }
    if (s->item_count == 0 && s->net->items_out > 1) {
        lw_items_give_back(s);
    }
    if (s->own) {
        lw_loss_pushed(s, a.limited);
    }
    count_sharer(s, is_sharer(s));
    call(s);
}

/* --- taking lent memory back --- */

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
            if (!net_overlaps(q->payload, q->len, from, n) || in_chunk(s, q->payload) ||
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
        struct lw_item *it = item_at(s, i);
        if (!it->lent || !net_overlaps(it->p, it->n, from, n)) {
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
