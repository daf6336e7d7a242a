/* SPDX-License-Identifier: MIT */
/* Sending: pulled by room in the stream. Terminate, then responses and requests in turn; one
 * message at a time, since peers (siw) do not take interleaved ones. */
#include "api/conn.h"

enum tx_result { TX_SENT, TX_FULL, TX_FAILED };

/* The memory of one segment's payload; of a response, why there is none any more. */
struct tx_source {
    enum ddp_mem_fault fault;
    uint32_t cnt;
    struct span v[DEVICE_MAX_SGE];
};

/* --- choosing --- */

static bool is_sink(struct uiw_conn *c, const struct uiw_sge *sge)
{
    struct mspan sink;
    return ddp_mem_check(&c->dev->mem,
                         &(struct ddp_access){sge->lkey, sge->addr, sge->length, DDP_LOCAL_WRITE,
                                              c->qp->pd->id, c->qp->num},
                         &sink) == DDP_MEM_OK;
}

static enum uiw_wc_status start_read(struct uiw_conn *c, const struct send_wqe *e)
{
    struct conn_tx *tx = &c->tx;
    struct rdmap_read_request req = {.len = e->len, .src_stag = e->rkey, .src_to = e->remote};
    /* A zero-length Read names no memory; its STag is not 0, which some peers refuse (bugs N02). */
    req.sink_stag = e->num_sge > 0 && e->len > 0 ? e->u.sge[0].lkey : 1;
    req.sink_to = e->num_sge > 0 ? e->u.sge[0].addr : 0;
    if (e->len > 0 && !is_sink(c, &e->u.sge[0])) {
        return UIW_WC_LOC_PROT_ERR;
    }
    rdmap_tx_read(&c->st, &req, tx->index, &tx->msg, tx->small);
    return UIW_WC_SUCCESS;
}

/* RFC 7306 fig. 5: what a field is when the form of the request does not use it. */
static struct rdmap_atomic_request atomic_of(const struct send_wqe *e)
{
    const struct uiw_atomic *a = &e->u.atomic.args;
    struct rdmap_atomic_request r = {.stag = e->rkey, .to = e->remote};
    bool masked =
        e->opcode == UIW_WR_MASKED_ATOMIC_FETCH_ADD || e->opcode == UIW_WR_MASKED_ATOMIC_CMP_SWAP;
    if (e->opcode == UIW_WR_ATOMIC_FETCH_ADD || e->opcode == UIW_WR_MASKED_ATOMIC_FETCH_ADD) {
        r.op = RDMAP_FETCH_ADD;
        r.data = a->compare_add;
        r.mask = masked ? a->compare_add_mask : 0;
        r.compare_mask = UINT64_MAX;
    } else {
        r.op = RDMAP_CMP_SWAP;
        r.data = a->swap;
        r.mask = masked ? a->swap_mask : UINT64_MAX;
        r.compare = a->compare_add;
        r.compare_mask = masked ? a->compare_add_mask : UINT64_MAX;
    }
    return r;
}

static enum uiw_wc_status start_atomic(struct uiw_conn *c, const struct send_wqe *e)
{
    struct conn_tx *tx = &c->tx;
    if (!is_sink(c, &e->u.atomic.sink)) {
        return UIW_WC_LOC_PROT_ERR;
    }
    struct rdmap_atomic_request req = atomic_of(e);
    rdmap_tx_atomic(&c->st, &req, tx->index, &tx->msg, tx->small);
    return UIW_WC_SUCCESS;
}

/* A request with a bad sge sends nothing at all, rather than the part before it. */
static bool sges_are_good(struct uiw_conn *c, const struct send_wqe *e)
{
    struct mspan m;
    uint32_t cnt = (e->flags & UIW_SEND_INLINE) != 0 ? 0 : e->num_sge;
    for (uint32_t i = 0; i < cnt; i++) {
        const struct uiw_sge *sge = &e->u.sge[i];
        if (sge->length > 0 &&
            ddp_mem_check(&c->dev->mem,
                          &(struct ddp_access){sge->lkey, sge->addr, sge->length, DDP_LOCAL_READ,
                                               c->qp->pd->id, c->qp->num},
                          &m) != DDP_MEM_OK) {
            return false;
        }
    }
    return true;
}

static unsigned send_opcode(const struct send_wqe *e)
{
    bool solicited = (e->flags & UIW_SEND_SOLICITED) != 0;
    if (e->opcode == UIW_WR_SEND_WITH_INV) {
        return solicited ? RDMAP_SEND_SE_INV : RDMAP_SEND_INV;
    }
    return solicited ? RDMAP_SEND_SE : RDMAP_SEND;
}

