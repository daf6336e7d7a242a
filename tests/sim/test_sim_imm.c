/* SPDX-License-Identifier: MIT */
/* Immediate Data and Writes with it (RFC 7306 sec 6) from the program's side. */
#include <fcntl.h>

#include "ext_kit.h"

enum { BULK = 300000 };

static void post_bare_recvs(struct ext *x, uint64_t first, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct uiw_recv_wr wr = {.wr_id = first + i};
        assert_int_equal(uiw_qp_post_recv(x->s.side[1].qp, &wr, NULL), 0);
    }
}

/* proves: EXT-7306-6.3-02 EXT-7306-6.3-03 EXT-7306-6.4-01 RDMAP-5040-3.2-02 */
static void test_immediate_alone(void **state)
{
    (void)state;
    static const uint64_t values[] = {0, 1, UINT64_MAX, 0x0102030405060708, 0x8000000000000000};
    struct ext *x = ext_open("mtu=1500");
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        struct uiw_wc wc;
        bool solicited = i % 2 != 0;
        struct uiw_send_wr wr = {.wr_id = 3,
                                 .opcode = UIW_WR_IMM,
                                 .flags = UIW_SEND_SIGNALED |
                                          (solicited ? (unsigned)UIW_SEND_SOLICITED : 0u),
                                 .imm = values[i]};
        post_bare_recvs(x, 40 + i, 1);
        assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
        sim_poll(&x->s, 1, 1, &wc);
        assert_int_equal(wc.status, UIW_WC_SUCCESS);
        assert_int_equal(wc.opcode, UIW_WC_RECV);
        assert_int_equal(wc.wr_id, 40 + i);
        assert_int_equal(wc.byte_len, 8);
        assert_true(wc.imm == values[i]);
        assert_int_equal(wc.flags, UIW_WC_WITH_IMM | (solicited ? (unsigned)UIW_WC_SOLICITED : 0u));
        sim_poll(&x->s, 0, 1, &wc);
        assert_int_equal(wc.status, UIW_WC_SUCCESS);
        assert_int_equal(wc.opcode, UIW_WC_IMM);
        assert_int_equal(wc.flags, 0);
    }
    ext_close(x);
}

