/* SPDX-License-Identifier: MIT */
/* A process that was started anew: it has the address and may have the ports of the one before, but other
 * sequence numbers, while this end still knows the old connections. */
#include "net_testing.h"
#include "tcpip/vnet.h"

#define OLD_ISN 0x60000000u

enum { PORT = 50001, SOON_MS = 50, TIME_WAIT_MS = 1000 };

static struct wire_ends w;
static struct seen l, a, b;

/* What left an end: the last SYN of it, and counts. */
static struct watch {
    uint8_t syn[128];
    uint32_t len;
    uint32_t syns, syn_acks, resets;
    uint32_t reset_seq;
} from_a, from_b;

static void on_frame(void *arg, const uint8_t *f, uint32_t len)
{
    struct watch *x = arg;
    struct vnet_tcp t;
    if (!vnet_find_tcp(f, len, len, &t)) {
        return;
    }
    uint8_t flags = f[t.l4 + 13];
    if ((flags & VNET_RST) != 0) {
        x->resets++;
        x->reset_seq = get_be32(f + t.l4 + 4);
    } else if ((flags & VNET_SYN) != 0 && len <= sizeof x->syn) {
        x->syns++;
        x->syn_acks += (flags & VNET_ACK) != 0;
        x->len = len;
        memcpy(x->syn, f, len);
    }
}

static void watch_both(void)
{
    memset(&from_a, 0, sizeof from_a);
    memset(&from_b, 0, sizeof from_b);
    net_wire_watch(w.a, on_frame, &from_a);
    net_wire_watch(w.b, on_frame, &from_b);
}

static void dial(uint16_t port)
{
    struct sockaddr_storage from = test_addr("198.18.0.1", port),
                            to = test_addr("198.18.0.2", 4791);
    memset(&a, 0, sizeof a);
    assert_int_equal(net_connect(w.a, (struct sockaddr *)&from, (struct sockaddr *)&to, &a, &a.s),
                     0);
}

static void taken(void)
{
    memset(&b, 0, sizeof b);
    assert_true(run_until(&w, can_accept, &l, SOON_MS));
    b.s = net_accept(l.l);
    assert_non_null(b.s);
    net_stream_set_user(b.s, &b);
    l.events = 0;
}

static void opened(void)
{
    memset(&l, 0, sizeof l);
    w = wire_open(1500);
    net_test_isn(true, OLD_ISN);
    struct sockaddr_storage at = test_addr("198.18.0.2", 4791);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&at, 8, &l, &l.l), 0);
    watch_both();
}

/* A connection that b closes first, so that it waits there. */
static void in_time_wait(void)
{
    dial(PORT);
    taken();
    net_shutdown(b.s);
    run_for(&w, 5);
    net_shutdown(a.s);
    assert_true(run_until(&w, was_closed, &b, SOON_MS));
    assert_true(run_until(&w, was_closed, &a, SOON_MS));
    net_stream_close(a.s, false);
    net_stream_close(b.s, false);
}

/* The process of a ends, and another takes its place. */
static void a_anew(void)
{
    net_close(w.a);
    w.a = open_pair("198.18.0.1", 1500);
    watch_both();
}

static void works(void)
{
    a.to_send = b.to_send = 3000;
    send_pattern(&a);
    send_pattern(&b);
    run_for(&w, 20);
    assert_int_equal(a.received, 3000);
    assert_int_equal(b.received, 3000);
    assert_int_equal(a.bad + b.bad, 0);
}

static void end(void)
{
    net_stream_close(a.s, true);
    net_stream_close(b.s, true);
    net_listener_close(l.l);
    wire_close(&w);
}

/* Whatever its first sequence number is, it is heard at once. */
static void test_beside_time_wait(void **state)
{
    (void)state;
    static const uint32_t isn[] = {OLD_ISN + 1, OLD_ISN + 2,          OLD_ISN + 3,
                                   OLD_ISN,     OLD_ISN - 1,          OLD_ISN - 5000000,
                                   0x40000000,  OLD_ISN + 0x40000000, OLD_ISN + 0x90000000};
    for (size_t i = 0; i < sizeof isn / sizeof *isn; i++) {
        opened();
        in_time_wait();
        a_anew();
        net_test_isn(true, isn[i]);
        dial(PORT);
        assert_true(run_until(&w, has_event, &a, SOON_MS));
        assert_int_equal(a.error, 0);
        taken();
        works();
        end();
    }
}

