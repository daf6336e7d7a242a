/* SPDX-License-Identifier: MIT */
/* Request and Reply frames by themselves (mpa_setup.h): layout, early refusal, cuts, random input. */
#include "mpa/mpa_setup.h"

#include "mpa_testing.h"

static uint8_t wire[70000];

static enum mpa_parse parse(uint32_t n, bool want_reply, struct mpa_frame *f, enum mpa_fault *why)
{
    struct span s;
    struct cursor in = cursor_flat(&s, wire, n);
    enum mpa_parse res = mpa_frame_unpack(&in, want_reply, f, why);
    if (res == MPA_PARSE_OK) {
        uint32_t used = 20u + f->pd_len + (f->enhanced ? 4u : 0u);
        assert_int_equal(n - in.left, used);
    } else {
        assert_int_equal(in.left, n);
        assert_int_equal(in.off, 0);
    }
    return res;
}

static void assert_same(const struct mpa_frame *a, const struct mpa_frame *b)
{
    assert_int_equal(a->reply, b->reply);
    assert_int_equal(a->markers, b->markers);
    assert_int_equal(a->crc, b->crc);
    assert_int_equal(a->reject, b->reject);
    assert_int_equal(a->enhanced, b->enhanced);
    assert_int_equal(a->rev, b->rev);
    assert_int_equal(a->p2p, b->p2p);
    assert_int_equal(a->rtr, b->rtr);
    assert_int_equal(a->ird, b->ird);
    assert_int_equal(a->ord, b->ord);
    assert_int_equal(a->pd_len, b->pd_len);
    assert_memory_equal(a->pd, b->pd, MPA_PD_MAX);
}

/* A frame that pack and unpack carry without loss. */
static struct mpa_frame random_frame(void)
{
    struct mpa_frame f = {
        .reply = rnd() & 1,
        .markers = rnd() & 1,
        .crc = rnd() & 1,
        .enhanced = rnd() & 1,
        .ird = MPA_DEPTH_UNSET,
        .ord = MPA_DEPTH_UNSET,
    };
    f.reject = f.reply && (rnd() & 1);
    f.rev = f.enhanced ? MPA_REV_2 : (uint8_t)rnd_in(1, 2);
    if (f.enhanced) {
        f.p2p = rnd() & 1;
        f.rtr = f.p2p ? (uint8_t)rnd_in(0, 7) : 0;
        f.ird = (uint16_t)rnd_in(0, MPA_DEPTH_MASK);
        f.ord = (uint16_t)rnd_in(0, MPA_DEPTH_MASK);
    }
    f.pd_len = (uint16_t)rnd_in(0, f.enhanced ? 508 : 512);
    rnd_fill(f.pd, f.pd_len);
    return f;
}

/* proves: MPA-5044-7.1.1-21 MPA-5044-7.1.1-23 MPA-5044-7.1.2-22 ECM-6581-9-01 ECM-6581-6-05 */
static void there_and_back(void **state)
{
    (void)state;
    for (int round = 0; round < 3000; round++) {
        struct mpa_frame f = random_frame(), g;
        enum mpa_fault why = MPA_FAULT_KEY;
        uint32_t n = mpa_frame_pack(&f, wire);
        assert_int_equal(n, 20 + f.pd_len + (f.enhanced ? 4 : 0));
        memset(&g, 0xee, sizeof g);
        rnd_fill(wire + n, 8);
        assert_int_equal(parse(n + rnd_in(0, 8), f.reply, &g, &why), MPA_PARSE_OK);
        assert_int_equal(why, MPA_FAULT_NONE);
        assert_same(&f, &g);
    }
}

