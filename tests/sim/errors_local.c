/* SPDX-License-Identifier: MIT */
/* TCP that is lost, and errors found at this end; each by the whole stack against a peer made by hand. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "errors.h"
#include "family.h"

/* --- TCP lost --- */

/* proves: MPA-5044-8-01 MPA-5044-8-05 DDP-5041-6.2.2-01 DDP-5041-3-09 DDP-5041-6.2.2-04 */
static void test_tcp_lost(void **state)
{
    (void)state;
    static const struct {
        uint32_t octets; /* of an FPDU, before the end */
        bool reset;
        enum uiw_reason reason;
    } ends[] = {{0, true, UIW_REASON_RESET},
                {9, true, UIW_REASON_RESET},
                {9, false, UIW_REASON_LOST},
                {1, false, UIW_REASON_LOST},
                {0, false, UIW_REASON_CLOSED}};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        struct scene *c = scene_open(E_TCP_LOST, "mtu=1500");
        scene_join(c);
        scene_recv(c, 4);
        raw_put(&c->c, "\0\x12\x41\x43\0\0\0\0\0", ends[i].octets);
        raw_run(&c->r, 5);
        uint32_t before = c->c.rx_octets;
        raw_hangup(&c->r, &c->c, ends[i].reset);
        scene_hit(c);
        sim_until(&c->s, &c->s.side[1].disconnected, 1, 5000);
        scene_expect_last(c, UIW_EVENT_DISCONNECTED, ends[i].reason, 0);
        scene_expect_flush(c, 4);
        assert_int_equal(c->c.rx_octets, before); /* no Terminate where none can be read */
        scene_expect_no_async(c);
        scene_close(c);
    }
}

/* Nothing comes any more from a peer, and nothing reaches it.
 * proves: MPA-5044-8-01 DDP-5041-3-03 */
static void test_peer_vanishes(void **state)
{
    (void)state;
    enum { SIZE = 8 << 20 }; /* more than all buffers hold */
    static uint8_t big[SIZE];
    struct scene *c = scene_open(E_TCP_LOST, "mtu=1500");
    struct sockaddr_storage peer;
    struct uiw_wc wc;
    struct uiw_mr *mr = sim_reg(&c->s, 1, big, SIZE, UIW_ACCESS_LOCAL_WRITE);
    scene_join(c);
    net_stream_local(c->c.stream, &peer);
    const struct net_wire cut = {.lost_port = test_port(&peer)};
    net_wire_set(c->s.side[1].net, &cut);
    net_wire_set(c->r.net, &cut);
    sim_post(&c->s, 1, UIW_WR_SEND, sim_sge(mr, big, SIZE), (struct sim_at){0, 0});
    scene_hit(c);
    sim_until(&c->s, &c->s.side[1].disconnected, 1, 400000);
    scene_expect_last(c, UIW_EVENT_DISCONNECTED, UIW_REASON_TIMEOUT, 0);
    /* Never acknowledged, never a success. */
    sim_poll(&c->s, 1, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_WR_FLUSH_ERR);
    assert_int_equal(c->c.len, 0);
    uiw_mr_dereg(mr);
    scene_close(c);
}

enum ending { DISCONNECT, ABORT, TO_ERROR, DESTROY };

