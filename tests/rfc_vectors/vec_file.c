/* SPDX-License-Identifier: MIT */
/* Byte vectors: values out of lines, comparisons, cuts. */
#include "vec.h"

#include <stdarg.h>
#include <stdlib.h>

#include "octets.h"

void vec_fail(struct vec *v, unsigned line, const char *fmt, ...)
{
    v->faults++;
    printf("%s:%u: %s %s: ", v->s->path, line, v->s->id, v->s->name);
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

/* --- beginning --- */

static void begin_line(struct vec *v, struct vec_line *l, const struct script_line *from)
{
    bool named = from->cnt > 0 && from->arg[0].key[0] == 0;
    *l = (struct vec_line){.l = from, .line = from->line, .what = named ? from->arg[0].val : ""};
    if (!named) {
        vec_fail(v, from->line, "nothing follows");
    }
}

/* How many bits the numbers have on the wire. */
static unsigned bits_of(const char *what, const char *key)
{
    static const struct {
        const char *what; /* NULL: in all other lines */
        const char *key;
        unsigned bits;
    } fields[] = {
        {"tagged", "markers", 8}, {"untagged", "markers", 8},
        {"ulpdu", "markers", 8},  {"terminate", "len", 16},
        {NULL, "markers", 1},     {NULL, "crc", 1},
        {NULL, "p2p", 1},         {NULL, "m", 1},
        {NULL, "c", 1},           {NULL, "r", 1},
        {NULL, "s", 1},           {NULL, "a", 1},
        {NULL, "d", 1},           {NULL, "tx_markers", 1},
        {NULL, "rx_markers", 1},  {NULL, "last", 1},
        {NULL, "dv", 2},          {NULL, "ctl", 8},
        {NULL, "rev", 8},         {NULL, "ird", 14},
        {NULL, "ord", 14},        {NULL, "peer_ird", 14},
        {NULL, "peer_ord", 14},   {NULL, "after", 32},
        {NULL, "pos", 32},        {NULL, "stag", 32},
        {NULL, "inv", 32},        {NULL, "qn", 32},
        {NULL, "msn", 32},        {NULL, "mo", 32},
        {NULL, "sink_stag", 32},  {NULL, "src_stag", 32},
        {NULL, "len", 32},        {NULL, "to", 64},
        {NULL, "sink_to", 64},    {NULL, "src_to", 64},
    };
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (strcmp(fields[i].key, key) == 0 &&
            (fields[i].what == NULL || strcmp(fields[i].what, what) == 0)) {
            return fields[i].bits;
        }
    }
    return 0;
}

/* Nothing is cut to the width of its field. */
static void check_widths(struct vec *v, const struct vec_line *l)
{
    uint64_t x;
    for (unsigned i = 1; i < l->l->cnt; i++) {
        const struct script_arg *a = &l->l->arg[i];
        unsigned bits = bits_of(l->what, a->key);
        uint64_t max = bits > 0 ? UINT64_MAX >> (64 - bits) : 0;
        bool verdict = (strcmp(a->key, "ddp") == 0 && strcmp(l->what, "terminate") != 0) ||
                       strcmp(a->key, "rdmap") == 0;
        struct verdict w;
        if (verdict && strcmp(a->val, "ok") != 0 && !octets_verdict(a->val, &w)) {
            vec_fail(v, l->line, "'%s' is no verdict", a->val);
        }
        if (bits > 0 && !octets_is_number(a->val, max, &x)) {
            vec_fail(v, l->line, "%s=%s: want a number from 0 to %llu", a->key, a->val,
                     (unsigned long long)max);
        }
    }
}

void vec_begin(struct vec *v, const struct script *s)
{
    *v = (struct vec){.s = s, .build = s->build, .n = s->n, .bytes = s->octets};
    if (s->fault[0] != 0) {
        printf("%s\n", s->fault);
        v->faults++;
        return;
    }
    if (s->cfg.text == NULL || s->seen_cnt == 0) {
        vec_fail(v, 1, "no %s line", s->cfg.text == NULL ? "cfg" : "!");
        return;
    }
    if (s->seen_cnt > VEC_EVENTS || s->n > VEC_BYTES) {
        vec_fail(v, 1, "more than %d events, or than %d octets", VEC_EVENTS, VEC_BYTES);
        return;
    }
    begin_line(v, &v->cfg, &s->cfg);
    check_widths(v, &v->cfg);
    for (; v->ev_cnt < s->seen_cnt; v->ev_cnt++) {
        begin_line(v, &v->ev[v->ev_cnt], &s->seen[v->ev_cnt]);
        check_widths(v, &v->ev[v->ev_cnt]);
    }
}

/* --- values --- */

bool vec_is(const struct vec_line *l, const char *what)
{
    return strcmp(l->what, what) == 0;
}

bool vec_has(const struct vec_line *l, const char *key)
{
    return script_has(l->l, key);
}

/* The i-th argument with that key; the first word of the line is none. */
static const char *argument(struct vec_line *l, const char *key, unsigned i)
{
    for (unsigned k = 1; k < l->l->cnt; k++) {
        if (strcmp(l->l->arg[k].key, key) == 0 && i-- == 0) {
            l->used[k] = true;
            return l->l->arg[k].val;
        }
    }
    return NULL;
}

const char *vec_word(struct vec_line *l, const char *key, const char *def)
{
    const char *s = argument(l, key, 0);
    return s != NULL ? s : def;
}

const char *vec_plain(struct vec_line *l, unsigned i, const char *def)
{
    const char *s = argument(l, "", i);
    return s != NULL ? s : def;
}

uint64_t vec_num(struct vec *v, struct vec_line *l, const char *key, uint64_t def)
{
    const char *s = vec_word(l, key, NULL);
    if (s == NULL) {
        return def;
    }
    uint64_t x = 0;
    if (!octets_is_number(s, UINT64_MAX, &x)) {
        vec_fail(v, l->line, "%s=%s is no number", key, s);
    }
    return x;
}

struct verdict vec_verdict(struct vec *v, struct vec_line *l, const char *key)
{
    const char *s = vec_word(l, key, "ok");
    struct verdict w = VERDICT_OK;
    if (strcmp(s, "ok") != 0 && !octets_verdict(s, &w)) {
        vec_fail(v, l->line, "'%s' is no verdict", s);
    }
    return w;
}

uint32_t vec_octets(struct vec *v, struct vec_line *l, const char *key, uint8_t *out, uint32_t max)
{
    uint32_t n = 0;
    const char *s;
    for (unsigned i = 0; (s = argument(l, key, i)) != NULL; i++) {
        int64_t got = octets_group(s, out + n, max - n);
        if (got < 0) {
            vec_fail(v, l->line, "bad octets '%s'", s);
            return n;
        }
        n += (uint32_t)got;
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
    for (unsigned i = 1; i < l->l->cnt; i++) {
        const struct script_arg *a = &l->l->arg[i];
        if (!l->used[i]) {
            vec_fail(v, l->line, "'%s%s%s' means nothing in '%s'", a->key,
                     a->key[0] != 0 ? "=" : "", a->val, l->what);
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
