/* SPDX-License-Identifier: MIT */
/* Receiving: one loop straight down, from the stream's octets to placed data and completions. */
#include "api/conn.h"

/* --- placing into the receive of a Send --- */

/* Copies n octets of the payload into one sge at off; false when the sge is not what it claims. */
static bool place_piece(struct uiw_conn *c, const struct uiw_sge *sge, uint32_t off, uint32_t n,
                        struct cursor *payload)
{
    struct mspan dst;
    if (ddp_mem_check(&c->dev->mem,
                      &(struct ddp_access){sge->lkey, sge->addr + off, n, DDP_LOCAL_WRITE,
                                           c->qp->pd->id, c->qp->num},
                      &dst) != DDP_MEM_OK) {
        return false;
    }
    cursor_take(payload, n, dst.p);
    return true;
}

static bool place_recv(struct uiw_conn *c, uint32_t at, struct cursor payload)
{
    const struct recv_now *r = &c->qp->recv;
    for (uint32_t i = 0; i < r->num_sge && payload.left > 0; i++) {
        uint32_t len = r->sge[i].length;
        if (at >= len) {
            at -= len;
            continue;
        }
        uint32_t n = min_u32(len - at, payload.left);
        if (!place_piece(c, &r->sge[i], at, n, &payload)) {
            return false;
        }
        at = 0;
    }
    return payload.left == 0;
}

/* --- events --- */

static void recv_failed(struct uiw_conn *c, enum uiw_wc_status status)
{
    if (c->qp != NULL && c->qp->recv.used) {
        struct verdict v = c->st.fault;
        struct uiw_wc wc = {
            .status = status,
            .vendor_err = v.bad ? (uint32_t)v.layer << 16 | (uint32_t)v.type << 8 | v.code : 0};
        qp_complete_recv(c->qp, &wc);
    }
}

/* The receive that it uses up keeps its memory as it was. */
static void on_immediate(struct uiw_conn *c, const struct rdmap_rx_event *ev)
{
    uint8_t octets[RDMAP_IMMEDIATE_LEN] = {0};
    struct cursor payload = ev->seg.payload;
    cursor_take(&payload, sizeof octets, octets);
    struct uiw_wc wc = {.status = UIW_WC_SUCCESS,
                        .byte_len = sizeof octets,
                        .flags = UIW_WC_WITH_IMM,
                        .imm = get_be64(octets)};
    if (rdmap_opcode_solicits(ev->opcode)) {
        wc.flags |= UIW_WC_SOLICITED;
    }
    qp_complete_recv(c->qp, &wc);
}

static void on_send(struct uiw_conn *c, const struct rdmap_rx_event *ev)
{
    if (c->absorb_rtr && !c->qp->recv.used) {
        c->absorb_rtr = false; /* RFC 6581 sec 9.2: the RTR is no message of the ULP */
        return;
    }
    if (ev->invalidated != 0) {
        mem_revoke(ddp_mem_find(&c->dev->mem, ev->invalidated));
    }
    if (rdmap_opcode_immediate(ev->opcode)) {
        on_immediate(c, ev);
        return;
    }
    if (!place_recv(c, ev->seg.hdr.mo, ev->seg.payload)) {
        rdmap_fail(&c->st, verdict_bad(LAYER_DDP, DDP_LOCAL, 0));
        recv_failed(c, UIW_WC_LOC_PROT_ERR);
        conn_fault(c, UIW_REASON_LOCAL);
        return;
    }
    if (!ev->last) {
        return;
    }
    struct uiw_wc wc = {.status = UIW_WC_SUCCESS, .byte_len = ev->seg.hdr.mo + ev->seg.plen};
    if (rdmap_opcode_solicits(ev->opcode)) {
        wc.flags |= UIW_WC_SOLICITED;
    }
    if (rdmap_opcode_invalidates(ev->opcode)) {
        wc.flags |= UIW_WC_WITH_INV;
        wc.invalidated = ev->invalidated;
    }
    qp_complete_recv(c->qp, &wc);
}

static void on_read_done(struct uiw_conn *c)
{
    struct rdmap_open *r = rdmap_orq_head(&c->st);
    uint32_t user = r->user;
    uint32_t sink = r->sink_stag;
    rdmap_orq_pop(&c->st);
    if (user == CONN_READ_OF_RTR) {
        return;
    }
    struct send_wqe *e = wq_send(&c->qp->sq, user);
    if (e->opcode == UIW_WR_RDMA_READ_WITH_INV) {
        struct ddp_mem *m = ddp_mem_find(&c->dev->mem, sink);
        if (m != NULL) {
            mem_revoke(m);
        }
    }
    e->state = WQE_DONE;
    qp_reap(c->qp, net_tx_acked(c->stream));
}

static void on_atomic_done(struct uiw_conn *c, uint64_t original)
{
    uint32_t index = rdmap_orq_head(&c->st)->user;
    struct send_wqe *e = wq_send(&c->qp->sq, index);
    const struct uiw_sge *sge = &e->u.atomic.sink;
    struct mspan dst;
    rdmap_orq_pop(&c->st);
    if (ddp_mem_check(&c->dev->mem,
                      &(struct ddp_access){sge->lkey, sge->addr, sge->length, DDP_LOCAL_WRITE,
                                           c->qp->pd->id, c->qp->num},
                      &dst) != DDP_MEM_OK) {
        conn_fail_request(c, index, UIW_WC_LOC_PROT_ERR);
        return;
    }
    struct span value = {(const uint8_t *)&original, sizeof original};
    ddp_mem_place(dst, cursor_of(&value, 1));
    e->state = WQE_DONE;
    qp_reap(c->qp, net_tx_acked(c->stream));
}

