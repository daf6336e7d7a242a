/* SPDX-License-Identifier: MIT */
/* The receiving side of a stream: DDP segments in, octets placed. The input is a list of steps: segments of
 * the peer, raw or made so that they get far, and what the program on this end does meanwhile. All of it
 * runs twice with the segments cut in different ways. Whatever comes, octets change only where a region's
 * rights, a receive or a Read of ours allows it; both runs see the same; and a stream that has ended stays
 * as it is. */
#include "fuzz.h"
#include "rdmap/rdmap_stream.h"

enum {
    PD = 1,
    OTHER_PD = 2,
    STREAM = 5,
    QUEUE = 4,
    ARENA = 16384,
    RECV = 1024,
    MAX_PLEN = 2048,
    MULPDU = 256,
    STEPS = 200,
    BOTH = DDP_REMOTE_READ | DDP_REMOTE_WRITE,
};

/* Where the regions lie in the arena; around each there is room that belongs to none. */
static const struct ddp_mem layout[] = {
    {.stag = 0xa501, .len = 0x800, .pd = PD, .rights = BOTH},
    {.stag = 0xa601, .len = 0x800, .pd = OTHER_PD, .rights = BOTH, .inv_ok = true},
    {.stag = 0xb602, .to = 0x2000, .len = 0x400, .pd = PD, .rights = DDP_LOCAL_WRITE},
    {.stag = 0xd8040001, .len = 16, .pd = PD, .rights = BOTH, .inv_ok = true},
    {.stag = 0xd8050002, .len = 16, .pd = PD, .stream = STREAM, .rights = BOTH, .inv_ok = true},
    {.stag = 0xd8060003, .len = 16, .pd = PD, .stream = STREAM + 1, .rights = BOTH, .inv_ok = true},
    {.stag = 0xc703,
     .to = 0x3000,
     .len = 0x400,
     .pd = PD,
     .rights = DDP_REMOTE_READ | DDP_REMOTE_ATOMIC},
    {.stag = 0xc804, .to = UINT64_MAX - 0xff, .len = 0x100, .pd = PD, .rights = DDP_REMOTE_WRITE},
    {.stag = 0xe901, .to = 0x10, .len = 0, .pd = PD, .rights = BOTH},
    {.stag = 0xf001, .to = 0x100, .len = 0x80, .pd = PD, .rights = DDP_REMOTE_WRITE}, /* a window */
};

enum { REGIONS = ARRAY_LEN(layout), WINDOW = REGIONS - 1 };

struct side {
    struct rdmap_stream st;
    struct ddp_mem_table mem;
    struct ddp_mem *slot[64];
    uint32_t recent[4];
    struct rdmap_open open[QUEUE];
    struct rdmap_asked asked[QUEUE];
    struct ddp_mem region[REGIONS];
    bool there[REGIONS]; /* in the table */
    uint8_t *arena, *shadow;
    uint8_t *recv; /* one buffer for all receives */
    uint32_t recvs, recv_len, recv_now;
    bool dead;
    uint32_t seed; /* how segments are cut */
    uint64_t log;
};

/* --- the world --- */

static void open_side(struct side *s, uint32_t seed)
{
    *s = (struct side){.recvs = 3, .recv_len = RECV, .seed = seed};
    s->arena = malloc(ARENA);
    s->shadow = malloc(ARENA);
    s->recv = calloc(1, RECV);
    FUZZ_MUST(s->arena != NULL && s->shadow != NULL && s->recv != NULL);
    memset(s->arena, 0xee, ARENA);
    memset(s->shadow, 0xee, ARENA);
    ddp_mem_table_init(&s->mem, s->slot, ARRAY_LEN(s->slot), s->recent, ARRAY_LEN(s->recent));
    uint32_t at = 64;
    for (unsigned i = 0; i < REGIONS; i++) {
        s->region[i] = layout[i];
        s->region[i].valid = true;
        s->region[i].base = s->arena + at;
        at += ((uint32_t)layout[i].len + 64 + 7) & ~7u;
        s->there[i] = ddp_mem_insert(&s->mem, &s->region[i], layout[i].stag);
        FUZZ_MUST(s->there[i]);
    }
    FUZZ_MUST(at <= ARENA);
    s->region[WINDOW].parent = &s->region[0];
    s->region[WINDOW].base = s->region[0].base + 0x40;
    rdmap_stream_init(&s->st, &(struct rdmap_cfg){.pd = PD,
                                                  .id = STREAM,
                                                  .ext = true,
                                                  .open = s->open,
                                                  .ord = QUEUE,
                                                  .asked = s->asked,
                                                  .ird = QUEUE});
}

