/* SPDX-License-Identifier: MIT */
/* IP packets out of their fragments (RFC 791, RFC 8200 sec 4.5). Bounded: so many packets at a time, and
 * so long; what is given up is counted, and shows as missing octets of its connection. */
#ifndef UIW_DUMP_FRAGS_H
#define UIW_DUMP_FRAGS_H

#include "packet.h"

enum { FRAGS_PACKETS = 64, FRAGS_PARTS = 256 };

struct frags {
    struct whole *v; /* NULL until there is a fragment */
    uint64_t joined; /* packets that were put together */
    uint64_t lost;   /* fragments that were not */
};

/* *pk is a fragment in frame f. PACKET_FRAGMENT while others are missing; else what the whole packet
 * is, *pk is filled from it, and frames and count name the frames that it came in. All that is borrowed
 * until the next call. */
enum packet_kind frags_take(struct frags *fr, const struct frame *f, struct packet *pk,
                            const uint64_t **frames, uint32_t *count);
/* Fragments that still wait; they count as lost then. */
void frags_free(struct frags *fr);

#endif
