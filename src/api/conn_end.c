/* SPDX-License-Identifier: MIT */
/* How connections end: faults, Terminate, closing in good order, resets. */
#include <stdio.h>

#include "api/conn.h"

static void async_of(struct uiw_conn *c, const char *text)
{
    const struct verdict v = c->st.fault;
    bool access =
        v.bad && ((v.layer == LAYER_RDMAP && v.type == RDMAP_PROTECTION) || c->st.misaligned ||
                  (v.layer == LAYER_DDP && v.type == DDP_TAGGED && v.code != DDP_TAG_VERSION));
    struct uiw_async_event ev = {.type = access ? UIW_ASYNC_QP_ACCESS : UIW_ASYNC_QP_FATAL,
                                 .user = c->qp->user,
                                 .qp_num = c->qp->num};
    snprintf(ev.text, sizeof ev.text, "%s", text);
    device_async(c->dev, &ev);
}

static void raise_last(struct uiw_conn *c, enum uiw_reason reason, const struct verdict *v,
                       const char *text)
{
    struct cm_event *e = c->last;
    c->last = NULL;
    e->type = c->established ? UIW_EVENT_DISCONNECTED : UIW_EVENT_CONNECT_ERROR;
    e->user = c->user;
    e->reason = reason;
    e->status = cm_errno_of(reason);
    if (v != NULL) {
        e->layer = v->layer;
        e->etype = v->type;
        e->code = v->code;
    }
    snprintf(e->text, sizeof e->text, "%s", text);
    cm_raise(c, e);
}

void conn_end(struct uiw_conn *c, enum uiw_reason reason, const struct verdict *v, const char *text)
{
    if (c->ended) {
        return;
    }
    c->ended = true;
    c->rnr = false;
    if (c->qp != NULL) {
        if (c->stream != NULL && c->state >= CONN_OPEN) {
            /* The flush gives the memory back to the program, TCP still has to send it. */
            net_tx_unlend(c->stream, NULL, UINT64_MAX);
        }
        qp_set_state(c->qp, UIW_QP_ERROR);
    }
    /* A Request that never reached the program: nobody waits for an event. */
    if (c->initiator || c->asked) {
        raise_last(c, reason, v, text);
    } else {
        cm_forget(c);
    }
}

void conn_kill(struct uiw_conn *c, enum uiw_reason reason, const char *text)
{
    conn_close_stream(c, true);
    conn_end(c, reason, NULL, text);
}

/* Whatever happened is in c->st: says so to both ends. */
static void end_by_terminate(struct uiw_conn *c, enum uiw_reason reason, const char *text)
{
    struct verdict v = c->st.fault;
    /* A Responder that heard no FPDU yet may not send any (RFC 5044 sec 7.1.2), but for what went wrong
     * in the set-up (RFC 6581 sec 9.3). */
    if (!c->may_send && reason == UIW_REASON_LOCAL && v.layer != LAYER_LLP) {
        conn_close_stream(c, true);
        conn_end(c, reason, &v, text);
        return;
    }
    /* Whatever message is half sent stays so: the Terminate follows the last whole FPDU. */
    c->tx.active = false;
    c->term_due = true;
    c->state = CONN_DRAIN;
    conn_set_deadline(c, CONN_DRAIN_MS);
    conn_end(c, reason, &v, text);
    conn_tx(c);
}

void conn_fault(struct uiw_conn *c, enum uiw_reason reason)
{
    char text[160];
    snprintf(text, sizeof text, "%s: %s", reason == UIW_REASON_LOCAL ? "here" : "peer's fault",
             verdict_text(c->st.fault));
    if (c->qp != NULL && !c->ended) {
        async_of(c, text);
    }
    end_by_terminate(c, reason, text);
}

static void fail_with_device(struct uiw_conn *c, const char *text)
{
    if (c->state < CONN_OPEN) {
        conn_kill(c, UIW_REASON_LOCAL, text);
    } else if (c->state < CONN_DRAIN && !c->st.dead) {
        rdmap_fail(&c->st, verdict_bad(LAYER_RDMAP, RDMAP_OPERATION, RDMAP_OP_GLOBAL));
        end_by_terminate(c, UIW_REASON_LOCAL, text);
    }
}

void conn_fail_all(struct uiw_device *dev, const char *text)
{
    struct list *it = dev->conns.next;
    while (it != &dev->conns) {
        struct uiw_conn *c = CONTAINER_OF(it, struct uiw_conn, on_device);
        it = it->next;
        fail_with_device(c, text);
        conn_maybe_free(c);
    }
}

void conn_fail_request(struct uiw_conn *c, uint32_t index, enum uiw_wc_status status)
{
    qp_send_failed(c->qp, index, status);
    rdmap_fail(&c->st, verdict_bad(LAYER_RDMAP, RDMAP_LOCAL, 0));
    conn_fault(c, UIW_REASON_LOCAL);
}

/* Whether the Terminate's DDP header is that of this Atomic: no RDMA header comes with those (RFC 7306
 * sec 8.1). */
