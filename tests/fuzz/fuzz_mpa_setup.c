/* SPDX-License-Identifier: MIT */
/* Connection set-up. The input: flags, what this end wants (settings, IRD and ORD of 2, length of its private
 * data, 2), then
 *   how the stream is cut (4) and the peer's octets: the outcome must not depend on the cuts; or
 *   what another end wants: the two set up a connection, and must agree. */
#include "fuzz.h"
#include "mpa/mpa_setup.h"

enum {
    INITIATOR = 1,
    PAIR = 2, /* two ends */
    REJECT = 4,
    ROOM = 2 * MPA_FRAME_MAX,
};

static const uint8_t zeros[MPA_FRAME_MAX + 8];

static struct mpa_cfg read_cfg(struct fuzz *f)
{
    unsigned b = fuzz_u8(f);
    struct mpa_cfg c = {.markers = (b & 1) != 0,
                        .crc = (b & 2) != 0,
                        .rev = (b & 4) != 0 ? MPA_REV_2 : MPA_REV_1,
                        .p2p = (b & 8) != 0,
                        .rtr = b >> 4 & 7};
    c.ird = fuzz_u16(f) & MPA_DEPTH_MASK;
    c.ord = fuzz_u16(f) & MPA_DEPTH_MASK;
    return c;
}

/* A frame that was understood says the same when it is sent on. */
static void check_frame(const struct mpa_frame *f)
{
    uint8_t out[MPA_FRAME_MAX];
    struct mpa_frame again;
    enum mpa_fault why;
    FUZZ_MUST(f->pd_len <= MPA_PD_MAX && (f->rev == MPA_REV_1 || f->rev == MPA_REV_2));
    uint32_t n = mpa_frame_pack(f, out);
    struct span s = fuzz_copy(out, n);
    struct cursor c = cursor_of(&s, 1);
    FUZZ_MUST(n >= MPA_FRAME_HDR && n <= MPA_FRAME_MAX);
    FUZZ_MUST(mpa_frame_unpack(&c, f->reply, &again, &why) == MPA_PARSE_OK && c.left == 0);
    FUZZ_MUST(again.markers == f->markers && again.crc == f->crc && again.rev == f->rev);
    FUZZ_MUST(again.enhanced == f->enhanced && again.pd_len == f->pd_len);
    FUZZ_MUST(again.ird == f->ird && again.ord == f->ord && again.p2p == f->p2p);
    FUZZ_MUST(memcmp(again.pd, f->pd, f->pd_len) == 0);
    FUZZ_MUST(!f->reply || again.reject == f->reject);
    FUZZ_MUST(!f->p2p || again.rtr == f->rtr);
    free((void *)(uintptr_t)s.p);
}

/* --- one end and octets --- */

struct outcome {
    enum mpa_setup_event event; /* the last but MORE */
    enum mpa_fault fault;
    uint32_t used;
    struct mpa_setup s;
};

static void feed(struct outcome *o, struct span octets, uint32_t seed)
{
    struct fuzz_pieces pieces;
    struct span v[FUZZ_PIECES];
    fuzz_cut(&pieces, octets.p, octets.n, seed);
    o->event = MPA_SETUP_MORE;
    o->used = 0;
    for (uint32_t i = 1; i <= pieces.cnt; i++) {
        struct cursor c = cursor_of(v, fuzz_view(&pieces, i, o->used, v));
        uint32_t left = c.left;
        enum mpa_setup_event e = mpa_setup_rx(&o->s, &c);
        if (e != MPA_SETUP_MORE) {
            FUZZ_MUST(o->event == MPA_SETUP_MORE || o->event == MPA_SETUP_REQUEST);
            o->event = e;
            o->used += left - c.left;
        } else {
            FUZZ_MUST(left == c.left);
        }
    }
    o->fault = o->s.fault;
    fuzz_pieces_free(&pieces);
}

static void check_answer(const struct outcome *o, unsigned flags, const struct mpa_cfg *cfg,
                         uint32_t pd_len)
{
    uint8_t out[MPA_FRAME_MAX];
    struct mpa_setup s = o->s;
    const struct mpa_answer a = {.ird = cfg->ird, .ord = cfg->ord, .pd = zeros, .pd_len = pd_len};
    bool reject = (flags & REJECT) != 0;
    uint32_t n = reject ? mpa_setup_reject(&s, zeros, pd_len, out) : mpa_setup_accept(&s, &a, out);
    uint32_t room = s.peer.enhanced ? MPA_PD_MAX - MPA_ENHANCED_LEN : MPA_PD_MAX;
    FUZZ_MUST((n > 0) == (pd_len <= room));
    if (n > 0) {
        struct span v = {out, n};
        struct cursor c = cursor_of(&v, 1);
        struct mpa_frame f;
        enum mpa_fault why;
        FUZZ_MUST(mpa_frame_unpack(&c, true, &f, &why) == MPA_PARSE_OK && c.left == 0);
        FUZZ_MUST(f.reject == reject && f.rev == s.peer.rev && f.enhanced == s.peer.enhanced);
        FUZZ_MUST(mpa_setup_accept(&s, &a, out) == 0); /* once */
    }
}