/* The program ends it while a receive is posted and a Read is open: no word to the peer but TCP's. */
static void end_here(enum ending how)
{
    struct scene *c = scene_open(E_CLOSED, "mtu=1500");
    struct sim_side *b = &c->s.side[1];
    uint8_t sink[8] = {0};
    struct uiw_wc wc;
    struct uiw_mr *mr = sim_reg(&c->s, 1, sink, sizeof sink, UIW_ACCESS_LOCAL_WRITE);
    scene_join(c);
    scene_recv(c, 4);
    sim_post(&c->s, 1, UIW_WR_RDMA_READ, sim_sge(mr, sink, 8), (struct sim_at){0x1000, 7});
    assert_true(raw_next(&c->r, &c->c, &c->u));
    assert_int_equal(how == DISCONNECT ? uiw_disconnect(b->conn)
                     : how == ABORT    ? uiw_abort(b->conn)
                     : how == TO_ERROR ? uiw_qp_error(b->qp)
                                       : uiw_conn_destroy(b->conn),
                     0);
    scene_hit(c);
    if (how == DESTROY) {
        b->conn = NULL;
    } else {
        sim_until(&c->s, &b->disconnected, 1, 20000);
    }
    assert_false(raw_next(&c->r, &c->c, &c->u));
    sim_poll(&c->s, 1, 1, &wc);
    assert_int_equal(wc.opcode, UIW_WC_RDMA_READ);
    assert_int_equal(wc.status, UIW_WC_WR_FLUSH_ERR);
    scene_expect_flush(c, 4);
    scene_expect_no_async(c);
    uiw_mr_dereg(mr);
    scene_close(c);
}

static void test_end_here(void **state)
{
    (void)state;
    for (enum ending how = DISCONNECT; how <= DESTROY; how++) {
        end_here(how);
    }
}

/* --- errors at this end --- */

/* A receive whose memory has gone: the placement fails here. */
static void test_placement_fails(void **state)
{
    (void)state;
    struct scene *c = scene_open(E_PLACEMENT, "mtu=1500");
    struct uiw_wc wc;
    uint8_t in[16] = {0};
    struct uiw_mr *mr = sim_reg(&c->s, 1, in, sizeof in, UIW_ACCESS_LOCAL_WRITE);
    scene_join(c);
    sim_recv(&c->s, 1, sim_sge(mr, in, sizeof in), 9);
    uiw_mr_dereg(mr);
    raw_send(&c->c, 1, "12345678", 8);
    scene_hit(c);
    scene_expect_word(c, 0x10000000);
    sim_until(&c->s, &c->s.side[1].disconnected, 1, 1000);
    scene_expect_last(c, UIW_EVENT_DISCONNECTED, UIW_REASON_LOCAL, 0x10000);
    sim_poll(&c->s, 1, 1, &wc);
    assert_int_equal(wc.wr_id, 9);
    assert_int_equal(wc.status, UIW_WC_LOC_PROT_ERR);
    scene_expect_async(c, UIW_ASYNC_QP_FATAL, "here: DDP local catastrophic error");
    scene_expect_no_async(c);
    assert_int_equal(in[0], 0);
    scene_close(c);
}

/* What is wrong with the memory of a request. */
enum flaw {
    OVER,    /* it passes the region's end */
    UNKNOWN, /* no such lkey */
    FOREIGN, /* of another PD */
    WINDOW,  /* the STag of a window, which is no lkey */
    UNBOUND, /* of one that is bound to nothing */
    REVOKED, /* deregistered after it was posted */
    FLAWS,
};

struct flawed {
    uint8_t mem[16];
    struct uiw_mr *good, *bad, *foreign;
    struct uiw_mw *mw;
    struct uiw_pd *pd;
};

static struct uiw_sge spoil(struct scene *c, struct flawed *f, enum flaw flaw)
{
    struct sim_side *b = &c->s.side[1];
    enum { ACCESS = UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_MW_BIND };
    memcpy(f->mem, "good", 4);
    f->good = sim_reg(&c->s, 1, f->mem, sizeof f->mem, ACCESS);
    f->bad = sim_reg(&c->s, 1, f->mem, sizeof f->mem, ACCESS);
    assert_int_equal(uiw_pd_create(b->dev, &f->pd), 0);
    assert_int_equal(uiw_mr_reg(f->pd, f->mem, sizeof f->mem, ACCESS, &f->foreign), 0);
    assert_int_equal(uiw_mw_create(b->pd, UIW_MW_TYPE_1, &f->mw), 0);
    struct uiw_sge sge = sim_sge(f->bad, f->mem, 8);
    switch (flaw) {
    case OVER: sge.addr += 9; break;
    case UNKNOWN: sge.lkey = ~sge.lkey; break;
    case FOREIGN: sge.lkey = uiw_mr_lkey(f->foreign); break;
    case UNBOUND: sge.lkey = uiw_mw_rkey(f->mw); break;
    default: break;
    }
    return sge;
}

