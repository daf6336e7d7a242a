/* SPDX-License-Identifier: MIT */
/* Throughput and round trips of a stream of src/tcpip, without any layer above.
 *   net_stream                                  both ends, over shared memory and over sockets
 *   net_stream KIND NAME IP ROLE [PEER] [opts]  one end; KIND tap, shm or sock (NAME - there); ROLE
 *                                               source, sink, ping or echo; with PEER it connects, else
 *                                               it listens
 * opts: t=SECONDS n=OCTETS (of a piece or a ping) lend=1 spin=1 port=N cc=NAME (sock only) */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tcpip/net.h"

enum { MOST_PINGS = 1 << 20 };

enum role { SOURCE, SINK, PING, ECHO };

struct run {
    struct net_cfg cfg;
    enum role role;
    const char *peer;
    double seconds;
    uint32_t piece;
    bool lend, spin;
    unsigned wait_ms; /* for the other end to listen */
    uint16_t port;

    struct net *net;
    struct net_stream *s;
    bool over;
    uint8_t *memory;
    uint64_t octets; /* moved so far */
    double began, ping_at;
    uint32_t owed; /* of the echo, or of the ping that is out */
    float *rtt;
    uint32_t pings;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- roles --- */

static bool put(struct run *r, uint32_t n)
{
    if (r->lend) {
        return net_tx_lend(r->s, r->memory, n);
    }
    uint8_t *p = net_tx_reserve(r->s, n);
    if (p == NULL) {
        return false;
    }
    memcpy(p, r->memory, n);
    net_tx_commit(r->s, n);
    return true;
}

static void source(struct run *r)
{
    while (put(r, r->piece)) {
    }
    r->octets = net_tx_acked(r->s);
}

static void ping(struct run *r)
{
    r->ping_at = now();
    r->owed = r->piece;
    if (!put(r, r->piece)) {
        r->over = true;
    }
}

static uint32_t take(struct run *r)
{
    uint32_t n = net_rx_queued(r->s);
    struct span v;
    if (n > 0 && net_rx_peek(r->s, &v, 1) == 1) {
        net_rx_consume(r->s, n);
    }
    return n;
}

static void on_data(struct run *r)
{
    uint32_t n = take(r);
    r->octets += r->role == SOURCE ? 0 : n;
    if (r->role == ECHO) {
        for (r->owed += n; r->owed >= r->piece; r->owed -= r->piece) {
            put(r, r->piece);
        }
    } else if (r->role == PING && r->owed > 0) {
        r->owed -= n;
        if (r->owed == 0) {
            if (r->pings < MOST_PINGS) {
                r->rtt[r->pings++] = (float)(now() - r->ping_at);
            }
            ping(r);
        }
    }
}

static void started(struct run *r)
{
    r->began = now();
    if (r->role == SOURCE) {
        source(r);
    } else if (r->role == PING) {
        ping(r);
    }
}

static void on_event(struct run *r, const struct net_ready *e)
{
    if (e->listener != NULL) {
        r->s = net_accept(e->listener);
        if (r->s != NULL) {
            started(r);
        }
        return;
    }
    if (e->events & NET_EV_UP) {
        started(r);
    }
    if (e->events & NET_EV_DATA) {
        on_data(r);
    }
    if (r->role == SOURCE && (e->events & (NET_EV_ROOM | NET_EV_ACKED))) {
        source(r);
    }
    if (e->events & (NET_EV_FIN | NET_EV_CLOSED)) {
        r->over = true;
    }
}

/* --- the loop --- */

static void turn(struct run *r)
{
    uint32_t did = net_turn(r->net);
    struct net_ready e;
    while ((e = net_next(r->net)).events != 0) {
        on_event(r, &e);
        did++;
    }
    net_flush(r->net);
    if (did > 0 || r->spin) {
        return;
    }
    if (net_sleep(r->net)) {
        struct pollfd p = {net_fd(r->net), POLLIN, 0};
        int ms = net_timeout_ms(r->net);
        (void)poll(&p, 1, ms < 0 ? 100 : ms);
    }
    net_woken(r->net);
}

static int open_net(struct run *r)
{
    char err[NET_ERR_TEXT];
    if (net_open(&r->cfg, &r->net, err) != 0) {
        fprintf(stderr, "net_stream: %s\n", err);
        return 1;
    }
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(r->port)};
    struct net_listener *l;
    int e;
    if (r->peer != NULL) {
        inet_pton(AF_INET, r->peer, &at.sin_addr);
        e = net_connect(r->net, NULL, (struct sockaddr *)&at, r, &r->s);
    } else {
        e = net_listen(r->net, (struct sockaddr *)&at, 4, r, &l);
    }
    if (e != 0) {
        fprintf(stderr, "net_stream: %s\n", strerror(-e));
    }
    return e != 0;
}

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double cpu_ms(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-3;
}

