/* SPDX-License-Identifier: MIT */
/* Every fault that a peer can commit in full operation, by the whole stack: the exact Terminate and
 * then FIN on the wire, and nothing else; event, completions and asynchronous event here; no octet placed
 * or delivered behind the fault; the connection beside it lives. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "raw.h"

enum { AREA = 4096, RECV = 16, RECVS = 3, BAD = 0, GOOD = 1 };

enum region {
    R_NONE, /* an STag that nobody has */
    R_ALL,
    R_READ,
    R_WRITE,
    R_PD,     /* of another PD */
    R_STREAM, /* of another stream */
    R_FIXED,  /* not to be invalidated by a peer */
    R_GONE,   /* deregistered */
    R_KEY,    /* R_ALL with another key */
    R_SINK,   /* where the device's own Read goes */
    REGIONS,
};

struct scene {
    struct sim s;
    struct raw r;
    struct raw_conn raw[2];
    struct uiw_qp *qp[2], *third;
    struct uiw_conn *conn[2];
    struct uiw_pd *pd;
    struct uiw_mr *mr[REGIONS], *in_mr;
    uint32_t stag[REGIONS];
    _Alignas(8) uint8_t area[AREA];
    uint8_t in[2][RECVS * RECV];
    struct raw_ulpdu u;
};

static void regions(struct scene *c)
{
    enum { W = UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE, R = UIW_ACCESS_REMOTE_READ };
    static const unsigned access[] = {[R_ALL] = W | R | UIW_ACCESS_REMOTE_ATOMIC,
                                      [R_READ] = R,
                                      [R_WRITE] = W,
                                      [R_FIXED] = W | R | UIW_ACCESS_NO_REMOTE_INV,
                                      [R_GONE] = W | R,
                                      [R_SINK] = UIW_ACCESS_LOCAL_WRITE};
    struct sim_side *b = &c->s.side[1];
    for (unsigned i = 0; i < ARRAY_LEN(access); i++) {
        if (access[i] != 0) {
            c->mr[i] = sim_reg(&c->s, 1, c->area, AREA, access[i]);
        }
    }
    assert_int_equal(uiw_pd_create(b->dev, &c->pd), 0);
    assert_int_equal(uiw_mr_reg(c->pd, c->area, AREA, W | R, &c->mr[R_PD]), 0);
    struct uiw_qp_attr attr = {
        .send_cq = b->cq, .recv_cq = b->cq, .max_send_wr = 1, .max_recv_wr = 1};
    assert_int_equal(uiw_qp_create(b->pd, &attr, &c->third), 0);
    assert_int_equal(uiw_mr_reg_qp(c->third, c->area, AREA, W | R, &c->mr[R_STREAM]), 0);
    for (unsigned i = 0; i < REGIONS; i++) {
        c->stag[i] = c->mr[i] != NULL ? uiw_mr_rkey(c->mr[i]) : 0;
    }
    uiw_mr_dereg(c->mr[R_GONE]);
    c->mr[R_GONE] = NULL;
    c->stag[R_KEY] = c->stag[R_ALL] ^ 1;
    /* Far from all others: the table refuses an index that is in use. */
    c->stag[R_NONE] = ~c->stag[R_ALL];
    c->in_mr = sim_reg(&c->s, 1, c->in, sizeof c->in, UIW_ACCESS_LOCAL_WRITE);
}

static void join_one(struct scene *c, int which)
{
    struct mpa_frame ask = {.rev = 2, .crc = true, .enhanced = true, .ird = 4, .ord = 4};
    raw_join(&c->r, &c->raw[which], &ask);
    c->qp[which] = c->s.side[1].qp;
    c->conn[which] = c->s.side[1].conn;
    raw_write(&c->raw[which], (struct sim_at){0, 0}, NULL, 0); /* the first FPDU */
    raw_run(&c->r, 5);
}

static struct scene *scene_open(const char *keys)
{
    struct scene *c = calloc(1, sizeof *c);
    sim_open_one(&c->s, 1, keys);
    raw_open(&c->r, &c->s);
    regions(c);
    join_one(c, GOOD);
    join_one(c, BAD);
    return c;
}

