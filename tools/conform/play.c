/* SPDX-License-Identifier: MIT */
/* Lines one after the other, loops, what is said when one fails. */
#include "play.h"

#include <stdarg.h>
#include <stdlib.h>

#include "octets.h"
#include "play_int.h"

/* The greatest values of `wire`. */
enum { WIRE_CUT = 65535, WIRE_MSS_MIN = 88, WIRE_MSS = 32767, WIRE_MILLION = 1000000 };

/* --- what is said --- */

static void note(struct play *p, const struct script_line *l, enum play_result r, const char *fmt,
                 va_list ap)
{
    if (p->out->result == PLAY_PASS || (p->out->result == PLAY_SOFT && r != PLAY_SOFT)) {
        p->out->result = r;
        p->out->line = l != NULL ? l->line : 0;
        vsnprintf(p->out->why, sizeof p->out->why, fmt, ap);
    }
    p->over |= r != PLAY_SOFT;
}

bool play_fail(struct play *p, const struct script_line *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    note(p, l, l != NULL && l->soft ? PLAY_SOFT : PLAY_FAIL, fmt, ap);
    va_end(ap);
    return false;
}

bool play_wrong(struct play *p, const struct script_line *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    note(p, l, PLAY_FAIL, fmt, ap);
    va_end(ap);
    return false;
}

bool play_skip(struct play *p, const struct script_line *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    note(p, l, PLAY_SKIP, fmt, ap);
    va_end(ap);
    return false;
}

void play_trace(struct play *p, const char *fmt, ...)
{
    if (p->cfg->trace == NULL) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    vfprintf(p->cfg->trace, fmt, ap);
    va_end(ap);
    fputc('\n', p->cfg->trace);
}

void play_trace_octets(struct play *p, char mark, const char *what, struct span o)
{
    char hex[200];
    if (p->cfg->trace != NULL) {
        octets_show(o.p, o.n, hex, sizeof hex);
        play_trace(p, "  %c %s: %s", mark, what, hex);
    }
}

/* --- small lines --- */

static bool line_stream(struct play *p, const struct script_line *l)
{
    const char *no = script_plain(l, 0);
    uint64_t n;
    if (no == NULL || !octets_is_number(no, PLAY_STREAMS - 1, &n) || n < 1) {
        return play_wrong(p, l, "want: stream 1..%d", PLAY_STREAMS - 1);
    }
    p->now_no = (unsigned)n;
    p->now = p->st[n];
    return true;
}

static bool line_drop(struct play *p, const struct script_line *l)
{
    (void)l;
    play_drop(p, p->now_no, true);
    return true;
}

static bool line_wait(struct play *p, const struct script_line *l)
{
    uint64_t ms;
    if (!play_ms(p, l, 0, &ms)) {
        return false;
    }
    play_wait(p, ms);
    return true;
}

static bool line_limit(struct play *p, const struct script_line *l)
{
    uint64_t ms;
    if (!play_ms(p, l, 0, &ms)) {
        return false;
    }
    p->limit_ms = (unsigned)ms;
    return true;
}

static bool line_let(struct play *p, const struct script_line *l)
{
    uint64_t v;
    const char *name = script_plain(l, 0), *text = script_plain(l, 1);
    if (name == NULL || text == NULL || !play_eval(p, text, false, &v)) {
        return play_wrong(p, l, "want: let NAME VALUE");
    }
    return play_set_named(p, l, name, v);
}

static bool line_wire(struct play *p, const struct script_line *l)
{
    static const struct {
        const char *knob;
        uint32_t max;
    } knobs[] = {{"cut", WIRE_CUT}, {"isn", UINT32_MAX},       {"dup", WIRE_MILLION},
                 {"mss", WIRE_MSS}, {"reorder", WIRE_MILLION}, {"loss", WIRE_MILLION}};
    struct transport *tr = p->cfg->tr;
    for (unsigned i = 0; i < l->cnt || i == 0; i++) {
        const char *key = l->cnt > 0 ? l->arg[i].key : "";
        size_t k = 0;
        while (k < ARRAY_LEN(knobs) && strcmp(knobs[k].knob, key) != 0) {
            k++;
        }
        if (k == ARRAY_LEN(knobs)) {
            return play_wrong(p, l, "want: wire KNOB=N, of cut, isn, dup, loss, reorder and mss");
        }
        uint32_t v = (uint32_t)play_most(p, l, key, 0, knobs[k].max);
        if (strcmp(key, "mss") == 0 && v > 0 && v < WIRE_MSS_MIN) { /* the kernel's least */
            return play_wrong(p, l, "mss=%u: want a number from %d", v, WIRE_MSS_MIN);
        }
        if (strcmp(key, "cut") == 0) {
            tr->cut = v;
        } else if (!p->over && !tr->ops->tune(tr, key, v)) {
            return play_skip(p, l, "%s cannot be set on this transport", key);
        }
    }
    return true;
}

