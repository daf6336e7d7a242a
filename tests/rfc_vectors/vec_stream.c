/* SPDX-License-Identifier: MIT */
/* Vectors of FPDUs: MPA framing, then the DDP and RDMAP headers in them, taken apart and built. */
#include "mpa/mpa_rx.h"
#include "mpa/mpa_tx.h"
#include "rdmap/rdmap_hdr.h"
#include "rdmap/rdmap_term.h"

#include "vec.h"

enum { ULPDU_MAX = 65536 };

/* The lines that begin an FPDU; the others say what is in the one before. */
static bool begins_fpdu(const struct vec_line *l)
{
    return vec_is(l, "tagged") || vec_is(l, "untagged") || vec_is(l, "ulpdu") || vec_is(l, "bad") ||
           vec_is(l, "more");
}

/* The line of that kind which belongs to the FPDU of event i. */
static struct vec_line *part(struct vec *v, unsigned i, const char *what)
{
    for (i++; i < v->ev_cnt && !begins_fpdu(&v->ev[i]); i++) {
        if (vec_is(&v->ev[i], what)) {
            return &v->ev[i];
        }
    }
    return NULL;
}

static unsigned next_fpdu(const struct vec *v, unsigned i)
{
    for (i++; i < v->ev_cnt && !begins_fpdu(&v->ev[i]); i++) {
    }
    return i;
}

/* --- what the lines describe --- */

static struct rdmap_read_request describe_read(struct vec *v, struct vec_line *l)
{
    return (struct rdmap_read_request){
        .sink_stag = (uint32_t)vec_num(v, l, "sink_stag", 0),
        .sink_to = vec_num(v, l, "sink_to", 0),
        .len = (uint32_t)vec_num(v, l, "len", 0),
        .src_stag = (uint32_t)vec_num(v, l, "src_stag", 0),
        .src_to = vec_num(v, l, "src_to", 0),
    };
}

static void describe_header(struct vec *v, struct vec_line *l, struct ddp_hdr *h)
{
    *h = (struct ddp_hdr){
        .tagged = vec_is(l, "tagged"),
        .last = vec_num(v, l, "last", 1) != 0,
        .version = (uint8_t)vec_num(v, l, "dv", DDP_VERSION),
        .ulp = (uint8_t)vec_num(v, l, "ctl", 0),
    };
    if (h->tagged) {
        h->stag = (uint32_t)vec_num(v, l, "stag", 0);
        h->to = vec_num(v, l, "to", 0);
    } else {
        h->ulp32 = (uint32_t)vec_num(v, l, "inv", 0);
        h->qn = (uint32_t)vec_num(v, l, "qn", 0);
        h->msn = (uint32_t)vec_num(v, l, "msn", 0);
        h->mo = (uint32_t)vec_num(v, l, "mo", 0);
    }
}

/* What our own code makes of a terminate line. */
static uint32_t build_terminate(struct vec *v, unsigned i, uint8_t *out)
{
    struct vec_line *l = part(v, i, "terminate"), *cause_line = part(v, i, "cause");
    struct rdmap_cause cause = {.seg_len = (uint32_t)vec_num(v, l, "len", 0)};
    cause.ddp_len = vec_octets(v, l, "ddp", cause.ddp, sizeof cause.ddp);
    if (cause_line != NULL) {
        struct rdmap_read_request r = describe_read(v, cause_line);
        rdmap_read_request_pack(&r, cause.read);
        cause.has_read = true;
    }
    return rdmap_term_pack(vec_verdict(v, l, ""), &cause, out);
}

/* The segment's payload as event i and its parts tell it. */
static uint32_t describe_payload(struct vec *v, unsigned i, uint8_t out[ULPDU_MAX])
{
    struct vec_line *read = part(v, i, "readreq");
    if (read != NULL) {
        struct rdmap_read_request r = describe_read(v, read);
        rdmap_read_request_pack(&r, out);
        return RDMAP_READ_REQUEST_LEN;
    }
    if (part(v, i, "terminate") != NULL) {
        return build_terminate(v, i, out);
    }
    uint32_t n = vec_octets(v, &v->ev[i], "payload", out, ULPDU_MAX);
    for (unsigned k = i + 1; k < next_fpdu(v, i); k++) {
        if (vec_is(&v->ev[k], "payload")) {
            n += vec_octets(v, &v->ev[k], "", out + n, ULPDU_MAX - n);
        }
    }
    return n;
}

