/* SPDX-License-Identifier: MIT */
/* Cuts one message into segments (RFC 5041 sec 5.2). The payload's bytes are the caller's. */
#ifndef UIW_DDP_DDP_TX_H
#define UIW_DDP_DDP_TX_H

#include "ddp/ddp_hdr.h"

struct ddp_msg {
    bool tagged;
    uint8_t ulp;    /* RDMAP control octet */
    uint32_t ulp32; /* untagged: Invalidate STag */
    uint32_t stag;  /* tagged */
    uint64_t to;    /* tagged: of the first octet */
    uint32_t qn, msn;
    uint32_t len; /* payload octets of the message */
    uint32_t off; /* of those, already cut off */
    bool done;    /* the segment with L=1 was cut */
};

/* The next segment of at most mulpdu octets (above DDP_HDR_MAX; MPA gives 128 or more): writes its
 * header to hdr, *hlen its length, and returns its payload octets, which stand at m->off - returned
 * in the message. All of mulpdu is used while the message lasts, so that full FPDUs fill the EMSS.
 * Not to be called when m->done. */
uint32_t ddp_tx_next(struct ddp_msg *m, uint32_t mulpdu, uint8_t hdr[DDP_HDR_MAX], uint32_t *hlen);

#endif
