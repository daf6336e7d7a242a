/* SPDX-License-Identifier: MIT */
/* What good Writes and Sends do, and the rules of receives and of invalidation. */
#include "test_rdmap_kit.h"

/* proves: RDMAP-5040-5.1-02 RDMAP-5040-3.2-04 DDP-5041-4.1-01 RDMAP-5040-5.1-04
 * RDMAP-5040-5.1-05 */
static void write_is_placed(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    /* V070 */
    struct rdmap_rx_event ev =
        kit_feed_hex(&k, "001ac1400000a5010000000000010000746167676564207772697465");
    assert_int_equal(ev.kind, RDMAP_RX_WRITE);
    assert_true(ev.last);
    const struct ddp_mem *m = kit_region(&k, 0xa501);
    assert_memory_equal(m->base + 0x10000, "tagged write", 12);
    assert_int_equal(m->base[0xffff], KIT_FILL);
    assert_int_equal(m->base[0x1000c], KIT_FILL);
    /* first and last octet */
    assert_int_equal(kit_feed_seg(&k, kit_tagged_hdr(RDMAP_WRITE, 0xa501, 0, true), 1).kind,
                     RDMAP_RX_WRITE);
    assert_int_equal(kit_feed_seg(&k, kit_tagged_hdr(RDMAP_WRITE, 0xa501, 0x10fff, true), 1).kind,
                     RDMAP_RX_WRITE);
    assert_int_equal(m->base[0], 3);
    assert_int_equal(m->base[0x10fff], 3);
    assert_int_equal(k.completed, 0);
    assert_int_equal(k.recvs, 1000);
    kit_free(&k);
}

/* proves: DDP-5041-5.2-09 DDP-5041-5.2-10 RDMAP-5040-5.1-09 */
static void empty_write_is_not_checked(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    static const char *const vectors[] = {
        "000ec140000000000000000000000000", /* V071 */
        "000ec140ffffffffffffffffffffffff", /* V072 */
        "000ec1400000a6010000000000000000", /* other PD */
        "000e81400000c7030000000000000000", /* L=0, no write right */
    };
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        assert_int_equal(kit_feed_hex(&k, vectors[i]).kind, RDMAP_RX_NONE);
        assert_false(k.st.dead);
    }
    kit_region(&k, 0xa501)->valid = false;
    assert_int_equal(kit_feed_seg(&k, kit_tagged_hdr(RDMAP_WRITE, 0xa501, 0, true), 0).kind,
                     RDMAP_RX_NONE);
    assert_false(k.st.dead);
    kit_free(&k);
}

/* proves: DDP-5041-7.1-13 DDP-5041-7.1-15 RDMAP-5040-8.1.1-06 SEC-5042-6.2.2-01 */
static void each_segment_of_a_write_is_checked(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    struct ddp_mem *m = kit_region(&k, 0xd8040001);
    kit_feed_seg(&k, kit_tagged_hdr(RDMAP_WRITE, 0xd8040001, 0, false), 8);
    m->valid = false;
    struct rdmap_rx_event ev =
        kit_feed_seg(&k, kit_tagged_hdr(RDMAP_WRITE, 0xd8040001, 8, true), 8);
    kit_expect_fault(&k, &ev, verdict_bad(1, 1, 0));
    kit_expect_pattern(m->base, 8);
    assert_int_equal(m->base[8], KIT_FILL);
    kit_free(&k);
}

/* proves: DDP-5041-4.1-02 RDMAP-5040-5.3-02 RDMAP-5040-5.3-03 RDMAP-5040-5.3-05
 * DDP-5041-5.4-02 DDP-5041-5.3-06 RDMAP-5040-3.1-05 RDMAP-5040-3.2-02 RDMAP-5040-5.3-11 */
static void sends_complete_in_order(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    for (uint32_t i = 0; i < 100; i++) {
        struct rdmap_rx_event ev = kit_feed_seg(&k, kit_send_hdr(RDMAP_SEND, i + 1, 0, true), i);
        assert_int_equal(ev.kind, RDMAP_RX_SEND);
        assert_true(ev.last);
        assert_int_equal(ev.opcode, RDMAP_SEND);
        assert_int_equal(ev.invalidated, 0);
        assert_int_equal(k.completed, i + 1);
        assert_int_equal(k.byte_len, i);
        assert_int_equal(k.recvs, 1000 - i - 1);
        assert_false(rdmap_rx_in_send(&k.st));
        kit_expect_pattern(k.recv, i);
    }
    kit_free(&k);
}