/* --- comparing --- */

static void check_read(struct vec *v, struct vec_line *l, const struct ddp_seg *seg)
{
    uint8_t raw[RDMAP_READ_REQUEST_LEN];
    struct cursor c = seg->payload;
    struct rdmap_read_request r;
    if (seg->plen != sizeof raw || !cursor_take(&c, sizeof raw, raw)) {
        vec_fail(v, l->line, "%u octets are no Read Request header", seg->plen);
        return;
    }
    rdmap_read_request_unpack(raw, &r);
    vec_want(v, l, "sink_stag", 0, r.sink_stag);
    vec_want(v, l, "sink_to", 0, r.sink_to);
    vec_want(v, l, "len", 0, r.len);
    vec_want(v, l, "src_stag", 0, r.src_stag);
    vec_want(v, l, "src_to", 0, r.src_to);
}

static void check_terminate(struct vec *v, unsigned i, const struct ddp_seg *seg)
{
    struct vec_line *l = part(v, i, "terminate"), *cause = part(v, i, "cause");
    struct rdmap_term t;
    uint8_t ddp[DDP_HDR_MAX], read[RDMAP_READ_REQUEST_LEN];
    if (!rdmap_term_unpack(seg->payload, &t)) {
        vec_fail(v, l->line, "%u octets are no Terminate", seg->plen);
        return;
    }
    vec_want_verdict(v, l, "", t.v);
    vec_want(v, l, "m", 0, t.m);
    vec_want(v, l, "d", 0, t.d);
    vec_want(v, l, "r", 0, t.r);
    vec_want(v, l, "len", 0, t.seg_len);
    uint32_t n = vec_octets(v, l, "ddp", ddp, sizeof ddp);
    vec_want_octets(v, l->line, (struct span){ddp, n}, (struct span){t.ddp, t.ddp_len});
    if (t.host_order) {
        vec_fail(v, l->line, "taken for the other bit order");
    }
    if (t.has_read != (cause != NULL)) {
        vec_fail(v, l->line, "a Read Request header is %s", t.has_read ? "there" : "missing");
    } else if (cause != NULL) {
        struct rdmap_read_request r = describe_read(v, cause);
        rdmap_read_request_pack(&r, read);
        vec_want_octets(v, cause->line, (struct span){read, sizeof read},
                        (struct span){t.read, sizeof t.read});
    }
}

static void check_header(struct vec *v, struct vec_line *l, const struct ddp_hdr *h)
{
    vec_want(v, l, "last", 1, h->last);
    vec_want(v, l, "dv", DDP_VERSION, h->version);
    vec_want(v, l, "ctl", 0, h->ulp);
    if (h->tagged != vec_is(l, "tagged")) {
        vec_fail(v, l->line, "segment is %s", h->tagged ? "tagged" : "untagged");
    } else if (h->tagged) {
        vec_want(v, l, "stag", 0, h->stag);
        vec_want(v, l, "to", 0, h->to);
    } else {
        vec_want(v, l, "inv", 0, h->ulp32);
        vec_want(v, l, "qn", 0, h->qn);
        vec_want(v, l, "msn", 0, h->msn);
        vec_want(v, l, "mo", 0, h->mo);
    }
}

static void check_payload(struct vec *v, unsigned i, const struct ddp_seg *seg)
{
    static uint8_t want[ULPDU_MAX], got[ULPDU_MAX];
    struct vec_line *read = part(v, i, "readreq");
    if (read != NULL) {
        check_read(v, read, seg);
    } else if (part(v, i, "terminate") != NULL) {
        check_terminate(v, i, seg);
    } else {
        struct cursor c = seg->payload;
        uint32_t n = describe_payload(v, i, want);
        cursor_take(&c, seg->plen, got);
        vec_want_octets(v, v->ev[i].line, (struct span){want, n}, (struct span){got, seg->plen});
    }
}

