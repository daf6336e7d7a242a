/* SPDX-License-Identifier: MIT */
/* Shared receive queues. */
#include <errno.h>
#include <stdlib.h>

#include "api/conn_face.h"
#include "api/error.h"
#include "api/qp.h"

int uiw_srq_create(struct uiw_pd *pd, const struct uiw_srq_attr *attr, struct uiw_srq **out)
{
    if (attr->max_wr == 0 || attr->max_wr > DEVICE_MAX_WR || attr->max_sge > DEVICE_MAX_SGE) {
        return fail(EINVAL, "uiw_srq_create: max_wr %u (1..%d), max_sge %u (0..%d)", attr->max_wr,
                    DEVICE_MAX_WR, attr->max_sge, DEVICE_MAX_SGE);
    }
    struct uiw_srq *srq = calloc(1, sizeof *srq);
    if (srq == NULL) {
        return fail(ENOMEM, "uiw_srq_create: out of memory");
    }
    srq->pd = pd;
    srq->limit = attr->limit;
    srq->rq.max_sge = max_u32(attr->max_sge, 1);
    if (wq_init(&srq->rq, attr->max_wr, recv_wqe_size(srq->rq.max_sge)) != 0) {
        free(srq);
        return fail(ENOMEM, "uiw_srq_create: out of memory");
    }
    loop_lock(pd->dev->loop);
    pd->children++;
    loop_unlock(pd->dev->loop);
    *out = srq;
    return 0;
}

int uiw_srq_destroy(struct uiw_srq *srq)
{
    struct uiw_device *dev = srq->pd->dev;
    loop_lock(dev->loop);
    unsigned left = srq->users;
    if (left == 0) {
        srq->pd->children--;
        device_async_forget_srq(dev, srq);
    }
    loop_unlock(dev->loop);
    if (left > 0) {
        return fail(EBUSY, "uiw_srq_destroy: %u QPs use the SRQ", left);
    }
    wq_fini(&srq->rq);
    free(srq);
    return 0;
}

int uiw_srq_arm(struct uiw_srq *srq, uint32_t limit)
{
    if (limit > srq->rq.ring.cap) {
        return fail(EINVAL, "uiw_srq_arm: limit %u, the queue has %u", limit, srq->rq.ring.cap);
    }
    loop_lock(srq->pd->dev->loop);
    srq->limit = limit;
    loop_unlock(srq->pd->dev->loop);
    return 0;
}

int uiw_srq_post_recv(struct uiw_srq *srq, struct uiw_recv_wr *wr, struct uiw_recv_wr **bad)
{
    int err = wq_post_recv(&srq->rq, "uiw_srq_post_recv", wr, bad);
    /* Streams that stand still for want of a receive: which one gets it is the loop's choice. */
    if (srq->pd->dev->spec.rnr_s > 0) {
        loop_lock(srq->pd->dev->loop);
        conn_resume_rnr(srq);
        loop_unlock(srq->pd->dev->loop);
    }
    return err;
}
