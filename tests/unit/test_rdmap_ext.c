/* SPDX-License-Identifier: MIT */
/* Streams that speak RFC 7306: Atomics in the read queues. */
#include "test_rdmap_kit.h"

static uint64_t word(struct kit *k, uint32_t off)
{
    uint64_t v;
    memcpy(&v, kit_region(k, KIT_WORDS)->base + off, sizeof v);
    return v;
}

#define V150                                                                           \
    "0046414a0000000000000001000000010000000000000000010203040000c7030000000000003008" \
    "000000000000000100000000000000000000000000000000ffffffffffffffff"
#define V151 "001e414b00000000000000030000000100000000010203040000000000000029"
#define V152                                                                           \
    "0046414a0000000000000001000000020000000000000002000000050000c7030000000000003010" \
    "1111222233334444ffffffff000000005555666677778888ffffffffffffffff"
#define V153 "001e414b00000000000000030000000200000000000000055555666677778888"
#define V156                                                                           \
    "0046414a0000000000000001000000010000000000000000000000060000c7030000000000003004" \
    "000000000000000100000000000000000000000000000000ffffffffffffffff"
#define V157                                                                           \
    "0046414a0000000000000001000000010000000000000001000000070000c7030000000000003008" \
    "0000000000000001ffffffffffffffff0000000000000000ffffffffffffffff"
#define V159 \
    "002a4147000000000000000200000001000000000207c0000046414a00000000000000010000000100000000"

/* The response that is due, held against a vector. */
static void expect_answer(struct kit *k, const char *fpdu)
{
    static uint8_t want[KIT_ULPDU];
    uint8_t got[DDP_HDR_MAX + RDMAP_ATOMIC_RESPONSE_LEN], payload[RDMAP_ATOMIC_RESPONSE_LEN];
    struct ddp_msg m;
    uint32_t hlen, n = kit_unhex(fpdu, want);
    assert_true(rdmap_irq_head(&k->st)->is_atomic);
    assert_true(rdmap_tx_atomic_response(&k->st, &k->mem, &m, payload));
    uint32_t plen = ddp_tx_next(&m, 128, got, &hlen);
    assert_true(m.done);
    memcpy(got + hlen, payload, plen);
    assert_int_equal(hlen + plen, n);
    assert_memory_equal(got, want, n);
    rdmap_irq_pop(&k->st);
}

/* --- requests --- */

/* proves: EXT-7306-5.2.2-01 EXT-7306-5.2.2-02 EXT-7306-5.2.2-03 EXT-7306-5.2.2-08 EXT-7306-5-02
 * EXT-7306-5-04 EXT-7306-5.2-01 EXT-7306-5.2-03 EXT-7306-5.2.1-03 EXT-7306-5.2.1-09
 * EXT-7306-5.2.1-10 EXT-7306-5.2.1-14 EXT-7306-5.2.1-15 EXT-7306-5.1.1-06 EXT-7306-4-02
 * EXT-7306-4-03 EXT-7306-5.4-05 EXT-7306-5.4-08 EXT-7306-4.1-03 */
static void requests_as_in_the_vectors(void **state)
{
    (void)state;
    struct kit k;
    kit_init_ext(&k, 2);
    assert_int_equal(kit_feed_hex(&k, V150).kind, RDMAP_RX_ATOMIC_REQUEST);
    assert_true(word(&k, 8) == 41); /* not before its response is made */
    assert_int_equal(kit_feed_hex(&k, V152).kind, RDMAP_RX_ATOMIC_REQUEST);
    expect_answer(&k, V151);
    assert_true(word(&k, 8) == 42);
    assert_true(word(&k, 16) == 0x5555666677778888);
    expect_answer(&k, V153);
    assert_true(word(&k, 16) == 0x1111222277778888);
    assert_int_equal(k.recvs, 1000);
    assert_false(rdmap_irq_pending(&k.st));
    kit_free(&k);
}

