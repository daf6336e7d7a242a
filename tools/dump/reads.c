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

/* A Read that the answer skipped gets none. */
static void take(struct rdma *x, unsigned i)
{
    x->read_head = (x->read_head + i + 1) % x->read_cap;
    x->reads -= i + 1;
}

/* Whether requests or answers may be among what was not seen: for good, or what may come yet. */
static bool lost(const struct conn *c)
{
    const struct half *h = c->h;
    return (h[0].x != NULL ? h[0].x->reads_unsure : h[0].s.searched) ||
           (h[1].x != NULL ? h[1].x->reads_unsure : h[1].s.searched);
}

static bool lacks(const struct conn *c)
{
    return reasm_lacks(&c->h[0]) || reasm_lacks(&c->h[1]);
}

static void check_depth(struct dump *d, struct conn *c, unsigned dir, const struct msg *m)
{
    struct rdma *x = c->h[dir].x;
    uint16_t limit = setup_read_limit(c, dir);
    if (limit == MPA_DEPTH_UNSET || limit == 0 || x->reads <= limit) {
        return;
    }
    if (lost(c)) {
        take(x, 0); /* the oldest one's answer is among what was lost */
    } else if (!lacks(c)) {
        dump_find(d, dump_spot(m->at, (struct span){NULL, 0}), REQUIRE_OVER_ORD,
                  "%u requests without answer, the peer's IRD is %u", x->reads, limit);
    }
}

/* Whether the answer to what that end's stream has just given was seen long ago. */
static bool is_answered(struct half *h)
{
    if (h->early == 0 || (int32_t)(h->r.next - h->early_seq) > 0) {
        h->early = 0;
        return false;
    }
    h->early--;
    return true;
}

void reads_request(struct dump *d, struct conn *c, unsigned dir, struct msg *m)
{
    struct rdma *x = c->h[dir].x;
    bool atomic = m->opcode == RDMAP_ATOMIC_REQUEST;
    if (!atomic && m->opcode != RDMAP_READ_REQUEST) {
        return;
    }
    if (is_answered(&c->h[dir])) {
        return;
    }
    if (m->crc == CRC_BAD || (!m->whole_hdr && m->missing == 0) || !grow(x)) {
        x->reads_unsure = true;
        return;
    }
    x->reads_vague |= !m->whole_hdr;
    *pending(x, x->reads++) = note_request(m);
    if (rdma_ready(c, 1 - dir)) {
        check_depth(d, c, dir, m);
    }
    if (!lacks(c)) {
        x->reads_peak = max_u32(x->reads_peak, x->reads);
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
    bool other = m->opcode == RDMAP_READ_RESPONSE && !m->partial && m->bytes != p->req.len;
    if (p->frame > m->at.frame || (!seen_all && is_whole(p) && other)) {
        return false;
    }
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

/* The request of the message, by its place in the ring; -1: none; *several: it may be a younger one. Looking far is only for what comes
 * behind a gap, so that a flood of requests costs no more than itself. */
static int find(struct rdma *x, const struct msg *m, bool seen_all, bool *several)
{
    int first = -1;
    for (uint32_t i = 0; i < min_u32(x->reads, 256); i++) {
        if (!answers(pending(x, i), m, seen_all)) {
            continue;
        }
        *several = first >= 0;
        first = first < 0 ? (int)i : first;
        if (seen_all || *several) {
            break; /* in order: the first it is */
        }
    }
    return first;
}

static void complain(struct dump *d, struct conn *c, unsigned dir, struct msg *m)
{
    struct rdma *asker = c->h[1 - dir].x;
    struct span none = {NULL, 0};
    struct half *from = &c->h[1 - dir];
    if (reasm_lacks(from)) {
        from->early++;
        from->early_seq = from->r.acked;
    }
    bool unsure =
        asker != NULL ? asker->reads_unsure || asker->reads_vague : c->h[1 - dir].s.searched;
    if (unsure || c->h[dir].x->reads_unsure || m->crc == CRC_BAD || reasm_lacks(from)) {
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

static void fill_read(struct dump *d, struct conn *c, unsigned dir, struct msg *m, bool lossy)
{
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

bool reads_begins(const struct conn *c, unsigned dir, const struct ddp_hdr *h)
{
    struct rdma *asker = c->h[1 - dir].x;
    for (uint32_t i = 0; asker != NULL && i < min_u32(asker->reads, 256); i++) {
        const struct pending_read *p = pending(asker, i);
        if (is_whole(p) && p->opcode == RDMAP_READ_REQUEST && p->req.sink_stag == h->stag &&
            p->req.sink_to == h->to) {
            return true;
        }
    }
    return false;
}

void reads_response(struct dump *d, struct conn *c, unsigned dir, struct msg *m)
{
    if (m->opcode != RDMAP_READ_RESPONSE && m->opcode != RDMAP_ATOMIC_RESPONSE) {
        return;
    }
    struct rdma *asker = c->h[1 - dir].x;
    bool several = false;
    bool seen_all = !lost(c) && !lacks(c) && m->crc != CRC_BAD;
    int i = asker == NULL ? -1 : find(asker, m, seen_all, &several);
    if (i < 0) {
        complain(d, c, dir, m);
        return;
    }
    if (i > 0 && seen_all && !asker->reads_vague) {
        dump_find(d, dump_spot(m->at, (struct span){NULL, 0}), REQUIRE_READ_ORDER,
                  "%d older requests have no answer yet", i);
    }
    const struct pending_read p = *pending(asker, (uint32_t)i);
    take(asker, (unsigned)i);
    if (several) {
        return; /* no time is better than a wrong one */
    }
    m->req = p.req;
    if (m->opcode == RDMAP_READ_RESPONSE) {
        m->whole_hdr = is_whole(&p);
    }
    bool lossy = m->partial || m->crc == CRC_BAD;
    m->partial &= m->opcode != RDMAP_READ_RESPONSE || m->to != p.req.sink_to;
    m->request_frame = p.frame;
    m->answered = m->at.ns >= p.ns;
    m->latency_ns = m->answered ? m->at.ns - p.ns : 0;
    if (m->answered) {
        stats_latency(c->stats, 1 - dir, m->latency_ns);
    }
    if (m->opcode == RDMAP_READ_RESPONSE && m->whole_hdr) {
        fill_read(d, c, dir, m, lossy);
    }
}
