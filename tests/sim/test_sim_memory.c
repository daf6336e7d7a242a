/* SPDX-License-Identifier: MIT */
/* What STags open and to whom: rights, PDs, streams, bounds, invalidation, their values. */
#include "ext_kit.h"

/* --- rights, S32 --- */

enum way { BY_REGION, BY_WINDOW_1, BY_WINDOW_2, BY_FAST, WAYS };

/* The same part of the memory, opened in one of the ways. */
struct opened {
    struct uiw_mr *mr;
    struct uiw_mw *mw;
    uint32_t rkey;
};

static struct opened open_by(struct ext *x, enum way way, unsigned access)
{
    struct sim_side *b = &x->s.side[1];
    struct opened o = {NULL, NULL, 0};
    uint64_t addr = (uint64_t)(uintptr_t)ext_area(x);
    struct uiw_send_wr wr = {.opcode = UIW_WR_BIND_MW,
                             .bind = {.addr = addr, .length = EXT_AREA, .key = 7}};
    if (way == BY_REGION) {
        o.mr = ext_expose(x, access);
    } else if (way == BY_FAST) {
        assert_int_equal(uiw_mr_alloc(b->pd, EXT_AREA, &o.mr), 0);
        wr.opcode = UIW_WR_REG_MR;
        wr.bind.mr = o.mr;
        wr.bind.access = access;
    } else {
        o.mr = ext_expose(x, UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_MW_BIND);
        assert_int_equal(
            uiw_mw_create(b->pd, way == BY_WINDOW_1 ? UIW_MW_TYPE_1 : UIW_MW_TYPE_2, &o.mw), 0);
        wr.bind.mw = o.mw;
        wr.bind.mr = o.mr;
        wr.bind.access = access & ~(unsigned)UIW_ACCESS_LOCAL_WRITE;
    }
    if (way != BY_REGION) {
        struct uiw_wc wc = ext_local(x, 1, &wr);
        assert_int_equal(wc.status, UIW_WC_SUCCESS);
        assert_int_equal(wc.opcode, way == BY_FAST ? UIW_WC_REG_MR : UIW_WC_BIND_MW);
    }
    o.rkey = o.mw != NULL ? uiw_mw_rkey(o.mw) : uiw_mr_rkey(o.mr);
    return o;
}

static void close_it(struct opened *o)
{
    if (o->mw != NULL) {
        assert_int_equal(uiw_mw_destroy(o->mw), 0);
    }
    assert_int_equal(uiw_mr_dereg(o->mr), 0);
}

/* proves: RDMAP-5040-8.1.1-05 DDP-5041-7.1-11 RDMAP-5040-7.2-11 EXT-7306-8.2-05
 * RDMAP-5040-3.2-08 */
static void test_rights_matrix(void **state)
{
    (void)state;
    static const unsigned remote[] = {UIW_ACCESS_REMOTE_WRITE, UIW_ACCESS_REMOTE_READ,
                                      UIW_ACCESS_REMOTE_ATOMIC};
    struct ext *x = ext_open("mtu=1500");
    for (unsigned i = 0; i < WAYS * 8 * 3; i++) {
        enum way way = (enum way)(i / 24);
        enum ext_op op = (enum ext_op)(i % 3);
        unsigned access = UIW_ACCESS_LOCAL_WRITE;
        for (unsigned k = 0; k < 3; k++) {
            access |= (i / 3 % 8 >> k & 1) != 0 ? remote[k] : 0;
        }
        memset(ext_area(x), EXT_FILL, EXT_AREA);
        struct opened o = open_by(x, way, access);
        struct ext_result r = ext_try(x, op, ext_at(x, 64, o.rkey), 8);
        if ((access & remote[op]) != 0) {
            ext_expect_ok(&r);
        } else if (op == EXT_WRITE) {
            ext_expect_fault(&r, 1, 1, 0);
        } else {
            ext_expect_fault(&r, 0, 1, 2);
        }
        if ((access & remote[op]) == 0 || op == EXT_READ) {
            ext_expect_filled(x->theirs, sizeof x->theirs);
        }
        close_it(&o);
    }
    ext_close(x);
}

/* --- PDs and streams, S33 and S34 --- */

static const struct {
    unsigned layer, type, code;
} stranger[EXT_OPS] = {{1, 1, 2}, {0, 1, 3}, {0, 1, 3}, {0, 1, 9}};