static void scene_close(struct scene *c)
{
    raw_close(&c->r);
    c->s.side[1].qp = NULL;
    c->s.side[1].conn = NULL;
    for (int i = 0; i < 2; i++) {
        uiw_conn_destroy(c->conn[i]);
        uiw_qp_destroy(c->qp[i]);
    }
    for (unsigned i = 0; i < REGIONS; i++) {
        if (c->mr[i] != NULL) {
            uiw_mr_dereg(c->mr[i]);
        }
    }
    uiw_mr_dereg(c->in_mr);
    uiw_qp_destroy(c->third);
    uiw_pd_destroy(c->pd);
    sim_close(&c->s);
    free(c);
}

static void post_recvs(struct scene *c, int which, int n)
{
    c->s.side[1].qp = c->qp[which];
    for (int i = 0; i < n; i++) {
        sim_recv(&c->s, 1, sim_sge(c->in_mr, c->in[which] + i * RECV, RECV), 1u + (unsigned)i);
    }
}

/* A Read or Atomic that the peer does not answer, and a Write that waits for it. */
static void post_request(struct scene *c, enum uiw_wr_opcode op, unsigned comes)
{
    struct uiw_sge sink = sim_sge(c->mr[R_SINK], c->area, 8);
    struct uiw_send_wr wr[2] = {
        {.wr_id = 11,
         .next = &wr[1],
         .opcode = op,
         .sg_list = &sink,
         .num_sge = 1,
         .remote_addr = 0x1000,
         .rkey = 0x777},
        {.wr_id = 12, .opcode = UIW_WR_RDMA_WRITE, .flags = UIW_SEND_FENCE}};
    assert_int_equal(uiw_qp_post_send(c->qp[BAD], wr, NULL), 0);
    assert_true(raw_next(&c->r, &c->raw[BAD], &c->u));
    assert_int_equal(c->u.opcode, comes);
}

static void post_sends(struct scene *c)
{
    post_request(c, UIW_WR_RDMA_READ, RDMAP_READ_REQUEST);
}

/* --- what must hold after each fault --- */

struct want {
    unsigned layer, type, code;
    uint8_t flags; /* M D R, as octet 2 of the control word */
    int recv;      /* status of the first receive; 0: flushed as the others */
    bool no_recv, no_read;
    enum uiw_async_type async; /* 0: fatal */
};

/* The wire: bad is the segment that the Terminate is to quote. */
static void expect_terminate(struct scene *c, const struct want *w, const uint8_t *bad, uint32_t n)
{
    struct rdmap_term t;
    raw_terminate(&c->r, &c->raw[BAD], &c->u, &t);
    const uint8_t *p = c->u.octets + DDP_UNTAGGED_LEN;
    uint32_t header = (bad[0] & 0x80) != 0 ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
    assert_int_equal(p[0], w->layer << 4 | w->type);
    assert_int_equal(p[1], w->code);
    assert_int_equal(p[2], w->flags);
    assert_int_equal(p[3], 0);
    if (w->flags == 0) {
        assert_int_equal(c->u.seg.plen, 4);
        return;
    }
    assert_int_equal(get_be16(p + 4), n);
    assert_memory_equal(p + 6, bad, header);
    bool quoted = (w->flags & 0x20) != 0;
    assert_int_equal(c->u.seg.plen, 6 + header + (quoted ? RDMAP_READ_REQUEST_LEN : 0));
    if (quoted) {
        assert_memory_equal(p + 6 + header, bad + header, RDMAP_READ_REQUEST_LEN);
    }
}

static void expect_event(struct scene *c, const struct want *w)
{
    struct sim_side *b = &c->s.side[1];
    sim_until(&c->s, &b->disconnected, 1, 10000);
    char text[160];
    snprintf(text, sizeof text, "peer's fault: %s",
             verdict_text(verdict_bad(w->layer, w->type, w->code)));
    assert_int_equal(b->last.type, UIW_EVENT_DISCONNECTED);
    assert_ptr_equal(b->last.conn, c->conn[BAD]);
    assert_int_equal(b->last.reason, UIW_REASON_FAULT);
    assert_int_equal(b->last.status, -EPROTO);
    assert_int_equal(b->last.layer, w->layer);
    assert_int_equal(b->last.etype, w->type);
    assert_int_equal(b->last.code, w->code);
    assert_string_equal(b->last.text, text);
    struct uiw_qp_info info;
    uiw_qp_query(c->qp[BAD], &info);
    assert_int_equal(info.state, UIW_QP_ERROR);
    struct uiw_async_event ev;
    assert_int_equal(uiw_async_get(b->dev, &ev), 0);
    assert_int_equal(ev.type, w->async);
    assert_int_equal(ev.qp_num, info.qp_num);
    assert_string_equal(ev.text, text);
    assert_int_equal(uiw_async_get(b->dev, &ev), -EAGAIN);
}

