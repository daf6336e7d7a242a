/* SPDX-License-Identifier: MIT */
/* Connections seen from the program: every way to begin and to end one. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "family.h"
#include "sim.h"

static void dial(struct sim *s, const char *ip, uint16_t port, const struct uiw_conn_param *p)
{
    struct sim_side *a = &s->side[0];
    struct sockaddr_storage to = test_addr(ip, port);
    if (a->qp == NULL) {
        sim_qps(s, NULL);
    }
    assert_int_equal(uiw_connect(a->ch, a->qp, (struct sockaddr *)&to, p, &a->conn), 0);
}

static void wait_request(struct sim *s)
{
    uint64_t end = s->ms + 20000;
    while (s->side[1].conn == NULL && s->ms < end) {
        sim_step(s);
    }
    assert_non_null(s->side[1].conn);
}

static uint8_t pattern(uint32_t i, unsigned salt)
{
    return (uint8_t)(i * 7 + salt);
}

/* proves: MPA-5044-7.1.2-21 MPA-5044-7.1.1-24 ECM-6581-6-05 */
static void private_data(const char *keys, uint32_t max)
{
    const uint32_t lens[] = {0, 1, 4, 255, 256, 257, max};
    struct sim s;
    sim_open(&s, sim_seed(), keys);
    for (size_t k = 0; k < ARRAY_LEN(lens); k++) {
        uint8_t ask[512], answer[512];
        for (uint32_t i = 0; i < sizeof ask; i++) {
            ask[i] = pattern(i, 3);
            answer[i] = pattern(i, 100);
        }
        struct uiw_conn_param pa = {
            ask, lens[k], UIW_DEPTH_DEFAULT, UIW_DEPTH_DEFAULT, NULL, NULL, false, 0};
        dial(&s, "198.18.0.2", 7174, &pa);
        wait_request(&s);
        assert_int_equal(s.side[1].last.private_len, lens[k]);
        assert_memory_equal(s.side[1].last.private_data, ask, lens[k]);
        uint32_t back = lens[ARRAY_LEN(lens) - 1 - k];
        struct uiw_conn_param pb = {answer, back, UIW_DEPTH_DEFAULT, UIW_DEPTH_DEFAULT, NULL, NULL,
                                    false,  0};
        unsigned before = s.side[0].established;
        assert_int_equal(uiw_accept(s.side[1].conn, s.side[1].qp, &pb), 0);
        sim_until(&s, &s.side[0].established, before + 1, 10000);
        assert_int_equal(s.side[0].last.private_len, back);
        assert_memory_equal(s.side[0].last.private_data, answer, back);
        /* The accepting side's event carries none (bugs N14). */
        assert_int_equal(s.side[1].last.type, UIW_EVENT_ESTABLISHED);
        assert_int_equal(s.side[1].last.private_len, 0);
        s.side[0].disconnected = s.side[1].disconnected = 0;
        sim_disconnect(&s, (int)(k % 2));
    }
    uint8_t over[513] = {0};
    struct uiw_conn_param p = {over, max + 1, 0, 0, NULL, NULL, false, 0};
    struct sockaddr_storage to = test_addr("198.18.0.2", 7174);
    sim_qps(&s, NULL);
    assert_int_equal(
        uiw_connect(s.side[0].ch, s.side[0].qp, (struct sockaddr *)&to, &p, &s.side[0].conn),
        -EINVAL);
    s.side[0].conn = NULL;
    sim_close(&s);
}

/* proves: MPA-5044-7.1.2-09 MPA-5044-7.1.1-23 */
static void test_private_data_rev2(void **state)
{
    (void)state;
    private_data("mtu=1500", 508);
}

/* proves: MPA-5044-7.1.2-09 MPA-5044-7.1.1-23 */
static void test_private_data_rev1(void **state)
{
    (void)state;
    private_data("mtu=1500,rev=1", 512);
}

static void expect_failure(struct sim *s, enum uiw_reason reason, uint64_t limit_ms)
{
    sim_until(s, &s->side[0].failed, 1, limit_ms);
    assert_int_equal(s->side[0].last.type, UIW_EVENT_CONNECT_ERROR);
    assert_int_equal(s->side[0].last.reason, reason);
    assert_true(s->side[0].last.status < 0);
    assert_true(strlen(s->side[0].last.text) > 0);
    struct uiw_qp_info info;
    uiw_qp_query(s->side[0].qp, &info);
    assert_int_equal(info.state, UIW_QP_ERROR);
    sim_drop(s);
    s->side[0].failed = 0;
}

