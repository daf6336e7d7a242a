/* SPDX-License-Identifier: MIT */
#include "test_rdmap_kit.h"

/* The octets behind the DDP header of a Terminate's FPDU in hex. */
static uint32_t payload_of(const char *fpdu, uint8_t *out)
{
    static uint8_t ulpdu[KIT_ULPDU];
    uint32_t n = kit_unhex(fpdu, ulpdu);
    assert_true(n >= DDP_UNTAGGED_LEN);
    memcpy(out, ulpdu + DDP_UNTAGGED_LEN, n - DDP_UNTAGGED_LEN);
    return n - DDP_UNTAGGED_LEN;
}

/* Unpacks n octets from a heap block of their own. */
static bool unpack(const uint8_t *p, uint32_t n, struct rdmap_term *t)
{
    uint8_t *copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    if (n > 0) {
        memcpy(copy, p, n);
    }
    struct span whole = {copy, n};
    bool ok = rdmap_term_unpack(cursor_of(&whole, 1), t);
    free(copy);
    return ok;
}

static void expect_verdict(const struct rdmap_term *t, unsigned layer, unsigned type, unsigned code)
{
    assert_true(t->v.bad);
    assert_int_equal(t->v.layer, layer);
    assert_int_equal(t->v.type, type);
    assert_int_equal(t->v.code, code);
}

/* V110 to V136 as octets: packed from a verdict and a segment, and unpacked again. */
static const struct {
    uint8_t layer, type, code;
    const char *fpdu;
} vectors[] = {
    {1, 1, 0x00,
     "00264147000000000000000200000001000000001100c000001ac140deadbe010000000000000000"},
    {1, 1, 0x01,
     "00264147000000000000000200000001000000001101c0000010c1400000a5010000000000010fff"},
    {1, 1, 0x02,
     "00264147000000000000000200000001000000001102c0000016c1400000a6010000000000010000"},
    {1, 1, 0x03,
     "00264147000000000000000200000001000000001103c0000010c1400000a501ffffffffffffffff"},
    {1, 1, 0x04,
     "00264147000000000000000200000001000000001104c0000011c2400000a5010000000000010000"},
    {1, 2, 0x01,
     "002a4147000000000000000200000001000000001201c0000015414300000000000000050000000100000000"},
    {1, 2, 0x02,
     "002a4147000000000000000200000001000000001202c000001b414300000000000000000000000100000000"},
    {1, 2, 0x03,
     "002a4147000000000000000200000001000000001203c0000016414300000000000000000000000300000000"},
    {1, 2, 0x04,
     "002a4147000000000000000200000001000000001204c0000018414300000000000000000000000100001000"},
    {1, 2, 0x05,
     "002a4147000000000000000200000001000000001205c0000413414300000000000000000000000100000000"},
    {1, 2, 0x06,
     "002a4147000000000000000200000001000000001206c0000015404300000000000000000000000100000000"},
    {0, 1, 0x00,
     "00464147000000000000000200000001000000000100e000002e414100000000000000010000000100000000"
     "0000b602000000000000200000000040deadbe030000000000000000"},
    {0, 1, 0x01,
     "00464147000000000000000200000001000000000101e000002e414100000000000000010000000100000000"
     "0000b602000000000000200000001001"
     "0000c7030000000000003000"},
    {0, 1, 0x02,
     "00464147000000000000000200000001000000000102e000002e414100000000000000010000000100000000"
     "0000b602000000000000200000000008"
     "0000c7040000000000005000"},
    {0, 1, 0x04,
     "00464147000000000000000200000001000000000104e000002e414100000000000000010000000100000000"
     "0000b602000000000000200000000200"
     "0000c703ffffffffffffff00"},
    {0, 2, 0x09,
     "002a4147000000000000000200000001000000000209c00000194144deadbe02000000000000000100000000"},
    {0, 2, 0x05,
     "002a4147000000000000000200000001000000000205c0000015410300000000000000000000000100000000"},
    {0, 2, 0x06,
     "002a4147000000000000000200000001000000000206c000001a414f00000000000000000000000100000000"},
    {0, 0, 0x00, "001641470000000000000002000000010000000000000000"},
    {1, 0, 0x00, "001641470000000000000002000000010000000010000000"},
    {2, 0, 0x02, "001641470000000000000002000000010000000020020000"},
    {2, 0, 0x03, "001641470000000000000002000000010000000020030000"},
    {2, 0, 0x05, "001641470000000000000002000000010000000020050000"},
    {2, 0, 0x06, "001641470000000000000002000000010000000020060000"},
    {2, 0, 0x07, "001641470000000000000002000000010000000020070000"},
    {0, 2, 0x07,
     "002a4147000000000000000200000001000000000207c000002e414100000000000000010000000300000000"},
};

