/* SPDX-License-Identifier: MIT */
/* mpa_rx.h case by case: length chain, pad, CRC, Markers, and what is reported when. */
#include "mpa/mpa_rx.h"

#include "mpa_testing.h"

static uint8_t wire[160000];
static uint8_t ulpdu[65536];
static struct mpa_ulpdu out;

/* A fresh stream in wire[] that begins at pos. */
static struct ref stream_at(uint32_t pos, bool markers, bool crc)
{
    return (struct ref){.markers = markers, .crc = crc, .pos = pos, .out = wire};
}

static struct mpa_rx rx_at(uint32_t pos, bool markers, bool crc)
{
    struct mpa_rx rx;
    mpa_rx_init(&rx, markers, crc);
    assert_int_equal(rx.pos, 0);
    rx.pos = pos;
    return rx;
}

/* One call over n octets of wire in one span. */
static enum mpa_rx_result once(struct mpa_rx *rx, uint32_t n, struct verdict *why)
{
    struct span s;
    struct cursor in = cursor_flat(&s, wire, n);
    enum mpa_rx_result res = mpa_rx_next(rx, &in, &out, why);
    if (res == MPA_RX_MORE) {
        assert_int_equal(in.left, n);
        assert_int_equal(in.off, 0);
    } else {
        assert_int_equal(n - in.left, out.used);
    }
    return res;
}

static void assert_ulpdu(const uint8_t *want, uint32_t len)
{
    assert_int_equal(out.len, len);
    uint32_t at = 0;
    for (uint32_t i = 0; i < out.cnt; i++) {
        assert_true(out.v[i].n > 0 && out.v[i].n <= len - at);
        assert_memory_equal(out.v[i].p, want + at, out.v[i].n);
        at += out.v[i].n;
    }
    assert_int_equal(at, len);
}

static void assert_code(struct verdict v, unsigned code)
{
    assert_true(verdict_is(v, LAYER_LLP, LLP_MPA, code));
}

/* proves: MPA-5044-4.1-01 MPA-5044-3-08 MPA-5044-4.3-13 MPA-5044-6-04 */
static void every_short_length(void **state)
{
    (void)state;
    fill_pattern(ulpdu, 64);
    for (uint32_t len = 0; len <= 64; len++) {
        struct ref r = stream_at(0, false, true);
        uint32_t size = ref_fpdu(&r, ulpdu, len, 0);
        struct verdict why = VERDICT_OK;
        for (uint32_t n = 0; n < size; n++) {
            struct mpa_rx early = rx_at(0, false, true);
            assert_int_equal(once(&early, n, &why), MPA_RX_MORE);
            assert_int_equal(early.pos, 0);
        }
        struct mpa_rx rx = rx_at(0, false, true);
        assert_int_equal(once(&rx, size, &why), MPA_RX_ULPDU);
        assert_ulpdu(ulpdu, len);
        assert_int_equal(out.cnt, len > 0 ? 1 : 0);
        assert_int_equal(out.markers, 0);
        assert_int_equal(out.crc_wire, get_le32(wire + size - 4));
        assert_int_equal(rx.pos, size);
        assert_false(why.bad);
    }
}

/* proves: MPA-5044-3-06 MPA-5044-A.5.2-01 */
static void longest_ulpdu(void **state)
{
    (void)state;
    rnd_fill(ulpdu, MPA_MULPDU_MAX);
    for (int markers = 0; markers <= 1; markers++) {
        struct ref r = stream_at(0, markers, true);
        uint32_t size = ref_fpdu(&r, ulpdu, MPA_MULPDU_MAX, 0);
        struct mpa_rx rx = rx_at(0, markers, true);
        struct verdict why;
        assert_int_equal(once(&rx, size - 1, &why), MPA_RX_MORE);
        assert_int_equal(once(&rx, size, &why), MPA_RX_ULPDU);
        assert_ulpdu(ulpdu, MPA_MULPDU_MAX);
        assert_int_equal(out.markers, markers ? r.marker_cnt : 0);
    }
}

