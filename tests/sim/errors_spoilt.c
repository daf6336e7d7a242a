/* SPDX-License-Identifier: MIT */
#include "errors_spoilt.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void regions(struct spoilt *c)
{
    enum { W = UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE, R = UIW_ACCESS_REMOTE_READ };
    static const unsigned access[] = {[R_ALL] = W | R | UIW_ACCESS_REMOTE_ATOMIC,
                                      [R_READ] = R,
                                      [R_WRITE] = W,
                                      [R_FIXED] = W | R | UIW_ACCESS_NO_REMOTE_INV,
                                      [R_GONE] = W | R,
                                      [R_SINK] = UIW_ACCESS_LOCAL_WRITE};
    struct sim_side *b = &c->k.s.side[1];
    for (unsigned i = 0; i < ARRAY_LEN(access); i++) {
        if (access[i] != 0) {
            c->mr[i] = sim_reg(&c->k.s, 1, c->area, AREA, access[i]);
        }
    }
    assert_int_equal(uiw_pd_create(b->dev, &c->pd), 0);
    assert_int_equal(uiw_mr_reg(c->pd, c->area, AREA, W | R, &c->mr[R_PD]), 0);
    struct uiw_qp_attr attr = {
        .send_cq = b->cq, .recv_cq = b->cq, .max_send_wr = 1, .max_recv_wr = 1};
    assert_int_equal(uiw_qp_create(b->pd, &attr, &c->third), 0);
    assert_int_equal(uiw_mr_reg_qp(c->third, c->area, AREA, W | R, &c->mr[R_STREAM]), 0);
    assert_int_equal(uiw_mr_share(c->mr[R_ALL], b->pd, W | R, &c->mr[R_SHARED]), 0);
    for (unsigned i = 0; i < REGIONS; i++) {
        c->stag[i] = c->mr[i] != NULL ? uiw_mr_rkey(c->mr[i]) : 0;
    }
    uiw_mr_dereg(c->mr[R_GONE]);
    c->mr[R_GONE] = NULL;
    c->stag[R_KEY] = c->stag[R_ALL] ^ 1;
    c->stag[R_BESIDE] = uiw_mr_rkey(c->k.beside[0].mr);
    /* Far from all others: the table refuses an index that is in use. */
    c->stag[R_NONE] = ~c->stag[R_ALL];
    c->in_mr = sim_reg(&c->k.s, 1, c->in, sizeof c->in, UIW_ACCESS_LOCAL_WRITE);
}

/* A window of the QP, which is closed again. */
static void open_and_close(struct spoilt *c)
{
    enum { BINDABLE = UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_MW_BIND };
    struct uiw_mr *mr = sim_reg(&c->k.s, 1, c->area, AREA, BINDABLE);
    struct uiw_wc wc[2];
    assert_int_equal(uiw_mw_create(c->k.s.side[1].pd, UIW_MW_TYPE_2, &c->mw), 0);
    uint32_t stag = uiw_mw_rkey(c->mw) + 1;
    struct uiw_send_wr wr[2] = {
        {.next = &wr[1],
         .opcode = UIW_WR_BIND_MW,
         .flags = UIW_SEND_SIGNALED,
         .bind = {.mw = c->mw,
                  .mr = mr,
                  .addr = (uintptr_t)c->area,
                  .length = AREA,
                  .access = UIW_ACCESS_REMOTE_READ | UIW_ACCESS_REMOTE_WRITE,
                  .key = (uint8_t)stag}},
        {.opcode = UIW_WR_LOCAL_INV, .flags = UIW_SEND_SIGNALED}};
    wr[1].invalidate = c->stag[R_CLOSED] = (stag & 0xff) | (uiw_mw_rkey(c->mw) & ~0xffu);
    assert_int_equal(uiw_qp_post_send(c->qp, wr, NULL), 0);
    sim_poll(&c->k.s, 1, 2, wc);
    assert_int_equal(wc[1].status, UIW_WC_SUCCESS);
    assert_int_equal(uiw_mr_dereg(mr), 0);
}

struct spoilt *spoilt_open(enum errors_row row, const char *keys)
{
    struct spoilt *c = calloc(1, sizeof *c);
    assert_non_null(c);
    scene_begin(&c->k, row, keys);
    regions(c);
    scene_join(&c->k);
    c->qp = c->k.s.side[1].qp;
    c->conn = c->k.s.side[1].conn;
    open_and_close(c);
    return c;
}

void spoilt_close(struct spoilt *c)
{
    scene_expect_unharmed(&c->k);
    assert_int_equal(c->k.left, c->left);
    sim_drop(&c->k.s);
    uiw_mw_destroy(c->mw);
    for (unsigned i = 0; i < REGIONS; i++) {
        if (c->mr[i] != NULL) {
            uiw_mr_dereg(c->mr[i]);
        }
    }
    uiw_mr_dereg(c->in_mr);
    uiw_qp_destroy(c->third);
    uiw_pd_destroy(c->pd);
    scene_end(&c->k);
    free(c);
}

void spoilt_recvs(struct spoilt *c, int n)
{
    for (int i = 0; i < n; i++) {
        sim_recv(&c->k.s, 1, sim_sge(c->in_mr, c->in + i * RECV, RECV), 1u + (unsigned)i);
    }
}

/* A Read or Atomic that the peer does not answer, and a Write that waits for it. */
void spoilt_request(struct spoilt *c, enum uiw_wr_opcode op, unsigned comes)
{
    struct uiw_sge sink = sim_sge(c->mr[R_SINK], c->area, 8);
    struct uiw_send_wr wr[2] = {
        {.wr_id = 11,
         .next = &wr[1],
         .opcode = op,
         .sg_list = &sink,
         .num_sge = 1,
         .remote_addr = 0x1000,
         .rkey = 0x777},
        {.wr_id = 12, .opcode = UIW_WR_RDMA_WRITE, .flags = UIW_SEND_FENCE}};
    assert_int_equal(uiw_qp_post_send(c->qp, wr, NULL), 0);
    assert_true(raw_next(&c->k.r, &c->k.c, &c->k.u));
    assert_int_equal(c->k.u.opcode, comes);
}

