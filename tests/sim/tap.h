/* SPDX-License-Identifier: MIT */
/* Looks at one direction of a connection on the in-memory wire: the TCP stream as it was sent, segment by
 * segment, taken apart by the codecs. A SYN of that net begins it anew. */
#ifndef TAP_H
#define TAP_H

#include "ddp/ddp_hdr.h"
#include "mpa/mpa_setup.h"
#include "rdmap/rdmap_hdr.h"
#include "tcpip/net_test.h"

enum { TAP_ROOM = 1 << 21, TAP_SEGMENTS = 8192, TAP_FPDUS = 8192 };

struct tap_fpdu {
    uint32_t at, size;  /* stream octets: of the FPDU */
    uint32_t len;       /* of the ULPDU */
    struct ddp_seg seg; /* its payload is not kept */
    unsigned opcode;
};

struct tap {
    uint8_t octets[TAP_ROOM];
    uint32_t len;
    uint32_t first;                 /* sequence number of octets[0] */
    uint32_t segment[TAP_SEGMENTS]; /* where each new one begins */
    uint32_t segments;
    bool syn, fin, rst;
    uint32_t least_window; /* that it advertised once the connection stood, as in the header */
    uint32_t again;        /* segments sent again */
    /* tap_parse(): */
    struct mpa_frame frame;
    uint32_t frame_len;
    struct tap_fpdu fpdu[TAP_FPDUS];
    uint32_t fpdus;
    uint32_t rest; /* octets behind the last whole FPDU */
};

/* Begins to look at what leaves that net. To be freed by tap_close(). */
struct tap *tap_open(struct net *net);
void tap_close(struct net *net, struct tap *t);

/* The set-up frame and the FPDUs so far. Fails the test when they are no good ones. */
void tap_parse(struct tap *t, bool is_reply, bool markers, bool crc);

#endif
