/* SPDX-License-Identifier: MIT */
#include "rdmap/rdmap_atomic.h"

bool rdmap_atomic_known(unsigned op)
{
    return op == RDMAP_FETCH_ADD || op == RDMAP_CMP_SWAP;
}

/* Each set bit of the mask is the top bit of a field, and the carry out of it is lost. Without those
 * bits no carry can cross a field's end, and the top bits themselves are a sum without carry. */
static uint64_t add_fields(uint64_t a, uint64_t b, uint64_t tops)
{
    return ((a & ~tops) + (b & ~tops)) ^ ((a ^ b) & tops);
}

uint64_t rdmap_atomic_result(const struct rdmap_atomic_request *r, uint64_t original)
{
    if (r->op == RDMAP_FETCH_ADD) {
        return add_fields(original, r->data, r->mask);
    }
    if (((r->compare ^ original) & r->compare_mask) != 0) {
        return original;
    }
    return (original & ~r->mask) | (r->data & r->mask);
}

/* User memory has whatever type the program gave it. */
typedef uint64_t any_u64 __attribute__((may_alias));

uint64_t rdmap_atomic_execute(const struct rdmap_atomic_request *r, uint8_t *p)
{
    any_u64 *word = (any_u64 *)(void *)p;
    uint64_t original = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(word, &original, rdmap_atomic_result(r, original), true,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        /* original is what is there now */
    }
    return original;
}
