/* SPDX-License-Identifier: MIT */
/* Request and Reply: what they say, whether they may, and what they agree on. */
#include <stdlib.h>

#include "dump.h"

enum {
    AT_FLAGS = 16,
    AT_REV = 17,
    AT_PD_LENGTH = 18,
    KEY_ALIKE = 12, /* octets of a key that must be right before the rest counts as a fault */
};

static unsigned key_alike(const uint8_t *p, uint32_t n, const char *key)
{
    unsigned same = 0;
    for (uint32_t i = 0; i < min_u32(n, MPA_KEY_LEN); i++) {
        same += p[i] == (uint8_t)key[i];
    }
    return same;
}

static struct agreed *need_agreed(struct conn *c)
{
    if (c->agreed == NULL) {
        c->agreed = calloc(1, sizeof *c->agreed);
    }
    return c->agreed;
}

static const struct mpa_frame *request_of(const struct conn *c)
{
    return c->agreed != NULL && c->agreed->have_req ? &c->agreed->req : NULL;
}

/* What shows a violation that is no single field's. */
static struct span octets_of(const struct setup_view *v)
{
    return (struct span){v->head, v->head_len};
}

static void check_flags(struct dump *d, const struct setup_view *v)
{
    struct span flags = {&v->octet16, 1};
    unsigned reserved = v->octet17 >= MPA_REV_2 ? 0x0f : 0x1f;
    if ((v->octet16 & reserved) != 0) {
        dump_find(d, dump_spot(v->at, flags), REQUIRE_SETUP_RSVD, "octet 16 is 0x%02x", v->octet16);
    }
    if (!v->f.reply && (v->octet16 & MPA_FLAG_R) != 0) {
        dump_find(d, dump_spot(v->at, flags), REQUIRE_REQ_REJECT, "octet 16 is 0x%02x", v->octet16);
    }
    if (v->octet17 != MPA_REV_1 && v->octet17 != MPA_REV_2) {
        dump_find(d, dump_spot(v->at, (struct span){&v->octet17, 1}), REQUIRE_REV, "Rev is %u",
                  v->octet17);
    }
    if (v->pd_length > MPA_PD_MAX) {
        dump_find(d, dump_spot(v->at, octets_of(v)), REQUIRE_PD_MAX, "PD_Length is %u",
                  v->pd_length);
    }
    if (v->octet17 == MPA_REV_2 && (v->octet16 & MPA_FLAG_S) != 0 &&
        v->pd_length < MPA_ENHANCED_LEN) {
        dump_find(d, dump_spot(v->at, octets_of(v)), REQUIRE_ENH_SHORT, "S=1 with PD_Length %u",
                  v->pd_length);
    }
}

static void find_in(struct dump *d, const struct setup_view *v, enum require r, const char *what)
{
    dump_find(d, dump_spot(v->at, octets_of(v)), r, "%s", what);
}

static void check_enhanced(struct dump *d, const struct setup_view *v)
{
    const struct mpa_frame *f = &v->f;
    if (!f->enhanced) {
        return;
    }
    if (!f->p2p && f->rtr != 0) {
        find_in(d, v, REQUIRE_FLAGS_ZERO, "A=0, yet B, C or D is set");
    }
    if (f->p2p && f->rtr == 0) {
        find_in(d, v, f->reply ? REQUIRE_RTR_ANSWER : REQUIRE_RTR_OFFER,
                "A=1 with B, C and D all zero");
    }
}

static void check_depths(struct dump *d, const struct setup_view *v, const struct mpa_frame *req)
{
    const struct mpa_frame *rep = &v->f;
    bool unset = req->ird == MPA_DEPTH_UNSET;
    if (unset && rep->ord != MPA_DEPTH_UNSET) {
        dump_find(d, dump_spot(v->at, octets_of(v)), REQUIRE_ORD_UNSET,
                  "Request IRD 0x3fff, Reply ORD %u", rep->ord);
    }
    if (req->ord == MPA_DEPTH_UNSET && rep->ird != MPA_DEPTH_UNSET) {
        dump_find(d, dump_spot(v->at, octets_of(v)), REQUIRE_IRD_UNSET,
                  "Request ORD 0x3fff, Reply IRD %u", rep->ird);
    }
    if (!rep->reject && !unset && rep->ord != MPA_DEPTH_UNSET && rep->ord > req->ird) {
        dump_find(d, dump_spot(v->at, octets_of(v)), REQUIRE_ORD_BOUND,
                  "Request IRD %u, Reply ORD %u", req->ird, rep->ord);
    }
}

