/* SPDX-License-Identifier: MIT */
/* Vector files: lines to struct vec, values out of lines. */
#include "vec.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "octets.h"

static const char blanks[] = " \t\r\n";

void vec_fail(struct vec *v, unsigned line, const char *fmt, ...)
{
    v->faults++;
    printf("%s:%u: %s: ", v->file, line, v->name);
    if (v->how != NULL) {
        printf("%s", v->how);
        printf(v->cut > 0 ? " %u: " : ": ", v->cut);
    }
    va_list ap;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

/* --- reading --- */

static void split(struct vec *v, struct vec_line *l, unsigned line, char *rest)
{
    *l = (struct vec_line){.line = line, .text = strdup(rest), .what = ""};
    char *save = NULL;
    char *word = l->text != NULL ? strtok_r(l->text, blanks, &save) : NULL;
    if (word == NULL) {
        vec_fail(v, line, "nothing follows");
        return;
    }
    l->what = word;
    while ((word = strtok_r(NULL, blanks, &save)) != NULL) {
        if (l->cnt == VEC_ARGS) {
            vec_fail(v, line, "more than %d arguments", VEC_ARGS);
            return;
        }
        char *eq = strchr(word, '=');
        l->arg[l->cnt].key = eq != NULL ? word : "";
        l->arg[l->cnt].val = eq != NULL ? eq + 1 : word;
        if (eq != NULL) {
            *eq = 0;
        }
        l->cnt++;
    }
}

static void add_octets(struct vec *v, unsigned line, bool build, char *rest)
{
    if (v->n > 0 && v->build != build) {
        vec_fail(v, line, "both = and < in one vector");
    }
    v->build = build;
    char *save = NULL;
    for (char *w = strtok_r(rest, blanks, &save); w != NULL; w = strtok_r(NULL, blanks, &save)) {
        int64_t n = octets_group(w, v->bytes + v->n, VEC_BYTES - v->n);
        if (n < 0) {
            vec_fail(v, line, "bad octets '%s'", w);
            return;
        }
        v->n += (uint32_t)n;
    }
}

/* For people, for the tables, or for the player. */
static bool says_nothing_here(const char *word)
{
    static const char *const words[] = {"text", "proves", "answer", "level", "base", "cut"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcmp(words[i], word) == 0) {
            return true;
        }
    }
    return false;
}

static void add_line(struct vec *v, unsigned line, const char *word, char *rest)
{
    if (strcmp(word, "!") == 0) {
        if (v->ev_cnt == VEC_EVENTS) {
            vec_fail(v, line, "more than %d events", VEC_EVENTS);
        } else {
            split(v, &v->ev[v->ev_cnt++], line, rest);
        }
    } else if (strcmp(word, "cfg") == 0) {
        if (v->cfg.text != NULL) {
            vec_fail(v, line, "second cfg line");
        } else {
            split(v, &v->cfg, line, rest);
        }
    } else if (strcmp(word, "=") == 0 || strcmp(word, "<") == 0) {
        add_octets(v, line, word[0] == '=', rest);
    } else if (!says_nothing_here(word)) {
        vec_fail(v, line, "unknown line '%s'", word);
    }
}

/* The vector line: id and name become one text. */
static void begin(struct vec *v, const char *file, unsigned line, const char *rest)
{
    v->file = file;
    v->line = line;
    char id[24] = "", name[36] = "";
    int got = sscanf(rest, "%23s %35s", id, name);
    snprintf(v->name, sizeof v->name, "%s %s", id, name);
    if (got != 2) {
        vec_fail(v, line, "want: vector ID NAME");
    }
}

static void check_whole(struct vec *v)
{
    if (v->cfg.text == NULL) {
        vec_fail(v, v->line, "no cfg line");
    }
    if (v->ev_cnt == 0) {
        vec_fail(v, v->line, "no ! line");
    }
}

bool vec_read(FILE *f, const char *file, unsigned *line, struct vec *v)
{
    memset(v, 0, sizeof *v);
    v->file = file;
    strcpy(v->name, "-");
    char *text = NULL;
    size_t size = 0;
    bool begun = false, play = false;
    long here = ftell(f);
    while (getline(&text, &size, f) >= 0) {
        ++*line;
        char word[16] = "";
        int end = 0;
        if (sscanf(text, "%15s%n", word, &end) == 1 && word[0] != '#') {
            bool is_new = strcmp(word, "vector") == 0;
            if (is_new && begun) {
                /* the next one's: to be read again */
                fseek(f, here, SEEK_SET);
                --*line;
                break;
            }
            if (is_new) {
                begun = true;
                play = false;
                begin(v, file, *line, text + end);
            } else if (strcmp(word, "play") == 0) {
                play = true; /* the rest is the player's */
            } else if (begun && !play) {
                add_line(v, *line, word, text + end);
            } else if (!begun && strcmp(word, "scenario") == 0) {
                break;
            } else if (!begun) {
                vec_fail(v, *line, "'%s' before the first vector line", word);
            }
        }
        here = ftell(f);
    }
    free(text);
    if (begun) {
        check_whole(v);
    }
    return begun;
}

void vec_free(struct vec *v)
{
    free(v->cfg.text);
    for (unsigned i = 0; i < v->ev_cnt; i++) {
        free(v->ev[i].text);
    }
}

/* --- values --- */

bool vec_is(const struct vec_line *l, const char *what)
{
    return strcmp(l->what, what) == 0;
}

