/* SPDX-License-Identifier: MIT */
/* Between lwIP and our sender (tcp_sender.h). lwIP keeps the segments until they are acknowledged; what
 * is lost, and how much may be on its way, is decided here. Its own retransmission timer, fast
 * retransmit and congestion window are set so that they never act. */
#include <stdlib.h>

#include "lwip/ip.h"
#include "tcpip/lw.h"

enum {
    TICK_US = TCP_SLOW_INTERVAL * 1000,
    RTO_NEVER = 0x7fff, /* ticks: 11 minutes, and each acknowledgement begins anew */
    CWND_OPEN = 1 << 30,
    RUNS_PER_BLOCK = 128,
};

struct lw_runs {
    struct lw_runs *next;
    struct sack_run run[RUNS_PER_BLOCK];
};

/* One reading of the clock serves a turn or a flush. */
uint64_t lw_now_us(struct lw_net *net)
{
    if (net->now_us == 0) {
        net->now_us = net_now_us();
    }
    return net->now_us;
}

/* Without memory boards know less, see tcp_sack.h. */
static void stock_runs(struct lw_net *net)
{
    if (net->runs.count >= SACK_POOL_LEAST) {
        return;
    }
    struct lw_runs *block = malloc(sizeof *block);
    if (block != NULL) {
        block->next = net->run_blocks;
        net->run_blocks = block;
        sack_pool_add(&net->runs, block->run, RUNS_PER_BLOCK);
    }
}

void lw_runs_free(struct lw_net *net)
{
    while (net->run_blocks != NULL) {
        struct lw_runs *block = net->run_blocks;
        net->run_blocks = block->next;
        free(block);
    }
}

/* --- taking over, and giving back --- */

/* Frames in memory do not get lost, and a peer without SACK is left to lwIP. */
void lw_loss_begin(struct lw_stream *s)
{
    struct tcp_pcb *pcb = s->pcb;
    if (s->net->link->memory || (pcb->flags & TF_SACK) == 0 || s->own) {
        return;
    }
    uint32_t rto = (uint32_t)(pcb->rto > 0 ? pcb->rto : 1) * TICK_US;
    sender_init(&s->snd, &s->net->runs, pcb->lastack, s->base.emss, rto);
    s->own = true;
    pcb->cwnd = CWND_OPEN;
    pcb->ssthresh = 1;
    pcb->sa = 0;
    pcb->sv = pcb->rto = RTO_NEVER;
    pcb->rttest = 0;
}

void lw_loss_end(struct lw_stream *s)
{
    if (!s->own) {
        return;
    }
    s->own = false;
    list_remove(&s->clocked);
    sack_clear(&s->snd.board);
}

/* What is left, a FIN at most, is lwIP's to deliver. */
void lw_loss_give_back(struct lw_stream *s)
{
    if (!s->own) {
        return;
    }
    struct tcp_pcb *pcb = s->pcb;
    lw_loss_end(s);
    pcb->sv = pcb->rto = LWIP_TCP_RTO_TIME / TCP_SLOW_INTERVAL;
    pcb->cwnd = (tcpwnd_size_t)2 * pcb->mss;
    pcb->ssthresh = TCP_SND_BUF;
    if (pcb->unacked != NULL) {
        pcb->rtime = 0;
    }
}

/* --- what lwIP has sent, and what came back --- */

/* A probe of a closed window may have moved snd_nxt into a segment that was not sent. */
static void note_sent(struct lw_stream *s)
{
    const struct tcp_pcb *pcb = s->pcb;
    uint32_t end = pcb->snd_nxt;
    if (pcb->unsent != NULL) {
        uint32_t at = lwip_ntohl(pcb->unsent->tcphdr->seqno);
        end = seq_lt(at, end) ? at : end;
    }
    if (seq_lt(s->snd.board.nxt, end)) {
        stock_runs(s->net);
        sender_sent(&s->snd, end, lw_now_us(s->net));
    }
}

void lw_loss_input(struct lw_stream *s, const struct sack_ack *ack)
{
    struct tcp_pcb *pcb = s->pcb;
    note_sent(s);
    stock_runs(s->net);
    sender_acked(&s->snd, ack, lw_now_us(s->net));
    pcb->dupacks = 0;
    pcb->rttest = 0;
    /* What lwIP has not sent it may send now, when the window opens; a timer is to watch that. */
    if (s->snd.pending || pcb->unsent != NULL) {
        lw_stream_dirty(s);
    }
}

/* --- sending again --- */

static struct tcp_seg *segment_at(struct tcp_seg *seg, uint32_t at)
{
    while (seg != NULL && seq_leq(lwip_ntohl(seg->tcphdr->seqno) + TCP_TCPLEN(seg), at)) {
        seg = seg->next;
    }
    return seg;
}

/* References octets [off, off + n) of the segment's payload. */
static bool add_payload(struct pbuf *p, const struct tcp_seg *seg, uint32_t off, uint32_t n)
{
    /* The first pbuf has the headers, and all of what lwIP has split to probe a small window. */
    off += (uint32_t)seg->p->tot_len - seg->len;
    for (const struct pbuf *q = seg->p; q != NULL && n > 0; q = q->next) {
        if (off >= q->len) {
            off -= q->len;
            continue;
        }
        uint32_t k = min_u32(q->len - off, n);
        struct pbuf *r = pbuf_alloc_reference((uint8_t *)q->payload + off, (u16_t)k, PBUF_ROM);
        if (r == NULL) {
            return false;
        }
        pbuf_cat(p, r);
        off = 0;
        n -= k;
    }
    return n == 0;
}

