/* SPDX-License-Identifier: MIT */
/* The table of connections: found by addresses and ports, numbered as they appear, the one that was
 * silent longest given up when there are too many. */
#include <stdlib.h>

#include "base/random.h"

#include "dump.h"

struct key {
    uint8_t addr[DIRS][16];
    uint16_t port[DIRS];
};

static void key_of(const struct packet *pk, struct key *k)
{
    memset(k, 0, sizeof *k);
    uint32_t n = pk->v6 ? 16 : 4;
    memcpy(k->addr[0], pk->src, n);
    memcpy(k->addr[1], pk->dst, n);
    k->port[0] = pk->sport;
    k->port[1] = pk->dport;
}

/* The same for both directions. */
static uint64_t hash_of(const struct key *k)
{
    struct key ordered = *k;
    int order = memcmp(k->addr[0], k->addr[1], sizeof k->addr[0]);
    if (order > 0 || (order == 0 && k->port[0] > k->port[1])) {
        memcpy(ordered.addr[0], k->addr[1], sizeof k->addr[0]);
        memcpy(ordered.addr[1], k->addr[0], sizeof k->addr[0]);
        ordered.port[0] = k->port[1];
        ordered.port[1] = k->port[0];
    }
    return random_keyed_hash(&ordered, sizeof ordered);
}

/* The packet's direction in c, or DIRS when it is of another connection. */
static unsigned match(const struct conn *c, const struct packet *pk)
{
    uint32_t n = pk->v6 ? 16 : 4;
    if (c->v6 != pk->v6) {
        return DIRS;
    }
    for (unsigned d = 0; d < DIRS; d++) {
        if (c->port[d] == pk->sport && c->port[1 - d] == pk->dport &&
            memcmp(c->addr[d], pk->src, n) == 0 && memcmp(c->addr[1 - d], pk->dst, n) == 0) {
            return d;
        }
    }
    return DIRS;
}

static void unchain(struct dump *d, struct conn *c)
{
    struct conn **at = &d->table[c->hash & d->mask];
    while (*at != c) {
        at = &(*at)->chain;
    }
    *at = c->chain;
    list_remove(&c->lru);
    d->live--;
    if (d->last == c) {
        d->last = NULL;
    }
}

void flow_close(struct dump *d, struct conn *c)
{
    for (unsigned i = 0; i < DIRS; i++) {
        reasm_end(d, c, i);
        rdma_end(d, c, i);
    }
    c->closed = true;
    unchain(d, c);
    for (unsigned i = 0; i < DIRS; i++) {
        dump_update_hold(d, &c->h[i], true);
        stream_free(d, &c->h[i].s);
    }
    events_close(d, c);
    events_drain(d);
}

void flow_free(struct dump *d, struct conn *c)
{
    (void)d;
    for (unsigned i = 0; i < DIRS; i++) {
        stats_free(&c->h[i].st);
        rdma_free(c->h[i].x);
    }
    conn_stats_free(c->stats);
    free(c->agreed);
    free(c);
}

/* Who is the client: the sender of the SYN; without one the end with the higher port. */
static bool from_server(const struct packet *pk)
{
    if ((pk->flags & TCP_SYN) != 0) {
        return (pk->flags & TCP_ACK) != 0;
    }
    return pk->sport < pk->dport;
}

static struct conn *add(struct dump *d, const struct packet *pk, const struct key *k, uint64_t hash)
{
    if (d->live == CONNS_MAX) {
        d->evicted++;
        flow_close(d, CONTAINER_OF(d->lru.next, struct conn, lru));
    }
    struct conn *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    c->v6 = pk->v6;
    c->hash = hash;
    c->id = d->conns++;
    c->first_ns = c->last_ns = d->now.ns;
    c->first_frame = d->now.num;
    unsigned client = from_server(pk) ? 1 : 0;
    for (unsigned i = 0; i < DIRS; i++) {
        memcpy(c->addr[i], k->addr[i ^ client], sizeof c->addr[i]);
        c->port[i] = k->port[i ^ client];
    }
    c->chain = d->table[hash & d->mask];
    d->table[hash & d->mask] = c;
    d->live++;
    list_append(&d->lru, &c->lru);
    return c;
}

/* Whether the SYN begins another connection between the same ports. */
static bool is_new_life(const struct conn *c, const struct packet *pk, unsigned dir)
{
    const struct reasm *r = &c->h[dir].r;
    bool syn = (pk->flags & TCP_SYN) != 0 && (pk->flags & TCP_ACK) == 0;
    return syn && r->started && (!r->syn || r->isn != pk->seq);
}

static struct conn *look(struct dump *d, const struct packet *pk, uint64_t hash, unsigned *dir)
{
    for (struct conn *c = d->table[hash & d->mask]; c != NULL; c = c->chain) {
        if (c->hash == hash && (*dir = match(c, pk)) < DIRS) {
            return c;
        }
    }
    return NULL;
}

struct conn *flow_find(struct dump *d, const struct packet *pk, unsigned *dir)
{
    struct conn *c = d->last;
    if (c == NULL || (*dir = match(c, pk)) == DIRS) {
        struct key k;
        key_of(pk, &k);
        c = look(d, pk, hash_of(&k), dir);
        if (c != NULL) { /* to the young end */
            list_remove(&c->lru);
            list_append(&d->lru, &c->lru);
        }
    }
    if (c != NULL && is_new_life(c, pk, *dir)) {
        flow_close(d, c);
        c = NULL;
    }
    if (c == NULL) {
        struct key k;
        key_of(pk, &k);
        c = add(d, pk, &k, hash_of(&k));
        if (c == NULL) {
            return NULL;
        }
        *dir = match(c, pk);
    }
    d->last = c;
    return c;
}
