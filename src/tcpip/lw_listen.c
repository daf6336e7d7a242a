/* SPDX-License-Identifier: MIT */
/* Listeners, and how streams come to be: accepted or connected. */
#include <errno.h>
#include <stdlib.h>

#include "base/random.h"
#include "tcpip/lw.h"
#include "tcpip/net_test.h"

enum { BACKLOG_MAX = 255, PORT_FIRST = 49152, PORT_TRIES = 16 };

/* --- pcbs --- */

static bool listened_at(const ip_addr_t *local, uint16_t port)
{
    const struct tcp_pcb_listen *l = tcp_listen_pcbs.listen_pcbs;
    while (l != NULL && (l->local_port != port || !ip_addr_eq(&l->local_ip, local))) {
        l = l->next;
    }
    return l != NULL;
}

/* For connections to that address, or for a listener. */
static bool port_free(const struct lw_net *net, const struct lw_addr *local,
                      const struct lw_addr *remote)
{
    return !listened_at(&local->ip, local->port) &&
           !(remote != NULL ? lw_table_has(net, local, remote) : lw_table_port_used(local));
}

/* RFC 6056 sec 3.3.3: hard to predict from outside, yet in turn for one destination, so that a port
 * comes again as late as can be (its last connection may be in TIME-WAIT at the peer). remote may be
 * NULL. 0: none free. */
static uint16_t port_choose(const struct lw_net *net, const ip_addr_t *local,
                            const struct lw_addr *remote)
{
    static uint32_t turn;
    enum { SPAN = 65536 - PORT_FIRST };
    uint8_t key[LW_KEY_MAX];
    uint32_t n = lw_addr_key(key, local, 0);
    if (remote != NULL) {
        n += lw_addr_key(key + n, &remote->ip, remote->port);
    }
    uint64_t offset = random_keyed_hash(key, n);
    struct lw_addr at = {.ip = *local};
    for (unsigned i = 0; i < SPAN; i++) {
        at.port = (uint16_t)(PORT_FIRST + (offset + turn++) % SPAN);
        if (port_free(net, &at, remote)) {
            return at.port;
        }
    }
    return 0;
}

/* Bound to the address and to the interface, so that several nets in one process stay apart. */
static int pcb_new(struct lw_net *net, const struct lw_addr *local, struct tcp_pcb **out)
{
    struct tcp_pcb *pcb = tcp_new_ip_type(IP_GET_TYPE(&local->ip));
    if (pcb == NULL) {
        return -ENOMEM;
    }
    tcp_bind_netif(pcb, &net->nif);
    *out = pcb;
    return 0;
}

static int pcb_bind(struct tcp_pcb *pcb, const struct lw_addr *local)
{
    ip_set_option(pcb, SOF_REUSEADDR);
    if (local->port == 0 || tcp_bind(pcb, &local->ip, local->port) != ERR_OK) {
        tcp_abort(pcb);
        return -EADDRINUSE;
    }
    return 0;
}

/* --- listening --- */

/* The connection is established; the application will have to take it. */
static err_t on_accept(void *arg, struct tcp_pcb *pcb, err_t err)
{
    struct lw_listener *l = arg;
    if (err != ERR_OK || pcb == NULL) {
        return ERR_VAL; /* lwIP had no memory for a pcb: the peer will try again */
    }
    struct lw_stream *s = lw_stream_new(l->net);
    if (s == NULL) {
        return ERR_MEM; /* lwIP resets the connection */
    }
    lw_stream_attach(s, pcb);
    s->up = true;
    s->listener = l;
    tcp_backlog_delayed(pcb);
    list_append(&l->waiting, &s->wait);
    lw_stream_dirty(s);
    net_tell(&l->net->base, &l->base.news, NET_EV_ACCEPT);
    return ERR_OK;
}

static int listen_at(struct lw_listener *l, const struct lw_addr *at, int backlog,
                     struct tcp_pcb **out)
{
    struct tcp_pcb *pcb;
    int r = pcb_new(l->net, at, &pcb);
    if (r == 0) {
        r = pcb_bind(pcb, at);
    }
    if (r != 0) {
        return r;
    }
    uint8_t depth = backlog < 1 ? 1 : backlog > BACKLOG_MAX ? BACKLOG_MAX : (uint8_t)backlog;
    err_t err = ERR_OK;
    *out = tcp_listen_with_backlog_and_err(pcb, depth, &err);
    if (*out == NULL) {
        tcp_abort(pcb);
        return err == ERR_USE ? -EADDRINUSE : -ENOMEM;
    }
    tcp_arg(*out, l);
    tcp_accept(*out, on_accept);
    return 0;
}

