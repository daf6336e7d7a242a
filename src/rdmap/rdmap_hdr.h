/* SPDX-License-Identifier: MIT */
/* RDMAP control octet, Read Request header (RFC 5040 sec 4), Atomic headers (RFC 7306 sec 5.2). */
#ifndef UIW_RDMAP_RDMAP_HDR_H
#define UIW_RDMAP_RDMAP_HDR_H

#include "ddp/ddp_hdr.h"

enum {
    RDMAP_VERSION = 1,
    RDMAP_WRITE = 0x0,
    RDMAP_READ_REQUEST = 0x1,
    RDMAP_READ_RESPONSE = 0x2,
    RDMAP_SEND = 0x3,
    RDMAP_SEND_INV = 0x4,
    RDMAP_SEND_SE = 0x5,
    RDMAP_SEND_SE_INV = 0x6,
    RDMAP_TERMINATE = 0x7,
    RDMAP_IMMEDIATE = 0x8, /* RFC 7306 */
    RDMAP_IMMEDIATE_SE = 0x9,
    RDMAP_ATOMIC_REQUEST = 0xa,
    RDMAP_ATOMIC_RESPONSE = 0xb,
    RDMAP_READ_REQUEST_LEN = 28,
    RDMAP_ATOMIC_REQUEST_LEN = 52,
    RDMAP_ATOMIC_RESPONSE_LEN = 12,
    RDMAP_IMMEDIATE_LEN = 8,
    RDMAP_TERM_MAX = 4 + 2 + DDP_UNTAGGED_LEN + RDMAP_READ_REQUEST_LEN,
};

static inline uint8_t rdmap_control(unsigned opcode)
{
    return (uint8_t)(RDMAP_VERSION << 6 | opcode);
}

static inline unsigned rdmap_opcode(uint8_t control)
{
    return control & 0x0f;
}

static inline bool rdmap_opcode_invalidates(unsigned opcode)
{
    return opcode == RDMAP_SEND_INV || opcode == RDMAP_SEND_SE_INV;
}

static inline bool rdmap_opcode_immediate(unsigned opcode)
{
    return opcode == RDMAP_IMMEDIATE || opcode == RDMAP_IMMEDIATE_SE;
}

static inline bool rdmap_opcode_solicits(unsigned opcode)
{
    return opcode == RDMAP_SEND_SE || opcode == RDMAP_SEND_SE_INV || opcode == RDMAP_IMMEDIATE_SE;
}

/* "Send with Invalidate" and so on, "unassigned" for c..e; static. */
const char *rdmap_opcode_text(unsigned opcode);

/* RV, opcode known, T and QN fit the opcode: 0/2/05 or 0/2/06. ext: RFC 7306 opcodes are known. */
struct verdict rdmap_check_control(const struct ddp_hdr *h, bool ext);

struct rdmap_read_request {
    uint32_t sink_stag;
    uint64_t sink_to;
    uint32_t len; /* RDMARDSZ */
    uint32_t src_stag;
    uint64_t src_to;
};

void rdmap_read_request_pack(const struct rdmap_read_request *r,
                             uint8_t out[RDMAP_READ_REQUEST_LEN]);
void rdmap_read_request_unpack(const uint8_t in[RDMAP_READ_REQUEST_LEN],
                               struct rdmap_read_request *r);

/* AOpCodes (RFC 7306 fig. 5); 1 is reserved, all others are free. */
enum { RDMAP_FETCH_ADD = 0, RDMAP_CMP_SWAP = 2 };

struct rdmap_atomic_request {
    uint8_t op; /* AOpCode, 4 bits */
    uint32_t id;
    uint32_t stag;
    uint64_t to;
    uint64_t data, mask; /* to add, or to swap in */
    uint64_t compare, compare_mask;
};

/* The 28 reserved bits are sent as zero and ignored. */
void rdmap_atomic_request_pack(const struct rdmap_atomic_request *r,
                               uint8_t out[RDMAP_ATOMIC_REQUEST_LEN]);
void rdmap_atomic_request_unpack(const uint8_t in[RDMAP_ATOMIC_REQUEST_LEN],
                                 struct rdmap_atomic_request *r);
uint8_t rdmap_atomic_op(const uint8_t in[RDMAP_ATOMIC_REQUEST_LEN]); /* nothing but that */

struct rdmap_atomic_response {
    uint32_t id;       /* of the request */
    uint64_t original; /* the value before the operation */
};

void rdmap_atomic_response_pack(const struct rdmap_atomic_response *r,
                                uint8_t out[RDMAP_ATOMIC_RESPONSE_LEN]);
void rdmap_atomic_response_unpack(const uint8_t in[RDMAP_ATOMIC_RESPONSE_LEN],
                                  struct rdmap_atomic_response *r);

#endif
