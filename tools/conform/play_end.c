/* SPDX-License-Identifier: MIT */
/* `>`: Terminates, closes, silence. */
#include <stdlib.h>

#include "octets.h"
#include "play_int.h"

/* --- Terminate --- */

/* The segment that the Terminate is to speak of: the last one, or the one of that name. */
static const struct rdmap_cause *cause_of(struct play *p, const char *name)
{
    struct play_stream *st = p->now;
    bool last = strcmp(name, "last") == 0;
    for (unsigned i = 0; i < st->sent_cnt && i < PLAY_SENT; i++) {
        struct play_sent *s = &st->sent[(st->sent_cnt - 1 - i) % PLAY_SENT];
        if (last || strcmp(s->name, name) == 0) {
            return &s->cause;
        }
    }
    return NULL;
}

/* A version or an opcode that is unknown may leave nothing to tell of the segment ("if possible",
 * RFC 5040 sec 4.8). */
static bool header_optional(struct verdict v)
{
    return verdict_is(v, LAYER_DDP, DDP_TAGGED, DDP_TAG_VERSION) ||
           verdict_is(v, LAYER_DDP, DDP_UNTAGGED, DDP_UNT_VERSION) ||
           verdict_is(v, LAYER_RDMAP, RDMAP_OPERATION, RDMAP_OP_VERSION) ||
           verdict_is(v, LAYER_RDMAP, RDMAP_OPERATION, RDMAP_OP_OPCODE);
}

static bool same_octets(const struct play *p, const uint8_t *want, uint32_t n)
{
    return p->in.seg.plen == n && memcmp(p->in.octets + DDP_UNTAGGED_LEN, want, n) == 0;
}

static bool differs(struct play *p, const struct script_line *l, const uint8_t *want, uint32_t n)
{
    char a[220], b[220];
    octets_show(p->in.octets + DDP_UNTAGGED_LEN, p->in.seg.plen, a, sizeof a);
    octets_show(want, n, b, sizeof b);
    return play_fail(p, l,
                     "the Terminate's layer, type and code are right, its octets are %s, "
                     "must be %s",
                     a, b);
}

uint32_t play_terminate_octets(struct play *p, const struct script_line *l, struct verdict v,
                               uint8_t out[RDMAP_TERM_MAX])
{
    const char *hdr = script_word(l, "hdr", "last");
    const struct rdmap_cause *found = strcmp(hdr, "none") == 0 ? NULL : cause_of(p, hdr);
    struct rdmap_cause cause = found != NULL ? *found : (struct rdmap_cause){.ddp_len = 0};
    uint32_t done = play_field32(p, l, "done", 0);
    if (cause.has_read && done > 0) {
        struct rdmap_read_request r;
        rdmap_read_request_unpack(cause.read, &r);
        r.sink_to += done;
        r.src_to += done;
        r.len -= done;
        rdmap_read_request_pack(&r, cause.read);
    }
    return rdmap_term_pack(v, &cause, out);
}

/* Whether the body is what an RFC 5040 Terminate for that verdict and segment is. */
static bool body_is(struct play *p, const struct script_line *l, const struct rdmap_term *t)
{
    uint8_t want[RDMAP_TERM_MAX];
    const char *hdr = script_word(l, "hdr", "last");
    if (t->host_order) {
        uint8_t std[RDMAP_TERM_MAX];
        const uint8_t *w = p->in.octets + DDP_UNTAGGED_LEN;
        rdmap_term_pack(t->v, NULL, std);
        return p->cfg->host_order ||
               play_fail(p, l,
                         "the Terminate's control word has its bit-fields in host order: octets "
                         "%02x %02x %02x %02x, must be %02x %02x %02x 00 (RFC 5040 fig. 8)",
                         w[0], w[1], w[2], w[3], std[0], std[1],
                         (w[2] & 1) << 7 | (w[2] & 2) << 5 | (w[2] & 4) << 3);
    }
    if (strcmp(hdr, "any") == 0) {
        return true;
    }
    uint32_t n = play_terminate_octets(p, l, t->v, want);
    if (same_octets(p, want, n)) {
        return true;
    }
    uint8_t bare[RDMAP_TERM_MAX];
    uint32_t b = rdmap_term_pack(t->v, NULL, bare);
    return (header_optional(t->v) && same_octets(p, bare, b)) || differs(p, l, want, n);
}

void play_host_order(const struct play *p, struct rdmap_term *t)
{
    if (p->cfg->host_order && !t->host_order && !t->m && !t->d && t->v.layer != t->v.type) {
        uint8_t type = t->v.type;
        t->v.type = t->v.layer;
        t->v.layer = type;
        t->host_order = true;
    }
}

