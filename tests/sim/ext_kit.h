/* SPDX-License-Identifier: MIT */
/* What the tests of Atomics, Immediate Data and memory objects share: side 0 does something to memory of
 * side 1 and says what came of it. */
#ifndef EXT_KIT_H
#define EXT_KIT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim.h"

enum { EXT_AREA = 4096, EXT_GUARD = 64, EXT_FILL = 0xee };

enum {
    EXT_R = UIW_ACCESS_REMOTE_READ,
    EXT_W = UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE,
    EXT_A = UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_ATOMIC,
    EXT_RWA = EXT_R | EXT_W | EXT_A,
};

struct ext {
    struct sim s;
    uint8_t mine[EXT_AREA]; /* side 0: source and sink */
    struct uiw_mr *my_mr;
    _Alignas(64) uint8_t theirs[EXT_GUARD + EXT_AREA + EXT_GUARD]; /* side 1 */
};

static inline struct ext *ext_open(const char *keys)
{
    struct ext *x = aligned_alloc(64, (sizeof *x + 63) / 64 * 64);
    assert_non_null(x);
    memset(x, 0, sizeof *x);
    sim_open(&x->s, sim_seed(), keys);
    memset(x->mine, 0xa5, sizeof x->mine);
    memset(x->theirs, EXT_FILL, sizeof x->theirs);
    x->my_mr = sim_reg(&x->s, 0, x->mine, EXT_AREA, UIW_ACCESS_LOCAL_WRITE);
    sim_connect(&x->s, NULL, NULL);
    return x;
}

static inline void ext_close(struct ext *x)
{
    sim_drop(&x->s);
    assert_int_equal(uiw_mr_dereg(x->my_mr), 0);
    sim_close(&x->s);
    free(x);
}

static inline uint8_t *ext_area(struct ext *x)
{
    return x->theirs + EXT_GUARD;
}

static inline struct sim_at ext_at(struct ext *x, uint64_t off, uint32_t rkey)
{
    return (struct sim_at){(uint64_t)(uintptr_t)ext_area(x) + off, rkey};
}

static inline struct uiw_mr *ext_expose(struct ext *x, unsigned access)
{
    return sim_reg(&x->s, 1, ext_area(x), EXT_AREA, access);
}

static inline void ext_expect_filled(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(p[i], EXT_FILL);
    }
}

/* What became of a request of side 0. */
struct ext_result {
    enum uiw_wc_status status;
    bool fault; /* the stream ended by a Terminate of side 1 */
    unsigned layer, type, code;
};

static inline void ext_expect_fault(const struct ext_result *r, unsigned layer, unsigned type,
                                    unsigned code)
{
    if (!r->fault || r->layer != layer || r->type != type || r->code != code) {
        fail_msg("%s %u/%u/%02x, expected %u/%u/%02x", r->fault ? "fault" : "no fault", r->layer,
                 r->type, r->code, layer, type, code);
    }
}

/* Both ends of a stream that has just ended are made anew. */
static inline void ext_reconnect(struct ext *x)
{
    sim_drop(&x->s);
    sim_connect(&x->s, NULL, NULL);
}

/* Posts the request of side 0 with a Read of nothing behind it, whose answer means that all before it
 * was accepted (RFC 5040 sec 5.5). A stream that ended is made anew. */
static inline struct ext_result ext_do(struct ext *x, struct uiw_send_wr *wr)
{
    struct sim_side *a = &x->s.side[0], *b = &x->s.side[1];
    struct uiw_send_wr after = {
        .wr_id = 99, .opcode = UIW_WR_RDMA_READ, .flags = UIW_SEND_SIGNALED};
    struct uiw_wc wc[2];
    wr->next = &after;
    wr->flags |= UIW_SEND_SIGNALED;
    assert_int_equal(uiw_qp_post_send(a->qp, wr, NULL), 0);
    sim_poll(&x->s, 0, 2, wc);
    struct ext_result r = {.status = wc[0].status};
    if (wc[1].status == UIW_WC_SUCCESS) {
        assert_int_equal(r.status, UIW_WC_SUCCESS);
        return r;
    }
    sim_until(&x->s, &a->disconnected, 1, 10000);
    sim_until(&x->s, &b->disconnected, 1, 10000);
    r.fault = b->last.reason == UIW_REASON_FAULT;
    if (r.fault) {
        assert_int_equal(a->last.reason, UIW_REASON_PEER_TERMINATE);
        assert_int_equal(a->last.code, b->last.code);
    }
    r.layer = b->last.layer;
    r.type = b->last.etype;
    r.code = b->last.code;
    ext_reconnect(x);
    return r;
}