static bool awaits_response(const struct send_wqe *e)
{
    return wqe_is_read(e->opcode) || wqe_is_atomic(e->opcode);
}

static void start_imm(struct uiw_conn *c, const struct send_wqe *e)
{
    bool solicited = (e->flags & UIW_SEND_SOLICITED) != 0;
    c->tx.imm = true;
    rdmap_tx_immediate(&c->st, solicited, e->imm, &c->tx.msg, c->tx.small);
}

/* The request's first message, in tx->msg. */
static enum uiw_wc_status start_message(struct uiw_conn *c, const struct send_wqe *e)
{
    if (awaits_response(e)) {
        if (c->st.orq.cap == 0) {
            return UIW_WC_LOC_QP_ERR;
        }
        return wqe_is_read(e->opcode) ? start_read(c, e) : start_atomic(c, e);
    }
    if (!sges_are_good(c, e)) {
        return UIW_WC_LOC_PROT_ERR;
    }
    switch (e->opcode) {
    case UIW_WR_IMM: start_imm(c, e); break;
    case UIW_WR_RDMA_WRITE:
    case UIW_WR_RDMA_WRITE_WITH_IMM:
        rdmap_tx_write(&c->st, e->rkey, e->remote, e->len, &c->tx.msg);
        break;
    default:
        rdmap_tx_send(&c->st, send_opcode(e), e->opcode == UIW_WR_SEND_WITH_INV ? e->rkey : 0,
                      e->len, &c->tx.msg);
        break;
    }
    return UIW_WC_SUCCESS;
}

/* The next posted request, if it has not to wait for Reads and Atomics. */
static struct send_wqe *next_wr(struct uiw_conn *c)
{
    struct uiw_qp *qp = c->qp;
    if (qp->sq_next == atomic_load_explicit(&qp->sq.ring.tail, memory_order_acquire)) {
        return NULL;
    }
    struct send_wqe *e = wq_send(&qp->sq, qp->sq_next);
    if ((e->flags & UIW_SEND_FENCE) != 0 && c->st.orq.cnt > 0) {
        return NULL;
    }
    if (awaits_response(e) && c->st.orq.cap > 0 && !rdmap_orq_room(&c->st)) {
        return NULL;
    }
    return e;
}

/* Requests on memory send nothing: all that are next are done now. Returns the first other one, if it may go. */
static struct send_wqe *run_local(struct uiw_conn *c)
{
    struct uiw_qp *qp = c->qp;
    struct send_wqe *e = next_wr(c);
    while (e != NULL && mem_is_wr(e->opcode)) {
        uint32_t index = qp->sq_next++;
        enum uiw_wc_status status = mem_wr_run(qp, e);
        if (status != UIW_WC_SUCCESS) {
            conn_fail_request(c, index, status);
            return NULL;
        }
        e->state = WQE_DONE;
        qp_reap(qp, net_tx_acked(c->stream));
        e = c->st.dead ? NULL : next_wr(c);
    }
    return e;
}

static bool start_wr(struct uiw_conn *c, struct send_wqe *e)
{
    c->tx.kind = CONN_TX_WR;
    c->tx.index = c->qp->sq_next++;
    c->tx.sge = 0;
    c->tx.sge_off = 0;
    c->tx.imm = false;
    c->tx.lent = false;
    e->state = WQE_STARTED;
    enum uiw_wc_status status = start_message(c, e);
    if (status != UIW_WC_SUCCESS) {
        conn_fail_request(c, c->tx.index, status);
    }
    return status == UIW_WC_SUCCESS;
}

static bool start_response(struct uiw_conn *c)
{
    struct conn_tx *tx = &c->tx;
    const struct rdmap_asked *r = rdmap_irq_head(&c->st);
    struct mspan src; /* looked up again for each segment: the region may go meanwhile */
    bool good;
    if (r->is_atomic) {
        tx->kind = CONN_TX_ATOMIC_RESPONSE;
        good = rdmap_tx_atomic_response(&c->st, &c->dev->mem, &tx->msg, tx->small);
    } else {
        tx->kind = CONN_TX_RESPONSE;
        rdmap_read_request_unpack(r->header, &tx->req);
        good = rdmap_tx_response(&c->st, &c->dev->mem, &tx->msg, &src);
    }
    if (!good) {
        conn_fault(c, UIW_REASON_FAULT);
    }
    return good;
}

/* Begins the next message, if there is one that may go. What fails to begin leaves tx->active to its
 * Terminate, which may be waiting for room already. */
