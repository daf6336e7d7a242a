/* SPDX-License-Identifier: MIT */
/* The sending side, the read queues and the order of Reads. */
#include "test_rdmap_kit.h"

/* Cuts a message whose payload is 0..n and checks it against the octets of a vector. */
static void expect_segment(struct ddp_msg *m, const uint8_t *payload, const char *fpdu)
{
    static uint8_t want[KIT_ULPDU];
    static uint8_t got[KIT_ULPDU];
    uint32_t n = kit_unhex(fpdu, want);
    uint32_t hlen;
    uint32_t plen = ddp_tx_next(m, 1454, got, &hlen);
    assert_true(m->done);
    if (plen > 0) {
        memcpy(got + hlen, payload, plen);
    }
    assert_int_equal(hlen + plen, n);
    assert_memory_equal(got, want, n);
}

/* proves: RDMAP-5040-4.1-01 RDMAP-5040-4.1-03 RDMAP-5040-4.1-10 RDMAP-5040-5.3-01
 * RDMAP-5040-5.3-08 RDMAP-5040-5.3-10 RDMAP-5040-5.3-12 DDP-5041-4.3-08 DDP-5041-4.3-07
 * RDMAP-5040-4.2-01 */
static void sends_as_in_the_vectors(void **state)
{
    (void)state;
    struct kit k;
    kit_init(&k, 16, 1);
    struct ddp_msg m;
    rdmap_tx_send(&k.st, RDMAP_SEND, 0xffffffff, 5, &m); /* V040 */
    expect_segment(&m, (const uint8_t *)"hello",
                   "00174143000000000000000000000001000000006"
                   "8656c6c6f");
    rdmap_tx_send(&k.st, RDMAP_SEND_INV, 0xd8040001, 3, &m); /* V083 */
    expect_segment(&m, (const uint8_t *)"inv", "00154144d8040001000000000000000200000000696e76");
    rdmap_tx_send(&k.st, RDMAP_SEND_SE, 0xffffffff, 5, &m); /* V084 */
    expect_segment(&m, (const uint8_t *)"event",
                   "0017414500000000000000000000000300000000"
                   "6576656e74");
    rdmap_tx_send(&k.st, RDMAP_SEND_SE_INV, 0xd8040002, 9, &m); /* V085 */
    expect_segment(&m, (const uint8_t *)"event+inv",
                   "001b4146d8040002000000000000000400000000"
                   "6576656e742b696e76");
    rdmap_tx_send(&k.st, RDMAP_SEND, 0, 0, &m);
    expect_segment(&m, NULL, "0012414300000000000000000000000500000000");
    kit_free(&k);
}

/* proves: RDMAP-5040-5.1-01 RDMAP-5040-3.1-04 RDMAP-5040-5.1-09 DDP-5041-5.2-06
 * RDMAP-5040-5.1-08 */
static void writes_as_in_the_vectors(void **state)
{
    (void)state;
    struct kit k;
    kit_init(&k, 16, 1);
    struct ddp_msg m;
    rdmap_tx_write(&k.st, 0xa501, 0x10000, 12, &m); /* V070 */
    expect_segment(&m, (const uint8_t *)"tagged write",
                   "001ac1400000a5010000000000010000"
                   "746167676564207772697465");
    rdmap_tx_write(&k.st, 0, 0, 0, &m); /* V071 */
    expect_segment(&m, NULL, "000ec140000000000000000000000000");
    kit_free(&k);
}

/* proves: RDMAP-5040-5.2.1-01 RDMAP-5040-5.2.1-06 RDMAP-5040-5.2.1-07 RDMAP-5040-4.4-01
 * RDMAP-5040-4.2-02 RDMAP-5040-5.2.1-12 RDMAP-5040-4.1-10 RDMAP-5040-5.2.1-09 */
static void reads_as_in_the_vectors(void **state)
{
    (void)state;
    struct kit k;
    kit_init(&k, 16, 1);
    struct ddp_msg m;
    uint8_t payload[RDMAP_READ_REQUEST_LEN];
    struct rdmap_read_request r = {.sink_stag = 0xb602,
                                   .sink_to = 0x2000,
                                   .len = 0x1000,
                                   .src_stag = 0xc703,
                                   .src_to = 0x3000};
    rdmap_tx_read(&k.st, &r, 77, &m, payload); /* V077 */
    expect_segment(&m, payload,
                   "002e4141000000000000000100000001000000000000b602"
                   "0000000000002000000010000000c7030000000000003000");
    assert_int_equal(rdmap_orq_head(&k.st)->msn, 1);
    assert_true(rdmap_orq_head(&k.st)->user == 77);
    r = (struct rdmap_read_request){
        .sink_stag = 1, .src_stag = 0xffffffff, .src_to = 0xffffffffffffffff};
    rdmap_tx_read(&k.st, &r, 78, &m, payload); /* V081 */
    expect_segment(&m, payload,
                   "002e41410000000000000001000000020000000000000001"
                   "000000000000000000000000ffffffffffffffffffffffff");
    assert_int_equal(k.st.orq.cnt, 2);
    kit_free(&k);
}

