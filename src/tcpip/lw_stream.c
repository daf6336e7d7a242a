/* SPDX-License-Identifier: MIT */
/* The life of a stream: lwIP's callbacks, what a flush does, and the end. Callbacks only note what
 * happened: nothing is sent, aborted or closed from within lwIP's input. */
#include <errno.h>
#include <stdlib.h>

#include "tcpip/lw.h"

enum {
    KEEP_INTERVAL_MS = 3000,
    KEEP_PROBES = 5,
    SYN_RTO_MAX = 160,   /* slow ticks */
    FIRST_SEGMENTS = 10, /* initial window, RFC 6928 */
    OWING_MOST = 16,     /* streams */
    OWING_LEAST = 4096,  /* octets */
};

struct lw_stream *lw_stream_new(struct lw_net *net)
{
    struct lw_stream *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    net_stream_init(&s->base, &net->base);
    s->net = net;
    list_append(&net->streams, &s->node);
    list_init(&s->dirty);
    list_init(&s->timed);
    list_init(&s->wait);
    list_init(&s->clocked);
    list_init(&s->owing);
    return s;
}

void lw_stream_owes_none(struct lw_stream *s)
{
    if (!list_empty(&s->owing)) {
        list_remove(&s->owing);
        s->net->owing_count--;
    }
}

/* The pcb must be gone or detached. */
void lw_stream_free(struct lw_stream *s)
{
    list_remove(&s->node);
    list_remove(&s->dirty);
    list_remove(&s->timed);
    list_remove(&s->wait);
    lw_stream_owes_none(s);
    net_forget(&s->base.news);
    lw_loss_end(s);
    lw_rx_drop(s);
    lw_tx_drop(s);
    free(s);
}

/* Before it is accepted nobody can ask for a stream's news; lw_accept() makes up for it. */
static void tell(struct lw_stream *s, unsigned events)
{
    if (s->orphan) {
        return;
    }
    if (s->listener != NULL) {
        s->base.news.events |= events;
    } else {
        net_tell(&s->net->base, &s->base.news, events);
    }
}

/* Who was called to fill a crowded link does so before others are called. */
void lw_stream_dirty(struct lw_stream *s)
{
    if (!list_empty(&s->dirty)) {
        return;
    }
    if (s->called && s->net->crowded) {
        list_prepend(&s->net->dirty, &s->dirty);
    } else {
        list_append(&s->net->dirty, &s->dirty);
    }
}

void lw_stream_deadline(struct lw_stream *s, uint64_t at)
{
    s->deadline = at;
    if (list_empty(&s->timed)) {
        list_append(&s->net->timed, &s->timed);
    }
}

/* --- the end of a connection --- */

static void closed(struct lw_stream *s, int error)
{
    s->pcb = NULL;
    s->up = false;
    s->closed = true;
    if (s->base.error == 0) {
        s->base.error = error;
    }
    s->gone = false;
    list_remove(&s->timed);
    list_remove(&s->dirty);
    lw_loss_end(s);
    lw_tx_drop(s);
    if (s->orphan || s->listener != NULL) {
        /* Nobody knows it but lwIP, which may be about to report that it destroys the pcb. */
        net_forget(&s->base.news);
        list_remove(&s->wait);
        list_remove(&s->node);
        list_append(&s->net->dead, &s->node);
        return;
    }
    tell(s, NET_EV_CLOSED);
}

void lw_streams_reap(struct lw_net *net)
{
    while (!list_empty(&net->dead)) {
        lw_stream_free(CONTAINER_OF(net->dead.next, struct lw_stream, node));
    }
}

static int error_of(const struct lw_stream *s, err_t err)
{
    switch (err) {
    case ERR_CLSD: return 0; /* both directions ended in order */
    case ERR_RST: return s->up ? -ECONNRESET : -ECONNREFUSED;
    case ERR_ABRT: return -ETIMEDOUT; /* lwIP gave up: nobody answers */
    case ERR_RTE: return -EHOSTUNREACH;
    case ERR_MEM: return -ENOMEM;
    default: return -EIO;
    }
}

static void on_err(void *arg, err_t err)
{
    struct lw_stream *s = arg;
    if (s != NULL && (s->pcb != NULL || s->gone)) {
        closed(s, error_of(s, err));
    }
}

