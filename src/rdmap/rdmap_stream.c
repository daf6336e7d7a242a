/* SPDX-License-Identifier: MIT */
/* State of a stream, its read queues, and the sending side. */
#include "rdmap/rdmap_stream.h"

void rdmap_stream_init(struct rdmap_stream *st, const struct rdmap_cfg *cfg)
{
    *st = (struct rdmap_stream){
        .orq = {.v = cfg->orq, .cap = cfg->ord},
        .irq = {.v = cfg->irq, .cap = cfg->ird},
        .pd = cfg->pd,
        .id = cfg->id,
        .ext = cfg->ext,
    };
    ddp_rx_init(&st->rx, cfg->ext);
    for (uint32_t i = 0; i < DDP_QNS; i++) {
        st->tx_msn[i] = 1; /* RFC 5041 sec 4.3 */
    }
}

/* --- read queues --- */

struct rdmap_read *rdmap_readq_add(struct rdmap_readq *q)
{
    if (q->cnt >= q->cap) {
        return NULL;
    }
    uint32_t at = q->cnt < q->cap - q->head ? q->head + q->cnt : q->cnt - (q->cap - q->head);
    q->cnt++;
    q->v[at] = (struct rdmap_read){.done = 0};
    return &q->v[at];
}

static struct rdmap_read *readq_head(struct rdmap_readq *q)
{
    return q->cnt > 0 ? &q->v[q->head] : NULL;
}

static void readq_pop(struct rdmap_readq *q)
{
    if (q->cnt > 0) {
        q->head = q->head + 1 < q->cap ? q->head + 1 : 0;
        q->cnt--;
    }
}

struct rdmap_read *rdmap_orq_head(struct rdmap_stream *st)
{
    return readq_head(&st->orq);
}

void rdmap_orq_pop(struct rdmap_stream *st)
{
    readq_pop(&st->orq);
}

bool rdmap_orq_room(const struct rdmap_stream *st)
{
    return st->orq.cnt < st->orq.cap;
}

bool rdmap_irq_pending(const struct rdmap_stream *st)
{
    return st->irq.cnt > 0;
}

void rdmap_irq_pop(struct rdmap_stream *st)
{
    readq_pop(&st->irq);
}

/* --- messages --- */

static struct ddp_msg untagged(struct rdmap_stream *st, unsigned opcode, uint32_t qn, uint32_t len)
{
    return (struct ddp_msg){
        .ulp = rdmap_control(opcode), .qn = qn, .msn = st->tx_msn[qn]++, .len = len};
}

void rdmap_tx_send(struct rdmap_stream *st, unsigned opcode, uint32_t inv_stag, uint32_t len,
                   struct ddp_msg *msg)
{
    *msg = untagged(st, opcode, DDP_QN_SEND, len);
    msg->ulp32 = rdmap_opcode_invalidates(opcode) ? inv_stag : 0; /* RFC 5040 sec 4.1 */
}

void rdmap_tx_write(struct rdmap_stream *st, uint32_t stag, uint64_t to, uint32_t len,
                    struct ddp_msg *msg)
{
    (void)st; /* a tagged message leaves no trace in the stream */
    *msg = (struct ddp_msg){
        .tagged = true, .ulp = rdmap_control(RDMAP_WRITE), .stag = stag, .to = to, .len = len};
}

void rdmap_tx_read(struct rdmap_stream *st, const struct rdmap_read_request *req, uint64_t user,
                   struct ddp_msg *msg, uint8_t payload[RDMAP_READ_REQUEST_LEN])
{
    *msg = untagged(st, RDMAP_READ_REQUEST, DDP_QN_REQUEST, RDMAP_READ_REQUEST_LEN);
    rdmap_read_request_pack(req, payload);
    struct rdmap_read *r = rdmap_readq_add(&st->orq);
    if (r != NULL) {
        r->req = *req;
        r->msn = msg->msn;
        r->user = user;
    }
}

void rdmap_fail_response(struct rdmap_stream *st, enum ddp_mem_fault fault, uint32_t done)
{
    const struct rdmap_read *r = readq_head(&st->irq);
    if (st->dead || r == NULL) {
        return;
    }
    struct rdmap_read_request rest = r->req;
    rest.sink_to += done;
    rest.src_to += done;
    rest.len -= min_u32(done, rest.len);
    st->dead = true;
    st->fault = ddp_mem_verdict_read(fault);
    st->cause = (struct rdmap_cause){
        .ddp_len = DDP_UNTAGGED_LEN,
        .seg_len = DDP_UNTAGGED_LEN + RDMAP_READ_REQUEST_LEN,
        .has_read = true,
    };
    memcpy(st->cause.ddp, r->ddp, DDP_UNTAGGED_LEN);
    rdmap_read_request_pack(&rest, st->cause.read);
}

bool rdmap_tx_response(struct rdmap_stream *st, const struct ddp_mem_table *mem,
                       struct ddp_msg *msg, struct mspan *src)
{
    const struct rdmap_read *r = readq_head(&st->irq);
    if (st->dead || r == NULL) {
        return false;
    }
    *src = (struct mspan){NULL, 0};
    /* A Read of nothing reads from anywhere (RFC 5040 sec 5.2.1). */
    if (r->req.len > 0) {
        enum ddp_mem_fault f =
            ddp_mem_check(mem,
                          &(struct ddp_access){r->req.src_stag, r->req.src_to, r->req.len,
                                               DDP_REMOTE_READ, st->pd, st->id},
                          src);
        if (f != DDP_MEM_OK) {
            rdmap_fail_response(st, f, 0);
            return false;
        }
    }
    *msg = (struct ddp_msg){
        .tagged = true,
        .ulp = rdmap_control(RDMAP_READ_RESPONSE),
        .stag = r->req.sink_stag,
        .to = r->req.sink_to,
        .len = r->req.len,
    };
    return true;
}

void rdmap_tx_terminate(struct rdmap_stream *st, struct ddp_msg *msg,
                        uint8_t payload[RDMAP_TERM_MAX])
{
    uint32_t len = rdmap_term_pack(st->fault, &st->cause, payload);
    *msg = untagged(st, RDMAP_TERMINATE, DDP_QN_TERMINATE, len);
}

void rdmap_fail(struct rdmap_stream *st, struct verdict v)
{
    if (!st->dead) {
        st->dead = true;
        st->fault = v;
        st->cause = (struct rdmap_cause){.ddp_len = 0};
    }
}
