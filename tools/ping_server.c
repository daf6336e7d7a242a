/* SPDX-License-Identifier: MIT */
/* The server of uiw-ping: all its clients in one loop, each with its step of the protocol. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ping.h"

enum {
    TURN_MS = 100,       /* how often the loop looks whether the user wants to stop */
    WORK_AT_A_TIME = 64, /* completions before it looks for events */
};

enum step { NEED_SOURCE, READING, NEED_SINK };

struct session {
    struct session *next;
    struct ping_end end;
    struct ping_buffer echo;
    uint32_t length; /* of the ping under way */
    enum step step;
    uint64_t pings;
    bool up, failed;
    bool over; /* closed, but the CQ may still have completions that point here */
    char peer[ADDRESS_TEXT];
};

struct server {
    struct tool *tool;
    const struct ping_options *o;
    struct uiw_listener *listener;
    struct session *sessions;
    unsigned count;
    bool finished; /* without -P: the one client is done */
    int result;
};

static void session_close(struct server *s, struct session *x)
{
    ping_end_close(&x->end);
    x->over = true;
    if (x->up && !s->o->persistent) {
        s->finished = true;
        s->result = x->failed ? TOOL_FAILED : TOOL_OK;
    }
}

/* Frees what session_close() left. Only with an empty CQ. */
static void reap(struct server *s)
{
    struct session **at = &s->sessions, *x;

    while ((x = *at) != NULL) {
        if (x->over) {
            *at = x->next;
            s->count--;
            ping_buffer_free(&x->echo);
            free(x);
        } else {
            at = &x->next;
        }
    }
}

/* The first fault is the one that is told; the end of the connection follows. */
static void fault(struct session *x, const char *text)
{
    if (!x->failed)
        tool_fail("client %s: ping %" PRIu64 ": %s", x->peer, x->pings, text);
    x->failed = true;
    (void)uiw_disconnect(x->end.conn);
}

static void start_read(struct session *x, const struct ping_place *source)
{
    if (source->size == 0 || source->size > PING_SIZE_MAX) {
        fault(x, "its size is 0 or too large");
        return;
    }
    if (source->size > x->echo.size) {
        ping_buffer_free(&x->echo);
        if (ping_buffer_make(x->end.tool, source->size, UIW_ACCESS_LOCAL_WRITE, &x->echo) !=
            TOOL_OK) {
            fault(x, "no buffer");
            return;
        }
    }
    x->length = source->size;
    x->step = READING;
    if (ping_post_rdma(&x->end, PING_READ, &x->echo, source) != TOOL_OK)
        fault(x, "cannot read");
}

static void read_done(struct server *s, struct session *x)
{
    if (s->o->verbose)
        ping_print("server ping data: ", x->echo.data, x->length);
    x->step = NEED_SINK;
    if (ping_post_send(&x->end) != TOOL_OK)
        fault(x, "cannot send");
}

/* The Send behind the Write says that the echo is there; the stream keeps them in order. */
static void write_echo(struct session *x, const struct ping_place *sink)
{
    struct ping_place at = *sink;

    if (at.size > x->length)
        at.size = x->length;
    x->step = NEED_SOURCE;
    x->pings++;
    if (ping_post_rdma(&x->end, PING_WRITE, &x->echo, &at) != TOOL_OK ||
        ping_post_send(&x->end) != TOOL_OK)
        fault(x, "cannot write");
}

static void got_note(struct session *x, const struct uiw_wc *wc)
{
    struct ping_place place;

    if (wc->byte_len != PING_NOTE) {
        fault(x, "its message is not of this protocol");
        return;
    }
    ping_note_get(&x->end, &place);
    if (ping_post_recv(&x->end) != TOOL_OK)
        fault(x, "cannot receive");
    else if (x->step == NEED_SOURCE)
        start_read(x, &place);
    else if (x->step == NEED_SINK)
        write_echo(x, &place);
    else
        fault(x, "it spoke out of turn");
}

static void on_completion(struct server *s, const struct uiw_wc *wc)
{
    struct session *x = wc->qp_user;

    if (x->over || x->failed)
        return;
    /* Of work that ended with the stream the DISCONNECTED event tells more. */
    if (wc->status == UIW_WC_WR_FLUSH_ERR)
        return;
    if (wc->status != UIW_WC_SUCCESS)
        fault(x, uiw_wc_status_text(wc->status));
    else if (wc->opcode == UIW_WC_RECV)
        got_note(x, wc);
    else if (wc->opcode == UIW_WC_RDMA_READ)
        read_done(s, x);
}

