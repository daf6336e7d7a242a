/* SPDX-License-Identifier: MIT */
/* The receiving side of a stream. Order of judgement inside one segment (RFC 5040 sec 7.2): length,
 * DDP version, DDP's other fields, RDMAP version, opcode, and last what the opcode asks for. */
#include "rdmap/rdmap_atomic.h"
#include "rdmap/rdmap_stream.h"

static struct verdict operation_fault(unsigned code)
{
    return verdict_bad(LAYER_RDMAP, RDMAP_OPERATION, code);
}

static void die(struct rdmap_stream *st, struct verdict v, const struct ddp_seg *seg)
{
    st->dead = true;
    st->fault = v;
    st->cause = (struct rdmap_cause){.ddp_len = seg->raw_len, .seg_len = seg->len};
    memcpy(st->cause.ddp, seg->raw, seg->raw_len);
}

/* --- tagged --- */

/* A segment of any opcode but Read Response is judged by DDP as a Write (RFC 5041 sec 7.1). */
static struct verdict rx_write(struct rdmap_stream *st, const struct ddp_mem_table *mem,
                               struct rdmap_rx_event *ev)
{
    const struct ddp_hdr *h = &ev->seg.hdr;
    /* The STag and TO of a segment without payload are not looked at (RFC 5041 sec 5.2). */
    if (ev->seg.plen > 0) {
        enum ddp_mem_fault f = ddp_mem_check(
            mem,
            &(struct ddp_access){h->stag, h->to, ev->seg.plen, DDP_REMOTE_WRITE, st->pd, st->id},
            &ev->dst);
        if (f != DDP_MEM_OK) {
            return ddp_mem_verdict_tagged(f);
        }
    }
    struct verdict v = rdmap_check_control(h, st->ext);
    if (!v.bad && ev->seg.plen > 0) {
        ev->kind = RDMAP_RX_WRITE;
    }
    return v;
}

/* The head of orq if it is of that kind: responses come in the order of the requests, so that one of
 * the other kind is one that nobody asked for. */
static struct rdmap_open *orq_head(struct rdmap_stream *st, bool atomic)
{
    struct rdmap_open *r = rdmap_orq_head(st);
    return r != NULL && r->is_atomic == atomic ? r : NULL;
}

/* Whether the segment is the next piece of what the Read asked for. Every one is held against the request,
 * not only the last. */
static struct verdict check_piece(const struct rdmap_open *r, const struct ddp_seg *seg)
{
    const struct ddp_hdr *h = &seg->hdr;
    uint32_t left = r->len - r->done;
    if (seg->plen == 0) {
        return ddp_mem_verdict_tagged(left == 0 ? DDP_MEM_OK : DDP_MEM_BOUNDS);
    }
    if (h->stag != r->sink_stag) {
        return ddp_mem_verdict_tagged(DDP_MEM_STAG);
    }
    bool fits =
        h->to == r->sink_to + r->done && seg->plen <= left && (!h->last || seg->plen == left);
    return ddp_mem_verdict_tagged(fits ? DDP_MEM_OK : DDP_MEM_BOUNDS);
}

/* And whether the sink still takes it. */
static struct verdict check_response(const struct rdmap_stream *st, const struct ddp_mem_table *mem,
                                     const struct rdmap_open *r, struct rdmap_rx_event *ev)
{
    const struct ddp_hdr *h = &ev->seg.hdr;
    struct verdict v = check_piece(r, &ev->seg);
    if (v.bad || ev->seg.plen == 0) {
        return v;
    }
    return ddp_mem_verdict_tagged(ddp_mem_check(
        mem, &(struct ddp_access){h->stag, h->to, ev->seg.plen, DDP_LOCAL_WRITE, st->pd, st->id},
        &ev->dst));
}

enum rdmap_blame rdmap_rx_blame(struct rdmap_stream *st, const struct rdmap_rx_event *ev)
{
    const struct rdmap_open *r = orq_head(st, false);
    const struct verdict *v = &st->fault;
    bool placing = v->layer == LAYER_DDP && v->type == DDP_TAGGED && v->code != DDP_TAG_VERSION;
    if (!placing || ev->opcode != RDMAP_READ_RESPONSE || r == NULL) {
        return RDMAP_BLAME_NONE;
    }
    return check_piece(r, &ev->seg).bad ? RDMAP_BLAME_ANSWER : RDMAP_BLAME_SINK;
}