static void test_connect_failures(void **state)
{
    (void)state;
    struct sim s;
    sim_open(&s, sim_seed(), "mtu=1500");
    dial(&s, "198.18.0.2", 9, NULL);
    expect_failure(&s, UIW_REASON_REFUSED, 20000);
    dial(&s, "198.18.0.77", 7174, NULL);
    expect_failure(&s, UIW_REASON_UNREACHABLE, 30000);
    /* The wire is cut: no answer at all. */
    sim_wire(&s, &(struct net_wire){.seed = 1, .loss_ppm = 1000000});
    dial(&s, "198.18.0.2", 7174, NULL);
    expect_failure(&s, UIW_REASON_UNREACHABLE, 30000);
    sim_wire(&s, &(struct net_wire){.seed = 1});
    sim_close(&s);
}

/* proves: MPA-5044-7.1.2-13 MPA-5044-7.1.2-05 */
static void test_reject(void **state)
{
    (void)state;
    struct sim s;
    sim_open(&s, sim_seed(), "mtu=1500");
    for (uint32_t len = 0; len <= 508; len += 127) {
        uint8_t why[508];
        for (uint32_t i = 0; i < len; i++) {
            why[i] = pattern(i, 9);
        }
        s.side[0].rejected = 0;
        dial(&s, "198.18.0.2", 7174, NULL);
        wait_request(&s);
        assert_int_equal(uiw_reject(s.side[1].conn, why, len), 0);
        assert_int_equal(uiw_reject(s.side[1].conn, why, len), -ENOTCONN);
        assert_int_equal(uiw_accept(s.side[1].conn, s.side[1].qp, NULL), -ENOTCONN);
        sim_until(&s, &s.side[0].rejected, 1, 10000);
        assert_int_equal(s.side[0].last.reason, UIW_REASON_REJECTED);
        assert_int_equal(s.side[0].last.private_len, len);
        assert_memory_equal(s.side[0].last.private_data, why, len);
        assert_int_equal(s.side[0].failed, 0);
        sim_drop(&s);
    }
    sim_close(&s);
}

/* bugs N15: who has which depth.
 * proves: RDMAP-5040-6.1-02 RDMAP-5040-6.1-03 ECM-6581-9.1-02 */
static void test_depths(void **state)
{
    (void)state;
    static const struct {
        int ird0, ord0, ird1, ord1;
        unsigned seen_ird, seen_ord, ord0_now, ord1_now;
    } all[] = {
        {3, 7, 5, 9, 3, 7, 5, 3},
        {3, 7, 20, 1, 3, 7, 7, 1},
        {-1, -1, -1, -1, 0, 0, 0, 0},
        {16, 16, 16, 16, 16, 16, 16, 16},
    };
    struct sim s;
    sim_open(&s, sim_seed(), "mtu=1500");
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct uiw_conn_param pa = {.ird = all[i].ird0, .ord = all[i].ord0};
        struct uiw_conn_param pb = {.ird = all[i].ird1, .ord = all[i].ord1};
        unsigned before = s.side[0].established;
        dial(&s, "198.18.0.2", 7174, &pa);
        wait_request(&s);
        assert_int_equal(s.side[1].last.ird, all[i].seen_ird);
        assert_int_equal(s.side[1].last.ord, all[i].seen_ord);
        assert_int_equal(uiw_accept(s.side[1].conn, s.side[1].qp, &pb), 0);
        sim_until(&s, &s.side[0].established, before + 1, 10000);
        struct uiw_qp_info a, b;
        uiw_qp_query(s.side[0].qp, &a);
        uiw_qp_query(s.side[1].qp, &b);
        assert_int_equal(a.ord, all[i].ord0_now);
        assert_int_equal(b.ord, all[i].ord1_now);
        assert_true(a.ird >= b.ord && b.ird >= a.ord);
        struct uiw_conn_info ca, cb; /* what the peer said of itself */
        uiw_conn_query(s.side[0].conn, &ca);
        uiw_conn_query(s.side[1].conn, &cb);
        assert_int_equal(ca.peer_ird, all[i].ird1 < 0 ? 0 : all[i].ird1);
        assert_int_equal(ca.peer_ord, all[i].ord1_now);
        assert_int_equal(cb.peer_ird, all[i].seen_ird);
        assert_int_equal(cb.peer_ord, all[i].seen_ord);
        s.side[0].disconnected = s.side[1].disconnected = 0;
        sim_disconnect(&s, 0);
    }
    sim_close(&s);
}

