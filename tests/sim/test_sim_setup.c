/* SPDX-License-Identifier: MIT */
/* Set-up against a peer made by hand: rejects, the RTR and what may follow it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "family.h"
#include "solo.h"

/* A Request is with the program. */
static void ask(struct solo *c, const struct mpa_frame *f)
{
    c->b->conn = NULL;
    raw_dial(&c->r, &c->c);
    raw_frame(&c->c, f);
    raw_run(&c->r, 10);
    assert_non_null(c->b->conn);
}

/* MPA's part ends with the Reply; uiw_reject() closes TCP in good order, so that the Reply is read.
 * proves: MPA-5044-7.1.1-14 MPA-5044-7.1.2-07 */
static void test_reject(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500");
    for (uint8_t rev = 1; rev <= 2; rev++) {
        struct mpa_frame f = {.rev = rev, .crc = true, .enhanced = rev == 2, .ird = 1, .ord = 1}, g;
        ask(c, &f);
        raw_run(&c->r, 1000);
        assert_int_equal(c->c.rx_octets, 0);
        assert_int_equal(uiw_reject(c->b->conn, "full up", 7), 0);
        raw_take_frame(&c->r, &c->c, true, &g);
        assert_true(g.reject);
        assert_int_equal(g.rev, rev);
        assert_memory_equal(g.pd, "full up", 7);
        raw_wait(&c->r, &c->c, 1);
        assert_true(c->c.fin && !c->c.closed);
        assert_int_equal(c->c.len, 0);
        raw_hangup(&c->r, &c->c, false);
        raw_run(&c->r, 10);
        sim_drop(&c->s);
    }
    solo_close(c);
}

static void put_rtr(struct solo *c, unsigned kind)
{
    if (kind == MPA_RTR_WRITE) {
        raw_write(&c->c, (struct sim_at){0, 1}, NULL, 0);
    } else if (kind == MPA_RTR_READ) {
        raw_read_request(&c->c, 1, &(struct rdmap_read_request){.sink_stag = 1, .src_stag = 1});
    } else {
        raw_send(&c->c, 1, NULL, 0);
    }
}

/* The Reply selects all of offered, the Initiator takes that kind. */
static void responder_after_the_rtr(uint8_t offered, uint8_t kind)
{
    struct solo *c = solo_open("mtu=1500");
    struct uiw_wc wc[2];
    struct mpa_frame f = {
        .rev = 2, .crc = true, .enhanced = true, .p2p = true, .rtr = offered, .ird = 2, .ord = 2};
    raw_join(&c->r, &c->c, &f);
    sim_recv(&c->s, 1, sim_sge(c->mr, c->mem, 8), 1);
    sim_post(&c->s, 1, UIW_WR_SEND, sim_sge(c->mr, c->mem, 4), (struct sim_at){0, 0});
    raw_run(&c->r, 200);
    assert_int_equal(c->c.len, 0); /* not before the RTR */
    put_rtr(c, kind);
    bool sent = false, answered = kind != MPA_RTR_READ;
    while (!sent || !answered) { /* in any order */
        assert_true(raw_next(&c->r, &c->c, &c->u));
        sent |= c->u.opcode == RDMAP_SEND;
        answered |= c->u.opcode == RDMAP_READ_RESPONSE;
    }
    sim_poll(&c->s, 1, 1, wc);
    assert_int_equal(wc[0].opcode, UIW_WC_SEND);
    raw_run(&c->r, 50);
    assert_int_equal(uiw_cq_poll(c->b->cq, 2, wc), 0); /* the RTR is no completion */
    raw_send(&c->c, kind == MPA_RTR_SEND ? 2 : 1, "message", 7);
    sim_poll(&c->s, 1, 1, wc); /* the receive is still there */
    assert_int_equal(wc[0].byte_len, 7);
    solo_close(c);
}

/* proves: ECM-6581-9.2-16 ECM-6581-9.2-17 ECM-6581-5-03 */
static void test_responder_after_the_rtr(void **state)
{
    (void)state;
    static const uint8_t kinds[] = {MPA_RTR_SEND, MPA_RTR_WRITE, MPA_RTR_READ};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        responder_after_the_rtr(kinds[i], kinds[i]);
        responder_after_the_rtr(MPA_RTR_SEND | MPA_RTR_WRITE | MPA_RTR_READ, kinds[i]);
    }
}

/* What the Initiator offers and what the Reply takes: the first of Write, Read, Send that is in both,
 * else a Terminate. The answer to a Request with A=1 may have A=0, and then nothing is sent first. */
