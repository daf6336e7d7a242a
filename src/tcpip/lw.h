/* SPDX-License-Identifier: MIT */
/* What the files of this folder share: nets, listeners and streams over lwIP's raw API. */
#ifndef UIW_TCPIP_LW_H
#define UIW_TCPIP_LW_H

#include "lwip/netif.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/tcp.h"
#include "tcpip/capture.h"
#include "tcpip/link.h"
#include "tcpip/net_base.h"
#include "tcpip/net_txmem.h"
#include "tcpip/rest.h"
#include "tcpip/tcp_sender.h"
#include "tcpip/vnet.h"

enum {
    /* Longest payload of a segment: a frame with any headers stays below FRAME_MAX. */
    LW_SEG_MAX = 65408,
    LW_SEG_MIN = 64, /* a peer that announces less gets this (compare RFC 9293 3.7.1) */
    LW_NO_BORDER = 0xffff,
    LW_ITEMS = 256,        /* pieces of a stream that TCP has not been given yet */
    LW_SEG_ITEMS = 128,    /* pieces of one segment: a frame of LINK_PIECES holds them */
    LW_AHEAD = 256 * 1024, /* queued beyond what the windows let go */
    LW_RX_BATCH = 64,
    LW_RX_OCTETS = 64 * 1024, /* a batch of more does not grow */
    LW_TX_BATCH = 64,         /* frames of a flush */
    LW_CALLS = 8, /* streams that are called at a time while others wait for the link as well */
    LW_RX_RESTED = 16, /* the first batch after a rest */
    LW_CONNECT_MS = 10000,
    LW_LINGER_MS = 60000,
    LW_TICK_MS = 5,
    LW_KEEP_IDLE_MS = 15000, /* before the peer is asked whether it is still there */
    LW_KEY_MAX = 36,         /* two addresses with their ports, to be hashed */
};

/* Where lwIP keeps a net's IPv6 addresses. */
enum { LW_IP6_LOCAL, LW_IP6_GLOBAL, LW_IP6_COUNT };

/* A piece to be given to TCP. A unit, an FPDU as a rule, is what is committed at once, or what is
 * committed, lent and committed. */
struct lw_item {
    const uint8_t *p;
    uint32_t n;
    uint16_t border; /* octets before the first unit that begins in it; LW_NO_BORDER */
    bool head;       /* begins a segment */
    bool lent;
};

/* A ring of pieces. A stream has one while some wait; one stream, the busy one of a net, may keep it. */
struct lw_items {
    struct lw_items *next; /* while unused */
    struct lw_item item[LW_ITEMS];
};

struct lw_net {
    struct net base;
    struct netif nif;
    struct list node; /* of lw_all */
    struct link *link;
    enum net_kind kind;
    bool has6; /* IPv6 is on */
    uint8_t prefix6;
    ip6_addr_t gw6; /* any: none */
    char label[16]; /* "tap uiw0", for the log */
    struct list streams, listeners;
    struct list timed;   /* streams with a deadline */
    struct list dirty;   /* streams for the next flush */
    struct list stalled; /* streams that wait for room in the link */
    struct list dead;    /* streams to be freed once lwIP has returned */
    struct list clocked; /* streams with data on its way, see lw_loss.c */
    struct list owing;   /* streams that put off an ACK, the first one for longest */
    uint32_t owing_count;
    uint64_t clock_due; /* us; no timer of theirs is due before */
    uint64_t now_us;    /* 0: the clock was not read in this turn or flush */
    struct sack_pool runs;
    struct lw_runs *run_blocks;
    struct net_chunks chunks;
    struct lw_items *items; /* unused; the last one used goes first, while it is in the cache */
    uint32_t items_held, items_out;       /* unused, and with streams */
    uint32_t sharers;                     /* streams that share what may be on its way */
    struct frame *self_first, *self_last; /* sent to our own address */
    struct frame *late_first, *late_last; /* see lw_late.c */
    uint32_t late_count;
    struct tcp_pcb *out_pcb; /* who is being output, most likely */
    struct capture *capture; /* or NULL */
    struct link_tx tx;
    uint8_t tx_head[VNET_HDR_MAX];
    uint32_t batch; /* frames to take at the next turn */
    struct rest rest;
    uint32_t epoch, resumed, mtu; /* of the link, as far as handled */
    bool link_up;
    bool link_full;
    bool crowded;   /* a link in memory that more streams want to fill than it has room for */
    uint32_t calls; /* of this flush */
    uint64_t tick_at;
    uint32_t turns; /* since timers ran; see timers_wanted() */
    bool paused;    /* the loop has slept since */
    uint64_t rx_frames, rx_bad_sum, rx_other, tx_frames, tx_lost;
};

