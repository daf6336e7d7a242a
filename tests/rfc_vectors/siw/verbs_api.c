/* SPDX-License-Identifier: MIT */
/* As much of uiw.h over libibverbs and librdmacm as the responder needs, so that the same responder runs
 * on the kernel's siw driver. What verbs cannot say (why a connection ended) stays 0. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/uiw.h"
#include "verbs_int.h"

enum { RESOLVE_MS = 3000 };

static char last_error[200] = "";

bool siw_set(const char *name, bool on)
{
    char path[100];
    snprintf(path, sizeof path, "/sys/module/siw/parameters/%s", name);
    FILE *f = fopen(path, "w");
    if (f == NULL) {
        return !on;
    }
    bool ok = fputs(on ? "1" : "0", f) >= 0;
    return fclose(f) == 0 && ok;
}

int verbs_fail(int err, const char *what)
{
    snprintf(last_error, sizeof last_error, "%s: %s", what, strerror(err));
    return -err;
}

const char *uiw_error(void)
{
    return last_error;
}

const char *uiw_version(void)
{
    return "over verbs";
}

const char *uiw_wc_status_text(enum uiw_wc_status status)
{
    return status == UIW_WC_SUCCESS ? "success" : "error";
}

/* --- device --- */

int uiw_device_open(const char *spec, struct uiw_device **out)
{
    (void)spec;
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    struct uiw_device *dev = calloc(1, sizeof *dev);
    if (dev == NULL || n < 1) {
        free(dev);
        return verbs_fail(ENODEV, "no RDMA device");
    }
    dev->ctx = ibv_open_device(list[0]);
    dev->cm = rdma_create_event_channel();
    ibv_free_device_list(list);
    if (dev->ctx == NULL || dev->cm == NULL) {
        free(dev);
        return verbs_fail(ENODEV, "open");
    }
    *out = dev;
    return 0;
}

int uiw_device_close(struct uiw_device *dev)
{
    rdma_destroy_event_channel(dev->cm);
    ibv_close_device(dev->ctx);
    free(dev);
    return 0;
}

int uiw_device_fail(struct uiw_device *dev, const char *why)
{
    (void)dev;
    (void)why;
    return verbs_fail(ENOSYS, "fail");
}

int uiw_progress(struct uiw_device *dev, int timeout_ms)
{
    struct pollfd p = {.fd = dev->cm->fd, .events = POLLIN};
    /* Completions wake nobody here: look often. */
    poll(&p, 1, timeout_ms > 1 ? 1 : timeout_ms);
    return 0;
}

int uiw_async_fd(struct uiw_device *dev)
{
    return dev->ctx->async_fd;
}

int uiw_async_get(struct uiw_device *dev, struct uiw_async_event *ev)
{
    struct ibv_async_event e;
    if (ibv_get_async_event(dev->ctx, &e) != 0) {
        return -EAGAIN;
    }
    *ev = (struct uiw_async_event){.type = UIW_ASYNC_DEVICE_FATAL};
    if (e.event_type == IBV_EVENT_QP_FATAL || e.event_type == IBV_EVENT_QP_REQ_ERR ||
        e.event_type == IBV_EVENT_QP_ACCESS_ERR) {
        ev->type =
            e.event_type == IBV_EVENT_QP_ACCESS_ERR ? UIW_ASYNC_QP_ACCESS : UIW_ASYNC_QP_FATAL;
        ev->user = ((struct uiw_qp *)e.element.qp->qp_context)->user;
    } else if (e.event_type == IBV_EVENT_CQ_ERR) {
        ev->type = UIW_ASYNC_CQ_ERR;
    }
    ibv_ack_async_event(&e);
    return 0;
}

/* --- memory --- */

int uiw_pd_create(struct uiw_device *dev, struct uiw_pd **out)
{
    struct uiw_pd *pd = calloc(1, sizeof *pd);
    if (pd != NULL) {
        pd->pd = ibv_alloc_pd(dev->ctx);
        pd->dev = dev;
    }
    if (pd == NULL || pd->pd == NULL) {
        free(pd);
        return verbs_fail(ENOMEM, "PD");
    }
    *out = pd;
    return 0;
}

int uiw_pd_destroy(struct uiw_pd *pd)
{
    int err = ibv_dealloc_pd(pd->pd);
    free(pd);
    return err != 0 ? verbs_fail(err, "PD") : 0;
}

