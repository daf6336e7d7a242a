/* SPDX-License-Identifier: MIT */
/* The thread that looks after a run: see session.h. Workers may sleep or spin without looking at
 * anything but completions; whatever ends a run early goes through the end of its connections, which
 * they see. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "session.h"

enum { TURN_NS = 100000000, LOOK_NS = 1000000000, REASON_TURNS = 20 };

/* Octets that went over any connection. */
static uint64_t octets(struct session *s)
{
    struct uiw_conn_info info;
    uint64_t n = 0;

    for (unsigned i = 0; i < s->nlinks; i++) {
        if (uiw_conn_query(s->links[i].conn, &info) == 0)
            n += info.tx_octets + info.rx_octets;
    }
    return n;
}

static void abort_all(struct session *s)
{
    for (unsigned i = 0; i < s->nlinks; i++)
        (void)uiw_abort(s->links[i].conn);
}

static void take_events(struct session *s)
{
    struct uiw_event ev;

    while (tool_event(s->tool, &ev))
        session_event(s, &ev);
}

/* True: stopped. */
static bool wait_turn(struct session *s)
{
    struct timespec until;
    bool stop;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += TURN_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&s->lock);
    if (!s->minder_stop)
        (void)pthread_cond_timedwait(&s->minder_wakes, &s->lock, &until);
    stop = s->minder_stop;
    pthread_mutex_unlock(&s->lock);
    return stop;
}

static bool has_words(struct session *s)
{
    bool has;

    pthread_mutex_lock(&s->lock);
    has = s->text[0] != '\0';
    pthread_mutex_unlock(&s->lock);
    return has;
}

/* A worker that saw its work flushed waits for an event to say why. */
static void end_run(struct session *s)
{
    for (int i = 0; i < REASON_TURNS && !has_words(s); i++) {
        take_events(s);
        if (wait_turn(s))
            break;
    }
    abort_all(s);
}

static void show(const struct session *s, uint64_t since_ns)
{
    const struct perf_run *run = &s->run;
    double share, n = 0;

    for (unsigned i = 0; i < s->nworkers; i++)
        n += (double)atomic_load_explicit(&s->workers[i].done, memory_order_relaxed);
    share = run->count > 0 ? n / (double)run->count / s->nlinks
                           : (double)since_ns / (double)run->duration_ns;
    fprintf(stderr, "\r%s %s  %" PRIu64 " octets  %3.0f%%  %.0f messages ", perf_op_text(s->job.op),
            perf_test_text(&s->job), run->size, share < 1 ? 100 * share : 100.0, n);
}

static void *minder_main(void *arg)
{
    struct session *s = arg;
    uint64_t begin = tool_now_ns(), moved_at = begin, looked_at = begin, last = 0;

    while (!wait_turn(s)) {
        uint64_t now = tool_now_ns();

        take_events(s);
        if (s->show)
            show(s, now - begin);
        if (now - looked_at >= LOOK_NS) {
            uint64_t n = octets(s);

            looked_at = now;
            moved_at = n != last ? now : moved_at;
            last = n;
        }
        if (tool_stopped())
            session_fail(s, "interrupted");
        if (now - moved_at > s->timeout_s * UINT64_C(1000000000))
            session_fail(s, "nothing has moved for %u s", s->timeout_s);
        if (session_failed(s)) {
            end_run(s);
            break;
        }
    }
    if (s->show)
        fprintf(stderr, "\r%*s\r", 78, "");
    return NULL;
}

bool minder_start(struct session *s)
{
    int err;

    s->minder_stop = false;
    err = pthread_create(&s->minder, NULL, minder_main, s);
    if (err != 0) {
        session_fail(s, "thread: %s", strerror(err));
        return false;
    }
    s->minding = true;
    return true;
}

void minder_stop(struct session *s)
{
    if (!s->minding)
        return;
    pthread_mutex_lock(&s->lock);
    s->minder_stop = true;
    pthread_cond_signal(&s->minder_wakes);
    pthread_mutex_unlock(&s->lock);
    (void)pthread_join(s->minder, NULL);
    s->minding = false;
}