/* proves: DDP-5041-5.4-01 DDP-5041-4.1-07 RDMAP-5040-5.5-18 RDMAP-5040-5.3-02 */
static void send_of_many_segments(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    assert_int_equal(kit_feed_seg(&k, kit_send_hdr(RDMAP_SEND_SE, 1, 0, false), 500).kind,
                     RDMAP_RX_SEND);
    assert_true(rdmap_rx_in_send(&k.st));
    assert_int_equal(k.completed, 0);
    /* a tagged message may come between (S20) */
    assert_int_equal(kit_feed_seg(&k, kit_tagged_hdr(RDMAP_WRITE, 0xa501, 0, true), 9).kind,
                     RDMAP_RX_WRITE);
    assert_int_equal(kit_feed_seg(&k, kit_send_hdr(RDMAP_SEND_SE, 1, 500, false), 0).kind,
                     RDMAP_RX_SEND);
    struct rdmap_rx_event ev = kit_feed_seg(&k, kit_send_hdr(RDMAP_SEND_SE, 1, 500, true), 524);
    assert_int_equal(ev.kind, RDMAP_RX_SEND);
    assert_true(rdmap_opcode_solicits(ev.opcode));
    assert_int_equal(k.completed, 1);
    assert_int_equal(k.byte_len, 1024);
    assert_int_equal(k.recvs, 999);
    assert_false(rdmap_rx_in_send(&k.st));
    kit_expect_pattern(k.recv, 500);
    kit_expect_pattern(k.recv + 500, 524);
    kit_free(&k);
}

/* proves: DDP-5041-4.3-05 DDP-5041-4.3-03 DDP-5041-5.4-03 */
static void first_segment_names_the_send(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    struct ddp_hdr first = kit_send_hdr(RDMAP_SEND_INV, 1, 0, false);
    first.ulp32 = 0xd8040001;
    struct ddp_hdr second = kit_send_hdr(RDMAP_SEND, 1, 4, true);
    second.ulp32 = 0xdeadbe02;
    kit_feed_seg(&k, first, 4);
    struct rdmap_rx_event ev = kit_feed_seg(&k, second, 4);
    assert_int_equal(ev.opcode, RDMAP_SEND_INV);
    assert_int_equal(ev.invalidated, 0xd8040001);
    assert_false(kit_region(&k, 0xd8040001)->valid);
    /* and the next message starts anew */
    struct ddp_hdr plain = kit_send_hdr(RDMAP_SEND, 2, 0, true);
    plain.ulp32 = 0xd8050002;
    ev = kit_feed_seg(&k, plain, 4);
    assert_int_equal(ev.opcode, RDMAP_SEND);
    assert_int_equal(ev.invalidated, 0);
    assert_true(kit_region(&k, 0xd8050002)->valid);
    kit_free(&k);
}

/* proves: DDP-5041-4.1-09 RDMAP-5040-4.1-09 RDMAP-5040-4.1-11 */
static void reserved_bits_change_nothing(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    /* V086 */
    struct rdmap_rx_event ev = kit_feed_hex(&k, "00157d73112233440000000000000001"
                                                "00000000727376");
    assert_int_equal(ev.kind, RDMAP_RX_SEND);
    assert_int_equal(ev.opcode, RDMAP_SEND);
    assert_memory_equal(k.recv, "rsv", 3);
    kit_free(&k);
}

/* proves: DDP-5041-4.3-09 */
static void msn_wraps_on_every_queue(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    k.st.rx.q[0].msn = UINT32_MAX - 2;
    k.st.rx.q[1].msn = UINT32_MAX - 2;
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t msn = UINT32_MAX - 2 + i;
        assert_int_equal(kit_feed_seg(&k, kit_send_hdr(RDMAP_SEND, msn, 0, true), 3).kind,
                         RDMAP_RX_SEND);
        struct ddp_hdr h = {.last = true, .ulp = 0x41, .qn = 1, .msn = msn};
        assert_int_equal(kit_feed_seg(&k, h, 28).kind, RDMAP_RX_READ_REQUEST);
        rdmap_irq_pop(&k.st);
    }
    assert_int_equal(k.st.rx.q[0].msn, 3);
    kit_free(&k);
}

/* proves: DDP-5041-7.1-07 DDP-5041-7.1-02 DDP-5041-7.1-09 */
static void waiting_for_a_receive_consumes_nothing(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    uint8_t ulpdu[DDP_UNTAGGED_LEN + 4] = {0x41, 0x43, [13] = 1};
    struct span whole = {ulpdu, sizeof(ulpdu)};
    for (unsigned i = 0; i < 3; i++) {
        struct rdmap_rx_event ev = kit_rx(&k, cursor_of(&whole, 1));
        assert_int_equal(ev.kind, RDMAP_RX_WANT_RECV);
        assert_false(k.st.dead);
        assert_false(rdmap_rx_in_send(&k.st));
    }
    rdmap_rx_give_recv(&k.st, 4);
    assert_true(rdmap_rx_in_send(&k.st));
    assert_int_equal(kit_rx(&k, cursor_of(&whole, 1)).kind, RDMAP_RX_SEND);
    put_be32(ulpdu + 10, 2);
    assert_int_equal(kit_rx(&k, cursor_of(&whole, 1)).kind, RDMAP_RX_WANT_RECV);
    /* a receive that turns up after all */
    rdmap_rx_no_recv(&k.st);
    rdmap_rx_give_recv(&k.st, 4);
    assert_int_equal(kit_rx(&k, cursor_of(&whole, 1)).kind, RDMAP_RX_SEND);
    put_be32(ulpdu + 10, 3);
    assert_int_equal(kit_rx(&k, cursor_of(&whole, 1)).kind, RDMAP_RX_WANT_RECV);
    rdmap_rx_no_recv(&k.st);
    struct rdmap_rx_event ev = kit_rx(&k, cursor_of(&whole, 1));
    kit_expect_fault(&k, &ev, verdict_bad(1, 2, 2));
    kit_free(&k);
}

