/* SPDX-License-Identifier: MIT */
/* Values out of lines: numbers with regions and variables, octets, verdicts. */
#include <ctype.h>

#include "octets.h"
#include "play_int.h"

/* --- variables --- */

static struct play_var *find_var(struct play *p, const char *name, size_t len)
{
    for (unsigned i = 0; i < p->vars; i++) {
        if (strlen(p->var[i].name) == len && strncmp(p->var[i].name, name, len) == 0) {
            return &p->var[i];
        }
    }
    return NULL;
}

bool play_set(struct play *p, const char *name, uint64_t value)
{
    struct play_var *v = find_var(p, name, strlen(name));
    if (v == NULL) {
        if (p->vars == PLAY_VARS || strlen(name) >= sizeof v->name) {
            return false;
        }
        v = &p->var[p->vars++];
        snprintf(v->name, sizeof v->name, "%s", name);
    }
    /* Small negative numbers come from loops; all else is an address or a length. */
    if (value >= UINT64_MAX - 65535 && value != UINT64_MAX) {
        snprintf(v->text, sizeof v->text, "%lld", (long long)value);
    } else {
        snprintf(v->text, sizeof v->text, "%llu", (unsigned long long)value);
    }
    return true;
}

bool play_set_named(struct play *p, const struct script_line *l, const char *name, uint64_t value)
{
    size_t n = 0;
    while (isalnum((unsigned char)name[n]) || name[n] == '_') {
        n++;
    }
    if (n == 0 || name[n] != 0 || n >= sizeof p->var[0].name) {
        return play_wrong(p, l, "'%s': want a name of at most %zu letters, digits and _", name,
                          sizeof p->var[0].name - 1);
    }
    return play_set(p, name, value) ||
           play_wrong(p, l, "'%s' is one variable more than the %d there can be", name, PLAY_VARS);
}

/* Copies text with $name replaced; returns how many octets of the arena it took, or 0. */
static size_t subst(struct play *p, const char *text, char *to, size_t room)
{
    size_t n = 0;
    while (*text != 0 && n + 1 < room) {
        if (*text != '$') {
            to[n++] = *text++;
            continue;
        }
        size_t len = 0;
        while (isalnum((unsigned char)text[1 + len]) || text[1 + len] == '_') {
            len++;
        }
        struct play_var *v = find_var(p, text + 1, len);
        if (v == NULL || room - n < sizeof v->text) {
            return 0;
        }
        n += (size_t)snprintf(to + n, room - n, "%s", v->text);
        text += 1 + len;
    }
    to[n] = 0;
    return n + 1 < room ? n + 1 : 0;
}

bool play_subst(struct play *p, const struct script_line *l, struct script_line *to, char *arena)
{
    size_t at = 0;
    *to = *l;
    for (unsigned i = 0; i < l->cnt; i++) {
        if (strchr(l->arg[i].val, '$') == NULL) {
            continue;
        }
        size_t n = subst(p, l->arg[i].val, arena + at, PLAY_ARENA - at);
        if (n == 0) {
            return play_fail(p, l, "no such variable in '%s'", l->arg[i].val);
        }
        to->arg[i].val = arena + at;
        at += n;
    }
    return true;
}

/* --- numbers --- */

struct play_region *play_region(struct play *p, const char *name)
{
    if (!p->regions_known && p->cfg->responder) {
        p->regions_known = play_regions(p, NULL);
    }
    for (unsigned i = 0; i < p->regions; i++) {
        if (strcmp(p->region[i].name, name) == 0) {
            return &p->region[i];
        }
    }
    return NULL;
}

/* One term: a number, or NAME, NAME.len, NAME.stag, NAME.to. */
static bool term(struct play *p, const char **at, bool stag, uint64_t *out)
{
    const char *s = *at;
    char name[24];
    size_t n = 0;
    if (isdigit((unsigned char)*s)) {
        s = octets_number(s, out);
        *at = s != NULL ? s : *at;
        return s != NULL;
    }
    while ((isalnum((unsigned char)s[n]) || s[n] == '.') && n + 1 < sizeof name) {
        name[n] = s[n];
        n++;
    }
    name[n] = 0;
    *at = s + n;
    char *dot = strchr(name, '.');
    if (dot != NULL) {
        *dot++ = 0;
    }
    const struct play_region *r = n > 0 ? play_region(p, name) : NULL;
    bool want_stag = dot != NULL ? strcmp(dot, "stag") == 0 : stag;
    bool want_len = dot != NULL && strcmp(dot, "len") == 0;
    if (r == NULL || (dot != NULL && !want_stag && !want_len && strcmp(dot, "to") != 0)) {
        return false;
    }
    p->no_region |= r->stag == 0;
    p->of_region = true;
    *out = want_len ? r->len : want_stag ? r->stag : r->to;
    return true;
}