/* An Atomic Request with that MSN, at an offset of KIT_WORDS. */
static struct rdmap_rx_event feed_atomic(struct kit *k, uint32_t msn,
                                         const struct rdmap_atomic_request *r)
{
    uint8_t ulpdu[DDP_UNTAGGED_LEN + RDMAP_ATOMIC_REQUEST_LEN];
    const struct ddp_hdr h = {
        .last = true, .version = DDP_VERSION, .ulp = 0x4a, .qn = 1, .msn = msn};
    ddp_hdr_pack(&h, ulpdu);
    rdmap_atomic_request_pack(r, ulpdu + DDP_UNTAGGED_LEN);
    return kit_feed(k, ulpdu, sizeof ulpdu);
}

static struct rdmap_rx_event feed_read(struct kit *k, uint32_t msn)
{
    uint8_t ulpdu[DDP_UNTAGGED_LEN + RDMAP_READ_REQUEST_LEN];
    const struct ddp_hdr h = {
        .last = true, .version = DDP_VERSION, .ulp = 0x41, .qn = 1, .msn = msn};
    const struct rdmap_read_request r = {.sink_stag = 9,
                                         .sink_to = msn,
                                         .len = 8,
                                         .src_stag = KIT_WORDS,
                                         .src_to = KIT_WORDS_TO + 8};
    ddp_hdr_pack(&h, ulpdu);
    rdmap_read_request_pack(&r, ulpdu + DDP_UNTAGGED_LEN);
    return kit_feed(k, ulpdu, sizeof ulpdu);
}

/* proves: EXT-7306-5.4-09 EXT-7306-5.4-08 EXT-7306-5.2-02 EXT-7306-5.2.1-08 EXT-7306-5.2.2-04 */
static void reads_and_atomics_in_one_queue(void **state)
{
    (void)state;
    struct kit k;
    kit_init_ext(&k, 4);
    const struct rdmap_atomic_request one = {
        .op = RDMAP_FETCH_ADD, .id = 7, .stag = KIT_WORDS, .to = KIT_WORDS_TO + 8, .data = 1};
    assert_int_equal(feed_read(&k, 1).kind, RDMAP_RX_READ_REQUEST);
    assert_int_equal(feed_atomic(&k, 2, &one).kind, RDMAP_RX_ATOMIC_REQUEST);
    assert_int_equal(feed_read(&k, 3).kind, RDMAP_RX_READ_REQUEST);
    assert_int_equal(feed_atomic(&k, 4, &one).kind, RDMAP_RX_ATOMIC_REQUEST);
    for (uint32_t i = 0; i < 4; i++) {
        struct ddp_msg m;
        struct mspan src;
        uint8_t payload[RDMAP_ATOMIC_RESPONSE_LEN];
        bool atomic = i % 2 != 0;
        assert_int_equal(rdmap_irq_head(&k.st)->is_atomic, atomic);
        if (atomic) {
            assert_false(rdmap_tx_response(&k.st, &k.mem, &m, &src));
            assert_true(rdmap_tx_atomic_response(&k.st, &k.mem, &m, payload));
            assert_int_equal(m.msn, 1 + i / 2); /* queue 3 counts for itself */
            assert_true(get_be64(payload + 4) == 41 + i / 2);
        } else {
            assert_false(rdmap_tx_atomic_response(&k.st, &k.mem, &m, payload));
            assert_true(rdmap_tx_response(&k.st, &k.mem, &m, &src));
            assert_true(word(&k, 8) == 41 + i / 2);
        }
        rdmap_irq_pop(&k.st);
    }
    assert_false(k.st.dead);
    kit_free(&k);
}

/* proves: EXT-7306-5.2-02 EXT-7306-5.2.1-08 RDMAP-5040-6.1-05 */
static void atomics_beyond_ird(void **state)
{
    (void)state;
    const struct rdmap_atomic_request one = {.stag = KIT_WORDS, .to = KIT_WORDS_TO + 8, .data = 1};
    for (uint32_t ird = 0; ird < 4; ird++) {
        struct kit k;
        kit_init_ext(&k, ird);
        for (uint32_t i = 1; i <= ird; i++) {
            enum rdmap_rx_kind kind =
                i % 2 == 0 ? feed_read(&k, i).kind : feed_atomic(&k, i, &one).kind;
            assert_int_not_equal(kind, RDMAP_RX_FAULT);
        }
        struct rdmap_rx_event ev = feed_atomic(&k, ird + 1, &one);
        kit_expect_fault(&k, &ev, verdict_bad(0, 2, 7));
        assert_true(word(&k, 8) == 41);
        kit_free(&k);
    }
}