static void offer(struct solo *c, unsigned offered, unsigned taken, bool a)
{
    static const uint8_t order[] = {MPA_RTR_WRITE, MPA_RTR_READ, MPA_RTR_SEND};
    static const unsigned opcodes[] = {RDMAP_WRITE, RDMAP_READ_REQUEST, RDMAP_SEND};
    struct uiw_conn_param p = {.p2p = true, .rtr = offered};
    struct mpa_frame f = {.reply = true,
                          .rev = 2,
                          .crc = true,
                          .enhanced = true,
                          .p2p = a,
                          .rtr = (uint8_t)taken,
                          .ird = 4,
                          .ord = 4};
    struct uiw_conn_info info;
    size_t k = 0;
    c->b->established = c->b->failed = 0;
    raw_answer(&c->r, &c->c, &p, &f);
    while (k < 3 && (offered & taken & order[k]) == 0) {
        k++;
    }
    if (a && k == 3) {
        raw_terminate(&c->r, &c->c, &c->u, &c->t);
        assert_true(verdict_is(c->t.v, LAYER_LLP, LLP_MPA, MPA_ERR_RTR));
        sim_until(&c->s, &c->b->failed, 1, 1000);
        return;
    }
    sim_until(&c->s, &c->b->established, 1, 1000);
    uiw_conn_query(c->b->conn, &info);
    assert_int_equal(info.p2p, a);
    assert_int_equal(info.rtr, a ? order[k] : 0);
    sim_post(&c->s, 1, UIW_WR_SEND, sim_sge(c->mr, c->mem, 4), (struct sim_at){0, 0});
    assert_true(raw_next(&c->r, &c->c, &c->u));
    bool sent = a && order[k] == MPA_RTR_SEND;
    if (a && order[k] != MPA_RTR_WRITE) { /* raw_next() passes over the Write */
        assert_int_equal(c->u.opcode, opcodes[k]);
        assert_true(raw_next(&c->r, &c->c, &c->u));
    }
    assert_int_equal(c->u.opcode, RDMAP_SEND);
    assert_int_equal(c->u.seg.plen, 4);
    assert_int_equal(c->u.seg.hdr.msn, sent ? 2 : 1);
}

/* proves: ECM-6581-9.2-10 ECM-6581-9.2-11 */
static void test_initiator_and_all_flags(void **state)
{
    (void)state;
    struct solo *c = solo_open("mtu=1500");
    for (unsigned offered = 1; offered < 8; offered++) {
        for (unsigned taken = 0; taken < 16; taken++) {
            offer(c, offered, taken & 7, taken < 8);
            raw_hangup(&c->r, &c->c, true);
            sim_drop(&c->s);
        }
    }
    struct uiw_conn_param p = {.p2p = true, .rtr = 8};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(RAW_PORT)};
    sim_qps(&c->s, NULL);
    assert_int_equal(uiw_connect(c->b->ch, c->b->qp, (struct sockaddr *)&to, &p, &c->b->conn),
                     -EINVAL);
    solo_close(c);
}

/* Both ends ours, each kind: neither end has a completion of it, both can say what it was. */
static void test_both_ends_of_an_rtr(void **state)
{
    (void)state;
    static const unsigned kinds[] = {UIW_RTR_SEND, UIW_RTR_WRITE, UIW_RTR_READ};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct sim s;
        struct uiw_wc wc;
        struct uiw_conn_info info[2];
        uint8_t mem[8];
        sim_open(&s, 1, "mtu=1500");
        sim_connect(&s, &(struct uiw_conn_param){.p2p = true, .rtr = kinds[i]}, NULL);
        struct uiw_mr *mr = sim_reg(&s, 0, mem, sizeof mem, UIW_ACCESS_LOCAL_WRITE);
        struct uiw_mr *src = sim_reg(&s, 1, mem, sizeof mem, UIW_ACCESS_LOCAL_WRITE);
        sim_recv(&s, 0, sim_sge(mr, mem, 8), 7);
        sim_post(&s, 1, UIW_WR_SEND, sim_sge(src, mem, 4), (struct sim_at){0, 0}); /* it is first */
        sim_poll(&s, 0, 1, &wc);
        assert_int_equal(wc.wr_id, 7);
        sim_poll(&s, 1, 1, &wc);
        assert_int_equal(wc.opcode, UIW_WC_SEND);
        for (int k = 0; k < 2; k++) {
            uiw_conn_query(s.side[k].conn, &info[k]);
            assert_true(info[k].p2p);
            assert_int_equal(info[k].rtr, kinds[i]);
            assert_int_equal(uiw_cq_poll(s.side[k].cq, 1, &wc), 0);
        }
        sim_drop(&s);
        uiw_mr_dereg(mr);
        uiw_mr_dereg(src);
        sim_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reject),
        cmocka_unit_test(test_responder_after_the_rtr),
        cmocka_unit_test(test_initiator_and_all_flags),
        cmocka_unit_test(test_both_ends_of_an_rtr),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
