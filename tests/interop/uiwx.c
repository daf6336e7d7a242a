/* SPDX-License-Identifier: MIT */
/* uiwx: drives one connection from a list of operations, over uiw; see xops.h. The counterpart of
 * siwx. The device comes from UIW_DEVICE. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "api/uiw.h"
#include "xops.h"

/* Above all identifiers of requests. */
#define RECEIVE_ID (UINT64_C(1) << 32)

static struct {
    struct uiw_device *dev;
    struct uiw_event_channel *channel;
    struct uiw_listener *listener;
    struct uiw_conn *conn;
    struct uiw_pd *pd, *other_pd;
    struct uiw_cq *cq;
    struct uiw_qp *qp;
    struct uiw_mr *mr, *inbox_mr;
} me;

static bool failed(const struct x_run *r)
{
    x_say(r, "%s", uiw_error());
    return false;
}

/* ---- Events ---- */

/* Waits in turns, so that a device without a thread of its own gets its turns too. */
static bool next_event(unsigned ms, struct uiw_event *ev)
{
    uint64_t end = x_now_ms() + ms;

    for (;;) {
        if (uiw_event_get(me.channel, ev) == 0)
            return true;
        if (x_now_ms() >= end)
            return false;
        (void)uiw_progress(me.dev, 0);
        x_pause();
    }
}

static const char *event_name(enum uiw_event_type type)
{
    switch (type) {
    case UIW_EVENT_CONNECT_REQUEST: return "connect request";
    case UIW_EVENT_ESTABLISHED: return "established";
    case UIW_EVENT_REJECTED: return "rejected";
    case UIW_EVENT_CONNECT_ERROR: return "connect error";
    case UIW_EVENT_DISCONNECTED: return "disconnected";
    }
    return "?";
}

static const char *reason_name(enum uiw_reason reason)
{
    static const char *const names[] = {
        [UIW_REASON_NONE] = "none",
        [UIW_REASON_REFUSED] = "refused",
        [UIW_REASON_UNREACHABLE] = "unreachable",
        [UIW_REASON_TIMEOUT] = "timeout",
        [UIW_REASON_RESET] = "reset",
        [UIW_REASON_REJECTED] = "rejected",
        [UIW_REASON_BAD_KEY] = "bad-key",
        [UIW_REASON_BAD_REVISION] = "bad-revision",
        [UIW_REASON_MALFORMED] = "malformed",
        [UIW_REASON_IRD] = "ird",
        [UIW_REASON_RTR] = "rtr",
        [UIW_REASON_CLOSED] = "closed",
        [UIW_REASON_LOST] = "lost",
        [UIW_REASON_PEER_TERMINATE] = "peer-terminate",
        [UIW_REASON_FAULT] = "fault",
        [UIW_REASON_LOCAL] = "local",
    };

    return (unsigned)reason < sizeof names / sizeof names[0] ? names[reason] : "?";
}

static void say_event(struct x_run *r, const struct uiw_event *ev)
{
    char verdict[32] = "";

    if (ev->reason == UIW_REASON_PEER_TERMINATE || ev->reason == UIW_REASON_FAULT)
        snprintf(verdict, sizeof verdict, " [%x/%x/%02x]", ev->layer, ev->etype, ev->code);
    x_say(r, "event %s: %s%s: %s", event_name(ev->type), reason_name(ev->reason), verdict,
          ev->text);
    if (ev->type == UIW_EVENT_DISCONNECTED)
        r->disconnected = true;
}

static void events(struct x_run *r)
{
    struct uiw_event ev;

    while (next_event(0, &ev))
        say_event(r, &ev);
}

/* ---- Set-up ---- */

static bool open_device(struct x_run *r)
{
    int fd;

    if (uiw_device_open(NULL, &me.dev) != 0 || uiw_event_channel_create(me.dev, &me.channel) != 0)
        return failed(r);
    fd = uiw_event_channel_fd(me.channel);
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0;
}

static unsigned access_flags(const struct x_options *o)
{
    return (o->local_write ? UIW_ACCESS_LOCAL_WRITE : 0U) |
           (o->remote_write ? UIW_ACCESS_REMOTE_WRITE : 0U) |
           (o->remote_read ? UIW_ACCESS_REMOTE_READ : 0U);
}

static bool make_parts(struct x_run *r)
{
    const struct x_options *o = r->o;

    if (uiw_pd_create(me.dev, &me.pd) != 0 || uiw_cq_create(me.dev, 1024, NULL, NULL, &me.cq) != 0)
        return failed(r);
    me.other_pd = me.pd;
    if (o->other_pd && uiw_pd_create(me.dev, &me.other_pd) != 0)
        return failed(r);
    if (uiw_mr_reg(me.other_pd, r->buffer, o->buffer, access_flags(o), &me.mr) != 0 ||
        uiw_mr_reg(me.pd, r->inbox, (uint64_t)o->receives * o->receive_size + 1,
                   UIW_ACCESS_LOCAL_WRITE, &me.inbox_mr) != 0)
        return failed(r);
    r->own_rkey = uiw_mr_rkey(me.mr);
    return true;
}

