/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "ddp/ddp_mem.h"

enum { PD = 7, STREAM = 3, BASE_TO = 0x10000, LEN = 64 };

static uint8_t octets[LEN];

/* A table of one region that gives everything to PD. */
struct one {
    struct ddp_mem *slot[8];
    uint32_t recent[4];
    struct ddp_mem_table t;
    struct ddp_mem m;
};

static void one_init(struct one *o)
{
    *o = (struct one){
        .m = {.base = octets, .to = BASE_TO, .len = LEN, .pd = PD, .rights = 0x1f, .valid = true}};
    ddp_mem_table_init(&o->t, o->slot, ARRAY_LEN(o->slot), o->recent, ARRAY_LEN(o->recent));
    assert_true(ddp_mem_insert(&o->t, &o->m, 0x0000a501));
}

static enum ddp_mem_fault try_at(const struct one *o, uint64_t to, uint32_t len)
{
    struct mspan out = {NULL, 0};
    enum ddp_mem_fault f = ddp_mem_check(
        &o->t, &(struct ddp_access){o->m.stag, to, len, DDP_REMOTE_WRITE, PD, STREAM}, &out);
    if (f == DDP_MEM_OK) {
        assert_int_equal(out.n, len);
        assert_true(out.p == o->m.base + (to - o->m.to));
    } else {
        assert_null(out.p);
    }
    return f;
}

static unsigned seed_from_env(void)
{
    const char *env = getenv("UIW_SEED");
    unsigned seed = env != NULL ? (unsigned)strtoul(env, NULL, 0) : random_u32();
    print_message("UIW_SEED=%u\n", seed);
    srand(seed);
    return seed;
}

static uint32_t rand32(void)
{
    return (uint32_t)rand() << 16 ^ (uint32_t)rand();
}

/* proves: DDP-5041-7.1-10 DDP-5041-7.1-11 */
static void unknown_stags(void **state)
{
    (void)state;
    struct one o;
    one_init(&o);
    struct mspan out;
    static const uint32_t bad[] = {0,          1,          0xff,       0x0000a500, 0x0000a502,
                                   0x0000a601, 0x0100a501, 0xdeadbe01, 0xffffffff, 0x000000a5};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_null(ddp_mem_find(&o.t, bad[i]));
        assert_int_equal(
            ddp_mem_check(&o.t, &(struct ddp_access){bad[i], BASE_TO, 1, DDP_LOCAL_READ, PD, 0},
                          &out),
            DDP_MEM_STAG);
    }
    assert_ptr_equal(ddp_mem_find(&o.t, 0xa501), &o.m);
    assert_int_equal(try_at(&o, BASE_TO, LEN), DDP_MEM_OK);
}

/* proves: DDP-5041-7.1-11 DDP-5041-8.3-02 RDMAP-5040-8.1.1-04 */
static void revoked_and_removed(void **state)
{
    (void)state;
    struct one o;
    one_init(&o);
    o.m.valid = false;
    assert_ptr_equal(ddp_mem_find(&o.t, 0xa501), &o.m);
    assert_int_equal(try_at(&o, BASE_TO, 1), DDP_MEM_STAG);
    o.m.valid = true;
    assert_int_equal(try_at(&o, BASE_TO, 1), DDP_MEM_OK);
    ddp_mem_remove(&o.t, &o.m);
    assert_int_equal(try_at(&o, BASE_TO, 1), DDP_MEM_STAG);
    ddp_mem_remove(&o.t, &o.m);
    assert_int_equal(o.t.live, 0);
}

/* proves: DDP-5041-8.2-01 DDP-5041-8.2-02 DDP-5041-8.2-04 RDMAP-5040-8.1.1-01
 * RDMAP-5040-8.1.1-02 SEC-5042-6.1.1-02 SEC-5042-6.1.1-03 */
