/* SPDX-License-Identifier: MIT */
/* One direction's octets: set-up frame, then FPDUs; the boundary is looked for again where octets are
 * missing. Octets that the capture has not are replaced by zeros inside an FPDU whose length is
 * known, so that framing goes on; what stands there is never interpreted. */
#include <stdlib.h>

#include "base/crc32c.h"
#include "mpa/mpa_fpdu.h"

#include "dump.h"

/* --- the buffer --- */

static bool make_room(struct dump *d, struct stream *s, uint32_t n)
{
    if (n <= s->cap - s->n) {
        return true;
    }
    uint32_t cap = s->cap == 0 ? 2048 : s->cap;
    while (cap - s->n < n && cap < STREAM_BUF) {
        cap = min_u32(cap * 2, STREAM_BUF);
    }
    uint8_t *p = cap - s->n < n ? NULL : realloc(s->buf, cap);
    if (p == NULL) {
        return false;
    }
    d->pool += cap - s->cap;
    s->buf = p;
    s->cap = cap;
    return true;
}

/* Appends k's first n octets, zeros when it is a hole. */
static bool push(struct dump *d, struct stream *s, const struct chunk *k, uint32_t n)
{
    if (!make_room(d, s, n)) {
        return false;
    }
    if (s->n == 0) {
        s->buf_frame = s->buf_low = k->frame;
        s->holes = 0;
    }
    s->buf_low = min_u64(s->buf_low, k->frame);
    if (k->p != NULL) {
        memcpy(s->buf + s->n, k->p, n);
    } else {
        memset(s->buf + s->n, 0, n);
        if (s->holes > 0 && (s->holes == HOLES_MAX || s->hole[s->holes - 1].to == s->n)) {
            s->hole[s->holes - 1].to = s->n + n;
        } else {
            s->hole[s->holes++] = (struct hole){s->n, s->n + n};
        }
    }
    s->n += n;
    return true;
}

static void drop(struct stream *s, uint32_t n)
{
    memmove(s->buf, s->buf + n, s->n - n);
    s->n -= n;
    s->off += n;
    s->holes = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->marks; i++) {
        /* The last mark at or before the new start tells where that came from. */
        struct mark m = s->mark[i];
        bool covered = i + 1 < s->marks && s->mark[i + 1].at <= n;
        if (!covered) {
            m.at = m.at > n ? m.at - n : 0;
            s->mark[kept++] = m;
        }
    }
    s->marks = s->n == 0 ? 0 : kept;
}

static void forget(struct dump *d, struct stream *s)
{
    s->off += s->n;
    s->n = s->marks = s->holes = 0;
    if (s->cap > 0 && s->phase == PHASE_OFF) {
        d->pool -= s->cap;
        free(s->buf);
        free(s->mark);
        s->buf = NULL;
        s->mark = NULL;
        s->cap = 0;
    }
}

void stream_free(struct dump *d, struct stream *s)
{
    d->pool -= s->cap;
    free(s->buf);
    free(s->mark);
    *s = (struct stream){.phase = PHASE_OFF};
}

void stream_start(struct conn *c, unsigned dir, bool syn_seen)
{
    struct stream *s = &c->h[dir].s;
    s->phase = PHASE_START;
    s->searched = !syn_seen;
}

static void enter_sync(struct dump *d, struct conn *c, unsigned dir)
{
    struct stream *s = &c->h[dir].s;
    rdma_lost(d, c, dir);
    s->phase = PHASE_SYNC;
    s->next_try = 1;
    s->skipped = 0;
    s->searched = true;
    s->doubtful = 0;
    s->marks = 0;
    s->work = 1 << 20;
    if (s->mark == NULL) {
        s->mark = calloc(MARKS_MAX, sizeof *s->mark);
    }
    if (s->n > 0 && s->mark != NULL) {
        s->mark[s->marks++] = (struct mark){0, s->buf_frame, d->now.ns};
    }
}

static void tell_lost(struct dump *d, struct conn *c, unsigned dir, uint64_t octets)
{
    struct half *h = &c->h[dir];
    h->st.undecoded += octets;
    if (octets > 0 && conn_is_mpa(c)) {
        struct gap g = {.at = dump_here(d, c, dir), .kind = GAP_LOST, .octets = octets};
        dump_gap(d, &g, "%llu octets in which no FPDU was found", (unsigned long long)octets);
    }
}

