/* SPDX-License-Identifier: MIT */
#include "api/loop.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "api/device.h"
#include "api/error.h"
#include "api/loop_sleep.h"
#include "api/qp.h"

enum {
    USER_BUSY_TURNS = 64, /* empty polls between two looks that mean "a program is polling" */
    NEAR_PART = 8, /* the thread keeps out of its way for that part of the time it has been at it */
    NEAR_MAX_MS = 4,   /* and at most so long */
    FAR_MS = 500,      /* and out of that of a driver that sleeps */
    KEEP_NEAR = 20,    /* times without a turn before it goes so far */
    POSTS_AT_ONCE = 4, /* between two turns; more are sent together */
};

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void poke(int fd)
{
    uint64_t one = 1;
    ssize_t r = write(fd, &one, sizeof one);
    (void)r; /* EAGAIN: who waits for it is awake already */
}

void loop_rouse(struct loop *l)
{
    poke(l->thread_fd);
}

/* --- turning: the lock is held --- */

void loop_take_posted(struct loop *l)
{
    if (atomic_load_explicit(&l->posted, memory_order_relaxed) == NULL) {
        return;
    }
    struct uiw_qp *qp = atomic_exchange_explicit(&l->posted, NULL, memory_order_acquire);
    while (qp != NULL) {
        struct uiw_qp *next = qp->next_posted;
        /* Against loop_post_later(): who finds the mark still set has its request seen below, and who does not may
         * use next_posted. A mere store could come after the look at the queue. */
        atomic_exchange_explicit(&qp->is_posted, false, memory_order_acq_rel);
        qp_run(qp);
        qp = next;
    }
}

static bool turn(struct loop *l)
{
    bool busy = false;
    if (l->dead) {
        return false;
    }
    count_up(&l->turns);
    atomic_store_explicit(&l->posts, 0, memory_order_relaxed);
    loop_take_posted(l);
    LIST_EACH(it, &l->devices)
    {
        busy |= device_turn(CONTAINER_OF(it, struct uiw_device, on_loop));
    }
    loop_take_posted(l);
    LIST_EACH(it, &l->devices)
    {
        device_flush(CONTAINER_OF(it, struct uiw_device, on_loop));
    }
    return busy;
}

static void flush_posted(struct loop *l)
{
    if (l->dead) {
        return;
    }
    loop_take_posted(l);
    LIST_EACH(it, &l->devices)
    {
        device_flush(CONTAINER_OF(it, struct uiw_device, on_loop));
    }
}

/* --- letting go of the lock --- */

/* A poster that found the lock taken relies on its holder: look once more after letting go. */
void loop_let_go(struct loop *l, bool wake)
{
    for (;;) {
        pthread_mutex_unlock(&l->lock);
        atomic_thread_fence(memory_order_seq_cst);
        if (atomic_load_explicit(&l->posted, memory_order_relaxed) == NULL ||
            pthread_mutex_trylock(&l->lock) != 0) {
            break;
        }
        flush_posted(l);
        wake |= loop_must_wake(l);
    }
    if (wake) {
        loop_wake(l);
    }
}

void loop_release(struct loop *l)
{
    loop_let_go(l, loop_must_wake(l));
}

void loop_lock(struct loop *l)
{
    atomic_fetch_add(&l->waiters, 1);
    pthread_mutex_lock(&l->lock);
    atomic_fetch_sub(&l->waiters, 1);
}

void loop_unlock(struct loop *l)
{
    /* What the call queued (a SYN, a Reply, a FIN) is to leave now, not at the next frame. */
    flush_posted(l);
    loop_let_go(l, true); /* timers may have changed */
}

void loop_wake(struct loop *l)
{
    if (atomic_load(&l->sleepers) > 0) {
        poke(l->wake_fd);
    }
}

bool loop_polled(const struct loop *l)
{
    return !l->threaded;
}

void loop_try_turn(struct loop *l)
{
    count_up(&l->user_turns);
    if (pthread_mutex_trylock(&l->lock) == 0) {
        turn(l);
        loop_release(l);
    } else {
        sched_yield(); /* the holder may need this very core */
    }
}

void loop_post_later(struct loop *l, struct uiw_qp *qp)
{
    if (!atomic_exchange_explicit(&qp->is_posted, true, memory_order_acq_rel)) {
        struct uiw_qp *top = atomic_load_explicit(&l->posted, memory_order_relaxed);
        do {
            qp->next_posted = top;
        } while (!atomic_compare_exchange_weak_explicit(&l->posted, &top, qp, memory_order_release,
                                                        memory_order_relaxed));
    }
}