static void bind_window(struct scene *c, struct flawed *f)
{
    struct uiw_wc wc;
    struct uiw_send_wr wr = {.opcode = UIW_WR_BIND_MW,
                             .flags = UIW_SEND_SIGNALED,
                             .bind = {.mw = f->mw,
                                      .mr = f->good,
                                      .addr = (uintptr_t)f->mem,
                                      .length = sizeof f->mem,
                                      .access = UIW_ACCESS_REMOTE_READ}};
    assert_int_equal(uiw_qp_post_send(c->s.side[1].qp, &wr, NULL), 0);
    sim_poll(&c->s, 1, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_SUCCESS);
}

static void drop_flawed(struct flawed *f)
{
    uiw_mw_destroy(f->mw);
    uiw_mr_dereg(f->good);
    if (f->bad != NULL) {
        uiw_mr_dereg(f->bad);
    }
    uiw_mr_dereg(f->foreign);
    uiw_pd_destroy(f->pd);
}

/* Answers the Read that the flawed request waits for. */
static void answer_read(struct scene *c)
{
    struct rdmap_read_request q;
    uint8_t seg[64];
    rdmap_read_request_unpack(c->u.octets + DDP_UNTAGGED_LEN, &q);
    struct ddp_hdr h = {.tagged = true,
                        .last = true,
                        .version = 1,
                        .ulp = rdmap_control(RDMAP_READ_RESPONSE),
                        .stag = q.sink_stag,
                        .to = q.sink_to};
    raw_ulpdu(&c->c, seg, raw_segment(seg, &h, "good", q.len));
}

static void expect_not_made(struct scene *c, enum uiw_wc_status status)
{
    struct uiw_wc wc[3];
    scene_expect_word(c, 0x00000000);
    sim_until(&c->s, &c->s.side[1].disconnected, 1, 1000);
    scene_expect_last(c, UIW_EVENT_DISCONNECTED, UIW_REASON_LOCAL, 0);
    scene_expect_async(c, UIW_ASYNC_QP_FATAL, "here: RDMAP local catastrophic error");
    scene_expect_no_async(c);
    sim_poll(&c->s, 1, 3, wc);
    assert_int_equal(wc[0].status, UIW_WC_SUCCESS);
    assert_int_equal(wc[1].status, status);
    assert_int_equal(wc[2].status, UIW_WC_WR_FLUSH_ERR);
    raw_hangup(&c->r, &c->c, false);
    sim_drop(&c->s);
}

/* A request that cannot be made: the Terminate goes in its place, bare; the Read before it is done. */
static void message_cannot_be_made(enum uiw_wr_opcode op, enum flaw flaw)
{
    struct scene *c = scene_open(E_MAKING, "mtu=1500");
    struct flawed f;
    struct uiw_sge bad = spoil(c, &f, flaw), good = sim_sge(f.good, f.mem, 4);
    scene_join(c);
    if (flaw == WINDOW) {
        bind_window(c, &f);
        bad.lkey = uiw_mw_rkey(f.mw);
    }
    struct uiw_send_wr wr[3] = {
        {.wr_id = 1, .next = &wr[1], .opcode = UIW_WR_RDMA_READ, .sg_list = &good, .num_sge = 1},
        {.wr_id = 2, .next = &wr[2], .opcode = op, .sg_list = &bad, .num_sge = 1, .rkey = 7},
        {.wr_id = 3, .sg_list = &good, .num_sge = 1}};
    wr[0].flags = UIW_SEND_SIGNALED;
    wr[1].flags = UIW_SEND_FENCE;
    assert_int_equal(uiw_qp_post_send(c->s.side[1].qp, wr, NULL), 0);
    assert_true(raw_next(&c->r, &c->c, &c->u));
    assert_int_equal(c->u.opcode, RDMAP_READ_REQUEST);
    if (flaw == REVOKED) {
        assert_int_equal(uiw_mr_dereg(f.bad), 0);
        f.bad = NULL;
    }
    answer_read(c);
    scene_hit(c);
    expect_not_made(c, UIW_WC_LOC_PROT_ERR);
    drop_flawed(&f);
    scene_close(c);
}