static void check_reply(struct dump *d, const struct setup_view *v, const struct mpa_frame *req)
{
    const struct mpa_frame *rep = &v->f;
    if (req->enhanced != rep->enhanced) {
        find_in(d, v, req->enhanced ? REQUIRE_ENH_ANSWER : REQUIRE_PLAIN_ANSWER,
                req->enhanced ? "Request S=1, Reply S=0" : "Request S=0, Reply S=1");
    }
    if (!req->enhanced || !rep->enhanced) {
        return;
    }
    if (req->p2p != rep->p2p && !rep->reject) {
        find_in(d, v, req->p2p ? REQUIRE_A_ANSWER : REQUIRE_A_NOT_ASKED,
                req->p2p ? "Request A=1, Reply A=0" : "Request A=0, Reply A=1");
    }
    check_depths(d, v, req);
}

static void keep_frame(struct dump *d, struct conn *c, unsigned dir, const struct setup_view *v)
{
    struct agreed *a = need_agreed(c);
    if (a == NULL) {
        return;
    }
    if (v->f.reply) {
        a->rep = v->f;
        a->have_rep = true;
        a->rejected = v->f.reject;
        a->initiator = 1 - dir;
    } else {
        a->req = v->f;
        a->have_req = true;
        a->initiator = dir;
    }
    upper_setup(c, &v->f);
    stream_agree(d, c);
}

/* Depths and flags of a malformed frame, by the codec: read as a good one that ends behind them. */
static void read_enhanced(const struct stream *s, struct mpa_frame *f)
{
    uint8_t copy[MPA_FRAME_HDR + MPA_ENHANCED_LEN];
    if (s->n < sizeof copy || (s->buf[AT_FLAGS] & MPA_FLAG_S) == 0 || s->buf[AT_REV] < MPA_REV_2 ||
        get_be16(s->buf + AT_PD_LENGTH) < MPA_ENHANCED_LEN) {
        return;
    }
    memcpy(copy, s->buf, sizeof copy);
    copy[AT_REV] = MPA_REV_2;
    put_be16(copy + AT_PD_LENGTH, MPA_ENHANCED_LEN);
    struct span v = {copy, sizeof copy};
    struct cursor in = cursor_of(&v, 1);
    enum mpa_fault why;
    mpa_frame_unpack(&in, f->reply, f, &why);
}

/* A frame whose key is right and whose first 20 octets are there, but which no end can take. */
static enum setup_result bad_frame(struct dump *d, struct conn *c, struct setup_view *v,
                                   enum mpa_fault why)
{
    v->bad = mpa_fault_text(why);
    v->f.rev = v->octet17;
    v->f.markers = (v->octet16 & MPA_FLAG_M) != 0;
    v->f.crc = (v->octet16 & MPA_FLAG_C) != 0;
    v->f.reject = (v->octet16 & MPA_FLAG_R) != 0;
    v->f.ird = v->f.ord = MPA_DEPTH_UNSET;
    read_enhanced(&c->h[v->at.dir].s, &v->f);
    v->f.rev = v->octet17;
    struct agreed *a = need_agreed(c);
    if (a != NULL) {
        a->bad = true;
        a->initiator = v->f.reply ? 1 - v->at.dir : v->at.dir;
    }
    dump_tell_conn(d, c);
    dump_setup(d, v);
    check_flags(d, v);
    return SETUP_BAD;
}

/* Not a key of MPA's. An end that has a Request before it should have known better. */
static enum setup_result no_key(struct dump *d, struct conn *c, unsigned dir)
{
    const struct stream *s = &c->h[dir].s;
    const struct agreed *a = c->agreed;
    bool reply_due = a != NULL && a->have_req && !a->have_rep && a->initiator != dir;
    const char *want = reply_due ? "MPA ID Rep Frame" : "MPA ID Req Frame";
    unsigned alike = key_alike(s->buf, s->n, want);
    if (!reply_due && alike < KEY_ALIKE) {
        return s->n < MPA_KEY_LEN && alike == s->n ? SETUP_MORE : SETUP_NONE;
    }
    if (s->n < MPA_FRAME_HDR) {
        return SETUP_MORE;
    }
    struct agreed *have = need_agreed(c);
    if (have != NULL) {
        have->bad = true;
        have->initiator = reply_due ? 1 - dir : dir;
    }
    dump_tell_conn(d, c);
    dump_find(d, dump_spot(dump_here(d, c, dir), (struct span){s->buf, MPA_KEY_LEN}),
              reply_due ? REQUIRE_REP_KEY : REQUIRE_REQ_KEY, "the key is wrong");
    return SETUP_BAD;
}

