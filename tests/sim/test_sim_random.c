/* SPDX-License-Identifier: MIT */
/* Thousands of random operations of every kind in both directions, compared with a model at the end.
 * The wire cuts, loses, doubles and reorders. Repeatable from the seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim.h"

enum {
    SRC = 1 << 20,    /* each side's octets to send: never change */
    TARGET = 1 << 20, /* where the peer writes */
    RECVS = 32,
    RECV_MAX = 160 * 1024,
    WR_OPEN = 24, /* requests in flight per side */
    INV_REGIONS = 16,
};

enum op {
    OP_SEND,
    OP_SEND_INV,
    OP_IMM,
    OP_WRITE,
    OP_WRITE_IMM,
    OP_READ,
    OP_READ_INV,
    OP_ATOMIC,
    OPS
};

enum { WORDS = 8 }; /* that the peer does Atomics on, apart from the rest */

/* A Send under way, in order: what its receiver must see. */
struct expected {
    uint32_t off[SIM_SGE], len[SIM_SGE], cnt, total, stag;
    bool solicited, imm;
    uint64_t value; /* Immediate Data */
};

/* A Read or Atomic under way. */
struct read_slot {
    bool busy, atomic;
    uint64_t original; /* what the Atomic must find */
    uint8_t *sink;
    struct uiw_mr *mr; /* of a READ_INV */
    uint32_t len, src;
};

struct peer {
    struct sim_side *me;
    uint8_t *src, *target, *model; /* model: what the other side's target must be */
    uint8_t *recv, *sink;
    struct uiw_mr *src_mr, *target_mr, *recv_mr, *sink_mr;
    struct uiw_mr *inv[INV_REGIONS]; /* regions that the other side may invalidate; NULL: used up */
    struct expected *sent;           /* ring of Sends in flight, by the sender */
    unsigned sent_head, sent_tail, recvs_posted;
    _Alignas(8) uint64_t words[WORDS];
    uint64_t words_model[WORDS]; /* what the other side's words must be */
    struct uiw_mr *words_mr;
    struct read_slot read[WR_OPEN];
    unsigned open, ops_left, signalled_due, since_signal;
    uint64_t octets;
};

struct world {
    struct sim s;
    struct peer p[2];
};

static void peer_setup(struct world *w, int i)
{
    struct peer *p = &w->p[i];
    p->me = &w->s.side[i];
    p->src = malloc(SRC);
    p->target = calloc(1, TARGET);
    p->model = calloc(1, TARGET);
    p->recv = malloc((size_t)RECVS * RECV_MAX);
    p->sink = malloc((size_t)WR_OPEN * RECV_MAX);
    p->sent = calloc(RECVS, sizeof *p->sent);
    for (uint32_t k = 0; k < SRC; k++) {
        p->src[k] = (uint8_t)sim_random(&w->s);
    }
    p->src_mr = sim_reg(&w->s, i, p->src, SRC, UIW_ACCESS_REMOTE_READ);
    p->target_mr =
        sim_reg(&w->s, i, p->target, TARGET,
                UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE | UIW_ACCESS_ZERO_BASED);
    p->recv_mr = sim_reg(&w->s, i, p->recv, (uint64_t)RECVS * RECV_MAX, UIW_ACCESS_LOCAL_WRITE);
    p->sink_mr = sim_reg(&w->s, i, p->sink, (uint64_t)WR_OPEN * RECV_MAX, UIW_ACCESS_LOCAL_WRITE);
    for (int k = 0; k < INV_REGIONS; k++) {
        p->inv[k] = sim_reg(&w->s, i, p->target, 64, UIW_ACCESS_REMOTE_READ);
    }
    p->words_mr = sim_reg(&w->s, i, p->words, sizeof p->words,
                          UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_ATOMIC);
}

static void peer_free(struct peer *p)
{
    uiw_mr_dereg(p->src_mr);
    uiw_mr_dereg(p->target_mr);
    uiw_mr_dereg(p->recv_mr);
    uiw_mr_dereg(p->sink_mr);
    uiw_mr_dereg(p->words_mr);
    for (int k = 0; k < INV_REGIONS; k++) {
        uiw_mr_dereg(p->inv[k]);
    }
    free(p->src);
    free(p->target);
    free(p->model);
    free(p->recv);
    free(p->sink);
    free(p->sent);
}

