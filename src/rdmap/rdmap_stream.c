/* SPDX-License-Identifier: MIT */
/* State of a stream, its read queues, and the sending side. */
#include "rdmap/rdmap_stream.h"

#include "rdmap/rdmap_atomic.h"

void rdmap_stream_init(struct rdmap_stream *st, const struct rdmap_cfg *cfg)
{
    *st = (struct rdmap_stream){
        .open = cfg->open,
        .asked = cfg->asked,
        .orq = {.cap = cfg->ord},
        .irq = {.cap = cfg->ird},
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

bool rdmap_ring_add(struct rdmap_ring *r, uint32_t *place)
{
    if (r->cnt >= r->cap) {
        return false;
    }
    *place = r->cnt < r->cap - r->head ? r->head + r->cnt : r->cnt - (r->cap - r->head);
    r->cnt++;
    return true;
}

static void ring_pop(struct rdmap_ring *r)
{
    if (r->cnt > 0) {
        r->head = r->head + 1 < r->cap ? r->head + 1 : 0;
        r->cnt--;
    }
}

struct rdmap_open *rdmap_orq_head(struct rdmap_stream *st)
{
    return st->orq.cnt > 0 ? &st->open[st->orq.head] : NULL;
}

void rdmap_orq_pop(struct rdmap_stream *st)
{
    ring_pop(&st->orq);
}

bool rdmap_orq_room(const struct rdmap_stream *st)
{
    return st->orq.cnt < st->orq.cap;
}

bool rdmap_irq_pending(const struct rdmap_stream *st)
{
    return st->irq.cnt > 0;
}

const struct rdmap_asked *rdmap_irq_head(const struct rdmap_stream *st)
{
    return st->irq.cnt > 0 ? &st->asked[st->irq.head] : NULL;
}

void rdmap_irq_pop(struct rdmap_stream *st)
{
    ring_pop(&st->irq);
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

static void note_open(struct rdmap_stream *st, const struct rdmap_open *r)
{
    uint32_t place;
    if (rdmap_ring_add(&st->orq, &place)) {
        st->open[place] = *r;
    }
}

void rdmap_tx_read(struct rdmap_stream *st, const struct rdmap_read_request *req, uint32_t user,
                   struct ddp_msg *msg, uint8_t payload[RDMAP_READ_REQUEST_LEN])
{
    *msg = untagged(st, RDMAP_READ_REQUEST, DDP_QN_REQUEST, RDMAP_READ_REQUEST_LEN);
    rdmap_read_request_pack(req, payload);
    note_open(st, &(struct rdmap_open){.sink_to = req->sink_to,
                                       .sink_stag = req->sink_stag,
                                       .len = req->len,
                                       .msn = msg->msn,
                                       .user = user});
}

void rdmap_tx_atomic(struct rdmap_stream *st, const struct rdmap_atomic_request *req, uint32_t user,
                     struct ddp_msg *msg, uint8_t payload[RDMAP_ATOMIC_REQUEST_LEN])
{
    *msg = untagged(st, RDMAP_ATOMIC_REQUEST, DDP_QN_REQUEST, RDMAP_ATOMIC_REQUEST_LEN);
    struct rdmap_atomic_request named = *req;
    named.id = msg->msn; /* as good as any: no two that are open have the same */
    rdmap_atomic_request_pack(&named, payload);
    note_open(st, &(struct rdmap_open){.is_atomic = true, .msn = msg->msn, .user = user});
}

void rdmap_tx_immediate(struct rdmap_stream *st, bool solicited, uint64_t value,
                        struct ddp_msg *msg, uint8_t payload[RDMAP_IMMEDIATE_LEN])
{
    *msg = untagged(st, solicited ? RDMAP_IMMEDIATE_SE : RDMAP_IMMEDIATE, DDP_QN_SEND,
                    RDMAP_IMMEDIATE_LEN);
    put_be64(payload, value);
}

/* The request at the head of irq cannot be answered: its DDP header goes with the Terminate. */
static void fail_head(struct rdmap_stream *st, const struct rdmap_asked *r, struct verdict v)
{
    uint32_t header = r->is_atomic ? RDMAP_ATOMIC_REQUEST_LEN : RDMAP_READ_REQUEST_LEN;
    st->dead = true;
    st->fault = v;
    st->cause =
        (struct rdmap_cause){.ddp_len = DDP_UNTAGGED_LEN, .seg_len = DDP_UNTAGGED_LEN + header};
    memcpy(st->cause.ddp, r->ddp, DDP_UNTAGGED_LEN);
}

/* The head of irq if it is of that kind and may still be answered. */
static const struct rdmap_asked *due(const struct rdmap_stream *st, bool atomic)
{
    const struct rdmap_asked *r = rdmap_irq_head(st);
    return !st->dead && r != NULL && r->is_atomic == atomic ? r : NULL;
}

void rdmap_fail_response(struct rdmap_stream *st, enum ddp_mem_fault fault, uint32_t done)
{
    const struct rdmap_asked *r = due(st, false);
    if (r == NULL) {
        return;
    }
    struct rdmap_read_request rest;
    rdmap_read_request_unpack(r->header, &rest);
    rest.sink_to += done;
    rest.src_to += done;
    rest.len -= min_u32(done, rest.len);
    fail_head(st, r, ddp_mem_verdict_read(fault));
    st->cause.has_read = true;
    rdmap_read_request_pack(&rest, st->cause.read);
}

/* The memory of an Atomic; NULL, and the stream dead, when it is not one that may be changed. */
static uint8_t *atomic_memory(struct rdmap_stream *st, const struct ddp_mem_table *mem,
                              const struct rdmap_atomic_request *req)
{
    struct mspan word;
    const struct rdmap_asked *r = rdmap_irq_head(st);
    enum ddp_mem_fault f = ddp_mem_check(mem,
                                         &(struct ddp_access){req->stag, req->to, sizeof(uint64_t),
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
    const struct rdmap_asked *r = due(st, true);
    if (r == NULL) {
        return false;
    }
    struct rdmap_atomic_request req;
    rdmap_atomic_request_unpack(r->header, &req);
    uint8_t *word = atomic_memory(st, mem, &req);
    if (word == NULL) {
        return false;
    }
    struct rdmap_atomic_response resp = {.id = req.id,
                                         .original = rdmap_atomic_execute(&req, word)};
    rdmap_atomic_response_pack(&resp, payload);
    *msg = untagged(st, RDMAP_ATOMIC_RESPONSE, DDP_QN_ATOMIC, RDMAP_ATOMIC_RESPONSE_LEN);
    return true;
}

bool rdmap_tx_response(struct rdmap_stream *st, const struct ddp_mem_table *mem,
                       struct ddp_msg *msg, struct mspan *src)
{
    const struct rdmap_asked *r = due(st, false);
    if (r == NULL) {
        return false;
    }
    struct rdmap_read_request req;
    rdmap_read_request_unpack(r->header, &req);
    *src = (struct mspan){NULL, 0};
    /* A Read of nothing reads from anywhere (RFC 5040 sec 5.2.1). */
    if (req.len > 0) {
        enum ddp_mem_fault f = ddp_mem_check(mem,
                                             &(struct ddp_access){req.src_stag, req.src_to, req.len,
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
        .stag = req.sink_stag,
        .to = req.sink_to,
        .len = req.len,
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