static void pd_and_stream(void **state)
{
    (void)state;
    struct one o;
    one_init(&o);
    struct mspan out;
    assert_int_equal(ddp_mem_check(&o.t, &(struct ddp_access){0xa501, BASE_TO, 1, 0, PD, 1}, &out),
                     DDP_MEM_OK);
    assert_int_equal(
        ddp_mem_check(&o.t, &(struct ddp_access){0xa501, BASE_TO, 1, 0, PD + 1, 1}, &out),
        DDP_MEM_STREAM);
    assert_int_equal(ddp_mem_check(&o.t, &(struct ddp_access){0xa501, BASE_TO, 1, 0, 0, 1}, &out),
                     DDP_MEM_STREAM);
    o.m.stream = STREAM;
    assert_int_equal(
        ddp_mem_check(&o.t, &(struct ddp_access){0xa501, BASE_TO, 1, 0, PD, STREAM}, &out),
        DDP_MEM_OK);
    assert_int_equal(
        ddp_mem_check(&o.t, &(struct ddp_access){0xa501, BASE_TO, 1, 0, PD, STREAM + 1}, &out),
        DDP_MEM_STREAM);
    assert_int_equal(ddp_mem_check(&o.t, &(struct ddp_access){0xa501, BASE_TO, 1, 0, PD, 0}, &out),
                     DDP_MEM_STREAM);
    assert_int_equal(
        ddp_mem_check(&o.t, &(struct ddp_access){0xa501, BASE_TO, 1, 0, PD + 1, STREAM}, &out),
        DDP_MEM_STREAM);
}

/* proves: RDMAP-5040-8.1.1-05 DDP-5041-7.1-11 */
static void rights_matrix(void **state)
{
    (void)state;
    struct one o;
    one_init(&o);
    struct mspan out;
    for (uint32_t given = 0; given < 0x20; given++) {
        for (uint32_t asked = 0; asked < 0x20; asked++) {
            o.m.rights = given;
            bool ok = (asked & ~(given | DDP_LOCAL_READ)) == 0;
            assert_int_equal(
                ddp_mem_check(&o.t, &(struct ddp_access){0xa501, BASE_TO, 1, asked, PD, 0}, &out),
                ok ? DDP_MEM_OK : DDP_MEM_RIGHT);
        }
    }
}

/* proves: DDP-5041-7.1-12 DDP-5041-7.1-13 RDMAP-5040-8.1.1-03 SEC-5042-6.2.1-01
 * SEC-5042-6.3.4-01 */
static void bounds_sweep(void **state)
{
    (void)state;
    struct one o;
    one_init(&o);
    for (int64_t at = -20; at <= LEN + 20; at++) {
        for (uint32_t len = 1; len <= LEN + 2; len++) {
            bool inside = at >= 0 && at + (int64_t)len <= LEN;
            assert_int_equal(try_at(&o, (uint64_t)(BASE_TO + at), len),
                             inside ? DDP_MEM_OK : DDP_MEM_BOUNDS);
        }
    }
    assert_int_equal(try_at(&o, 0, 1), DDP_MEM_BOUNDS);
    assert_int_equal(try_at(&o, 0, UINT32_MAX), DDP_MEM_BOUNDS);
    assert_int_equal(try_at(&o, UINT64_MAX, 1), DDP_MEM_BOUNDS);
    assert_int_equal(try_at(&o, BASE_TO + 0x100000000, 1), DDP_MEM_BOUNDS);
    assert_int_equal(try_at(&o, (uint64_t)BASE_TO - 0x100000000, 1), DDP_MEM_BOUNDS);
}

/* proves: DDP-5041-7.1-14 DDP-5041-7.2-06 */
static void wrap(void **state)
{
    (void)state;
    struct one o;
    one_init(&o);
    assert_int_equal(try_at(&o, UINT64_MAX, 2), DDP_MEM_WRAP);
    assert_int_equal(try_at(&o, UINT64_MAX - 3, 5), DDP_MEM_WRAP);
    assert_int_equal(try_at(&o, UINT64_MAX - 3, UINT32_MAX), DDP_MEM_WRAP);
    /* A region may lie at the very top; the last octet of 2^64 does not wrap. */
    o.m.to = UINT64_MAX - LEN + 1;
    assert_int_equal(try_at(&o, UINT64_MAX, 1), DDP_MEM_OK);
    assert_int_equal(try_at(&o, UINT64_MAX, 2), DDP_MEM_WRAP);
    assert_int_equal(try_at(&o, o.m.to, LEN), DDP_MEM_OK);
    assert_int_equal(try_at(&o, o.m.to, LEN + 1), DDP_MEM_WRAP);
    assert_int_equal(try_at(&o, o.m.to - 1, 2), DDP_MEM_BOUNDS);
    assert_int_equal(try_at(&o, 0, 1), DDP_MEM_BOUNDS);
}