static void close_side(struct side *s)
{
    FUZZ_MUST(memcmp(s->arena, s->shadow, ARENA) == 0);
    free(s->arena);
    free(s->shadow);
    free(s->recv);
}

/* --- what is allowed, reckoned anew --- */

/* Where n octets of (stag, to) lie, if a stream of PD may do that with them; else it aborts. */
static uint32_t allowed(const struct side *s, uint32_t stag, uint64_t to, uint32_t n,
                        uint32_t rights)
{
    for (unsigned i = 0; i < REGIONS; i++) {
        const struct ddp_mem *m = &s->region[i];
        if (!s->there[i] || m->stag != stag) {
            continue;
        }
        FUZZ_MUST(m->valid && m->pd == PD && (m->stream == 0 || m->stream == STREAM));
        FUZZ_MUST(m->parent == NULL || m->parent->valid);
        FUZZ_MUST((m->rights & rights) == rights);
        FUZZ_MUST(to >= m->to && to - m->to <= m->len && n <= m->len - (to - m->to));
        return (uint32_t)(m->base - s->arena) + (uint32_t)(to - m->to);
    }
    fprintf(stderr, "STag 0x%x is not there\n", stag);
    abort();
}

static void place(struct side *s, const struct rdmap_rx_event *ev, uint32_t at)
{
    struct cursor c = ev->seg.payload;
    FUZZ_MUST(ev->dst.n == ev->seg.plen && ev->dst.p == s->arena + at);
    ddp_mem_place(ev->dst, c);
    FUZZ_MUST(cursor_take(&c, ev->seg.plen, s->shadow + at));
}

/* --- what comes of a segment --- */

static void log_verdict(struct side *s, struct verdict v)
{
    const uint8_t octets[] = {v.layer, v.type, v.code};
    fuzz_sum(&s->log, octets, sizeof octets);
}

static void ended(struct side *s, const struct rdmap_rx_event *ev)
{
    struct ddp_msg msg;
    struct rdmap_term t;
    uint8_t payload[RDMAP_TERM_MAX], hdr[DDP_HDR_MAX];
    uint32_t hlen;
    FUZZ_MUST(s->st.dead && !s->dead);
    s->dead = true;
    if (ev->kind == RDMAP_RX_TERMINATE) {
        log_verdict(s, ev->term.v);
        return;
    }
    FUZZ_MUST(s->st.fault.bad);
    log_verdict(s, s->st.fault);
    rdmap_tx_terminate(&s->st, &msg, payload);
    uint32_t n = ddp_tx_next(&msg, 128, hdr, &hlen);
    FUZZ_MUST(msg.done && n <= RDMAP_TERM_MAX && hlen == DDP_UNTAGGED_LEN);
    struct span v = {payload, n};
    FUZZ_MUST(rdmap_term_unpack(cursor_of(&v, 1), &t) && !t.host_order);
    FUZZ_MUST(verdict_is(t.v, s->st.fault.layer, s->st.fault.type, s->st.fault.code));
    fuzz_sum(&s->log, payload, n);
}