static void listen_stop(struct lw_listener *l)
{
    for (unsigned i = 0; i < ARRAY_LEN(l->pcb) && l->pcb[i] != NULL; i++) {
        lw_table_forget_listener(l->pcb[i]);
        tcp_close(l->pcb[i]); /* those still in their handshake are reset when it ends */
        l->pcb[i] = NULL;
    }
}

/* At all of n addresses, on one port. */
static int listen_all(struct lw_listener *l, const ip_addr_t **ip, unsigned n, uint16_t port)
{
    for (unsigned i = 0; i < n; i++) {
        struct lw_addr at = {*ip[i], port};
        int r = listen_at(l, &at, l->backlog, &l->pcb[i]);
        if (r != 0) {
            l->pcb[i] = NULL;
            listen_stop(l);
            return r;
        }
    }
    return 0;
}

/* A port chosen for the first address may be taken at another. */
static int listen_somewhere(struct lw_listener *l, const ip_addr_t **ip, unsigned n, uint16_t *port)
{
    int r = -EADDRINUSE;
    for (unsigned tries = 0; tries < PORT_TRIES && r == -EADDRINUSE; tries++) {
        *port = port_choose(l->net, ip[0], NULL);
        r = listen_all(l, ip, n, *port);
    }
    return r;
}

/* The addresses that a given one stands for; returns how many. */
static unsigned addresses(struct lw_net *net, const ip_addr_t *given, const ip_addr_t **out)
{
    if (!ip_addr_isany(given)) {
        out[0] = given;
        return lw_mine(net, given) ? 1 : 0;
    }
    if (IP_IS_V6(given)) {
        return lw_addrs(net, out);
    }
    out[0] = netif_ip_addr4(&net->nif);
    return ip4_addr_isany(netif_ip4_addr(&net->nif)) ? 0 : 1;
}

static int listen_start(struct lw_listener *l, const struct lw_addr *at)
{
    const ip_addr_t *ip[ARRAY_LEN(l->pcb)];
    unsigned n = addresses(l->net, &at->ip, ip);
    if (n == 0) {
        return -EADDRNOTAVAIL;
    }
    uint16_t port = at->port;
    int r = port != 0 ? listen_all(l, ip, n, port) : listen_somewhere(l, ip, n, &port);
    if (r == 0) {
        lw_addr_fill(&l->addr, IP_IS_V6(&at->ip) ? &at->ip : ip[0], port);
    }
    return r;
}

int lw_listen(struct net *base, const struct sockaddr *addr, int backlog, struct net_listener **out)
{
    struct lw_net *net = lw_net_of(base);
    struct lw_addr at;
    int r = lw_addr_get(net, addr, &at);
    if (r != 0) {
        return r;
    }
    struct lw_listener *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return -ENOMEM;
    }
    net_listener_init(&l->base, &net->base);
    l->net = net;
    l->backlog = backlog;
    list_init(&l->waiting);
    r = listen_start(l, &at);
    if (r != 0) {
        free(l);
        return r;
    }
    list_append(&net->listeners, &l->node);
    *out = &l->base;
    return 0;
}

void lw_listener_addr(const struct net_listener *listener, struct sockaddr_storage *out)
{
    const struct lw_listener *l = CONTAINER_OF(listener, const struct lw_listener, base);
    memset(out, 0, sizeof *out);
    memcpy(out, &l->addr, sizeof l->addr);
}

void lw_listener_close(struct net_listener *listener)
{
    struct lw_listener *l = CONTAINER_OF(listener, struct lw_listener, base);
    while (!list_empty(&l->waiting)) {
        lw_stream_close(&CONTAINER_OF(l->waiting.next, struct lw_stream, wait)->base, true);
    }
    listen_stop(l);
    list_remove(&l->node);
    net_forget(&l->base.news);
    free(l);
}

struct net_stream *lw_accept(struct net_listener *listener)
{
    struct lw_listener *l = CONTAINER_OF(listener, struct lw_listener, base);
    struct list *node = list_shift(&l->waiting);
    if (node == NULL) {
        return NULL;
    }
    struct lw_stream *s = CONTAINER_OF(node, struct lw_stream, wait);
    s->listener = NULL;
    if (s->pcb != NULL) {
        tcp_backlog_accepted(s->pcb);
    }
    if (s->base.news.events != 0) {
        net_tell(&s->net->base, &s->base.news, s->base.news.events);
    }
    return &s->base;
}

