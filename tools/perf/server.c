/* SPDX-License-Identifier: MIT */
/* The server: one client after the other, until interrupted. What a client asks for is checked before
 * anything is done with it; whatever it does, the next one is served. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "session.h"

static bool refuse(struct session *s, const char *why)
{
    struct wire_msg msg = {.type = WIRE_FAILED};

    session_fail(s, "%s", why);
    s->told = true;
    snprintf(msg.text, sizeof msg.text, "refused: %.100s", why);
    (void)ctrl_send(s, &msg);
    return false;
}

static bool take_job(struct session *s, const struct perf_options *o)
{
    struct wire_msg msg;
    char text[PERF_TEXT];

    if (!session_await(s, WIRE_JOB, &msg))
        return false;
    if (!wire_to_job(&msg, &s->job))
        return refuse(s, "a number that is far out of bounds");
    if (perf_job_fault(&s->job) != NULL)
        return refuse(s, perf_job_fault(&s->job));
    if (perf_memory(&s->job) > o->max_memory) {
        snprintf(text, sizeof text, "needs %" PRIu64 " MiB of memory, the server grants %" PRIu64,
                 perf_memory(&s->job) >> 20, o->max_memory >> 20);
        return refuse(s, text);
    }
    return true;
}

static bool grant(struct session *s)
{
    struct wire_msg msg = {.type = WIRE_GRANTED};

    if (getrandom(&s->id, sizeof s->id, 0) != (ssize_t)sizeof s->id)
        return refuse(s, "no random number");
    if (!session_make(s)) {
        snprintf(msg.text, sizeof msg.text, "%.100s", s->text);
        return refuse(s, msg.text);
    }
    msg.word[GRANTED_SESSION] = s->id;
    msg.word[GRANTED_POLLED] = s->tool->polled;
    return ctrl_send(s, &msg) && session_await_links(s);
}

static bool send_result(struct session *s, const struct perf_result *r)
{
    struct wire_msg msg = {.type = WIRE_RESULT};

    msg.word[RESULT_MESSAGES] = r->messages;
    msg.word[RESULT_NS] = r->ns;
    msg.word[RESULT_PEAK] = (uint64_t)(r->peak * 1e6 + 0.5);
    msg.word[RESULT_CPU_NS] = r->cpu_ns;
    msg.word[RESULT_SENT] = r->sent;
    msg.word[RESULT_RECEIVED] = r->received;
    msg.word[RESULT_ERRORS] = r->errors;
    return ctrl_send(s, &msg);
}

/* False: the client has closed, or something failed. */
static bool run_once(struct session *s)
{
    struct perf_result result;
    struct wire_msg msg;

    s->idle = true;
    if (!session_await(s, WIRE_RUN, &msg))
        return false;
    s->idle = false;
    wire_to_run(&msg, &s->run);
    if (perf_run_fault(&s->job, &s->run) != NULL)
        return refuse(s, perf_run_fault(&s->job, &s->run));
    workers_prepare(s);
    msg = (struct wire_msg){.type = WIRE_READY};
    if (!ctrl_send(s, &msg) || !minder_start(s))
        return false;
    workers_run(s);
    session_result(s, &result);
    minder_stop(s);
    return !session_failed(s) && session_await(s, WIRE_DONE, &msg) && send_result(s, &result);
}

static void serve(struct tool *t, const struct perf_options *o, struct uiw_conn *conn)
{
    char peer[ADDRESS_TEXT] = "?";
    struct uiw_conn_info info;
    struct session s;
    unsigned runs = 0;

    if (uiw_conn_query(conn, &info) == 0)
        address_text(&info.remote, peer);
    session_init(&s, t, true, o->timeout_s);
    if (!ctrl_open(&s)) {
        session_refuse(conn, "the server cannot make a queue pair");
    } else if (ctrl_accept(&s, conn) && take_job(&s, o) && grant(&s)) {
        while (run_once(&s))
            runs++;
    }
    if (session_failed(&s)) {
        session_last_words(&s);
        tool_fail("client %s: %s", peer, s.text);
    } else {
        printf("client %s: %s %s, %u run(s)\n", peer, perf_op_text(s.job.op),
               perf_test_text(&s.job), runs);
    }
    session_close(&s);
}

static void on_event(struct tool *t, const struct perf_options *o, const struct uiw_event *ev)
{
    struct wire_greeting g;

    /* What else may come is of connections that are gone. */
    if (ev->type != UIW_EVENT_CONNECT_REQUEST)
        return;
    if (!wire_get_greeting(ev->private_data, ev->private_len, &g))
        session_refuse(ev->conn, "this server speaks another version of uiw-perf");
    else if (g.type != WIRE_CONTROL)
        session_refuse(ev->conn, "this data connection belongs to no job");
    else
        serve(t, o, ev->conn);
}

int perf_server(struct tool *t, const struct perf_options *o)
{
    const struct sockaddr *at = (const struct sockaddr *)&o->endpoint;
    struct uiw_listener *listener;
    struct sockaddr_storage bound;
    char text[ADDRESS_TEXT];
    struct uiw_event ev;
    struct uiw_wc wc;
    int n = 0;

    if (uiw_listen(t->events, at, PERF_MAX_LINKS + 1, NULL, &listener) != 0 ||
        uiw_listener_addr(listener, &bound) != 0)
        return tool_fail("%s", uiw_error());
    printf("uiw-perf: listening on %s\n", address_text(&bound, text));
    fflush(stdout);
    while (!tool_stopped() && n >= 0) {
        n = tool_wait(t, &wc, PERF_TURN_MS);
        if (tool_event(t, &ev))
            on_event(t, o, &ev);
        else if (n == 0 && tool_device_lost(t))
            n = -1;
    }
    (void)uiw_listener_destroy(listener);
    return n < 0 ? TOOL_FAILED : TOOL_OK;
}
