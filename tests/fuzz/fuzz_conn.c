/* SPDX-License-Identifier: MIT */
/* A whole stack in this process, over a wire in memory and in virtual time, and a peer that sends it what it
 * likes. Two connections stand: the victim, whose peer follows the input, and a bystander. The input: flags
 * of the set-up, then steps of the peer and of the program at the tested end. In the end no octet has changed
 * that the peer had no right to, and the bystander's Sends, Writes and Reads work as before. */
#include "fuzz.h"
#include "mpa/mpa_rx.h"
#include "mpa/mpa_setup.h"
#include "mpa/mpa_tx.h"
#include "octets.h"
#include "play_world.h"
#include "rdmap/rdmap_hdr.h"
#include "resp_int.h"

enum {
    MARKERS = 1, /* the peer asks for Markers */
    NO_CRC = 2,
    ENHANCED = 4,
    STEPS = 60,
    TURNS = 4000, /* virtual ms that something may take */
    MAX_PLEN = 3000,
    FPDU = 66000,
    INBOX = 1 << 17,
    READ_N = 64,
    PATTERN_PERIOD = 256,
    SINK_USED = 4096, /* Reads of the tested end go there */
};

struct end {
    struct tr_conn *conn;
    struct mpa_tx tx;
    struct mpa_rx rx;
    uint8_t in[INBOX];
    uint32_t have;
    uint32_t msn[DDP_QNS];           /* of the next message to send */
    struct rdmap_read_request asked; /* by the tested end, last */
    uint32_t sent;                   /* Sends of the bystander */
};

static struct world w;
static struct end victim, bystander;

/* --- octets --- */

static bool write_all(struct end *e, const uint8_t *p, uint32_t n)
{
    for (unsigned i = 0; n > 0 && i < TURNS; i++) {
        uint32_t k = w.tr->ops->write(e->conn, p, n);
        p += k;
        n -= k;
        if (n > 0) {
            w.tr->ops->turn(w.tr, 0);
        }
    }
    return n == 0;
}

static void read_some(struct end *e)
{
    if (e->conn != NULL) {
        e->have += w.tr->ops->read(e->conn, e->in + e->have, INBOX - e->have);
    }
}

static void drop_read(struct end *e, uint32_t n)
{
    e->have -= n;
    memmove(e->in, e->in + n, e->have);
}

static void send_ulpdu(struct end *e, const uint8_t *p, uint32_t n, bool spoil)
{
    static uint8_t out[FPDU];
    struct span s = {p, n};
    struct cursor c = cursor_of(&s, 1);
    uint8_t none = 0;
    struct mpa_out u = {.hdr = &none, .hlen = 0, .payload = &c, .plen = n};
    uint32_t size = mpa_tx_copy(&e->tx, &u, out);
    if (spoil) {
        out[size - 1] ^= 0x40;
    }
    write_all(e, out, size);
}

static void send_segment(struct end *e, const struct ddp_hdr *h, const void *p, uint32_t n)
{
    uint8_t ulpdu[DDP_HDR_MAX + MAX_PLEN];
    uint32_t hlen = ddp_hdr_pack(h, ulpdu);
    memcpy(ulpdu + hlen, p, n);
    send_ulpdu(e, ulpdu, hlen + n, false);
}

static void send_pattern(struct end *e, const struct ddp_hdr *h, uint32_t n)
{
    uint8_t octets[MAX_PLEN];
    for (uint32_t i = 0; i < n; i++) {
        octets[i] = octets_pattern(i);
    }
    send_segment(e, h, octets, n);
}

/* The next FPDU that came, if one is whole: its octets, to be used before the next call. */
static bool next_ulpdu(struct end *e, uint8_t *out, uint32_t *n)
{
    static struct mpa_ulpdu u;
    struct verdict why;
    struct span s = {e->in, e->have};
    struct cursor c = cursor_of(&s, 1), body;
    if (mpa_rx_next(&e->rx, &c, &u, &why) != MPA_RX_ULPDU) {
        return false; /* the tested end's framing is judged by other tests */
    }
    *n = u.len;
    body = cursor_of(u.v, u.cnt);
    FUZZ_MUST(cursor_take(&body, u.len, out));
    drop_read(e, u.used);
    return true;
}

