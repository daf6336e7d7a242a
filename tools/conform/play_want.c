/* SPDX-License-Identifier: MIT */
/* `>`: messages that must come. A message may come in any number of segments. */
#include <stdlib.h>

#include "octets.h"
#include "play_int.h"

/* --- in words --- */

void play_describe(struct play *p, char *out, size_t room)
{
    const struct ddp_seg *s = &p->in.seg;
    unsigned op = rdmap_opcode(s->hdr.ulp);
    struct rdmap_term t;
    if (p->in.v.bad) {
        snprintf(out, room, "a segment with DDP version %u", s->hdr.version);
    } else if (op == RDMAP_TERMINATE && rdmap_term_unpack(s->payload, &t)) {
        snprintf(out, room, "a Terminate %u/%u/%02x (%s)", t.v.layer, t.v.type, t.v.code,
                 verdict_text(t.v));
    } else if (s->hdr.tagged) {
        snprintf(out, room, "a %s of %u octets to STag %08x, offset 0x%llx", rdmap_opcode_text(op),
                 s->plen, s->hdr.stag, (unsigned long long)s->hdr.to);
    } else {
        snprintf(out, room, "a %s of %u octets, queue %u, MSN %u, MO %u", rdmap_opcode_text(op),
                 s->plen, s->hdr.qn, s->hdr.msn, s->hdr.mo);
    }
}

bool play_instead(struct play *p, const struct script_line *l, enum play_got got, const char *what)
{
    enum tr_state s = play_state(p, p->now);
    if (got == PLAY_BAD) {
        return false;
    }
    if (got == PLAY_NONE) {
        return play_fail(p, l, "no %s came in time", what);
    }
    return play_fail(p, l, "no %s came: TCP was %s%s", what,
                     s == TR_RESET ? "reset" : "closed in good order",
                     p->now->have > 0 ? " in the middle of an FPDU" : "");
}

/* --- one message, segment by segment --- */

struct incoming {
    const char *what;
    unsigned op;
    bool tagged;
    uint32_t qn, n, fpdus;
    uint32_t stag;
    uint64_t to;
    uint32_t odd; /* size of a segment that is neither the last nor a full one */
};

static bool wrong(struct play *p, const struct script_line *l, const struct incoming *m,
                  const char *why)
{
    char got[200];
    play_describe(p, got, sizeof got);
    return play_fail(p, l, "want %s: %s; %s came", m->what, why, got);
}

static bool fits_tagged(struct play *p, const struct script_line *l, struct incoming *m)
{
    const struct ddp_hdr *h = &p->in.seg.hdr;
    if (m->fpdus == 0) {
        m->stag = h->stag;
        m->to = h->to;
    }
    if (h->stag != m->stag || h->to != m->to + m->n) {
        return wrong(p, l, m, "the segments do not follow on each other");
    }
    return true;
}

static bool fits_untagged(struct play *p, const struct script_line *l, struct incoming *m)
{
    const struct ddp_hdr *h = &p->in.seg.hdr;
    if (h->qn != m->qn) {
        return wrong(p, l, m, "other queue number");
    }
    if (m->fpdus == 0 && script_has(l, "msn")) {
        p->now->rx_msn[m->qn] = play_field32(p, l, "msn", 0);
    }
    if (h->msn != p->now->rx_msn[m->qn]) {
        return wrong(p, l, m, "wrong MSN");
    }
    return h->mo == m->n || wrong(p, l, m, "wrong MO");
}

static bool fits(struct play *p, const struct script_line *l, struct incoming *m)
{
    const struct ddp_hdr *h = &p->in.seg.hdr;
    if (p->in.v.bad || h->ulp >> 6 != RDMAP_VERSION) {
        return wrong(p, l, m, "wrong version");
    }
    if (rdmap_opcode(h->ulp) != m->op || h->tagged != m->tagged) {
        return wrong(p, l, m, "other message");
    }
    if (m->n + p->in.seg.plen > PLAY_MESSAGE) {
        return wrong(p, l, m, "the message does not end");
    }
    uint64_t full = play_field(p, l, "mulpdu", 16, p->in.n);
    if (!h->last && p->in.n != full) {
        m->odd = p->in.n;
    }
    return m->tagged ? fits_tagged(p, l, m) : fits_untagged(p, l, m);
}

static bool collect(struct play *p, const struct script_line *l, struct incoming *m, bool writes0)
{
    uint64_t until = play_until(p, l, 0);
    do {
        enum play_got got = play_fpdu(p, l, until, writes0);
        if (got != PLAY_GOT) {
            return play_instead(p, l, got, m->what);
        }
        if (!fits(p, l, m)) {
            return false;
        }
        struct cursor c = p->in.seg.payload;
        cursor_take(&c, p->in.seg.plen, p->want + m->n);
        m->n += p->in.seg.plen;
        m->fpdus++;
    } while (!p->in.seg.hdr.last);
    if (!m->tagged) {
        p->now->rx_msn[m->qn]++;
    }
    play_set(p, "mlen", m->n);
    play_set(p, "mstag", m->stag);
    play_set(p, "mto", m->to);
    return true;
}

