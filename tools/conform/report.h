/* SPDX-License-Identifier: MIT */
/* What uiw-conform prints: a table for people, plain lines, or JUnit XML. */
#ifndef UIW_CONFORM_REPORT_H
#define UIW_CONFORM_REPORT_H

#include <stdio.h>

#include "play.h"

enum report_format { REPORT_TABLE, REPORT_PLAIN, REPORT_JUNIT };

struct report_cfg {
    FILE *out;
    enum report_format format;
    bool colour;
    bool strict; /* what the RFCs recommend counts */
    const char *peer;
};

struct report_row {
    const struct script *s;
    enum play_result result;
    unsigned line;
    uint64_t ms;
    char why[1000];
};

struct report;

struct report *report_new(const struct report_cfg *cfg); /* NULL: no memory */

/* After each file; s must stay. */
void report_add(struct report *r, const struct script *s, const struct play_out *out);

/* The rest: sums, what could not be driven. Frees r; returns how many files failed. */
unsigned report_end(struct report *r);

#endif
