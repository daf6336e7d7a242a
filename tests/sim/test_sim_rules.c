/* SPDX-License-Identifier: MIT */
/* Rules of the RFCs that show on the wire between two devices: what is sent first, in which sizes, in
 * which order, and that nothing else is. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "family.h"
#include "sim.h"
#include "tap.h"

enum { AREA = 1 << 20 };

struct scene {
    struct sim s;
    struct tap *out, *back; /* of sides 0 and 1 */
    uint8_t mine[AREA], theirs[AREA];
    struct uiw_mr *my_mr, *their_mr;
    bool crc, markers;
};

static struct scene *scene_open(const char *keys)
{
    struct scene *c = calloc(1, sizeof *c);
    sim_open(&c->s, 7, keys);
    c->crc = strstr(keys, "crc=off") == NULL;
    c->markers = strstr(keys, "markers=on") != NULL;
    c->out = tap_open(c->s.side[0].net);
    c->back = tap_open(c->s.side[1].net);
    for (uint32_t i = 0; i < AREA; i++) {
        c->mine[i] = (uint8_t)(i * 7 + i / 251);
    }
    c->my_mr = sim_reg(&c->s, 0, c->mine, AREA, UIW_ACCESS_LOCAL_WRITE);
    c->their_mr =
        sim_reg(&c->s, 1, c->theirs, AREA,
                UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE | UIW_ACCESS_REMOTE_READ);
    return c;
}

static void no_taps_but(struct scene *c, const struct tap *kept)
{
    if (c->out != NULL && c->out != kept) {
        tap_close(c->s.side[0].net, c->out);
        c->out = NULL;
    }
    if (c->back != NULL && c->back != kept) {
        tap_close(c->s.side[1].net, c->back);
        c->back = NULL;
    }
}

static void scene_close(struct scene *c)
{
    sim_drop(&c->s);
    uiw_mr_dereg(c->my_mr);
    uiw_mr_dereg(c->their_mr);
    no_taps_but(c, NULL);
    sim_close(&c->s);
    free(c);
}

static struct sim_at their(const struct scene *c, uint32_t off)
{
    return (struct sim_at){(uint64_t)(uintptr_t)(c->theirs + off), uiw_mr_rkey(c->their_mr)};
}

/* A request of side 0 from its area, and its completion. */
static void carry_out(struct scene *c, enum uiw_wr_opcode op, uint32_t n, struct sim_at at)
{
    struct uiw_wc wc;
    assert_int_equal(sim_post(&c->s, 0, op, sim_sge(c->my_mr, c->mine, n), at), 0);
    sim_poll(&c->s, 0, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_SUCCESS);
}

/* A Send of side 0 that tells that all before it has arrived. */
static void note(struct scene *c)
{
    struct uiw_wc wc;
    sim_recv(&c->s, 1, sim_sge(c->their_mr, c->theirs, 0), 1);
    carry_out(c, UIW_WR_SEND, 0, (struct sim_at){0, 0});
    sim_poll(&c->s, 1, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_SUCCESS);
}

static void parse(struct scene *c)
{
    tap_parse(c->out, false, c->markers, c->crc);
    tap_parse(c->back, true, c->markers, c->crc);
}

/* --- sizes --- */

/* RFC 5044 sec 4.5 */
static uint32_t mulpdu_of(uint32_t emss, bool markers)
{
    uint32_t m = markers ? 4 * ((emss + 511) / 512) : 0;
    return emss - (6 + m + emss % 4);
}

static uint32_t begins_with_fpdu(const struct tap *t)
{
    uint32_t n = 0, f = 0;
    for (uint32_t i = 0; i < t->segments; i++) {
        while (f < t->fpdus && t->fpdu[f].at < t->segment[i]) {
            f++;
        }
        n += t->segment[i] == 0 || (f < t->fpdus && t->fpdu[f].at == t->segment[i]);
    }
    return n;
}

