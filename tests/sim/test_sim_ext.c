/* SPDX-License-Identifier: MIT */
/* Atomics (RFC 7306) from the program's side. */
#include "ext_kit.h"
#include "raw.h"

static uint64_t load(const void *p)
{
    return __atomic_load_n((const uint64_t *)p, __ATOMIC_RELAXED);
}

static void store(void *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}

/* An Atomic of side 0 on the octets at off, its answer at index into mine. */
static struct uiw_send_wr atomic_wr(struct ext *x, struct uiw_sge *sge, enum uiw_wr_opcode op,
                                    struct sim_at at, uint32_t index)
{
    *sge = sim_sge(x->my_mr, x->mine + 8 * (size_t)index, 8);
    return (struct uiw_send_wr){.wr_id = index,
                                .sg_list = sge,
                                .num_sge = 1,
                                .opcode = op,
                                .flags = UIW_SEND_SIGNALED,
                                .remote_addr = at.to,
                                .rkey = at.rkey};
}

/* proves: EXT-7306-5-02 EXT-7306-5.1.1-04 EXT-7306-5.1.1-06 EXT-7306-5.1.2-01 EXT-7306-5.2.2-06
 * EXT-7306-1.1-03 EXT-7306-5.2.1-04 EXT-7306-5.2.1-10 EXT-7306-5.4-01 EXT-7306-5.4-07 */
static void test_plain_forms(void **state)
{
    (void)state;
    static const uint64_t offs[] = {0, 8, EXT_AREA - 8};
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr = ext_expose(x, EXT_A);
    for (size_t i = 0; i < ARRAY_LEN(offs); i++) {
        uint8_t *word = ext_area(x) + offs[i];
        struct sim_at at = ext_at(x, offs[i], uiw_mr_rkey(mr));
        struct uiw_sge sge;
        struct uiw_wc wc;
        store(word, 41);
        struct uiw_send_wr wr = atomic_wr(x, &sge, UIW_WR_ATOMIC_FETCH_ADD, at, 0);
        wr.atomic =
            (struct uiw_atomic){1, 77, UINT64_MAX, 77}; /* the masks are not for this form */
        assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
        sim_poll(&x->s, 0, 1, &wc);
        assert_int_equal(wc.status, UIW_WC_SUCCESS);
        assert_int_equal(wc.opcode, UIW_WC_ATOMIC_FETCH_ADD);
        assert_int_equal(wc.byte_len, 8);
        assert_true(load(x->mine) == 41 && load(word) == 42);
        wr.atomic.compare_add = 0; /* a probe */
        assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
        sim_poll(&x->s, 0, 1, &wc);
        assert_true(load(x->mine) == 42 && load(word) == 42);
        wr.opcode = UIW_WR_ATOMIC_CMP_SWAP;
        wr.atomic = (struct uiw_atomic){42, 0x1122334455667788, 1, 1};
        assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
        sim_poll(&x->s, 0, 1, &wc);
        assert_int_equal(wc.opcode, UIW_WC_ATOMIC_CMP_SWAP);
        assert_true(load(x->mine) == 42 && load(word) == 0x1122334455667788);
        assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
        sim_poll(&x->s, 0, 1, &wc); /* does not match any more */
        assert_true(load(x->mine) == 0x1122334455667788 && load(word) == 0x1122334455667788);
        assert_int_equal(uiw_cq_poll(x->s.side[1].cq, 1, &wc), 0);
        memset(word, EXT_FILL, 8);
    }
    ext_expect_filled(x->theirs, sizeof x->theirs);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

/* RFC 7306 sec 5.1, bit after bit. */
static uint64_t model(enum uiw_wr_opcode op, const struct uiw_atomic *a, uint64_t v)
{
    uint64_t out = 0;
    unsigned carry = 0;
    bool equal = true;
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t here = (uint64_t)1 << bit;
        unsigned sum = carry + ((v & here) != 0) + ((a->compare_add & here) != 0);
        if (op == UIW_WR_MASKED_ATOMIC_FETCH_ADD) {
            out |= (sum & 1) != 0 ? here : 0;
            carry = (a->compare_add_mask & here) != 0 ? 0 : sum >> 1;
            continue;
        }
        equal =
            equal && ((a->compare_add_mask & here) == 0 || (v & here) == (a->compare_add & here));
        out |= (a->swap_mask & here) != 0 ? a->swap & here : v & here;
    }
    return op == UIW_WR_MASKED_ATOMIC_FETCH_ADD || equal ? out : v;
}

