/* SPDX-License-Identifier: MIT */
/* Errors of the set-up, and errors found at this end; each by the whole stack against a peer made by hand. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "family.h"
#include "raw.h"

struct scene {
    struct sim s;
    struct raw r;
    struct raw_conn c;
    struct raw_ulpdu u;
    struct rdmap_term t;
    struct uiw_pd *pd; /* a second one, or NULL */
};

static struct scene *scene_open(const char *keys)
{
    struct scene *c = calloc(1, sizeof *c);
    sim_open_one(&c->s, 1, keys);
    raw_open(&c->r, &c->s);
    return c;
}

static void scene_close(struct scene *c)
{
    raw_close(&c->r);
    sim_close(&c->s);
    free(c);
}

static void expect_async(struct scene *c, enum uiw_async_type type, const char *text)
{
    struct uiw_async_event ev;
    assert_int_equal(uiw_async_get(c->s.side[1].dev, &ev), 0);
    assert_int_equal(ev.type, type);
    if (text != NULL) {
        assert_string_equal(ev.text, text);
    }
}

static void expect_no_async(struct scene *c)
{
    struct uiw_async_event ev;
    assert_int_equal(uiw_async_get(c->s.side[1].dev, &ev), -EAGAIN);
}

/* The Terminate that stands alone on the wire: its whole payload. */
static void expect_word(struct scene *c, uint32_t word)
{
    raw_terminate(&c->r, &c->c, &c->u, &c->t);
    assert_int_equal(c->u.seg.plen, 4);
    assert_int_equal(get_be32(c->u.octets + DDP_UNTAGGED_LEN), word);
}

static void expect_last(struct scene *c, enum uiw_event_type type, enum uiw_reason reason,
                        unsigned code)
{
    const struct uiw_event *e = &c->s.side[1].last;
    assert_int_equal(e->type, type);
    assert_int_equal(e->reason, reason);
    assert_int_equal(e->layer << 16 | e->etype << 8 | e->code, code);
    assert_true(strlen(e->text) > 0);
}

/* --- set-up --- */

/* proves: MPA-5044-8-05 MPA-5044-8-09 MPA-5044-7.1.2-04 */
static void test_bad_request(void **state)
{
    (void)state;
    static const struct {
        uint32_t at;
        uint8_t octet;
    } spoilt[] = {{0, 'X'}, {15, 0}, {10, 'p'}, {17, 0}, {17, 3}, {18, 2}};
    struct scene *c = scene_open("mtu=1500");
    for (size_t i = 0; i < ARRAY_LEN(spoilt); i++) {
        uint8_t buf[MPA_FRAME_MAX];
        struct mpa_frame f = {.rev = 1, .crc = true};
        uint32_t n = mpa_frame_pack(&f, buf);
        buf[spoilt[i].at] = spoilt[i].octet;
        buf[19] = spoilt[i].at == 18 ? 1 : 0;
        raw_dial(&c->r, &c->c);
        raw_put(&c->c, buf, n);
        uint64_t start = c->s.ms;
        raw_wait(&c->r, &c->c, 1);
        assert_true(c->s.ms - start < 100);
        assert_true(c->c.closed || c->c.fin);
        assert_int_equal(c->c.rx_octets, 0); /* no Reply, no Terminate */
        assert_null(c->s.side[1].conn);      /* no program was asked */
        raw_hangup(&c->r, &c->c, true);
    }
    scene_close(c);
}

/* Nobody can use up the places of a listener by nonsense. */
static void test_bad_requests_do_not_use_up_the_listener(void **state)
{
    (void)state;
    struct scene *c = scene_open("mtu=1500");
    for (int i = 0; i < 70; i++) { /* its backlog is 64 */
        raw_dial(&c->r, &c->c);
        raw_put(&c->c, "GET / HTTP/1.0\r\n\r\n", 18);
        raw_wait(&c->r, &c->c, 1);
        raw_hangup(&c->r, &c->c, true);
    }
    raw_join(&c->r, &c->c, NULL);
    scene_close(c);
}