/* What has words is in the registry. */
static bool is_listed(struct verdict v)
{
    return strstr(verdict_text(v), "unknown") == NULL;
}

/* Which of the verdicts of the line it is; all of them are named in what is said. */
static bool verdict_fits(struct play *p, const struct script_line *l, struct rdmap_term *t)
{
    char all[100] = "";
    for (unsigned i = 1; script_plain(l, i) != NULL; i++) {
        struct verdict v;
        const char *text = script_plain(l, i);
        if (strcmp(text, "listed") == 0 && is_listed(t->v) &&
            (!t->host_order || p->cfg->host_order)) {
            return true;
        }
        bool is = octets_verdict(text, &v);
        if (is && verdict_is(t->v, v.layer, v.type, v.code)) {
            return true;
        }
        /* Layer and type the wrong way round may happen to be another defined error. */
        if (is && verdict_is(t->v, v.type, v.layer, v.code) && !t->m && !t->d) {
            t->v = v;
            t->host_order = true;
            return true;
        }
        size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, "%s%s", n > 0 ? " or " : "", text);
    }
    play_host_order(p, t);
    return play_fail(p, l, "Terminate %u/%u/%02x (%s)%s, must be %s", t->v.layer, t->v.type,
                     t->v.code, verdict_text(t->v),
                     t->host_order ? " with its control word in host order" : "", all);
}

static bool in_words(const char *const words[3], const char *text)
{
    return strcmp(words[0], text) == 0 || strcmp(words[1], text) == 0 ||
           strcmp(words[2], text) == 0;
}

static bool allows(const struct script_line *l, const char *word)
{
    for (unsigned i = 1; script_plain(l, i) != NULL; i++) {
        if (strcmp(script_plain(l, i), word) == 0) {
            return true;
        }
    }
    return false;
}

/* Before anything is waited for: what the line says must make sense. */
static bool terminate_line_ok(struct play *p, const struct script_line *l)
{
    static const char *const words[] = {"alive", "closed", "listed"};
    static const char *const hdrs[] = {"last", "none", "any"};
    struct verdict v;
    for (unsigned i = 1; script_plain(l, i) != NULL; i++) {
        const char *text = script_plain(l, i);
        if (!in_words(words, text) && !octets_verdict(text, &v)) {
            return play_wrong(p, l, "'%s': want LAYER/TYPE/CODE, alive, closed or listed", text);
        }
    }
    const char *hdr = script_word(l, "hdr", "last");
    return in_words(hdrs, hdr) || cause_of(p, hdr) != NULL ||
           play_wrong(p, l, "no segment was sent as '%s'", hdr);
}

static bool is_terminate(const struct play *p)
{
    const struct ddp_hdr *h = &p->in.seg.hdr;
    return !h->tagged && rdmap_opcode(h->ulp) == RDMAP_TERMINATE;
}

/* The answer to play_read0(). */
static bool is_read0(const struct play *p)
{
    const struct ddp_seg *s = &p->in.seg;
    return s->hdr.tagged && rdmap_opcode(s->hdr.ulp) == RDMAP_READ_RESPONSE && s->plen == 0;
}

bool play_want_terminate(struct play *p, const struct script_line *l)
{
    uint64_t until = play_until(p, l, 0);
    bool skip = play_flag(p, l, "skip", false);
    struct rdmap_term t;
    char got_text[200];
    /* Where the RFCs leave the choice between an error and going on. */
    bool or_alive = allows(l, "alive");
    if (or_alive) {
        if (!play_read0(p)) {
            return play_fail(p, l, "the octets cannot be sent");
        }
        p->now->sent_cnt--; /* it is not what a Terminate would speak of */
    }
    enum play_got got;
    do {
        got = play_fpdu(p, l, until, false);
    } while (got == PLAY_GOT && skip && !is_terminate(p) && !(or_alive && is_read0(p)));
    if (got == PLAY_ENDED && allows(l, "closed")) {
        return true;
    }
    if (got != PLAY_GOT) {
        return play_instead(p, l, got, "Terminate");
    }
    const struct ddp_seg *s = &p->in.seg;
    if (or_alive && is_read0(p)) {
        return true;
    }
    if (!is_terminate(p)) {
        play_describe(p, got_text, sizeof got_text);
        return play_fail(p, l, "no Terminate; %s came", got_text);
    }
    if (s->hdr.qn != DDP_QN_TERMINATE || s->hdr.msn != 1 || s->hdr.mo != 0 || !s->hdr.last) {
        return play_fail(p, l, "a Terminate with queue %u, MSN %u, MO %u, L=%u (RFC 5040 sec 5.4)",
                         s->hdr.qn, s->hdr.msn, s->hdr.mo, s->hdr.last);
    }
    if (!rdmap_term_unpack(s->payload, &t)) {
        return play_fail(p, l, "a Terminate of %u octets", s->plen);
    }
    return verdict_fits(p, l, &t) && body_is(p, l, &t);
}

