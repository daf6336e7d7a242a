/* SPDX-License-Identifier: MIT */
/* Two one-way rings of frame slots in memory that two processes share. The other process is not
 * trusted: each word it writes is read once and checked, and what is decided by it is kept in private
 * memory. */
#ifndef UIW_TCPIP_SHM_RING_H
#define UIW_TCPIP_SHM_RING_H

#include <stdalign.h>
#include <stdatomic.h>

#include "base/base.h"

enum {
    SHM_SLOTS = 64,
    SHM_SLOT = 66 * 1024,
    SHM_RECENT = 2, /* slots in which the next frame is expected */
    SHM_HEAD = 256, /* octets of it that are asked for early */
};

/* One direction. Slots go to the consumer through 'posted' and come back, in any order, through
 * 'returned'. A word counts when its lap is the reader's, so there are no indexes to agree on. */
struct shm_way {
    alignas(64) _Atomic uint32_t sleeping; /* the consumer wants a signal at the next post */
    alignas(64) _Atomic uint32_t blocked;  /* the producer wants one at the next return */
    alignas(64) _Atomic uint64_t posted[SHM_SLOTS];
    alignas(64) _Atomic uint64_t returned[SHM_SLOTS];
    alignas(4096) uint8_t data[SHM_SLOTS][SHM_SLOT];
};

struct shm_area {
    struct shm_way way[2]; /* to the end that connected, to the end that listened */
};

/* The producer's private side. */
struct shm_tx {
    struct shm_way *way;
    uint32_t posts, returns; /* words written and read so far */
    uint64_t away;           /* slots that the consumer has */
    uint32_t free[SHM_SLOTS];
    uint32_t free_count;
};

/* The consumer's. */
struct shm_rx {
    struct shm_way *way;
    uint32_t posts, returns;
    uint64_t held; /* slots not yet given back */
    uint32_t held_count;
    uint32_t recent[SHM_RECENT]; /* given back last */
};

void shm_tx_init(struct shm_tx *tx, struct shm_way *way);
void shm_rx_init(struct shm_rx *rx, struct shm_way *way);

/* A slot to write to: 1, and 0 when there is none now. -EPROTO: the consumer broke the rules. */
int shm_tx_slot(struct shm_tx *tx, uint32_t *slot);
/* Takes back what the consumer has returned. To be called when nobody waits, after a post: it may wait for
 * the consumer's caches. -EPROTO as above. */
int shm_tx_collect(struct shm_tx *tx);
/* Hands over the slot that shm_tx_slot() gave. shm_signal_due() has to follow. */
void shm_tx_post(struct shm_tx *tx, uint32_t slot, uint32_t len);

/* The next frame: 1 with slot and len (14 to max), 0: none, -EPROTO. */
int shm_rx_take(struct shm_rx *rx, uint32_t max, uint32_t *slot, uint32_t *len);
bool shm_rx_waiting(const struct shm_rx *rx);
/* Gives a slot back. shm_signal_due() has to follow. */
void shm_rx_return(struct shm_rx *rx, uint32_t slot);

/* Whether the other end sleeps and is to be signalled, after any number of posts and returns. */
bool shm_signal_due(struct shm_rx *rx, struct shm_tx *tx);

/* Announces sleep, for frames and, if so wanted, for room, until shm_awake(). False: there is something to do. */
bool shm_sleep(struct shm_rx *rx, struct shm_tx *tx, bool want_room);
void shm_awake(struct shm_rx *rx, struct shm_tx *tx);

#endif