/* Takes Request or Reply, whatever its key says it is. */
static enum mpa_parse unpack_either(struct cursor *in, struct mpa_frame *f, enum mpa_fault *why,
                                    bool *reply)
{
    *reply = false;
    enum mpa_parse p = mpa_frame_unpack(in, false, f, why);
    if (p == MPA_PARSE_BAD && *why == MPA_FAULT_ROLE) {
        *reply = true;
        p = mpa_frame_unpack(in, true, f, why);
    }
    return p;
}

enum setup_result setup_feed(struct dump *d, struct conn *c, unsigned dir, uint32_t *used)
{
    struct stream *s = &c->h[dir].s;
    struct span all = {s->buf, s->n};
    struct cursor in = cursor_of(&all, 1);
    struct setup_view v = {.at = dump_here(d, c, dir)};
    enum mpa_fault why;
    bool reply;
    enum mpa_parse p = unpack_either(&in, &v.f, &why, &reply);
    if (p == MPA_PARSE_BAD && why == MPA_FAULT_KEY) {
        return no_key(d, c, dir);
    }
    if (p == MPA_PARSE_MORE || s->n < MPA_FRAME_HDR) {
        return SETUP_MORE;
    }
    v.octet16 = s->buf[AT_FLAGS];
    v.octet17 = s->buf[AT_REV];
    v.head_len = min_u32(s->n, sizeof v.head);
    memcpy(v.head, s->buf, v.head_len);
    v.pd_length = get_be16(s->buf + AT_PD_LENGTH);
    v.f.reply = reply;
    if (p == MPA_PARSE_BAD) {
        if ((v.octet16 & MPA_FLAG_S) != 0 && v.pd_length >= MPA_ENHANCED_LEN &&
            s->n < MPA_FRAME_HDR + MPA_ENHANCED_LEN) {
            return SETUP_MORE;
        }
        return bad_frame(d, c, &v, why);
    }
    v.whole = true;
    const struct agreed *a = c->agreed;
    bool two_requests = !reply && a != NULL && a->have_req && a->initiator != dir;
    keep_frame(d, c, dir, &v);
    dump_tell_conn(d, c);
    dump_setup(d, &v);
    check_flags(d, &v);
    check_enhanced(d, &v);
    if (two_requests) {
        find_in(d, &v, REQUIRE_REP_KEY, "a Request answers a Request");
    }
    if (reply && request_of(c) != NULL) {
        check_reply(d, &v, request_of(c));
    }
    *used = s->n - in.left;
    return SETUP_DONE;
}

void setup_cut(struct dump *d, struct conn *c, unsigned dir)
{
    struct stream *s = &c->h[dir].s;
    if (s->n < MPA_FRAME_HDR || key_alike(s->buf, s->n, "MPA ID Req Frame") + 1 < MPA_KEY_LEN) {
        return;
    }
    struct setup_view v = {.at = dump_here(d, c, dir),
                           .octet16 = s->buf[AT_FLAGS],
                           .octet17 = s->buf[AT_REV],
                           .pd_length = get_be16(s->buf + AT_PD_LENGTH)};
    v.f.reply = s->buf[9] == 'p';
    v.head_len = min_u32(s->n, sizeof v.head);
    memcpy(v.head, s->buf, v.head_len);
    uint32_t have = s->n - MPA_FRAME_HDR;
    bad_frame(d, c, &v, MPA_FAULT_PD_LENGTH);
    dump_find(d, dump_spot(v.at, (struct span){s->buf + AT_PD_LENGTH, 2}), REQUIRE_PD_LENGTH,
              "PD_Length %u, but %u octets came", v.pd_length, have);
}

void setup_trailing(struct dump *d, struct conn *c, unsigned dir, struct span octets)
{
    struct agreed *a = c->agreed;
    if (a == NULL || !a->have_req || a->have_rep || a->bad || a->initiator != dir ||
        a->trailing_told || c->h[1 - dir].s.phase != PHASE_START || reasm_lacks(&c->h[1 - dir])) {
        return;
    }
    a->trailing_told = true;
    dump_find(d, dump_spot(dump_here(d, c, dir), octets), REQUIRE_WAIT_REPLY,
              "octets follow the Request before there is a Reply");
}

uint16_t setup_read_limit(const struct conn *c, unsigned dir)
{
    const struct agreed *a = c->agreed;
    if (a == NULL || !a->have_req || !a->have_rep || !a->req.enhanced || !a->rep.enhanced) {
        return MPA_DEPTH_UNSET;
    }
    return dir == a->initiator ? a->rep.ird : a->req.ird;
}
