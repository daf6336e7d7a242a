/* SPDX-License-Identifier: MIT */
/* Connection set-up (RFC 5044 sec 7.1, RFC 6581): frames, and what Request and Reply agree on. */
#include "mpa/mpa_setup.h"

enum { AT_FLAGS = 16, AT_REV = 17, AT_PD_LENGTH = 18, AT_ROLE = 9 };

static const char request_key[] = "MPA ID Req Frame";
static const char reply_key[] = "MPA ID Rep Frame";

const char *mpa_fault_text(enum mpa_fault fault)
{
    static const char *const words[] = {
        [MPA_FAULT_NONE] = "no fault",
        [MPA_FAULT_KEY] = "the peer's first octets are no MPA Request or Reply key",
        [MPA_FAULT_ROLE] = "both ends took the same role in the MPA start-up",
        [MPA_FAULT_REV] = "the peer's MPA revision is not supported",
        [MPA_FAULT_REV_MISMATCH] = "the MPA Reply's revision or S bit does not fit the Request",
        [MPA_FAULT_PD_LENGTH] = "the MPA frame's PD_Length is impossible",
        [MPA_FAULT_TRAILING] = "octets followed the MPA Request before the Reply",
        [MPA_FAULT_IRD] = "the peer's ORD is above our IRD",
        [MPA_FAULT_RTR] = "no ready-to-receive message that both ends can use",
    };
    size_t i = (size_t)fault;
    return i < ARRAY_LEN(words) ? words[i] : "unknown fault";
}

static uint8_t flags_of(const struct mpa_frame *f)
{
    unsigned flags = 0;
    flags |= f->markers ? MPA_FLAG_M : 0;
    flags |= f->crc ? MPA_FLAG_C : 0;
    flags |= f->reply && f->reject ? MPA_FLAG_R : 0; /* zero in a Request */
    flags |= f->enhanced ? MPA_FLAG_S : 0;
    return (uint8_t)flags;
}

/* With A=0 the RTR flags are sent as zero (RFC 6581 sec 9.2). */
static void pack_enhanced(const struct mpa_frame *f, uint8_t out[MPA_ENHANCED_LEN])
{
    unsigned rtr = f->p2p ? f->rtr : 0;
    unsigned ird = f->ird & MPA_DEPTH_MASK;
    unsigned ord = f->ord & MPA_DEPTH_MASK;
    ird |= f->p2p ? MPA_IRD_A : 0;
    ird |= rtr & MPA_RTR_SEND ? MPA_IRD_B : 0;
    ord |= rtr & MPA_RTR_WRITE ? MPA_ORD_C : 0;
    ord |= rtr & MPA_RTR_READ ? MPA_ORD_D : 0;
    put_be16(out, ird);
    put_be16(out + 2, ord);
}

uint32_t mpa_frame_pack(const struct mpa_frame *f, uint8_t out[MPA_FRAME_MAX])
{
    uint32_t word = f->enhanced ? MPA_ENHANCED_LEN : 0;
    if (f->pd_len > MPA_PD_MAX - word) {
        return 0;
    }
    memcpy(out, f->reply ? reply_key : request_key, MPA_KEY_LEN);
    out[AT_FLAGS] = flags_of(f);
    out[AT_REV] = f->rev;
    put_be16(out + AT_PD_LENGTH, word + f->pd_len);
    if (f->enhanced) {
        pack_enhanced(f, out + MPA_FRAME_HDR);
    }
    memcpy(out + MPA_FRAME_HDR + word, f->pd, f->pd_len);
    return MPA_FRAME_HDR + word + f->pd_len;
}

/* Looks at the n first octets that are there. The first wrong one decides, so the outcome does not
 * depend on how the stream was cut. */
static enum mpa_fault check_key(const uint8_t *h, uint32_t n, bool want_reply)
{
    const char *want = want_reply ? reply_key : request_key;
    const char *other = want_reply ? request_key : reply_key;
    for (uint32_t i = 0; i < min_u32(n, MPA_KEY_LEN); i++) {
        if (h[i] != (uint8_t)want[i]) {
            bool role = i == AT_ROLE && h[i] == (uint8_t)other[i];
            return role ? MPA_FAULT_ROLE : MPA_FAULT_KEY;
        }
    }
    return MPA_FAULT_NONE;
}

/* S counts only from revision 2 on: in RFC 5044 it is a reserved bit that is not checked. */
static bool is_enhanced(const uint8_t *h)
{
    return h[AT_REV] >= MPA_REV_2 && (h[AT_FLAGS] & MPA_FLAG_S) != 0;
}

