/* SPDX-License-Identifier: MIT */
/* Help for lwIP's loss recovery and acknowledgements, by looking at segments before lwIP does. */
#include "lwip/prot/tcp.h"
#include "tcpip/lw.h"
#include "uiw_hooks.h"

enum { OPT_END = 0, OPT_NOP = 1, OPT_SACK = 5, ACK_EVERY = 128 * 1024 };

/* The options of a segment, which may lie in two pieces. */
struct options {
    const uint8_t *first, *second;
    uint32_t first_len, len;
};

static uint8_t opt_at(const struct options *o, uint32_t i)
{
    return i < o->first_len ? o->first[i] : o->second[i - o->first_len];
}

static bool has_sack(const struct options *o)
{
    uint32_t i = 0;
    while (i < o->len && opt_at(o, i) != OPT_END) {
        if (opt_at(o, i) == OPT_NOP) {
            i++;
            continue;
        }
        if (o->len - i < 2) {
            return false;
        }
        uint32_t n = opt_at(o, i + 1);
        if (n < 2 || n > o->len - i) {
            return false;
        }
        if (opt_at(o, i) == OPT_SACK) {
            return true;
        }
        i += n;
    }
    return false;
}

/* RFC 5681 sec 2 counts an ACK as a duplicate only when its window is unchanged, but a Linux
 * receiver moves its window in them all the time; lwIP would count none and wait for the
 * retransmission timer. With SACK (RFC 2018 sec 4) there is no doubt: an ACK that reports blocks and
 * acknowledges nothing new is a duplicate. It then keeps the right edge. */
static void keep_right_edge(const struct tcp_pcb *pcb, struct tcp_hdr *hdr, const struct options *o)
{
    u8_t flags = TCPH_FLAGS(hdr);
    if ((flags & (TCP_SYN | TCP_FIN | TCP_RST | TCP_ACK)) != TCP_ACK || pcb->unacked == NULL ||
        hdr->ackno != pcb->lastack || pcb->snd_wl2 != hdr->ackno || !has_sack(o)) {
        return;
    }
    u32_t same = pcb->snd_wnd >> pcb->snd_scale;
    hdr->wnd = (u16_t)min_u32(same, 0xffff);
}

/* lwIP acknowledges every second segment at once; here a flush does it once per batch. So a pending
 * delayed ACK is taken back when the next segment comes, which sets it again, but not for ever. */
static void delay_ack(struct tcp_pcb *pcb, const struct tcp_hdr *hdr, const struct pbuf *p)
{
    struct lw_stream *s = pcb->callback_arg;
    if (s == NULL || hdr->seqno != pcb->rcv_nxt || (TCPH_FLAGS(hdr) & (TCP_SYN | TCP_RST)) != 0) {
        return;
    }
    if ((pcb->flags & (TF_ACK_DELAY | TF_ACK_NOW)) == 0) {
        s->rx_unacked = 0; /* all before was acknowledged */
        s->rx_segments = 0;
    }
    s->rx_unacked += p->tot_len;
    s->rx_segments++;
    if (s->rx_unacked >= ACK_EVERY) {
        s->rx_unacked = 0;
    } else {
        tcp_clear_flags(pcb, TF_ACK_DELAY);
    }
}

err_t uiw_lwip_tcp_in(struct tcp_pcb *pcb, struct tcp_hdr *hdr, u16_t optlen, u16_t opt1len,
                      u8_t *opt2, struct pbuf *p)
{
    if (pcb->state < ESTABLISHED || pcb->state == TIME_WAIT) {
        return ERR_OK;
    }
    if (p->tot_len == 0) {
        struct options o = {(const uint8_t *)hdr + TCP_HLEN, opt2, opt1len, optlen};
        keep_right_edge(pcb, hdr, &o);
    } else {
        delay_ack(pcb, hdr, p);
    }
    return ERR_OK;
}