static uint64_t random64(struct sim *s)
{
    return (uint64_t)sim_random(s) << 32 | sim_random(s);
}

/* S54 */
/* proves: EXT-7306-5.1.1-05 EXT-7306-5.1.2-01 EXT-7306-5.2.1-14 EXT-7306-5.2.1-13 */
static void test_masks_against_a_model(void **state)
{
    (void)state;
    enum { BATCH = 64 };
    struct ext *x = ext_open("mtu=1500,ord=8");
    struct uiw_mr *mr = ext_expose(x, EXT_A);
    uint64_t want[BATCH], v = random64(&x->s);
    struct uiw_wc wc[BATCH];
    store(ext_area(x) + 16, v);
    for (unsigned round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < BATCH; i++) {
            struct uiw_sge sge;
            bool add = sim_below(&x->s, 2) == 0;
            struct uiw_send_wr wr = atomic_wr(
                x, &sge, add ? UIW_WR_MASKED_ATOMIC_FETCH_ADD : UIW_WR_MASKED_ATOMIC_CMP_SWAP,
                ext_at(x, 16, uiw_mr_rkey(mr)), i);
            wr.atomic = (struct uiw_atomic){
                sim_below(&x->s, 2) == 0 ? v : random64(&x->s), random64(&x->s),
                random64(&x->s) & random64(&x->s) & random64(&x->s), random64(&x->s)};
            want[i] = v;
            v = model(wr.opcode, &wr.atomic, v);
            assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
        }
        sim_poll(&x->s, 0, BATCH, wc);
        for (uint32_t i = 0; i < BATCH; i++) {
            assert_int_equal(wc[i].status, UIW_WC_SUCCESS);
            assert_int_equal(wc[i].wr_id, i);
            assert_true(load(x->mine + 8 * (size_t)i) == want[i]);
        }
        assert_true(load(ext_area(x) + 16) == v);
    }
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

enum { RACE_EACH = 50000, RACE_OPEN = 200 };

/* Keeps that QP of side 0 busy; returns how many were posted now. */
static unsigned race_post(struct ext *x, struct uiw_qp *qp, unsigned left, struct sim_at at)
{
    unsigned n = 0;
    struct uiw_sge sge;
    struct uiw_send_wr wr = atomic_wr(x, &sge, UIW_WR_ATOMIC_FETCH_ADD, at, 0);
    wr.atomic.compare_add = 1;
    while (n < left && n < RACE_OPEN) {
        wr.flags = n + 1 == left || n + 1 == RACE_OPEN ? UIW_SEND_SIGNALED : 0;
        if (uiw_qp_post_send(qp, &wr, NULL) != 0) {
            fail_msg("%s", uiw_error());
        }
        n++;
    }
    return n;
}