/* --- set-up --- */

static void set_up(struct end *e, unsigned flags)
{
    uint8_t out[MPA_FRAME_MAX];
    struct mpa_setup s;
    const struct mpa_cfg cfg = {.markers = (flags & MARKERS) != 0,
                                .crc = (flags & NO_CRC) == 0,
                                .rev = (flags & ENHANCED) != 0 ? MPA_REV_2 : MPA_REV_1,
                                .ird = 8,
                                .ord = 8};
    memset(e, 0, offsetof(struct end, in));
    e->have = 0;
    memset(&e->msn, 0, sizeof *e - offsetof(struct end, msn));
    for (unsigned i = 0; i < DDP_QNS; i++) {
        e->msn[i] = 1;
    }
    mpa_setup_init(&s, true, &cfg);
    uint32_t n = mpa_setup_request(&s, NULL, 0, out);
    e->conn = w.tr->ops->dial(w.tr);
    FUZZ_MUST(e->conn != NULL);
    enum mpa_setup_event ev = MPA_SETUP_MORE;
    bool asked = false;
    for (unsigned i = 0; i < TURNS && ev == MPA_SETUP_MORE; i++) {
        w.tr->ops->turn(w.tr, 0);
        if (!asked && w.tr->ops->state(e->conn) == TR_OPEN) {
            asked = write_all(e, out, n);
        }
        read_some(e);
        struct span v = {e->in, e->have};
        struct cursor c = cursor_of(&v, 1);
        ev = mpa_setup_rx(&s, &c);
        drop_read(e, e->have - c.left);
    }
    FUZZ_MUST(ev == MPA_SETUP_ACCEPTED);
    mpa_tx_init(&e->tx, s.agreed.tx_markers, s.agreed.crc);
    mpa_rx_init(&e->rx, s.agreed.rx_markers, s.agreed.crc);
}

/* --- the peer's steps --- */

static const struct resp_region *pick(struct fuzz *f)
{
    return &w.resp->region[fuzz_u8(f) % RESP_REGIONS];
}

static uint32_t stag_of(const struct resp_region *g)
{
    return g->mr != NULL ? uiw_mr_rkey(g->mr) : 0;
}

/* Near the beginning or the end. */
static uint64_t near(const struct resp_region *g, struct fuzz *f)
{
    uint64_t base = g->mr != NULL ? uiw_mr_addr(g->mr) : 0, off = fuzz_u16(f) % 4096;
    return (fuzz_u8(f) & 1) != 0 ? base + g->len - off : base + off - 8;
}

static void send_raw(struct fuzz *f)
{
    struct span s = fuzz_octets(f, fuzz_u8(f));
    write_all(&victim, s.p, s.n);
}

static void send_raw_ulpdu(struct fuzz *f)
{
    bool spoil = fuzz_u8(f) == 0xff;
    struct span s = fuzz_octets(f, fuzz_u8(f));
    send_ulpdu(&victim, s.p, s.n, spoil);
}

static void send_tagged(struct fuzz *f)
{
    const struct resp_region *g = pick(f);
    unsigned b = fuzz_u8(f);
    struct ddp_hdr h = {.tagged = true,
                        .last = (b & 1) != 0,
                        .version = DDP_VERSION,
                        .ulp = rdmap_control((b & 6) == 6 ? RDMAP_READ_RESPONSE : RDMAP_WRITE),
                        .stag = stag_of(g) ^ ((b & 0xf8) == 0xf8 ? 1u : 0u),
                        .to = near(g, f)};
    send_pattern(&victim, &h, fuzz_u16(f) % MAX_PLEN);
}