/* proves: MPA-5044-3-06 */
static void too_long_is_refused_at_once(void **state)
{
    (void)state;
    static const uint32_t lengths[] = {64769, 64770, 65000, 65535};
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        struct mpa_rx rx = rx_at(4, true, true);
        struct verdict why;
        put_be16(wire, lengths[i]);
        assert_int_equal(once(&rx, 1, &why), MPA_RX_MORE);
        assert_int_equal(once(&rx, 2, &why), MPA_RX_BAD);
        assert_code(why, MPA_ERR_MARKER);
        assert_int_equal(out.len, lengths[i]);
        assert_int_equal(out.cnt, 0);
        assert_int_equal(out.used, 0);
        assert_int_equal(rx.pos, 4);
        struct span s;
        assert_int_equal(mpa_rx_need(&rx, cursor_flat(&s, wire, 2)), 2);
    }
}

/* proves: MPA-5044-4.1-04 */
static void pad_values_do_not_matter(void **state)
{
    (void)state;
    static const uint8_t pads[] = {0x00, 0x01, 0x80, 0xff};
    for (uint32_t len = 14; len < 18; len++) {
        for (size_t i = 0; i < ARRAY_LEN(pads); i++) {
            struct ref r = stream_at(0, false, true);
            uint32_t size = ref_fpdu(&r, ulpdu, len, pads[i]);
            struct mpa_rx rx = rx_at(0, false, true);
            struct verdict why;
            assert_int_equal(once(&rx, size, &why), MPA_RX_ULPDU);
            assert_ulpdu(ulpdu, len);
        }
    }
}

/* proves: MPA-5044-4.1-07 MPA-5044-7.1.1-09 MPA-5044-7.1.1-11 MPA-5044-4.4-04 MPA-5044-4.4-08 */
static void crc_off_is_not_looked_at(void **state)
{
    (void)state;
    static const uint32_t fields[] = {0, 0xffffffff, 0xdeadbeef};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        for (int markers = 0; markers <= 1; markers++) {
            struct ref r = stream_at(500, markers, false);
            uint32_t size = ref_fpdu(&r, ulpdu, 600, 0);
            put_le32(wire + size - 4, fields[i]);
            struct mpa_rx rx = rx_at(500, markers, false);
            struct verdict why;
            assert_int_equal(once(&rx, size, &why), MPA_RX_ULPDU);
            assert_ulpdu(ulpdu, 600);
            assert_int_equal(out.crc_wire, fields[i]);
        }
    }
}

/* proves: MPA-5044-4.4-14 MPA-5044-4.4-15 MPA-5044-8-02 MPA-5044-6-01 MPA-5044-7.1.1-10 */
static void bad_crc_is_reported(void **state)
{
    (void)state;
    for (int markers = 0; markers <= 1; markers++) {
        struct ref r = stream_at(0, markers, true);
        uint32_t size = ref_fpdu(&r, ulpdu, 1000, 0);
        wire[size - 1] ^= 1;
        struct mpa_rx rx = rx_at(0, markers, true);
        struct verdict why;
        assert_int_equal(once(&rx, size - 1, &why), MPA_RX_MORE);
        assert_int_equal(once(&rx, size, &why), MPA_RX_BAD);
        assert_code(why, MPA_ERR_CRC);
        assert_ulpdu(ulpdu, 1000);
        assert_int_equal(out.used, size);
        assert_int_equal(out.crc_wire, get_le32(wire + size - 4));
        assert_int_equal(rx.pos, size);
    }
}

/* The same place for the Marker, seen from FPDUs that start elsewhere. */
static const struct marker_case {
    uint32_t pos, len;
    uint32_t at[3], ptr[3]; /* stream offset and FPDUPTR of each Marker */
    uint32_t cnt;
} marker_cases[] = {
    {0, 42, {0}, {0}, 1},            /* leads */
    {492, 42, {512}, {20}, 1},       /* RFC 5044 figure 6 */
    {508, 14, {512}, {4}, 1},        /* behind length and 2 octets */
    {488, 18, {0}, {0}, 0},          /* ends at 512: the Marker there is the next FPDU's */
    {492, 18, {512}, {20}, 1},       /* between ULPDU and CRC */
    {0, 500, {0}, {0}, 1},           /* 4 + 504 + CRC: ends at 512 */
    {0, 504, {0, 512}, {0, 508}, 2}, /* between pad and CRC */
    {0, 1442, {0, 512, 1024}, {0, 508, 1020}, 3}, /* EMSS 1460 */
    {512, 1200, {512, 1024, 1536}, {0, 508, 1020}, 3},
    {0xfffffe00, 600, {0xfffffe00, 0}, {0, 508}, 2}, /* over the end of the sequence space */
    {0xfffffff8, 100, {0}, {8}, 1},
};

