/* SPDX-License-Identifier: MIT */
/* Lives of windows, and of regions registered by requests. */
#include "ext_kit.h"

/* proves: RDMAP-5040-8.1.1-04 DDP-5041-8.3-01 DDP-5041-8.3-02 RDMAP-5040-8.1.1-06
 * SEC-5042-6.2.2-01 */
static void test_type_1(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr = ext_bindable(x);
    struct uiw_mw *mw = ext_window(x, UIW_MW_TYPE_1);
    uint32_t born = uiw_mw_rkey(mw), last = born;
    ext_expect_closed(x, 0, born, 0); /* not bound yet */
    for (int i = 0; i < 8; i++) {     /* moved from place to place, each time under a new key */
        uint64_t off = (uint64_t)i * 64;
        struct uiw_bind bind = {.mw = mw,
                                .mr = mr,
                                .addr = ext_addr(x) + off,
                                .length = 64,
                                .access = UIW_ACCESS_REMOTE_WRITE};
        struct uiw_wc wc;
        assert_int_equal(uiw_mw_bind(x->s.side[1].qp, 70 + (uint64_t)i, UIW_SEND_SIGNALED, &bind),
                         0);
        sim_poll(&x->s, 1, 1, &wc);
        assert_int_equal(wc.status, UIW_WC_SUCCESS);
        assert_int_equal(wc.opcode, UIW_WC_BIND_MW);
        assert_int_equal(wc.wr_id, 70 + i);
        assert_int_not_equal(uiw_mw_rkey(mw), last);
        assert_int_equal(uiw_mw_rkey(mw) >> 8, born >> 8);
        ext_expect_open(x, off, uiw_mw_rkey(mw));
        ext_expect_closed(x, off, last, 0);
        ext_expect_closed(x, off + 57, uiw_mw_rkey(mw), 1);
        last = uiw_mw_rkey(mw);
    }
    assert_int_equal(uiw_mr_dereg(mr), -EBUSY);
    assert_non_null(strstr(uiw_error(), "1 windows"));
    ext_expect_open(x, 7 * 64, last);
    struct uiw_bind none = {.mw = mw}; /* closed */
    assert_int_equal(uiw_mw_bind(x->s.side[1].qp, 1, 0, &none), 0);
    ext_reconnect(x);
    ext_expect_closed(x, 7 * 64, last, 0);
    ext_expect_closed(x, 7 * 64, uiw_mw_rkey(mw), 0);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    assert_int_equal(uiw_mw_destroy(mw), 0);
    ext_close(x);
}

/* proves: RDMAP-5040-8.1.1-06 */
static void test_type_2(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr = ext_bindable(x);
    struct uiw_mw *mw = ext_window(x, UIW_MW_TYPE_2);
    for (int i = 0; i < 6; i++) {
        uint32_t want = (uiw_mw_rkey(mw) & ~0xffu) | ((uiw_mw_rkey(mw) + 1) & 0xff);
        assert_int_equal(ext_bind(x, mw, mr, 128, 64), UIW_WC_SUCCESS);
        assert_int_equal(uiw_mw_rkey(mw), want); /* the key is the program's */
        ext_expect_open(x, 128, want);
        ext_expect_open(x, 184, want);
        assert_int_equal(uiw_mr_dereg(mr), -EBUSY);
        if (i % 2 == 0) {
            assert_int_equal(ext_invalidate(x, want), UIW_WC_SUCCESS);
        } else {
            struct ext_result r = ext_try(x, EXT_INV, ext_at(x, 0, want), 0);
            ext_expect_ok(&r);
        }
        if (i % 3 == 0) { /* is so already */
            assert_int_equal(ext_invalidate(x, want), UIW_WC_SUCCESS);
        }
    }
    ext_expect_closed(x, 128, uiw_mw_rkey(mw), 0);
    assert_int_equal(uiw_mr_dereg(mr), 0); /* no window is bound any more */
    assert_int_equal(uiw_mw_destroy(mw), 0);
    ext_close(x);
}

