/* SPDX-License-Identifier: MIT */
/* The threads that post and poll. The first of them is the thread that calls workers_run(). */
#include <string.h>
#include <time.h>

#include "session.h"

/* Completions come in bursts, and when this thread had to wait for a processor up to a whole depth of them
 * at once; a window has many times that, else its rate would be that of chance. */
enum { WINDOW_NS = 10000000, SHOWN_BURSTS = 16, PEAK_DEPTHS = 8, BURST_OCTETS = 256 << 10 };

static void take(struct worker *w, const struct uiw_wc *wc, int n)
{
    for (int i = 0; i < n; i++)
        link_completion(wc[i].qp_user, &wc[i]);
    if (n < 0)
        session_fail(w->s, "%s", uiw_error());
}

static int poll_once(struct worker *w)
{
    struct uiw_wc wc[PERF_BATCH];
    int n = uiw_cq_poll(w->cq, PERF_BATCH, wc);

    take(w, wc, n);
    return n;
}

void worker_poll(struct worker *w)
{
    struct uiw_cq *cq;

    if (poll_once(w) != 0 || !w->s->job.events)
        return;
    if (uiw_cq_arm(w->cq, false) != 0)
        session_fail(w->s, "%s", uiw_error());
    /* A connection that ends flushes its receives, and that wakes us too. */
    if (poll_once(w) == 0 && !session_failed(w->s) &&
        uiw_comp_channel_get(w->comps, &cq, NULL) != 0)
        session_fail(w->s, "%s", uiw_error());
}

void worker_await_marks(struct worker *w, unsigned marks)
{
    for (unsigned i = 0; i < w->nlinks; i++) {
        while (w->links[i].marks < marks && !session_failed(w->s))
            worker_poll(w);
    }
}

/* Waits for the other workers. What comes meanwhile is taken: the other end may still be waiting for it
 * to go on. */
static void meet(struct worker *w)
{
    const struct timespec nap = {.tv_nsec = 50000};

    atomic_fetch_add(&w->s->met, 1);
    while (atomic_load(&w->s->met) < w->s->nworkers && !session_failed(w->s)) {
        if (poll_once(w) == 0 && w->s->job.events)
            nanosleep(&nap, NULL);
    }
}

void worker_marks(struct worker *w)
{
    for (unsigned i = 0; i < w->nlinks && !session_failed(w->s); i++)
        link_mark(&w->links[i]);
}

/* --- rates --- */

static uint64_t all_done(struct session *s)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < s->nworkers; i++)
        n += atomic_load_explicit(&s->workers[i].done, memory_order_relaxed);
    return n;
}

static void keep_sample(struct sampling *g, uint64_t since, double rate)
{
    if (g->count > 0 && since - g->samples[g->count - 1].ns < g->every_ns)
        return;
    if (g->count == STATS_SAMPLES) {
        for (unsigned i = 0; i < STATS_SAMPLES / 2; i++)
            g->samples[i] = g->samples[2 * i + 1];
        g->count = STATS_SAMPLES / 2;
        g->every_ns *= 2;
        return;
    }
    g->samples[g->count++] = (struct sample){.ns = since, .rate = rate};
}

/* The rate since the window began, when it has that many messages; it then begins anew. Else 0. */
static double window(struct window *win, uint64_t now, uint64_t done, uint64_t least)
{
    double rate;

    if (now - win->at_ns < WINDOW_NS || done - win->done < least)
        return 0;
    rate = (double)(done - win->done) * 1e9 / (double)(now - win->at_ns);
    *win = (struct window){.at_ns = now, .done = done};
    return rate;
}

static void sample(struct worker *w, uint64_t now)
{
    struct sampling *g = &w->s->sampling;
    uint64_t done, burst = (uint64_t)w->cq_mod * w->s->nlinks;
    uint64_t depth = (uint64_t)w->limit * w->s->nlinks;
    double rate;

    if (w->index != 0 || now - g->shown.at_ns < WINDOW_NS)
        return;
    done = all_done(w->s);
    rate = window(&g->shown, now, done, SHOWN_BURSTS * burst);
    if (rate > 0)
        keep_sample(g, now - w->begin_ns, rate);
    rate = window(&g->counted, now, done, PEAK_DEPTHS * depth);
    g->peak = rate > g->peak ? rate : g->peak;
}