static void got_send(struct side *s, const struct rdmap_rx_event *ev)
{
    struct cursor c = ev->seg.payload;
    if (rdmap_opcode_immediate(ev->opcode)) {
        FUZZ_MUST(ev->seg.plen == RDMAP_IMMEDIATE_LEN);
        return;
    }
    FUZZ_MUST(ev->seg.hdr.mo <= s->recv_now && ev->seg.plen <= s->recv_now - ev->seg.hdr.mo);
    FUZZ_MUST(cursor_take(&c, ev->seg.plen, s->recv + ev->seg.hdr.mo));
    fuzz_sum(&s->log, s->recv, s->recv_now);
    if (ev->last && rdmap_opcode_invalidates(ev->opcode)) {
        const struct ddp_mem *m = ddp_mem_find(&s->mem, ev->invalidated);
        FUZZ_MUST(m != NULL && !m->valid && m->inv_ok && m->pd == PD);
        FUZZ_MUST(m->stream == 0 || m->stream == STREAM);
    }
}

static void got_response(struct side *s, const struct rdmap_rx_event *ev)
{
    const struct rdmap_open *r = rdmap_orq_head(&s->st);
    FUZZ_MUST(r != NULL && !r->is_atomic && r->done <= r->len && r->done >= ev->seg.plen);
    FUZZ_MUST(!ev->last || r->done == r->len);
    uint64_t to = r->sink_to + r->done - ev->seg.plen;
    if (ev->seg.plen > 0) {
        place(s, ev, allowed(s, r->sink_stag, to, ev->seg.plen, DDP_LOCAL_WRITE));
    }
    if (ev->last) {
        rdmap_orq_pop(&s->st);
    }
}

static void obey(struct side *s, const struct rdmap_rx_event *ev)
{
    const struct ddp_hdr *h = &ev->seg.hdr;
    FUZZ_MUST(!s->dead || ev->kind == RDMAP_RX_NONE);
    fuzz_sum_u64(&s->log, ev->kind);
    switch (ev->kind) {
    case RDMAP_RX_NONE: break;
    case RDMAP_RX_WRITE:
        place(s, ev, allowed(s, h->stag, h->to, ev->seg.plen, DDP_REMOTE_WRITE));
        break;
    case RDMAP_RX_SEND: got_send(s, ev); break;
    case RDMAP_RX_READ_RESPONSE: got_response(s, ev); break;
    case RDMAP_RX_ATOMIC_RESPONSE:
        FUZZ_MUST(rdmap_orq_head(&s->st) != NULL && rdmap_orq_head(&s->st)->is_atomic);
        fuzz_sum_u64(&s->log, ev->original);
        rdmap_orq_pop(&s->st);
        break;
    case RDMAP_RX_READ_REQUEST:
    case RDMAP_RX_ATOMIC_REQUEST: FUZZ_MUST(rdmap_irq_pending(&s->st)); break;
    case RDMAP_RX_TERMINATE:
    case RDMAP_RX_FAULT: ended(s, ev); break;
    case RDMAP_RX_WANT_RECV: FUZZ_MUST(ev->kind != RDMAP_RX_WANT_RECV); break; /* asked twice */
    }
}

static void feed(struct side *s, const uint8_t *p, uint32_t n)
{
    struct fuzz_pieces pieces;
    struct rdmap_rx_event ev;
    fuzz_cut(&pieces, p, n, s->seed == 0 ? 0 : fuzz_random(&s->seed) | 1);
    rdmap_rx(&s->st, &s->mem, cursor_of(pieces.v, pieces.cnt), &ev);
    if (ev.kind == RDMAP_RX_WANT_RECV) {
        FUZZ_MUST(!rdmap_rx_in_send(&s->st));
        if (s->recvs > 0) {
            s->recvs--;
            s->recv_now = s->recv_len;
            rdmap_rx_give_recv(&s->st, s->recv_now);
        } else {
            rdmap_rx_no_recv(&s->st);
        }
        rdmap_rx_again(&s->st, &s->mem, &ev);
    }
    obey(s, &ev);
    fuzz_pieces_free(&pieces);
}

