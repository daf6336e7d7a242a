/* SPDX-License-Identifier: MIT */
#include "api/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/conn_face.h"
#include "api/error.h"
#include "api/qp.h"
#include "base/log.h"

struct async_node {
    struct list node; /* first: a node is its event */
    struct uiw_async_event ev;
};

/* --- turning --- */

/* With the lock held. */
static void device_fail(struct uiw_device *dev, const char *why)
{
    struct uiw_async_event ev = {.type = UIW_ASYNC_DEVICE_FATAL};
    if (atomic_exchange(&dev->failed, true)) {
        return;
    }
    snprintf(ev.text, sizeof ev.text, "here: the device has failed: %s", why);
    log_line(LOG_ERROR, "%s", ev.text);
    device_async(dev, &ev);
    conn_fail_all(dev, ev.text);
    LIST_EACH(it, &dev->qps)
    {
        qp_set_state(CONTAINER_OF(it, struct uiw_qp, on_device), UIW_QP_ERROR);
    }
}

int device_notify_init(struct uiw_device *dev, struct notify *n)
{
    int err = notify_init(n, dev->loop);
    if (err == 0) {
        loop_lock(dev->loop);
        device_ref(dev);
        loop_unlock(dev->loop);
    }
    return err;
}

unsigned device_notify_fini(struct uiw_device *dev, struct notify *n, const unsigned *users)
{
    loop_lock(dev->loop);
    unsigned left = *users;
    if (left == 0) {
        device_unref(dev);
    }
    loop_unlock(dev->loop);
    if (left == 0) {
        notify_fini(n);
    }
    return left;
}

int device_alive(const struct uiw_device *dev, const char *who)
{
    int err = loop_alive(dev->loop, who);
    if (err == 0 && atomic_load(&dev->failed)) {
        err = fail(EIO, "%s: the device has failed", who);
    }
    return err;
}

bool device_turn(struct uiw_device *dev)
{
    bool busy = net_turn(dev->net) > 0;
    if (net_gone(dev->net)) {
        device_fail(dev, "its link is gone");
    }
    for (;;) {
        struct net_ready r = net_next(dev->net);
        if (r.events == 0) {
            break;
        }
        busy = true;
        conn_on_net(dev, &r);
    }
    conn_run_timers(dev);
    return busy;
}

void device_flush(struct uiw_device *dev)
{
    net_flush(dev->net);
}

int device_timeout_ms(struct uiw_device *dev)
{
    int t = net_timeout_ms(dev->net);
    if (list_empty(&dev->timed)) {
        return t;
    }
    uint64_t now = net_now_ms();
    uint64_t left = dev->timed_at > now ? dev->timed_at - now : 0;
    int mine = (int)min_u64(left, 1000000);
    return t < 0 || mine < t ? mine : t;
}

uint32_t device_rest_us(struct uiw_device *dev)
{
    return net_rest_us(dev->net);
}

bool device_sleep(struct uiw_device *dev)
{
    return net_sleep(dev->net);
}

void device_woken(struct uiw_device *dev)
{
    net_woken(dev->net);
}

/* --- life --- */

static int device_fill(struct uiw_device *dev)
{
    struct ddp_mem **slots = calloc(DEVICE_MEM_SLOTS, sizeof *slots);
    dev->scratch = conn_scratch_new();
    if (slots == NULL || dev->scratch == NULL) {
        free(slots);
        free(dev->scratch);
        return fail(ENOMEM, "uiw_device_open: out of memory");
    }
    ddp_mem_table_init(&dev->mem, slots, DEVICE_MEM_SLOTS, dev->mem_recent, DEVICE_MEM_RECENT);
    dev->mem.lives = qp_lives;
    list_init(&dev->on_loop);
    list_init(&dev->qps);
    list_init(&dev->conns);
    list_init(&dev->timed);
    int err = notify_init(&dev->async, dev->loop);
    if (err != 0) {
        free(slots);
        free(dev->scratch);
    }
    return err;
}

static void device_empty(struct uiw_device *dev)
{
    struct list *node;
    while ((node = list_shift(&dev->async.events)) != NULL) {
        free(CONTAINER_OF(node, struct async_node, node));
    }
    notify_fini(&dev->async);
    free(dev->mem.slot);
    free(dev->scratch);
}

/* The link is opened under the loop's lock: all of lwIP belongs to its holder. */
static int device_start(struct uiw_device *dev)
{
    char text[NET_ERR_TEXT] = "";
    loop_lock(dev->loop);
    int err = net_open(&dev->spec.net, &dev->net, text);
    if (err != 0) {
        fail(-err, "%s", text);
    } else {
        err = loop_add(dev->loop, dev);
        if (err != 0) {
            net_close(dev->net);
        }
    }
    loop_unlock(dev->loop);
    return err;
}

/* The environment asks for a capture of all devices that do not name a file of their own. */
static int capture_by_environment(struct uiw_device *dev)
{
    const char *path = getenv("UIW_PCAP");
    char *own = dev->spec.net.capture;
    if (path == NULL || own[0] != '\0') {
        return 0;
    }
    if (strlen(path) >= sizeof dev->spec.net.capture) {
        return fail(EINVAL, "UIW_PCAP: expected a path of up to 255 octets");
    }
    strcpy(own, path);
    return 0;
}

