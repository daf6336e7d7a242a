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

static uint32_t rights_of(unsigned access)
{
    uint32_t rights = DDP_LOCAL_READ;
    rights |= (access & UIW_ACCESS_LOCAL_WRITE) != 0 ? DDP_LOCAL_WRITE : 0;
    rights |= (access & UIW_ACCESS_REMOTE_READ) != 0 ? DDP_REMOTE_READ : 0;
    rights |= (access & UIW_ACCESS_REMOTE_WRITE) != 0 ? DDP_REMOTE_WRITE : 0;
    return rights;
}

static int check_reg(const void *addr, uint64_t length, unsigned access)
{
    const unsigned known = UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_READ |
                           UIW_ACCESS_REMOTE_WRITE | UIW_ACCESS_ZERO_BASED |
                           UIW_ACCESS_NO_REMOTE_INV;
    if (addr == NULL || length == 0 || length > DEVICE_MAX_MR_SIZE) {
        return fail(EINVAL,
                    "uiw_mr_reg: address %p, length %llu: expected memory of 1..2^48 octets", addr,
                    (unsigned long long)length);
    }
    if ((uintptr_t)addr + length < (uintptr_t)addr) {
        return fail(EINVAL, "uiw_mr_reg: address %p plus length %llu wraps", addr,
                    (unsigned long long)length);
    }
    if ((access & ~known) != 0) {
        return fail(EINVAL, "uiw_mr_reg: access 0x%x: unknown bits 0x%x", access, access & ~known);
    }
    if ((access & UIW_ACCESS_REMOTE_WRITE) != 0 && (access & UIW_ACCESS_LOCAL_WRITE) == 0) {
        return fail(EINVAL, "uiw_mr_reg: REMOTE_WRITE needs LOCAL_WRITE");
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

static int mr_new(struct uiw_pd *pd, const struct ddp_mem *mem, struct uiw_mr **out)
{
    struct uiw_mr *mr = calloc(1, sizeof *mr);
    if (mr == NULL) {
        return fail(ENOMEM, "uiw_mr_reg: out of memory");
    }
    mr->mem = *mem;
    mr->pd = pd;
    loop_lock(pd->dev->loop);
    bool room = table_grow(&pd->dev->mem);
    while (room && !ddp_mem_insert(&pd->dev->mem, &mr->mem, random_u32())) {
        /* that index is taken: draw again (RFC 5042 sec 6.1.1: hard to predict) */
    }
    pd->children += room ? 1 : 0;
    loop_unlock(pd->dev->loop);
    if (!room) {
        free(mr);
        return fail(ENOMEM, "uiw_mr_reg: out of memory");
    }
    *out = mr;
    return 0;
}

static int mr_reg(struct uiw_pd *pd, const struct ddp_mem *mem, unsigned access,
                  struct uiw_mr **out)
{
    struct ddp_mem full = *mem;
    int err = check_reg(full.base, full.len, access);
    if (err != 0) {
        return err;
    }
    full.to = (access & UIW_ACCESS_ZERO_BASED) != 0 ? 0 : (uint64_t)(uintptr_t)full.base;
    full.pd = pd->id;
    full.rights = rights_of(access);
    full.valid = true;
    full.inv_ok = (access & UIW_ACCESS_NO_REMOTE_INV) == 0;
    return mr_new(pd, &full, out);
}

int uiw_mr_reg(struct uiw_pd *pd, void *addr, uint64_t length, unsigned access, struct uiw_mr **out)
{
    struct ddp_mem mem = {.base = addr, .len = length};
    return mr_reg(pd, &mem, access, out);
}

int uiw_mr_reg_qp(struct uiw_qp *qp, void *addr, uint64_t length, unsigned access,
                  struct uiw_mr **out)
{
    struct ddp_mem mem = {.base = addr, .len = length, .stream = qp->num};
    return mr_reg(qp->pd, &mem, access, out);
}

int uiw_mr_dereg(struct uiw_mr *mr)
{
    struct uiw_pd *pd = mr->pd;
    loop_lock(pd->dev->loop);
    ddp_mem_remove(&pd->dev->mem, &mr->mem);
    conn_unlend_all(pd->dev, mr->mem.base, mr->mem.len);
    pd->children--;
    loop_unlock(pd->dev->loop);
    free(mr);
    return 0;
}

uint32_t uiw_mr_lkey(const struct uiw_mr *mr)
{
    return mr->mem.stag;
}

uint32_t uiw_mr_rkey(const struct uiw_mr *mr)
{
    return mr->mem.stag;
}

uint64_t uiw_mr_addr(const struct uiw_mr *mr)
{
    return mr->mem.to;
}

uint64_t uiw_mr_length(const struct uiw_mr *mr)
{
    return mr->mem.len;
}