static void sizes(const char *keys, uint32_t emss4)
{
    uint32_t emss = emss4 - (test_headers() - 40);
    struct scene *c = scene_open(keys);
    struct uiw_conn_info info;
    sim_connect(&c->s, NULL, NULL);
    uiw_conn_query(c->s.side[0].conn, &info);
    assert_int_equal(info.emss, emss);
    assert_int_equal(info.mulpdu, mulpdu_of(info.emss, c->markers));
    carry_out(c, UIW_WR_RDMA_WRITE, 64 << 10, their(c, 0));
    carry_out(c, UIW_WR_RDMA_WRITE, 300 << 10, their(c, 0)); /* lent to TCP, not copied */
    note(c);
    parse(c);
    uint32_t full = 0, rest = 0;
    for (uint32_t i = 0; i < c->out->fpdus; i++) {
        const struct tap_fpdu *f = &c->out->fpdu[i];
        assert_true(f->len <= info.mulpdu);
        assert_true(f->size <= emss);
        bool last = f->seg.hdr.last;
        assert_true(last || f->len == info.mulpdu);
        full += !last;
        rest += last;
    }
    assert_true(full > 5);
    assert_int_equal(rest, 3); /* the ends of the three messages */
    uint32_t good = begins_with_fpdu(c->out);
    print_message("  %s: %u of %u segments begin with an FPDU\n", keys, good, c->out->segments);
    /* With Markers FPDUs are not all of one length. */
    assert_true(c->markers || good == c->out->segments);
    scene_close(c);
}

/* proves: MPA-5044-3-02 MPA-5044-3-04 MPA-5044-4.5-05 MPA-5044-5.1-03 */
static void test_sizes(void **state)
{
    (void)state;
    sizes("mtu=1500", 1460);
    sizes("mtu=1499", 1456); /* FPDUs are multiples of 4 long */
    sizes("mtu=9000", 8960);
    sizes("mtu=60000", 59960);
    sizes("mtu=1500,crc=off", 1460);
    sizes("mtu=1500,markers=on", 1460);
    sizes("mtu=9000,markers=on", 8960);
}

/* --- what goes first --- */

static void first_octets(const char *keys, unsigned rev)
{
    struct scene *c = scene_open(keys);
    sim_connect(&c->s, NULL, NULL);
    note(c);
    sim_recv(&c->s, 0, sim_sge(c->my_mr, c->mine, 8), 5);
    struct uiw_wc wc;
    sim_post(&c->s, 1, UIW_WR_SEND, sim_sge(c->their_mr, c->theirs, 8), (struct sim_at){0, 0});
    sim_poll(&c->s, 0, 1, &wc);
    parse(c);
    assert_false(c->out->frame.reply);
    assert_false(c->back->frame.reject);
    const struct tap *both[2] = {c->out, c->back};
    for (int i = 0; i < 2; i++) {
        struct uiw_conn_info info;
        uiw_conn_query(c->s.side[i].conn, &info);
        assert_int_equal(info.mpa_revision, rev);
        assert_int_equal(info.crc, c->crc);
        const struct tap *t = both[i];
        assert_int_equal(t->segment[0], 0);
        assert_int_equal(t->frame.rev, rev);
        assert_int_equal(t->frame.crc, c->crc);
        assert_int_equal(t->frame.markers, c->markers);
        assert_true(t->fpdus > 0);
        assert_int_equal(t->fpdu[0].at, t->frame_len); /* nothing between */
        assert_int_equal(t->rest, 0);
        for (uint32_t k = 0; k < t->fpdus; k++) {
            assert_int_equal(t->fpdu[k].seg.hdr.version, DDP_VERSION);
            assert_int_equal(t->fpdu[k].seg.hdr.ulp >> 6, RDMAP_VERSION);
        }
    }
    scene_close(c);
}

/* proves: MPA-5044-3-13 MPA-5044-4.4-02 MPA-5044-4.4-03 MPA-5044-7.1-03 MPA-5044-7.1-05 MPA-5044-7.1.2-08 MPA-5044-7.1.1-20
 * MPA-5044-7.1-01 DDP-5041-3-06 */