/* proves: RDMAP-5040-8.1.1-01 DDP-5041-8.2-01 SEC-5042-6.1.1-02 RDMAP-5040-7.2-05
 * RDMAP-5040-7.2-07 RDMAP-5040-5.3-13 */
static void test_other_pd(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_pd *pd;
    struct uiw_mr *mr;
    assert_int_equal(uiw_pd_create(x->s.side[1].dev, &pd), 0);
    assert_int_equal(uiw_mr_reg(pd, ext_area(x), EXT_AREA, EXT_RWA, &mr), 0);
    for (int op = 0; op < EXT_OPS; op++) {
        struct ext_result r = ext_try(x, (enum ext_op)op, ext_at(x, 0, uiw_mr_rkey(mr)), 8);
        ext_expect_fault(&r, stranger[op].layer, stranger[op].type, stranger[op].code);
    }
    ext_expect_filled(x->theirs, sizeof x->theirs);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    assert_int_equal(uiw_pd_destroy(pd), 0);
    ext_close(x);
}

/* proves: RDMAP-5040-8.1.1-02 DDP-5041-8.2-02 DDP-5041-8.3-03 SEC-5042-6.1.1-03
 * SEC-5042-6.1.1-01 */
static void test_other_stream(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct sim_side *b = &x->s.side[1];
    struct uiw_qp *other;
    struct uiw_mr *mr;
    struct uiw_qp_attr attr = {.send_cq = b->cq, .recv_cq = b->cq};
    assert_int_equal(uiw_qp_create(b->pd, &attr, &other), 0);
    assert_int_equal(uiw_mr_reg_qp(other, ext_area(x), EXT_AREA, EXT_RWA, &mr), 0);
    for (int op = 0; op < EXT_OPS; op++) {
        struct ext_result r = ext_try(x, (enum ext_op)op, ext_at(x, 0, uiw_mr_rkey(mr)), 8);
        ext_expect_fault(&r, stranger[op].layer, stranger[op].type, stranger[op].code);
    }
    ext_expect_filled(x->theirs, sizeof x->theirs);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    assert_int_equal(uiw_qp_destroy(other), 0);
    for (int op = 0; op < EXT_OPS; op++) { /* its own stream may all that */
        assert_int_equal(uiw_mr_reg_qp(b->qp, ext_area(x), EXT_AREA, EXT_RWA, &mr), 0);
        struct ext_result r = ext_try(x, (enum ext_op)op, ext_at(x, 0, uiw_mr_rkey(mr)), 8);
        ext_expect_ok(&r);
        assert_int_equal(uiw_mr_dereg(mr), 0);
    }
    ext_close(x);
}

/* --- invalidation, S37 and S38 --- */

/* proves: RDMAP-5040-5.3-14 RDMAP-5040-7.2-04 DDP-5041-7.1-10 RDMAP-5040-7.2-06
 * RDMAP-5040-8.1.1-06 */
static void test_invalidated_then_used(void **state)
{
    (void)state;
    static const struct {
        unsigned layer, type, code;
    } want[EXT_OPS] = {{1, 1, 0}, {0, 1, 0}, {0, 1, 0}, {0, 2, 9}};
    struct ext *x = ext_open("mtu=1500");
    for (unsigned i = 0; i < WAYS * EXT_OPS; i++) {
        enum way way = (enum way)(i / EXT_OPS);
        enum ext_op op = (enum ext_op)(i % EXT_OPS);
        if (way == BY_WINDOW_1) {
            continue;
        }
        memset(ext_area(x), EXT_FILL, EXT_AREA);
        struct opened o = open_by(x, way, EXT_RWA);
        struct ext_result r = ext_try(x, EXT_INV, ext_at(x, 0, o.rkey), 0);
        ext_expect_ok(&r);
        r = ext_try(x, op, ext_at(x, 0, o.rkey), 8);
        ext_expect_fault(&r, want[op].layer, want[op].type, want[op].code);
        ext_expect_filled(x->theirs, sizeof x->theirs);
        close_it(&o);
    }
    ext_close(x);
}

/* A second connection between the same devices and PDs, in the sides' places; park keeps the first. */
static void second_connection(struct ext *x, struct sim_side park[2])
{
    for (int i = 0; i < 2; i++) {
        park[i] = x->s.side[i];
        x->s.side[i].qp = NULL;
        x->s.side[i].conn = NULL;
    }
    sim_connect(&x->s, NULL, NULL);
}

