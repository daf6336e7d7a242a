/* SPDX-License-Identifier: MIT */
/* One direction's octets: set-up frame, then FPDUs; the boundary is looked for again where octets are
 * missing. Octets that the capture has not are replaced by zeros inside an FPDU whose length is
 * known, so that framing goes on; what stands there is never interpreted. */
#include <stdlib.h>

#include "mpa/mpa_wire.h"

#include "stream_int.h"

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
bool stream_push(struct dump *d, struct stream *s, const struct chunk *k, uint32_t n)
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

uint32_t stream_holes(const struct stream *s, uint32_t from, uint32_t to, uint32_t *first)
{
    uint32_t n = 0;
    *first = to;
    for (uint32_t i = 0; i < s->holes; i++) {
        uint32_t low = max_u32(s->hole[i].from, from);
        uint32_t high = min_u32(s->hole[i].to, to);
        if (low < high) {
            *first = min_u32(*first, low);
            n += high - low;
        }
    }
    return n;
}

static void drop_holes(struct stream *s, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->holes; i++) {
        struct hole h = s->hole[i];
        if (h.to > n) {
            s->hole[kept++] = (struct hole){h.from > n ? h.from - n : 0, h.to - n};
        }
    }
    s->holes = kept;
}

static void drop(struct stream *s, uint32_t n)
{
    memmove(s->buf, s->buf + n, s->n - n);
    s->n -= n;
    s->off += n;
    drop_holes(s, n);
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

static void stream_forget(struct dump *d, struct stream *s)
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
    s->buf = NULL;
    s->mark = NULL;
    s->n = s->cap = s->marks = 0;
    s->phase = PHASE_OFF; /* what was agreed on is still told of */
}

void stream_start(struct conn *c, unsigned dir, bool syn_seen)
{
    struct stream *s = &c->h[dir].s;
    s->phase = PHASE_START;
    s->searched = !syn_seen;
}

void stream_enter_sync(struct dump *d, struct conn *c, unsigned dir)
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
        s->mark[s->marks++] = (struct mark){0, d->now.num, d->now.ns};
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

void stream_tell_cut(struct dump *d, struct conn *c, unsigned dir, const struct chunk *k)
{
    if (k->cut && conn_is_mpa(c)) {
        struct gap g = {.at = dump_here(d, c, dir), .kind = GAP_SNAPLEN, .octets = k->len};
        dump_gap(d, &g, "%u octets behind the snaplen, and any FPDU that begins in them", k->len);
    }
}

void stream_enter_off(struct dump *d, struct conn *c, unsigned dir)
{
    struct stream *s = &c->h[dir].s;
    s->phase = PHASE_OFF;
    tell_lost(d, c, dir, s->skipped + s->n);
    s->skipped = 0;
    stream_forget(d, s);
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
    bool agreed = c->agreed != NULL && c->agreed->have_req && c->agreed->have_rep;
    s->guessed = !f->markers && !agreed && (!s->was_mpa || s->guessed);
    s->guess_failed = false;
    s->plain = 0;
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
             g.kind == GAP_START ? "the capture begins in mid-stream; " : "",
             f->markers ? "by Markers"
             : f->crc   ? "by length and CRC"
                        : "by length and header",
             (unsigned long long)lost, f->sure);
}

/* Reads FPDUs from offset *at of the buffer. True when it goes on from there, false when the
 * boundary is lost again. */
static bool read_on(struct dump *d, struct conn *c, unsigned dir, uint32_t *at)
{
    struct stream *s = &c->h[dir].s;
    uint64_t start = s->off; /* of the buffer; stream_take_fpdu() moves s->off along */
    s->off += *at;
    for (;;) {
        s->at = *at;
        struct span v = {s->buf + *at, s->n - *at};
        struct cursor in = cursor_of(&v, v.n > 0 ? 1 : 0);
        uint32_t need = stream_need_of(s, v);
        set_now(d, s, *at);
        d->fpdu.first_frame = d->fpdu.low_frame = d->now.num;
        set_now(d, s, *at + min_u32(need, v.n) - (v.n > 0 ? 1 : 0));
        enum step st = stream_take_fpdu(d, c, dir, &in);
        *at = s->n - in.left;
        if (st != STEP_FPDU) {
            s->off = start;
            s->at = 0;
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
    if (k->p == NULL && (!k->cut || k->len > STREAM_BUF / 2)) {
        stream_tell_cut(d, c, dir, k);
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
    if (k->p != NULL && s->mark != NULL && s->marks < MARKS_MAX) {
        s->mark[s->marks++] = (struct mark){s->n, d->now.num, d->now.ns};
    }
    if (!stream_push(d, s, k, n)) {
        stream_enter_off(d, c, dir);
        return k->len;
    }
    s->work += 8ull * n;
    if (s->n >= s->next_try || s->n == STREAM_BUF) {
        try_sync(d, c, dir);
    }
    if (s->phase == PHASE_SYNC && !conn_is_mpa(c) && s->skipped + s->n > SYNC_GIVE_UP) {
        stream_enter_off(d, c, dir);
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
        stream_enter_sync(d, c, dir);
        return 0;
    }
    /* Little by little: octets behind the frame are FPDUs. Private Data may be cut off. */
    uint32_t n = min_u32(k->len, s->n < MPA_FRAME_HDR ? MPA_FRAME_HDR - s->n : 1);
    if (s->n >= MPA_FRAME_HDR) {
        uint32_t want = MPA_FRAME_HDR + get_be16(s->buf + 18);
        n = want > s->n ? min_u32(k->len, want - s->n) : n;
    }
    if (!stream_push(d, s, k, n)) {
        stream_enter_off(d, c, dir);
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
        stream_forget(d, s); /* it was told */
        stream_enter_off(d, c, dir);
        break;
    case SETUP_NONE:
        if (s->searched || conn_is_mpa(c)) {
            stream_enter_sync(d, c, dir);
        } else {
            stream_enter_off(d, c, dir);
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
            setup_trailing(d, c, dir, (struct span){rest.p, rest.p != NULL ? rest.len : 0});
            used = stream_feed_fpdus(d, c, dir, &rest);
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
        stream_enter_off(d, c, dir);
    }
    if (s->phase == PHASE_SYNC) {
        try_sync(d, c, dir);
    }
    if (s->phase == PHASE_SYNC) {
        stream_enter_off(d, c, dir);
    }
    if (s->phase == PHASE_FPDU && s->n > 0) {
        tell_cut(d, c, dir, how);
    }
    if (s->phase == PHASE_OFF) {
        tell_lost(d, c, dir, s->skipped);
        s->skipped = 0;
    }
}