void worker_begin(struct worker *w)
{
    struct session *s = w->s;

    atomic_store(&w->done, 0);
    meet(w);
    w->begin_ns = tool_now_ns();
    if (w->index == 0) {
        s->sampling = (struct sampling){.samples = s->sampling.samples,
                                        .shown.at_ns = w->begin_ns,
                                        .counted.at_ns = w->begin_ns,
                                        .every_ns = WINDOW_NS};
        if (!s->server)
            s->cpu_begin_ns = stats_cpu_ns();
    }
}

void worker_end(struct worker *w, uint64_t messages)
{
    w->end_ns = tool_now_ns();
    w->messages = messages;
}

/* --- bandwidth --- */

static bool reads_back(const struct link *l)
{
    return l->s->job.check && l->s->job.op == PERF_WRITE;
}

/* What fits; at least post_list at a time while there is so much. True: more later. */
static bool post_batch(struct link *l)
{
    struct worker *w = l->w;
    uint64_t room = w->limit - (l->posted - l->retired), left = l->target - l->posted;
    bool laps = reads_back(l);
    unsigned n = w->post_list;

    if (laps && l->reading_back)
        return false;
    if (laps && w->slots - (l->posted - l->lap_begin) < left)
        left = w->slots - (l->posted - l->lap_begin);
    if (left < n)
        n = (unsigned)left;
    if (n == 0 || room < n)
        return false;
    link_post(l, n);
    if (laps && (l->posted == l->target || l->posted - l->lap_begin == w->slots))
        link_read_back(l);
    return true;
}

/* True: all is at the other end. */
static bool step(struct link *l, bool stop)
{
    if (stop)
        l->target = l->posted;
    while (!session_failed(l->s) && post_batch(l))
        ;
    if (l->posted == l->target && !l->flushing && !l->reading_back && !session_failed(l->s)) {
        if (reads_back(l) && l->posted != l->lap_begin)
            link_read_back(l);
        else
            link_flush(l);
    }
    return l->flushed;
}

/* Sends count messages on each link, or until that time. Returns how many in all. */
static uint64_t drive(struct worker *w, uint64_t count, uint64_t until_ns)
{
    uint64_t begun = 0, sent = 0;
    unsigned left;

    for (unsigned i = 0; i < w->nlinks; i++) {
        struct link *l = &w->links[i];

        l->target = count > 0 || until_ns == 0 ? l->posted + count : UINT64_MAX;
        l->flushing = l->flushed = false;
        begun += l->posted;
    }
    do {
        uint64_t now = tool_now_ns();
        bool stop = until_ns > 0 && now >= until_ns;

        sample(w, now);
        left = 0;
        for (unsigned i = 0; i < w->nlinks; i++)
            left += !step(&w->links[i], stop);
        if (left > 0)
            worker_poll(w);
    } while (left > 0 && !session_failed(w->s));
    for (unsigned i = 0; i < w->nlinks; i++)
        sent += w->links[i].posted;
    return sent - begun;
}

static void timed(struct worker *w)
{
    const struct perf_run *run = &w->s->run;

    worker_begin(w);
    worker_marks(w);
    worker_end(w, drive(w, run->count, run->duration_ns > 0 ? w->begin_ns + run->duration_ns : 0));
    worker_marks(w);
}

static void bandwidth(struct worker *w)
{
    struct session *s = w->s;
    bool active = !s->server || s->job.bidir, peer_active = s->server || s->job.bidir;

    if (active && s->run.warmup > 0)
        (void)drive(w, s->run.warmup, 0);
    if (s->server && active)
        worker_await_marks(w, 1);
    if (active)
        timed(w);
    if (peer_active)
        worker_await_marks(w, 2);
}