/* proves: MPA-5044-8-05 */
static void test_bad_reply(void **state)
{
    (void)state;
    static const struct {
        uint32_t at;
        uint8_t octet;
        enum uiw_reason reason;
    } spoilt[] = {{0, 'X', UIW_REASON_BAD_KEY},
                  {7, 'q', UIW_REASON_BAD_KEY},
                  {17, 9, UIW_REASON_BAD_REVISION},
                  {18, 3, UIW_REASON_MALFORMED}};
    for (size_t i = 0; i < ARRAY_LEN(spoilt); i++) {
        struct scene *c = scene_open("mtu=1500,rev=1");
        struct raw_conn none = {0};
        struct sockaddr_storage to = test_addr("198.18.0.1", RAW_PORT);
        struct sim_side *b = &c->s.side[1];
        struct mpa_frame ask;
        uint8_t buf[MPA_FRAME_MAX];
        sim_qps(&c->s, NULL);
        c->c = none;
        raw_listen(&c->r, &c->c);
        assert_int_equal(uiw_connect(b->ch, b->qp, (struct sockaddr *)&to, NULL, &b->conn), 0);
        raw_run(&c->r, 10);
        raw_take_frame(&c->r, &c->c, false, &ask);
        struct mpa_frame reply = {.reply = true, .rev = 1, .crc = true};
        uint32_t n = mpa_frame_pack(&reply, buf);
        buf[spoilt[i].at] = spoilt[i].octet;
        raw_put(&c->c, buf, n);
        sim_until(&c->s, &b->failed, 1, 1000);
        expect_last(c, UIW_EVENT_CONNECT_ERROR, spoilt[i].reason, 0);
        raw_wait(&c->r, &c->c, 1);
        assert_true(c->c.closed || c->c.fin);
        assert_int_equal(c->c.len, 0);
        expect_no_async(c);
        scene_close(c);
    }
}

/* proves: MPA-5044-7.1.2-20 MPA-5044-7.1.2-24 */
static void test_silent_peers(void **state)
{
    (void)state;
    struct scene *c = scene_open("mtu=1500,setup=3");
    raw_dial(&c->r, &c->c);
    raw_put(&c->c, "MPA ID Req", 10); /* and no more */
    raw_run(&c->r, 2500);
    assert_false(c->c.closed || c->c.fin);
    raw_run(&c->r, 1000);
    assert_true(c->c.closed || c->c.fin);
    assert_int_equal(c->c.rx_octets, 0);
    raw_hangup(&c->r, &c->c, true);
    /* The other way round: a listener that never answers. */
    static const struct mpa_frame nothing = {.pd_len = MPA_PD_MAX + 1}; /* packs to no octets */
    uint64_t start = c->s.ms;
    raw_answer(&c->r, &c->c, NULL, &nothing);
    sim_until(&c->s, &c->s.side[1].failed, 1, 4000);
    assert_in_range(c->s.ms - start, 2900, 3200);
    expect_last(c, UIW_EVENT_CONNECT_ERROR, UIW_REASON_TIMEOUT, 0);
    assert_int_equal(c->s.side[1].last.status, -ETIMEDOUT);
    scene_close(c);
}

static struct mpa_frame enhanced_reply(uint16_t ird, uint16_t ord, uint8_t rtr)
{
    return (struct mpa_frame){.reply = true,
                              .rev = 2,
                              .crc = true,
                              .enhanced = true,
                              .p2p = rtr != 0,
                              .rtr = rtr,
                              .ird = ird,
                              .ord = ord};
}

/* proves: ECM-6581-9.1-07 REG-6580-3.3-01 */
static void test_ird_too_small(void **state)
{
    (void)state;
    struct scene *c = scene_open("mtu=1500");
    struct uiw_conn_param p = {.ird = 4, .ord = 4};
    struct mpa_frame f = enhanced_reply(4, 5, 0);
    raw_answer(&c->r, &c->c, &p, &f);
    expect_word(c, 0x20060000);
    sim_until(&c->s, &c->s.side[1].failed, 1, 1000);
    expect_last(c, UIW_EVENT_CONNECT_ERROR, UIW_REASON_IRD, 0x20006);
    assert_int_equal(c->s.side[1].established, 0);
    scene_close(c);
}

