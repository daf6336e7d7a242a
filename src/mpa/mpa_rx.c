/* SPDX-License-Identifier: MIT */
/* FPDUs from a stream: length chain, Markers cut out and checked, CRC checked (RFC 5044 sec 4 to
 * 6). Places nothing and copies nothing: the ULPDU is handed on as spans of the stream. */
#include "mpa/mpa_rx.h"

#include "base/crc32c.h"
#include "mpa/mpa_fpdu.h"

void mpa_rx_init(struct mpa_rx *rx, bool markers, bool crc)
{
    *rx = (struct mpa_rx){.markers = markers, .crc = crc, .pos = 0};
}

/* Reads ULPDU_Length without moving; false while it is not there. No Marker can split the field:
 * FPDUs and Marker positions are multiples of 4 (RFC 5044 sec 4.3). */
static bool peek_len(const struct mpa_rx *rx, struct cursor in, uint32_t *len)
{
    uint8_t head[MPA_MARKER_LEN + MPA_LEN_FIELD] = {0};
    uint32_t lead = mpa_fpdu_lead(rx->markers, rx->pos);
    if (!cursor_take(&in, lead + MPA_LEN_FIELD, head)) {
        return false;
    }
    *len = get_be16(head + lead);
    return true;
}

uint32_t mpa_rx_need(const struct mpa_rx *rx, struct cursor in)
{
    uint32_t len;
    if (!peek_len(rx, in, &len)) {
        return mpa_fpdu_size(rx->markers, rx->pos, 0);
    }
    if (len > MPA_MULPDU_MAX) {
        /* Nothing more is needed to refuse it. */
        return mpa_fpdu_lead(rx->markers, rx->pos) + MPA_LEN_FIELD;
    }
    return mpa_fpdu_size(rx->markers, rx->pos, len);
}

/* The CRC covers all stream octets from the leading Marker up to the CRC field, Markers included
 * (RFC 5044 sec 4.4), so it needs no knowledge of where they are. */
static uint32_t crc_of(struct cursor c, uint32_t n)
{
    uint32_t sum = CRC32C_INIT;
    while (n > 0) {
        struct span r = cursor_run(&c, n);
        sum = crc32c_add(sum, r.p, r.n);
        cursor_step(&c, r.n);
        n -= r.n;
    }
    return crc32c_final(sum);
}

/* A pass over one FPDU that is wholly there. */
struct walk {
    struct cursor c;
    bool markers;
    uint32_t at;  /* stream offset of c */
    uint32_t hdr; /* stream offset of ULPDU_Length */
    bool bad_marker, too_many;
    struct mpa_ulpdu *out;
};

/* FPDUPTR counts from the first octet of ULPDU_Length and is 0 in the Marker directly before it;
 * its low two bits and the reserved half are not looked at (RFC 5044 sec 4.2, 4.3). */
static void take_marker(struct walk *w)
{
    uint8_t m[MPA_MARKER_LEN] = {0};
    cursor_take(&w->c, MPA_MARKER_LEN, m);
    bool leading = w->at + MPA_MARKER_LEN == w->hdr;
    uint32_t right = leading ? 0 : w->at - w->hdr;
    w->bad_marker |= (get_be16(m + 2) & ~3u) != right;
    w->at += MPA_MARKER_LEN;
    w->out->markers++;
}

static void keep_run(struct walk *w, struct span r)
{
    if (w->out->cnt == MPA_ULPDU_SPANS) {
        w->too_many = true;
        return;
    }
    w->out->v[w->out->cnt++] = r;
}

/* Steps over n octets of the FPDU and the Markers before and between them. */
static void pass(struct walk *w, uint32_t n, bool keep)
{
    while (n > 0) {
        uint32_t part = n;
        if (w->markers) {
            if (w->at % MPA_MARKER_GAP == 0) {
                take_marker(w);
            }
            part = min_u32(n, MPA_MARKER_GAP - w->at % MPA_MARKER_GAP);
        }
        struct span r = cursor_run(&w->c, part);
        if (keep) {
            keep_run(w, r);
        }
        cursor_step(&w->c, r.n);
        w->at += r.n;
        n -= r.n;
    }
}

