/* SPDX-License-Identifier: MIT */
/* What the files of this folder share: nets, listeners and streams over lwIP's raw API. */
#ifndef UIW_TCPIP_NET_INT_H
#define UIW_TCPIP_NET_INT_H

#include <stdalign.h>

#include "base/list.h"
#include "lwip/netif.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/tcp.h"
#include "tcpip/link.h"
#include "tcpip/net.h"
#include "tcpip/vnet.h"

enum {
    /* Longest payload of a segment: a frame with any headers stays below FRAME_MAX. */
    NET_SEG_MAX = 65408,
    NET_SEG_MIN = 64, /* a peer that announces less gets this (compare RFC 9293 3.7.1) */
    NET_CHUNK = 65536,
    NET_ITEMS = 256,        /* pieces of a stream that TCP has not been given yet */
    NET_SEG_ITEMS = 128,    /* pieces of one segment: a frame of LINK_PIECES holds them */
    NET_AHEAD = 256 * 1024, /* queued beyond what the windows let go */
    NET_RX_BATCH = 64,
    NET_CONNECT_MS = 10000,
    NET_LINGER_MS = 60000,
    NET_TICK_MS = 5,
};

/* Memory that a stream writes what it sends into; TCP refers to it until it is acknowledged. */
struct net_chunk {
    struct net_chunk *next;
    uint64_t end; /* stream offset behind its last octet */
    uint32_t used;
    alignas(64) uint8_t data[NET_CHUNK];
};

/* A copy of lent memory. */
struct net_copy {
    struct net_copy *next;
    uint64_t until; /* stream offset that must be acknowledged before it goes */
    uint8_t data[];
};

/* A piece to be given to TCP. */
struct net_item {
    const uint8_t *p;
    uint32_t n;
    bool head; /* begins a segment */
    bool lent;
};

/* What net_next() shows. */
struct net_news {
    struct list node; /* on ready or later of the net */
    unsigned events;
    bool listener;
};

struct net {
    struct netif nif;
    struct list node; /* of net_all */
    struct link *link;
    enum net_kind kind;
    char label[16]; /* "tap uiw0", for the log */
    struct list streams, listeners;
    struct list timed;   /* streams with a deadline */
    struct list dirty;   /* streams for the next flush */
    struct list stalled; /* streams that wait for room in the link */
    struct list ready, later;
    struct list dead;         /* streams to be freed once lwIP has returned */
    struct net_chunk *chunks; /* unused ones */
    uint32_t chunk_count;
    struct frame *self_first, *self_last; /* sent to our own address */
    struct tcp_pcb *out_pcb;              /* who is being output, most likely */
    struct link_tx tx;
    uint8_t tx_head[VNET_HDR_MAX];
    uint32_t batch; /* frames to take at the next turn */
    uint32_t epoch; /* of the link, as far as handled */
    bool link_up;
    bool link_full;
    bool starved; /* a chunk could not be allocated */
    uint64_t tick_at;
    uint32_t turns; /* since timers ran; see timers_wanted() */
    bool paused;    /* the loop has slept since */
    uint64_t rx_frames, rx_bad_sum, rx_other, tx_frames, tx_lost;
};

struct net_listener {
    struct net *net;
    struct list node;
    struct net_news news;
    struct tcp_pcb *pcb;
    void *user;
    struct list waiting; /* streams to accept */
    struct in_addr ip;
    uint16_t port;
};

struct net_stream {
    struct net *net;
    struct list node; /* of streams */
    struct net_news news;
    struct list dirty; /* on dirty or stalled */
    struct list timed;
    struct list wait;    /* on a listener's waiting */
    struct tcp_pcb *pcb; /* NULL: gone, or not there yet */
    void *user;
    struct net_listener *listener; /* NULL: accepted, or ours */
    struct sockaddr_in local, remote;
    int error;
    bool up, fin_in, fin_out, fin_sent, closed;
    bool gone;    /* lwIP has freed the pcb, and may say why in a moment */
    bool settled; /* the pcb's MSS is our virtual one */
    bool orphan;  /* closed by its owner: only delivers what is queued */
    bool want_room;
    uint32_t emss;
    uint64_t deadline; /* while timed */
    uint8_t syns;      /* retransmissions of the SYN, as far as handled */

    /* receive: pbufs linked by ->next, each one counted for itself */
    struct pbuf *rx_first, *rx_last;
    struct pbuf **rx_last_at; /* what points to rx_last */
    struct pbuf *rx_dead;     /* replaced by a copy while a borrower may still look at it */
    uint32_t rx_off;          /* consumed of the first */
    uint32_t rx_queued;
    uint32_t rx_credit; /* consumed, window not yet opened */
    uint32_t rx_unacked;
    bool rx_peeked; /* the last one was lent out */

    /* send */
    uint64_t tx_queued, tx_acked;
    struct net_chunk *tx_first, *tx_last; /* the last one is being filled */
    struct net_copy *tx_copies;
    uint32_t tx_fill; /* octets of the segment under construction */
    uint32_t tx_reserved;
    bool tx_head; /* what is reserved begins a segment */
    uint32_t item_first, item_count;
    struct net_item items[NET_ITEMS];
};

extern struct list net_all;

/* net_netif.c: frames between lwIP and the link */
err_t net_netif_init(struct netif *nif);
void net_input(struct net *net, struct frame *f);

/* net_timewait.c: makes way for a new connection when the frame is a SYN for an old one. */
void net_timewait_recycle(struct net *net, const uint8_t *f, const struct vnet_tcp *t);

uint32_t net_input_self(struct net *net);
bool net_resolved(struct net *net, struct in_addr ip); /* the next hop's MAC address is known */
void net_announce(struct net *net);

/* net_event.c */
void net_news_init(struct net_news *n, bool listener);
void net_tell(struct net *net, struct net_news *n, unsigned events);
void net_forget(struct net_news *n);

/* net_stream.c: life of streams */
struct net_stream *net_stream_new(struct net *net);
void net_stream_free(struct net_stream *s);
void net_stream_attach(struct net_stream *s, struct tcp_pcb *pcb);
void net_stream_detach(struct net_stream *s);          /* the pcb is lwIP's alone from here on */
void net_stream_fail(struct net_stream *s, int error); /* resets it; not from within lwIP */
void net_stream_dirty(struct net_stream *s);
void net_stream_widen(struct net_stream *s); /* before segments are made */
void net_stream_flush(struct net_stream *s);
void net_streams_reap(struct net *net);
void net_stream_link_down(struct net_stream *s);
void net_stream_link_up(struct net_stream *s);
void net_stream_timer(struct net_stream *s, uint64_t now);
void net_stream_deadline(struct net_stream *s, uint64_t at);

/* net_listen.c */
void net_addr_fill(struct sockaddr_in *sin, const ip_addr_t *ip, uint16_t port);

/* net_rx.c */
void net_rx_append(struct net_stream *s, struct pbuf *p);
void net_rx_drop(struct net_stream *s);   /* frees all */
void net_rx_window(struct net_stream *s); /* opens the window by what was consumed */

/* net_tx.c */
void net_tx_on_acked(struct net_stream *s, uint32_t n);
void net_tx_push(struct net_stream *s); /* gives TCP what the windows allow */
void net_tx_drop(struct net_stream *s); /* the pcb must be gone */
bool net_tx_unlend_all(struct net_stream *s);
void net_tx_tell_room(struct net_stream *s);
void net_chunks_free(struct net *net);

#endif
