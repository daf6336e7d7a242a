/* SPDX-License-Identifier: MIT */
#include "api/memory.h"

#include <errno.h>
#include <stdlib.h>

#include "api/conn_face.h"
#include "api/error.h"
#include "api/qp.h"
#include "base/random.h"

int uiw_pd_create(struct uiw_device *dev, struct uiw_pd **out)
{
    struct uiw_pd *pd = calloc(1, sizeof *pd);
    if (pd == NULL) {
        return fail(ENOMEM, "uiw_pd_create: out of memory");
    }
    pd->dev = dev;
    loop_lock(dev->loop);
    pd->id = ++dev->next_pd;
    device_ref(dev);
    loop_unlock(dev->loop);
    *out = pd;
    return 0;
}

int uiw_pd_destroy(struct uiw_pd *pd)
{
    struct uiw_device *dev = pd->dev;
    loop_lock(dev->loop);
    unsigned left = pd->children;
    if (left == 0) {
        device_unref(dev);
    }
    loop_unlock(dev->loop);
    if (left > 0) {
        return fail(EBUSY, "uiw_pd_destroy: %u objects of the PD are left", left);
    }
    free(pd);
    return 0;
}

/* --- regions --- */

uint32_t mem_rights(unsigned access)
{
    uint32_t rights = 0;
    rights |= (access & UIW_ACCESS_LOCAL_WRITE) != 0 ? DDP_LOCAL_WRITE : 0;
    rights |= (access & UIW_ACCESS_REMOTE_READ) != 0 ? DDP_REMOTE_READ : 0;
    rights |= (access & UIW_ACCESS_REMOTE_WRITE) != 0 ? DDP_REMOTE_WRITE : 0;
    rights |= (access & UIW_ACCESS_REMOTE_ATOMIC) != 0 ? DDP_REMOTE_ATOMIC : 0;
    return rights;
}

int mem_check_region(const char *who, const void *addr, uint64_t length, unsigned access)
{
    const unsigned known = UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_READ |
                           UIW_ACCESS_REMOTE_WRITE | UIW_ACCESS_REMOTE_ATOMIC |
                           UIW_ACCESS_ZERO_BASED | UIW_ACCESS_NO_REMOTE_INV | UIW_ACCESS_MW_BIND;
    if (addr == NULL || length == 0 || length > DEVICE_MAX_MR_SIZE) {
        return fail(EINVAL, "%s: address %p, length %llu: expected memory of 1..2^48 octets", who,
                    addr, (unsigned long long)length);
    }
    /* The last octet is what must not wrap. */
    if ((uintptr_t)addr + (length - 1) < (uintptr_t)addr) {
        return fail(EINVAL, "%s: address %p plus length %llu wraps", who, addr,
                    (unsigned long long)length);
    }
    if ((access & ~known) != 0) {
        return fail(EINVAL, "%s: access 0x%x: unknown bits 0x%x", who, access, access & ~known);
    }
    if ((access & (UIW_ACCESS_REMOTE_WRITE | UIW_ACCESS_REMOTE_ATOMIC)) != 0 &&
        (access & UIW_ACCESS_LOCAL_WRITE) == 0) {
        return fail(EINVAL, "%s: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE", who);
    }
    return 0;
}

static bool table_grow(struct ddp_mem_table *t)
{
    if (!ddp_mem_full(t)) {
        return true;
    }
    uint32_t slots = t->mask + 1;
    /* Deleted entries alone are no reason to grow. */
    uint32_t want = t->live * 4 > slots ? slots * 2 : slots;
    struct ddp_mem **old = t->slot, **fresh = calloc(want, sizeof *fresh);
    if (fresh == NULL) {
        return false;
    }
    ddp_mem_rehash(t, fresh, want);
    free(old);
    return true;
}