/* proves: REG-6580-3.3-01 */
static void test_no_rtr_in_common(void **state)
{
    (void)state;
    struct scene *c = scene_open("mtu=1500");
    struct uiw_conn_param p = {.ird = 4, .ord = 4, .p2p = true};
    struct mpa_frame f = enhanced_reply(4, 4, MPA_RTR_SEND); /* the device offers Write and Read */
    raw_answer(&c->r, &c->c, &p, &f);
    expect_word(c, 0x20070000);
    sim_until(&c->s, &c->s.side[1].failed, 1, 1000);
    expect_last(c, UIW_EVENT_CONNECT_ERROR, UIW_REASON_RTR, 0x20007);
    scene_close(c);
}

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
        struct scene *c = scene_open("mtu=1500");
        struct uiw_wc wc;
        struct uiw_recv_wr rwr = {.wr_id = 4};
        raw_join(&c->r, &c->c, NULL);
        assert_int_equal(uiw_qp_post_recv(c->s.side[1].qp, &rwr, NULL), 0);
        raw_write(&c->c, (struct sim_at){0, 0}, NULL, 0);
        raw_put(&c->c, "\0\x12\x41\x43\0\0\0\0\0", ends[i].octets);
        raw_run(&c->r, 5);
        uint32_t before = c->c.rx_octets;
        raw_hangup(&c->r, &c->c, ends[i].reset);
        sim_until(&c->s, &c->s.side[1].disconnected, 1, 5000);
        expect_last(c, UIW_EVENT_DISCONNECTED, ends[i].reason, 0);
        sim_poll(&c->s, 1, 1, &wc);
        assert_int_equal(wc.status, UIW_WC_WR_FLUSH_ERR);
        assert_int_equal(c->c.rx_octets, before); /* no Terminate where none can be read */
        expect_no_async(c);
        scene_close(c);
    }
}

/* proves: MPA-5044-8-01 DDP-5041-3-03 */
static void test_link_cut(void **state)
{
    (void)state;
    enum { SIZE = 8 << 20 }; /* more than all buffers hold */
    static uint8_t big[SIZE];
    struct scene *c = scene_open("mtu=1500");
    struct uiw_wc wc;
    struct uiw_mr *mr = sim_reg(&c->s, 1, big, SIZE, UIW_ACCESS_LOCAL_WRITE);
    raw_join(&c->r, &c->c, NULL);
    raw_write(&c->c, (struct sim_at){0, 0}, NULL, 0);
    raw_run(&c->r, 5);
    const struct net_wire cut = {.seed = 1, .loss_ppm = 1000000};
    net_wire_set(c->s.side[1].net, &cut);
    net_wire_set(c->r.net, &cut);
    sim_post(&c->s, 1, UIW_WR_SEND, sim_sge(mr, big, SIZE), (struct sim_at){0, 0});
    sim_until(&c->s, &c->s.side[1].disconnected, 1, 400000);
    expect_last(c, UIW_EVENT_DISCONNECTED, UIW_REASON_TIMEOUT, 0);
    /* Never acknowledged, never a success. */
    sim_poll(&c->s, 1, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_WR_FLUSH_ERR);
    assert_int_equal(c->c.len, 0);
    uiw_mr_dereg(mr);
    scene_close(c);
}

/* --- errors at this end --- */

/* A receive whose memory has gone: the placement fails here. */
static void test_placement_fails(void **state)
{
    (void)state;
    struct scene *c = scene_open("mtu=1500");
    struct uiw_wc wc;
    uint8_t in[16] = {0};
    struct uiw_mr *mr = sim_reg(&c->s, 1, in, sizeof in, UIW_ACCESS_LOCAL_WRITE);
    raw_join(&c->r, &c->c, NULL);
    sim_recv(&c->s, 1, sim_sge(mr, in, sizeof in), 9);
    uiw_mr_dereg(mr);
    raw_send(&c->c, 1, "12345678", 8);
    expect_word(c, 0x10000000);
    sim_until(&c->s, &c->s.side[1].disconnected, 1, 1000);
    expect_last(c, UIW_EVENT_DISCONNECTED, UIW_REASON_LOCAL, 0x10000);
    sim_poll(&c->s, 1, 1, &wc);
    assert_int_equal(wc.wr_id, 9);
    assert_int_equal(wc.status, UIW_WC_LOC_PROT_ERR);
    expect_async(c, UIW_ASYNC_QP_FATAL, "here: DDP local catastrophic error");
    assert_int_equal(in[0], 0);
    scene_close(c);
}

