/* SPDX-License-Identifier: MIT */
/* Read Requests and Read Responses as they come in. */
#include "test_rdmap_kit.h"

/* A stream that waits for 4096 octets at b602:2000 (V077). */
static void kit_with_read(struct kit *k, uint32_t len)
{
    struct ddp_msg m;
    uint8_t payload[RDMAP_READ_REQUEST_LEN];
    kit_init_vectors(k, false);
    const struct rdmap_read_request r = {
        .sink_stag = 0xb602, .sink_to = 0x2000, .len = len, .src_stag = 0xc703, .src_to = 0x3000};
    rdmap_tx_read(&k->st, &r, 1, &m, payload);
}

static struct ddp_hdr resp(uint64_t to, bool last)
{
    return kit_tagged_hdr(RDMAP_READ_RESPONSE, 0xb602, to, last);
}

/* proves: RDMAP-5040-5.2.2-03 RDMAP-5040-5.5-21 RDMAP-5040-5.5-24 RDMAP-5040-5.5-11
 * DDP-5041-4.2-07 */
static void response_completes_the_read(void **state)
{
    (void)state;
    struct kit k;
    kit_with_read(&k, 4096);
    assert_int_equal(kit_feed_seg(&k, resp(0x2000, false), 1440).kind, RDMAP_RX_READ_RESPONSE);
    assert_int_equal(kit_feed_seg(&k, resp(0x25a0, false), 1440).kind, RDMAP_RX_READ_RESPONSE);
    assert_int_equal(rdmap_orq_head(&k.st)->done, 2880);
    assert_int_equal(k.reads, 0);
    /* a Write of the peer may come between */
    assert_int_equal(kit_feed_seg(&k, kit_tagged_hdr(RDMAP_WRITE, 0xa501, 0, true), 9).kind,
                     RDMAP_RX_WRITE);
    struct rdmap_rx_event ev = kit_feed_seg(&k, resp(0x2b40, true), 1216);
    assert_int_equal(ev.kind, RDMAP_RX_READ_RESPONSE);
    assert_true(ev.last);
    assert_int_equal(k.reads, 1);
    assert_null(rdmap_orq_head(&k.st));
    const uint8_t *sink = kit_region(&k, 0xb602)->base;
    kit_expect_pattern(sink, 1440);
    kit_expect_pattern(sink + 1440, 1440);
    kit_expect_pattern(sink + 2880, 1216);
    kit_free(&k);
}

/* proves: RDMAP-5040-5.2.1-15 RDMAP-5040-5.2.1-12 DDP-5041-5.2-10 */
static void empty_response(void **state)
{
    (void)state;
    struct kit k;
    kit_with_read(&k, 0);
    struct rdmap_rx_event ev = kit_feed_hex(&k, "000ec142000000010000000000000000"); /* V082 */
    assert_int_equal(ev.kind, RDMAP_RX_READ_RESPONSE);
    assert_int_equal(ev.dst.n, 0);
    assert_int_equal(k.reads, 1);
    kit_free(&k);
    /* L=1 may come behind the last octet */
    kit_with_read(&k, 10);
    assert_int_equal(kit_feed_seg(&k, resp(0x2000, false), 10).kind, RDMAP_RX_READ_RESPONSE);
    assert_int_equal(k.reads, 0);
    assert_int_equal(kit_feed_seg(&k, resp(0x200a, true), 0).kind, RDMAP_RX_READ_RESPONSE);
    assert_int_equal(k.reads, 1);
    kit_free(&k);
}

/* proves: RDMAP-5040-5.2.2-07 RDMAP-5040-5.2.2-04 */
static void responses_that_do_not_match(void **state)
{
    (void)state;
    static const struct {
        uint32_t stag;
        uint64_t to;
        uint32_t n;
        bool last;
        uint8_t code;
    } bad[] = {
        {0xb603, 0x2000, 64, false, 0},
        {0xa501, 0x2000, 64, false, 0}, /* a region that would take it */
        {0, 0x2000, 64, true, 0},
        {0xb602, 0x1fff, 64, false, 1},
        {0xb602, 0x2001, 64, false, 1},
        {0xb602, 0x2000, 101, false, 1}, /* too much without L (CVE-2026-64268) */
        {0xb602, 0x2000, 101, true, 1},
        {0xb602, 0x2000, 99, true, 1}, /* too little */
        {0xb602, 0x2000, 0, true, 1},
        {0xb602, 0x2000, 0, false, 1},
        {0xb602, 0x2000, 2000, true, 1},
        {0xb602, 0x2000, 5000, false, 1}, /* beyond the region too */
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct kit k;
        kit_with_read(&k, 100);
        struct ddp_hdr h = kit_tagged_hdr(RDMAP_READ_RESPONSE, bad[i].stag, bad[i].to, bad[i].last);
        struct rdmap_rx_event ev = kit_feed_seg(&k, h, bad[i].n);
        kit_expect_fault(&k, &ev, verdict_bad(1, 1, bad[i].code));
        assert_true(kit_is_filled(kit_region(&k, 0xb602)));
        assert_true(kit_is_filled(kit_region(&k, 0xa501)));
        kit_free(&k);
    }
}