/* lwIP frees a pcb in TIME_WAIT without a word to the error callback, so this is the one place where
 * no end goes unnoticed. Where an error callback does follow, it follows at once. */
void lw_stream_lost_pcb(struct lw_stream *s)
{
    if (s->pcb != NULL) {
        lw_loss_end(s);
        s->pcb = NULL;
        s->gone = true;
        list_remove(&s->dirty); /* it may wait for a full link */
        list_prepend(&s->net->dirty, &s->dirty);
    }
}

void lw_stream_detach(struct lw_stream *s)
{
    struct tcp_pcb *pcb = s->pcb;
    lw_loss_give_back(s);
    tcp_arg(pcb, NULL);
    lw_table_give(pcb, NULL);
    tcp_recv(pcb, NULL);
    tcp_sent(pcb, NULL);
    tcp_err(pcb, NULL);
    s->pcb = NULL;
}

void lw_stream_fail(struct lw_stream *s, int error)
{
    s->base.error = error;
    if (s->pcb != NULL) {
        tcp_abort(s->pcb); /* calls on_err() */
    } else {
        closed(s, error);
    }
}

/* Both FINs are through: lwIP keeps the pcb in TIME_WAIT, the stream does not need it. */
static bool ended(struct lw_stream *s)
{
    if (s->pcb == NULL || s->pcb->state != TIME_WAIT) {
        return false;
    }
    lw_stream_detach(s);
    closed(s, 0);
    return true;
}

void lw_stream_link_down(struct lw_stream *s)
{
    if (s->up && !ended(s)) {
        lw_stream_fail(s, -ECONNRESET);
    }
}

/* What was lost while nobody was there is sent again now, not at some time. */
void lw_stream_link_up(struct lw_stream *s)
{
    if (s->pcb != NULL && s->pcb->state == SYN_SENT) {
        tcp_rexmit_rto(s->pcb);
    }
}

/* As if the retransmission timer had run out: it may have come far by doubling. */
void lw_stream_resume(struct lw_stream *s)
{
    if (s->own) {
        lw_loss_resume(s);
    } else if (s->pcb != NULL && s->pcb->unacked != NULL && s->pcb->rtime < s->pcb->rto) {
        s->pcb->rtime = s->pcb->rto;
    }
}

/* --- callbacks of lwIP --- */

static err_t on_recv(void *arg, struct tcp_pcb *pcb, struct pbuf *p, err_t err)
{
    (void)pcb;
    (void)err;
    struct lw_stream *s = arg;
    lw_stream_dirty(s);
    if (p == NULL) {
        s->fin_in = true;
        tell(s, NET_EV_FIN);
    } else if (s->orphan) {
        s->rx_credit += p->tot_len;
        pbuf_free(p);
    } else {
        lw_rx_append(s, p);
        tell(s, NET_EV_DATA);
    }
    return ERR_OK;
}

static err_t on_sent(void *arg, struct tcp_pcb *pcb, u16_t len)
{
    (void)pcb;
    struct lw_stream *s = arg;
    lw_tx_on_acked(s, len);
    tell(s, NET_EV_ACKED);
    lw_tx_tell_room(s);
    lw_stream_dirty(s);
    return ERR_OK;
}

static void set_emss(struct lw_stream *s)
{
    uint32_t room = lw_mss(s->net, IP_IS_V6(&s->pcb->remote_ip)), mtu = s->net->link->mtu;
    if (s->path_mtu != 0 && s->path_mtu < mtu) {
        room -= mtu - s->path_mtu;
    }
    uint32_t emss = max_u32(min_u32(s->peer_mss, room), LW_SEG_MIN);
    /* FPDUs are multiples of 4: only segments that are, too, begin with one (RFC 5044 sec 5.1). */
    s->base.emss = min_u32(emss, LW_SEG_MAX) & ~3u;
    s->wide_for = 0;
    if (s->own) {
        sender_set_mss(&s->snd, s->base.emss);
    }
}

/* What is sent from now on is cut to the new size, also what is sent again. */
void lw_stream_mtu(struct lw_stream *s)
{
    if (s->pcb != NULL) {
        set_emss(s);
    }
}