static struct verdict rx_response(struct rdmap_stream *st, const struct ddp_mem_table *mem,
                                  struct rdmap_rx_event *ev)
{
    struct rdmap_open *r = orq_head(st, false);
    struct verdict v = r != NULL ? check_response(st, mem, r, ev) : VERDICT_OK;
    if (!v.bad) {
        v = rdmap_check_control(&ev->seg.hdr, st->ext);
    }
    if (v.bad) {
        return v;
    }
    if (r == NULL) {
        return operation_fault(RDMAP_OP_OPCODE);
    }
    r->done += ev->seg.plen;
    ev->kind = RDMAP_RX_READ_RESPONSE;
    return VERDICT_OK;
}

/* --- untagged --- */

/* Whatever is wrong with it, a Terminate ends the stream and is never answered by another (RFC 5040
 * sec 5.4, 7.1). */
static bool is_terminate(const struct ddp_hdr *h)
{
    return h->qn == DDP_QN_TERMINATE && !rdmap_check_control(h, false).bad;
}

static struct verdict rx_terminate(struct rdmap_stream *st, struct rdmap_rx_event *ev)
{
    rdmap_term_unpack(ev->seg.payload, &ev->term);
    st->dead = true;
    ev->kind = RDMAP_RX_TERMINATE;
    return VERDICT_OK;
}

/* The STag may be taken away by this stream's peer (RFC 5040 sec 5.3 and 8.1.1). */
static struct verdict invalidate(const struct rdmap_stream *st, struct ddp_mem_table *mem,
                                 uint32_t stag)
{
    struct ddp_mem *m = ddp_mem_find(mem, stag);
    switch (ddp_mem_may_invalidate(mem, m, st->pd, st->id)) {
    case DDP_MEM_OK: m->valid = false; return VERDICT_OK;
    case DDP_MEM_STAG: return operation_fault(RDMAP_OP_INVALIDATE);
    default: return verdict_bad(LAYER_RDMAP, RDMAP_PROTECTION, RDMAP_PROT_INVALIDATE);
    }
}

/* Control octet of a Send queue segment, and the length of Immediate Data (RFC 7306 sec 6.3). */
static struct verdict check_send(const struct rdmap_stream *st, const struct ddp_seg *seg)
{
    struct verdict v = rdmap_check_control(&seg->hdr, st->ext);
    unsigned opcode = rdmap_opcode(seg->hdr.ulp);
    if (v.bad || !rdmap_opcode_immediate(opcode)) {
        return v;
    }
    bool whole = seg->hdr.last && seg->hdr.mo == 0 && seg->plen == RDMAP_IMMEDIATE_LEN;
    return whole ? VERDICT_OK : operation_fault(RDMAP_OP_UNSPECIFIED);
}

static struct verdict rx_send(struct rdmap_stream *st, struct ddp_mem_table *mem,
                              struct rdmap_rx_event *ev)
{
    const struct ddp_hdr *h = &ev->seg.hdr;
    struct verdict ctl = check_send(st, &ev->seg);
    if (ddp_rx_wants_buffer(&st->rx, &ev->seg) && !st->no_recv) {
        /* No receive is used up, or waited for, on behalf of a segment that is refused anyway. */
        if (!ctl.bad) {
            ev->kind = RDMAP_RX_WANT_RECV;
        }
        return ctl;
    }
    if (!ctl.bad && rdmap_opcode_immediate(ev->opcode) && rdmap_rx_in_send(st) &&
        !st->rx.q[DDP_QN_SEND].open) {
        /* Its octets do not go to the receive's memory, which may be none at all. */
        ddp_rx_give_buffer(&st->rx, DDP_QN_SEND, RDMAP_IMMEDIATE_LEN);
    }
    struct verdict v = ddp_rx_check(&st->rx, &ev->seg);
    if (v.bad || ctl.bad) {
        return v.bad ? v : ctl;
    }
    if (!st->rx.q[DDP_QN_SEND].open) {
        /* Segments of one message need not be compared (RFC 5041 sec 4.3): the first counts. */
        st->send_ulp = h->ulp;
        st->send_inv = h->ulp32;
    }
    ev->opcode = rdmap_opcode(st->send_ulp);
    if (h->last && rdmap_opcode_invalidates(ev->opcode)) {
        v = invalidate(st, mem, st->send_inv);
        if (v.bad) {
            return v;
        }
        ev->invalidated = st->send_inv;
    }
    ddp_rx_advance(&st->rx, &ev->seg);
    ev->kind = RDMAP_RX_SEND;
    return VERDICT_OK;
}

