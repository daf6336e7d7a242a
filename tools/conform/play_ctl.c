/* SPDX-License-Identifier: MIT */
/* The responder's protocol, from the player's end (docs/vectors.md): every question is a connection of
 * its own, in the private data of an MPA Request that is then rejected with the answer. */
#include <ctype.h>
#include <stdlib.h>

#include "../address.h"
#include "octets.h"
#include "play_int.h"

enum {
    ANSWER = MPA_PD_MAX + 1,
    ASK_EVERY_MS = 20,
    REOPEN_MS = 300,
    REOPEN_LIMIT_MS = 20000,
    RECOVER_MS = 3000,
    FETCH_MS = 20000,
    LOG_LINES = 8192, /* of the responder; uiw's keeps half of that */
};

static const char magic[] = "uiw-conform ";

/* --- questions --- */

/* What the tested end says is shown: nothing in it is for the terminal. Only a log has lines. */
static void make_plain(char *answer, bool lines)
{
    for (; *answer != 0; answer++) {
        if ((*answer < ' ' || *answer > '~') && !(lines && *answer == '\n')) {
            *answer = '?';
        }
    }
}

static bool exchange(struct play *p, const char *text, char *answer, size_t room)
{
    struct mpa_frame f = {.crc = true, .rev = 1}, got;
    enum mpa_fault why;
    uint8_t out[MPA_FRAME_MAX];
    uint64_t until = play_now(p) + 10000;
    p->reached = false;
    p->now->initiator = true;
    p->now->conn = p->cfg->tr->ops->dial(p->cfg->tr);
    if (p->now->conn == NULL) {
        return false;
    }
    while (play_state(p, p->now) == TR_OPENING && play_now(p) < until) {
        play_turn(p);
    }
    p->reached = play_state(p, p->now) != TR_OPENING && play_state(p, p->now) != TR_FAILED;
    size_t n = strlen(text);
    if (n > PLAY_QUESTION) {
        return false;
    }
    memcpy(f.pd, magic, sizeof magic - 1);
    memcpy(f.pd + sizeof magic - 1, text, n);
    f.pd_len = (uint16_t)(sizeof magic - 1 + n);
    if (play_state(p, p->now) != TR_OPEN || !play_send(p, out, mpa_frame_pack(&f, out), false)) {
        return false;
    }
    for (uint32_t need = MPA_FRAME_HDR; play_need(p, need, until); need = p->now->have + 1) {
        struct span all = {p->now->in, p->now->have};
        struct cursor c = cursor_of(&all, 1);
        enum mpa_parse r = mpa_frame_unpack(&c, true, &got, &why);
        if (r == MPA_PARSE_OK) {
            snprintf(answer, room, "%.*s", (int)got.pd_len, (const char *)got.pd);
            make_plain(answer, strncmp(text, "log ", 4) == 0);
            return got.reject;
        }
        if (r == MPA_PARSE_BAD) {
            return false;
        }
    }
    return false;
}

bool play_ask(struct play *p, const char *text, char *answer, size_t room)
{
    struct play_stream *now = p->now;
    unsigned no = p->now_no;
    answer[0] = 0;
    play_drop(p, 0, true);
    p->now = play_stream(p, 0);
    p->now_no = 0;
    uint32_t cut = p->cfg->tr->cut;
    p->cfg->tr->cut = 0; /* how the test's own stream is sent is no business of a question */
    bool ok = p->now != NULL && exchange(p, text, answer, room);
    p->cfg->tr->cut = cut;
    play_drop(p, 0, !ok);
    p->out->mute |= !ok;
    p->now = now;
    p->now_no = no;
    if (strcmp(answer, "ok") != 0 || strncmp(text, "log ", 4) != 0) {
        play_trace(p, "  ? %s: %s", text, ok ? answer : "(no answer)");
    }
    return ok;
}

/* --- the case --- */

static bool too_long(struct play *p, const struct script_line *l, size_t n)
{
    return play_wrong(p, l, "the question is too long: it has %zu octets, want at most %d", n,
                      PLAY_QUESTION);
}

/* The words of a line from the i-th on, as the responder is to see them, behind what stands in out;
 * false has said that it is too long. */
