/* SPDX-License-Identifier: MIT */
/* The states of a stream against a peer made by hand: beginning, errors that cross, errors while sending,
 * order of completions. Its end in good order is in test_sim_close.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "family.h"
#include "solo.h"

/* --- the beginning --- */

static void fpdu_with(struct mpa_tx *tx, const struct ddp_hdr *h, uint8_t *to, uint32_t *n)
{
    uint8_t seg[64];
    struct span none = {NULL, 0};
    struct cursor cur = cursor_of(&none, 0);
    uint32_t len = raw_segment(seg, h, "together", 8);
    *n = mpa_tx_copy(tx, &(struct mpa_out){seg, len, &cur, 0}, to);
}

/* Reply and FPDU in one TCP segment: each is taken for what it is.
 * proves: MPA-5044-7.1-01 */
static void test_fpdu_right_behind_the_reply(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500,rev=1");
    struct uiw_wc wc;
    struct mpa_frame ask, reply = {.reply = true, .rev = 1, .crc = true};
    struct sockaddr_storage to = test_addr("198.18.0.1", RAW_PORT);
    sim_qps(&c->s, NULL);
    sim_recv(&c->s, 1, solo_sge(c, 0, 16), 3);
    raw_listen(&c->r, &c->c);
    assert_int_equal(uiw_connect(c->b->ch, c->b->qp, (struct sockaddr *)&to, NULL, &c->b->conn), 0);
    raw_run(&c->r, 20);
    raw_take_frame(&c->r, &c->c, false, &ask);
    mpa_tx_init(&c->c.tx, ask.markers, true);
    uint8_t both[MPA_FRAME_MAX + 64];
    uint32_t n = mpa_frame_pack(&reply, both), more;
    fpdu_with(&c->c.tx, &(struct ddp_hdr){.last = true, .version = 1, .ulp = 0x43, .msn = 1},
              both + n, &more);
    raw_put(&c->c, both, n + more);
    sim_poll(&c->s, 1, 1, &wc);
    assert_int_equal(c->b->established, 1);
    assert_int_equal(wc.byte_len, 8);
    assert_memory_equal(c->mem, "together", 8);
    solo_close(c);
}

/* proves: MPA-5044-7.1.2-10 */
static void test_fpdu_right_after_the_reply(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500");
    struct uiw_wc wc;
    raw_join(&c->r, &c->c, NULL);
    sim_recv(&c->s, 1, solo_sge(c, 0, 16), 3);
    raw_send(&c->c, 1, "at once", 7);
    sim_poll(&c->s, 1, 1, &wc);
    assert_int_equal(wc.byte_len, 7);
    assert_memory_equal(c->mem, "at once", 7);
    solo_close(c);
}

/* proves: MPA-5044-7.1-02 */
static void test_full_operation_needs_a_qp(void **state)
{
    (void)state;
    static const struct mpa_frame ask = {.rev = 1, .crc = true};
    struct solo *c = solo_open("mtu=1500");
    struct raw_conn second;
    struct sockaddr_storage to = test_addr("198.18.0.1", RAW_PORT);
    solo_join(c);
    struct uiw_conn *first = c->b->conn, *none;
    c->b->conn = NULL;
    raw_dial(&c->r, &second);
    raw_frame(&second, &ask);
    raw_run(&c->r, 20);
    assert_non_null(c->b->conn);
    /* The only QP has its stream already: no Reply may leave. */
    assert_int_equal(uiw_accept(c->b->conn, c->b->qp, NULL), -EINVAL);
    assert_int_equal(uiw_connect(c->b->ch, c->b->qp, (struct sockaddr *)&to, NULL, &none), -EINVAL);
    raw_run(&c->r, 100);
    assert_int_equal(second.rx_octets, 0);
    uiw_conn_destroy(first);
    solo_close(c);
}

