/* SPDX-License-Identifier: MIT */
/* What MPA alone can answer of the responder's questions (docs/vectors.md): the case, its events, STags that
 * stand for regions. Actions of the program above change nothing here, but for what concerns the set-up and
 * the size of segments. */
#include <stdio.h>
#include <stdlib.h>

#include "mpa_world.h"
#include "octets.h"

enum { DEPTH = 16 };

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* --- case --- */

static bool on(const char *val)
{
    return is(val, "on");
}

/* KIND+KIND...; 0: a word is none. */
static uint8_t rtr_of(const char *val)
{
    unsigned set = 0;
    do {
        size_t n = strcspn(val, "+");
        unsigned kind = n == 4 && strncmp(val, "send", 4) == 0    ? MPA_RTR_SEND
                        : n == 5 && strncmp(val, "write", 5) == 0 ? MPA_RTR_WRITE
                        : n == 4 && strncmp(val, "read", 4) == 0  ? MPA_RTR_READ
                                                                  : 0;
        if (kind == 0) {
            return 0;
        }
        set |= kind;
        val += n;
    } while (*val++ == '+');
    return (uint8_t)set;
}

static bool set_depth(uint16_t *depth, const char *val)
{
    uint64_t n;
    bool ok = octets_is_number(val, 0x3fff, &n);
    *depth = ok ? (uint16_t)n : 0;
    return ok;
}

static bool set_rev(struct mpa_cfg *cfg, const char *val)
{
    uint64_t n;
    bool ok = octets_is_number(val, MPA_REV_2, &n);
    cfg->rev = ok ? (uint8_t)n : MPA_REV_2;
    return ok;
}

static bool set_device_key(struct mpa_cfg *cfg, const char *key, const char *val)
{
    if (is(key, "markers") || is(key, "crc")) {
        *(is(key, "crc") ? &cfg->crc : &cfg->markers) = on(val);
        return on(val) || is(val, "off");
    }
    if (is(key, "ird") || is(key, "ord")) {
        return set_depth(is(key, "ird") ? &cfg->ird : &cfg->ord, val);
    }
    return !is(key, "rev") || set_rev(cfg, val);
}

static bool set_device(struct mpa_cfg *cfg, char *keys)
{
    char *save = NULL;
    for (char *k = strtok_r(keys, ";", &save); k != NULL; k = strtok_r(NULL, ";", &save)) {
        char *val = strchr(k, '=');
        if (val == NULL) {
            return false;
        }
        *val++ = 0;
        if (!set_device_key(cfg, k, val)) {
            return false;
        }
    }
    return true;
}

static bool set_key(struct mpa_case *c, const char *key, char *val)
{
    if (is(key, "ird") || is(key, "ord")) {
        return set_depth(is(key, "ird") ? &c->cfg.ird : &c->cfg.ord, val);
    }
    if (is(key, "rtr")) {
        c->cfg.rtr = rtr_of(val);
        return c->cfg.rtr != 0;
    }
    if (is(key, "pd")) {
        int64_t n = octets_group(val, c->pd, sizeof c->pd);
        c->pd_len = (uint16_t)(n > 0 ? n : 0);
        return n >= 0;
    }
    if (is(key, "device")) {
        return set_device(&c->cfg, val);
    }
    c->initiator |= is(key, "to");
    return is(key, "to") || is(key, "recv") || is(key, "cq") || is(key, "do");
}

static bool set_word(struct mpa_case *c, char *word)
{
    char *eq = strchr(word, '=');
    if (eq != NULL) {
        *eq = 0;
        return set_key(c, word, eq + 1);
    }
    c->reject |= is(word, "reject");
    c->hold |= is(word, "hold");
    c->cfg.p2p |= is(word, "p2p");
    return is(word, "reject") || is(word, "hold") || is(word, "p2p") || is(word, "srq") ||
           is(word, "solicited");
}

/* What a program offers or takes that says nothing of RTRs. */
static uint8_t usual_rtr(const struct mpa_case *c)
{
    unsigned both = MPA_RTR_WRITE | MPA_RTR_READ;
    return (uint8_t)(c->initiator ? both : both | MPA_RTR_SEND);
}

