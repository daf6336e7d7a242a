/* SPDX-License-Identifier: MIT */
/* The client of uiw-ping: one connection, one ping at a time. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ping.h"
#include "ping_stats.h"

enum {
    TURN_MS = 100,      /* how often a wait looks whether the user wants to stop */
    SETUP_MS = 4000000, /* the device's own limit, an hour at most, comes first */
    CLOSE_MS = 5000,    /* for the other end to close as well, and for news of a lost one */
    GRACE_MS = 1000,    /* for the ping under way when the user wants to stop */
};

struct client {
    struct tool *tool;
    const struct ping_options *o;
    struct ping_end end;
    struct ping_buffer source, sink;
    uint64_t started; /* pings */
    struct ping_stats stats;
};

static uint64_t deadline_ns(uint64_t ms)
{
    return tool_now_ns() + ms * 1000000;
}

/* The next event of the connection. False: none within ms. */
static bool await_event(struct client *c, uint64_t ms, struct uiw_event *ev)
{
    uint64_t end = deadline_ns(ms);
    struct uiw_wc wc;

    do {
        if (tool_event(c->tool, ev))
            return true;
    } while (tool_wait(c->tool, &wc, TURN_MS) >= 0 && tool_now_ns() < end);
    return false;
}

static int connect_to_server(struct client *c)
{
    const struct ping_options *o = c->o;
    struct uiw_conn_param param = {.ird = 1, .ord = 1};
    uint64_t last = deadline_ns(SETUP_MS);
    char server[ADDRESS_TEXT];
    struct uiw_event ev;

    if (uiw_connect(c->tool->events, c->end.qp, (const struct sockaddr *)&o->endpoint, &param,
                    &c->end.conn) != 0)
        return tool_fail("%s", uiw_error());
    while (!await_event(c, TURN_MS, &ev)) {
        if (tool_stopped() || tool_now_ns() > last)
            return tool_fail("%s: %s", address_text(&o->endpoint, server),
                             tool_stopped() ? "interrupted" : "no answer");
    }
    if (ev.type == UIW_EVENT_ESTABLISHED)
        return TOOL_OK;
    return tool_fail("%s: %s", address_text(&o->endpoint, server), ev.text);
}

static int lost(struct client *c, enum uiw_wc_status status)
{
    struct uiw_event ev;

    if (await_event(c, CLOSE_MS, &ev))
        return tool_fail("ping %" PRIu64 ": connection lost: %s", c->started - 1, ev.text);
    return tool_fail("ping %" PRIu64 ": %s", c->started - 1, uiw_wc_status_text(status));
}

/* Whether to give up waiting; says why. */
static bool out_of_patience(struct client *c, uint64_t *end)
{
    uint64_t grace_end = deadline_ns(GRACE_MS);

    if (tool_stopped() && grace_end < *end)
        *end = grace_end;
    if (tool_now_ns() < *end)
        return false;
    tool_fail("ping %" PRIu64 ": no answer", c->started - 1);
    return true;
}

/* Waits for the server's next Send. */
static int await_note(struct client *c)
{
    uint64_t end = deadline_ns(c->o->timeout_s * UINT64_C(1000));
    struct uiw_wc wc;

    for (;;) {
        int n = tool_wait(c->tool, &wc, TURN_MS);

        if (n < 0 || (n == 0 && out_of_patience(c, &end)))
            return TOOL_FAILED;
        if (n == 0)
            continue;
        if (wc.status != UIW_WC_SUCCESS)
            return lost(c, wc.status);
        if (wc.opcode != UIW_WC_RECV)
            continue;
        if (wc.byte_len != PING_NOTE)
            return tool_fail("ping %" PRIu64 ": the server sent %" PRIu32 " octets, not %d",
                             c->started - 1, wc.byte_len, PING_NOTE);
        return ping_post_recv(&c->end);
    }
}

static int tell_and_wait(struct client *c, const struct ping_buffer *b)
{
    int r;

    ping_note_set(&c->end, b);
    r = ping_post_send(&c->end);
    return r == TOOL_OK ? await_note(c) : r;
}

static int check_echo(const struct client *c, uint64_t number)
{
    const struct ping_buffer *sent = &c->source, *got = &c->sink;

    for (uint32_t i = 0; i < sent->size; i++) {
        if (sent->data[i] != got->data[i])
            return tool_fail("ping %" PRIu64 ": octet %" PRIu32 " came back as %#04x, not %#04x",
                             number, i, (unsigned)(uint8_t)got->data[i],
                             (unsigned)(uint8_t)sent->data[i]);
    }
    return TOOL_OK;
}

static int ping(struct client *c)
{
    uint64_t number = c->started++, begin;
    int r;

    ping_text(number, &c->source);
    begin = tool_now_ns();
    r = tell_and_wait(c, &c->source);
    if (r == TOOL_OK)
        r = tell_and_wait(c, &c->sink);
    if (r == TOOL_OK && c->o->verify)
        r = check_echo(c, number);
    if (r != TOOL_OK)
        return r;
    ping_stats_add(&c->stats, tool_now_ns() - begin);
    if (c->o->verbose)
        ping_print("ping data: ", c->sink.data, c->sink.size);
    return TOOL_OK;
}

static void report(const struct client *c)
{
    const struct ping_stats *s = &c->stats;
    double us = 1e-3;

    printf("uiw-ping: %" PRIu64 " pings, %" PRIu64 " ok", c->started, s->count);
    if (s->count > 0)
        printf("; round trip min %.1f avg %.1f max %.1f p50 %.1f p99 %.1f us", us * (double)s->min,
               us * (double)s->sum / (double)s->count, us * (double)s->max,
               us * (double)ping_stats_percentile(s, 50),
               us * (double)ping_stats_percentile(s, 99));
    printf("\n");
}

static void disconnect(struct client *c)
{
    struct uiw_event ev;

    if (uiw_disconnect(c->end.conn) != 0)
        return;
    while (await_event(c, CLOSE_MS, &ev) && ev.type != UIW_EVENT_DISCONNECTED)
        ;
}

static int run(struct client *c)
{
    int r = connect_to_server(c);

    if (r != TOOL_OK)
        return r;
    while (r == TOOL_OK && !tool_stopped() && (c->o->count == 0 || c->started < c->o->count))
        r = ping(c);
    if (r == TOOL_OK)
        disconnect(c);
    report(c);
    if (r == TOOL_OK && c->stats.count < c->o->count)
        return tool_fail("interrupted");
    return r;
}

int ping_client(struct tool *t, const struct ping_options *o)
{
    /* Static for its size. */
    static struct client c;
    unsigned sink_access = UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE;
    int r;

    c = (struct client){.tool = t, .o = o};
    r = ping_buffer_make(t, o->size, UIW_ACCESS_REMOTE_READ, &c.source);
    if (r == TOOL_OK)
        r = ping_buffer_make(t, o->size, sink_access, &c.sink);
    if (r == TOOL_OK)
        r = ping_end_open(t, NULL, &c.end);
    if (r == TOOL_OK)
        r = run(&c);
    ping_end_close(&c.end);
    ping_buffer_free(&c.sink);
    ping_buffer_free(&c.source);
    return r;
}
