/* SPDX-License-Identifier: MIT */
/* siwx: a verbs program that drives one connection from a list of operations; see xops.h. Runs in the
 * guest, over the kernel's siw driver. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "xops.h"

enum { RESOLVE_MS = 3000 };
/* Above all identifiers of requests. */
#define RECEIVE_ID (UINT64_C(1) << 32)

static struct {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener, *id;
    struct ibv_pd *pd, *other_pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr, *inbox_mr;
} me;

static bool failed(const struct x_run *r, const char *what)
{
    x_say(r, "%s: %s", what, strerror(errno));
    return false;
}

/* ---- Events ---- */

/* The next event, or NULL after ms. */
static struct rdma_cm_event *next_event(unsigned ms)
{
    struct pollfd fd = {.fd = me.channel->fd, .events = POLLIN};
    struct rdma_cm_event *e;

    if (poll(&fd, 1, (int)ms) <= 0 || rdma_get_cm_event(me.channel, &e) != 0)
        return NULL;
    return e;
}

static const char *event_name(enum rdma_cm_event_type type)
{
    switch (type) {
    case RDMA_CM_EVENT_CONNECT_REQUEST: return "connect request";
    case RDMA_CM_EVENT_ESTABLISHED: return "established";
    case RDMA_CM_EVENT_REJECTED: return "rejected";
    case RDMA_CM_EVENT_DISCONNECTED: return "disconnected";
    default: return rdma_event_str(type);
    }
}

static void say_event(struct x_run *r, const struct rdma_cm_event *e)
{
    x_say(r, "event %s: status %d", event_name(e->event), e->status);
    if (e->event == RDMA_CM_EVENT_DISCONNECTED || e->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
        r->disconnected = true;
}

static void events(struct x_run *r)
{
    struct rdma_cm_event *e;

    while ((e = next_event(0)) != NULL) {
        say_event(r, e);
        rdma_ack_cm_event(e);
    }
}

/* Waits for one that leads on; others are told and are the end. */
static bool step_to(struct x_run *r, enum rdma_cm_event_type wanted)
{
    struct rdma_cm_event *e = next_event(r->o->timeout_ms);
    bool good;

    if (e == NULL) {
        x_say(r, "no event");
        return false;
    }
    good = e->event == wanted;
    if (!good)
        say_event(r, e);
    rdma_ack_cm_event(e);
    return good;
}

/* ---- Set-up ---- */

static bool open_channel(struct x_run *r)
{
    me.channel = rdma_create_event_channel();
    return me.channel != NULL || failed(r, "event channel");
}

static unsigned access_flags(const struct x_options *o)
{
    return (o->local_write ? (unsigned)IBV_ACCESS_LOCAL_WRITE : 0) |
           (o->remote_write ? (unsigned)IBV_ACCESS_REMOTE_WRITE : 0) |
           (o->remote_read ? (unsigned)IBV_ACCESS_REMOTE_READ : 0);
}

static bool make_parts(struct x_run *r)
{
    struct ibv_context *ctx = me.id->verbs;
    const struct x_options *o = r->o;

    me.pd = ibv_alloc_pd(ctx);
    me.other_pd = o->other_pd ? ibv_alloc_pd(ctx) : me.pd;
    me.cq = ibv_create_cq(ctx, 1024, NULL, NULL, 0);
    if (me.pd == NULL || me.other_pd == NULL || me.cq == NULL)
        return failed(r, "PD, CQ");
    me.mr = ibv_reg_mr(me.other_pd, r->buffer, o->buffer, access_flags(o));
    me.inbox_mr = ibv_reg_mr(me.pd, r->inbox, (size_t)o->receives * o->receive_size + 1,
                             IBV_ACCESS_LOCAL_WRITE);
    if (me.mr == NULL || me.inbox_mr == NULL)
        return failed(r, "regions");
    r->own_rkey = me.mr->rkey;
    return true;
}

static bool post_receives(struct x_run *r)
{
    for (uint32_t i = 0; i < r->o->receives; i++) {
        struct ibv_sge sge = {
            .addr = (uintptr_t)r->inbox + (uint64_t)i * r->o->receive_size,
            .length = r->o->receive_size,
            .lkey = me.inbox_mr->lkey,
        };
        struct ibv_recv_wr wr = {.wr_id = RECEIVE_ID + i, .sg_list = &sge, .num_sge = 1}, *bad;

        errno = ibv_post_recv(me.id->qp, &wr, &bad);
        if (errno != 0)
            return failed(r, "post receive");
    }
    return true;
}

static bool make_qp(struct x_run *r)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
        .cap = {.max_send_wr = 2 * X_DEPTH,
                .max_recv_wr = r->o->receives + 1,
                .max_send_sge = X_PIECES,
                .max_recv_sge = 1,
                .max_inline_data = 64},
    };

    if (me.pd == NULL && !make_parts(r))
        return false;
    attr.send_cq = attr.recv_cq = me.cq;
    if (rdma_create_qp(me.id, me.pd, &attr) != 0)
        return failed(r, "QP");
    return post_receives(r);
}