/* --- steps of the peer --- */

static uint8_t ulpdu[DDP_HDR_MAX + MAX_PLEN];

static void feed_segment(struct side *s, const struct ddp_hdr *h, const void *p, uint32_t n)
{
    uint32_t hlen = ddp_hdr_pack(h, ulpdu);
    memcpy(ulpdu + hlen, p, n);
    feed(s, ulpdu, hlen + n);
}

static void feed_pattern(struct side *s, const struct ddp_hdr *h, uint32_t n)
{
    uint8_t octets[MAX_PLEN];
    for (uint32_t i = 0; i < n; i++) {
        octets[i] = (uint8_t)(i * 7 + n);
    }
    feed_segment(s, h, octets, n);
}

static const struct ddp_mem *pick(const struct side *s, struct fuzz *f)
{
    return &s->region[fuzz_u8(f) % REGIONS];
}

/* Near the beginning or the end of a region. */
static uint64_t near(const struct ddp_mem *m, struct fuzz *f)
{
    unsigned how = fuzz_u8(f);
    uint64_t off = fuzz_u8(f);
    return (how & 1) != 0 ? m->to + m->len - off : m->to + off - (how & 2 ? 8 : 0);
}

static void tagged(struct side *s, struct fuzz *f)
{
    const struct ddp_mem *m = pick(s, f);
    unsigned b = fuzz_u8(f);
    struct ddp_hdr h = {.tagged = true,
                        .last = (b & 1) != 0,
                        .version = (b & 0xf0) == 0xf0 ? b >> 1 & 3 : DDP_VERSION,
                        .ulp = rdmap_control((b & 2) != 0 ? RDMAP_READ_RESPONSE : RDMAP_WRITE),
                        .stag = m->stag ^ ((b & 0xc) == 0xc ? 1 : 0),
                        .to = near(m, f)};
    feed_pattern(s, &h, fuzz_u16(f) % MAX_PLEN);
}

static void untagged(struct side *s, struct fuzz *f)
{
    unsigned b = fuzz_u8(f);
    unsigned qn = (b & 0xc0) == 0xc0 ? fuzz_u8(f) % 6 : 0;
    const struct ddp_queue *q = &s->st.rx.q[qn % DDP_QNS];
    static const uint8_t ops[] = {RDMAP_SEND,        RDMAP_SEND_INV,  RDMAP_SEND_SE,
                                  RDMAP_SEND_SE_INV, RDMAP_IMMEDIATE, RDMAP_IMMEDIATE_SE,
                                  RDMAP_TERMINATE,   RDMAP_WRITE};
    struct ddp_hdr h = {.last = (b & 1) != 0,
                        .version = DDP_VERSION,
                        .ulp = rdmap_control(ops[b >> 1 & 7]),
                        .ulp32 = pick(s, f)->stag,
                        .qn = qn,
                        .msn = q->msn + ((b & 0x30) == 0x30 ? fuzz_u8(f) : 0),
                        .mo = q->mo + ((b & 0x30) == 0x20 ? fuzz_u8(f) : 0)};
    bool imm = rdmap_opcode_immediate(ops[b >> 1 & 7]) && (b & 0x30) != 0x10;
    feed_pattern(s, &h, imm ? RDMAP_IMMEDIATE_LEN : fuzz_u16(f) % MAX_PLEN);
}

static struct ddp_hdr request_hdr(const struct side *s, unsigned opcode)
{
    const struct ddp_queue *q = &s->st.rx.q[DDP_QN_REQUEST];
    return (struct ddp_hdr){.last = true,
                            .version = DDP_VERSION,
                            .ulp = rdmap_control(opcode),
                            .qn = DDP_QN_REQUEST,
                            .msn = q->msn,
                            .mo = q->mo};
}