int uiw_mr_reg(struct uiw_pd *pd, void *addr, uint64_t length, unsigned access, struct uiw_mr **out)
{
    if ((access & (UIW_ACCESS_REMOTE_ATOMIC | UIW_ACCESS_NO_REMOTE_INV)) != 0) {
        return verbs_fail(EOPNOTSUPP, "access");
    }
    unsigned flags = 0;
    flags |= (access & UIW_ACCESS_LOCAL_WRITE) != 0 ? (unsigned)IBV_ACCESS_LOCAL_WRITE : 0;
    flags |= (access & UIW_ACCESS_REMOTE_READ) != 0 ? (unsigned)IBV_ACCESS_REMOTE_READ : 0;
    flags |= (access & UIW_ACCESS_REMOTE_WRITE) != 0 ? (unsigned)IBV_ACCESS_REMOTE_WRITE : 0;
    struct uiw_mr *mr = calloc(1, sizeof *mr);
    if (mr != NULL) {
        mr->mr = ibv_reg_mr(pd->pd, addr, length, flags);
    }
    if (mr == NULL || mr->mr == NULL) {
        free(mr);
        return verbs_fail(errno, "region");
    }
    *out = mr;
    return 0;
}

int uiw_mr_reg_qp(struct uiw_qp *qp, void *addr, uint64_t length, unsigned access,
                  struct uiw_mr **out)
{
    (void)qp;
    (void)addr;
    (void)length;
    (void)access;
    (void)out;
    return verbs_fail(EOPNOTSUPP, "a region of one QP");
}

int uiw_mr_dereg(struct uiw_mr *mr)
{
    int err = ibv_dereg_mr(mr->mr);
    free(mr);
    return err != 0 ? verbs_fail(err, "deregister") : 0;
}

uint32_t uiw_mr_lkey(const struct uiw_mr *mr)
{
    return mr->mr->lkey;
}

uint32_t uiw_mr_rkey(const struct uiw_mr *mr)
{
    return mr->mr->rkey;
}

uint64_t uiw_mr_addr(const struct uiw_mr *mr)
{
    return (uint64_t)(uintptr_t)mr->mr->addr;
}

/* --- connections --- */

int uiw_event_channel_create(struct uiw_device *dev, struct uiw_event_channel **out)
{
    struct uiw_event_channel *ch = calloc(1, sizeof *ch);
    if (ch != NULL) {
        ch->dev = dev;
    }
    *out = ch;
    return ch != NULL ? 0 : verbs_fail(ENOMEM, "channel");
}

int uiw_event_channel_destroy(struct uiw_event_channel *ch)
{
    free(ch);
    return 0;
}

int uiw_event_channel_fd(const struct uiw_event_channel *ch)
{
    return ch->dev->cm->fd;
}

static bool listen_at(struct uiw_event_channel *ch, struct rdma_cm_id **id, struct sockaddr *at,
                      int backlog)
{
    int only = 1;
    if (rdma_create_id(ch->dev->cm, id, NULL, RDMA_PS_TCP) != 0) {
        return false;
    }
    if (at->sa_family == AF_INET6) {
        rdma_set_option(*id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only);
    }
    return rdma_bind_addr(*id, at) == 0 && rdma_listen(*id, backlog) == 0;
}

/* The responder listens at :: and means both families; siw has a listener for each. */
int uiw_listen(struct uiw_event_channel *ch, const struct sockaddr *addr, int backlog, void *user,
               struct uiw_listener **out)
{
    (void)user;
    struct uiw_listener *l = calloc(1, sizeof *l);
    struct sockaddr_in6 at6;
    memcpy(&at6, addr, sizeof at6);
    struct sockaddr_in at4 = {.sin_family = AF_INET, .sin_port = at6.sin6_port};
    if (l == NULL || !listen_at(ch, &l->id[0], (struct sockaddr *)&at4, backlog) ||
        !listen_at(ch, &l->id[1], (struct sockaddr *)&at6, backlog)) {
        return verbs_fail(errno, "listen");
    }
    *out = l;
    return 0;
}

int uiw_listener_addr(const struct uiw_listener *l, struct sockaddr_storage *out)
{
    const struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = rdma_get_src_port(l->id[0])};
    memset(out, 0, sizeof *out);
    memcpy(out, &in, sizeof in);
    return 0;
}

int uiw_listener_destroy(struct uiw_listener *l)
{
    rdma_destroy_id(l->id[0]);
    rdma_destroy_id(l->id[1]);
    free(l);
    return 0;
}

int uiw_conn_query(const struct uiw_conn *conn, struct uiw_conn_info *info)
{
    struct sockaddr *remote = rdma_get_peer_addr(conn->id);
    *info = (struct uiw_conn_info){0};
    memcpy(&info->remote, remote,
           remote->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                         : sizeof(struct sockaddr_in));
    return 0;
}

static struct rdma_conn_param param_of(const struct uiw_conn_param *p, const struct uiw_qp *qp,
                                       const void *pd)
{
    struct rdma_conn_param r = {
        .private_data = pd, .private_data_len = (uint8_t)p->private_len, .qp_num = qp->qp->qp_num};
    r.responder_resources = (uint8_t)(p->ird > 0 ? p->ird : p->ird < 0 ? 0 : 16);
    r.initiator_depth = (uint8_t)(p->ord > 0 ? p->ord : p->ord < 0 ? 0 : 16);
    return r;
}