/* proves: SEC-5042-6.2.1-01 RDMAP-5040-8.1.1-03 */
static void empty_region_gives_nothing(void **state)
{
    (void)state;
    struct one o;
    one_init(&o);
    o.m.len = 0;
    for (uint64_t to = BASE_TO - 2; to <= BASE_TO + 2; to++) {
        assert_int_equal(try_at(&o, to, 1), DDP_MEM_BOUNDS);
        assert_int_equal(try_at(&o, to, UINT32_MAX), DDP_MEM_BOUNDS);
    }
    o.m.to = 0;
    assert_int_equal(try_at(&o, 0, 1), DDP_MEM_BOUNDS);
}

/* proves: DDP-5041-7.1-10 DDP-5041-7.1-12 */
static void order_of_checks(void **state)
{
    (void)state;
    struct one o;
    one_init(&o);
    struct mspan out;
    o.m.rights = DDP_REMOTE_READ;
    o.m.valid = false;
    assert_int_equal(
        ddp_mem_check(
            &o.t, &(struct ddp_access){0xa501, UINT64_MAX, 9, DDP_REMOTE_WRITE, PD + 1, 0}, &out),
        DDP_MEM_STAG);
    o.m.valid = true;
    assert_int_equal(
        ddp_mem_check(
            &o.t, &(struct ddp_access){0xa501, UINT64_MAX, 9, DDP_REMOTE_WRITE, PD + 1, 0}, &out),
        DDP_MEM_STREAM);
    assert_int_equal(
        ddp_mem_check(&o.t, &(struct ddp_access){0xa501, UINT64_MAX, 9, DDP_REMOTE_WRITE, PD, 0},
                      &out),
        DDP_MEM_RIGHT);
    assert_int_equal(
        ddp_mem_check(&o.t, &(struct ddp_access){0xa501, UINT64_MAX, 9, DDP_REMOTE_READ, PD, 0},
                      &out),
        DDP_MEM_WRAP);
}

/* proves: DDP-5041-7.2-01 DDP-5041-7.2-03 DDP-5041-7.2-04 DDP-5041-7.2-05 DDP-5041-7.2-06
 * RDMAP-5040-7.2-06 RDMAP-5040-7.2-07 RDMAP-5040-7.2-08 RDMAP-5040-7.2-10 RDMAP-5040-7.2-11 */
static void faults_as_verdicts(void **state)
{
    (void)state;
    static const struct {
        enum ddp_mem_fault f;
        unsigned tagged, read;
    } want[] = {
        {DDP_MEM_STAG, 0, 0},   {DDP_MEM_BOUNDS, 1, 1}, {DDP_MEM_RIGHT, 0, 2},
        {DDP_MEM_STREAM, 2, 3}, {DDP_MEM_WRAP, 3, 4},
    };
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        assert_true(verdict_is(ddp_mem_verdict_tagged(want[i].f), 1, 1, want[i].tagged));
        assert_true(verdict_is(ddp_mem_verdict_read(want[i].f), 0, 1, want[i].read));
    }
    assert_false(ddp_mem_verdict_tagged(DDP_MEM_OK).bad);
    assert_false(ddp_mem_verdict_read(DDP_MEM_OK).bad);
}

/* proves: SEC-5042-6.1.1-04 RDMAP-5040-8.1.1-08 */
static void what_insert_refuses(void **state)
{
    (void)state;
    struct one o;
    one_init(&o);
    struct ddp_mem other = {.pd = PD, .valid = true};
    assert_false(ddp_mem_insert(&o.t, &other, 0));
    assert_false(ddp_mem_insert(&o.t, &other, 0xff));
    /* one region for an index, whatever the key */
    assert_false(ddp_mem_insert(&o.t, &other, 0xa501));
    assert_false(ddp_mem_insert(&o.t, &other, 0xa502));
    ddp_mem_remove(&o.t, &o.m);
    assert_false(ddp_mem_insert(&o.t, &other, 0xa501));
    assert_false(ddp_mem_insert(&o.t, &other, 0xa5ff));
    for (uint32_t i = 1; i <= ARRAY_LEN(o.recent); i++) {
        assert_false(ddp_mem_insert(&o.t, &other, 0xa501));
        assert_true(ddp_mem_insert(&o.t, &other, i << 8 | 0x77));
        assert_int_equal(other.stag, i << 8 | 0x77);
        ddp_mem_remove(&o.t, &other);
    }
    assert_true(ddp_mem_insert(&o.t, &other, 0xa502));
}

