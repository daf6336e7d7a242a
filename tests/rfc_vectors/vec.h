/* SPDX-License-Identifier: MIT */
/* Vector files (docs/vectors.md): reading them, asking for values, and saying what is wrong where. */
#ifndef UIW_TESTS_VEC_H
#define UIW_TESTS_VEC_H

#include <stdio.h>

#include "base/base.h"
#include "base/cursor.h"
#include "base/verdict.h"

enum { VEC_BYTES = 70000, VEC_EVENTS = 40, VEC_ARGS = 24 };

/* One `!` or `cfg` line. Arguments without a key have the key "". */
struct vec_line {
    unsigned line;
    char *text; /* owned; the pointers below point into it */
    const char *what;
    struct {
        const char *key, *val;
        bool used;
    } arg[VEC_ARGS];
    unsigned cnt;
};

struct vec {
    const char *file;
    unsigned line; /* of the vector line */
    char name[64]; /* id and name */
    struct vec_line cfg;
    struct vec_line ev[VEC_EVENTS];
    unsigned ev_cnt;
    bool build; /* octets came by `=` */
    uint32_t n;
    uint8_t bytes[VEC_BYTES];
    const char *how; /* in which way it is being run, for messages */
    uint32_t cut;
    unsigned runs, faults;
};

/* Reads the next vector of f; *line counts lines. False at the end of the file. Faults of the file
 * itself are reported and counted in v->faults. */
bool vec_read(FILE *f, const char *file, unsigned *line, struct vec *v);
void vec_free(struct vec *v);

/* Reports "file:line: vector: ..." and counts it. */
void vec_fail(struct vec *v, unsigned line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

bool vec_is(const struct vec_line *l, const char *what);
bool vec_has(const struct vec_line *l, const char *key);
/* The values of a line; def when the key is missing, a complaint when it makes no sense. The first
 * argument without a key is asked for by "". */
const char *vec_word(struct vec_line *l, const char *key, const char *def);
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
