/* SPDX-License-Identifier: MIT */
/* Queue pairs: life and states. What is posted: qp_post.c; what completes: qp_done.c. */
#include "api/qp.h"

#include <errno.h>
#include <stdlib.h>

#include "api/conn_face.h"
#include "api/error.h"

/* One space of numbers for the process: several devices may feed one log or table of the program. */
static atomic_uint next_num = 1;

static int check_attr(const struct uiw_qp_attr *a)
{
    const struct {
        const char *what;
        uint32_t value, max;
    } limits[] = {
        {"max_send_wr", a->max_send_wr, DEVICE_MAX_WR},
        {"max_recv_wr", a->max_recv_wr, DEVICE_MAX_WR},
        {"max_send_sge", a->max_send_sge, DEVICE_MAX_SGE},
        {"max_recv_sge", a->max_recv_sge, DEVICE_MAX_SGE},
        {"max_inline", a->max_inline, DEVICE_MAX_INLINE},
    };
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        if (limits[i].value > limits[i].max) {
            return fail(EINVAL, "uiw_qp_create: %s %u, the limit is %u", limits[i].what,
                        limits[i].value, limits[i].max);
        }
    }
    if (a->send_cq == NULL || a->recv_cq == NULL) {
        return fail(EINVAL, "uiw_qp_create: send_cq and recv_cq are needed");
    }
    return 0;
}

static bool qp_queues(struct uiw_qp *qp, const struct uiw_qp_attr *a)
{
    qp->sq.max_sge = max_u32(a->max_send_sge, 1);
    qp->sq.max_inline = a->max_inline;
    qp->rq.max_sge = a->srq != NULL ? a->srq->rq.max_sge : max_u32(a->max_recv_sge, 1);
    qp->recv.sge = calloc(qp->rq.max_sge, sizeof *qp->recv.sge);
    return qp->recv.sge != NULL &&
           wq_init(&qp->sq, a->max_send_wr, send_wqe_size(qp->sq.max_sge, a->max_inline)) == 0 &&
           wq_init(&qp->rq, a->srq != NULL ? 1 : a->max_recv_wr, recv_wqe_size(qp->rq.max_sge)) ==
               0;
}

static void qp_free(struct uiw_qp *qp)
{
    wq_fini(&qp->sq);
    wq_fini(&qp->rq);
    free(qp->recv.sge);
    free(qp);
}

static void qp_count(struct uiw_qp *qp, int by)
{
    qp->pd->children = (unsigned)((int)qp->pd->children + by);
    qp->send_cq->users = (unsigned)((int)qp->send_cq->users + by);
    qp->recv_cq->users = (unsigned)((int)qp->recv_cq->users + by);
    if (qp->srq != NULL) {
        qp->srq->users = (unsigned)((int)qp->srq->users + by);
    }
}

int uiw_qp_create(struct uiw_pd *pd, const struct uiw_qp_attr *attr, struct uiw_qp **out)
{
    int err = check_attr(attr);
    if (err != 0) {
        return err;
    }
    if (attr->send_cq->dev != pd->dev || attr->recv_cq->dev != pd->dev ||
        (attr->srq != NULL && attr->srq->pd->dev != pd->dev)) {
        return fail(EINVAL, "uiw_qp_create: CQs, SRQ and PD are not of one device");
    }
    struct uiw_qp *qp = calloc(1, sizeof *qp);
    if (qp == NULL || !qp_queues(qp, attr)) {
        if (qp != NULL) {
            qp_free(qp);
        }
        return fail(ENOMEM, "uiw_qp_create: out of memory");
    }
    qp->dev = pd->dev;
    qp->pd = pd;
    qp->send_cq = attr->send_cq;
    qp->recv_cq = attr->recv_cq;
    qp->srq = attr->srq;
    qp->user = attr->user;
    qp->sig_all = attr->sig_all;
    qp->num = atomic_fetch_add(&next_num, 1);
    qp->ird = pd->dev->spec.ird;
    qp->ord = pd->dev->spec.ord;
    list_init(&qp->windows);
    loop_lock(qp->dev->loop);
    list_append(&qp->dev->qps, &qp->on_device);
    qp_count(qp, 1);
    loop_unlock(qp->dev->loop);
    *out = qp;
    return 0;
}

