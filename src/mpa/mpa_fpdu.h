/* SPDX-License-Identifier: MIT */
/* How many stream octets an FPDU takes (RFC 5044 sec 4.1, 4.3). Shared by both directions; the
 * rest of the stack uses mpa_rx.h and mpa_tx.h. */
#ifndef UIW_MPA_MPA_FPDU_H
#define UIW_MPA_MPA_FPDU_H

#include "base/base.h"
#include "mpa/mpa_wire.h"

/* Pad octets that make length field, ULPDU and pad a multiple of 4 (RFC 5044 sec 4.1). */
static inline uint32_t mpa_fpdu_pad(uint32_t ulpdu_len)
{
    return (2 - ulpdu_len) & 3;
}

/* Octets of the Marker that stands directly before an FPDU at stream offset pos: 4 or 0. */
static inline uint32_t mpa_fpdu_lead(bool markers, uint32_t pos)
{
    return markers && pos % MPA_MARKER_GAP == 0 ? MPA_MARKER_LEN : 0;
}

/* From the leading Marker, if there is one, to the last CRC octet. ulpdu_len fits 16 bits. */
static inline uint32_t mpa_fpdu_size(bool markers, uint32_t pos, uint32_t ulpdu_len)
{
    uint32_t body = MPA_LEN_FIELD + ulpdu_len + mpa_fpdu_pad(ulpdu_len) + MPA_CRC_LEN;
    if (!markers) {
        return body;
    }
    uint32_t lead = mpa_fpdu_lead(markers, pos);
    uint32_t room = MPA_MARKER_GAP - (pos % MPA_MARKER_GAP + lead);
    if (body <= room) {
        return lead + body; /* a Marker due right behind the CRC is the next FPDU's */
    }
    uint32_t stretch = MPA_MARKER_GAP - MPA_MARKER_LEN;
    uint32_t inner = (body - room + stretch - 1) / stretch;
    return lead + body + inner * MPA_MARKER_LEN;
}

#endif
