/* SPDX-License-Identifier: MIT */
/* See session.h. */
#include "session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pages.h"

enum { CLOSE_MS = 3000, WAIT_MS = 20, LAST_WORDS_MS = 500 };

void session_init(struct session *s, struct tool *t, bool server, unsigned timeout_s)
{
    pthread_condattr_t attr;

    memset(s, 0, sizeof *s);
    s->tool = t;
    s->server = server;
    s->timeout_s = timeout_s;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->minder_wakes, &attr);
    pthread_condattr_destroy(&attr);
}

void session_fail(struct session *s, const char *format, ...)
{
    va_list args;

    pthread_mutex_lock(&s->lock);
    if (format != NULL && s->text[0] == '\0') {
        va_start(args, format);
        vsnprintf(s->text, sizeof s->text, format, args);
        va_end(args);
    }
    atomic_store(&s->failed, true);
    pthread_mutex_unlock(&s->lock);
}

/* --- making --- */

static uint64_t in_size(const struct session *s)
{
    return s->nlinks * perf_area(&s->job);
}

static uint64_t out_size(const struct session *s)
{
    return perf_memory(&s->job) - in_size(s);
}

static bool make_memory(struct session *s)
{
    uint64_t in = in_size(s), out = out_size(s);

    s->sampling.samples = calloc(STATS_SAMPLES, sizeof *s->sampling.samples);
    if (s->sampling.samples == NULL) {
        session_fail(s, "no memory");
        return false;
    }
    s->in = pages_make(in, s->job.huge);
    if (s->in != NULL)
        s->out = pages_make(out, s->job.huge);
    if (s->out == NULL) {
        session_fail(s, "no memory%s: %s", s->job.huge ? " in huge pages" : "", strerror(errno));
        return false;
    }
    if (uiw_mr_reg(s->tool->pd, s->in, in,
                   UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE | UIW_ACCESS_REMOTE_READ |
                       UIW_ACCESS_REMOTE_ATOMIC,
                   &s->in_mr) != 0 ||
        uiw_mr_reg(s->tool->pd, s->out, out, UIW_ACCESS_LOCAL_WRITE, &s->out_mr) != 0) {
        session_fail(s, "%s", uiw_error());
        return false;
    }
    return true;
}

static bool make_worker(struct session *s, unsigned index)
{
    struct worker *w = &s->workers[index];
    const struct perf_job *job = &s->job;
    uint32_t each = 2 * job->tx_depth + job->rx_depth + 32;

    w->s = s;
    w->index = index;
    w->nlinks = s->nlinks / s->nworkers;
    w->links = s->links + index * w->nlinks;
    if (uiw_comp_channel_create(s->tool->dev, &w->comps) != 0 ||
        uiw_cq_create(s->tool->dev, each * w->nlinks, w->comps, w, &w->cq) != 0) {
        session_fail(s, "%s", uiw_error());
        return false;
    }
    return true;
}

static bool make_link(struct session *s, unsigned index)
{
    struct link *l = &s->links[index];
    uint64_t area = perf_area(&s->job);

    l->s = s;
    l->index = index;
    l->w = &s->workers[index / (s->nlinks / s->nworkers)];
    l->in = s->in + index * area;
    l->out = s->out + index * area;
    l->back = s->job.check ? s->out + (s->nlinks + index) * area : NULL;
    return link_make(l);
}

/* A server that is only written to, or read, needs one thread, however many the client has. */
static unsigned workers_of(const struct session *s)
{
    bool passive = s->server && !s->job.bidir && s->job.op != PERF_SEND && !perf_ping_pong(&s->job);

    return passive ? 1 : s->job.threads;
}

bool session_make(struct session *s)
{
    bool made = true;

    s->nlinks = s->job.threads * s->job.qps;
    s->nworkers = workers_of(s);
    s->links = calloc(s->nlinks, sizeof *s->links);
    s->workers = calloc(s->nworkers, sizeof *s->workers);
    if (s->links == NULL || s->workers == NULL) {
        session_fail(s, "no memory");
        return false;
    }
    made = make_memory(s);
    for (unsigned i = 0; made && i < s->nworkers; i++)
        made = make_worker(s, i);
    for (unsigned i = 0; made && i < s->nlinks; i++)
        made = make_link(s, i);
    return made;
}

/* --- closing --- */

static void free_links(struct session *s)
{
    for (unsigned i = 0; s->links != NULL && i < s->nlinks; i++) {
        if (s->links[i].conn != NULL)
            (void)uiw_conn_destroy(s->links[i].conn);
        if (s->links[i].qp != NULL)
            (void)uiw_qp_destroy(s->links[i].qp);
    }
    for (unsigned i = 0; s->workers != NULL && i < s->nworkers; i++) {
        if (s->workers[i].cq != NULL)
            (void)uiw_cq_destroy(s->workers[i].cq);
        if (s->workers[i].comps != NULL)
            (void)uiw_comp_channel_destroy(s->workers[i].comps);
    }
    free(s->links);
    free(s->workers);
}

