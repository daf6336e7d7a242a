/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "ddp/ddp_tx.h"

/* A segment as it would stand on the wire, with its payload told by place only. */
struct cut {
    struct ddp_hdr hdr;
    uint32_t off, plen, len;
};

static struct cut next(struct ddp_msg *m, uint32_t mulpdu)
{
    uint8_t hdr[DDP_HDR_MAX];
    uint32_t hlen = 0;
    struct cut c = {.off = m->off};
    c.plen = ddp_tx_next(m, mulpdu, hdr, &hlen);
    c.len = hlen + c.plen;
    struct span s = {hdr, hlen};
    struct ddp_seg seg;
    assert_false(ddp_seg_parse(cursor_of(&s, 1), &seg).bad);
    c.hdr = seg.hdr;
    assert_int_equal(hdr[0] & 0x3c, 0);
    assert_int_equal(hlen, c.hdr.tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN);
    assert_true(c.len <= mulpdu);
    return c;
}

/* proves: DDP-5041-5.2-01 DDP-5041-5.2-05 DDP-5041-4.1-03 DDP-5041-4.1-04 DDP-5041-4.1-05
 * DDP-5041-4.1-06 DDP-5041-4.3-04 DDP-5041-4.3-06 DDP-5041-4.3-10 DDP-5041-4.3-11 */
static void cuts_untagged(void **state)
{
    (void)state;
    struct ddp_msg m = {.ulp = 0x44, .ulp32 = 0xd8040001, .qn = 0, .msn = 7, .len = 2048};
    struct cut a = next(&m, 1500);
    assert_int_equal(a.plen, 1482);
    assert_int_equal(a.hdr.mo, 0);
    assert_false(a.hdr.last);
    assert_false(m.done);
    struct cut b = next(&m, 1500);
    assert_int_equal(b.plen, 566);
    assert_int_equal(b.hdr.mo, 1482);
    assert_true(b.hdr.last);
    assert_true(m.done);
    assert_int_equal(a.hdr.ulp, 0x44);
    assert_int_equal(b.hdr.ulp, 0x44);
    assert_int_equal(a.hdr.ulp32, 0xd8040001);
    assert_int_equal(b.hdr.ulp32, 0xd8040001);
    assert_int_equal(a.hdr.qn, 0);
    assert_int_equal(b.hdr.qn, 0);
    assert_int_equal(a.hdr.msn, 7);
    assert_int_equal(b.hdr.msn, 7);
}

/* proves: DDP-5041-5.2-07 DDP-5041-4.2-04 DDP-5041-4.2-08 DDP-5041-4.1-03 DDP-5041-4.1-04 */
static void cuts_tagged(void **state)
{
    (void)state;
    struct ddp_msg m = {.tagged = true, .ulp = 0x40, .stag = 0xa501, .to = 16384, .len = 2048};
    struct cut a = next(&m, 1500);
    struct cut b = next(&m, 1500);
    assert_int_equal(a.plen, 1486);
    assert_true(a.hdr.to == 16384);
    assert_false(a.hdr.last);
    assert_int_equal(b.plen, 562);
    assert_true(b.hdr.to == 17870);
    assert_true(b.hdr.last);
    assert_true(m.done);
    assert_int_equal(a.hdr.stag, 0xa501);
    assert_int_equal(b.hdr.stag, 0xa501);
    assert_int_equal(a.hdr.ulp, 0x40);
    assert_int_equal(b.hdr.ulp, 0x40);
}

/* proves: DDP-5041-5.2-08 DDP-5041-5.2-09 RDMAP-5040-5.1-09 RDMAP-5040-5.3-10 */
static void nothing_takes_one_segment(void **state)
{
    (void)state;
    for (unsigned tagged = 0; tagged < 2; tagged++) {
        struct ddp_msg m = {.tagged = tagged != 0, .ulp = 0x40, .qn = 0, .msn = 1};
        struct cut c = next(&m, 128);
        assert_int_equal(c.plen, 0);
        assert_true(c.hdr.last);
        assert_true(m.done);
        assert_int_equal(c.len, tagged ? 14 : 18);
    }
}