/* A request that cannot be made: the Terminate goes in its place, bare; the one before it arrives whole. */
static void message_cannot_be_made(enum uiw_wr_opcode op)
{
    struct scene *c = scene_open("mtu=1500");
    struct uiw_wc wc[3];
    uint8_t out[16] = "good";
    static const struct mpa_frame ask = {
        .rev = 2, .crc = true, .enhanced = true, .ird = 4, .ord = 4};
    struct uiw_mr *mr = sim_reg(&c->s, 1, out, sizeof out, UIW_ACCESS_LOCAL_WRITE);
    raw_join(&c->r, &c->c, &ask);
    raw_write(&c->c, (struct sim_at){0, 0}, NULL, 0);
    raw_run(&c->r, 5);
    struct uiw_sge good = sim_sge(mr, out, 4), bad = sim_sge(mr, out + 9, 8);
    struct uiw_send_wr wr[3] = {
        {.wr_id = 1, .next = &wr[1], .sg_list = &good, .num_sge = 1},
        {.wr_id = 2, .next = &wr[2], .opcode = op, .sg_list = &bad, .num_sge = 1, .rkey = 7},
        {.wr_id = 3, .sg_list = &good, .num_sge = 1}};
    wr[0].flags = UIW_SEND_SIGNALED;
    assert_int_equal(uiw_qp_post_send(c->s.side[1].qp, wr, NULL), 0);
    assert_true(raw_next(&c->r, &c->c, &c->u));
    assert_int_equal(c->u.opcode, RDMAP_SEND);
    expect_word(c, 0x00000000);
    sim_until(&c->s, &c->s.side[1].disconnected, 1, 1000);
    expect_last(c, UIW_EVENT_DISCONNECTED, UIW_REASON_LOCAL, 0);
    expect_async(c, UIW_ASYNC_QP_FATAL, "here: RDMAP local catastrophic error");
    sim_poll(&c->s, 1, 3, wc);
    assert_int_equal(wc[0].status, UIW_WC_SUCCESS);
    assert_int_equal(wc[1].status, UIW_WC_LOC_PROT_ERR);
    assert_int_equal(wc[2].status, UIW_WC_WR_FLUSH_ERR);
    uiw_mr_dereg(mr);
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
        message_cannot_be_made(ops[i]);
    }
}

enum change { GOES, MOVES, NO_RIGHT, OTHER_PD };

static void change_region(struct scene *c, struct uiw_mr **mr, enum change how)
{
    static uint8_t elsewhere[64];
    struct sim_side *b = &c->s.side[1];
    struct uiw_mr_change ch = {.what = how == MOVES      ? UIW_REREG_TRANSLATION
                                       : how == NO_RIGHT ? UIW_REREG_ACCESS
                                                         : UIW_REREG_PD,
                               .addr = elsewhere,
                               .length = sizeof elsewhere};
    if (how == GOES) {
        assert_int_equal(uiw_mr_dereg(*mr), 0);
        *mr = NULL;
    } else {
        assert_int_equal(uiw_pd_create(b->dev, &c->pd), 0);
        ch.pd = c->pd;
        assert_int_equal(uiw_mr_rereg(*mr, &ch), 0);
    }
}

