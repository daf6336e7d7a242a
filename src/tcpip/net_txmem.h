/* SPDX-License-Identifier: MIT */
/* The memory behind what a stream sends: chunks that its owner writes into, and copies of what was lent
 * and taken back. All goes when the stream has no more use for it. */
#ifndef UIW_TCPIP_NET_TXMEM_H
#define UIW_TCPIP_NET_TXMEM_H

#include <stdalign.h>

#include "base/base.h"

enum {
    NET_CHUNK = 65536,
    NET_CHUNK_PART = 1024, /* for each of these the beginning of one piece is remembered */
};

struct net_chunk {
    struct net_chunk *next;
    uint64_t end; /* stream offset behind its last octet */
    uint32_t used;
    uint32_t parts;                              /* entries of border that are valid */
    uint16_t border[NET_CHUNK / NET_CHUNK_PART]; /* the first piece to begin there; 0: none */
    alignas(64) uint8_t data[NET_CHUNK];
};

/* Unused chunks of all streams of a net; the last one freed goes first, while it is in the cache. */
struct net_chunks {
    struct net_chunk *first;
    uint32_t count;
    uint32_t out; /* chunks of streams */
    bool starved; /* one could not be allocated; its owner clears it */
};

/* A copy of lent memory. */
struct net_copy {
    struct net_copy *next;
    uint64_t until; /* stream offset that must be done with before it goes */
    uint8_t data[];
};

struct net_txmem {
    struct net_chunk *first, *last; /* the last one is being filled */
    struct net_chunk *looked;       /* where net_txmem_border() was last, or NULL */
    struct net_copy *copies;
};

/* True when there are that many unused chunks. */
bool net_chunks_stock(struct net_chunks *pool, uint32_t n);
void net_chunks_free(struct net_chunks *pool);

/* n contiguous octets, at most NET_CHUNK, behind what was committed; NULL without memory. */
uint8_t *net_txmem_reserve(struct net_txmem *m, struct net_chunks *pool, uint32_t n);

/* What is reserved next begins a chunk, which takes no memory that is not there already: else it may not. */
void net_txmem_turn_over(struct net_txmem *m, struct net_chunks *pool, uint32_t stock);

/* What was reserved last begins a chunk. */
static inline bool net_txmem_fresh(const struct net_txmem *m)
{
    return m->last->used == 0;
}

/* Of what is committed next, n octets, a piece begins at each multiple of unit, as its owner sees it. */
void net_txmem_mark(struct net_txmem *m, uint32_t n, uint32_t unit);

/* n of the octets reserved last are used, and are the stream's until offset end. */
const uint8_t *net_txmem_commit(struct net_txmem *m, uint32_t n, uint64_t end);

/* Of the pieces that were marked as beginning behind p, at most 'most' octets further and in the same
 * chunk, the last: octets from p, or 0 when there is none. Those less than NET_CHUNK_PART behind another
 * one may be forgotten. Never goes back to an earlier chunk. */
uint32_t net_txmem_border(struct net_txmem *m, const uint8_t *p, uint32_t most);

/* A copy that lives until that offset; NULL without memory. */
const uint8_t *net_txmem_copy(struct net_txmem *m, const void *p, uint32_t n, uint64_t until);

/* The stream is done with all before that offset. The last chunk goes only when nothing may follow in
 * it (idle): then an idle connection holds none. */
void net_txmem_release(struct net_txmem *m, struct net_chunks *pool, uint64_t done, bool idle);
void net_txmem_drop(struct net_txmem *m, struct net_chunks *pool);

/* Whether those len octets and the n from address 'from' on have some in common. */
static inline bool net_overlaps(const void *p, uint32_t len, uintptr_t from, uint64_t n)
{
    uintptr_t at = (uintptr_t)p;
    return at < from ? from - at < len : at - from < n;
}

#endif