static bool pick(struct uiw_conn *c)
{
    struct conn_tx *tx = &c->tx;
    struct send_wqe *e = c->qp != NULL && !c->st.dead ? run_local(c) : NULL;
    if (c->term_due) {
        c->term_due = false;
        tx->kind = CONN_TX_TERMINATE;
        rdmap_tx_terminate(&c->st, &tx->msg, tx->small);
        return tx->active = true;
    }
    if (c->st.dead || !c->may_send) {
        return false;
    }
    bool response = rdmap_irq_pending(&c->st);
    if (!response || !tx->response_turn) {
        tx->response_turn = true;
        if (e != NULL && start_wr(c, e)) {
            return tx->active = true;
        }
    } else {
        tx->response_turn = false;
    }
    if (response && !c->st.dead && start_response(c)) {
        tx->active = true;
    }
    return tx->active;
}

/* --- payload --- */

static bool add_local(struct uiw_conn *c, struct tx_source *src, const struct uiw_sge *sge,
                      uint32_t off, uint32_t n)
{
    struct mspan m;
    if (ddp_mem_check(&c->dev->mem,
                      &(struct ddp_access){sge->lkey, sge->addr + off, n, DDP_LOCAL_READ,
                                           c->qp->pd->id, c->qp->num},
                      &m) != DDP_MEM_OK) {
        return false;
    }
    src->v[src->cnt++] = (struct span){m.p, m.n};
    return true;
}

/* The next n octets of the request's sge list. */
static bool source_of_sges(struct uiw_conn *c, const struct send_wqe *e, uint32_t n,
                           struct tx_source *src)
{
    struct conn_tx *tx = &c->tx;
    while (n > 0) {
        const struct uiw_sge *sge = &e->u.sge[tx->sge];
        if (tx->sge_off == sge->length) {
            tx->sge++;
            tx->sge_off = 0;
            continue;
        }
        uint32_t part = min_u32(sge->length - tx->sge_off, n);
        if (!add_local(c, src, sge, tx->sge_off, part)) {
            return false;
        }
        tx->sge_off += part;
        n -= part;
    }
    return true;
}

static bool source_of_wr(struct uiw_conn *c, uint32_t off, uint32_t n, struct tx_source *src)
{
    const struct send_wqe *e = wq_send(&c->qp->sq, c->tx.index);
    if (c->tx.imm || awaits_response(e)) {
        src->v[src->cnt++] = (struct span){c->tx.small + off, n};
        return true;
    }
    if ((e->flags & UIW_SEND_INLINE) != 0) {
        src->v[src->cnt++] = (struct span){e->u.data + off, n};
        return true;
    }
    return source_of_sges(c, e, n, src);
}

static bool source_of_response(struct uiw_conn *c, uint32_t off, uint32_t n, struct tx_source *src)
{
    const struct rdmap_read_request *req = &c->tx.req;
    struct mspan m;
    src->fault = ddp_mem_check(&c->dev->mem,
                               &(struct ddp_access){req->src_stag, req->src_to + off, n,
                                                    DDP_REMOTE_READ, c->st.pd, c->st.id},
                               &m);
    if (src->fault != DDP_MEM_OK) {
        return false;
    }
    src->v[src->cnt++] = (struct span){m.p, m.n};
    return true;
}

static bool source(struct uiw_conn *c, uint32_t off, uint32_t n, struct tx_source *src)
{
    src->cnt = 0;
    if (n == 0) {
        return true;
    }
    switch (c->tx.kind) {
    case CONN_TX_WR: return source_of_wr(c, off, n, src);
    case CONN_TX_RESPONSE: return source_of_response(c, off, n, src);
    default: src->v[src->cnt++] = (struct span){c->tx.small + off, n}; return true;
    }
}

/* The memory of a message that is already half sent is gone, or is another's now. */
static void source_gone(struct uiw_conn *c, enum ddp_mem_fault fault)
{
    if (c->tx.kind == CONN_TX_WR) {
        conn_fail_request(c, c->tx.index, UIW_WC_LOC_PROT_ERR);
    } else {
        rdmap_fail_response(&c->st, fault, c->tx.msg.off);
        conn_fault(c, UIW_REASON_FAULT);
    }
}

/* --- FPDUs --- */

/* Not Read Responses: a program may change what its peer is reading, and the CRC is only right for
 * octets that stay. Not inline data: its slot does not outlive the message. */
static bool may_lend(const struct uiw_conn *c, uint32_t n)
{
    return n >= CONN_LEND_MIN && !c->mtx.markers && c->tx.kind == CONN_TX_WR &&
           (wq_send(&c->qp->sq, c->tx.index)->flags & UIW_SEND_INLINE) == 0;
}

