/* SPDX-License-Identifier: MIT */
/* Regions that change, and memory that is shared by several. */
#include "ext_kit.h"

/* bugs R02 */
/* proves: DDP-5041-8.3-01 */
static void test_reregistration(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_pd *pd = x->s.side[1].pd, *other;
    struct uiw_mr *mr = sim_reg(&x->s, 1, ext_area(x), 64, EXT_W | UIW_ACCESS_MW_BIND);
    uint32_t rkey = uiw_mr_rkey(mr);
    assert_int_equal(uiw_pd_create(x->s.side[1].dev, &other), 0);
    ext_expect_open(x, 0, rkey);
    struct uiw_mr_change move = {
        .what = UIW_REREG_TRANSLATION, .addr = ext_area(x) + 512, .length = 64};
    assert_int_equal(uiw_mr_rereg(mr, &move), 0);
    assert_int_equal(uiw_mr_rkey(mr), rkey);
    assert_int_equal(uiw_mr_addr(mr), ext_addr(x) + 512);
    ext_expect_open(x, 512, rkey);
    ext_expect_closed(x, 0, rkey, 1);
    struct uiw_mr_change access = {.what = UIW_REREG_ACCESS, .access = EXT_R};
    assert_int_equal(uiw_mr_rereg(mr, &access), 0);
    ext_expect_closed(x, 512, rkey, 0);
    struct uiw_mr_change away = {
        .what = UIW_REREG_PD | UIW_REREG_ACCESS, .pd = other, .access = EXT_W};
    assert_int_equal(uiw_mr_rereg(mr, &away), 0);
    ext_expect_closed(x, 512, rkey, 2);
    assert_int_equal(uiw_pd_destroy(other), -EBUSY);
    away.pd = pd;
    away.access |= UIW_ACCESS_MW_BIND;
    assert_int_equal(uiw_mr_rereg(mr, &away), 0);
    ext_expect_open(x, 512, rkey);
    assert_int_equal(uiw_pd_destroy(other), 0);
    /* one that the peer has revoked */
    struct ext_result r = ext_try(x, EXT_INV, ext_at(x, 0, rkey), 0);
    ext_expect_ok(&r);
    assert_int_equal(uiw_mr_rereg(mr, &move), 0);
    ext_expect_open(x, 512, rkey);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    ext_close(x);
}

static void test_reregistration_that_fails(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_mr *mr = sim_reg(&x->s, 1, ext_area(x), 64, EXT_W | UIW_ACCESS_MW_BIND), *for_qp;
    struct uiw_mw *mw = ext_window(x, UIW_MW_TYPE_1);
    struct uiw_pd *other;
    assert_int_equal(uiw_pd_create(x->s.side[1].dev, &other), 0);
    uint32_t rkey = uiw_mr_rkey(mr);
    uint8_t *at = ext_area(x) + 512;
    const struct uiw_mr_change bad[] = {
        {.what = 0},
        {.what = 0x8},
        {.what = UIW_REREG_TRANSLATION, .addr = at, .length = 0},
        {.what = UIW_REREG_TRANSLATION, .addr = NULL, .length = 64},
        {.what = UIW_REREG_ACCESS, .access = UIW_ACCESS_REMOTE_WRITE},
        {.what = UIW_REREG_ACCESS, .access = 0x1000},
        {.what = UIW_REREG_PD, .pd = NULL},
        {.what = UIW_REREG_PD, .pd = x->s.side[0].pd},
        /* good and bad together: nothing of it */
        {.what = UIW_REREG_TRANSLATION | UIW_REREG_PD | UIW_REREG_ACCESS,
         .addr = at,
         .length = 64,
         .pd = other,
         .access = UIW_ACCESS_REMOTE_ATOMIC},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(uiw_mr_rereg(mr, &bad[i]), -EINVAL);
        ext_expect_open(x, 0, rkey);
        ext_expect_closed(x, 512, rkey, 1);
    }
    assert_int_equal(uiw_mr_reg_qp(x->s.side[1].qp, at, 64, EXT_W, &for_qp), 0);
    struct uiw_mr_change away = {.what = UIW_REREG_PD, .pd = other};
    assert_int_equal(uiw_mr_rereg(for_qp, &away), -EINVAL);
    assert_int_equal(uiw_mr_dereg(for_qp), 0);
    assert_int_equal(ext_bind(x, mw, mr, 0, 64), UIW_WC_SUCCESS);
    assert_int_equal(uiw_mr_rereg(mr, &away), -EBUSY);
    ext_expect_open(x, 0, uiw_mw_rkey(mw));
    assert_int_equal(uiw_mw_destroy(mw), 0);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    assert_int_equal(uiw_pd_destroy(other), 0);
    ext_close(x);
}

static void test_shared_memory(void **state)
{
    (void)state;
    struct ext *x = ext_open("mtu=1500");
    struct uiw_pd *pd = x->s.side[1].pd, *other;
    struct uiw_mr *mr = ext_expose(x, EXT_W), *share, *far, *none;
    assert_int_equal(uiw_pd_create(x->s.side[1].dev, &other), 0);
    assert_int_equal(uiw_mr_share(mr, pd, EXT_W | UIW_ACCESS_ZERO_BASED, &share), 0);
    assert_int_equal(uiw_mr_share(share, other, EXT_W, &far), 0);
    assert_int_not_equal(uiw_mr_rkey(mr) >> 8, uiw_mr_rkey(share) >> 8);
    assert_int_equal(uiw_mr_length(share), EXT_AREA);
    assert_int_equal(uiw_mr_addr(share), 0);
    struct ext_result r = ext_try(x, EXT_WRITE, (struct sim_at){16, uiw_mr_rkey(share)}, 8);
    ext_expect_ok(&r);
    assert_memory_equal(ext_area(x) + 16, x->mine, 8);
    memset(ext_area(x), EXT_FILL, EXT_AREA);
    ext_expect_closed(x, 0, uiw_mr_rkey(far), 2);
    /* either goes by itself */
    assert_int_equal(uiw_mr_dereg(share), 0);
    ext_expect_open(x, 0, uiw_mr_rkey(mr));
    assert_int_equal(uiw_mr_share(mr, pd, UIW_ACCESS_REMOTE_ATOMIC, &none), -EINVAL);
    assert_int_equal(uiw_mr_share(mr, x->s.side[0].pd, EXT_R, &none), -EINVAL);
    assert_int_equal(ext_invalidate(x, uiw_mr_rkey(mr)), UIW_WC_SUCCESS);
    assert_int_equal(uiw_mr_share(mr, pd, EXT_R, &none), -EINVAL);
    assert_int_equal(uiw_mr_dereg(mr), 0);
    assert_int_equal(uiw_mr_dereg(far), 0);
    assert_int_equal(uiw_pd_destroy(other), 0);
    ext_close(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reregistration),
        cmocka_unit_test(test_reregistration_that_fails),
        cmocka_unit_test(test_shared_memory),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