/* proves: MPA-5044-4.2-01 MPA-5044-4.3-03 MPA-5044-4.3-04 MPA-5044-4.3-06 MPA-5044-4.3-11 */
static void marker_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(marker_cases); i++) {
        const struct marker_case *c = &marker_cases[i];
        struct ref r = stream_at(c->pos, true, true);
        uint32_t size = ref_fpdu(&r, ulpdu, c->len, 0);
        assert_int_equal(r.marker_cnt, c->cnt);
        for (uint32_t m = 0; m < c->cnt; m++) {
            assert_int_equal(c->pos + r.marker_at[m], c->at[m]);
            assert_int_equal(get_be32(wire + r.marker_at[m]), c->ptr[m]);
        }
        struct mpa_rx rx = rx_at(c->pos, true, true);
        struct span s;
        assert_int_equal(mpa_rx_need(&rx, cursor_flat(&s, wire, size)), size);
        struct verdict why;
        assert_int_equal(once(&rx, size - 1, &why), MPA_RX_MORE);
        assert_int_equal(once(&rx, size, &why), MPA_RX_ULPDU);
        assert_ulpdu(ulpdu, c->len);
        assert_int_equal(out.markers, c->cnt);
        assert_int_equal(rx.pos, c->pos + size);
    }
}

/* Changes Marker m of a case by xor and, on demand, makes the CRC right again. */
static struct mpa_rx spoil(const struct marker_case *c, uint32_t m, uint32_t by, bool seal)
{
    struct ref r = stream_at(c->pos, true, true);
    uint32_t size = ref_fpdu(&r, ulpdu, c->len, 0);
    uint8_t *at = wire + r.marker_at[m];
    put_be32(at, get_be32(at) ^ by);
    if (seal) {
        ref_seal(&r, 0, size - 4);
    }
    return rx_at(c->pos, true, true);
}

/* proves: MPA-5044-8-03 MPA-5044-8-06 MPA-5044-8-07 MPA-5044-5.2-02 MPA-5044-4.3-09 */
static void wrong_marker_is_reported(void **state)
{
    (void)state;
    static const uint32_t by[] = {0x4, 0x8, 0x200, 0x8000};
    for (size_t i = 0; i < ARRAY_LEN(marker_cases); i++) {
        const struct marker_case *c = &marker_cases[i];
        for (uint32_t m = 0; m < c->cnt * ARRAY_LEN(by); m++) {
            struct mpa_rx rx = spoil(c, m % c->cnt, by[m / c->cnt], true);
            struct verdict why;
            assert_int_equal(once(&rx, mpa_rx_need(&rx, (struct cursor){0}) + 1500, &why),
                             MPA_RX_BAD);
            assert_code(why, MPA_ERR_MARKER);
            assert_ulpdu(ulpdu, c->len);
        }
    }
}

/* proves: MPA-5044-8-02 MPA-5044-8-03 */
static void crc_goes_before_marker(void **state)
{
    (void)state;
    const struct marker_case *c = &marker_cases[1];
    struct verdict why;
    struct mpa_rx rx = spoil(c, 0, 4, false);
    assert_int_equal(once(&rx, 52, &why), MPA_RX_BAD);
    assert_code(why, MPA_ERR_CRC);
    /* Without CRCs the Marker is all there is to go by. */
    rx = spoil(c, 0, 4, false);
    rx.crc = false;
    assert_int_equal(once(&rx, 52, &why), MPA_RX_BAD);
    assert_code(why, MPA_ERR_MARKER);
}

