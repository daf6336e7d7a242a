/* SPDX-License-Identifier: MIT
 * The functions lwIP calls back, besides the two in arch/cc.h. src/tcpip defines them all.
 * lwIP includes this file (LWIP_HOOK_FILENAME) where it expands a hook.
 */
#ifndef UIW_HOOKS_H
#define UIW_HOOKS_H

#include "lwip/arch.h"
#include "lwip/err.h"
#include "lwip/ip_addr.h"

struct netif;
struct pbuf;
struct tcp_hdr;
struct tcp_pcb;

/* Initial sequence number of a connection; a keyed hash of the four-tuple plus a clock
 * (RFC 6528), so that a short TIME_WAIT stays safe. */
u32_t uiw_lwip_isn(const ip_addr_t *local_ip, u16_t local_port, const ip_addr_t *remote_ip,
                   u16_t remote_port);

/* The interface to send on, or NULL for lwIP's own choice. 'src' is NULL or "any" while the
 * source address is not known yet. */
struct netif *uiw_lwip_route4(const ip4_addr_t *src, const ip4_addr_t *dest);
struct netif *uiw_lwip_route6(const ip6_addr_t *src, const ip6_addr_t *dest);

/* Sees every segment that belongs to 'pcb' before lwIP does; anything but ERR_OK drops it. The
 * fields of 'hdr' are already in host order, 'p' starts after the header and its options.
 * 'pcb' may be in TIME_WAIT, and for a SYN it is a struct tcp_pcb_listen in disguise
 * (state LISTEN): look at 'state' before anything else. Options are 'opt1len' octets after the
 * header and the rest, up to 'optlen', at 'opt2' (NULL unless the header spans two pbufs). */
err_t uiw_lwip_tcp_in(struct tcp_pcb *pcb, struct tcp_hdr *hdr, u16_t optlen, u16_t opt1len,
                      u8_t *opt2, struct pbuf *p);

#endif
