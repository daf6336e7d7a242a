/* SPDX-License-Identifier: MIT */
/* Untagged queues of one stream: MSN and MO order, buffer limits (RFC 5041 sec 5.2 to 5.4, 7.1). */
#ifndef UIW_DDP_DDP_RX_H
#define UIW_DDP_DDP_RX_H

#include "ddp/ddp_hdr.h"

struct ddp_queue {
    uint32_t msn;     /* of the message that is due or open; first 1, wraps through 0 */
    uint32_t mo;      /* octets of it that have come */
    uint32_t buf_len; /* of its buffer, when has_buf */
    bool has_buf;
    bool open; /* a segment with L=0 has come */
};

struct ddp_rx {
    struct ddp_queue q[DDP_QNS];
    uint32_t qns; /* queues that exist: 3, or 4 with RFC 7306 */
};

void ddp_rx_init(struct ddp_rx *rx, bool atomics);

/* The segment begins the message that is due on its queue and no buffer was given yet. */
bool ddp_rx_wants_buffer(const struct ddp_rx *rx, const struct ddp_seg *seg);

/* The buffer for the message that is due on queue qn. */
void ddp_rx_give_buffer(struct ddp_rx *rx, uint32_t qn, uint32_t len);

/* Judges an untagged segment; changes nothing. Order: QN 1/2/01, MSN 1/2/03, MO 1/2/04 (strict: the
 * next octet), no buffer given 1/2/02, length 1/2/05. The buffer comes after the MO, so that no
 * receive is waited for or used up on behalf of a segment that is refused anyway. */
struct verdict ddp_rx_check(const struct ddp_rx *rx, const struct ddp_seg *seg);

/* Counts a segment that was placed. */
void ddp_rx_advance(struct ddp_rx *rx, const struct ddp_seg *seg);

#endif
