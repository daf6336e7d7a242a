/* SPDX-License-Identifier: MIT */
/* One data connection: posting, and what completions mean. */
#include <string.h>

#include "session.h"

#define TAG_FLUSH (UINT64_C(1) << 63)
#define TAG_BACK  (UINT64_C(1) << 62)
#define TAG_MARK  (UINT64_C(1) << 61)

/* Beside the messages: flush, read-back and the marks of two runs. */
enum { SPARE = 8, MARK_RECVS = 4 };

static uint32_t recv_depth(const struct perf_job *job)
{
    return perf_receives(job) ? job->rx_depth + MARK_RECVS : MARK_RECVS;
}

static uint32_t recv_slots(const struct link *l)
{
    const struct perf_job *job = &l->s->job;
    uint64_t n = perf_area(job) / perf_stride(job->max_size);

    return n < recv_depth(job) ? (uint32_t)n : recv_depth(job);
}

/* With check no two receives share memory, so there may be as many as slots. */
static uint32_t recv_limit(const struct link *l)
{
    const struct perf_job *job = &l->s->job;

    return job->op == PERF_SEND && job->check ? recv_slots(l) : recv_depth(job);
}

static uint8_t *recv_place(const struct link *l, uint64_t n)
{
    return l->in + n % recv_slots(l) * perf_stride(l->s->job.max_size);
}

/* Receives of Writes and the like get marks only, which are empty: no sge. */
static void post_recvs(struct link *l, unsigned n)
{
    struct worker *w = l->w;
    uint32_t slots = recv_slots(l);
    uint64_t stride = perf_stride(l->s->job.max_size);
    uint32_t slot = (uint32_t)(l->recv_posted % slots);

    for (unsigned i = 0; i < n; i++) {
        w->recv_sge[i].addr = (uint64_t)(uintptr_t)l->in + slot * stride;
        w->recv_wr[i].next = i + 1 < n ? &w->recv_wr[i + 1] : NULL;
        slot = slot + 1 == slots ? 0 : slot + 1;
    }
    l->recv_posted += n;
    if (uiw_qp_post_recv(l->qp, w->recv_wr, NULL) != 0)
        session_fail(l->s, "%s", uiw_error());
}

static void setup_recvs(struct link *l)
{
    struct worker *w = l->w;

    for (unsigned i = 0; i < PERF_BATCH; i++) {
        w->recv_sge[i] = (struct uiw_sge){.length = (uint32_t)l->s->job.max_size,
                                          .lkey = uiw_mr_lkey(l->s->in_mr)};
        w->recv_wr[i] = (struct uiw_recv_wr){.sg_list = &w->recv_sge[i],
                                             .num_sge = l->s->job.op == PERF_SEND ? 1 : 0};
    }
    for (uint32_t left = recv_limit(l), n; left > 0; left -= n) {
        n = left < PERF_BATCH ? left : PERF_BATCH;
        post_recvs(l, n);
    }
}

bool link_make(struct link *l)
{
    struct session *s = l->s;
    const struct perf_job *job = &s->job;
    struct uiw_qp_attr attr = {
        .send_cq = l->w->cq,
        .recv_cq = l->w->cq,
        .max_send_wr = job->tx_depth * (perf_with_send(job) ? 2 : 1) + SPARE,
        .max_recv_wr = recv_depth(job),
        .max_send_sge = 1,
        .max_recv_sge = 1,
        .max_inline = job->max_inline,
        .user = l,
    };

    if (uiw_qp_create(s->tool->pd, &attr, &l->qp) != 0) {
        session_fail(s, "%s", uiw_error());
        return false;
    }
    setup_recvs(l);
    return !session_failed(s);
}

void link_reset(struct link *l)
{
    l->posted = l->retired = l->target = l->received = l->lap_begin = 0;
    l->slot = l->since_signal = 0;
    l->flushing = l->flushed = l->reading_back = false;
    l->marks = 0;
    check_prepare(l);
}

/* --- sending --- */

static void send_wr(struct link *l, struct uiw_send_wr *wr)
{
    if (uiw_qp_post_send(l->qp, wr, NULL) != 0)
        session_fail(l->s, "%s", uiw_error());
}

static void set_atomic(struct uiw_send_wr *wr, const struct link *l, uint64_t n)
{
    wr->remote_addr = l->remote;
    if (l->s->job.op == PERF_FETCH_ADD)
        wr->atomic.compare_add = 1;
    else
        wr->atomic = (struct uiw_atomic){.compare_add = n, .swap = n + 1};
}

/* Behind the last Write of a ping, in the same call. */
static void add_wakeup(struct worker *w, unsigned n)
{
    struct uiw_send_wr *wr = &w->wr[n];

    *wr = (struct uiw_send_wr){
        .wr_id = w->wr[n - 1].wr_id, .opcode = UIW_WR_SEND, .flags = w->wr[n - 1].flags};
    wr->flags &= ~(unsigned)UIW_SEND_INLINE;
    w->wr[n - 1].flags &= ~(unsigned)UIW_SEND_SIGNALED;
    w->wr[n - 1].next = wr;
}

