/* SPDX-License-Identifier: MIT */
/* Connection set-up: Request and Reply frames and what they agree on (RFC 5044 sec 7.1, RFC 6581).
 * Pure: bytes in, events and bytes out. Time limits are the caller's. */
#ifndef UIW_MPA_MPA_SETUP_H
#define UIW_MPA_MPA_SETUP_H

#include "base/base.h"
#include "base/cursor.h"
#include "base/verdict.h"
#include "mpa/mpa_wire.h"

/* RTR kinds as a bit set (RFC 6581 sec 9.2). */
enum { MPA_RTR_SEND = 1, MPA_RTR_WRITE = 2, MPA_RTR_READ = 4 };

/* One Request or Reply frame, field by field. */
struct mpa_frame {
    bool reply;
    bool markers, crc, reject,
        enhanced; /* M C R S; enhanced only when the word was parsed/is to be sent */
    uint8_t rev;
    bool p2p;          /* A */
    uint8_t rtr;       /* B C D as MPA_RTR_* */
    uint16_t ird, ord; /* 14 bits each, as on the wire */
    uint16_t pd_len;   /* octets of the ULP's private data (the enhanced word not counted) */
    uint8_t pd[MPA_PD_MAX];
};

/* Writes the frame; f->pd_len must fit (512, or 508 when enhanced). R is written only in a Reply, B
 * C D only with A. Returns its length, 0 when the private data does not fit. */
uint32_t mpa_frame_pack(const struct mpa_frame *f, uint8_t out[MPA_FRAME_MAX]);

enum mpa_parse { MPA_PARSE_MORE, MPA_PARSE_OK, MPA_PARSE_BAD };

/* Why a frame or a negotiation was refused, for the user's error text. */
enum mpa_fault {
    MPA_FAULT_NONE,
    MPA_FAULT_KEY,          /* neither key */
    MPA_FAULT_ROLE,         /* a Request where a Reply is due, or the reverse */
    MPA_FAULT_REV,          /* revision not supported */
    MPA_FAULT_REV_MISMATCH, /* Reply's revision or S bit does not fit the Request */
    MPA_FAULT_PD_LENGTH,    /* above 512, or S=1 with less than 4 */
    MPA_FAULT_TRAILING,     /* octets behind a Request before the Reply */
    MPA_FAULT_IRD,          /* the peer's ORD is above our IRD */
    MPA_FAULT_RTR,          /* no RTR kind in common */
};

/* In words; static. */
const char *mpa_fault_text(enum mpa_fault fault);

/* Parses one frame at *in; on MPA_PARSE_OK the cursor stands behind it, else it has not moved.
 * Refuses as early as the octets allow (a wrong key at its first wrong octet, PD_Length above 512
 * once octet 19 is there). Rev 1 ignores the S bit (state-and-errors reading 8.5). Rev 0 and Rev
 * above 2 are refused. */
enum mpa_parse mpa_frame_unpack(struct cursor *in, bool want_reply, struct mpa_frame *out,
                                enum mpa_fault *why);

/* What one end wants. */
struct mpa_cfg {
    bool markers;      /* ask the peer to send Markers */
    bool crc;          /* ask for CRCs */
    uint8_t rev;       /* 1, or 2: what an Initiator sends, and the highest a Responder takes */
    bool p2p;          /* Initiator: ask for the peer-to-peer model (Rev 2) */
    uint8_t rtr;       /* RTR kinds offered or acceptable */
    uint16_t ird, ord; /* our depths, 0..0x3ffe, or MPA_DEPTH_UNSET */
};

/* What both ends agreed on, seen from our side. */
struct mpa_agreed {
    uint8_t rev;
    bool enhanced;
    bool tx_markers, rx_markers, crc;
    uint16_t ird, ord; /* ours, in effect */
    uint16_t peer_ird,
        peer_ord; /* as the peer's frame named them; MPA_DEPTH_UNSET when it did not */
    bool p2p;
    uint8_t rtr; /* one MPA_RTR_* bit that the Initiator sends first; 0: none. Responder: the set it
                    selected, any of which may come */
};

enum mpa_setup_event {
    MPA_SETUP_MORE,    /* nothing yet */
    MPA_SETUP_REQUEST, /* Responder: a good Request; accept or reject it. setup->peer has its data */
    MPA_SETUP_ACCEPTED, /* Initiator: full operation; setup->agreed is valid, peer has private data */
    MPA_SETUP_REJECTED, /* Initiator: R=1; setup->peer has private data and depths */
    MPA_SETUP_BAD,      /* setup->fault; close TCP, send nothing (RFC 5044 sec 8 code 4) */
    MPA_SETUP_TERM, /* Initiator: setup->fault; full operation only to send setup->term, then close
                           (RFC 6581 sec 9.1, 9.2); setup->agreed is valid for framing */
};

struct mpa_setup {
    struct mpa_cfg cfg;
    bool initiator;
    enum { MPA_ST_START, MPA_ST_WAIT, MPA_ST_DECIDE, MPA_ST_DONE } state;
    enum mpa_fault fault;
    struct verdict term;
    struct mpa_frame peer; /* the last frame from the peer */
    struct mpa_agreed agreed;
};

/* Either role; a Responder's cfg->ird/ord may still change in mpa_setup_accept(). */
void mpa_setup_init(struct mpa_setup *s, bool initiator, const struct mpa_cfg *cfg);

/* Initiator: the Request with pd_len octets of private data (at most 512, 508 with Rev 2, which the
 * caller has checked). The enhanced format is used with Rev 2 when the peer-to-peer model or a depth
 * is asked for; with neither the frame is a Rev 1 one (RFC 6581 sec 6 and 10). Returns the frame's
 * length; 0, as the two below do, when out of turn or when the data does not fit. */
uint32_t mpa_setup_request(struct mpa_setup *s, const void *pd, uint32_t pd_len,
                           uint8_t out[MPA_FRAME_MAX]);

/* Takes what has come; consumes a whole frame or nothing. Gives each event once. Octets behind a
 * Reply stay in the cursor (they are FPDUs); octets behind a Request make it malformed. */
enum mpa_setup_event mpa_setup_rx(struct mpa_setup *s, struct cursor *in);

/* What a Responder answers with; pd may be NULL when pd_len is 0. */
struct mpa_answer {
    uint16_t ird, ord;
    const void *pd;
    uint32_t pd_len;
};

/* Responder, after MPA_SETUP_REQUEST: the accepting Reply. ord in effect is lowered to the peer's
 * IRD; ird is raised to 1 when a Read RTR is chosen. Chooses the RTR set it takes: peer's offer AND
 * cfg.rtr; when that is empty the Reply offers cfg.rtr (the Initiator then fails with code 7).
 * s->agreed is valid after. Returns the frame's length. */
uint32_t mpa_setup_accept(struct mpa_setup *s, const struct mpa_answer *a,
                          uint8_t out[MPA_FRAME_MAX]);

/* Responder: the rejecting Reply, naming cfg.ird/ord when the Request was enhanced. */
uint32_t mpa_setup_reject(struct mpa_setup *s, const void *pd, uint32_t pd_len,
                          uint8_t out[MPA_FRAME_MAX]);

#endif
