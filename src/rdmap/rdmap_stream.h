/* SPDX-License-Identifier: MIT */
/* One RDMAP stream: what came means what, read queues, order of sending, states (RFC 5040). Pure:
 * no I/O, no clock, no allocation; the queues' memory is the caller's. */
#ifndef UIW_RDMAP_RDMAP_STREAM_H
#define UIW_RDMAP_RDMAP_STREAM_H

#include "ddp/ddp_mem.h"
#include "ddp/ddp_rx.h"
#include "ddp/ddp_tx.h"
#include "rdmap/rdmap_hdr.h"
#include "rdmap/rdmap_term.h"

/* Reads and Atomics share their queues and with them ORD and IRD (RFC 7306 sec 5.2). */

/* One of ours, which awaits its response. */
struct rdmap_open {
    uint64_t sink_to; /* of a Read */
    uint32_t sink_stag, len;
    uint32_t done; /* octets placed so far */
    uint32_t msn;  /* of the request; an Atomic's identifier is the same */
    uint32_t user; /* the caller's mark */
    bool is_atomic;
};

/* One of the peer's, to be answered: what has come, as it came, since most connections have room for many
 * and need few. */
struct rdmap_asked {
    bool is_atomic;
    uint8_t ddp[DDP_UNTAGGED_LEN];
    uint8_t header[RDMAP_ATOMIC_REQUEST_LEN]; /* of a Read Request: less */
};

/* Places of a fixed array that are in use. */
struct rdmap_ring {
    uint32_t cap, head, cnt;
};

struct rdmap_stream {
    struct ddp_rx rx;
    uint32_t tx_msn[DDP_QNS];   /* next MSN to send */
    struct rdmap_open *open;    /* our Reads and Atomics, places by orq */
    struct rdmap_asked *asked;  /* the peer's, places by irq */
    struct rdmap_ring orq, irq; /* cap: how many may be open: ORD, IRD */
    uint32_t pd, id;            /* for the STag table */
    bool ext;                   /* RFC 7306 */
    bool no_recv;               /* rdmap_rx_no_recv() was called for the Send that is due */
    uint8_t send_ulp;           /* control octet and Invalidate STag of the open Send message, */
    uint32_t send_inv;          /* taken from its first segment */
    bool dead;                /* an error was found or a Terminate came: no more input is judged */
    struct verdict fault;     /* the first error found here, once dead */
    struct rdmap_cause cause; /* of it */
    bool misaligned;          /* it is an Atomic's address; its code is also that of other faults */
};

/* What the owner gives a stream: its PD and number for the STag table, and the queues' memory. */
struct rdmap_cfg {
    uint32_t pd, id;
    bool ext; /* RFC 7306 */
    struct rdmap_open *open;
    struct rdmap_asked *asked;
    uint32_t ord, ird; /* entries of open and asked */
};

void rdmap_stream_init(struct rdmap_stream *st, const struct rdmap_cfg *cfg);

/* The next free place, counted in. False: none is. */
bool rdmap_ring_add(struct rdmap_ring *r, uint32_t *place);

enum rdmap_rx_kind {
    /* Taken care of (zero-length Write segment), or dropped since the stream is dead. */
    RDMAP_RX_NONE,
    /* A Send message begins; nothing is consumed. Give a receive buffer by rdmap_rx_give_recv() and
     * go on by rdmap_rx_again(); or do so after rdmap_rx_no_recv() to get the 1/2/02 fault; or try
     * rdmap_rx() later. */
    RDMAP_RX_WANT_RECV,
    /* Place the payload at dst. */
    RDMAP_RX_WRITE,
    /* The payload belongs at offset seg.hdr.mo of the receive buffer. When last, the message is
     * complete: opcode tells solicited and invalidate (the STag is invalid already, invalidated
     * names it; opcode is that of the message's first segment). Immediate Data is a message of its own
     * that uses up a receive, of whatever length: its 8 octets are not for the buffer. */
    RDMAP_RX_SEND,
    /* Queued on irq. */
    RDMAP_RX_READ_REQUEST,
    RDMAP_RX_ATOMIC_REQUEST,
    /* Place the payload at dst. When last, the Read at the head of orq is complete: take what you
     * need from it, then rdmap_orq_pop(). */
    RDMAP_RX_READ_RESPONSE,
    /* The Atomic at the head of orq is complete, original is what its memory held: take what you need
     * from it, then rdmap_orq_pop(). */
    RDMAP_RX_ATOMIC_RESPONSE,
    /* The peer ends the stream; term says why. The stream is dead, and nothing is to be sent. */
    RDMAP_RX_TERMINATE,
    /* st->fault and st->cause are set; the stream is dead. */
    RDMAP_RX_FAULT,
};

struct rdmap_rx_event {
    enum rdmap_rx_kind kind;
    unsigned opcode;
    bool last;
    struct ddp_seg seg; /* payload cursor: borrowed from the ULPDU */
    struct mspan dst;   /* WRITE, READ_RESPONSE; n equals seg.plen */
    uint32_t invalidated;
    uint64_t original;
    struct rdmap_term term; /* of TERMINATE only; else not set */
};

