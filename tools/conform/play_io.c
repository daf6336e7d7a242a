/* SPDX-License-Identifier: MIT */
/* Octets in and out, FPDUs in. */
#include <stdlib.h>

#include "octets.h"
#include "play_int.h"

struct play_stream *play_stream(struct play *p, unsigned no)
{
    if (p->st[no] == NULL) {
        struct play_stream *st = calloc(1, sizeof *st);
        for (unsigned i = 0; st != NULL && i < DDP_QNS; i++) {
            st->tx_msn[i] = st->rx_msn[i] = 1;
        }
        p->st[no] = st;
    }
    return p->st[no];
}

void play_drop(struct play *p, unsigned no, bool reset)
{
    struct play_stream *st = p->st[no];
    if (st == NULL) {
        return;
    }
    if (st->conn != NULL) {
        p->cfg->tr->ops->drop(st->conn, reset);
    }
    if (no > 0 && st->tx_octets > p->out->octets) {
        p->out->octets = st->tx_octets;
    }
    free(st->in);
    free(st->held);
    free(st);
    p->st[no] = NULL;
    if (p->now == st) {
        p->now = NULL;
    }
}

uint64_t play_now(struct play *p)
{
    return p->cfg->tr->ops->now(p->cfg->tr);
}

enum tr_state play_state(const struct play *p, const struct play_stream *st)
{
    return st->conn != NULL ? p->cfg->tr->ops->state(st->conn) : TR_FAILED;
}

static bool grow(uint8_t **buf, uint32_t *room, uint32_t want)
{
    if (want <= *room) {
        return true;
    }
    uint32_t more = max_u32(want, *room * 2 + 65536);
    uint8_t *b = realloc(*buf, more);
    if (b == NULL) {
        return false;
    }
    *buf = b;
    *room = more;
    return true;
}

static bool take_in(struct play *p, struct play_stream *st)
{
    bool any = false;
    for (;;) {
        if (!grow(&st->in, &st->room, st->have + 16384)) {
            return any;
        }
        uint32_t n = p->cfg->tr->ops->read(st->conn, st->in + st->have, st->room - st->have);
        if (n == 0) {
            return any;
        }
        st->have += n;
        any = true;
    }
}

void play_turn(struct play *p)
{
    struct transport *tr = p->cfg->tr;
    tr->ops->turn(tr, p->moved ? 0 : 5);
    p->moved = false;
    for (unsigned i = 0; i < PLAY_STREAMS; i++) {
        if (p->st[i] != NULL && p->st[i]->conn != NULL) {
            p->moved |= take_in(p, p->st[i]);
        }
    }
}

void play_wait(struct play *p, uint64_t ms)
{
    uint64_t until = play_now(p) + ms;
    while (play_now(p) < until) {
        play_turn(p);
    }
}

void play_consume(struct play_stream *st, uint32_t n)
{
    memmove(st->in, st->in + n, st->have - n);
    st->have -= n;
}

bool play_need(struct play *p, uint32_t n, uint64_t until)
{
    struct play_stream *st = p->now;
    while (st->have < n) {
        bool ended = play_state(p, st) > TR_OPEN;
        play_turn(p);
        if (st->have < n && (ended || play_now(p) >= until)) {
            p->out->closed |= ended;
            return false;
        }
    }
    return true;
}

/* --- out --- */

static bool push(struct play *p, const uint8_t *o, uint32_t n)
{
    struct play_stream *st = p->now;
    uint64_t until = play_now(p) + 30000;
    for (uint32_t at = 0; at < n;) {
        uint32_t took = p->cfg->tr->ops->write(st->conn, o + at, n - at);
        at += took;
        if (took == 0) {
            play_turn(p);
        }
        if (play_now(p) >= until) {
            return false;
        }
    }
    return true;
}

bool play_send(struct play *p, const uint8_t *o, uint32_t n, bool hold)
{
    struct play_stream *st = p->now;
    if (!grow(&st->held, &st->held_room, st->held_n + n)) {
        return false;
    }
    memcpy(st->held + st->held_n, o, n);
    if (p->cfg->tap != NULL && st != p->st[0]) {
        p->cfg->tap(p->cfg->tap_arg, st->tx_octets, st->held + st->held_n, n);
    }
    st->tx_octets += n;
    st->held_n += n;
    if (hold) {
        return true;
    }
    n = st->held_n;
    st->held_n = 0;
    return push(p, st->held, n);
}