/* The peer wants a Read as RTR: it goes first, within the depth just agreed, and is no work request's.
 * proves: ECM-6581-9.3-02 ECM-6581-5-02 ECM-6581-5-03 */
static void test_read_as_rtr(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500");
    struct uiw_conn_param p = {.ird = 8, .ord = 8, .p2p = true};
    struct mpa_frame f = {.reply = true,
                          .rev = 2,
                          .crc = true,
                          .enhanced = true,
                          .p2p = true,
                          .rtr = MPA_RTR_READ,
                          .ird = 2,
                          .ord = 3};
    struct uiw_qp_info info;
    struct uiw_wc wc;
    raw_answer(&c->r, &c->c, &p, &f);
    sim_until(&c->s, &c->b->established, 1, 100);
    uiw_qp_query(c->b->qp, &info);
    assert_int_equal(info.ord, 2);
    assert_int_equal(info.ird, 8);
    for (uint32_t i = 0; i < 2; i++) {
        sim_post(&c->s, 1, UIW_WR_RDMA_READ, solo_sge(c, i * 8, 8), (struct sim_at){0x1000, 5});
    }
    assert_true(raw_next(&c->r, &c->c, &c->u));
    assert_int_equal(c->u.opcode, RDMAP_READ_REQUEST);
    struct rdmap_read_request q;
    rdmap_read_request_unpack(c->u.octets + DDP_UNTAGGED_LEN, &q);
    assert_int_equal(q.len, 0);
    assert_true(raw_next(&c->r, &c->c, &c->u)); /* the first Read of the program */
    raw_run(&c->r, 300);
    for (uint32_t i = 0; i < c->c.len; i += 20) { /* empty Writes, to wake the peer; no Read */
        assert_int_equal(c->c.in[i + 3], 0x40);   /* the RTR has one of the two places */
    }
    raw_ulpdu(&c->c, "\xc1\x42\0\0\0\1\0\0\0\0\0\0\0\0", DDP_TAGGED_LEN);
    assert_true(raw_next(&c->r, &c->c, &c->u));
    assert_int_equal(c->u.opcode, RDMAP_READ_REQUEST);
    assert_int_equal(uiw_cq_poll(c->b->cq, 1, &wc), 0);
    solo_close(c);
}

/* proves: MPA-5044-7.1.2-16 */
static void test_program_closes_on_the_reply(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500");
    raw_answer(&c->r, &c->c, NULL, NULL);
    assert_int_equal(c->b->last.type, UIW_EVENT_ESTABLISHED);
    assert_int_equal(uiw_disconnect(c->b->conn), 0);
    assert_false(raw_next(&c->r, &c->c, &c->u)); /* no FPDU */
    assert_true(c->c.fin && !c->c.closed);
    net_shutdown(c->c.stream);
    solo_expect_end(c, UIW_REASON_CLOSED);
    solo_close(c);
}

/* proves: MPA-5044-4.4-07 */
static void test_crc_for_the_peer(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500,crc=off");
    struct uiw_conn_info info;
    solo_join(c); /* asks for CRCs */
    uiw_conn_query(c->b->conn, &info);
    assert_true(info.crc);
    struct uiw_wc wc;
    for (uint32_t msn = 1; msn <= 300; msn++) { /* over 1 MiB; raw_next() checks each CRC */
        sim_recv(&c->s, 1, solo_sge(c, 0, SOLO_SMALL), 1);
        sim_post(&c->s, 1, UIW_WR_SEND, solo_sge(c, 0, SOLO_SMALL), (struct sim_at){0, 0});
        raw_send(&c->c, msn, c->mem, 1000);
        sim_poll(&c->s, 1, 1, &wc);
        sim_poll(&c->s, 1, 1, &wc);
        for (uint32_t n = 0; n < SOLO_SMALL; n += c->u.seg.plen) {
            assert_true(raw_next(&c->r, &c->c, &c->u));
        }
    }
    uint8_t fpdu[28] = {0, 19, 0xc1, 0x40}; /* its CRC field is zero */
    raw_put(&c->c, fpdu, sizeof fpdu);
    raw_terminate(&c->r, &c->c, &c->u, &c->t);
    assert_true(verdict_is(c->t.v, 2, 0, 2));
    solo_close(c);
}

