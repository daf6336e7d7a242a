/* SPDX-License-Identifier: MIT */
/* State of a stream, its read queues, and the sending side. */
#include "rdmap/rdmap_stream.h"

#include "rdmap/rdmap_atomic.h"

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

static struct rdmap_read *readq_head(const struct rdmap_readq *q)
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

const struct rdmap_read *rdmap_irq_head(const struct rdmap_stream *st)
{
    return readq_head(&st->irq);
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

void rdmap_tx_atomic(struct rdmap_stream *st, const struct rdmap_atomic_request *req, uint64_t user,
                     struct ddp_msg *msg, uint8_t payload[RDMAP_ATOMIC_REQUEST_LEN])
{
    *msg = untagged(st, RDMAP_ATOMIC_REQUEST, DDP_QN_REQUEST, RDMAP_ATOMIC_REQUEST_LEN);
    struct rdmap_atomic_request named = *req;
    named.id = msg->msn; /* as good as any: no two that are open have the same */
    rdmap_atomic_request_pack(&named, payload);
    struct rdmap_read *r = rdmap_readq_add(&st->orq);
    if (r != NULL) {
        r->is_atomic = true;
        r->atomic = named;
        r->msn = msg->msn;
        r->user = user;
    }
}

void rdmap_tx_immediate(struct rdmap_stream *st, bool solicited, uint64_t value,
                        struct ddp_msg *msg, uint8_t payload[RDMAP_IMMEDIATE_LEN])
{
    *msg = untagged(st, solicited ? RDMAP_IMMEDIATE_SE : RDMAP_IMMEDIATE, DDP_QN_SEND,
                    RDMAP_IMMEDIATE_LEN);
    put_be64(payload, value);
}

/* The request at the head of irq cannot be answered: its DDP header goes with the Terminate. */
static void fail_head(struct rdmap_stream *st, const struct rdmap_read *r, struct verdict v)
{
    uint32_t header = r->is_atomic ? RDMAP_ATOMIC_REQUEST_LEN : RDMAP_READ_REQUEST_LEN;
    st->dead = true;
    st->fault = v;
    st->cause =
        (struct rdmap_cause){.ddp_len = DDP_UNTAGGED_LEN, .seg_len = DDP_UNTAGGED_LEN + header};
    memcpy(st->cause.ddp, r->ddp, DDP_UNTAGGED_LEN);
}

void rdmap_fail_response(struct rdmap_stream *st, enum ddp_mem_fault fault, uint32_t done)
{
    const struct rdmap_read *r = readq_head(&st->irq);
    if (st->dead || r == NULL || r->is_atomic) {
        return;
    }
    struct rdmap_read_request rest = r->req;
    rest.sink_to += done;
    rest.src_to += done;
    rest.len -= min_u32(done, rest.len);
    fail_head(st, r, ddp_mem_verdict_read(fault));
    st->cause.has_read = true;
    rdmap_read_request_pack(&rest, st->cause.read);
}

/* The memory of an Atomic; NULL, and the stream dead, when it is not one that may be changed. */
static uint8_t *atomic_memory(struct rdmap_stream *st, const struct ddp_mem_table *mem,
                              const struct rdmap_read *r)
{
    struct mspan word;
    enum ddp_mem_fault f =
        ddp_mem_check(mem,
                      &(struct ddp_access){r->atomic.stag, r->atomic.to, sizeof(uint64_t),
                                           DDP_REMOTE_ATOMIC, st->pd, st->id},
                      &word);
    if (f != DDP_MEM_OK) {
        fail_head(st, r, ddp_mem_verdict_read(f));
        return NULL;
    }
    /* It is the address that counts, not the offset (RFC 7306 sec 5.2.1). */
    if ((uintptr_t)word.p % sizeof(uint64_t) != 0) {
        fail_head(st, r, verdict_bad(LAYER_RDMAP, RDMAP_OPERATION, RDMAP_OP_STREAM));
        st->misaligned = true;
        return NULL;
    }
    return word.p;
}

bool rdmap_tx_atomic_response(struct rdmap_stream *st, const struct ddp_mem_table *mem,
                              struct ddp_msg *msg, uint8_t payload[RDMAP_ATOMIC_RESPONSE_LEN])
{
    const struct rdmap_read *r = readq_head(&st->irq);
    uint8_t *word = NULL;
    if (!st->dead && r != NULL && r->is_atomic) {
        word = atomic_memory(st, mem, r);
    }
    if (word == NULL) {
        return false;
    }
    struct rdmap_atomic_response resp = {.id = r->atomic.id,
                                         .original = rdmap_atomic_execute(&r->atomic, word)};
    rdmap_atomic_response_pack(&resp, payload);
    *msg = untagged(st, RDMAP_ATOMIC_RESPONSE, DDP_QN_ATOMIC, RDMAP_ATOMIC_RESPONSE_LEN);
    return true;
}

bool rdmap_tx_response(struct rdmap_stream *st, const struct ddp_mem_table *mem,
                       struct ddp_msg *msg, struct mspan *src)
{
    const struct rdmap_read *r = readq_head(&st->irq);
    if (st->dead || r == NULL || r->is_atomic) {
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