static bool join(struct play *p, const struct script_line *l, unsigned i,
                 char out[PLAY_QUESTION + 1])
{
    size_t n = strlen(out);
    for (; i < l->cnt; i++) {
        const struct script_arg *a = &l->arg[i];
        size_t room = n < PLAY_QUESTION ? PLAY_QUESTION + 1 - n : 0;
        n += (size_t)snprintf(room > 0 ? out + n : NULL, room, " %s%s%s", a->key,
                              a->key[0] != 0 ? "=" : "", a->val);
    }
    return n <= PLAY_QUESTION || too_long(p, l, n);
}

bool play_tested(struct play *p, const struct script_line *l)
{
    for (unsigned i = 1; i < PLAY_STREAMS; i++) {
        play_drop(p, i, true);
    }
    p->now = NULL;
    p->now_no = 1;
    p->case_sent = p->regions_known = false;
    p->regions = 0;
    p->log_next = 0;
    memset(p->seen, 0, sizeof p->seen);
    p->out->log[0] = 0;
    p->initiator = l->cnt > 0 && strcmp(l->arg[0].val, "initiator") == 0;
    strcpy(p->tested, "case");
    return join(p, l, p->initiator ? 1 : 0, p->tested);
}

/* Without the responder's protocol: only what happens by itself. */
static bool plain_case(struct play *p, const struct script_line *l)
{
    if (p->initiator && !p->cfg->listens) {
        return play_skip(p, l, "the tested end would have to connect to us");
    }
    if (!p->initiator && p->cfg->listens) {
        return play_skip(p, l, "the tested end does not listen");
    }
    return true;
}

/* A device that is opened anew answers nothing meanwhile. */
static bool await_answers(struct play *p, const struct script_line *l)
{
    char answer[ANSWER];
    bool mute = p->out->mute, ok;
    uint64_t until = play_now(p) + REOPEN_LIMIT_MS;
    do {
        play_wait(p, REOPEN_MS);
        ok = play_ask(p, "hello", answer, sizeof answer);
    } while (!ok && play_now(p) < until);
    p->out->mute = mute || !ok;
    if (!ok) {
        return play_fail(p, l, "the responder does not answer any more");
    }
    return strncmp(answer, "ok", 2) == 0 ||
           play_skip(p, l, "the tested end cannot do it: %s", answer);
}

bool play_case(struct play *p, const struct script_line *l)
{
    struct transport *tr = p->cfg->tr;
    char text[PLAY_QUESTION + ADDRESS_TEXT + 6], answer[ANSWER], to[ADDRESS_TEXT];
    if (p->case_sent) {
        return true;
    }
    if (p->initiator && !tr->ops->listen(tr)) {
        return play_fail(p, l, "no port to listen on");
    }
    /* Whoever called for an earlier case and was not heard. */
    for (struct tr_conn *c; p->cfg->responder && (c = tr->ops->accept(tr)) != NULL;) {
        tr->ops->drop(c, true);
    }
    if (!p->cfg->responder) {
        return p->case_sent = plain_case(p, l);
    }
    int n = snprintf(text, sizeof text, "%s", p->tested[0] != 0 ? p->tested : "case");
    if (p->initiator) {
        if (tr->my.ss_family == AF_UNSPEC) { /* the first connection tells which of ours it is */
            play_ask(p, "hello", answer, sizeof answer);
        }
        struct sockaddr_storage my = tr->my;
        address_set_port(&my, tr->my_port);
        n += snprintf(text + n, sizeof text - (size_t)n, " to=%s", address_text(&my, to));
    }
    if (n > PLAY_QUESTION) {
        return too_long(p, l, (size_t)n);
    }
    if (!play_ask(p, text, answer, sizeof answer)) {
        /* What the file before this one did to it may be over soon. */
        play_wait(p, RECOVER_MS);
        if (!play_ask(p, text, answer, sizeof answer)) {
            return play_fail(p, l, "the responder does not answer");
        }
    }
    if (strncmp(answer, "ok", 2) != 0) {
        return play_skip(p, l, "the tested end cannot do it: %s", answer);
    }
    p->case_sent = true;
    return strcmp(answer, "ok reopen") != 0 || await_answers(p, l);
}