/* The frame that a sent last as a SYN, with other flags and numbers. */
static void forge(const struct watch *x, uint8_t flags, uint32_t seq, struct net *to)
{
    uint8_t f[sizeof x->syn];
    struct vnet_tcp t;
    memcpy(f, x->syn, x->len);
    assert_true(vnet_find_tcp(f, x->len, x->len, &t));
    f[t.l4 + 13] = flags;
    put_be32(f + t.l4 + 4, seq);
    put_be32(f + t.l4 + 8, 0);
    vnet_put_sums(f, &t);
    net_wire_inject(to, f, x->len);
    turn_one(to);
}

/* RFC 1337: a reset that nobody's SYN goes before may be the answer to an old duplicate. */
static void test_reset_alone_ends_no_time_wait(void **state)
{
    (void)state;
    opened();
    in_time_wait();
    uint32_t next = OLD_ISN + 1; /* behind the FIN: lwIP gives the SYN the number before this */
    forge(&from_a, VNET_RST, next, w.b);
    forge(&from_a, VNET_RST | VNET_ACK, next, w.b);
    from_b.syn_acks = 0;
    forge(&from_a, VNET_SYN, OLD_ISN - 1000, w.b);
    assert_int_equal(from_b.syn_acks, 0); /* it waits still */
    forge(&from_a, VNET_RST, next - 1, w.b);
    forge(&from_a, VNET_RST, next + 1, w.b);
    forge(&from_a, VNET_SYN, OLD_ISN - 1000, w.b);
    assert_int_equal(from_b.syn_acks, 0); /* they were not for what it had said */
    forge(&from_a, VNET_RST, next, w.b);
    forge(&from_a, VNET_SYN, OLD_ISN - 1000, w.b);
    assert_int_equal(from_b.syn_acks, 1);
    net_listener_close(l.l);
    wire_close(&w);
}

/* What b would say that knows an old connection on these ports. */
static void old_ack(uint32_t seq, uint32_t ack)
{
    uint8_t f[sizeof from_a.syn], head[64];
    const uint8_t *syn = from_a.syn;
    struct vnet_tcp t;
    memcpy(f, syn, from_a.len);
    assert_true(vnet_find_tcp(f, from_a.len, from_a.len, &t));
    uint32_t n = t.v6 ? 16 : 4, at = t.l4 - 2 * n;
    memcpy(f, syn + 6, 6);
    memcpy(f + 6, syn, 6);
    memcpy(head, f + at, n);
    memcpy(f + at, f + at + n, n);
    memcpy(f + at + n, head, n);
    memcpy(f + t.l4, syn + t.l4 + 2, 2);
    memcpy(f + t.l4 + 2, syn + t.l4, 2);
    put_be32(f + t.l4 + 4, seq);
    put_be32(f + t.l4 + 8, ack);
    f[t.l4 + 13] = VNET_ACK;
    vnet_put_sums(f, &t);
    net_wire_inject(w.a, f, from_a.len);
}

/* A peer that does not forget for a while, and has an ACK of its old connection for each SYN: all are reset, and
 * the tries that are left are made in their time. */
static void test_peer_that_does_not_forget(void **state)
{
    (void)state;
    enum { OLD_SEQ = 1234567, OLD_ACK = 7654321 };
    opened();
    dial(PORT + 1); /* so that the neighbours know each other */
    taken();
    net_stream_close(a.s, true);
    net_stream_close(b.s, true);
    run_for(&w, 5);
    net_wire_set(w.b, &(struct net_wire){.seed = 1, .loss_ppm = 1000000});
    watch_both();
    uint64_t until = net_now_ms() + TIME_WAIT_MS;
    dial(PORT);
    for (uint32_t syns = 0; net_now_ms() < until; run_for(&w, 1)) {
        if (from_a.syns != syns) {
            syns = from_a.syns;
            from_a.reset_seq = 0;
            old_ack(OLD_SEQ, OLD_ACK);
            turn_one(w.a);
            assert_int_equal(from_a.reset_seq, OLD_ACK);
        }
        assert_int_equal(a.events, 0);
    }
    assert_in_range(from_a.syns, 3, 5);
    net_wire_set(w.b, &(struct net_wire){.seed = 1});
    assert_true(run_until(&w, has_event, &a, 2000));
    assert_int_equal(a.error, 0);
    taken();
    works();
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_beside_time_wait),
        cmocka_unit_test(test_reset_alone_ends_no_time_wait),
        cmocka_unit_test(test_peer_that_does_not_forget),
    };
    cmocka_set_test_filter(getenv("UIW_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
