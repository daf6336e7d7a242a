/* SPDX-License-Identifier: MIT */
#include "api/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "api/error.h"
#include "api/loop.h"

int notify_init(struct notify *n, struct loop *loop)
{
    n->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    if (n->fd < 0) {
        return fail(errno, "eventfd: %s", strerror(errno));
    }
    pthread_mutex_init(&n->lock, NULL);
    list_init(&n->events);
    n->loop = loop;
    return 0;
}

void notify_fini(struct notify *n)
{
    close(n->fd);
    pthread_mutex_destroy(&n->lock);
}

bool notify_raise(struct notify *n, struct list *node)
{
    pthread_mutex_lock(&n->lock);
    bool fresh = list_empty(node);
    if (fresh) {
        list_append(&n->events, node);
    }
    pthread_mutex_unlock(&n->lock);
    uint64_t one = 1;
    /* Cannot fail: the counter holds 2^64 - 2, and there is one token for each object at most. */
    return fresh && write(n->fd, &one, sizeof one) == (ssize_t)sizeof one;
}

/* Takes a token when there is one; never waits, whatever flags the program has set. */
static bool take_token(struct notify *n)
{
    uint64_t token;
    struct iovec iov = {&token, sizeof token};
    return preadv2(n->fd, &iov, 1, -1, RWF_NOWAIT) == (ssize_t)sizeof token;
}

struct list *notify_drop_if(struct notify *n,
                            bool (*match)(const struct list *node, const void *key),
                            const void *key)
{
    struct list *found = NULL;
    pthread_mutex_lock(&n->lock);
    LIST_EACH(it, &n->events)
    {
        if (match(it, key)) {
            found = it;
            break;
        }
    }
    if (found != NULL) {
        list_remove(found);
        /* No token left means that another thread holds it and will find its list one shorter. */
        take_token(n);
    }
    pthread_mutex_unlock(&n->lock);
    return found;
}

static bool is_node(const struct list *node, const void *key)
{
    return node == key;
}

bool notify_drop(struct notify *n, struct list *node)
{
    return notify_drop_if(n, is_node, node) != NULL;
}

static bool wants_blocking(const struct notify *n)
{
    int flags = fcntl(n->fd, F_GETFL);
    return flags >= 0 && (flags & O_NONBLOCK) == 0;
}

/* One wait in a call of ours counts for some that found their event there already: that happens to the
 * best. A program that waits in its own poll() never waits here. */
static void note_wait(struct notify *n, bool waited)
{
    unsigned was = atomic_load_explicit(&n->driven, memory_order_relaxed);
    unsigned now = waited ? NOTIFY_DRIVEN : was > 0 ? was - 1 : 0;
    atomic_store_explicit(&n->driven, now, memory_order_relaxed);
}

static int wait_token(struct notify *n)
{
    bool waited = false;
    while (!take_token(n)) {
        if (!wants_blocking(n)) {
            if (loop_polled(n->loop)) {
                loop_progress(n->loop, 0);
            }
            return take_token(n) ? 0 : -EAGAIN;
        }
        waited = true;
        loop_wait(n->loop, n->fd);
    }
    note_wait(n, waited);
    return 0;
}

int notify_get(struct notify *n, struct list **node)
{
    for (;;) {
        int err = wait_token(n);
        if (err != 0) {
            return err == -EAGAIN ? fail(EAGAIN, "no event")
                                  : fail(-err, "event: %s", strerror(-err));
        }
        pthread_mutex_lock(&n->lock);
        *node = list_shift(&n->events);
        pthread_mutex_unlock(&n->lock);
        if (*node != NULL) {
            return 0;
        }
    }
}
