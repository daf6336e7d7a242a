/* SPDX-License-Identifier: MIT */
/* Latency: one message under way in each thread. Of Writes and Sends the other end answers each with
 * one of its own, and half of the round trip counts; of Reads and Atomics the whole of it. A Write is
 * waited for by looking at its last octet in memory, which changes from one to the next; where the
 * program is to sleep, by the completion of the empty Send behind it. */
#include <string.h>

#include "session.h"

static uint8_t stamp(uint64_t n)
{
    return (uint8_t)(n + 1);
}

static bool spins(const struct perf_job *job)
{
    return job->op == PERF_WRITE && !job->events;
}

/* Message n of this end. */
static void post(struct link *l, uint64_t n)
{
    const struct session *s = l->s;
    uint64_t last = s->run.size - 1;

    while (l->posted - l->retired >= l->w->limit && !session_failed(l->s))
        worker_poll(l->w);
    if (s->job.check)
        check_post(l, n, 0);
    if (s->job.op == PERF_WRITE)
        l->out[last] = stamp(n);
    if (!session_failed(l->s))
        link_post(l, 1);
}

/* Whether message n of the other end has come; false: no more will come. */
static bool await(struct link *l, uint64_t n)
{
    const struct perf_job *job = &l->s->job;
    const uint8_t *last = l->in + l->s->run.size - 1;

    if (spins(job)) {
        while (__atomic_load_n(last, __ATOMIC_ACQUIRE) != stamp(n)) {
            if (l->marks == 2 || session_failed(l->s))
                return false;
            worker_poll(l->w);
        }
        return true;
    }
    while (l->received == n) {
        if (l->marks == 2 || session_failed(l->s))
            return false;
        worker_poll(l->w);
    }
    return true;
}

static void check_came(struct link *l, uint64_t n)
{
    const struct session *s = l->s;
    uint64_t last = s->run.size - 1;

    /* A Send is looked at when its receive completes. */
    if (s->job.check && s->job.op == PERF_WRITE &&
        (!check_same(l->in, last, check_seed(l, !s->server, n)) || l->in[last] != stamp(n)))
        l->w->errors++;
}

static void once(struct link *l, uint64_t n)
{
    post(l, n);
    if (perf_ping_pong(&l->s->job)) {
        (void)await(l, n);
    } else {
        while (l->retired != l->posted && !session_failed(l->s))
            worker_poll(l->w);
    }
}

static uint64_t measure(struct worker *w, uint64_t from, uint64_t until_ns)
{
    struct link *l = w->links;
    const struct perf_job *job = &w->s->job;
    uint64_t shift = perf_ping_pong(job) ? 1 : 0, count = w->s->run.count, n = 0;
    uint64_t begin = w->begin_ns, now = begin;

    while ((until_ns > 0 ? now < until_ns : n < count) && !session_failed(w->s)) {
        once(l, from + n);
        now = tool_now_ns();
        histogram_add(&w->hist, (now - begin) >> shift);
        atomic_store_explicit(&w->done, ++n, memory_order_relaxed);
        if (job->check) {
            check_came(l, from + n - 1);
        }
        begin = tool_now_ns(); /* what is done about a trip that is over is no part of the next */
    }
    return n;
}

void latency_client(struct worker *w)
{
    const struct perf_run *run = &w->s->run;
    uint64_t n = 0;

    for (; n < run->warmup && !session_failed(w->s); n++) {
        once(w->links, n);
        check_came(w->links, n);
    }
    worker_begin(w);
    worker_marks(w);
    n = measure(w, n, run->duration_ns > 0 ? w->begin_ns + run->duration_ns : 0);
    worker_end(w, n);
    worker_marks(w);
}

void latency_server(struct worker *w)
{
    struct link *l = w->links;

    for (uint64_t n = 0; await(l, n); n++) {
        check_came(l, n);
        post(l, n);
    }
}