/* proves: EXT-7306-5.1.1-02 EXT-7306-5.1.1-03 EXT-7306-5.1.2-03 EXT-7306-5.1.2-04
 * EXT-7306-8.2-04 EXT-7306-8.1-02 */
static void misaligned(void **state)
{
    (void)state;
    struct kit k;
    kit_init_ext(&k, 2);
    uint8_t payload[RDMAP_ATOMIC_RESPONSE_LEN];
    struct ddp_msg m;
    assert_int_equal(kit_feed_hex(&k, V156).kind, RDMAP_RX_ATOMIC_REQUEST);
    assert_false(rdmap_tx_atomic_response(&k.st, &k.mem, &m, payload));
    assert_true(k.st.dead);
    kit_expect_terminate(&k, V159);
    assert_true(word(&k, 8) == 41);
    kit_free(&k);
    for (uint64_t off = 0; off < 24; off++) {
        const struct rdmap_atomic_request r = {.op =
                                                   off % 2 == 0 ? RDMAP_CMP_SWAP : RDMAP_FETCH_ADD,
                                               .stag = KIT_WORDS,
                                               .to = KIT_WORDS_TO + 0x20 + off,
                                               .data = UINT64_MAX,
                                               .mask = UINT64_MAX};
        kit_init_ext(&k, 1);
        feed_atomic(&k, 1, &r);
        bool good = rdmap_tx_atomic_response(&k.st, &k.mem, &m, payload);
        assert_int_equal(good, off % 8 == 0);
        assert_int_equal(verdict_is(k.st.fault, 0, 2, 7), !good);
        if (!good) {
            for (uint32_t i = 0x20; i < 0x40; i++) {
                assert_int_equal(kit_region(&k, KIT_WORDS)->base[i], KIT_FILL);
            }
        }
        kit_free(&k);
    }
}

/* The offset may be odd if the memory is not: the address is what counts. */
/* proves: EXT-7306-5.2.1-04 EXT-7306-5.2.1-05 */
static void alignment_is_of_the_address(void **state)
{
    (void)state;
    for (uint64_t shift = 0; shift < 8; shift++) {
        struct kit k;
        struct ddp_msg m;
        uint8_t payload[RDMAP_ATOMIC_RESPONSE_LEN];
        kit_init_ext(&k, 1);
        kit_region(&k, KIT_WORDS)->to += shift;
        const struct rdmap_atomic_request r = {
            .stag = KIT_WORDS, .to = KIT_WORDS_TO + 8 + shift, .data = 1};
        feed_atomic(&k, 1, &r);
        assert_true(rdmap_tx_atomic_response(&k.st, &k.mem, &m, payload));
        assert_true(word(&k, 8) == 42);
        kit_free(&k);
    }
}

/* proves: EXT-7306-8.2-05 EXT-7306-8.1-02 RDMAP-5040-8.1.1-01 RDMAP-5040-8.1.1-02
 * RDMAP-5040-8.1.1-05 */
static void atomic_protection(void **state)
{
    (void)state;
    static const struct {
        uint32_t stag;
        uint64_t to;
        uint32_t rights;
        uint8_t code;
    } bad[] = {
        {0xdeadbe01, 0, DDP_REMOTE_ATOMIC, 0},
        {0, 0, DDP_REMOTE_ATOMIC, 0},
        {KIT_WORDS, KIT_WORDS_TO - 8, DDP_REMOTE_ATOMIC, 1},
        {KIT_WORDS, KIT_WORDS_TO - 1, DDP_REMOTE_ATOMIC, 1},
        {KIT_WORDS, KIT_WORDS_TO + 0x1000, DDP_REMOTE_ATOMIC, 1},
        {KIT_WORDS, KIT_WORDS_TO + 0xffc, DDP_REMOTE_ATOMIC, 1}, /* bounds before alignment */
        {KIT_WORDS, KIT_WORDS_TO + 8, 0, 2},
        {KIT_WORDS, KIT_WORDS_TO + 8, KIT_RW, 2},
        {KIT_WORDS, KIT_WORDS_TO + 8, KIT_RW | DDP_LOCAL_WRITE, 2},
        {0xa601, 0, 0, 3},
        {0xd8060003, 0, 0, 3},
        {KIT_WORDS, UINT64_MAX - 3, DDP_REMOTE_ATOMIC, 4},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct kit k;
        struct ddp_msg m;
        uint8_t payload[RDMAP_ATOMIC_RESPONSE_LEN], term[DDP_HDR_MAX + RDMAP_TERM_MAX];
        kit_init_ext(&k, 1);
        kit_region(&k, KIT_WORDS)->rights = bad[i].rights;
        const struct rdmap_atomic_request r = {.stag = bad[i].stag, .to = bad[i].to, .data = 1};
        feed_atomic(&k, 1, &r);
        assert_false(rdmap_tx_atomic_response(&k.st, &k.mem, &m, payload));
        assert_true(verdict_is(k.st.fault, 0, 1, bad[i].code));
        /* M and D, but no RDMA header */
        assert_int_equal(kit_terminate(&k, term), DDP_HDR_MAX + 4 + 2 + DDP_UNTAGGED_LEN);
        assert_int_equal(term[DDP_HDR_MAX + 2], 0xc0);
        assert_int_equal(get_be16(term + DDP_HDR_MAX + 4), 70);
        assert_true(word(&k, 8) == 41);
        kit_free(&k);
    }
}

