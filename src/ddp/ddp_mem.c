/* SPDX-License-Identifier: MIT */
#include "ddp/ddp_mem.h"

enum { TAIL = 8 }; /* octets that are placed after all others */

/* Stands in the slots of removed regions. Its STag has index 0, which no region has, so that a
 * search passes it by without a test of its own. Read only, whatever the slots' type says. */
static const struct ddp_mem ddp_mem_gone = {.stag = 0};
#define GONE ((struct ddp_mem *)(uintptr_t)&ddp_mem_gone)

static uint32_t index_of(uint32_t stag)
{
    return stag >> 8;
}

void ddp_mem_table_init(struct ddp_mem_table *t, struct ddp_mem **slot, uint32_t slots,
                        uint32_t *recent, uint32_t recent_cap)
{
    *t = (struct ddp_mem_table){
        .slot = slot, .mask = slots - 1, .recent = recent, .recent_cap = recent_cap};
}

bool ddp_mem_full(const struct ddp_mem_table *t)
{
    return t->used > (t->mask + 1) / 2;
}

/* Indexes are random already (RFC 5042 sec 6.1.1), so their low bits are the hash. */
static void seat(struct ddp_mem_table *t, struct ddp_mem *m)
{
    uint32_t i = index_of(m->stag) & t->mask;
    while (t->slot[i] != NULL && t->slot[i] != GONE) {
        i = (i + 1) & t->mask;
    }
    t->used += t->slot[i] == NULL;
    t->live++;
    t->slot[i] = m;
}

void ddp_mem_rehash(struct ddp_mem_table *t, struct ddp_mem **slot, uint32_t slots)
{
    struct ddp_mem **old = t->slot;
    uint32_t old_slots = t->mask + 1;
    t->slot = slot;
    t->mask = slots - 1;
    t->used = 0;
    t->live = 0;
    for (uint32_t i = 0; i < old_slots; i++) {
        if (old[i] != NULL && old[i] != GONE) {
            seat(t, old[i]);
        }
    }
}

static bool lately_freed(const struct ddp_mem_table *t, uint32_t index)
{
    for (uint32_t i = 0; i < t->recent_cap; i++) {
        if (t->recent[i] == index) {
            return true;
        }
    }
    return false;
}

/* The slot of the region with that index whatever its key, or NULL. */
static struct ddp_mem **lookup(const struct ddp_mem_table *t, uint32_t index)
{
    uint32_t i = index & t->mask;
    for (uint32_t tries = 0; tries <= t->mask; tries++) {
        struct ddp_mem *m = t->slot[i];
        if (m == NULL) {
            return NULL;
        }
        if (index_of(m->stag) == index) {
            return &t->slot[i];
        }
        i = (i + 1) & t->mask;
    }
    return NULL;
}

bool ddp_mem_insert(struct ddp_mem_table *t, struct ddp_mem *m, uint32_t want)
{
    uint32_t index = index_of(want);
    if (index == 0 || t->live > t->mask || lookup(t, index) != NULL || lately_freed(t, index)) {
        return false;
    }
    m->stag = want;
    seat(t, m);
    return true;
}

void ddp_mem_remove(struct ddp_mem_table *t, struct ddp_mem *m)
{
    struct ddp_mem **at = lookup(t, index_of(m->stag));
    if (at == NULL || *at != m) {
        return;
    }
    *at = GONE;
    t->live--;
    /* A deleted mark is of use only while a search may have to go on behind it. */
    uint32_t i = (uint32_t)(at - t->slot);
    while (t->slot[(i + 1) & t->mask] == NULL && t->slot[i] == GONE) {
        t->slot[i] = NULL;
        t->used--;
        i = (i - 1) & t->mask;
    }
    if (t->recent_cap > 0) {
        t->recent[t->recent_pos] = index_of(m->stag);
        t->recent_pos = (t->recent_pos + 1) % t->recent_cap;
    }
}

struct ddp_mem *ddp_mem_find(const struct ddp_mem_table *t, uint32_t stag)
{
    if (index_of(stag) == 0) {
        return NULL;
    }
    struct ddp_mem **at = lookup(t, index_of(stag));
    return at != NULL && (*at)->stag == stag ? *at : NULL;
}

struct ddp_mem *ddp_mem_find_index(const struct ddp_mem_table *t, uint32_t stag)
{
    struct ddp_mem **at = index_of(stag) != 0 ? lookup(t, index_of(stag)) : NULL;
    return at != NULL ? *at : NULL;
}

static bool is_valid(const struct ddp_mem *m)
{
    return m->valid && (m->parent == NULL || m->parent->valid);
}

static bool reaches(const struct ddp_mem *m, uint32_t pd, uint32_t stream)
{
    return m->pd == pd && (m->stream == 0 || m->stream == stream);
}

/* The rights that peers have, among those. */
static uint32_t remote(uint32_t rights)
{
    return rights & (DDP_REMOTE_READ | DDP_REMOTE_WRITE | DDP_REMOTE_ATOMIC);
}

/* Whether only that stream uses the STag, as far as is known. */
static bool is_sole_user(const struct ddp_mem_table *t, const struct ddp_mem *m, uint32_t stream)
{
    if (m->user == 0 || m->user == stream) {
        return true;
    }
    return m->user != DDP_MEM_MANY && t->lives != NULL && !t->lives(t, m->user);
}

