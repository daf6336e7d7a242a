/* SPDX-License-Identifier: MIT */
/* A vector file: its head, octets and fields of a byte vector, and the lines of its play part
 * (docs/vectors.md). Reading only: what the play lines mean is play.h's, and what the fields do is
 * tests/rfc_vectors/vec.h's. */
#ifndef UIW_CONFORM_SCRIPT_H
#define UIW_CONFORM_SCRIPT_H

#include <stdio.h>

#include "base/base.h"

enum { SCRIPT_ARGS = 28 /* less than the bits of script_line.asked */ };

/* One line: a word and what belongs to it. */
struct script_line {
    unsigned line;
    char *text; /* owned; the pointers below point into it */
    const char *word;
    struct script_arg {
        const char *key; /* "" without one */
        const char *val;
        bool quoted;
    } arg[SCRIPT_ARGS];
    unsigned cnt;
    uint32_t *asked; /* not NULL: a bit for each argument whose key was asked for */
    bool soft;       /* began with "should": the RFC only recommends it */
};

struct script {
    bool vector; /* it has octets and fields */
    char *path;
    char rfc[256]; /* folder: "rfc5040" */
    char id[16], name[48];
    char text[400];
    char proves[2048]; /* ids, blanks between */
    bool should;       /* level should */
    bool base; /* any server will do that posts a receive of some octets: no responder needed */
    bool one_piece;    /* cut no: means nothing when the stream is cut */
    char stack[120];   /* needs stack WHY: the layer below RDMAP and DDP is not enough; or "" */
    bool markers, crc; /* of the byte vector's stream */
    uint32_t pos;
    bool startup; /* the byte vector is a Request or Reply */
    bool build;   /* the octets came by `=` */
    uint8_t *octets;
    uint32_t n;
    struct script_line cfg;   /* no text: there is none */
    struct script_line *seen; /* the `!` lines of the head */
    unsigned seen_cnt;
    struct script_line *line; /* of the play part */
    unsigned lines;
    char fault[600]; /* why the file makes no sense, or "" */
};

/* NULL: out of memory or no such file (errno). What is wrong with the contents is in fault. */
struct script *script_load(const char *path);
/* The same from an open file. */
struct script *script_read(FILE *f, const char *path);
void script_free(struct script *s);

/* All files NAME.vec in the folders and in their folders rfcNNNN, by RFC and id; *cnt of them. A folder
 * that is not there has none. NULL: there are none, or one cannot be read, which *err then names (to be
 * freed; else it is NULL). */
struct script **script_find(const char *const *folders, unsigned folders_cnt, unsigned *cnt,
                            char **err);
void script_free_all(struct script **v, unsigned cnt);

/* The value of a key of the line, or def. "" asks for the first argument without a key. */
const char *script_word(const struct script_line *l, const char *key, const char *def);
bool script_has(const struct script_line *l, const char *key);
/* The i-th argument without a key, or NULL. */
const char *script_plain(const struct script_line *l, unsigned i);

#endif