/* proves: MPA-5044-7.1.1-01 MPA-5044-7.1.1-03 MPA-5044-7.1.1-12 MPA-5044-7.1.1-15 ECM-6581-9-01 */
static void packed_octets(void **state)
{
    (void)state;
    static const struct {
        struct mpa_frame f;
        uint32_t n;
        const char *octets;
    } cases[] = {
        {{.crc = true, .rev = 1}, 20, "MPA ID Req Frame\x40\x01\x00\x00"},
        {{.reply = true, .markers = true, .rev = 1}, 20, "MPA ID Rep Frame\x80\x01\x00\x00"},
        {{.reply = true, .reject = true, .rev = 1}, 20, "MPA ID Rep Frame\x20\x01\x00\x00"},
        /* R is zero in a Request */
        {{.reject = true, .rev = 1, .pd_len = 2, .pd = "ok"}, 22, "MPA ID Req Frame\0\x01\0\2ok"},
        {{.enhanced = true, .rev = 2, .p2p = true, .rtr = MPA_RTR_READ, .ird = 1, .ord = 2},
         24,
         "MPA ID Req Frame\x10\x02\x00\x04\x80\x01\x40\x02"},
        {{.enhanced = true, .rev = 2, .p2p = true, .rtr = MPA_RTR_SEND | MPA_RTR_WRITE},
         24,
         "MPA ID Req Frame\x10\x02\x00\x04\xc0\x00\x80\x00"},
        /* A=0: no B, C, D */
        {{.enhanced = true, .rev = 2, .rtr = 7, .ird = 0x3fff, .ord = 0x3ffe},
         24,
         "MPA ID Req Frame\x10\x02\x00\x04\x3f\xff\x3f\xfe"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(mpa_frame_pack(&cases[i].f, wire), cases[i].n);
        assert_memory_equal(wire, cases[i].octets, cases[i].n);
    }
}

/* proves: MPA-5044-7.1.1-24 ECM-6581-9-02 */
static void pack_refuses_too_much(void **state)
{
    (void)state;
    struct mpa_frame f = {.rev = 2, .pd_len = 512};
    assert_int_equal(mpa_frame_pack(&f, wire), 532);
    f.pd_len = 513;
    assert_int_equal(mpa_frame_pack(&f, wire), 0);
    f.enhanced = true;
    f.pd_len = 508;
    assert_int_equal(mpa_frame_pack(&f, wire), 532);
    f.pd_len = 509;
    assert_int_equal(mpa_frame_pack(&f, wire), 0);
}

/* Writes a frame header; S and the rest as given. */
static void header(bool reply, unsigned flags, unsigned rev, unsigned pd_length)
{
    static const char rep[] = "MPA ID Rep Frame", req[] = "MPA ID Req Frame";
    for (unsigned i = 0; i < 16; i++) {
        wire[i] = (uint8_t)(reply ? rep : req)[i];
    }
    wire[16] = (uint8_t)flags;
    wire[17] = (uint8_t)rev;
    put_be16(wire + 18, pd_length);
}

/* proves: MPA-5044-7.1.1-02 MPA-5044-7.1.1-04 MPA-5044-8-04 MPA-5044-7.1.2-19 */
static void each_octet_of_the_key(void **state)
{
    (void)state;
    for (int reply = 0; reply <= 1; reply++) {
        for (uint32_t i = 0; i < 16; i++) {
            for (unsigned bit = 0; bit < 8; bit++) {
                struct mpa_frame f;
                enum mpa_fault why = MPA_FAULT_NONE;
                header(reply, 0, 1, 0);
                wire[i] ^= (uint8_t)(1u << bit);
                assert_int_equal(parse(i, reply, &f, &why), MPA_PARSE_MORE);
                bool other = i == 9 && bit == 0; /* q and p differ in one bit */
                for (uint32_t n = i + 1; n <= 20; n++) {
                    assert_int_equal(parse(n, reply, &f, &why), MPA_PARSE_BAD);
                    assert_int_equal(why, other ? MPA_FAULT_ROLE : MPA_FAULT_KEY);
                }
            }
        }
    }
}

/* proves: MPA-5044-7.1.1-17 MPA-5044-7.1.1-18 MPA-5044-7.1.1-19 */
static void each_revision(void **state)
{
    (void)state;
    for (unsigned rev = 0; rev < 256; rev++) {
        struct mpa_frame f;
        enum mpa_fault why;
        header(false, 0, rev, 0);
        bool good = rev == 1 || rev == 2;
        assert_int_equal(parse(17, false, &f, &why), MPA_PARSE_MORE);
        assert_int_equal(parse(18, false, &f, &why), good ? MPA_PARSE_MORE : MPA_PARSE_BAD);
        assert_int_equal(parse(20, false, &f, &why), good ? MPA_PARSE_OK : MPA_PARSE_BAD);
        assert_int_equal(why, good ? MPA_FAULT_NONE : MPA_FAULT_REV);
    }
}

/* proves: MPA-5044-7.1.1-16 MPA-5044-7.1.1-13 ECM-6581-6-01 */
static void each_flags_octet(void **state)
{
    (void)state;
    for (unsigned flags = 0; flags < 256; flags++) {
        for (unsigned rev = 1; rev <= 2; rev++) {
            struct mpa_frame f;
            enum mpa_fault why;
            header(true, flags, rev, 4);
            put_be32(wire + 20, 0x8005c007);
            assert_int_equal(parse(24, true, &f, &why), MPA_PARSE_OK);
            assert_int_equal(f.markers, flags >> 7 & 1);
            assert_int_equal(f.crc, flags >> 6 & 1);
            assert_int_equal(f.reject, flags >> 5 & 1);
            assert_int_equal(f.enhanced, rev == 2 && (flags >> 4 & 1));
            assert_int_equal(f.pd_len, f.enhanced ? 0 : 4);
            assert_int_equal(f.p2p, f.enhanced);
            assert_int_equal(f.rtr, f.enhanced ? MPA_RTR_WRITE | MPA_RTR_READ : 0);
            assert_int_equal(f.ird, f.enhanced ? 5 : MPA_DEPTH_UNSET);
            assert_int_equal(f.ord, f.enhanced ? 7 : MPA_DEPTH_UNSET);
        }
    }
}

/* proves: MPA-5044-7.1.1-22 MPA-5044-7.1.2-23 MPA-5044-7.1.2-21 ECM-6581-12-01 ECM-6581-6-06 */
static void each_pd_length(void **state)
{
    (void)state;
    for (unsigned s = 0; s <= 1; s++) {
        for (unsigned pd = 0; pd < 65536; pd += pd < 520 ? 1 : 251) {
            struct mpa_frame f;
            enum mpa_fault why;
            header(false, s ? MPA_FLAG_S : 0, 2, pd);
            bool good = pd <= 512 && (s == 0 || pd >= 4);
            assert_int_equal(parse(19, false, &f, &why), MPA_PARSE_MORE);
            if (!good) {
                assert_int_equal(parse(20, false, &f, &why), MPA_PARSE_BAD);
                assert_int_equal(why, MPA_FAULT_PD_LENGTH);
                continue;
            }
            for (unsigned n = 20; n < 20 + pd; n += 1 + n / 25) {
                assert_int_equal(parse(n, false, &f, &why), MPA_PARSE_MORE);
            }
            assert_int_equal(parse(20 + pd, false, &f, &why), MPA_PARSE_OK);
            assert_int_equal(f.pd_len, s ? pd - 4 : pd);
        }
    }
}

/* Octets left from a frame before do not show in a shorter one. */
/* proves: MPA-5044-7.1.2-22 */
static void nothing_stale(void **state)
{
    (void)state;
    struct mpa_frame f;
    enum mpa_fault why;
    memset(&f, 0xee, sizeof f);
    header(false, 0, 1, 3);
    fill_pattern(wire + 20, 3);
    assert_int_equal(parse(23, false, &f, &why), MPA_PARSE_OK);
    for (uint32_t i = 3; i < MPA_PD_MAX; i++) {
        assert_int_equal(f.pd[i], 0);
    }
}

/* proves: MPA-5044-7.1.2-23 MPA-5044-5.1-05 */
static void cut_at_every_octet(void **state)
{
    (void)state;
    for (int round = 0; round < 30; round++) {
        struct mpa_frame f = random_frame(), g;
        enum mpa_fault why;
        uint32_t n = mpa_frame_pack(&f, wire);
        struct span ones[MPA_FRAME_MAX];
        for (uint32_t i = 0; i < n; i++) {
            ones[i] = (struct span){wire + i, 1};
        }
        for (uint32_t cut = 0; cut <= n; cut++) {
            struct span two[] = {{wire, cut}, {wire + cut, n - cut}};
            struct cursor in = cursor_of(two, 2);
            assert_int_equal(mpa_frame_unpack(&in, f.reply, &g, &why), MPA_PARSE_OK);
            assert_same(&f, &g);
            in = cursor_of(ones, cut);
            assert_int_equal(mpa_frame_unpack(&in, f.reply, &g, &why),
                             cut < n ? MPA_PARSE_MORE : MPA_PARSE_OK);
            assert_int_equal(in.left, cut < n ? cut : 0);
        }
    }
}

/* Random octets behind a prefix of a good frame, in a block of just that size: the outcome of the
 * whole is that of the first prefix that was decided. */
/* proves: MPA-5044-8-04 MPA-5044-7.1.2-23 */
static void garbage(void **state)
{
    (void)state;
    for (int round = 0; round < 5000; round++) {
        struct mpa_frame f = random_frame(), g;
        mpa_frame_pack(&f, wire);
        uint32_t n = rnd_in(1, 560);
        rnd_fill(wire + rnd_in(0, 24), 4);
        uint8_t *block = malloc(n);
        assert_non_null(block);
        memcpy(block, wire, n);
        enum mpa_parse decided = MPA_PARSE_MORE;
        enum mpa_fault first = MPA_FAULT_NONE, why = MPA_FAULT_NONE;
        for (uint32_t have = 0; have <= n && decided == MPA_PARSE_MORE; have++) {
            struct span s;
            struct cursor in = cursor_flat(&s, block, have);
            decided = mpa_frame_unpack(&in, f.reply, &g, &first);
        }
        struct span s;
        struct cursor in = cursor_flat(&s, block, n);
        assert_int_equal(mpa_frame_unpack(&in, f.reply, &g, &why), decided);
        assert_int_equal(why, first);
        if (decided == MPA_PARSE_OK) {
            assert_true(g.pd_len <= (g.enhanced ? 508 : 512));
        }
        free(block);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),        cmocka_unit_test(packed_octets),
        cmocka_unit_test(pack_refuses_too_much), cmocka_unit_test(each_octet_of_the_key),
        cmocka_unit_test(each_revision),         cmocka_unit_test(each_flags_octet),
        cmocka_unit_test(each_pd_length),        cmocka_unit_test(nothing_stale),
        cmocka_unit_test(cut_at_every_octet),    cmocka_unit_test(garbage),
    };
    rnd_seed();
    return cmocka_run_group_tests_name("mpa_frame", tests, NULL, NULL);
}