/* proves: EXT-7306-5.2.1-11 EXT-7306-10-01 */
static void unknown_operations(void **state)
{
    (void)state;
    struct kit k;
    kit_init_ext(&k, 2);
    struct rdmap_rx_event ev = kit_feed_hex(&k, V157);
    kit_expect_fault(&k, &ev, verdict_bad(0, 2, 6));
    assert_true(word(&k, 8) == 41);
    kit_free(&k);
    for (uint8_t op = 0; op < 16; op++) {
        kit_init_ext(&k, 2);
        const struct rdmap_atomic_request r = {.op = op, .stag = KIT_WORDS, .to = KIT_WORDS_TO + 8};
        ev = feed_atomic(&k, 1, &r);
        if (op == RDMAP_FETCH_ADD || op == RDMAP_CMP_SWAP) {
            assert_int_equal(ev.kind, RDMAP_RX_ATOMIC_REQUEST);
        } else {
            kit_expect_fault(&k, &ev, verdict_bad(0, 2, 6));
            assert_false(rdmap_irq_pending(&k.st));
        }
        kit_free(&k);
    }
}

/* proves: EXT-7306-5.2.1-01 EXT-7306-5.2.1-06 EXT-7306-4.1-03 */
static void what_receivers_ignore(void **state)
{
    (void)state;
    struct kit k;
    struct ddp_msg m;
    uint8_t payload[RDMAP_ATOMIC_RESPONSE_LEN];
    kit_init_ext(&k, 1);
    /* V150 with reserved bits, an Invalidate STag and garbage to compare with */
    assert_int_equal(kit_feed_hex(&k,
                                  "0046417ad8040001000000010000000100000000fffffff0010203040000c703"
                                  "0000000000003008000000000000000100000000000000001122334455667788"
                                  "99aabbccddeeff00")
                         .kind,
                     RDMAP_RX_ATOMIC_REQUEST);
    assert_true(rdmap_tx_atomic_response(&k.st, &k.mem, &m, payload));
    assert_true(word(&k, 8) == 42);
    assert_true(kit_region(&k, 0xd8040001)->valid);
    kit_free(&k);
}

/* proves: EXT-7306-4-02 EXT-7306-4-03 DDP-5041-7.1-04 EXT-7306-5.2.2-07 */
static void lengths_of_atomics(void **state)
{
    (void)state;
    for (uint32_t n = 0; n <= 80; n++) {
        for (int last = 0; last < 2; last++) {
            struct kit k;
            kit_init_ext(&k, 1);
            struct ddp_hdr h = {.last = last != 0, .ulp = 0x4a, .qn = 1, .msn = 1};
            struct rdmap_rx_event ev = kit_feed_seg(&k, h, n);
            if (n < 52) {
                kit_expect_fault(&k, &ev, verdict_bad(2, 0, 3));
            } else if (n > 52 || last == 0) {
                kit_expect_fault(&k, &ev, verdict_bad(1, 2, 5));
            } else {
                kit_expect_fault(&k, &ev, verdict_bad(0, 2, 6)); /* the pattern's AOpCode */
            }
            kit_free(&k);
            kit_init_ext(&k, 1);
            h = (struct ddp_hdr){.last = last != 0, .ulp = 0x4b, .qn = 3, .msn = 1};
            ev = kit_feed_seg(&k, h, n);
            if (n < 12) {
                kit_expect_fault(&k, &ev, verdict_bad(2, 0, 3));
            } else if (n > 12 || last == 0) {
                kit_expect_fault(&k, &ev, verdict_bad(1, 2, 5));
            } else {
                kit_expect_fault(&k, &ev, verdict_bad(0, 2, 6)); /* nobody asked */
            }
            kit_free(&k);
        }
    }
}