/* proves: RDMAP-5040-7.1-02 EXT-7306-8.1-01 */
static void test_message_cannot_be_made(void **state)
{
    (void)state;
    static const enum uiw_wr_opcode ops[] = {UIW_WR_SEND,
                                             UIW_WR_SEND_WITH_INV,
                                             UIW_WR_RDMA_WRITE,
                                             UIW_WR_RDMA_WRITE_WITH_IMM,
                                             UIW_WR_RDMA_READ,
                                             UIW_WR_ATOMIC_FETCH_ADD,
                                             UIW_WR_ATOMIC_CMP_SWAP,
                                             UIW_WR_MASKED_ATOMIC_FETCH_ADD,
                                             UIW_WR_MASKED_ATOMIC_CMP_SWAP};
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        for (enum flaw flaw = 0; flaw < FLAWS; flaw++) {
            message_cannot_be_made(ops[i], flaw);
        }
    }
}

/* A request on memory objects that cannot be carried out. */
static void test_bad_bind_and_invalidation(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct scene *c = scene_open(E_MAKING, "mtu=1500");
        struct flawed f;
        struct uiw_sge good = (spoil(c, &f, OVER), sim_sge(f.good, f.mem, 4));
        scene_join(c);
        struct uiw_send_wr wr[3] = {
            {.wr_id = 1, .next = &wr[1], .sg_list = &good, .num_sge = 1},
            {.wr_id = 2, .next = &wr[2], .opcode = i == 0 ? UIW_WR_BIND_MW : UIW_WR_LOCAL_INV},
            {.wr_id = 3, .sg_list = &good, .num_sge = 1}};
        wr[0].flags = UIW_SEND_SIGNALED;
        wr[1].invalidate = ~uiw_mr_rkey(f.good);
        wr[1].bind =
            (struct uiw_bind){.mw = f.mw, .mr = f.good, .addr = (uintptr_t)f.mem + 9, .length = 8};
        assert_int_equal(uiw_qp_post_send(c->s.side[1].qp, wr, NULL), 0);
        scene_hit(c);
        assert_true(raw_next(&c->r, &c->c, &c->u));
        assert_int_equal(c->u.opcode, RDMAP_SEND);
        expect_not_made(c, UIW_WC_MW_BIND_ERR);
        drop_flawed(&f);
        scene_close(c);
    }
}

/* --- a region that changes half way --- */

enum change { GOES, MOVES, NO_RIGHT, OTHER_PD, CHANGES };

/* Returns the PD that it was moved to, or NULL. */
static struct uiw_pd *change_region(struct scene *c, struct uiw_mr **mr, enum change how)
{
    static uint8_t elsewhere[64];
    struct uiw_mr_change ch = {.what = how == MOVES      ? UIW_REREG_TRANSLATION
                                       : how == NO_RIGHT ? UIW_REREG_ACCESS
                                                         : UIW_REREG_PD,
                               .addr = elsewhere,
                               .length = sizeof elsewhere};
    if (how == GOES) {
        assert_int_equal(uiw_mr_dereg(*mr), 0);
        *mr = NULL;
        return NULL;
    }
    assert_int_equal(uiw_pd_create(c->s.side[1].dev, &ch.pd), 0);
    assert_int_equal(uiw_mr_rereg(*mr, &ch), 0);
    return ch.pd;
}

static void drop_region(struct uiw_mr *mr, struct uiw_pd *pd)
{
    if (mr != NULL) {
        uiw_mr_dereg(mr);
    }
    if (pd != NULL) {
        uiw_pd_destroy(pd);
    }
}

