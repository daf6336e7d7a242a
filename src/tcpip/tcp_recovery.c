/* SPDX-License-Identifier: MIT */
/* What is done with segments before lwIP sees them: acknowledgements go to our sender, and lwIP's own
 * wait for the end of the batch. */
#include "lwip/prot/tcp.h"
#include "tcpip/lw.h"
#include "uiw_hooks.h"

enum { OPT_END = 0, OPT_NOP = 1, OPT_SACK = 5, ACK_EVERY = 128 * 1024, ANSWER_MS = 500 };

/* The options of a segment, which may lie in two pieces. */
struct options {
    const uint8_t *first, *second;
    uint32_t first_len, len;
};

static uint8_t opt_at(const struct options *o, uint32_t i)
{
    return i < o->first_len ? o->first[i] : o->second[i - o->first_len];
}

static uint32_t opt_be32(const struct options *o, uint32_t i)
{
    uint32_t high = (uint32_t)opt_at(o, i) << 24 | (uint32_t)opt_at(o, i + 1) << 16;
    return high | (uint32_t)opt_at(o, i + 2) << 8 | opt_at(o, i + 3);
}

/* The blocks of a SACK option (RFC 2018 sec 3), if there is one and the options are well-formed. */
static void find_blocks(const struct options *o, struct sack_ack *ack)
{
    uint32_t i = 0;
    while (i < o->len && opt_at(o, i) != OPT_END) {
        if (opt_at(o, i) == OPT_NOP) {
            i++;
            continue;
        }
        uint32_t n = o->len - i < 2 ? 0 : opt_at(o, i + 1);
        if (n < 2 || n > o->len - i) {
            return;
        }
        if (opt_at(o, i) == OPT_SACK) {
            for (uint32_t at = i + 2; at + 8 <= i + n && ack->n < SACK_BLOCKS; at += 8) {
                ack->block[ack->n++] = (struct sack_block){opt_be32(o, at), opt_be32(o, at + 4)};
            }
        }
        i += n;
    }
}

static void take_ack(struct lw_stream *s, const struct tcp_hdr *hdr, const struct options *o)
{
    if ((TCPH_FLAGS(hdr) & (TCP_SYN | TCP_RST | TCP_ACK)) != TCP_ACK) {
        return;
    }
    struct sack_ack ack = {.ack = hdr->ackno};
    find_blocks(o, &ack);
    lw_loss_input(s, &ack);
}

/* lwIP acknowledges every second segment at once; here a flush does it once per batch. So a pending
 * delayed ACK is taken back when the next segment comes, which sets it again, but not for ever. */
static void delay_ack(struct lw_stream *s, const struct tcp_hdr *hdr, const struct pbuf *p)
{
    struct tcp_pcb *pcb = s->pcb;
    if (hdr->seqno != pcb->rcv_nxt || (TCPH_FLAGS(hdr) & (TCP_SYN | TCP_RST)) != 0) {
        return;
    }
    if ((pcb->flags & (TF_ACK_DELAY | TF_ACK_NOW)) == 0) {
        s->rx_unacked = 0; /* all before was acknowledged */
        s->rx_segments = 0;
        lw_stream_owes_none(s);
    }
    s->rx_unacked += p->tot_len;
    s->rx_segments++;
    if (!s->net->link->memory) {
        rest_came(&s->net->rest, p->tot_len, s->base.emss);
    }
    if (s->rx_unacked >= ACK_EVERY) {
        s->rx_unacked = 0;
    } else {
        tcp_clear_flags(pcb, TF_ACK_DELAY);
    }
}

/* RFC 9293 sec 3.10.7.3: an ACK that is not of our SYN speaks of a connection that was here before, and is reset.
 * lwIP sends its SYN again together with the reset, ever again at once, and has used up all its tries within a
 * moment when the peer does not forget so soon. So once is enough; then it is the timer's turn. */
static bool old_ack(const struct tcp_pcb *pcb, const struct tcp_hdr *hdr, uint32_t len)
{
    uint8_t flags = TCPH_FLAGS(hdr);
    bool ours = (flags & TCP_SYN) != 0 && hdr->ackno == pcb->lastack + 1;
    if (pcb->nrtx == 0 || ours || (flags & (TCP_ACK | TCP_RST)) != TCP_ACK) {
        return false;
    }
    len += (flags & (TCP_SYN | TCP_FIN)) != 0;
    tcp_rst(pcb, hdr->ackno, hdr->seqno + len, &pcb->local_ip, &pcb->remote_ip, pcb->local_port,
            pcb->remote_port);
    return true;
}

/* An acknowledgement that is no use, since its number lies outside of our window or it is of what was never
 * sent, is answered with ours (RFC 9293 sec 3.10.7.4). When the other end finds that as useless, the two
 * would answer each other for ever: so there is one answer in a while (compare RFC 5961 sec 7). What takes
 * space is another matter, since that may be a retransmission of what we did not see acknowledged. */
static bool answered_lately(struct lw_stream *s, const struct tcp_hdr *hdr, uint32_t len)
{
    const struct tcp_pcb *pcb = s->pcb;
    if (len > 0 || (TCPH_FLAGS(hdr) & (TCP_SYN | TCP_FIN | TCP_RST | TCP_ACK)) != TCP_ACK) {
        return false;
    }
    bool outside = hdr->seqno - pcb->rcv_nxt >= max_u32(pcb->rcv_wnd, 1);
    bool unsent = seq_lt(pcb->snd_nxt, hdr->ackno);
    if (!outside && !unsent) {
        return false;
    }
    uint32_t now = (uint32_t)net_now_ms();
    if (s->answered && now - s->answered_ms < ANSWER_MS) {
        return true;
    }
    s->answered = true;
    s->answered_ms = now;
    return false;
}

err_t uiw_lwip_tcp_in(struct tcp_pcb *pcb, struct tcp_hdr *hdr, u16_t optlen, u16_t opt1len,
                      u8_t *opt2, struct pbuf *p)
{
    if (pcb->state == SYN_SENT) {
        return old_ack(pcb, hdr, p->tot_len) ? ERR_VAL : ERR_OK;
    }
    if (pcb->state < ESTABLISHED || pcb->state == TIME_WAIT) {
        return ERR_OK; /* a listener has another callback_arg */
    }
    struct lw_stream *s = pcb->callback_arg;
    if (s == NULL || s->pcb != pcb) {
        return ERR_OK;
    }
    if (answered_lately(s, hdr, p->tot_len)) {
        return ERR_VAL;
    }
    if (s->own) {
        struct options o = {(const uint8_t *)hdr + TCP_HLEN, opt2, opt1len, optlen};
        take_ack(s, hdr, &o);
    }
    bool takes_space = p->tot_len > 0 || (TCPH_FLAGS(hdr) & TCP_FIN) != 0;
    if (takes_space && seq_lt(pcb->rcv_nxt, hdr->seqno)) {
        rest_over(&s->net->rest);
        if (!lw_oos_admit(s)) {
            tcp_ack_now(pcb);
            return ERR_MEM;
        }
    }
    if (p->tot_len > 0) {
        delay_ack(s, hdr, p);
    }
    return ERR_OK;
}