/* A program that posts one by one without looking for completions would make a frame of each: from
 * some number on they wait for the next turn, its own or the thread's. Threads may miscount each other's. */
static bool gathers(struct loop *l)
{
    count_up(&l->posts);
    return atomic_load_explicit(&l->posts, memory_order_relaxed) > POSTS_AT_ONCE;
}

static bool post_now(struct loop *l, struct uiw_qp *qp)
{
    if (pthread_mutex_trylock(&l->lock) != 0) {
        return false;
    }
    if (!l->dead) {
        l->posting = qp;
        qp_run(qp);
        flush_posted(l);
        l->posting = NULL;
        qp_sent(qp);
    }
    loop_release(l);
    return true;
}

void loop_post(struct loop *l, struct uiw_qp *qp)
{
    bool later = gathers(l);
    if (!later && post_now(l, qp)) {
        return;
    }
    loop_post_later(l, qp);
    atomic_thread_fence(memory_order_seq_cst);
    if (later) {
        loop_wake(l);
    } else if (pthread_mutex_trylock(&l->lock) == 0) { /* its holder may have looked before */
        flush_posted(l);
        loop_release(l);
    }
}

static bool turn_once(struct loop *l)
{
    loop_lock(l);
    bool busy = turn(l);
    loop_release(l);
    return busy;
}

/* --- waiting --- */

/* A mutex goes to who asks first after it is free, and that would be us again. */
static void give_way(struct loop *l)
{
    for (int i = 0; i < 100 && atomic_load_explicit(&l->waiters, memory_order_relaxed) > 0; i++) {
        sched_yield();
    }
}

/* Turns for a while. Whether anything was done. */
static bool spin(struct loop *l)
{
    uint64_t start = now_us();
    if (l->spin_us == 0 || !spin_pays(&l->spinning, start)) {
        return false;
    }
    do {
        if (turn_once(l)) {
            spin_won(&l->spinning);
            return true;
        }
        give_way(l);
    } while (now_us() - start < l->spin_us &&
             !atomic_load_explicit(&l->stop, memory_order_relaxed));
    spin_lost(&l->spinning);
    return false;
}

static bool progress(struct loop *l, int timeout_ms, int fd)
{
    if (turn_once(l)) {
        return true;
    }
    if (timeout_ms == 0) {
        return false;
    }
    uint32_t rest = loop_rest_us(l);
    if (rest == 0 && spin(l)) {
        return true;
    }
    loop_sleep(l, timeout_ms, fd, rest);
    return turn_once(l);
}

/* The thread took the long way out of a driver that slept: it has to watch again. */
static void stop_driving(void *arg)
{
    struct loop *l = arg;
    if (atomic_fetch_sub(&l->drivers, 1) == 1 && atomic_load(&l->away) == LOOP_FAR) {
        loop_rouse(l);
    }
}

/* Turns of the caller must not be cut short by a cancellation while he has the lock: that may strike in
 * loop_sleep() only. */
static bool drive(struct loop *l, int timeout_ms, int fd)
{
    int state;
    bool busy;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    atomic_fetch_add(&l->drivers, 1);
    count_up(&l->drives);
    pthread_cleanup_push(stop_driving, l);
    busy = progress(l, timeout_ms, fd);
    pthread_cleanup_pop(1);
    pthread_setcancelstate(state, NULL);
    return busy;
}

/* --- waiting outside: in the program's own poll() --- */

static void go_outside(struct loop *l)
{
    if (l->timer_fd < 0 || l->threaded) {
        return;
    }
    pthread_mutex_lock(&l->lock);
    int limit = 0;
    if (!atomic_exchange(&l->is_outside, true)) {
        limit = loop_lie_down(l, &l->outside, -1);
    }
    loop_let_go(l, false);
    struct itimerspec t = {.it_value = {limit / 1000, limit % 1000 * 1000000}};
    if (limit == 0 || atomic_load(&l->posted) != NULL) {
        poke(l->wake_fd);
    } else if (limit > 0) {
        timerfd_settime(l->timer_fd, 0, &t, NULL);
    }
}