/* All that was posted comes back in error, sends and receives each in their order. */
static void expect_completions(struct scene *c, const struct want *w)
{
    struct uiw_wc wc[RECVS + 2];
    int n = (w->no_recv ? 0 : RECVS) + (w->no_read ? 0 : 2);
    uint64_t send = 11, recv = 1;
    sim_poll(&c->s, 1, n, wc);
    for (int i = 0; i < n; i++) {
        uint64_t *next = wc[i].opcode == UIW_WC_RECV ? &recv : &send;
        bool first = wc[i].opcode == UIW_WC_RECV && recv == 1 && w->recv != 0;
        assert_int_equal(wc[i].wr_id, (*next)++);
        assert_int_equal(wc[i].status, first ? w->recv : UIW_WC_WR_FLUSH_ERR);
        if (first) {
            assert_int_equal(wc[i].vendor_err, w->layer << 16 | w->type << 8 | w->code);
        }
    }
    assert_int_equal(uiw_cq_poll(c->s.side[1].cq, 1, wc), 0);
}

/* TCP of the bad one goes away in good order; the other one carries data both ways. */
static void expect_rest_well(struct scene *c)
{
    struct uiw_conn_info info;
    struct uiw_wc wc;
    raw_hangup(&c->r, &c->raw[BAD], false);
    raw_run(&c->r, 20);
    uiw_conn_query(c->conn[BAD], &info);
    assert_int_equal(info.emss, 0); /* there is no stream any more */
    post_recvs(c, GOOD, 1);
    raw_send(&c->raw[GOOD], 1, "beside", 6);
    sim_poll(&c->s, 1, 1, &wc);
    assert_int_equal(wc.status, UIW_WC_SUCCESS);
    assert_memory_equal(c->in[GOOD], "beside", 6);
    sim_post(&c->s, 1, UIW_WR_SEND, sim_sge(c->in_mr, c->in[GOOD], 6), (struct sim_at){0, 0});
    assert_true(raw_next(&c->r, &c->raw[GOOD], &c->u));
    assert_memory_equal(c->u.octets + DDP_UNTAGGED_LEN, "beside", 6);
    assert_int_equal(c->s.side[1].disconnected, 1);
    for (int i = 0; i < AREA; i++) {
        assert_int_equal(c->area[i], 0);
    }
}

/* In one burst with the bad segment: neither may be taken any more. */
static void send_more(struct scene *c)
{
    raw_write(&c->raw[BAD], (struct sim_at){(uintptr_t)c->area, c->stag[R_FIXED]}, "x", 1);
    raw_send(&c->raw[BAD], 1, "y", 1);
    raw_send(&c->raw[BAD], 2, "z", 1);
    net_shutdown(c->raw[BAD].stream);
}

static void expect_all(struct scene *c, const struct want *w, const uint8_t *bad, uint32_t n)
{
    expect_terminate(c, w, bad, n);
    expect_event(c, w);
    expect_completions(c, w);
    expect_rest_well(c);
}

/* --- the table: one bad segment --- */

struct row {
    const char *name;
    struct ddp_hdr h;
    enum region region; /* the STag in h, to invalidate, or of the Read's source */
    bool absolute;      /* h.to, from are not in the area */
    uint64_t from;      /* of a Read's source */
    uint32_t n;         /* octets of payload, or that the Read asks for; AOpCode */
    bool half;          /* 8 octets of a Send stand before it */
    struct want w;
};

#define TAG(op)  .tagged = true, .last = true, .version = 1, .ulp = 0x40 | (op)
#define SEND(op) .last = true, .version = 1, .ulp = 0x40 | (op), .msn = 1
#define REQ(op)  .last = true, .version = 1, .ulp = 0x40 | (op), .qn = 1, .msn = 1
#define MD       0xc0
#define MDR      0xe0
#define ACCESS   .async = UIW_ASYNC_QP_ACCESS

