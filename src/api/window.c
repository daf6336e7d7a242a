/* SPDX-License-Identifier: MIT */
/* Memory windows: life. What binds them: mem_wr.c. */
#include <errno.h>
#include <stdlib.h>

#include "api/error.h"
#include "api/memory.h"

int uiw_mw_create(struct uiw_pd *pd, enum uiw_mw_type type, struct uiw_mw **out)
{
    if (type != UIW_MW_TYPE_1 && type != UIW_MW_TYPE_2) {
        return fail(EINVAL, "uiw_mw_create: unknown type %d", (int)type);
    }
    struct uiw_mw *mw = calloc(1, sizeof *mw);
    if (mw == NULL) {
        return fail(ENOMEM, "uiw_mw_create: out of memory");
    }
    mw->o.kind = type == UIW_MW_TYPE_1 ? MEM_WINDOW_1 : MEM_WINDOW_2;
    mw->o.pd = pd;
    mw->o.mem.pd = pd->id;
    list_init(&mw->on_qp);
    int err = mem_enter("uiw_mw_create", &mw->o);
    if (err != 0) {
        free(mw);
        return err;
    }
    *out = mw;
    return 0;
}

void mem_revoke(struct ddp_mem *m)
{
    struct mem_obj *o = CONTAINER_OF(m, struct mem_obj, mem);
    m->valid = false;
    if (o->kind != MEM_WINDOW_1 && o->kind != MEM_WINDOW_2) {
        return;
    }
    struct uiw_mw *mw = CONTAINER_OF(o, struct uiw_mw, o);
    if (m->parent != NULL) {
        CONTAINER_OF(m->parent, struct uiw_mr, o.mem)->windows--;
        m->parent = NULL;
    }
    list_remove(&mw->on_qp);
}

int uiw_mw_destroy(struct uiw_mw *mw)
{
    struct loop *loop = mw->o.pd->dev->loop;
    loop_lock(loop);
    mem_revoke(&mw->o.mem);
    mem_leave(&mw->o);
    loop_unlock(loop);
    free(mw);
    return 0;
}

uint32_t uiw_mw_rkey(const struct uiw_mw *mw)
{
    return atomic_load_explicit(&mw->o.told, memory_order_relaxed);
}
