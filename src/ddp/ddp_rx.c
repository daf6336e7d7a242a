/* SPDX-License-Identifier: MIT */
#include "ddp/ddp_rx.h"

static struct verdict untagged_fault(unsigned code)
{
    return verdict_bad(LAYER_DDP, DDP_UNTAGGED, code);
}

void ddp_rx_init(struct ddp_rx *rx, bool atomics)
{
    *rx = (struct ddp_rx){.qns = atomics ? DDP_QNS : DDP_QNS - 1};
    for (uint32_t i = 0; i < DDP_QNS; i++) {
        rx->q[i].msn = 1; /* RFC 5041 sec 4.3 */
    }
}

bool ddp_rx_wants_buffer(const struct ddp_rx *rx, const struct ddp_seg *seg)
{
    if (seg->hdr.tagged || seg->hdr.qn >= rx->qns) {
        return false;
    }
    const struct ddp_queue *q = &rx->q[seg->hdr.qn];
    return !q->has_buf && seg->hdr.msn == q->msn && seg->hdr.mo == q->mo;
}

void ddp_rx_give_buffer(struct ddp_rx *rx, uint32_t qn, uint32_t len)
{
    if (qn < rx->qns) {
        rx->q[qn].has_buf = true;
        rx->q[qn].buf_len = len;
    }
}

struct verdict ddp_rx_check(const struct ddp_rx *rx, const struct ddp_seg *seg)
{
    if (seg->hdr.qn >= rx->qns) {
        return untagged_fault(DDP_UNT_QN);
    }
    const struct ddp_queue *q = &rx->q[seg->hdr.qn];
    /* Over an ordered transport nothing but the message that is due can come, so the legal range
     * of RFC 5041 sec 7.1 shrinks to one MSN and one MO. */
    if (seg->hdr.msn != q->msn) {
        return untagged_fault(DDP_UNT_MSN);
    }
    if (seg->hdr.mo != q->mo) {
        return untagged_fault(DDP_UNT_MO);
    }
    if (!q->has_buf) {
        return untagged_fault(DDP_UNT_NOBUF);
    }
    if (q->mo > q->buf_len || seg->plen > q->buf_len - q->mo) {
        return untagged_fault(DDP_UNT_TOOLONG);
    }
    return VERDICT_OK;
}

void ddp_rx_advance(struct ddp_rx *rx, const struct ddp_seg *seg)
{
    if (seg->hdr.qn >= rx->qns) {
        return;
    }
    struct ddp_queue *q = &rx->q[seg->hdr.qn];
    if (seg->hdr.last) {
        /* After ffffffff comes 0, as unsigned arithmetic has it (RFC 5041 sec 4.3). */
        *q = (struct ddp_queue){.msn = q->msn + 1};
        return;
    }
    q->mo += seg->plen;
    q->open = true;
}
