/* SPDX-License-Identifier: MIT */
/* A device: its network, its STag table, what hangs on it. */
#ifndef UIW_API_DEVICE_H
#define UIW_API_DEVICE_H

#include "api/devspec.h"
#include "api/loop.h"
#include "api/notify.h"
#include "api/uiw.h"
#include "ddp/ddp_mem.h"
#include "tcpip/net.h"

enum {
    DEVICE_MAX_WR = 32768,
    DEVICE_MAX_SGE = 16,
    DEVICE_MAX_INLINE = 1024,
    DEVICE_MAX_CQE = 1 << 22,
    DEVICE_MEM_SLOTS = 256, /* of the STag table at first; it doubles */
    DEVICE_MEM_RECENT = 1024,
};

#define DEVICE_MAX_MR_SIZE (UINT64_C(1) << 48)
#define DEVICE_MAX_MSG     UINT32_MAX

struct conn_scratch;

struct uiw_device {
    struct loop *loop;
    struct list on_loop;
    struct net *net;
    struct devspec spec;
    char text[DEVSPEC_LEN_MAX + 1];
    struct ddp_mem_table mem;
    uint32_t mem_recent[DEVICE_MEM_RECENT];
    struct notify async;
    struct list qps;    /* by qp.on_device */
    struct list conns;  /* by conn.on_device */
    struct list timed;  /* conns with a deadline, by conn.on_timed */
    uint64_t timed_at;  /* ms: no deadline is due before */
    atomic_bool failed; /* for good: nothing but closing is left */
    unsigned children;  /* PDs, CQs, channels, listeners */
    uint32_t next_pd;
    struct conn_scratch *scratch;
};

/* Parts of a turn; the loop's lock is held. */
bool device_turn(struct uiw_device *dev);
void device_flush(struct uiw_device *dev);
int device_timeout_ms(struct uiw_device *dev);
bool device_sleep(struct uiw_device *dev);
uint32_t device_rest_us(struct uiw_device *dev);
void device_woken(struct uiw_device *dev);

/* Counts children; with the lock held. */
static inline void device_ref(struct uiw_device *dev)
{
    dev->children++;
}

static inline void device_unref(struct uiw_device *dev)
{
    dev->children--;
}

/* The events of a channel, a child of the device. 0 or a negative errno with text. */
int device_notify_init(struct uiw_device *dev, struct notify *n);
/* Returns how many use the channel; 0: its events are gone, and it counts no more. */
unsigned device_notify_fini(struct uiw_device *dev, struct notify *n, const unsigned *users);

/* -ENODEV after fork(), -EIO when the device has failed, with the line; else 0. who: the call. */
int device_alive(const struct uiw_device *dev, const char *who);

/* Raises an asynchronous event; lost (and logged) when memory is out. */
void device_async(struct uiw_device *dev, const struct uiw_async_event *ev);

/* Drops the queued asynchronous events that speak of that QP number, SRQ or user. */
void device_async_forget_qp(struct uiw_device *dev, uint32_t qp_num);
void device_async_forget_srq(struct uiw_device *dev, const struct uiw_srq *srq);

#endif
