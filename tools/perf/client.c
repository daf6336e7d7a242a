/* SPDX-License-Identifier: MIT */
/* The client: asks for the job, drives the runs, shows the figures. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "out.h"

enum {
    BW_COUNT = 200000,
    LAT_COUNT = 10000,
    LEAST_COUNT = 100,
    LAT_WARMUP = 100,
    RETRY_NS = 100000000,
};

/* Octets of a run, and of a warm-up, unless the user says otherwise. */
#define BW_OCTETS     (UINT64_C(1) << 30)
#define LAT_OCTETS    (UINT64_C(1) << 28)
#define WARMUP_OCTETS (UINT64_C(1) << 26)

static uint64_t within(uint64_t n, uint64_t octets, uint64_t size, uint64_t least)
{
    if (n > octets / size)
        n = octets / size;
    return n > least ? n : least;
}

static struct perf_run run_of(const struct perf_options *o, uint64_t size)
{
    const struct perf_job *job = &o->job;
    struct perf_run run = {.size = size};

    if (o->duration_s > 0)
        run.duration_ns = o->duration_s * UINT64_C(1000000000);
    else if (o->count > 0)
        run.count = o->count;
    else if (job->lat)
        run.count = within(LAT_COUNT, LAT_OCTETS, size, LEAST_COUNT);
    else
        run.count = within(BW_COUNT, BW_OCTETS, size, LEAST_COUNT);
    run.warmup = o->warmup_given
                     ? o->warmup
                     : within(job->lat ? LAT_WARMUP : 2 * job->tx_depth, WARMUP_OCTETS, size, 1);
    return run;
}

/* --- set-up --- */

static bool reach_once(struct session *s, struct tool *t, const struct perf_options *o)
{
    struct wire_msg msg;

    session_init(s, t, false, o->timeout_s);
    s->job = o->job;
    s->peer = (const struct sockaddr *)&o->endpoint;
    s->show = isatty(STDERR_FILENO) == 1;
    wire_from_job(&s->job, &msg);
    return ctrl_open(s) && ctrl_connect(s) && ctrl_send(s, &msg) &&
           session_await(s, WIRE_GRANTED, &msg) &&
           (s->id = msg.word[GRANTED_SESSION], s->polled_peer = msg.word[GRANTED_POLLED] != 0,
            true);
}

static bool is_busy(const struct session *s)
{
    return strstr(s->text, PERF_BUSY) != NULL;
}

/* A server takes one client after the other: ours may come when the last is about to leave. */
static bool reach(struct session *s, struct tool *t, const struct perf_options *o)
{
    const struct timespec nap = {.tv_nsec = RETRY_NS};
    uint64_t until = tool_now_ns() + o->timeout_s * UINT64_C(1000000000);

    while (!reach_once(s, t, o)) {
        if (!is_busy(s) || tool_now_ns() >= until || tool_stopped())
            return false;
        session_close(s);
        nanosleep(&nap, NULL);
    }
    return session_make(s) && session_connect_links(s) && session_await_links(s);
}

/* --- runs --- */

static void get_result(const struct wire_msg *msg, struct perf_result *r)
{
    *r = (struct perf_result){
        .messages = msg->word[RESULT_MESSAGES],
        .ns = msg->word[RESULT_NS],
        .peak = (double)msg->word[RESULT_PEAK] / 1e6,
        .cpu_ns = msg->word[RESULT_CPU_NS],
        .sent = msg->word[RESULT_SENT],
        .received = msg->word[RESULT_RECEIVED],
        .errors = msg->word[RESULT_ERRORS],
    };
}

static void take_figures(struct session *s, struct perf_line *line)
{
    session_result(s, &line->here);
    line->size = s->run.size;
    histogram_clear(&line->hist);
    for (unsigned i = 0; i < s->nworkers; i++)
        histogram_merge(&line->hist, &s->workers[i].hist);
    line->nsamples = s->sampling.count;
    memcpy(line->samples, s->sampling.samples, line->nsamples * sizeof *line->samples);
}

/* What the two ends counted must agree, with --check or without. */
static void compare(struct session *s, const struct perf_line *line)
{
    const struct perf_result *a = &line->here, *b = &line->there;
    bool counts = perf_receives(&s->job), back = s->job.bidir || s->job.lat;

    if (counts && b->received != a->sent)
        session_fail(s,
                     "%" PRIu64 " octets: the client sent %" PRIu64
                     " messages, the server received %" PRIu64,
                     line->size, a->sent, b->received);
    else if (counts && back && a->received != b->sent)
        session_fail(s,
                     "%" PRIu64 " octets: the server sent %" PRIu64
                     " messages, the client received %" PRIu64,
                     line->size, b->sent, a->received);
    else if (a->errors + b->errors > 0)
        session_fail(s,
                     "%" PRIu64 " octets: wrong content in %" PRIu64
                     " messages at the client, %" PRIu64 " at the server",
                     line->size, a->errors, b->errors);
}

static bool run_once(struct session *s, const struct perf_run *run, struct perf_line *line)
{
    struct wire_msg msg;

    s->run = *run;
    wire_from_run(run, &msg);
    workers_prepare(s);
    if (!ctrl_send(s, &msg) || !session_await(s, WIRE_READY, &msg) || !minder_start(s))
        return false;
    workers_run(s);
    take_figures(s, line);
    minder_stop(s);
    msg = (struct wire_msg){.type = WIRE_DONE};
    msg.word[RESULT_SENT] = line->here.sent;
    msg.word[RESULT_RECEIVED] = line->here.received;
    if (session_failed(s) || !ctrl_send(s, &msg) || !session_await(s, WIRE_RESULT, &msg))
        return false;
    get_result(&msg, &line->there);
    compare(s, line);
    return !session_failed(s);
}

static bool run_all(struct session *s, const struct perf_options *o, struct report *r)
{
    struct uiw_device_attr attr;

    if (uiw_conn_query(s->links[0].conn, &r->conn) != 0 ||
        uiw_device_query(s->tool->dev, &attr) != 0) {
        session_fail(s, "%s", uiw_error());
        return false;
    }
    r->mtu = attr.mtu;
    r->polled = s->tool->polled;
    r->peer_polled = s->polled_peer;
    if (!o->json || o->json_file != NULL)
        table_head(r);
    for (unsigned i = 0; i < o->nsizes; i++) {
        struct perf_run run = run_of(o, o->sizes[i]);

        if (!run_once(s, &run, &r->lines[i]))
            return false;
        r->nlines++;
        if (!o->json || o->json_file != NULL)
            table_line(r, &r->lines[i]);
    }
    return true;
}

int perf_client(struct tool *t, const struct perf_options *o)
{
    struct report r = {.o = o, .job = &o->job};
    char text[ADDRESS_TEXT];
    struct session s;
    int result = TOOL_OK;

    r.lines = calloc(o->nsizes, sizeof *r.lines);
    if (r.lines == NULL)
        return tool_fail("no memory");
    if (!reach(&s, t, o) || !run_all(&s, o, &r)) {
        minder_stop(&s);
        session_last_words(&s);
        result = tool_fail("%s: %s", address_text(&o->endpoint, text), s.text);
    }
    session_close(&s);
    if (result == TOOL_OK && o->json)
        result = json_write(&r);
    if (result == TOOL_OK && o->plot_file != NULL)
        result = plot_write(&r);
    free(r.lines);
    return result;
}
