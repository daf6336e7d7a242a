/* SPDX-License-Identifier: MIT */
/* Streams of net.h: a TAP device, or the in-memory wire of the tests. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>

#include "../address.h"
#include "tcpip/net.h"
#include "transport.h"

enum { MAX_CONNS = 64, PIECES = 64, WRITE_MAX = 16384 };

struct tr_conn {
    struct net_transport *t;
    struct net_stream *s; /* NULL: gone */
    enum tr_state state;
};

struct net_transport {
    struct transport base;
    struct net *net;
    struct net_listener *listener;
    struct transport_guest guest;
    unsigned cnt; /* connections of ours */
};

static struct net_transport *of(struct transport *t)
{
    return (struct net_transport *)t;
}

static struct tr_conn *conn_of(struct net_transport *t, enum tr_state state)
{
    struct tr_conn *c = t->cnt < MAX_CONNS ? calloc(1, sizeof *c) : NULL;
    if (c != NULL) {
        c->t = t;
        c->state = state;
        t->cnt++;
    }
    return c;
}

static struct tr_conn *net_dial(struct transport *base)
{
    struct net_transport *t = of(base);
    struct tr_conn *c = conn_of(t, TR_OPENING);
    if (c != NULL && net_connect(t->net, NULL, (struct sockaddr *)&base->peer, c, &c->s) != 0) {
        c->state = TR_FAILED;
        c->s = NULL;
    }
    net_flush(t->net);
    return c;
}

static bool net_listen_here(struct transport *base)
{
    struct net_transport *t = of(base);
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(base->my_port)};
    struct sockaddr_storage got;
    if (t->listener != NULL) {
        return true;
    }
    if (net_listen(t->net, (struct sockaddr *)&at, 16, NULL, &t->listener) != 0) {
        return false;
    }
    net_listener_addr(t->listener, &got);
    base->my_port = address_port(&got);
    return true;
}

static struct tr_conn *net_take(struct transport *base)
{
    struct net_transport *t = of(base);
    struct net_stream *s = t->listener != NULL ? net_accept(t->listener) : NULL;
    if (s == NULL) {
        return NULL;
    }
    struct tr_conn *c = conn_of(t, TR_OPEN);
    if (c == NULL) {
        net_stream_close(s, true);
        return NULL;
    }
    c->s = s;
    net_stream_set_user(s, c);
    net_stream_again(s, NET_EV_DATA);
    return c;
}

static uint32_t net_read(struct tr_conn *c, uint8_t *to, uint32_t max)
{
    struct span v[PIECES];
    uint32_t n = 0;
    uint32_t cnt = c->s != NULL ? net_rx_peek(c->s, v, PIECES) : 0;
    for (uint32_t i = 0; i < cnt && n < max; i++) {
        uint32_t k = min_u32(v[i].n, max - n);
        memcpy(to + n, v[i].p, k);
        n += k;
    }
    if (n > 0) {
        net_rx_consume(c->s, n);
        net_flush(c->t->net);
    }
    return n;
}

static uint32_t net_write(struct tr_conn *c, const uint8_t *p, uint32_t n)
{
    n = min_u32(n, WRITE_MAX);
    if (c->t->base.cut != 0) {
        n = min_u32(n, c->t->base.cut);
    }
    if (c->s == NULL || c->state > TR_FIN) {
        return n; /* as the kernel does with what nobody will read */
    }
    uint8_t *to = net_tx_reserve(c->s, n);
    if (to == NULL) {
        return 0;
    }
    memcpy(to, p, n);
    net_tx_commit(c->s, n);
    net_flush(c->t->net);
    return n;
}

static void net_fin(struct tr_conn *c)
{
    if (c->s != NULL) {
        net_shutdown(c->s);
        net_flush(c->t->net);
    }
}

static enum tr_state net_state(struct tr_conn *c)
{
    return c->state;
}

static uint32_t emss_of(struct tr_conn *c)
{
    return c->s != NULL ? net_emss(c->s) : 0;
}

static void net_drop(struct tr_conn *c, bool reset)
{
    struct net *net = c->t->net;
    if (c->s != NULL) {
        net_stream_close(c->s, reset);
    }
    c->t->cnt--;
    free(c);
    net_flush(net);
}

static void take_news(struct net_transport *t)
{
    for (;;) {
        struct net_ready r = net_next(t->net);
        if (r.events == 0) {
            return;
        }
        struct tr_conn *c = r.stream != NULL ? r.user : NULL;
        if (c == NULL) {
            continue;
        }
        if ((r.events & NET_EV_UP) != 0) {
            c->state = TR_OPEN;
            net_stream_local(c->s, &t->base.my);
        }
        if ((r.events & NET_EV_FIN) != 0 && c->state == TR_OPEN) {
            c->state = TR_FIN;
        }
        if ((r.events & NET_EV_CLOSED) != 0 && net_error(c->s) != 0) {
            c->state = c->state == TR_OPENING ? TR_FAILED : TR_RESET;
        }
    }
}

static void net_wait(struct net_transport *t, unsigned ms)
{
    int fd = net_fd(t->net), limit = net_timeout_ms(t->net);
    if (fd < 0 || ms == 0) {
        return;
    }
    if (net_sleep(t->net)) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        poll(&p, 1, limit >= 0 && limit < (int)ms ? limit : (int)ms);
    }
    net_woken(t->net);
}

static void net_turn_all(struct transport *base, unsigned ms)
{
    struct net_transport *t = of(base);
    bool busy = t->guest.turn != NULL && t->guest.turn(t->guest.arg);
    busy |= net_turn(t->net) > 0;
    take_news(t);
    net_flush(t->net);
    if (!busy && t->guest.idle != NULL) {
        t->guest.idle(t->guest.arg);
    } else if (!busy) {
        net_wait(t, ms);
    }
}

static uint64_t net_now(struct transport *base)
{
    (void)base;
    return net_now_ms();
}

static bool net_tune(struct transport *base, const char *knob, uint32_t value)
{
    struct net_transport *t = of(base);
    return t->guest.tune != NULL && t->guest.tune(t->guest.arg, knob, value);
}

static void net_close_all(struct transport *base)
{
    struct net_transport *t = of(base);
    if (t->listener != NULL) {
        net_listener_close(t->listener);
    }
    free(t);
}

struct transport *transport_net(struct net *net, const struct transport_guest *guest)
{
    static const struct transport_ops ops = {
        .dial = net_dial,
        .listen = net_listen_here,
        .accept = net_take,
        .read = net_read,
        .write = net_write,
        .fin = net_fin,
        .state = net_state,
        .emss = emss_of,
        .drop = net_drop,
        .turn = net_turn_all,
        .now = net_now,
        .tune = net_tune,
        .close = net_close_all,
    };
    struct net_transport *t = calloc(1, sizeof *t);
    if (t != NULL) {
        t->base.ops = &ops;
        t->net = net;
        if (guest != NULL) {
            t->guest = *guest;
        }
    }
    return t != NULL ? &t->base : NULL;
}
