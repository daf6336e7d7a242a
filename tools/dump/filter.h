/* SPDX-License-Identifier: MIT */
/* --filter: terms that must all hold, each with alternatives by commas:
 *   conn=0,2  host=10.0.0.1  port=4420  dir=c2s  op=write,send  stag=0x1234  size>=4096
 *   time=0.5..2  frame=100..200  error  latency>0.001
 * A term that begins with ! must not hold. */
#ifndef UIW_DUMP_FILTER_H
#define UIW_DUMP_FILTER_H

#include "base/base.h"

struct conn;
struct msg;
struct filter;

enum { FILTER_ERR = 160 };

/* NULL, and err filled, when it cannot be understood. */
struct filter *filter_parse(const char *text, char err[FILTER_ERR]);
void filter_free(struct filter *f);

/* Only the terms about connections. */
bool filter_conn(const struct filter *f, const struct conn *c);
/* All terms. */
bool filter_message(const struct filter *f, const struct msg *m, uint64_t start_ns);

#endif
