/* SPDX-License-Identifier: MIT */
/* FPDUs out of a stream. The input: flags, the stream's position (4), how it is cut (4), then
 *   octets of the stream as they are, or
 *   FPDUs to be built: number, then length (2) of each ULPDU; then edits: offset (4) and what is turned over.
 * The stream comes in one piece and again cut and piece by piece: both must see the same FPDUs. */
#include "fuzz.h"
#include "mpa/mpa_rx.h"
#include "mpa/mpa_tx.h"

enum {
    MARKERS = 1,
    CRC = 2,
    BUILT = 4, /* the rest says what to build */
    ROOM = 300000,
    EVENTS = 20000,
    ULPDUS = 40,
};

struct event {
    enum mpa_rx_result result;
    struct verdict why;
    uint32_t len, used, markers, crc_wire;
    uint64_t sum; /* of the ULPDU */
};

struct log {
    struct event e[EVENTS];
    uint32_t cnt;
};

static uint8_t stream[ROOM];
static uint32_t stream_n;
static struct event want[ULPDUS]; /* of the FPDUs that were built and not edited */
static uint32_t want_cnt;

/* --- building --- */

static void build_one(struct mpa_tx *tx, uint32_t len)
{
    static uint8_t payload[MPA_MULPDU_MAX];
    struct span s = {payload, len};
    struct cursor c = cursor_of(&s, 1);
    struct event *e = &want[want_cnt];
    uint8_t hdr[18];
    uint32_t hlen = min_u32(len, sizeof hdr);
    for (uint32_t i = 0; i < len; i++) {
        payload[i] = (uint8_t)(i * 7 + len + tx->pos);
    }
    memcpy(hdr, payload, hlen);
    cursor_skip(&c, hlen);
    uint32_t size = mpa_tx_size(tx, len);
    if (size > ROOM - stream_n || want_cnt == ULPDUS) {
        return;
    }
    struct mpa_out u = {.hdr = hdr, .hlen = hlen, .payload = &c, .plen = len - hlen};
    *e = (struct event){.result = MPA_RX_ULPDU, .len = len, .used = size};
    e->markers = (size - MPA_LEN_FIELD - len - (2 - len) % 4 - MPA_CRC_LEN) / MPA_MARKER_LEN;
    fuzz_sum(&e->sum, payload, len);
    FUZZ_MUST(mpa_tx_copy(tx, &u, stream + stream_n) == size);
    stream_n += size;
    want_cnt++;
}

static void build(struct fuzz *f, const struct mpa_rx *as)
{
    struct mpa_tx tx = {.markers = as->markers, .crc = as->crc, .pos = as->pos};
    for (unsigned n = fuzz_u8(f) % ULPDUS; n > 0; n--) {
        uint32_t len = fuzz_u16(f);
        build_one(&tx, len <= MPA_MULPDU_MAX ? len : len & 0xff);
    }
    while (f->n > 0 && stream_n > 0) {
        uint32_t at = fuzz_u32(f) % stream_n;
        stream[at] ^= fuzz_u8(f);
        want_cnt = 0;
    }
}

/* --- taking apart --- */

static struct event *event(struct log *l)
{
    FUZZ_MUST(l->cnt < EVENTS);
    struct event *e = &l->e[l->cnt++];
    memset(e, 0, sizeof *e); /* holes too: events are compared as octets */
    return e;
}

static void note(struct log *l, enum mpa_rx_result r, const struct mpa_ulpdu *u,
                 const struct verdict *why)
{
    struct event *e = event(l);
    e->result = r;
    e->len = u->len;
    e->used = u->used;
    if (r == MPA_RX_BAD) {
        e->why.bad = why->bad;
        e->why.layer = why->layer;
        e->why.type = why->type;
        e->why.code = why->code;
        FUZZ_MUST(why->bad && why->layer == LAYER_LLP);
        return;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < u->cnt; i++) {
        fuzz_sum(&e->sum, u->v[i].p, u->v[i].n);
        n += u->v[i].n;
    }
    FUZZ_MUST(n == u->len);
    e->markers = u->markers;
    e->crc_wire = u->crc_wire;
}

/* All that is whole in the first cnt pieces; *at is where the next FPDU begins. False: it has ended. */
static bool take(struct mpa_rx *rx, const struct fuzz_pieces *pieces, uint32_t cnt, uint32_t *at,
                 struct log *l)
{
    static struct mpa_ulpdu u;
    struct span v[FUZZ_PIECES];
    struct verdict why = VERDICT_OK;
    struct cursor c = cursor_of(v, fuzz_view(pieces, cnt, *at, v));
    for (;;) {
        uint32_t left = c.left, need = mpa_rx_need(rx, c), pos = rx->pos;
        enum mpa_rx_result r = mpa_rx_next(rx, &c, &u, &why);
        if (r == MPA_RX_MORE) {
            FUZZ_MUST(c.left == left && need > left && rx->pos == pos);
            return true;
        }
        FUZZ_MUST(left >= need && left - c.left == u.used && rx->pos == pos + u.used);
        FUZZ_MUST(r == MPA_RX_BAD || u.used == need);
        *at += u.used;
        note(l, r, &u, &why);
        if (r == MPA_RX_BAD) {
            return false;
        }
    }
}

/* The octets arrive piece by piece. */
static void parse(struct mpa_rx rx, uint32_t seed, struct log *l)
{
    struct fuzz_pieces pieces;
    uint32_t at = 0;
    fuzz_cut(&pieces, stream, stream_n, seed);
    l->cnt = 0;
    for (uint32_t i = 1; i <= pieces.cnt && take(&rx, &pieces, i, &at, l); i++) {
    }
    event(l)->used = at;
    fuzz_pieces_free(&pieces);
}

/* What was built and not touched is what must be seen. */
static void compare_built(const struct log *l)
{
    FUZZ_MUST(l->cnt == want_cnt + 1);
    for (uint32_t i = 0; i < want_cnt; i++) {
        FUZZ_MUST(l->e[i].result == MPA_RX_ULPDU && l->e[i].len == want[i].len);
        FUZZ_MUST(l->e[i].used == want[i].used && l->e[i].sum == want[i].sum);
        FUZZ_MUST(l->e[i].markers == want[i].markers);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct log flat, cut;
    struct fuzz f = {data, size};
    unsigned flags = fuzz_u8(&f);
    struct mpa_rx rx;
    mpa_rx_init(&rx, flags & MARKERS, flags & CRC);
    rx.pos = fuzz_u32(&f) & ~3u; /* FPDUs begin at multiples of 4 */
    uint32_t seed = fuzz_u32(&f);
    stream_n = want_cnt = 0;
    if ((flags & BUILT) != 0) {
        build(&f, &rx);
    } else {
        struct span rest = fuzz_octets(&f, ROOM);
        stream_n = rest.n;
        memcpy(stream, rest.p, rest.n);
    }
    parse(rx, 0, &flat);
    parse(rx, seed | 1, &cut);
    FUZZ_MUST(flat.cnt == cut.cnt && memcmp(flat.e, cut.e, flat.cnt * sizeof *flat.e) == 0);
    if (want_cnt > 0) {
        compare_built(&flat);
    }
    return 0;
}
