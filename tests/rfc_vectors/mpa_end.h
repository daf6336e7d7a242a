/* SPDX-License-Identifier: MIT */
/* One end of a connection that is MPA and nothing else: src/mpa between octets of a stream, which the
 * caller carries, and the ULPDUs and decisions of a ULP, which is the caller too. */
#ifndef UIW_TESTS_MPA_END_H
#define UIW_TESTS_MPA_END_H

#include "mpa/mpa_rx.h"
#include "mpa/mpa_setup.h"
#include "mpa/mpa_tx.h"

enum { MPA_END_PIECES = 512, MPA_END_EMSS = 1460 };

/* What MPA tells. */
struct mpa_end_ulp {
    void (*setup)(void *arg, enum mpa_setup_event ev);
    void (*ulpdu)(void *arg, struct span u);
    void (*refused)(void *arg, struct verdict why);
};

struct mpa_end {
    const struct mpa_end_ulp *ulp;
    void *arg;
    struct mpa_setup setup;
    bool full;            /* FPDUs may go both ways */
    bool ended;           /* it has closed TCP */
    struct verdict fault; /* of the FPDU that it refused: it hears nothing more */
    struct mpa_rx rx;
    struct mpa_tx tx;
    uint32_t emss;
    bool lend;                         /* the next FPDU is built by reference */
    struct span piece[MPA_END_PIECES]; /* what came and is not used up, as it was cut */
    uint32_t pieces, skip;             /* octets of the first that are used up */
    uint8_t *out;                      /* what is to be sent */
    uint32_t out_n, out_room;
    struct mpa_ulpdu ulpdu;
};

void mpa_end_init(struct mpa_end *e, bool initiator, const struct mpa_cfg *cfg,
                  const struct mpa_end_ulp *ulp, void *arg);
void mpa_end_free(struct mpa_end *e);

/* Initiator: sends the Request. False: MPA makes none. */
bool mpa_end_request(struct mpa_end *e, const void *pd, uint32_t n);
/* Responder, after MPA_SETUP_REQUEST. */
bool mpa_end_accept(struct mpa_end *e, const struct mpa_answer *a);
bool mpa_end_reject(struct mpa_end *e, const void *pd, uint32_t n);

/* Octets that came, in one piece. */
void mpa_end_rx(struct mpa_end *e, const uint8_t *p, uint32_t n);
/* A ULPDU: a header of hlen octets, and the rest. False: MPA does not take it. */
bool mpa_end_send(struct mpa_end *e, struct span hdr, struct span payload);
/* Takes what is to be sent. */
uint32_t mpa_end_read(struct mpa_end *e, uint8_t *to, uint32_t max);

#endif