int mem_enter(const char *who, struct mem_obj *o)
{
    struct uiw_device *dev = o->pd->dev;
    loop_lock(dev->loop);
    bool room = table_grow(&dev->mem);
    while (room && !ddp_mem_insert(&dev->mem, &o->mem, random_u32())) {
        /* that index is taken: draw again (RFC 5042 sec 6.1.1: hard to predict) */
    }
    o->pd->children += room ? 1 : 0;
    atomic_store_explicit(&o->told, o->mem.stag, memory_order_relaxed);
    loop_unlock(dev->loop);
    return room ? 0 : fail(ENOMEM, "%s: out of memory", who);
}

void mem_leave(struct mem_obj *o)
{
    ddp_mem_remove(&o->pd->dev->mem, &o->mem);
    o->pd->children--;
}

/* Enters a region of which memory, PD and stream are filled in. */
static int mr_new(const char *who, const struct uiw_mr *like, struct uiw_mr **out)
{
    struct uiw_mr *mr = calloc(1, sizeof *mr);
    if (mr == NULL) {
        return fail(ENOMEM, "%s: out of memory", who);
    }
    *mr = *like;
    mr->o.mem.pd = mr->o.pd->id;
    int err = mem_enter(who, &mr->o);
    if (err != 0) {
        free(mr);
        return err;
    }
    *out = mr;
    return 0;
}

void mr_set_access(struct uiw_mr *mr, unsigned access)
{
    struct ddp_mem *m = &mr->o.mem;
    mr->access = access;
    m->to = (access & UIW_ACCESS_ZERO_BASED) != 0 ? 0 : (uint64_t)(uintptr_t)m->base;
    m->rights = mem_rights(access);
    m->inv_ok = (access & UIW_ACCESS_NO_REMOTE_INV) == 0;
    m->valid = true;
    m->user = 0;
}

static int mr_reg(struct uiw_mr *like, unsigned access, struct uiw_mr **out)
{
    int err = mem_check_region("uiw_mr_reg", like->o.mem.base, like->o.mem.len, access);
    if (err != 0) {
        return err;
    }
    mr_set_access(like, access);
    return mr_new("uiw_mr_reg", like, out);
}

int uiw_mr_reg(struct uiw_pd *pd, void *addr, uint64_t length, unsigned access, struct uiw_mr **out)
{
    struct uiw_mr like = {.o = {.mem = {.base = addr, .len = length}, .pd = pd}};
    return mr_reg(&like, access, out);
}

int uiw_mr_reg_qp(struct uiw_qp *qp, void *addr, uint64_t length, unsigned access,
                  struct uiw_mr **out)
{
    struct uiw_mr like = {
        .o = {.mem = {.base = addr, .len = length, .stream = qp->num}, .pd = qp->pd}};
    return mr_reg(&like, access, out);
}

int uiw_mr_alloc(struct uiw_pd *pd, uint64_t max_length, struct uiw_mr **out)
{
    if (max_length == 0 || max_length > DEVICE_MAX_MR_SIZE) {
        return fail(EINVAL, "uiw_mr_alloc: length %llu: expected 1..2^48",
                    (unsigned long long)max_length);
    }
    struct uiw_mr like = {.o = {.kind = MEM_FAST, .pd = pd}, .max_length = max_length};
    return mr_new("uiw_mr_alloc", &like, out);
}

int uiw_mr_share(struct uiw_mr *mr, struct uiw_pd *pd, unsigned access, struct uiw_mr **out)
{
    struct uiw_device *dev = pd->dev;
    if (mr->o.pd->dev != dev) {
        return fail(EINVAL, "uiw_mr_share: region and PD are not of one device");
    }
    struct uiw_mr like = {.o = {.pd = pd}};
    loop_lock(dev->loop);
    bool valid = mr->o.mem.valid;
    like.o.mem.base = mr->o.mem.base;
    like.o.mem.len = mr->o.mem.len;
    loop_unlock(dev->loop);
    if (!valid) {
        return fail(EINVAL, "uiw_mr_share: the region is not valid");
    }
    int err = mem_check_region("uiw_mr_share", like.o.mem.base, like.o.mem.len, access);
    if (err != 0) {
        return err;
    }
    mr_set_access(&like, access | UIW_ACCESS_NO_REMOTE_INV);
    return mr_new("uiw_mr_share", &like, out);
}