/* S53 */
/* proves: EXT-7306-5-01 EXT-7306-5.3-01 EXT-7306-5.4-02 */
static void test_two_streams_add(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=9000,crc=off");
    struct sim_side *a = &x->s.side[0], *b = &x->s.side[1];
    struct sim_side first[2] = {*a, *b};
    struct uiw_mr *mr = ext_expose(x, EXT_A);
    a->qp = b->qp = NULL;
    a->conn = b->conn = NULL;
    sim_connect(&x->s, NULL, NULL);
    struct uiw_qp *qp[2] = {first[0].qp, a->qp};
    unsigned left[2] = {RACE_EACH, RACE_EACH};
    store(ext_area(x), 0);
    while (left[0] > 0 || left[1] > 0) {
        int due = 0;
        for (int i = 0; i < 2; i++) {
            unsigned n = race_post(x, qp[i], left[i], ext_at(x, 0, uiw_mr_rkey(mr)));
            left[i] -= n;
            due += n > 0; /* the last one is signalled */
        }
        struct uiw_wc wc[2];
        sim_poll(&x->s, 0, due, wc);
        for (int i = 0; i < due; i++) {
            assert_int_equal(wc[i].status, UIW_WC_SUCCESS);
        }
    }
    assert_true(load(ext_area(x)) == 2 * RACE_EACH);
    sim_drop(&x->s);
    a->qp = first[0].qp;
    a->conn = first[0].conn;
    b->qp = first[1].qp;
    b->conn = first[1].conn;
    assert_int_equal(uiw_conn_destroy(a->conn), 0);
    assert_int_equal(uiw_conn_destroy(b->conn), 0);
    a->conn = b->conn = NULL;
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

/* S55. Each answer tells what was before it: Writes, Atomics and Reads take effect in the order of the
 * queue. */
/* proves: EXT-7306-5.4-09 EXT-7306-5.4-08 EXT-7306-5.4-03 EXT-7306-5.4-05 EXT-7306-5.2-02
 * RDMAP-5040-5.5-17 */
static void test_reads_and_atomics_in_order(void **state)
{
    (void)state;
    static const char *const keys[] = {"mtu=1500,ord=1", "mtu=1500,ord=2", "mtu=1500"};
    for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
        enum { N = 120 };
        struct ext *x = ext_open(keys[k]);
        struct uiw_mr *mr = ext_expose(x, EXT_RWA);
        struct sim_at at = ext_at(x, 0, uiw_mr_rkey(mr));
        uint64_t want[N], v = 5;
        store(ext_area(x), v);
        for (uint32_t i = 0; i < N; i++) {
            struct uiw_sge sge;
            struct uiw_send_wr wr = atomic_wr(x, &sge, UIW_WR_RDMA_READ, at, i);
            want[i] = v;
            if (i % 2 != 0) {
                wr.opcode = UIW_WR_ATOMIC_FETCH_ADD;
                wr.atomic.compare_add = i;
                v += i;
            } else if (sim_below(&x->s, 3) == 0) {
                /* a Write passes what waits for its response, but not with a fence (sec 5.4) */
                v = want[i] = random64(&x->s);
                store(x->mine + 8 * (size_t)i, v);
                wr.opcode = UIW_WR_RDMA_WRITE;
                wr.flags |= UIW_SEND_FENCE;
            }
            assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
        }
        struct uiw_wc wc[N];
        sim_poll(&x->s, 0, N, wc);
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(wc[i].status, UIW_WC_SUCCESS);
            assert_int_equal(wc[i].wr_id, i);
            assert_true(load(x->mine + 8 * (size_t)i) == want[i]);
        }
        assert_true(load(ext_area(x)) == v);
        assert_int_equal(uiw_mr_dereg(mr), 0);
        ext_close(x);
    }
}

static void expect_local_end(struct ext *x)
{
    sim_until(&x->s, &x->s.side[0].disconnected, 1, 10000);
    sim_until(&x->s, &x->s.side[1].disconnected, 1, 10000);
    assert_int_equal(x->s.side[0].last.reason, UIW_REASON_LOCAL);
    ext_expect_filled(x->theirs, sizeof x->theirs);
}

/* proves: EXT-7306-8.1-01 */
static void test_what_cannot_start(void **state)
{
    (void)state;
    struct uiw_sge sge;
    struct uiw_wc wc;
    struct ext *x = ext_open("mtu=1500,ord=0");
    struct uiw_mr *mr = ext_expose(x, EXT_A);
    struct uiw_send_wr wr =
        atomic_wr(x, &sge, UIW_WR_ATOMIC_FETCH_ADD, ext_at(x, 0, uiw_mr_rkey(mr)), 0);
    assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
    sim_poll(&x->s, 0, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_LOC_QP_ERR);
    expect_local_end(x);
    /* the other end is told, without headers */
    assert_int_equal(x->s.side[1].last.reason, UIW_REASON_PEER_TERMINATE);
    assert_int_equal(x->s.side[1].last.layer, 0);
    assert_int_equal(x->s.side[1].last.etype, 0);
    uiw_mr_dereg(mr);
    ext_close(x);
    x = ext_open("mtu=1500");
    mr = ext_expose(x, EXT_A);
    struct uiw_mr *ro = sim_reg(&x->s, 0, x->mine, EXT_AREA, 0);
    wr = atomic_wr(x, &sge, UIW_WR_ATOMIC_CMP_SWAP, ext_at(x, 0, uiw_mr_rkey(mr)), 0);
    sge.lkey = uiw_mr_lkey(ro);
    assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
    sim_poll(&x->s, 0, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_LOC_PROT_ERR);
    expect_local_end(x);
    uiw_mr_dereg(ro);
    uiw_mr_dereg(mr);
    ext_close(x);
}

