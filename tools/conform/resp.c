/* SPDX-License-Identifier: MIT */
#include "resp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>

#include "../address.h"
#include "resp_int.h"

enum { CQE = 4096 };

/* --- log --- */

void resp_log(struct resp *r, const struct resp_conn *c, const char *fmt, ...)
{
    if (r->lines == RESP_LINES) {
        return;
    }
    char *line = r->line[r->lines];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, RESP_LINE, fmt, ap);
    va_end(ap);
    if (c != NULL && c->no > 1 && n > 0 && n < RESP_LINE) {
        snprintf(line + n, RESP_LINE - (size_t)n, " conn=%u", c->no);
    }
    /* A receive queue that is flushed says the same many times. */
    if (r->lines > 0 && strncmp(line, "flushed recv", 12) == 0 &&
        strcmp(line, r->line[r->lines - 1]) == 0) {
        return;
    }
    if (r->cfg.trace != NULL) {
        fprintf(r->cfg.trace, "%s\n", line);
    }
    r->lines++;
}

/* --- connections --- */

static void conn_gone(struct resp_conn *c)
{
    if (c->conn != NULL) {
        uiw_conn_destroy(c->conn);
    }
    if (c->qp != NULL) {
        uiw_qp_destroy(c->qp);
    }
    if (c->recv_mr != NULL) {
        uiw_mr_dereg(c->recv_mr);
    }
    if (c->cq != NULL) {
        uiw_cq_destroy(c->cq);
    }
    free(c->recv_mem);
    *c = (struct resp_conn){.no = 0};
}

void resp_reset(struct resp *r)
{
    struct uiw_wc wc[16];
    struct resp_region *scoped = resp_region(r, "scoped");
    if (scoped->mr != NULL) {
        uiw_mr_dereg(scoped->mr);
        scoped->mr = NULL;
    }
    for (unsigned i = 0; i < r->conns; i++) {
        conn_gone(&r->conn[i]);
    }
    r->conns = 0;
    for (unsigned i = 0; i < RESP_REGIONS; i++) {
        if (r->region[i].mr != NULL) {
            uiw_mr_dereg(r->region[i].mr);
            r->region[i].mr = NULL;
        }
    }
    if (r->srq != NULL) {
        uiw_srq_destroy(r->srq);
        r->srq = NULL;
    }
    struct uiw_cq *woken;
    void *user;
    while (r->cq != NULL &&
           (uiw_cq_poll(r->cq, 16, wc) > 0 || uiw_comp_channel_get(r->comps, &woken, &user) == 0)) {
    }
    r->lines = 0;
}

int resp_post_recv(struct resp *r, struct resp_conn *c, uint32_t cnt)
{
    for (uint32_t i = 0; i < cnt && c->recv_cnt < c->recv_slots; i++) {
        struct uiw_sge sge = {.addr = (uint64_t)(uintptr_t)c->recv_mem +
                                      (uint64_t)c->recv_cnt * c->recv_size,
                              .length = c->recv_size,
                              .lkey = uiw_mr_lkey(c->recv_mr)};
        struct uiw_recv_wr wr = {.wr_id = c->recv_cnt, .sg_list = &sge, .num_sge = 1};
        int err =
            r->now.srq ? uiw_srq_post_recv(r->srq, &wr, NULL) : uiw_qp_post_recv(c->qp, &wr, NULL);
        if (err != 0) {
            return err;
        }
        c->recv_cnt++;
    }
    return 0;
}

static bool make_recvs(struct resp *r, struct resp_conn *c)
{
    /* Room for those that are posted later, too. */
    c->recv_slots = r->now.recv_cnt < RESP_RECVS / 2 ? r->now.recv_cnt + 64 : RESP_RECVS;
    uint64_t n = (uint64_t)c->recv_slots * r->now.recv_size;
    c->recv_size = r->now.recv_size;
    c->recv_mem = calloc(1, n + 1);
    return c->recv_mem != NULL &&
           uiw_mr_reg(r->pd, c->recv_mem, n + 1, UIW_ACCESS_LOCAL_WRITE, &c->recv_mr) == 0 &&
           resp_post_recv(r, c, r->now.recv_cnt) == 0;
}

