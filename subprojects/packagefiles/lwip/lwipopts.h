/* SPDX-License-Identifier: MIT
 * lwIP as uiw uses it: one thread owns the stack, raw API, TCP over IPv4 and IPv6, large
 * segments. Anything not named here has lwIP's default (lwip/opt.h).
 */
#ifndef LWIPOPTS_H
#define LWIPOPTS_H

/* ---- What is compiled in ---- */
#define NO_SYS               1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_TIMERS          1
#define LWIP_SOCKET          0
#define LWIP_NETCONN         0
#define LWIP_RAW             0
#define LWIP_UDP             0
#define LWIP_DHCP            0
#define LWIP_DNS             0
#define LWIP_AUTOIP          0
#define LWIP_ACD             0
#define LWIP_IGMP            0
#define LWIP_STATS           0
#define MIB2_STATS           0
#define LWIP_TCP             1
#define LWIP_IPV4            1
#define LWIP_IPV6            1
#define LWIP_ARP             1
#define LWIP_ETHERNET        1
#define LWIP_ICMP            1
#define LWIP_ICMP6           1

/* ---- Memory: src/tcpip/lw_mem.c over libc's allocator, so no count below is a static array, or a limit ---- */
#define MEM_ALIGNMENT           8
#define MEM_CUSTOM_ALLOCATOR    1
#define MEM_CUSTOM_MALLOC       uiw_lwip_malloc
#define MEM_CUSTOM_CALLOC       uiw_lwip_calloc
#define MEM_CUSTOM_FREE         uiw_lwip_free
#define MEMP_MEM_MALLOC         1
#define MEMP_NUM_TCP_PCB        16384
#define MEMP_NUM_TCP_PCB_LISTEN 1024
#define MEMP_NUM_TCP_SEG        65535
#define MEMP_NUM_PBUF           65535
#define MEMP_NUM_SYS_TIMEOUT    64
#define PBUF_POOL_SIZE          1024
/* The default follows TCP_MSS and would exceed the 16 bits of a pbuf length. */
#define PBUF_POOL_BUFSIZE        2048
#define LWIP_SUPPORT_CUSTOM_PBUF 1
/* Room for a virtio-net header in front of the Ethernet header. */
#define PBUF_LINK_ENCAPSULATION_HLEN 16

/* ---- IP ----
 * FPDUs fit the segment size and the links do segmentation offload, so nothing of ours is ever
 * fragmented, and fragments are dropped on arrival: reassembly is a classic target. */
#define IP_FORWARD           0
#define IP_FRAG              0
#define IP_REASSEMBLY        0
#define LWIP_IPV6_FORWARD    0
#define LWIP_IPV6_FRAG       0
#define LWIP_IPV6_REASS      0
#define LWIP_IPV6_DHCP6      0
#define LWIP_IPV6_AUTOCONFIG 0
/* Bridges that snoop multicast pass neighbour solicitations only to reported members. */
#define LWIP_IPV6_MLD 1
/* The user gives the addresses; they are to work at once, as the IPv4 ones do. */
#define LWIP_IPV6_DUP_DETECT_ATTEMPTS 0
/* A router must not change the MTU: the netif's is our virtual one (see TCP_MSS). */
#define LWIP_ND6_ALLOW_RA_UPDATES 0

/* ---- Neighbours ---- */
#define ARP_TABLE_SIZE                1024
#define ARP_QUEUEING                  1
#define ARP_QUEUE_LEN                 4
#define ETHARP_SUPPORT_STATIC_ENTRIES 1
/* Both 127 at most: lwIP admits more destinations, but walks them with an s8_t and never ends. */
#define LWIP_ND6_NUM_NEIGHBORS    127
#define LWIP_ND6_NUM_DESTINATIONS 127

/* ---- Interfaces ---- */
#define LWIP_SINGLE_NETIF         0
#define LWIP_NETIF_LOOPBACK       0
#define LWIP_HAVE_LOOPIF          0
#define LWIP_NETIF_HOSTNAME       0
#define LWIP_NETIF_TX_SINGLE_PBUF 0

/* ---- Checksums: switched per netif, since some links take them over ---- */
#define LWIP_CHECKSUM_CTRL_PER_NETIF 1
#define LWIP_CHECKSUM_ON_COPY        0
#define LWIP_CHKSUM_ALGORITHM        3

/* ---- TCP: sizes ----
 * TCP_MSS is not the wire's: lwIP builds segments of up to 64 KB, the link cuts them (or hands
 * them to an offload), and the netif writes the true MSS into our SYNs. lwIP's sanity checks
 * know nothing of that and refuse an MSS above 16382, so they are off and the limits they would
 * derive are given explicitly. */