static bool compare(struct play *p, const struct script_line *l, const struct incoming *m)
{
    uint32_t n;
    uint64_t len = play_field32(p, l, "len", m->n), fpdus = play_field32(p, l, "fpdus", m->fpdus);
    if (len != m->n) {
        return play_fail(p, l, "%s of %u octets, must be %llu", m->what, m->n,
                         (unsigned long long)len);
    }
    if (m->odd != 0) {
        return play_fail(p, l, "a segment of the %s has %u octets, a full one has %s", m->what,
                         m->odd, script_word(l, "mulpdu", ""));
    }
    if (fpdus != m->fpdus) {
        return play_fail(p, l, "%s in %u FPDUs, must be %llu", m->what, m->fpdus,
                         (unsigned long long)fpdus);
    }
    if (!play_has_octets(l, 1)) {
        return true;
    }
    if (!play_octets(p, l, 1, p->msg, &n)) {
        return false;
    }
    if (n != m->n) {
        return play_fail(p, l, "%s of %u octets, must be %u", m->what, m->n, n);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (p->msg[i] != p->want[i]) {
            return play_fail(p, l, "octet %u of the %s is %02x, must be %02x", i, m->what,
                             p->want[i], p->msg[i]);
        }
    }
    return true;
}

static bool is_field(struct play *p, const struct script_line *l, const char *what, uint64_t got,
                     uint64_t want)
{
    return got == want || play_fail(p, l, "%s is 0x%llx, must be 0x%llx", what,
                                    (unsigned long long)got, (unsigned long long)want);
}

/* --- the kinds --- */

static bool want_send(struct play *p, const struct script_line *l)
{
    bool se = play_flag(p, l, "se", false), inv = script_has(l, "inv");
    struct incoming m = {.what = "Send", .qn = DDP_QN_SEND};
    m.op = se ? (inv ? RDMAP_SEND_SE_INV : RDMAP_SEND_SE) : (inv ? RDMAP_SEND_INV : RDMAP_SEND);
    return collect(p, l, &m, false) &&
           (!inv || is_field(p, l, "the Invalidate STag", p->in.seg.hdr.ulp32,
                             play_stag(p, l, "inv", 0))) &&
           compare(p, l, &m);
}

static bool want_imm(struct play *p, const struct script_line *l)
{
    bool se = play_flag(p, l, "se", false);
    struct incoming m = {.what = "Immediate Data",
                         .qn = DDP_QN_SEND,
                         .op = se ? RDMAP_IMMEDIATE_SE : RDMAP_IMMEDIATE};
    return collect(p, l, &m, false) && compare(p, l, &m);
}

static bool want_write(struct play *p, const struct script_line *l)
{
    struct incoming m = {.what = "Write", .op = RDMAP_WRITE, .tagged = true};
    bool empty = play_field32(p, l, "len", 1) == 0;
    if (!collect(p, l, &m, empty) ||
        !is_field(p, l, "the STag", m.stag, play_stag(p, l, "stag", m.stag)) ||
        !is_field(p, l, "the offset", m.to, play_num(p, l, "to", m.to))) {
        return false;
    }
    return compare(p, l, &m);
}

static bool want_read_request(struct play *p, const struct script_line *l)
{
    struct play_stream *st = p->now;
    struct incoming m = {.what = "Read Request", .op = RDMAP_READ_REQUEST, .qn = DDP_QN_REQUEST};
    if (!collect(p, l, &m, false)) {
        return false;
    }
    if (m.n != RDMAP_READ_REQUEST_LEN) {
        return play_fail(p, l, "a Read Request header of %u octets, must be 28", m.n);
    }
    struct rdmap_read_request r;
    rdmap_read_request_unpack(p->want, &r);
    if (st->asked_cnt < PLAY_READS) {
        st->asked[st->asked_cnt++] = r;
    }
    play_set(p, "rlen", r.len);
    play_set(p, "rsinkstag", r.sink_stag);
    play_set(p, "rsinkto", r.sink_to);
    return is_field(p, l, "RDMARDSZ", r.len, play_field32(p, l, "len", r.len)) &&
           is_field(p, l, "SrcSTag", r.src_stag, play_stag(p, l, "stag", r.src_stag)) &&
           is_field(p, l, "SrcTO", r.src_to, play_num(p, l, "to", r.src_to));
}

static bool want_read_response(struct play *p, const struct script_line *l)
{
    struct play_stream *st = p->now;
    struct rdmap_read_request r = {.len = 0};
    struct incoming m = {.what = "Read Response", .op = RDMAP_READ_RESPONSE, .tagged = true};
    if (st->asking_cnt > 0) {
        r = st->asking[0];
        memmove(st->asking, st->asking + 1, --st->asking_cnt * sizeof *st->asking);
    }
    return collect(p, l, &m, false) &&
           is_field(p, l, "the STag", m.stag, play_stag(p, l, "stag", r.sink_stag)) &&
           is_field(p, l, "the offset", m.to, play_num(p, l, "to", r.sink_to)) &&
           is_field(p, l, "the length", m.n, play_field32(p, l, "len", r.len)) && compare(p, l, &m);
}