int uiw_connect(struct uiw_event_channel *ch, struct uiw_qp *qp, const struct sockaddr *addr,
                const struct uiw_conn_param *param, struct uiw_conn **out)
{
    struct uiw_conn *c = calloc(1, sizeof *c);
    struct sockaddr_storage to = {0};
    memcpy(&to, addr,
           addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    if (c == NULL || param->private_len > 200 || param->rtr != 0 ||
        !siw_set("peer_to_peer", param->p2p)) {
        free(c);
        return verbs_fail(EINVAL, "connect");
    }
    c->qp = qp;
    c->param = *param;
    memcpy(c->pd, param->private_data, param->private_len);
    if (rdma_create_id(ch->dev->cm, &c->id, c, RDMA_PS_TCP) != 0 ||
        rdma_resolve_addr(c->id, NULL, (struct sockaddr *)&to, RESOLVE_MS) != 0) {
        return verbs_fail(errno, "resolve");
    }
    *out = c;
    return 0;
}

int uiw_accept(struct uiw_conn *conn, struct uiw_qp *qp, const struct uiw_conn_param *param)
{
    struct rdma_conn_param p = param_of(param, qp, param->private_data);
    conn->qp = qp;
    if (rdma_accept(conn->id, &p) != 0) {
        return verbs_fail(errno, "accept");
    }
    verbs_connected(qp);
    return 0;
}

int uiw_reject(struct uiw_conn *conn, const void *private_data, uint32_t private_len)
{
    return rdma_reject(conn->id, private_data, (uint8_t)private_len) != 0
               ? verbs_fail(errno, "reject")
               : 0;
}

int uiw_disconnect(struct uiw_conn *conn)
{
    return rdma_disconnect(conn->id) != 0 ? verbs_fail(errno, "disconnect") : 0;
}

int uiw_abort(struct uiw_conn *conn)
{
    return conn->qp != NULL ? uiw_qp_error(conn->qp) : uiw_disconnect(conn);
}

int uiw_conn_destroy(struct uiw_conn *conn)
{
    rdma_disconnect(conn->id);
    rdma_destroy_id(conn->id);
    free(conn);
    return 0;
}

/* The steps of a connect that verbs programs have to take themselves; whether the event was one. */
static bool step(const struct rdma_cm_event *e)
{
    struct uiw_conn *c = e->id->context;
    if (e->event == RDMA_CM_EVENT_ADDR_RESOLVED) {
        rdma_resolve_route(e->id, RESOLVE_MS);
        return true;
    }
    if (e->event == RDMA_CM_EVENT_ROUTE_RESOLVED) {
        struct rdma_conn_param p = param_of(&c->param, c->qp, c->pd);
        rdma_connect(e->id, &p);
        return true;
    }
    return e->event == RDMA_CM_EVENT_TIMEWAIT_EXIT;
}

static void fill(const struct rdma_cm_event *e, struct uiw_event *ev)
{
    switch (e->event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST: {
        struct uiw_conn *c = calloc(1, sizeof *c);
        if (c != NULL) {
            c->id = e->id;
            e->id->context = c;
        }
        ev->type = UIW_EVENT_CONNECT_REQUEST;
        break;
    }
    case RDMA_CM_EVENT_ESTABLISHED: ev->type = UIW_EVENT_ESTABLISHED; break;
    case RDMA_CM_EVENT_REJECTED: ev->type = UIW_EVENT_REJECTED; break;
    case RDMA_CM_EVENT_DISCONNECTED: ev->type = UIW_EVENT_DISCONNECTED; break;
    default: ev->type = UIW_EVENT_CONNECT_ERROR; break;
    }
    ev->conn = e->id->context;
    if (ev->type == UIW_EVENT_ESTABLISHED && ev->conn != NULL && ev->conn->qp != NULL) {
        verbs_connected(ev->conn->qp);
    }
    ev->ird = e->param.conn.initiator_depth;
    ev->ord = e->param.conn.responder_resources;
    ev->private_len = e->param.conn.private_data_len;
    if (ev->private_len > 0 && ev->type != UIW_EVENT_DISCONNECTED) {
        memcpy(ev->private_data, e->param.conn.private_data, ev->private_len);
    }
}

int uiw_event_get(struct uiw_event_channel *ch, struct uiw_event *ev)
{
    struct rdma_cm_event *e;
    for (;;) {
        if (rdma_get_cm_event(ch->dev->cm, &e) != 0) {
            return -EAGAIN;
        }
        bool own = step(e);
        if (!own) {
            memset(ev, 0, sizeof *ev);
            fill(e, ev);
        }
        rdma_ack_cm_event(e);
        if (!own) {
            return ev->conn != NULL ? 0 : -EAGAIN;
        }
    }
}
