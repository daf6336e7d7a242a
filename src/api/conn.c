/* SPDX-License-Identifier: MIT */
#include "api/conn.h"

#include <errno.h>
#include <stdlib.h>

/* --- life --- */

struct conn_scratch *conn_scratch_new(void)
{
    return calloc(1, sizeof(struct conn_scratch));
}

struct uiw_conn *conn_new(struct uiw_device *dev, struct uiw_event_channel *ch)
{
    struct uiw_conn *c = calloc(1, sizeof *c);
    struct conn_setup *setup = calloc(1, sizeof *setup);
    struct cm_event *last = c != NULL ? cm_event_new(c, UIW_EVENT_DISCONNECTED, NULL) : NULL;
    if (setup == NULL || last == NULL) {
        free(c);
        free(setup);
        free(last);
        return NULL;
    }
    c->dev = dev;
    c->channel = ch;
    c->setup = setup;
    c->last = last;
    list_init(&c->on_timed);
    list_init(&c->on_listener);
    list_append(&dev->conns, &c->on_device);
    return c;
}

static void conn_free(struct uiw_conn *c)
{
    list_remove(&c->on_device);
    list_remove(&c->on_timed);
    list_remove(&c->on_listener);
    free(c->setup);
    free(c->last);
    free(c->own_reads);
    free(c->peer_reads);
    free(c);
}

void conn_maybe_free(struct uiw_conn *c)
{
    if (c->orphan && c->stream == NULL) {
        conn_free(c);
    }
}

void conn_close_stream(struct uiw_conn *c, bool abort)
{
    if (c->stream != NULL && !c->dev->loop->dead) {
        net_stream_close(c->stream, abort);
    }
    c->stream = NULL;
    c->state = CONN_DOWN;
    conn_no_deadline(c);
}

void conn_drop_all(struct uiw_device *dev)
{
    struct list *node;
    while ((node = list_shift(&dev->conns)) != NULL) {
        struct uiw_conn *c = CONTAINER_OF(node, struct uiw_conn, on_device);
        conn_close_stream(c, true);
        conn_free(c);
    }
}

/* --- timers --- */

void conn_set_deadline(struct uiw_conn *c, uint64_t ms_from_now)
{
    c->deadline = net_now_ms() + ms_from_now;
    if (list_empty(&c->dev->timed) || c->deadline < c->dev->timed_at) {
        c->dev->timed_at = c->deadline;
    }
    list_remove(&c->on_timed);
    list_append(&c->dev->timed, &c->on_timed);
}

void conn_no_deadline(struct uiw_conn *c)
{
    list_remove(&c->on_timed);
}

/* Nothing is acknowledged any more, or only the peer's FIN is missing. One that is busy with what it has gets the time
 * that is left; no reset takes anything from it, and the stream ends by itself. */
static void close_is_due(struct uiw_conn *c)
{
    static const char text[] = "closed; the peer did not close its side in time";
    bool in_order = c->state == CONN_DRAIN && !c->st.dead && !c->ended;
    if (in_order && net_now_ms() < c->close_until && net_peer_behind(c->stream)) {
        conn_set_deadline(c, CONN_DRAIN_MS);
    } else if (in_order) {
        conn_end(c, UIW_REASON_CLOSED, NULL, text);
        conn_close_stream(c, false);
    } else {
        conn_kill(c, UIW_REASON_CLOSED, text);
    }
}

static void on_deadline(struct uiw_conn *c)
{
    conn_no_deadline(c);
    switch (c->state) {
    case CONN_TCP: conn_kill(c, UIW_REASON_UNREACHABLE, "no answer within the set-up limit"); break;
    case CONN_SETUP:
        conn_kill(c, UIW_REASON_TIMEOUT,
                  c->initiator ? "no MPA Reply within the set-up limit"
                               : "no MPA Request within the set-up limit");
        break;
    case CONN_OPEN:
        if (!c->rnr) {
            conn_nudge(c);
            break;
        }
        rdmap_rx_no_recv(&c->st); /* the wait for a receive is over: RFC 5041 sec 7.1 */
        c->rnr = false;
        conn_rx(c);
        break;
    case CONN_CLOSING:
        if (conn_nudge_due(c)) {
            conn_nudge(c);
            conn_set_deadline(c, CONN_CLOSE_MS);
            conn_close_step(c);
            break;
        }
        __attribute__((fallthrough));
    default: close_is_due(c); break;
    }
}

