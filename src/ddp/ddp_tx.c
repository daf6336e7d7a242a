/* SPDX-License-Identifier: MIT */
#include "ddp/ddp_tx.h"

uint32_t ddp_tx_next(struct ddp_msg *m, uint32_t mulpdu, uint8_t hdr[DDP_HDR_MAX], uint32_t *hlen)
{
    uint32_t header = m->tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
    uint32_t room = mulpdu > header ? mulpdu - header : 0;
    uint32_t n = min_u32(m->len - m->off, room);
    m->done = n == m->len - m->off;
    const struct ddp_hdr h = {
        .tagged = m->tagged,
        .last = m->done,
        .version = DDP_VERSION,
        .ulp = m->ulp,
        .stag = m->stag,
        .to = m->to + m->off,
        .ulp32 = m->ulp32,
        .qn = m->qn,
        .msn = m->msn,
        .mo = m->off,
    };
    *hlen = ddp_hdr_pack(&h, hdr);
    m->off += n;
    return n;
}