static bool send_lent(struct uiw_conn *c, const uint8_t *hdr, uint32_t hlen, struct tx_source *src,
                      uint32_t n)
{
    uint8_t tail[7];
    struct cursor cur = cursor_of(src->v, src->cnt);
    uint8_t *head = net_tx_reserve(c->stream, MPA_LEN_FIELD + hlen);
    if (head == NULL) {
        return false;
    }
    uint32_t tail_len = mpa_tx_lend(&c->mtx, &(struct mpa_out){hdr, hlen, &cur, n}, head, tail);
    net_tx_commit(c->stream, MPA_LEN_FIELD + hlen);
    for (uint32_t i = 0; i < src->cnt; i++) {
        if (!net_tx_lend(c->stream, src->v[i].p, src->v[i].n)) {
            return false;
        }
    }
    c->tx.lent = true;
    c->tx.lent_to = net_tx_queued(c->stream);
    uint8_t *end = net_tx_reserve(c->stream, tail_len);
    if (end == NULL) {
        return false;
    }
    memcpy(end, tail, tail_len);
    net_tx_commit(c->stream, tail_len);
    return true;
}

static enum tx_result segment_lent(struct uiw_conn *c, uint32_t hlen, uint32_t n)
{
    struct conn_tx *tx = &c->tx;
    struct tx_source src;
    uint8_t hdr[DDP_HDR_MAX];
    if (net_tx_room(c->stream) < mpa_tx_size(&c->mtx, hlen + n)) {
        return TX_FULL;
    }
    if (!source(c, tx->msg.off, n, &src)) {
        source_gone(c, src.fault);
        return TX_FAILED;
    }
    ddp_tx_next(&tx->msg, c->mulpdu, hdr, &hlen);
    if (!send_lent(c, hdr, hlen, &src, n)) {
        /* Half an FPDU is queued: the stream cannot go on. */
        conn_kill(c, UIW_REASON_LOCAL, "out of memory while sending");
        return TX_FAILED;
    }
    return TX_SENT;
}

/* So many segments of n octets of payload. */
static enum tx_result segments_copied(struct uiw_conn *c, uint32_t hlen, uint32_t n, uint32_t count)
{
    struct conn_tx *tx = &c->tx;
    struct tx_source src;
    uint8_t hdr[DDP_HDR_MAX];
    uint32_t unit = mpa_tx_size(&c->mtx, hlen + n);
    uint8_t *dst = net_tx_reserve(c->stream, count * unit);
    if (dst == NULL) {
        return TX_FULL;
    }
    if (!source(c, tx->msg.off, count * n, &src)) {
        source_gone(c, src.fault);
        return TX_FAILED;
    }
    struct cursor cur = cursor_of(src.v, src.cnt);
    for (uint32_t i = 0; i < count; i++) {
        ddp_tx_next(&tx->msg, c->mulpdu, hdr, &hlen);
        dst += mpa_tx_copy(&c->mtx, &(struct mpa_out){hdr, hlen, &cur, n}, dst);
    }
    net_tx_commit_units(c->stream, count * unit, unit);
    return TX_SENT;
}

/* How many full segments of the message may be made in one go: what is paid for each room, look-up and
 * commit is then paid once. With Markers FPDUs differ in length. */
static uint32_t segments_at_once(const struct uiw_conn *c, uint32_t n)
{
    uint32_t left = c->tx.msg.len - c->tx.msg.off;
    bool many = n < CONN_LEND_MIN && left / 2 >= n && n > 0 && !c->mtx.markers;
    return many ? min_u32(left / n, CONN_SEGMENTS_AT_ONCE) : 1;
}

/* One segment of the present message. */
static enum tx_result send_segment(struct uiw_conn *c)
{
    const struct ddp_msg *msg = &c->tx.msg;
    uint32_t hlen = msg->tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
    uint32_t n = min_u32(msg->len - msg->off, c->mulpdu - hlen);
    if (may_lend(c, n)) {
        return segment_lent(c, hlen, n);
    }
    uint32_t count = segments_at_once(c, n);
    enum tx_result r = segments_copied(c, hlen, n, count);
    return r == TX_FULL && count > 1 ? segments_copied(c, hlen, n, 1) : r;
}