static unsigned count_up(const struct session *s)
{
    unsigned n = s->ctrl.up ? 1 : 0;

    for (unsigned i = 0; s->links != NULL && i < s->nlinks; i++)
        n += s->links[i].up;
    return n;
}

static void take_events(struct session *s)
{
    struct uiw_event ev;

    while (tool_event(s->tool, &ev))
        session_event(s, &ev);
}

/* Why it ends, to the other end, unless it was that which said so. */
static void tell(struct session *s)
{
    struct wire_msg msg = {.type = WIRE_FAILED};

    s->told = true;
    snprintf(msg.text, sizeof msg.text, "%.*s", (int)sizeof msg.text - 1, s->text);
    (void)ctrl_send(s, &msg);
}

/* Says goodbye, and waits a moment for the answer. */
static void disconnect(struct session *s)
{
    uint64_t last = tool_now_ns() + CLOSE_MS * UINT64_C(1000000);
    struct uiw_wc wc;

    s->idle = true;
    take_events(s); /* they say what is up */
    if (session_failed(s) && s->ctrl.up && !s->told)
        tell(s);
    for (unsigned i = 0; s->links != NULL && i < s->nlinks; i++) {
        if (s->links[i].up)
            (void)uiw_disconnect(s->links[i].conn);
    }
    if (s->ctrl.up)
        (void)uiw_disconnect(s->ctrl.conn);
    while (count_up(s) > 0 && tool_now_ns() < last && tool_wait(s->tool, &wc, WAIT_MS) >= 0)
        take_events(s);
}

void session_close(struct session *s)
{
    disconnect(s);
    ctrl_close(s);
    free_links(s);
    if (s->in_mr != NULL)
        (void)uiw_mr_dereg(s->in_mr);
    if (s->out_mr != NULL)
        (void)uiw_mr_dereg(s->out_mr);
    pages_free(s->in, in_size(s));
    pages_free(s->out, out_size(s));
    free(s->sampling.samples);
    pthread_cond_destroy(&s->minder_wakes);
    pthread_mutex_destroy(&s->lock);
}

/* --- events --- */

void session_refuse(struct uiw_conn *conn, const char *text)
{
    uint8_t octets[WIRE_REFUSAL];

    wire_put_refusal(text, octets);
    (void)uiw_reject(conn, octets, sizeof octets);
    (void)uiw_conn_destroy(conn);
}

static void on_request(struct session *s, const struct uiw_event *ev)
{
    struct wire_greeting g;

    if (!wire_get_greeting(ev->private_data, ev->private_len, &g))
        session_refuse(ev->conn, "this server speaks another version of uiw-perf");
    else if (g.type == WIRE_DATA)
        session_accept_link(s, ev, &g);
    else
        session_refuse(ev->conn, PERF_BUSY);
}

static bool check_answer(struct link *l, const struct uiw_event *ev)
{
    struct wire_greeting g;

    if (!wire_get_greeting(ev->private_data, ev->private_len, &g) || g.type != WIRE_DATA ||
        g.length < perf_area(&l->s->job)) {
        session_fail(l->s, "the server's greeting on a data connection is not of this protocol");
        return false;
    }
    l->remote = g.addr;
    l->rkey = g.rkey;
    return true;
}

static void on_established(struct session *s, struct link *l, const struct uiw_event *ev)
{
    struct wire_greeting g;

    if (l == NULL) {
        s->ctrl.up = true;
        if (!s->server &&
            (!wire_get_greeting(ev->private_data, ev->private_len, &g) || g.type != WIRE_CONTROL))
            session_fail(s, "this is not a server of uiw-perf");
        return;
    }
    l->up = true;
    if (s->server || check_answer(l, ev))
        s->nup++;
}

static void fail_by_event(struct session *s, const char *text)
{
    pthread_mutex_lock(&s->lock);
    s->by_event |= s->text[0] == '\0';
    pthread_mutex_unlock(&s->lock);
    session_fail(s, "%s", text);
}

static void on_end(struct session *s, struct link *l, const struct uiw_event *ev)
{
    if (l != NULL)
        l->up = false;
    else
        s->ctrl.up = false;
    if (s->idle && (ev->reason == UIW_REASON_CLOSED || session_failed(s) || !s->server))
        s->over = true;
    else if (ev->reason == UIW_REASON_CLOSED)
        fail_by_event(s, s->server ? "the client has closed the connection"
                                   : "the server has closed the connection");
    else
        fail_by_event(s, ev->text);
}

static void on_rejected(struct session *s, const struct uiw_event *ev)
{
    char text[PERF_TEXT];

    if (ev->type == UIW_EVENT_REJECTED && wire_get_refusal(ev->private_data, ev->private_len, text))
        session_fail(s, "refused: %s", text);
    else
        session_fail(s, "%s", ev->text);
}