/* proves: EXT-7306-8.2-01 EXT-7306-8.2-02 EXT-7306-8.2-03 EXT-7306-10-02 */
static void headers_of_the_new_messages(void **state)
{
    (void)state;
    static const struct {
        struct ddp_hdr h;
        uint32_t n;
        uint8_t layer, type, code;
    } bad[] = {
        {{.last = true, .ulp = 0x4a, .qn = 0, .msn = 1}, 52, 0, 2, 6},
        {{.last = true, .ulp = 0x4a, .qn = 3, .msn = 1}, 12, 0, 2, 6},
        {{.last = true, .ulp = 0x4b, .qn = 1, .msn = 1}, 12, 0, 2, 6},
        {{.last = true, .ulp = 0x48, .qn = 1, .msn = 1}, 8, 0, 2, 6},
        {{.last = true, .ulp = 0x48, .qn = 3, .msn = 1}, 8, 0, 2, 6},
        {{.last = true, .ulp = 0x43, .qn = 3, .msn = 1}, 8, 0, 2, 6},
        {{.tagged = true, .last = true, .ulp = 0x4a, .stag = 0xa501}, 52, 0, 2, 6},
        {{.tagged = true, .last = true, .ulp = 0x48, .stag = 0xa501}, 8, 0, 2, 6},
        {{.last = true, .ulp = 0x4c, .msn = 1}, 8, 0, 2, 6},
        {{.last = true, .ulp = 0x4d, .qn = 1, .msn = 1}, 8, 0, 2, 6},
        {{.last = true, .ulp = 0x4e, .qn = 3, .msn = 1}, 8, 0, 2, 6},
        {{.last = true, .ulp = 0x08, .msn = 1}, 8, 0, 2, 5},
        {{.last = true, .ulp = 0x8a, .qn = 1, .msn = 1}, 52, 0, 2, 5},
        {{.last = true, .ulp = 0x4b, .qn = 4, .msn = 1}, 12, 1, 2, 1},
        {{.last = true, .ulp = 0x4a, .qn = 1, .msn = 2}, 52, 1, 2, 3},
        {{.last = true, .ulp = 0x4b, .qn = 3, .msn = 2}, 12, 1, 2, 3},
        {{.last = true, .ulp = 0x4b, .qn = 3, .msn = 1, .mo = 4}, 12, 1, 2, 4},
        {{.last = true, .ulp = 0x48, .msn = 1, .mo = 8}, 8, 1, 2, 4},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct kit k;
        kit_init_ext(&k, 2);
        struct rdmap_rx_event ev = kit_feed_seg(&k, bad[i].h, bad[i].n);
        assert_int_equal(ev.kind, RDMAP_RX_FAULT);
        if (!verdict_is(k.st.fault, bad[i].layer, bad[i].type, bad[i].code)) {
            fail_msg("row %zu: %u/%u/%02x", i, k.st.fault.layer, k.st.fault.type, k.st.fault.code);
        }
        kit_free(&k);
    }
}

/* --- the initiator --- */

/* proves: EXT-7306-5.2-01 EXT-7306-5.2.1-07 EXT-7306-5.2.1-12 EXT-7306-4.1-01 EXT-7306-4.1-02
 * EXT-7306-4.1-03 EXT-7306-4.1-04 EXT-7306-4.1-05 EXT-7306-5.2.1-06 */
