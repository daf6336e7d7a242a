/* SPDX-License-Identifier: MIT */
/* TCP, Request and Reply. */
#include <stdlib.h>

#include "octets.h"
#include "play_int.h"

/* --- TCP --- */

static void await_open(struct play *p)
{
    uint64_t until = play_now(p) + p->limit_ms + 8000;
    do {
        play_turn(p);
    } while (play_state(p, p->now) == TR_OPENING && play_now(p) < until);
}

static bool fresh(struct play *p, const struct script_line *l)
{
    play_drop(p, p->now_no, true);
    p->now = play_stream(p, p->now_no);
    return p->now != NULL || play_fail(p, l, "out of memory");
}

bool play_connect(struct play *p, const struct script_line *l)
{
    if (!play_case(p, l)) {
        return false;
    }
    /* A server of one client at a time comes back after a moment. */
    uint64_t until = play_now(p) + p->limit_ms;
    do {
        if (!fresh(p, l)) {
            return false;
        }
        p->now->initiator = true;
        p->now->conn = p->cfg->tr->ops->dial(p->cfg->tr);
        if (p->now->conn == NULL) {
            return play_fail(p, l, "no TCP connection can be begun");
        }
        await_open(p);
    } while (!p->cfg->responder && play_state(p, p->now) == TR_FAILED && play_now(p) < until);
    /* One that it ended at once it did take; what was due then will be missed. */
    enum tr_state s = play_state(p, p->now);
    return (s != TR_OPENING && s != TR_FAILED) ||
           play_fail(p, l, "the tested end does not take the TCP connection");
}

bool play_accept(struct play *p, const struct script_line *l)
{
    struct transport *tr = p->cfg->tr;
    if (!play_case(p, l) || !fresh(p, l)) {
        return false;
    }
    uint64_t until = play_until(p, l, 8000);
    while ((p->now->conn = tr->ops->accept(tr)) == NULL) {
        if (play_now(p) >= until) {
            return play_fail(p, l, "the tested end does not connect");
        }
        play_turn(p);
    }
    return true;
}

/* --- frames --- */

/* rtr=KIND+KIND...: the set; -1 when it is none. */
static int rtr_of(const char *text)
{
    static const char *const kinds[] = {"send", "write", "read"};
    static const int bits[] = {MPA_RTR_SEND, MPA_RTR_WRITE, MPA_RTR_READ};
    int set = 0;
    while (*text != 0) {
        size_t n = strcspn(text, "+"), k = 0;
        while (k < ARRAY_LEN(kinds) && (strlen(kinds[k]) != n || strncmp(kinds[k], text, n) != 0)) {
            k++;
        }
        if (k == ARRAY_LEN(kinds) || strcmp(text + n, "+") == 0) {
            return -1;
        }
        set |= bits[k];
        text += n + (text[n] == '+');
    }
    return set;
}

static bool rtr_is_known(struct play *p, const struct script_line *l)
{
    const char *text = script_word(l, "rtr", "");
    return rtr_of(text) >= 0 ||
           play_wrong(p, l, "rtr=%s: want send, write and read, joined by +", text);
}

/* pd=OCTETS or pdtext=WORDS; false when it makes no sense. */
static bool private_data(const struct script_line *l, uint8_t *out, uint16_t *n)
{
    const char *text = script_word(l, "pdtext", NULL), *hex = script_word(l, "pd", NULL);
    *n = 0;
    if (text != NULL && strlen(text) <= MPA_PD_MAX) {
        *n = (uint16_t)strlen(text);
        memcpy(out, text, *n);
        return true;
    }
    int64_t got = hex != NULL ? octets_group(hex, out, MPA_PD_MAX) : 0;
    *n = got >= 0 ? (uint16_t)got : 0;
    return text == NULL && got >= 0;
}

/* What a Reply says when the line says nothing: the depths that fit the Request. */
static struct mpa_frame standard(const struct play_stream *st, bool reply)
{
    struct mpa_frame f = {.reply = reply, .crc = true, .rev = 1, .ird = 16, .ord = 16};
    if (reply) {
        f.rev = st->theirs.rev;
        f.enhanced = st->theirs.enhanced;
        f.ird = st->theirs.ord;
        f.ord = st->theirs.ird;
        f.p2p = st->theirs.p2p;
        f.rtr = MPA_RTR_WRITE;
    }
    return f;
}