struct lw_listener {
    struct net_listener base;
    struct lw_net *net;
    struct list node;
    struct tcp_pcb *pcb[1 + LW_IP6_COUNT]; /* one for each address */
    struct list waiting;                   /* streams to accept */
    int backlog;                           /* of each */
    union net_addr addr;
};

struct lw_stream {
    struct net_stream base;
    struct lw_net *net;
    struct list node;  /* of streams */
    struct list dirty; /* on dirty or stalled */
    struct list timed;
    struct list wait;             /* on a listener's waiting */
    struct tcp_pcb *pcb;          /* NULL: gone, or not there yet */
    struct lw_listener *listener; /* NULL: accepted, or ours */
    bool up, fin_in, fin_out, fin_sent, closed;
    bool gone;         /* lwIP has freed the pcb, and may say why in a moment */
    bool settled;      /* the pcb's MSS is our virtual one */
    uint32_t wide_for; /* the peer's largest window that this was made for; 0: none */
    uint16_t peer_mss; /* as the peer said, before that */
    uint16_t path_mtu; /* as a router said; 0: none did */
    bool orphan;       /* closed by its owner: only delivers what is queued */
    bool want_room;
    bool called;       /* its turn to fill a crowded link has come */
    uint64_t deadline; /* while timed */
    uint8_t syns;      /* retransmissions of the SYN, as far as handled */

    /* receive: pbufs linked by ->next, each one counted for itself */
    struct pbuf *rx_first, *rx_last;
    struct pbuf **rx_last_at; /* what points to rx_last */
    struct pbuf *rx_dead;     /* replaced by a copy while a borrower may still look at it */
    uint32_t rx_off;          /* consumed of the first */
    uint32_t rx_credit;       /* consumed, window not yet opened */
    uint32_t rx_unacked;      /* octets and segments since we sent the last ACK */
    uint32_t rx_segments;
    struct list owing; /* of the net */
    uint32_t oos;      /* segments out of order, at most */
    bool rx_peeked;    /* the last one was lent out */
    bool answered;     /* a useless acknowledgement was, then: */
    uint32_t answered_ms;

    /* send */
    bool own; /* losses and congestion are ours to handle, not lwIP's */
    struct list clocked;
    struct tcp_sender snd;   /* while own */
    struct net_txmem tx_mem; /* until it is acknowledged */
    uint32_t tx_reserved;
    uint32_t tx_since; /* octets since a unit was made to begin a segment */
    uint32_t tx_wire;  /* octets of the packet under construction, as the wire will have it */
    uint32_t tx_unit;  /* octets of the unit under construction, and of the one before */
    uint32_t tx_unit_before;
    bool tx_lent; /* the last piece was lent: what is committed now ends its unit */
    bool shares;  /* one of the net's sharers */
    uint32_t item_first, item_count;
    struct lw_items *items; /* or NULL, when none wait */
};

enum lw_place { LW_BUSY, LW_QUIET, LW_TIME_WAIT, LW_PLACES };

/* A pcb's place, see lw_table.c. It goes with the pcb. */
struct lw_seat {
    struct lw_seat *chain; /* of its slot */
    struct list node;      /* of its place */
    struct tcp_pcb *pcb;
    struct lw_stream *stream; /* NULL: nobody's yet, or no more */
    uint64_t since;           /* when it came to its place, ms; while busy not known */
    uint32_t hash;
    enum lw_place place;
    uint8_t probes;   /* of a closed window, unanswered before the tick */
    bool wanted_anew; /* see lw_timewait.c */
};

extern struct list lw_all;

static inline struct lw_net *lw_net_of(struct net *net)
{
    return CONTAINER_OF(net, struct lw_net, base);
}

static inline struct lw_stream *lw_stream_of(struct net_stream *s)
{
    return CONTAINER_OF(s, struct lw_stream, base);
}

/* lw_netif.c: frames between lwIP and the link */
err_t lw_netif_init(struct netif *nif);
void lw_input(struct lw_net *net, struct frame *f);
bool lw_transmit(struct lw_net *net); /* net->tx; false: no room now */

/* lw_pmtu.c: anything but TCP; looks whether a router tells that a packet of ours was too big */
void lw_pmtu_input(struct lw_net *net, const struct frame *f);