/* proves: DDP-5041-4.3-07 DDP-5041-4.3-08 RDMAP-5040-5.4-01 RDMAP-5040-5.4-02 RDMAP-5040-5.3-09
 * RDMAP-5040-5.5-15 DDP-5041-5.3-01 */
static void msns_of_the_queues(void **state)
{
    (void)state;
    struct kit k;
    kit_init(&k, 16, 1);
    struct ddp_msg m;
    uint8_t payload[RDMAP_TERM_MAX];
    const struct rdmap_read_request r = {.len = 1};
    for (uint32_t i = 1; i <= 3; i++) {
        rdmap_tx_send(&k.st, RDMAP_SEND, 0, 1, &m);
        assert_int_equal(m.msn, i);
        assert_int_equal(m.qn, 0);
        rdmap_tx_read(&k.st, &r, 0, &m, payload);
        assert_int_equal(m.msn, i);
        assert_int_equal(m.qn, 1);
    }
    rdmap_fail(&k.st, verdict_bad(2, 0, 2));
    rdmap_tx_terminate(&k.st, &m, payload);
    assert_int_equal(m.qn, 2);
    assert_int_equal(m.msn, 1);
    assert_false(m.tagged);
    k.st.tx_msn[0] = UINT32_MAX;
    rdmap_tx_send(&k.st, RDMAP_SEND, 0, 1, &m);
    assert_int_equal(m.msn, UINT32_MAX);
    rdmap_tx_send(&k.st, RDMAP_SEND, 0, 1, &m);
    assert_int_equal(m.msn, 0);
    kit_free(&k);
}

/* proves: RDMAP-5040-6.1-04 SEC-5042-6.4.3.3-02 RDMAP-5040-8.1.1-12 */
static void ord_limits_the_queue(void **state)
{
    (void)state;
    for (uint32_t ord = 0; ord < 5; ord++) {
        struct rdmap_stream st;
        struct rdmap_open open[5];
        rdmap_stream_init(&st, &(struct rdmap_cfg){.pd = 1, .id = 1, .open = open, .ord = ord});
        struct ddp_msg m;
        uint8_t payload[RDMAP_READ_REQUEST_LEN];
        uint32_t put = 0, got = 0;
        for (uint32_t round = 0; round < 50; round++) {
            while (rdmap_orq_room(&st)) {
                const struct rdmap_read_request r = {.len = put};
                rdmap_tx_read(&st, &r, put++, &m, payload);
            }
            assert_int_equal(put - got, ord);
            for (uint32_t i = 0; i < ord && i <= round % 4; i++) {
                assert_true(rdmap_orq_head(&st)->user == got);
                assert_int_equal(rdmap_orq_head(&st)->len, got);
                got++;
                rdmap_orq_pop(&st);
            }
        }
        assert_int_equal(rdmap_orq_head(&st) == NULL, put == got);
        rdmap_orq_pop(&st);
    }
}

/* proves: RDMAP-5040-4.4-02 RDMAP-5040-4.4-03 RDMAP-5040-5.2.2-01 RDMAP-5040-5.2.2-05
 * RDMAP-5040-5.2.1-11 RDMAP-5040-5.2.2-08 RDMAP-5040-5.2-01 */
static void response_answers_the_request(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    /* V077, with a sink that only the other end knows */
    assert_int_equal(kit_feed_hex(&k, "002e414100000000000000010000000100000000deadbe07"
                                      "112233445566778800001000"
                                      "0000c7030000000000003000")
                         .kind,
                     RDMAP_RX_READ_REQUEST);
    struct ddp_msg m;
    struct mspan src;
    assert_true(rdmap_irq_pending(&k.st));
    assert_true(rdmap_tx_response(&k.st, &k.mem, &m, &src));
    assert_ptr_equal(src.p, kit_region(&k, 0xc703)->base);
    assert_int_equal(src.n, 0x1000);
    assert_true(m.tagged);
    assert_int_equal(m.ulp, 0x42);
    assert_int_equal(m.stag, 0xdeadbe07);
    assert_true(m.to == 0x1122334455667788);
    assert_int_equal(m.len, 0x1000);
    rdmap_irq_pop(&k.st);
    assert_false(rdmap_irq_pending(&k.st));
    assert_false(rdmap_tx_response(&k.st, &k.mem, &m, &src));
    kit_free(&k);
}