static void wr_done(struct uiw_conn *c)
{
    struct conn_tx *tx = &c->tx;
    struct send_wqe *e = wq_send(&c->qp->sq, tx->index);
    if (e->opcode == UIW_WR_RDMA_WRITE_WITH_IMM && !tx->imm) {
        start_imm(c, e); /* at once: nothing of this end comes between but a Terminate */
        tx->active = true;
    } else if (!awaits_response(e)) {
        e->state = tx->lent ? WQE_LENT : WQE_DONE;
        e->done_at = tx->lent_to;
        if (c->dev->loop->posting != c->qp) {
            qp_reap(c->qp, net_tx_acked(c->stream));
        }
    }
}

static void message_done(struct uiw_conn *c)
{
    c->tx.active = false;
    switch (c->tx.kind) {
    case CONN_TX_WR: wr_done(c); break;
    case CONN_TX_RESPONSE:
    case CONN_TX_ATOMIC_RESPONSE: rdmap_irq_pop(&c->st); break;
    case CONN_TX_TERMINATE:
        net_shutdown(c->stream); /* FIN, so that the peer can read it (RFC 5040 sec 5.4) */
        break;
    case CONN_TX_RTR: break;
    }
}

static bool allowed(const struct uiw_conn *c)
{
    return c->stream != NULL &&
           (c->state == CONN_OPEN || c->state == CONN_CLOSING ||
            (c->state == CONN_DRAIN && (c->term_due || c->tx.kind == CONN_TX_TERMINATE)));
}

static void follow_emss(struct uiw_conn *c)
{
    uint32_t emss = net_emss(c->stream);
    if (emss != c->emss) {
        c->emss = emss;
        c->mulpdu = mpa_mulpdu(emss, c->mtx.markers);
    }
}

/* The first FPDUs are out and nothing has come back yet. */
static void expect_answer(struct uiw_conn *c)
{
    if (c->initiator && c->nudges == 0 && c->rx_octets == 0 && !c->rnr && !c->st.dead) {
        c->nudges = 1;
        conn_set_deadline(c, CONN_NUDGE_MS);
    }
}

static bool is_posted(const struct uiw_conn *c)
{
    return c->qp != NULL &&
           c->qp->sq_next != atomic_load_explicit(&c->qp->sq.ring.tail, memory_order_acquire);
}

/* Most often there is nothing, and that is found here. */
static bool has_more(const struct uiw_conn *c)
{
    return c->tx.active || c->term_due || is_posted(c) || rdmap_irq_pending(&c->st);
}

static void send_all(struct uiw_conn *c)
{
    follow_emss(c);
    while (c->tx.active || (has_more(c) && pick(c))) {
        if (send_segment(c) != TX_SENT) {
            return;
        }
        expect_answer(c);
        if (c->tx.msg.done) {
            message_done(c);
        }
    }
}

void conn_tx(struct uiw_conn *c)
{
    if (has_more(c) && allowed(c)) {
        send_all(c);
    }
}

void conn_sent(struct uiw_conn *c)
{
    if (c->qp != NULL && c->stream != NULL) {
        qp_reap(c->qp, net_tx_acked(c->stream));
    }
}

bool conn_nudge_due(const struct uiw_conn *c)
{
    return c->initiator && c->nudges == 1 && c->rx_octets == 0 && !c->peer_fin && !c->st.dead;
}

void conn_nudge(struct uiw_conn *c)
{
    uint64_t wait = CONN_NUDGE_MS;
    if (c->rx_octets > 0 || c->nudges > CONN_NUDGES) {
        return;
    }
    for (unsigned i = 0; i < c->nudges; i++) {
        wait *= 5;
    }
    c->nudges++;
    conn_set_deadline(c, wait);
    if (!c->tx.active) {
        c->tx.active = true;
        c->tx.kind = CONN_TX_RTR;
        rdmap_tx_write(&c->st, 1, 0, 0, &c->tx.msg);
        conn_tx(c);
    }
}

void conn_tx_rtr(struct uiw_conn *c)
{
    struct conn_tx *tx = &c->tx;
    struct rdmap_read_request none = {.sink_stag = 1, .src_stag = 1};
    tx->active = true;
    tx->kind = CONN_TX_RTR;
    if (c->agreed.rtr == MPA_RTR_WRITE) {
        rdmap_tx_write(&c->st, 1, 0, 0, &tx->msg);
    } else if (c->agreed.rtr == MPA_RTR_READ) {
        rdmap_tx_read(&c->st, &none, CONN_READ_OF_RTR, &tx->msg, tx->small);
    } else {
        rdmap_tx_send(&c->st, RDMAP_SEND, 0, 0, &tx->msg);
    }
}

bool conn_tx_idle(struct uiw_conn *c)
{
    return !has_more(c) && c->st.orq.cnt == 0;
}