#define LWIP_DISABLE_TCP_SANITY_CHECKS 1
#define TCP_MSS                        65495
#define LWIP_WND_SCALE                 1
#define TCP_RCV_SCALE                  7
#define TCP_WND                        (4 * 1024 * 1024)
#define TCP_SND_BUF                    (4 * 1024 * 1024)
#define TCP_SND_QUEUELEN               0xfff0
#define TCP_SNDLOWAT                   16384
#define TCP_SNDQUEUELOWAT              64
#define TCP_OVERSIZE                   0

/* ---- TCP: features ---- */
#define LWIP_TCP_TIMESTAMPS        0
#define TCP_LISTEN_BACKLOG         1
#define TCP_DEFAULT_LISTEN_BACKLOG 0xff
#define LWIP_TCP_PCB_NUM_EXT_ARGS  1
/* Lets a listener come back at once on a port that has connections in TIME_WAIT; only pcbs with
 * SOF_REUSEADDR set are affected. */
#define SO_REUSE 1
/* Idle time, interval and count per pcb; only for pcbs with SOF_KEEPALIVE set. */
#define LWIP_TCP_KEEPALIVE 1
/* lwIP 2.2.1 starts its port counter at LWIP_RAND() by itself; older ones need this. */
#define LWIP_RANDOMIZE_INITIAL_LOCAL_PORTS 1

/* Out-of-order data: a window's worth, as 64 KB super-frames or as one pbuf per 1460-octet
 * segment (4 MiB / 1460 = 2873). A pbuf pins its whole buffer, so a link must not lend a large
 * receive buffer to a small frame. */
#define TCP_QUEUE_OOSEQ       1
#define TCP_OOSEQ_MAX_BYTES   TCP_WND
#define TCP_OOSEQ_MAX_PBUFS   3072
#define LWIP_TCP_SACK_OUT     1
#define LWIP_TCP_MAX_SACK_NUM 4

/* ---- TCP: timers ----
 * lwIP was made for a 250 ms tick; 10 ms brings the delayed ACK to 10 ms and the slow tick, in
 * which all of the below is counted, to 20 ms. In real time then:
 * - RTO: starts at LWIP_TCP_RTO_TIME = 10 ticks; round trips below a tick bring it down to
 *   B = 3 ticks (60 ms), where the integer arithmetic of the estimator stops.
 * - Data: retransmissions follow B x 1, 2, 4 ... 128 and then 128 again; the connection is given
 *   up one tick after retransmission TCP_MAXRTX (12 is the most lwIP allows): 767 B in all, that
 *   is 46 s for B = 60 ms and 153 s for B = 200 ms.
 * - Closed window: the probes come after 3, 6 ... 96, 120 ticks, the last one repeated, and 12
 *   unanswered ones end the connection: 18 s after the window closed, up to 29 s later on. Any
 *   answer starts the count again.
 * - SYN: lwIP does not back off in SYN_SENT, so 12 of them would be 2.4 s. src/tcpip doubles
 *   pcb->rto while a connection is in SYN_SENT, up to 160 ticks (3.2 s):
 *   0.2 + 0.4 + 0.8 + 1.6 + 8 x 3.2 = 28.6 s. A SYN that waits for an ARP answer is not counted
 *   until ARP lets go of it, 5 s each time: a minute for a neighbour that does not exist.
 * - SYN_RCVD and FIN_WAIT_2 end after 20 s, keep-alive times are in ms: both independent of the
 *   tick. tcp_poll() intervals are in slow ticks: 255 of them are 5.1 s. */
#define TCP_TMR_INTERVAL  10
#define LWIP_TCP_RTO_TIME 200
#define TCP_MAXRTX        12
#define TCP_SYNMAXRTX     12

/* lwIP waits 2 MSL since the last segment heard in LAST_ACK: a minute, because there our own data may
 * still be on the way. TIME_WAIT is not its business, see src/tcpip/lw_table.c. */
#define TCP_MSL 30000UL

/* ---- Hooks: see uiw_hooks.h; they stand here because headers test for some of them ---- */
#define LWIP_HOOK_FILENAME                        "uiw_hooks.h"
#define LWIP_HOOK_TCP_ISN(lip, lport, rip, rport) uiw_lwip_isn((lip), (lport), (rip), (rport))
#define LWIP_HOOK_IP4_ROUTE_SRC(src, dest)        uiw_lwip_route4((src), (dest))
#define LWIP_HOOK_IP6_ROUTE(src, dest)            uiw_lwip_route6((src), (dest))
#define LWIP_HOOK_TCP_INPACKET_PCB(pcb, hdr, optlen, opt1len, opt2, p) \
    uiw_lwip_tcp_in((pcb), (hdr), (optlen), (opt1len), (opt2), (p))

#endif