enum ext_op { EXT_WRITE, EXT_READ, EXT_ATOMIC, EXT_INV, EXT_OPS };

/* One of those on n octets at that place; Atomics and invalidations have lengths of their own. */
static inline struct ext_result ext_try(struct ext *x, enum ext_op op, struct sim_at at, uint32_t n)
{
    static const enum uiw_wr_opcode opcodes[EXT_OPS] = {
        UIW_WR_RDMA_WRITE, UIW_WR_RDMA_READ, UIW_WR_ATOMIC_FETCH_ADD, UIW_WR_SEND_WITH_INV};
    struct uiw_sge sge = sim_sge(x->my_mr, x->mine, op == EXT_ATOMIC ? 8 : n);
    struct uiw_send_wr wr = {.opcode = opcodes[op],
                             .sg_list = &sge,
                             .num_sge = op == EXT_INV ? 0 : 1,
                             .remote_addr = at.to,
                             .rkey = at.rkey,
                             .invalidate = at.rkey,
                             .atomic = {.compare_add = 1}};
    struct uiw_wc wc;
    if (op == EXT_INV) {
        struct uiw_recv_wr recv = {.wr_id = 5};
        assert_int_equal(uiw_qp_post_recv(x->s.side[1].qp, &recv, NULL), 0);
    }
    struct ext_result r = ext_do(x, &wr);
    if (op == EXT_INV && !r.fault) {
        sim_poll(&x->s, 1, 1, &wc);
        assert_int_equal(wc.flags, UIW_WC_WITH_INV);
        assert_int_equal(wc.invalidated, at.rkey);
    }
    return r;
}

static inline void ext_expect_ok(const struct ext_result *r)
{
    if (r->fault || r->status != UIW_WC_SUCCESS) {
        fail_msg("%s, %u/%u/%02x", uiw_wc_status_text(r->status), r->layer, r->type, r->code);
    }
}

/* A request on memory objects at that side; its completion. */
static inline struct uiw_wc ext_local(struct ext *x, int side, struct uiw_send_wr *wr)
{
    struct uiw_wc wc;
    wr->flags |= UIW_SEND_SIGNALED;
    assert_int_equal(uiw_qp_post_send(x->s.side[side].qp, wr, NULL), 0);
    sim_poll(&x->s, side, 1, &wc);
    return wc;
}

static inline uint64_t ext_addr(struct ext *x)
{
    return (uint64_t)(uintptr_t)ext_area(x);
}

static inline struct uiw_mw *ext_window(struct ext *x, enum uiw_mw_type type)
{
    struct uiw_mw *mw;
    assert_int_equal(uiw_mw_create(x->s.side[1].pd, type, &mw), 0);
    return mw;
}

static inline struct uiw_mr *ext_bindable(struct ext *x)
{
    return ext_expose(x, UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_MW_BIND);
}

/* A bind of the part at off, for reading and writing, posted at side 1. */
static inline enum uiw_wc_status ext_bind(struct ext *x, struct uiw_mw *mw, struct uiw_mr *mr,
                                          uint64_t off, uint64_t n)
{
    struct uiw_send_wr wr = {.opcode = UIW_WR_BIND_MW,
                             .bind = {.mw = mw,
                                      .mr = mr,
                                      .addr = ext_addr(x) + off,
                                      .length = n,
                                      .access = UIW_ACCESS_REMOTE_READ | UIW_ACCESS_REMOTE_WRITE,
                                      .key = (uint8_t)(uiw_mw_rkey(mw) + 1)}};
    return ext_local(x, 1, &wr).status;
}

static inline enum uiw_wc_status ext_invalidate(struct ext *x, uint32_t stag)
{
    struct uiw_send_wr wr = {.opcode = UIW_WR_LOCAL_INV, .invalidate = stag};
    struct uiw_wc wc = ext_local(x, 1, &wr);
    assert_int_equal(wc.opcode, UIW_WC_LOCAL_INV);
    return wc.status;
}

static inline void ext_expect_open(struct ext *x, uint64_t off, uint32_t rkey)
{
    struct ext_result r = ext_try(x, EXT_WRITE, ext_at(x, off, rkey), 8);
    ext_expect_ok(&r);
    assert_memory_equal(ext_area(x) + off, x->mine, 8);
    memset(ext_area(x) + off, EXT_FILL, 8);
}

/* For type 2 windows this ends the connection that they are tied to. */
static inline void ext_expect_closed(struct ext *x, uint64_t off, uint32_t rkey, unsigned code)
{
    struct ext_result r = ext_try(x, EXT_WRITE, ext_at(x, off, rkey), 8);
    ext_expect_fault(&r, 1, 1, code);
    ext_expect_filled(x->theirs, sizeof x->theirs);
}

#endif