static void send_untagged(struct fuzz *f)
{
    static const uint8_t ops[] = {RDMAP_SEND,      RDMAP_SEND_INV,    RDMAP_SEND_SE,
                                  RDMAP_IMMEDIATE, RDMAP_SEND_SE_INV, RDMAP_SEND,
                                  RDMAP_TERMINATE, RDMAP_IMMEDIATE_SE};
    unsigned b = fuzz_u8(f), op = ops[b >> 1 & 7];
    unsigned qn = op == RDMAP_TERMINATE ? DDP_QN_TERMINATE : DDP_QN_SEND;
    struct ddp_hdr h = {.last = (b & 1) != 0,
                        .version = DDP_VERSION,
                        .ulp = rdmap_control(op),
                        .ulp32 = stag_of(pick(f)),
                        .qn = qn ^ ((b & 0xf0) == 0xf0 ? 1u : 0u),
                        .msn = victim.msn[qn],
                        .mo = (b & 0xf0) == 0xe0 ? fuzz_u16(f) : 0};
    victim.msn[qn] += h.last;
    bool imm = rdmap_opcode_immediate(op);
    send_pattern(&victim, &h, imm ? RDMAP_IMMEDIATE_LEN : fuzz_u16(f) % MAX_PLEN);
}

static struct ddp_hdr request_hdr(struct end *e, unsigned opcode)
{
    return (struct ddp_hdr){.last = true,
                            .version = DDP_VERSION,
                            .ulp = rdmap_control(opcode),
                            .qn = DDP_QN_REQUEST,
                            .msn = e->msn[DDP_QN_REQUEST]++};
}

static void send_read_request(struct fuzz *f)
{
    const struct resp_region *g = pick(f);
    struct ddp_hdr h = request_hdr(&victim, RDMAP_READ_REQUEST);
    uint8_t payload[RDMAP_READ_REQUEST_LEN];
    struct rdmap_read_request r = {.sink_stag = fuzz_u16(f),
                                   .sink_to = fuzz_u16(f),
                                   .len = fuzz_u16(f),
                                   .src_stag = stag_of(g),
                                   .src_to = near(g, f)};
    rdmap_read_request_pack(&r, payload);
    send_segment(&victim, &h, payload, sizeof payload);
}

static void send_atomic(struct fuzz *f)
{
    const struct resp_region *g = pick(f);
    struct ddp_hdr h = request_hdr(&victim, RDMAP_ATOMIC_REQUEST);
    uint8_t payload[RDMAP_ATOMIC_REQUEST_LEN];
    struct rdmap_atomic_request r = {.op = fuzz_u8(f) % 4,
                                     .id = fuzz_u8(f),
                                     .stag = stag_of(g),
                                     .to = near(g, f),
                                     .data = fuzz_u64(f),
                                     .mask = fuzz_u64(f)};
    rdmap_atomic_request_pack(&r, payload);
    send_segment(&victim, &h, payload, sizeof payload);
}

/* What the tested end asked for, or nearly so. */
static void send_response(struct fuzz *f)
{
    unsigned b = fuzz_u8(f);
    uint32_t n = min_u32(victim.asked.len, MAX_PLEN - 1) + ((b & 0xf) == 0xf);
    struct ddp_hdr h = {.tagged = true,
                        .last = (b & 0xf0) != 0xf0,
                        .version = DDP_VERSION,
                        .ulp = rdmap_control(RDMAP_READ_RESPONSE),
                        .stag = victim.asked.sink_stag,
                        .to = victim.asked.sink_to + ((b & 0xf) == 0xe)};
    send_pattern(&victim, &h, n);
}

static void end_stream(struct fuzz *f)
{
    unsigned b = fuzz_u8(f);
    if (b == 0xff) {
        w.tr->ops->drop(victim.conn, true);
        victim.conn = NULL;
    } else if (b >= 0xf0) {
        w.tr->ops->fin(victim.conn);
    }
}

/* --- the tested end's program --- */