void lw_stream_attach(struct lw_stream *s, struct tcp_pcb *pcb)
{
    s->pcb = pcb;
    tcp_arg(pcb, s);
    lw_table_give(pcb, s);
    tcp_recv(pcb, on_recv);
    tcp_sent(pcb, on_sent);
    tcp_err(pcb, on_err);
    tcp_nagle_disable(pcb);
    ip_set_option(pcb, SOF_KEEPALIVE);
    pcb->keep_idle = LW_KEEP_IDLE_MS;
    pcb->keep_intvl = KEEP_INTERVAL_MS;
    pcb->keep_cnt = KEEP_PROBES;
    s->peer_mss = pcb->mss;
    set_emss(s);
    lw_addr_fill(&s->base.local, &pcb->local_ip, pcb->local_port);
    lw_addr_fill(&s->base.remote, &pcb->remote_ip, pcb->remote_port);
}

/* --- flush --- */

/* Raises lwIP's idea of the MSS to a multiple of the wire's, as large as a frame may be, though not
 * beyond half the peer's largest window: a larger segment might never fit it. Never lowers it: lwIP
 * relies on queued segments not exceeding it. A segment must always fit cwnd, or nothing would
 * move. */
void lw_stream_widen(struct lw_stream *s)
{
    struct tcp_pcb *pcb = s->pcb;
    if (s->settled && s->wide_for == pcb->snd_wnd_max) {
        return;
    }
    s->wide_for = pcb->snd_wnd_max;
    uint32_t most = min_u32(LW_SEG_MAX, max_u32(pcb->snd_wnd_max / 2, s->base.emss));
    uint32_t wide = most / s->base.emss * s->base.emss;
    if (!s->settled || wide > pcb->mss) {
        if (!s->settled) {
            lw_loss_begin(s);
        }
        pcb->mss = (u16_t)wide;
        pcb->cwnd = max_u32(pcb->cwnd, (s->settled ? 2 : FIRST_SEGMENTS) * wide);
        s->settled = true;
    }
}

static void send_fin(struct lw_stream *s)
{
    if (s->fin_out && !s->fin_sent && s->item_count == 0) {
        s->fin_sent = true;
        tcp_shutdown(s->pcb, 0, 1); /* without memory lwIP tries again by itself */
        if (!s->orphan) {
            lw_stream_deadline(s, UINT64_MAX); /* only to notice the end */
        }
    }
}

/* All is delivered, and the FIN is lwIP's business: it needs none of our memory. */
static bool orphan_done(struct lw_stream *s)
{
    if (!s->orphan || !s->fin_sent || s->base.tx_acked != s->base.tx_queued) {
        return false;
    }
    struct tcp_pcb *pcb = s->pcb;
    lw_stream_detach(s);
    tcp_close(pcb);
    lw_stream_free(s);
    return true;
}

/* RFC 9293 sec 3.8.6.3: a lone small segment is often answered at once, and then its ACK travels with
 * the answer; lwIP's timer sees to the others. More is acknowledged batch by batch: a sender whose
 * memory is lent waits for that. */
static bool ack_is_due(const struct lw_stream *s)
{
    return s->rx_segments > 1 || s->rx_unacked >= s->base.emss;
}

/* Each of many peers that wait for that timer keeps what it has sent, and nothing of it stays in a cache. So of the
 * ACKs for much no more than OWING_MOST are put off. */
void lw_stream_owe(struct lw_stream *s)
{
    struct lw_net *net = s->net;
    /* Without memory an ACK may be due and not leave: that is a matter of lwIP's timer. */
    if ((s->pcb->flags & (TF_ACK_DELAY | TF_ACK_NOW)) != TF_ACK_DELAY ||
        s->rx_unacked < OWING_LEAST || !list_empty(&s->owing)) {
        return;
    }
    list_append(&net->owing, &s->owing);
    if (++net->owing_count <= OWING_MOST) {
        return;
    }
    struct lw_stream *first = CONTAINER_OF(net->owing.next, struct lw_stream, owing);
    lw_stream_owes_none(first);
    if (first->pcb != NULL && first->rx_unacked >= OWING_LEAST &&
        (first->pcb->flags & TF_ACK_DELAY) != 0) {
        tcp_ack_now(first->pcb);
        lw_stream_dirty(first);
    }
}