static enum mpa_fault check_header(const uint8_t *h, uint32_t n, bool want_reply)
{
    enum mpa_fault key = check_key(h, n, want_reply);
    if (key != MPA_FAULT_NONE) {
        return key;
    }
    if (n > AT_REV && h[AT_REV] != MPA_REV_1 && h[AT_REV] != MPA_REV_2) {
        return MPA_FAULT_REV;
    }
    if (n >= MPA_FRAME_HDR) {
        uint32_t pd = get_be16(h + AT_PD_LENGTH);
        if (pd > MPA_PD_MAX || (is_enhanced(h) && pd < MPA_ENHANCED_LEN)) {
            return MPA_FAULT_PD_LENGTH;
        }
    }
    return MPA_FAULT_NONE;
}

static void unpack_enhanced(const uint8_t w[MPA_ENHANCED_LEN], struct mpa_frame *out)
{
    unsigned ird = get_be16(w);
    unsigned ord = get_be16(w + 2);
    unsigned rtr = 0;
    rtr |= ird & MPA_IRD_B ? MPA_RTR_SEND : 0;
    rtr |= ord & MPA_ORD_C ? MPA_RTR_WRITE : 0;
    rtr |= ord & MPA_ORD_D ? MPA_RTR_READ : 0;
    out->p2p = (ird & MPA_IRD_A) != 0;
    out->rtr = (uint8_t)rtr;
    out->ird = (uint16_t)(ird & MPA_DEPTH_MASK);
    out->ord = (uint16_t)(ord & MPA_DEPTH_MASK);
}

/* A good frame that is wholly there: h is its header, in stands behind that. */
static void unpack_whole(const uint8_t *h, struct cursor *in, struct mpa_frame *out)
{
    *out = (struct mpa_frame){
        .reply = h[AT_ROLE] == (uint8_t)reply_key[AT_ROLE],
        .markers = (h[AT_FLAGS] & MPA_FLAG_M) != 0,
        .crc = (h[AT_FLAGS] & MPA_FLAG_C) != 0,
        .reject = (h[AT_FLAGS] & MPA_FLAG_R) != 0,
        .enhanced = is_enhanced(h),
        .rev = h[AT_REV],
        .ird = MPA_DEPTH_UNSET,
        .ord = MPA_DEPTH_UNSET,
    };
    uint32_t pd = get_be16(h + AT_PD_LENGTH);
    if (out->enhanced) {
        uint8_t word[MPA_ENHANCED_LEN];
        cursor_take(in, MPA_ENHANCED_LEN, word);
        unpack_enhanced(word, out);
        pd -= MPA_ENHANCED_LEN;
    }
    out->pd_len = (uint16_t)pd;
    cursor_take(in, pd, out->pd);
}

enum mpa_parse mpa_frame_unpack(struct cursor *in, bool want_reply, struct mpa_frame *out,
                                enum mpa_fault *why)
{
    uint8_t h[MPA_FRAME_HDR];
    struct cursor c = *in;
    uint32_t n = min_u32(c.left, MPA_FRAME_HDR);
    cursor_take(&c, n, h);
    *why = check_header(h, n, want_reply);
    if (*why != MPA_FAULT_NONE) {
        return MPA_PARSE_BAD;
    }
    if (n < MPA_FRAME_HDR || c.left < get_be16(h + AT_PD_LENGTH)) {
        return MPA_PARSE_MORE;
    }
    unpack_whole(h, &c, out);
    *in = c;
    return MPA_PARSE_OK;
}

void mpa_setup_init(struct mpa_setup *s, bool initiator, const struct mpa_cfg *cfg)
{
    *s = (struct mpa_setup){.cfg = *cfg, .initiator = initiator};
    s->state = initiator ? MPA_ST_START : MPA_ST_WAIT;
    s->agreed.peer_ird = MPA_DEPTH_UNSET;
    s->agreed.peer_ord = MPA_DEPTH_UNSET;
}

/* False, and nothing set, when it does not fit. */
static bool set_pd(struct mpa_frame *f, const void *pd, uint32_t pd_len)
{
    if (pd_len > MPA_PD_MAX) {
        return false;
    }
    f->pd_len = (uint16_t)pd_len;
    if (pd_len > 0) {
        memcpy(f->pd, pd, pd_len);
    }
    return true;
}

