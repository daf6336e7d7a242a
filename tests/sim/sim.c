/* SPDX-License-Identifier: MIT */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/device.h"
#include "base/random.h"
#include "family.h"

static void must(int err, const char *what)
{
    if (err < 0) {
        fail_msg("%s: %d: %s", what, err, uiw_error());
    }
}

uint64_t sim_seed(void)
{
    const char *want = getenv("UIW_SEED");
    uint64_t seed = want != NULL ? strtoull(want, NULL, 0) : random_u32();
    print_message("UIW_SEED=%llu repeats this run\n", (unsigned long long)seed);
    return seed;
}

/* xorshift64*: repeatable on every machine. */
uint32_t sim_random(struct sim *s)
{
    s->rng ^= s->rng >> 12;
    s->rng ^= s->rng << 25;
    s->rng ^= s->rng >> 27;
    return (uint32_t)((s->rng * 0x2545f4914f6cdd1dULL) >> 32);
}

uint32_t sim_below(struct sim *s, uint32_t n)
{
    return n > 0 ? sim_random(s) % n : 0;
}

static void open_side(struct sim *s, int i, const char *keys)
{
    struct sim_side *me = &s->side[i];
    char spec[200], ip[INET6_ADDRSTRLEN];
    snprintf(spec, sizeof spec, "pair:%s,ip=%s,progress=polled,spin=0%s%s", s->wire,
             test_ip(s->ip[i], ip), keys != NULL ? "," : "", keys != NULL ? keys : "");
    must(uiw_device_open(spec, &me->dev), spec);
    me->net = me->dev->net;
    must(uiw_pd_create(me->dev, &me->pd), "pd");
    must(uiw_cq_create(me->dev, 8 * SIM_MAX_WR, NULL, NULL, &me->cq), "cq");
    must(uiw_event_channel_create(me->dev, &me->ch), "channel");
    fcntl(uiw_event_channel_fd(me->ch), F_SETFL, O_NONBLOCK);
    fcntl(uiw_async_fd(me->dev), F_SETFL, O_NONBLOCK);
}

static void open_listening(struct sim *s, const char *keys)
{
    open_side(s, 1, keys);
    struct sockaddr_storage any = test_addr("0.0.0.0", 7174);
    must(uiw_listen(s->side[1].ch, (struct sockaddr *)&any, 64, NULL, &s->side[1].listener),
         "listen");
}

void sim_open_one(struct sim *s, uint64_t seed, const char *keys)
{
    *s = (struct sim){.wire = "sim", .ip = {"198.18.0.1", "198.18.0.2"}, .rng = seed * 2 + 1};
    net_clock_virtual(1000);
    open_listening(s, keys);
}

void sim_open_next(struct sim *s, struct sim *first, const char *keys)
{
    *s = (struct sim){
        .wire = "next", .ip = {"198.18.1.1", "198.18.1.2"}, .rng = first->rng, .ms = first->ms};
    first->next = s;
    open_listening(s, keys);
}

void sim_open(struct sim *s, uint64_t seed, const char *keys)
{
    sim_open_one(s, seed, keys);
    open_side(s, 0, keys);
}

void sim_close(struct sim *s)
{
    sim_drop(s);
    must(uiw_listener_destroy(s->side[1].listener), "listener");
    for (int i = 0; i < SIM_SIDES; i++) {
        struct sim_side *me = &s->side[i];
        if (me->dev == NULL) {
            continue;
        }
        must(uiw_event_channel_destroy(me->ch), "channel");
        must(uiw_cq_destroy(me->cq), "cq");
        must(uiw_pd_destroy(me->pd), "pd");
        must(uiw_device_close(me->dev), "device");
    }
    net_clock_real();
}

void sim_wire(struct sim *s, const struct net_wire *w)
{
    net_wire_set(s->side[0].net, w);
    net_wire_set(s->side[1].net, w);
}

void sim_qps(struct sim *s, struct uiw_srq *srq)
{
    for (int i = 0; i < SIM_SIDES; i++) {
        struct sim_side *me = &s->side[i];
        if (me->dev == NULL) {
            continue;
        }
        struct uiw_qp_attr attr = {.send_cq = me->cq,
                                   .recv_cq = me->cq,
                                   .srq = i == 1 ? srq : NULL,
                                   .max_send_wr = SIM_MAX_WR,
                                   .max_recv_wr = SIM_MAX_WR,
                                   .max_send_sge = SIM_SGE,
                                   .max_recv_sge = SIM_SGE,
                                   .max_inline = SIM_INLINE,
                                   .user = me};
        must(uiw_qp_create(me->pd, &attr, &me->qp), "qp");
    }
}

void sim_connect(struct sim *s, const struct uiw_conn_param *ask,
                 const struct uiw_conn_param *answer)
{
    struct sim_side *a = &s->side[0], *b = &s->side[1];
    if (a->qp == NULL) {
        sim_qps(s, NULL);
    }
    struct sockaddr_storage to = test_addr(s->ip[1], 7174);
    a->established = b->established = 0;
    a->disconnected = b->disconnected = a->failed = b->failed = 0;
    must(uiw_connect(a->ch, a->qp, (struct sockaddr *)&to, ask, &a->conn), "connect");
    uint64_t end = s->ms + 20000;
    while (b->conn == NULL && s->ms < end) {
        sim_step(s);
    }
    assert_non_null(b->conn);
    must(uiw_accept(b->conn, b->qp, answer), "accept");
    sim_until(s, &a->established, 1, 20000);
    sim_until(s, &b->established, 1, 20000);
}