static void post_receive(struct world *w, int i, uint32_t slot)
{
    struct peer *p = &w->p[i];
    struct uiw_sge sge[SIM_SGE];
    uint8_t *at = p->recv + (size_t)slot * RECV_MAX;
    uint32_t left = RECV_MAX, cnt = 0;
    /* Cut anywhere: the payload has to find its way. */
    while (left > 0) {
        uint32_t n = cnt + 1 == SIM_SGE ? left : min_u32(left, sim_below(&w->s, 20000));
        sge[cnt++] = sim_sge(p->recv_mr, at, n);
        at += n;
        left -= n;
    }
    struct uiw_recv_wr wr = {.wr_id = slot, .sg_list = sge, .num_sge = cnt};
    assert_int_equal(uiw_qp_post_recv(p->me->qp, &wr, NULL), 0);
    p->recvs_posted++;
}

static uint32_t random_len(struct world *w, uint32_t max)
{
    static const uint32_t classes[] = {0, 1, 16, 1436, 1440, 1454, 4096, 9000, 65536, RECV_MAX};
    uint32_t top = min_u32(classes[sim_below(&w->s, (uint32_t)ARRAY_LEN(classes))], max);
    return sim_below(&w->s, 4) == 0 ? top : sim_below(&w->s, top + 1);
}

/* Cuts total octets of src into up to SIM_SGE random pieces. */
static void random_sges(struct world *w, struct peer *p, uint32_t total, struct uiw_sge *sge,
                        struct expected *e)
{
    uint32_t left = total;
    e->cnt = 0;
    e->total = total;
    do {
        uint32_t n =
            e->cnt + 1 == SIM_SGE || sim_below(&w->s, 3) == 0 ? left : sim_below(&w->s, left + 1);
        e->off[e->cnt] = sim_below(&w->s, SRC - n);
        e->len[e->cnt] = n;
        sge[e->cnt] = sim_sge(p->src_mr, p->src + e->off[e->cnt], n);
        e->cnt++;
        left -= n;
    } while (left > 0);
}

static void gather(const struct peer *p, const struct expected *e, uint8_t *to)
{
    for (uint32_t k = 0; k < e->cnt; k++) {
        memcpy(to, p->src + e->off[k], e->len[k]);
        to += e->len[k];
    }
}

static uint32_t take_inv(struct world *w, struct peer *other)
{
    uint32_t k = sim_below(&w->s, INV_REGIONS);
    return uiw_mr_rkey(other->inv[k]); /* made anew when its Send has been received */
}

static bool inv_in_flight(const struct peer *p, uint32_t stag)
{
    for (unsigned k = p->sent_tail; k != p->sent_head; k++) {
        if (p->sent[k % RECVS].stag == stag) {
            return true;
        }
    }
    return false;
}

static void build_send(struct world *w, struct peer *p, struct peer *other, struct uiw_send_wr *wr,
                       bool inv)
{
    struct expected *e = &p->sent[p->sent_head % RECVS];
    e->stag = 0;
    e->imm = false;
    if (inv) {
        wr->invalidate = take_inv(w, other);
        if (!inv_in_flight(p, wr->invalidate)) {
            wr->opcode = UIW_WR_SEND_WITH_INV;
            e->stag = wr->invalidate;
        }
    }
    p->sent_head++;
    e->solicited = sim_below(&w->s, 3) == 0;
    wr->flags |= e->solicited ? (unsigned)UIW_SEND_SOLICITED : 0u;
    random_sges(w, p, random_len(w, RECV_MAX), wr->sg_list, e);
    wr->num_sge = e->cnt;
}

/* Immediate Data, by itself or of a Write. */
static void build_imm(struct world *w, struct peer *p, struct uiw_send_wr *wr)
{
    struct expected *e = &p->sent[p->sent_head++ % RECVS];
    *e = (struct expected){.imm = true,
                           .solicited = sim_below(&w->s, 3) == 0,
                           .value = (uint64_t)sim_random(&w->s) << 32 | sim_random(&w->s),
                           .total = 8};
    wr->imm = e->value;
    wr->flags |= e->solicited ? (unsigned)UIW_SEND_SOLICITED : 0u;
}

static void build_write(struct world *w, struct peer *p, struct peer *other, struct uiw_send_wr *wr)
{
    struct expected e;
    random_sges(w, p, random_len(w, RECV_MAX), wr->sg_list, &e);
    wr->num_sge = e.cnt;
    wr->opcode = UIW_WR_RDMA_WRITE;
    wr->remote_addr = sim_below(&w->s, TARGET - e.total);
    wr->rkey = uiw_mr_rkey(other->target_mr);
    gather(p, &e, other->model + wr->remote_addr);
}