static bool post_receives(struct x_run *r)
{
    for (uint32_t i = 0; i < r->o->receives; i++) {
        struct uiw_sge sge = {
            .addr = (uintptr_t)r->inbox + (uint64_t)i * r->o->receive_size,
            .length = r->o->receive_size,
            .lkey = uiw_mr_lkey(me.inbox_mr),
        };
        struct uiw_recv_wr wr = {.wr_id = RECEIVE_ID + i, .sg_list = &sge, .num_sge = 1};

        if (uiw_qp_post_recv(me.qp, &wr, NULL) != 0)
            return failed(r);
    }
    return true;
}

static bool make_qp(struct x_run *r)
{
    struct uiw_qp_attr attr = {
        .max_send_wr = 2 * X_DEPTH,
        .max_recv_wr = r->o->receives + 1,
        .max_send_sge = X_PIECES,
        .max_recv_sge = 1,
        .max_inline = 64,
        .sig_all = true,
    };

    if (me.pd == NULL && !make_parts(r))
        return false;
    attr.send_cq = attr.recv_cq = me.cq;
    if (uiw_qp_create(me.pd, &attr, &me.qp) != 0)
        return failed(r);
    return post_receives(r);
}

static struct uiw_conn_param conn_param(const struct x_run *r, uint8_t *data)
{
    struct uiw_conn_param p = {
        .private_data = data,
        .private_len = x_private(r, r->o->private_len, data),
        .ird = r->o->ird > 0 ? r->o->ird : UIW_DEPTH_NONE,
        .ord = r->o->ord > 0 ? r->o->ord : UIW_DEPTH_NONE,
    };

    return p;
}

static bool await_established(struct x_run *r)
{
    struct uiw_event ev;

    if (!next_event(r->o->timeout_ms, &ev)) {
        x_say(r, "no answer");
        return false;
    }
    say_event(r, &ev);
    r->established = ev.type == UIW_EVENT_ESTABLISHED;
    if (!r->o->server && (r->established || ev.type == UIW_EVENT_REJECTED))
        x_take_private(r, ev.private_data, ev.private_len);
    return r->established;
}

/* ---- Server ---- */

static bool start_listening(struct x_run *r)
{
    const struct sockaddr *addr = (const struct sockaddr *)&r->o->address;

    return uiw_listen(me.channel, addr, 16, NULL, &me.listener) == 0 || failed(r);
}

static bool await_request(struct x_run *r)
{
    struct uiw_event ev;

    while (next_event(r->o->timeout_ms, &ev)) {
        if (ev.type == UIW_EVENT_CONNECT_REQUEST) {
            me.conn = ev.conn;
            x_take_private(r, ev.private_data, ev.private_len);
            return true;
        }
        say_event(r, &ev);
    }
    x_say(r, "no connect request");
    return false;
}

static void reject_request(struct x_run *r, const uint8_t *data, uint8_t length)
{
    int result = uiw_reject(me.conn, data, length);
    struct uiw_event ev;

    x_say(r, "rejected with %u octets: %s", (unsigned)length, result == 0 ? "ok" : uiw_error());
    (void)uiw_conn_destroy(me.conn);
    me.conn = NULL;
    /* The process may end next; the Reply has to get out, and its acknowledgement in. */
    if (next_event(300, &ev))
        say_event(r, &ev);
}

static bool accept_request(struct x_run *r)
{
    uint8_t data[X_PRIVATE_MAX];
    struct uiw_conn_param p;

    if (!make_qp(r))
        return false;
    p = conn_param(r, data);
    if (uiw_accept(me.conn, me.qp, &p) != 0)
        return failed(r);
    return await_established(r);
}

/* ---- Client ---- */

static bool call_server(struct x_run *r)
{
    const struct sockaddr *addr = (const struct sockaddr *)&r->o->address;
    uint8_t data[X_PRIVATE_MAX];
    struct uiw_conn_param p;

    if (!make_qp(r))
        return false;
    p = conn_param(r, data);
    if (uiw_connect(me.channel, me.qp, addr, &p, &me.conn) != 0)
        return failed(r);
    return await_established(r);
}

/* ---- Requests ---- */

