/* SPDX-License-Identifier: MIT */
/* Work queues: fixed slots that programs fill and the loop empties. */
#ifndef UIW_API_WQ_H
#define UIW_API_WQ_H

#include <pthread.h>

#include "api/device.h"
#include "base/ring.h"

enum wqe_state {
    WQE_POSTED,
    WQE_STARTED, /* being cut into FPDUs, or a Read awaiting its response */
    WQE_LENT,    /* all queued; done when done_at is acknowledged */
    WQE_DONE,
};

struct send_atomic {
    struct uiw_sge sink;
    struct uiw_atomic args;
};

/* BIND_MW, REG_MR. */
struct send_bind {
    uint32_t target; /* the STag that the window or region is to have */
    uint32_t region; /* BIND_MW: the region's STag */
    uint64_t addr, length;
    unsigned access;
};

/* A posted send. What was posted is copied: the program's structs are free after the call. */
struct send_wqe {
    uint64_t wr_id;
    uint64_t remote;
    uint64_t done_at; /* stream offset */
    uint64_t imm;
    uint32_t rkey; /* or the STag to invalidate */
    uint32_t len;
    uint8_t opcode; /* enum uiw_wr_opcode */
    uint8_t flags;  /* enum uiw_send_flags, SIGNALED worked out */
    uint8_t state;
    uint8_t status; /* enum uiw_wc_status, once done */
    uint32_t num_sge;
    union { /* inline data takes the room of the sge list: the two limits are one (bugs Q06) */
        struct uiw_sge sge[1];
        uint8_t data[1];
        struct send_atomic atomic;
        struct send_bind bind;
    } u;
};

static inline bool wqe_is_atomic(unsigned opcode)
{
    return opcode >= UIW_WR_ATOMIC_FETCH_ADD && opcode <= UIW_WR_MASKED_ATOMIC_CMP_SWAP;
}

static inline bool wqe_is_read(unsigned opcode)
{
    return opcode == UIW_WR_RDMA_READ || opcode == UIW_WR_RDMA_READ_WITH_INV;
}

struct recv_wqe {
    uint64_t wr_id;
    uint32_t len;
    uint32_t num_sge;
    struct uiw_sge sge[1];
};

struct wq {
    struct ring ring;
    pthread_mutex_t lock; /* of producers */
    uint8_t *slots;
    size_t stride;
    uint32_t max_sge, max_inline;
};

/* extra: octets of payload or sges that a slot holds behind its head. -ENOMEM. */
int wq_init(struct wq *q, uint32_t entries, size_t slot_size);
void wq_fini(struct wq *q);

static inline void *wq_slot(const struct wq *q, uint32_t index)
{
    return q->slots + (size_t)ring_slot(&q->ring, index) * q->stride;
}

static inline struct send_wqe *wq_send(const struct wq *q, uint32_t index)
{
    return wq_slot(q, index);
}

static inline size_t send_wqe_size(uint32_t max_sge, uint32_t max_inline)
{
    size_t sges = (size_t)max_sge * sizeof(struct uiw_sge);
    size_t room = offsetof(struct send_wqe, u) + (sges > max_inline ? sges : max_inline);
    return room > sizeof(struct send_wqe) ? room : sizeof(struct send_wqe);
}

static inline size_t recv_wqe_size(uint32_t max_sge)
{
    return offsetof(struct recv_wqe, sge) + (size_t)max_sge * sizeof(struct uiw_sge);
}

/* Adds up an sge list; false when the sum passes 2^32 - 1 (bugs Q07). */
bool sge_total(const struct uiw_sge *sge, uint32_t num, uint32_t *total);

/* Posts a chain of receives. *bad and the errors as uiw_qp_post_recv() says. */
int wq_post_recv(struct wq *q, const char *who, struct uiw_recv_wr *wr, struct uiw_recv_wr **bad);

#endif
