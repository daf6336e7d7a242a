/* SPDX-License-Identifier: MIT */
#include "raw.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "family.h"

/* --- turning --- */

/* As much as there is room for: what is left closes the window. */
static bool take_in(struct raw_conn *c)
{
    struct span v;
    uint32_t before = c->rx_octets;
    while (!c->deaf && c->len < RAW_ROOM && net_rx_peek(c->stream, &v, 1) > 0) {
        uint32_t n = min_u32(v.n, RAW_ROOM - c->len);
        memcpy(c->in + c->len, v.p, n);
        c->len += n;
        c->rx_octets += n;
        net_rx_consume(c->stream, n);
    }
    return c->rx_octets != before;
}

static void join(struct raw *r, struct raw_conn *c)
{
    for (int i = 0; i < RAW_CONNS; i++) {
        if (r->conn[i] == NULL) {
            r->conn[i] = c;
            c->in = malloc(RAW_ROOM);
            assert_non_null(c->in);
            return;
        }
    }
    fail_msg("raw: too many connections");
}

static void accept_all(struct raw *r)
{
    struct net_stream *st;
    while ((st = net_accept(r->listener)) != NULL) {
        if (r->next == NULL) {
            net_stream_close(st, true);
            continue;
        }
        struct raw_conn *c = r->next;
        r->next = NULL;
        memset(c, 0, sizeof *c);
        c->stream = st;
        c->up = true;
        join(r, c);
        net_stream_set_user(st, c);
    }
}

static void on_stream(struct raw_conn *c, unsigned events)
{
    if ((events & NET_EV_UP) != 0) {
        c->up = true;
    }
    if ((events & NET_EV_FIN) != 0) {
        c->fin_came = true;
    }
    if ((events & NET_EV_CLOSED) != 0) {
        c->error = net_error(c->stream);
        c->close_came = true;
    }
}

static bool turn(void *arg)
{
    struct raw *r = arg;
    bool busy = net_turn(r->net) > 0;
    for (;;) {
        struct net_ready n = net_next(r->net);
        if (n.events == 0) {
            break;
        }
        busy = true;
        if (n.listener != NULL) {
            accept_all(r);
        } else if (n.user != NULL) {
            on_stream(n.user, n.events);
        }
    }
    for (int i = 0; i < RAW_CONNS; i++) {
        struct raw_conn *c = r->conn[i];
        if (c != NULL) {
            busy |= take_in(c);
            bool all = net_rx_queued(c->stream) == 0;
            c->fin = c->fin_came && all;
            c->closed = c->close_came && all;
            if (c->pump != NULL) {
                c->pump(c->pump_arg);
            }
        }
    }
    net_flush(r->net);
    return busy;
}

void raw_open(struct raw *r, struct sim *s)
{
    memset(r, 0, sizeof *r);
    char err[NET_ERR_TEXT] = "";
    struct net_cfg cfg = {.kind = NET_PAIR, .prefix = 24, .mtu = 1500};
    snprintf(cfg.name, sizeof cfg.name, "%s", s->wire);
    if (test_v6()) {
        cfg.ip6 = test_ip6(s->ip[0]);
    } else {
        inet_pton(AF_INET, s->ip[0], &cfg.ip);
    }
    if (net_open(&cfg, &r->net, err) != 0) {
        fail_msg("raw: %s", err);
    }
    struct sockaddr_storage any = test_addr(s->ip[0], RAW_PORT);
    assert_int_equal(net_listen(r->net, (struct sockaddr *)&any, 4, NULL, &r->listener), 0);
    r->s = s;
    s->also = turn;
    s->also_arg = r;
}

void raw_close(struct raw *r)
{
    for (int i = 0; i < RAW_CONNS; i++) {
        if (r->conn[i] != NULL) {
            raw_hangup(r, r->conn[i], true);
        }
    }
    net_listener_close(r->listener);
    r->s->also = NULL;
    net_close(r->net);
}

void raw_run(struct raw *r, uint64_t ms)
{
    uint64_t end = r->s->ms + ms;
    while (r->s->ms < end) {
        sim_step(r->s);
    }
}

/* --- streams --- */

void raw_dial(struct raw *r, struct raw_conn *c)
{
    memset(c, 0, sizeof *c);
    struct sockaddr_storage to = test_addr(r->s->ip[1], RAW_PORT);
    assert_int_equal(net_connect(r->net, NULL, (struct sockaddr *)&to, c, &c->stream), 0);
    join(r, c);
    net_flush(r->net);
    uint64_t end = r->s->ms + 10000;
    while (!c->up && r->s->ms < end) {
        sim_step(r->s);
    }
    assert_true(c->up);
}

void raw_listen(struct raw *r, struct raw_conn *c)
{
    r->next = c;
}

