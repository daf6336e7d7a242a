/* SPDX-License-Identifier: MIT */
/* MPA set-up of a connection: RFC 5044 sec 7.1, RFC 6581. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/conn.h"
#include "api/error.h"

static enum uiw_reason reason_of(enum mpa_fault f)
{
    switch (f) {
    case MPA_FAULT_KEY:
    case MPA_FAULT_ROLE: return UIW_REASON_BAD_KEY;
    case MPA_FAULT_REV:
    case MPA_FAULT_REV_MISMATCH: return UIW_REASON_BAD_REVISION;
    case MPA_FAULT_IRD: return UIW_REASON_IRD;
    case MPA_FAULT_RTR: return UIW_REASON_RTR;
    default: return UIW_REASON_MALFORMED;
    }
}

static void send_frame(struct uiw_conn *c, const uint8_t *frame, uint32_t len)
{
    /* The first octets of a stream always find room. */
    uint8_t *to = net_tx_reserve(c->stream, len);
    if (to != NULL) {
        memcpy(to, frame, len);
        net_tx_commit(c->stream, len);
    }
}

int conn_dial(struct uiw_conn *c)
{
    struct conn_setup *s = c->setup;
    const struct sockaddr *local = s->has_local ? (const struct sockaddr *)&s->local : NULL;
    c->state = CONN_TCP;
    int err = net_connect(c->dev->net, local, (const struct sockaddr *)&s->remote, c, &c->stream);
    if (err == 0) {
        conn_set_deadline(c, c->dev->spec.setup_s * 1000u);
    }
    return err;
}

void conn_setup_up(struct uiw_conn *c)
{
    uint8_t frame[MPA_FRAME_MAX];
    struct conn_setup *s = c->setup;
    c->state = CONN_SETUP;
    uint32_t len = mpa_setup_request(&s->mpa, s->pd, s->pd_len, frame);
    send_frame(c, frame, len);
}

/* RFC 6581 sec 10: a peer of RFC 5044 may close on an enhanced Request; one more try, on a new
 * connection (bugs N04: one, not more). */
static bool fall_back(struct uiw_conn *c)
{
    struct conn_setup *s = c->setup;
    if (!c->initiator || c->fell_back || s->mpa.cfg.rev != MPA_REV_2 || c->orphan) {
        return false;
    }
    c->fell_back = true;
    conn_close_stream(c, true);
    struct mpa_cfg cfg = s->mpa.cfg;
    cfg.rev = MPA_REV_1;
    cfg.p2p = false;
    mpa_setup_init(&s->mpa, true, &cfg);
    return conn_dial(c) == 0;
}

void conn_setup_lost(struct uiw_conn *c, int err)
{
    static const struct {
        int err;
        enum uiw_reason reason;
        const char *text;
    } why[] = {
        {-ECONNREFUSED, UIW_REASON_REFUSED, "connection refused: nobody listens on that port"},
        {-ETIMEDOUT, UIW_REASON_UNREACHABLE, "no answer from that address"},
        {-EHOSTUNREACH, UIW_REASON_UNREACHABLE, "no route, or no host with that address"},
        {-ENETDOWN, UIW_REASON_UNREACHABLE, "the link is down"},
    };
    if (c->state == CONN_SETUP && fall_back(c)) {
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(why); i++) {
        if (why[i].err == err && (c->state == CONN_TCP || err != -ECONNREFUSED)) {
            conn_kill(c, why[i].reason, why[i].text);
            return;
        }
    }
    conn_kill(c, UIW_REASON_RESET, "the peer closed the connection during the MPA set-up");
}

/* --- full operation --- */

/* A local failure behind the Reply: RFC 6581 sec 9.3 has a code for the peer. */
static void fail_here(struct uiw_conn *c)
{
    rdmap_fail(&c->st, verdict_bad(LAYER_LLP, LLP_MPA, MPA_ERR_LOCAL));
    conn_fault(c, UIW_REASON_LOCAL);
}

static bool begin_stream(struct uiw_conn *c)
{
    const struct mpa_agreed *a = &c->agreed;
    uint32_t ord = min_u32(a->ord, DEVSPEC_DEPTH_MAX), ird = min_u32(a->ird, DEVSPEC_DEPTH_MAX);
    /* Of ours no more can be open than are posted, and an RTR. */
    uint32_t open = min_u32(ord, c->qp->sq.ring.cap + 1);
    c->own_reads = calloc(open + 1, sizeof *c->own_reads);
    c->peer_reads = calloc(ird + 1, sizeof *c->peer_reads);
    bool good = c->own_reads != NULL && c->peer_reads != NULL;
    if (!good) {
        ord = open = ird = 0; /* the stream begins all the same, to carry the Terminate */
    }
    struct rdmap_cfg cfg = {.pd = c->qp->pd->id,
                            .id = c->qp->num,
                            .ext = c->dev->spec.ext,
                            .open = c->own_reads,
                            .ord = open,
                            .asked = c->peer_reads,
                            .ird = ird};
    rdmap_stream_init(&c->st, &cfg);
    mpa_rx_init(&c->mrx, a->rx_markers, a->crc);
    mpa_tx_init(&c->mtx, a->tx_markers, a->crc);
    c->qp->ord = ord;
    c->qp->ird = ird;
    c->state = CONN_OPEN;
    conn_no_deadline(c);
    if (!good) {
        fail_here(c);
    }
    return good;
}

