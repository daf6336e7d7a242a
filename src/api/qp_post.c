/* SPDX-License-Identifier: MIT */
/* Posting to queue pairs: the program's side of the rings. */
#include <errno.h>

#include "api/error.h"
#include "api/qp.h"

#define WR_ID(wr) ((unsigned long long)(wr)->wr_id)

/* What the opcodes ask of a request. */
struct wr_rule {
    uint32_t max_sge;
    bool may_inline, ext;
};

static const struct wr_rule rules[] = {
    [UIW_WR_SEND] = {DEVICE_MAX_SGE, true, false},
    [UIW_WR_SEND_WITH_INV] = {DEVICE_MAX_SGE, true, false},
    [UIW_WR_RDMA_WRITE] = {DEVICE_MAX_SGE, true, false},
    [UIW_WR_RDMA_READ] = {1, false, false},
    [UIW_WR_RDMA_READ_WITH_INV] = {1, false, false},
    [UIW_WR_IMM] = {0, true, true},
    [UIW_WR_RDMA_WRITE_WITH_IMM] = {DEVICE_MAX_SGE, true, true},
    [UIW_WR_ATOMIC_FETCH_ADD] = {1, false, true},
    [UIW_WR_ATOMIC_CMP_SWAP] = {1, false, true},
    [UIW_WR_MASKED_ATOMIC_FETCH_ADD] = {1, false, true},
    [UIW_WR_MASKED_ATOMIC_CMP_SWAP] = {1, false, true},
    [UIW_WR_BIND_MW] = {0, false, false},
    [UIW_WR_REG_MR] = {0, false, false},
    [UIW_WR_LOCAL_INV] = {0, false, false},
};

/* What is checked before the sge list is looked at. */
static int check_opcode(const struct uiw_qp *qp, const struct uiw_send_wr *wr)
{
    if ((unsigned)wr->opcode >= ARRAY_LEN(rules)) {
        return fail(EINVAL, "uiw_qp_post_send: wr_id %llu: unknown opcode %d", WR_ID(wr),
                    (int)wr->opcode);
    }
    const struct wr_rule *r = &rules[wr->opcode];
    if (r->ext && !qp->dev->spec.ext) {
        return fail(EOPNOTSUPP, "uiw_qp_post_send: wr_id %llu: the device is open with ext=off",
                    WR_ID(wr));
    }
    bool as_inline = (wr->flags & UIW_SEND_INLINE) != 0;
    if ((as_inline && !r->may_inline) ||
        (r->max_sge < DEVICE_MAX_SGE && wr->num_sge > r->max_sge)) {
        return fail(EINVAL,
                    "uiw_qp_post_send: wr_id %llu: opcode %d takes %u sge and %sinline data",
                    WR_ID(wr), (int)wr->opcode, r->max_sge, r->may_inline ? "" : "no ");
    }
    if (!as_inline && wr->num_sge > qp->sq.max_sge) {
        return fail(EINVAL, "uiw_qp_post_send: wr_id %llu: %u sges, the limit is %u", WR_ID(wr),
                    wr->num_sge, qp->sq.max_sge);
    }
    return 0;
}

static int check_send(const struct uiw_qp *qp, const struct uiw_send_wr *wr, uint32_t len)
{
    const unsigned known =
        UIW_SEND_FENCE | UIW_SEND_SIGNALED | UIW_SEND_SOLICITED | UIW_SEND_INLINE;
    if ((wr->flags & ~known) != 0) {
        return fail(EINVAL, "uiw_qp_post_send: wr_id %llu: unknown flags 0x%x", WR_ID(wr),
                    wr->flags & ~known);
    }
    if ((wr->flags & UIW_SEND_INLINE) != 0 && len > qp->sq.max_inline) {
        return fail(EINVAL, "uiw_qp_post_send: wr_id %llu: %u octets inline, the limit is %u",
                    WR_ID(wr), len, qp->sq.max_inline);
    }
    /* RFC 7306 sec 5.1: 64 bits, aligned so. */
    if (wqe_is_atomic((unsigned)wr->opcode) &&
        (len != sizeof(uint64_t) || wr->remote_addr % 8 != 0)) {
        return fail(EINVAL,
                    "uiw_qp_post_send: wr_id %llu: an Atomic takes one sge of 8 octets and a "
                    "remote_addr aligned to 8",
                    WR_ID(wr));
    }
    return mem_wr_check(qp, wr);
}

