/* SPDX-License-Identifier: MIT */
/* The client of uiw-stream: see stream.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stream.h"

enum {
    SETUP_MS = 4000000, /* the device's own limit, an hour at most, comes first */
    SILENCE_MS = 10000, /* without any completion */
    STAMP_EVERY = 4096, /* octets: what changes in the data from lap to lap */
    PAGES_NS = 200000000,
};

struct client {
    const struct stream_options *o;
    struct stream_end end;
    uint64_t remote_addr;
    uint32_t remote_key;
    uint64_t laps, answered;
    uint64_t sent, confirmed; /* octets */
    uint64_t checksum;        /* over the laps' checksums */
    uint64_t lap_sums[2];
    unsigned under_way; /* send requests */
    uint64_t begin_ns, shown_ns;
};

static double gbit_per_s(uint64_t octets, uint64_t ns)
{
    return ns == 0 ? 0 : 8.0 * (double)octets / (double)ns;
}

static void show_progress(struct client *c)
{
    bool terminal = isatty(STDERR_FILENO) == 1;
    uint64_t now = tool_now_ns(), every = terminal ? PAGES_NS : 5 * (uint64_t)PAGES_NS;

    if (now - c->shown_ns < every)
        return;
    c->shown_ns = now;
    fprintf(stderr, "%s  %5" PRIu64 " of %" PRIu64 " MiB  %6.2f Gbit/s%s", terminal ? "\r" : "",
            c->confirmed >> 20, c->o->total >> 20, gbit_per_s(c->confirmed, now - c->begin_ns),
            terminal ? "" : "\n");
}

static int connect_to_server(struct client *c)
{
    const struct stream_options *o = c->o;
    uint64_t last = tool_now_ns() + SETUP_MS * UINT64_C(1000000);
    char server[ADDRESS_TEXT];
    struct uiw_event ev;

    if (uiw_connect(c->end.tool->events, c->end.qp, (const struct sockaddr *)&o->endpoint, NULL,
                    &c->end.conn) != 0)
        return tool_fail("%s", uiw_error());
    while (!stream_await_event(&c->end, STREAM_TURN_MS, &ev)) {
        if (tool_stopped() || tool_now_ns() > last)
            return tool_fail("%s: %s", address_text(&o->endpoint, server),
                             tool_stopped() ? "interrupted" : "no answer");
    }
    if (ev.type != UIW_EVENT_ESTABLISHED)
        return tool_fail("%s: %s", address_text(&o->endpoint, server), ev.text);
    if (!stream_get_place(ev.private_data, ev.private_len, &c->remote_addr, &c->remote_key))
        return tool_fail("%s: not a uiw-stream server", address_text(&o->endpoint, server));
    return TOOL_OK;
}

static int lost(struct client *c, enum uiw_wc_status status)
{
    struct uiw_event ev;

    if (stream_await_event(&c->end, STREAM_CLOSE_MS, &ev))
        return tool_fail("connection lost after %" PRIu64 " octets: %s", c->confirmed, ev.text);
    return tool_fail("after %" PRIu64 " octets: %s", c->confirmed, uiw_wc_status_text(status));
}

static int take_answer(struct client *c, const struct uiw_wc *wc)
{
    struct stream_note note;
    int r = stream_take_note(&c->end, wc, &note);

    if (r != TOOL_OK)
        return r;
    if (note.lap != c->answered || note.checksum != c->lap_sums[note.lap & 1])
        return tool_fail("the server has other data than was sent, at %" PRIu64 " octets",
                         c->confirmed);
    c->answered++;
    c->confirmed += note.length;
    return TOOL_OK;
}

/* Handles one completion; waits for it. */
static int turn(struct client *c)
{
    uint64_t end = tool_now_ns() + SILENCE_MS * UINT64_C(1000000);
    struct uiw_wc wc;
    int n;

    show_progress(c);
    while ((n = tool_wait(c->end.tool, &wc, STREAM_TURN_MS)) == 0) {
        if (tool_stopped())
            return tool_fail("interrupted after %" PRIu64 " octets", c->confirmed);
        if (tool_now_ns() > end)
            return tool_fail("no answer after %" PRIu64 " octets", c->confirmed);
    }
    if (n < 0)
        return TOOL_FAILED;
    if (wc.status != UIW_WC_SUCCESS)
        return lost(c, wc.status);
    if (wc.opcode == UIW_WC_RECV)
        return take_answer(c, &wc);
    c->under_way--;
    return TOOL_OK;
}