/* --- changing and ending --- */

static int check_change(const struct uiw_mr *mr, const struct uiw_mr_change *ch)
{
    const unsigned known = UIW_REREG_TRANSLATION | UIW_REREG_PD | UIW_REREG_ACCESS;
    if (ch->what == 0 || (ch->what & ~known) != 0) {
        return fail(EINVAL, "uiw_mr_rereg: what 0x%x: expected some of 0x%x", ch->what, known);
    }
    if (mr->o.kind != MEM_REGION) {
        return fail(EINVAL, "uiw_mr_rereg: a region of uiw_mr_alloc() changes by requests");
    }
    if ((ch->what & UIW_REREG_PD) == 0) {
        return 0;
    }
    if (ch->pd == NULL || ch->pd->dev != mr->o.pd->dev) {
        return fail(EINVAL, "uiw_mr_rereg: no PD of the region's device");
    }
    if (mr->o.mem.stream != 0 && ch->pd != mr->o.pd) {
        return fail(EINVAL, "uiw_mr_rereg: the region is for a QP of its present PD");
    }
    return 0;
}

/* With the lock held: everything is checked before anything changes (bugs R02). */
static int change_region(struct uiw_mr *mr, const struct uiw_mr_change *ch)
{
    struct ddp_mem *m = &mr->o.mem;
    void *addr = (ch->what & UIW_REREG_TRANSLATION) != 0 ? ch->addr : m->base;
    uint64_t length = (ch->what & UIW_REREG_TRANSLATION) != 0 ? ch->length : m->len;
    unsigned access = (ch->what & UIW_REREG_ACCESS) != 0 ? ch->access : mr->access;
    int err = mem_check_region("uiw_mr_rereg", addr, length, access);
    if (err != 0) {
        return err;
    }
    if (mr->windows > 0) {
        return fail(EBUSY, "uiw_mr_rereg: %u windows are bound to the region", mr->windows);
    }
    conn_unlend_all(mr->o.pd->dev, m->base, m->len);
    if ((ch->what & UIW_REREG_PD) != 0) {
        mr->o.pd->children--;
        mr->o.pd = ch->pd;
        mr->o.pd->children++;
        m->pd = ch->pd->id;
    }
    m->base = addr;
    m->len = length;
    mr_set_access(mr, access);
    return 0;
}

int uiw_mr_rereg(struct uiw_mr *mr, const struct uiw_mr_change *change)
{
    int err = check_change(mr, change);
    if (err == 0) {
        struct loop *loop = mr->o.pd->dev->loop;
        loop_lock(loop);
        err = change_region(mr, change);
        loop_unlock(loop);
    }
    return err;
}

int uiw_mr_dereg(struct uiw_mr *mr)
{
    struct uiw_device *dev = mr->o.pd->dev;
    loop_lock(dev->loop);
    unsigned windows = mr->windows;
    if (windows == 0) {
        mem_leave(&mr->o);
        conn_unlend_all(dev, mr->o.mem.base, mr->o.mem.len);
    }
    loop_unlock(dev->loop);
    if (windows > 0) {
        return fail(EBUSY, "uiw_mr_dereg: %u windows are bound to the region", windows);
    }
    free(mr);
    return 0;
}

uint32_t uiw_mr_lkey(const struct uiw_mr *mr)
{
    return atomic_load_explicit(&mr->o.told, memory_order_relaxed);
}

uint32_t uiw_mr_rkey(const struct uiw_mr *mr)
{
    return uiw_mr_lkey(mr);
}

uint64_t uiw_mr_addr(const struct uiw_mr *mr)
{
    loop_lock(mr->o.pd->dev->loop);
    uint64_t to = mr->o.mem.to;
    loop_unlock(mr->o.pd->dev->loop);
    return to;
}

uint64_t uiw_mr_length(const struct uiw_mr *mr)
{
    loop_lock(mr->o.pd->dev->loop);
    uint64_t len = mr->o.mem.len;
    loop_unlock(mr->o.pd->dev->loop);
    return len;
}
