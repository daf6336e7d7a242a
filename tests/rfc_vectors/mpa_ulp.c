/* SPDX-License-Identifier: MIT */
/* The layers above the tested MPA, acted out: for each `>` of the file the ULPDUs of the message that it
 * describes are handed down. What MPA found itself is not acted: a Terminate of its kind needs a fault that
 * MPA has told, and TCP is closed for a bad frame only if MPA did so. */
#include <stdio.h>
#include <stdlib.h>

#include "mpa_world.h"
#include "octets.h"
#include "play_int.h"

enum { STAG = 0x1c0de, PLACE = 0x5000, ANY_LENGTH = 5 };

static uint8_t payload[PLAY_MESSAGE];

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* --- messages --- */

/* RFC 5044 sec 5.1: one segment holds the FPDU, unless it is too small for the least MULPDU. */
static void expect_to_fit(const struct tr_conn *c, uint32_t ulpdu)
{
    uint32_t size = mpa_tx_size(&c->end.tx, ulpdu);
    if (size > c->end.emss && ulpdu > MPA_MULPDU_MIN) {
        mpa_trouble(c->w, "an FPDU of %u octets for segments of %u", size, c->end.emss);
    }
}

/* Cut as the tested end's MSS has it. */
static void hand_down(struct play *p, struct ddp_hdr h, uint32_t n)
{
    struct tr_conn *c = p->now->conn;
    uint8_t hdr[DDP_HDR_MAX];
    uint32_t hlen = h.tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN, at = 0;
    uint32_t most = mpa_mulpdu(c->end.emss, c->end.tx.markers) - hlen;
    h.version = DDP_VERSION;
    do {
        uint32_t k = min_u32(n - at, most);
        h.last = at + k == n;
        ddp_hdr_pack(&h, hdr);
        expect_to_fit(c, hlen + k);
        if (!mpa_end_send(&c->end, (struct span){hdr, hlen}, (struct span){payload + at, k})) {
            mpa_trouble(c->w, "MPA does not take a ULPDU of %u octets", hlen + k);
        }
        c->w->down++;
        at += k;
        h.mo += k;
        h.to += k;
    } while (at < n);
}

/* The octets that the line wants, or so many of a pattern. */
static uint32_t octets_of(struct play *p, const struct script_line *l, uint64_t len)
{
    uint32_t n = 0;
    if (play_has_octets(l, 1)) {
        return play_octets(p, l, 1, payload, &n) ? n : 0;
    }
    n = (uint32_t)min_u64(play_field(p, l, "len", 32, len), sizeof payload);
    for (uint32_t i = 0; i < n; i++) {
        payload[i] = octets_pattern(i);
    }
    return n;
}

static struct ddp_hdr untagged(struct play *p, const struct script_line *l, unsigned op,
                               uint32_t qn)
{
    return (struct ddp_hdr){
        .ulp = rdmap_control(op), .qn = qn, .msn = play_field32(p, l, "msn", p->now->rx_msn[qn])};
}

static void send_send(struct play *p, const struct script_line *l)
{
    bool se = play_flag(p, l, "se", false), inv = script_has(l, "inv");
    unsigned op =
        inv ? (se ? RDMAP_SEND_SE_INV : RDMAP_SEND_INV) : (se ? RDMAP_SEND_SE : RDMAP_SEND);
    struct ddp_hdr h = untagged(p, l, op, DDP_QN_SEND);
    h.ulp32 = inv ? play_stag(p, l, "inv", 0) : 0;
    hand_down(p, h, octets_of(p, l, ANY_LENGTH));
}

static void send_imm(struct play *p, const struct script_line *l)
{
    bool se = play_flag(p, l, "se", false);
    struct ddp_hdr h = untagged(p, l, se ? RDMAP_IMMEDIATE_SE : RDMAP_IMMEDIATE, DDP_QN_SEND);
    hand_down(p, h, octets_of(p, l, RDMAP_IMMEDIATE_LEN));
}

static void send_write(struct play *p, const struct script_line *l)
{
    struct ddp_hdr h = {.tagged = true,
                        .ulp = rdmap_control(RDMAP_WRITE),
                        .stag = play_stag(p, l, "stag", STAG),
                        .to = play_num(p, l, "to", PLACE)};
    hand_down(p, h, octets_of(p, l, ANY_LENGTH));
}

static void send_read_request(struct play *p, const struct script_line *l, uint32_t len)
{
    const struct rdmap_read_request r = {.sink_stag = STAG,
                                         .sink_to = PLACE,
                                         .len = play_field32(p, l, "len", len),
                                         .src_stag = play_stag(p, l, "stag", STAG),
                                         .src_to = play_num(p, l, "to", PLACE)};
    rdmap_read_request_pack(&r, payload);
    hand_down(p, untagged(p, l, RDMAP_READ_REQUEST, DDP_QN_REQUEST), RDMAP_READ_REQUEST_LEN);
}

static void send_read_response(struct play *p, const struct script_line *l)
{
    const struct play_stream *st = p->now;
    struct rdmap_read_request r = {.len = 0};
    if (st->asking_cnt > 0) {
        r = st->asking[0];
    }
    struct ddp_hdr h = {.tagged = true,
                        .ulp = rdmap_control(RDMAP_READ_RESPONSE),
                        .stag = play_stag(p, l, "stag", r.sink_stag),
                        .to = play_num(p, l, "to", r.sink_to)};
    hand_down(p, h, octets_of(p, l, r.len));
}

