/* SPDX-License-Identifier: MIT */
/* A TCP sender's scoreboard (RFC 2018 sec 5): what was sent and not acknowledged, as runs of
 * sequence numbers that share a fate, and what was lost of it by the order of time (RFC 8985).
 * Pure: sequence numbers and microseconds go in, octets and ranges come out. */
#ifndef UIW_TCPIP_TCP_SACK_H
#define UIW_TCPIP_TCP_SACK_H

#include "base/base.h"

enum {
    SACK_BLOCKS = 4,      /* that fit an option */
    SACK_RUNS_MAX = 1024, /* of one board; beyond that it knows less, but nothing wrong */
    /* What one call takes from the pool at most: a block splits a run at both ends. */
    SACK_POOL_LEAST = 2 * SACK_BLOCKS,
};

struct sack_run {
    struct sack_run *next;
    uint64_t sent; /* when last, us */
    uint32_t from, to;
    uint32_t order; /* of the last transmission; those of one order went by sequence number */
    bool sacked;    /* the peer has it */
    bool lost;      /* not on its way any more, and not sent again yet */
    bool again;     /* was sent more than once */
};

/* Unused runs, for all boards of one owner. */
struct sack_pool {
    struct sack_run *first;
    uint32_t count;
};

struct sack_block {
    uint32_t from, to;
};

/* What a segment acknowledges; the blocks in the order of the option. */
struct sack_ack {
    uint32_t ack, n;
    struct sack_block block[SACK_BLOCKS];
};

struct sack_board {
    struct sack_pool *pool;
    struct sack_run *first, *last; /* from una to nxt without gaps */
    struct sack_run spare;         /* for the first when the pool is empty */
    uint32_t count;
    uint32_t una, nxt;
    uint32_t sacked, lost; /* octets */
    uint32_t fack;         /* behind the highest octet that was delivered */
    uint32_t fack_before;  /* the last acknowledgement */
    uint32_t min_rtt;      /* us, kept by the owner; 0: unknown */
    uint32_t order;        /* of the last transmission, and when and up to where that was */
    uint32_t order_to;
    uint64_t order_at;
    /* Of what was delivered, what had been sent last (RFC 8985 sec 6.2 step 2). */
    uint32_t rack_order, rack_end, rack_rtt;
    bool rack_valid;
    bool reordered; /* the path has been seen to change the order */
};

/* What an acknowledgement brought; adds up over several. */
struct sack_news {
    uint32_t acked;     /* octets below una now */
    uint32_t delivered; /* octets that are known to have arrived, by either way */
    uint32_t repaired;  /* of those, octets that had been sent again */
    uint32_t rtt;       /* us; 0: no sample */
    uint32_t twice;     /* octets that the peer got twice: it says so (RFC 2883), or answers to a
                         * retransmission sooner than it can have got that */
    bool unlost;        /* octets that were taken for lost, and not sent again, have arrived */
    bool reneged;       /* the peer has thrown away what it had reported */
};

void sack_pool_add(struct sack_pool *pool, struct sack_run *runs, uint32_t n);

/* The pool must outlive the board, and the board must stay where it is. Octets from 'at' on will be sent. */
void sack_init(struct sack_board *b, struct sack_pool *pool, uint32_t at);
void sack_clear(struct sack_board *b); /* returns all runs to the pool */

/* Octets up to 'to' were sent for the first time. What is sent within 'grain' us of the octets
 * before may be noted as sent with them. */
void sack_sent(struct sack_board *b, uint32_t to, uint64_t now, uint32_t grain);

/* An acknowledgement. Anything the peer makes up is harmless: an 'ack' outside of [una, nxt] and blocks
 * outside of (una, nxt] do not count. */
void sack_acked(struct sack_board *b, const struct sack_ack *ack, uint64_t now,
                struct sack_news *news);

/* Marks as lost what was sent 'window' us before something that has arrived (RFC 8985 sec 6.2
 * step 5). Returns the octets newly lost; *wait: us until another look is worthwhile, 0: never. */
uint32_t sack_find_lost(struct sack_board *b, uint64_t now, uint32_t window, uint32_t *wait);

/* The timer ran out: the first octets are lost, and all that was sent before 'until'. */
void sack_lose(struct sack_board *b, uint64_t until);

/* Takes back what was marked as lost and not sent again. */
void sack_unlose(struct sack_board *b);

/* The first range to be sent again, at most 'most' octets of it. */
bool sack_next_lost(const struct sack_board *b, uint32_t most, struct sack_block *out);

/* That range, all of it inside of [una, nxt], was sent again. */
void sack_resent(struct sack_board *b, uint32_t from, uint32_t to, uint64_t now);

static inline bool seq_lt(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

static inline bool seq_leq(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) <= 0;
}

/* Octets on their way. */
static inline uint32_t sack_pipe(const struct sack_board *b)
{
    return b->nxt - b->una - b->sacked - b->lost;
}

#endif
