/* SPDX-License-Identifier: MIT */
/* Listeners, and how streams come to be: accepted or connected. */
#include <errno.h>
#include <stdlib.h>

#include "base/random.h"
#include "tcpip/lw.h"

enum { BACKLOG_MAX = 255, PORT_FIRST = 49152 };

/* --- addresses --- */

void lw_addr_fill(union net_addr *addr, const ip_addr_t *ip, uint16_t port)
{
    addr->in4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
    addr->in4.sin_addr.s_addr = ip4_addr_get_u32(ip_2_ip4(ip));
}

static int addr_get(const struct sockaddr *addr, struct sockaddr_in *out)
{
    if (addr->sa_family != AF_INET) {
        return -EAFNOSUPPORT;
    }
    memcpy(out, addr, sizeof *out);
    return 0;
}

/* A local address: any is ours, too. NULL stands for any. */
static int addr_local(const struct lw_net *net, const struct sockaddr *addr,
                      struct sockaddr_in *out)
{
    in_addr_t mine = netif_ip4_addr(&net->nif)->addr;
    *out = (struct sockaddr_in){.sin_family = AF_INET};
    if (addr != NULL) {
        int r = addr_get(addr, out);
        if (r != 0) {
            return r;
        }
    }
    if (out->sin_addr.s_addr != INADDR_ANY && out->sin_addr.s_addr != mine) {
        return -EADDRNOTAVAIL;
    }
    out->sin_addr.s_addr = mine;
    return 0;
}

/* --- pcbs --- */

static bool port_used(const struct tcp_pcb *pcb, const struct lw_net *net, uint16_t port)
{
    for (; pcb != NULL; pcb = pcb->next) {
        if (pcb->local_port == port &&
            ip4_addr_eq(ip_2_ip4(&pcb->local_ip), netif_ip4_addr(&net->nif))) {
            return true;
        }
    }
    return false;
}

/* RFC 6056 sec 3.3.3: hard to predict from outside, yet in turn for one destination, so that a port
 * comes again as late as can be (its last connection may be in TIME-WAIT at the peer). 0: none free. */
static uint16_t port_choose(const struct lw_net *net, const struct sockaddr_in *remote)
{
    static uint32_t turn;
    enum { SPAN = 65536 - PORT_FIRST };
    uint8_t key[10];
    put_be32(key, ip4_addr_get_u32(netif_ip4_addr(&net->nif)));
    put_be32(key + 4, remote != NULL ? remote->sin_addr.s_addr : 0);
    put_be16(key + 8, remote != NULL ? remote->sin_port : 0);
    uint64_t offset = random_keyed_hash(key, sizeof key);
    for (unsigned i = 0; i < SPAN; i++) {
        uint16_t port = (uint16_t)(PORT_FIRST + (offset + turn++) % SPAN);
        if (!port_used(tcp_listen_pcbs.pcbs, net, port) && !port_used(tcp_bound_pcbs, net, port) &&
            !port_used(tcp_active_pcbs, net, port) && !port_used(tcp_tw_pcbs, net, port)) {
            return port;
        }
    }
    return 0;
}

/* Bound to the address and to the interface, so that several nets in one process stay apart. */
static int pcb_new(struct lw_net *net, uint16_t port, const struct sockaddr_in *remote,
                   struct tcp_pcb **out)
{
    if (port == 0 && (port = port_choose(net, remote)) == 0) {
        return -EADDRINUSE;
    }
    struct tcp_pcb *pcb = tcp_new_ip_type(IPADDR_TYPE_V4);
    if (pcb == NULL) {
        return -ENOMEM;
    }
    ip_set_option(pcb, SOF_REUSEADDR);
    tcp_bind_netif(pcb, &net->nif);
    ip_addr_t ip;
    ip_addr_copy_from_ip4(ip, *netif_ip4_addr(&net->nif));
    if (tcp_bind(pcb, &ip, port) != ERR_OK) {
        tcp_abort(pcb);
        return -EADDRINUSE;
    }
    *out = pcb;
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

static int listen_start(struct lw_listener *l, uint16_t port, int backlog)
{
    struct tcp_pcb *pcb;
    int r = pcb_new(l->net, port, NULL, &pcb);
    if (r != 0) {
        return r;
    }
    uint8_t depth = backlog < 1 ? 1 : backlog > BACKLOG_MAX ? BACKLOG_MAX : (uint8_t)backlog;
    err_t err = ERR_OK;
    l->port = pcb->local_port;
    l->pcb = tcp_listen_with_backlog_and_err(pcb, depth, &err);
    if (l->pcb == NULL) {
        tcp_abort(pcb);
        return err == ERR_USE ? -EADDRINUSE : -ENOMEM;
    }
    tcp_arg(l->pcb, l);
    tcp_accept(l->pcb, on_accept);
    return 0;
}

int lw_listen(struct net *base, const struct sockaddr *addr, int backlog, struct net_listener **out)
{
    struct lw_net *net = lw_net_of(base);
    struct sockaddr_in sin;
    int r = addr_local(net, addr, &sin);
    if (r != 0) {
        return r;
    }
    struct lw_listener *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return -ENOMEM;
    }
    net_listener_init(&l->base, &net->base);
    l->net = net;
    l->ip = sin.sin_addr;
    r = listen_start(l, ntohs(sin.sin_port), backlog);
    if (r != 0) {
        free(l);
        return r;
    }
    list_init(&l->waiting);
    list_append(&net->listeners, &l->node);
    *out = &l->base;
    return 0;
}