/* Two ends that answer each other with small messages: the acknowledgement travels with the answer. */
bool lw_stream_settled(const struct lw_stream *s)
{
    const struct tcp_pcb *pcb = s->pcb;
    if (pcb == NULL || s->item_count > 0 || pcb->unsent != NULL || ack_is_due(s) ||
        pcb->state != ESTABLISHED || (pcb->flags & TF_ACK_NOW) != 0 || !s->up || s->fin_in ||
        s->fin_out || s->gone || s->oos > 0 || s->want_room || s->shares) {
        return false;
    }
    bool sent = s->own && (pcb->unacked != NULL || s->snd.board.lost > 0 || s->snd.probe);
    return !sent && !lw_rx_window_due(s);
}

bool lw_stream_flush(struct lw_stream *s)
{
    if (s->gone) {
        closed(s, 0);
    }
    if (s->pcb == NULL || ended(s)) {
        return true;
    }
    struct tcp_pcb *pcb = s->pcb;
    if (!s->up || pcb->state < ESTABLISHED) {
        return true;
    }
    uint64_t before = s->net->tx_frames;
    s->net->out_pcb = pcb;
    lw_table_wake(pcb);
    if (s->oos > 0) {
        lw_oos_tidy(s);
    }
    lw_rx_window(s);
    lw_stream_widen(s);
    lw_tx_push(s);
    send_fin(s);
    if ((pcb->flags & TF_ACK_DELAY) != 0 && ack_is_due(s)) {
        tcp_ack_now(pcb);
    }
    if ((pcb->flags & TF_ACK_NOW) != 0) {
        tcp_output(pcb);
    }
    lw_stream_owe(s);
    if (s->own) {
        lw_loss_watch(s);
    }
    if (ended(s) || orphan_done(s)) {
        return true;
    }
    bool more = pcb->unsent != NULL || (s->own && s->snd.board.lost > 0) || s->item_count > 0 ||
                (pcb->flags & TF_ACK_NOW) != 0 || s->want_room;
    if (!s->net->link_full || !more) {
        return true;
    }
    if (s->net->tx_frames == before) {
        return false;
    }
    list_append(&s->net->stalled, &s->dirty);
    return true;
}

/* --- time --- */

/* lwIP repeats a SYN at a fixed interval; RFC 6298 sec 5.5 wants it to back off. */
static void back_off_syn(struct lw_stream *s)
{
    struct tcp_pcb *pcb = s->pcb;
    if (pcb->state == SYN_SENT && pcb->nrtx > s->syns) {
        s->syns = pcb->nrtx;
        pcb->rto = (s16_t)min_u32((uint32_t)pcb->rto * 2, SYN_RTO_MAX);
    }
}

void lw_stream_timer(struct lw_stream *s, uint64_t now)
{
    if (s->pcb != NULL) {
        back_off_syn(s);
        if (s->own) {
            lw_loss_watch(s); /* a FIN that had to wait for memory leaves by a timer of lwIP */
        }
    }
    if (ended(s) || now < s->deadline) {
        return;
    }
    list_remove(&s->timed);
    int error = -ETIMEDOUT;
    if (!s->up && s->pcb != NULL && !lw_resolved(s->net, &s->pcb->remote_ip)) {
        error = -EHOSTUNREACH;
    }
    lw_stream_fail(s, error);
}

/* --- the face --- */

void lw_shutdown(struct net_stream *stream)
{
    struct lw_stream *s = lw_stream_of(stream);
    s->fin_out = true;
    lw_stream_dirty(s);
}

/* What was received and not read counts as read: a window that is not open would make lwIP answer
 * the close with a reset. */
static void close_in_order(struct lw_stream *s)
{
    s->rx_credit += s->base.rx_queued;
    lw_rx_drop(s);
    s->orphan = true;
    s->fin_out = true;
    net_forget(&s->base.news);
    lw_stream_deadline(s, net_now_ms() + LW_LINGER_MS);
    lw_stream_dirty(s);
}

void lw_stream_close(struct net_stream *stream, bool abort)
{
    struct lw_stream *s = lw_stream_of(stream);
    struct tcp_pcb *pcb = s->pcb;
    if (pcb != NULL && s->up && !abort && lw_tx_unlend_all(s)) {
        close_in_order(s);
        return;
    }
    if (s->pcb != NULL) {
        lw_stream_detach(s);
        tcp_abort(pcb);
    }
    lw_stream_free(s);
}