/* --- a run --- */

static enum uiw_wr_opcode opcode_of(enum perf_op op)
{
    static const enum uiw_wr_opcode opcodes[] = {UIW_WR_RDMA_WRITE, UIW_WR_RDMA_READ, UIW_WR_SEND,
                                                 UIW_WR_ATOMIC_FETCH_ADD, UIW_WR_ATOMIC_CMP_SWAP};

    return opcodes[op];
}

static uint32_t at_most(uint32_t n, uint64_t limit)
{
    return n < limit ? n : (uint32_t)limit;
}

static void prepare(struct worker *w)
{
    const struct perf_job *job = &w->s->job;
    uint32_t half;

    w->stride = perf_is_atomic(job) ? 8 : perf_stride(w->s->run.size);
    w->slots = job->lat ? 1 : at_most(job->tx_depth, perf_area(job) / w->stride);
    /* What is checked keeps its slot until then. */
    w->limit = job->check ? at_most(job->tx_depth, w->slots) : job->tx_depth;
    half = w->limit > 1 ? w->limit / 2 : 1;
    /* Large messages can afford a completion each, and are news. */
    w->cq_mod = at_most(at_most(job->cq_mod, half), 1 + BURST_OCTETS / w->s->run.size);
    w->post_list = at_most(job->post_list, half);
    w->errors = w->messages = 0;
    w->begin_ns = w->end_ns = 0;
    histogram_clear(&w->hist);
    for (unsigned i = 0; i < PERF_BATCH; i++) {
        w->sge[i] =
            (struct uiw_sge){.length = (uint32_t)w->s->run.size, .lkey = uiw_mr_lkey(w->s->out_mr)};
        w->wr[i] =
            (struct uiw_send_wr){.opcode = opcode_of(job->op), .sg_list = &w->sge[i], .num_sge = 1};
    }
    for (unsigned i = 0; i < w->nlinks; i++)
        link_reset(&w->links[i]);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    const struct perf_job *job = &w->s->job;

    if (!job->lat)
        bandwidth(w);
    else if (!w->s->server)
        latency_client(w);
    else if (perf_ping_pong(job))
        latency_server(w);
    else
        worker_await_marks(w, 2);
    return NULL;
}

/* Before the other end is told that we are ready. */
void workers_prepare(struct session *s)
{
    atomic_store(&s->met, 0);
    for (unsigned i = 0; i < s->nworkers; i++)
        prepare(&s->workers[i]);
}

static void start(struct session *s)
{
    for (unsigned i = 1; i < s->nworkers; i++) {
        int err = pthread_create(&s->workers[i].thread, NULL, worker_main, &s->workers[i]);

        if (err != 0) {
            session_fail(s, "thread: %s", strerror(err));
            return;
        }
        s->workers[i].running = true;
    }
}

void workers_run(struct session *s)
{
    start(s);
    (void)worker_main(&s->workers[0]);
    for (unsigned i = 1; i < s->nworkers; i++) {
        if (s->workers[i].running)
            (void)pthread_join(s->workers[i].thread, NULL);
        s->workers[i].running = false;
    }
}

void session_result(struct session *s, struct perf_result *r)
{
    uint64_t begin = UINT64_MAX, end = 0;
    double average;

    *r = (struct perf_result){.cpu_ns = stats_cpu_ns() - s->cpu_begin_ns};
    for (unsigned i = 0; i < s->nworkers; i++) {
        struct worker *w = &s->workers[i];

        r->messages += w->messages;
        r->errors += w->errors;
        begin = w->begin_ns < begin ? w->begin_ns : begin;
        end = w->end_ns > end ? w->end_ns : end;
    }
    for (unsigned i = 0; i < s->nlinks; i++) {
        r->sent += s->links[i].posted;
        r->received += s->links[i].received;
    }
    r->ns = end > begin ? end - begin : 0;
    average = result_rate(r);
    r->peak = s->sampling.peak > average ? s->sampling.peak : average;
}
