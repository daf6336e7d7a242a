/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ddp/ddp_hdr.h"

/* Parses n octets in a heap block of their own, so that a sanitizer sees a read past them. */
static struct verdict parse(const uint8_t *p, uint32_t n, struct ddp_seg *seg)
{
    uint8_t *copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    if (n > 0) {
        memcpy(copy, p, n);
    }
    struct span whole = {copy, n};
    struct verdict v = ddp_seg_parse(cursor_of(&whole, 1), seg);
    seg->payload = (struct cursor){NULL, 0, seg->payload.left};
    free(copy);
    return v;
}

/* proves: DDP-5041-4.2-01 DDP-5041-4.2-02 DDP-5041-4.2-06 DDP-5041-4.1-10 DDP-5041-4.1-08
 * RDMAP-5040-3.1-06 */
static void pack_tagged(void **state)
{
    (void)state;
    static const uint8_t want[] = {0xc1, 0x40, 0xde, 0xad, 0xbe, 0x01, 0x11,
                                   0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88};
    const struct ddp_hdr h = {.tagged = true,
                              .last = true,
                              .version = DDP_VERSION,
                              .ulp = 0x40,
                              .stag = 0xdeadbe01,
                              .to = 0x1122334455667788};
    uint8_t out[DDP_HDR_MAX];
    assert_int_equal(ddp_hdr_pack(&h, out), DDP_TAGGED_LEN);
    assert_memory_equal(out, want, sizeof(want));
}

/* proves: DDP-5041-4.3-01 DDP-5041-4.3-02 DDP-5041-4.1-10 DDP-5041-4.1-08 RDMAP-5040-3.1-06
 * RDMAP-5040-4.1-03 */
static void pack_untagged(void **state)
{
    (void)state;
    static const uint8_t want[] = {0x01, 0x44, 0xd8, 0x04, 0x00, 0x01, 0x00, 0x00, 0x00,
                                   0x02, 0x01, 0x02, 0x03, 0x04, 0x00, 0x00, 0x05, 0xca};
    const struct ddp_hdr h = {.version = DDP_VERSION,
                              .ulp = 0x44,
                              .ulp32 = 0xd8040001,
                              .qn = 2,
                              .msn = 0x01020304,
                              .mo = 0x5ca};
    uint8_t out[DDP_HDR_MAX];
    assert_int_equal(ddp_hdr_pack(&h, out), DDP_UNTAGGED_LEN);
    assert_memory_equal(out, want, sizeof(want));
}

/* proves: DDP-5041-4.1-08 DDP-5041-4.1-10 */
static void pack_leaves_reserved_bits_zero(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 4; bits++) {
        const struct ddp_hdr h = {
            .tagged = (bits & 1) != 0, .last = (bits & 2) != 0, .version = DDP_VERSION};
        uint8_t out[DDP_HDR_MAX];
        ddp_hdr_pack(&h, out);
        assert_int_equal(out[0] & 0x3c, 0);
        assert_int_equal(out[0] & 0x03, 1);
        assert_int_equal(out[0] >> 7, h.tagged);
        assert_int_equal(out[0] >> 6 & 1, h.last);
    }
}

/* proves: DDP-5041-4.2-01 DDP-5041-4.2-03 DDP-5041-4.2-07 DDP-5041-3-07 */
static void parse_tagged(void **state)
{
    (void)state;
    /* V070 without MPA */
    static const uint8_t in[] = "\xc1\x40\x00\x00\xa5\x01\x00\x00\x00\x00\x00\x01\x00\x00"
                                "tagged write";
    struct ddp_seg seg;
    assert_false(parse(in, sizeof(in) - 1, &seg).bad);
    assert_true(seg.hdr.tagged);
    assert_true(seg.hdr.last);
    assert_int_equal(seg.hdr.version, 1);
    assert_int_equal(seg.hdr.ulp, 0x40);
    assert_int_equal(seg.hdr.stag, 0xa501);
    assert_true(seg.hdr.to == 0x10000);
    assert_int_equal(seg.len, 26);
    assert_int_equal(seg.plen, 12);
    assert_int_equal(seg.payload.left, 12);
    assert_int_equal(seg.raw_len, DDP_TAGGED_LEN);
    assert_memory_equal(seg.raw, in, DDP_TAGGED_LEN);
}

/* proves: DDP-5041-4.3-01 DDP-5041-4.3-03 DDP-5041-3-07 */
static void parse_untagged(void **state)
{
    (void)state;
    /* V076's header */
    static const uint8_t in[] = {0x41, 0x43, 0, 0, 0, 9, 0,    0,    0, 0,
                                 0,    0,    0, 1, 0, 0, 0x05, 0xca, 7};
    struct ddp_seg seg;
    assert_false(parse(in, sizeof(in), &seg).bad);
    assert_false(seg.hdr.tagged);
    assert_true(seg.hdr.last);
    assert_int_equal(seg.hdr.ulp, 0x43);
    assert_int_equal(seg.hdr.ulp32, 9);
    assert_int_equal(seg.hdr.qn, 0);
    assert_int_equal(seg.hdr.msn, 1);
    assert_int_equal(seg.hdr.mo, 0x5ca);
    assert_int_equal(seg.plen, 1);
    assert_int_equal(seg.raw_len, DDP_UNTAGGED_LEN);
    assert_memory_equal(seg.raw, in, DDP_UNTAGGED_LEN);
}

