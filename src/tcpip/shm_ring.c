/* SPDX-License-Identifier: MIT */
#include "tcpip/shm_ring.h"

#include <errno.h>

/* lap << 48 | slot << 32 | length. Memory begins as zeros, laps with 1; the word that a lap
 * replaces is from the lap before, so 16 bits are plenty. */
static uint64_t word_of(uint32_t count, uint32_t slot, uint32_t len)
{
    return (uint64_t)(uint16_t)(count / SHM_SLOTS + 1) << 48 | (uint64_t)slot << 32 | len;
}

static bool in_lap(uint64_t word, uint32_t count)
{
    return (uint16_t)(word >> 48) == (uint16_t)(count / SHM_SLOTS + 1);
}

void shm_tx_init(struct shm_tx *tx, struct shm_way *way)
{
    *tx = (struct shm_tx){.way = way, .free_count = SHM_SLOTS};
    for (uint32_t i = 0; i < SHM_SLOTS; i++) {
        tx->free[i] = SHM_SLOTS - 1 - i;
    }
}

void shm_rx_init(struct shm_rx *rx, struct shm_way *way)
{
    *rx = (struct shm_rx){.way = way};
}

/* --- producer --- */

static int take_returned(struct shm_tx *tx)
{
    for (;;) {
        uint64_t word = atomic_load(&tx->way->returned[tx->returns % SHM_SLOTS]);
        if (!in_lap(word, tx->returns)) {
            return 0;
        }
        uint32_t slot = (uint32_t)(word >> 32) & 0xffff;
        if (slot >= SHM_SLOTS || (tx->away >> slot & 1) == 0) {
            return -EPROTO;
        }
        tx->returns++;
        tx->away &= ~((uint64_t)1 << slot);
        tx->free[tx->free_count++] = slot;
    }
}

int shm_tx_slot(struct shm_tx *tx, uint32_t *slot)
{
    int r = tx->free_count == 0 ? take_returned(tx) : 0;
    if (r != 0) {
        return r;
    }
    if (tx->free_count == 0) {
        return 0;
    }
    *slot = tx->free[tx->free_count - 1]; /* the one used last: it is in the caches */
    return 1;
}

int shm_tx_collect(struct shm_tx *tx)
{
    return take_returned(tx);
}

void shm_tx_post(struct shm_tx *tx, uint32_t slot, uint32_t len)
{
    tx->free_count--;
    tx->away |= (uint64_t)1 << slot;
    atomic_store_explicit(&tx->way->posted[tx->posts % SHM_SLOTS], word_of(tx->posts, slot, len),
                          memory_order_release);
    tx->posts++;
}

static bool room_waiting(const struct shm_tx *tx)
{
    return tx->free_count > 0 ||
           in_lap(atomic_load(&tx->way->returned[tx->returns % SHM_SLOTS]), tx->returns);
}

/* --- consumer --- */

bool shm_rx_waiting(const struct shm_rx *rx)
{
    return in_lap(atomic_load(&rx->way->posted[rx->posts % SHM_SLOTS]), rx->posts);
}

/* A spinning consumer would wait for the word of a frame and then again for its octets. The producer fills
 * what came back to it last, so those lines are asked for along with the word. */
static void expect_frame(const struct shm_rx *rx)
{
    for (uint32_t i = 0; i < SHM_RECENT; i++) {
        const uint8_t *d = rx->way->data[rx->recent[i]];
        for (uint32_t line = 0; line < SHM_HEAD; line += 64) {
            __builtin_prefetch(d + line);
        }
    }
}

int shm_rx_take(struct shm_rx *rx, uint32_t max, uint32_t *slot, uint32_t *len)
{
    uint64_t word = atomic_load(&rx->way->posted[rx->posts % SHM_SLOTS]);
    if (!in_lap(word, rx->posts)) {
        expect_frame(rx);
        return 0;
    }
    *slot = (uint32_t)(word >> 32) & 0xffff;
    *len = (uint32_t)word;
    if (*slot >= SHM_SLOTS || (rx->held >> *slot & 1) != 0 || *len < 14 || *len > max) {
        return -EPROTO;
    }
    rx->posts++;
    rx->held |= (uint64_t)1 << *slot;
    rx->held_count++;
    return 1;
}

void shm_rx_return(struct shm_rx *rx, uint32_t slot)
{
    rx->held &= ~((uint64_t)1 << slot);
    rx->held_count--;
    rx->recent[rx->returns % SHM_RECENT] = slot;
    atomic_store_explicit(&rx->way->returned[rx->returns % SHM_SLOTS],
                          word_of(rx->returns, slot, 0), memory_order_release);
    rx->returns++;
}

/* --- sleeping --- */

static bool take_wish(_Atomic uint32_t *wish)
{
    return atomic_load(wish) != 0 && atomic_exchange(wish, 0) != 0;
}

/* The fence orders the words with the other end's announcement: either it sees them when it looks again before
 * it sleeps, or this sees that it sleeps. A fence waits until all that was copied into slots is in the caches,
 * so there is one for many words, and other work comes before it. */
bool shm_signal_due(struct shm_rx *rx, struct shm_tx *tx)
{
    atomic_thread_fence(memory_order_seq_cst);
    bool wants_frames = take_wish(&tx->way->sleeping), wants_room = take_wish(&rx->way->blocked);
    return wants_frames || wants_room;
}

bool shm_sleep(struct shm_rx *rx, struct shm_tx *tx, bool want_room)
{
    atomic_store(&rx->way->sleeping, 1);
    if (want_room) {
        atomic_store(&tx->way->blocked, 1);
    }
    /* If so, the announcement stands: it may be that of another thread, too, which sleeps already. */
    return !shm_rx_waiting(rx) && !(want_room && room_waiting(tx));
}

void shm_awake(struct shm_rx *rx, struct shm_tx *tx)
{
    atomic_store_explicit(&rx->way->sleeping, 0, memory_order_relaxed);
    atomic_store_explicit(&tx->way->blocked, 0, memory_order_relaxed);
}