/* check A le B, or eq or ge. */
static bool line_check(struct play *p, const struct script_line *l)
{
    uint64_t a, b;
    const char *x = script_plain(l, 0), *op = script_plain(l, 1), *y = script_plain(l, 2);
    if (y == NULL || !play_eval(p, x, false, &a) || !play_eval(p, y, false, &b)) {
        return play_wrong(p, l, "want: check A le B");
    }
    bool eq = strcmp(op, "eq") == 0, le = strcmp(op, "le") == 0;
    if (!eq && !le && strcmp(op, "ge") != 0) {
        return play_wrong(p, l, "'%s': want le, ge or eq", op);
    }
    bool ok = eq ? a == b : le ? a <= b : a >= b;
    return ok || play_fail(p, l, "%s %s %s does not hold", x, op, y);
}

/* nobody MS: the tested end does not connect (again) in that time. */
static bool line_nobody(struct play *p, const struct script_line *l)
{
    struct transport *tr = p->cfg->tr;
    uint64_t ms;
    if (!play_ms(p, l, 0, &ms)) {
        return false;
    }
    for (uint64_t until = play_now(p) + ms; play_now(p) < until;) {
        struct tr_conn *c = tr->ops->accept(tr);
        if (c != NULL) {
            tr->ops->drop(c, true);
            return play_fail(p, l, "the tested end connects once more");
        }
        play_turn(p);
    }
    return true;
}

static bool line_send(struct play *p, const struct script_line *l)
{
    return play_line_send(p, l, false);
}

static bool line_hold(struct play *p, const struct script_line *l)
{
    return play_line_send(p, l, true);
}

/* --- dispatch --- */

static bool takes_all_keys(const struct script_line *l)
{
    return strcmp(l->word, "tested") == 0 || strcmp(l->word, "!") == 0 ||
           strcmp(l->word, "do") == 0;
}

/* Typing errors in keys would otherwise go unseen. */
static bool keys_known(struct play *p, const struct script_line *l)
{
    static const char keys[] =
        " rev m c r s a rtr ird ord pd pdtext pdlen flags limit seg se inv op rv dv t last qn msn "
        "mo "
        "stag to rsvd as crc length pad ptr markerbits sinkstag sinkto len plen hdr done mulpdu "
        "fpdus ulen skip cut id add mask swap smask cmp cmask aop value data isn dup loss reorder "
        "mss step "
        "conn ";
    char word[40];
    for (unsigned i = 0; i < l->cnt && !takes_all_keys(l); i++) {
        snprintf(word, sizeof word, " %s ", l->arg[i].key);
        if (l->arg[i].key[0] != 0 && strstr(keys, word) == NULL) {
            return play_wrong(p, l, "unknown key '%s'", l->arg[i].key);
        }
    }
    return true;
}

/* How many words without a key may follow where there are not octets as well. */
static unsigned words_of(const struct script_line *l)
{
    static const struct {
        const char *line, *what; /* what NULL: whatever follows */
        unsigned words;
    } most[] = {
        {"connect", NULL, 0},  {"accept", NULL, 0},    {"setup", NULL, 0},     {"serve", NULL, 0},
        {"drop", NULL, 0},     {"wire", NULL, 0},      {"stream", NULL, 1},    {"~", NULL, 1},
        {"limit", NULL, 1},    {"nobody", NULL, 1},    {"let", NULL, 2},       {"check", NULL, 3},
        {"<", "request", 1},   {"<", "reply", 1},      {"<", "readreq", 1},    {"<", "fetchadd", 1},
        {"<", "cmpswap", 1},   {"<", "atomicresp", 1}, {"<", "fin", 1},        {"<", "rst", 1},
        {"<", "terminate", 2}, {"<", "vector", 2},     {">", "request", 1},    {">", "reply", 1},
        {">", "readreq", 1},   {">", "atomic", 1},     {">", "atomicresp", 1}, {">", "alive", 1},
        {">", "fin", 1},       {">", "rst", 1},        {">", "closed", 1},     {">", "quiet", 2},
        {">", "rtr", 2},
    };
    const char *what = script_plain(l, 0);
    for (size_t i = 0; i < ARRAY_LEN(most); i++) {
        if (strncmp(most[i].line, l->word, strlen(most[i].line)) == 0 &&
            (most[i].what == NULL || (what != NULL && strcmp(most[i].what, what) == 0))) {
            return most[i].words;
        }
    }
    return SCRIPT_ARGS;
}