/* A ULPDU with a DDP header, or one that is too short for it. */
static void check_ulpdu(struct vec *v, unsigned i, const struct mpa_ulpdu *u)
{
    static uint8_t want[ULPDU_MAX], got[ULPDU_MAX];
    struct vec_line *l = &v->ev[i];
    struct ddp_seg seg;
    struct cursor c = cursor_of(u->v, u->cnt);
    vec_want(v, l, "markers", 0, u->markers);
    if (c.left != u->len) {
        vec_fail(v, l->line, "ULPDU of %u octets in %u octets of pieces", u->len, c.left);
        return;
    }
    struct verdict ddp = ddp_seg_parse(c, &seg);
    vec_want_verdict(v, l, "ddp", ddp);
    if (vec_is(l, "ulpdu")) {
        uint32_t n = vec_octets(v, l, "octets", want, sizeof want);
        cursor_take(&c, u->len, got);
        vec_want_octets(v, l->line, (struct span){want, n}, (struct span){got, u->len});
        return;
    }
    if (seg.len != u->len || seg.plen > seg.len || seg.raw_len == 0) {
        vec_fail(v, l->line, "segment of %u octets, header %u", seg.len, seg.raw_len);
        return;
    }
    check_header(v, l, &seg.hdr);
    if (!ddp.bad) {
        vec_want_verdict(v, l, "rdmap", rdmap_check_control(&seg.hdr, true));
    }
    check_payload(v, i, &seg);
}

/* --- parsing --- */

static struct mpa_ulpdu ulpdu;

static struct mpa_rx receiver(struct vec *v)
{
    struct mpa_rx rx;
    mpa_rx_init(&rx, vec_num(v, &v->cfg, "markers", 0) != 0, vec_num(v, &v->cfg, "crc", 1) != 0);
    rx.pos = (uint32_t)vec_num(v, &v->cfg, "pos", 0);
    return rx;
}

/* Compares one answer of mpa_rx_next() with event i. */
static void check_answer(struct vec *v, unsigned i, enum mpa_rx_result res, struct verdict why)
{
    static const char *const words[] = {"more", "an FPDU", "bad"};
    struct vec_line *l = &v->ev[i];
    enum mpa_rx_result want = vec_is(l, "more")  ? MPA_RX_MORE
                              : vec_is(l, "bad") ? MPA_RX_BAD
                                                 : MPA_RX_ULPDU;
    if (res != want) {
        vec_fail(v, l->line, "%s was seen (%s), must be %s", words[res],
                 verdict_text(res == MPA_RX_BAD ? why : VERDICT_OK), words[want]);
    } else if (res == MPA_RX_BAD) {
        vec_want_verdict(v, l, "", why);
    } else if (res == MPA_RX_ULPDU) {
        check_ulpdu(v, i, &ulpdu);
    }
}

static void parse(struct vec *v, struct cursor in)
{
    struct mpa_rx rx = receiver(v);
    bool open = true;
    for (unsigned i = 0; i < v->ev_cnt && v->faults == 0; i = next_fpdu(v, i)) {
        struct verdict why = VERDICT_OK;
        enum mpa_rx_result res = mpa_rx_next(&rx, &in, &ulpdu, &why);
        check_answer(v, i, res, why);
        open = res == MPA_RX_ULPDU;
    }
    if (open && v->faults == 0 && in.left > 0) {
        vec_fail(v, 1, "%u octets are left", in.left);
    }
}

/* One octet more in every call; each FPDU must be seen with its last octet. */
static void parse_fed(struct vec *v)
{
    struct mpa_rx rx = receiver(v);
    unsigned i = 0;
    uint32_t used = 0;
    v->how = "fed octet by octet";
    for (uint32_t have = 0; have <= v->n && v->faults == 0; have++) {
        struct span piece = {v->bytes + used, have - used};
        struct cursor in = cursor_of(&piece, 1);
        struct verdict why = VERDICT_OK;
        bool enough = mpa_rx_need(&rx, in) <= in.left;
        enum mpa_rx_result res = mpa_rx_next(&rx, &in, &ulpdu, &why);
        if (enough != (res != MPA_RX_MORE)) {
            vec_fail(v, 1, "mpa_rx_need() and mpa_rx_next() differ at octet %u", have);
        }
        if (res == MPA_RX_MORE) {
            continue;
        }
        if (i >= v->ev_cnt) {
            vec_fail(v, 1, "more FPDUs than events");
            return;
        }
        check_answer(v, i, res, why);
        used = have - in.left;
        i = next_fpdu(v, i);
        if (res == MPA_RX_BAD) {
            break;
        }
    }
    if (v->faults == 0 && i < v->ev_cnt && !vec_is(&v->ev[i], "more")) {
        vec_fail(v, v->ev[i].line, "not seen");
    }
    v->runs++;
}

