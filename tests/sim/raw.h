/* SPDX-License-Identifier: MIT */
/* A peer made by hand for the device at side 1: bare TCP streams at 198.18.0.1, on which a test writes
 * what no honest stack would, and sees every octet that comes back. */
#ifndef RAW_H
#define RAW_H

#include "ddp/ddp_hdr.h"
#include "mpa/mpa_rx.h"
#include "mpa/mpa_setup.h"
#include "mpa/mpa_tx.h"
#include "rdmap/rdmap_hdr.h"
#include "rdmap/rdmap_term.h"
#include "sim.h"

enum { RAW_ROOM = 1 << 16, RAW_CONNS = 8, RAW_PORT = 7174 };

struct raw_conn {
    struct net_stream *stream;
    uint8_t *in; /* octets that have come and were not taken yet */
    uint32_t len;
    bool up;
    bool fin_came, close_came;
    bool fin, closed; /* and all before was read */
    bool deaf;        /* nothing is read: the window closes */
    int error;        /* of the stream, once closed */
    uint32_t rx_octets;
    void (*pump)(void *arg); /* with each turn, if not NULL */
    void *pump_arg;
    struct mpa_tx tx;
    struct mpa_rx rx;
};

struct raw {
    struct sim *s;
    struct net *net;
    struct net_listener *listener;
    struct raw_conn *conn[RAW_CONNS]; /* in use */
    struct raw_conn *next;            /* takes the next stream that the listener has */
};

/* Opens the other end of the wire of a world from sim_open_one(), which it then is a part of. */
void raw_open(struct raw *r, struct sim *s);
void raw_close(struct raw *r);

/* A TCP connection to the device's listener. */
void raw_dial(struct raw *r, struct raw_conn *c);
/* c will be the next connection from the device to 198.18.0.1:7174. */
void raw_listen(struct raw *r, struct raw_conn *c);
void raw_hangup(struct raw *r, struct raw_conn *c, bool abort); /* and forgets what came */

void raw_put(struct raw_conn *c, const void *p, uint32_t n);
void raw_frame(struct raw_conn *c, const struct mpa_frame *f);
/* As one FPDU. */
void raw_ulpdu(struct raw_conn *c, const void *p, uint32_t n);

/* Steps until that many octets are there, or the stream ended. */
void raw_wait(struct raw *r, struct raw_conn *c, uint32_t n);
void raw_run(struct raw *r, uint64_t ms);
/* The Request or Reply that comes. */
void raw_take_frame(struct raw *r, struct raw_conn *c, bool reply, struct mpa_frame *f);

struct raw_ulpdu {
    uint8_t octets[MPA_MULPDU_MAX];
    uint32_t len;
    struct ddp_seg seg;
    struct span span;
    unsigned opcode;
};
/* The next ULPDU, if all of it has come. */
bool raw_take(struct raw_conn *c, struct raw_ulpdu *u);
/* The next ULPDU that comes, zero-length Writes left out (they mean nothing); false: FIN or reset. */
bool raw_next(struct raw *r, struct raw_conn *c, struct raw_ulpdu *u);
/* The next one is a Terminate, and nothing but FIN comes behind it. */
void raw_terminate(struct raw *r, struct raw_conn *c, struct raw_ulpdu *u, struct rdmap_term *t);

/* A Request of revision 2 with depths of 4. */
extern const struct mpa_frame raw_with_depths;

/* Full operation with c as Initiator: dials, asks with f (NULL: Rev 1, CRC), and accepts at the device
 * with a fresh QP, which is then side 1's. */
void raw_join(struct raw *r, struct raw_conn *c, const struct mpa_frame *f);
/* The same with that QP, which is no side's; nor is the connection, which is returned. */
struct uiw_conn *raw_join_qp(struct raw *r, struct raw_conn *c, const struct mpa_frame *f,
                             struct uiw_qp *qp);
/* Full operation with c as Responder: the device's fresh QP connects, f answers (NULL: the
 * Request's own revision and depths). */
void raw_answer(struct raw *r, struct raw_conn *c, const struct uiw_conn_param *p,
                const struct mpa_frame *f);

/* A segment: h, then n octets. Returns its length. */
uint32_t raw_segment(uint8_t *out, const struct ddp_hdr *h, const void *p, uint32_t n);
/* A good Send of one segment, the msn-th. */
void raw_send(struct raw_conn *c, uint32_t msn, const void *p, uint32_t n);
void raw_write(struct raw_conn *c, struct sim_at at, const void *p, uint32_t n);
/* A Write of nothing: the first FPDU of an Initiator that has nothing to say. */
void raw_first(struct raw *r, struct raw_conn *c);
void raw_read_request(struct raw_conn *c, uint32_t msn, const struct rdmap_read_request *q);

#endif
