/* SPDX-License-Identifier: MIT */
/* Connections: the one place where net, mpa, ddp and rdmap meet. Everything here runs under the
 * loop's lock.
 *   conn.c       life, timers, what the net says
 *   conn_setup.c MPA set-up
 *   conn_rx.c    octets to events
 *   conn_tx.c    requests to FPDUs
 *   conn_end.c   faults, Terminate, closing
 *   conn_cm.c    channels, listeners, the program's calls */
#ifndef UIW_API_CONN_H
#define UIW_API_CONN_H

#include "api/conn_face.h"
#include "api/device.h"
#include "api/qp.h"
#include "mpa/mpa_rx.h"
#include "mpa/mpa_setup.h"
#include "mpa/mpa_tx.h"
#include "rdmap/rdmap_stream.h"

enum conn_state {
    CONN_TCP,     /* initiator: TCP is being set up */
    CONN_SETUP,   /* waits for the peer's Request or Reply */
    CONN_DECIDE,  /* responder: the program has the Request */
    CONN_OPEN,    /* full operation */
    CONN_CLOSING, /* what is posted goes out, then FIN */
    CONN_DRAIN,   /* our FIN is queued; waits for the peer's */
    CONN_DOWN,    /* no stream */
};

enum {
    CONN_CLOSE_MS = 10000,     /* for the rest of the queue to go out in good order */
    CONN_DRAIN_MS = 3000,      /* for the peer's FIN after ours */
    CONN_CLOSE_MAX_MS = 60000, /* both begin anew with each acknowledgement, not beyond this */
    CONN_NUDGE_MS = 20,        /* before the first nudge; five times as long before each next */
    CONN_NUDGES = 3,
    CONN_SEGMENTS_AT_ONCE = 11, /* four times makes a large segment of 1460 octets on the wire */
    CONN_LEND_MIN = 8192,       /* payload from which lending beats copying (design.md, measured) */
};

/* Needed only until full operation; then freed. */
struct conn_setup {
    struct mpa_setup mpa;
    struct sockaddr_storage local, remote; /* initiator, for the Rev 1 retry */
    bool has_local;
    uint32_t pd_len; /* our private data of the Request */
    uint8_t pd[MPA_PD_MAX];
};

/* What our Reads carry for us is the slot of their request; the RTR has none. */
#define CONN_READ_OF_RTR UINT32_MAX

enum conn_tx_kind {
    CONN_TX_WR,
    CONN_TX_RESPONSE,
    CONN_TX_ATOMIC_RESPONSE,
    CONN_TX_TERMINATE,
    CONN_TX_RTR,
};

enum { CONN_SMALL = RDMAP_TERM_MAX };
_Static_assert(RDMAP_ATOMIC_REQUEST_LEN <= (int)CONN_SMALL, "room for every header");

/* The message that is being cut into FPDUs. */
struct conn_tx {
    bool active;
    enum conn_tx_kind kind;
    struct ddp_msg msg;
    uint32_t index;        /* WR: its slot */
    uint32_t sge, sge_off; /* WR: where its payload goes on */
    bool imm;              /* WR: the Immediate Data of it */
    bool lent;             /* some of it was lent to TCP */
    uint64_t lent_to;      /* stream offset behind that */
    bool response_turn;    /* a response goes before the next WR */
    union {
        uint8_t small[CONN_SMALL];     /* payload of our own making */
        struct rdmap_read_request req; /* RESPONSE: what was asked for */
    };
};

enum { CONN_RX_SPANS = 1024 };

/* Of the receive path, one for a device: too large for every connection or a stack. */
struct conn_scratch {
    struct mpa_ulpdu ulpdu;
    struct span spans[CONN_RX_SPANS];
};

/* What a struct uiw_event is made of: each connection keeps one, so it is small. */
struct cm_event {
    struct list node; /* first: a node is its event */
    struct uiw_conn *conn;
    void *user;
    struct uiw_listener *listener;
    enum uiw_event_type type;
    enum uiw_reason reason;
    int status;
    uint8_t layer, etype, code;
    uint16_t ird, ord, private_len;
    char text[sizeof((struct uiw_event *)NULL)->text];
    uint8_t private_data[];
};