/* --- the end of TCP, and silence --- */

static bool something_came(struct play *p, const struct script_line *l, const char *what)
{
    char text[200];
    if (p->now->full) {
        play_describe(p, text, sizeof text);
    } else {
        octets_show(p->now->in, min_u32(p->now->have, 60), text, sizeof text);
    }
    return play_fail(p, l, "%s; it was: %s", what, text);
}

/* Passes over zero-length Writes; GOT is whatever else came. */
static enum play_got anything(struct play *p, const struct script_line *l, uint64_t until)
{
    if (p->now->full) {
        return play_fpdu(p, l, until, false);
    }
    if (play_need(p, 1, until)) {
        return PLAY_GOT;
    }
    return play_state(p, p->now) > TR_OPEN ? PLAY_ENDED : PLAY_NONE;
}

static bool want_closed(struct play *p, const struct script_line *l)
{
    const char *what = script_plain(l, 0);
    uint64_t until = play_until(p, l, 0);
    enum play_got got = anything(p, l, until);
    enum tr_state s = play_state(p, p->now);
    if (got == PLAY_BAD) {
        return false;
    }
    if (got == PLAY_GOT) {
        return something_came(p, l, "octets came where TCP must be closed");
    }
    if (got == PLAY_NONE) {
        return play_fail(p, l, "TCP is not closed");
    }
    if (p->now->have > 0) {
        return play_fail(p, l, "TCP was closed in the middle of an FPDU");
    }
    if (strcmp(what, "fin") == 0 && s == TR_RESET) {
        return play_fail(p, l, "TCP was reset, must be closed in good order");
    }
    return strcmp(what, "rst") != 0 || s == TR_RESET ||
           play_fail(p, l, "TCP was closed in good order, must be reset");
}

static bool want_quiet(struct play *p, const struct script_line *l)
{
    uint64_t ms = 0;
    if (!play_ms(p, l, 1, &ms)) {
        return false;
    }
    enum play_got got = anything(p, l, play_now(p) + ms);
    if (got == PLAY_GOT) {
        return something_came(p, l, "octets came where there must be silence");
    }
    return got == PLAY_NONE || (got == PLAY_ENDED && play_fail(p, l, "TCP was closed"));
}

static bool want_octets(struct play *p, const struct script_line *l)
{
    uint32_t n;
    if (!play_octets(p, l, 1, p->msg, &n)) {
        return false;
    }
    if (!play_need(p, n, play_until(p, l, 0))) {
        return play_fail(p, l, "%u octets came, must be %u", p->now->have, n);
    }
    if (memcmp(p->now->in, p->msg, n) != 0) {
        return play_fail(p, l, "other octets came");
    }
    play_consume(p->now, n);
    return true;
}

void play_will_want(struct play *p, const struct script_line *l, const char *what)
{
    if (p->cfg->above != NULL) {
        p->cfg->above->want(p->cfg->above->arg, p, l, what);
    }
}

bool play_line_want(struct play *p, const struct script_line *l)
{
    const char *what = script_plain(l, 0);
    if (what == NULL) {
        return play_fail(p, l, "nothing follows");
    }
    if (p->now == NULL || p->now->conn == NULL) {
        return play_fail(p, l, "there is no connection");
    }
    if (strcmp(what, "terminate") == 0 && !terminate_line_ok(p, l)) {
        return false;
    }
    play_will_want(p, l, what);
    if (p->over) {
        return false;
    }
    if (strcmp(what, "request") == 0 || strcmp(what, "reply") == 0) {
        return play_want_frame(p, l, strcmp(what, "reply") == 0);
    }
    if (strcmp(what, "terminate") == 0) {
        return play_want_terminate(p, l);
    }
    if (strcmp(what, "closed") == 0 || strcmp(what, "fin") == 0 || strcmp(what, "rst") == 0) {
        return want_closed(p, l);
    }
    if (strcmp(what, "quiet") == 0) {
        return want_quiet(p, l);
    }
    if (strcmp(what, "octets") == 0) {
        return want_octets(p, l);
    }
    return strcmp(what, "alive") == 0 ? play_alive(p, l) : play_want_message(p, l, what);
}
