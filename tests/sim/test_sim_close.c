/* SPDX-License-Identifier: MIT */
/* Closing in good order, from either end or from both. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "solo.h"

/* --- half-closes --- */

/* proves: MPA-5044-3-12 MPA-5044-7.2-02 DDP-5041-6.2.1-04 DDP-5041-6.2.1-05 DDP-5041-3-09 */
static void test_peer_closes_its_half(void **state)
{
    (void)state;
    enum { SENDS = 32, SIZE = SOLO_BIG / SENDS };
    struct solo *c = solo_open("mtu=1500");
    uint8_t *big = calloc(1, SIZE);
    struct uiw_mr *mr = sim_reg(&c->s, 1, big, SIZE, 0);
    struct uiw_wc wc[SENDS];
    solo_join(c);
    c->c.deaf = true;
    for (int i = 0; i < SENDS; i++) {
        sim_post(&c->s, 1, UIW_WR_SEND, sim_sge(mr, big, SIZE), (struct sim_at){0, 0});
    }
    net_shutdown(c->c.stream);
    raw_run(&c->r, 20);
    assert_int_equal(solo_qp_state(c), UIW_QP_CLOSING); /* told, and no error */
    assert_int_equal(c->b->disconnected, 0);
    assert_int_equal(sim_post(&c->s, 1, UIW_WR_SEND, solo_sge(c, 0, 1), (struct sim_at){0, 0}),
                     -ESHUTDOWN);
    c->c.deaf = false;
    uint32_t octets = 0;
    while (raw_next(&c->r, &c->c, &c->u)) {
        octets += c->u.seg.plen;
    }
    assert_int_equal(octets, SOLO_BIG); /* then FIN, no reset */
    assert_true(c->c.fin);
    assert_int_equal(c->c.error, 0);
    solo_expect_end(c, UIW_REASON_CLOSED);
    sim_poll(&c->s, 1, SENDS, wc);
    for (int i = 0; i < SENDS; i++) {
        assert_int_equal(wc[i].status, UIW_WC_SUCCESS);
    }
    uiw_mr_dereg(mr);
    free(big);
    solo_close(c);
}

/* proves: MPA-5044-7.2-01 DDP-5041-6.2.1-06 RDMAP-5040-6.2-01 */
static void test_we_close_our_half(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500");
    struct uiw_wc wc[2];
    solo_join(c);
    sim_recv(&c->s, 1, solo_sge(c, 0, 16), 3);
    sim_post(&c->s, 1, UIW_WR_SEND, solo_sge(c, 64, 100), (struct sim_at){0, 0});
    assert_int_equal(uiw_disconnect(c->b->conn), 0);
    solo_expect_send(c, 100);
    assert_false(raw_next(&c->r, &c->c, &c->u));
    assert_true(c->c.fin && !c->c.closed);
    raw_run(&c->r, 500);
    raw_send(&c->c, 1, "still", 5);
    sim_poll(&c->s, 1, 2, wc);
    assert_int_equal(wc[1].wr_id, 3);
    assert_int_equal(wc[1].status, UIW_WC_SUCCESS);
    assert_memory_equal(c->mem, "still", 5);
    assert_int_equal(c->b->disconnected, 0);
    net_shutdown(c->c.stream);
    solo_expect_end(c, UIW_REASON_CLOSED);
    solo_close(c);
}

/* A peer that never closes its half is not waited for without end. */
static void test_peer_never_closes(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500");
    solo_join(c);
    uint64_t start = c->s.ms;
    assert_int_equal(uiw_disconnect(c->b->conn), 0);
    assert_false(raw_next(&c->r, &c->c, &c->u));
    solo_expect_end(c, UIW_REASON_CLOSED);
    assert_in_range(c->s.ms - start, 2500, 4000);
    assert_false(c->c.closed); /* it may be busy with what has come */
    raw_run(&c->r, 62000);
    assert_true(c->c.closed);
    solo_close(c);
}

static void wait_for(struct sim *s, uint64_t ms)
{
    uint64_t end = s->ms + ms;
    while (s->ms < end) {
        sim_step(s);
    }
}

/* We close with Sends on their way to a peer that takes one each so many ms. */
static void close_to_a_slow_peer(uint32_t window, uint64_t pause_ms)
{
    enum { SENDS = 12, SIZE = 16384 };
    static uint8_t mem[2][SIZE];
    struct sim s;
    struct uiw_mr *mr[2];
    struct uiw_wc wc;
    net_test_window(window);
    sim_open(&s, 1, "mtu=1500,rnr=60");
    sim_connect(&s, NULL, NULL);
    net_test_window(0);
    for (int i = 0; i < 2; i++) {
        mr[i] = sim_reg(&s, i, mem[i], SIZE, UIW_ACCESS_LOCAL_WRITE);
    }
    for (int i = 0; i < SENDS; i++) {
        assert_int_equal(
            sim_post(&s, 0, UIW_WR_SEND, sim_sge(mr[0], mem[0], SIZE), (struct sim_at){0, 0}), 0);
    }
    assert_int_equal(uiw_disconnect(s.side[0].conn), 0);
    for (int i = 0; i < SENDS; i++) {
        wait_for(&s, pause_ms);
        sim_recv(&s, 1, sim_sge(mr[1], mem[1], SIZE), 1);
        sim_poll(&s, 1, 1, &wc);
        assert_int_equal(wc.status, UIW_WC_SUCCESS);
        assert_true(i == SENDS - 1 || s.side[0].disconnected + s.side[1].disconnected == 0);
    }
    for (int i = 0; i < 2; i++) {
        sim_until(&s, &s.side[i].disconnected, 1, 5000);
        assert_int_equal(s.side[i].last.reason, UIW_REASON_CLOSED);
        uiw_mr_dereg(mr[i]);
    }
    sim_close(&s);
}