bool resp_make_qp(struct resp *r, struct resp_conn *c)
{
    if (r->now.cqe > 0 && c->no == 1 &&
        uiw_cq_create(r->dev, r->now.cqe, NULL, NULL, &c->cq) != 0) {
        return false;
    }
    struct uiw_cq *cq = c->cq != NULL ? c->cq : r->cq;
    struct uiw_qp_attr attr = {.send_cq = cq,
                               .recv_cq = cq,
                               .srq = r->now.srq ? r->srq : NULL,
                               .max_send_wr = RESP_DEPTH,
                               .max_recv_wr = RESP_RECVS,
                               .max_send_sge = 4,
                               .max_recv_sge = 1,
                               .max_inline = 64,
                               .user = c};
    struct resp_region *scoped = resp_region(r, "scoped");
    if (uiw_qp_create(r->pd, &attr, &c->qp) != 0 || !make_recvs(r, c)) {
        return false;
    }
    if (scoped->mr == NULL && c->no == 1) {
        resp_register(r, scoped, c->qp);
    }
    return true;
}

static struct uiw_conn_param param_of(const struct resp *r, struct resp_conn *c)
{
    return (struct uiw_conn_param){.private_data = r->now.pd,
                                   .private_len = r->now.pd_len,
                                   .ird = r->now.ird,
                                   .ord = r->now.ord,
                                   .user = c,
                                   .p2p = r->now.p2p,
                                   .rtr = r->now.rtr};
}

static void first_actions(struct resp *r, struct resp_conn *c)
{
    char why[120];
    if (r->now.todo[0] != 0 && !resp_do(r, c, r->now.todo, why, sizeof why)) {
        resp_log(r, c, "trouble %s", why);
    }
}

bool resp_accept(struct resp *r, struct resp_conn *c)
{
    struct uiw_conn_param p = param_of(r, c);
    if ((c->qp == NULL && !resp_make_qp(r, c)) || uiw_accept(c->conn, c->qp, &p) != 0) {
        resp_log(r, c, "trouble %s", uiw_error());
        return false;
    }
    first_actions(r, c);
    return true;
}

static struct resp_conn *add_conn(struct resp *r, struct uiw_conn *conn)
{
    if (r->conns == RESP_CONNS) {
        return NULL;
    }
    struct resp_conn *c = &r->conn[r->conns++];
    *c = (struct resp_conn){.no = r->conns, .conn = conn};
    return c;
}

bool resp_connect(struct resp *r)
{
    struct resp_conn *c = add_conn(r, NULL);
    if (c == NULL || !resp_make_qp(r, c)) {
        return false;
    }
    first_actions(r, c);
    struct uiw_conn_param p = param_of(r, c);
    return uiw_connect(r->ch, c->qp, (const struct sockaddr *)&r->now.to, &p, &c->conn) == 0;
}

/* --- what the API says --- */

static struct resp_conn *conn_of(struct resp *r, const struct uiw_conn *conn)
{
    for (unsigned i = 0; i < r->conns; i++) {
        if (r->conn[i].conn == conn) {
            return &r->conn[i];
        }
    }
    return NULL;
}

static const char *reason_word(enum uiw_reason reason)
{
    static const char *const words[] = {
        "none",      "refused", "unreachable", "timeout", "reset", "rejected",  "key",   "revision",
        "malformed", "ird",     "rtr",         "closed",  "lost",  "terminate", "fault", "local"};
    return (size_t)reason < ARRAY_LEN(words) ? words[reason] : "?";
}

static void log_private(struct resp *r, const struct resp_conn *c, const char *word,
                        const struct uiw_event *ev)
{
    char hex[40] = "";
    for (uint32_t i = 0; i < min_u32(ev->private_len, 16); i++) {
        snprintf(hex + 2 * (size_t)i, 3, "%02x", ev->private_data[i]);
    }
    resp_log(r, c, "%s ird=%u ord=%u pd=%u data=%s", word, ev->ird, ev->ord, ev->private_len, hex);
}

