/* SPDX-License-Identifier: MIT */
/* Byte vectors (docs/vectors.md): asking for values, and saying what is wrong where. */
#ifndef UIW_TESTS_VEC_H
#define UIW_TESTS_VEC_H

#include <stdio.h>

#include "base/base.h"
#include "base/cursor.h"
#include "base/verdict.h"
#include "script.h"

enum { VEC_BYTES = 70000, VEC_EVENTS = 40 };

/* One `!` or `cfg` line. Its first word says what it is; the arguments are those behind it. */
struct vec_line {
    const struct script_line *l;
    unsigned line;
    const char *what;
    bool used[SCRIPT_ARGS];
};

struct vec {
    const struct script *s;
    struct vec_line cfg;
    struct vec_line ev[VEC_EVENTS];
    unsigned ev_cnt;
    bool build; /* octets came by `=` */
    uint32_t n;
    const uint8_t *bytes;
    const char *how; /* in which way it is being run, for messages */
    uint32_t cut;
    unsigned runs, faults;
};

/* The byte vector of s, which must live as long. Faults of the file, also values that are too wide for
 * their fields, are reported and counted in v->faults. */
void vec_begin(struct vec *v, const struct script *s);

/* Reports "file:line: vector: ..." and counts it. */
void vec_fail(struct vec *v, unsigned line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

bool vec_is(const struct vec_line *l, const char *what);
bool vec_has(const struct vec_line *l, const char *key);
/* The values of a line; def when the key is missing, a complaint when it makes no sense. The first
 * argument without a key is asked for by "". */
const char *vec_word(struct vec_line *l, const char *key, const char *def);
const char *vec_plain(struct vec_line *l, unsigned i, const char *def); /* the i-th without a key */
uint64_t vec_num(struct vec *v, struct vec_line *l, const char *key, uint64_t def);
struct verdict vec_verdict(struct vec *v, struct vec_line *l, const char *key);
/* Octets of a value, or of all values without a key; returns how many, at most max. */
uint32_t vec_octets(struct vec *v, struct vec_line *l, const char *key, uint8_t *out, uint32_t max);

/* Comparisons with what a line says; false and a complaint when they fail. */
bool vec_want(struct vec *v, struct vec_line *l, const char *key, uint64_t def, uint64_t got);
bool vec_want_verdict(struct vec *v, struct vec_line *l, const char *key, struct verdict got);
bool vec_want_octets(struct vec *v, unsigned line, struct span want, struct span got);

/* Complains about arguments that nobody asked for. */
void vec_unused(struct vec *v);

/* Ways to cut v->bytes. Calls fn for: one piece, two pieces at every place, pieces of one octet (or
 * as few as give max_pieces). Stops at the first failure. */
void vec_each_cut(struct vec *v, uint32_t max_pieces, void (*fn)(struct vec *, struct cursor));

void vec_run_startup(struct vec *v);
void vec_run_stream(struct vec *v);

#endif
