/* SPDX-License-Identifier: MIT */
/* Completion queues: filled by the holder of the loop's lock, emptied by the program. */
#ifndef UIW_API_CQ_H
#define UIW_API_CQ_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/device.h"
#include "base/ring.h"

enum { CQ_DISARMED, CQ_ARMED_SOLICITED, CQ_ARMED_ANY };

struct uiw_comp_channel {
    struct uiw_device *dev;
    struct notify notify;
    unsigned users; /* CQs; under the loop's lock */
};

struct uiw_qp;

/* A completion, and the slots of the send queue that come back when the program has seen it. */
struct cq_entry {
    struct uiw_wc wc;
    struct uiw_qp *qp; /* NULL: none */
    uint32_t sq_end;
};

struct uiw_cq {
    struct uiw_device *dev;
    struct uiw_comp_channel *channel;
    struct list node; /* on the channel when it has an event */
    void *user;
    unsigned users; /* QPs' ends; under the loop's lock */
    atomic_int armed;
    atomic_bool overflown;
    pthread_mutex_t lock; /* of consumers */
    struct ring ring;
    struct cq_entry *entry;
};

/* Adds a completion and raises the event that is armed. wc->status and the SOLICITED flag decide
 * whether it counts as solicited. When the CQ is full the completion is lost (false): the CQ is
 * marked, UIW_ASYNC_CQ_ERR raised, and every QP on it ends (qp_cq_failed). */
bool cq_push(struct uiw_cq *cq, const struct cq_entry *e);

/* The QP is going: its completions stay, but give no slots back. */
void cq_forget_qp(struct uiw_cq *cq, const struct uiw_qp *qp);

#endif