static bool describe(struct play *p, const struct script_line *l, bool reply, struct mpa_frame *f)
{
    *f = standard(p->now, reply);
    f->rev = (uint8_t)play_field(p, l, "rev", 8, f->rev);
    f->markers = play_flag(p, l, "m", false);
    f->crc = play_flag(p, l, "c", true);
    f->reject = play_flag(p, l, "r", false);
    f->enhanced = play_flag(p, l, "s", reply ? f->enhanced : f->rev >= MPA_REV_2);
    f->p2p = play_flag(p, l, "a", f->p2p);
    if (!rtr_is_known(p, l)) {
        return false;
    }
    f->rtr = (uint8_t)rtr_of(script_word(l, "rtr", reply ? "write" : ""));
    f->ird = (uint16_t)play_field(p, l, "ird", 14, f->ird);
    f->ord = (uint16_t)play_field(p, l, "ord", 14, f->ord);
    return private_data(l, f->pd, &f->pd_len) ||
           play_wrong(p, l, "bad private data, or more than %d octets", MPA_PD_MAX);
}

void play_agree(struct play *p)
{
    struct play_stream *st = p->now;
    const struct mpa_frame *req = st->initiator ? &st->mine : &st->theirs;
    const struct mpa_frame *rep = st->initiator ? &st->theirs : &st->mine;
    bool crc = req->crc || rep->crc;
    mpa_tx_init(&st->mtx, st->theirs.markers, crc);
    mpa_rx_init(&st->mrx, st->mine.markers, crc);
    st->full = true;
    /* What a full segment of the tested end is. */
    uint32_t emss = p->cfg->tr->ops->emss(st->conn);
    play_set(p, "mulpdu", emss > 0 ? mpa_mulpdu(emss, st->mrx.markers) : 0);
}

/* Octets instead of a frame: whether they are one decides what the stream is afterwards. */
void play_learn_frame(struct play *p, struct span o)
{
    struct play_stream *st = p->now;
    struct cursor c = cursor_of(&o, 1);
    struct mpa_frame f;
    enum mpa_fault why;
    if (st->full || mpa_frame_unpack(&c, !st->initiator, &f, &why) != MPA_PARSE_OK) {
        return;
    }
    st->mine = f;
    if (!st->initiator && !f.reject) {
        play_agree(p);
    }
}

bool play_send_frame(struct play *p, const struct script_line *l, bool reply, bool hold)
{
    uint8_t out[MPA_FRAME_MAX + 8];
    struct mpa_frame f;
    if (!describe(p, l, reply, &f)) {
        return false;
    }
    uint32_t n = mpa_frame_pack(&f, out);
    if (n == 0) {
        return play_fail(p, l, "the private data does not fit");
    }
    out[16] = (uint8_t)play_field(p, l, "flags", 8, out[16]); /* reserved bits, R in a Request */
    p->now->mine = f;
    if (reply && !f.reject) {
        play_agree(p);
    }
    play_trace_octets(p, '<', reply ? "Reply" : "Request", (struct span){out, n});
    return play_send(p, out, n, hold) || play_fail(p, l, "the octets cannot be sent");
}

/* --- what came --- */

static bool same(struct play *p, const struct script_line *l, const char *key, unsigned bits,
                 unsigned long got)
{
    if (!script_has(l, key) || play_field(p, l, key, bits, 0) == got) {
        return !p->over;
    }
    return play_fail(p, l, "the frame has %s=%lu, must be %s=%s", key, got, key,
                     script_word(l, key, ""));
}

static bool compare(struct play *p, const struct script_line *l, const struct mpa_frame *f)
{
    uint8_t want[MPA_PD_MAX];
    uint16_t n;
    bool ok = rtr_is_known(p, l) && same(p, l, "rev", 8, f->rev) &&
              same(p, l, "m", 1, f->markers) && same(p, l, "c", 1, f->crc) &&
              same(p, l, "s", 1, f->enhanced) && same(p, l, "a", 1, f->p2p) &&
              same(p, l, "ird", 14, f->ird) && same(p, l, "ord", 14, f->ord) &&
              same(p, l, "pdlen", 16, f->pd_len);
    if (ok && script_has(l, "rtr") && f->rtr != rtr_of(script_word(l, "rtr", ""))) {
        ok = play_fail(p, l, "the frame's RTR set is %u (1 Send, 2 Write, 4 Read)", f->rtr);
    }
    if (ok && (script_has(l, "pd") || script_has(l, "pdtext"))) {
        ok = private_data(l, want, &n) && n == f->pd_len && memcmp(want, f->pd, n) == 0;
        ok = ok || play_fail(p, l, "other private data, of %u octets", f->pd_len);
    }
    return ok;
}

