/* SPDX-License-Identifier: MIT */
/* The control connection: Sends of fixed length, by turns. Uses the tool's own CQ. */
#include <string.h>

#include "session.h"

static uint8_t *send_place(struct ctrl *c, unsigned n)
{
    return c->octets + (CTRL_RECVS + n % CTRL_SENDS) * WIRE_MSG;
}

static bool post_recv(struct session *s, uint64_t slot)
{
    struct ctrl *c = &s->ctrl;
    struct uiw_sge sge = {.addr = (uint64_t)(uintptr_t)(c->octets + slot * WIRE_MSG),
                          .length = WIRE_MSG,
                          .lkey = uiw_mr_lkey(c->mr)};
    struct uiw_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};

    if (uiw_qp_post_recv(c->qp, &wr, NULL) != 0) {
        session_fail(s, "%s", uiw_error());
        return false;
    }
    return true;
}

bool ctrl_open(struct session *s)
{
    struct ctrl *c = &s->ctrl;
    struct uiw_qp_attr attr = {
        .send_cq = s->tool->cq,
        .recv_cq = s->tool->cq,
        .max_send_wr = 8,
        .max_recv_wr = CTRL_RECVS,
        .max_send_sge = 1,
        .max_recv_sge = 1,
        .sig_all = true,
        .user = s,
    };

    if (uiw_mr_reg(s->tool->pd, c->octets, sizeof c->octets, UIW_ACCESS_LOCAL_WRITE, &c->mr) != 0 ||
        uiw_qp_create(s->tool->pd, &attr, &c->qp) != 0) {
        session_fail(s, "%s", uiw_error());
        return false;
    }
    for (uint64_t slot = 0; slot < CTRL_RECVS; slot++) {
        if (!post_recv(s, slot))
            return false;
    }
    return true;
}

void ctrl_close(struct session *s)
{
    struct ctrl *c = &s->ctrl;
    struct uiw_wc wc;

    if (c->conn != NULL)
        (void)uiw_conn_destroy(c->conn);
    if (c->qp != NULL)
        (void)uiw_qp_destroy(c->qp);
    if (c->mr != NULL)
        (void)uiw_mr_dereg(c->mr);
    /* Nothing may be left that points here. */
    while (tool_completion(s->tool, &wc) > 0)
        ;
    *c = (struct ctrl){0};
}

bool ctrl_connect(struct session *s)
{
    uint8_t octets[WIRE_GREETING];
    struct uiw_conn_param param = {.private_data = octets, .private_len = sizeof octets};

    wire_put_greeting(&(struct wire_greeting){.type = WIRE_CONTROL}, octets);
    param.user = NULL;
    if (uiw_connect(s->tool->events, s->ctrl.qp, s->peer, &param, &s->ctrl.conn) != 0) {
        session_fail(s, "%s", uiw_error());
        return false;
    }
    return true;
}

bool ctrl_accept(struct session *s, struct uiw_conn *conn)
{
    uint8_t octets[WIRE_GREETING];
    struct uiw_conn_param param = {.private_data = octets, .private_len = sizeof octets};

    wire_put_greeting(&(struct wire_greeting){.type = WIRE_CONTROL}, octets);
    s->ctrl.conn = conn;
    if (uiw_accept(conn, s->ctrl.qp, &param) != 0) {
        session_fail(s, "%s", uiw_error());
        return false;
    }
    return true;
}

bool ctrl_send(struct session *s, const struct wire_msg *msg)
{
    struct ctrl *c = &s->ctrl;
    uint8_t *place = send_place(c, c->sent++);
    struct uiw_sge sge = {
        .addr = (uint64_t)(uintptr_t)place, .length = WIRE_MSG, .lkey = uiw_mr_lkey(c->mr)};
    struct uiw_send_wr wr = {.opcode = UIW_WR_SEND, .sg_list = &sge, .num_sge = 1};

    wire_put(msg, place);
    if (uiw_qp_post_send(c->qp, &wr, NULL) != 0) {
        session_fail(s, "%s", uiw_error());
        return false;
    }
    return true;
}

/* The other end's reason is better than what we see of it. */
static void on_failed(struct session *s, const char *text)
{
    s->told = true;
    pthread_mutex_lock(&s->lock);
    if (s->by_event)
        s->text[0] = '\0';
    pthread_mutex_unlock(&s->lock);
    session_fail(s, "%s: %s", s->server ? "the client says" : "the server says", text);
}

static void on_message(struct session *s, const struct uiw_wc *wc)
{
    struct ctrl *c = &s->ctrl;
    struct wire_msg msg;

    if (!wire_get(c->octets + wc->wr_id * WIRE_MSG, wc->byte_len, &msg))
        session_fail(s, "the other end does not speak this version of uiw-perf");
    else if (msg.type == WIRE_FAILED)
        on_failed(s, msg.text);
    else if (c->has_msg)
        session_fail(s, "the other end spoke out of turn");
    else if (post_recv(s, wc->wr_id))
        c->msg = msg;
    c->has_msg = !session_failed(s);
}

void ctrl_completion(struct session *s, const struct uiw_wc *wc)
{
    if (wc->qp_user != s || s->told)
        return;
    /* Of what ended with the stream the event tells more. */
    if (wc->status == UIW_WC_WR_FLUSH_ERR)
        return;
    if (wc->status != UIW_WC_SUCCESS)
        session_fail(s, "control connection: %s", uiw_wc_status_text(wc->status));
    else if (wc->opcode == UIW_WC_RECV)
        on_message(s, wc);
}