static struct read_slot *free_slot(struct peer *p, struct uiw_send_wr *wr)
{
    for (uint32_t k = 0; k < WR_OPEN; k++) {
        struct read_slot *r = &p->read[k];
        if (!r->busy) {
            *r = (struct read_slot){.busy = true, .sink = p->sink + (size_t)k * RECV_MAX};
            wr->wr_id = 1000 + k;
            wr->num_sge = 1;
            wr->flags |= UIW_SEND_SIGNALED;
            return r;
        }
    }
    return NULL;
}

/* Only this side's Atomics change the words, in the order of its queue. */
static bool build_atomic(struct world *w, int i, struct uiw_send_wr *wr)
{
    struct peer *p = &w->p[i], *other = &w->p[1 - i];
    struct read_slot *r = free_slot(p, wr);
    if (r == NULL) {
        return false;
    }
    uint32_t k = sim_below(&w->s, WORDS);
    uint64_t *v = &other->words_model[k];
    r->atomic = true;
    r->original = *v;
    r->len = 8;
    wr->atomic.compare_add = sim_below(&w->s, 2) == 0 ? *v : sim_random(&w->s);
    wr->atomic.swap = (uint64_t)sim_random(&w->s) << 32 | sim_random(&w->s);
    if (sim_below(&w->s, 2) == 0) {
        wr->opcode = UIW_WR_ATOMIC_FETCH_ADD;
        *v += wr->atomic.compare_add;
    } else {
        wr->opcode = UIW_WR_ATOMIC_CMP_SWAP;
        *v = *v == wr->atomic.compare_add ? wr->atomic.swap : *v;
    }
    wr->sg_list[0] = sim_sge(p->sink_mr, r->sink, 8);
    wr->remote_addr = (uint64_t)(uintptr_t)&other->words[k];
    wr->rkey = uiw_mr_rkey(other->words_mr);
    return true;
}

static bool build_read(struct world *w, int i, struct uiw_send_wr *wr, bool inv)
{
    struct peer *p = &w->p[i], *other = &w->p[1 - i];
    struct read_slot *r = free_slot(p, wr);
    if (r == NULL) {
        return false;
    }
    r->len = random_len(w, RECV_MAX);
    r->src = sim_below(&w->s, SRC - r->len);
    memset(r->sink, 0xee, r->len);
    if (inv && r->len > 0) {
        r->mr = sim_reg(&w->s, i, r->sink, r->len, UIW_ACCESS_LOCAL_WRITE);
    }
    wr->opcode = r->mr != NULL ? UIW_WR_RDMA_READ_WITH_INV : UIW_WR_RDMA_READ;
    wr->sg_list[0] = sim_sge(r->mr != NULL ? r->mr : p->sink_mr, r->sink, r->len);
    wr->remote_addr = (uint64_t)(uintptr_t)(other->src + r->src);
    wr->rkey = uiw_mr_rkey(other->src_mr);
    return true;
}

static bool may_send(const struct peer *p, const struct peer *other)
{
    unsigned flying = p->sent_head - p->sent_tail;
    return flying < other->recvs_posted && flying < RECVS;
}

static void maybe_inline(struct world *w, struct peer *p, struct uiw_send_wr *wr, uint8_t *scratch)
{
    uint32_t total = 0;
    for (uint32_t k = 0; k < wr->num_sge; k++) {
        total += wr->sg_list[k].length;
    }
    (void)p;
    if (total > SIM_INLINE || sim_below(&w->s, 2) == 0) {
        return;
    }
    /* Inline data is taken at once, from memory that need not be registered. */
    uint8_t *to = scratch;
    for (uint32_t k = 0; k < wr->num_sge; k++) {
        memcpy(to, (const void *)(uintptr_t)wr->sg_list[k].addr, wr->sg_list[k].length);
        wr->sg_list[k].addr = (uint64_t)(uintptr_t)to;
        wr->sg_list[k].lkey = 0xdead;
        to += wr->sg_list[k].length;
    }
    wr->flags |= UIW_SEND_INLINE;
}