/* --- states of a QP --- */

static void expect_no_stream(struct solo *c)
{
    struct sockaddr_storage to = test_addr("198.18.0.1", RAW_PORT);
    struct uiw_conn *none;
    assert_int_equal(uiw_connect(c->b->ch, c->b->qp, (struct sockaddr *)&to, NULL, &none), -EINVAL);
}

/* bugs F12: each state that uiw_qp_query() tells, the ways between them, and what each refuses. */
static void test_states_of_a_qp(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500");
    struct uiw_wc wc[3];
    sim_qps(&c->s, NULL);
    assert_int_equal(solo_qp_state(c), UIW_QP_IDLE);
    sim_recv(&c->s, 1, solo_sge(c, 0, 16), 1); /* taken, and kept */
    assert_int_equal(solo_qp_state(c), UIW_QP_IDLE);
    assert_int_equal(uiw_qp_error(c->b->qp), 0); /* IDLE to ERROR */
    assert_int_equal(solo_qp_state(c), UIW_QP_ERROR);
    sim_poll(&c->s, 1, 1, wc);
    assert_int_equal(wc[0].status, UIW_WC_WR_FLUSH_ERR);
    assert_int_equal(uiw_qp_error(c->b->qp), 0); /* once more changes nothing */
    assert_int_equal(solo_qp_state(c), UIW_QP_ERROR);
    expect_no_stream(c); /* there is no way back */
    sim_drop(&c->s);

    sim_qps(&c->s, NULL);
    struct sockaddr_storage to = test_addr("198.18.0.1", RAW_PORT);
    static const struct mpa_frame reply = {.reply = true, .rev = 2, .crc = true, .enhanced = true};
    struct mpa_frame ask;
    raw_listen(&c->r, &c->c);
    assert_int_equal(uiw_connect(c->b->ch, c->b->qp, (struct sockaddr *)&to, NULL, &c->b->conn), 0);
    raw_run(&c->r, 20);
    raw_take_frame(&c->r, &c->c, false, &ask);
    assert_int_equal(solo_qp_state(c), UIW_QP_IDLE); /* no Reply yet */
    expect_no_stream(c);
    raw_frame(&c->c, &reply);
    sim_until(&c->s, &c->b->established, 1, 1000);
    assert_int_equal(solo_qp_state(c), UIW_QP_RTS);
    expect_no_stream(c);
    assert_int_equal(uiw_disconnect(c->b->conn), 0);
    assert_int_equal(solo_qp_state(c), UIW_QP_CLOSING);
    assert_int_equal(sim_post(&c->s, 1, UIW_WR_SEND, solo_sge(c, 0, 1), (struct sim_at){0, 0}),
                     -ESHUTDOWN);
    expect_no_stream(c);
    raw_run(&c->r, 20);
    net_shutdown(c->c.stream);
    solo_expect_end(c, UIW_REASON_CLOSED); /* ERROR */
    expect_no_stream(c);
    sim_drop(&c->s);
    solo_close(c);
}

/* --- errors that cross --- */

static void put_terminate(struct solo *c)
{
    uint8_t seg[64];
    struct ddp_hdr h = {.last = true, .version = 1, .ulp = 0x47, .qn = 2, .msn = 1};
    raw_ulpdu(&c->c, seg, raw_segment(seg, &h, "\x00\x00\0\0", 4));
}

