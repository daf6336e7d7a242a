/* SPDX-License-Identifier: MIT */
/* A SYN for a connection in TIME-WAIT. lwIP answers it with a reset; RFC 9293 sec 3.6.1 and RFC 6191
 * let it begin a new connection when its sequence number is beyond all of the old one's. Peers that
 * connect often, and their short supply of ports, rely on that. */
#include "lwip/priv/tcp_priv.h"
#include "tcpip/lw.h"

static bool is_of(const struct tcp_pcb *pcb, const struct lw_net *net, const uint8_t *f,
                  const struct vnet_tcp *t)
{
    return pcb->local_port == get_be16(f + t->l4 + 2) && pcb->remote_port == get_be16(f + t->l4) &&
           pcb->netif_idx == netif_get_index(&net->nif) &&
           lw_addr_is(&pcb->remote_ip, f + VNET_ETH + (t->v6 ? 8 : 12), t->v6);
}

void lw_timewait_recycle(struct lw_net *net, const uint8_t *f, const struct vnet_tcp *t)
{
    if ((f[t->l4 + 13] & (VNET_SYN | VNET_ACK | VNET_RST | VNET_FIN)) != VNET_SYN) {
        return;
    }
    uint32_t seq = get_be32(f + t->l4 + 4);
    for (struct tcp_pcb *pcb = tcp_tw_pcbs; pcb != NULL; pcb = pcb->next) {
        if (is_of(pcb, net, f, t)) {
            if (TCP_SEQ_GT(seq, pcb->rcv_nxt)) {
                tcp_abandon(pcb, 0); /* in TIME-WAIT this only forgets it; nothing is sent */
            }
            return;
        }
    }
}
