/* SPDX-License-Identifier: MIT */
/* Properties of mpa_tx.h and mpa_rx.h together, over random FPDU streams: what goes in comes out
 * however the stream is cut, and no flipped bit gets through a CRC. */
#include "mpa/mpa_rx.h"
#include "mpa/mpa_tx.h"

#include "mpa_testing.h"

enum { FPDUS = 12, STREAM_MAX = 600000, ROUNDS = 60 };

struct session {
    bool markers, crc;
    uint32_t start; /* stream offset of the first FPDU */
    uint32_t cnt;
    uint32_t len[FPDUS];
    uint32_t sent_len, stream_len;
    uint8_t sent[STREAM_MAX]; /* the ULPDUs, one after the other */
    uint8_t stream[STREAM_MAX];
};

static struct session ses;
static struct mpa_ulpdu out;

static uint32_t send_lent(struct mpa_tx *tx, const uint8_t *ulpdu, uint32_t len, uint8_t *dst)
{
    uint32_t hlen = min_u32(len, 14);
    struct span s;
    struct cursor c = cursor_flat(&s, ulpdu + hlen, len - hlen);
    uint8_t tail[7];
    uint32_t t = mpa_tx_lend(tx, &(struct mpa_out){ulpdu, hlen, &c, len - hlen}, dst, tail);
    memcpy(dst + 2 + hlen, ulpdu + hlen, len - hlen);
    memcpy(dst + 2 + len, tail, t);
    return 2 + len + t;
}

static uint32_t send_copied(struct mpa_tx *tx, const uint8_t *ulpdu, uint32_t len, uint8_t *dst)
{
    uint32_t hlen = rnd_in(0, min_u32(len, 18));
    uint32_t half = rnd_in(0, len - hlen);
    struct span v[] = {{ulpdu + hlen, half}, {ulpdu, 0}, {ulpdu + hlen + half, len - hlen - half}};
    struct cursor c = cursor_of(v, ARRAY_LEN(v));
    return mpa_tx_copy(tx, &(struct mpa_out){ulpdu, hlen, &c, len - hlen}, dst);
}

/* A stream of up to FPDUS random ULPDUs of 1..max octets; checked against the plain one. */
static void make_session(uint32_t max)
{
    static uint8_t plain[STREAM_MAX];
    ses.markers = rnd() & 1;
    ses.crc = rnd() & 1;
    ses.start = rnd() & 1 ? 0 : 0u - 4 * rnd_in(0, 20000);
    ses.cnt = rnd_in(1, FPDUS);
    ses.sent_len = ses.stream_len = 0;
    struct mpa_tx tx;
    mpa_tx_init(&tx, ses.markers, ses.crc);
    tx.pos = ses.start;
    struct ref r = {.markers = ses.markers, .crc = ses.crc, .pos = ses.start, .out = plain};
    for (uint32_t i = 0; i < ses.cnt; i++) {
        uint32_t len = ses.len[i] = min_u32(rnd_len(MPA_MULPDU_MAX), max);
        uint8_t *ulpdu = ses.sent + ses.sent_len;
        uint8_t *dst = ses.stream + ses.stream_len;
        rnd_fill(ulpdu, len);
        bool lent = !ses.markers && (rnd() & 1);
        ses.stream_len +=
            lent ? send_lent(&tx, ulpdu, len, dst) : send_copied(&tx, ulpdu, len, dst);
        ses.sent_len += len;
        ref_fpdu(&r, ulpdu, len, 0);
        if (ses.sent_len > STREAM_MAX - 2 * MPA_MULPDU_MAX) {
            ses.cnt = i + 1;
        }
    }
    assert_int_equal(r.n, ses.stream_len);
    assert_memory_equal(plain, ses.stream, ses.stream_len);
}

/* Compares out with the ULPDU number i, whose octets begin at `at`. */
static void check_ulpdu(uint32_t i, uint32_t at)
{
    assert_true(i < ses.cnt);
    assert_int_equal(out.len, ses.len[i]);
    uint32_t n = 0;
    for (uint32_t k = 0; k < out.cnt; k++) {
        assert_true(out.v[k].n <= out.len - n);
        assert_memory_equal(out.v[k].p, ses.sent + at + n, out.v[k].n);
        n += out.v[k].n;
    }
    assert_int_equal(n, out.len);
}

static struct mpa_rx receiver(void)
{
    struct mpa_rx rx;
    mpa_rx_init(&rx, ses.markers, ses.crc);
    rx.pos = ses.start;
    return rx;
}

static void drain(struct cursor in)
{
    struct mpa_rx rx = receiver();
    struct verdict why = VERDICT_OK;
    uint32_t at = 0;
    for (uint32_t i = 0; i < ses.cnt; i++) {
        assert_int_equal(mpa_rx_next(&rx, &in, &out, &why), MPA_RX_ULPDU);
        check_ulpdu(i, at);
        at += ses.len[i];
    }
    assert_int_equal(in.left, 0);
    assert_int_equal(rx.pos, ses.start + ses.stream_len);
    assert_int_equal(mpa_rx_next(&rx, &in, &out, &why), MPA_RX_MORE);
}

/* Cuts the stream into spans of lo..hi octets, each a block of its own, so that a sanitizer sees
 * any octet read past its end. */