bool play_do(struct play *p, const struct script_line *l)
{
    char text[PLAY_QUESTION + 1], answer[ANSWER];
    if (l->cnt == 0) {
        return play_wrong(p, l, "want: do ACTIONS");
    }
    if (!p->cfg->responder) {
        return play_skip(p, l, "the tested end cannot be told what to do");
    }
    if (!play_case(p, l)) {
        return false;
    }
    snprintf(text, sizeof text, "do %u", p->now_no);
    if (!join(p, l, 0, text)) {
        return false;
    }
    if (!play_ask(p, text, answer, sizeof answer)) {
        return play_fail(p, l, "the responder does not answer");
    }
    return strncmp(answer, "ok", 2) == 0 ||
           (strncmp(answer, "cannot", 6) == 0 ? play_skip(p, l, "the tested end %s", answer)
                                              : play_fail(p, l, "the tested end says: %s", answer));
}

static bool add_region(struct play *p, char *word)
{
    struct play_region r;
    unsigned long long to, len;
    if (sscanf(word, "%15[^=]=%x:%llx:%llx", r.name, &r.stag, &to, &len) != 4 ||
        p->regions == PLAY_REGIONS) {
        return false;
    }
    r.to = to;
    r.len = len;
    p->region[p->regions++] = r;
    return true;
}

/* They come in pages, since private data is short. */
bool play_regions(struct play *p, const struct script_line *l)
{
    char text[40], answer[ANSWER];
    p->regions = 0;
    for (;;) {
        char *save = NULL;
        unsigned before = p->regions;
        snprintf(text, sizeof text, "regions %u", p->regions);
        if (!play_case(p, l) || !play_ask(p, text, answer, sizeof answer) ||
            strncmp(answer, "ok", 2) != 0) {
            return false;
        }
        for (char *w = strtok_r(answer + 2, " ", &save); w != NULL;
             w = strtok_r(NULL, " ", &save)) {
            add_region(p, w);
        }
        if (p->regions == before || p->regions - before < 3) {
            return true;
        }
    }
}

/* --- events --- */

/* Fetches what the log has more than we have; it has an end. */
static bool fetch(struct play *p)
{
    char text[40], answer[ANSWER];
    uint64_t until = play_now(p) + FETCH_MS;
    while (p->log_next <= LOG_LINES && play_now(p) < until) {
        snprintf(text, sizeof text, "log %u", p->log_next);
        if (!play_ask(p, text, answer, sizeof answer) || strncmp(answer, "ok", 2) != 0) {
            return false;
        }
        char *line = strchr(answer, '\n');
        if (line == NULL) {
            return true;
        }
        size_t n = strlen(p->out->log);
        snprintf(p->out->log + n, sizeof p->out->log - n, "%s\n", line + 1);
        for (; line != NULL; line = strchr(line + 1, '\n')) {
            p->log_next++;
        }
    }
    return false;
}

static bool has_word(const char *line, size_t len, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= len; i++) {
        bool begins = i == 0 || line[i - 1] == ' ';
        if (begins && strncmp(line + i, word, n) == 0 && (i + n == len || line[i + n] == ' ')) {
            return true;
        }
    }
    return false;
}

/* key=VALUE: as text, or as the number that it is. */
static bool has_key(struct play *p, const char *line, size_t len, const struct script_arg *a)
{
    char word[140];
    uint64_t v;
    snprintf(word, sizeof word, "%s=%s", a->key, a->val);
    if (has_word(line, len, word)) {
        return true;
    }
    if (!play_eval(p, a->val, strcmp(a->key, "inv") == 0, &v)) {
        return false;
    }
    snprintf(word, sizeof word, "%s=0x%llx", a->key, (unsigned long long)v);
    if (has_word(line, len, word)) {
        return true;
    }
    snprintf(word, sizeof word, "%s=%llu", a->key, (unsigned long long)v);
    return has_word(line, len, word);
}

/* What the events of verbs do not tell. */
static bool is_unseen(const struct script_arg *a)
{
    return strcmp(a->val, "se") == 0 || strcmp(a->key, "inv") == 0 || strcmp(a->key, "ird") == 0 ||
           strcmp(a->key, "ord") == 0;
}