static bool want_atomic(struct play *p, const struct script_line *l)
{
    struct incoming m = {
        .what = "Atomic Request", .op = RDMAP_ATOMIC_REQUEST, .qn = DDP_QN_REQUEST};
    struct rdmap_atomic_request r;
    if (!collect(p, l, &m, false)) {
        return false;
    }
    if (m.n != RDMAP_ATOMIC_REQUEST_LEN) {
        return play_fail(p, l, "an Atomic Request header of %u octets, must be 52", m.n);
    }
    rdmap_atomic_request_unpack(p->want, &r);
    p->atomic_id = r.id;
    return is_field(p, l, "AOpCode", r.op, play_field(p, l, "aop", 4, r.op)) &&
           is_field(p, l, "the STag", r.stag, play_stag(p, l, "stag", r.stag)) &&
           is_field(p, l, "the offset", r.to, play_num(p, l, "to", r.to)) &&
           is_field(p, l, "Add or Swap Data", r.data, play_num(p, l, "data", r.data)) &&
           is_field(p, l, "Add or Swap Mask", r.mask, play_num(p, l, "mask", r.mask)) &&
           is_field(p, l, "Compare Data", r.compare, play_num(p, l, "cmp", r.compare)) &&
           is_field(p, l, "Compare Mask", r.compare_mask, play_num(p, l, "cmask", r.compare_mask));
}

static bool want_atomic_response(struct play *p, const struct script_line *l)
{
    struct incoming m = {
        .what = "Atomic Response", .op = RDMAP_ATOMIC_RESPONSE, .qn = DDP_QN_ATOMIC};
    struct rdmap_atomic_response r;
    if (!collect(p, l, &m, false)) {
        return false;
    }
    if (m.n != RDMAP_ATOMIC_RESPONSE_LEN) {
        return play_fail(p, l, "an Atomic Response header of %u octets, must be 12", m.n);
    }
    rdmap_atomic_response_unpack(p->want, &r);
    return is_field(p, l, "the Request Identifier", r.id, play_field32(p, l, "id", 1)) &&
           is_field(p, l, "the original value", r.original, play_num(p, l, "value", r.original));
}

/* The Initiator's first message in the peer-to-peer model. */
static bool want_rtr(struct play *p, const struct script_line *l)
{
    const char *kind = script_plain(l, 1);
    struct incoming m = {.what = "zero-length Write as RTR", .op = RDMAP_WRITE, .tagged = true};
    if (kind != NULL && strcmp(kind, "read") == 0) {
        struct script_line read = *l;
        return want_read_request(p, &read) && is_field(p, l, "RDMARDSZ", p->want[12], 0);
    }
    if (kind != NULL && strcmp(kind, "send") == 0) {
        m = (struct incoming){.what = "zero-length Send as RTR", .op = RDMAP_SEND};
    }
    return collect(p, l, &m, true) && is_field(p, l, "the RTR's length", m.n, 0);
}

bool play_want_message(struct play *p, const struct script_line *l, const char *what)
{
    static const struct {
        const char *word;
        bool (*want)(struct play *, const struct script_line *);
    } kinds[] = {
        {"send", want_send},
        {"write", want_write},
        {"readreq", want_read_request},
        {"readresp", want_read_response},
        {"imm", want_imm},
        {"atomic", want_atomic},
        {"atomicresp", want_atomic_response},
        {"rtr", want_rtr},
    };
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i].word, what) == 0) {
            return kinds[i].want(p, l);
        }
    }
    return play_wrong(p, l, "unknown message '%s'", what);
}

/* The limit of a line is that of the message that stands for it. */
static void take_limit(struct script_line *to, const struct script_line *l)
{
    const char *limit = script_word(l, "limit", NULL);
    if (limit != NULL) {
        to->arg[to->cnt++] = (struct script_arg){.key = "limit", .val = limit};
    }
}

/* Where no depths were agreed upon, a server may have an IRD of 0 (rping has): then the Terminate for
 * the Read that is one too many shows as well that all before it was taken. */
static bool alive_or_no_ird(struct play *p, const struct script_line *l)
{
    struct script_line either = {.line = l->line,
                                 .word = ">",
                                 .soft = l->soft,
                                 .arg = {{.key = "", .val = "terminate"},
                                         {.key = "", .val = "0/2/07"},
                                         {.key = "", .val = "alive"},
                                         {.key = "hdr", .val = "any"}},
                                 .cnt = 4};
    take_limit(&either, l);
    return play_want_terminate(p, &either);
}

/* A Read of nothing must be answered, and by nothing else. */
bool play_alive(struct play *p, const struct script_line *l)
{
    if (!p->cfg->responder && !p->now->theirs.enhanced) {
        return alive_or_no_ird(p, l);
    }
    struct script_line resp = {.line = l->line, .word = ">", .soft = l->soft};
    take_limit(&resp, l);
    if (!play_read0(p)) {
        return play_fail(p, l, "the octets cannot be sent");
    }
    play_will_want(p, &resp, "readresp");
    return want_read_response(p, &resp);
}
