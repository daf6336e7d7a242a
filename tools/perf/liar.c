/* SPDX-License-Identifier: MIT */
/* liar SERVER PORT CASE: a client of uiw-perf's server that does not keep to the protocol, for tests.
 * Prints what the server made of it: "rejected: ...", "failed: ..." (its words) or "closed". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire.h"

enum { WAIT_NS = 2000000000 };

struct liar {
    struct tool t;
    struct sockaddr_storage server;
    struct uiw_qp *qp, *data_qp;
    struct uiw_conn *conn, *data;
    struct uiw_mr *mr;
    uint8_t octets[4096];
    bool up;
};

static _Noreturn void end(const char *what, const char *text)
{
    printf("%s%s%s\n", what, text[0] != '\0' ? ": " : "", text);
    fflush(stdout);
    _exit(0);
}

static void must(int r)
{
    if (r < 0)
        end("liar", uiw_error());
}

static void on_event(struct liar *l, const struct uiw_event *ev)
{
    char text[PERF_TEXT];

    if (ev->type == UIW_EVENT_ESTABLISHED)
        l->up = true;
    else if (ev->type == UIW_EVENT_REJECTED &&
             wire_get_refusal(ev->private_data, ev->private_len, text))
        end("rejected", text);
    else
        end(ev->reason == UIW_REASON_CLOSED ? "closed" : "ended",
            ev->reason == UIW_REASON_CLOSED ? "" : ev->text);
}

static bool on_completion(struct liar *l, const struct uiw_wc *wc, struct wire_msg *msg)
{
    if (wc->status != UIW_WC_SUCCESS || wc->opcode != UIW_WC_RECV)
        return false;
    if (!wire_get(l->octets + 1024, wc->byte_len, msg))
        end("liar", "not a message");
    if (msg->type == WIRE_FAILED)
        end("failed", msg->text);
    return true;
}

/* Until a message comes or, with up, the connection stands. */
static void await(struct liar *l, bool up, struct wire_msg *msg)
{
    uint64_t last = tool_now_ns() + 30 * (uint64_t)WAIT_NS;
    struct uiw_event ev;
    struct uiw_wc wc;

    l->up = false;
    while (tool_now_ns() < last) {
        int n = tool_wait(&l->t, &wc, 20);
        bool event = n == 0 && tool_event(&l->t, &ev);

        /* What came before the event counts before it. */
        for (; n > 0 || (event && (n = tool_completion(&l->t, &wc)) > 0); n = 0) {
            if (on_completion(l, &wc, msg) && !up)
                return;
        }
        if (event)
            on_event(l, &ev);
        if (up && l->up)
            return;
    }
    end("liar", "no answer");
}

static struct uiw_qp *make_qp(struct liar *l)
{
    struct uiw_qp_attr attr = {.send_cq = l->t.cq,
                               .recv_cq = l->t.cq,
                               .max_send_wr = 4,
                               .max_recv_wr = 4,
                               .max_send_sge = 1,
                               .max_recv_sge = 1};
    struct uiw_qp *qp;

    must(uiw_qp_create(l->t.pd, &attr, &qp));
    return qp;
}

static void hear(struct liar *l)
{
    struct uiw_sge sge = {(uint64_t)(uintptr_t)(l->octets + 1024), 1024, uiw_mr_lkey(l->mr)};

    must(uiw_qp_post_recv(l->qp, &(struct uiw_recv_wr){.sg_list = &sge, .num_sge = 1}, NULL));
}

static struct uiw_conn *connect_with(struct liar *l, struct uiw_qp *qp, const void *data,
                                     uint32_t length)
{
    struct uiw_conn_param param = {.private_data = data, .private_len = length};
    struct wire_msg msg;
    struct uiw_conn *conn;

    must(uiw_connect(l->t.events, qp, (struct sockaddr *)&l->server, &param, &conn));
    await(l, true, &msg);
    return conn;
}

static void say(struct liar *l, uint32_t length)
{
    struct uiw_sge sge = {(uint64_t)(uintptr_t)l->octets, length, uiw_mr_lkey(l->mr)};

    must(uiw_qp_post_send(
        l->qp, &(struct uiw_send_wr){.opcode = UIW_WR_SEND, .sg_list = &sge, .num_sge = 1}, NULL));
}

static void greet(struct liar *l, enum wire_type type, uint64_t session, uint8_t *octets)
{
    struct wire_greeting g = {.type = type,
                              .session = session,
                              .addr = (uint64_t)(uintptr_t)l->octets,
                              .rkey = 4711,
                              .length = 1 << 20};

    wire_put_greeting(&g, octets);
}

static struct perf_job honest(void)
{
    return (struct perf_job){.op = PERF_WRITE,
                             .threads = 1,
                             .qps = 1,
                             .tx_depth = 8,
                             .rx_depth = 8,
                             .post_list = 2,
                             .cq_mod = 2,
                             .max_size = 4096};
}

