/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ddp/ddp_rx.h"

static struct ddp_seg seg(uint32_t qn, uint32_t msn, uint32_t mo, uint32_t plen, bool last)
{
    return (struct ddp_seg){
        .hdr = {.last = last, .version = DDP_VERSION, .qn = qn, .msn = msn, .mo = mo},
        .plen = plen,
        .len = DDP_UNTAGGED_LEN + plen};
}

static void accept(struct ddp_rx *rx, struct ddp_seg s)
{
    assert_false(ddp_rx_check(rx, &s).bad);
    ddp_rx_advance(rx, &s);
}

static void refuse(const struct ddp_rx *rx, struct ddp_seg s, unsigned code)
{
    const struct ddp_rx before = *rx;
    assert_true(verdict_is(ddp_rx_check(rx, &s), LAYER_DDP, DDP_UNTAGGED, code));
    assert_memory_equal(&before, rx, sizeof(before));
}

/* proves: DDP-5041-7.1-01 DDP-5041-7.2-08 EXT-7306-10-02 */
static void unknown_queues(void **state)
{
    (void)state;
    struct ddp_rx rx;
    for (unsigned atomics = 0; atomics < 2; atomics++) {
        ddp_rx_init(&rx, atomics != 0);
        static const uint32_t qns[] = {3, 4, 5, 7, 255, 0x80000000, UINT32_MAX};
        for (size_t i = 0; i < ARRAY_LEN(qns); i++) {
            if (qns[i] == 3 && atomics) {
                continue;
            }
            refuse(&rx, seg(qns[i], 1, 0, 4, true), DDP_UNT_QN);
            struct ddp_seg s = seg(qns[i], 1, 0, 4, true);
            assert_false(ddp_rx_wants_buffer(&rx, &s));
            ddp_rx_give_buffer(&rx, qns[i], 100);
            ddp_rx_advance(&rx, &s);
        }
    }
    ddp_rx_give_buffer(&rx, DDP_QN_ATOMIC, 12);
    accept(&rx, seg(DDP_QN_ATOMIC, 1, 0, 12, true));
}

/* proves: DDP-5041-7.1-02 DDP-5041-7.1-06 DDP-5041-7.2-09 */
static void no_buffer(void **state)
{
    (void)state;
    struct ddp_rx rx;
    ddp_rx_init(&rx, false);
    struct ddp_seg s = seg(0, 1, 0, 4, true);
    assert_true(ddp_rx_wants_buffer(&rx, &s));
    refuse(&rx, s, DDP_UNT_NOBUF);
    ddp_rx_give_buffer(&rx, 0, 4);
    assert_false(ddp_rx_wants_buffer(&rx, &s));
    accept(&rx, s);
    /* The buffer went with the message. */
    refuse(&rx, seg(0, 2, 0, 0, true), DDP_UNT_NOBUF);
}

/* proves: DDP-5041-4.3-08 DDP-5041-4.3-07 */
static void queues_count_apart(void **state)
{
    (void)state;
    struct ddp_rx rx;
    ddp_rx_init(&rx, true);
    for (uint32_t msn = 1; msn < 50; msn++) {
        for (uint32_t qn = 0; qn < DDP_QNS; qn++) {
            ddp_rx_give_buffer(&rx, qn, 10);
            refuse(&rx, seg(qn, msn + 1, 0, 1, true), DDP_UNT_MSN);
            accept(&rx, seg(qn, msn, 0, 1, true));
        }
    }
}

/* proves: DDP-5041-7.1-05 DDP-5041-7.2-10 DDP-5041-5.3-05 */
static void wrong_msn(void **state)
{
    (void)state;
    struct ddp_rx rx;
    ddp_rx_init(&rx, false);
    ddp_rx_give_buffer(&rx, 0, 100);
    refuse(&rx, seg(0, 0, 0, 1, true), DDP_UNT_MSN);
    refuse(&rx, seg(0, 3, 0, 1, true), DDP_UNT_MSN);
    refuse(&rx, seg(0, UINT32_MAX, 0, 1, true), DDP_UNT_MSN);
    accept(&rx, seg(0, 1, 0, 1, true));
    ddp_rx_give_buffer(&rx, 0, 100);
    refuse(&rx, seg(0, 1, 0, 1, true), DDP_UNT_MSN);
    /* also in the middle of a message, so that messages of a queue cannot interleave */
    accept(&rx, seg(0, 2, 0, 10, false));
    refuse(&rx, seg(0, 1, 10, 1, false), DDP_UNT_MSN);
    refuse(&rx, seg(0, 3, 0, 1, true), DDP_UNT_MSN);
    accept(&rx, seg(0, 2, 10, 10, true));
}