/* What was posted arrives, and both ends see a close in good order: with a window that is too small for it, and
 * with one that takes all of it at once, so that for us nothing moves for longer than a close may stand still. */
static void test_close_waits_for_a_slow_peer(void **state)
{
    (void)state;
    close_to_a_slow_peer(32768, 1000);
    close_to_a_slow_peer(0, 4000);
}

/* Both FINs leave before either has come. */
static void test_both_close_at_once(void **state)
{
    (void)state;
    struct sim s;
    sim_open(&s, 1, "mtu=1500");
    sim_connect(&s, NULL, NULL);
    sim_wire(&s, &(struct net_wire){.seed = 1, .delay_ms = 20});
    assert_int_equal(uiw_disconnect(s.side[0].conn), 0);
    assert_int_equal(uiw_disconnect(s.side[1].conn), 0);
    for (int i = 0; i < 2; i++) {
        sim_until(&s, &s.side[i].disconnected, 1, 1000);
        assert_int_equal(s.side[i].last.reason, UIW_REASON_CLOSED);
    }
    sim_wire(&s, &(struct net_wire){.seed = 1});
    sim_close(&s);
}

/* Both close with Sends queued: all arrive, all complete, in order, and no reset comes. */
static void test_both_close_with_work(void **state)
{
    (void)state;
    enum { SENDS = 8, SIZE = 20000 };
    static uint8_t mem[2][2][SENDS][SIZE];
    struct sim s;
    struct uiw_mr *mr[2];
    sim_open(&s, 1, "mtu=1500");
    sim_connect(&s, NULL, NULL);
    struct uiw_send_wr first = {.opcode = UIW_WR_RDMA_WRITE}; /* then the Responder may send */
    assert_int_equal(uiw_qp_post_send(s.side[0].qp, &first, NULL), 0);
    for (int i = 0; i < 50; i++) {
        sim_step(&s);
    }
    sim_wire(&s, &(struct net_wire){.seed = 1, .delay_ms = 20});
    for (int i = 0; i < 2; i++) {
        mr[i] = sim_reg(&s, i, mem[i], sizeof mem[i], UIW_ACCESS_LOCAL_WRITE);
        for (int k = 0; k < SENDS; k++) {
            memset(mem[i][0][k], 16 * (i + 1) + k, SIZE);
            sim_recv(&s, i, sim_sge(mr[i], mem[i][1][k], SIZE), 100 + (uint64_t)k);
            sim_post(&s, i, UIW_WR_SEND, sim_sge(mr[i], mem[i][0][k], SIZE), (struct sim_at){0, 0});
        }
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(uiw_disconnect(s.side[i].conn), 0);
    }
    for (int i = 0; i < 2; i++) {
        struct uiw_wc wc[2 * SENDS];
        uint64_t sent = 0, got = 0;
        sim_until(&s, &s.side[i].disconnected, 1, 10000);
        assert_int_equal(s.side[i].last.reason, UIW_REASON_CLOSED);
        sim_poll(&s, i, 2 * SENDS, wc);
        for (int k = 0; k < 2 * SENDS; k++) {
            assert_int_equal(wc[k].status, UIW_WC_SUCCESS);
            if (wc[k].opcode == UIW_WC_RECV) {
                assert_int_equal(wc[k].wr_id, 100 + got);
                assert_memory_equal(mem[i][1][got], mem[1 - i][0][got], SIZE);
                got++;
            } else {
                sent++;
            }
        }
        assert_int_equal(got, SENDS);
        assert_int_equal(sent, SENDS);
    }
    sim_wire(&s, &(struct net_wire){.seed = 1});
    sim_drop(&s);
    for (int i = 0; i < 2; i++) {
        uiw_mr_dereg(mr[i]);
    }
    sim_close(&s);
}

/* The peer closes although our Read is open: no good order.
 * proves: MPA-5044-8-01 */
static void test_peer_closes_on_an_open_read(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500");
    struct uiw_wc wc;
    solo_join(c);
    sim_post(&c->s, 1, UIW_WR_RDMA_READ, solo_sge(c, 0, 8), (struct sim_at){0x1000, 5});
    assert_true(raw_next(&c->r, &c->c, &c->u));
    net_shutdown(c->c.stream);
    solo_expect_end(c, UIW_REASON_LOST);
    sim_poll(&c->s, 1, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_WR_FLUSH_ERR);
    solo_close(c);
}

/* Its FIN is behind a message that has no receive yet.
 * proves: DDP-5041-7.1-07 DDP-5041-6.2.1-04 */
static void test_peer_closes_and_its_message_waits(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500,rnr=5");
    struct uiw_wc wc;
    solo_join(c);
    raw_send(&c->c, 1, "late", 4);
    net_shutdown(c->c.stream);
    raw_run(&c->r, 500);
    assert_int_equal(c->b->disconnected, 0);
    sim_recv(&c->s, 1, solo_sge(c, 0, 8), 1);
    sim_poll(&c->s, 1, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_SUCCESS);
    assert_memory_equal(c->mem, "late", 4);
    solo_expect_end(c, UIW_REASON_CLOSED);
    solo_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peer_closes_its_half),
        cmocka_unit_test(test_we_close_our_half),
        cmocka_unit_test(test_peer_never_closes),
        cmocka_unit_test(test_close_waits_for_a_slow_peer),
        cmocka_unit_test(test_both_close_at_once),
        cmocka_unit_test(test_both_close_with_work),
        cmocka_unit_test(test_peer_closes_on_an_open_read),
        cmocka_unit_test(test_peer_closes_and_its_message_waits),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