static void test_peer_to_peer(void **state)
{
    (void)state;
    struct sim s;
    sim_open(&s, sim_seed(), "mtu=1500");
    struct uiw_conn_param p = {.ird = 4, .ord = 4, .p2p = true};
    sim_connect(&s, &p, NULL);
    /* The responder may send first: the initiator's program has posted nothing. */
    uint8_t in[8], out[8] = "first";
    struct uiw_mr *in_mr = sim_reg(&s, 0, in, sizeof in, UIW_ACCESS_LOCAL_WRITE);
    struct uiw_mr *out_mr = sim_reg(&s, 1, out, sizeof out, 0);
    struct uiw_wc wc;
    sim_recv(&s, 0, sim_sge(in_mr, in, sizeof in), 1);
    sim_post(&s, 1, UIW_WR_SEND, sim_sge(out_mr, out, sizeof out), (struct sim_at){0, 0});
    sim_poll(&s, 0, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_SUCCESS);
    assert_memory_equal(in, out, sizeof in);
    struct uiw_conn_info info;
    uiw_conn_query(s.side[1].conn, &info);
    assert_true(info.p2p && info.enhanced && info.crc && info.mpa_revision == 2);
    sim_disconnect(&s, 1);
    uiw_mr_dereg(in_mr);
    uiw_mr_dereg(out_mr);
    sim_close(&s);
}

/* proves: MPA-5044-7.1.2-15 */
static void test_responder_waits_for_the_first_fpdu(void **state)
{
    (void)state;
    struct sim s;
    sim_open(&s, sim_seed(), "mtu=1500");
    sim_qps(&s, NULL);
    uint8_t in[8], out[8] = "second";
    struct uiw_mr *in_mr = sim_reg(&s, 0, in, sizeof in, UIW_ACCESS_LOCAL_WRITE);
    struct uiw_mr *out_mr = sim_reg(&s, 1, out, sizeof out, 0);
    sim_recv(&s, 0, sim_sge(in_mr, in, sizeof in), 1);
    sim_post(&s, 1, UIW_WR_SEND, sim_sge(out_mr, out, sizeof out), (struct sim_at){0, 0});
    sim_connect(&s, NULL, NULL);
    struct uiw_wc wc;
    for (int i = 0; i < 2000; i++) {
        sim_step(&s);
        assert_int_equal(uiw_cq_poll(s.side[0].cq, 1, &wc), 0);
    }
    struct uiw_send_wr wr = {.opcode = UIW_WR_RDMA_WRITE};
    assert_int_equal(uiw_qp_post_send(s.side[0].qp, &wr, NULL), 0);
    sim_poll(&s, 0, 1, &wc);
    assert_memory_equal(in, out, sizeof in);
    sim_drop(&s);
    uiw_mr_dereg(in_mr);
    uiw_mr_dereg(out_mr);
    sim_close(&s);
}

/* proves: DDP-5041-6.2.1-01 DDP-5041-6.2.1-02 */
static void test_close_delivers_what_was_posted(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    struct sim s;
    sim_open(&s, sim_seed(), "mtu=1500");
    uint8_t *out = malloc(SIZE), *in = calloc(1, SIZE);
    memset(out, 0x3c, SIZE);
    struct uiw_mr *in_mr = sim_reg(&s, 1, in, SIZE, UIW_ACCESS_LOCAL_WRITE);
    struct uiw_mr *out_mr = sim_reg(&s, 0, out, SIZE, 0);
    sim_connect(&s, NULL, NULL);
    sim_recv(&s, 1, sim_sge(in_mr, in, SIZE), 1);
    sim_post(&s, 0, UIW_WR_SEND, sim_sge(out_mr, out, SIZE), (struct sim_at){0, 0});
    assert_int_equal(uiw_disconnect(s.side[0].conn), 0);
    struct uiw_send_wr wr = {.opcode = UIW_WR_RDMA_WRITE};
    assert_int_equal(uiw_qp_post_send(s.side[0].qp, &wr, NULL), -ESHUTDOWN);
    struct uiw_wc wc;
    sim_poll(&s, 1, 1, &wc);
    assert_int_equal(wc.byte_len, SIZE);
    assert_memory_equal(in, out, SIZE);
    sim_disconnect(&s, 0);
    assert_int_equal(s.side[0].last.reason, UIW_REASON_CLOSED);
    assert_int_equal(s.side[1].last.reason, UIW_REASON_CLOSED);
    uiw_mr_dereg(in_mr);
    uiw_mr_dereg(out_mr);
    free(in);
    free(out);
    sim_close(&s);
}

