/* SPDX-License-Identifier: MIT */
/* Octets of byte vectors. Their STags stand for regions of the tested end: put in what it told us, and
 * make the CRC anew. An FPDU that names none of them goes out as it stands in the file. */
#include <stdlib.h>

#include "play_int.h"

/* The set-ups that the byte vectors were made for. */
static const struct {
    uint32_t stag;
    uint64_t to;
    const char *region;
} standard[] = {
    {0x0000a501, 0, "rw"},         {0x0000c703, 0x3000, "ro"},   {0x0000c704, 0x5000, "wo"},
    {0x0000a601, 0, "other"},      {0xd8040001, 0, "inv1"},      {0xd8040002, 0, "inv2"},
    {0x00001234, 0x1000, "small"}, {0x0000b602, 0x2000, "sink"},
};

/* An offset near the region moves with it; a wild one is meant to be wild. */
static uint64_t moved(uint64_t to, uint64_t from, const struct play_region *r)
{
    const uint64_t near = 4096;
    return to - from < r->len + near || from - to < near ? to - from + r->to : to;
}

/* Replaces the STag at 4 octets and the offset at 8 (or NULL); whether it did. */
static bool map(struct play *p, uint8_t *stag, uint8_t *to)
{
    for (size_t i = 0; i < ARRAY_LEN(standard); i++) {
        if (standard[i].stag != get_be32(stag)) {
            continue;
        }
        /* The vectors of RFC 7306 give that one STag another right. */
        bool atomic = strcmp(p->s->rfc, "rfc7306") == 0 && strcmp(standard[i].region, "ro") == 0;
        const struct play_region *r = play_region(p, atomic ? "at" : standard[i].region);
        if (r == NULL) {
            return false;
        }
        put_be32(stag, r->stag);
        if (to != NULL) {
            put_be64(to, moved(get_be64(to), standard[i].to, r));
        }
        return true;
    }
    return false;
}

/* A Read Response without payload goes where the oldest Read Request says: no STag of a vector can
 * stand for that of a region that nobody needs. */
static bool map_response0(const struct play_stream *st, uint8_t *u)
{
    if (st->asked_cnt == 0 || st->asked[0].len != 0) {
        return false;
    }
    put_be32(u + 2, st->asked[0].sink_stag);
    put_be64(u + 6, st->asked[0].sink_to);
    return true;
}

static bool map_ulpdu(struct play *p, uint8_t *u, uint32_t n)
{
    if (n < DDP_TAGGED_LEN) {
        return false;
    }
    unsigned op = rdmap_opcode(u[1]);
    if (op == RDMAP_READ_RESPONSE && n == DDP_TAGGED_LEN && map_response0(p->now, u)) {
        return true;
    }
    if ((u[0] & 0x80) != 0) {
        /* An Initiator's Read Responses are the only ones into memory that is ours. */
        return (op == RDMAP_READ_RESPONSE) == p->initiator && map(p, u + 2, u + 6);
    }
    if (rdmap_opcode_invalidates(op)) {
        return map(p, u + 2, NULL);
    }
    if (op == RDMAP_READ_REQUEST && n >= DDP_UNTAGGED_LEN + RDMAP_READ_REQUEST_LEN) {
        return map(p, u + 34, u + 38);
    }
    return op == RDMAP_ATOMIC_REQUEST && n >= DDP_UNTAGGED_LEN + RDMAP_ATOMIC_REQUEST_LEN &&
           map(p, u + 26, u + 30);
}

/* A Read Request has an answer to come. */
static void note_read(struct play_stream *st, const uint8_t *u, uint32_t n)
{
    bool whole = n == DDP_UNTAGGED_LEN + RDMAP_READ_REQUEST_LEN && (u[0] & 0x80) == 0;
    if (whole && rdmap_opcode(u[1]) == RDMAP_READ_REQUEST && st->asking_cnt < PLAY_READS) {
        rdmap_read_request_unpack(u + DDP_UNTAGGED_LEN, &st->asking[st->asking_cnt++]);
    }
}

/* One FPDU of the vector: as it is, or made anew. */
static bool send_one(struct play *p, const struct script_line *l, struct span raw, bool hold)
{
    static uint8_t u[PLAY_ULPDU];
    struct cursor c = cursor_of(p->ulpdu.v, p->ulpdu.cnt);
    uint32_t n = p->ulpdu.len;
    cursor_take(&c, min_u32(n, sizeof u), u);
    bool changed = map_ulpdu(p, u, n);
    note_read(p->now, u, n);
    if (changed) {
        return play_frame_out(p, l, (struct span){u, n}, hold);
    }
    p->now->mtx.pos += raw.n;
    play_note_sent(p, l, (struct span){u, n});
    return play_send(p, raw.p, raw.n, hold);
}

static void count(struct play_stream *st, const struct script *v, const uint8_t *u, uint32_t n)
{
    struct span all = {u, n};
    struct ddp_seg seg;
    (void)v;
    if (!ddp_seg_parse(cursor_of(&all, 1), &seg).bad && !seg.hdr.tagged && seg.hdr.last) {
        st->tx_msn[seg.hdr.qn & 3] = seg.hdr.msn + 1;
    }
}

static bool send_stream(struct play *p, const struct script_line *l, const struct script *v,
                        bool hold)
{
    struct mpa_rx rx;
    struct span all = {v->octets, v->n};
    struct cursor c = cursor_of(&all, 1);
    mpa_rx_init(&rx, v->markers, v->crc);
    rx.pos = v->pos;
    while (c.left > 0) {
        struct verdict why;
        uint32_t at = v->n - c.left;
        enum mpa_rx_result r = mpa_rx_next(&rx, &c, &p->ulpdu, &why);
        uint32_t used = v->n - c.left - at;
        if (r != MPA_RX_ULPDU || used == 0) {
            /* Not an FPDU, on purpose. */
            play_note_sent(p, l, (struct span){NULL, 0});
            return play_send(p, v->octets + at, v->n - at, hold);
        }
        if (!send_one(p, l, (struct span){v->octets + at, used}, hold || c.left > 0)) {
            return false;
        }
        struct cursor u = cursor_of(p->ulpdu.v, p->ulpdu.cnt);
        uint8_t head[DDP_HDR_MAX];
        uint32_t n = min_u32(u.left, sizeof head);
        cursor_take(&u, n, head);
        count(p->now, v, head, n);
    }
    return true;
}

bool play_vector(struct play *p, const struct script_line *l, bool hold)
{
    const char *id = script_plain(l, 1);
    const struct script *v = id == NULL ? p->s : NULL;
    for (unsigned i = 0; v == NULL && i < p->cfg->all_cnt; i++) {
        v = strcmp(p->cfg->all[i]->id, id) == 0 ? p->cfg->all[i] : NULL;
    }
    if (v == NULL || v->n == 0) {
        return play_fail(p, l, "there are no octets of '%s'", id != NULL ? id : p->s->id);
    }
    play_trace_octets(p, '<', v->id, (struct span){v->octets, v->n});
    if (!v->startup) {
        return send_stream(p, l, v, hold);
    }
    play_learn_frame(p, (struct span){v->octets, v->n});
    return play_send(p, v->octets, v->n, hold);
}
