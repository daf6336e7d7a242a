/* SPDX-License-Identifier: MIT */
/* A world with one connection, whose peer is made by hand, and a little memory: what tests of the states of
 * a stream begin with. */
#ifndef SOLO_H
#define SOLO_H

#include "raw.h"

/* BIG: more than all buffers of a stream hold. */
enum { SOLO_BIG = 32 << 20, SOLO_SMALL = 4096 };

struct solo {
    struct sim s;
    struct raw r;
    struct raw_conn c;
    struct raw_ulpdu u;
    struct rdmap_term t;
    struct sim_side *b;      /* the device's */
    uint8_t mem[SOLO_SMALL]; /* octet i is 3 * i */
    struct uiw_mr *mr;       /* open to all but Atomics */
};

struct solo *solo_open(const char *keys);
void solo_close(struct solo *c);

/* Full operation with the peer as Initiator, which has sent its first FPDU. */
void solo_join(struct solo *c);

struct uiw_sge solo_sge(const struct solo *c, uint32_t off, uint32_t n);
enum uiw_qp_state solo_qp_state(const struct solo *c);

/* The device's Send of that many octets comes next. */
void solo_expect_send(struct solo *c, uint32_t n);
/* The connection ends for that reason, once. */
void solo_expect_end(struct solo *c, enum uiw_reason reason);

#endif