enum ddp_mem_fault ddp_mem_may_invalidate(const struct ddp_mem_table *t, const struct ddp_mem *m,
                                          uint32_t pd, uint32_t stream)
{
    if (m == NULL || !is_valid(m)) {
        return DDP_MEM_STAG;
    }
    if (!reaches(m, pd, stream)) {
        return DDP_MEM_STREAM;
    }
    return m->inv_ok && is_sole_user(t, m, stream) ? DDP_MEM_OK : DDP_MEM_RIGHT;
}

enum ddp_mem_fault ddp_mem_check(const struct ddp_mem_table *t, const struct ddp_access *want,
                                 struct mspan *out)
{
    struct ddp_mem *m = ddp_mem_find(t, want->stag);
    uint64_t to = want->to;
    uint32_t len = want->len;
    if (m == NULL || !is_valid(m)) {
        return DDP_MEM_STAG;
    }
    if (!reaches(m, want->pd, want->stream)) {
        return DDP_MEM_STREAM;
    }
    uint32_t given = m->rights | (m->parent == NULL ? DDP_LOCAL_READ : 0u);
    if ((want->rights & ~given) != 0) {
        return DDP_MEM_RIGHT;
    }
    /* The last octet is what must not wrap: a region may end at 2^64 exactly. */
    if (len > 0 && to > UINT64_MAX - (len - 1)) {
        return DDP_MEM_WRAP;
    }
    if (to < m->to || to - m->to > m->len || len > m->len - (to - m->to)) {
        return DDP_MEM_BOUNDS;
    }
    if (m->user != want->stream && m->user != DDP_MEM_MANY && remote(want->rights) != 0) {
        m->user = is_sole_user(t, m, want->stream) ? want->stream : DDP_MEM_MANY;
    }
    *out = (struct mspan){m->base + (to - m->to), len};
    return DDP_MEM_OK;
}

struct verdict ddp_mem_verdict_tagged(enum ddp_mem_fault f)
{
    switch (f) {
    case DDP_MEM_OK: return VERDICT_OK;
    case DDP_MEM_BOUNDS: return verdict_bad(LAYER_DDP, DDP_TAGGED, DDP_TAG_BOUNDS);
    case DDP_MEM_STREAM: return verdict_bad(LAYER_DDP, DDP_TAGGED, DDP_TAG_STREAM);
    case DDP_MEM_WRAP: return verdict_bad(LAYER_DDP, DDP_TAGGED, DDP_TAG_WRAP);
    case DDP_MEM_STAG:
    case DDP_MEM_RIGHT: /* DDP has no code for rights (RFC 5041 sec 7.2) */ break;
    }
    return verdict_bad(LAYER_DDP, DDP_TAGGED, DDP_TAG_STAG);
}

struct verdict ddp_mem_verdict_read(enum ddp_mem_fault f)
{
    switch (f) {
    case DDP_MEM_OK: return VERDICT_OK;
    case DDP_MEM_BOUNDS: return verdict_bad(LAYER_RDMAP, RDMAP_PROTECTION, RDMAP_PROT_BOUNDS);
    case DDP_MEM_RIGHT: return verdict_bad(LAYER_RDMAP, RDMAP_PROTECTION, RDMAP_PROT_ACCESS);
    case DDP_MEM_STREAM: return verdict_bad(LAYER_RDMAP, RDMAP_PROTECTION, RDMAP_PROT_STREAM);
    case DDP_MEM_WRAP: return verdict_bad(LAYER_RDMAP, RDMAP_PROTECTION, RDMAP_PROT_WRAP);
    case DDP_MEM_STAG: break;
    }
    return verdict_bad(LAYER_RDMAP, RDMAP_PROTECTION, RDMAP_PROT_STAG);
}

/* User memory has whatever type the program gave it. */
typedef uint64_t any_u64 __attribute__((may_alias));
typedef uint32_t any_u32 __attribute__((may_alias));

/* The octets that programs spin on, after everything stored before them; what is aligned like a
 * word is stored as one, so that a program that spins on a word never sees half of it. */
static void place_tail(uint8_t *d, const uint8_t *s, uint32_t n)
{
    while (n > 0) {
        uint32_t step = 1;
        if (n >= 8 && (uintptr_t)d % 8 == 0) {
            uint64_t v;
            step = 8;
            memcpy(&v, s, step);
            __atomic_store_n((any_u64 *)(void *)d, v, __ATOMIC_RELEASE);
        } else if (n >= 4 && (uintptr_t)d % 4 == 0) {
            uint32_t v;
            step = 4;
            memcpy(&v, s, step);
            __atomic_store_n((any_u32 *)(void *)d, v, __ATOMIC_RELEASE);
        } else {
            __atomic_store_n(d, *s, __ATOMIC_RELEASE);
        }
        d += step;
        s += step;
        n -= step;
    }
}

void ddp_mem_place(struct mspan dst, struct cursor src)
{
    uint32_t n = min_u32(dst.n, src.left);
    struct span run = cursor_run(&src, n);
    if (run.n == n && n > TAIL) { /* the common case: all in one piece */
        memcpy(dst.p, run.p, n - TAIL);
        place_tail(dst.p + n - TAIL, run.p + n - TAIL, TAIL);
        return;
    }
    uint32_t tail = min_u32(n, TAIL);
    uint8_t *d = dst.p;
    for (uint32_t body = n - tail; body > 0;) {
        struct span r = cursor_run(&src, body);
        memcpy(d, r.p, r.n);
        cursor_step(&src, r.n);
        d += r.n;
        body -= r.n;
    }
    uint8_t last[TAIL];
    if (cursor_take(&src, tail, last)) {
        place_tail(d, last, tail);
    }
}
