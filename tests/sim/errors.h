/* SPDX-License-Identifier: MIT */
/* The table of errors: what each row is called, and the scene in which one is provoked. Every scene has
 * connections beside the one that is spoilt (beside.h), and counts for its row only when they came
 * through it unharmed; test_sim_errors.c ends in a fault when a row has had no scene. */
#ifndef ERRORS_H
#define ERRORS_H

#include "beside.h"

#define ERRORS_ROWS(ROW)                                                               \
    ROW(BAD_FRAME, "bad Request or Reply")                                             \
    ROW(STARTUP_LIMIT, "startup limit")                                                \
    ROW(TCP_LOST, "TCP lost")                                                          \
    ROW(CRC, "CRC mismatch")                                                           \
    ROW(MARKER, "Marker against length")                                               \
    ROW(SHORT_ULPDU, "ULPDU too short for its header")                                 \
    ROW(SETUP_LOCAL, "setup: local failure")                                           \
    ROW(SETUP_IRD, "setup: IRD")                                                       \
    ROW(SETUP_RTR, "setup: RTR")                                                       \
    ROW(DV_TAGGED, "DV wrong, T=1")                                                    \
    ROW(DV_UNTAGGED, "DV wrong, T=0")                                                  \
    ROW(QN, "QN unknown")                                                              \
    ROW(NO_RECEIVE, "no receive posted")                                               \
    ROW(MSN, "MSN wrong")                                                              \
    ROW(MO, "MO wrong")                                                                \
    ROW(TOO_LONG, "Send longer than buffer")                                           \
    ROW(TAGGED_STAG, "Write or Read Response: STag unknown, revoked")                  \
    ROW(TAGGED_BOUNDS, "Write or Read Response: bounds")                               \
    ROW(TAGGED_PD, "Write or Read Response: other PD or stream")                       \
    ROW(TAGGED_WRAP, "Write or Read Response: TO wrap")                                \
    ROW(TAGGED_RIGHT, "Write or Read Response: no write right")                        \
    ROW(PLACEMENT, "placement failed locally")                                         \
    ROW(RV, "RV wrong")                                                                \
    ROW(OPCODE, "opcode unknown, or T or QN does not fit it")                          \
    ROW(READ_STAG, "Read: SrcSTag unknown")                                            \
    ROW(READ_BOUNDS, "Read: bounds")                                                   \
    ROW(READ_RIGHT, "Read: no read right")                                             \
    ROW(READ_PD, "Read: other PD or stream")                                           \
    ROW(READ_WRAP, "Read: TO wrap")                                                    \
    ROW(READ_HALF, "Read fails half way")                                              \
    ROW(OVER_IRD, "reads over IRD")                                                    \
    ROW(INV_UNKNOWN, "Invalidate: unknown STag")                                       \
    ROW(INV_OTHER, "Invalidate: other PD, stream or shared")                           \
    ROW(RESPONSE_UNASKED, "Read Response nobody asked for")                            \
    ROW(RESPONSE_DIFFERS, "Read Response STag, TO or length differs from the request") \
    ROW(ATOMIC_MISALIGNED, "Atomic misaligned")                                        \
    ROW(ATOMIC_OP, "Atomic: AOpCode unknown")                                          \
    ROW(ATOMIC_STAG, "Atomic: STag")                                                   \
    ROW(ATOMIC_BOUNDS, "Atomic: bounds")                                               \
    ROW(ATOMIC_RIGHT, "Atomic: rights")                                                \
    ROW(ATOMIC_PD, "Atomic: PD")                                                       \
    ROW(ATOMIC_WRAP, "Atomic: TO wrap")                                                \
    ROW(IMMEDIATE, "Immediate not 8 octets")                                           \
    ROW(ATOMIC_RESPONSE, "Atomic Response without request, bad identifier")            \
    ROW(BAD_TERMINATE, "bad Terminate received")                                       \
    ROW(CATASTROPHE, "CQ overflow, other local catastrophe of the stream")             \
    ROW(DEVICE, "device-wide failure")                                                 \
    ROW(MAKING, "error while making a message")                                        \
    /* Not of the table, and yet an end that others must not feel. */                  \
    ROW(TERMINATE, "Terminate received")                                               \
    ROW(REJECT, "reject")                                                              \
    ROW(CLOSED, "closed or aborted at either end")

enum errors_row {
#define ROW(name, text) E_##name,
    ERRORS_ROWS(ROW)
#undef ROW
        E_ROWS
};

enum { SCENE_BESIDE = 2 };

struct scene {
    struct sim s;
    struct raw r;
    struct raw_conn c; /* the one to spoil, where there is only one */
    struct raw_ulpdu u;
    struct rdmap_term t;
    struct beside beside[SCENE_BESIDE];
    struct uiw_srq *srq[SCENE_BESIDE];
    struct sim next; /* where the device itself is what fails, they are on another one */
    struct raw next_raw;
    bool apart;
    enum errors_row row;
    bool hit, done;
    uint64_t usual_ms; /* that a round takes the others when nothing happens */
    uint8_t in[16];    /* where scene_recv() has it */
    struct uiw_mr *in_mr;
    unsigned left; /* receives of the spoilt one that the shared queue still had at the end */
};

/* All scenes are played twice: then the spoilt connection takes its receives from a queue that it shares
 * with one of the others. */
extern bool scene_shared;

/* Opens the world of raw.h, and the work beside begins. In c, which is all 0. */
void scene_begin(struct scene *c, enum errors_row row, const char *keys);
/* The same for a fault of the whole device: the others are on another device of the process. */
void scene_begin_apart(struct scene *c, enum errors_row row, const char *keys);
/* The fault is there, or about to be: what is under way beside goes on from here. */
void scene_hit(struct scene *c);
/* The others have come through; they are gone after. The world is still there. */
void scene_expect_unharmed(struct scene *c);
/* That too, unless it was done, and closes the world. */
void scene_end(struct scene *c);

/* The same with c in memory of its own, which the last one frees. */
struct scene *scene_open(enum errors_row row, const char *keys);
void scene_close(struct scene *c);

/* c->c comes to full operation with a fresh QP, which is side 1's. */
void scene_join(struct scene *c);

/* Side 1 so far. */
void scene_expect_async(struct scene *c, enum uiw_async_type type,
                        const char *text); /* NULL: any */
void scene_expect_no_async(struct scene *c);
void scene_expect_last(const struct scene *c, enum uiw_event_type type, enum uiw_reason reason,
                       unsigned code);
/* c->c: the Terminate that stands alone on the wire: its whole payload. */
void scene_expect_word(struct scene *c, uint32_t word);
/* A receive of side 1's QP. */
void scene_recv(struct scene *c, uint64_t wr_id);
/* The only completion left is that of a receive that no message took: flushed. In the shared queue it
 * stays, and there is none. */
void scene_expect_flush(struct scene *c, uint64_t wr_id);

/* How many rows have had no scene; each is named. */
unsigned errors_missing(void);

/* The tests, by file. Each returns how many failed. */
int errors_peer(void);
int errors_setup(void);
int errors_local(void);
int errors_device(void);
int errors_words(void);

#endif