/* The enhanced format is for those who want something of it (RFC 6581 sec 10). */
static bool wants_enhanced(const struct mpa_cfg *cfg)
{
    return cfg->rev >= MPA_REV_2 &&
           (cfg->p2p || cfg->ird != MPA_DEPTH_UNSET || cfg->ord != MPA_DEPTH_UNSET);
}

uint32_t mpa_setup_request(struct mpa_setup *s, const void *pd, uint32_t pd_len,
                           uint8_t out[MPA_FRAME_MAX])
{
    const struct mpa_cfg *cfg = &s->cfg;
    struct mpa_frame f = {.markers = cfg->markers, .crc = cfg->crc};
    if (!s->initiator || s->state != MPA_ST_START || !set_pd(&f, pd, pd_len)) {
        return 0;
    }
    f.enhanced = wants_enhanced(cfg);
    f.rev = f.enhanced ? MPA_REV_2 : MPA_REV_1;
    f.p2p = f.enhanced && cfg->p2p;
    f.rtr = cfg->rtr;
    f.ird = cfg->ird;
    f.ord = cfg->ord;
    if (f.p2p && (cfg->rtr & MPA_RTR_READ) != 0 && f.ord == 0) {
        f.ord = 1; /* the Read RTR itself needs a place in the peer's queue */
    }
    uint32_t n = mpa_frame_pack(&f, out);
    if (n > 0) {
        s->state = MPA_ST_WAIT;
        s->agreed.rev = f.rev;
        s->agreed.enhanced = f.enhanced;
        s->agreed.p2p = f.p2p;
    }
    return n;
}

static enum mpa_setup_event refuse(struct mpa_setup *s, enum mpa_fault fault)
{
    s->state = MPA_ST_DONE;
    s->fault = fault;
    return MPA_SETUP_BAD;
}

static enum mpa_setup_event got_request(struct mpa_setup *s, const struct cursor *in)
{
    if (s->peer.rev > s->cfg.rev) {
        return refuse(s, MPA_FAULT_REV);
    }
    if (in->left > 0) {
        /* Nothing may follow before the Reply, so PD_Length was wrong (RFC 5044 sec 7.1.1). */
        return refuse(s, MPA_FAULT_TRAILING);
    }
    s->state = MPA_ST_DECIDE;
    return MPA_SETUP_REQUEST;
}

/* What does not depend on the role. */
static void agree(struct mpa_setup *s)
{
    struct mpa_agreed *a = &s->agreed;
    a->rev = s->peer.rev;
    a->enhanced = s->peer.enhanced;
    a->tx_markers = s->peer.markers;
    a->rx_markers = s->cfg.markers;
    a->crc = s->cfg.crc || s->peer.crc;
    a->peer_ird = s->peer.ird;
    a->peer_ord = s->peer.ord;
}

/* A depth of ours under a bound that the peer named (RFC 6581 sec 9.1). UNSET is the largest number
 * of 14 bits, so as a bound it is none. */
static uint16_t bounded(uint16_t ours, uint16_t bound)
{
    return bound < ours ? bound : ours;
}

/* A zero-length Write needs nothing of the peer, so it comes first. */
static uint8_t pick_rtr(unsigned set)
{
    static const uint8_t order[] = {MPA_RTR_WRITE, MPA_RTR_READ, MPA_RTR_SEND};
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        if ((set & order[i]) != 0) {
            return order[i];
        }
    }
    return 0;
}

/* Full operation begins only for a Terminate (RFC 6581 sec 9.1, 9.2). */
static enum mpa_setup_event terminate(struct mpa_setup *s, enum mpa_fault fault, unsigned code)
{
    s->fault = fault;
    s->term = verdict_bad(LAYER_LLP, LLP_MPA, code);
    return MPA_SETUP_TERM;
}

/* A Responder that answers A=1 with A=0 gets a client-server connection: with A=0 the other flags
 * mean nothing, and whether that is enough is for the ULP to say. */
static enum mpa_setup_event accepted(struct mpa_setup *s)
{
    struct mpa_agreed *a = &s->agreed;
    bool p2p = a->p2p && s->peer.p2p;
    agree(s);
    a->p2p = p2p;
    a->ird = s->cfg.ird;
    a->ord = bounded(s->cfg.ord, s->peer.ird);
    if (s->peer.ord != MPA_DEPTH_UNSET && s->peer.ord > s->cfg.ird) {
        return terminate(s, MPA_FAULT_IRD, MPA_ERR_IRD);
    }
    if (p2p) {
        a->rtr = pick_rtr(s->cfg.rtr & s->peer.rtr);
        if (a->rtr == 0) {
            return terminate(s, MPA_FAULT_RTR, MPA_ERR_RTR);
        }
        if (a->rtr == MPA_RTR_READ && a->ord == 0) {
            a->ord = 1;
        }
    }
    return MPA_SETUP_ACCEPTED;
}