/* What every Reply must be (RFC 5044 sec 7.1, RFC 6581 sec 6). */
static bool reply_is_sound(struct play *p, const struct script_line *l, const struct mpa_frame *f)
{
    const struct mpa_frame *req = &p->now->mine;
    bool want_reject = play_flag(p, l, "r", false);
    if (f->reject != want_reject) {
        return play_fail(p, l, "the Reply %s (R=%u)", f->reject ? "rejects" : "does not reject",
                         f->reject);
    }
    if (!script_has(l, "rev") && f->rev != (req->rev > MPA_REV_2 ? MPA_REV_2 : req->rev)) {
        return play_fail(p, l, "Rev %u in the Reply to a Request of Rev %u", f->rev, req->rev);
    }
    if (!script_has(l, "s") && f->enhanced != (req->enhanced && req->rev >= MPA_REV_2)) {
        return play_fail(p, l, "S=%u in the Reply to a Request with S=%u", f->enhanced,
                         req->enhanced);
    }
    return true;
}

static bool ended_instead(struct play *p, const struct script_line *l, const char *what)
{
    static const char *const how[] = {[TR_OPEN] = "nothing came in time",
                                      [TR_FIN] = "TCP was closed",
                                      [TR_RESET] = "TCP was reset",
                                      [TR_FAILED] = "there is no connection"};
    enum tr_state s = play_state(p, p->now);
    char hex[80];
    octets_show(p->now->in, min_u32(p->now->have, 24), hex, sizeof hex);
    return play_fail(p, l, "no %s: %s%s%s", what, s == TR_OPENING ? "" : how[s],
                     hex[0] != 0 ? "; the octets are " : "", hex);
}

bool play_want_frame(struct play *p, const struct script_line *l, bool reply)
{
    struct play_stream *st = p->now;
    const char *what = reply ? "Reply" : "Request";
    uint64_t until = play_until(p, l, 0);
    struct mpa_frame f;
    enum mpa_fault why;
    uint32_t n = 1;
    for (;;) {
        if (!play_need(p, n, until)) {
            return ended_instead(p, l, what);
        }
        struct span all = {st->in, st->have};
        struct cursor c = cursor_of(&all, 1);
        enum mpa_parse got = mpa_frame_unpack(&c, reply, &f, &why);
        if (got == MPA_PARSE_BAD) {
            return play_fail(p, l, "no good %s: %s", what, mpa_fault_text(why));
        }
        if (got == MPA_PARSE_OK) {
            n = st->have - c.left;
            break;
        }
        n = st->have + 1;
    }
    unsigned reserved = st->in[16] & 0x0f;
    play_trace_octets(p, '>', what, (struct span){st->in, n});
    play_consume(st, n);
    st->theirs = f;
    play_set(p, "ird", f.ird);
    play_set(p, "ord", f.ord);
    play_set(p, "pdlen", f.pd_len);
    if (reserved != 0) {
        return play_fail(p, l, "reserved bits of the %s are %x, must be 0 (RFC 5044 sec 7.1.1)",
                         what, reserved);
    }
    if (!compare(p, l, &f) || (reply && !reply_is_sound(p, l, &f))) {
        return false;
    }
    if (reply && !f.reject) {
        play_agree(p);
        uint64_t until_fpdu = play_now(p) + p->cfg->pause_ms;
        while (play_now(p) < until_fpdu) {
            play_turn(p);
        }
    }
    return true;
}

/* --- in one go --- */

bool play_setup(struct play *p, const struct script_line *l)
{
    const struct script_line reply = {.line = l->line, .word = ">"};
    return play_connect(p, l) && play_send_frame(p, l, false, false) &&
           play_want_frame(p, &reply, true);
}

bool play_serve(struct play *p, const struct script_line *l)
{
    const struct script_line request = {.line = l->line, .word = ">"};
    return play_accept(p, l) && play_want_frame(p, &request, false) &&
           play_send_frame(p, l, true, false);
}
