/* SPDX-License-Identifier: MIT */
/* Receive side of MPA: a stream of octets in, whole checked ULPDUs out (RFC 5044 sec 4 to 6). */
#ifndef UIW_MPA_MPA_RX_H
#define UIW_MPA_MPA_RX_H

#include "base/base.h"
#include "base/cursor.h"
#include "base/verdict.h"
#include "mpa/mpa_wire.h"

/* A ULPDU in as many pieces as the stream buffers and the Markers cut it into. */
enum { MPA_ULPDU_SPANS = 1024 };

struct mpa_ulpdu {
    uint32_t cnt;      /* pieces; 0 when the ULPDU is empty */
    uint32_t len;      /* octets of the ULPDU */
    uint32_t used;     /* stream octets of the FPDU: Markers, length, pad and CRC included */
    uint32_t markers;  /* Markers in it (for uiw-dump) */
    uint32_t crc_wire; /* the CRC field as it stood there, read little-endian */
    struct span v[MPA_ULPDU_SPANS];
};

struct mpa_rx {
    bool markers, crc;
    uint32_t pos; /* stream offset of the next FPDU's first octet (a Marker included) since full
                     operation began; mod 2^32, which 512 divides, so wrap needs no care */
};

enum mpa_rx_result {
    MPA_RX_MORE,  /* the FPDU is not whole yet; nothing consumed */
    MPA_RX_ULPDU, /* *out is valid as long as the stream's bytes are */
    MPA_RX_BAD,   /* *why has 2/0/02 or 2/0/03; the stream must end */
};

void mpa_rx_init(struct mpa_rx *rx, bool markers, bool crc);

/* Takes the next FPDU from the cursor and moves it on. The cost is constant until the FPDU is
 * whole, then linear in its length: a peer that sends it octet by octet causes no quadratic work.
 * In MPA_RX_BAD by CRC or Marker *out describes the bad FPDU all the same (for uiw-dump), and the
 * cursor stands behind it; a ULPDU_Length above 64768 is refused (2/0/03) as soon as it is there,
 * with out->len that length, out->used 0 and the cursor where it was. More
 * than MPA_ULPDU_SPANS pieces cannot come from our streams (net.h bounds their pieces); it is
 * reported as 2/0/05. */
enum mpa_rx_result mpa_rx_next(struct mpa_rx *rx, struct cursor *in, struct mpa_ulpdu *out,
                               struct verdict *why);

/* Octets the stream must hold for the FPDU at the cursor, or a lower bound while its length field
 * is not there. Lets the owner of the stream know how much to wait for. */
uint32_t mpa_rx_need(const struct mpa_rx *rx, struct cursor in);

#endif
