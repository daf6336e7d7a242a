/* SPDX-License-Identifier: MIT */
/* A connection beside the one that a test spoils. Its peer is made by hand, so that it can stop in the
 * midst of things: at the moment of the fault a Write, a Read and a Send are under way in either
 * direction. All of it must end well afterwards, with the right octets, and as soon as ever. */
#ifndef BESIDE_H
#define BESIDE_H

#include "raw.h"

enum { BESIDE_LONG = 160 << 10, BESIDE_SHORT = 3000, BESIDE_WCS = 8 };

struct beside {
    struct raw *r;
    struct raw_conn raw;
    struct uiw_qp *qp;
    struct uiw_conn *conn;
    struct uiw_srq *srq; /* the QP's, or NULL */
    uint32_t qp_num;
    unsigned round; /* they differ in what all memory holds */
    bool going;
    bool done;
    uint64_t went_ms, took_ms;
    /* The device's memory: where its own requests come from and go to, where the peer's do. */
    struct {
        uint8_t out[BESIDE_LONG], sink[BESIDE_SHORT], in[BESIDE_LONG], recv[BESIDE_SHORT];
    } mem;
    struct uiw_mr *mr;
    /* The peer: message numbers, the device's Read Request, octets that came of each kind. */
    uint32_t send_msn, read_msn, came_msn;
    bool was_asked;
    struct rdmap_read_request asked;
    uint32_t got[16];
    struct uiw_wc wc[BESIDE_WCS]; /* of this round */
    unsigned wcs;
    struct raw_ulpdu u;
};

/* A connection of the world's side 1, with its PD and CQ. The completions that are its own come by
 * beside_takes(). */
void beside_open(struct beside *b, struct raw *r, struct uiw_srq *srq);
bool beside_takes(struct beside *b, const struct uiw_wc *wc);
void beside_close(struct beside *b);

/* A round of work begins, and stands still half way. */
void beside_begin(struct beside *b);
/* All of it is under way: half of the octets are there, and nothing is done. */
void beside_expect_under_way(struct beside *b);
/* Lets it go on, with whatever turns the world. */
void beside_go(struct beside *b);
/* The round ends, and well. */
void beside_end(struct beside *b);
/* Takes messages and sends one, until the receives that others have posted to its SRQ are used up; returns
 * how many those were. */
unsigned beside_expect_alive(struct beside *b);

#endif
