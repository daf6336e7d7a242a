/* SPDX-License-Identifier: MIT */
#include "ddp/ddp_hdr.h"

enum {
    BIT_TAGGED = 0x80,
    BIT_LAST = 0x40,
    MASK_VERSION = 0x03, /* bits 2-5 between are reserved: sent as zero, never looked at */
};

uint32_t ddp_hdr_pack(const struct ddp_hdr *h, uint8_t out[DDP_HDR_MAX])
{
    out[0] = (uint8_t)((h->tagged ? BIT_TAGGED : 0) | (h->last ? BIT_LAST : 0) |
                       (h->version & MASK_VERSION));
    out[1] = h->ulp;
    if (h->tagged) {
        put_be32(out + 2, h->stag);
        put_be64(out + 6, h->to);
        return DDP_TAGGED_LEN;
    }
    put_be32(out + 2, h->ulp32);
    put_be32(out + 6, h->qn);
    put_be32(out + 10, h->msn);
    put_be32(out + 14, h->mo);
    return DDP_UNTAGGED_LEN;
}

static void unpack(const uint8_t *p, struct ddp_hdr *h)
{
    *h = (struct ddp_hdr){.tagged = (p[0] & BIT_TAGGED) != 0,
                          .last = (p[0] & BIT_LAST) != 0,
                          .version = p[0] & MASK_VERSION,
                          .ulp = p[1]};
    if (h->tagged) {
        h->stag = get_be32(p + 2);
        h->to = get_be64(p + 6);
        return;
    }
    h->ulp32 = get_be32(p + 2);
    h->qn = get_be32(p + 6);
    h->msn = get_be32(p + 10);
    h->mo = get_be32(p + 14);
}

struct verdict ddp_seg_parse(struct cursor ulpdu, struct ddp_seg *seg)
{
    seg->len = ulpdu.left;
    seg->raw_len = 0;
    seg->plen = 0;
    struct span first = cursor_run(&ulpdu, 1);
    bool tagged = first.n > 0 && (first.p[0] & BIT_TAGGED) != 0;
    uint32_t hlen = tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
    bool whole = tagged ? cursor_take(&ulpdu, DDP_TAGGED_LEN, seg->raw)
                        : cursor_take(&ulpdu, DDP_UNTAGGED_LEN, seg->raw);
    if (!whole) {
        /* The ULPDU_Length cannot be right, which only MPA has a code for. */
        seg->hdr = (struct ddp_hdr){0};
        seg->payload = (struct cursor){0};
        return verdict_bad(LAYER_LLP, LLP_MPA, MPA_ERR_MARKER);
    }
    unpack(seg->raw, &seg->hdr);
    seg->raw_len = hlen;
    seg->plen = ulpdu.left;
    seg->payload = ulpdu;
    if (seg->hdr.version == DDP_VERSION) {
        return VERDICT_OK;
    }
    return tagged ? verdict_bad(LAYER_DDP, DDP_TAGGED, DDP_TAG_VERSION)
                  : verdict_bad(LAYER_DDP, DDP_UNTAGGED, DDP_UNT_VERSION);
}
