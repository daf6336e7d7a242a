/* SPDX-License-Identifier: MIT */
/* Inside the part of uiw.h that is built over verbs. */
#ifndef UIW_TESTS_VERBS_INT_H
#define UIW_TESTS_VERBS_INT_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "api/uiw.h"
#include "verbs_api.h"

struct uiw_device {
    struct ibv_context *ctx;
    struct rdma_event_channel *cm;
};

struct uiw_pd {
    struct ibv_pd *pd;
    struct uiw_device *dev;
};

struct uiw_mr {
    struct ibv_mr *mr;
};

struct uiw_comp_channel {
    struct ibv_comp_channel *ch;
};

struct uiw_cq {
    struct ibv_cq *cq;
};

struct uiw_srq {
    struct ibv_srq *srq;
};

/* uiw.h lets requests wait for the connection, verbs do not. */
enum { WAITING = 128 };

struct uiw_qp {
    struct ibv_qp *qp;
    void *user;
    bool connected;
    unsigned waiting;
    struct ibv_send_wr wr[WAITING];
    struct ibv_sge sge[WAITING];
};

struct uiw_event_channel {
    struct uiw_device *dev;
};

struct uiw_listener {
    struct rdma_cm_id *id[2]; /* of IPv4 and of IPv6 */
};

struct uiw_conn {
    struct rdma_cm_id *id;
    struct uiw_qp *qp;
    struct uiw_conn_param param; /* of a connect that is on its way */
    uint8_t pd[UIW_PRIVATE_MAX];
    bool asked;
};

/* Keeps the text for uiw_error(); returns -err. */
int verbs_fail(int err, const char *what);

/* What was posted before the connection was up goes out. */
void verbs_connected(struct uiw_qp *qp);

#endif
