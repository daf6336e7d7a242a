/* SPDX-License-Identifier: MIT */
#include "tcpip/net_txmem.h"

#include <stdlib.h>

enum { CHUNKS_KEPT = 256 }; /* unused ones; more while more are in use */

/* --- unused chunks --- */

static struct net_chunk *chunk_alloc(struct net_chunks *pool)
{
    struct net_chunk *c = aligned_alloc(64, sizeof *c);
    pool->starved |= c == NULL;
    return c;
}

static struct net_chunk *chunk_new(struct net_chunks *pool)
{
    struct net_chunk *c = pool->first;
    if (c != NULL) {
        pool->first = c->next;
        pool->count--;
    } else {
        c = chunk_alloc(pool);
        if (c == NULL) {
            return NULL;
        }
    }
    c->next = NULL;
    c->end = 0;
    c->used = 0;
    c->parts = 0;
    pool->out++;
    return c;
}

static void keep(struct net_chunks *pool, struct net_chunk *c)
{
    c->next = pool->first;
    pool->first = c;
    pool->count++;
}

static void drop_one(struct net_chunks *pool)
{
    struct net_chunk *c = pool->first;
    pool->first = c->next;
    pool->count--;
    free(c);
}

/* Many streams take and return chunks all the time, and each that the system gets back costs page faults. When
 * they end, one more goes with each, so that few are left. */
static void chunk_free(struct net_chunks *pool, struct net_chunk *c)
{
    pool->out--;
    keep(pool, c);
    for (int i = 0; i < 2 && pool->count > max_u32(CHUNKS_KEPT, pool->out); i++) {
        drop_one(pool);
    }
}

bool net_chunks_stock(struct net_chunks *pool, uint32_t n)
{
    while (pool->count < n) {
        struct net_chunk *c = chunk_alloc(pool);
        if (c == NULL) {
            return false;
        }
        keep(pool, c);
    }
    return true;
}

void net_chunks_free(struct net_chunks *pool)
{
    while (pool->first != NULL) {
        drop_one(pool);
    }
}

/* --- chunks and copies of a stream --- */

static void pop_chunk(struct net_txmem *m, struct net_chunks *pool)
{
    struct net_chunk *c = m->first;
    m->first = c->next;
    m->looked = m->looked == c ? c->next : m->looked;
    if (m->first == NULL) {
        m->last = NULL;
    }
    chunk_free(pool, c);
}

static bool add_chunk(struct net_txmem *m, struct net_chunks *pool)
{
    struct net_chunk *c = chunk_new(pool);
    if (c == NULL) {
        return false;
    }
    if (m->last != NULL) {
        m->last->next = c;
    } else {
        m->first = c;
    }
    m->last = c;
    return true;
}

uint8_t *net_txmem_reserve(struct net_txmem *m, struct net_chunks *pool, uint32_t n)
{
    if ((m->last == NULL || NET_CHUNK - m->last->used < n) && !add_chunk(m, pool)) {
        return NULL;
    }
    return m->last->data + m->last->used;
}

void net_txmem_turn_over(struct net_txmem *m, struct net_chunks *pool, uint32_t stock)
{
    if (m->last != NULL && m->last->used > 0 && pool->count > stock) {
        add_chunk(m, pool);
    }
}

const uint8_t *net_txmem_commit(struct net_txmem *m, uint32_t n, uint64_t end)
{
    struct net_chunk *c = m->last;
    const uint8_t *p = c->data + c->used;
    c->used += n;
    c->end = end;
    return p;
}

static void mark(struct net_chunk *c, uint32_t at)
{
    uint32_t part = at / NET_CHUNK_PART;
    if (part < c->parts || at == 0) {
        return;
    }
    while (c->parts < part) {
        c->border[c->parts++] = 0;
    }
    c->border[c->parts++] = (uint16_t)at;
}

void net_txmem_mark(struct net_txmem *m, uint32_t n, uint32_t unit)
{
    struct net_chunk *c = m->last;
    for (uint32_t at = c->used; at < c->used + n; at += unit) {
        mark(c, at);
    }
}

uint32_t net_txmem_border(struct net_txmem *m, const uint8_t *p, uint32_t most)
{
    struct net_chunk *c = m->looked != NULL ? m->looked : m->first;
    while (c != NULL && (uintptr_t)p - (uintptr_t)c->data >= NET_CHUNK) {
        c = c->next;
    }
    if (c == NULL) {
        return 0; /* a copy */
    }
    m->looked = c;
    uint32_t from = (uint32_t)(p - c->data), to = min_u32(from + most, NET_CHUNK - 1);
    for (uint32_t i = min_u32(to / NET_CHUNK_PART + 1, c->parts); i > from / NET_CHUNK_PART; i--) {
        uint32_t at = c->border[i - 1];
        if (at > from && at <= to) {
            return at - from;
        }
    }
    return 0;
}

const uint8_t *net_txmem_copy(struct net_txmem *m, const void *p, uint32_t n, uint64_t until)
{
    struct net_copy *c = malloc(sizeof *c + n);
    if (c == NULL) {
        return NULL;
    }
    memcpy(c->data, p, n);
    c->until = until;
    c->next = m->copies;
    m->copies = c;
    return c->data;
}

static void release_copies(struct net_txmem *m, uint64_t done)
{
    struct net_copy **at = &m->copies;
    while (*at != NULL) {
        struct net_copy *c = *at;
        if (c->until <= done) {
            *at = c->next;
            free(c);
        } else {
            at = &c->next;
        }
    }
}

void net_txmem_release(struct net_txmem *m, struct net_chunks *pool, uint64_t done, bool idle)
{
    while (m->first != NULL && m->first->end <= done && (m->first != m->last || idle)) {
        pop_chunk(m, pool);
    }
    release_copies(m, done);
}

void net_txmem_drop(struct net_txmem *m, struct net_chunks *pool)
{
    release_copies(m, UINT64_MAX);
    while (m->first != NULL) {
        pop_chunk(m, pool);
    }
}
