/* SPDX-License-Identifier: MIT */
/* Send side of MPA: a ULPDU in, an FPDU out (RFC 5044 sec 4). */
#ifndef UIW_MPA_MPA_TX_H
#define UIW_MPA_MPA_TX_H

#include "base/base.h"
#include "base/cursor.h"
#include "mpa/mpa_wire.h"

struct mpa_tx {
    bool markers, crc;
    uint32_t pos; /* stream offset of the next octet since full operation began, mod 2^32 */
};

/* A ULPDU to be framed: a header that stands in one piece, then plen octets at *payload, which the
 * call moves on. All of it is borrowed. */
struct mpa_out {
    const uint8_t *hdr;
    uint32_t hlen;
    struct cursor *payload;
    uint32_t plen;
};

void mpa_tx_init(struct mpa_tx *tx, bool markers, bool crc);

/* RFC 5044 sec 4.5: the largest ULPDU whose FPDU fits one segment of emss octets, 128..64768. */
uint32_t mpa_mulpdu(uint32_t emss, bool markers);

/* Stream octets that the next FPDU of a ULPDU of that length takes at tx->pos. */
uint32_t mpa_tx_size(const struct mpa_tx *tx, uint32_t ulpdu_len);

/* Builds the whole FPDU at dst in one pass of CRC and copy. dst has room for mpa_tx_size(). The CRC is
 * that of the octets copied, so the payload may change meanwhile. Returns the octets written; 0, and
 * nothing done, when the ULPDU is above 64768 octets or *payload has fewer than plen. */
uint32_t mpa_tx_copy(struct mpa_tx *tx, const struct mpa_out *u, uint8_t *dst);

/* For payloads that are lent to TCP by reference; only without Markers. Writes length field and header
 * to head (2 + hlen octets) and pad and CRC to tail (returned: 4..7 octets); the payload is read for
 * the CRC only. It must not change until the peer has it, or the CRC is wrong there. Returns 0 as
 * mpa_tx_copy() does, or with Markers on. */
uint32_t mpa_tx_lend(struct mpa_tx *tx, const struct mpa_out *u, uint8_t *head, uint8_t tail[7]);

#endif