/* lw_late.c */
bool lw_late_keep(struct lw_net *net); /* net->tx, which has no payload. False: it is lost */
bool lw_late_send(struct lw_net *net); /* what is kept; false: there is no room yet */
void lw_late_drop(struct lw_net *net);

uint32_t lw_input_self(struct lw_net *net);
void lw_announce(struct lw_net *net); /* tells the neighbours our addresses */

/* lw_addr.c: addresses of both families */
struct lw_addr {
    ip_addr_t ip;
    uint16_t port;
};

int lw_addr_get(struct lw_net *net, const struct sockaddr *addr, struct lw_addr *out);
void lw_addr_fill(union net_addr *addr, const ip_addr_t *ip, uint16_t port);
uint32_t lw_addr_key(uint8_t *key, const ip_addr_t *ip, uint16_t port); /* octets written */
/* The address at p in a packet is that one. */
bool lw_addr_is(const ip_addr_t *ip, const uint8_t *p, bool v6);
void lw_addr_start6(struct lw_net *net, const struct net_cfg *cfg);
/* Our addresses, up to 1 + LW_IP6_COUNT; returns how many. */
unsigned lw_addrs(struct lw_net *net, const ip_addr_t **out);
bool lw_mine(struct lw_net *net, const ip_addr_t *ip);
bool lw_mine6(struct lw_net *net, const ip6_addr_t *ip);
bool lw_on_link4(const struct lw_net *net, const ip4_addr_t *ip);
bool lw_on_link6(const struct lw_net *net, const ip6_addr_t *ip);
const ip6_addr_t *lw_hop6(const struct lw_net *net, const ip6_addr_t *ip);
const ip_addr_t *lw_source(struct lw_net *net, const ip_addr_t *to); /* NULL: none fits */
bool lw_reachable(struct lw_net *net, const ip_addr_t *to);
bool lw_resolved(struct lw_net *net, const ip_addr_t *to); /* the next hop's MAC address is known */
uint32_t lw_mss(const struct lw_net *net, bool v6);        /* what fits the link */

/* lw_table.c: connections. Every pcb is in the table from its first segment until it is freed. */
bool lw_table_add(struct tcp_pcb *pcb); /* its addresses and ports are set. False: no memory */
bool lw_table_has(const struct lw_net *net, const struct lw_addr *local,
                  const struct lw_addr *remote);
void lw_table_give(struct tcp_pcb *pcb, struct lw_stream *s); /* s is told when the pcb is freed */
/* Whose segment that is, which is being sent; NULL: nobody's. */
struct lw_stream *lw_table_sender(const struct lw_net *net, const uint8_t *f,
                                  const struct vnet_tcp *t);
/* Before lwIP gets a segment: whose that is goes on lwIP's list, or is gone when its TIME-WAIT is over. */
void lw_table_show(const struct lw_net *net, const uint8_t *f, const struct vnet_tcp *t);
void lw_table_take_back(void);           /* after lwIP may have put some on its lists */
void lw_table_wake(struct tcp_pcb *pcb); /* before something is sent on it */
void lw_table_timers(void);              /* lwIP's own, too */
uint64_t lw_table_due(void);             /* ms of net_now_ms(), but for lwIP's; UINT64_MAX: never */
bool lw_table_port_used(const struct lw_addr *local); /* looks at all */
void lw_table_forget_listener(const struct tcp_pcb *listener);
void lw_table_abort(const struct lw_net *net); /* all that are left of that net */
/* Those of that net that have no stream, or none yet, and those in TIME-WAIT; nothing is sent. */
void lw_table_forget_rest(const struct lw_net *net);
void lw_table_free(void); /* when no net is left */

/* lw_timewait.c: the segment, a SYN for an old connection or the reset that goes before one, ends the wait. */
bool lw_timewait_over(struct lw_seat *seat, const uint8_t *f, const struct vnet_tcp *t);

/* lw_nd.c: neighbour discovery, as far as lwIP leaves something to do */
bool lw_nd_wanted(const struct lw_net *net, const struct frame *f, bool ours);
void lw_nd_announce(struct lw_net *net);
void lw_nd_restart(struct lw_net *net); /* forgets the neighbours: the link is another one */