static void ask(struct liar *l, const struct wire_msg *msg, struct wire_msg *answer)
{
    hear(l);
    wire_put(msg, l->octets);
    say(l, WIRE_MSG);
    await(l, false, answer);
}

/* A job that is honest but for one word. */
static void ask_job(struct liar *l, unsigned word, uint64_t value)
{
    struct perf_job job = honest();
    struct wire_msg msg, answer;

    wire_from_job(&job, &msg);
    msg.word[word] = value;
    ask(l, &msg, &answer);
    end("granted", "");
}

static void granted(struct liar *l, struct perf_job job, struct wire_msg *answer)
{
    struct wire_msg msg;

    wire_from_job(&job, &msg);
    ask(l, &msg, answer);
}

/* As far as a run can begin. */
static void make_data(struct liar *l, uint64_t session)
{
    uint8_t greeting[WIRE_GREETING];

    greet(l, WIRE_DATA, session, greeting);
    l->data_qp = make_qp(l);
    l->data = connect_with(l, l->data_qp, greeting, sizeof greeting);
}

static void ask_run(struct liar *l, const struct perf_run *run, struct wire_msg *answer)
{
    struct wire_msg msg;

    wire_from_run(run, &msg);
    ask(l, &msg, answer);
}

static void lie_in_session(struct liar *l, const char *how)
{
    struct perf_run run = {.size = 64, .count = 10, .warmup = 1};
    struct perf_job job = honest();
    struct wire_msg answer;

    job.bidir = strcmp(how, "rkey") == 0;
    granted(l, job, &answer);
    if (strcmp(how, "no-data") == 0)
        await(l, false, &answer);
    make_data(l, strcmp(how, "session") == 0 ? ~answer.word[0] : answer.word[0]);
    if (strcmp(how, "again") == 0)
        make_data(l, answer.word[0]);
    if (strcmp(how, "rkey") == 0) /* until something comes, the server's end is silent */
        must(uiw_qp_post_send(
            l->data_qp, &(struct uiw_send_wr){.opcode = UIW_WR_SEND, .flags = UIW_SEND_SOLICITED},
            NULL));
    if (strcmp(how, "size") == 0)
        run.size = 4097;
    if (strcmp(how, "endless") == 0)
        run.count = UINT64_MAX;
    if (strcmp(how, "no-end") == 0)
        run.count = 0;
    ask_run(l, &run, &answer);
    hear(l);
    if (strcmp(how, "die") == 0)
        _exit(0);
    /* rkey: the server writes to where it may not. stall: nothing more happens. */
    await(l, false, &answer);
}

static void lie(struct liar *l, const char *how)
{
    uint8_t greeting[WIRE_GREETING];
    struct wire_msg msg = {.type = WIRE_RUN};

    greet(l, strcmp(how, "stray") == 0 ? WIRE_DATA : WIRE_CONTROL, 1, greeting);
    if (strcmp(how, "greeting") == 0)
        greeting[0] ^= 1;
    l->conn = connect_with(l, l->qp, greeting, strcmp(how, "short") == 0 ? 7 : sizeof greeting);
    hear(l);
    if (strcmp(how, "silent") == 0)
        await(l, false, &msg);
    memset(l->octets, 0x5a, 1024);
    if (strcmp(how, "junk") == 0) {
        say(l, WIRE_MSG);
        await(l, false, &msg);
    }
    if (strcmp(how, "long") == 0) {
        say(l, WIRE_MSG + 1);
        await(l, false, &msg);
    }
    if (strcmp(how, "turn") == 0)
        ask(l, &msg, &msg);
    if (strcmp(how, "op") == 0)
        ask_job(l, JOB_OP, 5);
    if (strcmp(how, "flags") == 0)
        ask_job(l, JOB_FLAGS, JOB_HUGE << 1);
    if (strcmp(how, "threads") == 0)
        ask_job(l, JOB_THREADS, 65);
    if (strcmp(how, "qps") == 0)
        ask_job(l, JOB_QPS, 60000);
    if (strcmp(how, "depth") == 0)
        ask_job(l, JOB_TX_DEPTH, UINT64_C(1) << 40);
    if (strcmp(how, "memory") == 0)
        ask_job(l, JOB_MAX_SIZE, UINT64_C(1) << 30);
    if (strcmp(how, "max-size") == 0)
        ask_job(l, JOB_MAX_SIZE, UINT64_C(1) << 63);
    lie_in_session(l, how);
}

int main(int argc, char **argv)
{
    static struct liar l;

    tool_init("liar");
    if (argc != 4 || !address_parse(argv[1], (uint16_t)atoi(argv[2]), &l.server))
        return tool_misused("liar SERVER PORT CASE");
    if (tool_open(&l.t, NULL, 64) != TOOL_OK)
        return TOOL_FAILED;
    must(uiw_mr_reg(l.t.pd, l.octets, sizeof l.octets, UIW_ACCESS_LOCAL_WRITE, &l.mr));
    l.qp = make_qp(&l);
    lie(&l, argv[3]);
    return TOOL_OK;
}
