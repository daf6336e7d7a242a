/* SPDX-License-Identifier: MIT */
/* Requests that change memory objects in the order of a send queue. A posted one names them by their
 * STags: what the program has destroyed meanwhile is not found, never followed. */
#include <errno.h>

#include "api/error.h"
#include "api/qp.h"
#include "base/random.h"

#define WR_ID(wr) ((unsigned long long)(wr)->wr_id)

enum { KEY_MASK = 0xff };

/* --- posting --- */

static int bad_wr(const struct uiw_send_wr *wr, const char *why)
{
    return fail(EINVAL, "uiw_qp_post_send: wr_id %llu: %s", WR_ID(wr), why);
}

static int check_bind(const struct uiw_qp *qp, const struct uiw_send_wr *wr)
{
    const unsigned known = UIW_ACCESS_REMOTE_READ | UIW_ACCESS_REMOTE_WRITE |
                           UIW_ACCESS_REMOTE_ATOMIC | UIW_ACCESS_ZERO_BASED |
                           UIW_ACCESS_NO_REMOTE_INV;
    const struct uiw_bind *b = &wr->bind;
    if (b->mw == NULL || b->mw->o.pd->dev != qp->dev) {
        return bad_wr(wr, "no window of the QP's device");
    }
    if (b->mr == NULL ? b->length > 0 : b->mr->o.pd->dev != qp->dev) {
        return bad_wr(wr, "no region of the QP's device");
    }
    if (b->length == 0 && b->mw->o.kind == MEM_WINDOW_2) {
        return bad_wr(wr, "length 0 for a type 2 window");
    }
    if ((b->access & ~known) != 0) {
        return bad_wr(wr, "access that windows do not have");
    }
    return 0;
}

static int check_fast(const struct uiw_qp *qp, const struct uiw_send_wr *wr)
{
    const struct uiw_bind *b = &wr->bind;
    if (b->mr == NULL || b->mr->o.pd->dev != qp->dev || b->mr->o.kind != MEM_FAST) {
        return bad_wr(wr, "no region of uiw_mr_alloc() of the QP's device");
    }
    if (b->length > b->mr->max_length) {
        return bad_wr(wr, "longer than the region was allocated for");
    }
    return mem_check_region("uiw_qp_post_send", (const void *)(uintptr_t)b->addr, b->length,
                            b->access);
}

int mem_wr_check(const struct uiw_qp *qp, const struct uiw_send_wr *wr)
{
    switch (wr->opcode) {
    case UIW_WR_BIND_MW: return check_bind(qp, wr);
    case UIW_WR_REG_MR: return check_fast(qp, wr);
    default: return 0;
    }
}

/* The STag that the object will have: for a type 1 window one with a key that its peers have not seen
 * just before. */
static uint32_t next_stag(struct mem_obj *o, uint8_t key)
{
    uint32_t now = atomic_load_explicit(&o->told, memory_order_relaxed);
    if (o->kind == MEM_WINDOW_1) {
        key = (uint8_t)(now + 1 + random_u32() % KEY_MASK);
    }
    uint32_t stag = (now & ~(uint32_t)KEY_MASK) | key;
    atomic_store_explicit(&o->told, stag, memory_order_relaxed);
    return stag;
}

void mem_wr_fill(struct send_wqe *e, const struct uiw_send_wr *wr)
{
    const struct uiw_bind *b = &wr->bind;
    if (wr->opcode == UIW_WR_LOCAL_INV) {
        e->rkey = wr->invalidate;
        return;
    }
    bool window = wr->opcode == UIW_WR_BIND_MW;
    e->u.bind = (struct send_bind){.target = next_stag(window ? &b->mw->o : &b->mr->o, b->key),
                                   .region = b->mr != NULL ? uiw_mr_rkey(b->mr) : 0,
                                   .addr = b->addr,
                                   .length = b->length,
                                   .access = b->access};
}

/* --- carrying out --- */

/* The object whose STag is to become that, if this QP may change it. */
static struct mem_obj *target_of(struct uiw_qp *qp, const struct send_bind *b)
{
    struct ddp_mem *m = ddp_mem_find_index(&qp->dev->mem, b->target);
    if (m == NULL || m->pd != qp->pd->id) {
        return NULL;
    }
    return CONTAINER_OF(m, struct mem_obj, mem);
}

static bool reaches(const struct uiw_qp *qp, const struct ddp_mem *m)
{
    return m->pd == qp->pd->id && (m->stream == 0 || m->stream == qp->num);
}