/* The Read Response comes up to where the region changed, with nothing of what stands there now; the
 * Terminate tells what is left of the Read. */
static void expect_half(struct scene *c, const struct rdmap_read_request *q, unsigned code)
{
    uint32_t done = 0;
    for (;;) {
        assert_true(raw_next(&c->r, &c->c, &c->u));
        if (c->u.opcode != RDMAP_READ_RESPONSE) {
            break;
        }
        assert_int_equal(c->u.seg.hdr.to, q->sink_to + done);
        assert_int_equal(c->u.octets[DDP_TAGGED_LEN], 0x42);
        done += c->u.seg.plen;
    }
    assert_in_range(done, 1, q->len - 1);
    assert_true(rdmap_term_unpack(c->u.seg.payload, &c->t));
    assert_true(verdict_is(c->t.v, 0, 1, code) && c->t.m && c->t.d && c->t.has_read);
    struct rdmap_read_request rest;
    rdmap_read_request_unpack(c->t.read, &rest);
    assert_int_equal(rest.len, q->len - done);
    assert_int_equal(rest.src_to, q->src_to + done);
    assert_int_equal(rest.sink_to, q->sink_to + done);
    assert_false(raw_next(&c->r, &c->c, &c->u));
}

/* The region goes, or changes, while its octets are being read: what is left is not read any more. */
static void read_fails_half_way(enum change how, unsigned code)
{
    enum { SIZE = 6 << 20, WINDOW_THERE = 64 << 10 }; /* more than the stream takes in advance */
    struct scene *c = scene_open(E_READ_HALF, "mtu=1500");
    uint8_t *big = malloc(SIZE);
    memset(big, 0x42, SIZE);
    struct uiw_mr *mr = sim_reg(&c->s, 1, big, SIZE, UIW_ACCESS_REMOTE_READ);
    struct rdmap_read_request q = {.sink_stag = 0x88,
                                   .sink_to = 0x10000,
                                   .len = SIZE,
                                   .src_stag = uiw_mr_rkey(mr),
                                   .src_to = (uintptr_t)big};
    net_test_window(WINDOW_THERE);
    raw_join(&c->r, &c->c, NULL);
    net_test_window(0);
    c->c.deaf = true;
    raw_read_request(&c->c, 1, &q);
    raw_run(&c->r, 500); /* the window closes */
    struct uiw_pd *pd = change_region(c, &mr, how);
    memset(big, 0x66, SIZE);
    c->c.deaf = false;
    scene_hit(c);
    expect_half(c, &q, code);
    sim_until(&c->s, &c->s.side[1].disconnected, 1, 1000);
    scene_expect_last(c, UIW_EVENT_DISCONNECTED, UIW_REASON_FAULT, 0x000100 | code);
    scene_expect_async(c, UIW_ASYNC_QP_ACCESS, NULL);
    scene_expect_no_async(c);
    drop_region(mr, pd);
    scene_close(c);
    free(big);
}

/* proves: RDMAP-5040-4.8-16 RDMAP-5040-8.1.1-06 RDMAP-5040-7.2-11 */
static void test_read_fails_half_way(void **state)
{
    (void)state;
    static const unsigned code[CHANGES] = {0, 1, 2, 3};
    for (enum change how = GOES; how < CHANGES; how++) {
        read_fails_half_way(how, code[how]);
    }
}

/* Half of the octets of a Read that the device has asked for. */
static void put_half(struct scene *c, const struct rdmap_read_request *q, bool second)
{
    uint8_t seg[DDP_TAGGED_LEN + 600], data[600];
    struct ddp_hdr h = {.tagged = true,
                        .last = second,
                        .version = 1,
                        .ulp = rdmap_control(RDMAP_READ_RESPONSE),
                        .stag = q->sink_stag,
                        .to = q->sink_to + (second ? sizeof data : 0)};
    memset(data, 0x42, sizeof data);
    raw_ulpdu(&c->c, seg, raw_segment(seg, &h, data, sizeof data));
}