static void test_first_octets(void **state)
{
    (void)state;
    first_octets("mtu=1500", 2);
    first_octets("mtu=1500,rev=1", 1);
    first_octets("mtu=1500,markers=on", 2);
    first_octets("mtu=1500,crc=off", 2);
}

/* proves: ECM-6581-5-01 ECM-6581-5-02 ECM-6581-5-03 */
static void test_rtr_goes_first(void **state)
{
    (void)state;
    for (int p2p = 0; p2p < 2; p2p++) {
        struct scene *c = scene_open("mtu=1500");
        struct uiw_conn_param p = {.ird = 4, .ord = 4, .p2p = p2p != 0};
        struct uiw_wc wc[4];
        sim_qps(&c->s, NULL);
        sim_recv(&c->s, 1, sim_sge(c->their_mr, c->theirs, 64), 1);
        sim_post(&c->s, 0, UIW_WR_SEND, sim_sge(c->my_mr, c->mine, 8), (struct sim_at){0, 0});
        sim_connect(&c->s, &p, NULL);
        sim_poll(&c->s, 0, 1, &wc[0]);
        sim_poll(&c->s, 1, 1, &wc[1]);
        assert_int_equal(wc[0].opcode, UIW_WC_SEND);
        assert_int_equal(wc[1].byte_len, 8);
        for (int i = 0; i < 200; i++) {
            sim_step(&c->s);
        }
        /* Neither set-up nor RTR is a completion. */
        assert_int_equal(uiw_cq_poll(c->s.side[0].cq, 4, wc), 0);
        assert_int_equal(uiw_cq_poll(c->s.side[1].cq, 4, wc), 0);
        parse(c);
        assert_int_equal(c->out->frame.p2p, p2p);
        assert_int_equal(c->out->frame.rtr, p2p ? MPA_RTR_WRITE | MPA_RTR_READ : 0);
        const struct tap_fpdu *f = c->out->fpdu;
        if (p2p) {
            assert_int_equal(f[0].opcode, RDMAP_WRITE);
            assert_int_equal(f[0].seg.plen, 0);
            f++;
        }
        assert_int_equal(f[0].opcode, RDMAP_SEND);
        assert_int_equal(f[0].seg.plen, 8);
        scene_close(c);
    }
}

/* --- what goes at all --- */

static void all_operations(struct scene *c)
{
    static const struct {
        enum uiw_wr_opcode op;
        unsigned flags;
    } ops[] = {{UIW_WR_SEND, 0},          {UIW_WR_SEND, UIW_SEND_SOLICITED},
               {UIW_WR_SEND_WITH_INV, 0}, {UIW_WR_SEND_WITH_INV, UIW_SEND_SOLICITED},
               {UIW_WR_RDMA_WRITE, 0},    {UIW_WR_RDMA_READ, 0}};
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        uint8_t spare[8];
        struct uiw_mr *mr = sim_reg(&c->s, 1, spare, 8, UIW_ACCESS_REMOTE_READ);
        bool send = ops[i].op == UIW_WR_SEND || ops[i].op == UIW_WR_SEND_WITH_INV;
        struct uiw_sge sge = sim_sge(c->my_mr, c->mine, 5000);
        struct uiw_send_wr wr = {.wr_id = i,
                                 .sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = ops[i].op,
                                 .flags = ops[i].flags | UIW_SEND_SIGNALED,
                                 .remote_addr = their(c, 0).to,
                                 .rkey = their(c, 0).rkey,
                                 .invalidate = uiw_mr_rkey(mr)};
        struct uiw_wc wc;
        if (send) {
            sim_recv(&c->s, 1, sim_sge(c->their_mr, c->theirs + 8192, 8192), i);
        }
        assert_int_equal(uiw_qp_post_send(c->s.side[0].qp, &wr, NULL), 0);
        sim_poll(&c->s, 0, 1, &wc);
        assert_int_equal(wc.status, UIW_WC_SUCCESS);
        if (send) {
            sim_poll(&c->s, 1, 1, &wc);
            assert_int_equal(wc.byte_len, 5000);
            assert_int_equal((wc.flags & UIW_WC_SOLICITED) != 0, ops[i].flags != 0);
            assert_int_equal((wc.flags & UIW_WC_WITH_INV) != 0, ops[i].op == UIW_WR_SEND_WITH_INV);
            assert_memory_equal(c->theirs + 8192, c->mine, 5000);
        }
        uiw_mr_dereg(mr);
    }
}

