/* SPDX-License-Identifier: MIT */
/* mpa_tx.h case by case, against FPDUs made octet by octet. */
#include "mpa/mpa_tx.h"

#include "mpa_testing.h"

static uint8_t want[160000], got[160000], ulpdu[70000];

static struct mpa_tx tx_at(uint32_t pos, bool markers, bool crc)
{
    struct mpa_tx tx;
    mpa_tx_init(&tx, markers, crc);
    assert_int_equal(tx.pos, 0);
    assert_int_equal(tx.markers, markers);
    assert_int_equal(tx.crc, crc);
    tx.pos = pos;
    return tx;
}

static uint32_t reference(const struct mpa_tx *tx, uint32_t len)
{
    struct ref r = {.markers = tx->markers, .crc = tx->crc, .pos = tx->pos, .out = want};
    return ref_fpdu(&r, ulpdu, len, 0);
}

/* One FPDU with hlen octets of header and the rest from a cursor over spans of `piece` octets. */
static void check_copy(struct mpa_tx *tx, uint32_t hlen, uint32_t len, uint32_t piece)
{
    static struct span v[70000];
    uint32_t cnt = 0;
    for (uint32_t at = hlen; at < len; at += piece) {
        v[cnt++] = (struct span){ulpdu + at, min_u32(piece, len - at)};
    }
    v[cnt] = (struct span){ulpdu, 9}; /* the next message's */
    struct cursor payload = cursor_of(v, cnt + 1);
    uint32_t size = reference(tx, len);
    uint32_t pos = tx->pos;
    assert_int_equal(mpa_tx_size(tx, len), size);
    got[size] = 0xa5;
    assert_int_equal(mpa_tx_copy(tx, &(struct mpa_out){ulpdu, hlen, &payload, len - hlen}, got),
                     size);
    assert_int_equal(got[size], 0xa5);
    assert_memory_equal(got, want, size);
    assert_int_equal(payload.left, 9);
    assert_int_equal(tx->pos, pos + size);
}

/* Both formulas as sec 4.5 and 4.3 have them, step by step.
 * proves: MPA-5044-4.5-01 MPA-5044-4.5-02 MPA-5044-3-03 MPA-5044-5.1-01 */
static void mulpdu_of_every_emss(void **state)
{
    (void)state;
    uint32_t markers = 0;
    for (uint32_t emss = 0; emss <= 70000; emss++) {
        while (markers * 512 < emss) {
            markers++;
        }
        uint32_t off = 6 + emss % 4, on = off + 4 * markers;
        uint32_t want_off = emss > off + 128 ? emss - off : 128;
        uint32_t want_on = emss > on + 128 ? emss - on : 128;
        assert_int_equal(mpa_mulpdu(emss, false), want_off < 64768 ? want_off : 64768);
        assert_int_equal(mpa_mulpdu(emss, true), want_on < 64768 ? want_on : 64768);
    }
}

/* proves: MPA-5044-4.5-01 MPA-5044-4.5-02 MPA-5044-4.5-06 MPA-5044-3-03 MPA-5044-5.1-01 */
static void mulpdu_table(void **state)
{
    (void)state;
    static const struct {
        uint32_t emss, off, on;
    } cases[] = {
        {536, 530, 522},          {1448, 1442, 1430},
        {1460, 1454, 1442},       {1461, 1454, 1442},
        {8948, 8942, 8870},       {8960, 8954, 8882},
        {100, 128, 128},          {0, 128, 128},
        {134, 128, 128},          {140, 134, 130},
        {139, 130, 128},          {65483, 64768, 64768},
        {65535, 64768, 64768},    {64774, 64766, 64258},
        {1u << 31, 64768, 64768}, {UINT32_MAX, 64768, 64768},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(mpa_mulpdu(cases[i].emss, false), cases[i].off);
        assert_int_equal(mpa_mulpdu(cases[i].emss, true), cases[i].on);
    }
}