int uiw_device_open(const char *spec, struct uiw_device **out)
{
    if (spec == NULL) {
        spec = getenv("UIW_DEVICE");
    }
    if (spec == NULL || spec[0] == '\0') {
        return fail(EINVAL, "no device: give a device string or set UIW_DEVICE, as in "
                            "UIW_DEVICE=tap:uiw0,ip=198.18.0.2/24");
    }
    struct uiw_device *dev = calloc(1, sizeof *dev);
    if (dev == NULL) {
        return fail(ENOMEM, "uiw_device_open: out of memory");
    }
    int err = devspec_parse(spec, &dev->spec);
    if (err == 0) {
        err = capture_by_environment(dev);
    }
    if (err == 0) {
        err = loop_get(net_kind_shares_loop(dev->spec.net.kind), dev->spec.progress == UIW_THREADED,
                       dev->spec.spin_us, &dev->loop);
    }
    if (err != 0) {
        free(dev);
        return err;
    }
    strcpy(dev->text, spec);
    err = device_fill(dev);
    if (err == 0) {
        err = device_start(dev);
        if (err != 0) {
            device_empty(dev);
        }
    }
    if (err != 0) {
        loop_put(dev->loop);
        free(dev);
        return err;
    }
    *out = dev;
    return 0;
}

int uiw_device_close(struct uiw_device *dev)
{
    loop_lock(dev->loop);
    if (dev->children > 0) {
        unsigned left = dev->children;
        loop_unlock(dev->loop);
        return fail(EBUSY, "uiw_device_close: %u objects of the device are left", left);
    }
    if (loop_alive(dev->loop, "uiw_device_close") == 0) {
        conn_drop_all(dev);
        loop_del(dev->loop, dev);
        net_close(dev->net);
    } else {
        list_remove(&dev->on_loop); /* what the stack below holds is the parent's */
    }
    loop_unlock(dev->loop);
    loop_put(dev->loop);
    device_empty(dev);
    free(dev);
    return 0;
}

int uiw_device_fail(struct uiw_device *dev, const char *why)
{
    int err = loop_alive(dev->loop, "uiw_device_fail");
    if (err == 0) {
        loop_lock(dev->loop);
        device_fail(dev, why);
        loop_unlock(dev->loop);
    }
    return err;
}

int uiw_device_query(const struct uiw_device *dev, struct uiw_device_attr *attr)
{
    *attr = (struct uiw_device_attr){.progress = dev->spec.progress,
                                     .max_send_wr = DEVICE_MAX_WR,
                                     .max_recv_wr = DEVICE_MAX_WR,
                                     .max_sge = DEVICE_MAX_SGE,
                                     .max_inline = DEVICE_MAX_INLINE,
                                     .max_cqe = DEVICE_MAX_CQE,
                                     .max_ird = dev->spec.ird,
                                     .max_ord = dev->spec.ord,
                                     .max_mr_size = DEVICE_MAX_MR_SIZE,
                                     .max_msg = DEVICE_MAX_MSG,
                                     .ext = dev->spec.ext};
    strcpy(attr->spec, dev->text);
    attr->mtu = net_mtu(dev->net);
    const struct net_cfg *net = &dev->spec.net;
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr = net->ip};
    struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6, .sin6_addr = net->ip6};
    if (!IN6_IS_ADDR_UNSPECIFIED(&net->ip6)) {
        memcpy(&attr->addr6, &sin6, sizeof sin6);
        attr->addr = attr->addr6;
    }
    if (net->ip.s_addr != INADDR_ANY) {
        memcpy(&attr->addr, &sin, sizeof sin);
    }
    return 0;
}

int uiw_progress(struct uiw_device *dev, int timeout_ms)
{
    return loop_progress(dev->loop, timeout_ms) ? 1 : 0;
}

int uiw_device_fd(struct uiw_device *dev)
{
    return loop_outside_fd(dev->loop);
}

/* --- asynchronous events --- */

void device_async(struct uiw_device *dev, const struct uiw_async_event *ev)
{
    struct async_node *n = malloc(sizeof *n);
    if (n == NULL) {
        log_line(LOG_ERROR, "out of memory, asynchronous event lost: %s", ev->text);
        return;
    }
    list_init(&n->node);
    n->ev = *ev;
    notify_raise(&dev->async, &n->node);
}

static bool speaks_of_qp(const struct list *node, const void *key)
{
    const struct async_node *n = (const struct async_node *)(const void *)node;
    return n->ev.qp_num == *(const uint32_t *)key;
}

static bool speaks_of_srq(const struct list *node, const void *key)
{
    const struct async_node *n = (const struct async_node *)(const void *)node;
    return n->ev.srq == key;
}

static void forget(struct uiw_device *dev, bool (*match)(const struct list *, const void *),
                   const void *key)
{
    struct list *node;
    while ((node = notify_drop_if(&dev->async, match, key)) != NULL) {
        free(CONTAINER_OF(node, struct async_node, node));
    }
}

void device_async_forget_qp(struct uiw_device *dev, uint32_t qp_num)
{
    forget(dev, speaks_of_qp, &qp_num);
}

void device_async_forget_srq(struct uiw_device *dev, const struct uiw_srq *srq)
{
    forget(dev, speaks_of_srq, srq);
}

int uiw_async_fd(struct uiw_device *dev)
{
    return dev->async.fd;
}

int uiw_async_get(struct uiw_device *dev, struct uiw_async_event *ev)
{
    struct list *node;
    int err = notify_get(&dev->async, &node);
    if (err != 0) {
        return err;
    }
    struct async_node *n = CONTAINER_OF(node, struct async_node, node);
    *ev = n->ev;
    free(n);
    return 0;
}
