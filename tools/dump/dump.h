/* SPDX-License-Identifier: MIT */
/* The core: frames in, events out to the sinks. */
#ifndef UIW_DUMP_DUMP_H
#define UIW_DUMP_DUMP_H

#include "conn.h"
#include "filter.h"
#include "frags.h"
#include "input.h"

enum { SINKS_MAX = 8, CONNS_MAX = 16384, POOL_BYTES = 256 << 20 };

struct dump_cfg {
    const struct filter *filter; /* NULL: everything */
    bool want_fpdus;             /* a sink looks at each FPDU */
    bool want_payload;           /* and at all of its payload */
    uint64_t (*clock)(void);     /* nanoseconds, where somebody waits for the output; or NULL */
    bool ignore_sums;            /* take segments with wrong checksums */
};

struct dump {
    struct dump_cfg cfg;
    struct sink sink[SINKS_MAX];
    unsigned sinks;
    struct frame now; /* the frame that is being worked on */
    uint64_t start_ns;
    uint64_t frames, octets, last_ns;
    uint64_t kind[PACKET_KINDS]; /* frames by what they were */
    struct frags frags;
    uint32_t conns, mpa_conns;
    uint64_t evicted;
    uint64_t messages, shown, findings, gaps;
    struct events events;
    uint64_t dropped; /* packets that the capture lost, as far as it knows */
    int odd_link;     /* of the first frame that was PACKET_LINK */
    uint64_t pool;    /* octets in reassembly and stream buffers together */
    struct conn **table;
    uint32_t mask, live;
    struct list lru; /* oldest first */
    struct conn *last;
    struct mpa_ulpdu ulpdu; /* scratch */
    struct fpdu_view fpdu;
    const uint8_t *fpdu_octets; /* the FPDU as it stands in the stream, in one piece */
};

/* NULL without memory. */
struct dump *dump_new(const struct dump_cfg *cfg);
void dump_add_sink(struct dump *d, const struct sink *s);
void dump_frame(struct dump *d, const struct frame *f);
/* Nothing came for a while. */
void dump_idle(struct dump *d);
/* The input is at its end: tells what stays unfinished, closes all connections. */
void dump_finish(struct dump *d);
void dump_free(struct dump *d);

/* --- between the files of the core --- */

/* packet_parse(), with fragments put together: *frames names the *count frames of the whole, 0 of them
 * when it came in one. */
enum packet_kind dump_packet(struct dump *d, const struct frame *f, struct packet *pk,
                             const uint64_t **frames, uint32_t *count);
/* The connection of a packet and its direction; NULL without memory. A SYN after an end begins a new
 * one. */
struct conn *flow_find(struct dump *d, const struct packet *pk, unsigned *dir);
/* Only looks: for a second pass over the same frames with the same calls. */
void flow_close(struct dump *d, struct conn *c);
/* When nothing names it any more. */
void flow_free(struct dump *d, struct conn *c);

/* Whether the direction holds others up, after it took octets; over: no longer. */
void dump_update_hold(struct dump *d, struct half *h, bool over);

struct place dump_here(const struct dump *d, const struct conn *c, unsigned dir);

/* Whether octets that this end sent are known to be missing, for now or for good: nobody is to be blamed
 * for what may be among them. */
bool reasm_lacks(const struct half *h);
void reasm_segment(struct dump *d, struct conn *c, unsigned dir, const struct packet *pk);
/* After a segment of either direction: decides on holes that will not be filled. */
void reasm_poll(struct dump *d, struct conn *c);
void reasm_end(struct dump *d, struct conn *c, unsigned dir);

/* In-order octets, or a hole of len octets when p is NULL; frame is the one that brought them. */
struct chunk {
    const uint8_t *p;
    uint32_t len;
    bool cut; /* a hole that the snaplen made: nobody told of it yet */
    uint64_t frame, ns;
};
void stream_start(struct conn *c, unsigned dir, bool syn_seen);
void stream_feed(struct dump *d, struct conn *c, unsigned dir, const struct chunk *k);
/* FIN, RST or the capture's end. */
void stream_end(struct dump *d, struct conn *c, unsigned dir, const char *how);
void stream_free(struct dump *d, struct stream *s);
/* Both ends' framing is known now. */
void stream_agree(struct dump *d, struct conn *c);