/* proves: MPA-5044-3-03 MPA-5044-4.5-07 */
static void mulpdu_fits_the_segment(void **state)
{
    (void)state;
    for (uint32_t emss = 0; emss <= 65535; emss++) {
        for (int markers = 0; markers <= 1; markers++) {
            uint32_t m = mpa_mulpdu(emss, markers);
            assert_true(m >= MPA_MULPDU_MIN && m <= MPA_MULPDU_MAX);
            /* Wherever the FPDU starts; the Markers were counted for the worst place. */
            for (uint32_t pos = 0; m > MPA_MULPDU_MIN && pos < 512; pos += 4) {
                struct mpa_tx tx = {.markers = markers, .pos = pos};
                assert_true(mpa_tx_size(&tx, m) <= emss);
            }
        }
    }
}

/* proves: MPA-5044-4.1-01 MPA-5044-4.1-02 MPA-5044-4.1-03 MPA-5044-4.1-05 MPA-5044-4.4-11 */
static void every_short_length(void **state)
{
    (void)state;
    for (uint32_t len = 0; len <= 80; len++) {
        for (uint32_t hlen = 0; hlen <= min_u32(len, 20); hlen++) {
            for (int crc = 0; crc <= 1; crc++) {
                struct mpa_tx tx = tx_at(0, false, crc);
                check_copy(&tx, hlen, len, 3);
                assert_int_equal(get_be16(got), len);
                assert_int_equal(tx.pos % 4, 0);
            }
        }
    }
}

/* proves: MPA-5044-4.1-06 MPA-5044-4.4-09 */
static void crc_off_sends_zero(void **state)
{
    (void)state;
    for (int markers = 0; markers <= 1; markers++) {
        struct mpa_tx tx = tx_at(0, markers, false);
        check_copy(&tx, 14, 500, 100);
        assert_int_equal(get_be32(got + tx.pos - 4), 0);
    }
}

/* Every start in the gap with every length over two of them: all places a Marker can have. */
/* proves: MPA-5044-4.3-02 MPA-5044-4.3-05 MPA-5044-4.3-08 MPA-5044-4.4-12 MPA-5044-4.4-13
 * MPA-5044-4.4-11 */
static void every_marker_place(void **state)
{
    (void)state;
    for (uint32_t pos = 0xffffff00; pos != 0x100; pos += 4) {
        for (uint32_t len = rnd_in(1, 7); len < 1100; len += rnd_in(1, 13)) {
            struct mpa_tx tx = tx_at(pos, true, len & 1);
            check_copy(&tx, min_u32(len, 18), len, 200);
        }
    }
}

/* proves: MPA-5044-4.3-01 MPA-5044-4.3-07 MPA-5044-7.1.2-17 MPA-5044-7.1.2-18 */
static void first_octets(void **state)
{
    (void)state;
    struct mpa_tx tx = tx_at(0, true, true);
    check_copy(&tx, 14, 42, 64);
    assert_int_equal(get_be32(got), 0);
    assert_int_equal(get_be16(got + 4), 42);
    tx = tx_at(0, false, true);
    check_copy(&tx, 14, 42, 64);
    assert_int_equal(get_be16(got), 42);
}

/* proves: MPA-5044-4.2-02 MPA-5044-4.2-04 MPA-5044-4.3-03 MPA-5044-4.3-09 MPA-5044-4.3-10 */
static void long_marked_stream(void **state)
{
    (void)state;
    struct mpa_tx tx = tx_at(0xfffffe00, true, false);
    while (tx.pos > 0x10000000 || tx.pos < 0x100000) {
        uint32_t start = tx.pos;
        uint32_t hdr = start + (start % 512 == 0 ? 4 : 0);
        check_copy(&tx, 14, rnd_in(14, 3000), 1000);
        for (uint32_t at = start; at != tx.pos; at += 4) {
            if (at % 512 == 0) {
                assert_int_equal(get_be32(got + (at - start)), at + 4 == hdr ? 0 : at - hdr);
            }
        }
    }
}

