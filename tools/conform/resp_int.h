/* SPDX-License-Identifier: MIT */
/* Inside the responder.
 *   resp.c      device, connections, what the API says
 *   resp_mem.c  regions
 *   resp_ctl.c  questions and their answers
 *   resp_do.c   actions */
#ifndef UIW_CONFORM_RESP_INT_H
#define UIW_CONFORM_RESP_INT_H

#include <stdio.h>

#include "base/base.h"
#include "resp.h"

enum {
    RESP_TURNS = 60, /* in which what is to leave does so, before the device goes */
    RESP_CONNS = 8,
    RESP_REGIONS = 15,
    RESP_LINES = 4096,
    RESP_LINE = 120,
    RESP_DEPTH = 128,
    RESP_RECVS = 1024, /* of a connection */
    RESP_RECV_SIZE = 65536,
    RESP_CQE = 65536,
    RESP_ENTROPY = 20000,
    RESP_ANSWER = 200, /* octets of an answer: every stack carries so much private data */
    RESP_GUARD = 64,
    RESP_SPEC = 512, /* of a device string */
};

struct resp_region {
    const char *name;
    uint32_t len;
    unsigned access;
    bool pattern, numbers, other_pd, scoped;
    uint8_t *mem; /* with a guard before and behind */
    struct uiw_mr *mr;
};

struct resp_conn {
    unsigned no;
    struct uiw_conn *conn;
    struct uiw_qp *qp;
    struct uiw_cq *cq; /* of its own, or NULL */
    uint8_t *recv_mem;
    struct uiw_mr *recv_mr;
    uint32_t recv_size, recv_cnt; /* as posted; slots are used in turn */
    uint32_t recv_slots;
    bool established, down;
};

/* What the question `case` has set. */
struct resp_case {
    uint32_t recv_cnt, recv_size;
    int ird, ord;
    unsigned rtr; /* UIW_RTR_* that it offers as Initiator; 0: as uiw.h has it */
    bool reject, hold, p2p, initiator, solicited, srq;
    uint32_t cqe; /* not 0: connection 1 has a CQ of that size, which is polled only by `poll` */
    bool unpolled;
    uint16_t pd_len;
    uint8_t pd[UIW_PRIVATE_MAX];
    char todo[300]; /* actions of every connection when it is accepted or connects */
    struct sockaddr_storage to;
    char keys[120]; /* of the device */
};

struct resp {
    struct resp_cfg cfg;
    char spec[256];
    char keys[120]; /* that the device was opened with */
    struct uiw_device *dev;
    struct uiw_pd *pd, *other_pd;
    struct uiw_comp_channel *comps;
    struct uiw_cq *cq;
    struct uiw_srq *srq;
    struct uiw_event_channel *ch;
    struct uiw_listener *listener;
    struct resp_region region[RESP_REGIONS];
    struct resp_conn conn[RESP_CONNS];
    unsigned conns;
    struct resp_case now;
    const struct uiw_conn *asker; /* while a question is answered */
    bool reopen;                  /* the device is to be opened with now.keys */
    bool failed;                  /* because it has failed */
    char broken[120];             /* why it could not be; the last case never began */
    unsigned reopen_turns;
    unsigned fail_turns; /* then the device fails */
    unsigned lines;
    char line[RESP_LINES][RESP_LINE];
};

void resp_log(struct resp *r, const struct resp_conn *c, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* --- resp.c --- */
void resp_reset(struct resp *r);      /* what the last case left */
void resp_fail(struct resp *r);       /* the device, in a moment; then it is opened anew */
bool resp_case_begin(struct resp *r); /* as r->now says; false: uiw_error() */
void resp_spec(const struct resp *r, const char *keys, char spec[RESP_SPEC]);
bool resp_make_qp(struct resp *r, struct resp_conn *c);
bool resp_accept(struct resp *r, struct resp_conn *c);
bool resp_connect(struct resp *r);
int resp_listen(struct resp *r);
int resp_post_recv(struct resp *r, struct resp_conn *c, uint32_t cnt);

/* --- resp_mem.c --- */
bool resp_memory_new(struct resp *r);
void resp_memory_free(struct resp *r);
struct resp_region *resp_region(struct resp *r, const char *name);
/* The memory of a name: a region, or "recv", the receives of connection 1. */
bool resp_memory(struct resp *r, const char *name, struct mspan *out);
/* All but the one that belongs to a QP, with fresh contents and STags. */
bool resp_register_all(struct resp *r);
int resp_register(struct resp *r, struct resp_region *g, struct uiw_qp *qp);
bool resp_guards_whole(const struct resp *r); /* nothing around the regions was written */

/* --- resp_ctl.c --- */
enum { RESP_MAGIC = 12 };
bool resp_is_question(const struct uiw_event *ev);
void resp_answer(struct resp *r, const struct uiw_event *ev);

/* --- resp_do.c --- */
/* Carries out a list of actions on a connection; false, and what is wrong in why. */
bool resp_do(struct resp *r, struct resp_conn *c, const char *actions, char *why, size_t room);
/* Whether every word in it is understood; does nothing. */
bool resp_do_known(const char *actions, char *why, size_t room);

#endif