static void report(struct run *r, double cpu)
{
    double s = now() - r->began, gb = (double)r->octets * 1e-9;
    if (r->role == PING && r->pings > 0) {
        qsort(r->rtt, r->pings, sizeof *r->rtt, compare);
        printf("ping %u octets: p50 %.2f us, p99 %.2f us, %u round trips\n", r->piece,
               (double)r->rtt[r->pings / 2] * 1e6, (double)r->rtt[r->pings / 100 * 99] * 1e6,
               r->pings);
    } else if (r->role != ECHO) {
        printf("%s: %.2f Gbit/s, %.0f ms CPU per GB\n", r->role == SOURCE ? "source" : "sink",
               gb * 8 / s, cpu / gb);
    }
}

static int run(struct run *r)
{
    r->memory = calloc(1, 65536);
    r->rtt = malloc(MOST_PINGS * sizeof *r->rtt);
    usleep(r->wait_ms * 1000);
    if (r->memory == NULL || r->rtt == NULL || open_net(r) != 0) {
        return 1;
    }
    double limit = now() + r->seconds + 10, cpu = -1;
    for (uint32_t turns = 0; !r->over; turns++) {
        turn(r);
        /* The clock is not free, and a spinning loop turns often. */
        if (r->spin && turns % 256 != 0) {
            continue;
        }
        if (cpu < 0 && r->began > 0) {
            cpu = cpu_ms();
        }
        double t = now();
        r->over |= t > limit || (r->began > 0 && r->peer != NULL && t > r->began + r->seconds);
    }
    report(r, cpu_ms() - cpu);
    net_close(r->net);
    free(r->memory);
    free(r->rtt);
    return r->began > 0 ? 0 : 1;
}

/* --- both ends --- */

static int both(enum net_kind kind, enum role here, enum role there, const char *name)
{
    static const char *const ip[2][2] = {{"198.18.3.1", "198.18.3.2"}, {"127.0.0.1", "127.0.0.1"}};
    const char *const *at = ip[kind == NET_SOCK];
    struct run r = {
        .cfg = {.kind = kind}, .seconds = 2, .piece = here == PING ? 64 : 60000, .port = 5201};
    if (kind == NET_SOCK) {
        r.lend = true;
    } else {
        snprintf(r.cfg.name, sizeof r.cfg.name, "bench-%s-%d", name, (int)getpid());
    }
    pid_t pid = fork();
    r.role = pid == 0 ? there : here;
    inet_pton(AF_INET, at[pid == 0], &r.cfg.ip);
    r.peer = pid == 0 ? NULL : at[1];
    r.wait_ms = pid != 0 && kind == NET_SOCK ? 200 : 0;
    int code = run(&r);
    if (pid == 0) {
        exit(code);
    }
    waitpid(pid, NULL, 0);
    return code;
}

static int one(int argc, char **argv)
{
    static const char *const roles[] = {"source", "sink", "ping", "echo"};
    struct run r = {.cfg = {.kind = strcmp(argv[1], "tap") == 0    ? NET_TAP
                                    : strcmp(argv[1], "sock") == 0 ? NET_SOCK
                                                                   : NET_SHM},
                    .seconds = 2,
                    .port = 5201};
    snprintf(r.cfg.name, sizeof r.cfg.name, "%s", strcmp(argv[2], "-") == 0 ? "" : argv[2]);
    inet_pton(AF_INET, argv[3], &r.cfg.ip);
    while (r.role < ECHO && strcmp(roles[r.role], argv[4]) != 0) {
        r.role++;
    }
    r.piece = r.role == PING || r.role == ECHO ? 64 : 60000;
    for (int i = 5; i < argc; i++) {
        const char *v = strchr(argv[i], '=');
        if (v == NULL) {
            r.peer = argv[i];
            continue;
        }
        switch (argv[i][0]) {
        case 't': r.seconds = atof(v + 1); break;
        case 'n': r.piece = (uint32_t)atoi(v + 1); break;
        case 'l': r.lend = atoi(v + 1) != 0; break;
        case 's': r.spin = atoi(v + 1) != 0; break;
        case 'c': snprintf(r.cfg.cc, sizeof r.cfg.cc, "%s", v + 1); break;
        case 'p': r.port = (uint16_t)atoi(v + 1); break;
        default: return 2;
        }
    }
    return run(&r);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc >= 5) {
        return one(argc, argv);
    }
    return both(NET_SHM, SOURCE, SINK, "bulk") | both(NET_SHM, PING, ECHO, "ping") |
           both(NET_SOCK, SOURCE, SINK, "") | both(NET_SOCK, PING, ECHO, "");
}
