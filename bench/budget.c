/* SPDX-License-Identifier: MIT */
/* A fixed amount of work for budget.py, which counts its instructions: both ends in one process, over
 * shared memory, so that no system call, wait or second thread disturbs the count.
 *   budget OP OCTETS COUNT DEVICE-KEYS     OP: send, write, read,
 *                                            atomic, or pong (Writes to and fro)
 * Only measured() is to be counted. Prints how many messages it was for. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/uiw.h"

enum { DEPTH = 64, PORT = 7190, MOST = 4 << 20 };

struct end {
    struct uiw_device *dev;
    struct uiw_event_channel *events;
    struct uiw_pd *pd;
    struct uiw_mr *mr;
    struct uiw_cq *cq;
    struct uiw_qp *qp;
    struct uiw_conn *conn;
    uint8_t *memory;
};

static struct end client, server;
static uint32_t size;
static enum uiw_wr_opcode opcode;
static bool pong;

static void try(int r)
{
    if (r < 0) {
        fprintf(stderr, "budget: %s\n", uiw_error());
        exit(1);
    }
}

static void open_end(struct end *e, const char *keys, int host)
{
    unsigned all = UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_READ | UIW_ACCESS_REMOTE_WRITE |
                   UIW_ACCESS_REMOTE_ATOMIC;
    char spec[256];
    snprintf(spec, sizeof spec, "shm:/budget-%d,ip=198.18.0.%d/24,progress=polled%s%s",
             (int)getpid(), host, keys[0] != '\0' ? "," : "", keys);
    e->memory = aligned_alloc(4096, MOST);
    memset(e->memory, host, MOST);
    try(uiw_device_open(spec, &e->dev));
    try(uiw_event_channel_create(e->dev, &e->events));
    try(uiw_pd_create(e->dev, &e->pd));
    try(uiw_mr_reg(e->pd, e->memory, MOST, all, &e->mr));
    try(uiw_cq_create(e->dev, 4 * DEPTH, NULL, NULL, &e->cq));
    struct uiw_qp_attr attr = {.send_cq = e->cq,
                               .recv_cq = e->cq,
                               .max_send_wr = DEPTH,
                               .max_recv_wr = 2 * DEPTH,
                               .max_send_sge = 1,
                               .max_recv_sge = 1,
                               .max_inline = 64};
    try(uiw_qp_create(e->pd, &attr, &e->qp));
}

static struct uiw_event await(struct end *e, enum uiw_event_type type)
{
    struct uiw_event ev;
    try(uiw_event_get(e->events, &ev));
    if (ev.type != type) {
        fprintf(stderr, "budget: %s: %s\n", uiw_event_type_text(ev.type), ev.text);
        exit(1);
    }
    return ev;
}

static void post_recvs(uint32_t n)
{
    struct uiw_sge sge = {uiw_mr_addr(server.mr), size, uiw_mr_lkey(server.mr)};
    struct uiw_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
    for (uint32_t i = 0; i < n; i++) {
        try(uiw_qp_post_recv(server.qp, &wr, NULL));
    }
}

static void connect_ends(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    struct uiw_listener *listener;
    try(uiw_listen(server.events, (struct sockaddr *)&addr, 1, NULL, &listener));
    addr.sin_addr.s_addr = inet_addr("198.18.0.1");
    try(uiw_connect(client.events, client.qp, (struct sockaddr *)&addr, NULL, &client.conn));
    server.conn = await(&server, UIW_EVENT_CONNECT_REQUEST).conn;
    try(uiw_accept(server.conn, server.qp, NULL));
    await(&client, UIW_EVENT_ESTABLISHED);
    await(&server, UIW_EVENT_ESTABLISHED);
    try(uiw_listener_destroy(listener));
}

/* In order, or the wire's files stay behind. */
static void close_end(struct end *e)
{
    try(uiw_conn_destroy(e->conn));
    try(uiw_qp_destroy(e->qp));
    try(uiw_cq_destroy(e->cq));
    try(uiw_mr_dereg(e->mr));
    try(uiw_pd_destroy(e->pd));
    try(uiw_event_channel_destroy(e->events));
    try(uiw_device_close(e->dev));
    free(e->memory);
}

