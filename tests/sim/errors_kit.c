/* SPDX-License-Identifier: MIT */
#include "errors.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

bool scene_shared;

/* --- rows --- */

static const char *const names[E_ROWS] = {
#define ROW(name, text) [E_##name] = (text),
    ERRORS_ROWS(ROW)
#undef ROW
};

static unsigned scenes[2][E_ROWS];

unsigned errors_missing(void)
{
    unsigned missing = 0, all = 0;
    for (unsigned i = 0; i < 2 * E_ROWS; i++) {
        bool shared = i >= E_ROWS;
        all += scenes[shared][i % E_ROWS];
        if (scenes[shared][i % E_ROWS] == 0) {
            print_message("no scene%s for the row: %s\n", shared ? " with a shared queue" : "",
                          names[i % E_ROWS]);
            missing++;
        }
    }
    print_message("%u scenes of %d rows, %u without\n", all, E_ROWS, missing);
    return missing;
}

/* --- those beside --- */

static bool takes(void *arg, const struct uiw_wc *wc)
{
    struct scene *c = arg;
    return beside_takes(&c->beside[0], wc) || beside_takes(&c->beside[1], wc);
}

static struct sim *world_beside(struct scene *c)
{
    return c->apart ? &c->next : &c->s;
}

static void make_queues(struct scene *c)
{
    struct uiw_srq_attr attr = {.max_wr = 32, .max_sge = 1};
    for (int i = 0; i < SCENE_BESIDE; i++) {
        assert_int_equal(uiw_srq_create(world_beside(c)->side[1].pd, &attr, &c->srq[i]), 0);
    }
}

/* Own receives and a shared queue; or two shared queues, of which the spoilt one has the one. */
static void open_beside(struct scene *c)
{
    struct sim *w = world_beside(c);
    struct sim_side *side = &w->side[1];
    w->takes = takes;
    w->takes_arg = c;
    make_queues(c);
    for (int i = 0; i < SCENE_BESIDE; i++) {
        bool own = i == 1 && !scene_shared;
        beside_open(&c->beside[i], c->apart ? &c->next_raw : &c->r, own ? NULL : c->srq[i]);
    }
    c->s.srq = scene_shared && !c->apart ? c->srq[0] : NULL;
    side->established = 0;
    memset(&side->last, 0, sizeof side->last);
}

static uint64_t end_round(struct scene *c)
{
    uint64_t most = 0;
    for (int i = 0; i < SCENE_BESIDE; i++) {
        beside_end(&c->beside[i]);
        most = c->beside[i].took_ms > most ? c->beside[i].took_ms : most;
    }
    return most;
}

/* One round to see how long it takes, and then the one that the fault comes into. */
static void begin_beside(struct scene *c)
{
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < SCENE_BESIDE; i++) {
            beside_begin(&c->beside[i]);
        }
        if (round == 0) {
            beside_go(&c->beside[0]);
            beside_go(&c->beside[1]);
            c->usual_ms = end_round(c);
        }
    }
}

static void begin(struct scene *c, enum errors_row row, const char *keys)
{
    c->row = row;
    sim_open_one(&c->s, 1, keys);
    raw_open(&c->r, &c->s);
    if (c->apart) {
        sim_open_next(&c->next, &c->s, keys);
        raw_open(&c->next_raw, &c->next);
    }
    c->in_mr = sim_reg(&c->s, 1, c->in, sizeof c->in, UIW_ACCESS_LOCAL_WRITE);
    open_beside(c);
    begin_beside(c);
}

void scene_begin(struct scene *c, enum errors_row row, const char *keys)
{
    begin(c, row, keys);
}

void scene_begin_apart(struct scene *c, enum errors_row row, const char *keys)
{
    c->apart = true;
    begin(c, row, keys);
}

void scene_hit(struct scene *c)
{
    assert_false(c->hit);
    c->hit = true;
    for (int i = 0; i < SCENE_BESIDE; i++) {
        beside_expect_under_way(&c->beside[i]);
        beside_go(&c->beside[i]);
    }
}

