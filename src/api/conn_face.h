/* SPDX-License-Identifier: MIT */
/* What the rest of the API asks of connections, without their inside. The loop's lock is held. */
#ifndef UIW_API_CONN_FACE_H
#define UIW_API_CONN_FACE_H

#include "api/device.h"

struct conn_scratch *conn_scratch_new(void); /* NULL: no memory; freed by free() */

void conn_on_net(struct uiw_device *dev, const struct net_ready *r);
void conn_run_timers(struct uiw_device *dev);
void conn_sent(struct uiw_conn *c); /* see qp_sent() */
void conn_drop_all(struct uiw_device *dev);

/* The device has failed: every stream ends, with a Terminate 0/2/08 where one can be sent. */
void conn_fail_all(struct uiw_device *dev, const char *text);

/* The memory is going: no connection of the device refers to it any more. */
void conn_unlend_all(struct uiw_device *dev, const void *p, uint64_t n);

/* The QP has new work, or its completions were lost. */
void conn_run(struct uiw_conn *c);

/* Receives were posted to an SRQ that streams may be waiting for. */
void conn_resume_rnr(const struct uiw_srq *srq);

/* The stream is of no more use: reset. The last event says why. */
void conn_kill(struct uiw_conn *c, enum uiw_reason reason, const char *text);

/* The QP is going. */
void conn_detach_qp(struct uiw_conn *c);

#endif
