/* SPDX-License-Identifier: MIT */
#include "beside.h"

#include <setjmp.h>
#include <stdarg.h>

#include <stdlib.h>

#include <cmocka.h>

enum {
    WINDOW = 64 << 10, /* of the peer: what the device has to say does not fit */
    SEGMENT = 1000,
    STAG_WRITE = 0x5a5a01, /* of the peer */
    STAG_READ = 0x5a5a02,
    PLACE = 0x7000, /* where the peer's memory begins */
    RECV_ID = 0xbe510000,
    ROUND_WCS = 4,
    LIMIT_MS = 20000,
    OTHERS = 64 /* receives of others in an SRQ, at most */
};

enum { READ_ID = 1, WRITE_ID, SEND_ID };

/* What stands at offset i, of the device or of the peer. */
static uint8_t octet(const struct beside *b, bool peer, uint32_t i)
{
    return (uint8_t)(i * 7 + i / 251 + b->round * 16 + (peer ? 8 : 0) + 1);
}

static void expect_octets(const struct beside *b, bool peer, uint32_t at, struct span v)
{
    for (uint32_t i = 0; i < v.n; i++) {
        if (v.p[i] != octet(b, peer, at + i)) {
            fail_msg("beside: octet %u is %02x, must be %02x", at + i, v.p[i],
                     octet(b, peer, at + i));
        }
    }
}

/* --- the peer sends --- */

/* Octets from..to of a message of n, as segments. */
static void put(struct beside *b, struct ddp_hdr h, uint32_t from, uint32_t to, uint32_t n)
{
    uint8_t data[SEGMENT], seg[SEGMENT + DDP_HDR_MAX];
    uint64_t base = h.to;
    for (uint32_t at = from; at < to;) {
        uint32_t k = min_u32(SEGMENT, to - at);
        for (uint32_t i = 0; i < k; i++) {
            data[i] = octet(b, true, at + i);
        }
        h.to = base + at;
        h.mo = at;
        at += k;
        h.last = at == n;
        raw_ulpdu(&b->raw, seg, raw_segment(seg, &h, data, k));
    }
}

static void put_write(struct beside *b, uint32_t from, uint32_t to)
{
    struct ddp_hdr h = {.tagged = true,
                        .version = 1,
                        .ulp = rdmap_control(RDMAP_WRITE),
                        .stag = uiw_mr_rkey(b->mr),
                        .to = (uintptr_t)b->mem.in};
    put(b, h, from, to, BESIDE_LONG);
}

static void put_send(struct beside *b, uint32_t from, uint32_t to)
{
    struct ddp_hdr h = {.version = 1, .ulp = rdmap_control(RDMAP_SEND), .msn = b->send_msn};
    put(b, h, from, to, BESIDE_SHORT);
}

static void put_answer(struct beside *b, uint32_t from, uint32_t to)
{
    struct ddp_hdr h = {.tagged = true,
                        .version = 1,
                        .ulp = rdmap_control(RDMAP_READ_RESPONSE),
                        .stag = b->asked.sink_stag,
                        .to = b->asked.sink_to};
    put(b, h, from, to, BESIDE_SHORT);
}

static void put_question(struct beside *b)
{
    raw_read_request(&b->raw, b->read_msn++,
                     &(struct rdmap_read_request){.sink_stag = STAG_READ,
                                                  .sink_to = PLACE,
                                                  .len = BESIDE_LONG,
                                                  .src_stag = uiw_mr_rkey(b->mr),
                                                  .src_to = (uintptr_t)b->mem.out});
}

/* --- the peer hears --- */

static void look_if_done(struct beside *b)
{
    if (!b->done && b->wcs == ROUND_WCS && b->got[RDMAP_WRITE] == BESIDE_LONG &&
        b->got[RDMAP_READ_RESPONSE] == BESIDE_LONG && b->got[RDMAP_SEND] == BESIDE_SHORT) {
        b->done = true;
        b->took_ms = b->r->s->ms - b->went_ms;
    }
}

static void on_data(struct beside *b, bool right_place, uint32_t n)
{
    const struct raw_ulpdu *u = &b->u;
    uint32_t *got = &b->got[u->opcode];
    assert_true(right_place);
    expect_octets(b, false, *got, (struct span){u->octets + u->len - u->seg.plen, u->seg.plen});
    *got += u->seg.plen;
    assert_int_equal(u->seg.hdr.last, *got == n);
}

static void on_ulpdu(struct beside *b)
{
    const struct ddp_hdr *h = &b->u.seg.hdr;
    uint32_t got = b->got[b->u.opcode];
    switch (b->u.opcode) {
    case RDMAP_WRITE: on_data(b, h->stag == STAG_WRITE && h->to == PLACE + got, BESIDE_LONG); break;
    case RDMAP_READ_RESPONSE:
        on_data(b, h->stag == STAG_READ && h->to == PLACE + got, BESIDE_LONG);
        break;
    case RDMAP_SEND:
        on_data(b, h->qn == 0 && h->msn == b->came_msn && h->mo == got, BESIDE_SHORT);
        b->came_msn += h->last;
        break;
    case RDMAP_READ_REQUEST:
        rdmap_read_request_unpack(b->u.octets + DDP_UNTAGGED_LEN, &b->asked);
        b->was_asked = true;
        break;
    default: fail_msg("beside: opcode %u came", b->u.opcode);
    }
}

