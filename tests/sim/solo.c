/* SPDX-License-Identifier: MIT */
#include "solo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct solo *solo_open(const char *keys)
{
    struct solo *c = calloc(1, sizeof *c);
    assert_non_null(c);
    sim_open_one(&c->s, 1, keys);
    raw_open(&c->r, &c->s);
    c->b = &c->s.side[1];
    for (uint32_t i = 0; i < SOLO_SMALL; i++) {
        c->mem[i] = (uint8_t)(i * 3);
    }
    c->mr = sim_reg(&c->s, 1, c->mem, SOLO_SMALL,
                    UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE | UIW_ACCESS_REMOTE_READ);
    return c;
}

void solo_close(struct solo *c)
{
    raw_close(&c->r);
    sim_drop(&c->s);
    uiw_mr_dereg(c->mr);
    sim_close(&c->s);
    free(c);
}

void solo_join(struct solo *c)
{
    raw_join(&c->r, &c->c, &raw_with_depths);
    raw_first(&c->r, &c->c);
}

struct uiw_sge solo_sge(const struct solo *c, uint32_t off, uint32_t n)
{
    return sim_sge(c->mr, c->mem + off, n);
}

enum uiw_qp_state solo_qp_state(const struct solo *c)
{
    struct uiw_qp_info info;
    uiw_qp_query(c->b->qp, &info);
    return info.state;
}

void solo_expect_send(struct solo *c, uint32_t n)
{
    assert_true(raw_next(&c->r, &c->c, &c->u));
    assert_int_equal(c->u.opcode, RDMAP_SEND);
    assert_int_equal(c->u.seg.plen, n);
}

void solo_expect_end(struct solo *c, enum uiw_reason reason)
{
    sim_until(&c->s, &c->b->disconnected, 1, 15000);
    assert_int_equal(c->b->last.reason, reason);
    raw_run(&c->r, 50);
    assert_int_equal(c->b->disconnected, 1);
    assert_int_equal(solo_qp_state(c), UIW_QP_ERROR);
}