/* bugs C05, F11: whatever order things are taken down in, one DISCONNECTED, no later event. */
static void test_ends_in_any_order(void **state)
{
    (void)state;
    struct sim s;
    sim_open(&s, sim_seed(), "mtu=1500");
    for (unsigned round = 0; round < 64; round++) {
        sim_connect(&s, NULL, NULL);
        for (unsigned k = 0; k < 4; k++) {
            struct sim_side *me = &s.side[(round >> k) & 1];
            switch ((round + k) % 4) {
            case 0:
                uiw_disconnect(me->conn);
                uiw_disconnect(me->conn);
                break;
            case 1: uiw_qp_error(me->qp); break;
            case 2: uiw_abort(me->conn); break;
            default: sim_step(&s); break;
            }
        }
        sim_until(&s, &s.side[0].disconnected, 1, 20000);
        sim_until(&s, &s.side[1].disconnected, 1, 20000);
        for (int i = 0; i < 50; i++) {
            sim_step(&s);
        }
        assert_int_equal(s.side[0].disconnected, 1);
        assert_int_equal(s.side[1].disconnected, 1);
        sim_drop(&s);
    }
    sim_close(&s);
}

/* bugs N13, C03, C04 */
static void test_destroy_early(void **state)
{
    (void)state;
    struct sim s;
    sim_open(&s, sim_seed(), "mtu=1500");
    struct sim_side *a = &s.side[0], *b = &s.side[1];
    for (int steps = 0; steps < 30; steps++) {
        dial(&s, "198.18.0.2", 7174, NULL);
        for (int i = 0; i < steps; i++) {
            uiw_progress(a->dev, 0);
            net_clock_advance(i % 3 == 0 ? 1 : 0);
        }
        switch (steps % 3) {
        case 0:
            uiw_conn_destroy(a->conn);
            a->conn = NULL;
            break;
        case 1:
            uiw_qp_destroy(a->qp);
            a->qp = NULL;
            break;
        default: {
            assert_int_equal(uiw_listener_destroy(b->listener), 0);
            struct sockaddr_storage any = test_addr("0.0.0.0", 7174);
            assert_int_equal(uiw_listen(b->ch, (struct sockaddr *)&any, 64, NULL, &b->listener), 0);
            break;
        }
        }
        for (int i = 0; i < 300; i++) {
            sim_step(&s);
        }
        sim_drop(&s);
    }
    sim_close(&s);
}

static void test_listen_errors(void **state)
{
    (void)state;
    struct sim s;
    sim_open(&s, sim_seed(), "mtu=1500");
    struct uiw_listener *l;
    struct sockaddr_storage used = test_addr("0.0.0.0", 7174),
                            foreign = test_addr("198.18.9.9", 5000),
                            any = test_addr("198.18.0.1", 0);
    assert_int_equal(uiw_listen(s.side[1].ch, (struct sockaddr *)&used, 1, NULL, &l), -EADDRINUSE);
    assert_int_equal(uiw_listen(s.side[0].ch, (struct sockaddr *)&foreign, 1, NULL, &l),
                     -EADDRNOTAVAIL);
    assert_int_equal(uiw_listen(s.side[0].ch, (struct sockaddr *)&any, 1, NULL, &l), 0);
    struct sockaddr_storage got;
    assert_int_equal(uiw_listener_addr(l, &got), 0);
    assert_int_not_equal(test_port(&got), 0);
    assert_int_equal(uiw_listener_destroy(l), 0);
    sim_close(&s);
}

enum { CALLERS = 12, PLACES = 3 };

