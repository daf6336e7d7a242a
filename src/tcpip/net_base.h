/* SPDX-License-Identifier: MIT */
/* What every provider of streams (lwIP, the kernel's sockets) begins its objects with, and the
 * functions by which net.c reaches it. */
#ifndef UIW_TCPIP_NET_BASE_H
#define UIW_TCPIP_NET_BASE_H

#include "base/list.h"
#include "tcpip/net.h"

/* What net_next() shows. */
struct net_news {
    struct list node; /* on ready or later of the net */
    unsigned events;
    bool listener;
};

union net_addr {
    struct sockaddr sa;
    struct sockaddr_in in4;
    struct sockaddr_in6 in6;
};

/* The contracts are those of net.h. What takes a net takes one of its own. */
struct net_ops {
    void (*close)(struct net *net);
    void (*abandon)(struct net *net);
    uint32_t (*mtu)(const struct net *net);
    uint32_t (*turn)(struct net *net);
    void (*flush)(struct net *net);
    int (*fd)(const struct net *net);
    bool (*sleep)(struct net *net);
    uint32_t (*rest_us)(struct net *net); /* NULL: never */
    void (*woken)(struct net *net);
    bool (*untold)(const struct net *net); /* NULL: never */
    int (*timeout_ms)(const struct net *net);
    int (*listen)(struct net *net, const struct sockaddr *addr, int backlog,
                  struct net_listener **out);
    void (*listener_addr)(const struct net_listener *l, struct sockaddr_storage *out);
    void (*listener_close)(struct net_listener *l);
    struct net_stream *(*accept)(struct net_listener *l);
    int (*connect)(struct net *net, const struct sockaddr *local, const struct sockaddr *remote,
                   struct net_stream **out);
    uint32_t (*rx_peek)(struct net_stream *s, struct span *v, uint32_t max);
    void (*rx_consume)(struct net_stream *s, uint32_t n);
    uint8_t *(*tx_reserve)(struct net_stream *s, uint32_t n);
    void (*tx_commit)(struct net_stream *s, uint32_t n, uint32_t unit);
    bool (*tx_lend)(struct net_stream *s, const void *p, uint32_t n);
    uint32_t (*tx_room)(struct net_stream *s);
    void (*tx_unlend)(struct net_stream *s, const void *p, uint64_t n);
    bool (*peer_behind)(const struct net_stream *s); /* NULL: never */
    void (*shutdown)(struct net_stream *s);
    void (*stream_close)(struct net_stream *s, bool abort);
};

struct net {
    const struct net_ops *ops;
    struct list ready, later;
    bool gone; /* see net_gone() */
};

struct net_listener {
    struct net *net;
    struct net_news news;
    void *user;
};

struct net_stream {
    struct net *net;
    struct net_news news;
    void *user;
    union net_addr local, remote;
    int error; /* why it ended, negative errno */
    uint32_t emss;
    uint32_t rx_queued;
    uint64_t tx_queued, tx_acked;
};

void net_init(struct net *net, const struct net_ops *ops);
void net_listener_init(struct net_listener *l, struct net *net);
void net_stream_init(struct net_stream *s, struct net *net);

/* Streams and listeners with news; a round of net_next() shows each one once. */
void net_tell(struct net *net, struct net_news *n, unsigned events);
void net_forget(struct net_news *n);

/* The clock of net_now_ms(), but fine and not for free; us. */
uint64_t net_now_us(void);

const char *net_kind_name(enum net_kind kind);

/* The providers. The configuration was looked at by net_open(). */
int lw_open(const struct net_cfg *cfg, struct net **out, char err[NET_ERR_TEXT]);
int sock_open(const struct net_cfg *cfg, struct net **out, char err[NET_ERR_TEXT]);

#endif
