/* SPDX-License-Identifier: MIT */
/* State of one TCP connection: reassembly, MPA stream and RDMA state per direction. Bounded: 4 KB at
 * rest, 16 KB with RDMA on it, 16 KB more for each end that reads and 12 KB for regions; and in each
 * direction at most STREAM_BUF octets of an FPDU (or of a search for one), REASM_BYTES of segments out
 * of order and READS_MAX open Reads. */
#ifndef UIW_DUMP_CONN_H
#define UIW_DUMP_CONN_H

#include "base/list.h"
#include "ddp/ddp_rx.h"

#include "events.h"
#include "packet.h"
#include "stats.h"
#include "view.h"

enum {
    REASM_BYTES = 8 << 20,
    REASM_NODES = 4096,
    STREAM_BUF = 160 << 10,
    SYNC_GIVE_UP = 512 << 10, /* octets after which a stream that never was one is left alone */
    READS_MAX = 16384,        /* IRD has 14 bits */
    MARKS_MAX = 256,
    HOLES_MAX = 128,
};

/* --- reassembly --- */

struct piece; /* a segment that waits for the ones before it */

struct reasm {
    bool started, syn, fin, fin_seen, rst;
    uint32_t isn;
    uint32_t next; /* sequence number that is due */
    uint32_t fin_at;
    uint32_t sent;  /* highest number this end used */
    uint32_t acked; /* highest ACK of the other end */
    bool has_ack;
    struct piece *head, *tail;
    uint32_t pieces, bytes;
    bool hole_acked; /* the other end has what we lack: since when */
    uint64_t hole_ns, hole_frames;
    uint32_t sum_good, sum_bad, sum_off;
};

/* --- stream --- */

enum phase {
    PHASE_START, /* the first octets decide */

    PHASE_FPDU,
    PHASE_SYNC, /* looking for an FPDU boundary */
    PHASE_OFF,  /* no MPA here, or no longer */
};

/* Where a piece of the buffer came from. */
struct mark {
    uint32_t at; /* offset in the buffer */
    uint64_t frame, ns;
};

struct hole {
    uint32_t from, to;
};

struct stream {
    enum phase phase;
    uint8_t *buf;
    uint32_t n, cap;
    uint64_t off;  /* stream offset of buf[0] */
    uint64_t base; /* stream offset at which full operation began, or which markers count from */
    bool base_known;
    struct mpa_rx rx;
    bool crc_known;
    bool was_mpa;                /* FPDUs or a set-up frame were seen here */
    bool after_term;             /* a Terminate was sent: nothing should follow */
    uint64_t buf_frame, buf_low; /* frame of buf[0], lowest frame in buf */
    struct hole hole[HOLES_MAX];
    uint32_t holes;
    uint32_t at; /* where in the buffer the FPDU that is being taken begins */
    /* PHASE_SYNC */
    struct mark *mark;
    uint32_t marks;
    uint32_t next_try;
    uint64_t skipped;  /* octets given up since the search began */
    uint64_t work;     /* octets whose CRC the search may still compute */
    bool searched;     /* a search began here: say so when it ends */
    bool guessed;      /* no Marker was seen, as in any short FPDU: there may be some */
    bool guess_failed; /* the next FPDU's CRC says so */
    uint32_t plain;    /* octets without a Marker since it was guessed */
    unsigned doubtful; /* FPDUs in a row that may be none */
    bool ended;
};

/* --- RDMA --- */

struct open_msg {
    bool open;
    uint8_t ulp;
    uint64_t next_to;
    struct list waiting; /* events that the filter takes if it takes the message */
    struct msg m;
};

struct pending_read {
    uint64_t ns, frame;
    unsigned opcode; /* RDMAP_READ_REQUEST or RDMAP_ATOMIC_REQUEST */
    uint32_t id;     /* of an atomic */
    uint32_t known;  /* octets of its header that were captured; what lies behind them is 0 here */
    struct rdmap_read_request req;
};

/* Messages that may be open side by side: one Write, one Read Response, one per queue, and one of
 * queues that do not exist. */
enum { SLOT_WRITE, SLOT_RESPONSE, SLOT_QN0, SLOT_ODD = SLOT_QN0 + DDP_QNS, SLOTS };

/* What one end sends. */
struct rdma {
    struct ddp_rx rx;
    bool adopt[DDP_QNS]; /* the next segment tells where the queue stands */
    bool unsure[SLOTS];  /* the next message may have begun before what was seen */
    struct open_msg slot[SLOTS];
    /* Reads this end asked for and has no answer to: a ring that grows. */
    struct pending_read *read;
    uint32_t read_cap, read_head, reads, reads_peak;
    bool reads_unsure; /* some requests were not seen */
    bool reads_vague;  /* of some not the whole header was */
    bool first_done;   /* its first FPDU of full operation was seen */
    bool told_mulpdu;
    uint64_t first_frame;
    uint32_t pending_errors; /* of the FPDU that is being worked on */
    enum require pending_error;
    struct list waiting; /* events of that FPDU */
};

struct half {
    struct reasm r;
    /* Answers that came while octets of this end, their requests among them, waited behind a hole;
     * and up to where those octets had arrived. */
    uint32_t early, early_seq;
    struct stream s;
    struct rdma *x; /* NULL until there is an FPDU */
    struct half_stats st;
    uint16_t mss;
    bool held; /* it may yet tell of older frames */
};

/* --- connection --- */

enum upper {
    UPPER_UNKNOWN,
    UPPER_RPING,
    UPPER_RSOCKETS,
    UPPER_RPC,
    UPPER_NVME,
    UPPER_ISER,
    UPPER_SMB,
    UPPER_PERFTEST,
};

/* What the set-up agreed on. */
struct agreed {
    bool have_req, have_rep, rejected, bad;
    unsigned initiator; /* direction the Request came from */
    struct mpa_frame req, rep;
    bool trailing_told;
};

struct conn {
    struct conn *chain;
    struct list lru;
    uint64_t hash;
    uint32_t id;
    bool v6, told, closed;
    uint8_t addr[DIRS][16];
    uint16_t port[DIRS];
    uint64_t first_ns, last_ns, first_frame, frames;
    struct half h[DIRS];
    struct agreed *agreed; /* NULL until a set-up frame is seen */
    enum upper upper;
    uint16_t nvme_qid;
    bool nvme_qid_known, rs_net;
    uint32_t findings, gaps;
    struct finding first_finding; /* when findings > 0 */
    struct conn_stats *stats;     /* NULL until there is a message */
    struct context context;
};

/* The connection carries, or tried to carry, MPA. */
static inline bool conn_is_mpa(const struct conn *c)
{
    return c->agreed != NULL || c->h[0].s.was_mpa || c->h[1].s.was_mpa;
}

#endif