static void put_header(struct tcp_pcb *pcb, struct tcp_hdr *hdr, uint32_t seq, uint8_t flags)
{
    hdr->src = lwip_htons(pcb->local_port);
    hdr->dest = lwip_htons(pcb->remote_port);
    hdr->seqno = lwip_htonl(seq);
    hdr->ackno = lwip_htonl(pcb->rcv_nxt);
    TCPH_HDRLEN_FLAGS_SET(hdr, TCP_HLEN / 4, flags | TCP_ACK);
    hdr->wnd = lwip_htons((u16_t)min_u32(RCV_WND_SCALE(pcb, pcb->rcv_ann_wnd), 0xffff));
    hdr->chksum = 0; /* the interface does it */
    hdr->urgp = 0;
    pcb->rcv_ann_right_edge = pcb->rcv_nxt + pcb->rcv_ann_wnd;
}

static bool send_range(struct lw_stream *s, const struct tcp_seg *seg, const struct sack_block *r)
{
    struct tcp_pcb *pcb = s->pcb;
    uint32_t off = r->from - lwip_ntohl(seg->tcphdr->seqno), n = r->to - r->from;
    uint8_t flags = 0;
    if (off + n >= seg->len) {
        flags = TCPH_FLAGS(seg->tcphdr) & (TCP_PSH | TCP_FIN);
        flags = off + n > seg->len ? flags : flags & TCP_PSH;
        n = seg->len > off ? seg->len - off : 0;
    }
    struct pbuf *p = pbuf_alloc(PBUF_IP, TCP_HLEN, PBUF_RAM);
    if (p == NULL) {
        return false;
    }
    put_header(pcb, p->payload, r->from, flags);
    err_t err = ERR_MEM;
    if (add_payload(p, seg, off, n)) {
        err = ip_output_if(p, &pcb->local_ip, &pcb->remote_ip, pcb->ttl, pcb->tos, IP_PROTO_TCP,
                           &s->net->nif);
    }
    pbuf_free(p);
    return err == ERR_OK;
}

/* Sends the range, or as much of it as one segment of lwIP's has. */
static bool resend(struct lw_stream *s, struct sack_block *r)
{
    struct tcp_seg *seg = segment_at(s->pcb->unacked, r->from);
    if (seg != NULL && seq_leq(lwip_ntohl(seg->tcphdr->seqno), r->from)) {
        uint32_t end = lwip_ntohl(seg->tcphdr->seqno) + TCP_TCPLEN(seg);
        r->to = seq_lt(end, r->to) ? end : r->to;
        if (!send_range(s, seg, r)) {
            return false;
        }
    }
    stock_runs(s->net);
    sender_resent(&s->snd, r, lw_now_us(s->net));
    return true;
}

void lw_loss_resend(struct lw_stream *s)
{
    sender_decide(&s->snd, lw_now_us(s->net));
    uint32_t mss = s->snd.mss;
    struct sack_block r;
    while (!s->net->link_full && sender_next(&s->snd, LW_SEG_MAX / mss * mss, &r)) {
        uint32_t room = sender_room(&s->snd);
        if (r.to - r.from > room) {
            r.to = r.from + room / mss * mss;
        }
        if (r.from == r.to || !resend(s, &r)) {
            break;
        }
    }
}

/* --- after new data --- */

void lw_loss_watch(struct lw_stream *s)
{
    if (!s->own) {
        return;
    }
    note_sent(s);
    uint64_t due = sender_due(&s->snd);
    if (due == UINT64_MAX) {
        return;
    }
    if (list_empty(&s->clocked)) {
        list_append(&s->net->clocked, &s->clocked);
    }
    s->net->clock_due = min_u64(s->net->clock_due, due);
}

void lw_loss_pushed(struct lw_stream *s, bool limited)
{
    note_sent(s);
    if (s->snd.probe) {
        struct sack_block tail = sender_tail(&s->snd);
        resend(s, &tail);
    }
    sender_pushed(&s->snd, limited);
}

/* --- time --- */

void lw_loss_resume(struct lw_stream *s)
{
    sender_expire(&s->snd);
    lw_loss_watch(s);
}

void lw_loss_timers(struct lw_net *net)
{
    if (net->clock_due == UINT64_MAX || lw_now_us(net) < net->clock_due) {
        return;
    }
    uint64_t now = lw_now_us(net);
    net->clock_due = UINT64_MAX;
    struct list *node = net->clocked.next;
    while (node != &net->clocked) {
        struct lw_stream *s = CONTAINER_OF(node, struct lw_stream, clocked);
        node = node->next;
        if (sender_timer(&s->snd, now) && s->pcb->nrtx < TCP_MAXRTX) {
            s->pcb->nrtx++; /* lwIP gives up when they are TCP_MAXRTX */
        }
        if (s->snd.pending || s->snd.probe || s->snd.board.lost > 0) {
            lw_stream_dirty(s);
        }
        uint64_t due = sender_due(&s->snd);
        if (due == UINT64_MAX) {
            list_remove(&s->clocked);
        }
        net->clock_due = min_u64(net->clock_due, due);
    }
}

int lw_loss_due_ms(const struct lw_net *net)
{
    if (net->clock_due == UINT64_MAX) {
        return -1;
    }
    uint64_t now = net_now_us();
    return now < net->clock_due ? (int)min_u64((net->clock_due - now + 999) / 1000, 1000) : 0;
}