static void post_random(struct world *w, int i)
{
    struct peer *p = &w->p[i], *other = &w->p[1 - i];
    struct uiw_sge sge[SIM_SGE];
    uint8_t scratch[SIM_INLINE];
    struct uiw_send_wr wr = {.wr_id = 1, .sg_list = sge, .opcode = UIW_WR_SEND};
    enum op op = (enum op)sim_below(&w->s, OPS);
    if (sim_below(&w->s, 8) == 0) {
        wr.flags |= UIW_SEND_FENCE;
    }
    if (++p->since_signal >= 4 || p->ops_left == 1) {
        wr.flags |= UIW_SEND_SIGNALED;
    }
    if (op == OP_READ || op == OP_READ_INV) {
        if (!build_read(w, i, &wr, op == OP_READ_INV)) {
            return;
        }
    } else if (op == OP_ATOMIC) {
        if (!build_atomic(w, i, &wr)) {
            return;
        }
    } else if (op == OP_WRITE || !may_send(p, other)) {
        build_write(w, p, other, &wr);
        maybe_inline(w, p, &wr, scratch);
    } else if (op == OP_WRITE_IMM) {
        build_write(w, p, other, &wr);
        wr.opcode = UIW_WR_RDMA_WRITE_WITH_IMM;
        build_imm(w, p, &wr);
        maybe_inline(w, p, &wr, scratch);
    } else if (op == OP_IMM) {
        wr.opcode = UIW_WR_IMM;
        build_imm(w, p, &wr);
    } else {
        build_send(w, p, other, &wr, op == OP_SEND_INV);
        maybe_inline(w, p, &wr, scratch);
    }
    assert_int_equal(uiw_qp_post_send(p->me->qp, &wr, NULL), 0);
    memset(scratch, 0x55, sizeof scratch);
    memset(sge, 0x55, sizeof sge);
    if ((wr.flags & UIW_SEND_SIGNALED) != 0) {
        p->signalled_due++;
        p->since_signal = 0;
    }
    p->ops_left--;
}

static void renew_inv(struct world *w, int i, uint32_t stag)
{
    struct peer *p = &w->p[i];
    for (int k = 0; k < INV_REGIONS; k++) {
        if (uiw_mr_rkey(p->inv[k]) == stag) {
            uiw_mr_dereg(p->inv[k]);
            p->inv[k] = sim_reg(&w->s, i, p->target, 64, UIW_ACCESS_REMOTE_READ);
            return;
        }
    }
    fail_msg("STag 0x%x was not ours to invalidate", stag);
}

static void on_receive(struct world *w, int i, const struct uiw_wc *wc)
{
    static uint8_t want[RECV_MAX];
    struct peer *p = &w->p[i], *other = &w->p[1 - i];
    const struct expected *e = &other->sent[other->sent_tail++ % RECVS];
    assert_int_equal(wc->byte_len, e->total);
    assert_int_equal((wc->flags & UIW_WC_SOLICITED) != 0, e->solicited);
    assert_int_equal((wc->flags & UIW_WC_WITH_INV) != 0, e->stag != 0);
    assert_int_equal((wc->flags & UIW_WC_WITH_IMM) != 0, e->imm);
    if (e->imm) {
        assert_true(wc->imm == e->value);
    } else {
        gather(other, e, want);
        assert_memory_equal(p->recv + (size_t)wc->wr_id * RECV_MAX, want, e->total);
    }
    if (e->stag != 0) {
        assert_int_equal(wc->invalidated, e->stag);
        renew_inv(w, i, e->stag);
    }
    p->octets += e->total;
    p->recvs_posted--;
    post_receive(w, i, (uint32_t)wc->wr_id);
}

static void on_read(struct world *w, int i, const struct uiw_wc *wc)
{
    struct read_slot *r = &w->p[i].read[wc->wr_id - 1000];
    assert_int_equal(wc->byte_len, r->len);
    if (r->atomic) {
        assert_memory_equal(r->sink, &r->original, sizeof r->original);
    } else {
        assert_memory_equal(r->sink, w->p[1 - i].src + r->src, r->len);
    }
    if (r->mr != NULL) {
        uiw_mr_dereg(r->mr);
    }
    r->busy = false;
}

static void take_completions(struct world *w, int i)
{
    struct peer *p = &w->p[i];
    struct uiw_wc wc;
    while (uiw_cq_poll(p->me->cq, 1, &wc) == 1) {
        if (wc.status != UIW_WC_SUCCESS) {
            fail_msg("side %d: %s (%s)", i, uiw_wc_status_text(wc.status), p->me->last.text);
        }
        if (wc.opcode == UIW_WC_RECV) {
            on_receive(w, i, &wc);
            continue;
        }
        if (wc.wr_id >= 1000) {
            on_read(w, i, &wc);
        }
        p->signalled_due--;
    }
}