/* Both ends terminate before either has heard of it: the first error is the one reported. */
static void test_terminates_cross(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500");
    solo_join(c);
    net_wire_set(c->b->net, &(struct net_wire){.delay_ms = 30});
    raw_write(&c->c, (struct sim_at){1, 2}, "x", 1);
    sim_until(&c->s, &c->b->disconnected, 1, 1000);
    assert_int_equal(c->c.len, 0); /* ours is on its way */
    put_terminate(c);
    raw_terminate(&c->r, &c->c, &c->u, &c->t);
    assert_true(verdict_is(c->t.v, 1, 1, 0));
    net_shutdown(c->c.stream);
    solo_expect_end(c, UIW_REASON_FAULT);
    assert_int_equal(c->b->last.layer << 16 | c->b->last.etype << 8 | c->b->last.code, 0x10100);
    solo_close(c);
}

static void test_both_devices_at_fault(void **state)
{
    (void)state;
    struct sim s;
    sim_open(&s, 1, "mtu=1500");
    sim_connect(&s, NULL, NULL);
    struct uiw_send_wr wr = {.opcode = UIW_WR_RDMA_WRITE};
    assert_int_equal(uiw_qp_post_send(s.side[0].qp, &wr, NULL), 0);
    for (int i = 0; i < 50; i++) {
        sim_step(&s);
    }
    sim_wire(&s, &(struct net_wire){.seed = 1, .delay_ms = 20});
    uint8_t x[2][8];
    struct uiw_mr *mr[2];
    for (int i = 0; i < 2; i++) {
        mr[i] = sim_reg(&s, i, x[i], 8, 0);
        sim_post(&s, i, UIW_WR_RDMA_WRITE, sim_sge(mr[i], x[i], 8), (struct sim_at){1, 0x777});
    }
    for (int i = 0; i < 2; i++) {
        sim_until(&s, &s.side[i].disconnected, 1, 1000);
    }
    for (int i = 0; i < 5000; i++) {
        sim_step(&s);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(s.side[i].disconnected, 1);
        assert_int_equal(s.side[i].last.reason, UIW_REASON_FAULT);
        struct uiw_conn_info info;
        uiw_conn_query(s.side[i].conn, &info);
        assert_int_equal(info.emss, 0);
        uiw_mr_dereg(mr[i]);
    }
    sim_wire(&s, &(struct net_wire){.seed = 1});
    sim_close(&s);
}

/* --- errors while sending --- */

/* A big Read Response fills the wire to the deaf peer; then come two faults. */
static void test_error_while_sending(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500");
    uint8_t *big = calloc(1, SOLO_BIG);
    struct uiw_mr *mr = sim_reg(&c->s, 1, big, SOLO_BIG, UIW_ACCESS_REMOTE_READ);
    solo_join(c);
    c->c.deaf = true;
    raw_read_request(&c->c, 1,
                     &(struct rdmap_read_request){.sink_stag = 9,
                                                  .len = SOLO_BIG,
                                                  .src_stag = uiw_mr_rkey(mr),
                                                  .src_to = (uintptr_t)big});
    raw_run(&c->r, 300);
    raw_write(&c->c, (struct sim_at){1, 2}, "x", 1); /* 1/1/00 */
    raw_send(&c->c, 7, "y", 1);                      /* 1/2/03, if it were looked at */
    raw_run(&c->r, 100);
    assert_int_equal(c->b->disconnected, 1); /* told at once, though the Terminate cannot leave */
    c->c.deaf = false;
    uint32_t octets = 0;
    for (;;) {
        assert_true(raw_next(&c->r, &c->c, &c->u)); /* whole FPDUs only */
        if (c->u.opcode != RDMAP_READ_RESPONSE) {
            break;
        }
        assert_false(c->u.seg.hdr.last);
        octets += c->u.seg.plen;
    }
    assert_true(octets < SOLO_BIG);
    assert_int_equal(c->u.opcode, RDMAP_TERMINATE);
    assert_true(rdmap_term_unpack(c->u.seg.payload, &c->t));
    assert_true(verdict_is(c->t.v, 1, 1, 0));
    assert_false(raw_next(&c->r, &c->c, &c->u));
    assert_true(c->c.fin);
    solo_expect_end(c, UIW_REASON_FAULT);
    uiw_mr_dereg(mr);
    free(big);
    solo_close(c);
}