static void enter_off(struct dump *d, struct conn *c, unsigned dir)
{
    struct stream *s = &c->h[dir].s;
    s->phase = PHASE_OFF;
    tell_lost(d, c, dir, s->skipped + s->n);
    s->skipped = 0;
    forget(d, s);
}

/* --- FPDUs --- */

static uint32_t lead_of(const struct stream *s)
{
    return mpa_fpdu_lead(s->rx.markers, s->rx.pos);
}

/* Judges the CRC; an agreement that was not seen is learnt from the first FPDU. */
static enum crc_state judge_crc(struct stream *s, enum mpa_rx_result res, struct verdict why)
{
    bool bad = res == MPA_RX_BAD && verdict_is(why, LAYER_LLP, LLP_MPA, MPA_ERR_CRC);
    if (!s->crc_known) {
        s->crc_known = true;
        s->rx.crc = !bad;
    }
    if (!s->rx.crc) {
        return CRC_OFF;
    }
    return bad ? CRC_BAD : CRC_GOOD;
}

/* Payload octets that are there before the first missing one; false when the header is not whole. */
static bool find_known(const struct stream *s, struct fpdu_view *f)
{
    uint32_t head = lead_of(s) + MPA_LEN_FIELD;
    f->missing = 0;
    for (uint32_t i = 0; i < s->holes; i++) {
        f->missing += s->hole[i].to - s->hole[i].from;
    }
    f->known = UINT32_MAX;
    if (s->holes == 0) {
        return true;
    }
    uint32_t from = s->hole[0].from;
    bool tagged = from > head && (s->buf[head] & 0x80) != 0;
    uint32_t end = head + (tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN);
    f->known = from > end ? from - end : 0;
    return from >= end;
}

static void header_lost(struct dump *d, struct conn *c, unsigned dir)
{
    struct half *h = &c->h[dir];
    struct gap g = {.at = dump_here(d, c, dir), .kind = GAP_SNAPLEN, .octets = d->ulpdu.used};
    h->st.header_lost++;
    rdma_lost(d, c, dir);
    dump_gap(d, &g, "an FPDU of %u octets without its header in the capture", d->ulpdu.len);
}

/* Two FPDUs in a row whose headers make no sense, without a CRC that speaks for them: the chain of
 * lengths left the boundaries. */
static bool is_adrift(struct stream *s, bool sound, enum crc_state crc)
{
    s->doubtful = sound || crc == CRC_GOOD ? 0 : s->doubtful + 1;
    return s->doubtful >= 2;
}

/* ULPDU_Length above what any ULPDU may have (RFC 5044 sec 3). siw with its GSO switch sends such
 * FPDUs, which its peers take; they are followed when a DDP header stands where it should. Returns the
 * FPDU's length, or 0. */
static uint32_t oversized(const struct stream *s, struct span v)
{
    uint32_t len = v.n >= MPA_LEN_FIELD + 2 ? get_be16(v.p) : 0;
    if (s->rx.markers || len <= MPA_MULPDU_MAX || !sync_header_fits(v.p + MPA_LEN_FIELD)) {
        return 0;
    }
    return mpa_fpdu_size(false, 0, len);
}

/* Octets that must be there before the FPDU can be taken. */
static uint32_t need_of(const struct stream *s, struct span v)
{
    uint32_t big = oversized(s, v);
    return big > 0 ? big : mpa_rx_need(&s->rx, cursor_of(&v, v.n > 0 ? 1 : 0));
}

