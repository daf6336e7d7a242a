/* SPDX-License-Identifier: MIT */
/* Two nets on one wire in memory with a virtual clock, and peers that send and check a pattern. */
#ifndef UIW_TESTS_NET_TESTING_H
#define UIW_TESTS_NET_TESTING_H

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "family.h"
#include "tcpip/net_test.h"

/* What happened to a stream or listener, by its user pointer. */
struct seen {
    struct net_stream *s;
    struct net_listener *l;
    unsigned events; /* all so far */
    int error;
    /* traffic */
    uint64_t to_send, sent, received, bad;
    uint64_t want;  /* FIN after that many octets received and all sent; 0: never */
    uint32_t piece; /* octets per commit, 0: 3000 */
    bool lend;      /* send by reference, from lent_from */
    uint8_t *lent_from;
    bool hold; /* do not consume */
    bool shut;
};

struct wire_ends {
    struct net *a, *b;
    uint64_t steps;
};

static inline uint8_t pattern(uint64_t i)
{
    return (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16));
}

static inline void test_cfg_ip(struct net_cfg *cfg, const char *ip4)
{
    if (test_v6()) {
        cfg->ip6 = test_ip6(ip4);
    } else {
        assert_int_equal(inet_pton(AF_INET, ip4, &cfg->ip), 1);
    }
}

static inline struct net *open_pair(const char *ip, uint32_t mtu)
{
    struct net_cfg cfg = {.kind = NET_PAIR, .name = "w", .mtu = mtu};
    char err[NET_ERR_TEXT] = "";
    struct net *net = NULL;
    test_cfg_ip(&cfg, ip);
    if (net_open(&cfg, &net, err) != 0) {
        fail_msg("%s", err);
    }
    return net;
}

static inline struct wire_ends wire_open(uint32_t mtu)
{
    net_clock_virtual(1000);
    struct wire_ends w = {open_pair("198.18.0.1", mtu), open_pair("198.18.0.2", mtu), 0};
    return w;
}

static inline void wire_close(struct wire_ends *w)
{
    net_close(w->a);
    net_close(w->b);
    net_test_isn(false, 0);
    assert_int_equal(net_test_asserts(), 0);
}

static inline void send_pattern(struct seen *n)
{
    while (n->sent < n->to_send) {
        uint64_t left = n->to_send - n->sent;
        uint32_t k = n->piece != 0 ? n->piece : 3000;
        k = left < k ? (uint32_t)left : k;
        if (n->lend) {
            if (!net_tx_lend(n->s, n->lent_from + n->sent, k)) {
                return;
            }
        } else {
            uint8_t *p = net_tx_reserve(n->s, k);
            if (p == NULL) {
                return;
            }
            for (uint32_t i = 0; i < k; i++) {
                p[i] = pattern(n->sent + i);
            }
            net_tx_commit(n->s, k);
        }
        n->sent += k;
    }
}

static inline void take_pattern(struct seen *n)
{
    struct span v[256];
    uint32_t cnt, total;
    while (!n->hold && (cnt = net_rx_peek(n->s, v, 256)) > 0) {
        total = 0;
        for (uint32_t i = 0; i < cnt; i++) {
            for (uint32_t j = 0; j < v[i].n; j++) {
                n->bad += v[i].p[j] != pattern(n->received + total + j);
            }
            total += v[i].n;
        }
        n->received += total;
        net_rx_consume(n->s, total);
    }
}

static inline void handle(const struct net_ready *r)
{
    struct seen *n = r->user;
    assert_non_null(n);
    n->events |= r->events;
    if (r->listener != NULL) {
        return;
    }
    if (r->events & NET_EV_CLOSED) {
        n->error = net_error(r->stream);
    }
    if (r->events & (NET_EV_DATA | NET_EV_CLOSED)) {
        take_pattern(n);
    }
    if (r->events & (NET_EV_UP | NET_EV_ROOM)) {
        send_pattern(n);
    }
    if (n->want != 0 && n->received >= n->want && n->sent == n->to_send && !n->shut) {
        n->shut = true;
        net_shutdown(n->s);
    }
}

static inline uint32_t turn_one(struct net *net)
{
    uint32_t did = net_turn(net);
    for (;;) {
        struct net_ready r = net_next(net);
        if (r.events == 0) {
            break;
        }
        did++;
        handle(&r);
    }
    net_flush(net);
    return did;
}

/* Turns until 'done' is true or that many virtual ms have gone by. */
static inline bool run_until(struct wire_ends *w, bool (*done)(void *), void *arg, uint64_t ms)
{
    uint64_t end = net_now_ms() + ms;
    while (done == NULL || !done(arg)) {
        w->steps++;
        if (turn_one(w->a) + turn_one(w->b) > 0) {
            continue;
        }
        if (!net_sleep(w->a) || !net_sleep(w->b)) {
            continue;
        }
        if (net_now_ms() >= end) {
            return false;
        }
        int ta = net_timeout_ms(w->a), tb = net_timeout_ms(w->b);
        int t = ta < tb ? ta : tb;
        net_clock_advance(t > 0 ? (uint64_t)t : 1);
    }
    return true;
}

static inline void run_for(struct wire_ends *w, uint64_t ms)
{
    run_until(w, NULL, NULL, ms);
}

/* The same for one net on a real link and by the real clock. */
static inline bool wait_until(struct net *net, bool (*done)(void *), void *arg, uint64_t ms)
{
    uint64_t end = net_now_ms() + ms;
    while (!done(arg)) {
        if (turn_one(net) > 0) {
            continue;
        }
        if (net_now_ms() >= end) {
            return false;
        }
        if (net_sleep(net)) {
            struct pollfd p = {net_fd(net), POLLIN, 0};
            (void)poll(&p, 1, net_timeout_ms(net));
        }
        net_woken(net);
    }
    return true;
}

static inline bool has_event(void *arg)
{
    struct seen *n = arg;
    return (n->events & (NET_EV_UP | NET_EV_CLOSED)) != 0;
}

static inline bool can_accept(void *arg)
{
    struct seen *n = arg;
    return (n->events & NET_EV_ACCEPT) != 0;
}

static inline bool was_closed(void *arg)
{
    struct seen *n = arg;
    return (n->events & NET_EV_CLOSED) != 0;
}

/* Connects a to a listener of b; both streams get their users. */
static inline void make_stream(struct wire_ends *w, struct seen *listener, struct seen *a,
                               struct seen *b)
{
    struct sockaddr_storage at = test_addr("198.18.0.2", 4791);
    assert_int_equal(net_listen(w->b, (struct sockaddr *)&at, 8, listener, &listener->l), 0);
    assert_int_equal(net_connect(w->a, NULL, (struct sockaddr *)&at, a, &a->s), 0);
    assert_true(run_until(w, has_event, a, 20000));
    assert_true(run_until(w, can_accept, listener, 20000));
    b->s = net_accept(listener->l);
    assert_non_null(b->s);
    net_stream_set_user(b->s, b);
    send_pattern(b);
}

#endif