void mpa_case_usual(struct mpa_case *c)
{
    *c = (struct mpa_case){.cfg = {.crc = true, .rev = MPA_REV_2, .ird = DEPTH, .ord = DEPTH}};
}

static void ask_case(struct mpa_world *w, char *args, char *out, size_t room)
{
    struct mpa_case c;
    char *save = NULL;
    mpa_case_usual(&c);
    for (char *word = strtok_r(args, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        if (!set_word(&c, word)) {
            snprintf(out, room, "no: '%.60s' is not understood", word);
            return;
        }
    }
    c.cfg.rtr = c.cfg.rtr != 0 ? c.cfg.rtr : usual_rtr(&c);
    c.cfg.p2p = c.cfg.p2p && c.cfg.rev >= MPA_REV_2;
    w->now = c;
    w->opened = w->logged = 0;
    if (c.initiator) {
        mpa_connect(w, false);
    }
}

/* --- what there is --- */

static void ask_regions(const char *args, char *out, size_t room)
{
    static const struct {
        const char *name;
        uint32_t len;
        bool from_0;
    } regions[] = {{"rw", 0x11000, true},     {"ro", 0x1000, false},     {"wo", 0x1000, false},
                   {"no", 0x1000, false},     {"other", 0x11000, false}, {"inv1", 0x1000, false},
                   {"inv2", 0x1000, false},   {"noinv", 0x1000, false},  {"small", 100, false},
                   {"scoped", 0x1000, false}, {"sink", 0x40000, false},  {"src", 0x40000, false},
                   {"big", 0x40000, false},   {"at", 0x1000, false},     {"ato", 0x1000, false}};
    size_t n = (size_t)snprintf(out, room, "ok");
    for (size_t i = (size_t)atoi(args); i < ARRAY_LEN(regions) && n + 40 < room; i++) {
        unsigned long long base = regions[i].from_0 ? 0 : 0x7f0000000000u + i * 0x1000000u;
        n += (size_t)snprintf(out + n, room - n, " %s=%zx:%llx:%x", regions[i].name,
                              0x4a0100 + i * 0x311, base, regions[i].len);
    }
}

static void ask_log(const struct mpa_world *w, const char *args, char *out, size_t room)
{
    size_t n = (size_t)snprintf(out, room, "ok");
    for (unsigned i = (unsigned)atoi(args); i < w->logged; i++) {
        const char *line = w->log[i];
        if (n + strlen(line) + 2 > room) {
            return;
        }
        n += (size_t)snprintf(out + n, room - n, "\n%s", line);
    }
}

/* --- actions --- */

static struct tr_conn *conn_of(struct mpa_world *w, unsigned no)
{
    for (unsigned i = 0; i < MPA_CONNS; i++) {
        if (w->conn[i] != NULL && w->conn[i]->no == no) {
            return w->conn[i];
        }
    }
    return NULL;
}

static void act(struct mpa_world *w, unsigned no, const char *what)
{
    struct tr_conn *c = conn_of(w, no);
    if (c != NULL && strncmp(what, "hook:emss=", 10) == 0) {
        c->end.emss = (uint32_t)atoi(what + 10);
    } else if (c != NULL && (is(what, "accept") || is(what, "reject"))) {
        mpa_answer(c, is(what, "accept"));
    }
}

static void ask_do(struct mpa_world *w, char *args)
{
    char *save = NULL, *rest;
    unsigned no = (unsigned)strtoul(args, &rest, 10);
    for (char *a = strtok_r(rest, " ,", &save); a != NULL; a = strtok_r(NULL, " ,", &save)) {
        act(w, no, a);
    }
}

void mpa_ask(struct mpa_world *w, char *question, char *out, size_t room)
{
    char *args = strchr(question, ' ');
    if (args != NULL) {
        *args++ = 0;
    } else {
        args = question + strlen(question);
    }
    snprintf(out, room, "ok");
    if (is(question, "hello")) {
        snprintf(out, room, "ok MPA alone");
    } else if (is(question, "case")) {
        ask_case(w, args, out, room);
    } else if (is(question, "regions")) {
        ask_regions(args, out, room);
    } else if (is(question, "log")) {
        ask_log(w, args, out, room);
    } else if (is(question, "do")) {
        ask_do(w, args);
    } else {
        snprintf(out, room, "cannot know what is above MPA");
    }
}