/* proves: MPA-5044-4.5-02 MPA-5044-4.5-01 */
static void full_segments_use_all_of_mulpdu(void **state)
{
    (void)state;
    /* V046, V063, and the read responses V078: what an EMSS of 1460 holds */
    struct ddp_msg send = {.ulp = 0x43, .msn = 1, .len = 5000};
    assert_int_equal(next(&send, 1454).plen, 1436);
    struct ddp_msg marked = {.ulp = 0x43, .msn = 1, .len = 5000};
    assert_int_equal(next(&marked, 1442).len, 1442);
    struct ddp_msg resp = {.tagged = true, .ulp = 0x42, .len = 4096};
    assert_int_equal(next(&resp, 1454).plen, 1440);
    assert_int_equal(next(&resp, 1454).plen, 1440);
    struct cut last = next(&resp, 1454);
    assert_int_equal(last.plen, 1216);
    assert_true(last.hdr.last);
}

/* proves: DDP-5041-3-01 DDP-5041-3-02 */
static void mulpdu_may_change_in_mid_message(void **state)
{
    (void)state;
    struct ddp_msg m = {.tagged = true, .ulp = 0x40, .to = 100, .len = 3000};
    assert_int_equal(next(&m, 1014).plen, 1000);
    struct cut b = next(&m, 514);
    assert_int_equal(b.plen, 500);
    assert_true(b.hdr.to == 1100);
    struct cut c = next(&m, 9000);
    assert_int_equal(c.plen, 1500);
    assert_true(c.hdr.to == 1600);
    assert_true(c.hdr.last);
}

/* proves: DDP-5041-5.2-02 DDP-5041-5.2-03 */
static void longest_message(void **state)
{
    (void)state;
    struct ddp_msg m = {.ulp = 0x43, .msn = 1, .len = UINT32_MAX};
    uint64_t sum = 0;
    while (!m.done) {
        struct cut c = next(&m, 64768);
        assert_true(c.hdr.mo == sum);
        sum += c.plen;
        assert_int_equal(c.hdr.last, sum == UINT32_MAX);
    }
    assert_true(sum == UINT32_MAX);
}

/* proves: DDP-5041-5.2-03 DDP-5041-5.2-01 DDP-5041-5.3-02 DDP-5041-4.1-04 DDP-5041-4.2-09 */
static void random_messages_are_cut_whole(void **state)
{
    (void)state;
    const char *env = getenv("UIW_SEED");
    unsigned seed = env != NULL ? (unsigned)strtoul(env, NULL, 0) : random_u32();
    print_message("UIW_SEED=%u\n", seed);
    srand(seed);
    for (unsigned round = 0; round < 3000; round++) {
        uint32_t mulpdu = 128 + (uint32_t)rand() % 3000;
        struct ddp_msg m = {.tagged = (rand() & 1) != 0,
                            .ulp = 0x43,
                            .to = (uint64_t)rand(),
                            .len = (uint32_t)rand() % (3 * mulpdu + 1)};
        uint64_t to = m.to;
        uint32_t seen = 0;
        while (!m.done) {
            struct cut c = next(&m, mulpdu);
            assert_int_equal(c.off, seen);
            if (m.tagged) {
                assert_true(c.hdr.to == to + seen);
            } else {
                assert_int_equal(c.hdr.mo, seen);
            }
            seen += c.plen;
            assert_int_equal(c.hdr.last, seen == m.len);
            assert_true(c.hdr.last || c.len == mulpdu);
        }
        assert_int_equal(seen, m.len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_untagged),
        cmocka_unit_test(cuts_tagged),
        cmocka_unit_test(nothing_takes_one_segment),
        cmocka_unit_test(full_segments_use_all_of_mulpdu),
        cmocka_unit_test(mulpdu_may_change_in_mid_message),
        cmocka_unit_test(longest_message),
        cmocka_unit_test(random_messages_are_cut_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