static struct session *session_new(struct server *s)
{
    struct session *x = calloc(1, sizeof *x);

    if (x == NULL)
        return NULL;
    if (ping_end_open(s->tool, x, &x->end) != TOOL_OK) {
        free(x);
        return NULL;
    }
    x->next = s->sessions;
    s->sessions = x;
    s->count++;
    return x;
}

static void on_request(struct server *s, struct uiw_conn *conn)
{
    struct uiw_conn_param param = {.ird = 1, .ord = 1};
    struct uiw_conn_info info;
    unsigned limit = s->o->persistent ? PING_CLIENTS_MAX : 1;
    struct session *x = s->count < limit ? session_new(s) : NULL;

    if (x == NULL) {
        (void)uiw_reject(conn, NULL, 0);
        (void)uiw_conn_destroy(conn);
        return;
    }
    x->end.conn = conn;
    if (uiw_conn_query(conn, &info) == 0)
        address_text(&info.remote, x->peer);
    param.user = x;
    if (uiw_accept(conn, x->end.qp, &param) != 0) {
        tool_fail("client %s: %s", x->peer, uiw_error());
        session_close(s, x);
    }
}

static void on_disconnected(struct server *s, struct session *x, const struct uiw_event *ev)
{
    if (!x->failed && (ev->reason != UIW_REASON_CLOSED || x->step != NEED_SOURCE)) {
        x->failed = true;
        tool_fail("client %s: gone in ping %" PRIu64 ": %s", x->peer, x->pings, ev->text);
    }
    if (s->o->persistent)
        printf("client %s: %" PRIu64 " pings\n", x->peer, x->pings);
    session_close(s, x);
}

static void on_event(struct server *s, const struct uiw_event *ev)
{
    struct session *x = ev->user;

    switch (ev->type) {
    case UIW_EVENT_CONNECT_REQUEST: on_request(s, ev->conn); break;
    case UIW_EVENT_ESTABLISHED: x->up = true; break;
    case UIW_EVENT_DISCONNECTED: on_disconnected(s, x, ev); break;
    case UIW_EVENT_REJECTED:
    case UIW_EVENT_CONNECT_ERROR:
        tool_fail("client %s: %s", x->peer, ev->text);
        session_close(s, x);
        break;
    }
}

/* All completions that came before an event are handled before it. */
static int serve(struct server *s)
{
    struct uiw_event ev;
    struct uiw_wc wc;
    int n = 0;

    while (!s->finished && !tool_stopped()) {
        int ms = TURN_MS;

        for (int i = 0; i < WORK_AT_A_TIME && (n = tool_wait(s->tool, &wc, ms)) > 0; i++, ms = 0)
            on_completion(s, &wc);
        if (n < 0)
            return TOOL_FAILED;
        if (n == 0)
            reap(s);
        if (!tool_event(s->tool, &ev)) {
            if (n == 0 && tool_device_lost(s->tool))
                return TOOL_FAILED;
            continue;
        }
        while ((n = tool_completion(s->tool, &wc)) > 0)
            on_completion(s, &wc);
        on_event(s, &ev);
    }
    if (!s->finished && !s->o->persistent)
        return tool_fail("interrupted");
    return s->result;
}

static int listen_on(struct server *s)
{
    const struct sockaddr *at = (const struct sockaddr *)&s->o->endpoint;
    struct sockaddr_storage bound;
    char text[ADDRESS_TEXT];

    if (uiw_listen(s->tool->events, at, PING_CLIENTS_MAX, NULL, &s->listener) != 0 ||
        uiw_listener_addr(s->listener, &bound) != 0)
        return tool_fail("%s", uiw_error());
    printf("uiw-ping: listening on %s\n", address_text(&bound, text));
    fflush(stdout);
    return TOOL_OK;
}

int ping_server(struct tool *t, const struct ping_options *o)
{
    struct server s = {.tool = t, .o = o};
    struct uiw_wc wc;
    int r = listen_on(&s);

    if (r == TOOL_OK)
        r = serve(&s);
    for (struct session *x = s.sessions; x != NULL; x = x->next) {
        if (!x->over)
            session_close(&s, x);
    }
    while (tool_completion(t, &wc) > 0)
        ;
    reap(&s);
    if (s.listener != NULL)
        (void)uiw_listener_destroy(s.listener);
    return r;
}
