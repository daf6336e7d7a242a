/* SPDX-License-Identifier: MIT */
/* What the kernel's TCP does on loopback on this machine, now: the measure that the others are held
 * against. Both ends are processes of ours; congestion control is cubic.
 *   kernel_tcp stream SIZE SECONDS           plain octets, SIZE per call
 *   kernel_tcp records SIZE SECONDS [nocrc]  records of SIZE with header and CRC32c: summed by the
 *                                            sender, summed and copied into place by the receiver
 *   kernel_tcp latency SIZE SECONDS block|spin
 * Prints one JSON object: gbit, cpu_ms_per_gb (both ends), or min, p50, p99 in us. */
#include <arpa/inet.h>
#include <errno.h>
#include <isa-l/crc.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "bench.h"

enum {
    STAGE = 512 << 10, /* of the receiver of records */
    BUFFER = 4 << 20,  /* what is sent, and where it is placed */
    PIECE = 8192,      /* summed and copied while it is hot */
    HEAD = 20,         /* as an FPDU of a tagged message has it */
    MOST_TRIPS = 1 << 21,
};

struct run {
    bool crc, spin, records;
    uint32_t size;
    double seconds;
    int fd;
    uint8_t *memory, *stage;
};

/* What the child tells. */
struct told {
    double cpu;
    uint64_t octets;
    double from, until; /* of its first and last octets */
};

/* --- sockets --- */

static void set_up(int fd)
{
    int one = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) {
        die("kernel_tcp: setsockopt");
    }
}

/* Two connected sockets over lo. */
static void connect_pair(int fd[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof a;
    int l = socket(AF_INET, SOCK_STREAM, 0);
    fd[0] = socket(AF_INET, SOCK_STREAM, 0);
    set_up(l);
    set_up(fd[0]);
    if (bind(l, (struct sockaddr *)&a, len) != 0 || listen(l, 1) != 0 ||
        getsockname(l, (struct sockaddr *)&a, &len) != 0 ||
        connect(fd[0], (struct sockaddr *)&a, len) != 0 || (fd[1] = accept(l, NULL, NULL)) < 0) {
        die("kernel_tcp: loopback");
    }
    close(l);
}

static ssize_t get(const struct run *r, void *p, size_t n)
{
    for (;;) {
        ssize_t got = recv(r->fd, p, n, r->spin ? MSG_DONTWAIT : 0);
        if (got >= 0 || errno != EAGAIN) {
            return got;
        }
    }
}

static bool get_all(const struct run *r, uint8_t *p, size_t n)
{
    while (n > 0) {
        ssize_t got = get(r, p, n);
        if (got <= 0) {
            return false;
        }
        p += got;
        n -= (size_t)got;
    }
    return true;
}

static bool put_all(const struct run *r, struct iovec *v, int n)
{
    while (n > 0) {
        ssize_t sent = writev(r->fd, v, n);
        if (sent < 0) {
            return false;
        }
        while (n > 0 && (size_t)sent >= v->iov_len) {
            sent -= (ssize_t)v->iov_len;
            v++;
            n--;
        }
        if (n > 0) {
            v->iov_base = (uint8_t *)v->iov_base + sent;
            v->iov_len -= (size_t)sent;
        }
    }
    return true;
}

/* --- senders --- */

static uint64_t send_for_a_while(struct run *r)
{
    uint8_t head[HEAD] = {0}, sum[4] = {0};
    uint64_t octets = 0;
    uint32_t at = 0;
    double end = now() + r->seconds;
    memcpy(head, &r->size, 4);
    while (now() < end) {
        uint8_t *p = r->memory + at;
        struct iovec v[3] = {{head, HEAD}, {p, r->size}, {sum, 4}};
        if (r->records && r->crc) {
            uint32_t c = crc32_iscsi(p, (int)r->size, crc32_iscsi(head, HEAD, ~0u));
            memcpy(sum, &c, 4);
        }
        if (!put_all(r, r->records ? v : v + 1, r->records ? 3 : 1)) {
            break;
        }
        octets += r->size;
        at = at + 2 * r->size > BUFFER ? 0 : at + r->size;
    }
    return octets;
}

/* --- receivers --- */

static void place(struct run *r, uint8_t *rec, uint32_t size, uint32_t at)
{
    uint32_t c = r->crc ? crc32_iscsi(rec, HEAD, ~0u) : 0;
    uint8_t *p = rec + HEAD;
    for (uint32_t i = 0; i < size; i += PIECE) {
        uint32_t n = min_u32(PIECE, size - i);
        c = r->crc ? crc32_iscsi(p + i, (int)n, c) : 0;
        memcpy(r->memory + at + i, p + i, n);
    }
    if (memcmp(&c, p + size, 4) != 0) {
        fprintf(stderr, "kernel_tcp: CRC differs\n");
        exit(1);
    }
}

/* Records that are whole in the stage; returns the octets used. */
static uint32_t take_records(struct run *r, uint32_t have, uint32_t *at, uint64_t *octets)
{
    uint32_t used = 0, size;
    while (have - used >= HEAD) {
        memcpy(&size, r->stage + used, 4);
        if (have - used < HEAD + size + 4) {
            break;
        }
        *at = *at + size > BUFFER ? 0 : *at;
        place(r, r->stage + used, size, *at);
        *at += size;
        *octets += size;
        used += HEAD + size + 4;
    }
    return used;
}

static void receive(struct run *r, struct told *t)
{
    uint32_t have = 0, at = 0;
    for (;;) {
        ssize_t n = get(r, r->stage + have, r->records ? STAGE - have : r->size);
        if (n <= 0) {
            break;
        }
        t->until = now();
        t->from = t->from == 0 ? t->until : t->from;
        if (!r->records) {
            t->octets += (uint64_t)n;
            continue;
        }
        have += (uint32_t)n;
        uint32_t used = take_records(r, have, &at, &t->octets);
        have -= used;
        memmove(r->stage, r->stage + used, have);
    }
    t->cpu = cpu();
}

static void bandwidth(struct run *r)
{
    int fd[2], pipe_fd[2];
    struct told told = {0};
    connect_pair(fd);
    if (pipe(pipe_fd) != 0) {
        die("kernel_tcp: pipe");
    }
    pid_t child = fork();
    if (child == 0) {
        close(fd[0]);
        r->fd = fd[1];
        receive(r, &told);
        ssize_t w = write(pipe_fd[1], &told, sizeof told);
        _exit(w == sizeof told ? 0 : 1);
    }
    close(fd[1]);
    r->fd = fd[0];
    double before = cpu();
    uint64_t sent = send_for_a_while(r);
    shutdown(r->fd, SHUT_WR);
    if (read(pipe_fd[0], &told, sizeof told) != sizeof told || told.octets != sent) {
        die("kernel_tcp: the receiver");
    }
    waitpid(child, NULL, 0);
    double gb = (double)told.octets * 1e-9;
    printf("{\"gbit\": %.3f, \"cpu_ms_per_gb\": %.1f}\n", 8 * gb / (told.until - told.from),
           1000 * (cpu() - before + told.cpu) / gb);
}

/* --- latency --- */

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void echo(struct run *r)
{
    while (get_all(r, r->memory, r->size)) {
        struct iovec v = {r->memory, r->size};
        put_all(r, &v, 1);
    }
}

static void pin(size_t core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set); /* with one core only, as it is */
}

