/* SPDX-License-Identifier: MIT */
/* Which response answers which request, and how long it took. */
#include <stdlib.h>

#include "dump.h"

/* The i-th oldest open request. */
static struct pending_read *pending(struct rdma *x, uint32_t i)
{
    return &x->read[(x->read_head + i) % x->read_cap];
}

static bool grow(struct rdma *x)
{
    if (x->reads < x->read_cap) {
        return true;
    }
    if (x->read_cap == READS_MAX) {
        x->read_head = (x->read_head + 1) % x->read_cap; /* the oldest one got no answer */
        x->reads--;
        return true;
    }
    uint32_t cap = x->read_cap == 0 ? 16 : x->read_cap * 2;
    struct pending_read *v = malloc(cap * sizeof *v);
    if (v == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < x->reads; i++) {
        v[i] = *pending(x, i);
    }
    free(x->read);
    x->read = v;
    x->read_cap = cap;
    x->read_head = 0;
    return true;
}

/* A snaplen may have cut its header, which need not begin what was captured of the message. */
static struct pending_read note_request(const struct msg *m)
{
    uint8_t head[RDMAP_ATOMIC_REQUEST_LEN] = {0};
    struct pending_read p = {.ns = m->at.ns, .frame = m->at.frame, .opcode = m->opcode};
    p.known = min_u32(m->head_len, sizeof head);
    memcpy(head, m->head, p.known);
    if (m->opcode == RDMAP_ATOMIC_REQUEST) {
        struct rdmap_atomic_request a;
        rdmap_atomic_request_unpack(head, &a);
        p.id = a.id;
    } else {
        rdmap_read_request_unpack(head, &p.req);
    }
    return p;
}

static void check_depth(struct dump *d, struct conn *c, unsigned dir, const struct msg *m)
{
    const struct rdma *x = c->h[dir].x;
    uint16_t limit = setup_read_limit(c, dir);
    if (limit != MPA_DEPTH_UNSET && x->reads > limit && !c->h[1 - dir].x->reads_unsure) {
        dump_find(d, dump_spot(m->at, (struct span){NULL, 0}), REQUIRE_OVER_ORD,
                  "%u requests without answer, the peer's IRD is %u", x->reads, limit);
    }
}

void reads_request(struct dump *d, struct conn *c, unsigned dir, struct msg *m)
{
    struct rdma *x = c->h[dir].x;
    bool atomic = m->opcode == RDMAP_ATOMIC_REQUEST;
    if (!atomic && m->opcode != RDMAP_READ_REQUEST) {
        return;
    }
    if (m->crc == CRC_BAD || (!m->whole_hdr && m->missing == 0) || !grow(x)) {
        x->reads_unsure = true;
        return;
    }
    x->reads_vague |= !m->whole_hdr;
    *pending(x, x->reads++) = note_request(m);
    x->reads_peak = max_u32(x->reads_peak, x->reads);
    if (rdma_ready(c, 1 - dir)) {
        check_depth(d, c, dir, m);
    }
}

static bool is_whole(const struct pending_read *p)
{
    return p->known >= (p->opcode == RDMAP_ATOMIC_REQUEST ? (uint32_t)RDMAP_ATOMIC_REQUEST_LEN
                                                          : (uint32_t)RDMAP_READ_REQUEST_LEN);
}

/* A request or a response that was cut: what is known of both agrees, and their order decides. */
static bool may_answer(const struct pending_read *p, const struct msg *m)
{
    uint8_t asked[12];
    uint8_t got[12];
    if (m->opcode == RDMAP_ATOMIC_RESPONSE) {
        return p->opcode == RDMAP_ATOMIC_REQUEST &&
               (p->known < 8 || m->head_len < 4 || p->id == get_be32(m->head));
    }
    put_be32(asked, p->req.sink_stag);
    put_be64(asked + 4, p->req.sink_to);
    put_be32(got, m->stag);
    put_be64(got + 4, m->to);
    return p->opcode == RDMAP_READ_REQUEST && !m->partial &&
           (m->bytes == 0 || memcmp(asked, got, min_u32(p->known, sizeof got)) == 0);
}

static bool answers(const struct pending_read *p, const struct msg *m, bool seen_all)
{
    bool cut = m->opcode == RDMAP_ATOMIC_RESPONSE && !m->whole_hdr;
    if (cut || !is_whole(p)) {
        return seen_all && may_answer(p, m);
    }
    if (m->opcode == RDMAP_ATOMIC_RESPONSE) {
        return p->opcode == RDMAP_ATOMIC_REQUEST && p->id == m->result.id;
    }
    if (p->opcode != RDMAP_READ_REQUEST) {
        return false;
    }
    /* STag and TO of an empty response mean nothing (RFC 5041 sec 5.2). */
    bool empty = m->bytes == 0 && p->req.len == 0;
    if (m->partial) { /* the end of it */
        return p->req.sink_stag == m->stag && m->to - p->req.sink_to < (uint64_t)p->req.len + 1;
    }
    return empty || (p->req.sink_stag == m->stag && p->req.sink_to == m->to);
}