/* What mpa_rx_next() does, for such an FPDU. */
static enum mpa_rx_result take_oversized(struct dump *d, bool crc, struct cursor *in, uint32_t size)
{
    struct mpa_ulpdu *u = &d->ulpdu;
    struct span run = cursor_run(in, size);
    if (run.n < size) {
        return MPA_RX_MORE;
    }
    *u = (struct mpa_ulpdu){.cnt = 1, .len = get_be16(run.p), .used = size};
    u->v[0] = (struct span){run.p + MPA_LEN_FIELD, u->len};
    u->crc_wire = get_le32(run.p + size - MPA_CRC_LEN);
    dump_find(d, d->fpdu.at, REQUIRE_ULPDU_MAX, (struct span){run.p, MPA_LEN_FIELD},
              "ULPDU_Length %u", u->len);
    uint32_t sum = crc ? crc32c_add(CRC32C_INIT, run.p, size - MPA_CRC_LEN) : 0;
    cursor_skip(in, size);
    return !crc || crc32c_final(sum) == u->crc_wire ? MPA_RX_ULPDU : MPA_RX_BAD;
}

enum step { STEP_MORE, STEP_FPDU, STEP_LOST };

/* Takes the FPDU at *in apart; frame is where its first octet came from. */
static enum step take_fpdu(struct dump *d, struct conn *c, unsigned dir, struct cursor *in)
{
    struct half *h = &c->h[dir];
    struct stream *s = &h->s;
    struct fpdu_view *f = &d->fpdu;
    struct mpa_rx rx = s->rx;
    struct verdict why = VERDICT_OK;
    bool cut = s->holes > 0;
    rx.pos = s->rx.pos = (uint32_t)(s->off - s->base);
    rx.crc = !cut && (s->rx.crc || !s->crc_known);
    f->at = dump_here(d, c, dir);
    f->off = s->off;
    if (h->x != NULL) {
        h->x->pending_errors = 0;
    }
    struct span run = cursor_run(in, in->left);
    d->fpdu_octets = run.p;
    uint32_t big = oversized(s, run);
    enum mpa_rx_result res = big > 0 ? take_oversized(d, rx.crc, in, big)
                                     : mpa_rx_next(&rx, in, &d->ulpdu, &why);
    if (res == MPA_RX_MORE) {
        return STEP_MORE;
    }
    if (big > 0 && res == MPA_RX_BAD) {
        why = verdict_bad(LAYER_LLP, LLP_MPA, MPA_ERR_CRC);
    }
    if (d->ulpdu.used == 0) {
        dump_find(d, f->at, REQUIRE_ULPDU_MAX, (struct span){NULL, 0}, "ULPDU_Length %u",
                  d->ulpdu.len);
        return STEP_LOST;
    }
    h->st.fpdus++;
    f->ulpdu_len = d->ulpdu.len;
    f->pad = mpa_fpdu_pad(d->ulpdu.len);
    f->markers = d->ulpdu.markers;
    f->crc_wire = d->ulpdu.crc_wire;
    bool whole = find_known(s, f);
    f->crc = cut ? (s->rx.crc ? CRC_CUT : CRC_OFF) : judge_crc(s, res, why);
    h->st.crc[f->crc]++;
    h->st.markers += f->markers;
    if (!whole) {
        header_lost(d, c, dir);
        s->off += d->ulpdu.used;
        return STEP_FPDU;
    }
    check_framing(d, c, dir);
    struct cursor ulpdu = cursor_of(d->ulpdu.v, d->ulpdu.cnt);
    struct verdict v = ddp_seg_parse(ulpdu, &f->seg);
    bool sound = !v.bad && !rdmap_check_control(&f->seg.hdr, true).bad;
    bool adrift = is_adrift(s, sound, f->crc);
    rdma_fpdu(d, c, dir);
    s->off += d->ulpdu.used;
    return adrift ? STEP_LOST : STEP_FPDU;
}

/* FPDUs that stand whole in a piece of the stream, without copying. Returns the octets used. */
static uint32_t take_direct(struct dump *d, struct conn *c, unsigned dir, const struct chunk *k)
{
    struct span v = {k->p, k->len};
    struct cursor in = cursor_of(&v, 1);
    struct stream *s = &c->h[dir].s;
    s->holes = 0;
    for (;;) {
        d->fpdu.first_frame = d->fpdu.low_frame = k->frame;
        enum step st = take_fpdu(d, c, dir, &in);
        if (st == STEP_LOST) {
            enter_sync(d, c, dir);
        }
        if (st != STEP_FPDU) {
            return k->len - in.left;
        }
    }
}