/* The sink of the device's own Read goes while the answer comes: the peer is told so, nothing more is
 * placed, and the Read fails for a reason of this end's. */
static void sink_fails_half_way(enum change how, enum errors_row row, unsigned code)
{
    struct scene *c = scene_open(row, "mtu=1500");
    uint8_t sink[1200] = {0}, zero[600] = {0};
    struct rdmap_read_request q;
    struct uiw_wc wc;
    struct uiw_mr *mr = sim_reg(&c->s, 1, sink, sizeof sink, UIW_ACCESS_LOCAL_WRITE);
    scene_join(c);
    sim_post(&c->s, 1, UIW_WR_RDMA_READ, sim_sge(mr, sink, sizeof sink),
             (struct sim_at){0x1000, 7});
    assert_true(raw_next(&c->r, &c->c, &c->u));
    rdmap_read_request_unpack(c->u.octets + DDP_UNTAGGED_LEN, &q);
    put_half(c, &q, false);
    raw_run(&c->r, 5);
    struct uiw_pd *pd = change_region(c, &mr, how);
    put_half(c, &q, true);
    scene_hit(c);
    raw_terminate(&c->r, &c->c, &c->u, &c->t);
    assert_true(verdict_is(c->t.v, 1, 1, code) && c->t.m && c->t.d && !c->t.r);
    sim_until(&c->s, &c->s.side[1].disconnected, 1, 1000);
    sim_poll(&c->s, 1, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_LOC_PROT_ERR);
    assert_int_equal(sink[0], 0x42);
    assert_memory_equal(sink + 600, zero, 600);
    drop_region(mr, pd);
    scene_close(c);
}

static void test_sink_fails_half_way(void **state)
{
    (void)state;
    sink_fails_half_way(GOES, E_TAGGED_STAG, 0);
    sink_fails_half_way(MOVES, E_TAGGED_BOUNDS, 1);
    sink_fails_half_way(OTHER_PD, E_TAGGED_PD, 2);
    sink_fails_half_way(NO_RIGHT, E_TAGGED_RIGHT, 0);
}

/* --- a CQ that overflows --- */

static struct uiw_qp *qp_on(struct scene *c, struct uiw_cq *send_cq, struct uiw_cq *recv_cq)
{
    struct uiw_qp *qp;
    struct uiw_qp_attr attr = {.send_cq = send_cq,
                               .recv_cq = recv_cq,
                               .srq = c->s.srq,
                               .max_send_wr = 16,
                               .max_recv_wr = c->s.srq == NULL ? 16 : 0,
                               .sig_all = true};
    assert_int_equal(uiw_qp_create(c->s.side[1].pd, &attr, &qp), 0);
    return qp;
}

static void post_sends(struct uiw_qp *qp, int n)
{
    struct uiw_send_wr send = {.wr_id = 1, .opcode = UIW_WR_SEND};
    for (int i = 0; i < n; i++) {
        assert_int_equal(uiw_qp_post_send(qp, &send, NULL), 0);
    }
}

/* proves: RDMAP-5040-8.1.1-11 SEC-5042-6.4.6-01 */
static void test_cq_overflow(void **state)
{
    (void)state;
    struct scene *c = scene_open(E_CATASTROPHE, "mtu=1500");
    struct sim_side *b = &c->s.side[1];
    struct uiw_cq *small;
    assert_int_equal(uiw_cq_create(b->dev, 2, NULL, NULL, &small), 0);
    struct uiw_qp *qp = qp_on(c, small, c->s.side[1].cq);
    struct uiw_conn *conn = raw_join_qp(&c->r, &c->c, NULL, qp);
    raw_first(&c->r, &c->c);
    post_sends(qp, 3);
    scene_hit(c);
    for (int i = 0; i < 3; i++) {
        assert_true(raw_next(&c->r, &c->c, &c->u));
        assert_int_equal(c->u.opcode, RDMAP_SEND);
    }
    scene_expect_word(c, 0x02070000);
    sim_until(&c->s, &b->disconnected, 1, 1000);
    assert_ptr_equal(b->last.conn, conn);
    scene_expect_last(c, UIW_EVENT_DISCONNECTED, UIW_REASON_LOCAL, 0x000207);
    scene_expect_async(c, UIW_ASYNC_CQ_ERR, NULL);
    scene_expect_async(c, UIW_ASYNC_QP_FATAL,
                       "here: RDMAP remote operation error: catastrophic, localised to the stream");
    scene_expect_no_async(c);
    uiw_conn_destroy(conn);
    uiw_qp_destroy(qp);
    uiw_cq_destroy(small);
    scene_close(c);
}

