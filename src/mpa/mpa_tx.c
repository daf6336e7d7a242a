/* SPDX-License-Identifier: MIT */
/* FPDUs for a stream: length, Markers, pad, CRC (RFC 5044 sec 4). With CRC off the field is sent
 * as 0. */
#include "mpa/mpa_tx.h"

#include "base/crc32c.h"
#include "mpa/mpa_fpdu.h"

/* Octets copied before their CRC is made: few enough to be still in the first-level cache. */
enum { BLOCK = 8192 };

void mpa_tx_init(struct mpa_tx *tx, bool markers, bool crc)
{
    *tx = (struct mpa_tx){.markers = markers, .crc = crc, .pos = 0};
}

uint32_t mpa_mulpdu(uint32_t emss, bool markers)
{
    uint32_t over = MPA_LEN_FIELD + MPA_CRC_LEN + emss % 4;
    if (markers) {
        over += MPA_MARKER_LEN * (emss / MPA_MARKER_GAP + (emss % MPA_MARKER_GAP != 0));
    }
    if (emss < over + MPA_MULPDU_MIN) {
        return MPA_MULPDU_MIN;
    }
    return min_u32(emss - over, MPA_MULPDU_MAX);
}

uint32_t mpa_tx_size(const struct mpa_tx *tx, uint32_t ulpdu_len)
{
    return mpa_fpdu_size(tx->markers, tx->pos, ulpdu_len);
}

static bool acceptable(const struct mpa_out *u)
{
    return u->hlen <= MPA_MULPDU_MAX && u->plen <= MPA_MULPDU_MAX - u->hlen &&
           u->plen <= u->payload->left;
}

/* An FPDU in the making. */
struct writer {
    uint8_t *d;            /* next octet to write */
    const uint8_t *summed; /* first octet that is not in sum yet */
    uint32_t sum;
    uint32_t at;  /* stream offset of d */
    uint32_t hdr; /* stream offset of ULPDU_Length */
    bool markers, crc;
};

static void put_marker(struct writer *w)
{
    bool leading = w->at + MPA_MARKER_LEN == w->hdr;
    put_be32(w->d, leading ? 0 : w->at - w->hdr);
    w->d += MPA_MARKER_LEN;
    w->at += MPA_MARKER_LEN;
}

/* Lays down n octets and the Markers before and between them. */
static void put(struct writer *w, const uint8_t *p, uint32_t n)
{
    while (n > 0) {
        uint32_t part = n;
        if (w->markers) {
            if (w->at % MPA_MARKER_GAP == 0) {
                put_marker(w);
            }
            part = min_u32(n, MPA_MARKER_GAP - w->at % MPA_MARKER_GAP);
        }
        memcpy(w->d, p, part);
        w->d += part;
        w->at += part;
        p += part;
        n -= part;
    }
}

static void sum_up(struct writer *w)
{
    if (w->crc) {
        w->sum = crc32c_add(w->sum, w->summed, (size_t)(w->d - w->summed));
    }
    w->summed = w->d;
}

/* Asks for the source ahead of the copy: a source out of the caches is else read at the copy's
 * pace, which costs a third of the speed. */
static void warm(struct span r)
{
    for (uint32_t i = 0; i < r.n; i += 64) {
        __builtin_prefetch(r.p + i);
    }
}

/* The CRC is made of the copy, not of the source: memory that the peer reads may be changed by
 * its owner at that moment. The peer then sees old or new data, but must not see a bad CRC. */
static void put_payload(struct writer *w, struct cursor *payload, uint32_t plen)
{
    while (plen > 0) {
        struct span r = cursor_run(payload, min_u32(plen, BLOCK));
        warm(r);
        put(w, r.p, r.n);
        cursor_step(payload, r.n);
        plen -= r.n;
        if (w->d - w->summed >= BLOCK) {
            sum_up(w);
        }
    }
}

