/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <stdlib.h>

enum kind { KIND_PASS, KIND_FAIL, KIND_SHOULD, KIND_SKIP, KINDS };

static const struct {
    const char *word, *colour;
} kinds[KINDS] = {
    [KIND_PASS] = {"pass", "\033[32m"},
    [KIND_FAIL] = {"FAIL", "\033[1;31m"},
    [KIND_SHOULD] = {"should", "\033[33m"},
    [KIND_SKIP] = {"skip", "\033[2m"},
};

struct report {
    struct report_cfg cfg;
    struct report_row *row;
    unsigned rows;
};

/* A file whose requirements are all recommendations fails softly. */
static enum kind kind_of(const struct report *r, const struct report_row *row)
{
    switch (row->result) {
    case PLAY_PASS: return KIND_PASS;
    case PLAY_SKIP: return KIND_SKIP;
    case PLAY_SOFT: return r->cfg.strict ? KIND_FAIL : KIND_SHOULD;
    case PLAY_FAIL: break;
    }
    return row->s->should && !r->cfg.strict ? KIND_SHOULD : KIND_FAIL;
}

struct report *report_new(const struct report_cfg *cfg)
{
    struct report *r = calloc(1, sizeof *r);
    if (r != NULL) {
        r->cfg = *cfg;
        if (cfg->format == REPORT_TABLE) {
            fprintf(cfg->out, "%-8s %-5s %-22s %-6s %7s\n", "rfc", "id", "name", "result", "ms");
        }
    }
    return r;
}

/* --- lines as they come --- */

static void paint(const struct report *r, enum kind k, const char *fmt)
{
    FILE *f = r->cfg.out;
    if (r->cfg.colour) {
        fputs(kinds[k].colour, f);
    }
    fprintf(f, fmt, kinds[k].word);
    if (r->cfg.colour) {
        fputs("\033[0m", f);
    }
}

/* Where in the file; not of a line: the whole file. */
static void print_line(const struct report *r, const struct report_row *row)
{
    if (row->line > 0) {
        fprintf(r->cfg.out, "line %u: ", row->line);
    }
}

/* Indents what may be several lines. */
static void print_why(const struct report *r, const struct report_row *row)
{
    const char *why = row->why;
    fputs("         ", r->cfg.out);
    print_line(r, row);
    for (; *why != 0; why++) {
        fputc(*why, r->cfg.out);
        if (*why == '\n' && why[1] != 0) {
            fputs("           ", r->cfg.out);
        }
    }
    if (why == row->why || why[-1] != '\n') {
        fputc('\n', r->cfg.out);
    }
}

static void table_row(const struct report *r, const struct report_row *row)
{
    enum kind k = kind_of(r, row);
    fprintf(r->cfg.out, "%-8s %-5s %-22s ", row->s->rfc, row->s->id, row->s->name);
    paint(r, k, "%-6s");
    fprintf(r->cfg.out, " %7llu\n", (unsigned long long)row->ms);
    if (k == KIND_FAIL || k == KIND_SHOULD) {
        fprintf(r->cfg.out, "         %s\n", row->s->text);
        print_why(r, row);
    }
}

static void plain_row(const struct report *r, const struct report_row *row)
{
    enum kind k = kind_of(r, row);
    fprintf(r->cfg.out, "%s %s %s %s", kinds[k].word, row->s->rfc, row->s->id, row->s->name);
    if (k != KIND_PASS) {
        fputs(": ", r->cfg.out);
        print_line(r, row);
        for (const char *c = row->why; *c != 0; c++) {
            fputc(*c == '\n' ? ' ' : *c, r->cfg.out);
        }
    }
    fputc('\n', r->cfg.out);
}

void report_add(struct report *r, const struct script *s, const struct play_out *out)
{
    struct report_row *more = realloc(r->row, (r->rows + 1) * sizeof *more);
    if (more == NULL) {
        return;
    }
    r->row = more;
    struct report_row *row = &r->row[r->rows++];
    *row = (struct report_row){.s = s, .result = out->result, .line = out->line, .ms = out->ms};
    snprintf(row->why, sizeof row->why, "%s", out->why);
    if (r->cfg.format == REPORT_TABLE) {
        table_row(r, row);
    } else if (r->cfg.format == REPORT_PLAIN) {
        plain_row(r, row);
    }
    fflush(r->cfg.out);
}

/* --- the end --- */

static void count(const struct report *r, const char *rfc, unsigned sum[KINDS])
{
    memset(sum, 0, KINDS * sizeof *sum);
    for (unsigned i = 0; i < r->rows; i++) {
        if (rfc == NULL || strcmp(rfc, r->row[i].s->rfc) == 0) {
            sum[kind_of(r, &r->row[i])]++;
        }
    }
}