static void act(struct fuzz *f)
{
    static const char *const todo[] = {
        "send:n=10",
        "send:n=3000:se",
        "write:n=100:stag=1:to=0",
        "read:n=64:stag=1:to=0",
        "read:n=2000:stag=7",
        "fetchadd:to=8",
        "cmpswap:cmp=1:swap=2",
        "recv:n=4",
        "imm:imm=5",
        "dereg:inv1",
        "send:n=20000",
        "disc",
        "abort",
        "error",
        "destroy:conn",
        "writeimm:n=8:stag=1:to=0",
    };
    char why[150];
    resp_do(w.resp, &w.resp->conn[0], todo[fuzz_u8(f) % ARRAY_LEN(todo)], why, sizeof why);
}

/* Looks at what came, for Read Requests that could be answered. */
static void look(void)
{
    static uint8_t ulpdu[MPA_MULPDU_MAX];
    struct ddp_seg seg;
    uint32_t n;
    read_some(&victim);
    while (next_ulpdu(&victim, ulpdu, &n)) {
        struct span s = {ulpdu, n};
        uint8_t req[RDMAP_READ_REQUEST_LEN];
        if (!ddp_seg_parse(cursor_of(&s, 1), &seg).bad &&
            rdmap_opcode(seg.hdr.ulp) == RDMAP_READ_REQUEST &&
            cursor_take(&seg.payload, sizeof req, req)) {
            rdmap_read_request_unpack(req, &victim.asked);
        }
    }
    if (victim.have == INBOX) {
        victim.have = 0;
    }
}

static void turn(unsigned times)
{
    while (times-- > 0) {
        w.tr->ops->turn(w.tr, 0);
    }
    if (victim.conn != NULL) {
        look();
    }
}

static void step(struct fuzz *f)
{
    switch (fuzz_u8(f) % 12) {
    case 0: send_raw(f); break;
    case 1: send_raw_ulpdu(f); break;
    case 2: send_tagged(f); break;
    case 3: send_untagged(f); break;
    case 4: send_read_request(f); break;
    case 5: send_atomic(f); break;
    case 6: send_response(f); break;
    case 7:
    case 8: act(f); break;
    case 9: turn(fuzz_u8(f)); break;
    case 10: world_cut(&w, fuzz_u16(f) % 1500); break;
    default: end_stream(f); break;
    }
}

/* --- the bystander --- */

static void await(const uint8_t *mem, const uint8_t *want, uint32_t n)
{
    for (unsigned i = 0; i < TURNS && memcmp(mem, want, n) != 0; i++) {
        w.tr->ops->turn(w.tr, 0);
    }
    FUZZ_MUST(memcmp(mem, want, n) == 0);
}

static void bystander_send(uint8_t mark)
{
    struct resp_conn *c = &w.resp->conn[1];
    struct ddp_hdr h = {.last = true,
                        .version = DDP_VERSION,
                        .ulp = rdmap_control(RDMAP_SEND),
                        .msn = bystander.msn[DDP_QN_SEND]++};
    uint8_t octets[40];
    memset(octets, mark, sizeof octets);
    send_segment(&bystander, &h, octets, sizeof octets);
    await(c->recv_mem + (size_t)bystander.sent * c->recv_size, octets, sizeof octets);
    bystander.sent++;
}

static void bystander_write(uint8_t mark)
{
    struct resp_region *g = resp_region(w.resp, "rw");
    struct ddp_hdr h = {.tagged = true,
                        .last = true,
                        .version = DDP_VERSION,
                        .ulp = rdmap_control(RDMAP_WRITE),
                        .stag = stag_of(g),
                        .to = uiw_mr_addr(g->mr) + 0x8000};
    uint8_t octets[33];
    memset(octets, mark, sizeof octets);
    send_segment(&bystander, &h, octets, sizeof octets);
    await(g->mem + RESP_GUARD + 0x8000, octets, sizeof octets);
}