/* Adds to the FPDU in the buffer, which is not whole. Returns the octets used. */
static uint32_t take_more(struct dump *d, struct conn *c, unsigned dir, const struct chunk *k)
{
    struct stream *s = &c->h[dir].s;
    struct span v = {s->buf, s->n};
    s->rx.pos = (uint32_t)(s->off - s->base);
    uint32_t need = need_of(s, v);
    if (k->p == NULL && s->n < lead_of(s) + MPA_LEN_FIELD) {
        /* Not even its length is known. */
        enter_sync(d, c, dir);
        s->skipped += s->n;
        s->off += s->n;
        s->n = 0;
        return 0;
    }
    uint32_t n = need > s->n ? min_u32(k->len, need - s->n) : 0;
    if (!push(d, s, k, n)) {
        enter_off(d, c, dir);
        return k->len;
    }
    v = (struct span){s->buf, s->n};
    if (s->n < need_of(s, v)) {
        return n;
    }
    struct cursor in = cursor_of(&v, 1);
    d->fpdu.first_frame = s->buf_frame;
    d->fpdu.low_frame = s->buf_low;
    enum step st = take_fpdu(d, c, dir, &in);
    if (st == STEP_LOST) {
        enter_sync(d, c, dir);
    }
    if (st != STEP_MORE) {
        uint32_t used = s->n - in.left;
        memmove(s->buf, s->buf + used, in.left);
        s->n = in.left;
        s->holes = 0;
    }
    return n;
}

/* A hole where an FPDU begins: what comes behind it may begin anywhere. */
static uint32_t skip_hole(struct dump *d, struct conn *c, unsigned dir, const struct chunk *k)
{
    struct stream *s = &c->h[dir].s;
    enter_sync(d, c, dir);
    s->off += k->len;
    return k->len;
}

static uint32_t feed_fpdus(struct dump *d, struct conn *c, unsigned dir, const struct chunk *k)
{
    struct stream *s = &c->h[dir].s;
    if (s->n > 0) {
        return take_more(d, c, dir, k);
    }
    if (k->p == NULL) {
        return skip_hole(d, c, dir, k);
    }
    uint32_t used = take_direct(d, c, dir, k);
    if (s->phase == PHASE_FPDU && used < k->len) {
        struct chunk rest = *k;
        rest.p += used;
        rest.len -= used;
        if (!push(d, s, &rest, rest.len)) {
            enter_off(d, c, dir);
        }
        used = k->len;
    }
    return used;
}

/* --- searching --- */

/* The frame that brought offset at of the buffer becomes the one that is being worked on. */
static void set_now(struct dump *d, const struct stream *s, uint32_t at)
{
    for (uint32_t i = s->marks; i-- > 0;) {
        if (s->mark[i].at <= at) {
            d->now.num = s->mark[i].frame;
            d->now.ns = s->mark[i].ns;
            return;
        }
    }
}

/* lost: octets since the last FPDU. */
static void found(struct dump *d, struct conn *c, unsigned dir, const struct sync_found *f,
                  uint64_t lost)
{
    struct stream *s = &c->h[dir].s;
    struct gap g = {.kind = s->was_mpa ? GAP_SYNC : GAP_START, .octets = lost, .sure = f->sure};
    set_now(d, s, f->at);
    c->h[dir].st.undecoded += lost;
    s->was_mpa = true;
    s->rx.markers = f->markers;
    s->rx.crc = f->crc;
    s->crc_known = f->crc_known;
    s->base = s->off + f->at - f->pos;
    s->base_known = true;
    s->skipped = 0;
    g.at = dump_here(d, c, dir);
    dump_gap(d, &g,
             "%sFPDU boundary found %s, %llu octets passed over; wrong with a chance of 1 in 2^%u",
             g.kind == GAP_START ? "the capture begins in mid-stream; " : "", f->markers ? "by Markers" : f->crc ? "by length and CRC" : "by length and header",
             (unsigned long long)lost, f->sure);
}

/* Reads FPDUs from offset *at of the buffer. True when it goes on from there, false when the
 * boundary is lost again. */