/* proves: RDMAP-5040-5.2.2-07 */
static void excess_octet_after_good_ones(void **state)
{
    (void)state;
    struct kit k;
    kit_with_read(&k, 4096);
    kit_feed_seg(&k, resp(0x2000, false), 4096);
    struct rdmap_rx_event ev = kit_feed_seg(&k, resp(0x3000, false), 1);
    kit_expect_fault(&k, &ev, verdict_bad(1, 1, 1));
    kit_free(&k);
}

/* proves: DDP-5041-7.1-11 RDMAP-5040-8.1.1-06 */
static void sink_is_checked_when_data_comes(void **state)
{
    (void)state;
    static const struct {
        uint32_t len, rights;
        bool valid;
        uint32_t pd;
        uint8_t code;
    } sink[] = {
        {100, DDP_LOCAL_WRITE, false, KIT_PD, 0},
        {100, KIT_RW, true, KIT_PD, 0},
        {99, DDP_LOCAL_WRITE, true, KIT_PD, 1},
        {100, DDP_LOCAL_WRITE, true, KIT_OTHER_PD, 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(sink); i++) {
        struct kit k;
        kit_with_read(&k, 100);
        struct ddp_mem *m = kit_region(&k, 0xb602);
        uint64_t whole = m->len;
        m->len = sink[i].len;
        m->rights = sink[i].rights;
        m->valid = sink[i].valid;
        m->pd = sink[i].pd;
        struct rdmap_rx_event ev = kit_feed_seg(&k, resp(0x2000, true), 100);
        kit_expect_fault(&k, &ev, verdict_bad(1, 1, sink[i].code));
        m->len = whole;
        assert_true(kit_is_filled(m));
        kit_free(&k);
    }
}

/* proves: RDMAP-5040-5.5-11 RDMAP-5040-5.2.2-06 */
static void responses_out_of_order(void **state)
{
    (void)state;
    struct kit k;
    kit_with_read(&k, 64);
    struct ddp_msg m;
    uint8_t payload[RDMAP_READ_REQUEST_LEN];
    const struct rdmap_read_request second = {.sink_stag = 0xb602, .sink_to = 0x2800, .len = 64};
    rdmap_tx_read(&k.st, &second, 2, &m, payload);
    struct rdmap_rx_event ev = kit_feed_seg(&k, resp(0x2800, true), 64);
    kit_expect_fault(&k, &ev, verdict_bad(1, 1, 1));
    kit_free(&k);
}

/* --- Read Requests --- */

/* proves: RDMAP-5040-5.2.1-03 RDMAP-5040-5.2.1-04 RDMAP-5040-3.2-06 RDMAP-5040-4.4-01 */
static void read_request_is_queued(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    struct rdmap_rx_event ev = /* V077 */
        kit_feed_hex(&k, "002e4141000000000000000100000001000000000000b602"
                         "0000000000002000000010000000c7030000000000003000");
    assert_int_equal(ev.kind, RDMAP_RX_READ_REQUEST);
    assert_int_equal(k.st.irq.cnt, 1);
    struct rdmap_read_request r;
    assert_false(rdmap_irq_head(&k.st)->is_atomic);
    rdmap_read_request_unpack(rdmap_irq_head(&k.st)->header, &r);
    assert_int_equal(r.sink_stag, 0xb602);
    assert_true(r.sink_to == 0x2000);
    assert_int_equal(r.len, 0x1000);
    assert_int_equal(r.src_stag, 0xc703);
    assert_true(r.src_to == 0x3000);
    assert_int_equal(k.recvs, 1000);
    kit_free(&k);
}

/* proves: RDMAP-5040-5.5-13 RDMAP-5040-5.5-20 RDMAP-5040-5.5-12 */
static void sends_and_writes_pass_a_queued_read(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    uint8_t ulpdu[46] = {0x41, 0x41, [9] = 1, [13] = 1};
    const struct rdmap_read_request r = {.sink_stag = 9, .len = 8, .src_stag = 0xa501};
    rdmap_read_request_pack(&r, ulpdu + DDP_UNTAGGED_LEN);
    assert_int_equal(kit_feed(&k, ulpdu, sizeof(ulpdu)).kind, RDMAP_RX_READ_REQUEST);
    assert_int_equal(kit_feed_seg(&k, kit_tagged_hdr(RDMAP_WRITE, 0xa501, 0, true), 8).kind,
                     RDMAP_RX_WRITE);
    assert_int_equal(kit_feed_seg(&k, kit_send_hdr(RDMAP_SEND, 1, 0, true), 3).kind, RDMAP_RX_SEND);
    assert_int_equal(k.completed, 1);
    struct ddp_msg m;
    struct mspan src;
    assert_true(rdmap_tx_response(&k.st, &k.mem, &m, &src));
    assert_int_equal(src.n, 8);
    kit_expect_pattern(src.p, 8);
    kit_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(response_completes_the_read),
        cmocka_unit_test(empty_response),
        cmocka_unit_test(responses_that_do_not_match),
        cmocka_unit_test(excess_octet_after_good_ones),
        cmocka_unit_test(sink_is_checked_when_data_comes),
        cmocka_unit_test(responses_out_of_order),
        cmocka_unit_test(read_request_is_queued),
        cmocka_unit_test(sends_and_writes_pass_a_queued_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
