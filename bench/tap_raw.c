/* SPDX-License-Identifier: MIT */
/* What two TAPs on a bridge take of this machine, without any stack: a process writes frames of 64 KB that
 * are to be cut at MTU 1500, another one reads them, and neither looks at them. No stack over TAP is faster.
 *   tap_raw TAP TAP SECONDS [CHUNKS]
 * CHUNKS: what is sent is copied first, FPDU by FPDU, into so many chunks of 64 KB in turn, as a stack has to
 * that puts headers between and keeps all until it is acknowledged.
 * Prints one JSON object: gbit and cpu_ms_per_gb (both ends), of payload. */
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "tcpip/vnet.h"

enum {
    HEAD = VNET_ETH + VNET_IP4 + VNET_TCP,
    SEGMENT = 1460,
    PAYLOAD = 44 * SEGMENT,
    ON_WAY = 8,       /* frames: as much as uiw has on its way between two TAPs of one host */
    BUFFER = 1 << 20, /* what is sent, as RDMA Writes of 1 MB have it */
    CHUNK = 64 << 10,
};

static struct shared {
    atomic_ullong received;
    atomic_bool there; /* the bridge lets frames through, and has seen the reader's */
    atomic_bool over;
    double cpu; /* of the reader */
} * shared;

static const uint8_t mac[2][6] = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}};

static int open_tap(const char *name)
{
    struct ifreq rq = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    int len = sizeof(struct virtio_net_hdr);
    snprintf(rq.ifr_name, sizeof rq.ifr_name, "%s", name);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &rq) != 0 || ioctl(fd, TUNSETVNETHDRSZ, &len) != 0 ||
        ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0) {
        die(name);
    }
    return fd;
}

/* One frame from that end, so that the bridge knows where it is. */
static void introduce(int fd, int end)
{
    uint8_t f[sizeof(struct virtio_net_hdr) + 60] = {0}, *eth = f + sizeof(struct virtio_net_hdr);
    memset(eth, 0xff, 6);
    memcpy(eth + 6, mac[end], 6);
    put_be16(eth + 12, 0x88b5); /* for experiments (IEEE 802 sec 9.2.3) */
    if (write(fd, f, sizeof f) != (ssize_t)sizeof f) {
        die("tap_raw: write");
    }
}

static void headers(uint8_t f[HEAD], struct virtio_net_hdr *vh)
{
    struct vnet_tcp t = {.l4 = VNET_ETH + VNET_IP4, .pay = HEAD, .end = HEAD + PAYLOAD};
    static const uint8_t ip[VNET_IP4] = {0x45, [8] = 64, 6, [12] = 198, 18, 0, 1, 198, 18, 0, 2};
    memcpy(f, mac[1], 6);
    memcpy(f + 6, mac[0], 6);
    put_be16(f + 12, VNET_TYPE_IP4);
    memcpy(f + VNET_ETH, ip, sizeof ip);
    f[t.l4 + 12] = VNET_TCP / 4 << 4;
    f[t.l4 + 13] = VNET_ACK;
    vnet_put_length(f, &t);
    vnet_put_ip_sum(f, &t);
    vnet_offload(f, &t, SEGMENT, vh);
}

static void reader(int fd)
{
    static uint8_t frame[sizeof(struct virtio_net_hdr) + 65536];
    while (!atomic_load(&shared->over)) {
        ssize_t n = read(fd, frame, sizeof frame);
        if (n > PAYLOAD) {
            atomic_fetch_add(&shared->received, 1);
        } else if (!atomic_load(&shared->there)) {
            introduce(fd, 1);
            atomic_store(&shared->there, true);
        }
    }
    shared->cpu = cpu();
}

static uint8_t *memory(size_t n)
{
    uint8_t *p = malloc(n);
    if (p == NULL) {
        die("tap_raw");
    }
    memset(p, 7, n);
    return p;
}

/* The payload at from, or its copy. */
static uint8_t *payload(uint8_t *from, uint8_t *chunk)
{
    if (chunk == NULL) {
        return from;
    }
    for (uint32_t i = 0; i < PAYLOAD; i += SEGMENT) {
        memcpy(chunk + i, from + i, SEGMENT);
    }
    return chunk;
}

static void writer(int fd, double until, unsigned chunks)
{
    uint8_t head[HEAD] = {0};
    struct virtio_net_hdr vh = {0};
    uint8_t *data = memory(BUFFER), *chunk = memory((size_t)CHUNK * (chunks + 1));
    unsigned long long sent = 0;
    uint32_t at = 0;
    headers(head, &vh);
    while (now() < until) {
        uint8_t *to = chunks > 0 ? chunk + sent % chunks * CHUNK : NULL;
        struct iovec v[3] = {{&vh, sizeof vh}, {head, HEAD}, {payload(data + at, to), PAYLOAD}};
        if (writev(fd, v, 3) > 0) {
            sent++;
        }
        at = at + 2 * PAYLOAD > BUFFER ? 0 : at + PAYLOAD;
        while (sent - atomic_load(&shared->received) >= ON_WAY && now() < until) {
            sched_yield();
        }
    }
    free(data);
    free(chunk);
}

int main(int argc, char **argv)
{
    int seconds = argc >= 4 ? atoi(argv[3]) : 0, chunks = argc == 5 ? atoi(argv[4]) : 0;
    if (argc > 5 || seconds < 1 || seconds > 60 || chunks < 0 || chunks > 1024) {
        fputs("usage: tap_raw TAP TAP SECONDS [CHUNKS] (1..60, 0..1024)\n", stderr);
        return 2;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int from = open_tap(argv[1]), to = open_tap(argv[2]);
    if (shared == MAP_FAILED) {
        die("tap_raw: mmap");
    }
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it may wait for a frame for ever */
        if (getppid() == parent) {
            reader(to);
        }
        return 0;
    }
    /* A bridge takes a moment to find that a TAP has somebody behind it. */
    for (unsigned i = 0; i < 3000 && !atomic_load(&shared->there); i++) {
        introduce(from, 0);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    double begin = now(), mine = cpu();
    writer(from, begin + seconds, (unsigned)chunks);
    double took = now() - begin;
    mine = cpu() - mine;
    double gb = (double)atomic_load(&shared->received) * PAYLOAD * 1e-9;
    atomic_store(&shared->over, true);
    introduce(from, 0); /* wakes the reader */
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0 || gb <= 0) {
        fputs("tap_raw: nothing arrived; are both TAPs up and on one bridge?\n", stderr);
        return 1;
    }
    printf("{\"gbit\": %.3f, \"cpu_ms_per_gb\": %.1f}\n", 8 * gb / took,
           1000 * (mine + shared->cpu) / gb);
    return 0;
}