static void bystander_read(void)
{
    static uint8_t ulpdu[MPA_MULPDU_MAX];
    struct resp_region *g = resp_region(w.resp, "ro");
    struct ddp_hdr h = request_hdr(&bystander, RDMAP_READ_REQUEST);
    uint8_t payload[RDMAP_READ_REQUEST_LEN], got[READ_N];
    struct rdmap_read_request r = {.sink_stag = 9,
                                   .sink_to = 0x900,
                                   .len = READ_N,
                                   .src_stag = stag_of(g),
                                   .src_to = uiw_mr_addr(g->mr) + 16};
    struct ddp_seg seg;
    uint32_t n = 0;
    rdmap_read_request_pack(&r, payload);
    send_segment(&bystander, &h, payload, sizeof payload);
    for (unsigned i = 0; i < TURNS && n == 0; i++) {
        w.tr->ops->turn(w.tr, 0);
        read_some(&bystander);
        next_ulpdu(&bystander, ulpdu, &n);
    }
    struct span s = {ulpdu, n};
    FUZZ_MUST(!ddp_seg_parse(cursor_of(&s, 1), &seg).bad && seg.plen == READ_N && seg.hdr.tagged);
    FUZZ_MUST(rdmap_opcode(seg.hdr.ulp) == RDMAP_READ_RESPONSE && seg.hdr.stag == 9);
    FUZZ_MUST(cursor_take(&seg.payload, READ_N, got));
    FUZZ_MUST(memcmp(got, g->mem + RESP_GUARD + 16, READ_N) == 0);
}

static void bystander_works(uint8_t mark)
{
    bystander_send(mark);
    bystander_write(mark);
    bystander_read();
}

/* --- memory --- */

static bool is_zero(const uint8_t *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

static void check_pattern(const char *name)
{
    const struct resp_region *g = resp_region(w.resp, name);
    const uint8_t *m = g->mem + RESP_GUARD;
    for (uint32_t i = 0; i < PATTERN_PERIOD; i++) {
        FUZZ_MUST(m[i] == octets_pattern(i));
    }
    FUZZ_MUST(memcmp(m, m + PATTERN_PERIOD, g->len - PATTERN_PERIOD) == 0);
}

static void check_memory(void)
{
    const struct resp_region *no = resp_region(w.resp, "no"), *other = resp_region(w.resp, "other");
    const struct resp_region *sink = resp_region(w.resp, "sink");
    const struct resp_conn *c = &w.resp->conn[1];
    FUZZ_MUST(resp_guards_whole(w.resp));
    check_pattern("ro");
    check_pattern("src");
    FUZZ_MUST(is_zero(no->mem + RESP_GUARD, no->len) &&
              is_zero(other->mem + RESP_GUARD, other->len));
    FUZZ_MUST(is_zero(sink->mem + RESP_GUARD + SINK_USED, sink->len - SINK_USED));
    /* The bystander's receives have its own Sends and nothing else. */
    size_t used = (size_t)bystander.sent * c->recv_size;
    FUZZ_MUST(is_zero(c->recv_mem + used, (size_t)c->recv_cnt * c->recv_size - used));
    FUZZ_MUST(net_test_asserts() == 0);
}

/* --- one input --- */

static void begin(unsigned flags)
{
    static bool opened;
    if (!opened) {
        world_open(&w, NULL, 0, false);
        opened = true;
    }
    world_cut(&w, 0);
    resp_reset(w.resp);
    w.resp->now = (struct resp_case){.recv_cnt = 8, .recv_size = 512};
    FUZZ_MUST(resp_case_begin(w.resp));
    set_up(&victim, flags);
    set_up(&bystander, 0);
    bystander_works(0x11);
}

static void hang_up(struct end *e)
{
    if (e->conn != NULL) {
        w.tr->ops->drop(e->conn, true);
        e->conn = NULL;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = {data, size};
    begin(fuzz_u8(&f));
    for (unsigned i = 0; i < STEPS && f.n > 0 && victim.conn != NULL; i++) {
        step(&f);
    }
    turn(20);
    world_cut(&w, 0);
    bystander_works(0x22);
    hang_up(&victim);
    turn(20);
    bystander_works(0x33);
    check_memory();
    hang_up(&bystander);
    turn(5);
    return 0;
}
