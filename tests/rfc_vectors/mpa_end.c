/* SPDX-License-Identifier: MIT */
#include "mpa_end.h"

#include <stdio.h>
#include <stdlib.h>

void mpa_end_init(struct mpa_end *e, bool initiator, const struct mpa_cfg *cfg,
                  const struct mpa_end_ulp *ulp, void *arg)
{
    *e = (struct mpa_end){.ulp = ulp, .arg = arg, .emss = MPA_END_EMSS};
    mpa_setup_init(&e->setup, initiator, cfg);
}

static void drop_piece(struct mpa_end *e)
{
    free((void *)(uintptr_t)e->piece[0].p);
    memmove(e->piece, e->piece + 1, --e->pieces * sizeof *e->piece);
    e->skip = 0;
}

void mpa_end_free(struct mpa_end *e)
{
    while (e->pieces > 0) {
        drop_piece(e);
    }
    free(e->out);
}

/* --- out --- */

static uint8_t *room(struct mpa_end *e, uint32_t n)
{
    if (e->out_n + n > e->out_room) {
        e->out_room = e->out_n + n + 65536;
        e->out = realloc(e->out, e->out_room);
        if (e->out == NULL) {
            abort();
        }
    }
    return e->out + e->out_n;
}

static bool put_frame(struct mpa_end *e, const uint8_t *frame, uint32_t n)
{
    memcpy(room(e, n), frame, n);
    e->out_n += n;
    return n > 0;
}

static void begin_full(struct mpa_end *e)
{
    const struct mpa_agreed *a = &e->setup.agreed;
    mpa_rx_init(&e->rx, a->rx_markers, a->crc);
    mpa_tx_init(&e->tx, a->tx_markers, a->crc);
    e->full = true;
}

bool mpa_end_request(struct mpa_end *e, const void *pd, uint32_t n)
{
    uint8_t frame[MPA_FRAME_MAX];
    return put_frame(e, frame, mpa_setup_request(&e->setup, pd, n, frame));
}

bool mpa_end_accept(struct mpa_end *e, const struct mpa_answer *a)
{
    uint8_t frame[MPA_FRAME_MAX];
    bool ok = put_frame(e, frame, mpa_setup_accept(&e->setup, a, frame));
    if (ok) {
        begin_full(e);
    }
    return ok;
}

bool mpa_end_reject(struct mpa_end *e, const void *pd, uint32_t n)
{
    uint8_t frame[MPA_FRAME_MAX];
    return put_frame(e, frame, mpa_setup_reject(&e->setup, pd, n, frame));
}

/* The two ways of building an FPDU take turns; by reference goes only without Markers. */
bool mpa_end_send(struct mpa_end *e, struct span hdr, struct span payload)
{
    struct cursor c = cursor_of(&payload, 1);
    struct mpa_out u = {hdr.p, hdr.n, &c, payload.n};
    uint32_t size = mpa_tx_size(&e->tx, hdr.n + payload.n), n;
    uint8_t *to = room(e, size), tail[7];
    e->lend = !e->lend && !e->tx.markers;
    if (e->lend) {
        uint32_t t = mpa_tx_lend(&e->tx, &u, to, tail), head = MPA_LEN_FIELD + hdr.n;
        n = t > 0 ? head + payload.n + t : 0;
        if (t > 0) {
            memcpy(to + head, payload.p, payload.n);
            memcpy(to + head + payload.n, tail, t);
        }
    } else {
        n = mpa_tx_copy(&e->tx, &u, to);
    }
    e->out_n += n;
    return n > 0 && n == size;
}

uint32_t mpa_end_read(struct mpa_end *e, uint8_t *to, uint32_t max)
{
    uint32_t n = min_u32(e->out_n, max);
    if (n > 0) {
        memcpy(to, e->out, n);
        e->out_n -= n;
        memmove(e->out, e->out + n, e->out_n);
    }
    return n;
}

/* --- in --- */

/* A piece is a block of its own, so that a sanitizer sees an octet read past its end. */
static void keep(struct mpa_end *e, const uint8_t *p, uint32_t n)
{
    uint8_t *block = malloc(n);
    if (block == NULL) {
        abort();
    }
    memcpy(block, p, n);
    e->piece[e->pieces++] = (struct span){block, n};
}

static struct cursor all_of(struct mpa_end *e, struct span v[MPA_END_PIECES])
{
    memcpy(v, e->piece, e->pieces * sizeof *v);
    if (e->pieces > 0) {
        v[0].p += e->skip;
        v[0].n -= e->skip;
    }
    return cursor_of(v, e->pieces);
}

/* As the stack's streams do: no more pieces than MPA takes. */
static void join(struct mpa_end *e)
{
    struct span v[MPA_END_PIECES];
    struct cursor c = all_of(e, v);
    uint32_t n = c.left;
    uint8_t *whole = malloc(n);
    if (whole == NULL) {
        abort();
    }
    cursor_take(&c, n, whole);
    while (e->pieces > 0) {
        drop_piece(e);
    }
    e->piece[e->pieces++] = (struct span){whole, n};
}

static void use_up(struct mpa_end *e, uint32_t n)
{
    while (n > 0) {
        uint32_t left = e->piece[0].n - e->skip;
        if (n < left) {
            e->skip += n;
            return;
        }
        n -= left;
        drop_piece(e);
    }
}

/* What of the set-up is MPA's own to decide: a bad frame ends TCP at once (RFC 5044 sec 8). */
static bool rx_setup(struct mpa_end *e)
{
    struct span v[MPA_END_PIECES];
    struct cursor c = all_of(e, v);
    uint32_t before = c.left;
    enum mpa_setup_event ev = mpa_setup_rx(&e->setup, &c);
    use_up(e, before - c.left);
    if (ev == MPA_SETUP_MORE) {
        return false;
    }
    if (ev == MPA_SETUP_ACCEPTED || ev == MPA_SETUP_TERM) {
        begin_full(e);
    }
    e->ended = ev == MPA_SETUP_BAD;
    e->ulp->setup(e->arg, ev);
    return true;
}

static bool rx_fpdu(struct mpa_end *e)
{
    static uint8_t flat[MPA_ULPDU_SPANS * 64];
    struct span v[MPA_END_PIECES];
    struct cursor c = all_of(e, v);
    struct verdict why = VERDICT_OK;
    uint32_t before = c.left;
    bool enough = mpa_rx_need(&e->rx, c) <= before;
    enum mpa_rx_result got = mpa_rx_next(&e->rx, &c, &e->ulpdu, &why);
    if (enough != (got != MPA_RX_MORE)) {
        printf("mpa_rx_need() and mpa_rx_next() differ\n");
        abort();
    }
    if (got == MPA_RX_BAD) {
        e->fault = why;
        e->ulp->refused(e->arg, why);
        return false;
    }
    if (got == MPA_RX_MORE) {
        return false;
    }
    struct cursor u = cursor_of(e->ulpdu.v, e->ulpdu.cnt);
    cursor_take(&u, e->ulpdu.len, flat);
    use_up(e, before - c.left);
    e->ulp->ulpdu(e->arg, (struct span){flat, e->ulpdu.len});
    return true;
}

static bool deaf(const struct mpa_end *e)
{
    return e->ended || e->fault.bad;
}

void mpa_end_rx(struct mpa_end *e, const uint8_t *p, uint32_t n)
{
    if (n == 0 || deaf(e)) {
        return;
    }
    keep(e, p, n);
    if (e->pieces == MPA_END_PIECES) {
        join(e);
    }
    while (!deaf(e) && (e->full ? rx_fpdu(e) : rx_setup(e))) {
    }
}