/* proves: DDP-5041-4.1-09 */
static void parse_ignores_reserved_bits(void **state)
{
    (void)state;
    for (unsigned first = 0; first < 256; first++) {
        uint8_t in[20] = {(uint8_t)first};
        struct ddp_seg seg;
        struct verdict v = parse(in, sizeof(in), &seg);
        assert_int_equal(v.bad, (first & 3) != 1);
        assert_int_equal(seg.hdr.tagged, (first & 0x80) != 0);
        assert_int_equal(seg.hdr.last, (first & 0x40) != 0);
    }
}

/* proves: DDP-5041-4.1-11 DDP-5041-7.2-07 DDP-5041-7.2-13 DDP-5041-7.2-01 */
static void parse_refuses_versions(void **state)
{
    (void)state;
    for (unsigned dv = 0; dv < 4; dv++) {
        if (dv == 1) {
            continue;
        }
        uint8_t in[20] = {(uint8_t)(0xc0 | dv), 0x40, 0, 0, 0xa5, 1};
        struct ddp_seg seg;
        assert_true(verdict_is(parse(in, sizeof(in), &seg), 1, 1, 4));
        assert_int_equal(seg.hdr.stag, 0xa501);
        assert_int_equal(seg.raw_len, DDP_TAGGED_LEN);
        in[0] = (uint8_t)(0x40 | dv);
        assert_true(verdict_is(parse(in, sizeof(in), &seg), 1, 2, 6));
        assert_int_equal(seg.raw_len, DDP_UNTAGGED_LEN);
        assert_int_equal(seg.len, sizeof(in));
    }
}

/* proves: DDP-5041-4.4-01 */
static void parse_refuses_short_segments(void **state)
{
    (void)state;
    static const uint8_t tagged[DDP_TAGGED_LEN] = {0xc1, 0x40};
    static const uint8_t untagged[DDP_UNTAGGED_LEN] = {0x41, 0x43};
    struct ddp_seg seg;
    for (uint32_t n = 0; n < DDP_TAGGED_LEN; n++) {
        assert_true(verdict_is(parse(tagged, n, &seg), 2, 0, 3));
        assert_int_equal(seg.raw_len, 0);
        assert_int_equal(seg.len, n);
    }
    for (uint32_t n = 0; n < DDP_UNTAGGED_LEN; n++) {
        assert_true(verdict_is(parse(untagged, n, &seg), 2, 0, 3));
        assert_int_equal(seg.raw_len, 0);
        assert_int_equal(seg.plen, 0);
    }
    assert_false(parse(tagged, sizeof(tagged), &seg).bad);
    assert_int_equal(seg.plen, 0);
    assert_false(parse(untagged, sizeof(untagged), &seg).bad);
    assert_int_equal(seg.plen, 0);
}

/* proves: DDP-5041-3-04 */
static void parse_does_not_depend_on_cuts(void **state)
{
    (void)state;
    uint8_t in[30] = {0x41, 0x43, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 1};
    for (uint32_t i = DDP_UNTAGGED_LEN; i < sizeof(in); i++) {
        in[i] = (uint8_t)i;
    }
    for (uint32_t a = 0; a <= sizeof(in); a++) {
        for (uint32_t b = a; b <= sizeof(in); b++) {
            const struct span v[] = {{in, a}, {in + a, b - a}, {in + b, (uint32_t)sizeof(in) - b}};
            struct ddp_seg seg;
            assert_false(ddp_seg_parse(cursor_of(v, 3), &seg).bad);
            assert_memory_equal(seg.raw, in, DDP_UNTAGGED_LEN);
            assert_int_equal(seg.hdr.ulp32, 0x01020304);
            uint8_t out[12];
            assert_int_equal(seg.plen, sizeof(out));
            assert_true(cursor_take(&seg.payload, sizeof(out), out));
            assert_memory_equal(out, in + DDP_UNTAGGED_LEN, sizeof(out));
        }
    }
}

/* proves: DDP-5041-4.2-01 DDP-5041-4.3-01 */
static void pack_and_parse_agree(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 512; i++) {
        const struct ddp_hdr h = {.tagged = (i & 1) != 0,
                                  .last = (i & 2) != 0,
                                  .version = DDP_VERSION,
                                  .ulp = (uint8_t)(i >> 1),
                                  .stag = i * 0x01234567u,
                                  .to = i * 0x0123456789abcdefu,
                                  .ulp32 = i * 0x89abcdefu,
                                  .qn = i * 3,
                                  .msn = ~i,
                                  .mo = i << 20};
        uint8_t out[DDP_HDR_MAX];
        struct ddp_seg seg;
        assert_false(parse(out, ddp_hdr_pack(&h, out), &seg).bad);
        assert_int_equal(seg.hdr.tagged, h.tagged);
        assert_int_equal(seg.hdr.last, h.last);
        assert_int_equal(seg.hdr.ulp, h.ulp);
        if (h.tagged) {
            assert_int_equal(seg.hdr.stag, h.stag);
            assert_true(seg.hdr.to == h.to);
        } else {
            assert_int_equal(seg.hdr.ulp32, h.ulp32);
            assert_int_equal(seg.hdr.qn, h.qn);
            assert_int_equal(seg.hdr.msn, h.msn);
            assert_int_equal(seg.hdr.mo, h.mo);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pack_tagged),
        cmocka_unit_test(pack_untagged),
        cmocka_unit_test(pack_leaves_reserved_bits_zero),
        cmocka_unit_test(parse_tagged),
        cmocka_unit_test(parse_untagged),
        cmocka_unit_test(parse_ignores_reserved_bits),
        cmocka_unit_test(parse_refuses_versions),
        cmocka_unit_test(parse_refuses_short_segments),
        cmocka_unit_test(parse_does_not_depend_on_cuts),
        cmocka_unit_test(pack_and_parse_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
