/* SPDX-License-Identifier: MIT */
/* A world for tests: two devices on one in-memory wire, both ends in this thread, virtual time. */
#ifndef SIM_H
#define SIM_H

#include "api/uiw.h"
#include "tcpip/net_test.h"

enum { SIM_SIDES = 2, SIM_MAX_WR = 256, SIM_SGE = 16, SIM_INLINE = 256, SIM_KEPT = 64 };

struct sim_side {
    struct uiw_device *dev;
    struct net *net;
    struct uiw_pd *pd;
    struct uiw_cq *cq;
    struct uiw_event_channel *ch;
    struct uiw_listener *listener;
    struct uiw_qp *qp;
    struct uiw_conn *conn;
    struct uiw_event last; /* the last event but CONNECT_REQUEST */
    unsigned established, disconnected, failed, rejected;
};

struct sim {
    struct sim_side side[SIM_SIDES]; /* 0 connects, 1 listens */
    const char *wire, *ip[SIM_SIDES];
    struct sim *next;    /* another world in the same time, or NULL */
    struct uiw_srq *srq; /* of the QPs that side 1 gets for raw.h, or NULL */
    uint64_t rng;
    uint64_t ms; /* virtual milliseconds gone by */
    /* Turned with each step, if not NULL; returns whether there was anything to do. */
    bool (*also)(void *arg);
    void *also_arg;
    /* Shown every completion of side 1, if not NULL; returns whether it was its own. */
    bool (*takes)(void *arg, const struct uiw_wc *wc);
    void *takes_arg;
    struct uiw_wc kept[SIM_KEPT]; /* those that were not, and were not polled yet */
    unsigned kept_cnt;
};

/* Opens both devices: keys go to both device strings ("mtu=1500,crc=off"). */
void sim_open(struct sim *s, uint64_t seed, const char *keys);
/* Only side 1: the other end of its wire is the test's (raw.h). */
void sim_open_one(struct sim *s, uint64_t seed, const char *keys);
/* The same on a wire of its own, turned together with first. To be closed after it. */
void sim_open_next(struct sim *s, struct sim *first, const char *keys);
void sim_close(struct sim *s);

/* The seed to use: UIW_SEED, else fresh; printed. */
uint64_t sim_seed(void);
uint32_t sim_random(struct sim *s);
uint32_t sim_below(struct sim *s, uint32_t n);

/* Both wires. */
void sim_wire(struct sim *s, const struct net_wire *w);

/* A fresh QP at each side, then a connection between them. */
void sim_connect(struct sim *s, const struct uiw_conn_param *ask,
                 const struct uiw_conn_param *answer);
/* Only the QPs. */
void sim_qps(struct sim *s, struct uiw_srq *srq);
/* Disconnects from that side, waits for both, destroys conns and QPs. */
void sim_disconnect(struct sim *s, int side);
/* Destroys conns and QPs whatever their state. */
void sim_drop(struct sim *s);

/* One step: turns the loop, fetches events, lets a virtual millisecond go by when nothing happened. */
void sim_step(struct sim *s);

/* Steps until *what is not below value; fails the test after virtual limit_ms. */
void sim_until(struct sim *s, const unsigned *what, unsigned value, uint64_t limit_ms);

/* uiw_cq_poll() of that side's CQ, without what s->takes. */
int sim_cq_poll(struct sim *s, int side, int n, struct uiw_wc *wc);
/* Polls that side for exactly n completions into wc. */
void sim_poll(struct sim *s, int side, int n, struct uiw_wc *wc);

struct uiw_mr *sim_reg(struct sim *s, int side, void *p, uint64_t n, unsigned access);

/* Where at the peer; for a Send with Invalidate only the STag counts. */
struct sim_at {
    uint64_t to;
    uint32_t rkey;
};

/* One request, one sge, signalled. */
int sim_post(struct sim *s, int side, enum uiw_wr_opcode op, struct uiw_sge sge, struct sim_at at);
/* To the QP of that side, or to s->srq. */
void sim_recv(struct sim *s, int side, struct uiw_sge sge, uint64_t wr_id);

static inline struct uiw_sge sim_sge(struct uiw_mr *mr, const void *p, uint32_t n)
{
    return (struct uiw_sge){.addr = (uint64_t)(uintptr_t)p, .length = n, .lkey = uiw_mr_lkey(mr)};
}

#endif