/* The region goes, or changes, while its octets are being read: what is left is not read any more. */
static void read_fails_half_way(enum change how, unsigned code)
{
    enum { SIZE = 32 << 20 };
    struct scene *c = scene_open("mtu=1500");
    uint8_t *big = malloc(SIZE);
    memset(big, 0x42, SIZE);
    struct uiw_mr *mr = sim_reg(&c->s, 1, big, SIZE, UIW_ACCESS_REMOTE_READ);
    struct rdmap_read_request q = {.sink_stag = 0x88,
                                   .sink_to = 0x10000,
                                   .len = SIZE,
                                   .src_stag = uiw_mr_rkey(mr),
                                   .src_to = (uintptr_t)big};
    raw_join(&c->r, &c->c, NULL);
    c->c.deaf = true;
    raw_read_request(&c->c, 1, &q);
    raw_run(&c->r, 500); /* the window closes */
    change_region(c, &mr, how);
    memset(big, 0x66, SIZE);
    c->c.deaf = false;
    uint32_t done = 0;
    for (;;) {
        assert_true(raw_next(&c->r, &c->c, &c->u));
        if (c->u.opcode != RDMAP_READ_RESPONSE) {
            break;
        }
        assert_int_equal(c->u.seg.hdr.to, q.sink_to + done);
        assert_int_equal(c->u.octets[DDP_TAGGED_LEN], 0x42);
        done += c->u.seg.plen;
    }
    assert_in_range(done, 1, SIZE - 1);
    assert_true(rdmap_term_unpack(c->u.seg.payload, &c->t));
    assert_true(verdict_is(c->t.v, 0, 1, code) && c->t.m && c->t.d && c->t.has_read);
    struct rdmap_read_request rest;
    rdmap_read_request_unpack(c->t.read, &rest);
    assert_int_equal(rest.len, SIZE - done);
    assert_int_equal(rest.src_to, q.src_to + done);
    assert_int_equal(rest.sink_to, q.sink_to + done);
    assert_false(raw_next(&c->r, &c->c, &c->u));
    sim_until(&c->s, &c->s.side[1].disconnected, 1, 1000);
    expect_last(c, UIW_EVENT_DISCONNECTED, UIW_REASON_FAULT, 0x000100 | code);
    expect_async(c, UIW_ASYNC_QP_ACCESS, NULL);
    if (mr != NULL) {
        uiw_mr_dereg(mr);
    }
    if (c->pd != NULL) {
        uiw_pd_destroy(c->pd);
    }
    scene_close(c);
    free(big);
}

static void test_read_fails_half_way(void **state)
{
    (void)state;
    read_fails_half_way(GOES, 0);
    read_fails_half_way(MOVES, 1);
    read_fails_half_way(NO_RIGHT, 2);
    read_fails_half_way(OTHER_PD, 3);
}

/* --- a CQ that overflows, and one beside it --- */

static struct uiw_qp *qp_on(struct scene *c, struct uiw_cq *cq)
{
    struct uiw_qp *qp;
    struct uiw_qp_attr attr = {
        .send_cq = cq, .recv_cq = cq, .max_send_wr = 16, .max_recv_wr = 16, .sig_all = true};
    assert_int_equal(uiw_qp_create(c->s.side[1].pd, &attr, &qp), 0);
    return qp;
}

static struct uiw_conn *join_with(struct scene *c, struct raw_conn *raw, struct uiw_qp *qp)
{
    static const struct mpa_frame ask = {.rev = 1, .crc = true};
    struct mpa_frame reply;
    struct sim_side *b = &c->s.side[1];
    b->conn = NULL;
    raw_dial(&c->r, raw);
    raw_frame(raw, &ask);
    raw_run(&c->r, 10);
    assert_non_null(b->conn);
    assert_int_equal(uiw_accept(b->conn, qp, NULL), 0);
    raw_take_frame(&c->r, raw, true, &reply);
    mpa_tx_init(&raw->tx, reply.markers, true);
    mpa_rx_init(&raw->rx, false, true);
    raw_write(raw, (struct sim_at){0, 0}, NULL, 0);
    raw_run(&c->r, 5);
    return b->conn;
}