static void set_opcode(struct uiw_send_wr *wr, const struct x_work *w)
{
    switch (w->kind) {
    case X_SEND_SOLICITED: wr->flags = UIW_SEND_SOLICITED; break;
    case X_SEND_INLINE: wr->flags = UIW_SEND_INLINE; break;
    case X_SEND_SOLICITED_INVALIDATE:
        wr->flags = UIW_SEND_SOLICITED;
        wr->opcode = UIW_WR_SEND_WITH_INV;
        break;
    case X_SEND_INVALIDATE: wr->opcode = UIW_WR_SEND_WITH_INV; break;
    case X_WRITE_INLINE:
        wr->flags = UIW_SEND_INLINE;
        wr->opcode = UIW_WR_RDMA_WRITE;
        break;
    case X_WRITE:
    case X_WRITE_PIECES: wr->opcode = UIW_WR_RDMA_WRITE; break;
    case X_READ: wr->opcode = UIW_WR_RDMA_READ; break;
    default: break;
    }
}

static int post_request(struct x_run *r, const struct x_work *w)
{
    struct uiw_sge sge[X_PIECES];
    struct uiw_send_wr wr = {
        .wr_id = w->id,
        .opcode = UIW_WR_SEND,
        .sg_list = sge,
        .num_sge = w->pieces,
        .remote_addr = w->remote_addr,
        .rkey = w->rkey,
        .invalidate = w->rkey,
    };
    int result;

    for (unsigned i = 0; i < w->pieces; i++)
        sge[i] = (struct uiw_sge){
            .addr = (uintptr_t)r->buffer + w->piece[i].offset,
            .length = w->piece[i].length,
            .lkey = me.mr != NULL ? uiw_mr_lkey(me.mr) : 0,
        };
    set_opcode(&wr, w);
    result = uiw_qp_post_send(me.qp, &wr, NULL);
    if (result != 0)
        failed(r);
    return -result;
}

static bool poll_completion(struct x_run *r, struct x_completion *c)
{
    static char text[64];
    struct uiw_wc wc;
    int n = me.cq != NULL ? uiw_cq_poll(me.cq, 1, &wc) : 0;

    if (n < 0)
        return failed(r);
    if (n == 0)
        return false;
    snprintf(text, sizeof text, "%s", uiw_wc_status_text(wc.status));
    c->receive = wc.opcode == UIW_WC_RECV;
    c->id = c->receive ? wc.wr_id - RECEIVE_ID : wc.wr_id;
    c->ok = wc.status == UIW_WC_SUCCESS;
    c->text = text;
    c->length = wc.byte_len;
    c->solicited = c->ok && (wc.flags & UIW_WC_SOLICITED) != 0;
    c->invalidated = c->ok && (wc.flags & UIW_WC_WITH_INV) != 0;
    c->stag = wc.invalidated;
    return true;
}

static void control(struct x_run *r, enum x_kind kind)
{
    if (kind == X_DISCONNECT)
        (void)uiw_disconnect(me.conn);
    if (kind == X_DEREGISTER && me.mr != NULL) {
        x_say(r, "deregistered: %s", strerror(-uiw_mr_dereg(me.mr)));
        me.mr = NULL;
    }
    if (kind == X_ERROR)
        (void)uiw_qp_error(me.qp);
}

static void close_connection(struct x_run *r)
{
    (void)r;
    if (me.conn != NULL)
        (void)uiw_conn_destroy(me.conn);
    if (me.qp != NULL)
        (void)uiw_qp_destroy(me.qp);
    me.conn = NULL;
    me.qp = NULL;
}

/* Closes what is left, so that the library can tell what it misses. */
static bool close_device(struct x_run *r)
{
    int result = 0;

    if (me.listener != NULL)
        result |= uiw_listener_destroy(me.listener);
    if (me.mr != NULL)
        result |= uiw_mr_dereg(me.mr);
    if (me.inbox_mr != NULL)
        result |= uiw_mr_dereg(me.inbox_mr);
    if (me.cq != NULL)
        result |= uiw_cq_destroy(me.cq);
    if (me.pd != NULL)
        result |= uiw_pd_destroy(me.pd);
    if (me.other_pd != NULL && me.other_pd != me.pd)
        result |= uiw_pd_destroy(me.other_pd);
    result |= uiw_event_channel_destroy(me.channel);
    result |= uiw_device_close(me.dev);
    return result == 0 || failed(r);
}

int main(int argc, char **argv)
{
    static const struct x_backend backend = {
        .open = open_device,
        .listen = start_listening,
        .await_request = await_request,
        .reject = reject_request,
        .accept = accept_request,
        .connect = call_server,
        .post = post_request,
        .poll = poll_completion,
        .events = events,
        .control = control,
        .close = close_connection,
        .shut = close_device,
    };

    return x_main(argc, argv, &backend);
}