static bool first_of_rfc(const struct report *r, unsigned i)
{
    return i == 0 || strcmp(r->row[i].s->rfc, r->row[i - 1].s->rfc) != 0;
}

static void print_sum(const struct report *r, const char *name, const unsigned sum[KINDS])
{
    fprintf(r->cfg.out,
            "%-10s %4u passed, %3u failed, %3u recommendations missed, %3u not driven\n", name,
            sum[KIND_PASS], sum[KIND_FAIL], sum[KIND_SHOULD], sum[KIND_SKIP]);
}

static void print_sums(const struct report *r)
{
    unsigned sum[KINDS];
    fputc('\n', r->cfg.out);
    for (unsigned i = 0; i < r->rows; i++) {
        if (first_of_rfc(r, i)) {
            count(r, r->row[i].s->rfc, sum);
            print_sum(r, r->row[i].s->rfc, sum);
        }
    }
    count(r, NULL, sum);
    print_sum(r, "all", sum);
}

/* What cannot be driven, one line for each reason. */
static void print_skipped(const struct report *r)
{
    bool title = false;
    for (unsigned i = 0; i < r->rows; i++) {
        bool told = r->row[i].result != PLAY_SKIP;
        for (unsigned k = 0; k < i && !told; k++) {
            told = r->row[k].result == PLAY_SKIP && strcmp(r->row[k].why, r->row[i].why) == 0;
        }
        if (told) {
            continue;
        }
        fprintf(r->cfg.out, "%s  %s:", title ? "" : "\nNot driven:\n", r->row[i].why);
        title = true;
        for (unsigned k = i; k < r->rows; k++) {
            if (r->row[k].result == PLAY_SKIP && strcmp(r->row[k].why, r->row[i].why) == 0) {
                fprintf(r->cfg.out, " %s", r->row[k].s->id);
            }
        }
        fputc('\n', r->cfg.out);
    }
}

/* --- JUnit --- */

static void xml(FILE *f, const char *s)
{
    for (; *s != 0; s++) {
        switch (*s) {
        case '<': fputs("&lt;", f); break;
        case '>': fputs("&gt;", f); break;
        case '&': fputs("&amp;", f); break;
        case '"': fputs("&quot;", f); break;
        case '\n': fputs("&#10;", f); break;
        default: fputc((unsigned char)*s >= ' ' ? *s : ' ', f); break;
        }
    }
}

static void junit_case(const struct report *r, const struct report_row *row)
{
    FILE *f = r->cfg.out;
    enum kind k = kind_of(r, row);
    fprintf(f, "    <testcase classname=\"%s\" name=\"%s %s\" time=\"%llu.%03u\"", row->s->rfc,
            row->s->id, row->s->name, (unsigned long long)(row->ms / 1000),
            (unsigned)(row->ms % 1000));
    if (k == KIND_PASS) {
        fputs("/>\n", f);
        return;
    }
    const char *tag = k == KIND_FAIL ? "failure" : k == KIND_SKIP ? "skipped" : NULL;
    fputs(">\n      ", f);
    if (tag != NULL) {
        fprintf(f, "<%s message=\"line %u: ", tag, row->line);
        xml(f, row->why);
        fputs("\"/>\n", f);
    } else {
        fprintf(f, "<system-out>recommendation missed, line %u: ", row->line);
        xml(f, row->why);
        fputs("</system-out>\n", f);
    }
    fputs("    </testcase>\n", f);
}

static void junit(const struct report *r)
{
    FILE *f = r->cfg.out;
    unsigned sum[KINDS];
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"uiw-conform ", f);
    xml(f, r->cfg.peer);
    fputs("\">\n", f);
    for (unsigned i = 0; i < r->rows; i++) {
        if (first_of_rfc(r, i)) {
            count(r, r->row[i].s->rfc, sum);
            fprintf(f, "%s  <testsuite name=\"%s\" tests=\"%u\" failures=\"%u\" skipped=\"%u\">\n",
                    i > 0 ? "  </testsuite>\n" : "", r->row[i].s->rfc,
                    sum[KIND_PASS] + sum[KIND_FAIL] + sum[KIND_SHOULD] + sum[KIND_SKIP],
                    sum[KIND_FAIL], sum[KIND_SKIP]);
        }
        junit_case(r, &r->row[i]);
    }
    fprintf(f, "%s</testsuites>\n", r->rows > 0 ? "  </testsuite>\n" : "");
}

unsigned report_end(struct report *r)
{
    unsigned sum[KINDS];
    if (r->cfg.format == REPORT_JUNIT) {
        junit(r);
    } else {
        print_sums(r);
        print_skipped(r);
    }
    fflush(r->cfg.out);
    count(r, NULL, sum);
    free(r->row);
    free(r);
    return sum[KIND_FAIL];
}
