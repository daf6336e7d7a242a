/* SPDX-License-Identifier: MIT */
/* Many connections of one process with itself, over shared memory:
 *   conns idle COUNT [DEVICE-KEYS]    opens COUNT and leaves them open: memory of each end, set-up rate
 *   conns setup COUNT [DEVICE-KEYS]   one after the other, each gone before the next: set-ups a second
 * Prints one JSON object. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/uiw.h"
#include "bench.h"

enum {
    PORT = 7191,
    PORTS = 64, /* to listen on, at most; for each the client has 16384 ports of its own */
    PER_PORT = 16000,
    CQE = 4096,
    BACKLOG = 128,
    DEPTH = 16,
    WARM = 200,
};

struct end {
    struct uiw_device *dev;
    struct uiw_event_channel *events;
    struct uiw_pd *pd;
    struct uiw_cq *cq;
};

struct side {
    struct uiw_qp *qp;
    struct uiw_conn *conn;
};

static struct end client, server;
static struct sockaddr_in address = {.sin_family = AF_INET};
static struct uiw_listener *listener[PORTS];
static unsigned listeners;

static void try(int r)
{
    if (r < 0) {
        fprintf(stderr, "conns: %s\n", uiw_error());
        exit(1);
    }
}

/* Octets that are resident. */
static double resident(void)
{
    unsigned long all, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%lu %lu", &all, &pages) != 2) {
        fprintf(stderr, "conns: /proc/self/statm cannot be read\n");
        exit(1);
    }
    fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void open_end(struct end *e, const char *keys, int host)
{
    char spec[256];
    snprintf(spec, sizeof spec, "shm:/conns-%d,ip=198.18.0.%d/24,progress=polled%s%s",
             (int)getpid(), host, keys[0] != '\0' ? "," : "", keys);
    try(uiw_device_open(spec, &e->dev));
    try(uiw_event_channel_create(e->dev, &e->events));
    try(uiw_pd_create(e->dev, &e->pd));
    try(uiw_cq_create(e->dev, CQE, NULL, NULL, &e->cq));
}

/* In order, or the wire's files stay behind. */
static void close_end(struct end *e)
{
    try(uiw_cq_destroy(e->cq));
    try(uiw_pd_destroy(e->pd));
    try(uiw_event_channel_destroy(e->events));
    try(uiw_device_close(e->dev));
}

static struct uiw_qp *new_qp(struct end *e)
{
    struct uiw_qp_attr attr = {.send_cq = e->cq,
                               .recv_cq = e->cq,
                               .max_send_wr = DEPTH,
                               .max_recv_wr = DEPTH,
                               .max_send_sge = 1,
                               .max_recv_sge = 1};
    struct uiw_qp *qp;
    try(uiw_qp_create(e->pd, &attr, &qp));
    return qp;
}

static struct uiw_conn *await(struct end *e, enum uiw_event_type type)
{
    struct uiw_event ev;
    try(uiw_event_get(e->events, &ev));
    if (ev.type != type) {
        fprintf(stderr, "conns: %s: %s\n", uiw_event_type_text(ev.type), ev.text);
        exit(1);
    }
    return ev.conn;
}

static void set_up(struct side *c, struct side *s)
{
    static unsigned turn;
    address.sin_port = htons((uint16_t)(PORT + turn++ % listeners));
    c->qp = new_qp(&client);
    try(uiw_connect(client.events, c->qp, (struct sockaddr *)&address, NULL, &c->conn));
    s->conn = await(&server, UIW_EVENT_CONNECT_REQUEST);
    s->qp = new_qp(&server);
    try(uiw_accept(s->conn, s->qp, NULL));
    await(&client, UIW_EVENT_ESTABLISHED);
    await(&server, UIW_EVENT_ESTABLISHED);
}

static void tear_down(struct side *c)
{
    try(uiw_conn_destroy(c->conn));
    try(uiw_qp_destroy(c->qp));
}

static void one_after_the_other(unsigned count)
{
    struct side c, s;
    for (unsigned i = 0; i < count; i++) {
        set_up(&c, &s);
        tear_down(&c);
        await(&server, UIW_EVENT_DISCONNECTED); /* by the reset */
        tear_down(&s);
    }
}

static void setup(unsigned count)
{
    one_after_the_other(WARM);
    double began = now();
    one_after_the_other(count);
    printf("{\"setups\": %u, \"per_second\": %.0f}\n", count, count / (now() - began));
}

static void idle(unsigned count)
{
    struct side *c = calloc(count, sizeof *c), *s = calloc(count, sizeof *s), warm[2];
    if (c == NULL || s == NULL) {
        fprintf(stderr, "conns: out of memory\n");
        exit(1);
    }
    set_up(&warm[0], &warm[1]);
    memset(c, 1, count * sizeof *c); /* resident before we look */
    memset(s, 1, count * sizeof *s);
    double before = resident(), began = now();
    for (unsigned i = 0; i < count; i++) {
        set_up(&c[i], &s[i]);
    }
    double took = now() - began, kib = (resident() - before) / 1024 / 2 / count;
    for (unsigned i = 0; i < count; i++) {
        tear_down(&c[i]);
        await(&server, UIW_EVENT_DISCONNECTED);
    }
    for (unsigned i = 0; i < count; i++) {
        tear_down(&s[i]);
    }
    tear_down(&warm[0]);
    await(&server, UIW_EVENT_DISCONNECTED);
    tear_down(&warm[1]);
    printf("{\"connections\": %u, \"kib_per_end\": %.2f, \"per_second\": %.0f}\n", count, kib,
           count / took);
    free(c);
    free(s);
}

int main(int argc, char **argv)
{
    unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    bool is_idle = argc > 1 && strcmp(argv[1], "idle") == 0;
    if (count == 0 || count > 1000000 || (!is_idle && strcmp(argv[1], "setup") != 0)) {
        fprintf(stderr, "usage: conns idle|setup COUNT [DEVICE-KEYS]\n");
        return 2;
    }
    open_end(&server, argc > 3 ? argv[3] : "", 1);
    open_end(&client, argc > 3 ? argv[3] : "", 2);
    listeners = is_idle ? (unsigned)count / PER_PORT + 1 : 1;
    for (unsigned i = 0; i < listeners; i++) {
        address.sin_port = htons((uint16_t)(PORT + i));
        try(uiw_listen(server.events, (struct sockaddr *)&address, BACKLOG, NULL, &listener[i]));
    }
    address.sin_addr.s_addr = inet_addr("198.18.0.1");
    if (is_idle) {
        idle((unsigned)count);
    } else {
        setup((unsigned)count);
    }
    for (unsigned i = 0; i < listeners; i++) {
        try(uiw_listener_destroy(listener[i]));
    }
    close_end(&client);
    close_end(&server);
    return 0;
}