static bool finished(const struct world *w)
{
    for (int i = 0; i < 2; i++) {
        const struct peer *p = &w->p[i];
        if (p->ops_left > 0 || p->signalled_due > 0 || p->sent_head != p->sent_tail) {
            return false;
        }
    }
    return true;
}

/* A Send behind all Writes: once it is there, so are they (RFC 5040 sec 5.5). */
static void barrier(struct world *w)
{
    for (int i = 0; i < 2; i++) {
        struct peer *p = &w->p[i];
        struct expected *e = &p->sent[p->sent_head++ % RECVS];
        *e = (struct expected){.cnt = 1, .total = 1, .len = {1}};
        sim_post(&w->s, i, UIW_WR_SEND, sim_sge(p->src_mr, p->src, 1), (struct sim_at){0, 0});
        p->signalled_due++;
    }
    uint64_t end = w->s.ms + 60000;
    while (!finished(w)) {
        take_completions(w, 0);
        take_completions(w, 1);
        sim_step(&w->s);
        assert_true(w->s.ms < end);
    }
}

static void exchange(const char *keys, const struct net_wire *wire, unsigned ops)
{
    struct world *w = calloc(1, sizeof *w);
    sim_open(&w->s, sim_seed(), keys);
    sim_wire(&w->s, wire);
    peer_setup(w, 0);
    peer_setup(w, 1);
    sim_connect(&w->s, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        w->p[i].ops_left = ops;
        for (uint32_t k = 0; k < RECVS; k++) {
            post_receive(w, i, k);
        }
    }
    uint64_t end = w->s.ms + 3600 * 1000;
    while (!finished(w)) {
        for (int i = 0; i < 2; i++) {
            take_completions(w, i);
            if (w->p[i].ops_left > 0 && w->p[i].signalled_due < WR_OPEN / 4 &&
                sim_below(&w->s, 2) == 0) {
                post_random(w, i);
            }
        }
        sim_step(&w->s);
        if (w->s.ms >= end) {
            fail_msg("stands still: a %s, b %s", w->s.side[0].last.text, w->s.side[1].last.text);
        }
    }
    barrier(w);
    assert_memory_equal(w->p[0].target, w->p[0].model, TARGET);
    assert_memory_equal(w->p[1].target, w->p[1].model, TARGET);
    assert_memory_equal(w->p[0].words, w->p[0].words_model, sizeof w->p[0].words);
    assert_memory_equal(w->p[1].words, w->p[1].words_model, sizeof w->p[1].words);
    sim_disconnect(&w->s, (int)sim_below(&w->s, 2));
    peer_free(&w->p[0]);
    peer_free(&w->p[1]);
    sim_close(&w->s);
    free(w);
}

static void test_clean_1500(void **state)
{
    (void)state;
    exchange("mtu=1500", &(struct net_wire){.seed = 1}, 2000);
}

static void test_clean_big_fpdus(void **state)
{
    (void)state;
    exchange(NULL, &(struct net_wire){.seed = 1}, 2000);
}

static void test_markers_both_ways(void **state)
{
    (void)state;
    exchange("mtu=1500,markers=on", &(struct net_wire){.seed = 2, .cut_ppm = 200000}, 800);
}

static void test_no_crc_rev1_small_depths(void **state)
{
    (void)state;
    exchange("mtu=9000,crc=off,rev=1,ird=1,ord=1", &(struct net_wire){.seed = 3}, 800);
}

static void test_cut_anywhere(void **state)
{
    (void)state;
    exchange("mtu=1500,ord=2", &(struct net_wire){.seed = 4, .cut_ppm = 500000}, 800);
}

static void test_small_pieces(void **state)
{
    (void)state;
    exchange("mtu=1500", &(struct net_wire){.seed = 5, .cut_every = 23}, 60);
}

static void test_bad_wire(void **state)
{
    (void)state;
    struct net_wire w = {.seed = 6,
                         .loss_ppm = 2000,
                         .dup_ppm = 5000,
                         .reorder_ppm = 10000,
                         .cut_ppm = 50000,
                         .delay_ms = 2};
    exchange("mtu=1500", &w, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean_1500),        cmocka_unit_test(test_clean_big_fpdus),
        cmocka_unit_test(test_markers_both_ways), cmocka_unit_test(test_no_crc_rev1_small_depths),
        cmocka_unit_test(test_cut_anywhere),      cmocka_unit_test(test_small_pieces),
        cmocka_unit_test(test_bad_wire),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