/* A receive that has memory keeps it as it was. */
static void test_memory_of_the_receive(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr = ext_expose(x, UIW_ACCESS_LOCAL_WRITE);
    for (uint32_t n = 0; n < 20; n++) {
        struct uiw_wc wc;
        struct uiw_send_wr wr = {.opcode = UIW_WR_IMM, .imm = n};
        sim_recv(&x->s, 1, sim_sge(mr, ext_area(x), n), n);
        assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
        sim_poll(&x->s, 1, 1, &wc);
        assert_int_equal(wc.status, UIW_WC_SUCCESS);
        assert_true(wc.imm == n);
        ext_expect_filled(x->theirs, sizeof x->theirs);
    }
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

/* S56 */
/* proves: EXT-7306-6.3-03 EXT-7306-6.3-04 EXT-7306-6.3-06 EXT-7306-6.4-01 RDMAP-5040-5.3-09
 * RDMAP-5040-5.5-15 */
static void test_mixed_with_sends(void **state)
{
    (void)state;
    enum { N = 200, EACH = 16 };
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr = ext_expose(x, EXT_W);
    struct uiw_wc wc[N];
    for (uint32_t i = 0; i < N; i++) {
        sim_recv(&x->s, 1, sim_sge(mr, ext_area(x) + (size_t)i * EACH, EACH), i);
    }
    for (uint32_t i = 0; i < N; i++) {
        struct uiw_sge sge = sim_sge(x->my_mr, x->mine + i, i % EACH);
        struct uiw_send_wr wr = {.opcode = UIW_WR_SEND, .sg_list = &sge, .num_sge = 1};
        if (i % 3 == 1) {
            wr = (struct uiw_send_wr){.opcode = UIW_WR_IMM, .imm = 1000 + i};
        }
        wr.flags = i % 5 == 0 ? UIW_SEND_SOLICITED : 0;
        assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
        if (i % 50 == 0) {
            sim_step(&x->s);
        }
    }
    sim_poll(&x->s, 1, N, wc);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(wc[i].wr_id, i);
        assert_int_equal((wc[i].flags & UIW_WC_SOLICITED) != 0, i % 5 == 0);
        assert_int_equal((wc[i].flags & UIW_WC_WITH_IMM) != 0, i % 3 == 1);
        assert_int_equal(wc[i].byte_len, i % 3 == 1 ? 8 : i % EACH);
        if (i % 3 == 1) {
            assert_true(wc[i].imm == 1000 + i);
        }
    }
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

struct bulk {
    uint8_t *src, *dst;
    struct uiw_mr *src_mr, *dst_mr;
};

static void bulk_open(struct ext *x, struct bulk *b)
{
    b->src = malloc(BULK);
    b->dst = calloc(1, BULK);
    for (uint32_t i = 0; i < BULK; i++) {
        b->src[i] = (uint8_t)sim_random(&x->s);
    }
    b->src_mr = sim_reg(&x->s, 0, b->src, BULK, 0);
    b->dst_mr = sim_reg(&x->s, 1, b->dst, BULK, EXT_W | UIW_ACCESS_ZERO_BASED);
}

static void bulk_close(struct bulk *b)
{
    assert_int_equal(uiw_mr_dereg(b->src_mr), 0);
    assert_int_equal(uiw_mr_dereg(b->dst_mr), 0);
    free(b->src);
    free(b->dst);
}

/* proves: EXT-7306-6.4-01 RDMAP-5040-5.5-10 */
static void test_write_with_immediate(void **state)
{
    (void)state;
    static const uint32_t lens[] = {0, 1, 7, 8, 200, 1440, 1454, 4000, 8192, 70000, BULK};
    static const char *const keys[] = {"mtu=1500", "mtu=9000,crc=off", "mtu=1500,markers=on"};
    for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
        struct ext *x = ext_open(keys[k]);
        struct bulk b;
        bulk_open(x, &b);
        sim_wire(&x->s, &(struct net_wire){.seed = 3, .cut_ppm = 100000});
        for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
            struct uiw_wc wc;
            struct uiw_sge sge[2] = {sim_sge(b.src_mr, b.src, lens[i] / 3),
                                     sim_sge(b.src_mr, b.src + lens[i] / 3, lens[i] - lens[i] / 3)};
            bool small = lens[i] <= SIM_INLINE && i % 2 == 0;
            struct uiw_send_wr wr = {.wr_id = i,
                                     .sg_list = sge,
                                     .num_sge = 2,
                                     .opcode = UIW_WR_RDMA_WRITE_WITH_IMM,
                                     .flags = UIW_SEND_SIGNALED | UIW_SEND_SOLICITED |
                                              (small ? (unsigned)UIW_SEND_INLINE : 0u),
                                     .rkey = uiw_mr_rkey(b.dst_mr),
                                     .imm = 0xabc0000 + i};
            memset(b.dst, 0, BULK);
            post_bare_recvs(x, i, 1);
            assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
            sim_poll(&x->s, 1, 1, &wc);
            /* what it announces is there already */
            assert_memory_equal(b.dst, b.src, lens[i]);
            assert_int_equal(wc.flags, UIW_WC_WITH_IMM | UIW_WC_SOLICITED);
            assert_true(wc.imm == 0xabc0000 + i);
            sim_poll(&x->s, 0, 1, &wc);
            assert_int_equal(wc.status, UIW_WC_SUCCESS);
            assert_int_equal(wc.opcode, UIW_WC_RDMA_WRITE);
            assert_int_equal(wc.wr_id, i);
        }
        struct uiw_wc none;
        assert_int_equal(uiw_cq_poll(x->s.side[0].cq, 1, &none),
                         0); /* one request, one completion */
        bulk_close(&b);
        ext_close(x);
    }
}

/* The two messages stay together while both ends send and read (nothing may come between them that uses
 * a receive, or the pairs would be torn). */
static void test_pairs_stay_together(void **state)
{
    (void)state;
    enum { N = 80 };
    struct ext *x = ext_open("mtu=1500");
    struct bulk b;
    bulk_open(x, &b);
    struct uiw_mr *open = ext_expose(x, EXT_R);
    struct uiw_wc wc[N];
    post_bare_recvs(x, 0, N);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t len = 1 + sim_below(&x->s, BULK / N - 1);
        struct uiw_sge sge = sim_sge(b.src_mr, b.src + (size_t)i * (BULK / N), len);
        struct uiw_send_wr wr = {.sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = UIW_WR_RDMA_WRITE_WITH_IMM,
                                 .remote_addr = (uint64_t)i * (BULK / N),
                                 .rkey = uiw_mr_rkey(b.dst_mr),
                                 .imm = (uint64_t)i << 32 | len};
        assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
        if (i % 4 == 0) {
            sim_post(&x->s, 0, UIW_WR_RDMA_READ, sim_sge(x->my_mr, x->mine, EXT_AREA),
                     ext_at(x, 0, uiw_mr_rkey(open)));
            sim_poll(&x->s, 0, 1, wc);
        }
    }
    sim_poll(&x->s, 1, N, wc);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t len = (uint32_t)wc[i].imm;
        assert_int_equal(wc[i].imm >> 32, i);
        assert_memory_equal(b.dst + (size_t)i * (BULK / N), b.src + (size_t)i * (BULK / N), len);
    }
    assert_int_equal(uiw_mr_dereg(open), 0);
    bulk_close(&b);
    ext_close(x);
}

