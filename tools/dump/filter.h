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
struct place;
struct filter;

enum { FILTER_ERR = 320 };

/* NULL, and err filled, when it cannot be understood. */
struct filter *filter_parse(const char *text, char err[FILTER_ERR]);
void filter_free(struct filter *f);

/* Only the terms about connections. */
bool filter_conn(const struct filter *f, const struct conn *c);
/* There are other terms. */
bool filter_is_deep(const struct filter *f);
/* An FPDU, before its message is known: 1 it is taken, -1 it is not, 0 its message decides. */
int filter_fpdu(const struct filter *f, const struct place *at, unsigned opcode);
/* A gap: the terms about connection, direction, time and frame. */
bool filter_gap(const struct filter *f, const struct place *at, uint64_t start_ns);
/* All terms. A message of OP_NONE stands for what belongs to no message. */
bool filter_message(const struct filter *f, const struct msg *m, uint64_t start_ns);

#endif
