/* SPDX-License-Identifier: MIT */
/* Terminates. The input: how long the whole message is (2), how it is cut (4), then its octets. Taken apart
 * in one piece, cut, and as the beginning of a longer message; what it says is built again. */
#include "fuzz.h"
#include "rdmap/rdmap_term.h"

enum { OCTETS = 300 };

static void check(const struct rdmap_term *t)
{
    FUZZ_MUST(t->v.bad && t->v.layer <= 0xf && t->v.type <= 0xf);
    FUZZ_MUST(t->ddp_len == 0 || t->ddp_len == DDP_TAGGED_LEN || t->ddp_len == DDP_UNTAGGED_LEN);
    FUZZ_MUST(t->ddp_len == 0 || t->d);
    FUZZ_MUST(!t->has_read || (t->r && t->ddp_len > 0));
    FUZZ_MUST(t->seg_len == 0 || t->m);
    FUZZ_MUST(verdict_text(t->v) != NULL);
}

static bool same(const struct rdmap_term *a, const struct rdmap_term *b)
{
    return a->v.layer == b->v.layer && a->v.type == b->v.type && a->v.code == b->v.code &&
           a->m == b->m && a->d == b->d && a->r == b->r && a->host_order == b->host_order &&
           a->seg_len == b->seg_len && a->ddp_len == b->ddp_len && a->has_read == b->has_read &&
           memcmp(a->ddp, b->ddp, sizeof a->ddp) == 0 &&
           memcmp(a->read, b->read, sizeof a->read) == 0;
}

static bool unpack(struct span o, uint32_t total, uint32_t seed, struct rdmap_term *t)
{
    struct fuzz_pieces pieces;
    fuzz_cut(&pieces, o.p, o.n, seed);
    struct cursor c = cursor_of(pieces.v, pieces.cnt);
    bool ok = total == o.n ? rdmap_term_unpack(c, t) : rdmap_term_unpack_part(c, total, t);
    fuzz_pieces_free(&pieces);
    FUZZ_MUST(ok == (o.n >= 4));
    check(t);
    return ok;
}

/* What we would send with that verdict and those headers is understood as it was meant. */
static void again(const struct rdmap_term *t)
{
    struct rdmap_cause cause = {
        .ddp_len = t->ddp_len, .seg_len = t->seg_len, .has_read = t->has_read};
    uint8_t out[RDMAP_TERM_MAX];
    struct rdmap_term got;
    memcpy(cause.ddp, t->ddp, sizeof cause.ddp);
    memcpy(cause.read, t->read, sizeof cause.read);
    uint32_t n = rdmap_term_pack(t->v, &cause, out);
    FUZZ_MUST(n >= 4 && n <= RDMAP_TERM_MAX);
    if (!verdict_is(t->v, t->v.layer & 3, t->v.type & 7, t->v.code)) {
        return; /* no verdict of ours */
    }
    FUZZ_MUST(unpack((struct span){out, n}, n, 0, &got));
    if (got.host_order) {
        return; /* undefined in the RFC's order, defined in the other */
    }
    FUZZ_MUST(got.v.layer == t->v.layer && got.v.type == t->v.type && got.v.code == t->v.code);
    if (got.d) {
        FUZZ_MUST(got.seg_len == t->seg_len && got.ddp_len == t->ddp_len);
        FUZZ_MUST(memcmp(got.ddp, t->ddp, t->ddp_len) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = {data, size};
    uint32_t longer = fuzz_u16(&f), seed = fuzz_u32(&f);
    struct span o = fuzz_octets(&f, OCTETS);
    struct rdmap_term whole, cut, part, part_cut;
    bool ok = unpack(o, o.n, 0, &whole);
    unpack(o, o.n, seed | 1, &cut);
    FUZZ_MUST(same(&whole, &cut));
    unpack(o, o.n + longer, 0, &part);
    unpack(o, o.n + longer, seed | 1, &part_cut);
    FUZZ_MUST(same(&part, &part_cut));
    if (ok) {
        again(&whole);
    }
    return 0;
}