void conn_run_timers(struct uiw_device *dev)
{
    if (list_empty(&dev->timed) || net_now_ms() < dev->timed_at) {
        return;
    }
    uint64_t now = net_now_ms();
    uint64_t next = UINT64_MAX;
    struct list *it = dev->timed.next;
    while (it != &dev->timed) {
        struct uiw_conn *c = CONTAINER_OF(it, struct uiw_conn, on_timed);
        it = it->next;
        if (c->deadline <= now) {
            on_deadline(c);
            conn_maybe_free(c);
        } else {
            next = min_u64(next, c->deadline);
        }
    }
    dev->timed_at = next;
    /* What ran above may have set deadlines of its own. */
    LIST_EACH(node, &dev->timed)
    {
        struct uiw_conn *c = CONTAINER_OF(node, struct uiw_conn, on_timed);
        dev->timed_at = min_u64(dev->timed_at, c->deadline);
    }
}

/* --- what the net says --- */

static void on_data(struct uiw_conn *c)
{
    switch (c->state) {
    case CONN_SETUP: conn_setup_rx(c); break;
    case CONN_DECIDE:
        /* The Initiator must wait for the Reply (RFC 5044 sec 7.1.1; reading 8.1). */
        if (net_rx_queued(c->stream) > 0) {
            conn_kill(c, UIW_REASON_MALFORMED, "peer: octets behind the MPA Request");
        }
        break;
    case CONN_OPEN:
    case CONN_CLOSING:
    case CONN_DRAIN: conn_rx(c); break;
    default: break;
    }
}

static void on_closed(struct uiw_conn *c)
{
    int err = net_error(c->stream);
    if (c->state == CONN_TCP || c->state == CONN_SETUP) {
        conn_setup_lost(c, err);
        return;
    }
    if (c->state == CONN_DRAIN && (err == 0 || c->st.dead)) {
        conn_end(c, UIW_REASON_CLOSED, NULL, "closed");
        conn_close_stream(c, true);
        return;
    }
    if (err == -ETIMEDOUT) {
        conn_kill(c, UIW_REASON_TIMEOUT, "the peer does not answer any more");
    } else {
        conn_kill(c, UIW_REASON_RESET, "the peer reset the connection");
    }
}

static void on_stream(struct uiw_conn *c, unsigned events)
{
    if ((events & NET_EV_ACKED) != 0 && c->qp != NULL) {
        qp_reap(c->qp, net_tx_acked(c->stream));
    }
    if ((events & NET_EV_ACKED) != 0 && c->state >= CONN_CLOSING) {
        conn_close_moves(c);
    }
    if ((events & NET_EV_UP) != 0) {
        conn_setup_up(c);
    }
    if ((events & NET_EV_DATA) != 0 && c->stream != NULL) {
        on_data(c);
    }
    if ((events & NET_EV_FIN) != 0 && c->stream != NULL) {
        c->peer_fin = true;
        conn_fin(c);
    }
    if (c->stream != NULL) {
        conn_run(c);
    }
    if ((events & NET_EV_CLOSED) != 0 && c->stream != NULL) {
        on_closed(c);
    }
}

void conn_on_net(struct uiw_device *dev, const struct net_ready *r)
{
    (void)dev;
    if (r->listener != NULL) {
        cm_accept(r->user);
        return;
    }
    struct uiw_conn *c = r->user;
    if (c != NULL) {
        on_stream(c, r->events);
        conn_maybe_free(c);
    }
}

/* --- what others ask for --- */

void conn_run(struct uiw_conn *c)
{
    if (c->qp != NULL && c->qp->cq_failed && !c->ended) {
        c->qp->cq_failed = false;
        if (c->state == CONN_OPEN || c->state == CONN_CLOSING) {
            rdmap_fail(&c->st, verdict_bad(LAYER_RDMAP, RDMAP_OPERATION, RDMAP_OP_STREAM));
            conn_fault(c, UIW_REASON_LOCAL);
        } else {
            conn_kill(c, UIW_REASON_LOCAL, "completion queue overflow");
        }
    }
    if (c->rnr && c->state == CONN_OPEN) {
        conn_rx(c);
        if (c->peer_fin && !c->rnr && c->stream != NULL) {
            conn_fin(c);
        }
    }
    if (c->stream != NULL) {
        conn_tx(c);
        conn_close_step(c);
    }
    if (c->ended && c->qp != NULL) {
        qp_flush(c->qp);
    }
}

void conn_unlend_all(struct uiw_device *dev, const void *p, uint64_t n)
{
    LIST_EACH(it, &dev->conns)
    {
        struct uiw_conn *c = CONTAINER_OF(it, struct uiw_conn, on_device);
        if (c->stream != NULL && c->state >= CONN_OPEN) {
            net_tx_unlend(c->stream, p, n);
        }
    }
}

void conn_resume_rnr(const struct uiw_srq *srq)
{
    LIST_EACH(it, &srq->pd->dev->conns)
    {
        struct uiw_conn *c = CONTAINER_OF(it, struct uiw_conn, on_device);
        if (c->rnr && c->qp != NULL && c->qp->srq == srq) {
            loop_post_later(c->dev->loop, c->qp);
        }
    }
}
