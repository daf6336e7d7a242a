/* SPDX-License-Identifier: MIT */
/* The server of uiw-stream: one stream, then it ends. See stream.h. */
#include <inttypes.h>
#include <stdio.h>

#include "stream.h"

struct server {
    struct stream_end end;
    struct uiw_listener *listener;
    uint64_t laps, octets, checksum;
    bool closed;
    int result;
};

/* The octets of the lap are all here: they came before the note, in the same stream. */
static int on_note(struct server *s, const struct uiw_wc *wc)
{
    struct stream_note note;
    uint64_t sum;
    int r = stream_take_note(&s->end, wc, &note);

    if (r != TOOL_OK)
        return r;
    if (note.lap != s->laps || note.length == 0 || note.length > STREAM_HALF)
        return tool_fail("the client does not speak uiw-stream");
    sum = stream_checksum(0, s->end.window + (note.lap & 1) * STREAM_HALF, note.length);
    if (sum != note.checksum)
        return tool_fail("wrong data between octets %" PRIu64 " and %" PRIu64, s->octets,
                         s->octets + note.length);
    s->laps++;
    s->octets += note.length;
    s->checksum = stream_checksum(s->checksum, &sum, sizeof sum);
    return stream_send_note(&s->end, &note);
}

static void on_completion(struct server *s, const struct uiw_wc *wc)
{
    /* What the end of the stream flushed is told by its event. */
    if (wc->status == UIW_WC_WR_FLUSH_ERR || s->result != TOOL_OK)
        return;
    if (wc->status != UIW_WC_SUCCESS)
        s->result = tool_fail("%s", uiw_wc_status_text(wc->status));
    else if (wc->opcode == UIW_WC_RECV)
        s->result = on_note(s, wc);
}

static void on_request(struct server *s, const struct uiw_event *ev)
{
    uint8_t place[STREAM_PLACE];
    struct uiw_conn_param param = {.private_data = place,
                                   .private_len = sizeof place,
                                   .ird = UIW_DEPTH_DEFAULT,
                                   .ord = UIW_DEPTH_DEFAULT};

    if (s->end.conn != NULL) {
        (void)uiw_reject(ev->conn, NULL, 0);
        (void)uiw_conn_destroy(ev->conn);
        return;
    }
    s->end.conn = ev->conn;
    stream_put_place(&s->end, place);
    if (uiw_accept(ev->conn, s->end.qp, &param) != 0)
        s->result = tool_fail("%s", uiw_error());
}

static void on_event(struct server *s, const struct uiw_event *ev)
{
    switch (ev->type) {
    case UIW_EVENT_CONNECT_REQUEST: on_request(s, ev); break;
    case UIW_EVENT_ESTABLISHED: break;
    case UIW_EVENT_DISCONNECTED:
        s->closed = true;
        if (ev->reason != UIW_REASON_CLOSED && s->result == TOOL_OK)
            s->result = tool_fail("after %" PRIu64 " octets: %s", s->octets, ev->text);
        break;
    case UIW_EVENT_REJECTED:
    case UIW_EVENT_CONNECT_ERROR: s->result = tool_fail("%s", ev->text); break;
    }
}

static int serve(struct server *s)
{
    struct tool *t = s->end.tool;
    struct uiw_event ev;
    struct uiw_wc wc;
    int n;

    while (!s->closed && s->result == TOOL_OK) {
        if (tool_stopped())
            return tool_fail("interrupted after %" PRIu64 " octets", s->octets);
        n = tool_wait(t, &wc, STREAM_TURN_MS);
        if (n < 0)
            return TOOL_FAILED;
        if (n > 0) {
            on_completion(s, &wc);
        } else if (tool_event(t, &ev)) {
            while (tool_completion(t, &wc) > 0)
                on_completion(s, &wc);
            on_event(s, &ev);
        } else if (tool_device_lost(t)) {
            return TOOL_FAILED;
        }
    }
    return s->result;
}

static int listen_on(struct server *s, const struct stream_options *o)
{
    const struct sockaddr *at = (const struct sockaddr *)&o->endpoint;
    struct sockaddr_storage bound;
    char text[ADDRESS_TEXT];

    if (uiw_listen(s->end.tool->events, at, 1, NULL, &s->listener) != 0 ||
        uiw_listener_addr(s->listener, &bound) != 0)
        return tool_fail("%s", uiw_error());
    printf("uiw-stream: listening on %s\n", address_text(&bound, text));
    fflush(stdout);
    return TOOL_OK;
}

int stream_server(struct tool *t, const struct stream_options *o)
{
    struct server s = {.result = TOOL_OK};
    int r = stream_open(t, UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE, &s.end);

    if (r == TOOL_OK)
        r = listen_on(&s, o);
    if (r == TOOL_OK)
        r = serve(&s);
    if (r == TOOL_OK)
        printf("uiw-stream: received %" PRIu64 " octets, content right, checksum %016" PRIx64 "\n",
               s.octets, s.checksum);
    stream_close(&s.end);
    if (s.listener != NULL)
        (void)uiw_listener_destroy(s.listener);
    return r;
}