static void latency(struct run *r)
{
    int fd[2];
    float *trip = malloc(MOST_TRIPS * sizeof *trip);
    uint32_t n = 0;
    connect_pair(fd);
    pid_t child = fork();
    if (child == 0) {
        close(fd[0]);
        r->fd = fd[1];
        if (r->spin) {
            pin(1);
        }
        echo(r);
        _exit(0);
    }
    close(fd[1]);
    r->fd = fd[0];
    if (r->spin) {
        pin(0);
    }
    double end = now() + r->seconds, began;
    while (trip != NULL && n < MOST_TRIPS && (began = now()) < end) {
        struct iovec v = {r->memory, r->size};
        if (!put_all(r, &v, 1) || !get_all(r, r->stage, r->size)) {
            die("kernel_tcp: echo");
        }
        trip[n++] = (float)((now() - began) * 1e6);
    }
    close(r->fd);
    waitpid(child, NULL, 0);
    if (n == 0) {
        die("kernel_tcp: no round trip");
    }
    qsort(trip, n, sizeof *trip, by_size);
    printf("{\"trips\": %u, \"min\": %.2f, \"p50\": %.2f, \"p99\": %.2f}\n", n, (double)trip[0],
           (double)trip[n / 2], (double)trip[n - 1 - n / 100]);
    free(trip);
}

static int usage(void)
{
    fprintf(stderr, "usage: kernel_tcp stream|records|latency SIZE SECONDS [nocrc|block|spin]\n");
    return 2;
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 5) {
        return usage();
    }
    const char *how = argc > 4 ? argv[4] : "";
    struct run r = {.crc = strcmp(how, "nocrc") != 0,
                    .spin = strcmp(how, "spin") == 0,
                    .records = strcmp(argv[1], "records") == 0,
                    .size = (uint32_t)strtoul(argv[2], NULL, 10),
                    .seconds = strtod(argv[3], NULL)};
    if (r.size == 0 || r.size > STAGE - HEAD - 4 + (r.records ? 0 : BUFFER / 2) ||
        !(r.seconds > 0)) {
        return usage();
    }
    r.memory = calloc(1, BUFFER);
    r.stage = calloc(1, STAGE + BUFFER);
    if (r.memory == NULL || r.stage == NULL) {
        die("kernel_tcp");
    }
    memset(r.memory, 7, BUFFER);
    memset(r.stage, 7, STAGE);
    if (strcmp(argv[1], "latency") == 0) {
        latency(&r);
    } else if (r.records || strcmp(argv[1], "stream") == 0) {
        bandwidth(&r);
    } else {
        return usage();
    }
    return 0;
}