/* The answer finds its place gone: nothing is written, and the request says so. */
static void test_sink_goes_meanwhile(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr = ext_expose(x, EXT_A);
    uint64_t here = 7;
    struct uiw_mr *sink = sim_reg(&x->s, 0, &here, 8, UIW_ACCESS_LOCAL_WRITE);
    struct uiw_sge sge;
    struct uiw_wc wc;
    struct uiw_send_wr wr =
        atomic_wr(x, &sge, UIW_WR_ATOMIC_FETCH_ADD, ext_at(x, 0, uiw_mr_rkey(mr)), 0);
    sge = sim_sge(sink, &here, 8);
    sim_wire(&x->s, &(struct net_wire){.seed = 1, .delay_ms = 50});
    assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
    sim_step(&x->s);
    assert_int_equal(uiw_mr_dereg(sink), 0);
    sim_poll(&x->s, 0, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_LOC_PROT_ERR);
    assert_true(here == 7);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

/* proves: EXT-7306-5.1.1-02 EXT-7306-5.1.1-03 EXT-7306-5.1.2-03 EXT-7306-5.1.2-04
 * EXT-7306-8.2-04 EXT-7306-8.2-05 EXT-7306-8.1-02 */
static void test_what_peers_refuse(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    /* Offsets from 0 of memory that is not aligned itself. */
    struct uiw_mr *odd;
    assert_int_equal(
        uiw_mr_reg(x->s.side[1].pd, ext_area(x) + 4, 64, EXT_A | UIW_ACCESS_ZERO_BASED, &odd), 0);
    struct uiw_sge sge;
    struct uiw_send_wr wr =
        atomic_wr(x, &sge, UIW_WR_ATOMIC_FETCH_ADD, (struct sim_at){8, uiw_mr_rkey(odd)}, 0);
    struct ext_result r = ext_do(x, &wr);
    ext_expect_fault(&r, 0, 2, 7);
    assert_int_equal(r.status, UIW_WC_REM_OP_ERR);
    wr.opcode = UIW_WR_ATOMIC_CMP_SWAP;
    r = ext_do(x, &wr);
    ext_expect_fault(&r, 0, 2, 7);
    wr.rkey ^= 0x100;
    r = ext_do(x, &wr);
    ext_expect_fault(&r, 0, 1, 0);
    assert_int_equal(r.status, UIW_WC_REM_ACCESS_ERR);
    wr.rkey ^= 0x100;
    wr.remote_addr = 64;
    r = ext_do(x, &wr);
    ext_expect_fault(&r, 0, 1, 1);
    ext_expect_filled(x->theirs, sizeof x->theirs);
    assert_int_equal(uiw_mr_dereg(odd), 0);
    ext_close(x);
}

/* proves: EXT-7306-5.1.1-01 EXT-7306-5.1.2-02 EXT-7306-5.2.1-05 */
static void test_misuse(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr = ext_expose(x, EXT_A);
    struct uiw_qp *qp = x->s.side[0].qp;
    static const enum uiw_wr_opcode ops[] = {UIW_WR_ATOMIC_FETCH_ADD, UIW_WR_ATOMIC_CMP_SWAP,
                                             UIW_WR_MASKED_ATOMIC_FETCH_ADD,
                                             UIW_WR_MASKED_ATOMIC_CMP_SWAP};
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        struct uiw_sge sge[2];
        struct sim_at at = ext_at(x, 0, uiw_mr_rkey(mr));
        struct uiw_send_wr wr = atomic_wr(x, sge, ops[i], at, 0);
        for (uint64_t off = 1; off < 8; off++) {
            wr.remote_addr = at.to + off;
            assert_int_equal(uiw_qp_post_send(qp, &wr, NULL), -EINVAL);
        }
        wr.remote_addr = at.to;
        static const uint32_t lens[] = {0, 4, 7, 9, 16};
        for (size_t k = 0; k < ARRAY_LEN(lens); k++) {
            sge[0].length = lens[k];
            assert_int_equal(uiw_qp_post_send(qp, &wr, NULL), -EINVAL);
        }
        sge[0].length = 4;
        sge[1] = sge[0];
        wr.num_sge = 2;
        assert_int_equal(uiw_qp_post_send(qp, &wr, NULL), -EINVAL);
        wr.num_sge = 0;
        assert_int_equal(uiw_qp_post_send(qp, &wr, NULL), -EINVAL);
        wr.num_sge = 1;
        sge[0].length = 8;
        wr.flags = UIW_SEND_INLINE;
        assert_int_equal(uiw_qp_post_send(qp, &wr, NULL), -EINVAL);
    }
    struct uiw_send_wr bad = {.opcode = (enum uiw_wr_opcode)(UIW_WR_LOCAL_INV + 1)};
    assert_int_equal(uiw_qp_post_send(qp, &bad, NULL), -EINVAL);
    struct uiw_mr *none;
    assert_int_equal(uiw_mr_reg(x->s.side[0].pd, x->mine, 8, UIW_ACCESS_REMOTE_ATOMIC, &none),
                     -EINVAL);
    struct uiw_wc wc;
    assert_int_equal(uiw_cq_poll(x->s.side[0].cq, 1, &wc), 0);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

/* --- ext=off, S57 --- */

static void raw_atomic(struct raw_conn *c, struct sim_at at)
{
    uint8_t payload[RDMAP_ATOMIC_REQUEST_LEN], out[128];
    const struct ddp_hdr h = {.last = true, .version = 1, .ulp = 0x4a, .qn = 1, .msn = 1};
    const struct rdmap_atomic_request r = {.stag = at.rkey, .to = at.to, .data = 1};
    rdmap_atomic_request_pack(&r, payload);
    raw_ulpdu(c, out, raw_segment(out, &h, payload, sizeof payload));
}

/* proves: EXT-7306-1.1-04 EXT-7306-1.1-01 EXT-7306-1.1-02 */
static void test_extensions_off(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500,ext=off");
    static const enum uiw_wr_opcode ops[] = {
        UIW_WR_IMM,
        UIW_WR_RDMA_WRITE_WITH_IMM,
        UIW_WR_ATOMIC_FETCH_ADD,
        UIW_WR_ATOMIC_CMP_SWAP,
        UIW_WR_MASKED_ATOMIC_FETCH_ADD,
        UIW_WR_MASKED_ATOMIC_CMP_SWAP,
    };
    struct uiw_device_attr attr;
    assert_int_equal(uiw_device_query(x->s.side[0].dev, &attr), 0);
    assert_false(attr.ext);
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        struct uiw_sge sge;
        struct uiw_send_wr wr = atomic_wr(x, &sge, ops[i], (struct sim_at){0, 1}, 0);
        assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), -EOPNOTSUPP);
    }
    ext_close(x);
}

