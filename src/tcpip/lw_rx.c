/* SPDX-License-Identifier: MIT */
/* What a stream has received: pbufs in a queue, lent out in pieces. Small pieces are gathered in
 * buffers, so that a peer that sends octet by octet costs neither memory nor long lists. */
#include "tcpip/lw.h"

enum {
    PIECE_SMALL = 512,
    GATHER_ROOM = 2048,
    WINDOW_STEP = 256 * 1024, /* opened by that much, the window is announced without delay */
};

/* --- the queue --- */

static void queue(struct lw_stream *s, struct pbuf *p)
{
    p->next = NULL;
    p->tot_len = p->len;
    struct pbuf **at = s->rx_first == NULL ? &s->rx_first : &s->rx_last->next;
    *at = p;
    s->rx_last = p;
    s->rx_last_at = at;
    s->rx_peeked = false;
}

static void free_one(struct pbuf *p)
{
    p->next = NULL;
    pbuf_free(p);
}

static void pop(struct lw_stream *s)
{
    struct pbuf *p = s->rx_first;
    s->rx_first = p->next;
    if (s->rx_last_at == &p->next) {
        s->rx_last_at = &s->rx_first;
    }
    s->rx_off = 0;
    free_one(p);
}

/* --- gathering --- */

static bool gather(struct pbuf *into, const uint8_t *d, uint32_t n)
{
    struct frame *f = into != NULL ? frame_of(into) : NULL;
    if (f == NULL || !f->gathers || GATHER_ROOM - f->len < n) {
        return false;
    }
    memcpy(f->data + f->len, d, n);
    f->len += n;
    into->len = (u16_t)(into->len + n);
    into->tot_len = into->len;
    return true;
}

/* The last piece and this one are small: they begin a gathering buffer that takes the last one's
 * place. A borrower may still look at that, so it lives on until the next consume. */
static bool gather_anew(struct lw_stream *s, const struct pbuf *p)
{
    struct pbuf *last = s->rx_last;
    uint32_t off = last == s->rx_first ? s->rx_off : 0;
    struct frame *f = frame_new(GATHER_ROOM);
    if (f == NULL) {
        return false;
    }
    f->gathers = true;
    struct pbuf *g = frame_pbuf(f);
    gather(g, (const uint8_t *)last->payload + off, last->len - off);
    gather(g, p->payload, p->len);
    if (last == s->rx_first) {
        s->rx_off = 0;
    }
    *s->rx_last_at = g;
    s->rx_last = g;
    if (s->rx_peeked) {
        last->next = s->rx_dead;
        s->rx_dead = last;
    } else {
        free_one(last);
    }
    s->rx_peeked = false;
    return true;
}

static bool take_small(struct lw_stream *s, const struct pbuf *p)
{
    if (s->rx_first == NULL || p->len >= PIECE_SMALL) {
        return false;
    }
    if (gather(s->rx_last, p->payload, p->len)) {
        return true;
    }
    return s->rx_last->len < PIECE_SMALL && gather_anew(s, p);
}

void lw_rx_append(struct lw_stream *s, struct pbuf *p)
{
    while (p != NULL) {
        struct pbuf *next = p->next;
        s->base.rx_queued += p->len;
        if (p->len == 0 || take_small(s, p)) {
            free_one(p);
        } else {
            queue(s, p);
        }
        p = next;
    }
}

static void free_dead(struct lw_stream *s)
{
    while (s->rx_dead != NULL) {
        struct pbuf *p = s->rx_dead;
        s->rx_dead = p->next;
        free_one(p);
    }
}

void lw_rx_drop(struct lw_stream *s)
{
    free_dead(s);
    while (s->rx_first != NULL) {
        pop(s);
    }
    s->base.rx_queued = 0;
}

/* --- the face --- */

uint32_t lw_rx_peek(struct net_stream *stream, struct span *v, uint32_t max)
{
    struct lw_stream *s = lw_stream_of(stream);
    uint32_t n = 0, off = s->rx_off;
    for (struct pbuf *p = s->rx_first; p != NULL && n < max; p = p->next) {
        v[n].p = (const uint8_t *)p->payload + off;
        v[n].n = p->len - off;
        off = 0;
        n++;
        s->rx_peeked |= p == s->rx_last;
    }
    return n;
}

void lw_rx_consume(struct net_stream *stream, uint32_t n)
{
    struct lw_stream *s = lw_stream_of(stream);
    n = min_u32(n, s->base.rx_queued);
    s->base.rx_queued -= n;
    s->rx_credit += n;
    free_dead(s);
    s->rx_peeked = false;
    while (n > 0) {
        uint32_t left = s->rx_first->len - s->rx_off;
        if (n < left) {
            s->rx_off += n;
            break;
        }
        n -= left;
        pop(s);
    }
    if (lw_stream_settled(s)) {
        list_remove(&s->dirty);
        lw_table_wake(s->pcb); /* its timer sees to the acknowledgement */
        lw_stream_owe(s);
    } else {
        lw_stream_dirty(s);
    }
}

/* --- the window --- */

/* The edge that the peer knows can be moved on by 'more' than what it could be already, and that is worth an update
 * (RFC 9293 sec 3.8.6.2.2: an MSS, or a good part of the buffer). */
static bool is_worth_telling(const struct lw_stream *s, uint32_t more)
{
    const struct tcp_pcb *pcb = s->pcb;
    uint32_t least = min_u32(TCP_WND_MAX(pcb) / 2, s->base.emss);
    return (int32_t)(pcb->rcv_nxt + pcb->rcv_wnd + more - pcb->rcv_ann_right_edge) >=
           (int32_t)least;
}

/* It can be opened by so much that the peer may want to know. */
bool lw_rx_window_due(const struct lw_stream *s)
{
    return is_worth_telling(s, s->rx_credit);
}

/* What lwIP's tcp_recved() does, but in one step, and with a measure of its own: lwIP would open the
 * window in steps of its MSS, which is our virtual one, and leave a peer without window scaling in
 * the lurch. */
void lw_rx_window(struct lw_stream *s)
{
    struct tcp_pcb *pcb = s->pcb;
    if (s->rx_credit == 0) {
        return;
    }
    uint32_t most = TCP_WND_MAX(pcb);
    pcb->rcv_wnd = most - pcb->rcv_wnd < s->rx_credit ? most : pcb->rcv_wnd + s->rx_credit;
    s->rx_credit = 0;
    if (!is_worth_telling(s, 0)) {
        return;
    }
    uint32_t opened = pcb->rcv_nxt + pcb->rcv_wnd - pcb->rcv_ann_right_edge;
    pcb->rcv_ann_wnd = pcb->rcv_wnd;
    uint32_t known = pcb->rcv_ann_right_edge - pcb->rcv_nxt; /* what the peer may send now */
    if (opened >= min_u32(most / 4, WINDOW_STEP) || known < most / 8) {
        tcp_ack_now(pcb);
    }
}
