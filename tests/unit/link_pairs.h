/* SPDX-License-Identifier: MIT */
/* Two nets of this process on real links, in real time, and one stream between them. */
#ifndef UIW_TESTS_LINK_PAIRS_H
#define UIW_TESTS_LINK_PAIRS_H

#include "net_testing.h"

enum { PAIR_PORT = 5002 };

static inline struct net *open_dev(enum net_kind kind, const char *name, const char *ip,
                                   uint16_t vlan)
{
    struct net_cfg cfg = {.kind = kind, .vlan = vlan};
    struct net *net = NULL;
    char err[NET_ERR_TEXT] = "";
    snprintf(cfg.name, sizeof cfg.name, "%s", name);
    test_cfg_ip(&cfg, ip);
    if (net_open(&cfg, &net, err) != 0) {
        fail_msg("%s", err);
    }
    return net;
}

struct two {
    struct net *net[2];
    struct seen l, n[2];
};

static inline void turn_both(struct two *t)
{
    if (turn_one(t->net[0]) + turn_one(t->net[1]) > 0) {
        return;
    }
    struct pollfd p[2];
    int wait = 1000;
    for (int i = 0; i < 2; i++) {
        p[i] = (struct pollfd){net_fd(t->net[i]), POLLIN, 0};
        int ms = net_timeout_ms(t->net[i]);
        wait = !net_sleep(t->net[i]) ? 0 : ms >= 0 && ms < wait ? ms : wait;
    }
    (void)poll(p, 2, wait);
    net_woken(t->net[0]);
    net_woken(t->net[1]);
}

static inline bool until_both(struct two *t, bool (*done)(void *), void *arg, uint64_t ms)
{
    uint64_t end = net_now_ms() + ms;
    while (!done(arg)) {
        if (net_now_ms() >= end) {
            return false;
        }
        turn_both(t);
    }
    return true;
}

static inline void join(struct two *t, const char *to, uint64_t octets)
{
    struct sockaddr_storage at = test_addr(to, PAIR_PORT);
    t->l = t->n[0] = t->n[1] = (struct seen){0};
    t->n[0].to_send = t->n[1].to_send = t->n[0].want = t->n[1].want = octets;
    assert_int_equal(net_listen(t->net[1], (struct sockaddr *)&at, 4, &t->l, &t->l.l), 0);
    assert_int_equal(net_connect(t->net[0], NULL, (struct sockaddr *)&at, &t->n[0], &t->n[0].s), 0);
    assert_true(until_both(t, can_accept, &t->l, 10000));
    t->n[1].s = net_accept(t->l.l);
    net_stream_set_user(t->n[1].s, &t->n[1]);
    send_pattern(&t->n[1]);
}

static inline void ends_well(struct two *t, uint64_t octets)
{
    assert_true(until_both(t, was_closed, &t->n[0], 60000));
    assert_true(until_both(t, was_closed, &t->n[1], 60000));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(t->n[i].error, 0);
        assert_int_equal(t->n[i].received, octets);
        assert_int_equal(t->n[i].bad, 0);
        net_stream_close(t->n[i].s, false);
    }
    net_listener_close(t->l.l);
}

/* For streams that were joined with FOR_EVER: what is under way is all, and arrives. A stream of a given
 * length might be over before the test has done to its link what it means to do. */
#define FOR_EVER ((uint64_t)1 << 48)

static inline void ends_whole(struct two *t)
{
    for (int i = 0; i < 2; i++) {
        t->n[i].to_send = t->n[i].sent;
        t->n[1 - i].want = t->n[i].sent;
        net_stream_again(t->n[i].s, NET_EV_ROOM);
    }
    for (int i = 0; i < 2; i++) {
        assert_true(until_both(t, was_closed, &t->n[i], 60000));
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(t->n[i].error, 0);
        assert_int_equal(t->n[i].received, t->n[i].want);
        assert_int_equal(t->n[i].bad, 0);
        net_stream_close(t->n[i].s, false);
    }
    net_listener_close(t->l.l);
}

static inline void close_both(struct two *t)
{
    net_close(t->net[0]);
    net_close(t->net[1]);
    assert_int_equal(net_test_asserts(), 0);
}

/* No connection can be had. */
static inline void apart(struct two *t, const char *to)
{
    struct sockaddr_storage at = test_addr(to, PAIR_PORT);
    t->l = t->n[0] = t->n[1] = (struct seen){0};
    assert_int_equal(net_listen(t->net[1], (struct sockaddr *)&at, 4, &t->l, &t->l.l), 0);
    assert_int_equal(net_connect(t->net[0], NULL, (struct sockaddr *)&at, &t->n[0], &t->n[0].s), 0);
    assert_false(until_both(t, has_event, &t->n[0], 400));
    net_stream_close(t->n[0].s, true);
    net_listener_close(t->l.l);
}

static inline bool got_some(void *arg)
{
    struct seen *n = arg;
    return n->received > 4 << 20 || was_closed(arg);
}

static inline bool never(void *arg)
{
    (void)arg;
    return false;
}

#endif
