/* SPDX-License-Identifier: MIT */
/* FPDUs out of a stream whose boundaries are known. */
#include "base/crc32c.h"
#include "mpa/mpa_fpdu.h"

#include "stream_int.h"

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
static bool find_known(const struct stream *s, uint32_t used, struct fpdu_view *f)
{
    uint32_t head = s->at + lead_of(s) + MPA_LEN_FIELD;
    uint32_t first = 0;
    f->missing = s->holes == 0 ? 0 : stream_holes(s, s->at, s->at + used, &first);
    f->known = UINT32_MAX;
    if (f->missing == 0) {
        return true;
    }
    bool tagged = first > head && (s->buf[head] & 0x80) != 0;
    uint32_t end = head + (tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN);
    f->known = first > end ? first - end : 0;
    return first >= end;
}

/* Whether any octet of the FPDU at v is missing; *blind when its length is among them. */
static bool is_cut(const struct stream *s, struct span v, bool *blind)
{
    uint32_t first;
    uint32_t len_end = lead_of(s) + MPA_LEN_FIELD + 2;
    *blind = s->holes > 0 && stream_holes(s, s->at, s->at + min_u32(len_end, v.n), &first) > 0;
    return s->holes > 0 && stream_holes(s, s->at, s->at + stream_need_of(s, v), &first) > 0;
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
uint32_t stream_need_of(const struct stream *s, struct span v)
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
    dump_find(d, dump_spot(d->fpdu.at, (struct span){run.p, MPA_LEN_FIELD}), REQUIRE_ULPDU_MAX,
              "ULPDU_Length %u", u->len);
    uint32_t sum = crc ? crc32c_add(CRC32C_INIT, run.p, size - MPA_CRC_LEN) : 0;
    cursor_skip(in, size);
    return !crc || crc32c_final(sum) == u->crc_wire ? MPA_RX_ULPDU : MPA_RX_BAD;
}

/* Where a capture began with FPDUs too short to have a Marker, the first CRC that is wrong says that
 * there are Markers; not so once a Marker would have been due. */
static bool is_wrong_guess(struct stream *s, enum mpa_rx_result res, uint32_t used)
{
    s->guess_failed = s->guessed && s->crc_known && s->rx.crc && res == MPA_RX_BAD;
    s->plain += used;
    s->guessed &= s->guess_failed || s->plain < 2 * MPA_MARKER_GAP;
    return s->guess_failed;
}

/* Takes the FPDU at *in apart; frame is where its first octet came from. */
enum step stream_take_fpdu(struct dump *d, struct conn *c, unsigned dir, struct cursor *in)
{
    struct half *h = &c->h[dir];
    struct stream *s = &h->s;
    struct fpdu_view *f = &d->fpdu;
    struct mpa_rx rx = s->rx;
    struct verdict why = VERDICT_OK;
    struct cursor before = *in;
    struct span run = cursor_run(in, in->left);
    rx.pos = s->rx.pos = (uint32_t)(s->off - s->base);
    bool blind;
    bool cut = is_cut(s, run, &blind);
    rx.crc = !cut && (s->rx.crc || !s->crc_known);
    f->at = dump_here(d, c, dir);
    f->off = s->off;
    if (!rdma_ready(c, dir)) {
        return STEP_LOST;
    }
    events_settle(d, &h->x->waiting);
    h->x->pending_errors = 0;
    if (blind) {
        return STEP_LOST;
    }
    d->fpdu_octets = run.p;
    uint32_t big = oversized(s, run);
    enum mpa_rx_result res =
        big > 0 ? take_oversized(d, rx.crc, in, big) : mpa_rx_next(&rx, in, &d->ulpdu, &why);
    if (res == MPA_RX_MORE) {
        return STEP_MORE;
    }
    if (big > 0 && res == MPA_RX_BAD) {
        why = verdict_bad(LAYER_LLP, LLP_MPA, MPA_ERR_CRC);
    }
    if (d->ulpdu.used == 0) {
        dump_find(d, dump_spot(f->at, (struct span){run.p, min_u32(run.n, MPA_LEN_FIELD)}),
                  REQUIRE_ULPDU_MAX, "ULPDU_Length %u", d->ulpdu.len);
        return STEP_LOST;
    }
    if (is_wrong_guess(s, res, d->ulpdu.used)) {
        *in = before;
        return STEP_LOST;
    }
    h->st.fpdus++;
    f->ulpdu_len = d->ulpdu.len;
    f->pad = mpa_fpdu_pad(d->ulpdu.len);
    f->markers = d->ulpdu.markers;
    f->crc_wire = d->ulpdu.crc_wire;
    bool whole = find_known(s, d->ulpdu.used, f);
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
        enum step st = stream_take_fpdu(d, c, dir, &in);
        if (st == STEP_LOST) {
            stream_enter_sync(d, c, dir);
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
    uint32_t need = stream_need_of(s, v);
    if (k->p == NULL && s->n < lead_of(s) + MPA_LEN_FIELD) {
        /* Not even its length is known. */
        stream_enter_sync(d, c, dir);
        s->skipped += s->n;
        s->off += s->n;
        s->n = 0;
        return 0;
    }
    uint32_t n = need > s->n ? min_u32(k->len, need - s->n) : 0;
    if (!stream_push(d, s, k, n)) {
        stream_enter_off(d, c, dir);
        return k->len;
    }
    v = (struct span){s->buf, s->n};
    if (s->n < stream_need_of(s, v)) {
        return n;
    }
    struct cursor in = cursor_of(&v, 1);
    d->fpdu.first_frame = s->buf_frame;
    d->fpdu.low_frame = s->buf_low;
    enum step st = stream_take_fpdu(d, c, dir, &in);
    if (st == STEP_LOST) {
        stream_enter_sync(d, c, dir);
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
    stream_tell_cut(d, c, dir, k);
    stream_enter_sync(d, c, dir);
    s->off += k->len;
    return k->len;
}

uint32_t stream_feed_fpdus(struct dump *d, struct conn *c, unsigned dir, const struct chunk *k)
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
        if (!stream_push(d, s, &rest, rest.len)) {
            stream_enter_off(d, c, dir);
        }
        used = k->len;
    }
    return used;
}