/* proves: RDMAP-5040-4.8-01 RDMAP-5040-4.8-02 RDMAP-5040-4.8-09 RDMAP-5040-4.8-10
 * RDMAP-5040-4.8-11 RDMAP-5040-4.8-13 RDMAP-5040-5.4-05 */
static void unpack_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        uint8_t p[64];
        uint32_t n = payload_of(vectors[i].fpdu, p);
        struct rdmap_term t;
        assert_true(unpack(p, n, &t));
        expect_verdict(&t, vectors[i].layer, vectors[i].type, vectors[i].code);
        assert_false(t.host_order);
        assert_int_equal(t.m, n > 4);
        assert_int_equal(t.d, n > 4);
        assert_int_equal(t.r, n == 52);
        assert_int_equal(t.has_read, n == 52);
        if (n > 4) {
            assert_int_equal(t.seg_len, get_be16(p + 4));
            assert_int_equal(t.ddp_len, (p[6] & 0x80) != 0 ? 14 : 18);
            assert_memory_equal(t.ddp, p + 6, t.ddp_len);
        }
        if (n == 52) {
            assert_memory_equal(t.read, p + 24, RDMAP_READ_REQUEST_LEN);
        }
    }
}

/* proves: RDMAP-5040-4.8-01 RDMAP-5040-4.8-02 RDMAP-5040-4.8-03 RDMAP-5040-4.8-04
 * RDMAP-5040-4.8-05 RDMAP-5040-4.8-06 RDMAP-5040-4.8-07 RDMAP-5040-4.8-11 RDMAP-5040-4.8-13
 * REG-6580-3.1-01 REG-6580-3.2-01 */
static void pack_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        uint8_t want[64], got[RDMAP_TERM_MAX];
        uint32_t n = payload_of(vectors[i].fpdu, want);
        struct rdmap_term t;
        assert_true(unpack(want, n, &t));
        struct rdmap_cause c = {.ddp_len = t.ddp_len, .seg_len = t.seg_len, .has_read = t.has_read};
        memcpy(c.ddp, t.ddp, sizeof(c.ddp));
        memcpy(c.read, t.read, sizeof(c.read));
        struct verdict v = verdict_bad(vectors[i].layer, vectors[i].type, vectors[i].code);
        assert_int_equal(rdmap_term_pack(v, &c, got), n);
        assert_memory_equal(got, want, n);
    }
}

/* What goes with a verdict when all of a Read Request is known: 4 none, 24 M D, 52 M D R. */
static uint32_t length_with_everything(unsigned layer, unsigned type, unsigned code)
{
    if (layer == 2 || type == 0) {
        return 4;
    }
    return layer == 0 && type == 1 && code <= 4 ? 52 : 24;
}

/* proves: RDMAP-5040-4.8-12 RDMAP-5040-4.8-14 RDMAP-5040-4.8-18 RDMAP-5040-4.8-19
 * RDMAP-5040-4.8-20 RDMAP-5040-4.8-21 RDMAP-5040-4.8-22 RDMAP-5040-7.1-02 */