static void run_octets(struct fuzz *f, unsigned flags, const struct mpa_cfg *cfg, uint32_t pd_len)
{
    struct outcome flat, cut;
    uint8_t out[MPA_FRAME_MAX];
    bool initiator = (flags & INITIATOR) != 0;
    uint32_t seed = fuzz_u32(f);
    struct span octets = fuzz_octets(f, ROOM);
    mpa_setup_init(&flat.s, initiator, cfg);
    if (initiator && mpa_setup_request(&flat.s, zeros, pd_len, out) == 0) {
        FUZZ_MUST(pd_len > MPA_PD_MAX - MPA_ENHANCED_LEN);
        return;
    }
    cut = flat;
    feed(&flat, octets, 0);
    feed(&cut, octets, seed | 1);
    FUZZ_MUST(flat.event == cut.event && flat.fault == cut.fault);
    FUZZ_MUST((flat.event == MPA_SETUP_BAD) ==
              (flat.fault != MPA_FAULT_NONE && flat.event != MPA_SETUP_TERM));
    FUZZ_MUST(mpa_fault_text(flat.fault) != NULL);
    if (flat.event != MPA_SETUP_BAD && flat.event != MPA_SETUP_MORE) {
        FUZZ_MUST(flat.used == cut.used);
        FUZZ_MUST(memcmp(flat.s.peer.pd, cut.s.peer.pd, MPA_PD_MAX) == 0);
        check_frame(&flat.s.peer);
    }
    if (flat.event == MPA_SETUP_REQUEST) {
        check_answer(&flat, flags, cfg, pd_len);
    }
}

/* --- two ends --- */

static enum mpa_setup_event pass(struct mpa_setup *to, const uint8_t *p, uint32_t n)
{
    struct span s = fuzz_copy(p, n);
    struct cursor c = cursor_of(&s, 1);
    enum mpa_setup_event e = mpa_setup_rx(to, &c);
    FUZZ_MUST(e == MPA_SETUP_BAD || c.left == 0);
    free((void *)(uintptr_t)s.p);
    return e;
}

static void check_agreed(const struct mpa_setup *i, const struct mpa_setup *r)
{
    const struct mpa_agreed *a = &i->agreed, *b = &r->agreed;
    FUZZ_MUST(a->rev == b->rev && a->enhanced == b->enhanced && a->crc == b->crc);
    FUZZ_MUST(a->tx_markers == b->rx_markers && a->rx_markers == b->tx_markers);
    FUZZ_MUST(a->p2p == b->p2p);
    FUZZ_MUST(a->crc == (i->cfg.crc || r->cfg.crc));
    FUZZ_MUST(a->peer_ird == MPA_DEPTH_UNSET || a->ord <= b->ird);
    FUZZ_MUST(b->peer_ird == MPA_DEPTH_UNSET || b->ord <= a->ird);
    if (a->p2p) {
        FUZZ_MUST(a->rtr != 0 && (a->rtr & (a->rtr - 1)) == 0 && (a->rtr & b->rtr) != 0);
    }
}

static void run_pair(struct fuzz *f, unsigned flags, const struct mpa_cfg *cfg, uint32_t pd_len)
{
    uint8_t out[MPA_FRAME_MAX];
    struct mpa_setup i, r;
    const struct mpa_cfg other = read_cfg(f);
    struct mpa_answer a = {.ird = fuzz_u16(f) & MPA_DEPTH_MASK,
                           .ord = fuzz_u16(f) & MPA_DEPTH_MASK,
                           .pd = zeros,
                           .pd_len = fuzz_u16(f) % (MPA_PD_MAX - MPA_ENHANCED_LEN + 1)};
    mpa_setup_init(&i, true, cfg);
    mpa_setup_init(&r, false, &other);
    uint32_t n = mpa_setup_request(&i, zeros, pd_len, out);
    if (n == 0) {
        return;
    }
    enum mpa_setup_event e = pass(&r, out, n);
    if (i.agreed.rev > other.rev) {
        FUZZ_MUST(e == MPA_SETUP_BAD && r.fault == MPA_FAULT_REV);
        return;
    }
    FUZZ_MUST(e == MPA_SETUP_REQUEST && r.peer.pd_len == pd_len);
    check_frame(&r.peer);
    if ((flags & REJECT) != 0) {
        n = mpa_setup_reject(&r, a.pd, a.pd_len, out);
        FUZZ_MUST(n > 0 && pass(&i, out, n) == MPA_SETUP_REJECTED);
        return;
    }
    n = mpa_setup_accept(&r, &a, out);
    FUZZ_MUST(n > 0);
    e = pass(&i, out, n);
    check_frame(&i.peer);
    if (e == MPA_SETUP_TERM) {
        bool depth = i.peer.ord != MPA_DEPTH_UNSET && i.peer.ord > cfg->ird;
        FUZZ_MUST(i.term.bad && i.fault == (depth ? MPA_FAULT_IRD : MPA_FAULT_RTR));
        FUZZ_MUST(depth || (cfg->rtr & r.agreed.rtr) == 0);
        return;
    }
    FUZZ_MUST(e == MPA_SETUP_ACCEPTED && i.peer.pd_len == a.pd_len);
    check_agreed(&i, &r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = {data, size};
    unsigned flags = fuzz_u8(&f);
    struct mpa_cfg cfg = read_cfg(&f);
    uint32_t pd_len = fuzz_u16(&f) % sizeof zeros;
    if ((flags & PAIR) != 0) {
        run_pair(&f, flags, &cfg, pd_len);
    } else {
        run_octets(&f, flags, &cfg, pd_len);
    }
    return 0;
}