static void read_request(struct side *s, struct fuzz *f)
{
    const struct ddp_mem *m = pick(s, f);
    struct ddp_hdr h = request_hdr(s, RDMAP_READ_REQUEST);
    uint8_t payload[RDMAP_READ_REQUEST_LEN];
    struct rdmap_read_request r = {.sink_stag = fuzz_u32(f),
                                   .sink_to = fuzz_u64(f),
                                   .src_stag = m->stag,
                                   .src_to = near(m, f),
                                   .len = fuzz_u16(f)};
    rdmap_read_request_pack(&r, payload);
    feed_segment(s, &h, payload, sizeof payload);
}

static void atomic_request(struct side *s, struct fuzz *f)
{
    const struct ddp_mem *m = pick(s, f);
    struct ddp_hdr h = request_hdr(s, RDMAP_ATOMIC_REQUEST);
    uint8_t payload[RDMAP_ATOMIC_REQUEST_LEN];
    struct rdmap_atomic_request r = {.op = fuzz_u8(f) % 4,
                                     .id = fuzz_u8(f),
                                     .stag = m->stag,
                                     .to = near(m, f),
                                     .data = fuzz_u64(f),
                                     .mask = fuzz_u64(f),
                                     .compare = fuzz_u64(f),
                                     .compare_mask = fuzz_u64(f)};
    rdmap_atomic_request_pack(&r, payload);
    feed_segment(s, &h, payload, sizeof payload);
}

/* What the request at the head of our queue waits for, or nearly so. */
static void response(struct side *s, struct fuzz *f)
{
    const struct rdmap_open *r = rdmap_orq_head(&s->st);
    unsigned off = fuzz_u8(f);
    uint8_t payload[RDMAP_ATOMIC_RESPONSE_LEN];
    if (r == NULL) {
        return;
    }
    if (r->is_atomic) {
        const struct ddp_queue *q = &s->st.rx.q[DDP_QN_ATOMIC];
        struct ddp_hdr h = {.last = true,
                            .version = DDP_VERSION,
                            .ulp = rdmap_control(RDMAP_ATOMIC_RESPONSE),
                            .qn = DDP_QN_ATOMIC,
                            .msn = q->msn};
        struct rdmap_atomic_response a = {.id = r->msn + (off == 7), .original = fuzz_u64(f)};
        rdmap_atomic_response_pack(&a, payload);
        feed_segment(s, &h, payload, sizeof payload);
        return;
    }
    uint32_t left = r->len - r->done, n = min_u32(fuzz_u16(f) % MAX_PLEN, left + (off == 1));
    struct ddp_hdr h = {.tagged = true,
                        .last = n >= left || off == 2,
                        .version = DDP_VERSION,
                        .ulp = rdmap_control(RDMAP_READ_RESPONSE),
                        .stag = r->sink_stag,
                        .to = r->sink_to + r->done + (off == 3)};
    feed_pattern(s, &h, n);
}

/* --- steps of this end --- */

static void ask(struct side *s, struct fuzz *f)
{
    struct ddp_msg msg;
    uint8_t payload[RDMAP_ATOMIC_REQUEST_LEN];
    const struct ddp_mem *m = pick(s, f);
    uint32_t off = fuzz_u8(f), n = fuzz_u16(f);
    if (!rdmap_orq_room(&s->st) || s->dead) {
        return;
    }
    if (n % 4 == 3) {
        rdmap_tx_atomic(&s->st, &(struct rdmap_atomic_request){.op = RDMAP_FETCH_ADD}, n, &msg,
                        payload);
        return;
    }
    /* The program's own memory, as the API has looked at it when the Read was posted. */
    off = min_u32(off, (uint32_t)m->len);
    rdmap_tx_read(&s->st,
                  &(struct rdmap_read_request){.sink_stag = m->stag,
                                               .sink_to = m->to + off,
                                               .len = min_u32(n, (uint32_t)m->len - off)},
                  n, &msg, payload);
}