static const struct row table[] = {
    /* DDP */
    {"DV, tagged",
     {.tagged = true, .last = true, .version = 2, .ulp = 0x40},
     R_ALL,
     .n = 8,
     .w = {1, 1, 4, MD}},
    {"DV, untagged",
     {.last = true, .version = 0, .ulp = 0x43, .msn = 1},
     .n = 8,
     .w = {1, 2, 6, MD}},
    {"QN", {SEND(3), .qn = 9}, .n = 8, .w = {1, 2, 1, MD}},
    {"no receive", {SEND(3)}, .n = 8, .w = {1, 2, 2, MD, .no_recv = true}},
    {"MSN ahead", {.last = true, .version = 1, .ulp = 0x43, .msn = 2}, .n = 8, .w = {1, 2, 3, MD}},
    {"MSN of the past",
     {.last = true, .version = 1, .ulp = 0x43, .msn = 0},
     .n = 8,
     .w = {1, 2, 3, MD}},
    {"another message inside",
     {.last = true, .version = 1, .ulp = 0x43, .msn = 2},
     .n = 4,
     .half = true,
     .w = {1, 2, 3, MD, UIW_WC_FATAL_ERR}},
    {"MO", {SEND(3), .mo = 4}, .n = 8, .w = {1, 2, 4, MD}},
    {"MO inside a message",
     {SEND(3), .mo = 9},
     .n = 4,
     .half = true,
     .w = {1, 2, 4, MD, UIW_WC_FATAL_ERR}},
    {"Send too long", {SEND(3)}, .n = RECV + 1, .w = {1, 2, 5, MD, UIW_WC_LOC_LEN_ERR}},
    {"Send too long in its second segment",
     {SEND(3), .mo = 8},
     .n = 9,
     .half = true,
     .w = {1, 2, 5, MD, UIW_WC_LOC_LEN_ERR}},
    {"Write: STag unknown", {TAG(0)}, R_NONE, .n = 8, .w = {1, 1, 0, MD, ACCESS}},
    {"Write: wrong key", {TAG(0)}, R_KEY, .n = 8, .w = {1, 1, 0, MD, ACCESS}},
    {"Write: STag revoked", {TAG(0)}, R_GONE, .n = 8, .w = {1, 1, 0, MD, ACCESS}},
    {"Write: behind", {TAG(0), .to = AREA - 7}, R_ALL, .n = 8, .w = {1, 1, 1, MD, ACCESS}},
    {"Write: before", {TAG(0), .to = (uint64_t)-1}, R_ALL, .n = 8, .w = {1, 1, 1, MD, ACCESS}},
    {"Write: other PD", {TAG(0)}, R_PD, .n = 8, .w = {1, 1, 2, MD, ACCESS}},
    {"Write: other stream", {TAG(0)}, R_STREAM, .n = 8, .w = {1, 1, 2, MD, ACCESS}},
    {"Write: wrap", {TAG(0), .to = (uint64_t)-4}, R_ALL, true, .n = 8, .w = {1, 1, 3, MD, ACCESS}},
    {"Write: no right", {TAG(0)}, R_READ, .n = 8, .w = {1, 1, 0, MD, ACCESS}},
    /* RDMAP */
    {"RV, tagged",
     {.tagged = true, .last = true, .version = 1, .ulp = 0x80},
     R_ALL,
     .n = 8,
     .w = {0, 2, 5, MD}},
    {"RV, untagged",
     {.last = true, .version = 1, .ulp = 0x03, .msn = 1},
     .n = 8,
     .w = {0, 2, 5, MD}},
    {"opcode c", {SEND(0xc)}, .n = 8, .w = {0, 2, 6, MD}},
    {"opcode d, tagged", {TAG(0xd)}, R_ALL, .n = 8, .w = {0, 2, 6, MD}},
    {"opcode f", {REQ(0xf)}, .n = 8, .w = {0, 2, 6, MD}},
    {"a Send that is tagged", {TAG(3)}, R_ALL, .n = 8, .w = {0, 2, 6, MD}},
    {"a Write that is untagged", {SEND(0)}, .n = 8, .w = {0, 2, 6, MD}},
    {"a Send on queue 1", {REQ(3)}, .n = 8, .w = {0, 2, 6, MD}},
    {"a Read Request on queue 0", {SEND(1)}, .n = 28, .w = {0, 2, 6, MD}},
    {"Read: STag unknown", {REQ(1)}, R_NONE, .n = 8, .w = {0, 1, 0, MDR, ACCESS}},
    {"Read: STag revoked", {REQ(1)}, R_GONE, .n = 8, .w = {0, 1, 0, MDR, ACCESS}},
    {"Read: bounds", {REQ(1)}, R_ALL, .from = 1, .n = AREA, .w = {0, 1, 1, MDR, ACCESS}},
    {"Read: no right", {REQ(1)}, R_WRITE, .n = 8, .w = {0, 1, 2, MDR, ACCESS}},
    {"Read: other PD", {REQ(1)}, R_PD, .n = 8, .w = {0, 1, 3, MDR, ACCESS}},
    {"Read: other stream", {REQ(1)}, R_STREAM, .n = 8, .w = {0, 1, 3, MDR, ACCESS}},
    {"Read: wrap",
     {REQ(1)},
     R_ALL,
     true,
     .from = (uint64_t)-4,
     .n = 8,
     .w = {0, 1, 4, MDR, ACCESS}},
    {"Invalidate: unknown", {SEND(4)}, R_NONE, .n = 4, .w = {0, 2, 9, MD, UIW_WC_FATAL_ERR}},
    {"Invalidate: revoked", {SEND(6)}, R_GONE, .n = 4, .w = {0, 2, 9, MD, UIW_WC_FATAL_ERR}},
    {"Invalidate: other PD", {SEND(4)}, R_PD, .n = 4, .w = {0, 1, 9, MD, UIW_WC_FATAL_ERR, ACCESS}},
    {"Invalidate: other stream",
     {SEND(6)},
     R_STREAM,
     .n = 4,
     .w = {0, 1, 9, MD, UIW_WC_FATAL_ERR, ACCESS}},
    {"Invalidate: barred",
     {SEND(4)},
     R_FIXED,
     .n = 4,
     .w = {0, 1, 9, MD, UIW_WC_FATAL_ERR, ACCESS}},
    {"Read Response that nobody asked for",
     {TAG(2)},
     R_ALL,
     .n = 8,
     .w = {0, 2, 6, MD, .no_read = true}},
    {"Read Response: STag", {TAG(2)}, R_ALL, .n = 8, .w = {1, 1, 0, MD, ACCESS}},
    {"Read Response: TO", {TAG(2), .to = 1}, R_SINK, .n = 7, .w = {1, 1, 1, MD, ACCESS}},
    {"Read Response: too long", {TAG(2)}, R_SINK, .n = 9, .w = {1, 1, 1, MD, ACCESS}},
    {"Read Response: too short", {TAG(2)}, R_SINK, .n = 7, .w = {1, 1, 1, MD, ACCESS}},
    /* RFC 7306; n is the AOpCode of an Atomic */
    {"Atomic: misaligned", {REQ(0xa)}, R_ALL, .from = 4, .w = {0, 2, 7, MD, ACCESS}},
    {"Atomic: AOpCode", {REQ(0xa)}, R_ALL, .n = 1, .w = {0, 2, 6, MD}},
    {"Atomic: STag unknown", {REQ(0xa)}, R_NONE, .w = {0, 1, 0, MD, ACCESS}},
    {"Atomic: STag revoked", {REQ(0xa)}, R_GONE, .n = 2, .w = {0, 1, 0, MD, ACCESS}},
    {"Atomic: bounds", {REQ(0xa)}, R_ALL, .from = AREA, .w = {0, 1, 1, MD, ACCESS}},
    {"Atomic: no right", {REQ(0xa)}, R_WRITE, .w = {0, 1, 2, MD, ACCESS}},
    {"Atomic: other PD", {REQ(0xa)}, R_PD, .w = {0, 1, 3, MD, ACCESS}},
    {"Atomic: other stream", {REQ(0xa)}, R_STREAM, .n = 2, .w = {0, 1, 3, MD, ACCESS}},
    {"Atomic: wrap", {REQ(0xa)}, R_ALL, true, .from = (uint64_t)-4, .w = {0, 1, 4, MD, ACCESS}},
    {"Atomic Response that nobody asked for",
     {.last = true, .version = 1, .ulp = 0x4b, .qn = 3, .msn = 1},
     .n = 12,
     .w = {0, 2, 6, MD}},
    {"Immediate Data too short", {SEND(8)}, .n = 7, .w = {0, 2, 0xff, MD}},
    {"Immediate Data too long", {SEND(9)}, .n = 9, .w = {0, 2, 0xff, MD}},
};

