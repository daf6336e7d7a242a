/* SPDX-License-Identifier: MIT */
/* The outputs. Each takes a sink to fill in; its state lives until out_*_free(). */
#ifndef UIW_DUMP_OUT_H
#define UIW_DUMP_OUT_H

#include <stdio.h>

#include "dump.h"

struct out_cfg {
    FILE *f;
    bool colour, fpdus, hex, messages, findings, summary;
    const char *source; /* what the input is called */
    const char *filter; /* as it was given, or NULL */
    const struct dump *d;
};

/* One line per message, or per FPDU; violations. */
struct out_text {
    struct out_cfg cfg;
};
void out_text_sink(struct out_text *o, struct sink *s);

/* One object per line. */
struct out_json {
    struct out_cfg cfg;
};
void out_json_sink(struct out_json *o, struct sink *s);

/* Per connection, when it is closed. */
struct out_summary {
    struct out_cfg cfg;
};
void out_summary_sink(struct out_summary *o, struct sink *s);

/* One page, on standard output for "-". NULL, with errno set, when the file cannot be made. */
struct out_html;
struct out_html *out_html_open(const char *path, const struct out_cfg *cfg);
void out_html_sink(struct out_html *o, struct sink *s);
/* False when writing failed. */
bool out_html_close(struct out_html *o);

/* --- what they share --- */

enum { ADDR_TEXT = 64 };
/* "10.0.0.1:20049" or "[fd77::1]:20049". */
const char *out_end(const struct conn *c, unsigned dir, char buf[ADDR_TEXT]);
/* Seconds since the first frame. */
double out_time(const struct dump *d, uint64_t ns);
/* "stag 0x... to 0x..." and so on: what belongs to the operation. */
const char *out_detail(const struct msg *m, char *buf, size_t n);
const char *out_duration(uint64_t ns, char buf[32]);
void out_hex(FILE *f, const char *indent, struct cursor c);
const char *out_rtr(unsigned rtr);
/* The headers of the segment that a Terminate is about; false: not there, or (read) of no Read Request. */
bool out_terminated_ddp(const struct rdmap_term *t, struct ddp_hdr *h);
bool out_terminated_read(const struct rdmap_term *t, struct rdmap_read_request *r);

#endif