/* proves: RDMAP-5040-8.1.1-11 */
static void test_cq_of_receives_overflows(void **state)
{
    (void)state;
    if (scene_shared) {
        return; /* its receives would be those of others */
    }
    struct scene *c = scene_open(E_CATASTROPHE, "mtu=1500");
    struct uiw_cq *small;
    assert_int_equal(uiw_cq_create(c->s.side[1].dev, 2, NULL, NULL, &small), 0);
    struct uiw_qp *qp = qp_on(c, c->s.side[1].cq, small);
    struct uiw_conn *conn = raw_join_qp(&c->r, &c->c, NULL, qp);
    scene_hit(c);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_int_equal(uiw_qp_post_recv(qp, &(struct uiw_recv_wr){.wr_id = i}, NULL), 0);
        raw_send(&c->c, i, NULL, 0);
    }
    scene_expect_word(c, 0x02070000);
    sim_until(&c->s, &c->s.side[1].disconnected, 1, 1000);
    assert_ptr_equal(c->s.side[1].last.conn, conn);
    scene_expect_last(c, UIW_EVENT_DISCONNECTED, UIW_REASON_LOCAL, 0x000207);
    uiw_conn_destroy(conn);
    uiw_qp_destroy(qp);
    uiw_cq_destroy(small);
    scene_close(c);
}

/* Two Responders share the CQ; the one that has heard no FPDU yet just resets.
 * proves: MPA-5044-7.1.2-15 */
static void test_cq_overflow_before_the_first_fpdu(void **state)
{
    (void)state;
    struct scene *c = scene_open(E_CATASTROPHE, "mtu=1500");
    struct raw_conn mute;
    struct uiw_cq *small;
    assert_int_equal(uiw_cq_create(c->s.side[1].dev, 2, NULL, NULL, &small), 0);
    struct uiw_qp *qp[2] = {qp_on(c, small, small), qp_on(c, small, small)};
    struct uiw_conn *conn[2] = {raw_join_qp(&c->r, &c->c, NULL, qp[0])};
    raw_first(&c->r, &c->c);
    conn[1] = raw_join_qp(&c->r, &mute, NULL, qp[1]);
    uint32_t before = mute.rx_octets;
    post_sends(qp[0], 3);
    scene_hit(c);
    sim_until(&c->s, &c->s.side[1].disconnected, 2, 1000);
    raw_run(&c->r, 20);
    assert_int_equal(mute.rx_octets, before);
    assert_true(mute.close_came);
    for (int i = 0; i < 2; i++) {
        uiw_conn_destroy(conn[i]);
        uiw_qp_destroy(qp[i]);
    }
    uiw_cq_destroy(small);
    scene_close(c);
}

int errors_local(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tcp_lost),
        cmocka_unit_test(test_peer_vanishes),
        cmocka_unit_test(test_end_here),
        cmocka_unit_test(test_placement_fails),
        cmocka_unit_test(test_message_cannot_be_made),
        cmocka_unit_test(test_bad_bind_and_invalidation),
        cmocka_unit_test(test_read_fails_half_way),
        cmocka_unit_test(test_sink_fails_half_way),
        cmocka_unit_test(test_cq_overflow),
        cmocka_unit_test(test_cq_of_receives_overflows),
        cmocka_unit_test(test_cq_overflow_before_the_first_fpdu),
    };
    return cmocka_run_group_tests_name("errors at this end", tests, NULL, NULL);
}