/* proves: RDMAP-5040-3.1-01 RDMAP-5040-3.2-01 RDMAP-5040-6.1-01 RDMAP-5040-6.2-01 DDP-5041-3-09
 * DDP-5041-6.2-02 */
static void test_only_rdma_messages(void **state)
{
    (void)state;
    static const unsigned in_turn[] = {RDMAP_SEND,        RDMAP_SEND_SE, RDMAP_SEND_INV,
                                       RDMAP_SEND_SE_INV, RDMAP_WRITE,   RDMAP_READ_REQUEST};
    for (int closer = 0; closer < 2; closer++) {
        struct scene *c = scene_open("mtu=1500");
        sim_connect(&c->s, NULL, NULL);
        all_operations(c);
        sim_disconnect(&c->s, closer);
        assert_int_equal(c->s.side[0].last.reason, UIW_REASON_CLOSED);
        assert_int_equal(c->s.side[1].last.reason, UIW_REASON_CLOSED);
        parse(c);
        uint32_t at = 0;
        for (uint32_t i = 0; i < c->out->fpdus; i++) {
            assert_true(at < ARRAY_LEN(in_turn));
            assert_int_equal(c->out->fpdu[i].opcode, in_turn[at]);
            at += c->out->fpdu[i].seg.hdr.last;
        }
        assert_int_equal(at, ARRAY_LEN(in_turn));
        for (uint32_t i = 0; i < c->back->fpdus; i++) {
            assert_int_equal(c->back->fpdu[i].opcode, RDMAP_READ_RESPONSE);
        }
        assert_true(c->back->fpdus > 0);
        assert_int_equal(c->out->rest + c->back->rest, 0);
        assert_true(c->out->fin && c->back->fin);
        assert_false(c->out->rst || c->back->rst);
        scene_close(c);
    }
}

static void writes_in_order(const char *keys)
{
    enum { WRITES = 50 };
    struct scene *c = scene_open(keys);
    struct uiw_wc wc[WRITES];
    sim_connect(&c->s, NULL, NULL);
    for (uint32_t i = 0; i < WRITES; i++) {
        uint32_t n = i % 7 == 3 ? 40000 : i * 97 % 5000; /* also empty ones */
        sim_post(&c->s, 0, UIW_WR_RDMA_WRITE, sim_sge(c->my_mr, c->mine, n), their(c, i * 64));
    }
    sim_poll(&c->s, 0, WRITES, wc);
    note(c);
    parse(c);
    uint32_t k = 0, octets = 0;
    for (uint32_t i = 0; i < c->out->fpdus && k < WRITES; i++) {
        const struct ddp_seg *seg = &c->out->fpdu[i].seg;
        assert_int_equal(c->out->fpdu[i].opcode, RDMAP_WRITE);
        assert_int_equal(seg->hdr.to, their(c, k * 64).to + octets);
        octets += seg->plen;
        if (seg->hdr.last) {
            assert_int_equal(octets, k % 7 == 3 ? 40000 : k * 97 % 5000);
            octets = 0;
            k++;
        }
    }
    assert_int_equal(k, WRITES);
    scene_close(c);
}

/* proves: RDMAP-5040-5.1-06 RDMAP-5040-5.5-15 */
static void test_writes_in_order(void **state)
{
    (void)state;
    writes_in_order("mtu=1500");
    writes_in_order("mtu=9000"); /* lent and copied ones */
}

/* --- what the program sees of it --- */

