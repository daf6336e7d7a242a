/* SPDX-License-Identifier: MIT */
#include "rdmap/rdmap_hdr.h"

/* RFC 5040 fig. 4 and RFC 7306 sec 4.1; a line without text is an opcode that nobody assigned. */
static const struct {
    const char *text;
    bool tagged, ext;
    uint32_t qn;
} opcodes[16] = {
    [RDMAP_WRITE] = {"Write", true, false, 0},
    [RDMAP_READ_REQUEST] = {"Read Request", false, false, DDP_QN_REQUEST},
    [RDMAP_READ_RESPONSE] = {"Read Response", true, false, 0},
    [RDMAP_SEND] = {"Send", false, false, DDP_QN_SEND},
    [RDMAP_SEND_INV] = {"Send with Invalidate", false, false, DDP_QN_SEND},
    [RDMAP_SEND_SE] = {"Send with Solicited Event", false, false, DDP_QN_SEND},
    [RDMAP_SEND_SE_INV] = {"Send with Solicited Event and Invalidate", false, false, DDP_QN_SEND},
    [RDMAP_TERMINATE] = {"Terminate", false, false, DDP_QN_TERMINATE},
    [RDMAP_IMMEDIATE] = {"Immediate Data", false, true, DDP_QN_SEND},
    [RDMAP_IMMEDIATE_SE] = {"Immediate Data with Solicited Event", false, true, DDP_QN_SEND},
    [RDMAP_ATOMIC_REQUEST] = {"Atomic Request", false, true, DDP_QN_REQUEST},
    [RDMAP_ATOMIC_RESPONSE] = {"Atomic Response", false, true, DDP_QN_ATOMIC},
};

const char *rdmap_opcode_text(unsigned opcode)
{
    if (opcode >= ARRAY_LEN(opcodes) || opcodes[opcode].text == NULL) {
        return opcode == 0xf ? "experimental" : "unassigned";
    }
    return opcodes[opcode].text;
}

struct verdict rdmap_check_control(const struct ddp_hdr *h, bool ext)
{
    if (h->ulp >> 6 != RDMAP_VERSION) {
        return verdict_bad(LAYER_RDMAP, RDMAP_OPERATION, RDMAP_OP_VERSION);
    }
    unsigned opcode = rdmap_opcode(h->ulp);
    bool fits = opcodes[opcode].text != NULL && (ext || !opcodes[opcode].ext) &&
                h->tagged == opcodes[opcode].tagged && (h->tagged || h->qn == opcodes[opcode].qn);
    return fits ? VERDICT_OK : verdict_bad(LAYER_RDMAP, RDMAP_OPERATION, RDMAP_OP_OPCODE);
}

void rdmap_read_request_pack(const struct rdmap_read_request *r,
                             uint8_t out[RDMAP_READ_REQUEST_LEN])
{
    put_be32(out, r->sink_stag);
    put_be64(out + 4, r->sink_to);
    put_be32(out + 12, r->len);
    put_be32(out + 16, r->src_stag);
    put_be64(out + 20, r->src_to);
}

void rdmap_read_request_unpack(const uint8_t in[RDMAP_READ_REQUEST_LEN],
                               struct rdmap_read_request *r)
{
    r->sink_stag = get_be32(in);
    r->sink_to = get_be64(in + 4);
    r->len = get_be32(in + 12);
    r->src_stag = get_be32(in + 16);
    r->src_to = get_be64(in + 20);
}

enum { MASK_AOPCODE = 0x0f };

void rdmap_atomic_request_pack(const struct rdmap_atomic_request *r,
                               uint8_t out[RDMAP_ATOMIC_REQUEST_LEN])
{
    put_be32(out, r->op & MASK_AOPCODE);
    put_be32(out + 4, r->id);
    put_be32(out + 8, r->stag);
    put_be64(out + 12, r->to);
    put_be64(out + 20, r->data);
    put_be64(out + 28, r->mask);
    put_be64(out + 36, r->compare);
    put_be64(out + 44, r->compare_mask);
}

uint8_t rdmap_atomic_op(const uint8_t in[RDMAP_ATOMIC_REQUEST_LEN])
{
    return in[3] & MASK_AOPCODE;
}

void rdmap_atomic_request_unpack(const uint8_t in[RDMAP_ATOMIC_REQUEST_LEN],
                                 struct rdmap_atomic_request *r)
{
    r->op = rdmap_atomic_op(in);
    r->id = get_be32(in + 4);
    r->stag = get_be32(in + 8);
    r->to = get_be64(in + 12);
    r->data = get_be64(in + 20);
    r->mask = get_be64(in + 28);
    r->compare = get_be64(in + 36);
    r->compare_mask = get_be64(in + 44);
}

void rdmap_atomic_response_pack(const struct rdmap_atomic_response *r,
                                uint8_t out[RDMAP_ATOMIC_RESPONSE_LEN])
{
    put_be32(out, r->id);
    put_be64(out + 4, r->original);
}

void rdmap_atomic_response_unpack(const uint8_t in[RDMAP_ATOMIC_RESPONSE_LEN],
                                  struct rdmap_atomic_response *r)
{
    r->id = get_be32(in);
    r->original = get_be64(in + 4);
}
