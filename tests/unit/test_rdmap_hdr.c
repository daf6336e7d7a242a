/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rdmap/rdmap_hdr.h"

/* opcode -> T and QN as RFC 5040 fig. 4 and RFC 7306 fig. 2 have them; ' ' is unassigned. */
static const char fits[] = "t1t000020013    ";

static bool should_fit(unsigned opcode, bool tagged, uint32_t qn, bool ext)
{
    char f = fits[opcode];
    if (f == ' ' || (opcode >= 8 && !ext)) {
        return false;
    }
    return f == 't' ? tagged : !tagged && qn == (uint32_t)(f - '0');
}

/* proves: RDMAP-5040-4.1-04 RDMAP-5040-4.1-05 RDMAP-5040-4.1-06 RDMAP-5040-7.2-02
 * REG-6580-3.4-01 EXT-7306-4.1-02 EXT-7306-4.1-04 EXT-7306-4.1-05 EXT-7306-8.2-02
 * RDMAP-5040-3.1-02 */
static void opcode_fits_t_and_qn(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 16 * 2 * 2 * 8; i++) {
        unsigned opcode = i & 15;
        bool ext = (i & 32) != 0;
        const struct ddp_hdr h = {
            .tagged = (i & 16) != 0, .ulp = rdmap_control(opcode), .qn = i >> 6};
        struct verdict v = rdmap_check_control(&h, ext);
        if (should_fit(opcode, h.tagged, h.qn, ext)) {
            assert_false(v.bad);
        } else {
            assert_true(verdict_is(v, 0, 2, 6));
        }
    }
}

/* proves: RDMAP-5040-7.2-03 EXT-7306-8.2-03 */
static void version_comes_before_opcode(void **state)
{
    (void)state;
    for (unsigned control = 0; control < 256; control++) {
        const struct ddp_hdr h = {.ulp = (uint8_t)control, .qn = 0};
        struct verdict v = rdmap_check_control(&h, true);
        if (control >> 6 != 1) {
            assert_true(verdict_is(v, 0, 2, 5));
        } else {
            assert_false(verdict_is(v, 0, 2, 5));
        }
    }
}

/* proves: RDMAP-5040-4.1-09 */
static void reserved_bits_are_ignored(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 4; bits++) {
        const struct ddp_hdr h = {.ulp = (uint8_t)(0x43 | bits << 4)};
        assert_false(rdmap_check_control(&h, false).bad);
        assert_int_equal(rdmap_opcode(h.ulp), RDMAP_SEND);
    }
}

/* proves: RDMAP-5040-4.1-02 RDMAP-5040-4.1-07 RDMAP-5040-4.1-08 EXT-7306-4.1-01 */
static void control_octet(void **state)
{
    (void)state;
    static const uint8_t want[] = {0x40, 0x41, 0x42, 0x43, 0x44, 0x45,
                                   0x46, 0x47, 0x48, 0x49, 0x4a, 0x4b};
    for (unsigned opcode = 0; opcode < ARRAY_LEN(want); opcode++) {
        assert_int_equal(rdmap_control(opcode), want[opcode]);
    }
}

/* proves: RDMAP-5040-5.3-06 RDMAP-5040-5.3-12 */
static void what_opcodes_ask_for(void **state)
{
    (void)state;
    for (unsigned opcode = 0; opcode < 16; opcode++) {
        assert_int_equal(rdmap_opcode_invalidates(opcode), opcode == 4 || opcode == 6);
        assert_int_equal(rdmap_opcode_solicits(opcode), opcode == 5 || opcode == 6 || opcode == 9);
        assert_non_null(rdmap_opcode_text(opcode));
    }
    assert_string_equal(rdmap_opcode_text(4), "Send with Invalidate");
    assert_string_equal(rdmap_opcode_text(0xc), "unassigned");
    assert_string_equal(rdmap_opcode_text(0xf), "experimental");
    assert_string_equal(rdmap_opcode_text(99), "unassigned");
}

/* proves: RDMAP-5040-4.4-01 RDMAP-5040-4.4-04 RDMAP-5040-4.4-06 RDMAP-5040-4.4-05 */
static void read_request_header(void **state)
{
    (void)state;
    /* V077's, with values that show each octet's place */
    static const uint8_t want[RDMAP_READ_REQUEST_LEN] = {
        0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e,
        0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c};
    const struct rdmap_read_request r = {.sink_stag = 0x01020304,
                                         .sink_to = 0x05060708090a0b0c,
                                         .len = 0x0d0e0f10,
                                         .src_stag = 0x11121314,
                                         .src_to = 0x15161718191a1b1c};
    uint8_t out[RDMAP_READ_REQUEST_LEN];
    rdmap_read_request_pack(&r, out);
    assert_memory_equal(out, want, sizeof(want));
    struct rdmap_read_request back;
    rdmap_read_request_unpack(want, &back);
    assert_int_equal(back.sink_stag, r.sink_stag);
    assert_true(back.sink_to == r.sink_to);
    assert_int_equal(back.len, r.len);
    assert_int_equal(back.src_stag, r.src_stag);
    assert_true(back.src_to == r.src_to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opcode_fits_t_and_qn),      cmocka_unit_test(version_comes_before_opcode),
        cmocka_unit_test(reserved_bits_are_ignored), cmocka_unit_test(control_octet),
        cmocka_unit_test(what_opcodes_ask_for),      cmocka_unit_test(read_request_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