/* A Write that is refused: its Immediate is not delivered, and both ends hear of it. */
static void test_refused_write_tells_nothing(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr = ext_expose(x, EXT_R);
    struct uiw_sge sge = sim_sge(x->my_mr, x->mine, EXT_AREA);
    struct sim_at at = ext_at(x, 0, uiw_mr_rkey(mr));
    struct uiw_wc wc;
    struct uiw_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = UIW_WR_RDMA_WRITE_WITH_IMM,
                             .remote_addr = at.to,
                             .rkey = at.rkey,
                             .imm = 1};
    post_bare_recvs(x, 7, 1);
    assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
    sim_until(&x->s, &x->s.side[0].disconnected, 1, 10000);
    sim_poll(&x->s, 1, 1, &wc);
    assert_int_equal(wc.wr_id, 7);
    assert_int_equal(wc.status, UIW_WC_WR_FLUSH_ERR);
    ext_expect_filled(x->theirs, sizeof x->theirs);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

/* proves: EXT-7306-6.3-02 DDP-5041-7.1-02 */
static void test_no_receive(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_send_wr wr = {.opcode = UIW_WR_IMM, .imm = 5};
    struct ext_result r = ext_do(x, &wr);
    ext_expect_fault(&r, 1, 2, 2);
    ext_close(x);
    /* or it waits for one */
    x = ext_open("mtu=1500,rnr=5");
    struct uiw_wc wc;
    wr.next = NULL;
    assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
    for (int i = 0; i < 1000; i++) {
        sim_step(&x->s);
    }
    assert_int_equal(x->s.side[1].disconnected, 0);
    post_bare_recvs(x, 9, 1);
    sim_poll(&x->s, 1, 1, &wc);
    assert_int_equal(wc.wr_id, 9);
    assert_true(wc.imm == 5);
    ext_close(x);
}

/* proves: EXT-7306-4.1-02 RDMAP-5040-5.3-06 */
static void test_solicited_wakes(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct sim_side *b = &x->s.side[1];
    struct uiw_comp_channel *ch;
    struct uiw_cq *cq, *which;
    struct uiw_wc wc[2];
    sim_drop(&x->s);
    assert_int_equal(uiw_comp_channel_create(b->dev, &ch), 0);
    fcntl(uiw_comp_channel_fd(ch), F_SETFL, O_NONBLOCK);
    assert_int_equal(uiw_cq_create(b->dev, 16, ch, NULL, &cq), 0);
    sim_qps(&x->s, NULL);
    assert_int_equal(uiw_qp_destroy(b->qp), 0);
    struct uiw_qp_attr attr = {.send_cq = cq, .recv_cq = cq, .max_send_wr = 4, .max_recv_wr = 4};
    assert_int_equal(uiw_qp_create(b->pd, &attr, &b->qp), 0);
    sim_connect(&x->s, NULL, NULL);
    post_bare_recvs(x, 0, 2);
    assert_int_equal(uiw_cq_arm(cq, true), 0);
    struct uiw_send_wr wr = {.opcode = UIW_WR_IMM};
    for (int i = 0; i < 2; i++) {
        wr.flags = i == 1 ? UIW_SEND_SOLICITED : 0;
        assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
        for (int k = 0; k < 50; k++) {
            sim_step(&x->s);
        }
        assert_int_equal(uiw_comp_channel_get(ch, &which, NULL), i == 1 ? 0 : -EAGAIN);
    }
    assert_int_equal(uiw_cq_poll(cq, 2, wc), 2);
    sim_drop(&x->s);
    assert_int_equal(uiw_cq_destroy(cq), 0);
    assert_int_equal(uiw_comp_channel_destroy(ch), 0);
    ext_close(x);
}

static void test_misuse(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_sge sge = sim_sge(x->my_mr, x->mine, 8);
    struct uiw_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = UIW_WR_IMM};
    assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), -EINVAL);
    wr.opcode = UIW_WR_RDMA_WRITE_WITH_IMM;
    wr.num_sge = SIM_SGE + 1;
    assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), -EINVAL);
    /* a bad sge sends neither of the two messages */
    struct uiw_wc wc;
    wr.num_sge = 1;
    sge.lkey ^= 0x100;
    post_bare_recvs(x, 1, 1);
    assert_int_equal(uiw_qp_post_send(x->s.side[0].qp, &wr, NULL), 0);
    sim_poll(&x->s, 0, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_LOC_PROT_ERR);
    sim_poll(&x->s, 1, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_WR_FLUSH_ERR);
    ext_close(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_immediate_alone),
        cmocka_unit_test(test_memory_of_the_receive),
        cmocka_unit_test(test_mixed_with_sends),
        cmocka_unit_test(test_write_with_immediate),
        cmocka_unit_test(test_pairs_stay_together),
        cmocka_unit_test(test_refused_write_tells_nothing),
        cmocka_unit_test(test_no_receive),
        cmocka_unit_test(test_solicited_wakes),
        cmocka_unit_test(test_misuse),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