static void atomics_are_sent(void **state)
{
    (void)state;
    struct kit k;
    kit_init_ext(&k, 1);
    struct ddp_msg m;
    uint8_t payload[RDMAP_ATOMIC_REQUEST_LEN];
    const struct rdmap_atomic_request r = {.op = RDMAP_FETCH_ADD,
                                           .stag = KIT_WORDS,
                                           .to = KIT_WORDS_TO + 8,
                                           .data = 1,
                                           .compare_mask = UINT64_MAX};
    rdmap_tx_atomic(&k.st, &r, 77, &m, payload);
    kit_expect_segment(
        &m, payload, /* V150, with the MSN as identifier */
        "0046414a0000000000000001000000010000000000000000000000010000c7030000000000003008"
        "000000000000000100000000000000000000000000000000ffffffffffffffff");
    struct rdmap_read_request read = {.len = 8, .sink_stag = 0xb602, .sink_to = 0x2000};
    rdmap_tx_read(&k.st, &read, 78, &m, payload);
    assert_int_equal(m.msn, 2); /* one queue, one count */
    const struct rdmap_atomic_request s = {.op = RDMAP_CMP_SWAP,
                                           .stag = KIT_WORDS,
                                           .to = KIT_WORDS_TO + 16,
                                           .data = 0x1111222233334444,
                                           .mask = 0xffffffff00000000,
                                           .compare = 0x5555666677778888,
                                           .compare_mask = UINT64_MAX};
    rdmap_tx_atomic(&k.st, &s, 79, &m, payload);
    kit_expect_segment(
        &m, payload,
        "0046414a0000000000000001000000030000000000000002000000030000c7030000000000003010"
        "1111222233334444ffffffff000000005555666677778888ffffffffffffffff");
    assert_int_equal(k.st.orq.cnt, 3);
    kit_free(&k);
}

static struct rdmap_rx_event feed_answer(struct kit *k, uint32_t msn, uint32_t id, uint64_t value)
{
    uint8_t ulpdu[DDP_UNTAGGED_LEN + RDMAP_ATOMIC_RESPONSE_LEN];
    const struct ddp_hdr h = {
        .last = true, .version = DDP_VERSION, .ulp = 0x4b, .qn = 3, .msn = msn};
    const struct rdmap_atomic_response r = {.id = id, .original = value};
    ddp_hdr_pack(&h, ulpdu);
    rdmap_atomic_response_pack(&r, ulpdu + DDP_UNTAGGED_LEN);
    return kit_feed(k, ulpdu, sizeof ulpdu);
}

static uint32_t ask(struct kit *k, uint32_t user)
{
    struct ddp_msg m;
    uint8_t payload[RDMAP_ATOMIC_REQUEST_LEN];
    const struct rdmap_atomic_request r = {.stag = KIT_WORDS, .to = KIT_WORDS_TO + 8, .data = 1};
    rdmap_tx_atomic(&k->st, &r, user, &m, payload);
    return get_be32(payload + 4);
}

static void ask_read(struct kit *k)
{
    struct ddp_msg m;
    uint8_t payload[RDMAP_READ_REQUEST_LEN];
    const struct rdmap_read_request r = {.len = 8, .sink_stag = 0xb602, .sink_to = 0x2000};
    rdmap_tx_read(&k->st, &r, 0, &m, payload);
}

/* proves: EXT-7306-5-05 EXT-7306-5.2.2-05 EXT-7306-5.2.2-06 EXT-7306-5.4-01 EXT-7306-5.4-07 */
static void answers_complete_in_order(void **state)
{
    (void)state;
    struct kit k;
    kit_init_ext(&k, 1);
    uint32_t id[KIT_QUEUE];
    for (uint32_t i = 0; i < KIT_QUEUE; i++) {
        assert_true(rdmap_orq_room(&k.st));
        id[i] = ask(&k, 100 + i);
    }
    assert_false(rdmap_orq_room(&k.st));
    for (uint32_t i = 0; i < KIT_QUEUE; i++) {
        struct rdmap_rx_event ev = feed_answer(&k, i + 1, id[i], 0x1122334455667788 + i);
        assert_int_equal(ev.kind, RDMAP_RX_ATOMIC_RESPONSE);
        assert_true(ev.original == UINT64_C(0x1122334455667788) + i);
        assert_true(rdmap_orq_head(&k.st)->user == 100 + i);
        rdmap_orq_pop(&k.st);
    }
    assert_null(rdmap_orq_head(&k.st));
    kit_free(&k);
}

