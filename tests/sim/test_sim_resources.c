/* SPDX-License-Identifier: MIT */
/* What streams share and what they do not: read queues, receives, completion queues; the limits on what
 * a program may have; who is idle. Peers made by hand. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "family.h"
#include "raw.h"

enum { PEERS = 3, AREA = 1 << 16 };

struct scene {
    struct sim s;
    struct raw r;
    struct sim_side *b;
    struct raw_conn raw[PEERS];
    struct uiw_qp *qp[PEERS];
    struct uiw_conn *conn[PEERS];
    struct raw_ulpdu u;
    uint8_t *area;
    struct uiw_mr *mr;
};

static struct scene *scene_open(const char *keys)
{
    struct scene *c = calloc(1, sizeof *c);
    sim_open_one(&c->s, 1, keys);
    raw_open(&c->r, &c->s);
    c->b = &c->s.side[1];
    c->area = calloc(1, AREA);
    c->mr = sim_reg(&c->s, 1, c->area, AREA,
                    UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE | UIW_ACCESS_REMOTE_READ);
    return c;
}

/* The i-th peer, on a QP with that CQ and SRQ. */
static void join(struct scene *c, int i, struct uiw_cq *cq, struct uiw_srq *srq)
{
    struct uiw_qp_attr attr = {.send_cq = cq,
                               .recv_cq = cq,
                               .srq = srq,
                               .max_send_wr = 16,
                               .max_recv_wr = srq == NULL ? 16 : 0,
                               .max_send_sge = 1,
                               .max_recv_sge = 1};
    assert_int_equal(uiw_qp_create(c->b->pd, &attr, &c->qp[i]), 0);
    c->conn[i] = raw_join_qp(&c->r, &c->raw[i], NULL, c->qp[i]);
    raw_first(&c->r, &c->raw[i]);
}

static void scene_close(struct scene *c)
{
    raw_close(&c->r);
    c->b->conn = NULL;
    c->b->qp = NULL;
    for (int i = 0; i < PEERS; i++) {
        if (c->conn[i] != NULL) {
            uiw_conn_destroy(c->conn[i]);
            uiw_qp_destroy(c->qp[i]);
        }
    }
    uiw_mr_dereg(c->mr);
    free(c->area);
    sim_close(&c->s);
    free(c);
}

static uint32_t num_of(const struct uiw_qp *qp)
{
    struct uiw_qp_info info;
    uiw_qp_query(qp, &info);
    return info.qp_num;
}

static void ask_read(struct scene *c, int i, uint32_t msn, uint32_t n)
{
    raw_read_request(&c->raw[i], msn,
                     &(struct rdmap_read_request){.sink_stag = 1,
                                                  .len = n,
                                                  .src_stag = uiw_mr_rkey(c->mr),
                                                  .src_to = (uintptr_t)c->area});
}

/* One peer fills its read queue and takes nothing; then it asks for one more. The other reads on.
 * proves: RDMAP-5040-8.1.2-08 SEC-5042-6.4.3.3-01 */
static void test_read_queues_are_not_shared(void **state)
{
    (void)state;
    enum { DEPTH = 4, HUGE_LEN = 32 << 20 };
    struct scene *c = scene_open("mtu=1500,ird=4");
    uint8_t *huge_mem = calloc(1, HUGE_LEN);
    struct uiw_mr *mr = sim_reg(&c->s, 1, huge_mem, HUGE_LEN, UIW_ACCESS_REMOTE_READ);
    join(c, 0, c->b->cq, NULL);
    join(c, 1, c->b->cq, NULL);
    c->raw[0].deaf = true;
    raw_read_request(&c->raw[0], 1,
                     &(struct rdmap_read_request){.sink_stag = 1,
                                                  .len = HUGE_LEN,
                                                  .src_stag = uiw_mr_rkey(mr),
                                                  .src_to = (uintptr_t)huge_mem});
    for (uint32_t msn = 2; msn <= DEPTH; msn++) {
        ask_read(c, 0, msn, 8);
    }
    raw_run(&c->r, 200);
    for (uint32_t msn = 1; msn <= 10; msn++) {
        ask_read(c, 1, msn, 8);
        assert_true(raw_next(&c->r, &c->raw[1], &c->u));
        assert_int_equal(c->u.opcode, RDMAP_READ_RESPONSE);
    }
    assert_int_equal(c->b->disconnected, 0);
    ask_read(c, 0, DEPTH + 1, 8);
    sim_until(&c->s, &c->b->disconnected, 1, 1000);
    assert_ptr_equal(c->b->last.conn, c->conn[0]);
    assert_int_equal(c->b->last.code, 7);
    ask_read(c, 1, 11, 8);
    assert_true(raw_next(&c->r, &c->raw[1], &c->u));
    assert_int_equal(c->u.opcode, RDMAP_READ_RESPONSE);
    uiw_mr_dereg(mr);
    free(huge_mem);
    scene_close(c);
}

