/* SPDX-License-Identifier: MIT */
#include "api/wq.h"

#include <errno.h>
#include <stdlib.h>

#include "api/error.h"

int wq_init(struct wq *q, uint32_t entries, size_t slot_size)
{
    uint32_t cap = ring_capacity(entries > 0 ? entries : 1);
    q->stride = (slot_size + 15) & ~(size_t)15;
    q->slots = calloc(cap, q->stride);
    if (q->slots == NULL) {
        return -ENOMEM;
    }
    ring_init(&q->ring, cap);
    pthread_mutex_init(&q->lock, NULL);
    return 0;
}

void wq_fini(struct wq *q)
{
    if (q->slots != NULL) {
        pthread_mutex_destroy(&q->lock);
        free(q->slots);
    }
}

bool sge_total(const struct uiw_sge *sge, uint32_t num, uint32_t *total)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < num; i++) {
        sum += sge[i].length;
    }
    *total = (uint32_t)sum;
    return sum <= DEVICE_MAX_MSG;
}

static int post_one(struct wq *q, const char *who, const struct uiw_recv_wr *wr, uint32_t index)
{
    if (wr->num_sge > q->max_sge) {
        return fail(EINVAL, "%s: wr_id %llu: %u sges, the limit is %u", who,
                    (unsigned long long)wr->wr_id, wr->num_sge, q->max_sge);
    }
    struct recv_wqe *e = wq_slot(q, index);
    if (!sge_total(wr->sg_list, wr->num_sge, &e->len)) {
        return fail(EINVAL, "%s: wr_id %llu: more than 2^32 - 1 octets", who,
                    (unsigned long long)wr->wr_id);
    }
    e->wr_id = wr->wr_id;
    e->num_sge = wr->num_sge;
    if (wr->num_sge > 0) {
        memcpy(e->sge, wr->sg_list, wr->num_sge * sizeof *wr->sg_list);
    }
    return 0;
}

int wq_post_recv(struct wq *q, const char *who, struct uiw_recv_wr *wr, struct uiw_recv_wr **bad)
{
    int err = 0;
    pthread_mutex_lock(&q->lock);
    for (; wr != NULL && err == 0; wr = err == 0 ? wr->next : wr) {
        if (ring_room(&q->ring) == 0) {
            err = fail(ENOMEM, "%s: the queue of %u is full", who, q->ring.cap);
            break;
        }
        err = post_one(q, who, wr, ring_tail(&q->ring));
        if (err == 0) {
            ring_push(&q->ring, 1);
        }
    }
    pthread_mutex_unlock(&q->lock);
    if (err != 0 && bad != NULL) {
        *bad = wr;
    }
    return err;
}