/* Fills *out; tells in *w what was wrong besides the CRC. */
static void take_apart(struct walk *w, uint32_t len)
{
    pass(w, MPA_LEN_FIELD, false);
    pass(w, len, true);
    pass(w, mpa_fpdu_pad(len), false);
    pass(w, MPA_CRC_LEN, false); /* with the Marker that may stand between pad and CRC */
}

static enum mpa_rx_result whole(const struct mpa_rx *rx, const struct cursor *in,
                                struct mpa_ulpdu *out, struct verdict *why)
{
    uint8_t field[MPA_CRC_LEN] = {0};
    struct cursor c = *in;
    cursor_skip(&c, out->used - MPA_CRC_LEN);
    cursor_take(&c, MPA_CRC_LEN, field);
    out->crc_wire = get_le32(field);

    struct walk w = {.c = *in, .markers = rx->markers, .at = rx->pos, .out = out};
    w.hdr = rx->pos + mpa_fpdu_lead(rx->markers, rx->pos);
    take_apart(&w, out->len);

    /* A bit error may have hit a Marker, so a Marker is only believed under a good CRC. */
    if (rx->crc && crc_of(*in, out->used - MPA_CRC_LEN) != out->crc_wire) {
        *why = verdict_bad(LAYER_LLP, LLP_MPA, MPA_ERR_CRC);
    } else if (w.bad_marker) {
        *why = verdict_bad(LAYER_LLP, LLP_MPA, MPA_ERR_MARKER);
    } else if (w.too_many) {
        *why = verdict_bad(LAYER_LLP, LLP_MPA, MPA_ERR_LOCAL);
    } else {
        return MPA_RX_ULPDU;
    }
    return MPA_RX_BAD;
}

/* The common case: no Markers and the FPDU in one piece at p. */
static enum mpa_rx_result whole_flat(const struct mpa_rx *rx, const uint8_t *p,
                                     struct mpa_ulpdu *out, struct verdict *why)
{
    uint32_t covered = out->used - MPA_CRC_LEN;
    out->crc_wire = get_le32(p + covered);
    if (out->len > 0) {
        out->v[0] = (struct span){p + MPA_LEN_FIELD, out->len};
        out->cnt = 1;
    }
    if (rx->crc && crc32c_final(crc32c_add(CRC32C_INIT, p, covered)) != out->crc_wire) {
        *why = verdict_bad(LAYER_LLP, LLP_MPA, MPA_ERR_CRC);
        return MPA_RX_BAD;
    }
    return MPA_RX_ULPDU;
}

enum mpa_rx_result mpa_rx_next(struct mpa_rx *rx, struct cursor *in, struct mpa_ulpdu *out,
                               struct verdict *why)
{
    uint32_t len;
    if (!peek_len(rx, *in, &len)) {
        return MPA_RX_MORE;
    }
    out->cnt = out->used = out->markers = out->crc_wire = 0;
    out->len = len;
    if (len > MPA_MULPDU_MAX) {
        /* No ULPDU is that long (RFC 5044 sec 3), so this is no FPDU's start. */
        *why = verdict_bad(LAYER_LLP, LLP_MPA, MPA_ERR_MARKER);
        return MPA_RX_BAD;
    }
    uint32_t size = mpa_fpdu_size(rx->markers, rx->pos, len);
    if (in->left < size) {
        return MPA_RX_MORE;
    }
    out->used = size;
    struct span run = cursor_run(in, size);
    bool flat = !rx->markers && run.p != NULL && run.n == size;
    enum mpa_rx_result res = flat ? whole_flat(rx, run.p, out, why) : whole(rx, in, out, why);
    cursor_skip(in, size);
    rx->pos += size;
    return res;
}