/* The peer does not even take the Terminate: the end comes all the same. */
static void test_terminate_cannot_leave(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500");
    uint8_t *big = calloc(1, SOLO_BIG);
    struct uiw_mr *mr = sim_reg(&c->s, 1, big, SOLO_BIG, UIW_ACCESS_REMOTE_READ);
    struct uiw_conn_info info;
    solo_join(c);
    c->c.deaf = true;
    raw_read_request(&c->c, 1,
                     &(struct rdmap_read_request){.sink_stag = 9,
                                                  .len = SOLO_BIG,
                                                  .src_stag = uiw_mr_rkey(mr),
                                                  .src_to = (uintptr_t)big});
    raw_run(&c->r, 300);
    raw_write(&c->c, (struct sim_at){1, 2}, "x", 1);
    raw_run(&c->r, 5000);
    uiw_conn_query(c->b->conn, &info);
    assert_int_equal(info.emss, 0);
    solo_expect_end(c, UIW_REASON_FAULT);
    uiw_mr_dereg(mr);
    free(big);
    solo_close(c);
}

/* --- order of completions --- */

/* proves: RDMAP-5040-5.2.1-07 */
static void test_reads_in_order(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500");
    solo_join(c);
    struct uiw_sge sge[4];
    struct uiw_send_wr wr[4];
    for (uint32_t i = 0; i < 4; i++) { /* all are there before the first is sent */
        sge[i] = solo_sge(c, 8 * (i + 1), i + 1);
        wr[i] = (struct uiw_send_wr){.next = i < 3 ? &wr[i + 1] : NULL,
                                     .opcode = UIW_WR_RDMA_READ,
                                     .sg_list = &sge[i],
                                     .num_sge = 1,
                                     .remote_addr = 100 * (uint64_t)(i + 1),
                                     .rkey = i + 1};
    }
    assert_int_equal(uiw_qp_post_send(c->b->qp, wr, NULL), 0);
    for (uint32_t i = 1; i <= 4; i++) {
        struct rdmap_read_request r;
        assert_true(raw_next(&c->r, &c->c, &c->u));
        assert_int_equal(c->u.opcode, RDMAP_READ_REQUEST);
        assert_int_equal(c->u.seg.hdr.msn, i);
        rdmap_read_request_unpack(c->u.octets + DDP_UNTAGGED_LEN, &r);
        assert_true(r.len == i && r.src_stag == i && r.src_to == 100 * (uint64_t)i);
        assert_true(r.sink_to == solo_sge(c, 8 * i, i).addr);
    }
    solo_close(c);
}

/* What the forms of Atomics put into the fields that they do not use.
 * proves: EXT-7306-5.2.1-06 */
