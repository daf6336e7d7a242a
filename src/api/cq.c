/* SPDX-License-Identifier: MIT */
#include "api/cq.h"

#include <errno.h>
#include <stdlib.h>

#include "api/error.h"
#include "api/qp.h"

/* --- filling --- */

static void cq_overflow(struct uiw_cq *cq)
{
    if (atomic_exchange(&cq->overflown, true)) {
        return;
    }
    struct uiw_async_event ev = {.type = UIW_ASYNC_CQ_ERR,
                                 .user = cq->user,
                                 .text = "completion queue overflow: completions were lost"};
    device_async(cq->dev, &ev);
    qp_cq_failed(cq);
}

static void announce(struct uiw_cq *cq, const struct uiw_wc *wc)
{
    if (cq->channel == NULL) {
        return;
    }
    /* Against uiw_cq_arm(): either it sees this completion in its next poll, or we see it armed. */
    atomic_thread_fence(memory_order_seq_cst);
    int armed = atomic_load_explicit(&cq->armed, memory_order_relaxed);
    if (armed == CQ_DISARMED) {
        return;
    }
    bool solicited = wc->status != UIW_WC_SUCCESS || (wc->flags & UIW_WC_SOLICITED) != 0;
    if (armed == CQ_ARMED_ANY || solicited) {
        if (atomic_exchange(&cq->armed, CQ_DISARMED) != CQ_DISARMED) {
            notify_raise(&cq->channel->notify, &cq->node);
        }
    }
}

bool cq_push(struct uiw_cq *cq, const struct cq_entry *e)
{
    if (ring_room(&cq->ring) == 0) {
        cq_overflow(cq);
        return false;
    }
    cq->entry[ring_slot(&cq->ring, ring_tail(&cq->ring))] = *e;
    ring_push(&cq->ring, 1);
    announce(cq, &e->wc);
    return true;
}

void cq_forget_qp(struct uiw_cq *cq, const struct uiw_qp *qp)
{
    pthread_mutex_lock(&cq->lock);
    uint32_t head = ring_head(&cq->ring), n = ring_count(&cq->ring);
    for (uint32_t i = 0; i < n; i++) {
        struct cq_entry *e = &cq->entry[ring_slot(&cq->ring, head + i)];
        if (e->qp == qp) {
            e->qp = NULL;
        }
    }
    pthread_mutex_unlock(&cq->lock);
}

/* --- taking --- */

static int take(struct uiw_cq *cq, int max, struct uiw_wc *wc)
{
    if (ring_count(&cq->ring) == 0) {
        return 0; /* most polls find nothing, and should cost nothing */
    }
    pthread_mutex_lock(&cq->lock);
    int n = (int)min_u32(ring_count(&cq->ring), (uint32_t)max);
    uint32_t head = ring_head(&cq->ring);
    for (int i = 0; i < n; i++) {
        const struct cq_entry *e = &cq->entry[ring_slot(&cq->ring, head + (uint32_t)i)];
        wc[i] = e->wc;
        if (e->qp != NULL) {
            qp_seen(e->qp, e->sq_end);
        }
    }
    ring_pop(&cq->ring, (uint32_t)n);
    pthread_mutex_unlock(&cq->lock);
    return n;
}

int uiw_cq_poll(struct uiw_cq *cq, int max, struct uiw_wc *wc)
{
    if (max <= 0) {
        return max == 0 ? 0 : fail(EINVAL, "uiw_cq_poll: max %d", max);
    }
    int n = take(cq, max, wc);
    if (n == 0) {
        loop_try_turn(cq->dev->loop);
        n = take(cq, max, wc);
    }
    if (n == 0 && atomic_load_explicit(&cq->overflown, memory_order_relaxed) &&
        atomic_exchange(&cq->overflown, false)) {
        return fail(EOVERFLOW, "uiw_cq_poll: the CQ overflowed, completions were lost");
    }
    return n;
}

