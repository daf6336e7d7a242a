/* SPDX-License-Identifier: MIT */
#include "tcpip/frame.h"

#include <stdlib.h>

/* Capacities double, so that a frame never holds more than about twice its length. */
enum { CLASS_MIN_SHIFT = 8, CLASS_BIG = 8, CLASSES = 9 };

static struct {
    struct frame *free[CLASSES];
    uint32_t big_held;
} pool;

static uint32_t class_room(uint32_t cls)
{
    return cls == CLASS_BIG ? FRAME_ROOM : 1u << (CLASS_MIN_SHIFT + cls);
}

static uint32_t class_of(uint32_t cap)
{
    uint32_t cls = 0;
    while (cls < CLASS_BIG && class_room(cls) < cap) {
        cls++;
    }
    return cls;
}

static void release(struct pbuf *p)
{
    frame_free((struct frame *)(void *)p);
}

struct frame *frame_new(uint32_t cap)
{
    uint32_t cls = class_of(cap);
    struct frame *f = pool.free[cls];
    if (f != NULL) {
        pool.free[cls] = f->next;
    } else {
        /* The 2 octets let the IP header start at a multiple of 16. */
        size_t size = sizeof *f + FRAME_HEAD + class_room(cls) + 2;
        f = aligned_alloc(64, (size + 63) & ~(size_t)63);
        if (f == NULL) {
            return NULL;
        }
        f->cls = (uint8_t)cls;
        f->pc.custom_free_function = release;
    }
    f->next = NULL;
    f->data = f->buf + FRAME_HEAD + 2;
    f->len = 0;
    f->sum_ok = false;
    f->gathers = false;
    f->lender = NULL;
    pool.big_held += cls == CLASS_BIG;
    return f;
}

void frame_free(struct frame *f)
{
    if (f->lender != NULL) {
        f->lender->give_back(f->lender, f->slot);
        f->lender = NULL;
    }
    pool.big_held -= f->cls == CLASS_BIG;
    f->next = pool.free[f->cls];
    pool.free[f->cls] = f;
}

struct frame *frame_fit(struct frame *f, bool *again)
{
    *again = f->len < FRAME_SMALL || (pool.big_held > FRAME_BIG_HELD && f->len < FRAME_ROOM / 2);
    if (!*again) {
        return f;
    }
    struct frame *fit = frame_new(f->len);
    if (fit != NULL) {
        fit->len = f->len;
        fit->sum_ok = f->sum_ok;
        memcpy(fit->data, f->data, f->len);
    }
    return fit;
}

struct pbuf *frame_pbuf(struct frame *f)
{
    return pbuf_alloced_custom(PBUF_RAW, (u16_t)f->len, PBUF_REF, &f->pc, f->data, (u16_t)f->len);
}

struct frame *frame_of(struct pbuf *p)
{
    struct pbuf_custom *pc = (struct pbuf_custom *)(void *)p;
    if ((p->flags & PBUF_FLAG_IS_CUSTOM) == 0 || pc->custom_free_function != release) {
        return NULL;
    }
    return (struct frame *)(void *)p;
}

void frame_trim(void)
{
    for (uint32_t cls = 0; cls < CLASSES; cls++) {
        while (pool.free[cls] != NULL) {
            struct frame *f = pool.free[cls];
            pool.free[cls] = f->next;
            free(f);
        }
    }
}
