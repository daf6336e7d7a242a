/* SPDX-License-Identifier: MIT */
/* The scene of a fault that the peer commits in full operation: a connection with work posted and regions
 * of every kind, and all that must hold after the fault. */
#ifndef ERRORS_SPOILT_H
#define ERRORS_SPOILT_H

#include "errors.h"

enum { AREA = 4096, RECV = 16, RECVS = 3 };

enum region {
    R_NONE, /* an STag that nobody has */
    R_ALL,
    R_READ,
    R_WRITE,
    R_PD,     /* of another PD */
    R_STREAM, /* of another stream */
    R_FIXED,  /* not to be invalidated by a peer */
    R_GONE,   /* deregistered */
    R_CLOSED, /* a window that was bound, and invalidated */
    R_SHARED, /* made by uiw_mr_share() */
    R_BESIDE, /* what another connection is at work on */
    R_KEY,    /* R_ALL with another key */
    R_SINK,   /* where the device's own Read goes */
    REGIONS,
};

struct spoilt {
    struct scene k;
    struct uiw_qp *qp, *third;
    struct uiw_conn *conn;
    struct uiw_pd *pd;
    struct uiw_mr *mr[REGIONS], *in_mr;
    struct uiw_mw *mw;
    uint32_t stag[REGIONS];
    _Alignas(8) uint8_t area[AREA];
    uint8_t in[RECVS * RECV];
    unsigned left; /* receives in the shared queue that nothing may have touched */
};

struct spoilt *spoilt_open(enum errors_row row, const char *keys);
void spoilt_close(struct spoilt *c);

/* Receives with the numbers 1 to n. */
void spoilt_recvs(struct spoilt *c, int n);
/* A Read or Atomic that the peer does not answer, and a Write that waits for it: numbers 11 and 12. comes:
 * the opcode that the peer sees. */
void spoilt_request(struct spoilt *c, enum uiw_wr_opcode op, unsigned comes);
void spoilt_read(struct spoilt *c); /* a Read */

/* What is sent in one burst with the bad segment, and may not be taken any more. This is the moment of the
 * fault. */
void spoilt_more(struct spoilt *c);

struct want {
    unsigned layer, type, code;
    uint8_t flags; /* M D R, as octet 2 of the control word */
    int recv;      /* status of the first receive; 0: flushed as the others */
    int read;      /* of the Read, likewise */
    bool no_recv, no_read;
    enum uiw_async_type async; /* 0: fatal */
};

/* Everything that must hold. bad: the segment that the Terminate is to quote. */
void spoilt_expect(struct spoilt *c, const struct want *w, const uint8_t *bad, uint32_t n);

#endif