int uiw_cq_arm(struct uiw_cq *cq, bool solicited_only)
{
    if (cq->channel == NULL) {
        return fail(EINVAL, "uiw_cq_arm: the CQ was created without a channel");
    }
    int want = solicited_only ? CQ_ARMED_SOLICITED : CQ_ARMED_ANY;
    int now = atomic_load(&cq->armed);
    /* A second, narrower arm does not take the wider one back. */
    while (now < want && !atomic_compare_exchange_weak(&cq->armed, &now, want)) {
    }
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&cq->channel->notify.driven, memory_order_relaxed)) {
        loop_before_wait(cq->dev->loop);
    }
    return 0;
}

/* --- life --- */

static int check_cqe(uint32_t cqe)
{
    if (cqe == 0 || cqe > DEVICE_MAX_CQE) {
        return fail(EINVAL, "uiw_cq_create: %u entries, expected 1..%d", cqe, DEVICE_MAX_CQE);
    }
    return 0;
}

int uiw_cq_create(struct uiw_device *dev, uint32_t cqe, struct uiw_comp_channel *ch, void *user,
                  struct uiw_cq **out)
{
    int err = check_cqe(cqe);
    if (err != 0) {
        return err;
    }
    struct uiw_cq *cq = calloc(1, sizeof *cq);
    uint32_t cap = ring_capacity(cqe);
    if (cq != NULL) {
        cq->entry = calloc(cap, sizeof *cq->entry);
    }
    if (cq == NULL || cq->entry == NULL) {
        free(cq);
        return fail(ENOMEM, "uiw_cq_create: out of memory");
    }
    ring_init(&cq->ring, cap);
    pthread_mutex_init(&cq->lock, NULL);
    list_init(&cq->node);
    cq->dev = dev;
    cq->channel = ch;
    cq->user = user;
    loop_lock(dev->loop);
    device_ref(dev);
    if (ch != NULL) {
        ch->users++;
    }
    loop_unlock(dev->loop);
    *out = cq;
    return 0;
}

int uiw_cq_destroy(struct uiw_cq *cq)
{
    struct uiw_device *dev = cq->dev;
    loop_lock(dev->loop);
    unsigned left = cq->users;
    if (left == 0) {
        device_unref(dev);
        if (cq->channel != NULL) {
            cq->channel->users--;
            notify_drop(&cq->channel->notify, &cq->node);
        }
    }
    loop_unlock(dev->loop);
    if (left > 0) {
        return fail(EBUSY, "uiw_cq_destroy: QPs still use the CQ");
    }
    pthread_mutex_destroy(&cq->lock);
    free(cq->entry);
    free(cq);
    return 0;
}

/* --- channels --- */

int uiw_comp_channel_create(struct uiw_device *dev, struct uiw_comp_channel **out)
{
    struct uiw_comp_channel *ch = calloc(1, sizeof *ch);
    if (ch == NULL) {
        return fail(ENOMEM, "uiw_comp_channel_create: out of memory");
    }
    int err = device_notify_init(dev, &ch->notify);
    if (err != 0) {
        free(ch);
        return err;
    }
    ch->dev = dev;
    *out = ch;
    return 0;
}

int uiw_comp_channel_destroy(struct uiw_comp_channel *ch)
{
    unsigned left = device_notify_fini(ch->dev, &ch->notify, &ch->users);
    if (left > 0) {
        return fail(EBUSY, "uiw_comp_channel_destroy: %u CQs use the channel", left);
    }
    free(ch);
    return 0;
}

int uiw_comp_channel_fd(const struct uiw_comp_channel *ch)
{
    return ch->notify.fd;
}

int uiw_comp_channel_get(struct uiw_comp_channel *ch, struct uiw_cq **cq, void **cq_user)
{
    struct list *node;
    int err = notify_get(&ch->notify, &node);
    if (err != 0) {
        return err;
    }
    *cq = CONTAINER_OF(node, struct uiw_cq, node);
    if (cq_user != NULL) {
        *cq_user = (*cq)->user;
    }
    return 0;
}
