/* SPDX-License-Identifier: MIT */
#include "tcpip/tcp_sack.h"

/* --- runs --- */

void sack_pool_add(struct sack_pool *pool, struct sack_run *runs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        runs[i].next = pool->first;
        pool->first = &runs[i];
    }
    pool->count += n;
}

static struct sack_run *run_new(struct sack_board *b)
{
    struct sack_run *r = b->pool->first;
    if (r == NULL || b->count >= SACK_RUNS_MAX) {
        return NULL;
    }
    b->pool->first = r->next;
    b->pool->count--;
    b->count++;
    return r;
}

static void run_free(struct sack_board *b, struct sack_run *r)
{
    b->count--;
    if (r != &b->spare) {
        sack_pool_add(b->pool, r, 1);
    }
}

static uint32_t run_len(const struct sack_run *r)
{
    return r->to - r->from;
}

static void drop_first(struct sack_board *b)
{
    struct sack_run *r = b->first;
    b->first = r->next;
    if (b->first == NULL) {
        b->last = NULL;
    }
    run_free(b, r);
}

void sack_init(struct sack_board *b, struct sack_pool *pool, uint32_t at)
{
    *b = (struct sack_board){.pool = pool, .una = at, .nxt = at, .fack = at};
}

void sack_clear(struct sack_board *b)
{
    while (b->first != NULL) {
        drop_first(b);
    }
    b->una = b->nxt;
    b->sacked = b->lost = 0;
}

/* Cuts r at 'at', which lies inside of it; the rest follows it. */
static bool split(struct sack_board *b, struct sack_run *r, uint32_t at)
{
    struct sack_run *rest = run_new(b);
    if (rest == NULL) {
        return false;
    }
    *rest = *r;
    rest->from = at;
    r->to = at;
    r->next = rest;
    if (b->last == r) {
        b->last = rest;
    }
    return true;
}

static bool alike(const struct sack_run *a, const struct sack_run *b)
{
    if (a->sacked || b->sacked) {
        return a->sacked && b->sacked;
    }
    return a->lost == b->lost && a->again == b->again && a->order == b->order;
}

/* Joins neighbours that have become alike. */
static void join(struct sack_board *b)
{
    struct sack_run *r = b->first;
    while (r != NULL && r->next != NULL) {
        struct sack_run *next = r->next;
        if (!alike(r, next)) {
            r = next;
            continue;
        }
        r->to = next->to;
        r->again |= next->again;
        if ((int32_t)(next->order - r->order) > 0) {
            r->order = next->order;
            r->sent = next->sent;
        }
        r->next = next->next;
        if (b->last == next) {
            b->last = r;
        }
        run_free(b, next);
    }
}

/* Times may be equal, so they alone would not tell what went first. */
static uint32_t order_of(struct sack_board *b, uint32_t from, uint32_t to, uint64_t now)
{
    if (now != b->order_at || seq_lt(from, b->order_to)) {
        b->order++;
        b->order_at = now;
    }
    b->order_to = to;
    return b->order;
}

void sack_sent(struct sack_board *b, uint32_t to, uint64_t now, uint32_t grain)
{
    if (!seq_lt(b->nxt, to)) {
        return;
    }
    struct sack_run *last = b->last;
    bool fresh =
        last != NULL && !last->sacked && !last->lost && !last->again && last->order == b->order;
    struct sack_run *r = fresh && now - last->sent <= grain ? NULL : run_new(b);
    if (r == NULL && last == NULL) {
        b->count++;
        r = &b->spare;
    }
    if (r != NULL) {
        *r = (struct sack_run){.from = b->nxt, .to = to, .sent = now};
        r->order = order_of(b, b->nxt, to, now);
        *(last != NULL ? &last->next : &b->first) = r;
        b->last = r;
    } else {
        /* Without a run of their own these octets join those before, which then count as not there
         * at the worst. */
        b->sacked -= last->sacked ? run_len(last) : 0;
        b->lost += last->lost ? to - b->nxt : 0;
        last->sacked = false;
        last->to = to;
        b->order_to = to;
    }
    b->nxt = to;
}

/* --- acknowledgements --- */

/* Octets of r up to 'to' have arrived. */
static void deliver(struct sack_board *b, const struct sack_run *r, uint32_t to,
                    struct sack_news *news, uint64_t now)
{
    uint32_t rtt = now > r->sent ? (uint32_t)min_u64(now - r->sent, UINT32_MAX) : 1;
    news->delivered += to - r->from;
    news->unlost |= r->lost && !r->again;
    if (r->again) {
        news->repaired += to - r->from;
        if (rtt < b->min_rtt) {
            news->twice += to - r->from; /* will get, that is */
            return;
        }
    } else {
        news->rtt = rtt;
        b->reordered |= seq_lt(to, b->fack_before);
    }
    if (seq_lt(b->fack, to)) {
        b->fack = to;
    }
    int32_t newer = (int32_t)(r->order - b->rack_order);
    if (!b->rack_valid || newer > 0 || (newer == 0 && seq_lt(b->rack_end, to))) {
        b->rack_valid = true;
        b->rack_order = r->order;
        b->rack_end = to;
        b->rack_rtt = rtt;
    }
}

static void advance(struct sack_board *b, uint32_t ack, uint64_t now, struct sack_news *news)
{
    while (b->first != NULL && seq_lt(b->first->from, ack)) {
        struct sack_run *r = b->first;
        uint32_t to = seq_lt(ack, r->to) ? ack : r->to;
        if (r->sacked) {
            b->sacked -= to - r->from;
        } else {
            deliver(b, r, to, news, now);
            b->lost -= r->lost ? to - r->from : 0;
        }
        r->from = to;
        if (run_len(r) == 0) {
            drop_first(b);
        }
    }
    news->acked += ack - b->una;
    b->una = ack;
    if (seq_lt(b->fack, ack)) {
        b->fack = ack;
    }
}