static void put_trailer(struct writer *w, uint32_t pad)
{
    static const uint8_t zeros[3];
    put(w, zeros, pad);
    if (w->markers && w->at % MPA_MARKER_GAP == 0) {
        put_marker(w); /* between pad and CRC: still this FPDU's, and under its CRC */
    }
    sum_up(w);
    put_le32(w->d, w->crc ? crc32c_final(w->sum) : 0);
    w->d += MPA_CRC_LEN;
    w->at += MPA_CRC_LEN;
}

/* The common case: no Markers, and the payload in one piece that is still in the cache when it is summed. */
static uint32_t copy_flat(struct mpa_tx *tx, const struct mpa_out *u, struct span payload,
                          uint8_t *dst)
{
    uint32_t pad = mpa_fpdu_pad(u->hlen + u->plen);
    uint8_t *d = dst + MPA_LEN_FIELD;
    warm(payload);
    put_be16(dst, u->hlen + u->plen);
    if (u->hlen > 0) {
        memcpy(d, u->hdr, u->hlen);
    }
    d += u->hlen;
    memcpy(d, payload.p, payload.n);
    cursor_step(u->payload, payload.n);
    d += payload.n;
    put_le32(d, 0); /* the pad, and what the CRC then overwrites */
    d += pad;
    uint32_t sum = tx->crc ? crc32c_add(CRC32C_INIT, dst, (size_t)(d - dst)) : ~0u;
    put_le32(d, crc32c_final(sum));
    d += MPA_CRC_LEN;
    tx->pos += (uint32_t)(d - dst);
    return (uint32_t)(d - dst);
}

uint32_t mpa_tx_copy(struct mpa_tx *tx, const struct mpa_out *u, uint8_t *dst)
{
    if (!acceptable(u)) {
        return 0;
    }
    struct span run = cursor_run(u->payload, min_u32(u->plen, BLOCK));
    if (!tx->markers && run.n == u->plen && run.n > 0) {
        return copy_flat(tx, u, run, dst);
    }
    uint8_t len[MPA_LEN_FIELD];
    put_be16(len, u->hlen + u->plen);
    struct writer w = {.d = dst, .summed = dst, .sum = CRC32C_INIT, .at = tx->pos};
    w.markers = tx->markers;
    w.crc = tx->crc;
    w.hdr = tx->pos + mpa_fpdu_lead(tx->markers, tx->pos);
    put(&w, len, MPA_LEN_FIELD);
    put(&w, u->hdr, u->hlen);
    put_payload(&w, u->payload, u->plen);
    put_trailer(&w, mpa_fpdu_pad(u->hlen + u->plen));
    uint32_t n = w.at - tx->pos;
    tx->pos = w.at;
    return n;
}

/* The lent payload's part of the CRC. */
static uint32_t sum_payload(uint32_t sum, struct cursor *payload, uint32_t plen, bool crc)
{
    while (crc && plen > 0) {
        struct span r = cursor_run(payload, plen);
        sum = crc32c_add(sum, r.p, r.n);
        cursor_step(payload, r.n);
        plen -= r.n;
    }
    cursor_skip(payload, plen);
    return sum;
}

uint32_t mpa_tx_lend(struct mpa_tx *tx, const struct mpa_out *u, uint8_t *head, uint8_t tail[7])
{
    if (tx->markers || !acceptable(u)) {
        return 0;
    }
    put_be16(head, u->hlen + u->plen);
    if (u->hlen > 0) {
        memcpy(head + MPA_LEN_FIELD, u->hdr, u->hlen);
    }
    uint32_t pad = mpa_fpdu_pad(u->hlen + u->plen);
    memset(tail, 0, pad + MPA_CRC_LEN);
    uint32_t sum = CRC32C_INIT;
    if (tx->crc) {
        sum = crc32c_add(sum, head, MPA_LEN_FIELD + u->hlen);
    }
    sum = sum_payload(sum, u->payload, u->plen, tx->crc);
    if (tx->crc) {
        put_le32(tail + pad, crc32c_final(crc32c_add(sum, tail, pad)));
    }
    tx->pos += MPA_LEN_FIELD + u->hlen + u->plen + pad + MPA_CRC_LEN;
    return pad + MPA_CRC_LEN;
}