/* No receive is waited for, or used up, for the sake of a segment that is refused anyway. */
/* proves: RDMAP-5040-7.2-02 RDMAP-5040-7.2-03 */
static void bad_segments_want_no_receive(void **state)
{
    (void)state;
    static const struct {
        struct ddp_hdr h;
        uint8_t layer, type, code;
    } bad[] = {
        {{.last = true, .ulp = 0x4f, .msn = 1}, 0, 2, 6},
        {{.last = true, .ulp = 0x83, .msn = 1}, 0, 2, 5},
        {{.last = true, .ulp = 0x40, .msn = 1}, 0, 2, 6},
        {{.last = true, .ulp = 0x43, .msn = 1, .mo = 1}, 1, 2, 4},
        {{.last = true, .ulp = 0x43, .msn = 2}, 1, 2, 3},
        {{.last = true, .ulp = 0x4f, .msn = 2}, 1, 2, 3},
        {{.last = true, .ulp = 0x4f, .msn = 1, .mo = 5}, 1, 2, 4},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        for (uint32_t recvs = 0; recvs < 2; recvs++) {
            struct kit k;
            kit_init_vectors(&k, false);
            k.recvs = recvs;
            struct rdmap_rx_event ev = kit_feed_seg(&k, bad[i].h, 10);
            kit_expect_fault(&k, &ev, verdict_bad(bad[i].layer, bad[i].type, bad[i].code));
            assert_int_equal(k.recvs, recvs);
            kit_free(&k);
        }
    }
}

/* --- invalidation --- */

/* proves: RDMAP-5040-5.3-14 RDMAP-5040-4.1-03 RDMAP-5040-7.2-04 */
static void invalidate_at_delivery(void **state)
{
    (void)state;
    for (unsigned se = 0; se < 2; se++) {
        struct kit k;
        kit_init_vectors(&k, false);
        unsigned opcode = se ? RDMAP_SEND_SE_INV : RDMAP_SEND_INV;
        struct ddp_hdr h = kit_send_hdr(opcode, 1, 0, false);
        h.ulp32 = 0xd8050002; /* of this very stream */
        kit_feed_seg(&k, h, 4);
        assert_true(kit_region(&k, 0xd8050002)->valid);
        h.last = true;
        h.mo = 4;
        struct rdmap_rx_event ev = kit_feed_seg(&k, h, 4);
        assert_int_equal(ev.kind, RDMAP_RX_SEND);
        assert_int_equal(ev.invalidated, 0xd8050002);
        assert_int_equal(ev.opcode, opcode);
        assert_false(kit_region(&k, 0xd8050002)->valid);
        ev = kit_feed_seg(&k, kit_tagged_hdr(RDMAP_WRITE, 0xd8050002, 0, true), 1);
        kit_expect_fault(&k, &ev, verdict_bad(1, 1, 0));
        kit_free(&k);
    }
}

/* proves: RDMAP-5040-5.3-13 RDMAP-5040-5.3-14 RDMAP-5040-7.2-04 RDMAP-5040-7.2-05
 * RDMAP-5040-8.1.1-01 RDMAP-5040-8.1.1-02 RDMAP-5040-8.1.1-07 RDMAP-5040-5.3-07 */
static void what_cannot_be_invalidated(void **state)
{
    (void)state;
    static const struct {
        uint32_t stag;
        uint8_t type;
    } bad[] = {
        {0xdeadbe02, 2},                  /* unknown */
        {0, 2},          {0xd8040002, 2}, /* the right index, another key */
        {0xa601, 1},                      /* other PD */
        {0xd8060003, 1},                  /* other stream */
        {0xa501, 1},                      /* shared: no leave to invalidate it */
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct kit k;
        kit_init_vectors(&k, false);
        struct ddp_hdr h = kit_send_hdr(RDMAP_SEND_INV, 1, 0, false);
        h.ulp32 = bad[i].stag;
        assert_int_equal(kit_feed_seg(&k, h, 3).kind, RDMAP_RX_SEND);
        h.last = true;
        h.mo = 3;
        struct rdmap_rx_event ev = kit_feed_seg(&k, h, 3);
        kit_expect_fault(&k, &ev, verdict_bad(0, bad[i].type, 9));
        assert_int_equal(k.completed, 0);
        assert_true(rdmap_rx_in_send(&k.st));
        for (uint32_t r = 0; r < k.regions; r++) {
            assert_true(k.r[r].m.valid);
        }
        kit_free(&k);
    }
}