/* --- building --- */

static struct mpa_tx sender(struct vec *v)
{
    struct mpa_rx rx = receiver(v);
    struct mpa_tx tx;
    mpa_tx_init(&tx, rx.markers, rx.crc);
    tx.pos = rx.pos;
    return tx;
}

/* The octets of a ULPDU in which the payload stays where it is. */
struct made {
    uint8_t hdr[DDP_HDR_MAX];
    uint32_t hlen, plen;
    uint8_t payload[ULPDU_MAX];
};

static bool make(struct vec *v, unsigned i, struct made *m)
{
    struct vec_line *l = &v->ev[i];
    if (vec_is(l, "bad") || vec_is(l, "more")) {
        vec_fail(v, l->line, "octets by = but nothing to build");
        return false;
    }
    m->hlen = 0;
    if (vec_is(l, "ulpdu")) {
        m->plen = vec_octets(v, l, "octets", m->payload, sizeof m->payload);
        return true;
    }
    struct ddp_hdr h;
    describe_header(v, l, &h);
    m->hlen = ddp_hdr_pack(&h, m->hdr);
    m->plen = describe_payload(v, i, m->payload);
    return true;
}

/* By mpa_tx_copy(), or by mpa_tx_lend() with the three parts put together here. */
static uint32_t send_made(struct mpa_tx *tx, const struct made *m, bool lend, uint8_t *out)
{
    struct span s = {m->payload, m->plen};
    struct cursor c = cursor_of(&s, 1);
    if (!lend) {
        return mpa_tx_copy(tx, &(struct mpa_out){m->hdr, m->hlen, &c, m->plen}, out);
    }
    uint8_t tail[7];
    uint32_t t = mpa_tx_lend(tx, &(struct mpa_out){m->hdr, m->hlen, &c, m->plen}, out, tail);
    uint32_t at = MPA_LEN_FIELD + m->hlen;
    memcpy(out + at, m->payload, m->plen);
    memcpy(out + at + m->plen, tail, t);
    return at + m->plen + t;
}

static void build(struct vec *v, bool lend)
{
    static struct made m;
    static uint8_t out[VEC_BYTES + ULPDU_MAX + 1024];
    struct mpa_tx tx = sender(v);
    uint32_t n = 0;
    v->how = lend ? "built by reference" : "built";
    for (unsigned i = 0; i < v->ev_cnt && v->faults == 0; i = next_fpdu(v, i)) {
        if (n > VEC_BYTES || !make(v, i, &m)) {
            return;
        }
        n += send_made(&tx, &m, lend, out + n);
    }
    vec_want_octets(v, 1, (struct span){v->bytes, v->n}, (struct span){out, n});
    v->runs++;
}

static bool events_known(struct vec *v)
{
    for (unsigned i = 0; i < v->ev_cnt; i++) {
        const struct vec_line *l = &v->ev[i];
        bool inner = vec_is(l, "payload") || vec_is(l, "readreq") || vec_is(l, "terminate") ||
                     vec_is(l, "cause");
        if (!begins_fpdu(l) && (!inner || i == 0)) {
            vec_fail(v, l->line, "event '%s' is unknown, or out of place", l->what);
        }
    }
    return v->faults == 0;
}

void vec_run_stream(struct vec *v)
{
    if (!events_known(v)) {
        return;
    }
    vec_each_cut(v, MPA_ULPDU_SPANS - 200, parse);
    if (v->faults == 0) {
        parse_fed(v);
    }
    if (v->faults == 0 && v->build) {
        build(v, false);
        if (v->faults == 0 && !receiver(v).markers) {
            build(v, true);
        }
    }
}