static void log_end(struct resp *r, const struct resp_conn *c, const char *word,
                    const struct uiw_event *ev)
{
    bool verdict = ev->reason == UIW_REASON_PEER_TERMINATE || ev->reason == UIW_REASON_FAULT ||
                   ev->layer != 0 || ev->etype != 0 || ev->code != 0;
    if (verdict) {
        resp_log(r, c, "%s %s %u/%u/%02x", word, reason_word(ev->reason), ev->layer, ev->etype,
                 ev->code);
    } else {
        resp_log(r, c, "%s %s", word, reason_word(ev->reason));
    }
}

static void on_request(struct resp *r, const struct uiw_event *ev)
{
    if (resp_is_question(ev)) {
        resp_answer(r, ev);
        return;
    }
    struct resp_conn *c = add_conn(r, ev->conn);
    if (c == NULL) {
        uiw_conn_destroy(ev->conn);
        return;
    }
    log_private(r, c, "request", ev);
    if (r->now.hold) {
        return;
    }
    if (r->now.reject) {
        uiw_reject(ev->conn, r->now.pd, r->now.pd_len);
    } else {
        resp_accept(r, c);
    }
}

static void on_event(struct resp *r, const struct uiw_event *ev)
{
    struct resp_conn *c = conn_of(r, ev->conn);
    switch (ev->type) {
    case UIW_EVENT_CONNECT_REQUEST: on_request(r, ev); break;
    case UIW_EVENT_ESTABLISHED:
        if (c != NULL) {
            c->established = true;
            log_private(r, c, "established", ev);
        }
        break;
    case UIW_EVENT_REJECTED: log_private(r, c, "rejected", ev); break;
    case UIW_EVENT_CONNECT_ERROR: log_end(r, c, "failed", ev); break;
    case UIW_EVENT_DISCONNECTED: log_end(r, c, "down", ev); break;
    }
}

static void on_completion(struct resp *r, const struct uiw_wc *wc)
{
    static const char *const ops[] = {[UIW_WC_SEND] = "send",
                                      [UIW_WC_RDMA_WRITE] = "write",
                                      [UIW_WC_RDMA_READ] = "read",
                                      [UIW_WC_RECV] = "recv",
                                      [UIW_WC_IMM] = "imm",
                                      [UIW_WC_ATOMIC_FETCH_ADD] = "fetchadd",
                                      [UIW_WC_ATOMIC_CMP_SWAP] = "cmpswap"};
    const struct resp_conn *c = wc->qp_user;
    const char *op =
        (size_t)wc->opcode < ARRAY_LEN(ops) && ops[wc->opcode] != NULL ? ops[wc->opcode] : "other";
    char more[60] = "";
    if (wc->status == UIW_WC_WR_FLUSH_ERR) {
        resp_log(r, c, "flushed %s", op);
    } else if (wc->status != UIW_WC_SUCCESS) {
        resp_log(r, c, "error %s %s", op, uiw_wc_status_text(wc->status));
    } else if (wc->opcode == UIW_WC_RECV) {
        if ((wc->flags & UIW_WC_WITH_INV) != 0) {
            snprintf(more, sizeof more, " inv=0x%x", wc->invalidated);
        }
        if ((wc->flags & UIW_WC_WITH_IMM) != 0) {
            snprintf(more, sizeof more, " imm=0x%llx", (unsigned long long)wc->imm);
        }
        resp_log(r, c, "recv %u%s%s", wc->byte_len,
                 (wc->flags & UIW_WC_SOLICITED) != 0 ? " se" : "", more);
    } else {
        resp_log(r, c, "done %s id=%llu", op, (unsigned long long)wc->wr_id);
    }
}