/* A greedy peer eats the shared receives: the limit event comes, and completions name the QP.
 * proves: RDMAP-5040-8.1.2-09 SEC-5042-6.4.3.1-01 */
static void test_greedy_peer_of_an_srq(void **state)
{
    (void)state;
    enum { RECVS = 16 };
    struct scene *c = scene_open("mtu=1500");
    struct uiw_srq *srq;
    struct uiw_srq_attr attr = {.max_wr = RECVS, .max_sge = 1, .limit = 4};
    assert_int_equal(uiw_srq_create(c->b->pd, &attr, &srq), 0);
    for (int i = 0; i < 2; i++) {
        join(c, i, c->b->cq, srq);
    }
    for (uint64_t i = 0; i < RECVS; i++) {
        struct uiw_sge sge = sim_sge(c->mr, c->area + i * 64, 64);
        struct uiw_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};
        assert_int_equal(uiw_srq_post_recv(srq, &wr, NULL), 0);
    }
    struct uiw_async_event ev;
    struct uiw_wc wc[RECVS];
    raw_send(&c->raw[1], 1, "modest", 6);
    raw_run(&c->r, 10);
    for (uint32_t msn = 1; msn < RECVS - 4; msn++) {
        raw_send(&c->raw[0], msn, "greedy", 6);
    }
    raw_run(&c->r, 10);
    assert_int_equal(uiw_async_get(c->b->dev, &ev), -EAGAIN);
    raw_send(&c->raw[0], RECVS - 4, "greedy", 6);
    raw_run(&c->r, 10);
    assert_int_equal(uiw_async_get(c->b->dev, &ev), 0);
    assert_int_equal(ev.type, UIW_ASYNC_SRQ_LIMIT);
    assert_ptr_equal(ev.srq, srq);
    uint32_t by[2] = {0, 0};
    sim_poll(&c->s, 1, RECVS - 3, wc);
    for (int i = 0; i < RECVS - 3; i++) {
        by[0] += wc[i].qp_num == num_of(c->qp[0]);
        by[1] += wc[i].qp_num == num_of(c->qp[1]);
    }
    assert_int_equal(by[0], RECVS - 4);
    assert_int_equal(by[1], 1);
    /* And who is found out can be put out. */
    assert_int_equal(uiw_abort(c->conn[0]), 0);
    raw_send(&c->raw[1], 2, "modest", 6);
    sim_poll(&c->s, 1, 1, wc);
    assert_int_equal(wc[0].qp_num, num_of(c->qp[1]));
    while (uiw_async_get(c->b->dev, &ev) == 0) { /* once is told, until it is armed anew */
        assert_int_not_equal(ev.type, UIW_ASYNC_SRQ_LIMIT);
    }
    for (int i = 0; i < 2; i++) {
        uiw_conn_destroy(c->conn[i]);
        uiw_qp_destroy(c->qp[i]);
        c->conn[i] = NULL;
    }
    uiw_srq_destroy(srq);
    scene_close(c);
}

/* A CQ of the sum of all queue depths does not overflow, whatever the peers do and though the
 * program does not poll: a slot is free only when its completion was polled.
 * proves: SEC-5042-6.4.3.2-02 */
static void test_cq_for_the_sum(void **state)
{
    (void)state;
    enum { ALL = PEERS * (16 + 16) };
    struct scene *c = scene_open("mtu=1500");
    struct uiw_cq *cq;
    struct uiw_wc wc[ALL + 1];
    assert_int_equal(uiw_cq_create(c->b->dev, ALL, NULL, NULL, &cq), 0);
    for (int i = 0; i < PEERS; i++) {
        join(c, i, cq, NULL);
    }
    for (int i = 0; i < PEERS; i++) {
        struct uiw_send_wr wr = {.opcode = UIW_WR_RDMA_WRITE, .flags = UIW_SEND_SIGNALED};
        struct uiw_recv_wr rwr = {.wr_id = 9};
        int sends = 0, recvs = 0;
        while (uiw_qp_post_recv(c->qp[i], &rwr, NULL) == 0) {
            recvs++;
        }
        for (uint32_t msn = 1; msn <= (uint32_t)recvs; msn++) {
            raw_send(&c->raw[i], msn, NULL, 0);
        }
        for (int k = 0; k < 200; k++) {
            sends += uiw_qp_post_send(c->qp[i], &wr, NULL) == 0;
            raw_run(&c->r, 1);
        }
        assert_int_equal(sends, 16);
        assert_int_equal(recvs, 16);
    }
    struct uiw_async_event ev;
    assert_int_equal(uiw_async_get(c->b->dev, &ev), -EAGAIN);
    assert_int_equal(c->b->disconnected, 0);
    assert_int_equal(uiw_cq_poll(cq, ALL + 1, wc), ALL);
    assert_int_equal(uiw_cq_poll(cq, 1, wc), 0);
    for (int i = 0; i < PEERS; i++) {
        uiw_conn_destroy(c->conn[i]);
        uiw_qp_destroy(c->qp[i]);
        c->conn[i] = NULL;
    }
    uiw_cq_destroy(cq);
    scene_close(c);
}

