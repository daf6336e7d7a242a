/* SPDX-License-Identifier: MIT */
/* The rings of shared memory against another process that writes what it likes. The input is a list of
 * steps, of the peer and of ours, each an octet and what belongs to it. Whatever stands in the shared words,
 * we use no slot twice, none that is not there, and no length that is not a frame's. */
#include <errno.h>

#include "fuzz.h"
#include "tcpip/shm_ring.h"

enum { MAX_FRAME = 65535 + 14 };

/* As much of the area as the rings' words need; the frames' octets are the link's business. */
static union {
    struct shm_way way;
    uint8_t octets[offsetof(struct shm_way, data)];
} * in, *out;

struct state {
    struct shm_rx rx;
    struct shm_tx tx;
    uint64_t held, away; /* as we know it */
    bool lost;           /* the peer broke the rules */
};

/* --- the peer's steps --- */

static uint64_t word(struct fuzz *f, uint32_t count)
{
    unsigned how = fuzz_u8(f);
    uint64_t lap = count / SHM_SLOTS + 1;
    uint32_t slot = fuzz_u8(f), len = fuzz_u16(f);
    switch (how % 4) {
    case 0: return fuzz_u64(f);
    case 1: return (uint16_t)(lap + fuzz_u8(f)) * (UINT64_C(1) << 48) | (uint64_t)slot << 32 | len;
    case 2: return lap << 48 | (uint64_t)slot << 32 | fuzz_u32(f);
    default: return lap << 48 | (uint64_t)(slot % SHM_SLOTS) << 32 | len;
    }
}

static void peer(struct state *s, unsigned op, struct fuzz *f)
{
    unsigned ahead = fuzz_u8(f) % 4;
    switch (op % 4) {
    case 0:
        atomic_store(&in->way.posted[(s->rx.posts + ahead) % SHM_SLOTS], word(f, s->rx.posts));
        break;
    case 1:
        atomic_store(&out->way.returned[(s->tx.returns + ahead) % SHM_SLOTS],
                     word(f, s->tx.returns));
        break;
    case 2: atomic_store(&in->way.posted[fuzz_u8(f) % SHM_SLOTS], fuzz_u64(f)); break;
    default: atomic_store(ahead % 2 ? &in->way.blocked : &out->way.sleeping, fuzz_u8(f)); break;
    }
}

/* --- ours --- */

static void take(struct state *s)
{
    uint32_t slot = 0, len = 0;
    int r = shm_rx_take(&s->rx, MAX_FRAME, &slot, &len);
    FUZZ_MUST(r == 1 || r == 0 || r == -EPROTO);
    s->lost |= r < 0;
    if (r == 1) {
        FUZZ_MUST(slot < SHM_SLOTS && len >= 14 && len <= MAX_FRAME);
        FUZZ_MUST((s->held >> slot & 1) == 0);
        s->held |= UINT64_C(1) << slot;
    }
}

static void give_back(struct state *s, unsigned which)
{
    for (unsigned i = 0; i < SHM_SLOTS; i++) {
        unsigned slot = (which + i) % SHM_SLOTS;
        if ((s->held >> slot & 1) != 0) {
            shm_rx_return(&s->rx, slot);
            s->held &= ~(UINT64_C(1) << slot);
            return;
        }
    }
}

static void post(struct state *s, unsigned len)
{
    uint32_t slot = SHM_SLOTS;
    int r = shm_tx_slot(&s->tx, &slot);
    FUZZ_MUST(r == 1 || r == 0 || r == -EPROTO);
    s->lost |= r < 0;
    if (r == 1) {
        FUZZ_MUST(slot < SHM_SLOTS && (s->tx.away >> slot & 1) == 0);
        shm_tx_post(&s->tx, slot, 14 + len);
        FUZZ_MUST((s->tx.away >> slot & 1) == 1);
    }
}

static void collect(struct state *s)
{
    int r = shm_tx_collect(&s->tx);
    FUZZ_MUST(r == 0 || r == -EPROTO);
    s->lost |= r < 0;
}

/* Who announced sleep hears of what comes; who did not sleep has something to do. */
static void doze(struct state *s, bool want_room)
{
    bool waiting = shm_rx_waiting(&s->rx);
    bool sleeps = shm_sleep(&s->rx, &s->tx, want_room);
    FUZZ_MUST(!sleeps || !waiting);
    shm_awake(&s->rx, &s->tx);
}

static void ours(struct state *s, unsigned op, struct fuzz *f)
{
    unsigned which = fuzz_u8(f);
    switch (op % 5) {
    case 0: take(s); break;
    case 1: give_back(s, which); break;
    case 2: post(s, which); break;
    case 3: collect(s); break;
    default: doze(s, which & 1); break;
    }
}

static void check(const struct state *s)
{
    uint64_t seen = 0;
    FUZZ_MUST(s->rx.held == s->held);
    FUZZ_MUST(s->rx.held_count == (uint32_t)__builtin_popcountll(s->held));
    FUZZ_MUST(s->tx.free_count <= SHM_SLOTS);
    for (uint32_t i = 0; i < s->tx.free_count; i++) {
        FUZZ_MUST(s->tx.free[i] < SHM_SLOTS);
        seen |= UINT64_C(1) << s->tx.free[i];
    }
    /* Each slot is free or away, and nothing is both or neither. */
    FUZZ_MUST((seen & s->tx.away) == 0 && (seen | s->tx.away) == UINT64_MAX);
    FUZZ_MUST((uint32_t)__builtin_popcountll(seen) == s->tx.free_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = {data, size};
    struct state s = {.lost = false};
    if (in == NULL) {
        in = aligned_alloc(4096, sizeof *in);
        out = aligned_alloc(4096, sizeof *out);
    }
    memset(in, 0, sizeof in->octets);
    memset(out, 0, sizeof out->octets);
    shm_rx_init(&s.rx, &in->way);
    shm_tx_init(&s.tx, &out->way);
    while (f.n > 0 && !s.lost) { /* the link parts from a peer that broke the rules */
        unsigned op = fuzz_u8(&f);
        if (op % 2 == 0) {
            peer(&s, op / 2, &f);
        } else {
            ours(&s, op / 2, &f);
        }
        check(&s);
    }
    return 0;
}
