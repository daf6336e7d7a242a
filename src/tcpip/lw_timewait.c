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

bool lw_timewait_over(struct lw_seat *seat, const uint8_t *f, const struct vnet_tcp *t)
{
    uint8_t flags = f[t->l4 + 13];
    bool syn = (flags & (VNET_SYN | VNET_ACK | VNET_RST | VNET_FIN)) == VNET_SYN;
    uint32_t seq = get_be32(f + t->l4 + 4), due = seat->pcb->rcv_nxt;
    if (!syn) {
        return (flags & VNET_RST) != 0 && seq == due && seat->wanted_anew;
    }
    seat->wanted_anew = true;
    return TCP_SEQ_GEQ(seq, due);
}
