/* SPDX-License-Identifier: MIT */
#include "script.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "octets.h"

enum { OCTETS_MAX = 1 << 17, LINES_MAX = 2000 };

static void fault(struct script *s, unsigned line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Begins with the file's name, without its folders: there is no limit to those. */
static void fault(struct script *s, unsigned line, const char *fmt, ...)
{
    const char *slash = strrchr(s->path, '/');
    char what[200];
    va_list ap;
    if (s->fault[0] != 0) {
        return;
    }
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    snprintf(s->fault, sizeof s->fault, "%.300s:%u: %s", slash != NULL ? slash + 1 : s->path, line,
             what);
}

/* --- words --- */

/* Cuts the next word off; a word in quotes, or with quotes behind its '=', may hold blanks. */
static char *next_word(char **rest, bool *quoted)
{
    char *p = *rest;
    while (*p == ' ' || *p == '\t') {
        p++;
    }
    if (*p == 0) {
        return NULL;
    }
    char *word = p, *to = p;
    bool in = false;
    *quoted = *p == '"';
    for (; *p != 0 && (in || (*p != ' ' && *p != '\t')); p++) {
        if (*p == '"') {
            in = !in;
        } else {
            *to++ = *p;
        }
    }
    *rest = *p != 0 ? p + 1 : p;
    *to = 0;
    return word;
}

static void split(struct script *s, struct script_line *l, unsigned line, const char *text)
{
    *l = (struct script_line){.line = line, .text = strdup(text), .word = ""};
    if (l->text == NULL) {
        fault(s, line, "out of memory");
        return;
    }
    char *rest = l->text, *w;
    bool quoted;
    if ((w = next_word(&rest, &quoted)) != NULL) {
        l->word = w;
    }
    while ((w = next_word(&rest, &quoted)) != NULL) {
        if (l->cnt == SCRIPT_ARGS) {
            fault(s, line, "more than %d words", SCRIPT_ARGS);
            return;
        }
        char *eq = quoted ? NULL : strchr(w, '=');
        l->arg[l->cnt] = (struct script_arg){eq != NULL ? w : "", eq != NULL ? eq + 1 : w, quoted};
        if (eq != NULL) {
            *eq = 0;
        }
        l->cnt++;
    }
}

bool script_has(const struct script_line *l, const char *key)
{
    return script_word(l, key, NULL) != NULL;
}

const char *script_word(const struct script_line *l, const char *key, const char *def)
{
    for (unsigned i = 0; i < l->cnt; i++) {
        if (strcmp(l->arg[i].key, key) == 0 && !(key[0] == 0 && l->arg[i].quoted)) {
            if (l->asked != NULL) {
                *l->asked |= 1u << i;
            }
            return l->arg[i].val;
        }
    }
    return def;
}

const char *script_plain(const struct script_line *l, unsigned i)
{
    for (unsigned k = 0; k < l->cnt; k++) {
        if (l->arg[k].key[0] == 0 && i-- == 0) {
            return l->arg[k].val;
        }
    }
    return NULL;
}

/* --- head and octets --- */

static void add_octets(struct script *s, unsigned line, bool build, char *rest)
{
    if (s->n > 0 && s->build != build) {
        fault(s, line, "both = and < in one vector");
    }
    s->build = build;
    char *save = NULL;
    for (char *w = strtok_r(rest, " \t", &save); w != NULL; w = strtok_r(NULL, " \t", &save)) {
        int64_t n = octets_group(w, s->octets + s->n, OCTETS_MAX - s->n);
        if (n < 0) {
            fault(s, line, "bad octets '%s'", w);
            return;
        }
        s->n += (uint32_t)n;
    }
}

static uint64_t cfg_number(struct script *s, const char *key, const char *def, uint64_t max)
{
    const char *text = script_word(&s->cfg, key, def);
    uint64_t v = 0;
    if (!octets_is_number(text, max, &v)) {
        fault(s, s->cfg.line, "%s=%s: want a number from 0 to %llu", key, text,
              (unsigned long long)max);
    }
    return v;
}

static void add_cfg(struct script *s, unsigned line, const char *text)
{
    const struct script_line *l = &s->cfg;
    if (l->text != NULL) {
        fault(s, line, "second cfg line");
        return;
    }
    split(s, &s->cfg, line, text);
    s->startup = script_plain(l, 0) != NULL && strcmp(script_plain(l, 0), "startup") == 0;
    s->markers = cfg_number(s, "markers", "0", 1) != 0;
    s->crc = cfg_number(s, "crc", "1", 1) != 0;
    s->pos = (uint32_t)cfg_number(s, "pos", "0", UINT32_MAX);
}

/* Room for one more line behind the cnt that are there, or NULL. */
static struct script_line *one_more(struct script *s, unsigned line, struct script_line **all,
                                    unsigned cnt)
{
    if (cnt == LINES_MAX) {
        fault(s, line, "more than %d lines", LINES_MAX);
        return NULL;
    }
    if (cnt % 32 == 0) {
        void *more = realloc(*all, (cnt + 32) * sizeof **all);
        if (more == NULL) {
            fault(s, line, "out of memory");
            return NULL;
        }
        *all = more;
    }
    return *all + cnt;
}

static void add_seen(struct script *s, unsigned line, const char *text)
{
    struct script_line *l = one_more(s, line, &s->seen, s->seen_cnt);
    if (l != NULL) {
        split(s, l, line, text);
        s->seen_cnt++;
    }
}

static void add_text(struct script *s, unsigned line, char *to, size_t room, const char *more)
{
    size_t n = strlen(to);
    int k = snprintf(to + n, room - n, "%s%s", n > 0 ? " " : "", more);
    if (k < 0 || (size_t)k >= room - n) {
        fault(s, line, "more than %zu characters", room - 1);
    }
}

static void add_name(struct script *s, unsigned line, const char *kind, const char *rest)
{
    int end = 0;
    if (sscanf(rest, "%15s %47s%n", s->id, s->name, &end) != 2) {
        fault(s, line, "want: %s ID NAME", kind);
    } else if (rest[end] != 0) {
        fault(s, line, "want: %s ID NAME, of at most %zu and %zu characters", kind,
              sizeof s->id - 1, sizeof s->name - 1);
    }
}

static void add_needs(struct script *s, unsigned line, const char *rest)
{
    if (strncmp(rest, "stack ", 6) != 0) {
        fault(s, line, "want: needs stack WHY");
        return;
    }
    add_text(s, line, s->stack, sizeof s->stack, rest + 6);
}

/* There is only one that may stand there. */
static bool only_word(struct script *s, unsigned line, const char *key, const char *got,
                      const char *want)
{
    bool is = strcmp(got, want) == 0;
    if (!is) {
        fault(s, line, "%s '%s': want %s %s", key, got, key, want);
    }
    return is;
}

static void head_line(struct script *s, unsigned line, char *text)
{
    char word[16] = "";
    int end = 0;
    sscanf(text, "%15s%n", word, &end);
    char *rest = text + end + strspn(text + end, " \t");
    if (strcmp(word, "vector") == 0 || strcmp(word, "scenario") == 0) {
        s->vector = word[0] == 'v';
        add_name(s, line, word, rest);
    } else if (strcmp(word, "text") == 0) {
        add_text(s, line, s->text, sizeof s->text, rest);
    } else if (strcmp(word, "proves") == 0) {
        add_text(s, line, s->proves, sizeof s->proves, rest);
    } else if (strcmp(word, "level") == 0) {
        s->should = only_word(s, line, word, rest, "should");
    } else if (strcmp(word, "base") == 0) {
        s->base = only_word(s, line, word, rest, "");
    } else if (strcmp(word, "cut") == 0) {
        s->one_piece = only_word(s, line, word, rest, "no");
    } else if (strcmp(word, "needs") == 0) {
        add_needs(s, line, rest);
    } else if (strcmp(word, "cfg") == 0) {
        add_cfg(s, line, text);
    } else if (strcmp(word, "=") == 0 || strcmp(word, "<") == 0) {
        add_octets(s, line, word[0] == '=', rest);
    } else if (strcmp(word, "!") == 0) {
        add_seen(s, line, text);
    } else if (strcmp(word, "answer") != 0) {
        fault(s, line, "unknown line '%s'", word);
    }
}

static void play_line(struct script *s, unsigned line, const char *text)
{
    bool soft = strncmp(text, "should ", 7) == 0;
    struct script_line *l = one_more(s, line, &s->line, s->lines);
    if (l != NULL) {
        split(s, l, line, soft ? text + 7 : text);
        l->soft = soft;
        s->lines++;
    }
}

static void read_lines(struct script *s, FILE *f)
{
    char *text = NULL;
    size_t size = 0;
    bool play = false;
    unsigned line = 0;
    while (getline(&text, &size, f) >= 0) {
        line++;
        size_t n = strlen(text);
        while (n > 0 && isspace((unsigned char)text[n - 1])) {
            text[--n] = 0;
        }
        char *p = text + strspn(text, " \t");
        if (*p == 0 || *p == '#') {
            continue;
        }
        if (strcmp(p, "play") == 0) {
            play = true;
        } else if (play) {
            play_line(s, line, p);
        } else {
            head_line(s, line, p);
        }
    }
    free(text);
}

/* The folder's name is the RFC. */
static void note_rfc(struct script *s)
{
    const char *end = strrchr(s->path, '/');
    if (end == NULL) {
        return;
    }
    const char *from = end;
    while (from > s->path && from[-1] != '/') {
        from--;
    }
    snprintf(s->rfc, sizeof s->rfc, "%.*s", (int)(end - from), from);
}

static struct script *script_new(const char *path)
{
    struct script *s = calloc(1, sizeof *s);
    if (s != NULL) {
        s->path = strdup(path);
        s->octets = malloc(OCTETS_MAX);
        s->crc = true;
    }
    if (s == NULL || s->path == NULL || s->octets == NULL) {
        script_free(s);
        errno = ENOMEM;
        return NULL;
    }
    return s;
}

struct script *script_load(const char *path)
{
    FILE *f = fopen(path, "r");
    struct script *s = f != NULL ? script_read(f, path) : NULL;
    int why = errno;
    if (f != NULL) {
        fclose(f);
    }
    errno = why;
    return s;
}

struct script *script_read(FILE *f, const char *path)
{
    struct script *s = script_new(path);
    if (s == NULL) {
        return NULL;
    }
    note_rfc(s);
    read_lines(s, f);
    if (s->id[0] == 0) {
        fault(s, 1, "no vector or scenario line");
    }
    uint8_t *fit = realloc(s->octets, s->n > 0 ? s->n : 1);
    s->octets = fit != NULL ? fit : s->octets;
    return s;
}

void script_free(struct script *s)
{
    if (s != NULL) {
        for (unsigned i = 0; i < s->lines; i++) {
            free(s->line[i].text);
        }
        for (unsigned i = 0; i < s->seen_cnt; i++) {
            free(s->seen[i].text);
        }
        free(s->cfg.text);
        free(s->line);
        free(s->seen);
        free(s->octets);
        free(s->path);
        free(s);
    }
}

/* --- folders --- */

static int is_vec(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');
    return dot != NULL && strcmp(dot, ".vec") == 0;
}

static int is_folder(const struct dirent *d)
{
    return strncmp(d->d_name, "rfc", 3) == 0 && strchr(d->d_name, '.') == NULL;
}

struct found {
    struct script **v;
    unsigned cnt;
    bool failed;
    char *err; /* what failed first */
};

typedef void found_step(struct found *f, const char *path);

static void found_error(struct found *f, const char *path)
{
    if (!f->failed && asprintf(&f->err, "%s: %s", path, strerror(errno)) < 0) {
        f->err = strdup("out of memory");
    }
    f->failed = true;
}

static void add_file(struct found *f, const char *path)
{
    struct script *s = script_load(path);
    struct script **more = s != NULL ? realloc(f->v, (f->cnt + 1) * sizeof *more) : NULL;
    if (more == NULL) {
        found_error(f, path);
        script_free(s);
        return;
    }
    f->v = more;
    f->v[f->cnt++] = s;
}

/* Takes the step for each entry of the folder that fits. */
static void walk(struct found *f, const char *folder, int (*fits)(const struct dirent *),
                 found_step *step)
{
    struct dirent **names = NULL;
    int n = scandir(folder, &names, fits, alphasort);
    if (n < 0 && errno != ENOENT) {
        found_error(f, folder);
    }
    for (int i = 0; i < n; i++) {
        char *path;
        if (asprintf(&path, "%s/%s", folder, names[i]->d_name) < 0) {
            found_error(f, folder);
        } else {
            step(f, path);
            free(path);
        }
        free(names[i]);
    }
    free(names);
}

static void add_files(struct found *f, const char *folder)
{
    walk(f, folder, is_vec, add_file);
}

static int by_id(const void *a, const void *b)
{
    const struct script *x = *(struct script *const *)a, *y = *(struct script *const *)b;
    int d = strcmp(x->rfc, y->rfc);
    return d != 0 ? d : strverscmp(x->id, y->id);
}

struct script **script_find(const char *const *folders, unsigned folders_cnt, unsigned *cnt,
                            char **err)
{
    struct found f = {.v = NULL};
    for (unsigned i = 0; i < folders_cnt; i++) {
        add_files(&f, folders[i]);
        walk(&f, folders[i], is_folder, add_files);
    }
    if (f.failed) {
        script_free_all(f.v, f.cnt);
        f.v = NULL;
        f.cnt = 0;
    }
    if (f.cnt > 0) {
        qsort(f.v, f.cnt, sizeof(struct script *), by_id);
    }
    *cnt = f.cnt;
    *err = f.err;
    return f.v;
}

void script_free_all(struct script **v, unsigned cnt)
{
    for (unsigned i = 0; i < cnt; i++) {
        script_free(v[i]);
    }
    free(v);
}