struct uiw_conn {
    struct uiw_device *dev;
    struct list on_device, on_timed, on_listener;
    uint64_t deadline;    /* ms of net_now_ms() */
    uint64_t close_until; /* ms: what ends a close that makes headway */
    struct uiw_event_channel *channel;
    struct uiw_listener *listener; /* until its CONNECT_REQUEST was fetched */
    void *user;
    struct cm_event *last; /* kept for the event that must not fail */
    struct uiw_qp *qp;
    struct net_stream *stream;
    struct conn_setup *setup;
    enum conn_state state;
    bool initiator;
    bool fell_back;   /* this is the Rev 1 retry */
    bool asked;       /* the CONNECT_REQUEST was raised */
    bool established; /* the ESTABLISHED was raised */
    bool ended;       /* the last event was raised, the QP is in error */
    bool orphan;      /* the program let go of it */
    bool may_send;    /* responder: the first FPDU has come (RFC 5044 sec 7.1.2) */
    bool absorb_rtr;  /* responder: a first zero-length Send is the RTR */
    bool term_due;
    bool peer_fin;
    bool rnr;       /* a Send waits for a receive */
    uint8_t nudges; /* see conn_nudge() */
    uint32_t emss, mulpdu;
    uint64_t rx_octets;
    struct mpa_agreed agreed;
    struct mpa_rx mrx;
    struct mpa_tx mtx;
    struct rdmap_stream st;
    struct rdmap_open *own_reads; /* st's queues */
    struct rdmap_asked *peer_reads;
    struct conn_tx tx;
};

/* --- conn.c --- */
struct uiw_conn *conn_new(struct uiw_device *dev, struct uiw_event_channel *ch);
void conn_maybe_free(struct uiw_conn *c); /* when neither program nor stream is left */
void conn_set_deadline(struct uiw_conn *c, uint64_t ms_from_now);
void conn_no_deadline(struct uiw_conn *c);
void conn_close_stream(struct uiw_conn *c, bool abort);

/* --- conn_setup.c --- */
int conn_dial(struct uiw_conn *c);                 /* TCP connect to setup->remote */
void conn_setup_up(struct uiw_conn *c);            /* TCP is up: the Request */
void conn_setup_rx(struct uiw_conn *c);            /* frames have come */
void conn_setup_lost(struct uiw_conn *c, int err); /* TCP ended meanwhile */
bool conn_setup_accept(struct uiw_conn *c, uint16_t ird, uint16_t ord, const void *pd,
                       uint32_t pd_len); /* false: the stream is gone */
void conn_setup_reject(struct uiw_conn *c, const void *pd, uint32_t pd_len);

/* --- conn_rx.c --- */
void conn_rx(struct uiw_conn *c);

/* --- conn_tx.c --- */
void conn_tx(struct uiw_conn *c);
void conn_tx_rtr(struct uiw_conn *c);
/* siw as Responder (Linux 6.1) leaves octets unread that come between its Reply and the moment it looks
 * at the stream for itself, until more octets come. An Initiator that hears nothing after its first
 * FPDUs sends zero-length Writes, which mean nothing to anybody (RFC 5040 sec 5.1): a few, ever later. */
void conn_nudge(struct uiw_conn *c);
bool conn_nudge_due(const struct uiw_conn *c); /* the first: a FIN has to wait for it */
bool conn_tx_idle(struct uiw_conn *c);         /* nothing posted is left to send, no Read is open */

/* --- conn_end.c --- */
/* st->fault is set: QP to error, the event, a Terminate, then closing. */
void conn_fault(struct uiw_conn *c, enum uiw_reason reason);
void conn_terminated(struct uiw_conn *c, const struct rdmap_term *term); /* by the peer */
/* A request failed here: it gets that status, and the stream ends, since what was posted behind it must
 * not run (RFC 5040 sec 7). */
void conn_fail_request(struct uiw_conn *c, uint32_t index, enum uiw_wc_status status);
void conn_begin_close(struct uiw_conn *c); /* in good order */
void conn_close_step(struct uiw_conn *c);  /* goes on with it as far as possible now */
void conn_close_moves(struct uiw_conn *c); /* something was acknowledged */
void conn_fin(struct uiw_conn *c);         /* the peer's FIN, all its octets read */
/* QP to error and the last event, once. v: fault or peer's Terminate, or NULL. */
void conn_end(struct uiw_conn *c, enum uiw_reason reason, const struct verdict *v,
              const char *text);

/* --- conn_cm.c --- */
void cm_accept(struct uiw_listener *l);
void cm_forget(struct uiw_conn *c);                    /* the program never saw it, and will not */
bool cm_raise(struct uiw_conn *c, struct cm_event *e); /* takes e */
/* peer: whose private data comes with it, or NULL. NULL without memory. */
struct cm_event *cm_event_new(struct uiw_conn *c, enum uiw_event_type type,
                              const struct mpa_frame *peer);
int cm_errno_of(enum uiw_reason reason);

#endif