int uiw_qp_destroy(struct uiw_qp *qp)
{
    struct uiw_device *dev = qp->dev;
    loop_lock(dev->loop);
    loop_take_posted(dev->loop);
    if (qp->conn != NULL) {
        conn_detach_qp(qp->conn);
    }
    device_async_forget_qp(dev, qp->num);
    list_remove(&qp->on_device);
    while (!list_empty(&qp->windows)) {
        mem_revoke(&CONTAINER_OF(qp->windows.next, struct uiw_mw, on_qp)->o.mem);
    }
    qp_count(qp, -1);
    /* Detaching may have put it back on the stack. */
    loop_take_posted(dev->loop);
    cq_forget_qp(qp->send_cq, qp);
    loop_unlock(dev->loop);
    qp_free(qp);
    return 0;
}

/* --- states --- */

void qp_set_state(struct uiw_qp *qp, enum uiw_qp_state state)
{
    atomic_store_explicit(&qp->state, (int)state, memory_order_relaxed);
    if (state == UIW_QP_ERROR) {
        /* Against a poster: it sees the state after its push, or we see its request. */
        atomic_thread_fence(memory_order_seq_cst);
        qp_flush(qp);
    }
}

void qp_cq_failed(struct uiw_cq *cq)
{
    LIST_EACH(it, &cq->dev->qps)
    {
        struct uiw_qp *qp = CONTAINER_OF(it, struct uiw_qp, on_device);
        if (qp->send_cq == cq || qp->recv_cq == cq) {
            qp->cq_failed = true;
            loop_post_later(cq->dev->loop, qp);
        }
    }
}

bool qp_lives(const struct ddp_mem_table *t, uint32_t num)
{
    const struct uiw_device *dev = CONTAINER_OF(t, struct uiw_device, mem);
    LIST_EACH(it, &dev->qps)
    {
        const struct uiw_qp *qp = CONTAINER_OF(it, struct uiw_qp, on_device);
        if (qp->num == num) {
            return qp_state(qp) == UIW_QP_RTS || qp_state(qp) == UIW_QP_CLOSING;
        }
    }
    return false;
}

void qp_run(struct uiw_qp *qp)
{
    if (qp->conn != NULL) {
        conn_run(qp->conn);
    } else if (qp_state(qp) == UIW_QP_ERROR) {
        qp_flush(qp);
    }
}

void qp_sent(struct uiw_qp *qp)
{
    if (qp->conn != NULL) {
        conn_sent(qp->conn);
    }
}

int uiw_qp_error(struct uiw_qp *qp)
{
    loop_lock(qp->dev->loop);
    if (qp->conn != NULL) {
        conn_kill(qp->conn, UIW_REASON_LOCAL, "ended by this program");
    }
    qp_set_state(qp, UIW_QP_ERROR);
    loop_unlock(qp->dev->loop);
    return 0;
}

int uiw_qp_query(const struct uiw_qp *qp, struct uiw_qp_info *info)
{
    loop_lock(qp->dev->loop);
    *info = (struct uiw_qp_info){.state = qp_state(qp),
                                 .qp_num = qp->num,
                                 .max_send_wr = qp->sq.ring.cap,
                                 .max_recv_wr = qp->srq != NULL ? 0 : qp->rq.ring.cap,
                                 .max_send_sge = qp->sq.max_sge,
                                 .max_recv_sge = qp->rq.max_sge,
                                 .max_inline = qp->sq.max_inline,
                                 .ird = qp->ird,
                                 .ord = qp->ord,
                                 .user = qp->user};
    loop_unlock(qp->dev->loop);
    return 0;
}