/* proves: RDMAP-5040-8.1.1-11 SEC-5042-6.4.6-01 */
static void test_cq_overflow(void **state)
{
    (void)state;
    struct scene *c = scene_open("mtu=1500");
    struct sim_side *b = &c->s.side[1];
    struct raw_conn beside;
    struct uiw_cq *small, *roomy;
    struct uiw_wc wc[4];
    assert_int_equal(uiw_cq_create(b->dev, 2, NULL, NULL, &small), 0);
    assert_int_equal(uiw_cq_create(b->dev, 64, NULL, NULL, &roomy), 0);
    struct uiw_qp *bad = qp_on(c, small), *good = qp_on(c, roomy);
    struct uiw_conn *good_conn = join_with(c, &beside, good);
    struct uiw_conn *bad_conn = join_with(c, &c->c, bad);
    struct uiw_send_wr send = {.wr_id = 1, .opcode = UIW_WR_SEND};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(uiw_qp_post_send(bad, &send, NULL), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_true(raw_next(&c->r, &c->c, &c->u));
        assert_int_equal(c->u.opcode, RDMAP_SEND);
    }
    expect_word(c, 0x02070000);
    sim_until(&c->s, &b->disconnected, 1, 1000);
    assert_ptr_equal(b->last.conn, bad_conn);
    expect_last(c, UIW_EVENT_DISCONNECTED, UIW_REASON_LOCAL, 0x000207);
    expect_async(c, UIW_ASYNC_CQ_ERR, NULL);
    expect_async(c, UIW_ASYNC_QP_FATAL,
                 "here: RDMAP remote operation error: catastrophic, localised to the stream");
    expect_no_async(c);
    /* Who does not use that CQ goes on. */
    assert_int_equal(uiw_qp_post_send(good, &send, NULL), 0);
    assert_true(raw_next(&c->r, &beside, &c->u));
    assert_int_equal(uiw_cq_poll(roomy, 4, wc), 1);
    assert_int_equal(wc[0].status, UIW_WC_SUCCESS);
    assert_int_equal(b->disconnected, 1);
    b->conn = NULL;
    uiw_conn_destroy(bad_conn);
    uiw_conn_destroy(good_conn);
    uiw_qp_destroy(bad);
    uiw_qp_destroy(good);
    uiw_cq_destroy(small);
    uiw_cq_destroy(roomy);
    scene_close(c);
}

/* Two Responders share the CQ; the one that has heard no FPDU yet just resets.
 * proves: MPA-5044-7.1.2-15 */
static void test_cq_overflow_before_the_first_fpdu(void **state)
{
    (void)state;
    struct scene *c = scene_open("mtu=1500");
    struct sim_side *b = &c->s.side[1];
    struct raw_conn mute;
    struct uiw_cq *small;
    static const struct mpa_frame ask = {.rev = 1, .crc = true};
    struct mpa_frame reply;
    assert_int_equal(uiw_cq_create(b->dev, 2, NULL, NULL, &small), 0);
    struct uiw_qp *bad = qp_on(c, small), *quiet = qp_on(c, small);
    struct uiw_conn *bad_conn = join_with(c, &c->c, bad);
    b->conn = NULL;
    raw_dial(&c->r, &mute);
    raw_frame(&mute, &ask);
    raw_run(&c->r, 10);
    struct uiw_conn *quiet_conn = b->conn;
    assert_int_equal(uiw_accept(quiet_conn, quiet, NULL), 0);
    raw_take_frame(&c->r, &mute, true, &reply);
    uint32_t before = mute.rx_octets;
    struct uiw_send_wr send = {.wr_id = 1, .opcode = UIW_WR_SEND};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(uiw_qp_post_send(bad, &send, NULL), 0);
    }
    sim_until(&c->s, &b->disconnected, 2, 1000);
    raw_run(&c->r, 20);
    assert_int_equal(mute.rx_octets, before);
    assert_true(mute.close_came);
    b->conn = NULL;
    uiw_conn_destroy(bad_conn);
    uiw_conn_destroy(quiet_conn);
    uiw_qp_destroy(bad);
    uiw_qp_destroy(quiet);
    uiw_cq_destroy(small);
    scene_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_request),
        cmocka_unit_test(test_bad_requests_do_not_use_up_the_listener),
        cmocka_unit_test(test_bad_reply),
        cmocka_unit_test(test_silent_peers),
        cmocka_unit_test(test_ird_too_small),
        cmocka_unit_test(test_no_rtr_in_common),
        cmocka_unit_test(test_tcp_lost),
        cmocka_unit_test(test_link_cut),
        cmocka_unit_test(test_placement_fails),
        cmocka_unit_test(test_message_cannot_be_made),
        cmocka_unit_test(test_read_fails_half_way),
        cmocka_unit_test(test_cq_overflow),
        cmocka_unit_test(test_cq_overflow_before_the_first_fpdu),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
