/* SPDX-License-Identifier: MIT */
/* Memory that is lent to TCP, not copied: what is sent again is read from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim.h"

enum { LENT = 40000 };

struct scene {
    struct sim s;
    uint8_t mine[2][LENT], theirs[LENT];
    struct uiw_mr *my_mr, *their_mr;
};

/* A Write of lent memory is with TCP, and nothing of it with the peer. */
static struct scene *scene_open(void)
{
    struct scene *c = calloc(1, sizeof *c);
    struct uiw_wc wc;
    sim_open(&c->s, 7, "mtu=9000"); /* segments too small are copied */
    for (uint32_t i = 0; i < LENT; i++) {
        c->mine[0][i] = (uint8_t)(i * 7 + i / 251);
    }
    c->my_mr = sim_reg(&c->s, 0, c->mine, sizeof c->mine, UIW_ACCESS_LOCAL_WRITE);
    c->their_mr =
        sim_reg(&c->s, 1, c->theirs, LENT, UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE);
    struct sim_at at = {(uint64_t)(uintptr_t)c->theirs, uiw_mr_rkey(c->their_mr)};
    sim_connect(&c->s, NULL, NULL);
    sim_post(&c->s, 0, UIW_WR_RDMA_WRITE, sim_sge(c->my_mr, c->mine[0], 8), at);
    sim_poll(&c->s, 0, 1, &wc);
    for (int i = 0; i < 50; i++) {
        sim_step(&c->s);
    }
    sim_wire(&c->s, &(struct net_wire){.seed = 1, .loss_ppm = 1000000});
    sim_post(&c->s, 0, UIW_WR_RDMA_WRITE, sim_sge(c->my_mr, c->mine[0], LENT), at);
    for (int i = 0; i < 20; i++) {
        sim_step(&c->s);
    }
    return c;
}

static void scene_close(struct scene *c)
{
    sim_drop(&c->s);
    uiw_mr_dereg(c->my_mr);
    uiw_mr_dereg(c->their_mr);
    sim_close(&c->s);
    free(c);
}

/* The wire is a good one again, and all comes as it was when it was posted. */
static void expect_arrival(struct scene *c, bool done_already)
{
    sim_wire(&c->s, &(struct net_wire){0});
    if (done_already) {
        sim_until(&c->s, &c->s.side[1].disconnected, 1, 10000);
        assert_int_equal(c->s.side[1].last.reason, UIW_REASON_PEER_TERMINATE);
    } else {
        struct uiw_wc wc;
        sim_poll(&c->s, 0, 1, &wc);
        assert_int_equal(wc.status, UIW_WC_SUCCESS);
        for (int i = 0; i < 50; i++) {
            sim_step(&c->s);
        }
    }
    for (uint32_t i = 0; i < LENT; i++) {
        assert_int_equal(c->theirs[i], (uint8_t)(i * 7 + i / 251));
    }
    scene_close(c);
}

/* proves: RDMAP-5040-5.5-16 */
static void test_done_when_acknowledged(void **state)
{
    (void)state;
    struct scene *c = scene_open();
    struct uiw_wc wc;
    for (int i = 0; i < 500; i++) {
        sim_step(&c->s);
    }
    assert_int_equal(uiw_cq_poll(c->s.side[0].cq, 1, &wc), 0);
    expect_arrival(c, false);
}

/* --- before that the program has its memory back when it ends the loan itself --- */

static void test_region_ends(void **state)
{
    (void)state;
    struct scene *c = scene_open();
    assert_int_equal(uiw_mr_dereg(c->my_mr), 0);
    memset(c->mine, 0xee, sizeof c->mine);
    c->my_mr = sim_reg(&c->s, 0, c->mine, sizeof c->mine, UIW_ACCESS_LOCAL_WRITE);
    expect_arrival(c, false);
}

static void test_region_moves(void **state)
{
    (void)state;
    struct scene *c = scene_open();
    struct uiw_mr_change to = {
        .what = UIW_REREG_TRANSLATION, .addr = c->mine[1], .length = sizeof c->mine[1]};
    assert_int_equal(uiw_mr_rereg(c->my_mr, &to), 0);
    memset(c->mine[0], 0xee, LENT);
    expect_arrival(c, false);
}

/* The stream ends by a request that has no memory, and the Write is flushed.
 * proves: RDMAP-5040-6.2.1-02 */
static void test_flushed(void **state)
{
    (void)state;
    struct scene *c = scene_open();
    struct uiw_sge bad = {.addr = 0, .length = 1, .lkey = 0xbad};
    struct uiw_wc wc[2];
    sim_post(&c->s, 0, UIW_WR_SEND, bad, (struct sim_at){0, 0});
    sim_poll(&c->s, 0, 2, wc);
    assert_int_equal(wc[0].status, UIW_WC_WR_FLUSH_ERR);
    assert_int_equal(wc[1].status, UIW_WC_LOC_PROT_ERR);
    memset(c->mine, 0xee, sizeof c->mine);
    expect_arrival(c, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_done_when_acknowledged),
        cmocka_unit_test(test_region_ends),
        cmocka_unit_test(test_region_moves),
        cmocka_unit_test(test_flushed),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