/* The request of the message, by its place in the ring; -1: none. Looking far is only for what comes
 * behind a gap, so that a flood of requests costs no more than itself. */
static int find(struct rdma *x, const struct rdma *answerer, const struct msg *m)
{
    bool seen_all = !x->reads_unsure && !answerer->reads_unsure && m->crc != CRC_BAD;
    for (uint32_t i = 0; i < min_u32(x->reads, 256); i++) {
        if (answers(pending(x, i), m, seen_all)) {
            return (int)i;
        }
    }
    return -1;
}

static void complain(struct dump *d, struct conn *c, unsigned dir, struct msg *m)
{
    struct rdma *asker = c->h[1 - dir].x;
    struct span none = {NULL, 0};
    bool unsure =
        asker != NULL ? asker->reads_unsure || asker->reads_vague : c->h[1 - dir].s.searched;
    if (unsure || c->h[dir].x->reads_unsure || m->crc == CRC_BAD || c->h[1 - dir].r.head != NULL) {
        return; /* the request may be among what was not seen */
    }
    if (m->opcode == RDMAP_ATOMIC_RESPONSE) {
        dump_find(d, dump_spot(m->at, none), REQUIRE_ATOMIC_ID, "no Atomic Request 0x%08x is open",
                  m->result.id);
    } else if (asker == NULL || asker->reads == 0) {
        dump_find(d, dump_spot(m->at, none), REQUIRE_READ_ASKED, "no Read Request is open");
    } else {
        const struct pending_read *p = pending(asker, 0);
        bool stag = p->req.sink_stag != m->stag;
        dump_find(d, dump_spot(m->at, none), stag ? REQUIRE_READ_STAG : REQUIRE_READ_TO,
                  "STag 0x%08x TO 0x%llx, the request has 0x%08x 0x%llx", m->stag,
                  (unsigned long long)m->to, p->req.sink_stag, (unsigned long long)p->req.sink_to);
    }
}

/* A Read that the answer skipped gets none. */
static void take(struct rdma *x, unsigned i)
{
    x->read_head = (x->read_head + i + 1) % x->read_cap;
    x->reads -= i + 1;
}

static void fill_read(struct dump *d, struct conn *c, unsigned dir, struct msg *m)
{
    bool lossy = m->partial || m->crc == CRC_BAD;
    if (m->bytes != m->req.len && !lossy) {
        dump_find(d, dump_spot(m->at, (struct span){NULL, 0}), REQUIRE_READ_WHOLE,
                  "%llu octets, asked for were %u", (unsigned long long)m->bytes, m->req.len);
    }
    if (m->req.len > 0) {
        struct region r = {.stag = m->req.src_stag,
                           .dir = 1 - dir,
                           .low = m->req.src_to,
                           .high = m->req.src_to + m->req.len,
                           .messages = 1,
                           .bytes = m->req.len};
        stats_region(c->stats, &r);
    }
}

void reads_response(struct dump *d, struct conn *c, unsigned dir, struct msg *m)
{
    if (m->opcode != RDMAP_READ_RESPONSE && m->opcode != RDMAP_ATOMIC_RESPONSE) {
        return;
    }
    struct rdma *asker = c->h[1 - dir].x;
    int i = asker == NULL ? -1 : find(asker, c->h[dir].x, m);
    if (i < 0) {
        complain(d, c, dir, m);
        return;
    }
    if (i > 0 && !c->h[dir].x->reads_unsure && !asker->reads_vague && m->crc != CRC_BAD) {
        dump_find(d, dump_spot(m->at, (struct span){NULL, 0}), REQUIRE_READ_ORDER,
                  "%d older requests have no answer yet", i);
    }
    const struct pending_read p = *pending(asker, (uint32_t)i);
    take(asker, (unsigned)i);
    m->req = p.req;
    if (m->opcode == RDMAP_READ_RESPONSE) {
        m->whole_hdr = is_whole(&p);
    }
    m->partial &= m->opcode != RDMAP_READ_RESPONSE || m->to != p.req.sink_to;
    m->request_frame = p.frame;
    m->answered = m->at.ns >= p.ns;
    m->latency_ns = m->answered ? m->at.ns - p.ns : 0;
    if (m->answered) {
        stats_latency(c->stats, 1 - dir, m->latency_ns);
    }
    if (m->opcode == RDMAP_READ_RESPONSE && m->whole_hdr) {
        fill_read(d, c, dir, m);
    }
}