/* The header that is all of a message, or what is wrong with its length. */
static struct verdict take_header(struct ddp_seg *seg, uint32_t len, uint8_t *out)
{
    struct cursor c = seg->payload;
    if (!cursor_take(&c, len, out)) {
        return verdict_bad(LAYER_LLP, LLP_MPA, MPA_ERR_MARKER);
    }
    if (!seg->hdr.last) {
        /* It fills its buffer and means to go on. */
        return verdict_bad(LAYER_DDP, DDP_UNTAGGED, DDP_UNT_TOOLONG);
    }
    return VERDICT_OK;
}

static struct verdict queue_request(struct rdmap_stream *st, const struct ddp_seg *seg,
                                    const uint8_t *header, uint32_t len)
{
    uint32_t place;
    if (!rdmap_ring_add(&st->irq, &place)) {
        return operation_fault(RDMAP_OP_STREAM);
    }
    struct rdmap_asked *r = &st->asked[place];
    r->is_atomic = len == RDMAP_ATOMIC_REQUEST_LEN;
    memcpy(r->ddp, seg->raw, sizeof(r->ddp));
    memcpy(r->header, header, len);
    ddp_rx_advance(&st->rx, seg);
    return VERDICT_OK;
}

static struct verdict rx_read_request(struct rdmap_stream *st, struct rdmap_rx_event *ev)
{
    uint8_t header[RDMAP_READ_REQUEST_LEN];
    struct verdict v = take_header(&ev->seg, sizeof(header), header);
    if (!v.bad) {
        v = queue_request(st, &ev->seg, header, sizeof(header));
    }
    ev->kind = v.bad ? ev->kind : RDMAP_RX_READ_REQUEST;
    return v;
}

static struct verdict rx_atomic_request(struct rdmap_stream *st, struct rdmap_rx_event *ev)
{
    uint8_t header[RDMAP_ATOMIC_REQUEST_LEN];
    struct verdict v = take_header(&ev->seg, sizeof(header), header);
    if (v.bad) {
        return v;
    }
    if (!rdmap_atomic_known(rdmap_atomic_op(header))) {
        return operation_fault(RDMAP_OP_OPCODE); /* RFC 7306 sec 5.2.1 */
    }
    v = queue_request(st, &ev->seg, header, sizeof(header));
    ev->kind = v.bad ? ev->kind : RDMAP_RX_ATOMIC_REQUEST;
    return v;
}

static struct verdict rx_atomic_response(struct rdmap_stream *st, struct rdmap_rx_event *ev)
{
    uint8_t header[RDMAP_ATOMIC_RESPONSE_LEN];
    struct rdmap_atomic_response resp;
    struct verdict v = take_header(&ev->seg, sizeof(header), header);
    if (v.bad) {
        return v;
    }
    rdmap_atomic_response_unpack(header, &resp);
    const struct rdmap_open *r = orq_head(st, true);
    if (r == NULL || r->msn != resp.id) {
        return operation_fault(RDMAP_OP_OPCODE); /* RFC 7306 sec 5.2.2: invalid */
    }
    ddp_rx_advance(&st->rx, &ev->seg);
    ev->original = resp.original;
    ev->kind = RDMAP_RX_ATOMIC_RESPONSE;
    return VERDICT_OK;
}

