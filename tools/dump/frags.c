/* SPDX-License-Identifier: MIT */
#include "frags.h"

#include <stdlib.h>

enum {
    OCTETS = 65536,
    UNIT = 8, /* what offsets count in */
    WAIT_S = 30,
};

struct whole {
    bool used, v6;
    uint8_t src[16], dst[16];
    uint32_t id;
    uint64_t ns; /* of its first fragment */
    uint8_t next;
    uint32_t end;  /* 0 until the last fragment came */
    uint32_t have; /* units */
    uint32_t cut;  /* offset of the first octet behind a snaplen */
    uint64_t frame[FRAGS_PARTS];
    uint32_t frames;
    uint8_t unit[OCTETS / UNIT / 8]; /* bits */
    uint8_t *octets;
};

static bool is_of(const struct whole *w, const struct packet *pk)
{
    uint32_t n = pk->v6 ? 16 : 4;
    return w->used && w->v6 == pk->v6 && w->id == pk->part.id && memcmp(w->src, pk->src, n) == 0 &&
           memcmp(w->dst, pk->dst, n) == 0;
}

static void give_up(struct frags *fr, struct whole *w)
{
    fr->lost += w->frames;
    w->used = false;
}

static bool is_old(const struct whole *w, uint64_t ns)
{
    return ns > w->ns && ns - w->ns > WAIT_S * 1000000000ull;
}

/* The fragment's packet; a new one takes a free place, or that of the oldest. NULL without memory. */
static struct whole *find(struct frags *fr, const struct frame *f, const struct packet *pk)
{
    struct whole *place = NULL;
    for (unsigned i = 0; i < FRAGS_PACKETS; i++) {
        struct whole *w = &fr->v[i];
        if (w->used && is_old(w, f->ns)) {
            give_up(fr, w);
        }
        if (is_of(w, pk)) {
            return w;
        }
        if (place == NULL || (place->used && (!w->used || w->ns < place->ns))) {
            place = w;
        }
    }
    if (place->used) {
        give_up(fr, place);
    }
    uint8_t *octets = place->octets != NULL ? place->octets : malloc(OCTETS);
    if (octets == NULL) {
        return NULL;
    }
    *place = (struct whole){.used = true,
                            .v6 = pk->v6,
                            .id = pk->part.id,
                            .ns = f->ns,
                            .cut = OCTETS,
                            .octets = octets};
    memcpy(place->src, pk->src, pk->v6 ? 16 : 4);
    memcpy(place->dst, pk->dst, pk->v6 ? 16 : 4);
    return place;
}

/* Marks units [from, to); how many of them were marked before. */
static uint32_t mark(struct whole *w, uint32_t from, uint32_t to)
{
    uint32_t old = 0;
    for (uint32_t i = from; i < to; i++) {
        uint8_t bit = (uint8_t)(1u << (i % 8));
        old += (w->unit[i / 8] & bit) != 0;
        w->unit[i / 8] |= bit;
    }
    w->have += to - from - old;
    return old;
}

/* False when the fragment contradicts what is there: overlapping ones are never sent by a sound sender,
 * and are how packets are smuggled (RFC 5722). A second copy is no contradiction. */
static bool add(struct whole *w, const struct frame *f, const struct packet *pk)
{
    const struct part *p = &pk->part;
    if (p->off + p->len >= OCTETS || w->frames == FRAGS_PARTS) {
        return false;
    }
    uint32_t end = p->off + p->len;
    uint32_t units = (p->len + UNIT - 1) / UNIT;
    uint32_t old = mark(w, p->off / UNIT, p->off / UNIT + units);
    bool other_end = w->end != 0 && (p->more ? end > w->end : end != w->end);
    if (other_end || (old > 0 && old < units)) {
        return false;
    }
    w->frame[w->frames++] = f->num;
    if (old > 0) {
        return true;
    }
    if (p->off == 0) {
        w->next = p->next;
    }
    w->end = p->more ? w->end : end;
    memcpy(w->octets + p->off, pk->data.p, pk->data.n);
    if (pk->data.n < p->len) {
        w->cut = min_u32(w->cut, p->off + pk->data.n);
    }
    return true;
}

enum packet_kind frags_take(struct frags *fr, const struct frame *f, struct packet *pk,
                            const uint64_t **frames, uint32_t *count)
{
    if (fr->v == NULL) {
        fr->v = calloc(FRAGS_PACKETS, sizeof *fr->v);
    }
    struct whole *w = fr->v != NULL ? find(fr, f, pk) : NULL;
    if (w == NULL) {
        fr->lost++;
        return PACKET_FRAGMENT;
    }
    if (!add(w, f, pk)) {
        give_up(fr, w);
        fr->lost++;
        return PACKET_BAD;
    }
    if (w->end == 0 || w->have < (w->end + UNIT - 1) / UNIT) {
        return PACKET_FRAGMENT;
    }
    w->used = false;
    fr->joined++;
    *frames = w->frame;
    *count = w->frames;
    pk->src = w->src;
    pk->dst = w->dst;
    pk->part.next = w->next;
    return packet_parse_whole(w->octets, min_u32(w->cut, w->end), w->end, pk);
}

void frags_free(struct frags *fr)
{
    for (unsigned i = 0; fr->v != NULL && i < FRAGS_PACKETS; i++) {
        if (fr->v[i].used) {
            give_up(fr, &fr->v[i]);
        }
        free(fr->v[i].octets);
    }
    free(fr->v);
    fr->v = NULL;
}