struct view {
    struct uiw_wc wc[8];
    uint8_t theirs[8192], mine[8192];
    enum uiw_event_type last;
    enum uiw_reason reason;
};

static void program(struct view *v, const char *keys)
{
    struct scene *c = scene_open(keys);
    sim_connect(&c->s, NULL, NULL);
    sim_recv(&c->s, 1, sim_sge(c->their_mr, c->theirs + 4096, 4096), 1);
    sim_post(&c->s, 0, UIW_WR_RDMA_WRITE, sim_sge(c->my_mr, c->mine, 3000), their(c, 5));
    sim_post(&c->s, 0, UIW_WR_RDMA_READ, sim_sge(c->my_mr, c->mine + 4096, 2000), their(c, 0));
    sim_post(&c->s, 0, UIW_WR_SEND, sim_sge(c->my_mr, c->mine, 4000), their(c, 0));
    sim_poll(&c->s, 0, 3, v->wc);
    sim_poll(&c->s, 1, 1, v->wc + 3);
    for (int i = 0; i < 4; i++) {
        v->wc[i].qp_num = 0;
        v->wc[i].qp_user = NULL;
    }
    sim_disconnect(&c->s, 0);
    v->last = c->s.side[1].last.type;
    v->reason = c->s.side[1].last.reason;
    memcpy(v->theirs, c->theirs, sizeof v->theirs);
    memcpy(v->mine, c->mine, sizeof v->mine);
    scene_close(c);
}

/* proves: MPA-5044-4.4-06 */
static void test_crc_is_invisible(void **state)
{
    (void)state;
    struct view *v = calloc(3, sizeof *v);
    program(&v[0], "mtu=1500,crc=on");
    program(&v[1], "mtu=1500,crc=off");
    program(&v[2], "mtu=1500,crc=on,markers=on");
    assert_int_equal(v[0].wc[3].byte_len, 4000);
    assert_memory_equal(&v[0], &v[1], sizeof *v);
    assert_memory_equal(&v[0], &v[2], sizeof *v);
    free(v);
}

/* --- bad wires --- */

/* proves: DDP-5041-3-11 */
static void test_duplicates(void **state)
{
    (void)state;
    enum { N = 200 };
    struct scene *c = scene_open("mtu=1500");
    struct uiw_wc wc[N + 1];
    sim_connect(&c->s, NULL, NULL);
    sim_wire(&c->s, &(struct net_wire){.seed = 3, .dup_ppm = 1000000, .reorder_ppm = 100000});
    for (uint32_t i = 0; i < N; i++) {
        sim_recv(&c->s, 1, sim_sge(c->their_mr, c->theirs + i * 4096, 4096), i);
    }
    for (uint32_t i = 0; i < N; i++) {
        sim_post(&c->s, 0, UIW_WR_SEND, sim_sge(c->my_mr, c->mine + i, 100 + i * 17),
                 (struct sim_at){0, 0});
    }
    sim_poll(&c->s, 1, N, wc);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(wc[i].wr_id, i);
        assert_int_equal(wc[i].byte_len, 100 + i * 17);
        assert_memory_equal(c->theirs + i * 4096, c->mine + i, 100 + i * 17);
    }
    for (int i = 0; i < 1000; i++) {
        sim_step(&c->s);
    }
    assert_int_equal(uiw_cq_poll(c->s.side[1].cq, 1, wc), 0);
    assert_int_equal(c->s.side[1].disconnected, 0);
    scene_close(c);
}

/* proves: MPA-5044-7.1.5-03 */
static void test_set_up_on_a_bad_wire(void **state)
{
    (void)state;
    struct scene *c = scene_open("mtu=1500,setup=60");
    for (uint32_t seed = 1; seed <= 40; seed++) {
        sim_wire(&c->s, &(struct net_wire){.seed = seed,
                                           .loss_ppm = 80000,
                                           .dup_ppm = 100000,
                                           .reorder_ppm = 200000,
                                           .cut_every = 1 + seed % 19});
        sim_connect(&c->s, NULL, NULL);
        note(c);
        sim_disconnect(&c->s, (int)(seed % 2));
    }
    scene_close(c);
}