/* Each message of RFC 7306 to a device with those keys. */
static void receive_each(const char *keys, bool off)
{
    for (unsigned opcode = 8; opcode <= 0xb; opcode++) {
        struct sim s;
        struct raw r;
        struct raw_conn c = {0};
        struct raw_ulpdu u;
        struct rdmap_term t;
        uint64_t word = 41;
        sim_open_one(&s, sim_seed(), keys);
        raw_open(&r, &s);
        raw_join(&r, &c, NULL);
        struct uiw_mr *mr = sim_reg(&s, 1, &word, 8, EXT_A);
        struct uiw_recv_wr recv = {.wr_id = 1};
        assert_int_equal(uiw_qp_post_recv(s.side[1].qp, &recv, NULL), 0);
        if (opcode == 0xa) {
            raw_atomic(&c, (struct sim_at){(uint64_t)(uintptr_t)&word, uiw_mr_rkey(mr)});
        } else {
            uint8_t out[64];
            const struct ddp_hdr h = {.last = true,
                                      .version = 1,
                                      .ulp = rdmap_control(opcode),
                                      .qn = opcode == 0xb ? 3 : 0,
                                      .msn = 1};
            raw_ulpdu(&c, out, raw_segment(out, &h, "immediate123", opcode == 0xb ? 12 : 8));
        }
        if (off) {
            raw_terminate(&r, &c, &u, &t);
            /* queue 3 is not there at all then, which DDP says first */
            bool qn = opcode == 0xb;
            assert_true(verdict_is(t.v, qn ? 1 : 0, 2, qn ? 1 : 6));
            assert_true(word == 41);
        } else if (opcode == 0xa) {
            assert_true(raw_next(&r, &c, &u));
            assert_int_equal(u.opcode, RDMAP_ATOMIC_RESPONSE);
            assert_int_equal(u.seg.hdr.qn, 3);
            assert_int_equal(u.len, 30);
            assert_true(word == 42);
        } else if (opcode == 0xb) {
            raw_terminate(&r, &c, &u, &t); /* nobody asked */
            assert_true(verdict_is(t.v, 0, 2, 6));
        } else {
            struct uiw_wc wc;
            sim_poll(&s, 1, 1, &wc);
            assert_true(wc.imm == 0x696d6d6564696174); /* "immediat" */
        }
        raw_hangup(&r, &c, true);
        sim_drop(&s);
        uiw_mr_dereg(mr);
        raw_close(&r);
        sim_close(&s);
    }
}