/* Marks what the block covers; without a run for the rest of a split one it is as if not reported. */
static void mark(struct sack_board *b, const struct sack_block *k, uint64_t now,
                 struct sack_news *news)
{
    for (struct sack_run *r = b->first; r != NULL && seq_lt(r->from, k->to); r = r->next) {
        if (r->sacked || seq_leq(r->to, k->from)) {
            continue;
        }
        if (seq_lt(r->from, k->from)) {
            split(b, r, k->from);
            continue;
        }
        if (seq_lt(k->to, r->to) && !split(b, r, k->to)) {
            return;
        }
        deliver(b, r, r->to, news, now);
        b->lost -= r->lost ? run_len(r) : 0;
        r->lost = false;
        r->sacked = true;
        b->sacked += run_len(r);
    }
}

/* RFC 2883 sec 4: the first block is below the acknowledgement or inside of the second. */
static bool is_dsack(const struct sack_board *b, const struct sack_ack *a)
{
    const struct sack_block *k = a->block;
    bool below = seq_leq(k[0].to, a->ack) && b->una - k[0].from < 0x40000000;
    return below || (a->n > 1 && seq_leq(k[1].from, k[0].from) && seq_leq(k[0].to, k[1].to));
}

/* RFC 2018 sec 8: what was reported may be thrown away, and it was if the peer asks for it. */
static void renege(struct sack_board *b, struct sack_news *news)
{
    for (struct sack_run *r = b->first; r != NULL; r = r->next) {
        r->sacked = false;
    }
    b->sacked = 0;
    news->reneged = true;
}

static bool take_block(struct sack_board *b, const struct sack_ack *a, uint32_t i, uint64_t now,
                       struct sack_news *news)
{
    const struct sack_block *k = &a->block[i];
    if (!seq_lt(k->from, k->to)) {
        return false;
    }
    if (i == 0 && is_dsack(b, a)) {
        news->twice += k->to - k->from;
        return false;
    }
    if (!seq_lt(b->una, k->from) || !seq_leq(k->to, b->nxt)) {
        return false;
    }
    mark(b, k, now, news);
    return true;
}

void sack_acked(struct sack_board *b, const struct sack_ack *a, uint64_t now,
                struct sack_news *news)
{
    b->fack_before = b->fack; /* one acknowledgement tells nothing of the order within it */
    if (seq_lt(b->una, a->ack) && seq_leq(a->ack, b->nxt)) {
        advance(b, a->ack, now, news);
    }
    bool marked = false;
    for (uint32_t i = 0; i < a->n; i++) {
        marked |= take_block(b, a, i, now, news);
    }
    if (b->first != NULL && b->first->sacked) {
        renege(b, news);
        marked = true;
    }
    if (marked) {
        join(b);
    }
}

/* --- losses --- */

static uint32_t lose(struct sack_board *b, struct sack_run *r)
{
    r->lost = true;
    b->lost += run_len(r);
    return run_len(r);
}

uint32_t sack_find_lost(struct sack_board *b, uint64_t now, uint32_t window, uint32_t *wait)
{
    uint32_t found = 0;
    *wait = 0;
    if (!b->rack_valid) {
        return 0;
    }
    for (struct sack_run *r = b->first; r != NULL; r = r->next) {
        int32_t newer = (int32_t)(r->order - b->rack_order);
        bool before = newer < 0 || (newer == 0 && seq_lt(r->to, b->rack_end));
        if (r->sacked || r->lost || !before) {
            continue;
        }
        uint64_t due = r->sent + b->rack_rtt + window;
        if (due <= now) {
            found += lose(b, r);
        } else {
            *wait = max_u32(*wait, (uint32_t)min_u64(due - now, UINT32_MAX));
        }
    }
    if (found > 0) {
        join(b);
    }
    return found;
}

void sack_lose(struct sack_board *b, uint64_t until)
{
    for (struct sack_run *r = b->first; r != NULL; r = r->next) {
        if (!r->sacked && !r->lost && (r == b->first || r->sent < until)) {
            lose(b, r);
        }
    }
    join(b);
}

void sack_unlose(struct sack_board *b)
{
    for (struct sack_run *r = b->first; r != NULL; r = r->next) {
        r->lost = false;
    }
    b->lost = 0;
    join(b);
}

bool sack_next_lost(const struct sack_board *b, uint32_t most, struct sack_block *out)
{
    if (b->lost == 0) {
        return false;
    }
    const struct sack_run *r = b->first;
    while (r != NULL && !r->lost) {
        r = r->next;
    }
    if (r == NULL) {
        return false;
    }
    *out = (struct sack_block){r->from, r->from + min_u32(run_len(r), most)};
    return true;
}

void sack_resent(struct sack_board *b, uint32_t from, uint32_t to, uint64_t now)
{
    uint32_t order = order_of(b, from, to, now);
    for (struct sack_run *r = b->first; r != NULL && seq_lt(r->from, to); r = r->next) {
        if (r->sacked || seq_leq(r->to, from)) {
            continue;
        }
        if (seq_lt(r->from, from) && split(b, r, from)) {
            continue;
        }
        /* Without a run for the rest, the rest counts as sent as well: it will be found missing. */
        if (seq_lt(to, r->to)) {
            split(b, r, to);
        }
        b->lost -= r->lost ? run_len(r) : 0;
        r->lost = false;
        r->again = true;
        r->sent = now;
        r->order = order;
    }
}