static bool is_atomic(const struct row *row)
{
    return rdmap_opcode(row->h.ulp) == RDMAP_ATOMIC_REQUEST && row->h.qn == DDP_QN_REQUEST;
}

static uint32_t build(struct scene *c, const struct row *row, uint8_t *out)
{
    static const uint8_t some[64] = {0xee, 0xee, 0xee, 0xee};
    uint64_t base = row->absolute ? 0 : (uint64_t)(uintptr_t)c->area;
    struct ddp_hdr h = row->h;
    h.to += base;
    h.stag = h.ulp32 = c->stag[row->region];
    if (is_atomic(row)) {
        uint8_t op[RDMAP_ATOMIC_REQUEST_LEN];
        rdmap_atomic_request_pack(
            &(struct rdmap_atomic_request){
                .op = (uint8_t)row->n, .id = 1, .stag = h.stag, .to = base + row->from, .data = 1},
            op);
        h.ulp32 = 0;
        return raw_segment(out, &h, op, sizeof op);
    }
    if (h.tagged || row->w.flags != MDR) {
        return raw_segment(out, &h, some, row->n);
    }
    uint8_t ask[RDMAP_READ_REQUEST_LEN];
    rdmap_read_request_pack(&(struct rdmap_read_request){.sink_stag = 5,
                                                         .sink_to = 0x1234,
                                                         .len = row->n,
                                                         .src_stag = c->stag[row->region],
                                                         .src_to = base + row->from},
                            ask);
    h.ulp32 = 0;
    return raw_segment(out, &h, ask, sizeof ask);
}