void raw_hangup(struct raw *r, struct raw_conn *c, bool abort)
{
    for (int i = 0; i < RAW_CONNS; i++) {
        if (r->conn[i] == c) {
            r->conn[i] = NULL;
            net_stream_close(c->stream, abort);
            net_flush(r->net);
            free(c->in);
            c->in = NULL;
            c->stream = NULL;
        }
    }
}

void raw_put(struct raw_conn *c, const void *p, uint32_t n)
{
    uint8_t *to = net_tx_reserve(c->stream, n);
    assert_non_null(to);
    memcpy(to, p, n);
    net_tx_commit(c->stream, n);
}

void raw_frame(struct raw_conn *c, const struct mpa_frame *f)
{
    uint8_t buf[MPA_FRAME_MAX];
    raw_put(c, buf, mpa_frame_pack(f, buf));
}

void raw_ulpdu(struct raw_conn *c, const void *p, uint32_t n)
{
    /* All of it counts as the header, so that nothing is read into it. */
    struct span none = {NULL, 0};
    struct cursor cur = cursor_of(&none, 0);
    uint8_t *to = net_tx_reserve(c->stream, mpa_tx_size(&c->tx, n));
    assert_non_null(to);
    net_tx_commit(c->stream, mpa_tx_copy(&c->tx, &(struct mpa_out){p, n, &cur, 0}, to));
}

void raw_wait(struct raw *r, struct raw_conn *c, uint32_t n)
{
    uint64_t end = r->s->ms + 60000;
    while (c->len < n && !c->fin && !c->closed) {
        if (r->s->ms >= end) {
            fail_msg("raw: %u octets came, %u wanted", c->len, n);
        }
        sim_step(r->s);
    }
}

static void drop(struct raw_conn *c, uint32_t n)
{
    memmove(c->in, c->in + n, c->len - n);
    c->len -= n;
}

void raw_take_frame(struct raw *r, struct raw_conn *c, bool reply, struct mpa_frame *f)
{
    for (uint32_t want = 1;; want = c->len + 1) {
        raw_wait(r, c, want);
        if (c->len < want) {
            fail_msg("raw: the stream ended before a %s", reply ? "Reply" : "Request");
        }
        struct span v = {c->in, c->len};
        struct cursor cur = cursor_of(&v, 1);
        enum mpa_fault why = MPA_FAULT_NONE;
        enum mpa_parse got = mpa_frame_unpack(&cur, reply, f, &why);
        assert_int_not_equal(got, MPA_PARSE_BAD);
        if (got == MPA_PARSE_OK) {
            drop(c, c->len - cur.left);
            return;
        }
    }
}

/* --- ULPDUs --- */

static void flatten(const struct mpa_ulpdu *m, struct raw_ulpdu *u)
{
    u->len = m->len;
    struct cursor cur = cursor_of(m->v, m->cnt);
    cursor_take(&cur, m->len, u->octets);
    u->span = (struct span){u->octets, u->len};
    cur = cursor_of(&u->span, 1);
    ddp_seg_parse(cur, &u->seg);
    u->opcode = rdmap_opcode(u->seg.hdr.ulp);
}

bool raw_take(struct raw_conn *c, struct raw_ulpdu *u)
{
    static struct mpa_ulpdu m;
    while (c->len > 0) {
        struct span v = {c->in, c->len};
        struct cursor cur = cursor_of(&v, 1);
        struct verdict why;
        enum mpa_rx_result got = mpa_rx_next(&c->rx, &cur, &m, &why);
        assert_int_not_equal(got, MPA_RX_BAD);
        if (got == MPA_RX_MORE) {
            break;
        }
        flatten(&m, u);
        drop(c, c->len - cur.left);
        if (u->opcode != RDMAP_WRITE || u->seg.plen > 0) {
            return true;
        }
    }
    return false;
}

bool raw_next(struct raw *r, struct raw_conn *c, struct raw_ulpdu *u)
{
    for (uint32_t want = 1;; want = c->len + 1) {
        raw_wait(r, c, want);
        if (raw_take(c, u)) {
            return true;
        }
        if (c->fin || c->closed) {
            assert_int_equal(c->len, 0); /* never half an FPDU */
            return false;
        }
    }
}

void raw_terminate(struct raw *r, struct raw_conn *c, struct raw_ulpdu *u, struct rdmap_term *t)
{
    if (!raw_next(r, c, u)) {
        fail_msg("raw: the stream ended without a Terminate");
    }
    const struct ddp_hdr *h = &u->seg.hdr;
    assert_int_equal(u->opcode, RDMAP_TERMINATE);
    assert_true(!h->tagged && h->last && h->qn == DDP_QN_TERMINATE && h->msn == 1 && h->mo == 0);
    assert_true(rdmap_term_unpack(u->seg.payload, t));
    assert_false(t->host_order);
    struct raw_ulpdu more;
    assert_false(raw_next(r, c, &more));
    assert_true(c->fin);
    assert_int_equal(c->error, 0);
}