/* --- FPDUs in --- */

/* What the RFCs have sent as zero, on any message at all. */
static const char *sent_unclean(const struct play *p, const struct play_stream *st, uint32_t used)
{
    const struct ddp_hdr *h = &p->in.seg.hdr;
    const uint8_t *raw = p->in.seg.raw;
    uint32_t pad = (2 - p->in.n) & 3;
    if ((raw[0] & 0x3c) != 0) {
        return "reserved bits of the DDP control octet are not zero (RFC 5041 sec 4.1)";
    }
    if ((raw[1] & 0x30) != 0) {
        return "reserved bits of the RDMAP control octet are not zero (RFC 5040 sec 4.1)";
    }
    if (!h->tagged && h->ulp32 != 0 && !rdmap_opcode_invalidates(rdmap_opcode(h->ulp))) {
        return "Invalidate STag field of another message is not zero (RFC 5040 sec 4.1)";
    }
    for (uint32_t i = 0; i < pad && !st->mrx.markers; i++) {
        if (st->in[used - 4 - 1 - i] != 0) {
            return "pad octets are not zero (RFC 5044 sec 4.1)";
        }
    }
    return NULL;
}

static void show(struct play *p)
{
    play_trace_octets(p, '>', rdmap_opcode_text(rdmap_opcode(p->in.seg.hdr.ulp)),
                      (struct span){p->in.octets, p->in.n});
}

static void note_terminate(struct play *p)
{
    const struct ddp_hdr *h = &p->in.seg.hdr;
    struct rdmap_term t;
    if (!p->in.v.bad && !h->tagged && rdmap_opcode(h->ulp) == RDMAP_TERMINATE &&
        rdmap_term_unpack(p->in.seg.payload, &t)) {
        play_host_order(p, &t);
        p->out->term = t.v;
    }
}

/* A whole ULPDU stands in p->ulpdu: copy it out and take its header apart. */
static bool keep(struct play *p, const struct script_line *l)
{
    struct play_stream *st = p->now;
    struct cursor c = cursor_of(p->ulpdu.v, p->ulpdu.cnt);
    p->in.n = p->ulpdu.len;
    cursor_take(&c, p->in.n, p->in.octets);
    p->in.whole = (struct span){p->in.octets, p->in.n};
    p->in.v = ddp_seg_parse(cursor_of(&p->in.whole, 1), &p->in.seg);
    show(p);
    note_terminate(p);
    const char *dirt = p->in.seg.raw_len > 0 ? sent_unclean(p, st, p->ulpdu.used) : NULL;
    play_consume(st, p->ulpdu.used);
    if (dirt != NULL && p->dirt[0] == 0) {
        snprintf(p->dirt, sizeof p->dirt, "%s", dirt);
    }
    return p->in.seg.raw_len > 0 || play_fail(p, l, "an FPDU came that has no DDP header");
}

static bool means_nothing(const struct play *p)
{
    return p->in.seg.hdr.tagged && p->in.seg.plen == 0 &&
           rdmap_opcode(p->in.seg.hdr.ulp) == RDMAP_WRITE;
}

enum play_got play_fpdu(struct play *p, const struct script_line *l, uint64_t until, bool writes0)
{
    struct play_stream *st = p->now;
    for (;;) {
        struct span all = {st->in, st->have};
        struct cursor c = cursor_of(&all, 1);
        struct verdict why;
        bool ended = play_state(p, st) > TR_OPEN;
        switch (mpa_rx_next(&st->mrx, &c, &p->ulpdu, &why)) {
        case MPA_RX_ULPDU:
            if (!keep(p, l)) {
                return PLAY_BAD;
            }
            if (!writes0 && means_nothing(p)) {
                continue;
            }
            return PLAY_GOT;
        case MPA_RX_BAD:
            play_trace_octets(p, '>', "octets", all);
            play_fail(p, l, "an FPDU came that MPA refuses: %s (CRC field %08x, length %u)",
                      verdict_text(why), p->ulpdu.crc_wire, p->ulpdu.len);
            return PLAY_BAD;
        case MPA_RX_MORE: break;
        }
        if (ended) {
            p->out->closed = true;
            return PLAY_ENDED;
        }
        if (play_now(p) >= until) {
            return PLAY_NONE;
        }
        play_turn(p);
    }
}