static void swap_connections(struct ext *x, struct sim_side park[2])
{
    for (int i = 0; i < 2; i++) {
        struct sim_side *side = &x->s.side[i], now = *side;
        side->qp = park[i].qp;
        side->conn = park[i].conn;
        side->established = side->disconnected = 0;
        park[i].qp = now.qp;
        park[i].conn = now.conn;
    }
}

static void drop_second(struct ext *x, struct sim_side park[2])
{
    sim_drop(&x->s);
    swap_connections(x, park);
}

/* proves: RDMAP-5040-8.1.1-07 SEC-5042-6.4.5-01 */
static void test_invalidate_what_two_streams_use(void **state)
{
    (void)state;
    static const enum ext_op uses[] = {EXT_WRITE, EXT_READ, EXT_ATOMIC};
    struct ext *x = ext_open("mtu=1500");
    struct ext_result r;
    for (size_t i = 0; i < ARRAY_LEN(uses); i++) {
        struct sim_side park[2];
        struct uiw_mr *mr = ext_expose(x, EXT_RWA);
        struct sim_at at = ext_at(x, 0, uiw_mr_rkey(mr));
        second_connection(x, park);
        r = ext_try(x, uses[i], at, 8);
        ext_expect_ok(&r);
        swap_connections(x, park);
        r = ext_try(x, uses[i], at, 8);
        ext_expect_ok(&r);
        r = ext_try(x, EXT_INV, at, 0);
        ext_expect_fault(&r, 0, 1, 9);
        r = ext_try(x, uses[i], at, 8); /* it is valid still */
        ext_expect_ok(&r);
        swap_connections(x, park);
        drop_second(x, park);
        assert_int_equal(uiw_mr_dereg(mr), 0);
    }
    ext_close(x);
}

/* What another stream uses is not for this one to revoke, used by it or not; what only it uses, or
 * nobody, is, however many connections the PD has. */
static void test_invalidate_beside_other_streams(void **state)
{
    (void)state;
    struct sim_side park[2];
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr = ext_expose(x, EXT_RWA);
    second_connection(x, park);
    struct ext_result r = ext_try(x, EXT_WRITE, ext_at(x, 0, uiw_mr_rkey(mr)), 8);
    ext_expect_ok(&r);
    swap_connections(x, park);
    r = ext_try(x, EXT_INV, ext_at(x, 0, uiw_mr_rkey(mr)), 0);
    ext_expect_fault(&r, 0, 1, 9);
    swap_connections(x, park);
    r = ext_try(x, EXT_INV, ext_at(x, 0, uiw_mr_rkey(mr)), 0); /* the one that uses it may */
    ext_expect_ok(&r);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    for (int used = 0; used < 2; used++) {
        mr = ext_expose(x, EXT_RWA);
        if (used != 0) {
            r = ext_try(x, EXT_READ, ext_at(x, 0, uiw_mr_rkey(mr)), 8);
            ext_expect_ok(&r);
        }
        r = ext_try(x, EXT_INV, ext_at(x, 0, uiw_mr_rkey(mr)), 0);
        ext_expect_ok(&r);
        assert_int_equal(uiw_mr_dereg(mr), 0);
    }
    drop_second(x, park);
    ext_close(x);
}