/* --- full operation --- */

const struct mpa_frame raw_with_depths = {
    .rev = 2, .crc = true, .enhanced = true, .ird = 4, .ord = 4};

static void agree(struct raw_conn *c, const struct mpa_frame *mine, const struct mpa_frame *theirs)
{
    bool crc = mine->crc || theirs->crc;
    mpa_tx_init(&c->tx, theirs->markers, crc);
    mpa_rx_init(&c->rx, mine->markers, crc);
}

struct uiw_conn *raw_join_qp(struct raw *r, struct raw_conn *c, const struct mpa_frame *f,
                             struct uiw_qp *qp)
{
    static const struct mpa_frame plain = {.rev = 1, .crc = true};
    struct sim_side *b = &r->s->side[1];
    struct uiw_conn *before = b->conn;
    struct mpa_frame reply;
    f = f != NULL ? f : &plain;
    b->conn = NULL;
    raw_dial(r, c);
    raw_frame(c, f);
    uint64_t end = r->s->ms + 10000;
    while (b->conn == NULL && r->s->ms < end) {
        sim_step(r->s);
    }
    struct uiw_conn *conn = b->conn;
    assert_non_null(conn);
    b->conn = before;
    assert_int_equal(uiw_accept(conn, qp, NULL), 0);
    raw_take_frame(r, c, true, &reply);
    assert_false(reply.reject);
    agree(c, f, &reply);
    return conn;
}

void raw_join(struct raw *r, struct raw_conn *c, const struct mpa_frame *f)
{
    struct sim_side *b = &r->s->side[1];
    sim_qps(r->s, r->s->srq);
    b->conn = raw_join_qp(r, c, f, b->qp);
}

void raw_answer(struct raw *r, struct raw_conn *c, const struct uiw_conn_param *p,
                const struct mpa_frame *f)
{
    struct sim_side *b = &r->s->side[1];
    struct sockaddr_storage to = test_addr(r->s->ip[0], RAW_PORT);
    struct mpa_frame request, reply;
    b->conn = NULL;
    sim_qps(r->s, r->s->srq);
    memset(c, 0, sizeof *c);
    raw_listen(r, c);
    assert_int_equal(uiw_connect(b->ch, b->qp, (struct sockaddr *)&to, p, &b->conn), 0);
    uint64_t end = r->s->ms + 10000;
    while (!c->up && r->s->ms < end) {
        sim_step(r->s);
    }
    assert_true(c->up);
    raw_take_frame(r, c, false, &request);
    if (f == NULL) {
        reply = request;
        reply.reply = true;
        reply.pd_len = 0;
        reply.ird = request.ord;
        reply.ord = request.ird;
        f = &reply;
    }
    raw_frame(c, f);
    agree(c, f, &request);
    raw_run(r, 5);
}

uint32_t raw_segment(uint8_t *out, const struct ddp_hdr *h, const void *p, uint32_t n)
{
    uint32_t len = ddp_hdr_pack(h, out);
    if (n > 0) {
        memcpy(out + len, p, n);
    }
    return len + n;
}

void raw_send(struct raw_conn *c, uint32_t msn, const void *p, uint32_t n)
{
    uint8_t seg[2048];
    struct ddp_hdr h = {.last = true, .version = 1, .ulp = rdmap_control(RDMAP_SEND), .msn = msn};
    raw_ulpdu(c, seg, raw_segment(seg, &h, p, n));
}

void raw_write(struct raw_conn *c, struct sim_at to, const void *p, uint32_t n)
{
    uint8_t seg[2048];
    struct ddp_hdr h = {.tagged = true,
                        .last = true,
                        .version = 1,
                        .ulp = rdmap_control(RDMAP_WRITE),
                        .stag = to.rkey,
                        .to = to.to};
    raw_ulpdu(c, seg, raw_segment(seg, &h, p, n));
}

void raw_first(struct raw *r, struct raw_conn *c)
{
    raw_write(c, (struct sim_at){0, 0}, NULL, 0);
    raw_run(r, 5);
}

void raw_read_request(struct raw_conn *c, uint32_t msn, const struct rdmap_read_request *q)
{
    uint8_t seg[64], payload[RDMAP_READ_REQUEST_LEN];
    struct ddp_hdr h = {.last = true,
                        .version = 1,
                        .ulp = rdmap_control(RDMAP_READ_REQUEST),
                        .qn = DDP_QN_REQUEST,
                        .msn = msn};
    rdmap_read_request_pack(q, payload);
    raw_ulpdu(c, seg, raw_segment(seg, &h, payload, sizeof payload));
}