static uint32_t own_buffer(unsigned opcode)
{
    switch (opcode) {
    case RDMAP_READ_REQUEST: return RDMAP_READ_REQUEST_LEN;
    case RDMAP_ATOMIC_REQUEST: return RDMAP_ATOMIC_REQUEST_LEN;
    case RDMAP_ATOMIC_RESPONSE: return RDMAP_ATOMIC_RESPONSE_LEN;
    default: return UINT32_MAX;
    }
}

/* Queues that RDMAP consumes itself: there is always a buffer, of the size of the one message that
 * may come; the depth of the read queue is judged last. */
static struct verdict rx_own_queue(struct rdmap_stream *st, struct rdmap_rx_event *ev)
{
    struct verdict ctl = rdmap_check_control(&ev->seg.hdr, st->ext);
    if (ddp_rx_wants_buffer(&st->rx, &ev->seg)) {
        ddp_rx_give_buffer(&st->rx, ev->seg.hdr.qn, ctl.bad ? UINT32_MAX : own_buffer(ev->opcode));
    }
    struct verdict v = ddp_rx_check(&st->rx, &ev->seg);
    if (v.bad || ctl.bad) {
        return v.bad ? v : ctl;
    }
    switch (ev->opcode) {
    case RDMAP_READ_REQUEST: return rx_read_request(st, ev);
    case RDMAP_ATOMIC_REQUEST: return rx_atomic_request(st, ev);
    default: return rx_atomic_response(st, ev);
    }
}

static struct verdict rx_untagged(struct rdmap_stream *st, struct ddp_mem_table *mem,
                                  struct rdmap_rx_event *ev)
{
    if (is_terminate(&ev->seg.hdr)) {
        return rx_terminate(st, ev);
    }
    return ev->seg.hdr.qn == DDP_QN_SEND ? rx_send(st, mem, ev) : rx_own_queue(st, ev);
}

static struct verdict judge(struct rdmap_stream *st, struct ddp_mem_table *mem,
                            struct rdmap_rx_event *ev)
{
    ev->opcode = rdmap_opcode(ev->seg.hdr.ulp);
    ev->last = ev->seg.hdr.last;
    if (!ev->seg.hdr.tagged) {
        return rx_untagged(st, mem, ev);
    }
    return ev->opcode == RDMAP_READ_RESPONSE ? rx_response(st, mem, ev) : rx_write(st, mem, ev);
}

static void conclude(struct rdmap_stream *st, struct verdict v, struct rdmap_rx_event *ev)
{
    if (v.bad) {
        ev->kind = RDMAP_RX_FAULT;
        ev->dst = (struct mspan){NULL, 0};
        die(st, v, &ev->seg);
    }
}

/* The event is not cleared as a whole: it is large, and there is one for each segment. */
void rdmap_rx(struct rdmap_stream *st, struct ddp_mem_table *mem, struct cursor ulpdu,
              struct rdmap_rx_event *ev)
{
    ev->kind = RDMAP_RX_NONE;
    ev->dst = (struct mspan){NULL, 0};
    ev->invalidated = 0;
    ev->original = 0;
    if (st->dead) {
        return; /* dropped silently (RFC 5041 sec 7.1) */
    }
    struct verdict v = ddp_seg_parse(ulpdu, &ev->seg);
    if (!v.bad) {
        v = judge(st, mem, ev);
    }
    conclude(st, v, ev);
}

void rdmap_rx_again(struct rdmap_stream *st, struct ddp_mem_table *mem, struct rdmap_rx_event *ev)
{
    ev->kind = RDMAP_RX_NONE;
    if (!st->dead) {
        conclude(st, judge(st, mem, ev), ev);
    }
}

void rdmap_rx_give_recv(struct rdmap_stream *st, uint32_t len)
{
    ddp_rx_give_buffer(&st->rx, DDP_QN_SEND, len);
    st->no_recv = false;
}

void rdmap_rx_no_recv(struct rdmap_stream *st)
{
    st->no_recv = true;
}

bool rdmap_rx_in_send(const struct rdmap_stream *st)
{
    return st->rx.q[DDP_QN_SEND].has_buf;
}