/* proves: SEC-5042-6.1.1-04 RDMAP-5040-8.1.1-08 RDMAP-5040-8.1.1-09 */
static void stags_are_sparse_and_not_reused_soon(void **state)
{
    (void)state;
    enum { N = 100000, RECENT = 1024, SLOTS = 16 };
    struct ddp_mem *slot[SLOTS] = {NULL};
    uint32_t *recent = calloc(RECENT, sizeof(*recent));
    uint32_t *last = calloc(1u << 24, sizeof(*last));
    assert_non_null(recent);
    assert_non_null(last);
    struct ddp_mem_table t;
    ddp_mem_table_init(&t, slot, SLOTS, recent, RECENT);
    uint32_t buckets[256] = {0};
    uint32_t bits[32] = {0};
    for (uint32_t i = 1; i <= N; i++) {
        struct ddp_mem m = {.valid = true};
        while (!ddp_mem_insert(&t, &m, random_u32())) {
        }
        uint32_t index = m.stag >> 8;
        assert_true(last[index] == 0 || i - last[index] > RECENT);
        last[index] = i;
        buckets[m.stag >> 24]++;
        for (unsigned b = 0; b < 32; b++) {
            bits[b] += m.stag >> b & 1;
        }
        ddp_mem_remove(&t, &m);
        assert_int_equal(t.used, 0);
    }
    for (unsigned b = 0; b < 32; b++) {
        /* 6 standard deviations of a fair coin are 949 */
        assert_in_range(bits[b], N / 2 - 949, N / 2 + 949);
    }
    for (unsigned b = 0; b < 256; b++) {
        assert_in_range(buckets[b], N / 256 - 150, N / 256 + 150);
    }
    free(last);
    free(recent);
}

/* The plain model of the table: which of the regions are in it. */
enum { REGIONS = 600 };

struct model {
    struct ddp_mem m[REGIONS];
    bool in[REGIONS];
    uint32_t live;
    struct ddp_mem_table t;
    struct ddp_mem **slot;
    uint32_t slots;
};

static void model_grow(struct model *md)
{
    if (!ddp_mem_full(&md->t)) {
        return;
    }
    uint32_t slots = md->live * 4 > md->slots ? md->slots * 2 : md->slots;
    struct ddp_mem **fresh = calloc(slots, sizeof(struct ddp_mem *));
    assert_non_null(fresh);
    ddp_mem_rehash(&md->t, fresh, slots);
    free(md->slot);
    md->slot = fresh;
    md->slots = slots;
    assert_int_equal(md->t.used, md->live);
}

static void model_step(struct model *md, uint32_t index_bits)
{
    uint32_t i = rand32() % REGIONS;
    if (md->in[i]) {
        ddp_mem_remove(&md->t, &md->m[i]);
        assert_null(ddp_mem_find(&md->t, md->m[i].stag));
        md->in[i] = false;
        md->live--;
        return;
    }
    model_grow(md);
    /* few index bits make for many collisions and refusals */
    uint32_t want = rand32() & (UINT32_MAX >> (24 - index_bits));
    bool taken = want >> 8 == 0;
    for (uint32_t k = 0; k < REGIONS && !taken; k++) {
        taken = md->in[k] && md->m[k].stag >> 8 == want >> 8;
    }
    for (uint32_t k = 0; k < md->t.recent_cap && !taken; k++) {
        taken = md->t.recent[k] == want >> 8;
    }
    bool ok = ddp_mem_insert(&md->t, &md->m[i], want);
    assert_int_equal(ok, !taken);
    md->in[i] = ok;
    md->live += ok;
}

static void model_compare(const struct model *md)
{
    for (uint32_t i = 0; i < REGIONS; i++) {
        struct ddp_mem *found = ddp_mem_find(&md->t, md->m[i].stag);
        assert_true(found == &md->m[i] || !md->in[i]);
        assert_true(found == NULL || found->stag == md->m[i].stag);
    }
    assert_int_equal(md->t.live, md->live);
    assert_true(md->t.used >= md->live && md->t.used <= md->slots);
}

/* proves: RDMAP-5040-8.1.1-04 DDP-5041-8.3-01 */
static void table_against_a_model(void **state)
{
    (void)state;
    seed_from_env();
    static const uint32_t index_bits[] = {24, 12, 10};
    for (size_t b = 0; b < ARRAY_LEN(index_bits); b++) {
        struct model *md = calloc(1, sizeof(*md));
        uint32_t recent[20] = {0};
        assert_non_null(md);
        md->slots = 4;
        md->slot = calloc(md->slots, sizeof(struct ddp_mem *));
        assert_non_null(md->slot);
        ddp_mem_table_init(&md->t, md->slot, md->slots, recent, ARRAY_LEN(recent));
        for (uint32_t i = 0; i < 100000; i++) {
            model_step(md, index_bits[b]);
            if (i % 1000 == 0) {
                model_compare(md);
            }
        }
        model_compare(md);
        free(md->slot);
        free(md);
    }
}