void lw_listener_addr(const struct net_listener *listener, struct sockaddr_storage *out)
{
    const struct lw_listener *l = CONTAINER_OF(listener, const struct lw_listener, base);
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(l->port), .sin_addr = l->ip};
    memset(out, 0, sizeof *out);
    memcpy(out, &sin, sizeof sin);
}

void lw_listener_close(struct net_listener *listener)
{
    struct lw_listener *l = CONTAINER_OF(listener, struct lw_listener, base);
    while (!list_empty(&l->waiting)) {
        lw_stream_close(&CONTAINER_OF(l->waiting.next, struct lw_stream, wait)->base, true);
    }
    tcp_close(l->pcb); /* those still in their handshake are reset when it ends */
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

static err_t on_connected(void *arg, struct tcp_pcb *pcb, err_t err)
{
    (void)err;
    struct lw_stream *s = arg;
    lw_stream_attach(s, pcb); /* again: now the peer's MSS is known */
    s->up = true;
    list_remove(&s->timed);
    net_tell(&s->net->base, &s->base.news, NET_EV_UP);
    lw_stream_dirty(s);
    return ERR_OK;
}

static bool reachable(const struct lw_net *net, struct in_addr to)
{
    ip4_addr_t ip = {to.s_addr};
    const ip4_addr_t *mine = netif_ip4_addr(&net->nif);
    if (ip4_addr_isany(&ip) || ip4_addr_isbroadcast(&ip, &net->nif) || ip4_addr_ismulticast(&ip)) {
        return false;
    }
    return ip4_addr_net_eq(&ip, mine, netif_ip4_netmask(&net->nif)) ||
           !ip4_addr_isany(netif_ip4_gw(&net->nif));
}

/* A connection that cannot even be tried fails like one that was: by its event. */
static int connect_start(struct lw_stream *s, uint16_t port)
{
    if (!reachable(s->net, s->base.remote.in4.sin_addr)) {
        lw_stream_fail(s, -EHOSTUNREACH);
        return 0;
    }
    struct tcp_pcb *pcb;
    int r = pcb_new(s->net, port, &s->base.remote.in4, &pcb);
    if (r != 0) {
        return r;
    }
    ip_addr_t to = IPADDR4_INIT(s->base.remote.in4.sin_addr.s_addr);
    struct sockaddr_in remote = s->base.remote.in4;
    lw_stream_attach(s, pcb);
    s->base.remote.in4 = remote;
    s->net->out_pcb = NULL;
    err_t err = tcp_connect(pcb, &to, ntohs(remote.sin_port), on_connected);
    if (err != ERR_OK) {
        lw_stream_detach(s);
        tcp_abort(pcb);
        return err == ERR_USE ? -EADDRINUSE : err == ERR_MEM ? -ENOMEM : -EINVAL;
    }
    lw_stream_deadline(s, net_now_ms() + LW_CONNECT_MS);
    return 0;
}

int lw_connect(struct net *base, const struct sockaddr *local, const struct sockaddr *remote,
               struct net_stream **out)
{
    struct lw_net *net = lw_net_of(base);
    struct sockaddr_in from, to;
    int r = addr_local(net, local, &from);
    if (r == 0) {
        r = addr_get(remote, &to);
    }
    if (r == 0 && to.sin_port == 0) {
        r = -EINVAL;
    }
    if (r != 0) {
        return r;
    }
    struct lw_stream *s = lw_stream_new(net);
    if (s == NULL) {
        return -ENOMEM;
    }
    s->base.remote.in4 = to;
    s->base.local.in4 = from;
    r = connect_start(s, ntohs(from.sin_port));
    if (r != 0) {
        lw_stream_free(s);
        return r;
    }
    *out = &s->base;
    return 0;
}