static enum mpa_setup_event got_reply(struct mpa_setup *s)
{
    if (s->peer.rev != s->agreed.rev || s->peer.enhanced != s->agreed.enhanced) {
        return refuse(s, MPA_FAULT_REV_MISMATCH);
    }
    s->state = MPA_ST_DONE;
    if (s->peer.reject) {
        s->agreed.peer_ird = s->peer.ird;
        s->agreed.peer_ord = s->peer.ord;
        return MPA_SETUP_REJECTED;
    }
    return accepted(s);
}

enum mpa_setup_event mpa_setup_rx(struct mpa_setup *s, struct cursor *in)
{
    enum mpa_fault fault;
    if (s->state == MPA_ST_DECIDE && in->left > 0) {
        return refuse(s, MPA_FAULT_TRAILING);
    }
    if (s->state != MPA_ST_WAIT) {
        return MPA_SETUP_MORE;
    }
    switch (mpa_frame_unpack(in, s->initiator, &s->peer, &fault)) {
    case MPA_PARSE_MORE: return MPA_SETUP_MORE;
    case MPA_PARSE_OK: return s->initiator ? got_reply(s) : got_request(s, in);
    case MPA_PARSE_BAD: break;
    }
    return refuse(s, fault);
}

/* The RTR set for a Reply: what both can do, else what we can, so that the Initiator learns of it
 * (RFC 6581 sec 9.2). It is never empty: taking a zero-length Write needs no support at all. */
static uint8_t select_rtr(const struct mpa_setup *s)
{
    unsigned can = s->cfg.rtr != 0 ? s->cfg.rtr : (unsigned)MPA_RTR_WRITE;
    unsigned both = can & s->peer.rtr;
    return (uint8_t)(both != 0 ? both : can);
}

/* The Reply to s->peer. C repeats the Request's 1: the outcome is the same, and some Initiators
 * look only at the Reply. A depth that the Initiator left to the ULP is left to it here as well. */
static struct mpa_frame reply_to(const struct mpa_setup *s, uint16_t ird, uint16_t ord)
{
    const struct mpa_frame *req = &s->peer;
    struct mpa_frame f = {
        .reply = true,
        .markers = s->cfg.markers,
        .crc = s->cfg.crc || req->crc,
        .enhanced = req->enhanced,
        .rev = req->rev,
        .p2p = req->p2p,
        .ird = req->ord == MPA_DEPTH_UNSET ? MPA_DEPTH_UNSET : ird,
        .ord = req->ird == MPA_DEPTH_UNSET ? MPA_DEPTH_UNSET : ord,
    };
    f.rtr = f.p2p ? select_rtr(s) : 0;
    return f;
}

uint32_t mpa_setup_accept(struct mpa_setup *s, const struct mpa_answer *a,
                          uint8_t out[MPA_FRAME_MAX])
{
    uint16_t ird = a->ird, ord;
    if (s->state != MPA_ST_DECIDE) {
        return 0;
    }
    ord = bounded(a->ord, s->peer.ird);
    bool read_rtr = s->peer.p2p && (select_rtr(s) & MPA_RTR_READ) != 0;
    if (read_rtr && ird == 0) {
        ird = 1;
    }
    struct mpa_frame f = reply_to(s, ird, ord);
    uint32_t n = set_pd(&f, a->pd, a->pd_len) ? mpa_frame_pack(&f, out) : 0;
    if (n > 0) {
        s->state = MPA_ST_DONE;
        agree(s);
        s->agreed.ird = ird;
        s->agreed.ord = ord;
        s->agreed.p2p = f.p2p;
        s->agreed.rtr = f.rtr;
    }
    return n;
}

uint32_t mpa_setup_reject(struct mpa_setup *s, const void *pd, uint32_t pd_len,
                          uint8_t out[MPA_FRAME_MAX])
{
    if (s->state != MPA_ST_DECIDE) {
        return 0;
    }
    struct mpa_frame f = reply_to(s, s->cfg.ird, s->cfg.ord);
    f.reject = true;
    uint32_t n = set_pd(&f, pd, pd_len) ? mpa_frame_pack(&f, out) : 0;
    if (n > 0) {
        s->state = MPA_ST_DONE;
    }
    return n;
}