/* Nothing was told about them. */
static void expect_no_word(struct scene *c)
{
    struct uiw_async_event ev;
    while (uiw_async_get(world_beside(c)->side[1].dev, &ev) == 0) {
        assert_null(ev.srq);
        assert_int_not_equal(ev.type, UIW_ASYNC_DEVICE_FATAL);
        for (int i = 0; i < SCENE_BESIDE; i++) {
            assert_int_not_equal(ev.qp_num, c->beside[i].qp_num);
        }
    }
}

void scene_expect_unharmed(struct scene *c)
{
    if (!c->hit) {
        fail_msg("no scene_hit() in a scene of: %s", names[c->row]);
    }
    uint64_t took = end_round(c);
    if (took > c->usual_ms) {
        fail_msg("beside: a round took %llu ms, without the fault %llu ms",
                 (unsigned long long)took, (unsigned long long)c->usual_ms);
    }
    expect_no_word(c);
    for (int i = 0; i < SCENE_BESIDE; i++) {
        unsigned others = beside_expect_alive(&c->beside[i]);
        c->left += others;
        assert_true(others == 0 || (i == 0 && scene_shared));
    }
    for (int i = 0; i < SCENE_BESIDE; i++) {
        beside_close(&c->beside[i]);
    }
    scenes[scene_shared][c->row]++;
    c->done = true;
}

void scene_end(struct scene *c)
{
    if (!c->done) {
        scene_expect_unharmed(c);
    }
    raw_close(&c->r);
    sim_drop(&c->s);
    uiw_mr_dereg(c->in_mr);
    if (c->apart) {
        raw_close(&c->next_raw);
    }
    for (int i = 0; i < SCENE_BESIDE; i++) {
        assert_int_equal(uiw_srq_destroy(c->srq[i]), 0);
    }
    sim_close(&c->s);
    if (c->apart) {
        sim_close(&c->next);
    }
}

struct scene *scene_open(enum errors_row row, const char *keys)
{
    struct scene *c = calloc(1, sizeof *c);
    assert_non_null(c);
    scene_begin(c, row, keys);
    return c;
}

void scene_close(struct scene *c)
{
    scene_end(c);
    free(c);
}

/* --- side 1 --- */

void scene_join(struct scene *c)
{
    raw_join(&c->r, &c->c, &raw_with_depths);
    raw_first(&c->r, &c->c);
}

void scene_expect_async(struct scene *c, enum uiw_async_type type, const char *text)
{
    struct uiw_async_event ev;
    assert_int_equal(uiw_async_get(c->s.side[1].dev, &ev), 0);
    assert_int_equal(ev.type, type);
    if (text != NULL) {
        assert_string_equal(ev.text, text);
    }
}

void scene_expect_no_async(struct scene *c)
{
    struct uiw_async_event ev;
    assert_int_equal(uiw_async_get(c->s.side[1].dev, &ev), -EAGAIN);
}

void scene_expect_last(const struct scene *c, enum uiw_event_type type, enum uiw_reason reason,
                       unsigned code)
{
    const struct uiw_event *e = &c->s.side[1].last;
    assert_int_equal(e->type, type);
    assert_int_equal(e->reason, reason);
    assert_int_equal(e->layer << 16 | e->etype << 8 | e->code, code);
    assert_true(strlen(e->text) > 0);
}

void scene_expect_word(struct scene *c, uint32_t word)
{
    raw_terminate(&c->r, &c->c, &c->u, &c->t);
    assert_int_equal(c->u.seg.plen, 4);
    assert_int_equal(get_be32(c->u.octets + DDP_UNTAGGED_LEN), word);
}

void scene_recv(struct scene *c, uint64_t wr_id)
{
    sim_recv(&c->s, 1, sim_sge(c->in_mr, c->in, sizeof c->in), wr_id);
}

void scene_expect_flush(struct scene *c, uint64_t wr_id)
{
    struct uiw_wc wc;
    if (!scene_shared) {
        sim_poll(&c->s, 1, 1, &wc);
        assert_int_equal(wc.wr_id, wr_id);
        assert_int_equal(wc.status, UIW_WC_WR_FLUSH_ERR);
    }
    assert_int_equal(sim_cq_poll(&c->s, 1, 1, &wc), 0);
}