/* proves: RDMAP-5040-5.3-14 */
static void invalidating_twice(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    struct ddp_hdr h = kit_send_hdr(RDMAP_SEND_INV, 1, 0, true);
    h.ulp32 = 0xd8040001;
    assert_int_equal(kit_feed_seg(&k, h, 3).kind, RDMAP_RX_SEND);
    h.msn = 2;
    struct rdmap_rx_event ev = kit_feed_seg(&k, h, 3);
    kit_expect_fault(&k, &ev, verdict_bad(0, 2, 9));
    assert_int_equal(k.completed, 1);
    kit_free(&k);
}

/* --- RFC 7306 --- */

/* proves: EXT-7306-4-01 EXT-7306-6.3-02 EXT-7306-6.3-03 EXT-7306-6.3-07 EXT-7306-8.1-02 */
static void immediate_data(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    k.st.ext = true;
    struct rdmap_rx_event ev = /* V154 and V155 */
        kit_feed_hex(&k, "001a414800000000000000000000000100000000494d4d2d44415441");
    assert_int_equal(ev.kind, RDMAP_RX_SEND);
    assert_int_equal(ev.opcode, RDMAP_IMMEDIATE);
    assert_memory_equal(k.recv, "IMM-DATA", 8);
    ev = kit_feed_hex(&k, "001a414900000000000000000000000200000000494d4d2d442b5345");
    assert_int_equal(ev.kind, RDMAP_RX_SEND);
    assert_true(rdmap_opcode_solicits(ev.opcode));
    assert_int_equal(k.completed, 2);
    kit_free(&k);
    for (uint32_t n = 0; n < 20; n++) {
        kit_init_vectors(&k, false);
        k.st.ext = true;
        ev = kit_feed_seg(&k, kit_send_hdr(RDMAP_IMMEDIATE, 1, 0, true), n);
        if (n == 8) {
            assert_int_equal(ev.kind, RDMAP_RX_SEND);
        } else {
            kit_expect_fault(&k, &ev, verdict_bad(0, 2, 0xff));
        }
        kit_free(&k);
    }
    kit_init_vectors(&k, false);
    k.st.ext = true;
    ev = kit_feed_seg(&k, kit_send_hdr(RDMAP_IMMEDIATE, 1, 0, false), 8);
    kit_expect_fault(&k, &ev, verdict_bad(0, 2, 0xff));
    kit_free(&k);
}

/* proves: EXT-7306-1.1-04 */
static void extensions_that_are_off(void **state)
{
    (void)state;
    static const char *const vectors[] = {
        /* V154, V150, V151 */
        "001a414800000000000000000000000100000000494d4d2d44415441",
        "0046414a0000000000000001000000010000000000000000010203040000c7030000000000003008"
        "000000000000000100000000000000000000000000000000ffffffffffffffff",
    };
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        struct kit k;
        kit_init_vectors(&k, false);
        struct rdmap_rx_event ev = kit_feed_hex(&k, vectors[i]);
        kit_expect_fault(&k, &ev, verdict_bad(0, 2, 6));
        kit_free(&k);
    }
    struct kit k;
    kit_init_vectors(&k, false);
    struct rdmap_rx_event ev = /* V151 */
        kit_feed_hex(&k, "001e414b0000000000000003000000010000000001020304000000"
                         "0000000029");
    kit_expect_fault(&k, &ev, verdict_bad(1, 2, 1));
    kit_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write_is_placed),
        cmocka_unit_test(empty_write_is_not_checked),
        cmocka_unit_test(each_segment_of_a_write_is_checked),
        cmocka_unit_test(sends_complete_in_order),
        cmocka_unit_test(send_of_many_segments),
        cmocka_unit_test(first_segment_names_the_send),
        cmocka_unit_test(reserved_bits_change_nothing),
        cmocka_unit_test(msn_wraps_on_every_queue),
        cmocka_unit_test(waiting_for_a_receive_consumes_nothing),
        cmocka_unit_test(bad_segments_want_no_receive),
        cmocka_unit_test(invalidate_at_delivery),
        cmocka_unit_test(what_cannot_be_invalidated),
        cmocka_unit_test(invalidating_twice),
        cmocka_unit_test(immediate_data),
        cmocka_unit_test(extensions_that_are_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