static void send_atomic(struct play *p, const struct script_line *l)
{
    const struct rdmap_atomic_request r = {.op = (uint8_t)play_field(p, l, "aop", 4, 0),
                                           .id = 1,
                                           .stag = play_stag(p, l, "stag", STAG),
                                           .to = play_num(p, l, "to", PLACE),
                                           .data = play_num(p, l, "data", 0),
                                           .mask = play_num(p, l, "mask", 0),
                                           .compare = play_num(p, l, "cmp", 0),
                                           .compare_mask = play_num(p, l, "cmask", 0)};
    rdmap_atomic_request_pack(&r, payload);
    hand_down(p, untagged(p, l, RDMAP_ATOMIC_REQUEST, DDP_QN_REQUEST), RDMAP_ATOMIC_REQUEST_LEN);
}

static void send_atomic_response(struct play *p, const struct script_line *l)
{
    const struct rdmap_atomic_response r = {.id = play_field32(p, l, "id", 1),
                                            .original = play_num(p, l, "value", 0)};
    rdmap_atomic_response_pack(&r, payload);
    hand_down(p, untagged(p, l, RDMAP_ATOMIC_RESPONSE, DDP_QN_ATOMIC), RDMAP_ATOMIC_RESPONSE_LEN);
}

/* The kind is MPA's choice, not the file's. */
static void send_rtr(struct play *p, const struct script_line *l)
{
    const struct script_line none = {.line = l->line, .word = l->word};
    struct tr_conn *c = p->now->conn;
    struct ddp_hdr write = {
        .tagged = true, .ulp = rdmap_control(RDMAP_WRITE), .stag = STAG, .to = PLACE};
    switch (c->end.setup.agreed.p2p ? c->end.setup.agreed.rtr : 0) {
    case MPA_RTR_WRITE: hand_down(p, write, 0); break;
    case MPA_RTR_READ: send_read_request(p, &none, 0); break;
    case MPA_RTR_SEND: hand_down(p, untagged(p, &none, RDMAP_SEND, DDP_QN_SEND), 0); break;
    default: play_fail(p, l, "MPA agreed to no RTR");
    }
}

/* --- Terminate and the end --- */

static bool names(const struct script_line *l, struct verdict v)
{
    struct verdict w;
    for (unsigned i = 1; script_plain(l, i) != NULL; i++) {
        const char *text = script_plain(l, i);
        if (is(text, "listed") ||
            (octets_verdict(text, &w) && verdict_is(v, w.layer, w.type, w.code))) {
            return true;
        }
    }
    return false;
}

/* The first one that the line names. */
static struct verdict first_of(const struct script_line *l)
{
    struct verdict v;
    for (unsigned i = 1; script_plain(l, i) != NULL; i++) {
        if (octets_verdict(script_plain(l, i), &v)) {
            return v;
        }
    }
    return verdict_bad(LAYER_RDMAP, RDMAP_OPERATION, RDMAP_OP_UNSPECIFIED);
}

/* Of MPA's kind, and yet not found by MPA: a ULPDU that is too short for the headers in it, and a failure
 * of the whole end. */
static bool found_above(const struct tr_conn *c, struct verdict v)
{
    return v.layer != LAYER_LLP || v.code == MPA_ERR_LOCAL ||
           (v.code == MPA_ERR_MARKER && c->last_n < DDP_UNTAGGED_LEN + RDMAP_READ_REQUEST_LEN);
}

/* The Terminate speaks of a segment that had come up before MPA refused one behind it. */
static bool speaks_of_another(const struct script_line *l)
{
    const char *hdr = script_word(l, "hdr", "last");
    return !is(hdr, "last") && !is(hdr, "none") && !is(hdr, "any");
}

static void send_terminate(struct play *p, const struct script_line *l)
{
    struct tr_conn *c = p->now->conn;
    const struct mpa_setup *s = &c->end.setup;
    bool in_setup = s->initiator && (s->fault == MPA_FAULT_IRD || s->fault == MPA_FAULT_RTR);
    bool refused = c->end.fault.bad && !speaks_of_another(l);
    struct verdict v = in_setup ? s->term : refused ? c->end.fault : first_of(l);
    if (!names(l, v)) {
        play_fail(p, l, "MPA has found %u/%u/%02x (%s)", v.layer, v.type, v.code, verdict_text(v));
        return;
    }
    if (!in_setup && !refused && !found_above(c, v)) {
        play_fail(p, l, "MPA has found nothing wrong");
        return;
    }
    c->told = true;
    uint32_t n = play_terminate_octets(p, l, v, payload);
    hand_down(
        p,
        (struct ddp_hdr){.ulp = rdmap_control(RDMAP_TERMINATE), .qn = DDP_QN_TERMINATE, .msn = 1},
        n);
}

/* RFC 5044 sec 7.1.2: TCP is the ULP's from full operation on, or from a reject. */
static void close_stream(struct tr_conn *c)
{
    c->told = true;
    if (c->end.full || c->rejected) {
        c->end.ended = true;
    }
}

/* --- lines --- */

static void message(struct play *p, const struct script_line *l, const char *what)
{
    static const struct {
        const char *word;
        void (*send)(struct play *, const struct script_line *);
    } kinds[] = {
        {"send", send_send}, {"write", send_write},         {"readresp", send_read_response},
        {"imm", send_imm},   {"atomic", send_atomic},       {"atomicresp", send_atomic_response},
        {"rtr", send_rtr},   {"terminate", send_terminate},
    };
    if (is(what, "readreq")) {
        send_read_request(p, l, ANY_LENGTH);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (is(kinds[i].word, what)) {
            kinds[i].send(p, l);
        }
    }
}

void mpa_ulp_want(void *arg, struct play *p, const struct script_line *l, const char *what)
{
    struct tr_conn *c = p->now->conn;
    (void)arg;
    if (is(what, "closed") || is(what, "fin") || is(what, "rst")) {
        close_stream(c);
    } else if (c->end.full && !c->end.ended) {
        message(p, l, what);
    }
}