static bool matches(struct play *p, const char *line, size_t len, const struct script_line *l,
                    unsigned from)
{
    char conn[16];
    snprintf(conn, sizeof conn, "conn=%u", p->now_no);
    if (p->now_no == 1 ? strstr(line, "conn=") != NULL && strstr(line, "conn=") < line + len
                       : !has_word(line, len, conn)) {
        return false;
    }
    bool ended = strcmp(l->arg[from].val, "down") == 0 || strcmp(l->arg[from].val, "failed") == 0;
    for (unsigned i = from; i < l->cnt; i++) {
        const struct script_arg *a = &l->arg[i];
        bool unseen = p->cfg->blind && i > from && (ended || is_unseen(a));
        if (strcmp(a->key, "limit") == 0 || unseen) {
            continue;
        }
        if (a->key[0] != 0 ? !has_key(p, line, len, a) : !has_word(line, len, a->val)) {
            return false;
        }
    }
    size_t n = strlen(l->arg[from].val);
    return l->arg[from].key[0] != 0 || strncmp(line, l->arg[from].val, n) == 0;
}

/* Events of one word have an order among themselves; those of different words may cross. */
static struct play_seen *seen_of(struct play *p, const char *word)
{
    for (unsigned i = 0; i < PLAY_WORDS; i++) {
        struct play_seen *s = &p->seen[i];
        if (s->word[0] == 0) {
            snprintf(s->word, sizeof s->word, "%s", word);
        }
        if (strcmp(s->word, word) == 0) {
            return s;
        }
    }
    return &p->seen[PLAY_WORDS - 1];
}

/* Looks for the event behind those of its word that were seen; moves past it. */
static bool find(struct play *p, const struct script_line *l, unsigned from)
{
    const char *log = p->out->log;
    struct play_seen *seen = seen_of(p, l->arg[from].val);
    for (const char *line = log + seen->at; *line != 0;) {
        const char *end = strchr(line, '\n');
        size_t len = end != NULL ? (size_t)(end - line) : strlen(line);
        if (matches(p, line, len, l, from)) {
            seen->at = (unsigned)(line - log + (long)len + (end != NULL));
            return true;
        }
        line += len + (end != NULL);
    }
    return false;
}

/* The end of the log, for messages. */
static const char *tail(const struct play *p)
{
    size_t n = strlen(p->out->log);
    return p->out->log + (n > 500 ? n - 500 : 0);
}

static bool mute_log(struct play *p, const struct script_line *l)
{
    return play_fail(p, l,
                     p->log_next > LOG_LINES ? "the responder's log does not end"
                                             : "the responder does not answer");
}

static bool want_event(struct play *p, const struct script_line *l)
{
    uint64_t until = play_until(p, l, 0);
    bool mute = p->out->mute;
    for (;;) {
        if (find(p, l, 0)) {
            return true;
        }
        bool late = play_now(p) >= until || p->log_next > LOG_LINES;
        if (fetch(p)) {
            p->out->mute = mute;
        } else if (late) {
            return mute_log(p, l);
        }
        if (find(p, l, 0)) {
            return true;
        }
        if (late) {
            return play_fail(p, l, "no event '%s'; the last ones were:\n%s", l->arg[0].val,
                             tail(p));
        }
        play_wait(p, ASK_EVERY_MS);
    }
}

static bool want_none(struct play *p, const struct script_line *l)
{
    struct play_seen *seen = seen_of(p, l->arg[1].val), before = *seen;
    if (!fetch(p)) {
        return mute_log(p, l);
    }
    bool there = find(p, l, 1);
    *seen = before;
    return !there || play_fail(p, l, "there must be no event '%s':\n%s", l->arg[1].val, tail(p));
}

/* ! memory REGION+OFFSET OCTETS */
static bool want_memory(struct play *p, const struct script_line *l)
{
    enum { PIECE = 90 };
    char text[100], answer[ANSWER];
    const char *where = script_plain(l, 1);
    uint32_t n;
    int split = where != NULL ? (int)strcspn(where, "+") : 0;
    uint64_t off = 0;
    if (!play_octets(p, l, 2, p->want, &n) || split > 15 ||
        (where[split] != 0 && !play_eval(p, where + split, false, &off))) {
        return play_wrong(p, l, "want: ! memory REGION+OFFSET OCTETS");
    }
    for (uint32_t at = 0; at < n; at += PIECE) {
        uint32_t k = min_u32(n - at, PIECE);
        uint8_t got[PIECE];
        snprintf(text, sizeof text, "peek %.*s %llu %u", split, where,
                 (unsigned long long)(off + at), k);
        if (!play_ask(p, text, answer, sizeof answer) || strncmp(answer, "ok ", 3) != 0 ||
            octets_group(answer + 3, got, PIECE) != (int64_t)k) {
            return play_fail(p, l, "the memory cannot be seen: %s", answer);
        }
        if (memcmp(got, p->want + at, k) != 0) {
            return play_fail(p, l, "other octets from %s+%llu: %.60s", where,
                             (unsigned long long)at, answer + 3);
        }
    }
    return true;
}