/* proves: RDMAP-5040-8.1.1-02 */
static void test_type_2_is_for_its_qp(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct sim_side *a = &x->s.side[0], *b = &x->s.side[1], first[2] = {*a, *b};
    struct uiw_mr *mr = ext_bindable(x);
    struct uiw_mw *mw = ext_window(x, UIW_MW_TYPE_2);
    assert_int_equal(ext_bind(x, mw, mr, 0, 64), UIW_WC_SUCCESS);
    uint32_t rkey = uiw_mw_rkey(mw);
    a->qp = b->qp = NULL;
    a->conn = b->conn = NULL;
    sim_connect(&x->s, NULL, NULL);
    ext_expect_closed(x, 0, rkey, 2);
    struct uiw_wc wc;
    struct uiw_send_wr inv = {.opcode = UIW_WR_LOCAL_INV, .invalidate = rkey};
    wc = ext_local(x, 1, &inv); /* nor may another QP of the PD take it away */
    assert_int_equal(wc.status, UIW_WC_MW_BIND_ERR);
    sim_drop(&x->s);
    for (int i = 0; i < 2; i++) {
        x->s.side[i].qp = first[i].qp;
        x->s.side[i].conn = first[i].conn;
    }
    ext_expect_open(x, 0, rkey);
    /* with its QP it is unbound */
    assert_int_equal(uiw_mr_dereg(mr), -EBUSY);
    ext_reconnect(x);
    ext_expect_closed(x, 0, rkey, 0);
    assert_int_equal(ext_bind(x, mw, mr, 0, 64), UIW_WC_SUCCESS);
    ext_expect_open(x, 0, uiw_mw_rkey(mw));
    assert_int_equal(uiw_mw_destroy(mw), 0);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

/* A type 1 window is of no one QP, but what is under it may be.
 * proves: RDMAP-5040-8.1.1-02 */
static void test_window_on_a_region_for_one_qp(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct sim_side *a = &x->s.side[0], *b = &x->s.side[1], first[2] = {*a, *b};
    struct uiw_mw *mw = ext_window(x, UIW_MW_TYPE_1);
    struct uiw_mr *mr;
    assert_int_equal(uiw_mr_reg_qp(b->qp, ext_area(x), EXT_AREA,
                                   UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_MW_BIND, &mr),
                     0);
    assert_int_equal(ext_bind(x, mw, mr, 0, 64), UIW_WC_SUCCESS);
    ext_expect_open(x, 0, uiw_mw_rkey(mw));
    a->qp = b->qp = NULL;
    a->conn = b->conn = NULL;
    sim_connect(&x->s, NULL, NULL);
    ext_expect_closed(x, 0, uiw_mw_rkey(mw), 2);
    sim_drop(&x->s);
    for (int i = 0; i < 2; i++) {
        x->s.side[i].qp = first[i].qp;
        x->s.side[i].conn = first[i].conn;
    }
    ext_expect_open(x, 0, uiw_mw_rkey(mw));
    assert_int_equal(uiw_mw_destroy(mw), 0);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

/* Whoever used the STag before it was given out anew does not count: the one who has it now may revoke
 * it although the other lives. */
static void test_given_to_another_stream(void **state)
{
    (void)state;
    for (int fast = 0; fast < 2; fast++) {
        struct ext *x = ext_open("mtu=1500");
        struct sim_side *a = &x->s.side[0], *b = &x->s.side[1], first[2] = {*a, *b};
        struct uiw_mr *mr = ext_bindable(x), *own;
        struct uiw_mw *mw = ext_window(x, UIW_MW_TYPE_2);
        assert_int_equal(uiw_mr_alloc(b->pd, 64, &own), 0);
        for (uint8_t round = 0; round < 2; round++) {
            struct uiw_send_wr wr = {.opcode = fast != 0 ? UIW_WR_REG_MR : UIW_WR_BIND_MW,
                                     .bind = {.mw = mw,
                                              .mr = fast != 0 ? own : mr,
                                              .addr = ext_addr(x),
                                              .length = 64,
                                              .access = UIW_ACCESS_REMOTE_WRITE |
                                                        (fast != 0 ? UIW_ACCESS_LOCAL_WRITE : 0u),
                                              .key = round}};
            assert_int_equal(ext_local(x, 1, &wr).status, UIW_WC_SUCCESS);
            uint32_t rkey = fast != 0 ? uiw_mr_rkey(own) : uiw_mw_rkey(mw);
            ext_expect_open(x, 0, rkey);
            struct ext_result r = ext_try(x, EXT_INV, ext_at(x, 0, rkey), 0);
            ext_expect_ok(&r);
            if (round == 0) {
                a->qp = b->qp = NULL;
                a->conn = b->conn = NULL;
                sim_connect(&x->s, NULL, NULL);
            }
        }
        sim_drop(&x->s);
        for (int i = 0; i < 2; i++) {
            x->s.side[i].qp = first[i].qp;
            x->s.side[i].conn = first[i].conn;
        }
        assert_int_equal(uiw_mw_destroy(mw), 0);
        assert_int_equal(uiw_mr_dereg(own), 0);
        assert_int_equal(uiw_mr_dereg(mr), 0);
        ext_close(x);
    }
}

static void test_destroyed_window(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    for (int type = 1; type <= 2; type++) {
        struct uiw_mr *mr = ext_bindable(x);
        struct uiw_mw *mw = ext_window(x, (enum uiw_mw_type)type);
        assert_int_equal(ext_bind(x, mw, mr, 0, 64), UIW_WC_SUCCESS);
        uint32_t rkey = uiw_mw_rkey(mw);
        ext_expect_open(x, 0, rkey);
        assert_int_equal(uiw_pd_destroy(x->s.side[1].pd), -EBUSY);
        assert_int_equal(uiw_mw_destroy(mw), 0);
        ext_expect_closed(x, 0, rkey, 0);
        assert_int_equal(uiw_mr_dereg(mr), 0);
    }
    struct uiw_mw *none;
    assert_int_equal(uiw_mw_create(x->s.side[1].pd, (enum uiw_mw_type)3, &none), -EINVAL);
    ext_close(x);
}

/* Offsets of a window may begin at 0, wherever its region has them. */
static void test_zero_based(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr =
        ext_expose(x, UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_MW_BIND | UIW_ACCESS_ZERO_BASED);
    struct uiw_mw *mw = ext_window(x, UIW_MW_TYPE_1);
    struct uiw_bind bind = {.mw = mw,
                            .mr = mr,
                            .addr = 512, /* an offset of the region */
                            .length = 64,
                            .access = UIW_ACCESS_REMOTE_WRITE | UIW_ACCESS_ZERO_BASED};
    struct uiw_wc wc;
    assert_int_equal(uiw_mw_bind(x->s.side[1].qp, 1, UIW_SEND_SIGNALED, &bind), 0);
    sim_poll(&x->s, 1, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_SUCCESS);
    struct ext_result r = ext_try(x, EXT_WRITE, (struct sim_at){0, uiw_mw_rkey(mw)}, 64);
    ext_expect_ok(&r);
    assert_memory_equal(ext_area(x) + 512, x->mine, 64);
    ext_expect_filled(x->theirs, EXT_GUARD + 512);
    ext_expect_filled(ext_area(x) + 576, EXT_AREA - 576);
    assert_int_equal(uiw_mw_destroy(mw), 0);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

/* A window is for peers only. */
static void test_window_is_no_lkey(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr = ext_bindable(x);
    struct uiw_mw *mw = ext_window(x, UIW_MW_TYPE_1);
    struct uiw_wc wc;
    assert_int_equal(ext_bind(x, mw, mr, 0, 64), UIW_WC_SUCCESS);
    struct uiw_sge sge = {ext_addr(x), 8, uiw_mw_rkey(mw)};
    ext_try(x, EXT_WRITE, ext_at(x, 0, 0), 0); /* the Responder may send now */
    sim_post(&x->s, 1, UIW_WR_SEND, sge, (struct sim_at){0, 0});
    sim_poll(&x->s, 1, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_LOC_PROT_ERR);
    assert_int_equal(uiw_mw_destroy(mw), 0);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

/* What cannot be carried out: the request says so, the stream ends, the objects are as before. */
static void expect_bind_error(struct ext *x, struct uiw_send_wr wr)
{
    struct uiw_wc wc = ext_local(x, 1, &wr);
    assert_int_equal(wc.status, UIW_WC_MW_BIND_ERR);
    assert_string_equal(uiw_wc_status_text(wc.status), "memory window bind error");
    sim_until(&x->s, &x->s.side[0].disconnected, 1, 10000);
    assert_int_equal(x->s.side[1].last.reason, UIW_REASON_LOCAL);
    ext_reconnect(x);
}

/* proves: RDMAP-5040-8.1.1-05 DDP-5041-8.3-01 DDP-5041-7.1-11 */
static void test_bad_binds(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_pd *pd;
    struct uiw_mr *mr = ext_bindable(x), *foreign;
    struct uiw_mr *plain = ext_expose(x, EXT_RWA);
    struct uiw_mr *ro = ext_expose(x, UIW_ACCESS_MW_BIND);
    struct uiw_mw *mw = ext_window(x, UIW_MW_TYPE_1), *foreign_mw;
    assert_int_equal(uiw_pd_create(x->s.side[1].dev, &pd), 0);
    assert_int_equal(uiw_mw_create(pd, UIW_MW_TYPE_1, &foreign_mw), 0);
    assert_int_equal(uiw_mr_reg(pd, ext_area(x), EXT_AREA, UIW_ACCESS_MW_BIND, &foreign), 0);
    const struct uiw_bind good = {.mw = mw,
                                  .mr = mr,
                                  .addr = ext_addr(x),
                                  .length = EXT_AREA,
                                  .access = UIW_ACCESS_REMOTE_WRITE};
    struct uiw_bind bad[] = {good, good, good, good, good, good, good, good};
    bad[0].mr = plain; /* without MW_BIND */
    bad[1].mr = ro;    /* write without local write */
    bad[2].mr = ro;
    bad[2].access = UIW_ACCESS_REMOTE_ATOMIC;
    bad[3].addr -= 1; /* bounds */
    bad[4].addr += 1;
    bad[5].length = UINT64_MAX;
    bad[6].mr = foreign; /* PDs */
    bad[6].access = UIW_ACCESS_REMOTE_READ;
    bad[7].mw = foreign_mw;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        expect_bind_error(x, (struct uiw_send_wr){.opcode = UIW_WR_BIND_MW, .bind = bad[i]});
    }
    struct uiw_mw *two = ext_window(x, UIW_MW_TYPE_2);
    assert_int_equal(ext_bind(x, two, mr, 0, 64), UIW_WC_SUCCESS);
    expect_bind_error(
        x, (struct uiw_send_wr){.opcode = UIW_WR_BIND_MW, /* bound already */
                                .bind = {.mw = two, .mr = mr, .addr = ext_addr(x), .length = 8}});
    assert_int_equal(uiw_mw_destroy(two), 0);
    assert_int_equal(uiw_mr_dereg(mr), 0); /* nothing of all that is bound */
    assert_int_equal(uiw_mw_destroy(mw), 0);
    assert_int_equal(uiw_mw_destroy(foreign_mw), 0);
    assert_int_equal(uiw_mr_dereg(foreign), 0);
    assert_int_equal(uiw_mr_dereg(plain), 0);
    assert_int_equal(uiw_mr_dereg(ro), 0);
    assert_int_equal(uiw_pd_destroy(pd), 0);
    ext_close(x);
}

/* proves: RDMAP-5040-8.1.1-06 */
static void test_bad_invalidations(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr = ext_bindable(x), *for_qp;
    struct uiw_mw *mw = ext_window(x, UIW_MW_TYPE_1);
    assert_int_equal(ext_bind(x, mw, mr, 0, 64), UIW_WC_SUCCESS);
    assert_int_equal(uiw_mr_reg_qp(x->s.side[1].qp, ext_area(x), 64, EXT_R, &for_qp), 0);
    ext_reconnect(x); /* another QP now */
    const uint32_t bad[] = {0, 0x12345678, uiw_mr_rkey(mr) ^ 1, uiw_mw_rkey(mw),
                            uiw_mr_rkey(for_qp)};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        expect_bind_error(x,
                          (struct uiw_send_wr){.opcode = UIW_WR_LOCAL_INV, .invalidate = bad[i]});
    }
    ext_expect_open(x, 0, uiw_mw_rkey(mw));
    /* a region takes its windows with it */
    assert_int_equal(ext_invalidate(x, uiw_mr_rkey(mr)), UIW_WC_SUCCESS);
    ext_expect_closed(x, 0, uiw_mw_rkey(mw), 0);
    assert_int_equal(uiw_mw_destroy(mw), 0);
    assert_int_equal(uiw_mr_dereg(for_qp), 0);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

/* --- registration by requests --- */

static struct uiw_send_wr reg_wr(struct ext *x, struct uiw_mr *mr, uint8_t key, uint64_t off)
{
    return (struct uiw_send_wr){
        .opcode = UIW_WR_REG_MR,
        .bind = {.mr = mr, .addr = ext_addr(x) + off, .length = 64, .access = EXT_RWA, .key = key}};
}

/* bugs R05 */
/* proves: RDMAP-5040-8.1.1-04 DDP-5041-8.3-02 */
static void test_fast_registration(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr;
    assert_int_equal(uiw_mr_alloc(x->s.side[1].pd, 64, &mr), 0);
    uint32_t last = uiw_mr_rkey(mr);
    ext_expect_closed(x, 0, last, 0);
    for (uint8_t i = 0; i < 6; i++) {
        uint64_t off = (uint64_t)i * 100;
        struct uiw_send_wr wr = reg_wr(x, mr, (uint8_t)(last + 1), off);
        struct uiw_wc wc = ext_local(x, 1, &wr);
        assert_int_equal(wc.status, UIW_WC_SUCCESS);
        assert_int_equal(wc.opcode, UIW_WC_REG_MR);
        uint32_t rkey = uiw_mr_rkey(mr);
        assert_int_equal(rkey, (last & ~0xffu) | ((last + 1) & 0xff));
        assert_int_equal(uiw_mr_lkey(mr), rkey);
        assert_int_equal(uiw_mr_addr(mr), ext_addr(x) + off);
        assert_int_equal(uiw_mr_length(mr), 64);
        ext_expect_open(x, off, rkey);
        ext_expect_closed(x, off, last, 0);
        ext_expect_closed(x, off + 57, rkey, 1);
        if (i % 2 == 0) {
            assert_int_equal(ext_invalidate(x, rkey), UIW_WC_SUCCESS);
        } else {
            struct ext_result r = ext_try(x, EXT_INV, ext_at(x, 0, rkey), 0);
            ext_expect_ok(&r);
        }
        ext_expect_closed(x, off, rkey, 0);
        last = rkey;
    }
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_expect_closed(x, 0, last, 0);
    ext_close(x);
}

/* proves: RDMAP-5040-8.1.1-04 */
static void test_bad_registrations(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_pd *pd;
    struct uiw_mr *mr, *foreign, *none;
    struct uiw_qp *qp = x->s.side[1].qp;
    assert_int_equal(uiw_pd_create(x->s.side[1].dev, &pd), 0);
    assert_int_equal(uiw_mr_alloc(pd, 64, &foreign), 0);
    assert_int_equal(uiw_mr_alloc(x->s.side[1].pd, 0, &none), -EINVAL);
    assert_int_equal(uiw_mr_alloc(x->s.side[1].pd, 64, &mr), 0);
    uint32_t before = uiw_mr_rkey(mr);
    struct uiw_send_wr wr = reg_wr(x, mr, 1, 0), bad = wr;
    bad.bind.length = 65;
    assert_int_equal(uiw_qp_post_send(qp, &bad, NULL), -EINVAL);
    bad.bind.length = 0; /* bugs R01 */
    assert_int_equal(uiw_qp_post_send(qp, &bad, NULL), -EINVAL);
    bad = wr;
    bad.bind.access = UIW_ACCESS_REMOTE_WRITE;
    assert_int_equal(uiw_qp_post_send(qp, &bad, NULL), -EINVAL);
    bad = wr;
    bad.bind.mr = NULL;
    assert_int_equal(uiw_qp_post_send(qp, &bad, NULL), -EINVAL);
    struct uiw_mr *plain = ext_bindable(x);
    bad.bind.mr = plain;
    assert_int_equal(uiw_qp_post_send(qp, &bad, NULL), -EINVAL);
    assert_int_equal(uiw_mr_rkey(mr), before); /* none of these has changed a thing */
    expect_bind_error(x, reg_wr(x, foreign, 1, 0));
    assert_int_equal(ext_local(x, 1, &wr).status, UIW_WC_SUCCESS);
    expect_bind_error(x, reg_wr(x, mr, 2, 0)); /* valid already */
    struct uiw_mr_change change = {.what = UIW_REREG_ACCESS, .access = EXT_R};
    assert_int_equal(uiw_mr_rereg(mr, &change), -EINVAL);
    assert_int_equal(uiw_mr_dereg(plain), 0);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    assert_int_equal(uiw_mr_dereg(foreign), 0);
    assert_int_equal(uiw_pd_destroy(pd), 0);
    ext_close(x);
}

/* A chain of requests takes effect in its order, with what is told to the peer in between; a fence makes
 * an invalidation wait for the Read into what it invalidates. */
static void test_order_of_the_queue(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr, *src = sim_reg(&x->s, 0, x->mine, EXT_AREA, EXT_R);
    assert_int_equal(uiw_mr_alloc(x->s.side[1].pd, EXT_AREA, &mr), 0);
    ext_try(x, EXT_WRITE, ext_at(x, 0, 0), 0); /* the Responder may send now */
    sim_wire(&x->s, &(struct net_wire){.seed = 1, .delay_ms = 20});
    for (int round = 0; round < 4; round++) {
        uint32_t base = uiw_mr_rkey(mr) & ~0xffu, key = 100 + (uint32_t)round;
        struct uiw_sge sge = {ext_addr(x), 2048, base | key};
        struct uiw_send_wr wr[3] = {reg_wr(x, mr, (uint8_t)key, 0),
                                    {.sg_list = &sge,
                                     .num_sge = 1,
                                     .opcode = UIW_WR_RDMA_READ,
                                     .flags = UIW_SEND_SIGNALED,
                                     .remote_addr = (uint64_t)(uintptr_t)x->mine,
                                     .rkey = uiw_mr_rkey(src)},
                                    {.opcode = UIW_WR_LOCAL_INV,
                                     .flags = UIW_SEND_SIGNALED | UIW_SEND_FENCE,
                                     .invalidate = base | key}};
        wr[0].bind.length = 2048;
        wr[0].next = &wr[1];
        wr[1].next = &wr[2];
        struct uiw_wc wc[2];
        memset(ext_area(x), EXT_FILL, EXT_AREA);
        assert_int_equal(uiw_qp_post_send(x->s.side[1].qp, wr, NULL), 0);
        sim_poll(&x->s, 1, 2, wc);
        assert_int_equal(wc[0].status, UIW_WC_SUCCESS);
        assert_int_equal(wc[0].opcode, UIW_WC_RDMA_READ);
        assert_int_equal(wc[1].status, UIW_WC_SUCCESS);
        assert_int_equal(wc[1].opcode, UIW_WC_LOCAL_INV);
        assert_memory_equal(ext_area(x), x->mine, 2048);
    }
    assert_int_equal(uiw_mr_dereg(mr), 0);
    assert_int_equal(uiw_mr_dereg(src), 0);
    ext_close(x);
}

/* Requests that wait for the connection name what is destroyed meanwhile. */
static void test_gone_before_its_turn(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    sim_drop(&x->s);
    for (int which = 0; which < 3; which++) {
        struct uiw_mr *mr = ext_bindable(x), *fast;
        struct uiw_mw *mw = ext_window(x, UIW_MW_TYPE_1);
        struct uiw_wc wc;
        assert_int_equal(uiw_mr_alloc(x->s.side[1].pd, 64, &fast), 0);
        sim_qps(&x->s, NULL);
        struct uiw_send_wr wr = {.opcode = UIW_WR_BIND_MW,
                                 .bind = {.mw = mw, .mr = mr, .addr = ext_addr(x), .length = 8}};
        struct uiw_send_wr reg = reg_wr(x, fast, 3, 0);
        assert_int_equal(uiw_qp_post_send(x->s.side[1].qp, which == 2 ? &reg : &wr, NULL), 0);
        assert_int_equal(which == 0   ? uiw_mw_destroy(mw)
                         : which == 1 ? uiw_mr_dereg(mr)
                                      : uiw_mr_dereg(fast),
                         0);
        sim_connect(&x->s, NULL, NULL);
        sim_poll(&x->s, 1, 1, &wc);
        assert_int_equal(wc.status, UIW_WC_MW_BIND_ERR);
        sim_drop(&x->s);
        assert_int_equal(which != 0 ? uiw_mw_destroy(mw) : 0, 0);
        assert_int_equal(which != 1 ? uiw_mr_dereg(mr) : 0, 0);
        assert_int_equal(which != 2 ? uiw_mr_dereg(fast) : 0, 0);
    }
    ext_close(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_type_1),
        cmocka_unit_test(test_type_2),
        cmocka_unit_test(test_type_2_is_for_its_qp),
        cmocka_unit_test(test_window_on_a_region_for_one_qp),
        cmocka_unit_test(test_given_to_another_stream),
        cmocka_unit_test(test_destroyed_window),
        cmocka_unit_test(test_zero_based),
        cmocka_unit_test(test_window_is_no_lkey),
        cmocka_unit_test(test_bad_binds),
        cmocka_unit_test(test_bad_invalidations),
        cmocka_unit_test(test_fast_registration),
        cmocka_unit_test(test_bad_registrations),
        cmocka_unit_test(test_order_of_the_queue),
        cmocka_unit_test(test_gone_before_its_turn),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