static void pump(void *arg)
{
    struct beside *b = arg;
    while (b->going && raw_take(&b->raw, &b->u)) {
        on_ulpdu(b);
    }
    look_if_done(b);
}

bool beside_takes(struct beside *b, const struct uiw_wc *wc)
{
    if (wc->qp_num != b->qp_num) {
        return false;
    }
    assert_int_equal(wc->status, UIW_WC_SUCCESS);
    assert_in_range(b->wcs, 0, BESIDE_WCS - 1);
    b->wc[b->wcs++] = *wc;
    look_if_done(b);
    return true;
}

/* --- the device --- */

static struct uiw_sge place(const struct beside *b, const void *p, uint32_t n)
{
    return sim_sge(b->mr, p, n);
}

static void post_recv(struct beside *b)
{
    struct uiw_sge sge = place(b, b->mem.recv, sizeof b->mem.recv);
    struct uiw_recv_wr wr = {.wr_id = RECV_ID + b->round, .sg_list = &sge, .num_sge = 1};
    assert_int_equal(b->srq != NULL ? uiw_srq_post_recv(b->srq, &wr, NULL)
                                    : uiw_qp_post_recv(b->qp, &wr, NULL),
                     0);
}

static void post(struct beside *b, struct uiw_send_wr wr, struct uiw_sge sge)
{
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.flags = UIW_SEND_SIGNALED;
    assert_int_equal(uiw_qp_post_send(b->qp, &wr, NULL), 0);
}

/* --- a round --- */

void beside_begin(struct beside *b)
{
    b->round++;
    b->wcs = 0;
    b->done = b->was_asked = false;
    memset(b->got, 0, sizeof b->got);
    memset(&b->mem, 0, sizeof b->mem);
    for (uint32_t i = 0; i < BESIDE_LONG; i++) {
        b->mem.out[i] = octet(b, false, i);
    }
    post_recv(b);
    post(b,
         (struct uiw_send_wr){
             .wr_id = READ_ID, .opcode = UIW_WR_RDMA_READ, .remote_addr = PLACE, .rkey = STAG_READ},
         place(b, b->mem.sink, sizeof b->mem.sink));
    b->going = true;
    for (uint64_t end = b->r->s->ms + 1000; !b->was_asked && b->r->s->ms < end;) {
        sim_step(b->r->s);
    }
    assert_true(b->was_asked);
    b->going = false;
    b->raw.deaf = true;
    post(b,
         (struct uiw_send_wr){.wr_id = WRITE_ID,
                              .opcode = UIW_WR_RDMA_WRITE,
                              .remote_addr = PLACE,
                              .rkey = STAG_WRITE},
         place(b, b->mem.out, BESIDE_LONG));
    post(b, (struct uiw_send_wr){.wr_id = SEND_ID, .opcode = UIW_WR_SEND},
         place(b, b->mem.out, BESIDE_SHORT));
    put_send(b, 0, SEGMENT);
    put_write(b, 0, BESIDE_LONG / 2);
    put_answer(b, 0, SEGMENT);
    put_question(b);
    raw_run(b->r, 5);
}

void beside_expect_under_way(struct beside *b)
{
    static const uint8_t nothing[BESIDE_LONG];
    uint32_t half = BESIDE_LONG / 2;
    assert_int_equal(b->wcs, 0);
    expect_octets(b, true, 0, (struct span){b->mem.recv, SEGMENT});
    expect_octets(b, true, 0, (struct span){b->mem.sink, SEGMENT});
    expect_octets(b, true, 0, (struct span){b->mem.in, half});
    assert_memory_equal(b->mem.recv + SEGMENT, nothing, BESIDE_SHORT - SEGMENT);
    assert_memory_equal(b->mem.sink + SEGMENT, nothing, BESIDE_SHORT - SEGMENT);
    assert_memory_equal(b->mem.in + half, nothing, BESIDE_LONG - half);
    /* Some of the device's Write has come to the peer, the rest has no room. */
    assert_in_range(net_rx_queued(b->raw.stream), WINDOW / 2, WINDOW);
}

void beside_go(struct beside *b)
{
    put_answer(b, SEGMENT, BESIDE_SHORT);
    put_write(b, BESIDE_LONG / 2, BESIDE_LONG);
    put_send(b, SEGMENT, BESIDE_SHORT);
    b->send_msn++;
    b->going = true;
    b->raw.deaf = false;
    b->went_ms = b->r->s->ms;
}