/* proves: DDP-5041-A-01 */
static void test_no_zero_window(void **state)
{
    (void)state;
    enum { TIMES = 16 };
    struct scene *c = scene_open("mtu=1500");
    struct uiw_wc wc[TIMES];
    no_taps_but(c, c->back); /* more octets than one holds */
    sim_connect(&c->s, NULL, NULL);
    sim_wire(&c->s, &(struct net_wire){.seed = 1, .delay_ms = 5});
    uint64_t start = c->s.ms;
    for (int i = 0; i < TIMES; i++) {
        sim_post(&c->s, 0, UIW_WR_RDMA_WRITE, sim_sge(c->my_mr, c->mine, AREA), their(c, 0));
    }
    sim_poll(&c->s, 0, TIMES, wc);
    note(c);
    /* 64 segments each round trip of 10 ms would take this long. */
    assert_true(c->s.ms - start < TIMES * (uint64_t)AREA / (64 * 1460) * 10);
    assert_true(c->back->least_window > 0);
    assert_int_equal(c->back->again, 0);
    scene_close(c);
}

/* --- what a completion says --- */

/* proves: DDP-5041-5.4-04 RDMAP-5040-5.5-09 RDMAP-5040-5.5-16 */
static void test_completion_is_not_arrival(void **state)
{
    (void)state;
    struct scene *c = scene_open("mtu=1500");
    struct uiw_wc wc[16];
    sim_connect(&c->s, NULL, NULL);
    note(c);
    sim_wire(&c->s, &(struct net_wire){.seed = 1, .loss_ppm = 1000000});
    c->mine[0] = 0x5a;
    carry_out(c, UIW_WR_RDMA_WRITE, 8, their(c, 0)); /* TCP has it, the peer has not */
    assert_int_not_equal(c->theirs[0], 0x5a);
    for (int i = 0; i < 16; i++) {
        sim_post(&c->s, 0, UIW_WR_RDMA_WRITE, sim_sge(c->my_mr, c->mine, AREA), their(c, 0));
    }
    for (int i = 0; i < 2000; i++) {
        sim_step(&c->s);
    }
    /* What is not even with TCP is not complete. */
    assert_true(uiw_cq_poll(c->s.side[0].cq, 16, wc) < 16);
    assert_int_not_equal(c->theirs[0], 0x5a);
    scene_close(c);
}

/* Memory that changes while a peer reads it: any mixture may come, but no fault.
 * proves: RDMAP-5040-5.5-08 */
static void test_changed_while_read(void **state)
{
    (void)state;
    struct scene *c = scene_open("mtu=1500");
    struct uiw_wc wc;
    no_taps_but(c, NULL);
    sim_connect(&c->s, NULL, NULL);
    sim_wire(&c->s, &(struct net_wire){.seed = 5, .loss_ppm = 10000, .delay_ms = 1});
    for (int round = 0; round < 4; round++) {
        sim_post(&c->s, 0, UIW_WR_RDMA_READ, sim_sge(c->my_mr, c->mine, AREA), their(c, 0));
        int got = 0;
        uint64_t end = c->s.ms + 60000;
        while (got == 0 && c->s.ms < end) {
            memset(c->theirs, (int)sim_random(&c->s), AREA);
            sim_step(&c->s);
            got = uiw_cq_poll(c->s.side[0].cq, 1, &wc);
        }
        assert_int_equal(got, 1);
        assert_int_equal(wc.status, UIW_WC_SUCCESS);
    }
    scene_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_first_octets),
        cmocka_unit_test(test_rtr_goes_first),
        cmocka_unit_test(test_only_rdma_messages),
        cmocka_unit_test(test_writes_in_order),
        cmocka_unit_test(test_crc_is_invisible),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_set_up_on_a_bad_wire),
        cmocka_unit_test(test_no_zero_window),
        cmocka_unit_test(test_completion_is_not_arrival),
        cmocka_unit_test(test_changed_while_read),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
