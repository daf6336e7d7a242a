/* SPDX-License-Identifier: MIT */
/* Queue pairs and shared receive queues. Fields without a note belong to the holder of the loop's
 * lock. */
#ifndef UIW_API_QP_H
#define UIW_API_QP_H

#include "api/cq.h"
#include "api/memory.h"
#include "api/wq.h"

struct uiw_conn;

struct uiw_srq {
    struct uiw_pd *pd;
    struct wq rq;
    unsigned users;
    uint32_t limit; /* 0: not armed */
};

/* The receive that a Send message is being placed into. */
struct recv_now {
    bool used;
    uint64_t wr_id;
    uint32_t len;
    uint32_t num_sge;
    struct uiw_sge *sge; /* room for max_recv_sge */
};

struct uiw_qp {
    struct uiw_device *dev;
    struct list on_device;
    struct uiw_pd *pd;
    struct uiw_cq *send_cq, *recv_cq;
    struct uiw_srq *srq;
    void *user;
    uint32_t num;
    atomic_int state; /* enum uiw_qp_state; written under the lock */
    bool sig_all;
    bool cq_failed;        /* to be ended: completions were lost */
    atomic_bool rnr;       /* a Send waits for a receive; read by posters */
    struct uiw_conn *conn; /* or NULL */
    struct wq sq, rq;
    uint32_t sq_next;   /* first request that is not started */
    uint32_t sq_done;   /* first that is not completed; sq.ring.head is the first whose slot is not
                         free: one with a completion is, once the program has seen that */
    atomic_uint unseen; /* completions of sends in the CQ */
    struct recv_now recv;
    uint32_t ird, ord;
    struct list windows;        /* of type 2, bound by it */
    struct uiw_qp *next_posted; /* loop.posted */
    atomic_bool is_posted;
};

/* New work was posted, or something else asks for a look: sends, or flushes. */
void qp_run(struct uiw_qp *qp);
/* What loop.posting put off. */
void qp_sent(struct uiw_qp *qp);

/* Completes the request at the head of the SQ while heads are done; acked: stream offset up to which
 * TCP has acknowledged. */
void qp_reap(struct uiw_qp *qp, uint64_t acked);

/* The program has polled the completion of the request before sq_end. */
void qp_seen(struct uiw_qp *qp, uint32_t sq_end);

/* Into that state; flushes when it is UIW_QP_ERROR. */
void qp_set_state(struct uiw_qp *qp, enum uiw_qp_state state);
static inline enum uiw_qp_state qp_state(const struct uiw_qp *qp)
{
    return (enum uiw_qp_state)atomic_load_explicit(&qp->state, memory_order_relaxed);
}

/* Completes everything posted with UIW_WC_WR_FLUSH_ERR, in order, but for what has a status already. */
void qp_flush(struct uiw_qp *qp);

/* Gives the started or posted send at index that status; it completes in its turn. */
void qp_send_failed(struct uiw_qp *qp, uint32_t index, enum uiw_wc_status status);

/* Takes the next receive of the QP's own queue or SRQ into qp->recv; false: none. */
bool qp_take_recv(struct uiw_qp *qp);

/* Completes qp->recv. wc has status, byte_len, flags, invalidated, vendor_err. */
void qp_complete_recv(struct uiw_qp *qp, const struct uiw_wc *wc);

/* Whether the QP of that number has a stream, for the STag table of its device. */
bool qp_lives(const struct ddp_mem_table *t, uint32_t num);

/* Marks the QPs on a CQ that lost completions; they end at their next run. */
void qp_cq_failed(struct uiw_cq *cq);

#endif