static bool read_on(struct dump *d, struct conn *c, unsigned dir, uint32_t *at)
{
    struct stream *s = &c->h[dir].s;
    uint64_t start = s->off; /* of the buffer; take_fpdu() moves s->off along */
    s->off += *at;
    for (;;) {
        struct span v = {s->buf + *at, s->n - *at};
        struct cursor in = cursor_of(&v, v.n > 0 ? 1 : 0);
        uint32_t need = need_of(s, v);
        set_now(d, s, *at);
        d->fpdu.first_frame = d->fpdu.low_frame = d->now.num;
        set_now(d, s, *at + min_u32(need, v.n) - (v.n > 0 ? 1 : 0));
        enum step st = take_fpdu(d, c, dir, &in);
        *at = s->n - in.left;
        if (st != STEP_FPDU) {
            s->off = start;
            return st == STEP_MORE;
        }
    }
}

static void try_sync(struct dump *d, struct conn *c, unsigned dir)
{
    struct stream *s = &c->h[dir].s;
    struct frame now = d->now;
    uint32_t at = 0;
    struct sync_found f;
    s->next_try = s->n * 2;
    while (sync_search(c, dir, at, &f)) {
        s->phase = PHASE_FPDU;
        s->doubtful = 0;
        found(d, c, dir, &f, s->skipped + f.at - at);
        at = f.at;
        if (read_on(d, c, dir, &at)) {
            d->now = now;
            set_now(d, s, at);
            uint64_t frame = d->now.num;
            drop(s, at);
            s->marks = 0;
            s->buf_frame = s->buf_low = frame;
            d->now = now;
            return;
        }
        rdma_lost(d, c, dir);
        s->phase = PHASE_SYNC;
        at += at < s->n ? 1 : 0;
    }
    d->now = now;
    if (at > 0) {
        drop(s, min_u32(at, s->n));
        s->next_try = s->n * 2;
    }
}

/* Half of a full buffer is given up: an FPDU is at most 64 KB, so a boundary was in it or is none. */
static void slide(struct dump *d, struct conn *c, unsigned dir, uint32_t room)
{
    struct stream *s = &c->h[dir].s;
    uint32_t n = max_u32(room, s->n / 2);
    n = min_u32(n, s->n);
    drop(s, n);
    s->skipped += n;
    s->next_try = s->n;
    (void)d;
}

static uint32_t feed_sync(struct dump *d, struct conn *c, unsigned dir, const struct chunk *k)
{
    struct stream *s = &c->h[dir].s;
    if (k->p == NULL) {
        s->skipped += s->n;
        s->off += s->n + k->len;
        s->n = s->marks = 0;
        s->next_try = 1;
        return k->len;
    }
    uint32_t n = min_u32(k->len, STREAM_BUF / 2);
    if (s->n + n > STREAM_BUF) {
        slide(d, c, dir, s->n + n - STREAM_BUF);
    }
    if (s->mark != NULL && s->marks < MARKS_MAX) {
        s->mark[s->marks++] = (struct mark){s->n, k->frame, k->ns};
    }
    if (!push(d, s, k, n)) {
        enter_off(d, c, dir);
        return k->len;
    }
    s->work += 8ull * n;
    if (s->n >= s->next_try || s->n == STREAM_BUF) {
        try_sync(d, c, dir);
    }
    if (s->phase == PHASE_SYNC && !conn_is_mpa(c) && s->skipped + s->n > SYNC_GIVE_UP) {
        enter_off(d, c, dir);
    }
    return n;
}

/* --- set-up --- */

void stream_agree(struct dump *d, struct conn *c)
{
    const struct agreed *a = c->agreed;
    (void)d;
    for (unsigned dir = 0; dir < DIRS; dir++) {
        struct stream *s = &c->h[dir].s;
        const struct mpa_frame *other = dir == a->initiator ? &a->rep : &a->req;
        bool have_other = dir == a->initiator ? a->have_rep : a->have_req;
        bool crc = (a->have_req && a->req.crc) || (a->have_rep && a->rep.crc);
        s->rx.markers = have_other && other->markers;
        s->rx.crc = crc;
        s->crc_known = crc || (a->have_req && a->have_rep);
    }
}