static void which_headers_go_along(void **state)
{
    (void)state;
    struct rdmap_cause all = {.ddp = {0x41, 0x41}, .ddp_len = 18, .seg_len = 46, .has_read = true};
    struct rdmap_cause write = {.ddp = {0xc1, 0x40}, .ddp_len = 14, .seg_len = 20};
    struct rdmap_cause nothing = {.ddp_len = 0, .has_read = true};
    for (unsigned layer = 0; layer < 3; layer++) {
        for (unsigned type = 0; type < 4; type++) {
            for (unsigned code = 0; code < 256; code++) {
                uint8_t out[RDMAP_TERM_MAX];
                struct verdict v = verdict_bad(layer, type, code);
                uint32_t n = length_with_everything(layer, type, code);
                assert_int_equal(rdmap_term_pack(v, &all, out), n);
                assert_int_equal(out[0], layer << 4 | type);
                assert_int_equal(out[1], code);
                assert_int_equal(out[2], n == 4 ? 0 : n == 24 ? 0xc0 : 0xe0);
                assert_int_equal(out[3], 0);
                assert_int_equal(rdmap_term_pack(v, &write, out), n == 4 ? 4 : 20);
                assert_int_equal(out[2], n == 4 ? 0 : 0xc0);
                assert_int_equal(rdmap_term_pack(v, &nothing, out), 4);
                assert_int_equal(rdmap_term_pack(v, NULL, out), 4);
            }
        }
    }
}

/* proves: RDMAP-5040-4.8-08 RDMAP-5040-4.8-17 */
static void reserved_bits_and_any_local_code(void **state)
{
    (void)state;
    uint8_t p[64];
    uint32_t n = payload_of(vectors[0].fpdu, p);
    p[2] |= 0x1f;
    p[3] = 0xff;
    struct rdmap_term t;
    assert_true(unpack(p, n, &t));
    expect_verdict(&t, 1, 1, 0);
    assert_true(t.m && t.d && !t.r && !t.host_order);
    static const uint8_t bare[] = {0x20, 0x02, 0x1f, 0xff};
    assert_true(unpack(bare, 4, &t));
    expect_verdict(&t, 2, 0, 2);
    static const uint8_t local[] = {0x00, 0x5a, 0, 0};
    assert_true(unpack(local, 4, &t));
    expect_verdict(&t, 0, 0, 0x5a);
}

/* proves: REG-6580-3.1-02 RDMAP-5040-5.4-06 */
static void unregistered_values_are_reported(void **state)
{
    (void)state;
    static const uint8_t p[][4] = {{0x03, 0x77}, {0x0f, 0xff}, {0xff, 0x00}, {0x25, 0x01}};
    for (size_t i = 0; i < ARRAY_LEN(p); i++) {
        struct rdmap_term t;
        assert_true(unpack(p[i], 4, &t));
        expect_verdict(&t, p[i][0] >> 4, p[i][0] & 0xf, p[i][1]);
        assert_false(t.host_order);
    }
}

/* proves: RDMAP-5040-5.4-06 */
static void cut_short(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        uint8_t p[64];
        uint32_t whole = payload_of(vectors[i].fpdu, p);
        for (uint32_t n = 0; n < whole; n++) {
            struct rdmap_term t;
            assert_int_equal(unpack(p, n, &t), n >= 4);
            if (n < 2) {
                expect_verdict(&t, 0xf, 0xf, 0xff);
                assert_non_null(verdict_text(t.v));
            } else {
                expect_verdict(&t, vectors[i].layer, vectors[i].type, vectors[i].code);
            }
            uint32_t header = n > 6 ? ((p[6] & 0x80) != 0 ? 14 : 18) : 0;
            assert_int_equal(t.ddp_len, n >= 6 + header ? header : 0);
            assert_false(t.has_read);
        }
    }
}