static void raise_established(struct uiw_conn *c)
{
    struct cm_event *e =
        cm_event_new(c, UIW_EVENT_ESTABLISHED, c->initiator ? &c->setup->mpa.peer : NULL);
    if (e == NULL) {
        fail_here(c);
        return;
    }
    e->ird = (uint16_t)c->qp->ird;
    e->ord = (uint16_t)c->qp->ord;
    c->established = true;
    qp_set_state(c->qp, UIW_QP_RTS);
    cm_raise(c, e);
}

static void open_initiator(struct uiw_conn *c)
{
    c->agreed = c->setup->mpa.agreed;
    c->may_send = true;
    if (!begin_stream(c)) {
        return;
    }
    if (c->agreed.p2p && c->agreed.rtr != 0) {
        conn_tx_rtr(c);
    }
    raise_established(c);
    free(c->setup);
    c->setup = NULL;
}

static void refused(struct uiw_conn *c)
{
    struct cm_event *e = cm_event_new(c, UIW_EVENT_REJECTED, &c->setup->mpa.peer);
    if (e != NULL) {
        e->reason = UIW_REASON_REJECTED;
        e->status = -ECONNREFUSED;
        snprintf(e->text, sizeof e->text, "peer: connection rejected");
        c->ended = true;
        qp_set_state(c->qp, UIW_QP_ERROR);
        cm_raise(c, e);
        /* FIN, not RST: the Reject is to be acknowledged (bugs N09). */
        conn_close_stream(c, false);
    } else {
        conn_kill(c, UIW_REASON_REJECTED, "peer: connection rejected");
    }
}

/* RFC 6581 sec 9.1, 9.2: full operation begins, but only to carry the Terminate. */
static void refuse_by_terminate(struct uiw_conn *c)
{
    struct conn_setup *s = c->setup;
    enum uiw_reason reason = reason_of(s->mpa.fault);
    c->agreed = s->mpa.agreed;
    c->may_send = true;
    if (begin_stream(c)) {
        rdmap_fail(&c->st, s->mpa.term);
        conn_fault(c, reason);
    }
}

static void bad_frame(struct uiw_conn *c)
{
    enum mpa_fault f = c->setup->mpa.fault;
    if ((f == MPA_FAULT_REV || f == MPA_FAULT_REV_MISMATCH) && fall_back(c)) {
        return;
    }
    char text[160];
    snprintf(text, sizeof text, "peer: %s", mpa_fault_text(f));
    conn_kill(c, reason_of(f), text);
}

static void ask_program(struct uiw_conn *c)
{
    struct cm_event *e = cm_event_new(c, UIW_EVENT_CONNECT_REQUEST, &c->setup->mpa.peer);
    if (e == NULL) {
        conn_kill(c, UIW_REASON_LOCAL, "out of memory");
        return;
    }
    c->state = CONN_DECIDE;
    c->asked = true;
    conn_no_deadline(c);
    cm_raise(c, e);
}

static enum mpa_setup_event take_frames(struct uiw_conn *c)
{
    struct span *v = c->dev->scratch->spans;
    struct cursor cur = cursor_of(v, net_rx_peek(c->stream, v, CONN_RX_SPANS));
    uint32_t total = cur.left;
    enum mpa_setup_event ev = mpa_setup_rx(&c->setup->mpa, &cur);
    net_rx_consume(c->stream, total - cur.left);
    return ev;
}

void conn_setup_rx(struct uiw_conn *c)
{
    switch (take_frames(c)) {
    case MPA_SETUP_MORE: break;
    case MPA_SETUP_REQUEST: ask_program(c); break;
    case MPA_SETUP_ACCEPTED: open_initiator(c); break;
    case MPA_SETUP_REJECTED: refused(c); break;
    case MPA_SETUP_TERM: refuse_by_terminate(c); break;
    case MPA_SETUP_BAD: bad_frame(c); break;
    }
    /* FPDUs may stand right behind the Reply (siw sends them so). */
    if (c->state == CONN_OPEN && c->stream != NULL) {
        conn_rx(c);
    }
}

bool conn_setup_accept(struct uiw_conn *c, uint16_t ird, uint16_t ord, const void *pd,
                       uint32_t pd_len)
{
    uint8_t frame[MPA_FRAME_MAX];
    uint32_t len =
        mpa_setup_accept(&c->setup->mpa, &(struct mpa_answer){ird, ord, pd, pd_len}, frame);
    c->agreed = c->setup->mpa.agreed;
    c->absorb_rtr = c->agreed.p2p && (c->agreed.rtr & MPA_RTR_SEND) != 0;
    send_frame(c, frame, len);
    if (!begin_stream(c)) {
        return false;
    }
    free(c->setup);
    c->setup = NULL;
    raise_established(c);
    return c->stream != NULL && !c->ended;
}

void conn_setup_reject(struct uiw_conn *c, const void *pd, uint32_t pd_len)
{
    uint8_t frame[MPA_FRAME_MAX];
    uint32_t len = mpa_setup_reject(&c->setup->mpa, pd, pd_len, frame);
    send_frame(c, frame, len);
    c->ended = true;
    conn_close_stream(c, false);
}
