/* SPDX-License-Identifier: MIT */
/* The Terminate message (RFC 5040 sec 4.8): built from a verdict, and taken apart. */
#ifndef UIW_RDMAP_RDMAP_TERM_H
#define UIW_RDMAP_RDMAP_TERM_H

#include "rdmap/rdmap_hdr.h"

/* What is known of the segment that caused the error; all of it optional. */
struct rdmap_cause {
    uint8_t ddp[DDP_HDR_MAX]; /* the DDP header's octets */
    uint32_t ddp_len;         /* 0, 14 or 18 */
    uint32_t seg_len;         /* the whole segment */
    uint8_t read[RDMAP_READ_REQUEST_LEN];
    bool has_read; /* the Read Request header, for 0/1/00..04 against a Read Request */
};

/* Writes the Terminate's payload: control word, length and headers as RFC 5040 fig. 10 has them for
 * this verdict. None for LLP and local errors; else M D with the DDP header if there is one; R only
 * for a protection error of a Read Request. Returns its length. */
uint32_t rdmap_term_pack(struct verdict v, const struct rdmap_cause *cause,
                         uint8_t out[RDMAP_TERM_MAX]);

struct rdmap_term {
    struct verdict v;
    bool m, d, r;
    bool host_order; /* siw's control word, nibbles and flags from the other end, was recognised */
    uint32_t seg_len;
    uint8_t ddp[DDP_HDR_MAX];
    uint32_t ddp_len;
    uint8_t read[RDMAP_READ_REQUEST_LEN];
    bool has_read;
};

/* Understands what there is: a message cut short gives what can be told (v from its first two
 * octets, layer and type 0xf when there are fewer). False when there are fewer than 4 octets. siw
 * writes the control word's bit-fields in host order: that reading is taken when the standard one
 * is not a defined layer/type/code or its flags disagree with the message's length, and the other
 * is sound. */
bool rdmap_term_unpack(struct cursor payload, struct rdmap_term *out);

/* The same of the first octets of a Terminate that has total of them: the rest was not seen, which is
 * no reason to doubt its flags. */
bool rdmap_term_unpack_part(struct cursor payload, uint32_t total, struct rdmap_term *out);

#endif
