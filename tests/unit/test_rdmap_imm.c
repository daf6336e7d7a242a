/* SPDX-License-Identifier: MIT */
/* Immediate Data on the Send queue (RFC 7306 sec 6). */
#include "test_rdmap_kit.h"

/* proves: EXT-7306-6.3-01 EXT-7306-6.3-04 EXT-7306-6.3-05 EXT-7306-6.3-06 EXT-7306-4-01
 * EXT-7306-4.1-02 EXT-7306-4.1-03 */
static void immediates_are_sent(void **state)
{
    (void)state;
    struct kit k;
    kit_init_ext(&k, 1);
    struct ddp_msg m;
    uint8_t payload[RDMAP_IMMEDIATE_LEN];
    rdmap_tx_immediate(&k.st, false, 0x494d4d2d44415441, &m, payload); /* V154 */
    kit_expect_segment(&m, payload, "001a414800000000000000000000000100000000494d4d2d44415441");
    rdmap_tx_immediate(&k.st, true, 0x494d4d2d442b5345, &m, payload); /* V155 */
    kit_expect_segment(&m, payload, "001a414900000000000000000000000200000000494d4d2d442b5345");
    rdmap_tx_send(&k.st, RDMAP_SEND, 0, 0, &m);
    assert_int_equal(m.msn, 3);
    kit_free(&k);
}

/* proves: EXT-7306-6.3-02 EXT-7306-6.3-03 EXT-7306-6.4-01 */
static void immediates_need_no_memory(void **state)
{
    (void)state;
    for (uint32_t len = 0; len < 12; len++) {
        struct kit k;
        kit_init_ext(&k, 1);
        struct ddp_hdr h = kit_send_hdr(RDMAP_IMMEDIATE, 1, 0, true);
        uint8_t ulpdu[DDP_UNTAGGED_LEN + RDMAP_IMMEDIATE_LEN] = {0};
        struct span whole = {ulpdu, sizeof ulpdu};
        h.version = DDP_VERSION;
        ddp_hdr_pack(&h, ulpdu);
        assert_int_equal(kit_rx(&k, cursor_of(&whole, 1)).kind, RDMAP_RX_WANT_RECV);
        rdmap_rx_give_recv(&k.st, len);
        struct rdmap_rx_event ev = kit_rx(&k, cursor_of(&whole, 1));
        assert_int_equal(ev.kind, RDMAP_RX_SEND);
        assert_true(ev.last);
        assert_false(rdmap_rx_in_send(&k.st));
        /* the next message has a buffer of its own length again */
        h = kit_send_hdr(RDMAP_SEND, 2, 0, true);
        h.version = DDP_VERSION;
        ddp_hdr_pack(&h, ulpdu);
        rdmap_rx_give_recv(&k.st, len);
        ev = kit_rx(&k, cursor_of(&whole, 1));
        assert_int_equal(ev.kind, len >= 8 ? RDMAP_RX_SEND : RDMAP_RX_FAULT);
        kit_free(&k);
    }
}

/* proves: EXT-7306-6.3-02 DDP-5041-7.1-02 */
static void immediate_without_receive(void **state)
{
    (void)state;
    struct kit k;
    kit_init_ext(&k, 1);
    k.recvs = 0;
    struct rdmap_rx_event ev = kit_feed_seg(&k, kit_send_hdr(RDMAP_IMMEDIATE, 1, 0, true), 8);
    kit_expect_fault(&k, &ev, verdict_bad(1, 2, 2));
    kit_free(&k);
    kit_init_ext(&k, 1);
    k.recvs = 0; /* and a bad one asks for none */
    ev = kit_feed_seg(&k, kit_send_hdr(RDMAP_IMMEDIATE, 1, 0, true), 7);
    kit_expect_fault(&k, &ev, verdict_bad(0, 2, 0xff));
    kit_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(immediates_are_sent),
        cmocka_unit_test(immediates_need_no_memory),
        cmocka_unit_test(immediate_without_receive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