static void test_fields_of_atomics(void **state)
{
    (void)state;
    enum { ADD = 5, SWAP = 6, ADD_MASK = 7, SWAP_MASK = 8 };
    static const struct {
        enum uiw_wr_opcode op;
        uint8_t code;
        uint64_t data, mask, compare, compare_mask;
    } want[] = {
        {UIW_WR_ATOMIC_FETCH_ADD, RDMAP_FETCH_ADD, ADD, 0, 0, UINT64_MAX},
        {UIW_WR_MASKED_ATOMIC_FETCH_ADD, RDMAP_FETCH_ADD, ADD, ADD_MASK, 0, UINT64_MAX},
        {UIW_WR_ATOMIC_CMP_SWAP, RDMAP_CMP_SWAP, SWAP, UINT64_MAX, ADD, UINT64_MAX},
        {UIW_WR_MASKED_ATOMIC_CMP_SWAP, RDMAP_CMP_SWAP, SWAP, SWAP_MASK, ADD, ADD_MASK},
    };
    struct solo *c = solo_open("mtu=1500");
    solo_join(c);
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        struct uiw_sge sge = solo_sge(c, 0, 8);
        struct uiw_send_wr wr = {.opcode = want[i].op,
                                 .sg_list = &sge,
                                 .num_sge = 1,
                                 .remote_addr = 64,
                                 .rkey = 0x1234,
                                 .atomic = {ADD, SWAP, ADD_MASK, SWAP_MASK}};
        struct rdmap_atomic_request r;
        assert_int_equal(uiw_qp_post_send(c->b->qp, &wr, NULL), 0);
        assert_true(raw_next(&c->r, &c->c, &c->u));
        assert_int_equal(c->u.opcode, RDMAP_ATOMIC_REQUEST);
        assert_int_equal(c->u.seg.plen, RDMAP_ATOMIC_REQUEST_LEN);
        rdmap_atomic_request_unpack(c->u.octets + DDP_UNTAGGED_LEN, &r);
        assert_int_equal(r.op, want[i].code);
        assert_true(r.stag == 0x1234 && r.to == 64);
        assert_true(r.data == want[i].data && r.mask == want[i].mask);
        assert_true(r.compare == want[i].compare && r.compare_mask == want[i].compare_mask);
    }
    solo_close(c);
}

/* proves: RDMAP-5040-5.5-17 RDMAP-5040-5.5-14 */
static void test_order_and_fence(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500");
    struct uiw_wc wc[4];
    solo_join(c);
    struct uiw_sge s = solo_sge(c, 0, 8);
    struct uiw_send_wr wr[4] = {{.wr_id = 1, .next = &wr[1], .opcode = UIW_WR_RDMA_READ},
                                {.wr_id = 2, .next = &wr[2], .opcode = UIW_WR_RDMA_WRITE},
                                {.wr_id = 3, .next = &wr[3], .opcode = UIW_WR_SEND},
                                {.wr_id = 4, .opcode = UIW_WR_RDMA_WRITE}};
    for (int i = 0; i < 4; i++) {
        wr[i].sg_list = &s;
        wr[i].num_sge = 1;
        wr[i].flags = UIW_SEND_SIGNALED | (i == 3 ? UIW_SEND_FENCE : 0);
    }
    assert_int_equal(uiw_qp_post_send(c->b->qp, wr, NULL), 0);
    static const unsigned order[] = {RDMAP_READ_REQUEST, RDMAP_WRITE, RDMAP_SEND};
    for (int i = 0; i < 3; i++) {
        assert_true(raw_next(&c->r, &c->c, &c->u));
        assert_int_equal(c->u.opcode, order[i]);
    }
    raw_run(&c->r, 500);
    assert_int_equal(c->c.len, 0);                     /* the fenced Write waits */
    assert_int_equal(uiw_cq_poll(c->b->cq, 4, wc), 0); /* and so does what is behind the Read */
    uint8_t seg[64];
    struct ddp_hdr h = {.tagged = true, .last = true, .version = 1, .ulp = 0x42};
    h.stag = uiw_mr_rkey(c->mr);
    h.to = s.addr;
    raw_ulpdu(&c->c, seg, raw_segment(seg, &h, "answered", 8));
    assert_true(raw_next(&c->r, &c->c, &c->u));
    assert_int_equal(c->u.opcode, RDMAP_WRITE);
    assert_memory_equal(c->u.octets + DDP_TAGGED_LEN, "answered", 8);
    sim_poll(&c->s, 1, 4, wc);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(wc[i].wr_id, i + 1);
        assert_int_equal(wc[i].status, UIW_WC_SUCCESS);
    }
    solo_close(c);
}

/* The Terminate tells which Read failed; all behind it is flushed, the Sends that had left too.
 * proves: RDMAP-5040-6.2.1-02 */