/* --- connecting --- */

static uint32_t test_window;

void net_test_window(uint32_t octets)
{
    test_window = octets;
}

static err_t on_connected(void *arg, struct tcp_pcb *pcb, err_t err)
{
    (void)err;
    struct lw_stream *s = arg;
    lw_stream_attach(s, pcb); /* again: now the peer's MSS is known */
    if (test_window != 0) {
        pcb->rcv_wnd = pcb->rcv_ann_wnd = test_window; /* the peer was told of none yet */
    }
    s->up = true;
    list_remove(&s->timed);
    net_tell(&s->net->base, &s->base.news, NET_EV_UP);
    lw_stream_dirty(s);
    return ERR_OK;
}

/* A pcb for it, in the table. lwIP need not bind it, nor look whether it is the only one: the table knows. */
static int connect_pcb(struct lw_net *net, const struct lw_addr *from, const struct lw_addr *to,
                       struct tcp_pcb **out)
{
    struct tcp_pcb *pcb;
    uint16_t port = from->port != 0 ? from->port : port_choose(net, &from->ip, to);
    if (port == 0 || lw_table_has(net, &(struct lw_addr){from->ip, port}, to)) {
        return -EADDRINUSE;
    }
    int r = pcb_new(net, from, &pcb);
    if (r != 0) {
        return r;
    }
    ip_addr_copy(pcb->local_ip, from->ip);
    ip_addr_copy(pcb->remote_ip, to->ip);
    pcb->local_port = port;
    pcb->remote_port = to->port;
    if (!lw_table_add(pcb)) {
        tcp_abort(pcb);
        return -ENOMEM;
    }
    *out = pcb;
    return 0;
}

/* A connection that cannot even be tried fails like one that was: by its event. */
static int connect_start(struct lw_stream *s, const struct lw_addr *from, const struct lw_addr *to)
{
    if (!lw_reachable(s->net, &to->ip)) {
        lw_stream_fail(s, -EHOSTUNREACH);
        return 0;
    }
    struct tcp_pcb *pcb;
    int r = connect_pcb(s->net, from, to, &pcb);
    if (r != 0) {
        return r;
    }
    lw_stream_attach(s, pcb);
    s->net->out_pcb = NULL;
    err_t err = tcp_connect(pcb, &to->ip, to->port, on_connected);
    lw_table_take_back();
    if (err != ERR_OK) {
        lw_stream_detach(s);
        tcp_abort(pcb);
        return err == ERR_MEM ? -ENOMEM : -EINVAL;
    }
    ip_set_option(pcb,
                  SOF_REUSEADDR); /* what is left of it must not keep a listener from its port */
    lw_stream_deadline(s, net_now_ms() + LW_CONNECT_MS);
    return 0;
}

/* Both ends; what the program does not say of ours is filled in. */
static int connect_addrs(struct lw_net *net, const struct sockaddr *local,
                         const struct sockaddr *remote, struct lw_addr at[2])
{
    struct lw_addr *from = &at[0], *to = &at[1];
    int r = lw_addr_get(net, remote, to);
    if (r != 0) {
        return r;
    }
    const ip_addr_t *mine = lw_source(net, &to->ip);
    if (mine == NULL) {
        return -EAFNOSUPPORT;
    }
    *from = (struct lw_addr){.ip = *mine};
    if (local != NULL && (r = lw_addr_get(net, local, from)) != 0) {
        return r;
    }
    if (to->port == 0) {
        return -EINVAL;
    }
    if (ip_addr_isany(&from->ip)) {
        from->ip = *mine;
    } else if (!lw_mine(net, &from->ip)) {
        return -EADDRNOTAVAIL;
    }
    return IP_IS_V6(&from->ip) == IP_IS_V6(&to->ip) ? 0 : -EINVAL;
}

int lw_connect(struct net *base, const struct sockaddr *local, const struct sockaddr *remote,
               struct net_stream **out)
{
    struct lw_net *net = lw_net_of(base);
    struct lw_addr at[2];
    int r = connect_addrs(net, local, remote, at);
    if (r != 0) {
        return r;
    }
    struct lw_stream *s = lw_stream_new(net);
    if (s == NULL) {
        return -ENOMEM;
    }
    lw_addr_fill(&s->base.local, &at[0].ip, at[0].port);
    lw_addr_fill(&s->base.remote, &at[1].ip, at[1].port);
    r = connect_start(s, &at[0], &at[1]);
    if (r != 0) {
        lw_stream_free(s);
        return r;
    }
    *out = &s->base;
    return 0;
}