/* Nothing that stands in a line goes unseen. */
static bool all_counts(struct play *p, const struct script_line *l)
{
    const char *extra = script_plain(l, words_of(l));
    if (extra != NULL) {
        return play_wrong(p, l, "'%s' is one word too many", extra);
    }
    for (unsigned i = 0; i < l->cnt; i++) {
        for (unsigned k = 0; k < i; k++) {
            if (l->arg[i].key[0] != 0 && strcmp(l->arg[i].key, l->arg[k].key) == 0) {
                return play_wrong(p, l, "'%s=' stands there twice", l->arg[i].key);
            }
        }
    }
    return true;
}

/* A key that another kind of line has says nothing in this one, and whoever wrote it meant something. */
static bool all_meant(struct play *p, const struct script_line *l)
{
    for (unsigned i = 0; i < l->cnt && !takes_all_keys(l); i++) {
        if (l->arg[i].key[0] != 0 && (*l->asked >> i & 1) == 0) {
            return play_wrong(p, l, "'%s=' says nothing in such a line", l->arg[i].key);
        }
    }
    return true;
}

static bool do_line(struct play *p, const struct script_line *line)
{
    static const struct {
        const char *word;
        bool (*run)(struct play *, const struct script_line *);
    } words[] = {
        {"tested", play_tested}, {"connect", play_connect}, {"accept", play_accept},
        {"setup", play_setup},   {"serve", play_serve},     {"<", line_send},
        {"<+", line_hold},       {">", play_line_want},     {"!", play_event},
        {"do", play_do},         {"stream", line_stream},   {"drop", line_drop},
        {"~", line_wait},        {"limit", line_limit},     {"let", line_let},
        {"wire", line_wire},     {"check", line_check},     {"nobody", line_nobody},
    };
    char arena[PLAY_ARENA];
    struct script_line l;
    uint32_t asked = 0;
    if (!play_subst(p, line, &l, arena) || !keys_known(p, &l) || !all_counts(p, &l)) {
        return false;
    }
    l.asked = &asked;
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(words[i].word, l.word) == 0) {
            return words[i].run(p, &l) && all_meant(p, &l);
        }
    }
    return play_wrong(p, &l, "unknown line '%s'", l.word);
}

/* --- loops --- */

enum { LOOP_MAX = INT32_MAX };

static void run_lines(struct play *p, unsigned from, unsigned to);

/* The line of the `end` that belongs to the `for` at from. */
static unsigned end_of(const struct script *s, unsigned from)
{
    unsigned depth = 0;
    for (unsigned i = from; i < s->lines; i++) {
        depth += strcmp(s->line[i].word, "for") == 0;
        if (strcmp(s->line[i].word, "end") == 0 && --depth == 0) {
            return i;
        }
    }
    return s->lines;
}

/* A or B of `A..B`, at most LOOP_MAX and perhaps with a minus; NULL: it is none. */
static const char *loop_number(const char *at, int64_t *out)
{
    bool minus = *at == '-';
    uint64_t v = 0;
    at = octets_number(at + minus, &v);
    *out = minus ? -(int64_t)(v & LOOP_MAX) : (int64_t)(v & LOOP_MAX);
    return v <= LOOP_MAX ? at : NULL;
}

static bool loop_range(const char *text, int64_t *from, int64_t *to)
{
    text = loop_number(text, from);
    text = text != NULL && strncmp(text, "..", 2) == 0 ? loop_number(text + 2, to) : NULL;
    return text != NULL && *text == 0;
}

/* for NAME A..B [step=N], or for NAME A B C. */
static void run_loop(struct play *p, const struct script_line *l, unsigned body, unsigned end)
{
    const char *name = script_plain(l, 0), *range = script_plain(l, 1);
    int64_t from, to;
    if (name == NULL || range == NULL) {
        play_wrong(p, l, "want: for NAME FIRST..LAST, or for NAME VALUE...");
        return;
    }
    if (loop_range(range, &from, &to)) {
        int64_t step = (int64_t)play_most(p, l, "step", 1, LOOP_MAX);
        if (step < 1) {
            play_wrong(p, l, "step=%s: want a number from 1", script_word(l, "step", ""));
        }
        for (int64_t i = from; i <= to && !p->over; i += step) {
            if (play_set_named(p, l, name, (uint64_t)i)) {
                run_lines(p, body, end);
            }
        }
        return;
    }
    for (unsigned k = 1; script_plain(l, k) != NULL && !p->over; k++) {
        uint64_t v;
        if (!play_eval(p, script_plain(l, k), false, &v)) {
            play_wrong(p, l, "'%s' is no number", script_plain(l, k));
            return;
        }
        if (play_set_named(p, l, name, v)) {
            run_lines(p, body, end);
        }
    }
}

