/* SPDX-License-Identifier: MIT */
/* DDP segment headers (RFC 5041 sec 4): one pack, one unpack. */
#ifndef UIW_DDP_DDP_HDR_H
#define UIW_DDP_DDP_HDR_H

#include "base/base.h"
#include "base/cursor.h"
#include "base/verdict.h"

enum {
    DDP_VERSION = 1,
    DDP_TAGGED_LEN = 14,
    DDP_UNTAGGED_LEN = 18,
    DDP_HDR_MAX = 18,
    DDP_QN_SEND = 0,
    DDP_QN_REQUEST = 1,
    DDP_QN_TERMINATE = 2,
    DDP_QN_ATOMIC = 3,
    DDP_QNS = 4,
};

struct ddp_hdr {
    bool tagged, last;
    uint8_t version;
    uint8_t ulp; /* RsvdULP bits 0-7: the RDMAP control octet */
    /* tagged */
    uint32_t stag;
    uint64_t to;
    /* untagged */
    uint32_t ulp32; /* RsvdULP bits 8-39: Invalidate STag */
    uint32_t qn, msn, mo;
};

/* One received segment. */
struct ddp_seg {
    struct ddp_hdr hdr;
    uint8_t raw[DDP_HDR_MAX]; /* the header's octets, for a Terminate */
    uint32_t raw_len;
    uint32_t len;          /* the whole segment, header included (ULPDU_Length) */
    uint32_t plen;         /* payload octets */
    struct cursor payload; /* plen octets; borrowed */
};

/* Returns the header's length, 14 or 18. */
uint32_t ddp_hdr_pack(const struct ddp_hdr *h, uint8_t out[DDP_HDR_MAX]);

/* Takes a segment apart. Shorter than its header: 2/0/03 with raw_len 0. Wrong DV: 1/1/04 or
 * 1/2/06, with all fields filled as if the layout were ours (raw_len tells what there was). */
struct verdict ddp_seg_parse(struct cursor ulpdu, struct ddp_seg *seg);

#endif