/* ! answer "QUESTION" "ANSWER": anything else that a responder can be asked. */
static bool want_answer(struct play *p, const struct script_line *l)
{
    char answer[ANSWER];
    size_t n = strlen(l->arg[1].val);
    if (n > PLAY_QUESTION) {
        return too_long(p, l, n);
    }
    if (!play_ask(p, l->arg[1].val, answer, sizeof answer)) {
        return play_fail(p, l, "the responder does not answer");
    }
    if (strncmp(answer, "cannot", 6) == 0) {
        return play_skip(p, l, "the tested end %s", answer);
    }
    return strcmp(answer, l->arg[2].val) == 0 ||
           play_fail(p, l, "'%s' is answered by '%s', must be '%s'", l->arg[1].val, answer,
                     l->arg[2].val);
}

/* ! refused ACTIONS: the API must not take them. */
static bool want_refused(struct play *p, const struct script_line *l)
{
    char text[PLAY_QUESTION + 1], answer[ANSWER];
    snprintf(text, sizeof text, "do %u", p->now_no);
    if (!join(p, l, 1, text)) {
        return false;
    }
    if (!play_ask(p, text, answer, sizeof answer)) {
        return play_fail(p, l, "the responder does not answer");
    }
    /* Verbs take requests in any state, and flush them. */
    return p->cfg->blind || strncmp(answer, "no", 2) == 0 ||
           play_fail(p, l, "'%s' was not refused", text);
}

/* What stands behind `!`, whoever can tell of it. */
static bool event_line_ok(struct play *p, const struct script_line *l)
{
    static const char *const events[] = {"request", "established", "rejected", "failed",
                                         "down",    "recv",        "done",     "flushed",
                                         "error",   "async",       "woken"};
    const char *what = l->cnt > 0 ? l->arg[0].val : "";
    bool none = strcmp(what, "none") == 0;
    if (strcmp(what, "memory") == 0) {
        return script_plain(l, 2) != NULL ||
               play_wrong(p, l, "want: ! memory REGION+OFFSET OCTETS");
    }
    if (strcmp(what, "refused") == 0) {
        return l->cnt > 1 || play_wrong(p, l, "want: ! refused ACTIONS");
    }
    if (strcmp(what, "answer") == 0) {
        return (l->cnt == 3 && l->arg[1].key[0] == 0 && l->arg[2].key[0] == 0) ||
               play_wrong(p, l, "want: ! answer \"QUESTION\" \"ANSWER\"");
    }
    what = !none ? what : l->cnt > 1 ? l->arg[1].val : "";
    for (size_t i = 0; i < ARRAY_LEN(events); i++) {
        if (strcmp(events[i], what) == 0) {
            return true;
        }
    }
    return play_wrong(p, l, "'%s': want %s", what,
                      none ? "! none EVENT" : "an event, none, memory, refused or answer");
}

bool play_event(struct play *p, const struct script_line *l)
{
    if (!event_line_ok(p, l)) {
        return false;
    }
    if (!p->cfg->responder) {
        return true; /* nobody shows them */
    }
    if (p->cfg->above != NULL && !p->cfg->above->sees(p->cfg->above->arg, p, l)) {
        return true;
    }
    if (!play_case(p, l)) {
        return false;
    }
    if (strcmp(l->arg[0].val, "memory") == 0) {
        return want_memory(p, l);
    }
    if (strcmp(l->arg[0].val, "refused") == 0) {
        return want_refused(p, l);
    }
    if (strcmp(l->arg[0].val, "answer") == 0) {
        return want_answer(p, l);
    }
    return strcmp(l->arg[0].val, "none") == 0 ? want_none(p, l) : want_event(p, l);
}