/* proves: SEC-5042-6.4.2-01 */
static void test_idle_streams_are_found(void **state)
{
    (void)state;
    struct scene *c = scene_open("mtu=1500");
    struct uiw_conn_info before[2], after[2];
    join(c, 0, c->b->cq, NULL);
    join(c, 1, c->b->cq, NULL);
    for (int i = 0; i < 2; i++) {
        uiw_conn_query(c->conn[i], &before[i]);
    }
    raw_write(&c->raw[1], (struct sim_at){(uintptr_t)c->area, uiw_mr_rkey(c->mr)}, "busy", 4);
    raw_run(&c->r, 1000);
    for (int i = 0; i < 2; i++) {
        uiw_conn_query(c->conn[i], &after[i]);
        assert_int_equal(after[i].rx_octets > before[i].rx_octets, i);
        assert_int_equal(after[i].tx_octets, before[i].tx_octets);
    }
    assert_int_equal(uiw_abort(c->conn[0]), 0); /* reaped */
    raw_run(&c->r, 10);
    assert_true(c->raw[0].closed && !c->raw[1].closed);
    scene_close(c);
}

/* No object beyond the limits that the device names.
 * proves: RDMAP-5040-8.1.2-03 RDMAP-5040-8.1.2-06 RDMAP-5040-8.1.2-07 SEC-5042-6.4.1-01
 * SEC-5042-6.4.3.2-01 SEC-5042-7.2-02 RDMAP-5040-6.1-02 RDMAP-5040-6.1-03 */
static void test_limits(void **state)
{
    (void)state;
    struct scene *c = scene_open("mtu=1500,ird=3,ord=2");
    struct uiw_device_attr at;
    struct uiw_cq *cq;
    struct uiw_srq *srq;
    struct uiw_qp *qp;
    struct uiw_mr *mr;
    assert_int_equal(uiw_device_query(c->b->dev, &at), 0);
    assert_int_equal(uiw_cq_create(c->b->dev, at.max_cqe + 1, NULL, NULL, &cq), -EINVAL);
    const struct uiw_qp_attr good = {
        .send_cq = c->b->cq, .recv_cq = c->b->cq, .max_send_wr = 1, .max_recv_wr = 1};
    for (int i = 0; i < 5; i++) {
        struct uiw_qp_attr bad = good;
        bad.max_send_wr = i == 0 ? at.max_send_wr + 1 : 1;
        bad.max_recv_wr = i == 1 ? at.max_recv_wr + 1 : 1;
        bad.max_send_sge = i == 2 ? at.max_sge + 1 : 1;
        bad.max_recv_sge = i == 3 ? at.max_sge + 1 : 1;
        bad.max_inline = i == 4 ? at.max_inline + 1 : 0;
        assert_int_equal(uiw_qp_create(c->b->pd, &bad, &qp), -EINVAL);
    }
    struct uiw_srq_attr many = {.max_wr = at.max_recv_wr + 1, .max_sge = 1};
    assert_int_equal(uiw_srq_create(c->b->pd, &many, &srq), -EINVAL);
    assert_int_equal(uiw_mr_reg(c->b->pd, c->area, at.max_mr_size + 1, 0, &mr), -EINVAL);
    /* Entries of read queues: the administrator's ird and ord are the most that a program gets. */
    assert_int_equal(uiw_qp_create(c->b->pd, &good, &qp), 0);
    struct sockaddr_storage to = test_addr("198.18.0.1", RAW_PORT);
    struct uiw_conn *conn;
    struct uiw_conn_param p = {.ird = 4, .ord = 2}, q = {.ird = 3, .ord = 3};
    assert_int_equal(uiw_connect(c->b->ch, qp, (struct sockaddr *)&to, &p, &conn), -EINVAL);
    assert_int_equal(uiw_connect(c->b->ch, qp, (struct sockaddr *)&to, &q, &conn), -EINVAL);
    uiw_qp_destroy(qp);
    join(c, 0, c->b->cq, NULL);
    struct uiw_qp_info info;
    uiw_qp_query(c->qp[0], &info);
    assert_int_equal(info.ird, 3);
    assert_int_equal(info.ord, 2);
    scene_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_queues_are_not_shared),
        cmocka_unit_test(test_greedy_peer_of_an_srq),
        cmocka_unit_test(test_cq_for_the_sum),
        cmocka_unit_test(test_idle_streams_are_found),
        cmocka_unit_test(test_limits),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
