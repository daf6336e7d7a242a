/* SPDX-License-Identifier: MIT */
/* The face of this folder: what all providers of streams have in common, and the way to each. */
#include "tcpip/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "tcpip/net_base.h"

static const char *const kind_names[] = {
    [NET_TAP] = "tap",   [NET_SHM] = "shm",   [NET_PAIR] = "pair",
    [NET_PCAP] = "pcap", [NET_SOCK] = "sock",
};

const char *net_kind_name(enum net_kind kind)
{
    return kind_names[kind];
}

bool net_kind_shares_loop(enum net_kind kind)
{
    return kind != NET_SOCK; /* all others run over lwIP */
}

/* --- opening --- */

static int config_fault(const struct net_cfg *cfg, char err[NET_ERR_TEXT])
{
    const char *what = NULL;
    if ((unsigned)cfg->kind >= ARRAY_LEN(kind_names)) {
        snprintf(err, NET_ERR_TEXT, "net: unknown kind of link %u", (unsigned)cfg->kind);
        return -EINVAL;
    }
    bool sock = cfg->kind == NET_SOCK;
    if (memchr(cfg->name, 0, sizeof cfg->name) == NULL || (cfg->name[0] == '\0' && !sock)) {
        what = "a name is missing";
    } else if (!sock && cfg->ip.s_addr == INADDR_ANY && IN6_IS_ADDR_UNSPECIFIED(&cfg->ip6)) {
        what = "an address is missing";
    } else if (cfg->ip.s_addr == INADDR_BROADCAST || IN_MULTICAST(ntohl(cfg->ip.s_addr)) ||
               IN6_IS_ADDR_MULTICAST(&cfg->ip6) || (!sock && IN6_IS_ADDR_LOOPBACK(&cfg->ip6)) ||
               IN6_IS_ADDR_V4MAPPED(&cfg->ip6)) {
        what = "the address is no host address";
    } else if (cfg->prefix6 != 0 && (cfg->prefix6 < 64 || cfg->prefix6 > 128)) {
        what = "the prefix of the IPv6 address must be from 64 to 128";
    } else if (cfg->prefix > 30) {
        what = "the prefix of the address must be from 1 to 30";
    } else if ((cfg->mac[0] & 1) != 0) {
        what = "the MAC address is a group address";
    } else if (cfg->mtu != 0 && (cfg->mtu < 576 || cfg->mtu > 65535)) {
        what = "the MTU must be from 576 to 65535";
    } else if (cfg->vlan > 4094 ||
               (cfg->vlan != 0 && cfg->kind != NET_TAP && cfg->kind != NET_PCAP)) {
        what = "a VLAN must be from 1 to 4094, on TAP or pcap";
    }
    if (what == NULL) {
        return 0;
    }
    snprintf(err, NET_ERR_TEXT, "%s %.80s: %s", net_kind_name(cfg->kind), cfg->name, what);
    return -EINVAL;
}

int net_open(const struct net_cfg *cfg, struct net **out, char err[NET_ERR_TEXT])
{
    int r = config_fault(cfg, err);
    if (r != 0) {
        return r;
    }
    return cfg->kind == NET_SOCK ? sock_open(cfg, out, err) : lw_open(cfg, out, err);
}

/* --- what the objects of all providers begin with --- */

void net_init(struct net *net, const struct net_ops *ops)
{
    net->ops = ops;
    list_init(&net->ready);
    list_init(&net->later);
}

void net_listener_init(struct net_listener *l, struct net *net)
{
    l->net = net;
    list_init(&l->news.node);
    l->news.listener = true;
}

void net_stream_init(struct net_stream *s, struct net *net)
{
    s->net = net;
    list_init(&s->news.node);
}

/* --- nets --- */

void net_close(struct net *net)
{
    net->ops->close(net);
}

void net_abandon(struct net *net)
{
    net->ops->abandon(net);
}

uint32_t net_mtu(const struct net *net)
{
    return net->ops->mtu(net);
}

