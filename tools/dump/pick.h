/* SPDX-License-Identifier: MIT */
/* --write: the frames of the messages that the filter let through, with each connection's set-up, in
 * a second pass over the input. */
#ifndef UIW_DUMP_PICK_H
#define UIW_DUMP_PICK_H

#include "dump.h"

struct pick;

/* NULL without memory. With whole set all frames of the connections are taken. */
struct pick *pick_new(bool whole);
void pick_free(struct pick *p);
/* For the first pass. */
void pick_sink(struct pick *p, struct sink *s);
/* After dump_finish(). Writes classic pcap with nanoseconds, to standard output for "-"; NULL, or
 * what went wrong. */
const char *pick_write(struct pick *p, struct input *in, const char *path);

#endif