static bool poll_cq(struct resp *r, struct uiw_cq *cq)
{
    struct uiw_wc wc;
    int n;
    bool any = false;
    while ((n = uiw_cq_poll(cq, 1, &wc)) > 0) {
        on_completion(r, &wc);
        any = true;
    }
    if (n < 0) {
        resp_log(r, NULL, "overflow");
    }
    return any;
}

static void take_async(struct resp *r)
{
    static const char *const words[] = {"fatal", "access", "cq", "srq", "device"};
    struct uiw_async_event ev;
    while (uiw_async_get(r->dev, &ev) == 0) {
        bool of_qp = ev.type == UIW_ASYNC_QP_FATAL || ev.type == UIW_ASYNC_QP_ACCESS;
        resp_log(r, of_qp ? ev.user : NULL, "async %s",
                 (size_t)ev.type < ARRAY_LEN(words) ? words[ev.type] : "?");
    }
}

static void take_wakes(struct resp *r)
{
    struct uiw_cq *cq;
    void *user;
    while (uiw_comp_channel_get(r->comps, &cq, &user) == 0) {
        poll_cq(r, r->cq); /* what it woke us for comes first */
        resp_log(r, NULL, "woken");
        if (r->now.solicited) {
            uiw_cq_arm(r->cq, true);
        }
    }
}

/* --- device --- */

static void nonblock(int fd)
{
    fcntl(fd, F_SETFL, O_NONBLOCK);
}

int resp_listen(struct resp *r)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(r->cfg.port)};
    int err = uiw_listen(r->ch, (struct sockaddr *)&any, 64, NULL, &r->listener);
    if (err == 0 && r->cfg.port == 0) { /* chosen once: the device may be opened anew */
        struct sockaddr_storage got;
        uiw_listener_addr(r->listener, &got);
        r->cfg.port = address_port(&got);
    }
    return err;
}

void resp_spec(const struct resp *r, const char *keys, char spec[RESP_SPEC])
{
    snprintf(spec, RESP_SPEC, "%s,progress=polled%s%s", r->spec, keys[0] != 0 ? "," : "", keys);
    for (char *s = spec; (s = strchr(s, ';')) != NULL;) {
        *s = ',';
    }
}

static int open_device(struct resp *r, const char *keys)
{
    char spec[RESP_SPEC];
    resp_spec(r, keys, spec);
    snprintf(r->keys, sizeof r->keys, "%s", keys);
    int err = uiw_device_open(spec, &r->dev);
    if (err == 0) {
        err = uiw_pd_create(r->dev, &r->pd);
    }
    if (err == 0) {
        err = uiw_pd_create(r->dev, &r->other_pd);
    }
    if (err == 0) {
        err = uiw_comp_channel_create(r->dev, &r->comps);
    }
    if (err == 0) {
        err = uiw_cq_create(r->dev, CQE, r->comps, NULL, &r->cq);
    }
    if (err == 0) {
        err = uiw_event_channel_create(r->dev, &r->ch);
    }
    if (err == 0) {
        nonblock(uiw_comp_channel_fd(r->comps));
        nonblock(uiw_event_channel_fd(r->ch));
        nonblock(uiw_async_fd(r->dev));
        err = resp_listen(r);
    }
    return err;
}

static void must(int err, const char *what)
{
    if (err != 0) {
        fprintf(stderr, "responder: %s: %s\n", what, uiw_error());
    }
}

static void close_device(struct resp *r)
{
    if (r->dev == NULL) {
        return;
    }
    resp_reset(r);
    if (r->listener != NULL) {
        must(uiw_listener_destroy(r->listener), "listener");
    }
    if (r->ch != NULL) {
        must(uiw_event_channel_destroy(r->ch), "channel");
    }
    if (r->cq != NULL) {
        must(uiw_cq_destroy(r->cq), "CQ");
    }
    if (r->comps != NULL) {
        must(uiw_comp_channel_destroy(r->comps), "completion channel");
    }
    if (r->other_pd != NULL) {
        must(uiw_pd_destroy(r->other_pd), "PD");
    }
    if (r->pd != NULL) {
        must(uiw_pd_destroy(r->pd), "PD");
    }
    must(uiw_device_close(r->dev), "device");
    r->dev = NULL;
    r->listener = NULL;
    r->ch = NULL;
    r->cq = NULL;
    r->comps = NULL;
    r->pd = r->other_pd = NULL;
}