/* proves: EXT-7306-1.1-04 */
static void test_messages_when_off(void **state)
{
    (void)state;
    receive_each("ext=off", true);
}

/* proves: EXT-7306-5-04 EXT-7306-5.2-03 EXT-7306-5.2.2-07 EXT-7306-4-01 EXT-7306-4-03 */
static void test_messages_when_on(void **state)
{
    (void)state;
    receive_each("ext=on", false);
}

/* --- a fault found when there is no room to tell it --- */

enum { BIG = 1000, SOME = 64 };

/* Posts Sends of n octets at the device, each when the one before it is queued, until one is not, or count
 * are. Returns how many were. */
static unsigned queue_sends(struct raw *r, struct uiw_mr *mr, uint8_t *p, uint32_t n,
                            unsigned count)
{
    unsigned done = 0;
    while (done < count) {
        struct uiw_wc wc;
        sim_post(r->s, 1, UIW_WR_SEND, sim_sge(mr, p, n), (struct sim_at){0, 0});
        raw_run(r, 1);
        if (uiw_cq_poll(r->s->side[1].cq, 1, &wc) != 1) {
            return done;
        }
        assert_int_equal(wc.status, UIW_WC_SUCCESS);
        done++;
    }
    return done;
}

/* How many Sends of BIG octets (big: as many as that) and then of none fit while the peer reads nothing.
 * With both known the queue is full to the last, and a bad Atomic comes: its Terminate has to wait, not
 * to be forgotten. */
static unsigned fill_up(unsigned big, unsigned small)
{
    struct sim s;
    struct raw r;
    struct raw_conn c = {0};
    struct raw_ulpdu u;
    uint8_t p[BIG] = {0};
    sim_open_one(&s, 1, "mtu=1500");
    raw_open(&r, &s);
    raw_join(&r, &c, NULL);
    struct uiw_mr *mr = sim_reg(&s, 1, p, BIG, 0);
    raw_write(&c, (struct sim_at){0, 0}, NULL, 0); /* the device may send from here on */
    raw_run(&r, 5);
    c.deaf = true;
    unsigned n = queue_sends(&r, mr, p, BIG, big);
    if (big != UINT32_MAX) {
        n = queue_sends(&r, mr, p, 0, small);
    }
    if (small != UINT32_MAX) {
        raw_atomic(&c, (struct sim_at){0, 0xbad00});
        raw_run(&r, 50);
        assert_int_equal(s.side[1].disconnected, 1);
        c.deaf = false;
        for (unsigned i = 0; i < big + small; i++) {
            assert_true(raw_next(&r, &c, &u));
            assert_int_equal(u.opcode, RDMAP_SEND);
        }
        struct rdmap_term t;
        raw_terminate(&r, &c, &u, &t);
        assert_true(verdict_is(t.v, 0, 1, 0));
    }
    raw_hangup(&r, &c, true);
    sim_drop(&s);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    raw_close(&r);
    sim_close(&s);
    return n;
}

/* proves: RDMAP-5040-7.1-03 EXT-7306-8.1-02 */
static void test_terminate_waits_for_room(void **state)
{
    (void)state;
    unsigned big = fill_up(UINT32_MAX, UINT32_MAX);
    unsigned small = fill_up(big, UINT32_MAX);
    assert_true(big > SOME);
    print_message("%u and %u fit\n", big, small);
    fill_up(big, small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_forms),       cmocka_unit_test(test_masks_against_a_model),
        cmocka_unit_test(test_two_streams_add),   cmocka_unit_test(test_reads_and_atomics_in_order),
        cmocka_unit_test(test_what_cannot_start), cmocka_unit_test(test_sink_goes_meanwhile),
        cmocka_unit_test(test_what_peers_refuse), cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_extensions_off),    cmocka_unit_test(test_messages_when_off),
        cmocka_unit_test(test_messages_when_on),  cmocka_unit_test(test_terminate_waits_for_room),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
