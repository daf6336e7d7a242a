/* SPDX-License-Identifier: MIT */
/* What the sock_*.c files share: nets, listeners and streams over the kernel's TCP. Each net has an
 * epoll set of its own; sockets are in it edge-triggered, once for all their lives, so that no turn
 * costs more than what happens in it. */
#ifndef UIW_TCPIP_SOCK_H
#define UIW_TCPIP_SOCK_H

#include "tcpip/capture.h"
#include "tcpip/net_base.h"
#include "tcpip/net_txmem.h"

enum {
    SOCK_ITEMS = 256,          /* pieces of a stream that the kernel has not taken yet */
    SOCK_AHEAD = 1024 * 1024,  /* octets of them */
    SOCK_RING = 512 * 1024,    /* of the receive buffer; stays in a core's own cache */
    SOCK_RINGS_HELD = 8,       /* streams that may keep a buffer with a rest in it */
    SOCK_EVENTS = 64,          /* taken in one turn */
    SOCK_READS = 16,           /* streams read in one turn, a buffer's worth each */
    SOCK_EMSS_EVERY = 1 << 18, /* octets sent between two looks at the MSS */
    SOCK_CONNECT_MS = 10000,
    SOCK_LINGER_MS = 60000,
    SOCK_WATCH_MS = 15000, /* between two looks at whether the peer still answers */
    SOCK_SILENT_MS = 60000,
    SOCK_RETRY_MS = 100, /* after the system was out of memory or descriptors */
};

/* Receive buffer: size octets, of which those from rx_at on, around the end, are filled. */
struct sock_ring {
    struct sock_ring *next;
    uint32_t size;
    uint8_t data[];
};

struct sock_item {
    const uint8_t *p;
    uint32_t n;
    bool lent;
};

/* What waits to be sent; an idle stream has none. */
struct sock_out {
    struct sock_out *next;
    uint32_t first, count;
    struct sock_item items[SOCK_ITEMS];
};

struct sock_net {
    struct net base;
    char label[64]; /* "sock 127.0.0.1", for errors and the log */
    char cc[NET_CC_MAX];
    uint32_t mtu; /* 0: the route's */
    union net_addr src;
    int epoll_fd, wake_fd;
    bool waking; /* wake_fd is readable */
    struct list streams, listeners;
    struct list readable; /* streams that may have more than was read */
    struct list held;     /* streams with a buffer of SOCK_RING octets */
    uint32_t held_cnt;
    struct list dirty; /* streams for the next flush */
    /* Streams with a deadline, the earliest first: of each kind all wait for the same time. */
    struct list connecting, lingering, watched;
    struct net_chunks chunks;
    struct capture *capture; /* or NULL */
    struct sock_ring *rings; /* unused */
    uint32_t ring_cnt;
    struct sock_out *outs; /* unused */
    uint64_t retry_at;     /* 0: nothing to be tried again */
    uint64_t warned_at;
};

struct sock_listener {
    struct net_listener base;
    struct list node;
    int fd;
    bool starved; /* a connection waits for a descriptor */
};

struct sock_stream {
    struct net_stream base;
    struct list node; /* of streams */
    struct list readable, held, dirty, timed;
    int fd; /* -1: gone */
    bool up, fin_in, fin_out, fin_sent, closed;
    bool orphan;  /* closed by its owner: only delivers what is queued */
    bool ending;  /* the kernel has told of an end or error: to be read up to it */
    bool blocked; /* the kernel's send buffer is full */
    bool want_room;
    bool lent;      /* some of what is queued, or was since the queue was empty */
    bool tx_dead;   /* sending has failed; what came before is still to be read */
    bool rx_peeked; /* the owner looks at the buffer: it must not move */
    bool rx_full;   /* not read for want of room */
    bool silent;    /* nothing came back at the last look */
    uint64_t deadline;
    struct sock_ring *rx;
    uint32_t rx_at;
    uint32_t tx_reserved;
    struct sock_out *out;
    struct net_txmem tx_mem;     /* until the kernel has a copy */
    struct capture_tcp *capture; /* or NULL */
    uint64_t emss_at;            /* stream offset for the next look at the MSS */
};

static inline struct sock_net *sock_net_of(struct net *net)
{
    return CONTAINER_OF(net, struct sock_net, base);
}