void spoilt_read(struct spoilt *c)
{
    spoilt_request(c, UIW_WR_RDMA_READ, RDMAP_READ_REQUEST);
}

/* --- what must hold after each fault --- */

/* The wire: bad is the segment that the Terminate is to quote. */
static void expect_terminate(struct spoilt *c, const struct want *w, const uint8_t *bad, uint32_t n)
{
    struct rdmap_term t;
    raw_terminate(&c->k.r, &c->k.c, &c->k.u, &t);
    const uint8_t *p = c->k.u.octets + DDP_UNTAGGED_LEN;
    uint32_t header = (bad[0] & 0x80) != 0 ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
    assert_int_equal(p[0], w->layer << 4 | w->type);
    assert_int_equal(p[1], w->code);
    assert_int_equal(p[2], w->flags);
    assert_int_equal(p[3], 0);
    if (w->flags == 0) {
        assert_int_equal(c->k.u.seg.plen, 4);
        return;
    }
    assert_int_equal(get_be16(p + 4), n);
    assert_memory_equal(p + 6, bad, header);
    bool quoted = (w->flags & 0x20) != 0;
    assert_int_equal(c->k.u.seg.plen, 6 + header + (quoted ? RDMAP_READ_REQUEST_LEN : 0));
    if (quoted) {
        assert_memory_equal(p + 6 + header, bad + header, RDMAP_READ_REQUEST_LEN);
    }
}

static void expect_event(struct spoilt *c, const struct want *w)
{
    struct sim_side *b = &c->k.s.side[1];
    sim_until(&c->k.s, &b->disconnected, 1, 10000);
    char text[160];
    snprintf(text, sizeof text, "peer's fault: %s",
             verdict_text(verdict_bad(w->layer, w->type, w->code)));
    assert_int_equal(b->last.type, UIW_EVENT_DISCONNECTED);
    assert_ptr_equal(b->last.conn, c->conn);
    assert_int_equal(b->last.reason, UIW_REASON_FAULT);
    assert_int_equal(b->last.status, -EPROTO);
    assert_int_equal(b->last.layer, w->layer);
    assert_int_equal(b->last.etype, w->type);
    assert_int_equal(b->last.code, w->code);
    assert_string_equal(b->last.text, text);
    struct uiw_qp_info info;
    uiw_qp_query(c->qp, &info);
    assert_int_equal(info.state, UIW_QP_ERROR);
    struct uiw_async_event ev;
    assert_int_equal(uiw_async_get(b->dev, &ev), 0);
    assert_int_equal(ev.type, w->async);
    assert_int_equal(ev.qp_num, info.qp_num);
    assert_string_equal(ev.text, text);
    assert_int_equal(uiw_async_get(b->dev, &ev), -EAGAIN);
}

/* All that was posted comes back in error, sends and receives each in their order. Of a shared queue only
 * what the bad message had taken does. */
static void expect_completions(struct spoilt *c, const struct want *w)
{
    struct uiw_wc wc[RECVS + 2];
    int recvs = w->no_recv ? 0 : scene_shared ? w->recv != 0 : RECVS;
    int n = recvs + (w->no_read ? 0 : 2);
    uint64_t send = 11, recv = 1;
    sim_poll(&c->k.s, 1, n, wc);
    for (int i = 0; i < n; i++) {
        uint64_t *next = wc[i].opcode == UIW_WC_RECV ? &recv : &send;
        bool first = wc[i].opcode == UIW_WC_RECV && recv == 1 && w->recv != 0;
        bool read = wc[i].opcode == UIW_WC_RDMA_READ && w->read != 0;
        assert_int_equal(wc[i].wr_id, (*next)++);
        assert_int_equal(wc[i].status, first ? w->recv : read ? w->read : UIW_WC_WR_FLUSH_ERR);
        if (first) {
            assert_int_equal(wc[i].vendor_err, w->layer << 16 | w->type << 8 | w->code);
        }
    }
    assert_int_equal(sim_cq_poll(&c->k.s, 1, 1, wc), 0);
    c->left = scene_shared && !w->no_recv ? RECVS - (unsigned)recvs : 0;
}

/* TCP goes away in good order. */
static void expect_gone(struct spoilt *c)
{
    struct uiw_conn_info info;
    raw_hangup(&c->k.r, &c->k.c, false);
    raw_run(&c->k.r, 20);
    uiw_conn_query(c->conn, &info);
    assert_int_equal(info.emss, 0); /* there is no stream any more */
    assert_int_equal(c->k.s.side[1].disconnected, 1);
    for (int i = 0; i < AREA; i++) {
        assert_int_equal(c->area[i], 0);
    }
}

/* In one burst with the bad segment: neither may be taken any more. */
void spoilt_more(struct spoilt *c)
{
    raw_write(&c->k.c, (struct sim_at){(uintptr_t)c->area, c->stag[R_FIXED]}, "x", 1);
    raw_send(&c->k.c, 1, "y", 1);
    raw_send(&c->k.c, 2, "z", 1);
    net_shutdown(c->k.c.stream);
    scene_hit(&c->k);
}

void spoilt_expect(struct spoilt *c, const struct want *w, const uint8_t *bad, uint32_t n)
{
    expect_terminate(c, w, bad, n);
    expect_event(c, w);
    expect_completions(c, w);
    expect_gone(c);
}
