/* SPDX-License-Identifier: MIT */
/* Who connects often comes back with ports whose last connection is in TIME-WAIT here. lwIP answers his SYN
 * with an ACK or a reset, and nothing else ends the wait.
 *   RFC 9293 sec 3.6.1 and RFC 6191 let the SYN begin a new connection when its sequence number is beyond all of
 *   the old one's; those who choose their numbers by a clock rely on that.
 *   A process that was started anew chooses them by another secret (RFC 6528): half of its SYNs lie behind. It
 *   resets what the ACK speaks of, and that ends the wait (RFC 9293 sec 3.5.1, 3.10.7.4), so that its next SYN
 *   finds the way free. Only behind such a SYN, though: RFC 1337 sec 2 tells what old duplicates would do. */
#include "lwip/priv/tcp_priv.h"
#include "tcpip/lw.h"

static bool is_of(const struct tcp_pcb *pcb, const struct lw_net *net, const uint8_t *f,
                  const struct vnet_tcp *t)
{
    return pcb->local_port == get_be16(f + t->l4 + 2) && pcb->remote_port == get_be16(f + t->l4) &&
           pcb->netif_idx == netif_get_index(&net->nif) &&
           lw_addr_is(&pcb->remote_ip, f + VNET_ETH + (t->v6 ? 8 : 12), t->v6);
}

/* A flag of the pcb that lwIP has no use for: the peer wants to begin anew. */
enum { WANTED_ANEW = 0x8000, LWIP_FLAGS = 0x1fff };
_Static_assert((tcpflags_t)WANTED_ANEW == WANTED_ANEW && TF_SACK * 2 - 1 == LWIP_FLAGS,
               "lwIP's flags have changed");

static struct tcp_pcb *waiting(const struct lw_net *net, const uint8_t *f, const struct vnet_tcp *t)
{
    struct tcp_pcb *pcb = tcp_tw_pcbs;
    while (pcb != NULL && !is_of(pcb, net, f, t)) {
        pcb = pcb->next;
    }
    return pcb;
}

void lw_timewait_recycle(struct lw_net *net, const uint8_t *f, const struct vnet_tcp *t)
{
    uint8_t flags = f[t->l4 + 13];
    bool syn = (flags & (VNET_SYN | VNET_ACK | VNET_RST | VNET_FIN)) == VNET_SYN;
    if (!syn && (flags & VNET_RST) == 0) {
        return;
    }
    struct tcp_pcb *pcb = waiting(net, f, t);
    if (pcb == NULL) {
        return;
    }
    uint32_t seq = get_be32(f + t->l4 + 4);
    bool over = syn ? TCP_SEQ_GEQ(seq, pcb->rcv_nxt)
                    : seq == pcb->rcv_nxt && (pcb->flags & WANTED_ANEW) != 0;
    if (over) {
        tcp_abandon(pcb, 0); /* in TIME-WAIT this only forgets it; nothing is sent */
    } else if (syn) {
        tcp_set_flags(pcb, WANTED_ANEW);
    }
}
