/* SPDX-License-Identifier: MIT */
/* crc32c.h: published check values, and a bit-by-bit sum. */
#include "base/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static uint32_t bit_by_bit(uint32_t sum, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sum ^= p[i];
        for (int k = 0; k < 8; k++) {
            sum = sum & 1 ? sum >> 1 ^ 0x82f63b78u : sum >> 1;
        }
    }
    return sum;
}

static void assert_wire(const void *p, size_t n, const char wire[4])
{
    uint8_t field[4];
    put_le32(field, crc32c_final(crc32c_add(CRC32C_INIT, p, n)));
    assert_memory_equal(field, wire, 4);
}

/* RFC 3720 appendix B.4 has the first four; the last two are figures 5 and 6 of RFC 5044. */
/* proves: MPA-5044-4.4-10 */
static void check_values(void **state)
{
    (void)state;
    uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
    memset(ones, 0xff, sizeof ones);
    for (unsigned i = 0; i < 32; i++) {
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    assert_wire(zeros, 32, "\xaa\x36\x91\x8a");
    assert_wire(ones, 32, "\x43\xab\xa8\x62");
    assert_wire(up, 32, "\x4e\x79\xdd\x46");
    assert_wire(down, 32, "\x5c\xdb\x3f\x11");
    assert_wire("123456789", 9, "\x83\x92\x06\xe3");
    assert_wire("", 0, "\x00\x00\x00\x00");
    uint8_t fig5[48] = {[5] = 0x2a, [6] = 0x41, [7] = 0x43, [19] = 0x01};
    assert_wire(fig5, sizeof fig5, "\x52\x23\x99\x83");
    uint8_t fig6[48] = {[1] = 0x2a, [2] = 0x41, [3] = 0x43, [15] = 0x02, [23] = 0x14};
    assert_wire(fig6, sizeof fig6, "\x84\x92\x58\x98");
}

/* proves: MPA-5044-4.4-10 */
static void in_pieces(void **state)
{
    (void)state;
    uint8_t b[300];
    for (unsigned i = 0; i < sizeof b; i++) {
        b[i] = (uint8_t)(i * i + 17 * i);
    }
    for (size_t from = 0; from < 9; from++) {
        for (size_t n = 0; n <= sizeof b - from; n++) {
            uint32_t want = bit_by_bit(CRC32C_INIT, b + from, n);
            assert_true(crc32c_add(CRC32C_INIT, b + from, n) == want);
            uint32_t sum = crc32c_add(CRC32C_INIT, b + from, n / 3);
            assert_true(crc32c_add(sum, b + from + n / 3, n - n / 3) == want);
        }
    }
}

/* The sum over data and its CRC field is the same for all data. */
static void residue(void **state)
{
    (void)state;
    uint8_t b[64];
    for (size_t n = 0; n <= 60; n++) {
        memset(b, (int)n + 1, n);
        put_le32(b + n, crc32c_final(crc32c_add(CRC32C_INIT, b, n)));
        assert_true(crc32c_add(CRC32C_INIT, b, n + 4) == 0xb798b438);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_values),
        cmocka_unit_test(in_pieces),
        cmocka_unit_test(residue),
    };
    return cmocka_run_group_tests_name("base_crc32c", tests, NULL, NULL);
}