static struct rdma_conn_param conn_param(const struct x_run *r, uint8_t *data)
{
    struct rdma_conn_param p = {
        .private_data = data,
        .private_data_len = x_private(r, r->o->private_len, data),
        .responder_resources = (uint8_t)r->o->ird,
        .initiator_depth = (uint8_t)r->o->ord,
    };

    return p;
}

/* ---- Server ---- */

static bool start_listening(struct x_run *r)
{
    struct sockaddr_storage addr = r->o->address;

    if (rdma_create_id(me.channel, &me.listener, NULL, RDMA_PS_TCP) != 0 ||
        rdma_bind_addr(me.listener, (struct sockaddr *)&addr) != 0 ||
        rdma_listen(me.listener, 16) != 0)
        return failed(r, "listen");
    return true;
}

static bool await_request(struct x_run *r)
{
    struct rdma_cm_event *e;

    while ((e = next_event(r->o->timeout_ms)) != NULL) {
        bool request = e->event == RDMA_CM_EVENT_CONNECT_REQUEST;

        if (request) {
            me.id = e->id;
            x_take_private(r, e->param.conn.private_data, e->param.conn.private_data_len);
        } else {
            say_event(r, e);
        }
        rdma_ack_cm_event(e);
        if (request)
            return true;
    }
    x_say(r, "no connect request");
    return false;
}

static void reject_request(struct x_run *r, const uint8_t *data, uint8_t length)
{
    int result = rdma_reject(me.id, data, length);

    x_say(r, "rejected with %u octets: %s", (unsigned)length, result == 0 ? "ok" : strerror(errno));
    rdma_destroy_id(me.id);
    me.id = NULL;
}

static bool await_established(struct x_run *r)
{
    struct rdma_cm_event *e = next_event(r->o->timeout_ms);

    if (e == NULL) {
        x_say(r, "no answer");
        return false;
    }
    say_event(r, e);
    r->established = e->event == RDMA_CM_EVENT_ESTABLISHED;
    if (!r->o->server && (r->established || e->event == RDMA_CM_EVENT_REJECTED))
        x_take_private(r, e->param.conn.private_data, e->param.conn.private_data_len);
    rdma_ack_cm_event(e);
    return r->established;
}

static bool accept_request(struct x_run *r)
{
    uint8_t data[X_PRIVATE_MAX];
    struct rdma_conn_param p;

    if (!make_qp(r))
        return false;
    p = conn_param(r, data);
    if (rdma_accept(me.id, &p) != 0)
        return failed(r, "accept");
    return await_established(r);
}

/* ---- Client ---- */

static bool call_server(struct x_run *r)
{
    struct sockaddr_storage addr = r->o->address;
    uint8_t data[X_PRIVATE_MAX];
    struct rdma_conn_param p;

    if (rdma_create_id(me.channel, &me.id, NULL, RDMA_PS_TCP) != 0 ||
        rdma_resolve_addr(me.id, NULL, (struct sockaddr *)&addr, RESOLVE_MS) != 0)
        return failed(r, "resolve");
    if (!step_to(r, RDMA_CM_EVENT_ADDR_RESOLVED))
        return false;
    if (rdma_resolve_route(me.id, RESOLVE_MS) != 0)
        return failed(r, "route");
    if (!step_to(r, RDMA_CM_EVENT_ROUTE_RESOLVED) || !make_qp(r))
        return false;
    p = conn_param(r, data);
    if (rdma_connect(me.id, &p) != 0)
        return failed(r, "connect");
    return await_established(r);
}