/* proves: MPA-5044-4.2-03 MPA-5044-4.2-05 */
static void marker_bits_that_are_ignored(void **state)
{
    (void)state;
    static const uint32_t by[] = {0x1, 0x2, 0x3, 0xffff0000, 0x00010003};
    for (size_t i = 0; i < ARRAY_LEN(marker_cases); i++) {
        const struct marker_case *c = &marker_cases[i];
        for (uint32_t m = 0; m < c->cnt * ARRAY_LEN(by); m++) {
            struct mpa_rx rx = spoil(c, m % c->cnt, by[m / c->cnt], true);
            struct verdict why;
            assert_int_equal(once(&rx, 2000, &why), MPA_RX_ULPDU);
            assert_ulpdu(ulpdu, c->len);
        }
    }
}

/* proves: MPA-5044-4.3-05 MPA-5044-4.3-06 MPA-5044-4.3-10 */
static void marker_behind_the_crc_is_the_next_ones(void **state)
{
    (void)state;
    struct ref r = stream_at(0, true, true);
    uint32_t first = ref_fpdu(&r, ulpdu, 500, 0);
    assert_int_equal(first, 512);
    uint32_t second = ref_fpdu(&r, ulpdu, 23, 0);
    struct mpa_rx rx = rx_at(0, true, true);
    struct verdict why;
    assert_int_equal(once(&rx, first, &why), MPA_RX_ULPDU); /* without that Marker */
    assert_int_equal(out.markers, 1);
    struct span s;
    struct cursor in = cursor_flat(&s, wire + first, second);
    assert_int_equal(mpa_rx_next(&rx, &in, &out, &why), MPA_RX_ULPDU);
    assert_int_equal(out.markers, 1);
    assert_int_equal(in.left, 0);
    assert_ulpdu(ulpdu, 23);
}

/* proves: MPA-5044-5.2-01 MPA-5044-5.1-04 MPA-5044-4.3-12 MPA-5044-3-01 */
static void several_in_one_span(void **state)
{
    (void)state;
    static const uint32_t lens[] = {14, 18, 1, 0, 700, 17, 64};
    for (int markers = 0; markers <= 1; markers++) {
        struct ref r = stream_at(0, markers, true);
        for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
            ref_fpdu(&r, ulpdu + i, lens[i], 0);
        }
        struct mpa_rx rx = rx_at(0, markers, true);
        struct span s;
        struct cursor in = cursor_flat(&s, wire, r.n);
        struct verdict why;
        for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
            assert_int_equal(mpa_rx_next(&rx, &in, &out, &why), MPA_RX_ULPDU);
            assert_ulpdu(ulpdu + i, lens[i]);
        }
        assert_int_equal(mpa_rx_next(&rx, &in, &out, &why), MPA_RX_MORE);
        assert_int_equal(rx.pos, r.n);
    }
}

/* Splits between the two octets of the length and around a leading Marker; empty spans too. */
/* proves: MPA-5044-5.1-05 MPA-5044-A.4-01 */
static void split_length_field(void **state)
{
    (void)state;
    struct ref r = stream_at(512, true, true);
    uint32_t size = ref_fpdu(&r, ulpdu, 300, 0);
    for (uint32_t cut = 1; cut < 8; cut++) {
        struct span v[] = {{wire, 0},       {wire, cut}, {NULL, 0},
                           {wire + cut, 1}, {wire, 0},   {wire + cut + 1, size - cut - 1}};
        struct mpa_rx rx = rx_at(512, true, true);
        struct verdict why;
        struct cursor in = cursor_of(v, 2);
        assert_int_equal(mpa_rx_next(&rx, &in, &out, &why), MPA_RX_MORE);
        in = cursor_of(v, ARRAY_LEN(v));
        assert_int_equal(mpa_rx_next(&rx, &in, &out, &why), MPA_RX_ULPDU);
        assert_ulpdu(ulpdu, 300);
        assert_int_equal(in.left, 0);
    }
}