static void expect_completions(const struct beside *b)
{
    static const enum uiw_wc_opcode opcode[] = {
        [READ_ID] = UIW_WC_RDMA_READ, [WRITE_ID] = UIW_WC_RDMA_WRITE, [SEND_ID] = UIW_WC_SEND};
    uint64_t next = READ_ID;
    for (unsigned i = 0; i < b->wcs; i++) {
        const struct uiw_wc *wc = &b->wc[i];
        if (wc->opcode == UIW_WC_RECV) {
            assert_int_equal(wc->wr_id, RECV_ID + b->round);
            assert_int_equal(wc->byte_len, BESIDE_SHORT);
        } else {
            assert_int_equal(wc->wr_id, next);
            assert_int_equal(wc->opcode, opcode[next++]);
        }
    }
    assert_int_equal(next, SEND_ID + 1);
}

void beside_end(struct beside *b)
{
    uint64_t end = b->r->s->ms + LIMIT_MS;
    while (!b->done) {
        if (b->r->s->ms >= end || b->raw.close_came) {
            fail_msg("beside: %u octets of the Write, %u of the Read, %u of the Send, %u of 4 "
                     "completions; %s",
                     b->got[RDMAP_WRITE], b->got[RDMAP_READ_RESPONSE], b->got[RDMAP_SEND], b->wcs,
                     b->raw.close_came ? "the stream ended" : "nothing more comes");
        }
        sim_step(b->r->s);
    }
    expect_completions(b);
    expect_octets(b, true, 0, (struct span){b->mem.recv, BESIDE_SHORT});
    expect_octets(b, true, 0, (struct span){b->mem.sink, BESIDE_SHORT});
    expect_octets(b, true, 0, (struct span){b->mem.in, BESIDE_LONG});
    expect_octets(b, false, 0, (struct span){b->mem.out, BESIDE_LONG});
    b->going = false;
}

/* --- life --- */

static void await_wc(struct beside *b)
{
    uint64_t end = b->r->s->ms + 1000;
    while (b->wcs == 0) {
        if (b->r->s->ms >= end) {
            fail_msg("beside: no completion");
        }
        sim_step(b->r->s);
    }
}

/* One Send of the peer, and which receive it took. */
static uint64_t take_message(struct beside *b)
{
    b->wcs = 0;
    raw_send(&b->raw, b->send_msn++, "beside", 6);
    await_wc(b);
    assert_int_equal(b->wc[0].byte_len, 6);
    return b->wc[0].wr_id;
}

unsigned beside_expect_alive(struct beside *b)
{
    struct uiw_qp_info info;
    unsigned others = 0;
    uiw_qp_query(b->qp, &info);
    assert_int_equal(info.state, UIW_QP_RTS);
    b->round++;
    post_recv(b);
    while (take_message(b) != RECV_ID + b->round) {
        assert_in_range(++others, 1, OTHERS);
    }
    assert_memory_equal(b->mem.recv, "beside", 6);
    b->wcs = 0;
    post(b, (struct uiw_send_wr){.wr_id = SEND_ID, .opcode = UIW_WR_SEND},
         place(b, b->mem.recv, 6));
    await_wc(b);
    assert_true(raw_next(b->r, &b->raw, &b->u));
    assert_int_equal(b->u.opcode, RDMAP_SEND);
    assert_memory_equal(b->u.octets + DDP_UNTAGGED_LEN, "beside", 6);
    return others;
}

void beside_open(struct beside *b, struct raw *r, struct uiw_srq *srq)
{
    struct sim_side *side = &r->s->side[1];
    struct uiw_qp_attr attr = {.send_cq = side->cq,
                               .recv_cq = side->cq,
                               .srq = srq,
                               .max_send_wr = 8,
                               .max_recv_wr = srq == NULL ? 4 : 0,
                               .max_send_sge = 1,
                               .max_recv_sge = 1};
    struct uiw_qp_info info;
    *b = (struct beside){.r = r, .srq = srq, .send_msn = 1, .read_msn = 1, .came_msn = 1};
    b->mr = sim_reg(r->s, 1, &b->mem, sizeof b->mem,
                    UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE | UIW_ACCESS_REMOTE_READ);
    assert_int_equal(uiw_qp_create(side->pd, &attr, &b->qp), 0);
    uiw_qp_query(b->qp, &info);
    b->qp_num = info.qp_num;
    net_test_window(WINDOW);
    b->conn = raw_join_qp(r, &b->raw, NULL, b->qp);
    net_test_window(0);
    raw_first(r, &b->raw);
    b->raw.pump = pump;
    b->raw.pump_arg = b;
}

void beside_close(struct beside *b)
{
    raw_hangup(b->r, &b->raw, true);
    uiw_conn_destroy(b->conn);
    assert_int_equal(uiw_qp_destroy(b->qp), 0);
    assert_int_equal(uiw_mr_dereg(b->mr), 0);
}
