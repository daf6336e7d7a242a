/* SPDX-License-Identifier: MIT */
/* Completing and flushing: the loop's side of the rings. The lock is held. */
#include "api/error.h"
#include "api/qp.h"

static enum uiw_wc_opcode wc_opcode(const struct send_wqe *e)
{
    switch (e->opcode) {
    case UIW_WR_RDMA_WRITE:
    case UIW_WR_RDMA_WRITE_WITH_IMM: return UIW_WC_RDMA_WRITE;
    case UIW_WR_RDMA_READ:
    case UIW_WR_RDMA_READ_WITH_INV: return UIW_WC_RDMA_READ;
    case UIW_WR_IMM: return UIW_WC_IMM;
    case UIW_WR_ATOMIC_FETCH_ADD:
    case UIW_WR_MASKED_ATOMIC_FETCH_ADD: return UIW_WC_ATOMIC_FETCH_ADD;
    case UIW_WR_ATOMIC_CMP_SWAP:
    case UIW_WR_MASKED_ATOMIC_CMP_SWAP: return UIW_WC_ATOMIC_CMP_SWAP;
    case UIW_WR_BIND_MW: return UIW_WC_BIND_MW;
    case UIW_WR_REG_MR: return UIW_WC_REG_MR;
    case UIW_WR_LOCAL_INV: return UIW_WC_LOCAL_INV;
    default: return UIW_WC_SEND;
    }
}

/* Slots before end are free. The loop and polling threads both say so: the later wins. */
static void free_slots(struct uiw_qp *qp, uint32_t end)
{
    uint32_t head = atomic_load_explicit(&qp->sq.ring.head, memory_order_relaxed);
    while ((int32_t)(end - head) > 0 &&
           !atomic_compare_exchange_weak_explicit(&qp->sq.ring.head, &head, end,
                                                  memory_order_release, memory_order_relaxed)) {
    }
}

void qp_seen(struct uiw_qp *qp, uint32_t sq_end)
{
    free_slots(qp, sq_end);
    atomic_fetch_sub_explicit(&qp->unseen, 1, memory_order_release);
}

/* Completes the request at sq_done. */
static void complete_send(struct uiw_qp *qp, const struct send_wqe *e)
{
    qp->sq_done++;
    /* A failure is told whether or not the request was signalled (RFC 5040 sec 5.5). */
    if ((e->flags & UIW_SEND_SIGNALED) == 0 && e->status == UIW_WC_SUCCESS) {
        return;
    }
    struct cq_entry entry = {.wc = {.wr_id = e->wr_id,
                                    .status = (enum uiw_wc_status)e->status,
                                    .opcode = wc_opcode(e),
                                    .byte_len = e->status == UIW_WC_SUCCESS ? e->len : 0,
                                    .qp_num = qp->num,
                                    .qp_user = qp->user},
                             .qp = qp,
                             .sq_end = qp->sq_done};
    atomic_fetch_add_explicit(&qp->unseen, 1, memory_order_relaxed);
    if (!cq_push(qp->send_cq, &entry)) {
        atomic_fetch_sub_explicit(&qp->unseen, 1, memory_order_relaxed);
    }
}

static bool is_done(const struct send_wqe *e, uint64_t acked)
{
    return e->state == WQE_DONE || (e->state == WQE_LENT && acked >= e->done_at);
}

void qp_reap(struct uiw_qp *qp, uint64_t acked)
{
    while (qp->sq_done != qp->sq_next) {
        const struct send_wqe *e = wq_send(&qp->sq, qp->sq_done);
        if (!is_done(e, acked)) {
            break;
        }
        complete_send(qp, e);
    }
    /* Unsignalled requests behind the last completion have nobody to free them. */
    if (atomic_load_explicit(&qp->unseen, memory_order_acquire) == 0) {
        free_slots(qp, qp->sq_done);
    }
}

void qp_send_failed(struct uiw_qp *qp, uint32_t index, enum uiw_wc_status status)
{
    struct send_wqe *e = wq_send(&qp->sq, index);
    if (e->status == UIW_WC_SUCCESS) {
        e->status = (uint8_t)status;
    }
    e->state = WQE_DONE;
}

bool qp_take_recv(struct uiw_qp *qp)
{
    struct wq *q = qp->srq != NULL ? &qp->srq->rq : &qp->rq;
    if (ring_count(&q->ring) == 0) {
        return false;
    }
    const struct recv_wqe *e = wq_slot(q, ring_head(&q->ring));
    qp->recv.used = true;
    qp->recv.wr_id = e->wr_id;
    qp->recv.len = e->len;
    qp->recv.num_sge = e->num_sge;
    if (e->num_sge > 0) {
        memcpy(qp->recv.sge, e->sge, e->num_sge * sizeof *e->sge);
    }
    ring_pop(&q->ring, 1);
    if (qp->srq != NULL && ring_count(&q->ring) < qp->srq->limit) {
        qp->srq->limit = 0; /* armed for one event */
        struct uiw_async_event ev = {.type = UIW_ASYNC_SRQ_LIMIT,
                                     .srq = qp->srq,
                                     .text = "shared receive queue below its limit"};
        device_async(qp->dev, &ev);
    }
    return true;
}

void qp_complete_recv(struct uiw_qp *qp, const struct uiw_wc *wc)
{
    struct cq_entry entry = {.wc = *wc};
    entry.wc.wr_id = qp->recv.wr_id;
    entry.wc.opcode = UIW_WC_RECV;
    entry.wc.qp_num = qp->num;
    entry.wc.qp_user = qp->user;
    qp->recv.used = false;
    cq_push(qp->recv_cq, &entry);
}

static void flush_sends(struct uiw_qp *qp)
{
    uint32_t tail = atomic_load_explicit(&qp->sq.ring.tail, memory_order_acquire);
    bool failed = false;
    while (qp->sq_done != tail) {
        struct send_wqe *e = wq_send(&qp->sq, qp->sq_done);
        /* Behind a failure nothing counts as done, also what had left before (RFC 5040 sec 6.2.1). */
        if ((e->state != WQE_DONE || failed) && e->status == UIW_WC_SUCCESS) {
            e->status = UIW_WC_WR_FLUSH_ERR;
        }
        failed |= e->status != UIW_WC_SUCCESS;
        complete_send(qp, e);
    }
    qp->sq_next = tail;
}

void qp_flush(struct uiw_qp *qp)
{
    flush_sends(qp);
    struct uiw_wc wc = {.status = UIW_WC_WR_FLUSH_ERR};
    if (qp->recv.used) {
        qp_complete_recv(qp, &wc);
    }
    /* Receives of an SRQ belong to it, not to this QP. */
    while (qp->srq == NULL && qp_take_recv(qp)) {
        qp_complete_recv(qp, &wc);
    }
}

const char *uiw_wc_status_text(enum uiw_wc_status status)
{
    static const char *const text[] = {
        "success",
        "local length error",
        "local protection error",
        "local QP operation error",
        "work request flushed",
        "remote access error",
        "remote operation error",
        "fatal error",
        "memory window bind error",
    };
    return (size_t)status < ARRAY_LEN(text) ? text[status] : "unknown status";
}

const char *uiw_qp_state_text(enum uiw_qp_state state)
{
    static const char *const text[] = {"idle", "RTS", "closing", "error"};
    return (size_t)state < ARRAY_LEN(text) ? text[state] : "unknown state";
}