void session_event(struct session *s, const struct uiw_event *ev)
{
    struct link *l = ev->user;

    switch (ev->type) {
    case UIW_EVENT_CONNECT_REQUEST: on_request(s, ev); break;
    case UIW_EVENT_ESTABLISHED: on_established(s, l, ev); break;
    case UIW_EVENT_DISCONNECTED: on_end(s, l, ev); break;
    case UIW_EVENT_REJECTED:
    case UIW_EVENT_CONNECT_ERROR: on_rejected(s, ev); break;
    }
}

/* --- waiting --- */

static bool more_to_come(struct session *s)
{
    return !s->told && (s->text[0] == '\0' || (s->by_event && s->ctrl.up));
}

void session_last_words(struct session *s)
{
    uint64_t until = tool_now_ns() + LAST_WORDS_MS * UINT64_C(1000000);
    struct uiw_wc wc;

    while (more_to_come(s) && tool_now_ns() < until) {
        int n = tool_wait(s->tool, &wc, WAIT_MS);

        for (; n > 0; n = tool_completion(s->tool, &wc))
            ctrl_completion(s, &wc);
        take_events(s);
    }
    session_fail(s, "a connection has ended");
}

/* A moment: takes what there is. False: has failed. */
static bool moment(struct session *s, uint64_t until_ns, const char *what)
{
    struct uiw_event ev;
    struct uiw_wc wc;
    int n = tool_wait(s->tool, &wc, WAIT_MS);

    for (; n > 0; n = tool_completion(s->tool, &wc))
        ctrl_completion(s, &wc);
    /* What came on a connection counts before its end. */
    while (!session_failed(s) && tool_event(s->tool, &ev)) {
        while ((n = tool_completion(s->tool, &wc)) > 0)
            ctrl_completion(s, &wc);
        session_event(s, &ev);
    }
    if (n < 0)
        session_fail(s, "%s", uiw_error());
    else if (tool_stopped())
        session_fail(s, "interrupted");
    else if (tool_now_ns() >= until_ns)
        session_fail(s, "no %s within %u s", what, s->timeout_s);
    return !session_failed(s);
}

static uint64_t deadline(const struct session *s)
{
    return tool_now_ns() + s->timeout_s * UINT64_C(1000000000);
}

bool session_await(struct session *s, enum wire_type type, struct wire_msg *msg)
{
    uint64_t until = deadline(s);

    while (!s->ctrl.has_msg && !s->over) {
        if (!moment(s, until, s->server ? "message of the client" : "answer of the server"))
            return false;
    }
    if (!s->ctrl.has_msg)
        return false;
    s->ctrl.has_msg = false;
    *msg = s->ctrl.msg;
    if (msg->type != type) {
        session_fail(s, "the other end spoke out of turn");
        return false;
    }
    return true;
}

bool session_await_links(struct session *s)
{
    uint64_t until = deadline(s);

    while (s->nup < s->nlinks) {
        if (!moment(s, until, "data connections"))
            return false;
    }
    return true;
}

/* --- data connections --- */

static void own_greeting(const struct link *l, uint8_t *octets)
{
    struct session *s = l->s;
    struct wire_greeting g = {
        .type = WIRE_DATA,
        .session = s->id,
        .link = l->index,
        .rkey = uiw_mr_rkey(s->in_mr),
        .addr = (uint64_t)(uintptr_t)l->in,
        .length = perf_area(&s->job),
    };

    wire_put_greeting(&g, octets);
}

static struct uiw_conn_param param_of(struct link *l, const uint8_t *octets)
{
    return (struct uiw_conn_param){.private_data = octets,
                                   .private_len = WIRE_GREETING,
                                   .ird = (int)l->s->job.outs,
                                   .ord = (int)l->s->job.outs,
                                   .user = l};
}

bool session_connect_links(struct session *s)
{
    uint8_t octets[WIRE_GREETING];

    for (unsigned i = 0; i < s->nlinks; i++) {
        struct link *l = &s->links[i];
        struct uiw_conn_param param = param_of(l, octets);

        own_greeting(l, octets);
        if (uiw_connect(s->tool->events, l->qp, s->peer, &param, &l->conn) != 0) {
            session_fail(s, "%s", uiw_error());
            return false;
        }
    }
    return true;
}

void session_accept_link(struct session *s, const struct uiw_event *ev,
                         const struct wire_greeting *g)
{
    uint8_t octets[WIRE_GREETING];
    struct uiw_conn_param param;
    struct link *l;

    if (s->links == NULL || g->session != s->id || g->link >= s->nlinks ||
        s->links[g->link].conn != NULL || g->length < perf_area(&s->job)) {
        session_refuse(ev->conn, "this data connection belongs to no job");
        return;
    }
    l = &s->links[g->link];
    l->conn = ev->conn;
    l->remote = g->addr;
    l->rkey = g->rkey;
    param = param_of(l, octets);
    own_greeting(l, octets);
    if (uiw_accept(ev->conn, l->qp, &param) != 0)
        session_fail(s, "%s", uiw_error());
}