/* Terminates of Linux siw (6.1), as captured; the name is that of the capture. */
static const struct {
    const char *name, *fpdu;
    uint8_t layer, type, code;
    uint8_t ddp_len;
    bool host_order, has_read;
} siw[] = {
    {"crc-term-read, frame 11",
     "004641470000000000000002000000010000000010000700000041410000000000000001000000640000000064d4"
     "d30000007ff5f791f000000000643966930000007f429c90d000",
     0, 1, 0x00, 18, true, true},
    {"term-read-oob, frame 11",
     "004641470000000000000002000000010000000010010700000041410000000000000001000003e800000000f044"
     "a60000007f132f0df000000003e822559d0000007f7ae72f4e0c",
     0, 1, 0x01, 18, true, true},
    {"term-read-pd, frame 9",
     "004641470000000000000002000000010000000010030700000041410000000000000001000000640000000056"
     "10330000007f1421c750000000006406dc3b0000007f8307b6c000",
     0, 1, 0x03, 18, true, true},
    {"term-write-oob, frame 11",
     "00264147000000000000000200000001000000001101030003e8c1406efcf20000007f308b308e0c", 1, 1, 0x01,
     14, true, false},
    {"term-send-nobuf, frame 9",
     "002a41470000000000000002000000010000000021020300000a414300000000000000000000000100000000", 1,
     2, 0x02, 18, true, false},
    {"crc-flip-payload, frame 9", "001641470000000000000002000000010000000002020000", 2, 0, 0x02, 0,
     true, false},
    {"crc-flip-header, frame 9",
     "002a4147000000000000000200000001000000002104030000644143000000000000000000000001"
     "01000000",
     1, 2, 0x04, 18, true, false},
    {"raw-length, frame 33", "001641470000000000000002000000010000000011040000", 1, 1, 0x04, 0,
     false, false},
    {"raw-srv-bad, frame 8", "001641470000000000000002000000010000000002040000", 2, 0, 0x04, 0,
     true, false},
    {"raw-tagged, frame 9: Write",
     "0026414700000000000000020000000100000000110003000010c140000012340000000000001000", 1, 1, 0x00,
     14, true, false},
    {"raw-tagged, frame 35: Read Response nobody asked for",
     "0026414700000000000000020000000100000000010003000010c142000012340000000000001000", 1, 0, 0x00,
     14, true, false},
    {"raw-tagged, frame 48",
     "002a414700000000000000020000000100000000210303000000414100000000000000010000000300000000", 1,
     2, 0x03, 18, true, false},
    {"raw-tagged, frame 86: untagged header under a tagged error",
     "002a414700000000000000020000000100000000110003000016414000000000000000000000000100000000", 1,
     1, 0x00, 18, true, false},
    {"raw-untagged, frame 9",
     "002a414700000000000000020000000100000000210103000012414300000000000000050000000100000000", 1,
     2, 0x01, 18, true, false},
    {"term-local-error, frame 8", "001641470000000000000002000000010000000000ff0000", 0, 0, 0xff, 0,
     false, false},
    /* Written as 2/0/06, but 0/2/06 without headers looks the same: the standard reading stands. */
    {"raw-srv-flags, frame 28", "001641470000000000000002000000010000000002060000", 0, 2, 0x06, 0,
     false, false},
};

/* proves: RDMAP-5040-5.4-05 */
static void unpack_siw(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(siw); i++) {
        uint8_t p[64];
        uint32_t n = payload_of(siw[i].fpdu, p);
        struct rdmap_term t;
        assert_true(unpack(p, n, &t));
        expect_verdict(&t, siw[i].layer, siw[i].type, siw[i].code);
        assert_int_equal(t.host_order, siw[i].host_order);
        assert_int_equal(t.ddp_len, siw[i].ddp_len);
        assert_int_equal(t.has_read, siw[i].has_read);
        if (t.ddp_len > 0) {
            assert_memory_equal(t.ddp, p + 6, t.ddp_len);
            assert_int_equal(t.seg_len, get_be16(p + 4));
        }
        if (t.has_read) {
            assert_memory_equal(t.read, p + 24, RDMAP_READ_REQUEST_LEN);
        }
        /* Octets that were not seen change nothing of what was. */
        for (uint32_t have = 4; have < n; have++) {
            struct rdmap_term part;
            struct span head = {p, have};
            assert_true(rdmap_term_unpack_part(cursor_of(&head, 1), n, &part));
            expect_verdict(&part, siw[i].layer, siw[i].type, siw[i].code);
            assert_int_equal(part.host_order, siw[i].host_order);
            assert_true(part.m == t.m && part.d == t.d && part.r == t.r);
            assert_true(part.ddp_len == 0 || part.ddp_len == t.ddp_len);
            assert_false(part.has_read);
        }
    }
}