void link_post(struct link *l, unsigned n)
{
    struct worker *w = l->w;
    const struct perf_job *job = &l->s->job;
    bool atomics = perf_is_atomic(job), one_way = job->op == PERF_WRITE || job->op == PERF_SEND;
    unsigned flags = one_way && l->s->run.size <= job->max_inline ? UIW_SEND_INLINE : 0u;
    uint64_t from = (uint64_t)(uintptr_t)l->out;

    for (unsigned i = 0; i < n; i++) {
        struct uiw_send_wr *wr = &w->wr[i];
        uint64_t at = l->slot * w->stride;

        if (job->check && !job->lat)
            check_post(l, l->posted, l->slot);
        w->sge[i].addr = from + at;
        wr->remote_addr = l->remote + at;
        wr->rkey = l->rkey;
        if (atomics)
            set_atomic(wr, l, l->posted);
        wr->wr_id = ++l->posted;
        wr->flags = flags;
        if (++l->since_signal == w->cq_mod) {
            l->since_signal = 0;
            wr->flags |= UIW_SEND_SIGNALED;
        }
        wr->next = i + 1 < n ? &w->wr[i + 1] : NULL;
        l->slot = l->slot + 1 == w->slots ? 0 : l->slot + 1;
    }
    if (perf_with_send(job))
        add_wakeup(w, n);
    send_wr(l, w->wr);
}

/* A Read of that many octets from the peer's buffer. */
static void send_read(struct link *l, uint64_t tag, void *to, uint32_t length)
{
    struct uiw_sge sge = {
        .addr = (uint64_t)(uintptr_t)to, .length = length, .lkey = uiw_mr_lkey(l->s->out_mr)};
    struct uiw_send_wr wr = {
        .wr_id = tag | l->posted,
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = UIW_WR_RDMA_READ,
        .flags = UIW_SEND_SIGNALED,
        .remote_addr = l->remote,
        .rkey = l->rkey,
    };

    l->since_signal = 0;
    send_wr(l, &wr);
}

void link_flush(struct link *l)
{
    l->flushing = true;
    send_read(l, TAG_FLUSH, l->out, 0);
}

void link_read_back(struct link *l)
{
    uint64_t length = (l->posted - l->lap_begin) * l->w->stride;

    l->reading_back = true;
    memset(l->back, 0, length);
    send_read(l, TAG_BACK, l->back, (uint32_t)length);
}

void link_mark(struct link *l)
{
    struct uiw_send_wr wr = {
        .wr_id = TAG_MARK,
        .opcode = UIW_WR_SEND,
        /* Else the slots of the last run's marks would wait for a later completion. */
        .flags = UIW_SEND_SOLICITED | UIW_SEND_SIGNALED,
    };

    send_wr(l, &wr);
}

/* --- completions --- */

static void retire(struct link *l, uint64_t upto)
{
    const struct perf_job *job = &l->s->job;
    uint64_t done = atomic_load_explicit(&l->w->done, memory_order_relaxed);

    if (job->check && job->op != PERF_WRITE && job->op != PERF_SEND) {
        for (uint64_t n = l->retired; n < upto; n++)
            check_retired(l, n);
    }
    atomic_store_explicit(&l->w->done, done + upto - l->retired, memory_order_relaxed);
    l->retired = upto;
}

static void on_sent(struct link *l, uint64_t wr_id)
{
    if ((wr_id & TAG_MARK) != 0)
        return;
    retire(l, wr_id & ~(TAG_FLUSH | TAG_BACK));
    if ((wr_id & TAG_FLUSH) != 0)
        l->flushed = true;
    if ((wr_id & TAG_BACK) != 0) {
        check_read_back(l);
        l->reading_back = false;
        l->lap_begin = l->posted;
        l->slot = 0;
    }
}

static void on_received(struct link *l, const struct uiw_wc *wc)
{
    if ((wc->flags & UIW_WC_SOLICITED) != 0) {
        if (l->marks++ == 0 && l->index == 0 && l->s->server)
            l->s->cpu_begin_ns = stats_cpu_ns();
    } else {
        if (l->s->job.check && l->s->job.op == PERF_SEND)
            check_received(l, recv_place(l, l->recv_taken), wc->byte_len);
        l->received++;
    }
    l->recv_taken++;
    l->recv_used++;
    /* Marks are few; what carries messages is posted again in batches. */
    if (l->recv_used * 8 >= recv_limit(l) || l->recv_used == PERF_BATCH) {
        post_recvs(l, l->recv_used);
        l->recv_used = 0;
    }
}

void link_completion(struct link *l, const struct uiw_wc *wc)
{
    if (wc->status == UIW_WC_WR_FLUSH_ERR)
        session_fail(l->s, NULL);
    else if (wc->status != UIW_WC_SUCCESS)
        session_fail(l->s, "connection %u: %s", l->index, uiw_wc_status_text(wc->status));
    else if (wc->opcode == UIW_WC_RECV)
        on_received(l, wc);
    else
        on_sent(l, wc->wr_id);
}