static inline struct sock_stream *sock_stream_of(struct net_stream *s)
{
    return CONTAINER_OF(s, struct sock_stream, base);
}

static inline void sock_queue(struct list *list, struct list *node)
{
    if (list_empty(node)) {
        list_append(list, node);
    }
}

/* The first n octets of those pieces, which it may shorten. */
static inline void sock_captured(struct sock_stream *s, bool sent, struct iovec *v, size_t n)
{
    if (s->capture != NULL) {
        uint32_t cnt = 0;
        while (n > 0) {
            v[cnt].iov_len = v[cnt].iov_len < n ? v[cnt].iov_len : n;
            n -= v[cnt++].iov_len;
        }
        capture_tcp_data(s->capture, sent, v, cnt);
    }
}

static inline void sock_captured_end(struct sock_stream *s, bool sent, bool reset)
{
    if (s->capture != NULL) {
        capture_tcp_end(s->capture, sent, reset);
    }
}

/* sock_net.c */
void sock_starved(struct sock_net *net); /* something is to be tried again after a while */
/* The same, said in the log, though not every time. */
void sock_starved_of(struct sock_net *net, const char *what, int err);

/* sock_setup.c: how streams begin */
void sock_addr_unmap(union net_addr *a);                    /* ::ffff:a.b.c.d becomes a.b.c.d */
int sock_addr_parse(const char *text, union net_addr *out); /* -EINVAL, -ENODEV */
int sock_options(const struct sock_net *net, int fd, int family);
int sock_bind(int fd, const union net_addr *at);
int sock_listen(struct net *net, const struct sockaddr *addr, int backlog,
                struct net_listener **out);
void sock_listener_addr(const struct net_listener *l, struct sockaddr_storage *out);
void sock_listener_close(struct net_listener *l);
struct net_stream *sock_accept(struct net_listener *l);
int sock_connect(struct net *net, const struct sockaddr *local, const struct sockaddr *remote,
                 struct net_stream **out);

/* sock_stream.c: how they live and end */
struct sock_stream *sock_stream_new(struct sock_net *net);
void sock_stream_free(struct sock_stream *s);
int sock_stream_attach(struct sock_stream *s, int fd); /* takes fd if it succeeds */
void sock_stream_up(struct sock_stream *s, bool connected);
void sock_stream_event(struct sock_stream *s, uint32_t events); /* of epoll */
void sock_stream_end(struct sock_stream *s, int error);         /* may free an orphan */
bool sock_stream_is_over(struct sock_stream *s);                /* and then it has ended */
int sock_connect_error(int error);                              /* as net.h names it */
int sock_stream_error(struct sock_stream *s);                   /* why it failed; 0: it has not */
void sock_stream_timer(struct sock_stream *s);
void sock_stream_deadline(struct sock_stream *s, struct list *list, uint32_t ms);
void sock_look_at_emss(struct sock_stream *s);
bool sock_orphan_done(struct sock_stream *s); /* and then it is freed */
void sock_shutdown(struct net_stream *s);
void sock_stream_close(struct net_stream *s, bool abort);

/* sock_rx.c */
uint32_t sock_rx_turn(struct sock_net *net);
void sock_rx_settle(struct sock_net *net); /* buffers that are not needed go back */
void sock_rx_drop(struct sock_stream *s);
uint32_t sock_rx_peek(struct net_stream *s, struct span *v, uint32_t max);
void sock_rx_consume(struct net_stream *s, uint32_t n);
void sock_rings_free(struct sock_net *net);

/* sock_tx.c */
uint8_t *sock_tx_reserve(struct net_stream *s, uint32_t n);
void sock_tx_commit(struct net_stream *s, uint32_t n, uint32_t unit);
bool sock_tx_lend(struct net_stream *s, const void *p, uint32_t n);
uint32_t sock_tx_room(struct net_stream *s);
void sock_tx_unlend(struct net_stream *s, const void *p, uint64_t n);
bool sock_tx_unlend_all(struct sock_stream *s);
bool sock_tx_pending(const struct sock_stream *s);
void sock_tx_flush(struct sock_stream *s); /* may free an orphan */
void sock_tx_tell_room(struct sock_stream *s);
void sock_tx_drop(struct sock_stream *s);
void sock_outs_free(struct sock_net *net);

#endif