static void send_out(struct side *s, struct ddp_msg *msg, const struct mspan *src)
{
    uint8_t hdr[DDP_HDR_MAX];
    uint32_t hlen, sum = 0;
    while (!msg->done) {
        uint32_t n = ddp_tx_next(msg, MULPDU, hdr, &hlen);
        FUZZ_MUST(hlen + n <= MULPDU);
        fuzz_sum(&s->log, hdr, hlen);
        sum += n;
    }
    if (src != NULL) {
        FUZZ_MUST(sum == src->n);
        fuzz_sum(&s->log, src->p, src->n);
    }
}

static void answer(struct side *s)
{
    const struct rdmap_asked *r = rdmap_irq_head(&s->st);
    struct rdmap_rx_event fault = {.kind = RDMAP_RX_FAULT};
    struct ddp_msg msg;
    struct mspan src = {NULL, 0};
    uint8_t payload[RDMAP_ATOMIC_RESPONSE_LEN];
    if (r == NULL || s->dead) {
        return;
    }
    const struct rdmap_asked was = *r;
    bool ok = was.is_atomic ? rdmap_tx_atomic_response(&s->st, &s->mem, &msg, payload)
                            : rdmap_tx_response(&s->st, &s->mem, &msg, &src);
    if (!ok) {
        ended(s, &fault);
        return;
    }
    if (was.is_atomic) {
        struct rdmap_atomic_request req;
        rdmap_atomic_request_unpack(was.header, &req);
        uint32_t at = allowed(s, req.stag, req.to, 8, DDP_REMOTE_ATOMIC);
        memcpy(s->shadow + at, s->arena + at, 8);
        fuzz_sum(&s->log, s->arena + at, 8);
    } else if (src.n > 0) {
        struct rdmap_read_request req;
        rdmap_read_request_unpack(was.header, &req);
        FUZZ_MUST(src.n == req.len);
        uint32_t at = allowed(s, req.src_stag, req.src_to, src.n, DDP_REMOTE_READ);
        FUZZ_MUST(src.p == s->arena + at);
    }
    send_out(s, &msg, was.is_atomic ? NULL : &src);
    rdmap_irq_pop(&s->st);
}

static void change_memory(struct side *s, struct fuzz *f)
{
    unsigned i = fuzz_u8(f) % REGIONS;
    struct ddp_mem *m = &s->region[i];
    switch (fuzz_u8(f) % 4) {
    case 0: m->valid = false; break;
    case 1: m->valid = true; break;
    case 2:
        if (s->there[i]) {
            ddp_mem_remove(&s->mem, m);
            s->there[i] = false;
        }
        break;
    default:
        if (!s->there[i] && !ddp_mem_full(&s->mem)) {
            s->there[i] = ddp_mem_insert(&s->mem, m, fuzz_u32(f));
        }
        break;
    }
}

static void step(struct side *s, struct fuzz *f)
{
    struct span raw;
    switch (fuzz_u8(f) % 10) {
    case 0:
        raw = fuzz_octets(f, fuzz_u8(f));
        feed(s, raw.p, raw.n);
        break;
    case 1: tagged(s, f); break;
    case 2: untagged(s, f); break;
    case 3: read_request(s, f); break;
    case 4: atomic_request(s, f); break;
    case 5: response(s, f); break;
    case 6: ask(s, f); break;
    case 7: answer(s); break;
    case 8: change_memory(s, f); break;
    default:
        s->recvs = fuzz_u8(f) % 4;
        s->recv_len = fuzz_u16(f) % (RECV + 1);
        break;
    }
}

static uint64_t run(struct fuzz f, uint32_t seed)
{
    struct side s;
    open_side(&s, seed);
    for (unsigned i = 0; i < STEPS && f.n > 0; i++) {
        step(&s, &f);
    }
    fuzz_sum(&s.log, s.arena, ARENA);
    close_side(&s);
    return s.log;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = {data, size};
    uint32_t seed = fuzz_u32(&f);
    FUZZ_MUST(run(f, 0) == run(f, seed | 1));
    return 0;
}