static void run_row(const struct row *row)
{
    uint8_t bad[128];
    struct scene *c = scene_open("mtu=1500");
    print_message("  %s\n", row->name);
    post_recvs(c, BAD, row->w.no_recv ? 0 : RECVS);
    if (!row->w.no_read) {
        post_sends(c);
    }
    if (row->half) {
        struct ddp_hdr h = {.version = 1, .ulp = 0x43, .msn = 1};
        raw_ulpdu(&c->raw[BAD], bad, raw_segment(bad, &h, "12345678", 8));
    }
    uint32_t n = build(c, row, bad);
    raw_ulpdu(&c->raw[BAD], bad, n);
    if (row->w.flags == MDR || is_atomic(row)) {
        raw_run(&c->r, 5); /* these are judged when their answer is made: not what follows them */
    }
    send_more(c);
    expect_all(c, &row->w, bad, n);
    scene_close(c);
}

/* proves: RDMAP-5040-7.1-01 RDMAP-5040-5.4-07 RDMAP-5040-5.4-08 RDMAP-5040-6.2.1-02
 * RDMAP-5040-6.2.1-04 RDMAP-5040-7-02 RDMAP-5040-7-03 DDP-5041-3-08 DDP-5041-3-10 DDP-5041-6.2-01
 * DDP-5041-6.2.2-06 DDP-5041-7.1-18 DDP-5041-8.3-05 DDP-5041-8.3.1-01 REG-6580-3.3-01 */
static void test_one_bad_segment(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        run_row(&table[i]);
    }
}

/* --- what is not one bad segment --- */

/* proves: RDMAP-5040-7.1-01 */
static void test_short_ulpdu(void **state)
{
    (void)state;
    static const uint8_t lens[] = {0, 1, 2, 13, 17};
    static const struct want w = {.layer = 2, .code = 3};
    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        uint8_t bad[32] = {0x41, 0x43};
        struct scene *c = scene_open("mtu=1500");
        post_recvs(c, BAD, RECVS);
        post_sends(c);
        raw_ulpdu(&c->raw[BAD], bad, lens[i]);
        send_more(c);
        expect_all(c, &w, bad, lens[i]);
        scene_close(c);
    }
}

/* proves: MPA-5044-8-11 MPA-5044-8-12 MPA-5044-8-05 DDP-5041-6.2.2-02 DDP-5041-6.2.2-04 REG-6580-3.3-01 */
static void test_bad_crc(void **state)
{
    (void)state;
    static const struct want w = {.layer = 2, .code = 2};
    struct scene *c = scene_open("mtu=1500");
    uint8_t fpdu[64] = {0, 19, 0x41, 0x43, [15] = 1, [20] = 'a'}; /* its CRC field is zero */
    post_recvs(c, BAD, RECVS);
    post_sends(c);
    raw_put(&c->raw[BAD], fpdu, 2 + 19 + 3 + 4);
    c->raw[BAD].tx.pos += 2 + 19 + 3 + 4;
    send_more(c);
    expect_all(c, &w, fpdu + 2, 19);
    scene_close(c);
}