/* The length field stands before the header also when it is not valid.
 * proves: RDMAP-5040-4.8-09 RDMAP-5040-4.8-10 */
static void header_without_a_length(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        uint8_t p[64];
        uint32_t n = payload_of(vectors[i].fpdu, p);
        struct rdmap_term t;
        if (n == 4) {
            continue;
        }
        p[2] &= 0x7f; /* M */
        assert_true(unpack(p, n, &t));
        expect_verdict(&t, vectors[i].layer, vectors[i].type, vectors[i].code);
        assert_true(t.d && !t.m);
        assert_int_equal(t.seg_len, 0);
        assert_int_equal(t.ddp_len, (p[6] & 0x80) != 0 ? 14 : 18);
        assert_memory_equal(t.ddp, p + 6, t.ddp_len);
        assert_int_equal(t.has_read, n == 52);
    }
}

/* siw sets R for each protection error, also where no Read Request follows. */
/* proves: RDMAP-5040-4.8-06 */
static void r_without_a_read(void **state)
{
    (void)state;
    uint8_t p[24] = {0x10, 0x09, 0x07, 0, 0, 25, 0x41, 0x44};
    struct rdmap_term t;
    assert_true(unpack(p, sizeof(p), &t));
    expect_verdict(&t, 0, 1, 9);
    assert_true(t.host_order && t.r && !t.has_read);
    assert_int_equal(t.ddp_len, 18);
    p[0] = 0x01;
    p[2] = 0xe0;
    assert_true(unpack(p, sizeof(p), &t));
    expect_verdict(&t, 0, 1, 9);
    assert_true(!t.host_order && t.r && !t.has_read);
}

/* All that one of our own ends may send is read in the standard way, never in siw's. */
/* proves: RDMAP-5040-4.8-02 */
static void ours_is_never_taken_for_siws(void **state)
{
    (void)state;
    struct rdmap_cause causes[] = {
        {.ddp_len = 0},
        {.ddp = {0xc1, 0x40}, .ddp_len = 14, .seg_len = 20},
        {.ddp = {0x41, 0x43}, .ddp_len = 18, .seg_len = 20},
        {.ddp = {0x41, 0x41}, .ddp_len = 18, .seg_len = 46, .has_read = true},
    };
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        for (size_t c = 0; c < ARRAY_LEN(causes); c++) {
            uint8_t out[RDMAP_TERM_MAX];
            struct verdict v = verdict_bad(vectors[i].layer, vectors[i].type, vectors[i].code);
            struct rdmap_term t;
            assert_true(unpack(out, rdmap_term_pack(v, &causes[c], out), &t));
            expect_verdict(&t, v.layer, v.type, v.code);
            assert_false(t.host_order);
        }
    }
}

/* proves: RDMAP-5040-5.4-06 */
static void any_octets_are_taken(void **state)
{
    (void)state;
    kit_seed();
    for (unsigned round = 0; round < 100000; round++) {
        uint8_t p[80];
        uint32_t n = (uint32_t)rand() % sizeof(p);
        for (uint32_t i = 0; i < n; i++) {
            p[i] = (uint8_t)(rand() >> 4);
        }
        struct rdmap_term t;
        assert_int_equal(unpack(p, n, &t), n >= 4);
        assert_true(t.v.bad);
        assert_non_null(verdict_text(t.v));
        assert_true(t.ddp_len == 0 || t.ddp_len == 14 || t.ddp_len == 18);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unpack_vectors),
        cmocka_unit_test(pack_vectors),
        cmocka_unit_test(which_headers_go_along),
        cmocka_unit_test(reserved_bits_and_any_local_code),
        cmocka_unit_test(unregistered_values_are_reported),
        cmocka_unit_test(cut_short),
        cmocka_unit_test(unpack_siw),
        cmocka_unit_test(header_without_a_length),
        cmocka_unit_test(r_without_a_read),
        cmocka_unit_test(ours_is_never_taken_for_siws),
        cmocka_unit_test(any_octets_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