static uint32_t feed_start(struct dump *d, struct conn *c, unsigned dir, const struct chunk *k)
{
    struct stream *s = &c->h[dir].s;
    uint32_t used = 0;
    if (k->p == NULL && s->n < MPA_FRAME_HDR) {
        enter_sync(d, c, dir);
        return 0;
    }
    /* Little by little: octets behind the frame are FPDUs. Private Data may be cut off. */
    uint32_t n = min_u32(k->len, s->n < MPA_FRAME_HDR ? MPA_FRAME_HDR - s->n : 1);
    if (s->n >= MPA_FRAME_HDR) {
        uint32_t want = MPA_FRAME_HDR + get_be16(s->buf + 18);
        n = want > s->n ? min_u32(k->len, want - s->n) : n;
    }
    if (!push(d, s, k, n)) {
        enter_off(d, c, dir);
        return k->len;
    }
    switch (setup_feed(d, c, dir, &used)) {
    case SETUP_MORE: break;
    case SETUP_DONE:
        drop(s, used);
        s->was_mpa = true;
        s->searched = false;
        s->phase = PHASE_FPDU;
        s->base = s->off;
        s->base_known = true;
        break;
    case SETUP_BAD:
        forget(d, s); /* it was told */
        enter_off(d, c, dir);
        break;
    case SETUP_NONE:
        if (s->searched || conn_is_mpa(c)) {
            enter_sync(d, c, dir);
        } else {
            enter_off(d, c, dir);
        }
        break;
    }
    return n;
}

/* MPA may be started later in the stream (RFC 5044 sec 7.1): its key at a segment's start shows it. */
static uint32_t feed_off(struct dump *d, struct conn *c, unsigned dir, const struct chunk *k)
{
    struct half *h = &c->h[dir];
    if (k->p != NULL && k->len >= MPA_FRAME_HDR && memcmp(k->p, "MPA ID Re", 9) == 0 &&
        (c->agreed == NULL || !c->agreed->bad)) {
        h->s.phase = PHASE_START;
        tell_lost(d, c, dir, h->s.skipped);
        h->s.skipped = 0;
        return 0;
    }
    h->s.skipped += k->len;
    h->s.off += k->len;
    return k->len;
}

void stream_feed(struct dump *d, struct conn *c, unsigned dir, const struct chunk *k)
{
    struct stream *s = &c->h[dir].s;
    struct chunk rest = *k;
    while (rest.len > 0) {
        uint32_t used = 0;
        switch (s->phase) {
        case PHASE_START: used = feed_start(d, c, dir, &rest); break;
        case PHASE_FPDU:
            setup_trailing(d, c, dir);
            used = feed_fpdus(d, c, dir, &rest);
            break;
        case PHASE_SYNC: used = feed_sync(d, c, dir, &rest); break;
        case PHASE_OFF: used = feed_off(d, c, dir, &rest); break;
        }
        rest.p = rest.p != NULL ? rest.p + used : NULL;
        rest.len -= used;
    }
}

static void tell_cut(struct dump *d, struct conn *c, unsigned dir, const char *how)
{
    struct stream *s = &c->h[dir].s;
    struct gap g = {.at = dump_here(d, c, dir), .kind = GAP_UNFINISHED, .octets = s->n};
    c->h[dir].st.undecoded += s->n;
    dump_gap(d, &g, "%s after %u octets of an FPDU", how, s->n);
}

void stream_end(struct dump *d, struct conn *c, unsigned dir, const char *how)
{
    struct stream *s = &c->h[dir].s;
    if (s->ended || !c->h[dir].r.started) {
        return;
    }
    s->ended = true;
    if (s->phase == PHASE_START && s->n > 0) {
        setup_cut(d, c, dir);
        enter_off(d, c, dir);
    }
    if (s->phase == PHASE_SYNC) {
        try_sync(d, c, dir);
    }
    if (s->phase == PHASE_SYNC) {
        enter_off(d, c, dir);
    }
    if (s->phase == PHASE_FPDU && s->n > 0) {
        tell_cut(d, c, dir, how);
    }
    if (s->phase == PHASE_OFF) {
        tell_lost(d, c, dir, s->skipped);
        s->skipped = 0;
    }
}
