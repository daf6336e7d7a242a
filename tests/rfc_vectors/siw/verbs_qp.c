/* SPDX-License-Identifier: MIT */
/* Completions and queue pairs of uiw.h over verbs. */
#include <errno.h>
#include <stdlib.h>

#include "verbs_int.h"

enum { OP_SHIFT = 56 };

/* --- completions --- */

int uiw_comp_channel_create(struct uiw_device *dev, struct uiw_comp_channel **out)
{
    struct uiw_comp_channel *ch = calloc(1, sizeof *ch);
    if (ch != NULL) {
        ch->ch = ibv_create_comp_channel(dev->ctx);
    }
    *out = ch;
    return ch != NULL && ch->ch != NULL ? 0 : verbs_fail(ENOMEM, "completion channel");
}

int uiw_comp_channel_destroy(struct uiw_comp_channel *ch)
{
    ibv_destroy_comp_channel(ch->ch);
    free(ch);
    return 0;
}

int uiw_comp_channel_fd(const struct uiw_comp_channel *ch)
{
    return ch->ch->fd;
}

int uiw_comp_channel_get(struct uiw_comp_channel *ch, struct uiw_cq **cq, void **cq_user)
{
    struct ibv_cq *got;
    void *user;
    if (ibv_get_cq_event(ch->ch, &got, &user) != 0) {
        return -EAGAIN;
    }
    ibv_ack_cq_events(got, 1);
    *cq = user;
    *cq_user = NULL;
    return 0;
}

int uiw_cq_create(struct uiw_device *dev, uint32_t cqe, struct uiw_comp_channel *ch, void *user,
                  struct uiw_cq **out)
{
    (void)user;
    struct uiw_cq *cq = calloc(1, sizeof *cq);
    if (cq != NULL) {
        cq->cq = ibv_create_cq(dev->ctx, (int)cqe, cq, ch != NULL ? ch->ch : NULL, 0);
    }
    *out = cq;
    return cq != NULL && cq->cq != NULL ? 0 : verbs_fail(ENOMEM, "CQ");
}

int uiw_cq_destroy(struct uiw_cq *cq)
{
    int err = ibv_destroy_cq(cq->cq);
    free(cq);
    return err != 0 ? verbs_fail(err, "CQ") : 0;
}

int uiw_cq_arm(struct uiw_cq *cq, bool solicited_only)
{
    int err = ibv_req_notify_cq(cq->cq, solicited_only);
    return err != 0 ? verbs_fail(err, "arm") : 0;
}

/* A completion names its QP by number only. */
static struct {
    uint32_t num;
    void *user;
} qps[64];
static unsigned qps_next;

static void *user_of(uint32_t num)
{
    for (size_t i = 0; i < sizeof qps / sizeof qps[0]; i++) {
        if (qps[i].num == num) {
            return qps[i].user;
        }
    }
    return NULL;
}

static enum uiw_wc_status status_of(enum ibv_wc_status s)
{
    switch (s) {
    case IBV_WC_SUCCESS: return UIW_WC_SUCCESS;
    case IBV_WC_WR_FLUSH_ERR: return UIW_WC_WR_FLUSH_ERR;
    case IBV_WC_LOC_LEN_ERR: return UIW_WC_LOC_LEN_ERR;
    default: return UIW_WC_FATAL_ERR;
    }
}

/* A failed completion has no opcode: it is in the number. */
int uiw_cq_poll(struct uiw_cq *cq, int max, struct uiw_wc *wc)
{
    struct ibv_wc got;
    int n = max > 0 ? ibv_poll_cq(cq->cq, 1, &got) : 0;
    if (n <= 0) {
        return 0;
    }
    *wc = (struct uiw_wc){.wr_id = got.wr_id & 0xffffffff,
                          .status = status_of(got.status),
                          .opcode = (enum uiw_wc_opcode)(got.wr_id >> OP_SHIFT),
                          .byte_len = got.byte_len,
                          .qp_user = user_of(got.qp_num)};
    if (got.status == IBV_WC_SUCCESS && (got.wc_flags & IBV_WC_WITH_INV) != 0) {
        wc->flags |= UIW_WC_WITH_INV;
        wc->invalidated = got.invalidated_rkey;
    }
    return 1;
}

/* --- queue pairs --- */

int uiw_srq_create(struct uiw_pd *pd, const struct uiw_srq_attr *attr, struct uiw_srq **out)
{
    (void)pd;
    (void)attr;
    (void)out;
    return verbs_fail(EOPNOTSUPP, "SRQ");
}

int uiw_srq_destroy(struct uiw_srq *srq)
{
    (void)srq;
    return 0;
}

int uiw_srq_post_recv(struct uiw_srq *srq, struct uiw_recv_wr *wr, struct uiw_recv_wr **bad)
{
    (void)srq;
    (void)wr;
    (void)bad;
    return verbs_fail(EOPNOTSUPP, "SRQ");
}