/* Returns whether anybody was outside. */
static bool come_inside(struct loop *l)
{
    if (!atomic_load_explicit(&l->is_outside, memory_order_relaxed)) {
        return false;
    }
    pthread_mutex_lock(&l->lock);
    bool was = atomic_exchange(&l->is_outside, false);
    if (was) {
        timerfd_settime(l->timer_fd, 0, &(struct itimerspec){.it_value = {0}}, NULL);
        loop_drain(l->wake_fd);
        loop_get_up(l, &l->outside);
    }
    loop_release(l);
    return was;
}

int loop_outside_fd(struct loop *l)
{
    pthread_mutex_lock(&l->lock);
    int err = 0;
    if (l->timer_fd < 0 && !l->threaded) {
        l->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        struct epoll_event ev = {.events = EPOLLIN, .data.fd = l->timer_fd};
        if (l->timer_fd < 0 || epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->timer_fd, &ev) != 0) {
            err = errno;
        }
        poke(l->wake_fd); /* nobody has looked for work on its behalf yet */
    }
    loop_release(l);
    return err != 0 ? fail(err, "timer: %s", strerror(err)) : l->epoll_fd;
}

bool loop_progress(struct loop *l, int timeout_ms)
{
    bool was = come_inside(l);
    bool busy = drive(l, timeout_ms, -1);
    if (timeout_ms == 0 ? !busy : was) { /* it may be another thread that waits there */
        go_outside(l);
    }
    return busy;
}

void loop_wait(struct loop *l, int fd)
{
    bool was = come_inside(l);
    drive(l, -1, fd);
    if (was) {
        go_outside(l);
    }
}

void loop_before_wait(struct loop *l)
{
    atomic_store_explicit(&l->user_turns, 0, memory_order_relaxed);
    if (atomic_load(&l->drivers) == 0 && atomic_exchange(&l->away, LOOP_HERE) != LOOP_HERE) {
        loop_rouse(l);
    }
}

/* --- the thread --- */

/* A program that polls turns the loop faster than we can: the thread would only take its lock away
 * and be woken by every frame. It waits out a moment on its own descriptor. */
static bool user_is_polling(struct loop *l)
{
    return atomic_exchange_explicit(&l->user_turns, 0, memory_order_relaxed) > USER_BUSY_TURNS;
}

/* A program that waits in our calls turns the loop meanwhile. Between two of them it works on what came, and
 * will be back sooner than we could be of use. */
static bool user_is_driving(struct loop *l, unsigned *seen)
{
    unsigned now = atomic_load_explicit(&l->drives, memory_order_relaxed);
    bool more = now != *seen;
    *seen = now;
    return more || atomic_load(&l->drivers) > 0;
}

/* Near: it will be back in a moment. A wake-up costs it its processor, so the longer it has been at it (ms) the less
 * often we look. Far: a driver has slept for a while and may go on so. Returns for how long it was, in ms. */
static unsigned keep_away(struct loop *l, unsigned since, unsigned quiet)
{
    unsigned near = min_u32(since / NEAR_PART + 1, NEAR_MAX_MS);
    struct pollfd p = {.fd = l->thread_fd, .events = POLLIN};
    bool far = quiet > KEEP_NEAR && atomic_load(&l->drivers) > 0;
    atomic_store(&l->away, far ? LOOP_FAR : LOOP_NEAR);
    if (far && atomic_load(&l->drivers) == 0) {
        far = false; /* he has just left, and did not see that we went far */
    }
    if (poll(&p, 1, far ? FAR_MS : (int)near) > 0) {
        loop_drain(l->thread_fd);
    }
    atomic_store(&l->away, LOOP_HERE);
    return near;
}

static void thread_turn(struct loop *l)
{
    bool busy = turn_once(l);
    give_way(l);
    if (busy) {
        return;
    }
    uint32_t rest = loop_rest_us(l);
    if (rest > 0 || !spin(l)) {
        loop_sleep(l, -1, -1, rest);
    }
}

void *loop_thread(void *arg)
{
    struct loop *l = arg;
    unsigned turns = 0, quiet = 0, drives = 0, since = 0;
    while (!atomic_load(&l->stop)) {
        bool driving = user_is_driving(l, &drives);
        if (user_is_polling(l) || driving) {
            unsigned now = atomic_load(&l->turns);
            quiet = now == turns ? quiet + 1 : 0;
            turns = now;
            since = min_u32(since + keep_away(l, since, quiet), NEAR_PART * NEAR_MAX_MS);
        } else {
            quiet = since = 0;
            thread_turn(l);
        }
    }
    return NULL;
}