/* proves: DDP-5041-4.3-09 */
static void msn_wraps(void **state)
{
    (void)state;
    for (uint32_t qn = 0; qn < DDP_QNS; qn++) {
        struct ddp_rx rx;
        ddp_rx_init(&rx, true);
        rx.q[qn].msn = UINT32_MAX - 4;
        for (uint32_t i = 0; i < 10; i++) {
            ddp_rx_give_buffer(&rx, qn, 1);
            uint32_t msn = UINT32_MAX - 4 + i;
            refuse(&rx, seg(qn, msn + 1, 0, 1, true), DDP_UNT_MSN);
            refuse(&rx, seg(qn, msn - 1, 0, 1, true), DDP_UNT_MSN);
            accept(&rx, seg(qn, msn, 0, 1, true));
        }
        assert_int_equal(rx.q[qn].msn, 5);
    }
}

/* proves: DDP-5041-7.1-03 DDP-5041-7.2-11 DDP-5041-5.3-03 DDP-5041-5.3-04
 * DDP-5041-5.2-11 */
static void wrong_mo(void **state)
{
    (void)state;
    struct ddp_rx rx;
    ddp_rx_init(&rx, false);
    /* whether a buffer is there or not */
    refuse(&rx, seg(0, 1, 4096, 4, true), DDP_UNT_MO);
    struct ddp_seg late = seg(0, 1, 4096, 4, true);
    assert_false(ddp_rx_wants_buffer(&rx, &late));
    ddp_rx_give_buffer(&rx, 0, 2048);
    refuse(&rx, seg(0, 1, 4096, 6, true), DDP_UNT_MO);
    refuse(&rx, seg(0, 1, 1482, 566, true), DDP_UNT_MO);
    refuse(&rx, seg(0, 1, UINT32_MAX, 6, true), DDP_UNT_MO);
    accept(&rx, seg(0, 1, 0, 1482, false));
    refuse(&rx, seg(0, 1, 0, 1482, false), DDP_UNT_MO);
    refuse(&rx, seg(0, 1, 1000, 566, true), DDP_UNT_MO);
    refuse(&rx, seg(0, 1, 1483, 1, true), DDP_UNT_MO);
    accept(&rx, seg(0, 1, 1482, 566, true));
}

/* proves: DDP-5041-7.1-04 DDP-5041-7.2-12 RDMAP-5040-5.3-04 RDMAP-5040-5.3-03 */
static void too_long(void **state)
{
    (void)state;
    struct ddp_rx rx;
    ddp_rx_init(&rx, false);
    ddp_rx_give_buffer(&rx, 0, 1024);
    refuse(&rx, seg(0, 1, 0, 1025, true), DDP_UNT_TOOLONG);
    refuse(&rx, seg(0, 1, 0, UINT32_MAX, true), DDP_UNT_TOOLONG);
    accept(&rx, seg(0, 1, 0, 1024, false));
    refuse(&rx, seg(0, 1, 1024, 1, true), DDP_UNT_TOOLONG);
    accept(&rx, seg(0, 1, 1024, 0, true));
    ddp_rx_give_buffer(&rx, 0, 0);
    refuse(&rx, seg(0, 2, 0, 1, true), DDP_UNT_TOOLONG);
    accept(&rx, seg(0, 2, 0, 0, true));
    ddp_rx_give_buffer(&rx, 0, 100);
    accept(&rx, seg(0, 3, 0, 60, false));
    refuse(&rx, seg(0, 3, 60, 41, true), DDP_UNT_TOOLONG);
    accept(&rx, seg(0, 3, 60, 1, true));
}

/* proves: DDP-5041-5.4-01 */
static void message_stays_open_without_last(void **state)
{
    (void)state;
    struct ddp_rx rx;
    ddp_rx_init(&rx, false);
    ddp_rx_give_buffer(&rx, 0, 30);
    accept(&rx, seg(0, 1, 0, 0, false));
    accept(&rx, seg(0, 1, 0, 10, false));
    accept(&rx, seg(0, 1, 10, 0, false));
    accept(&rx, seg(0, 1, 10, 20, false));
    assert_true(rx.q[0].has_buf);
    assert_true(rx.q[0].open);
    assert_int_equal(rx.q[0].msn, 1);
    accept(&rx, seg(0, 1, 30, 0, true));
    assert_int_equal(rx.q[0].msn, 2);
    assert_false(rx.q[0].has_buf);
    assert_false(rx.q[0].open);
    assert_int_equal(rx.q[0].mo, 0);
}

/* proves: RDMAP-5040-7.2-01 */
static void order_of_checks(void **state)
{
    (void)state;
    struct ddp_rx rx;
    ddp_rx_init(&rx, false);
    ddp_rx_give_buffer(&rx, 0, 10);
    refuse(&rx, seg(9, 9, 9, 99, true), DDP_UNT_QN);
    refuse(&rx, seg(0, 9, 9, 99, true), DDP_UNT_MSN);
    refuse(&rx, seg(0, 1, 9, 99, true), DDP_UNT_MO);
    refuse(&rx, seg(0, 1, 0, 99, true), DDP_UNT_TOOLONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_queues),     cmocka_unit_test(no_buffer),
        cmocka_unit_test(queues_count_apart), cmocka_unit_test(wrong_msn),
        cmocka_unit_test(msn_wraps),          cmocka_unit_test(wrong_mo),
        cmocka_unit_test(too_long),           cmocka_unit_test(message_stays_open_without_last),
        cmocka_unit_test(order_of_checks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