/* proves: MPA-5044-3-05 MPA-5044-3-06 MPA-5044-3-07 */
static void lengths_at_the_limit(void **state)
{
    (void)state;
    for (int markers = 0; markers <= 1; markers++) {
        struct mpa_tx tx = tx_at(0, markers, true);
        check_copy(&tx, 14, MPA_MULPDU_MAX, 70000);
        check_copy(&tx, 18, MPA_MULPDU_MAX - 1, 9000);
        check_copy(&tx, 18, 20000, 1);
        check_copy(&tx, MPA_MULPDU_MAX, MPA_MULPDU_MAX, 1);
        uint32_t pos = tx.pos;
        struct span s;
        struct cursor c = cursor_flat(&s, ulpdu, 70000);
        assert_int_equal(
            mpa_tx_copy(&tx, &(struct mpa_out){ulpdu, 14, &c, MPA_MULPDU_MAX - 13}, got), 0);
        assert_int_equal(mpa_tx_copy(&tx, &(struct mpa_out){ulpdu, 64769, &c, 0}, got), 0);
        assert_int_equal(mpa_tx_copy(&tx, &(struct mpa_out){ulpdu, 14, &c, UINT32_MAX - 4}, got),
                         0);
        c.left = 99;
        assert_int_equal(mpa_tx_copy(&tx, &(struct mpa_out){ulpdu, 14, &c, 100}, got), 0);
        assert_int_equal(tx.pos, pos);
        assert_int_equal(c.off, 0);
    }
}

/* head, payload and tail put together must be the FPDU. */
static void check_lend(bool crc, uint32_t hlen, uint32_t plen)
{
    static uint8_t head[64];
    uint8_t tail[7];
    struct span v[2] = {{ulpdu + hlen, plen / 2}, {ulpdu + hlen + plen / 2, plen + 5}};
    struct cursor c = cursor_of(v, 2);
    c.left = plen + 5;
    struct mpa_tx tx = tx_at(8, false, crc);
    uint32_t size = reference(&tx, hlen + plen);
    uint32_t t = mpa_tx_lend(&tx, &(struct mpa_out){ulpdu, hlen, &c, plen}, head, tail);
    assert_in_range(t, 4, 7);
    assert_int_equal(2 + hlen + plen + t, size);
    assert_int_equal(tx.pos, 8 + size);
    assert_int_equal(c.left, 5);
    assert_memory_equal(head, want, 2 + hlen);
    assert_memory_equal(tail, want + size - t, t);
}

/* proves: MPA-5044-4.1-01 MPA-5044-4.1-03 MPA-5044-4.4-11 */
static void lend(void **state)
{
    (void)state;
    for (uint32_t plen = 0; plen < 40; plen++) {
        check_lend(true, 14, plen);
        check_lend(false, 18, plen);
        check_lend(true, 0, plen);
    }
    check_lend(true, 14, 50000);
    check_lend(true, 14, MPA_MULPDU_MAX - 14);
}

/* proves: MPA-5044-3-05 */
static void lend_refuses(void **state)
{
    (void)state;
    uint8_t head[64], tail[7];
    struct span s;
    struct cursor c = cursor_flat(&s, ulpdu, 70000);
    struct mpa_tx tx = tx_at(0, false, true);
    assert_int_equal(
        mpa_tx_lend(&tx, &(struct mpa_out){ulpdu, 14, &c, MPA_MULPDU_MAX - 13}, head, tail), 0);
    c.left = 9;
    assert_int_equal(mpa_tx_lend(&tx, &(struct mpa_out){ulpdu, 14, &c, 10}, head, tail), 0);
    tx.markers = true;
    assert_int_equal(mpa_tx_lend(&tx, &(struct mpa_out){ulpdu, 14, &c, 9}, head, tail), 0);
    assert_int_equal(tx.pos, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mulpdu_of_every_emss),
        cmocka_unit_test(mulpdu_table),
        cmocka_unit_test(mulpdu_fits_the_segment),
        cmocka_unit_test(every_short_length),
        cmocka_unit_test(crc_off_sends_zero),
        cmocka_unit_test(every_marker_place),
        cmocka_unit_test(first_octets),
        cmocka_unit_test(long_marked_stream),
        cmocka_unit_test(lengths_at_the_limit),
        cmocka_unit_test(lend),
        cmocka_unit_test(lend_refuses),
    };
    rnd_seed();
    rnd_fill(ulpdu, sizeof ulpdu);
    return cmocka_run_group_tests_name("mpa_tx", tests, NULL, NULL);
}