/* The Marker of the third FPDU points to another place than the lengths. */
static void test_bad_marker(void **state)
{
    (void)state;
    static const struct want w = {.layer = 2, .code = 3};
    struct scene *c = scene_open("mtu=1500,markers=on");
    uint8_t big[600] = {0}, zeros[500] = {0}, *to;
    post_recvs(c, BAD, RECVS);
    post_sends(c);
    struct ddp_hdr h = {TAG(0), .stag = c->stag[R_ALL], .to = (uintptr_t)c->area};
    uint32_t n = raw_segment(big, &h, zeros, sizeof zeros);
    struct span none = {NULL, 0};
    struct cursor cur = cursor_of(&none, 0);
    struct raw_conn *raw = &c->raw[BAD];
    assert_true(raw->tx.markers);
    uint32_t before = raw->tx.pos;
    assert_int_not_equal(before, 0);
    uint32_t size = mpa_tx_size(&raw->tx, n);
    to = net_tx_reserve(raw->stream, size);
    mpa_tx_copy(&raw->tx, &(struct mpa_out){big, n, &cur, 0}, to);
    to[MPA_MARKER_GAP - before + 3] ^= 4; /* the low octet of its FPDU pointer */
    put_le32(to + size - 4, crc32c_final(crc32c_add(CRC32C_INIT, to, size - 4)));
    net_tx_commit(raw->stream, size);
    send_more(c);
    expect_all(c, &w, big, n);
    scene_close(c);
}

static void test_reads_over_ird(void **state)
{
    (void)state;
    static const struct want w = {0, 2, 7, MD, .no_read = true};
    struct scene *c = scene_open("mtu=1500,ird=2");
    uint8_t bad[64], ask[RDMAP_READ_REQUEST_LEN];
    post_recvs(c, BAD, RECVS);
    struct rdmap_read_request q = {
        .sink_stag = 1, .len = 8, .src_stag = c->stag[R_ALL], .src_to = (uintptr_t)c->area};
    rdmap_read_request_pack(&q, ask);
    struct ddp_hdr h = {REQ(1)};
    uint32_t n = 0;
    for (h.msn = 1; h.msn <= 3; h.msn++) { /* in one segment: none is answered between */
        n = raw_segment(bad, &h, ask, sizeof ask);
        raw_ulpdu(&c->raw[BAD], bad, n);
    }
    send_more(c);
    expect_all(c, &w, bad, n);
    scene_close(c);
}

/* The identifier is that of the Request, but for one bit; or the answer is one to the other kind.
 * proves: EXT-7306-5.2.2-07 */
static void test_wrong_answer_to_an_atomic(void **state)
{
    (void)state;
    static const struct want w = {.type = 2, .code = 6, .flags = MD};
    for (int i = 0; i < 2; i++) {
        struct scene *c = scene_open("mtu=1500");
        struct rdmap_atomic_request asked;
        uint8_t bad[64], resp[RDMAP_ATOMIC_RESPONSE_LEN];
        post_recvs(c, BAD, RECVS);
        post_request(c, UIW_WR_ATOMIC_FETCH_ADD, RDMAP_ATOMIC_REQUEST);
        rdmap_atomic_request_unpack(c->u.octets + DDP_UNTAGGED_LEN, &asked);
        rdmap_atomic_response_pack(&(struct rdmap_atomic_response){.id = asked.id ^ 0x80000000},
                                   resp);
        struct ddp_hdr other = {TAG(2), .stag = c->stag[R_SINK], .to = (uintptr_t)c->area};
        struct ddp_hdr h = {.last = true, .version = 1, .ulp = 0x4b, .qn = 3, .msn = 1};
        uint32_t n =
            i == 0 ? raw_segment(bad, &h, resp, sizeof resp) : raw_segment(bad, &other, resp, 8);
        raw_ulpdu(&c->raw[BAD], bad, n);
        send_more(c);
        expect_all(c, &w, bad, n);
        scene_close(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_bad_segment), cmocka_unit_test(test_short_ulpdu),
        cmocka_unit_test(test_bad_crc),         cmocka_unit_test(test_bad_marker),
        cmocka_unit_test(test_reads_over_ird),  cmocka_unit_test(test_wrong_answer_to_an_atomic),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