struct crowd {
    struct uiw_event_channel *calls, *hears;
    struct uiw_listener *listener;
    struct uiw_qp *qp[CALLERS];
    struct uiw_conn *conn[CALLERS];
    unsigned came[CALLERS], rejected;
};

static struct uiw_event_channel *crowd_channel(struct uiw_device *dev)
{
    struct uiw_event_channel *ch;
    assert_int_equal(uiw_event_channel_create(dev, &ch), 0);
    fcntl(uiw_event_channel_fd(ch), F_SETFL, O_NONBLOCK);
    return ch;
}

/* Each says who it is. */
static void crowd_call(struct sim *s, struct crowd *c)
{
    struct sim_side *a = &s->side[0];
    struct uiw_qp_attr attr = {
        .send_cq = a->cq, .recv_cq = a->cq, .max_send_wr = 1, .max_recv_wr = 1};
    struct sockaddr_storage to = test_addr("198.18.0.2", 7999);
    for (uint8_t i = 0; i < CALLERS; i++) {
        struct uiw_conn_param p = {.private_data = &i, .private_len = 1};
        assert_int_equal(uiw_qp_create(a->pd, &attr, &c->qp[i]), 0);
        assert_int_equal(uiw_connect(c->calls, c->qp[i], (struct sockaddr *)&to, &p, &c->conn[i]),
                         0);
    }
}

/* What can be fetched now, without a turn of the loop between; all of it is rejected. */
static unsigned crowd_fetch(struct crowd *c)
{
    struct uiw_event ev;
    unsigned n = 0;
    for (; uiw_event_get(c->hears, &ev) == 0; n++) {
        assert_int_equal(ev.type, UIW_EVENT_CONNECT_REQUEST);
        assert_int_equal(ev.private_len, 1);
        c->came[ev.private_data[0]]++;
        assert_int_equal(uiw_reject(ev.conn, NULL, 0), 0);
        assert_int_equal(uiw_conn_destroy(ev.conn), 0);
    }
    while (uiw_event_get(c->calls, &ev) == 0) {
        assert_int_equal(ev.type, UIW_EVENT_REJECTED);
        c->rejected++;
    }
    return n;
}

/* No more connections than the backlog are held for a program that does not fetch them; those beyond wait
 * below, and are taken when there is room.
 * proves: RDMAP-5040-8.1.2-03 */
static void test_backlog(void **state)
{
    (void)state;
    struct sim s;
    struct crowd c = {.rejected = 0};
    struct sockaddr_storage any = test_addr("198.18.0.2", 7999);
    sim_open(&s, sim_seed(), "mtu=1500");
    c.calls = crowd_channel(s.side[0].dev);
    c.hears = crowd_channel(s.side[1].dev);
    assert_int_equal(uiw_listen(c.hears, (struct sockaddr *)&any, PLACES, NULL, &c.listener), 0);
    crowd_call(&s, &c);
    uint64_t end = s.ms + 1000;
    while (s.ms < end) {
        sim_step(&s);
    }
    assert_int_equal(crowd_fetch(&c), PLACES);
    for (end = s.ms + 60000; c.rejected < CALLERS && s.ms < end;) {
        sim_step(&s);
        assert_true(crowd_fetch(&c) <= PLACES);
    }
    assert_int_equal(c.rejected, CALLERS);
    for (unsigned i = 0; i < CALLERS; i++) {
        assert_int_equal(c.came[i], 1);
        assert_int_equal(uiw_conn_destroy(c.conn[i]), 0);
        assert_int_equal(uiw_qp_destroy(c.qp[i]), 0);
    }
    assert_int_equal(uiw_listener_destroy(c.listener), 0);
    assert_int_equal(uiw_event_channel_destroy(c.calls), 0);
    assert_int_equal(uiw_event_channel_destroy(c.hears), 0);
    sim_close(&s);
}

/* The stream cut at every octet, from its first on: the set-up frames and FPDUs of every kind.
 * proves: MPA-5044-6-02 */