static void run_lines(struct play *p, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to && !p->over; i++) {
        const struct script_line *l = &p->s->line[i];
        if (strcmp(l->word, "for") != 0) {
            do_line(p, l);
            continue;
        }
        unsigned end = end_of(p->s, i);
        if (end == p->s->lines) {
            play_fail(p, l, "no end of this loop");
            return;
        }
        run_loop(p, l, i + 1, end);
        i = end;
    }
}

/* --- life --- */

/* One run at a time: the two large buffers need not come and go with each. */
static uint8_t msg[PLAY_MESSAGE + 1024], want[PLAY_MESSAGE + 1024];

static void begin(struct play *p, const struct play_cfg *cfg, struct play_out *out)
{
    *p = (struct play){.cfg = cfg, .out = out, .limit_ms = cfg->limit_ms, .now_no = 1};
    *out = (struct play_out){.result = PLAY_PASS};
    p->msg = msg;
    p->want = want;
}

static void finish(struct play *p)
{
    for (unsigned i = 0; i < PLAY_STREAMS; i++) {
        play_drop(p, i, true);
    }
}

/* A Terminate that nobody waited for may say why something else did not come. */
static void look_for_terminate(struct play *p)
{
    const struct script_line none = {.word = ">"};
    char had[sizeof p->out->why];
    if (p->out->result != PLAY_FAIL || p->now == NULL || p->now->conn == NULL || !p->now->full) {
        return;
    }
    struct verdict before = p->out->term;
    while (play_fpdu(p, &none, play_now(p), true) == PLAY_GOT) {
    }
    if (p->out->term.bad && !before.bad) {
        memcpy(had, p->out->why, sizeof had);
        snprintf(p->out->why, sizeof p->out->why, "%.800s; a Terminate %u/%u/%02x (%s) had come",
                 had, p->out->term.layer, p->out->term.type, p->out->term.code,
                 verdict_text(p->out->term));
    }
}

static bool needs_more_than(const struct play_cfg *cfg, const struct script *s)
{
    return !cfg->responder && !s->base;
}

void play_run(const struct play_cfg *cfg, const struct script *s, struct play_out *out)
{
    struct play *p = calloc(1, sizeof *p);
    if (p == NULL) {
        *out = (struct play_out){.result = PLAY_FAIL, .why = "out of memory"};
    } else {
        begin(p, cfg, out);
        uint64_t start = play_now(p);
        uint32_t cut = cfg->tr->cut;
        p->s = s;
        if (s->fault[0] != 0) {
            play_fail(p, NULL, "%s", s->fault);
        } else if (s->lines == 0) {
            play_skip(p, NULL, "has no play part");
        } else if (needs_more_than(cfg, s)) {
            play_skip(p, NULL, "needs a tested end that speaks the responder's protocol");
        } else {
            play_wait(p, cfg->gap_ms);
            run_lines(p, 0, s->lines);
            look_for_terminate(p);
            if (p->dirt[0] != 0) {
                play_fail(p, NULL, "all else is well, but an FPDU came of which the %s", p->dirt);
            }
        }
        cfg->tr->cut = cut;
        cfg->tr->ops->tune(cfg->tr, "mss", 0);
        out->ms = play_now(p) - start;
    }
    if (p != NULL) {
        finish(p);
    }
    free(p);
}

enum play_peer play_probe(const struct play_cfg *cfg, char text[PLAY_HELLO])
{
    struct play_out out;
    bool ok = false, reached = false;
    struct play *p = calloc(1, sizeof *p);
    if (p != NULL) {
        begin(p, cfg, &out);
        uint64_t until = play_now(p) + cfg->limit_ms;
        do { /* it may be about to start */
            ok = play_ask(p, "hello", text, PLAY_HELLO);
            reached = p->reached;
            if (!reached) {
                play_wait(p, 50);
            }
        } while (!reached && play_now(p) < until);
        finish(p);
    }
    free(p);
    return !reached                             ? PLAY_PEER_NONE
           : ok && strncmp(text, "ok ", 3) == 0 ? PLAY_PEER_RESPONDER
                                                : PLAY_PEER_PLAIN;
}