/* proves: RDMAP-5040-5.2.1-14 RDMAP-5040-5.2.1-15 */
static void empty_read_is_not_checked(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    struct ddp_msg m;
    struct mspan src;
    kit_feed_hex(&k, "002e41410000000000000001000000010000000000000001" /* V081 as the first */
                     "000000000000000000000000ffffffffffffffffffffffff");
    assert_true(rdmap_tx_response(&k.st, &k.mem, &m, &src));
    assert_int_equal(src.n, 0);
    expect_segment(&m, NULL, "000ec142000000010000000000000000"); /* V082 */
    kit_free(&k);
}

/* proves: RDMAP-5040-5.2.1-08 RDMAP-5040-5.2.2-06 RDMAP-5040-5.5-22 RDMAP-5040-5.2.2-02
 * RDMAP-5040-5.2.1-02 RDMAP-5040-5.5-12 RDMAP-5040-5.5-19 */
static void responses_in_order_of_requests(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    uint32_t asked = 0, answered = 0;
    struct ddp_msg m;
    struct mspan src;
    for (uint32_t round = 0; round < 20; round++) {
        while (k.st.irq.cnt < k.st.irq.cap) {
            uint8_t ulpdu[46] = {0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1};
            put_be32(ulpdu + 10, asked + 1);
            const struct rdmap_read_request r = {.sink_stag = 9,
                                                 .sink_to = asked,
                                                 .len = asked,
                                                 .src_stag = 0xa501,
                                                 .src_to = asked};
            rdmap_read_request_pack(&r, ulpdu + DDP_UNTAGGED_LEN);
            assert_int_equal(kit_feed(&k, ulpdu, sizeof(ulpdu)).kind, RDMAP_RX_READ_REQUEST);
            asked++;
        }
        for (uint32_t i = 0; i < 1 + round % 2; i++) {
            assert_true(rdmap_tx_response(&k.st, &k.mem, &m, &src));
            assert_true(m.to == answered);
            assert_int_equal(m.len, answered);
            answered++;
            rdmap_irq_pop(&k.st);
        }
    }
    kit_free(&k);
}

/* proves: RDMAP-5040-4.8-16 RDMAP-5040-4.1-10 */
static void read_that_fails_half_way(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    struct ddp_msg m;
    struct mspan src;
    kit_feed_hex(&k, "002e4141000000000000000100000001000000000000b602" /* V077 */
                     "0000000000002000000010000000c7030000000000003000");
    assert_true(rdmap_tx_response(&k.st, &k.mem, &m, &src));
    kit_region(&k, 0xc703)->valid = false;
    rdmap_fail_response(&k.st, DDP_MEM_STAG, 2048);
    assert_true(k.st.dead);
    assert_false(rdmap_tx_response(&k.st, &k.mem, &m, &src));
    kit_expect_terminate(&k, "00464147000000000000000200000001000000000100e000002e4141" /* V125 */
                             "000000000000000100000001000000000000b6020000000000002800"
                             "000008000000c7030000000000003800");
    kit_free(&k);
}

/* proves: RDMAP-5040-7.1-02 RDMAP-5040-7.1-05 RDMAP-5040-7-01 */
static void first_failure_counts(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    struct ddp_hdr h = {.last = true, .ulp = 0x41, .qn = 1, .msn = 1};
    kit_feed_seg(&k, h, 28);
    assert_true(rdmap_irq_pending(&k.st));
    rdmap_fail(&k.st, verdict_bad(LAYER_LLP, LLP_MPA, MPA_ERR_CRC));
    rdmap_fail(&k.st, verdict_bad(LAYER_RDMAP, RDMAP_LOCAL, 0));
    rdmap_fail_response(&k.st, DDP_MEM_STAG, 0);
    assert_true(k.st.dead);
    kit_expect_terminate(&k, "001641470000000000000002000000010000000020020000"); /* V131 */
    struct ddp_msg m;
    struct mspan src;
    assert_false(rdmap_tx_response(&k.st, &k.mem, &m, &src));
    kit_free(&k);
}

/* proves: RDMAP-5040-5.4-06 RDMAP-5040-5.4-09 */
static void no_failure_after_the_peers_terminate(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    kit_feed_hex(&k, "001641470000000000000002000000010000000000000000"); /* V129 */
    assert_true(k.st.dead);
    rdmap_fail(&k.st, verdict_bad(LAYER_LLP, LLP_MPA, MPA_ERR_CRC));
    assert_false(k.st.fault.bad);
    kit_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sends_as_in_the_vectors),
        cmocka_unit_test(writes_as_in_the_vectors),
        cmocka_unit_test(reads_as_in_the_vectors),
        cmocka_unit_test(msns_of_the_queues),
        cmocka_unit_test(ord_limits_the_queue),
        cmocka_unit_test(response_answers_the_request),
        cmocka_unit_test(empty_read_is_not_checked),
        cmocka_unit_test(responses_in_order_of_requests),
        cmocka_unit_test(read_that_fails_half_way),
        cmocka_unit_test(first_failure_counts),
        cmocka_unit_test(no_failure_after_the_peers_terminate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