static void check(const struct uiw_wc *wc, int n)
{
    for (int i = 0; i < n; i++) {
        if (wc[i].status != UIW_WC_SUCCESS) {
            fprintf(stderr, "budget: %s\n", uiw_wc_status_text(wc[i].status));
            exit(1);
        }
    }
}

/* count messages through a full queue; each is over when its receiver has it. */
static void stream(uint64_t count)
{
    struct uiw_sge sge = {uiw_mr_addr(client.mr), size, uiw_mr_lkey(client.mr)};
    struct uiw_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .flags = UIW_SEND_SIGNALED,
                             .remote_addr = uiw_mr_addr(server.mr),
                             .rkey = uiw_mr_rkey(server.mr)};
    struct uiw_wc wc[DEPTH];
    bool recvs = opcode == UIW_WR_SEND;
    uint64_t posted = 0, sent = 0, arrived = recvs ? 0 : count;
    while (sent < count || arrived < count) {
        while (posted < count && posted - sent < DEPTH && (!recvs || posted - arrived < DEPTH)) {
            try(uiw_qp_post_send(client.qp, &wr, NULL));
            posted++;
        }
        int n = uiw_cq_poll(client.cq, DEPTH, wc);
        try(n);
        check(wc, n);
        sent += (uint64_t)n;
        if (recvs) {
            n = uiw_cq_poll(server.cq, DEPTH, wc);
            try(n);
            check(wc, n);
            post_recvs((uint32_t)n);
            arrived += (uint64_t)n;
        }
    }
}

/* Writes to and fro, each end spinning on the last octet. */
static void ping_pong(uint64_t count)
{
    struct end *e[2] = {&client, &server};
    struct uiw_wc wc[4];
    for (uint64_t i = 0; i < 2 * count; i++) {
        struct end *from = e[i % 2], *to = e[1 - i % 2];
        struct uiw_sge sge = {(uintptr_t)from->memory + MOST / 2, size, 0};
        struct uiw_send_wr wr = {.sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = UIW_WR_RDMA_WRITE,
                                 .flags = UIW_SEND_SIGNALED | UIW_SEND_INLINE,
                                 .remote_addr = uiw_mr_addr(to->mr),
                                 .rkey = uiw_mr_rkey(to->mr)};
        volatile uint8_t *last = to->memory + size - 1;
        uint8_t mark = (uint8_t)(*last + 1);
        from->memory[MOST / 2 + size - 1] = mark;
        try(uiw_qp_post_send(from->qp, &wr, NULL));
        while (*last != mark) {
            try(uiw_cq_poll(to->cq, 4, wc));
        }
        try(uiw_cq_poll(from->cq, 4, wc));
    }
}

static void work(uint64_t count)
{
    if (pong) {
        ping_pong(count);
    } else {
        stream(count);
    }
}

__attribute__((noinline)) static void measured(uint64_t count)
{
    work(count);
}

static bool parse(int argc, char **argv)
{
    static const struct {
        const char *name;
        enum uiw_wr_opcode opcode;
    } ops[] = {{"send", UIW_WR_SEND},
               {"write", UIW_WR_RDMA_WRITE},
               {"read", UIW_WR_RDMA_READ},
               {"atomic", UIW_WR_ATOMIC_FETCH_ADD},
               {"pong", UIW_WR_RDMA_WRITE}};
    size = argc == 5 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    for (unsigned i = 0; size > 0 && size <= MOST && i < sizeof ops / sizeof *ops; i++) {
        if (strcmp(argv[1], ops[i].name) == 0) {
            opcode = ops[i].opcode;
            pong = strcmp(argv[1], "pong") == 0;
            return true;
        }
    }
    fprintf(stderr, "usage: budget send|write|read|atomic|pong OCTETS COUNT DEVICE-KEYS\n");
    return false;
}

int main(int argc, char **argv)
{
    if (!parse(argc, argv)) {
        return 2;
    }
    uint64_t count = strtoull(argv[3], NULL, 10);
    open_end(&server, argv[4], 1);
    open_end(&client, argv[4], 2);
    connect_ends();
    post_recvs(opcode == UIW_WR_SEND ? 2 * DEPTH : 0);
    work(2 * DEPTH); /* windows open, buffers are there */
    measured(count);
    printf("%" PRIu64 "\n", count);
    close_end(&client);
    close_end(&server);
    return 0;
}