bool resp_case_begin(struct resp *r)
{
    struct uiw_srq_attr attr = {.max_wr = RESP_RECVS, .max_sge = 1};
    if (r->now.srq && uiw_srq_create(r->pd, &attr, &r->srq) != 0) {
        return false;
    }
    if (!resp_register_all(r)) {
        return false;
    }
    if (r->now.solicited) {
        uiw_cq_arm(r->cq, true);
    }
    return !r->now.initiator || resp_connect(r);
}

/* The answer to the question that asked for it has to leave first. */
static void reopen(struct resp *r)
{
    if (--r->reopen_turns > 0) {
        return;
    }
    r->reopen = false;
    unsigned lines = r->failed ? r->lines : 0; /* what was seen belongs to the case still */
    r->failed = false;
    close_device(r);
    r->lines = lines;
    if (open_device(r, r->now.keys) == 0 && resp_case_begin(r)) {
        return;
    }
    /* It goes on answering, as what it was opened with at first, and says so. */
    snprintf(r->broken, sizeof r->broken, "%s", uiw_error());
    close_device(r);
    must(open_device(r, ""), "device");
    if (r->dev == NULL) {
        exit(EXIT_FAILURE);
    }
}

void resp_fail(struct resp *r)
{
    r->fail_turns = RESP_TURNS;
}

/* The answer to the question leaves first, then the Terminates. What is opened anew only answers. */
static void fail_device(struct resp *r)
{
    if (r->fail_turns == 0 || --r->fail_turns > 0) {
        return;
    }
    if (uiw_device_fail(r->dev, "told to") != 0) {
        resp_log(r, NULL, "trouble %s", uiw_error());
        return;
    }
    r->now.initiator = false;
    r->now.todo[0] = 0;
    r->reopen = r->failed = true;
    r->reopen_turns = RESP_TURNS;
}

static bool act(struct resp *r)
{
    struct uiw_event ev;
    bool any = false;
    while (r->dev != NULL && uiw_event_get(r->ch, &ev) == 0) {
        on_event(r, &ev);
        any = true;
    }
    any |= poll_cq(r, r->cq);
    for (unsigned i = 0; i < r->conns; i++) {
        if (r->conn[i].cq != NULL && !r->now.unpolled) {
            any |= poll_cq(r, r->conn[i].cq);
        }
    }
    take_async(r);
    take_wakes(r);
    return any;
}

bool resp_turn(struct resp *r, int ms)
{
    bool soon = r->reopen || r->fail_turns > 0;
    bool any = uiw_progress(r->dev, soon && ms > 1 ? 1 : ms) > 0;
    any |= act(r);
    fail_device(r);
    if (r->reopen) {
        reopen(r);
    }
    return any;
}

uint16_t resp_port(const struct resp *r)
{
    return r->cfg.port;
}

struct uiw_device *resp_device(struct resp *r)
{
    return r->dev;
}

/* --- life --- */

int resp_open(const struct resp_cfg *cfg, struct resp **out)
{
    struct resp *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return -ENOMEM;
    }
    r->cfg = *cfg;
    snprintf(r->spec, sizeof r->spec, "%s", cfg->spec);
    r->now = (struct resp_case){.recv_cnt = 8, .recv_size = 2048};
    int err = resp_memory_new(r) ? open_device(r, "") : -ENOMEM;
    if (err == 0 && !resp_case_begin(r)) {
        err = -EINVAL;
    }
    if (err != 0) {
        resp_close(r);
        return err;
    }
    *out = r;
    return 0;
}

void resp_close(struct resp *r)
{
    close_device(r);
    resp_memory_free(r);
    free(r);
}