/* A connection that has ended uses nothing: its successor goes on with the same STag. */
static void test_invalidate_after_reconnection(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr = ext_expose(x, EXT_RWA);
    for (int i = 0; i < 3; i++) {
        struct ext_result r = ext_try(x, EXT_WRITE, ext_at(x, 0, uiw_mr_rkey(mr)), 8);
        ext_expect_ok(&r);
        ext_reconnect(x);
    }
    struct ext_result r = ext_try(x, EXT_INV, ext_at(x, 0, uiw_mr_rkey(mr)), 0);
    ext_expect_ok(&r);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

/* proves: RDMAP-5040-8.1.1-07 */
static void test_what_peers_may_not_revoke(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr = ext_expose(x, EXT_RWA), *fixed, *share;
    fixed = ext_expose(x, EXT_RWA | UIW_ACCESS_NO_REMOTE_INV);
    assert_int_equal(uiw_mr_share(mr, x->s.side[1].pd, EXT_RWA, &share), 0);
    struct opened window = open_by(x, BY_WINDOW_1, EXT_RWA);
    const uint32_t rkey[] = {uiw_mr_rkey(fixed), uiw_mr_rkey(share), window.rkey};
    for (size_t i = 0; i < ARRAY_LEN(rkey); i++) {
        struct ext_result r = ext_try(x, EXT_INV, ext_at(x, 0, rkey[i]), 0);
        ext_expect_fault(&r, 0, 1, 9);
        r = ext_try(x, EXT_WRITE, ext_at(x, 0, rkey[i]), 8);
        ext_expect_ok(&r);
    }
    close_it(&window);
    assert_int_equal(uiw_mr_dereg(fixed), 0);
    assert_int_equal(uiw_mr_dereg(share), 0);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

/* --- bounds, S35 --- */

enum { PIECE = 40 };

static void sweep(enum way way)
{
    struct ext *x = ext_open("mtu=1500");
    struct sim_side *b = &x->s.side[1];
    uint64_t addr = (uint64_t)(uintptr_t)ext_area(x);
    struct uiw_mr *mr =
        sim_reg(&x->s, 1, way == BY_REGION ? ext_area(x) : x->theirs,
                way == BY_REGION ? PIECE : sizeof x->theirs, EXT_RWA | UIW_ACCESS_MW_BIND);
    struct uiw_mw *mw = NULL;
    if (way == BY_WINDOW_1) {
        assert_int_equal(uiw_mw_create(b->pd, UIW_MW_TYPE_1, &mw), 0);
        struct uiw_send_wr wr = {
            .opcode = UIW_WR_BIND_MW,
            .bind = {.mw = mw,
                     .mr = mr,
                     .addr = addr,
                     .length = PIECE,
                     .access = UIW_ACCESS_REMOTE_READ | UIW_ACCESS_REMOTE_WRITE}};
        assert_int_equal(ext_local(x, 1, &wr).status, UIW_WC_SUCCESS);
    }
    uint32_t rkey = mw != NULL ? uiw_mw_rkey(mw) : uiw_mr_rkey(mr);
    for (int end = 0; end < 2; end++) {
        for (int off = -2; off <= 2; off++) {
            for (uint32_t n = 0; n <= 17; n++) {
                int at = end * PIECE + off;
                bool inside = n == 0 || (at >= 0 && at + (int)n <= PIECE);
                enum ext_op op = (at + (int)n) % 2 == 0 ? EXT_READ : EXT_WRITE;
                struct ext_result r =
                    ext_try(x, op, (struct sim_at){addr + (uint64_t)(int64_t)at, rkey}, n);
                if (inside) {
                    ext_expect_ok(&r);
                } else {
                    ext_expect_fault(&r, op == EXT_WRITE ? 1 : 0, 1, 1);
                }
            }
        }
    }
    ext_expect_filled(x->theirs, EXT_GUARD);
    ext_expect_filled(ext_area(x) + PIECE, EXT_AREA + EXT_GUARD - PIECE);
    if (mw != NULL) {
        assert_int_equal(uiw_mw_destroy(mw), 0);
    }
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

/* proves: RDMAP-5040-8.1.1-03 SEC-5042-6.2.1-01 DDP-5041-7.1-12 DDP-5041-7.1-15
 * RDMAP-5040-7.2-08 RDMAP-5040-7.2-09 */
static void test_bounds_of_regions(void **state)
{
    (void)state;
    sweep(BY_REGION);
}

/* proves: RDMAP-5040-8.1.1-03 SEC-5042-6.2.1-01 */
static void test_bounds_of_windows(void **state)
{
    (void)state;
    sweep(BY_WINDOW_1);
}

/* --- values, S39 --- */

static int by_value(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* proves: RDMAP-5040-8.1.1-08 RDMAP-5040-8.1.1-09 SEC-5042-6.1.1-04 */
static void test_values_of_stags(void **state)
{
    (void)state;
    enum { N = 10000, LATE = 1000, BUCKETS = 16 };
    struct ext *x = ext_open("mtu=1500");
    uint32_t *stag = calloc(N, sizeof *stag);
    unsigned bucket[BUCKETS] = {0}, key_bits[8] = {0}, steps = 0;
    for (uint32_t i = 0; i < N; i++) {
        struct uiw_mr *mr = ext_expose(x, EXT_R);
        stag[i] = uiw_mr_rkey(mr);
        assert_int_equal(uiw_mr_dereg(mr), 0);
        for (uint32_t k = i > LATE ? i - LATE : 0; k < i; k++) {
            assert_int_not_equal(stag[k] >> 8, stag[i] >> 8); /* no early reuse */
        }
        bucket[stag[i] >> 28]++;
        for (unsigned bit = 0; bit < 8; bit++) {
            key_bits[bit] += stag[i] >> bit & 1;
        }
        steps += i >= 2 && stag[i] - stag[i - 1] == stag[i - 1] - stag[i - 2];
    }
    assert_int_equal(steps, 0); /* no arithmetic sequence */
    for (unsigned i = 0; i < BUCKETS; i++) {
        assert_in_range(bucket[i], N / BUCKETS - 150, N / BUCKETS + 150); /* six sigma */
    }
    for (unsigned bit = 0; bit < 8; bit++) {
        assert_in_range(key_bits[bit], N / 2 - 300, N / 2 + 300);
    }
    qsort(stag, N, sizeof *stag, by_value);
    unsigned twice = 0;
    for (uint32_t i = 1; i < N; i++) {
        twice += stag[i] == stag[i - 1];
    }
    assert_true(twice <= 2); /* of 2^32 */
    free(stag);
    ext_close(x);
}

/* --- at this end --- */

static void test_read_with_invalidate(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr = ext_expose(x, EXT_R);
    uint8_t in[8] = {0};
    struct uiw_mr *sink = sim_reg(&x->s, 0, in, sizeof in, UIW_ACCESS_LOCAL_WRITE);
    struct uiw_sge sge = sim_sge(sink, in, sizeof in);
    struct uiw_send_wr wr = {.opcode = UIW_WR_RDMA_READ_WITH_INV,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .remote_addr = ext_at(x, 0, 0).to,
                             .rkey = uiw_mr_rkey(mr)};
    struct ext_result r = ext_do(x, &wr);
    ext_expect_ok(&r);
    ext_expect_filled(in, sizeof in);
    memset(in, 0, sizeof in);
    r = ext_do(x, &wr); /* the sink is valid no more */
    assert_int_equal(r.status, UIW_WC_LOC_PROT_ERR);
    assert_int_equal(in[0], 0);
    assert_int_equal(uiw_mr_dereg(sink), 0);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

/* A message of many segments into pieces that begin and end anywhere in them.
 * proves: DDP-5041-4.1-02 RDMAP-5040-5.3-03 */
static void test_send_is_scattered(void **state)
{
    (void)state;
    static const uint32_t pieces[] = {1, 5, 0, 1490, 7, 1300, 200};
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr = ext_expose(x, EXT_W);
    struct uiw_sge sge[ARRAY_LEN(pieces)];
    struct uiw_wc wc;
    struct uiw_qp_info info;
    uint32_t at = 0, len = 0;
    for (uint32_t i = 0; i < EXT_AREA; i++) {
        x->mine[i] = (uint8_t)(i * 7 + i / 251);
    }
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) { /* a hole of one octet behind each */
        sge[i] = sim_sge(mr, ext_area(x) + at, pieces[i]);
        at += pieces[i] + 1;
        len += pieces[i];
    }
    uiw_qp_query(x->s.side[1].qp, &info);
    assert_true(info.max_recv_sge >= ARRAY_LEN(pieces));
    struct uiw_recv_wr recv = {.sg_list = sge, .num_sge = ARRAY_LEN(pieces)};
    assert_int_equal(uiw_qp_post_recv(x->s.side[1].qp, &recv, NULL), 0);
    len -= 100; /* the last is not filled up */
    sim_post(&x->s, 0, UIW_WR_SEND, sim_sge(x->my_mr, x->mine, len), (struct sim_at){0, 0});
    sim_poll(&x->s, 1, 1, &wc);
    assert_int_equal(wc.byte_len, len);
    const uint8_t *from = x->mine, *to = ext_area(x);
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        uint32_t n = pieces[i] - (i + 1 == ARRAY_LEN(pieces) ? 100 : 0);
        assert_memory_equal(to, from, n);
        ext_expect_filled(to + n, 1);
        to += pieces[i] + 1;
        from += n;
    }
    sim_poll(&x->s, 0, 1, &wc);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rights_matrix),
        cmocka_unit_test(test_other_pd),
        cmocka_unit_test(test_other_stream),
        cmocka_unit_test(test_invalidated_then_used),
        cmocka_unit_test(test_invalidate_what_two_streams_use),
        cmocka_unit_test(test_invalidate_beside_other_streams),
        cmocka_unit_test(test_invalidate_after_reconnection),
        cmocka_unit_test(test_what_peers_may_not_revoke),
        cmocka_unit_test(test_bounds_of_regions),
        cmocka_unit_test(test_bounds_of_windows),
        cmocka_unit_test(test_values_of_stags),
        cmocka_unit_test(test_read_with_invalidate),
        cmocka_unit_test(test_send_is_scattered),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
