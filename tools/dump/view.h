/* SPDX-License-Identifier: MIT */
/* What the core tells the outputs: events as plain structs, valid until the callee returns. */
#ifndef UIW_DUMP_VIEW_H
#define UIW_DUMP_VIEW_H

#include "mpa/mpa_rx.h"
#include "mpa/mpa_setup.h"
#include "rdmap/rdmap_hdr.h"
#include "rdmap/rdmap_term.h"

#include "require.h"

struct conn;
struct dump;

enum { HEAD_MAX = 160, NOTE_MAX = 120, OPCODES = 16, OP_NONE = OPCODES };
#define SIZE_UNKNOWN UINT64_MAX

/* Direction 0 is from the connection's first end, the client where it is known. */
enum { DIRS = 2 };

enum crc_state {
    CRC_UNKNOWN, /* joined in mid-stream and no FPDU decided it yet */
    CRC_OFF,
    CRC_GOOD,
    CRC_CUT, /* in use, and octets of the FPDU are missing */
    CRC_BAD,
};

/* Where and when something was seen. */
struct place {
    uint64_t ns;
    uint64_t frame;
    const struct conn *conn;
    unsigned dir;
};

struct setup_view {
    struct place at;
    struct mpa_frame f;
    bool whole; /* else only rev, flags and pd_len were to be had */
    uint8_t octet16, octet17;
    uint8_t head[MPA_FRAME_HDR + MPA_ENHANCED_LEN]; /* the frame's first octets */
    uint32_t head_len;
    uint16_t pd_length; /* the field, the enhanced word included */
    const char *bad;    /* why it is malformed, or NULL */
};

struct fpdu_view {
    struct place at;
    uint64_t first_frame;
    uint32_t ulpdu_len, pad, markers, crc_wire;
    enum crc_state crc;
    struct ddp_seg seg; /* raw_len 0: too short for a DDP header */
    uint32_t missing;   /* octets that were not captured; zeros stand in their place */
    uint32_t known;     /* payload octets before the first that is missing */
    uint64_t low_frame; /* the lowest frame any of it came in */
    uint64_t off;       /* of its first octet, in the stream's octets since the set-up frame */
};

/* One RDMA message, told when its last segment came. */
struct msg {
    struct place at; /* of the frame that completed it */
    uint64_t first_ns, first_frame, low_frame;
    unsigned opcode;
    bool tagged;
    bool partial;     /* its beginning was not seen */
    bool late;        /* told of behind younger ones */
    bool whole_hdr;   /* req, term, atomic or result below is filled */
    uint64_t bytes;   /* ULP payload */
    uint64_t missing; /* of that, not captured */
    uint32_t fpdus;
    uint32_t stag, inv_stag, qn, msn;
    uint64_t to;
    enum crc_state crc; /* the worst of its FPDUs */
    uint32_t errors;
    enum require first_error;
    struct rdmap_read_request req; /* Read Request; Read Response: what it answers, when matched */
    struct rdmap_term term;
    struct rdmap_atomic_request atomic;
    struct rdmap_atomic_response result;
    bool answered; /* latency and request_frame are valid */
    uint64_t latency_ns, request_frame;
    uint8_t head[HEAD_MAX]; /* the payload's first octets */
    uint32_t head_len;
    char note[NOTE_MAX]; /* what the upper layer makes of it, or "" */
};

/* Its payload, or what a Read Request asks for: SIZE_UNKNOWN when that header was not captured. */
static inline uint64_t msg_size(const struct msg *m)
{
    if (m->opcode != RDMAP_READ_REQUEST) {
        return m->bytes;
    }
    return m->whole_hdr ? m->req.len : SIZE_UNKNOWN;
}

struct finding {
    struct place at;
    enum require req;
    char text[160];
    uint8_t octets[32];
    uint32_t octets_len;
};

enum gap_kind {
    GAP_CAPTURE,    /* TCP octets that the peer acknowledged and the capture has not */
    GAP_SNAPLEN,    /* cut off by the snaplen: header of an FPDU not seen */
    GAP_START,      /* the capture begins in mid-stream */
    GAP_SYNC,       /* an FPDU boundary was found again */
    GAP_LOST,       /* octets in which no FPDU boundary was found */
    GAP_UNFINISHED, /* a message, or an FPDU, whose end did not come */
    GAP_KINDS,
};

struct gap {
    struct place at;
    enum gap_kind kind;
    uint64_t octets;
    unsigned sure; /* GAP_SYNC: wrong with a chance of 1 in 2^sure */
    char text[160];
};

/* An output. Any of the functions may be NULL. */
struct sink {
    void *ctx;
    void (*conn)(void *ctx, const struct conn *c);
    void (*setup)(void *ctx, const struct setup_view *s);
    void (*fpdu)(void *ctx, const struct fpdu_view *f);
    void (*message)(void *ctx, const struct msg *m);
    void (*finding)(void *ctx, const struct finding *f);
    void (*gap)(void *ctx, const struct gap *g);
    /* One of its segments came in IP fragments, in these frames. */
    void (*joined)(void *ctx, const struct conn *c, const uint64_t *frames, uint32_t n);
    void (*close)(void *ctx, const struct conn *c); /* nothing more comes; statistics are final */
    void (*finish)(void *ctx, const struct dump *d);
};

/* "send_inv" and so on, as JSON and filters name them; "op12" for what has no name. */
const char *op_name(unsigned opcode);
const char *crc_text(enum crc_state crc);
const char *gap_text(enum gap_kind kind);

#endif
