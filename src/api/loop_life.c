/* SPDX-License-Identifier: MIT */
/* How loops come and go, and what becomes of them in a forked child. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/device.h"
#include "api/error.h"
#include "api/loop.h"

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct loop *shared_loop;
static struct list all_loops = {&all_loops, &all_loops};

static void close_fds(struct loop *l)
{
    int *fd[] = {&l->epoll_fd, &l->wake_fd, &l->thread_fd, &l->timer_fd};
    for (size_t i = 0; i < ARRAY_LEN(fd); i++) {
        if (*fd[i] >= 0) {
            close(*fd[i]);
        }
        *fd[i] = -1;
    }
}

/* --- fork --- */

/* The child has no progress thread and must not speak for the parent's connections. It lets go of the
 * descriptors too: a link that stays open in a child would outlive the parent. */
static void in_child(void)
{
    LIST_EACH(it, &all_loops)
    {
        struct loop *l = CONTAINER_OF(it, struct loop, node);
        l->dead = true;
        l->threaded = false;
        pthread_mutex_init(&l->lock, NULL);
        atomic_store(&l->posted, NULL);
        list_init(&l->asleep);
        atomic_store(&l->sleepers, 0);
        atomic_store(&l->is_outside, false);
        close_fds(l);
        LIST_EACH(d, &l->devices)
        {
            net_abandon(CONTAINER_OF(d, struct uiw_device, on_loop)->net);
        }
    }
    shared_loop = NULL;
    pthread_mutex_unlock(&shared_lock);
}

/* With the loops at rest, so that what the child walks through is whole. */
static void before_fork(void)
{
    pthread_mutex_lock(&shared_lock);
    LIST_EACH(it, &all_loops)
    {
        loop_lock(CONTAINER_OF(it, struct loop, node));
    }
}

static void in_parent(void)
{
    LIST_EACH(it, &all_loops)
    {
        loop_unlock(CONTAINER_OF(it, struct loop, node));
    }
    pthread_mutex_unlock(&shared_lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

int loop_alive(const struct loop *l, const char *who)
{
    return l->dead ? fail(ENODEV, "%s: the device was opened before fork() by the parent", who) : 0;
}

/* --- life --- */

static int loop_new(unsigned spin_us, struct loop **out)
{
    struct loop *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return fail(ENOMEM, "loop: out of memory");
    }
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    l->thread_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    l->timer_fd = -1;
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = l->wake_fd};
    if (l->epoll_fd < 0 || l->wake_fd < 0 || l->thread_fd < 0 ||
        epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->wake_fd, &ev) != 0) {
        int err = errno;
        close_fds(l);
        free(l);
        return fail(err, "loop: %s", strerror(err));
    }
    pthread_mutex_init(&l->lock, NULL);
    list_init(&l->devices);
    list_init(&l->asleep);
    l->spin_us = spin_us;
    *out = l;
    return 0;
}

int loop_get(bool shared, bool threaded, unsigned spin_us, struct loop **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&shared_lock);
    int err = 0;
    if (shared && shared_loop != NULL) {
        *out = shared_loop;
    } else {
        err = loop_new(spin_us, out);
        if (err == 0 && shared) {
            (*out)->shared = true;
            shared_loop = *out;
        }
    }
    if (err == 0) {
        if ((*out)->users++ == 0) {
            list_append(&all_loops, &(*out)->node);
        }
        err = threaded ? loop_start(*out) : 0;
    }
    pthread_mutex_unlock(&shared_lock);
    if (err != 0 && *out != NULL) {
        loop_put(*out);
    }
    return err;
}

void loop_put(struct loop *l)
{
    pthread_mutex_lock(&shared_lock);
    bool last = --l->users == 0;
    if (last) {
        list_remove(&l->node);
        shared_loop = shared_loop == l ? NULL : shared_loop;
    }
    pthread_mutex_unlock(&shared_lock);
    if (!last) {
        return;
    }
    if (l->threaded) {
        atomic_store(&l->stop, true);
        loop_wake(l); /* it may sleep, or keep away */
        loop_rouse(l);
        pthread_join(l->thread, NULL);
    }
    close_fds(l);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

int loop_add(struct loop *l, struct uiw_device *dev)
{
    int fd = net_fd(dev->net);
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
    if (fd >= 0 && epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0) {
        return fail(errno, "epoll: %s", strerror(errno));
    }
    list_append(&l->devices, &dev->on_loop);
    return 0;
}

void loop_del(struct loop *l, struct uiw_device *dev)
{
    int fd = net_fd(dev->net);
    if (fd >= 0) {
        epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    }
    list_remove(&dev->on_loop);
}

int loop_start(struct loop *l)
{
    if (l->threaded) {
        return 0;
    }
    /* A program may rely on which of its threads gets a signal (signalfd, SIGALRM). */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    l->threaded = true;
    int err = pthread_create(&l->thread, NULL, loop_thread, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err != 0) {
        l->threaded = false;
        return fail(err, "progress thread: %s", strerror(err));
    }
    return 0;
}