/* lw_stream.c: life of streams */
struct lw_stream *lw_stream_new(struct lw_net *net);
void lw_stream_free(struct lw_stream *s);
void lw_stream_attach(struct lw_stream *s, struct tcp_pcb *pcb);
void lw_stream_detach(struct lw_stream *s);          /* the pcb is lwIP's alone from here on */
void lw_stream_fail(struct lw_stream *s, int error); /* resets it; not from within lwIP */
void lw_stream_lost_pcb(struct lw_stream *s); /* lwIP has freed it, and may say why at once */
void lw_stream_dirty(struct lw_stream *s);
void lw_stream_widen(struct lw_stream *s);         /* before segments are made */
bool lw_stream_flush(struct lw_stream *s);         /* false: a full link refused its first frame */
bool lw_stream_settled(const struct lw_stream *s); /* a flush would send nothing now */
void lw_stream_owes_none(struct lw_stream *s);     /* its ACK was sent, or it is going */
void lw_stream_owe(struct lw_stream *s); /* an ACK that may be put off; one of too many goes now */
void lw_streams_reap(struct lw_net *net);
void lw_stream_link_down(struct lw_stream *s);
void lw_stream_link_up(struct lw_stream *s);
void lw_stream_resume(struct lw_stream *s); /* the interface is up again */
void lw_stream_mtu(struct lw_stream *s);    /* the link's MTU has changed */
void lw_stream_timer(struct lw_stream *s, uint64_t now);
void lw_stream_deadline(struct lw_stream *s, uint64_t at);
void lw_shutdown(struct net_stream *s);
void lw_stream_close(struct net_stream *s, bool abort);

/* lw_loss.c */
uint64_t lw_now_us(struct lw_net *net);
void lw_loss_begin(struct lw_stream *s);     /* the connection stands; may leave it to lwIP */
void lw_loss_end(struct lw_stream *s);       /* the pcb is gone */
void lw_loss_give_back(struct lw_stream *s); /* the pcb is to be lwIP's alone */
void lw_loss_input(struct lw_stream *s, const struct sack_ack *ack);
void lw_loss_resend(struct lw_stream *s);               /* what is lost; before new data */
void lw_loss_pushed(struct lw_stream *s, bool limited); /* new data was sent, if there was any */
void lw_loss_watch(struct lw_stream *s);  /* starts the timers of what lwIP has sent */
void lw_loss_resume(struct lw_stream *s); /* as if the retransmission timer had run out */
void lw_loss_timers(struct lw_net *net);
int lw_loss_due_ms(const struct lw_net *net); /* -1: never */
void lw_runs_free(struct lw_net *net);

/* Returns lwIP's unused memory to the system. */
void lw_mem_trim(void);

/* lw_oos.c */
bool lw_oos_admit(struct lw_stream *s); /* another segment; false: it is not to be kept */
void lw_oos_tidy(struct lw_stream *s);

/* lw_listen.c */
int lw_listen(struct net *net, const struct sockaddr *addr, int backlog, struct net_listener **out);
void lw_listener_addr(const struct net_listener *l, struct sockaddr_storage *out);
void lw_listener_close(struct net_listener *l);
struct net_stream *lw_accept(struct net_listener *l);
int lw_connect(struct net *net, const struct sockaddr *local, const struct sockaddr *remote,
               struct net_stream **out);

/* lw_rx.c */
uint32_t lw_rx_peek(struct net_stream *s, struct span *v, uint32_t max);
void lw_rx_consume(struct net_stream *s, uint32_t n);
void lw_rx_append(struct lw_stream *s, struct pbuf *p);
void lw_rx_drop(struct lw_stream *s); /* frees all */
bool lw_rx_window_due(const struct lw_stream *s);
void lw_rx_window(struct lw_stream *s); /* opens the window by what was consumed */

/* lw_items.c */
bool lw_items_stock(struct lw_net *net); /* true: there is one to take */
void lw_items_take(struct lw_stream *s); /* there is one */
void lw_items_give_back(struct lw_stream *s);
void lw_items_free(struct lw_net *net);

/* lw_tx.c */
uint8_t *lw_tx_reserve(struct net_stream *s, uint32_t n);
void lw_tx_commit(struct net_stream *s, uint32_t n, uint32_t unit);
bool lw_tx_lend(struct net_stream *s, const void *p, uint32_t n);
uint32_t lw_tx_room(struct net_stream *s);
bool lw_peer_behind(const struct net_stream *stream);
void lw_tx_unlend(struct net_stream *s, const void *p, uint64_t n);
void lw_tx_on_acked(struct lw_stream *s, uint32_t n);
void lw_tx_push(struct lw_stream *s); /* gives TCP what the windows allow */
void lw_tx_drop(struct lw_stream *s); /* the pcb must be gone */
bool lw_tx_unlend_all(struct lw_stream *s);
void lw_tx_tell_room(struct lw_stream *s);

#endif
