/* SPDX-License-Identifier: MIT */
/* Protection domains, regions, windows. */
#ifndef UIW_API_MEMORY_H
#define UIW_API_MEMORY_H

#include <stdatomic.h>

#include "api/device.h"

struct uiw_pd {
    struct uiw_device *dev;
    uint32_t id;
    unsigned children; /* regions, windows, SRQs, QPs; under the loop's lock */
};

enum mem_kind { MEM_REGION, MEM_FAST, MEM_WINDOW_1, MEM_WINDOW_2 };

/* All that the STag table of a device holds are these. Written under the loop's lock. */
struct mem_obj {
    struct ddp_mem mem;
    enum mem_kind kind;
    struct uiw_pd *pd;
    atomic_uint
        told; /* the STag by the last posted request, which may not have been carried out yet */
};

struct uiw_mr {
    struct mem_obj o;
    unsigned access;
    unsigned windows;    /* bound to it */
    uint64_t max_length; /* of uiw_mr_alloc() */
};

struct uiw_mw {
    struct mem_obj o; /* bound while o.mem.parent is there */
    struct list on_qp;
};

/* What a QP may do with an sge or its peer with an STag goes through ddp_mem_check() each time: nothing
 * keeps a pointer into a region past one segment, save TCP for what was lent to it. */

/* --- memory.c --- */

/* The rights that access gives. */
uint32_t mem_rights(unsigned access);

/* Whether a region of length octets at addr may be had with that access; -EINVAL with text. */
int mem_check_region(const char *who, const void *addr, uint64_t length, unsigned access);

/* Makes a region whose memory is filled in valid, with that access. */
void mr_set_access(struct uiw_mr *mr, unsigned access);

/* Enters o, all but its STag filled in, under a fresh STag. -ENOMEM with text. */
int mem_enter(const char *who, struct mem_obj *o);
void mem_leave(struct mem_obj *o); /* the lock is held */

/* --- window.c --- */

/* The region or window is no longer valid; a window is bound no longer. The lock is held. */
void mem_revoke(struct ddp_mem *m);

/* --- mem_wr.c: UIW_WR_BIND_MW, REG_MR, LOCAL_INV --- */

struct uiw_qp;
struct send_wqe;

static inline bool mem_is_wr(unsigned opcode)
{
    return opcode >= UIW_WR_BIND_MW && opcode <= UIW_WR_LOCAL_INV;
}

/* What can be told when it is posted; -EINVAL with text. */
int mem_wr_check(const struct uiw_qp *qp, const struct uiw_send_wr *wr);
void mem_wr_fill(struct send_wqe *e, const struct uiw_send_wr *wr);

/* Does it; the lock is held. UIW_WC_SUCCESS or UIW_WC_MW_BIND_ERR, and then nothing has changed. */
enum uiw_wc_status mem_wr_run(struct uiw_qp *qp, const struct send_wqe *e);

#endif