static void copy_payload(struct send_wqe *e, const struct uiw_send_wr *wr)
{
    if ((wr->flags & UIW_SEND_INLINE) == 0) {
        if (wr->num_sge > 0) {
            memcpy(e->u.sge, wr->sg_list, wr->num_sge * sizeof *wr->sg_list);
        }
        return;
    }
    uint8_t *to = e->u.data;
    for (uint32_t i = 0; i < wr->num_sge; i++) {
        if (wr->sg_list[i].length > 0) {
            memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
            to += wr->sg_list[i].length;
        }
    }
}

static void fill_union(struct send_wqe *e, const struct uiw_send_wr *wr)
{
    if (mem_is_wr((unsigned)wr->opcode)) {
        mem_wr_fill(e, wr);
    } else if (wqe_is_atomic((unsigned)wr->opcode)) {
        e->u.atomic = (struct send_atomic){.sink = wr->sg_list[0], .args = wr->atomic};
    } else {
        copy_payload(e, wr);
    }
}

static int post_one(struct uiw_qp *qp, const struct uiw_send_wr *wr)
{
    uint32_t len;
    int err = check_opcode(qp, wr);
    if (err != 0) {
        return err;
    }
    if (!sge_total(wr->sg_list, wr->num_sge, &len)) {
        return fail(EINVAL, "uiw_qp_post_send: wr_id %llu: more than 2^32 - 1 octets", WR_ID(wr));
    }
    err = check_send(qp, wr, len);
    if (err != 0) {
        return err;
    }
    if (qp_state(qp) == UIW_QP_CLOSING) {
        return fail(ESHUTDOWN, "uiw_qp_post_send: the connection is being closed");
    }
    if (ring_room(&qp->sq.ring) == 0) {
        return fail(ENOMEM, "uiw_qp_post_send: the queue of %u is full", qp->sq.ring.cap);
    }
    struct send_wqe *e = wq_send(&qp->sq, ring_tail(&qp->sq.ring));
    e->wr_id = wr->wr_id;
    e->remote = wr->remote_addr;
    e->rkey = wr->opcode == UIW_WR_SEND_WITH_INV ? wr->invalidate : wr->rkey;
    e->len = len;
    e->opcode = (uint8_t)wr->opcode;
    e->flags = (uint8_t)(wr->flags | (qp->sig_all ? (unsigned)UIW_SEND_SIGNALED : 0u));
    e->state = WQE_POSTED;
    e->status = UIW_WC_SUCCESS;
    e->num_sge = wr->num_sge;
    e->done_at = 0;
    e->imm = wr->imm;
    fill_union(e, wr);
    ring_push(&qp->sq.ring, 1);
    return 0;
}

int uiw_qp_post_send(struct uiw_qp *qp, struct uiw_send_wr *wr, struct uiw_send_wr **bad)
{
    int err = loop_alive(qp->dev->loop, "uiw_qp_post_send");
    bool posted = false;
    if (err != 0) {
        return err;
    }
    pthread_mutex_lock(&qp->sq.lock);
    while (wr != NULL && (err = post_one(qp, wr)) == 0) {
        posted = true;
        wr = wr->next;
    }
    pthread_mutex_unlock(&qp->sq.lock);
    if (err != 0 && bad != NULL) {
        *bad = wr;
    }
    if (posted) {
        loop_post(qp->dev->loop, qp);
    }
    return err;
}

/* Only a QP that waits for receives, or flushes them, needs a look. */
static bool recv_needs_run(struct uiw_qp *qp)
{
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(&qp->rnr, memory_order_relaxed) || qp_state(qp) == UIW_QP_ERROR;
}

int uiw_qp_post_recv(struct uiw_qp *qp, struct uiw_recv_wr *wr, struct uiw_recv_wr **bad)
{
    if (qp->srq != NULL) {
        if (bad != NULL) {
            *bad = wr;
        }
        return fail(EINVAL, "uiw_qp_post_recv: the QP has an SRQ: post there");
    }
    int err = wq_post_recv(&qp->rq, "uiw_qp_post_recv", wr, bad);
    if (recv_needs_run(qp)) {
        loop_post(qp->dev->loop, qp);
    }
    return err;
}