void sim_drop(struct sim *s)
{
    for (int i = 0; i < SIM_SIDES; i++) {
        struct sim_side *me = &s->side[i];
        if (me->conn != NULL) {
            uiw_conn_destroy(me->conn);
            me->conn = NULL;
        }
        if (me->qp != NULL) {
            must(uiw_qp_destroy(me->qp), "qp destroy");
            me->qp = NULL;
        }
        struct uiw_wc wc;
        while (me->cq != NULL && sim_cq_poll(s, i, 1, &wc) > 0) {
        }
    }
}

void sim_disconnect(struct sim *s, int side)
{
    must(uiw_disconnect(s->side[side].conn), "disconnect");
    sim_until(s, &s->side[0].disconnected, 1, 20000);
    sim_until(s, &s->side[1].disconnected, 1, 20000);
    sim_drop(s);
}

static void fetch(struct sim_side *me)
{
    struct uiw_event ev;
    if (me->dev == NULL) {
        return;
    }
    while (uiw_event_get(me->ch, &ev) == 0) {
        switch (ev.type) {
        case UIW_EVENT_CONNECT_REQUEST:
            me->conn = ev.conn;
            me->last = ev;
            continue;
        case UIW_EVENT_ESTABLISHED: me->established++; break;
        case UIW_EVENT_DISCONNECTED: me->disconnected++; break;
        case UIW_EVENT_REJECTED: me->rejected++; break;
        case UIW_EVENT_CONNECT_ERROR: me->failed++; break;
        }
        me->last = ev;
    }
}

static void sort(struct sim *s)
{
    struct uiw_wc wc;
    while (s->takes != NULL && uiw_cq_poll(s->side[1].cq, 1, &wc) > 0) {
        if (!s->takes(s->takes_arg, &wc)) {
            assert_in_range(s->kept_cnt, 0, SIM_KEPT - 1);
            s->kept[s->kept_cnt++] = wc;
        }
    }
}

void sim_step(struct sim *s)
{
    int busy = uiw_progress(s->side[1].dev, 0);
    for (struct sim *w = s; w != NULL; w = w->next) {
        if (w->also != NULL && w->also(w->also_arg)) {
            busy = 1;
        }
        fetch(&w->side[0]);
        fetch(&w->side[1]);
        sort(w);
    }
    if (!busy) {
        net_clock_advance(1);
        for (struct sim *w = s; w != NULL; w = w->next) {
            w->ms++;
        }
    }
}

void sim_until(struct sim *s, const unsigned *what, unsigned value, uint64_t limit_ms)
{
    uint64_t end = s->ms + limit_ms;
    while (*what < value) {
        if (s->ms >= end) {
            fail_msg("nothing more after %llu virtual ms (a: %s; b: %s)",
                     (unsigned long long)limit_ms, s->side[0].last.text, s->side[1].last.text);
        }
        sim_step(s);
    }
}

int sim_cq_poll(struct sim *s, int side, int n, struct uiw_wc *wc)
{
    if (side != 1 || s->takes == NULL) {
        return uiw_cq_poll(s->side[side].cq, n, wc);
    }
    sort(s);
    unsigned got = min_u32((uint32_t)n, s->kept_cnt);
    memcpy(wc, s->kept, got * sizeof *wc);
    s->kept_cnt -= got;
    memmove(s->kept, s->kept + got, s->kept_cnt * sizeof *wc);
    return (int)got;
}

void sim_poll(struct sim *s, int side, int n, struct uiw_wc *wc)
{
    uint64_t end = s->ms + 60000;
    for (int got = 0; got < n;) {
        int r = sim_cq_poll(s, side, n - got, wc + got);
        must(r, "poll");
        got += r;
        if (got < n) {
            if (s->ms >= end) {
                fail_msg("side %d: %d of %d completions (%s)", side, got, n,
                         s->side[side].last.text);
            }
            sim_step(s);
        }
    }
}

struct uiw_mr *sim_reg(struct sim *s, int side, void *p, uint64_t n, unsigned access)
{
    struct uiw_mr *mr;
    must(uiw_mr_reg(s->side[side].pd, p, n, access, &mr), "mr");
    return mr;
}

int sim_post(struct sim *s, int side, enum uiw_wr_opcode op, struct uiw_sge sge, struct sim_at at)
{
    struct uiw_send_wr wr = {.wr_id = (uint64_t)op,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = op,
                             .flags = UIW_SEND_SIGNALED,
                             .remote_addr = at.to,
                             .rkey = at.rkey,
                             .invalidate = at.rkey};
    return uiw_qp_post_send(s->side[side].qp, &wr, NULL);
}

void sim_recv(struct sim *s, int side, struct uiw_sge sge, uint64_t wr_id)
{
    struct uiw_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
    must(side == 1 && s->srq != NULL ? uiw_srq_post_recv(s->srq, &wr, NULL)
                                     : uiw_qp_post_recv(s->side[side].qp, &wr, NULL),
         "post_recv");
}