bool net_gone(const struct net *net)
{
    return net->gone;
}

uint32_t net_turn(struct net *net)
{
    return net->ops->turn(net);
}

void net_flush(struct net *net)
{
    net->ops->flush(net);
}

int net_fd(const struct net *net)
{
    return net->ops->fd(net);
}

uint32_t net_rest_us(struct net *net)
{
    return net->ops->rest_us != NULL ? net->ops->rest_us(net) : 0;
}

bool net_sleep(struct net *net)
{
    return list_empty(&net->ready) && list_empty(&net->later) && net->ops->sleep(net);
}

void net_woken(struct net *net)
{
    net->ops->woken(net);
}

bool net_untold(const struct net *net)
{
    return net->ops->untold != NULL && net->ops->untold(net);
}

int net_timeout_ms(const struct net *net)
{
    return net->ops->timeout_ms(net);
}

/* --- listeners --- */

int net_listen(struct net *net, const struct sockaddr *addr, int backlog, void *user,
               struct net_listener **out)
{
    int r = net->ops->listen(net, addr, backlog, out);
    if (r == 0) {
        (*out)->user = user;
    }
    return r;
}

void net_listener_addr(const struct net_listener *l, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    l->net->ops->listener_addr(l, out);
}

void net_listener_close(struct net_listener *l)
{
    l->net->ops->listener_close(l);
}

struct net_stream *net_accept(struct net_listener *l)
{
    return l->net->ops->accept(l);
}

/* --- streams --- */

int net_connect(struct net *net, const struct sockaddr *local, const struct sockaddr *remote,
                void *user, struct net_stream **out)
{
    int r = net->ops->connect(net, local, remote, out);
    if (r == 0) {
        (*out)->user = user;
    }
    return r;
}

void net_stream_set_user(struct net_stream *s, void *user)
{
    s->user = user;
}

void net_stream_local(const struct net_stream *s, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    memcpy(out, &s->local, sizeof s->local);
}

void net_stream_remote(const struct net_stream *s, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    memcpy(out, &s->remote, sizeof s->remote);
}

uint32_t net_emss(const struct net_stream *s)
{
    return s->emss;
}

int net_error(const struct net_stream *s)
{
    return s->error;
}

uint32_t net_rx_peek(struct net_stream *s, struct span *v, uint32_t max)
{
    return s->net->ops->rx_peek(s, v, max);
}

uint32_t net_rx_queued(const struct net_stream *s)
{
    return s->rx_queued;
}

void net_rx_consume(struct net_stream *s, uint32_t n)
{
    s->net->ops->rx_consume(s, n);
}

uint8_t *net_tx_reserve(struct net_stream *s, uint32_t n)
{
    return s->net->ops->tx_reserve(s, n);
}

void net_tx_commit(struct net_stream *s, uint32_t n)
{
    s->net->ops->tx_commit(s, n, n);
}

void net_tx_commit_units(struct net_stream *s, uint32_t n, uint32_t unit)
{
    s->net->ops->tx_commit(s, n, unit);
}

bool net_tx_lend(struct net_stream *s, const void *p, uint32_t n)
{
    return s->net->ops->tx_lend(s, p, n);
}

uint32_t net_tx_room(struct net_stream *s)
{
    return s->net->ops->tx_room(s);
}

uint64_t net_tx_queued(const struct net_stream *s)
{
    return s->tx_queued;
}

uint64_t net_tx_acked(const struct net_stream *s)
{
    return s->tx_acked;
}

bool net_peer_behind(const struct net_stream *s)
{
    return s->net->ops->peer_behind != NULL && s->net->ops->peer_behind(s);
}

void net_tx_unlend(struct net_stream *s, const void *p, uint64_t n)
{
    s->net->ops->tx_unlend(s, p, n);
}

void net_shutdown(struct net_stream *s)
{
    s->net->ops->shutdown(s);
}

void net_stream_close(struct net_stream *s, bool abort)
{
    s->net->ops->stream_close(s, abort);
}