static void test_cut_at_every_octet(void **state)
{
    (void)state;
    struct sim s;
    sim_open(&s, sim_seed(), "mtu=1500,markers=on");
    static uint8_t a[3000], b[3000], in[3000];
    memset(a, 0x11, sizeof a);
    struct uiw_mr *a_mr = sim_reg(&s, 0, a, sizeof a, UIW_ACCESS_LOCAL_WRITE);
    struct uiw_mr *b_mr =
        sim_reg(&s, 1, b, sizeof b,
                UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE | UIW_ACCESS_REMOTE_READ);
    struct uiw_mr *in_mr = sim_reg(&s, 1, in, sizeof in, UIW_ACCESS_LOCAL_WRITE);
    for (uint32_t at = 1; at <= 1500; at += at < 300 ? 1 : 7) {
        sim_wire(&s, &(struct net_wire){.seed = at, .cut_at = at});
        memset(b, 0, sizeof b);
        a[7] = (uint8_t)at;
        sim_connect(&s, NULL, NULL);
        struct uiw_wc wc[3];
        sim_recv(&s, 1, sim_sge(in_mr, in, sizeof in), 1);
        sim_post(&s, 0, UIW_WR_RDMA_WRITE, sim_sge(a_mr, a, 2000),
                 (struct sim_at){(uint64_t)(uintptr_t)b, uiw_mr_rkey(b_mr)});
        sim_post(&s, 0, UIW_WR_RDMA_READ, sim_sge(a_mr, a + 2000, 1000),
                 (struct sim_at){(uint64_t)(uintptr_t)b, uiw_mr_rkey(b_mr)});
        sim_post(&s, 0, UIW_WR_SEND, sim_sge(a_mr, a, 333), (struct sim_at){0, 0});
        sim_poll(&s, 0, 3, wc);
        assert_int_equal(wc[2].status, UIW_WC_SUCCESS);
        sim_poll(&s, 1, 1, wc);
        assert_memory_equal(in, a, 333);
        assert_memory_equal(b, a, 2000);
        assert_memory_equal(a + 2000, b, 1000);
        sim_disconnect(&s, (int)(at % 2));
    }
    uiw_mr_dereg(a_mr);
    uiw_mr_dereg(b_mr);
    uiw_mr_dereg(in_mr);
    sim_close(&s);
}

/* The side that closes first keeps the pair of ports in TIME-WAIT; a new connection may take it over. */
static void test_same_port_again_at_once(void **state)
{
    (void)state;
    struct sim s;
    sim_open(&s, sim_seed(), "mtu=1500");
    struct sockaddr_storage from = test_addr("198.18.0.1", 50001);
    struct uiw_conn_param p = {.local = (struct sockaddr *)&from};
    for (int i = 0; i < 20; i++) {
        uint64_t start = s.ms;
        sim_connect(&s, &p, NULL);
        assert_true(s.ms - start < 100);
        sim_disconnect(&s, 1);
    }
    sim_close(&s);
}

/* A peer that is gone without a word is noticed.
 * proves: MPA-5044-8-01 DDP-5041-6.2.2-01 */
static void test_dead_peer(void **state)
{
    (void)state;
    struct sim s;
    sim_open(&s, sim_seed(), "mtu=1500");
    sim_connect(&s, NULL, NULL);
    struct uiw_send_wr wr = {.opcode = UIW_WR_RDMA_WRITE};
    sim_wire(&s, &(struct net_wire){.seed = 1, .loss_ppm = 1000000});
    assert_int_equal(uiw_qp_post_send(s.side[0].qp, &wr, NULL), 0);
    sim_until(&s, &s.side[0].disconnected, 1, 400000);
    assert_int_equal(s.side[0].last.reason, UIW_REASON_TIMEOUT);
    /* The other side has nothing to send: its keepalives find out. */
    sim_until(&s, &s.side[1].disconnected, 1, 400000);
    sim_wire(&s, &(struct net_wire){.seed = 1});
    sim_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_private_data_rev2),
        cmocka_unit_test(test_private_data_rev1),
        cmocka_unit_test(test_connect_failures),
        cmocka_unit_test(test_reject),
        cmocka_unit_test(test_depths),
        cmocka_unit_test(test_peer_to_peer),
        cmocka_unit_test(test_responder_waits_for_the_first_fpdu),
        cmocka_unit_test(test_close_delivers_what_was_posted),
        cmocka_unit_test(test_ends_in_any_order),
        cmocka_unit_test(test_destroy_early),
        cmocka_unit_test(test_listen_errors),
        cmocka_unit_test(test_backlog),
        cmocka_unit_test(test_cut_at_every_octet),
        cmocka_unit_test(test_same_port_again_at_once),
        cmocka_unit_test(test_dead_peer),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
