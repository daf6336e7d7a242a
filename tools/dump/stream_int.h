/* SPDX-License-Identifier: MIT */
/* Between stream.c and fpdu.c. */
#ifndef UIW_DUMP_STREAM_INT_H
#define UIW_DUMP_STREAM_INT_H

#include "dump.h"

/* Appends k's first n octets to the buffer, zeros when it is a hole. False: no room. */
bool stream_push(struct dump *d, struct stream *s, const struct chunk *k, uint32_t n);
/* The boundary is lost. */
void stream_enter_sync(struct dump *d, struct conn *c, unsigned dir);
/* There are no FPDUs here, or no longer. */
void stream_enter_off(struct dump *d, struct conn *c, unsigned dir);

/* Whole FPDUs may have been in a hole that nobody told of. */
void stream_tell_cut(struct dump *d, struct conn *c, unsigned dir, const struct chunk *k);

enum step {
    STEP_MORE, /* it is not whole */
    STEP_FPDU, /* taken */
    STEP_LOST, /* taken or not, the next one is not where the length says */
};
/* Takes the FPDU at *in apart and hands it on; the frames it came in are in d->fpdu. */
enum step stream_take_fpdu(struct dump *d, struct conn *c, unsigned dir, struct cursor *in);
/* Octets that must be there before the FPDU at v can be taken. */
uint32_t stream_need_of(const struct stream *s, struct span v);
/* Some of k's octets; how many is returned. */
uint32_t stream_feed_fpdus(struct dump *d, struct conn *c, unsigned dir, const struct chunk *k);

#endif