static void test_flush_after_terminate(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500");
    struct uiw_wc wc[8];
    solo_join(c);
    for (uint64_t i = 0; i < 4; i++) {
        sim_recv(&c->s, 1, solo_sge(c, 0, 8), 100 + i);
    }
    struct uiw_sge s = solo_sge(c, 0, 8);
    for (uint64_t i = 0; i < 4; i++) {
        struct uiw_send_wr wr = {.wr_id = i, .sg_list = &s, .num_sge = 1};
        wr.flags = UIW_SEND_SIGNALED;
        wr.opcode = i % 2 == 0 ? UIW_WR_RDMA_READ : UIW_WR_SEND;
        assert_int_equal(uiw_qp_post_send(c->b->qp, &wr, NULL), 0);
    }
    raw_run(&c->r, 20);
    uint8_t seg[128], term[6 + 18 + 28] = {0x01, 0x02, 0xe0, 0, 0, 46, 0x41, 0x41};
    struct ddp_hdr h = {.last = true, .version = 1, .ulp = 0x47, .qn = 2, .msn = 1};
    raw_ulpdu(&c->c, seg, raw_segment(seg, &h, term, sizeof term));
    sim_until(&c->s, &c->b->disconnected, 1, 1000);
    sim_poll(&c->s, 1, 8, wc);
    for (uint64_t i = 0; i < 8; i++) {
        assert_int_equal(wc[i].wr_id, i < 4 ? i : 96 + i);
        assert_int_equal(wc[i].status, i == 0 ? UIW_WC_REM_ACCESS_ERR : UIW_WC_WR_FLUSH_ERR);
    }
    solo_close(c);
}

/* However much comes behind a fault, it is read, so that the Terminate and both FINs get through.
 * proves: DDP-5041-7.1-17 RDMAP-5040-6.2.1-04 */
static void test_flood_behind_a_fault(void **state)
{
    (void)state;
    enum { ONE = 1000, ALL = 8 << 20 };
    struct solo *c = solo_open("mtu=1500");
    solo_join(c);
    raw_write(&c->c, (struct sim_at){0, 0xbad00}, c->mem, 8);
    uint64_t end = c->s.ms + 2000;
    for (uint32_t sent = 0; sent < ALL;) {
        if (net_tx_room(c->c.stream) > 2 * ONE) {
            raw_write(&c->c, (struct sim_at){0, 0xbad00}, c->mem, ONE);
            sent += ONE;
        } else {
            raw_run(&c->r, 1);
        }
        assert_true(c->s.ms < end);
    }
    raw_terminate(&c->r, &c->c, &c->u, &c->t);
    assert_true(verdict_is(c->t.v, LAYER_DDP, DDP_TAGGED, DDP_TAG_STAG));
    net_shutdown(c->c.stream);
    solo_expect_end(c, UIW_REASON_FAULT);
    assert_int_equal(c->c.error, 0);
    solo_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fpdu_right_behind_the_reply),
        cmocka_unit_test(test_fpdu_right_after_the_reply),
        cmocka_unit_test(test_full_operation_needs_a_qp),
        cmocka_unit_test(test_read_as_rtr),
        cmocka_unit_test(test_program_closes_on_the_reply),
        cmocka_unit_test(test_crc_for_the_peer),
        cmocka_unit_test(test_states_of_a_qp),
        cmocka_unit_test(test_terminates_cross),
        cmocka_unit_test(test_both_devices_at_fault),
        cmocka_unit_test(test_error_while_sending),
        cmocka_unit_test(test_terminate_cannot_leave),
        cmocka_unit_test(test_reads_in_order),
        cmocka_unit_test(test_flood_behind_a_fault),
        cmocka_unit_test(test_fields_of_atomics),
        cmocka_unit_test(test_order_and_fence),
        cmocka_unit_test(test_flush_after_terminate),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