/* Judges one ULPDU. Order of checks (RFC 5040 sec 7.2): length, DV, then DDP's QN, MSN, MO, STag;
 * then RV, opcode; then RDMAP's own. All of the state is moved on for a good segment before the
 * caller places its bytes. A Read Response must match the Read at the head of orq: STag (1/1/00),
 * next TO and no octet beyond the requested length, exact length at L=1 (1/1/01); none outstanding:
 * 0/2/06. Its sink must still be a valid STag with local write. An Atomic Response must find its
 * Atomic, by the identifier, at the head of orq, else 0/2/06. An Atomic Request is queued if its
 * operation is known (else 0/2/06); its memory is looked up when its turn has come. */
void rdmap_rx(struct rdmap_stream *st, struct ddp_mem_table *mem, struct cursor ulpdu,
              struct rdmap_rx_event *ev);

/* Judges the ULPDU of a RDMAP_RX_WANT_RECV event again: like rdmap_rx(), without another look at the
 * octets of its header. */
void rdmap_rx_again(struct rdmap_stream *st, struct ddp_mem_table *mem, struct rdmap_rx_event *ev);

/* What a RDMAP_RX_FAULT has to do with the Read at the head of orq. */
enum rdmap_blame {
    RDMAP_BLAME_NONE,
    RDMAP_BLAME_ANSWER, /* the fault is in the answer to it */
    RDMAP_BLAME_SINK,   /* the answer is right, but its sink does not take it any more */
};
enum rdmap_blame rdmap_rx_blame(struct rdmap_stream *st, const struct rdmap_rx_event *ev);

void rdmap_rx_give_recv(struct rdmap_stream *st, uint32_t len);
void rdmap_rx_no_recv(struct rdmap_stream *st);

/* Whether a Send message is half received (its receive buffer is in use). */
bool rdmap_rx_in_send(const struct rdmap_stream *st);

/* --- sending --- */

struct rdmap_open *rdmap_orq_head(struct rdmap_stream *st);
void rdmap_orq_pop(struct rdmap_stream *st);
bool rdmap_orq_room(const struct rdmap_stream *st);

/* Starts the message of a Send type or Write; msg is then cut by ddp_tx_next(). */
void rdmap_tx_send(struct rdmap_stream *st, unsigned opcode, uint32_t inv_stag, uint32_t len,
                   struct ddp_msg *msg);
void rdmap_tx_write(struct rdmap_stream *st, uint32_t stag, uint64_t to, uint32_t len,
                    struct ddp_msg *msg);

/* A Read Request: enters it into orq (which has room) and writes its 28 octets of payload. */
void rdmap_tx_read(struct rdmap_stream *st, const struct rdmap_read_request *req, uint32_t user,
                   struct ddp_msg *msg, uint8_t payload[RDMAP_READ_REQUEST_LEN]);

/* The same for an Atomic Request; r->id is chosen here. */
void rdmap_tx_atomic(struct rdmap_stream *st, const struct rdmap_atomic_request *r, uint32_t user,
                     struct ddp_msg *msg, uint8_t payload[RDMAP_ATOMIC_REQUEST_LEN]);

/* Immediate Data, with Solicited Event or without: the number goes out big-endian. */
void rdmap_tx_immediate(struct rdmap_stream *st, bool solicited, uint64_t value,
                        struct ddp_msg *msg, uint8_t payload[RDMAP_IMMEDIATE_LEN]);

/* The request whose response is due; NULL: none. */
const struct rdmap_asked *rdmap_irq_head(const struct rdmap_stream *st);

/* The Read Response that is due (a Read at the head of irq): checks the source in the table first. On a fault
 * st->fault and cause are set as for a received error, false. On true *src is the memory to send
 * from (n may be 0) and msg the message; rdmap_irq_pop() when it was wholly cut. */
bool rdmap_tx_response(struct rdmap_stream *st, const struct ddp_mem_table *mem,
                       struct ddp_msg *msg, struct mspan *src);

/* The Atomic Response that is due (an Atomic at the head of irq): checks the memory, does the
 * operation, which therefore falls between the responses before and behind it (RFC 7306 sec 5.4), and
 * writes the 12 octets of payload. Faults, of which the memory is left as it was, as above: 0/1/00..04,
 * 0/2/07 when the 8 octets are not aligned to 8 (RFC 7306 sec 8.2). */
bool rdmap_tx_atomic_response(struct rdmap_stream *st, const struct ddp_mem_table *mem,
                              struct ddp_msg *msg, uint8_t payload[RDMAP_ATOMIC_RESPONSE_LEN]);

/* The source of the response at the head of irq was lost when done octets of it had been cut: as a
 * fault of rdmap_tx_response(), with the request's advanced fields (RFC 5040 sec 4.8). */
void rdmap_fail_response(struct rdmap_stream *st, enum ddp_mem_fault fault, uint32_t done);

bool rdmap_irq_pending(const struct rdmap_stream *st);
void rdmap_irq_pop(struct rdmap_stream *st);

/* The Terminate for st->fault and st->cause (RFC 5040 sec 4.8), payload of msg->len octets. */
void rdmap_tx_terminate(struct rdmap_stream *st, struct ddp_msg *msg,
                        uint8_t payload[RDMAP_TERM_MAX]);

/* Records a fault found outside rdmap_rx (MPA's verdicts, local catastrophes), unless one is
 * recorded already; the stream is dead after. */
void rdmap_fail(struct rdmap_stream *st, struct verdict v);

#endif