static void drain_cut(uint32_t lo, uint32_t hi)
{
    static struct span v[STREAM_MAX];
    uint32_t cnt = 0;
    for (uint32_t at = 0; at < ses.stream_len; cnt++) {
        uint32_t n = min_u32(rnd_in(lo, hi), ses.stream_len - at);
        uint8_t *block = malloc(n);
        assert_non_null(block);
        memcpy(block, ses.stream + at, n);
        v[cnt] = (struct span){block, n};
        at += n;
    }
    drain(cursor_of(v, cnt));
    for (uint32_t i = 0; i < cnt; i++) {
        free((void *)(uintptr_t)v[i].p);
    }
}

/* proves: MPA-5044-5.1-05 MPA-5044-A.4-01 MPA-5044-4.3-12 MPA-5044-4.3-13 MPA-5044-4.3-08 */
static void cut_at_random(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        make_session(MPA_MULPDU_MAX);
        drain_cut(STREAM_MAX, STREAM_MAX);
        drain_cut(100, 3000);
        make_session(800);
        drain_cut(1, 1);
        drain_cut(1, 9);
    }
}

/* proves: MPA-5044-5.1-05 MPA-5044-6-04 MPA-5044-A.5.2-01 */
static void fed_octet_by_octet(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS / 6; round++) {
        make_session(MPA_MULPDU_MAX);
        struct mpa_rx rx = receiver();
        struct verdict why;
        uint32_t used = 0, i = 0, at = 0;
        for (uint32_t have = 0; have <= ses.stream_len; have++) {
            struct span s;
            struct cursor in = cursor_flat(&s, ses.stream + used, have - used);
            bool enough = mpa_rx_need(&rx, in) <= in.left;
            enum mpa_rx_result res = mpa_rx_next(&rx, &in, &out, &why);
            assert_int_equal(res, enough ? MPA_RX_ULPDU : MPA_RX_MORE);
            if (res == MPA_RX_ULPDU) {
                check_ulpdu(i, at);
                at += ses.len[i++];
                used += out.used;
                assert_int_equal(used, have);
            }
        }
        assert_int_equal(i, ses.cnt);
    }
}

/* The stream with one bit flipped: every ULPDU before it is right, then no other comes. */
static void flip(uint32_t bit)
{
    ses.stream[bit / 8] ^= (uint8_t)(1u << bit % 8);
    struct mpa_rx rx = receiver();
    struct verdict why = VERDICT_OK;
    struct span s;
    struct cursor in = cursor_flat(&s, ses.stream, ses.stream_len);
    enum mpa_rx_result res;
    uint32_t i = 0, at = 0;
    while ((res = mpa_rx_next(&rx, &in, &out, &why)) == MPA_RX_ULPDU) {
        check_ulpdu(i, at);
        at += ses.len[i++];
        assert_true(rx.pos - ses.start <= bit / 8);
    }
    assert_true(i < ses.cnt);
    if (res == MPA_RX_BAD) {
        assert_true(
            verdict_is(why, LAYER_LLP, LLP_MPA, MPA_ERR_CRC) ||
            (out.len > MPA_MULPDU_MAX && verdict_is(why, LAYER_LLP, LLP_MPA, MPA_ERR_MARKER)));
    }
    ses.stream[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* proves: MPA-5044-4.4-01 MPA-5044-4.4-14 MPA-5044-4.4-15 MPA-5044-6-01 MPA-5044-6-03 */
static void one_bit_flipped(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS / 3; round++) {
        do {
            make_session(round % 2 == 0 ? 100 : MPA_MULPDU_MAX);
        } while (!ses.crc);
        uint32_t bits = ses.stream_len * 8;
        if (ses.stream_len < 1000) {
            for (uint32_t bit = 0; bit < bits; bit++) {
                flip(bit);
            }
        }
        for (int i = 0; i < 100; i++) {
            flip(rnd_in(0, bits - 1));
        }
    }
}

/* A trace of what mpa_rx_next() said of a stream, as a hash. */
static uint64_t trace(struct mpa_rx rx, struct cursor in)
{
    struct verdict why = VERDICT_OK;
    uint64_t h = 0;
    enum mpa_rx_result res;
    do {
        res = mpa_rx_next(&rx, &in, &out, &why);
        h = h * 31 + res;
        if (res == MPA_RX_ULPDU) {
            h = h * 31 + out.len;
            h = h * 31 + out.markers;
        }
    } while (res == MPA_RX_ULPDU);
    return (h * 31 + why.code) * 31 + in.left;
}

/* Random octets: no crash, no octet read past the end, and the cuts do not matter. */
/* proves: MPA-5044-5.1-05 */
static void garbage(void **state)
{
    (void)state;
    for (int round = 0; round < 3000; round++) {
        uint32_t n = rnd_len(900) + 8;
        uint8_t *a = malloc(n);
        assert_non_null(a);
        rnd_fill(a, n);
        a[0] &= 1; /* else hardly any length would fit */
        a[4] &= 1;
        struct mpa_rx rx = {.markers = rnd() & 1, .crc = rnd() & 1, .pos = 4 * rnd_in(0, 128)};
        struct span flat;
        uint64_t want = trace(rx, cursor_flat(&flat, a, n));
        static struct span v[1000];
        for (uint32_t i = 0; i < n; i++) {
            v[i] = (struct span){a + i, 1};
        }
        assert_true(trace(rx, cursor_of(v, n)) == want);
        free(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_at_random),
        cmocka_unit_test(fed_octet_by_octet),
        cmocka_unit_test(one_bit_flipped),
        cmocka_unit_test(garbage),
    };
    rnd_seed();
    return cmocka_run_group_tests_name("mpa_stream", tests, NULL, NULL);
}