/* The Read whose answer it was; all else that is posted is flushed. */
static void blame_own_read(struct uiw_conn *c, const struct rdmap_rx_event *ev)
{
    enum rdmap_blame why = rdmap_rx_blame(&c->st, ev);
    const struct rdmap_open *r = rdmap_orq_head(&c->st);
    if (why != RDMAP_BLAME_NONE && r->user != CONN_READ_OF_RTR) {
        qp_send_failed(c->qp, r->user,
                       why == RDMAP_BLAME_SINK ? UIW_WC_LOC_PROT_ERR : UIW_WC_FATAL_ERR);
    }
}

static void on_fault(struct uiw_conn *c)
{
    struct verdict v = c->st.fault;
    recv_failed(c, verdict_is(v, LAYER_DDP, DDP_UNTAGGED, DDP_UNT_TOOLONG) ? UIW_WC_LOC_LEN_ERR
                                                                           : UIW_WC_FATAL_ERR);
    conn_fault(c, UIW_REASON_FAULT);
}

static void on_event(struct uiw_conn *c, const struct rdmap_rx_event *ev)
{
    switch (ev->kind) {
    case RDMAP_RX_WRITE: ddp_mem_place(ev->dst, ev->seg.payload); break;
    case RDMAP_RX_SEND: on_send(c, ev); break;
    case RDMAP_RX_READ_RESPONSE:
        ddp_mem_place(ev->dst, ev->seg.payload);
        if (ev->last) {
            on_read_done(c);
        }
        break;
    case RDMAP_RX_ATOMIC_RESPONSE: on_atomic_done(c, ev->original); break;
    case RDMAP_RX_TERMINATE: conn_terminated(c, &ev->term); break;
    case RDMAP_RX_FAULT:
        blame_own_read(c, ev);
        on_fault(c);
        break;
    default: break;
    }
}

/* --- the loop --- */

/* Gives the Send that begins a buffer. False: none, and the stream is to stand still. */
static bool provide_recv(struct uiw_conn *c, unsigned opcode)
{
    if (c->absorb_rtr && !rdmap_opcode_immediate(opcode)) {
        rdmap_rx_give_recv(&c->st, 0);
        return true;
    }
    if (qp_take_recv(c->qp)) {
        rdmap_rx_give_recv(&c->st, c->qp->recv.len);
        return true;
    }
    if (c->dev->spec.rnr_s == 0) {
        rdmap_rx_no_recv(&c->st);
        return true;
    }
    return false;
}

static void stand_still(struct uiw_conn *c)
{
    if (!c->rnr) {
        c->rnr = true;
        conn_set_deadline(c, c->dev->spec.rnr_s * 1000u);
    }
    /* Against uiw_qp_post_recv(): it sees the mark after its push, or we see its receive. */
    atomic_store_explicit(&c->qp->rnr, true, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

static void go_on(struct uiw_conn *c)
{
    c->rnr = false;
    atomic_store_explicit(&c->qp->rnr, false, memory_order_relaxed);
    conn_no_deadline(c);
}

static bool recv_is_there(const struct uiw_conn *c)
{
    struct wq *q = c->qp->srq != NULL ? &c->qp->srq->rq : &c->qp->rq;
    return ring_count(&q->ring) > 0;
}

/* Judges the ULPDU in dev->ulpdu. False: it has to wait for a receive. */
static bool take_ulpdu(struct uiw_conn *c)
{
    const struct mpa_ulpdu *u = &c->dev->scratch->ulpdu;
    struct cursor cur = cursor_of(u->v, u->cnt);
    struct rdmap_rx_event ev;
    rdmap_rx(&c->st, &c->dev->mem, cur, &ev);
    while (ev.kind == RDMAP_RX_WANT_RECV) {
        if (!provide_recv(c, ev.opcode)) {
            stand_still(c);
            if (!recv_is_there(c)) {
                return false;
            }
            continue;
        }
        rdmap_rx_again(&c->st, &c->dev->mem, &ev);
    }
    if (c->rnr) {
        go_on(c);
    }
    c->may_send = true;
    c->absorb_rtr = c->absorb_rtr && ev.kind == RDMAP_RX_SEND;
    on_event(c, &ev);
    return true;
}

static bool listens(const struct uiw_conn *c)
{
    return c->stream != NULL && c->qp != NULL && !c->st.dead;
}

/* Takes FPDUs from the cursor; false when no more can be taken now. */
static bool rx_one(struct uiw_conn *c, struct cursor *cur)
{
    struct verdict why;
    struct mpa_rx mrx = c->mrx;
    struct cursor before = *cur;
    switch (mpa_rx_next(&c->mrx, cur, &c->dev->scratch->ulpdu, &why)) {
    case MPA_RX_ULPDU: break;
    case MPA_RX_MORE: return false;
    case MPA_RX_BAD:
        rdmap_fail(&c->st, why);
        on_fault(c);
        return false;
    }
    if (!take_ulpdu(c)) {
        c->mrx = mrx;
        *cur = before;
        return false;
    }
    return listens(c);
}

void conn_rx(struct uiw_conn *c)
{
    while (listens(c)) {
        struct span *v = c->dev->scratch->spans;
        struct cursor cur = cursor_of(v, net_rx_peek(c->stream, v, CONN_RX_SPANS));
        uint32_t total = cur.left;
        if (total == 0) {
            return;
        }
        while (rx_one(c, &cur)) {
        }
        c->rx_octets += total - cur.left;
        if (c->stream != NULL) {
            net_rx_consume(c->stream, total - cur.left);
        }
        if (total == cur.left) {
            return;
        }
    }
    /* After an error later input is dropped silently (RFC 5040 sec 7.1), so that the peer's FIN
     * can come. */
    if (c->stream != NULL && c->st.dead) {
        net_rx_consume(c->stream, net_rx_queued(c->stream));
    }
}