/* proves: EXT-7306-5.2.2-07 RDMAP-5040-5.2.2-04 */
static void answers_that_do_not_fit(void **state)
{
    (void)state;
    struct kit k;
    kit_init_ext(&k, 1);
    struct rdmap_rx_event ev = feed_answer(&k, 1, 1, 0); /* nobody asked */
    kit_expect_fault(&k, &ev, verdict_bad(0, 2, 6));
    kit_free(&k);
    kit_init_ext(&k, 1);
    ev = feed_answer(&k, 1, ask(&k, 1) + 1, 0); /* another identifier */
    kit_expect_fault(&k, &ev, verdict_bad(0, 2, 6));
    kit_free(&k);
    kit_init_ext(&k, 1);
    ask_read(&k);
    ev = feed_answer(&k, 1, ask(&k, 1), 0); /* before the Read that was asked for first */
    kit_expect_fault(&k, &ev, verdict_bad(0, 2, 6));
    kit_free(&k);
    kit_init_ext(&k, 1);
    uint32_t first = ask(&k, 1), second = ask(&k, 2);
    ev = feed_answer(&k, 1, second, 0);
    kit_expect_fault(&k, &ev, verdict_bad(0, 2, 6));
    assert_int_not_equal(first, second);
    kit_free(&k);
    kit_init_ext(&k, 1);
    ask(&k, 1);
    ask_read(&k);
    ev = kit_feed_seg(&k, kit_tagged_hdr(RDMAP_READ_RESPONSE, 0xb602, 0x2000, true), 8);
    kit_expect_fault(&k, &ev, verdict_bad(0, 2, 6));
    assert_true(kit_is_filled(kit_region(&k, 0xb602)));
    kit_free(&k);
}

/* --- bits flipped --- */

/* proves: EXT-7306-8.2-05 RDMAP-5040-8.1.1-03 SEC-5042-6.2.1-01 EXT-7306-8.2-01 */
static void any_flipped_bit(void **state)
{
    (void)state;
    static const char *const valid[] = {V150, V151,
                                        "001a414800000000000000000000000100000000494d4d2d44415441"};
    for (size_t i = 0; i < ARRAY_LEN(valid); i++) {
        static uint8_t ulpdu[KIT_ULPDU];
        uint32_t n = kit_unhex(valid[i], ulpdu);
        for (uint32_t bit = 0; bit < n * 8; bit++) {
            struct kit k;
            struct ddp_msg m;
            struct mspan src;
            uint8_t payload[RDMAP_ATOMIC_RESPONSE_LEN];
            kit_init_ext(&k, 1);
            ask(&k, 1);
            k.open[0].msn = 0x01020304;
            ulpdu[bit / 8] ^= (uint8_t)(1 << bit % 8);
            struct rdmap_rx_event ev = kit_feed(&k, ulpdu, n);
            ulpdu[bit / 8] ^= (uint8_t)(1 << bit % 8);
            if (ev.kind == RDMAP_RX_ATOMIC_REQUEST) {
                rdmap_tx_atomic_response(&k.st, &k.mem, &m, payload);
            } else if (ev.kind == RDMAP_RX_READ_REQUEST) {
                rdmap_tx_response(&k.st, &k.mem, &m, &src);
            }
            for (uint32_t r = 0; r < k.regions; r++) {
                const struct ddp_mem *mem = &k.r[r].m;
                assert_true(mem->stag == KIT_WORDS || mem->stag == 0xa501 || kit_is_filled(mem));
            }
            kit_free(&k);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_as_in_the_vectors),
        cmocka_unit_test(reads_and_atomics_in_one_queue),
        cmocka_unit_test(atomics_beyond_ird),
        cmocka_unit_test(misaligned),
        cmocka_unit_test(alignment_is_of_the_address),
        cmocka_unit_test(atomic_protection),
        cmocka_unit_test(unknown_operations),
        cmocka_unit_test(what_receivers_ignore),
        cmocka_unit_test(lengths_of_atomics),
        cmocka_unit_test(headers_of_the_new_messages),
        cmocka_unit_test(atomics_are_sent),
        cmocka_unit_test(answers_complete_in_order),
        cmocka_unit_test(answers_that_do_not_fit),
        cmocka_unit_test(any_flipped_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