/* proves: MPA-5044-6-04 */
static void need(void **state)
{
    (void)state;
    static const struct {
        bool markers;
        uint32_t pos, have, len, need;
    } cases[] = {
        {false, 0, 0, 14, 8},   {false, 0, 1, 14, 8},   {false, 0, 2, 14, 20},
        {false, 0, 20, 14, 20}, {false, 0, 2, 17, 24},  {true, 0, 0, 14, 12},
        {true, 0, 5, 14, 12},   {true, 0, 6, 14, 24},   {true, 508, 0, 14, 12},
        {true, 508, 1, 14, 12}, {true, 508, 2, 14, 24}, {true, 4, 2, 500, 508},
        {true, 4, 2, 502, 508}, {true, 4, 2, 503, 516}, {true, 0, 6, 1442, 1460},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct ref r = stream_at(cases[i].pos, cases[i].markers, true);
        uint32_t size = ref_fpdu(&r, ulpdu, cases[i].len, 0);
        struct mpa_rx rx = rx_at(cases[i].pos, cases[i].markers, true);
        struct span s;
        assert_int_equal(mpa_rx_need(&rx, cursor_flat(&s, wire, cases[i].have)), cases[i].need);
        assert_true(cases[i].need <= size);
    }
}

/* While the FPDU is not whole only its length field may be read: what stands behind is poison, and
 * a list of spans that is walked to its end would hit a span that does not exist. */
/* proves: MPA-5044-6-04 */
static void incomplete_costs_nothing(void **state)
{
    (void)state;
    uint8_t head[6] = {0, 0, 0, 0, 0xfd, 0x00};
    struct span v[2] = {{head, sizeof head}, {(const uint8_t *)(uintptr_t)1, 64768}};
    struct cursor in = {.v = v, .off = 0, .left = 64768};
    struct mpa_rx rx = rx_at(0, true, true);
    struct verdict why;
    assert_int_equal(mpa_rx_next(&rx, &in, &out, &why), MPA_RX_MORE);
    assert_int_equal(in.left, 64768);
    assert_true(mpa_rx_need(&rx, in) > 64768);
}

static void too_many_pieces(void **state)
{
    (void)state;
    static struct span v[MPA_ULPDU_SPANS + 16];
    for (uint32_t len = MPA_ULPDU_SPANS - 1; len <= MPA_ULPDU_SPANS + 1; len++) {
        struct ref r = stream_at(0, false, true);
        uint32_t size = ref_fpdu(&r, ulpdu, len, 0);
        for (uint32_t i = 0; i < size; i++) {
            v[i] = (struct span){wire + i, 1};
        }
        struct mpa_rx rx = rx_at(0, false, true);
        struct cursor in = cursor_of(v, size);
        struct verdict why;
        enum mpa_rx_result res = mpa_rx_next(&rx, &in, &out, &why);
        if (len <= MPA_ULPDU_SPANS) {
            assert_int_equal(res, MPA_RX_ULPDU);
            assert_int_equal(out.cnt, len);
            assert_ulpdu(ulpdu, len);
        } else {
            assert_int_equal(res, MPA_RX_BAD);
            assert_code(why, MPA_ERR_LOCAL);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_short_length),
        cmocka_unit_test(longest_ulpdu),
        cmocka_unit_test(too_long_is_refused_at_once),
        cmocka_unit_test(pad_values_do_not_matter),
        cmocka_unit_test(crc_off_is_not_looked_at),
        cmocka_unit_test(bad_crc_is_reported),
        cmocka_unit_test(marker_table),
        cmocka_unit_test(wrong_marker_is_reported),
        cmocka_unit_test(crc_goes_before_marker),
        cmocka_unit_test(marker_bits_that_are_ignored),
        cmocka_unit_test(marker_behind_the_crc_is_the_next_ones),
        cmocka_unit_test(several_in_one_span),
        cmocka_unit_test(split_length_field),
        cmocka_unit_test(need),
        cmocka_unit_test(incomplete_costs_nothing),
        cmocka_unit_test(too_many_pieces),
    };
    rnd_seed();
    fill_pattern(ulpdu, sizeof ulpdu);
    return cmocka_run_group_tests_name("mpa_rx", tests, NULL, NULL);
}