/* Octets in [from, to) of the buffer that were not captured; *first is the first of them, to if there
 * are none. */
uint32_t stream_holes(const struct stream *s, uint32_t from, uint32_t to, uint32_t *first);
/* Whether the first two octets of a ULPDU can be a DDP header's. */
bool sync_header_fits(const uint8_t *p);
/* What a search found. */
struct sync_found {
    uint32_t at; /* offset in the buffer */
    bool markers;
    uint32_t pos; /* stream position for the markers */
    bool crc_known, crc;
    unsigned sure, fpdus;
};
/* From offset from of the buffer on. The agreed frames are looked at when there are any. */
bool sync_search(struct conn *c, unsigned dir, uint32_t from, struct sync_found *out);

enum setup_result {
    SETUP_MORE, /* it may become a set-up frame */
    SETUP_DONE, /* it was one, of *used octets */
    SETUP_BAD,  /* a malformed one */
    SETUP_NONE, /* no set-up frame */
};
/* Looks at the first octets of that direction; end: no more will come. */
enum setup_result setup_feed(struct dump *d, struct conn *c, unsigned dir, uint32_t *used);
void setup_cut(struct dump *d, struct conn *c, unsigned dir);
/* The Initiator sends on before there is a Reply. */
void setup_trailing(struct dump *d, struct conn *c, unsigned dir, struct span octets);
/* Depth that bounds the Reads of that direction, or MPA_DEPTH_UNSET. */
uint16_t setup_read_limit(const struct conn *c, unsigned dir);

/* A whole FPDU in d->ulpdu, the rest in d->fpdu. */
void rdma_fpdu(struct dump *d, struct conn *c, unsigned dir);
/* Octets were lost: nothing is known of queues and open messages. */
void rdma_lost(struct dump *d, struct conn *c, unsigned dir);
void rdma_end(struct dump *d, struct conn *c, unsigned dir);
bool rdma_ready(struct conn *c, unsigned dir);
void rdma_free(struct rdma *x);

/* Requests and responses of Reads and Atomics. */
void reads_request(struct dump *d, struct conn *c, unsigned dir, struct msg *m);
/* Whether some open Read wants its first octet there. */
bool reads_begins(const struct conn *c, unsigned dir, const struct ddp_hdr *h);
void reads_response(struct dump *d, struct conn *c, unsigned dir, struct msg *m);

/* Rules that one FPDU, one header and one message must keep. */
void check_framing(struct dump *d, struct conn *c, unsigned dir);
bool check_headers(struct dump *d, struct conn *c, unsigned dir);
void check_first(struct dump *d, struct conn *c, unsigned dir);
void check_message(struct dump *d, struct conn *c, unsigned dir, struct msg *m);

void upper_setup(struct conn *c, const struct mpa_frame *f);
void upper_message(struct conn *c, unsigned dir, struct msg *m);
const char *upper_text(enum upper u);

/* Where a violation was seen, and the octets that show it; none stand for the header of the FPDU that
 * is being worked on. */
struct spot {
    struct place at;
    struct span octets;
};
static inline struct spot dump_spot(struct place at, struct span octets)
{
    return (struct spot){at, octets};
}
void dump_find(struct dump *d, struct spot where, enum require req, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void dump_gap(struct dump *d, struct gap *g, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void dump_setup(struct dump *d, const struct setup_view *v);
/* Decides on what waits on the list as well. */
void dump_message(struct dump *d, struct msg *m, struct list *waiting);
/* May wait on the list of the FPDU's struct rdma. */
void dump_fpdu(struct dump *d, const struct fpdu_view *f);
void dump_tell_conn(struct dump *d, struct conn *c);

#endif
