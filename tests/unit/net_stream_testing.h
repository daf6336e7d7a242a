/* SPDX-License-Identifier: MIT */
/* One stream between two nets, for tests that are about that stream. */
#ifndef UIW_TESTS_NET_STREAM_TESTING_H
#define UIW_TESTS_NET_STREAM_TESTING_H

#include "net_testing.h"

static struct wire_ends w;
static struct seen l, a, b;

static inline void begin(uint32_t mtu)
{
    memset(&l, 0, sizeof l);
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    w = wire_open(mtu);
}

static inline void connected(uint32_t mtu)
{
    begin(mtu);
    make_stream(&w, &l, &a, &b);
}

static inline void end(bool abort)
{
    if (a.s != NULL) {
        net_stream_close(a.s, abort);
    }
    if (b.s != NULL) {
        net_stream_close(b.s, abort);
    }
    if (l.l != NULL) {
        net_listener_close(l.l);
    }
    wire_close(&w);
}

static inline void put(struct seen *n, uint64_t octets)
{
    n->to_send += octets;
    send_pattern(n);
}

#endif
