/* SPDX-License-Identifier: MIT */
/* Ethernet frames: the input is a frame, of which two octets say how much more of it there is than is at hand.
 * Where its TCP parts are, is within it; its checksums can be made right, its payload cut into frames whose
 * payloads are the whole again. */
#include "fuzz.h"
#include "tcpip/vnet.h"

enum { FRAME = 3000, MSS = 1000 };

static void cut(const uint8_t *f, const struct vnet_tcp *t)
{
    uint32_t n = t->end - t->pay;
    uint8_t *out = malloc(t->pay + MSS);
    FUZZ_MUST(out != NULL);
    for (uint32_t off = 0; off < n; off += MSS) {
        uint32_t k = min_u32(MSS, n - off);
        struct vnet_tcp p;
        uint32_t len = vnet_piece(f, t, off, k, out);
        FUZZ_MUST(len == t->pay + k && vnet_find_tcp(out, len, len, &p));
        FUZZ_MUST(p.l4 == t->l4 && p.pay == t->pay && p.end == len && p.v6 == t->v6);
        FUZZ_MUST(vnet_tcp_sum_ok(out, &p));
        FUZZ_MUST(memcmp(out + p.pay, f + t->pay + off, k) == 0);
    }
    free(out);
}

/* The frame is whole, and ours to change. */
static void change(uint8_t *f, const struct vnet_tcp *t)
{
    struct virtio_net_hdr vh = {0};
    struct vnet_tcp again;
    vnet_put_sums(f, t);
    FUZZ_MUST(vnet_tcp_sum_ok(f, t));
    cut(f, t);
    vnet_clamp_mss(f, t, MSS);
    vnet_put_sums(f, t);
    FUZZ_MUST(vnet_tcp_sum_ok(f, t));
    vnet_offload(f, t, MSS, &vh);
    FUZZ_MUST(vnet_tcp_sum_partial(f, t) && vh.hdr_len == t->pay);
    FUZZ_MUST(vnet_find_tcp(f, t->end, t->end, &again) && again.end == t->end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = {data, size};
    uint32_t more = fuzz_u16(&f);
    struct span s = fuzz_octets(&f, FRAME);
    struct span copy = fuzz_copy(s.p, s.n);
    uint8_t *frame = (uint8_t *)(uintptr_t)copy.p;
    struct vnet_tcp t;
    if (vnet_find_tcp(frame, s.n, s.n + more, &t)) {
        FUZZ_MUST(t.l4 == VNET_ETH + (uint32_t)(t.v6 ? VNET_IP6 : VNET_IP4));
        FUZZ_MUST(t.pay >= t.l4 + VNET_TCP && t.pay <= s.n && t.pay <= VNET_HDR_MAX);
        FUZZ_MUST(t.pay <= t.end && t.end <= s.n + more);
        if (t.end <= s.n) {
            vnet_tcp_sum_ok(frame, &t);
            change(frame, &t);
        }
    }
    memcpy(frame, s.p, s.n);
    if (vnet_untag(frame, s.n, 7)) {
        FUZZ_MUST(s.n >= VNET_ETH + VNET_TAG);
        FUZZ_MUST(memcmp(frame + VNET_TAG, s.p, VNET_TAG_AT) == 0);
    }
    free(frame);
    return 0;
}