/* The region that the window is to be bound to, if it may. */
static struct uiw_mr *region_of(struct uiw_qp *qp, const struct send_bind *b)
{
    struct ddp_mem *m = ddp_mem_find(&qp->dev->mem, b->region);
    if (m == NULL || !m->valid || !reaches(qp, m)) {
        return NULL;
    }
    struct mem_obj *o = CONTAINER_OF(m, struct mem_obj, mem);
    if (o->kind != MEM_REGION && o->kind != MEM_FAST) {
        return NULL;
    }
    struct uiw_mr *mr = CONTAINER_OF(o, struct uiw_mr, o);
    bool writes = (b->access & (UIW_ACCESS_REMOTE_WRITE | UIW_ACCESS_REMOTE_ATOMIC)) != 0;
    bool right = (mr->access & UIW_ACCESS_MW_BIND) != 0 &&
                 (!writes || (mr->access & UIW_ACCESS_LOCAL_WRITE) != 0);
    bool inside =
        b->addr >= m->to && b->addr - m->to <= m->len && b->length <= m->len - (b->addr - m->to);
    return right && inside ? mr : NULL;
}

static void open_window(struct uiw_qp *qp, struct uiw_mw *mw, struct uiw_mr *mr,
                        const struct send_bind *b)
{
    struct ddp_mem *m = &mw->o.mem, *whole = &mr->o.mem;
    bool type_2 = mw->o.kind == MEM_WINDOW_2;
    m->base = whole->base + (b->addr - whole->to);
    m->to = (b->access & UIW_ACCESS_ZERO_BASED) != 0 ? 0 : b->addr;
    m->len = b->length;
    m->rights = mem_rights(b->access);
    m->stream = type_2 ? qp->num : whole->stream;
    m->inv_ok = type_2 && (b->access & UIW_ACCESS_NO_REMOTE_INV) == 0;
    m->user = 0;
    m->parent = whole;
    m->valid = true;
    mr->windows++;
    if (type_2) {
        list_append(&qp->windows, &mw->on_qp);
    }
}

static bool bind_window(struct uiw_qp *qp, const struct send_bind *b)
{
    struct mem_obj *o = target_of(qp, b);
    if (o == NULL || (o->kind != MEM_WINDOW_1 && o->kind != MEM_WINDOW_2)) {
        return false;
    }
    if (o->kind == MEM_WINDOW_2 && o->mem.parent != NULL) {
        return false;
    }
    struct uiw_mr *mr = b->length > 0 ? region_of(qp, b) : NULL;
    if (b->length > 0 && mr == NULL) {
        return false;
    }
    mem_revoke(&o->mem);
    o->mem.stag = b->target;
    if (mr != NULL) {
        open_window(qp, CONTAINER_OF(o, struct uiw_mw, o), mr, b);
    }
    return true;
}

static bool register_fast(struct uiw_qp *qp, const struct send_bind *b)
{
    struct mem_obj *o = target_of(qp, b);
    if (o == NULL || o->kind != MEM_FAST || o->mem.valid) {
        return false;
    }
    struct uiw_mr *mr = CONTAINER_OF(o, struct uiw_mr, o);
    if (mr->windows > 0 || b->length > mr->max_length) {
        return false;
    }
    struct ddp_mem *m = &o->mem;
    m->stag = b->target;
    m->base = (uint8_t *)(uintptr_t)b->addr;
    m->len = b->length;
    mr_set_access(mr, b->access);
    return true;
}

static bool invalidate(struct uiw_qp *qp, uint32_t stag)
{
    struct ddp_mem *m = ddp_mem_find(&qp->dev->mem, stag);
    if (m == NULL || !reaches(qp, m)) {
        return false;
    }
    if (CONTAINER_OF(m, struct mem_obj, mem)->kind == MEM_WINDOW_1) {
        return false;
    }
    /* What the peer's Send has revoked just before is no fault of the program. */
    mem_revoke(m);
    return true;
}

enum uiw_wc_status mem_wr_run(struct uiw_qp *qp, const struct send_wqe *e)
{
    bool done;
    switch (e->opcode) {
    case UIW_WR_BIND_MW: done = bind_window(qp, &e->u.bind); break;
    case UIW_WR_REG_MR: done = register_fast(qp, &e->u.bind); break;
    default: done = invalidate(qp, e->rkey); break;
    }
    return done ? UIW_WC_SUCCESS : UIW_WC_MW_BIND_ERR;
}

int uiw_mw_bind(struct uiw_qp *qp, uint64_t wr_id, unsigned flags, const struct uiw_bind *bind)
{
    struct uiw_send_wr wr = {
        .wr_id = wr_id, .opcode = UIW_WR_BIND_MW, .flags = flags, .bind = *bind};
    return uiw_qp_post_send(qp, &wr, NULL);
}
