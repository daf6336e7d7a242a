/* SPDX-License-Identifier: MIT */
/* The loop that owns a device's links, stack and protocol state. Whoever holds its lock turns it: the
 * progress thread, or a program's thread inside a call. lwIP is one stack for the process, so all
 * devices on it share one loop. */
#ifndef UIW_API_LOOP_H
#define UIW_API_LOOP_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/spin.h"
#include "base/list.h"

struct uiw_qp;

/* Who sleeps on the links. */
struct sleeper {
    struct list node; /* of loop.asleep */
    uint64_t until;   /* ms of net_now_ms(): it wakes by itself then */
};

enum { LOOP_HERE, LOOP_NEAR, LOOP_FAR };

struct loop {
    pthread_mutex_t lock;
    atomic_uint waiters;             /* calls that want the lock from the progress thread */
    struct list devices;             /* by device.on_loop */
    _Atomic(struct uiw_qp *) posted; /* stack of QPs with new work, by qp.next_posted */
    struct list asleep;              /* sleepers, with the lock */
    atomic_int sleepers;             /* how many these are */
    atomic_int away;        /* the thread keeps out of a program's way: LOOP_NEAR, LOOP_FAR */
    atomic_uint user_turns; /* empty polls that turned the loop */
    atomic_uint turns;      /* of anybody */
    atomic_uint posts;      /* since the last turn */
    struct uiw_qp *posting; /* whose frame leaves before its completions are told */
    atomic_int drivers;     /* calls that wait and turn the loop meanwhile */
    atomic_uint drives;     /* such calls so far */
    int epoll_fd;
    int wake_fd; /* wakes who sleeps on the links */
    int thread_fd; /* wakes the thread while it keeps away: it must not take what is meant for those */
    int timer_fd; /* of the program that waits by itself; -1 until it has asked for loop_outside_fd() */
    struct sleeper outside; /* that program */
    atomic_bool is_outside;
    bool threaded;
    atomic_bool stop;
    pthread_t thread;
    unsigned spin_us;
    struct spinning spinning;
    unsigned users; /* devices */
    bool shared;
    bool dead;        /* inherited by fork(): nothing of it works here */
    struct list node; /* of all loops */
};

struct uiw_device;

/* The loop for a new device: the one that lwIP kinds share, or a fresh one. Negative errno. */
int loop_get(bool shared, bool threaded, unsigned spin_us, struct loop **out);
void loop_put(struct loop *l);

/* Adds or removes a device; with the lock held. */
int loop_add(struct loop *l, struct uiw_device *dev);
void loop_del(struct loop *l, struct uiw_device *dev);

/* Starts the progress thread once. It blocks all signals. */
int loop_start(struct loop *l);

/* What that thread does: arg is the loop. */
void *loop_thread(void *arg);

void loop_lock(struct loop *l);
void loop_unlock(struct loop *l);

/* Wakes whoever sleeps on the links. */
void loop_wake(struct loop *l);

/* Ends the thread's keeping away. */
void loop_rouse(struct loop *l);

/* True when the loop has no thread of its own. */
bool loop_polled(const struct loop *l);

/* One turn; waits for up to timeout_ms when there was nothing to do. Returns whether there was. */
bool loop_progress(struct loop *l, int timeout_ms);

/* A descriptor for a program that waits in a poll() of its own, in a loop without a thread: from the moment that
 * loop_progress() without a timeout has found nothing, until its next call, it is readable when there is something
 * to do. Negative errno. */
int loop_outside_fd(struct loop *l);

/* loop_progress() without a limit, and until that descriptor is readable: another thread's turn may raise what
 * the caller waits for. A cancellation point, with no lock held. */
void loop_wait(struct loop *l, int fd);

/* A turn if nobody else holds the lock (an empty CQ poll). */
void loop_try_turn(struct loop *l);

/* A program thread is about to sleep on a descriptor: the thread must watch the link itself. */
void loop_before_wait(struct loop *l);

/* -ENODEV with its line when the loop was inherited by fork(), else 0. who: the call. */
int loop_alive(const struct loop *l, const char *who);

/* Runs the QPs on the posted stack; with the lock held. */
void loop_take_posted(struct loop *l);

/* The QP asks for a look by the holder of the lock, who is the caller or will see it. */
void loop_post_later(struct loop *l, struct uiw_qp *qp);

/* The QP has new work: does it now when the lock is free, else leaves it to its holder. */
void loop_post(struct loop *l, struct uiw_qp *qp);

#endif