/* ---- Requests ---- */

static void set_opcode(struct ibv_send_wr *wr, const struct x_work *w)
{
    wr->opcode = IBV_WR_SEND;
    wr->wr.rdma.remote_addr = w->remote_addr;
    wr->wr.rdma.rkey = w->rkey;
    switch (w->kind) {
    case X_SEND_SOLICITED: wr->send_flags = IBV_SEND_SOLICITED; break;
    case X_SEND_INLINE: wr->send_flags = IBV_SEND_INLINE; break;
    case X_SEND_SOLICITED_INVALIDATE:
        wr->send_flags = IBV_SEND_SOLICITED;
        wr->opcode = IBV_WR_SEND_WITH_INV;
        wr->invalidate_rkey = w->rkey;
        break;
    case X_SEND_INVALIDATE:
        wr->opcode = IBV_WR_SEND_WITH_INV;
        wr->invalidate_rkey = w->rkey;
        break;
    case X_WRITE_INLINE:
        wr->send_flags = IBV_SEND_INLINE;
        wr->opcode = IBV_WR_RDMA_WRITE;
        break;
    case X_WRITE:
    case X_WRITE_PIECES: wr->opcode = IBV_WR_RDMA_WRITE; break;
    case X_READ: wr->opcode = IBV_WR_RDMA_READ; break;
    default: break;
    }
}

static int post_request(struct x_run *r, const struct x_work *w)
{
    struct ibv_sge sge[X_PIECES];
    struct ibv_send_wr wr = {.wr_id = w->id, .sg_list = sge, .num_sge = (int)w->pieces}, *bad;

    for (unsigned i = 0; i < w->pieces; i++)
        sge[i] = (struct ibv_sge){
            .addr = (uintptr_t)r->buffer + w->piece[i].offset,
            .length = w->piece[i].length,
            .lkey = me.mr != NULL ? me.mr->lkey : 0,
        };
    set_opcode(&wr, w);
    return ibv_post_send(me.id->qp, &wr, &bad);
}

static bool poll_completion(struct x_run *r, struct x_completion *c)
{
    struct ibv_wc wc;

    (void)r;
    if (me.cq == NULL || ibv_poll_cq(me.cq, 1, &wc) <= 0)
        return false;
    c->receive = wc.wr_id >= RECEIVE_ID;
    c->id = c->receive ? wc.wr_id - RECEIVE_ID : wc.wr_id;
    c->ok = wc.status == IBV_WC_SUCCESS;
    c->text = ibv_wc_status_str(wc.status);
    c->length = wc.byte_len;
    c->invalidated = c->ok && (wc.wc_flags & IBV_WC_WITH_INV) != 0;
    c->stag = wc.invalidated_rkey;
    return true;
}

static void control(struct x_run *r, enum x_kind kind)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (kind == X_DISCONNECT)
        rdma_disconnect(me.id);
    if (kind == X_DEREGISTER && me.mr != NULL) {
        x_say(r, "deregistered: %s", strerror(ibv_dereg_mr(me.mr)));
        me.mr = NULL;
    }
    if (kind == X_ERROR)
        ibv_modify_qp(me.id->qp, &attr, IBV_QP_STATE);
}

static void close_connection(struct x_run *r)
{
    (void)r;
    if (me.id == NULL)
        return;
    if (r->established && !r->disconnected)
        rdma_disconnect(me.id);
    if (me.id->qp != NULL)
        rdma_destroy_qp(me.id);
    rdma_destroy_id(me.id);
    me.id = NULL;
}

int main(int argc, char **argv)
{
    static const struct x_backend backend = {
        .open = open_channel,
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
    };

    return x_main(argc, argv, &backend);
}