static int write_chunk(struct client *c, uint64_t at, uint32_t length)
{
    struct uiw_sge sge = {
        .addr = uiw_mr_addr(c->end.window_mr) + at,
        .length = length,
        .lkey = uiw_mr_lkey(c->end.window_mr),
    };
    struct uiw_send_wr wr = {
        .opcode = UIW_WR_RDMA_WRITE,
        .sg_list = &sge,
        .num_sge = 1,
        .remote_addr = c->remote_addr + at,
        .rkey = c->remote_key,
    };

    /* One slot stays free for the note. */
    while (c->under_way >= STREAM_DEPTH - 1) {
        if (turn(c) != TOOL_OK)
            return TOOL_FAILED;
    }
    if (uiw_qp_post_send(c->end.qp, &wr, NULL) != 0)
        return tool_fail("%s", uiw_error());
    c->under_way++;
    c->sent += length;
    return TOOL_OK;
}

/* Data that differs in every lap, or a lost Write would leave the same octets behind. */
static void stamp(uint8_t *half, uint64_t lap)
{
    for (uint64_t at = 0; at < STREAM_HALF; at += STAMP_EVERY)
        memcpy(half + at, &lap, sizeof lap);
}

static int write_lap(struct client *c)
{
    uint64_t base = (c->laps & 1) * STREAM_HALF, left = c->o->total - c->sent;
    struct stream_note note = {.lap = c->laps, .length = left < STREAM_HALF ? left : STREAM_HALF};

    while (c->laps - c->answered >= 2) {
        if (turn(c) != TOOL_OK)
            return TOOL_FAILED;
    }
    stamp(c->end.window + base, c->laps);
    for (uint64_t at = 0; at < note.length; at += c->o->chunk) {
        uint64_t rest = note.length - at;
        uint32_t length = rest < c->o->chunk ? (uint32_t)rest : c->o->chunk;

        if (write_chunk(c, base + at, length) != TOOL_OK)
            return TOOL_FAILED;
    }
    /* The data is on its way while its checksum is made. */
    note.checksum = stream_checksum(0, c->end.window + base, note.length);
    c->lap_sums[c->laps & 1] = note.checksum;
    c->checksum = stream_checksum(c->checksum, &note.checksum, sizeof note.checksum);
    c->laps++;
    c->under_way++;
    return stream_send_note(&c->end, &note);
}

static int write_all(struct client *c)
{
    c->begin_ns = c->shown_ns = tool_now_ns();
    while (c->sent < c->o->total) {
        if (write_lap(c) != TOOL_OK)
            return TOOL_FAILED;
    }
    while (c->answered < c->laps) {
        if (turn(c) != TOOL_OK)
            return TOOL_FAILED;
    }
    return TOOL_OK;
}

static void report(const struct client *c, uint64_t ns)
{
    if (isatty(STDERR_FILENO) == 1)
        fprintf(stderr, "\r%40s\r", "");
    printf("uiw-stream: %" PRIu64 " octets in %.3f s, %.2f Gbit/s, checked by the server, "
           "checksum %016" PRIx64 "\n",
           c->confirmed, (double)ns * 1e-9, gbit_per_s(c->confirmed, ns), c->checksum);
}

static int run(struct client *c)
{
    struct uiw_event ev;

    if (connect_to_server(c) != TOOL_OK || write_all(c) != TOOL_OK)
        return TOOL_FAILED;
    report(c, tool_now_ns() - c->begin_ns);
    if (uiw_disconnect(c->end.conn) == 0)
        (void)stream_await_event(&c->end, STREAM_CLOSE_MS, &ev);
    return TOOL_OK;
}

/* Octets without a pattern, so that one in the wrong place shows. */
static void fill(uint8_t *p, uint64_t length)
{
    uint64_t x = UINT64_C(0x2545f4914f6cdd1d);

    for (uint64_t at = 0; at < length; at += sizeof x) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(p + at, &x, sizeof x);
    }
}

int stream_client(struct tool *t, const struct stream_options *o)
{
    struct client c = {.o = o};
    int r = stream_open(t, 0, &c.end);

    if (r == TOOL_OK) {
        fill(c.end.window, 2 * (uint64_t)STREAM_HALF);
        r = run(&c);
    }
    stream_close(&c.end);
    return r;
}