bool vec_has(const struct vec_line *l, const char *key)
{
    for (unsigned i = 0; i < l->cnt; i++) {
        if (strcmp(l->arg[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

const char *vec_word(struct vec_line *l, const char *key, const char *def)
{
    for (unsigned i = 0; i < l->cnt; i++) {
        if (strcmp(l->arg[i].key, key) == 0) {
            l->arg[i].used = true;
            return l->arg[i].val;
        }
    }
    return def;
}

uint64_t vec_num(struct vec *v, struct vec_line *l, const char *key, uint64_t def)
{
    const char *s = vec_word(l, key, NULL);
    if (s == NULL) {
        return def;
    }
    char *end;
    errno = 0;
    unsigned long long x = strtoull(s, &end, 0);
    if (!isdigit((unsigned char)s[0]) || *end != 0 || errno != 0) {
        vec_fail(v, l->line, "%s=%s is no number", key, s);
    }
    return x;
}

struct verdict vec_verdict(struct vec *v, struct vec_line *l, const char *key)
{
    const char *s = vec_word(l, key, "ok");
    unsigned layer, type, code;
    int end = 0;
    if (strcmp(s, "ok") == 0) {
        return VERDICT_OK;
    }
    if (sscanf(s, "%u/%u/%x%n", &layer, &type, &code, &end) != 3 || s[end] != 0 || layer > 15 ||
        type > 15 || code > 255) {
        vec_fail(v, l->line, "'%s' is no verdict", s);
        return VERDICT_OK;
    }
    return verdict_bad(layer, type, code);
}

uint32_t vec_octets(struct vec *v, struct vec_line *l, const char *key, uint8_t *out, uint32_t max)
{
    uint32_t n = 0;
    for (unsigned i = 0; i < l->cnt; i++) {
        if (strcmp(l->arg[i].key, key) == 0) {
            l->arg[i].used = true;
            int64_t got = octets_group(l->arg[i].val, out + n, max - n);
            if (got < 0) {
                vec_fail(v, l->line, "bad octets '%s'", l->arg[i].val);
                return n;
            }
            n += (uint32_t)got;
        }
    }
    return n;
}

bool vec_want(struct vec *v, struct vec_line *l, const char *key, uint64_t def, uint64_t got)
{
    uint64_t want = vec_num(v, l, key, def);
    if (want != got) {
        vec_fail(v, l->line, "%s is 0x%llx, must be 0x%llx", key, (unsigned long long)got,
                 (unsigned long long)want);
    }
    return want == got;
}

bool vec_want_verdict(struct vec *v, struct vec_line *l, const char *key, struct verdict got)
{
    struct verdict want = vec_verdict(v, l, key);
    bool same =
        want.bad == got.bad && (!want.bad || verdict_is(got, want.layer, want.type, want.code));
    if (!same) {
        vec_fail(v, l->line, "verdict %s is %u/%u/%02x (%s), must be '%s'", key, got.layer,
                 got.type, got.code, verdict_text(got), verdict_text(want));
    }
    return same;
}

bool vec_want_octets(struct vec *v, unsigned line, struct span want, struct span got)
{
    for (uint32_t i = 0; i < min_u32(want.n, got.n); i++) {
        if (want.p[i] != got.p[i]) {
            vec_fail(v, line, "octet %u is %02x, must be %02x", i, got.p[i], want.p[i]);
            return false;
        }
    }
    if (want.n != got.n) {
        vec_fail(v, line, "%u octets, must be %u", got.n, want.n);
        return false;
    }
    return true;
}

static void unused_in(struct vec *v, const struct vec_line *l)
{
    for (unsigned i = 0; i < l->cnt; i++) {
        if (!l->arg[i].used) {
            vec_fail(v, l->line, "'%s%s%s' means nothing in '%s'", l->arg[i].key,
                     l->arg[i].key[0] != 0 ? "=" : "", l->arg[i].val, l->what);
        }
    }
}

void vec_unused(struct vec *v)
{
    v->how = NULL;
    unused_in(v, &v->cfg);
    for (unsigned i = 0; i < v->ev_cnt; i++) {
        unused_in(v, &v->ev[i]);
    }
}

/* --- cuts --- */

/* Runs fn over v->bytes in pieces of `size` octets, of which the first may have another size. Every
 * piece is a block of its own, so that a sanitizer sees an octet read past its end. */
static void run_cut(struct vec *v, uint32_t first, uint32_t size,
                    void (*fn)(struct vec *, struct cursor))
{
    struct span *pieces = calloc((size_t)v->n + 2, sizeof *pieces);
    uint32_t cnt = 0;
    for (uint32_t at = 0; pieces != NULL && at < v->n; cnt++) {
        uint32_t n = min_u32(cnt == 0 ? first : size, v->n - at);
        uint8_t *block = malloc(n > 0 ? n : 1);
        if (block == NULL) {
            break;
        }
        memcpy(block, v->bytes + at, n);
        pieces[cnt] = (struct span){block, n};
        at += n;
    }
    fn(v, cursor_of(pieces, cnt));
    v->runs++;
    for (uint32_t i = 0; i < cnt; i++) {
        free((void *)(uintptr_t)pieces[i].p);
    }
    free(pieces);
}

void vec_each_cut(struct vec *v, uint32_t max_pieces, void (*fn)(struct vec *, struct cursor))
{
    v->how = "in one piece";
    v->cut = 0;
    run_cut(v, v->n, v->n, fn);
    v->how = "cut at";
    for (v->cut = 1; v->cut < v->n && v->faults == 0; v->cut++) {
        run_cut(v, v->cut, v->n, fn);
    }
    v->how = "in pieces of";
    v->cut = v->n / max_pieces + 1;
    if (v->faults == 0) {
        run_cut(v, v->cut, v->cut, fn);
    }
    v->how = NULL;
    v->cut = 0;
}