static bool tells_atomic(const struct rdmap_term *term, const struct rdmap_open *r)
{
    return r->is_atomic && term->ddp_len == DDP_UNTAGGED_LEN &&
           rdmap_opcode(term->ddp[1]) == RDMAP_ATOMIC_REQUEST && get_be32(term->ddp + 10) == r->msn;
}

/* Tells the Read or Atomic that the Terminate speaks of from all the others, which are flushed. Requests
 * are answered in their order, so that it is the oldest. */
static void blame_read(struct uiw_conn *c, const struct rdmap_term *term)
{
    const struct rdmap_open *r = rdmap_orq_head(&c->st);
    if (c->qp == NULL || r == NULL || r->user == CONN_READ_OF_RTR) {
        return;
    }
    bool access = term->v.layer == LAYER_RDMAP && term->v.type == RDMAP_PROTECTION &&
                  term->v.code != RDMAP_PROT_INVALIDATE;
    if (term->has_read || access || tells_atomic(term, r)) {
        qp_send_failed(c->qp, r->user, access ? UIW_WC_REM_ACCESS_ERR : UIW_WC_REM_OP_ERR);
    }
}

void conn_terminated(struct uiw_conn *c, const struct rdmap_term *term)
{
    char text[160];
    snprintf(text, sizeof text, "peer: %s", verdict_text(term->v));
    blame_read(c, term);
    c->tx.active = false;
    c->state = CONN_DRAIN;
    conn_set_deadline(c, CONN_DRAIN_MS);
    net_shutdown(c->stream);
    conn_end(c, UIW_REASON_PEER_TERMINATE, &term->v, text);
}

/* --- in good order --- */

void conn_begin_close(struct uiw_conn *c)
{
    if (c->state != CONN_OPEN) {
        return;
    }
    c->state = CONN_CLOSING;
    if (c->qp != NULL && qp_state(c->qp) == UIW_QP_RTS) {
        qp_set_state(c->qp, UIW_QP_CLOSING);
    }
    if (!conn_nudge_due(c)) {
        conn_set_deadline(c, CONN_CLOSE_MS);
    }
    c->close_until = net_now_ms() + CONN_CLOSE_MAX_MS;
    conn_close_step(c);
}

void conn_close_moves(struct uiw_conn *c)
{
    uint64_t now = net_now_ms();
    bool in_order = (c->state == CONN_CLOSING && !conn_nudge_due(c)) || c->state == CONN_DRAIN;
    if (in_order && !c->st.dead && !c->ended && now < c->close_until) {
        uint64_t wait = c->state == CONN_CLOSING ? CONN_CLOSE_MS : CONN_DRAIN_MS;
        conn_set_deadline(c, min_u64(wait, c->close_until - now));
    }
}

void conn_close_step(struct uiw_conn *c)
{
    if (c->state == CONN_CLOSING) {
        conn_tx(c);
    }
    /* A Responder that heard no FPDU yet may not send any (RFC 5044 sec 7.1.2): then it just closes. */
    if (c->state == CONN_CLOSING && (conn_tx_idle(c) || !c->may_send) && !conn_nudge_due(c)) {
        net_shutdown(c->stream);
        c->state = CONN_DRAIN;
        conn_set_deadline(c, CONN_DRAIN_MS);
    }
    if (c->state == CONN_DRAIN && c->peer_fin && !c->tx.active && !c->term_due &&
        c->stream != NULL) {
        conn_end(c, UIW_REASON_CLOSED, NULL, "closed in good order");
        conn_close_stream(c, false);
    }
}

void conn_fin(struct uiw_conn *c)
{
    if (c->state == CONN_SETUP || c->state == CONN_TCP) {
        conn_setup_lost(c, 0);
        return;
    }
    if (c->state == CONN_DECIDE) {
        conn_kill(c, UIW_REASON_RESET, "the peer closed the connection before it was accepted");
        return;
    }
    if (c->rnr) {
        return; /* what has come is not read yet; conn_run() comes back here */
    }
    if (c->state == CONN_OPEN || (c->state == CONN_CLOSING && !c->st.dead)) {
        /* RFC 5044 sec 8 code 1: in the middle of an FPDU or message, or with Reads open. */
        if (net_rx_queued(c->stream) > 0 || rdmap_rx_in_send(&c->st) || c->st.orq.cnt > 0) {
            conn_kill(c, UIW_REASON_LOST, "the peer closed in the middle of a message");
            return;
        }
        conn_begin_close(c);
    }
    if (c->stream != NULL) {
        conn_close_step(c);
    }
}

void conn_detach_qp(struct uiw_conn *c)
{
    struct uiw_qp *qp = c->qp;
    if (c->state == CONN_DRAIN && c->st.dead) {
        /* A Terminate is on its way: let it arrive. */
        conn_end(c, UIW_REASON_LOCAL, NULL, "the QP was destroyed");
    } else {
        conn_kill(c, UIW_REASON_LOCAL, "the QP was destroyed");
    }
    qp->conn = NULL;
    c->qp = NULL;
}