bool play_eval(struct play *p, const char *text, bool stag, uint64_t *out)
{
    uint64_t sum = 0;
    const char *at = text;
    p->no_region = p->of_region = false;
    do {
        bool minus = false;
        while (*at == '+' || *at == '-') {
            minus ^= *at++ == '-';
        }
        uint64_t v;
        if (!term(p, &at, stag, &v)) {
            return false;
        }
        sum = minus ? sum - v : sum + v;
    } while (*at == '+' || *at == '-');
    *out = sum;
    return *at == 0;
}

static uint64_t number(struct play *p, const struct script_line *l, const char *key, bool stag)
{
    uint64_t v = 0;
    const char *text = script_word(l, key, "");
    if (!play_eval(p, text, stag, &v)) {
        play_wrong(p, l, "%s=%s is no number of 64 bits, and no region of that name is known", key,
                   text);
        return 0;
    } else if (p->no_region) {
        play_skip(p, l, "the tested end has no region like '%.15s'", text);
    }
    return v;
}

uint64_t play_num(struct play *p, const struct script_line *l, const char *key, uint64_t def)
{
    return script_has(l, key) ? number(p, l, key, false) : def;
}

uint64_t play_most(struct play *p, const struct script_line *l, const char *key, uint64_t def,
                   uint64_t max)
{
    uint64_t v = play_num(p, l, key, def);
    if (!script_has(l, key) || v <= max) {
        return v;
    }
    play_wrong(p, l, "%s=%s: want a number from 0 to %llu", key, script_word(l, key, ""),
               (unsigned long long)max);
    return 0;
}

uint64_t play_field(struct play *p, const struct script_line *l, const char *key, unsigned bits,
                    uint64_t def)
{
    return play_most(p, l, key, def, UINT64_MAX >> (64 - bits));
}

uint32_t play_field32(struct play *p, const struct script_line *l, const char *key, uint32_t def)
{
    return (uint32_t)play_field(p, l, key, 32, def);
}

bool play_flag(struct play *p, const struct script_line *l, const char *key, bool def)
{
    return play_field(p, l, key, 1, def) != 0;
}

uint64_t play_until(struct play *p, const struct script_line *l, unsigned more)
{
    uint64_t least = min_u32(p->cfg->least_ms, p->limit_ms);
    uint64_t ms = play_most(p, l, "limit", p->limit_ms + more, PLAY_MS);
    return play_now(p) + (ms < least ? least : ms);
}

bool play_ms(struct play *p, const struct script_line *l, unsigned i, uint64_t *ms)
{
    const char *text = script_plain(l, i);
    if (text == NULL || !play_eval(p, text, false, ms) || *ms > PLAY_MS) {
        return play_wrong(p, l, "'%s': want milliseconds, 0 to %d", text != NULL ? text : "",
                          PLAY_MS);
    }
    return true;
}

/* What is a number of the file's own must fit; beside the STag of a region any other may be meant. */
uint32_t play_stag(struct play *p, const struct script_line *l, const char *key, uint32_t def)
{
    uint64_t v = script_has(l, key) ? number(p, l, key, true) : def;
    if (v > UINT32_MAX && !p->of_region) {
        play_wrong(p, l, "%s=%s: want a number from 0 to %u", key, script_word(l, key, ""),
                   UINT32_MAX);
        return 0;
    }
    return (uint32_t)v;
}

/* --- octets --- */

bool play_has_octets(const struct script_line *l, unsigned from)
{
    return script_plain(l, from) != NULL;
}

bool play_octets(struct play *p, const struct script_line *l, unsigned from, uint8_t *out,
                 uint32_t *n)
{
    unsigned at = 0;
    *n = 0;
    for (unsigned i = 0; i < l->cnt; i++) {
        const struct script_arg *a = &l->arg[i];
        if (a->key[0] != 0 || at++ < from) {
            continue;
        }
        int64_t got;
        if (a->quoted) {
            size_t len = strlen(a->val);
            got = len <= PLAY_MESSAGE - *n ? (int64_t)len : -1;
            memcpy(out + *n, a->val, got > 0 ? len : 0);
        } else {
            got = octets_group(a->val, out + *n, PLAY_MESSAGE - *n);
        }
        if (got < 0) {
            return play_wrong(p, l, "bad octets '%.60s', or more than %d", a->val, PLAY_MESSAGE);
        }
        *n += (uint32_t)got;
    }
    return true;
}
