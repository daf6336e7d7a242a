/* SPDX-License-Identifier: MIT */
#include "api/loop_sleep.h"

#include <poll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "api/device.h"

enum {
    LATE_MS = 5,      /* by which a timer may be late */
    REST_MAX_US = 50, /* who is told to spin for longer does not rest */
};

void loop_drain(int fd)
{
    uint64_t count;
    ssize_t r = read(fd, &count, sizeof count);
    (void)r;
}

/* What a sleeper waits on: a descriptor of its own, ours, and the links'. Those directly, since a wake-up
 * through epoll takes longer; epoll is for more links than fit. */
enum { SLEEP_OWN, SLEEP_WAKE, SLEEP_LINKS, SLEEP_MAX = 8 };

struct sleep {
    struct sleeper me;
    struct loop *loop;
    struct pollfd p[SLEEP_MAX];
    nfds_t n;
};

static int sleep_limit(struct loop *l, int timeout_ms)
{
    LIST_EACH(it, &l->devices)
    {
        int t = device_timeout_ms(CONTAINER_OF(it, struct uiw_device, on_loop));
        if (t >= 0 && (timeout_ms < 0 || t < timeout_ms)) {
            timeout_ms = t;
        }
    }
    return timeout_ms;
}

bool loop_must_wake(struct loop *l)
{
    uint64_t until = UINT64_MAX;
    if (list_empty(&l->asleep)) {
        return false;
    }
    LIST_EACH(it, &l->asleep)
    {
        until = min_u64(until, CONTAINER_OF(it, struct sleeper, node)->until);
    }
    LIST_EACH(it, &l->devices)
    {
        if (net_untold(CONTAINER_OF(it, struct uiw_device, on_loop)->net)) {
            return true;
        }
    }
    int limit = sleep_limit(l, -1);
    return limit >= 0 && net_now_ms() + (uint64_t)limit + LATE_MS < until;
}

int loop_lie_down(struct loop *l, struct sleeper *me, int timeout_ms)
{
    bool ready = false;
    LIST_EACH(it, &l->devices)
    {
        ready |= !device_sleep(CONTAINER_OF(it, struct uiw_device, on_loop));
    }
    timeout_ms = sleep_limit(l, timeout_ms);
    me->until = timeout_ms >= 0 ? net_now_ms() + (uint64_t)timeout_ms : UINT64_MAX;
    list_append(&l->asleep, &me->node);
    atomic_fetch_add(&l->sleepers, 1);
    return ready ? 0 : timeout_ms;
}

void loop_get_up(struct loop *l, struct sleeper *me)
{
    list_remove(&me->node);
    if (atomic_fetch_sub(&l->sleepers, 1) == 1) {
        LIST_EACH(it, &l->devices)
        {
            device_woken(CONTAINER_OF(it, struct uiw_device, on_loop));
        }
    }
}

static void wake_up(void *arg)
{
    struct sleep *s = arg;
    struct loop *l = s->loop;
    pthread_mutex_lock(&l->lock);
    loop_get_up(l, &s->me);
    loop_release(l);
}

static void watch(struct sleep *s, struct loop *l, int link_fd)
{
    if (s->n == SLEEP_MAX) {
        s->n = SLEEP_LINKS;
        link_fd = l->epoll_fd;
    } else if (s->p[SLEEP_LINKS].fd == l->epoll_fd) {
        return;
    }
    s->p[s->n++] = (struct pollfd){.fd = link_fd, .events = POLLIN};
}

uint32_t loop_rest_us(struct loop *l)
{
    uint32_t least = UINT32_MAX;
    pthread_mutex_lock(&l->lock);
    LIST_EACH(it, &l->devices)
    {
        uint32_t us = device_rest_us(CONTAINER_OF(it, struct uiw_device, on_loop));
        least = us < least ? us : least;
    }
    loop_release(l);
    return least == UINT32_MAX || l->spin_us > REST_MAX_US ? 0 : least;
}

static int fall_asleep(struct sleep *s, int timeout_ms)
{
    struct loop *l = s->loop;
    pthread_mutex_lock(&l->lock);
    LIST_EACH(it, &l->devices)
    {
        watch(s, l, net_fd(CONTAINER_OF(it, struct uiw_device, on_loop)->net));
    }
    timeout_ms = loop_lie_down(l, &s->me, timeout_ms);
    loop_let_go(l, false);
    return atomic_load(&l->posted) != NULL || atomic_load(&l->stop) ? 0 : timeout_ms;
}

/* A thread's timers may be late by its slack, commonly 50 us, which is more than a short rest (prctl(2),
 * PR_SET_TIMERSLACK). The links' frames wake nobody meanwhile. */
static void rest_in_poll(struct sleep *s, uint32_t rest)
{
    struct timespec t = {.tv_nsec = (long)rest * 1000};
    int slack = rest < REST_MAX_US ? prctl(PR_GET_TIMERSLACK) : 0;
    if (slack > 0) {
        prctl(PR_SET_TIMERSLACK, 1);
    }
    ppoll(s->p, SLEEP_LINKS, &t, NULL);
    if (slack > 0) {
        prctl(PR_SET_TIMERSLACK, slack);
    }
}

void loop_sleep(struct loop *l, int timeout_ms, int fd, uint32_t rest)
{
    struct sleep s = {.loop = l, .n = SLEEP_LINKS};
    s.p[SLEEP_OWN] = (struct pollfd){.fd = fd, .events = POLLIN};
    s.p[SLEEP_WAKE] = (struct pollfd){.fd = l->wake_fd, .events = POLLIN};
    s.p[SLEEP_LINKS].fd = -1;
    const int limit = fall_asleep(&s, timeout_ms);
    pthread_cleanup_push(wake_up, &s);
    if (limit != 0) {
        int state;
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
        if (rest > 0) {
            rest_in_poll(&s, rest);
        } else {
            poll(s.p, s.n, limit);
        }
        pthread_setcancelstate(state, NULL);
        if (s.p[SLEEP_WAKE].revents != 0) {
            loop_drain(l->wake_fd);
        }
    }
    pthread_cleanup_pop(1);
}
