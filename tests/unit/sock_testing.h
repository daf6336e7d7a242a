/* SPDX-License-Identifier: MIT */
/* Two nets over the kernel's sockets on loopback. What our own timers count can be made virtual; the
 * kernel's time is real. */
#ifndef UIW_TESTS_SOCK_TESTING_H
#define UIW_TESTS_SOCK_TESTING_H

#include <time.h>

#include "net_testing.h"

enum { LONG_MS = 20000, SHORT_MS = 100 };

struct sock_ends {
    struct net *net[2];
    struct seen l, a, b; /* listener and its stream are of net[1] */
};

static struct sock_ends e;

static inline struct net *sock_net_with(struct net_cfg cfg)
{
    char err[NET_ERR_TEXT] = "";
    struct net *net = NULL;
    cfg.kind = NET_SOCK;
    if (net_open(&cfg, &net, err) != 0) {
        fail_msg("%s", err);
    }
    return net;
}

static inline void begin_with(struct net_cfg cfg)
{
    memset(&e, 0, sizeof e);
    e.net[0] = sock_net_with(cfg);
    e.net[1] = sock_net_with(cfg);
}

static inline void begin(void)
{
    begin_with((struct net_cfg){.name = "127.0.0.1"});
}

static inline uint64_t real_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static inline void wait_both(int ms)
{
    struct pollfd p[2] = {{net_fd(e.net[0]), POLLIN, 0}, {net_fd(e.net[1]), POLLIN, 0}};
    if (!net_sleep(e.net[0]) || !net_sleep(e.net[1])) {
        return;
    }
    (void)poll(p, 2, ms);
    net_woken(e.net[0]);
    net_woken(e.net[1]);
}

/* Turns both until 'done', or for that long. */
static inline bool until(bool (*done)(void *), void *arg, uint64_t ms)
{
    uint64_t end = real_ms() + ms;
    while (done == NULL || !done(arg)) {
        if (turn_one(e.net[0]) + turn_one(e.net[1]) > 0) {
            continue;
        }
        if (real_ms() >= end) {
            return false;
        }
        wait_both(5);
    }
    return true;
}

/* For what must not happen, and for what is not to be waited for. */
static inline void a_while(void)
{
    until(NULL, NULL, SHORT_MS);
}

/* Time as our timers see it. */
static inline void later(uint64_t ms)
{
    net_clock_advance(ms);
    turn_one(e.net[0]);
    turn_one(e.net[1]);
}

static inline struct sockaddr_in addr4(const char *ip, uint16_t port)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons(port)};
    assert_int_equal(inet_pton(AF_INET, ip, &sin.sin_addr), 1);
    return sin;
}

static inline void sock_listen_at(const char *ip)
{
    struct sockaddr_in at = addr4(ip, 0);
    assert_int_equal(net_listen(e.net[1], (struct sockaddr *)&at, 8, &e.l, &e.l.l), 0);
}

static inline void dial(struct seen *n)
{
    struct sockaddr_storage to;
    net_listener_addr(e.l.l, &to);
    assert_int_equal(net_connect(e.net[0], NULL, (struct sockaddr *)&to, n, &n->s), 0);
}

static inline bool accepts(void *arg)
{
    struct seen *n = arg;
    n->s = net_accept(e.l.l);
    if (n->s != NULL) {
        net_stream_set_user(n->s, n);
    }
    return n->s != NULL;
}

static inline void meet(struct seen *from, struct seen *to)
{
    dial(from);
    assert_true(until(accepts, to, LONG_MS));
    assert_true(until(has_event, from, LONG_MS));
    assert_true(from->events & NET_EV_UP);
}

static inline void connected_with(struct net_cfg cfg)
{
    begin_with(cfg);
    sock_listen_at(cfg.name);
    meet(&e.a, &e.b);
}

static inline void connected(void)
{
    connected_with((struct net_cfg){.name = "127.0.0.1"});
}

static inline void end(void)
{
    struct seen *all[] = {&e.a, &e.b};
    for (int i = 0; i < 2; i++) {
        if (all[i]->s != NULL) {
            net_stream_close(all[i]->s, true);
        }
    }
    if (e.l.l != NULL) {
        net_listener_close(e.l.l);
    }
    net_close(e.net[0]);
    net_close(e.net[1]);
}

static inline void put(struct seen *n, uint64_t octets)
{
    n->to_send += octets;
    send_pattern(n);
}

static inline bool got_all(void *arg)
{
    struct seen *n = arg;
    return n->received >= n->want;
}

static inline bool saw_fin(void *arg)
{
    return (((struct seen *)arg)->events & (NET_EV_FIN | NET_EV_CLOSED)) != 0;
}

/* Until n has that many octets, all of them right. */
static inline void receives(struct seen *n, uint64_t octets)
{
    uint64_t want = n->want;
    n->want = octets;
    n->shut = true; /* the shutdown is the test's business */
    assert_true(until(got_all, n, LONG_MS));
    n->want = want;
    assert_int_equal(n->received, octets);
    assert_int_equal(n->bad, 0);
}

#endif