/* proves: RDMAP-5040-8.1.1-04 */
static void full_table_still_ends_searches(void **state)
{
    (void)state;
    struct ddp_mem *slot[4] = {NULL};
    struct ddp_mem m[5] = {{.valid = true}};
    struct ddp_mem_table t;
    ddp_mem_table_init(&t, slot, 4, NULL, 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(ddp_mem_full(&t), i > 2);
        assert_true(ddp_mem_insert(&t, &m[i], (i + 1) << 8));
    }
    assert_true(ddp_mem_full(&t));
    assert_false(ddp_mem_insert(&t, &m[4], 9 << 8));
    assert_null(ddp_mem_find(&t, 9 << 8));
    for (uint32_t i = 0; i < 4; i++) {
        assert_ptr_equal(ddp_mem_find(&t, (i + 1) << 8), &m[i]);
        ddp_mem_remove(&t, &m[i]);
    }
    assert_null(ddp_mem_find(&t, 1 << 8));
    assert_int_equal(t.live, 0);
    assert_true(ddp_mem_insert(&t, &m[4], 9 << 8));
}

/* --- who uses an STag, and windows --- */

static bool only_stream_3_lives(const struct ddp_mem_table *t, uint32_t stream)
{
    (void)t;
    return stream == STREAM;
}

static enum ddp_mem_fault use(struct one *o, uint32_t stream, uint32_t rights)
{
    struct mspan out;
    return ddp_mem_check(&o->t, &(struct ddp_access){o->m.stag, BASE_TO, 1, rights, PD, stream},
                         &out);
}

/* proves: RDMAP-5040-8.1.1-07 SEC-5042-6.4.5-01 */
static void no_invalidate_while_another_stream_uses_it(void **state)
{
    (void)state;
    static const uint32_t remote[] = {DDP_REMOTE_READ, DDP_REMOTE_WRITE, DDP_REMOTE_ATOMIC};
    for (size_t i = 0; i < ARRAY_LEN(remote); i++) {
        struct one o;
        one_init(&o);
        assert_int_equal(ddp_mem_may_invalidate(&o.t, &o.m, PD, STREAM), DDP_MEM_RIGHT);
        o.m.inv_ok = true;
        assert_int_equal(ddp_mem_may_invalidate(&o.t, &o.m, PD, STREAM), DDP_MEM_OK);
        /* what this end does with it does not count, nor does what was refused */
        assert_int_equal(use(&o, 9, DDP_LOCAL_READ | DDP_LOCAL_WRITE), DDP_MEM_OK);
        o.m.rights = 0;
        assert_int_equal(use(&o, 9, remote[i]), DDP_MEM_RIGHT);
        o.m.rights = 0x1f;
        assert_int_equal(ddp_mem_may_invalidate(&o.t, &o.m, PD, STREAM), DDP_MEM_OK);
        assert_int_equal(use(&o, STREAM, remote[i]), DDP_MEM_OK);
        assert_int_equal(ddp_mem_may_invalidate(&o.t, &o.m, PD, STREAM), DDP_MEM_OK);
        assert_int_equal(ddp_mem_may_invalidate(&o.t, &o.m, PD, 9), DDP_MEM_RIGHT);
        assert_int_equal(use(&o, 9, remote[i]), DDP_MEM_OK);
        assert_int_equal(ddp_mem_may_invalidate(&o.t, &o.m, PD, STREAM), DDP_MEM_RIGHT);
        assert_int_equal(ddp_mem_may_invalidate(&o.t, &o.m, PD, 9), DDP_MEM_RIGHT);
    }
}