int uiw_qp_create(struct uiw_pd *pd, const struct uiw_qp_attr *a, struct uiw_qp **out)
{
    struct uiw_qp *qp = calloc(1, sizeof *qp);
    struct ibv_qp_init_attr attr = {.qp_context = qp,
                                    .qp_type = IBV_QPT_RC,
                                    .send_cq = a->send_cq->cq,
                                    .recv_cq = a->recv_cq->cq,
                                    .cap = {.max_send_wr = a->max_send_wr,
                                            .max_recv_wr = a->max_recv_wr,
                                            .max_send_sge = a->max_send_sge,
                                            .max_recv_sge = a->max_recv_sge,
                                            .max_inline_data = a->max_inline}};
    if (qp != NULL) {
        qp->user = a->user;
        qp->qp = ibv_create_qp(pd->pd, &attr);
    }
    if (qp == NULL || qp->qp == NULL) {
        free(qp);
        return verbs_fail(errno, "QP");
    }
    qps[qps_next].num = qp->qp->qp_num;
    qps[qps_next].user = a->user;
    qps_next = (qps_next + 1) % (unsigned)(sizeof qps / sizeof qps[0]);
    *out = qp;
    return 0;
}

int uiw_qp_destroy(struct uiw_qp *qp)
{
    int err = ibv_destroy_qp(qp->qp);
    free(qp);
    return err != 0 ? verbs_fail(err, "QP") : 0;
}

int uiw_qp_error(struct uiw_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    int err = ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE);
    return err != 0 ? verbs_fail(err, "QP to error") : 0;
}

int uiw_qp_post_recv(struct uiw_qp *qp, struct uiw_recv_wr *wr, struct uiw_recv_wr **bad)
{
    (void)bad;
    struct ibv_sge sge = {
        .addr = wr->sg_list->addr, .length = wr->sg_list->length, .lkey = wr->sg_list->lkey};
    struct ibv_recv_wr r = {.wr_id = (uint64_t)UIW_WC_RECV << OP_SHIFT | wr->wr_id,
                            .sg_list = &sge,
                            .num_sge = 1},
                       *b;
    int err = ibv_post_recv(qp->qp, &r, &b);
    return err != 0 ? verbs_fail(err, "post receive") : 0;
}

static bool opcode_of(const struct uiw_send_wr *wr, struct ibv_send_wr *s)
{
    enum uiw_wc_opcode op = UIW_WC_SEND;
    s->opcode = IBV_WR_SEND;
    switch (wr->opcode) {
    case UIW_WR_SEND: break;
    case UIW_WR_SEND_WITH_INV:
        s->opcode = IBV_WR_SEND_WITH_INV;
        s->invalidate_rkey = wr->invalidate;
        break;
    case UIW_WR_RDMA_WRITE:
        s->opcode = IBV_WR_RDMA_WRITE;
        op = UIW_WC_RDMA_WRITE;
        break;
    case UIW_WR_RDMA_READ:
        s->opcode = IBV_WR_RDMA_READ;
        op = UIW_WC_RDMA_READ;
        break;
    default: return false;
    }
    if (s->opcode == IBV_WR_RDMA_WRITE || s->opcode == IBV_WR_RDMA_READ) {
        s->wr.rdma.remote_addr = wr->remote_addr;
        s->wr.rdma.rkey = wr->rkey;
    }
    s->wr_id = (uint64_t)op << OP_SHIFT | wr->wr_id;
    return true;
}

int uiw_qp_post_send(struct uiw_qp *qp, struct uiw_send_wr *wr, struct uiw_send_wr **bad)
{
    (void)bad;
    struct ibv_sge sge = {
        .addr = wr->sg_list->addr, .length = wr->sg_list->length, .lkey = wr->sg_list->lkey};
    struct ibv_send_wr s = {.sg_list = &sge, .num_sge = sge.length > 0 ? 1 : 0}, *b;
    int flags = 0;
    if (!opcode_of(wr, &s)) {
        return verbs_fail(EOPNOTSUPP, "opcode");
    }
    flags |= (wr->flags & UIW_SEND_SIGNALED) != 0 ? IBV_SEND_SIGNALED : 0;
    flags |= (wr->flags & UIW_SEND_SOLICITED) != 0 ? IBV_SEND_SOLICITED : 0;
    flags |= (wr->flags & UIW_SEND_FENCE) != 0 ? IBV_SEND_FENCE : 0;
    flags |= (wr->flags & UIW_SEND_INLINE) != 0 ? IBV_SEND_INLINE : 0;
    s.send_flags = (unsigned)flags;
    if (!qp->connected && qp->waiting < WAITING) {
        qp->sge[qp->waiting] = sge;
        s.sg_list = &qp->sge[qp->waiting];
        qp->wr[qp->waiting++] = s;
        return 0;
    }
    int err = ibv_post_send(qp->qp, &s, &b);
    return err != 0 ? verbs_fail(err, "post send") : 0;
}

void verbs_connected(struct uiw_qp *qp)
{
    struct ibv_send_wr *bad;
    qp->connected = true;
    for (unsigned i = 0; i < qp->waiting; i++) {
        ibv_post_send(qp->qp, &qp->wr[i], &bad);
    }
    qp->waiting = 0;
}