/* proves: RDMAP-5040-5.3-13 RDMAP-5040-5.3-14 RDMAP-5040-8.1.1-01 RDMAP-5040-8.1.1-02 */
static void who_may_invalidate(void **state)
{
    (void)state;
    struct one o;
    one_init(&o);
    o.m.inv_ok = true;
    assert_int_equal(ddp_mem_may_invalidate(&o.t, NULL, PD, STREAM), DDP_MEM_STAG);
    assert_int_equal(ddp_mem_may_invalidate(&o.t, &o.m, PD + 1, STREAM), DDP_MEM_STREAM);
    o.m.stream = STREAM;
    assert_int_equal(ddp_mem_may_invalidate(&o.t, &o.m, PD, STREAM + 1), DDP_MEM_STREAM);
    assert_int_equal(ddp_mem_may_invalidate(&o.t, &o.m, PD, STREAM), DDP_MEM_OK);
    o.m.valid = false;
    assert_int_equal(ddp_mem_may_invalidate(&o.t, &o.m, PD, STREAM), DDP_MEM_STAG);
}

/* A stream that is gone uses nothing: its successor may have the STag to itself. */
static void streams_that_are_gone_do_not_count(void **state)
{
    (void)state;
    struct one o;
    one_init(&o);
    o.m.inv_ok = true;
    o.t.lives = only_stream_3_lives;
    assert_int_equal(use(&o, 9, DDP_REMOTE_READ), DDP_MEM_OK);
    assert_int_equal(ddp_mem_may_invalidate(&o.t, &o.m, PD, STREAM), DDP_MEM_OK);
    assert_int_equal(use(&o, STREAM, DDP_REMOTE_READ), DDP_MEM_OK);
    assert_int_equal(o.m.user, STREAM);
    assert_int_equal(use(&o, 10, DDP_REMOTE_READ), DDP_MEM_OK);
    assert_int_equal(o.m.user, DDP_MEM_MANY);
}

/* proves: RDMAP-5040-8.1.1-05 */
static void windows_need_their_region(void **state)
{
    (void)state;
    struct one o;
    one_init(&o);
    struct ddp_mem window = {.base = octets,
                             .to = BASE_TO,
                             .len = LEN,
                             .pd = PD,
                             .rights = DDP_REMOTE_READ,
                             .valid = true,
                             .inv_ok = true,
                             .parent = &o.m};
    assert_true(ddp_mem_insert(&o.t, &window, 0x0000b602));
    struct ddp_access a = {window.stag, BASE_TO, 1, DDP_REMOTE_READ, PD, STREAM};
    struct mspan out;
    assert_int_equal(ddp_mem_check(&o.t, &a, &out), DDP_MEM_OK);
    /* it is for peers: not even to be read from by this end */
    a.rights = DDP_LOCAL_READ;
    assert_int_equal(ddp_mem_check(&o.t, &a, &out), DDP_MEM_RIGHT);
    a.rights = DDP_REMOTE_READ;
    o.m.valid = false;
    assert_int_equal(ddp_mem_check(&o.t, &a, &out), DDP_MEM_STAG);
    assert_int_equal(ddp_mem_may_invalidate(&o.t, &window, PD, STREAM), DDP_MEM_STAG);
}

static void find_whatever_the_key(void **state)
{
    (void)state;
    struct one o;
    one_init(&o);
    for (uint32_t key = 0; key < 256; key++) {
        assert_ptr_equal(ddp_mem_find_index(&o.t, 0xa500 | key), &o.m);
        assert_null(ddp_mem_find_index(&o.t, key));
        assert_null(ddp_mem_find_index(&o.t, 0xa600 | key));
    }
    o.m.stag ^= 0x7f; /* another key, the same place */
    assert_ptr_equal(ddp_mem_find(&o.t, 0xa501 ^ 0x7f), &o.m);
    assert_null(ddp_mem_find(&o.t, 0xa501));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_stags),
        cmocka_unit_test(revoked_and_removed),
        cmocka_unit_test(pd_and_stream),
        cmocka_unit_test(rights_matrix),
        cmocka_unit_test(bounds_sweep),
        cmocka_unit_test(wrap),
        cmocka_unit_test(empty_region_gives_nothing),
        cmocka_unit_test(order_of_checks),
        cmocka_unit_test(faults_as_verdicts),
        cmocka_unit_test(what_insert_refuses),
        cmocka_unit_test(stags_are_sparse_and_not_reused_soon),
        cmocka_unit_test(table_against_a_model),
        cmocka_unit_test(full_table_still_ends_searches),
        cmocka_unit_test(no_invalidate_while_another_stream_uses_it),
        cmocka_unit_test(who_may_invalidate),
        cmocka_unit_test(streams_that_are_gone_do_not_count),
        cmocka_unit_test(windows_need_their_region),
        cmocka_unit_test(find_whatever_the_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
