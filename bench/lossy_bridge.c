/* SPDX-License-Identifier: MIT */
/* A path with delay and loss between two network namespaces: one TAP in each, and every Ethernet frame
 * that leaves one of them arrives at the other later, or not at all.
 *   lossy_bridge NAMESPACE TAP NAMESPACE TAP [delay=US] [loss=PPM] [seed=N] [queue=FRAMES]
 * delay, of each way, is 5000 us by default. queue is what may be on its way in each direction (default
 * 16384); a frame beyond that is lost as well, and counted apart. The TAPs are opened without offloads,
 * so the kernel has cut everything to the MTU before it comes here: loss is per frame on the wire. It
 * depends on the seed and the number of the frame alone. SIGTERM ends it with a line of counts. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { FRAME = 2048, BATCH = 64 };

struct slot {
    uint64_t due; /* ns */
    uint32_t len;
    uint8_t frame[FRAME];
};

struct way {
    int from, to;
    struct slot *slot;
    uint64_t head, tail; /* counted up; the next to leave, the next to be filled */
    uint64_t random;
    uint64_t frames, lost, full, refused;
};

static uint64_t delay_ns = 5000 * 1000, queue = 16384, seed = 1;
static uint64_t loss_ppm;
static volatile sig_atomic_t over;

static void on_signal(int number)
{
    (void)number;
    over = 1;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what, const char *which)
{
    fprintf(stderr, "lossy_bridge: %s %s: %s\n", what, which, strerror(errno));
    exit(1);
}

static int open_tap(const char *ns, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", ns);
    int n = open(path, O_RDONLY | O_CLOEXEC);
    if (n < 0 || setns(n, CLONE_NEWNET) != 0) {
        die("namespace", ns);
    }
    close(n);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    struct ifreq r = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &r) != 0 || ioctl(fd, TUNSETOFFLOAD, 0) != 0) {
        die("tap", name);
    }
    return fd;
}

/* splitmix64 */
static uint32_t draw(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

static void take_in(struct way *w)
{
    uint64_t due = now_ns() + delay_ns;
    static uint8_t spill[FRAME];
    for (int i = 0; i < BATCH; i++) {
        bool full = w->tail - w->head == queue;
        struct slot *s = &w->slot[w->tail % queue];
        ssize_t n = read(w->from, full ? spill : s->frame, FRAME);
        if (n <= 0) {
            return;
        }
        w->frames++;
        if (draw(&w->random) % 1000000 < loss_ppm) {
            w->lost++;
        } else if (full) {
            w->full++;
        } else {
            s->len = (uint32_t)n;
            s->due = due;
            w->tail++;
        }
    }
}

/* Returns ns until the next frame is due. */
static uint64_t let_out(struct way *w)
{
    uint64_t now = now_ns();
    while (w->head != w->tail) {
        const struct slot *s = &w->slot[w->head % queue];
        if (s->due > now) {
            return s->due - now;
        }
        w->refused += write(w->to, s->frame, s->len) != (ssize_t)s->len;
        w->head++;
    }
    return UINT64_MAX;
}

static void options(int argc, char **argv)
{
    for (int i = 5; i < argc; i++) {
        char *v = strchr(argv[i], '=');
        uint64_t n = v != NULL ? strtoull(v + 1, NULL, 10) : 0;
        switch (v != NULL ? argv[i][0] : 0) {
        case 'd': delay_ns = n * 1000; break;
        case 'l': loss_ppm = n; break;
        case 's': seed = n; break;
        case 'q': queue = n; break;
        default: fprintf(stderr, "lossy_bridge: what is %s?\n", argv[i]); exit(2);
        }
    }
}

static void run(struct way w[2])
{
    while (!over) {
        take_in(&w[0]);
        take_in(&w[1]);
        uint64_t a = let_out(&w[0]), b = let_out(&w[1]);
        uint64_t ns = a < b ? a : b;
        struct pollfd p[2] = {{w[0].from, POLLIN, 0}, {w[1].from, POLLIN, 0}};
        struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
        if (ppoll(p, 2, ns != UINT64_MAX ? &t : NULL, NULL) < 0 && errno != EINTR) {
            die("ppoll", "");
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: lossy_bridge NAMESPACE TAP NAMESPACE TAP [delay=US] [loss=PPM] "
                        "[seed=N] [queue=FRAMES]\n");
        return 2;
    }
    options(argc, argv);
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    int a = open_tap(argv[1], argv[2]), b = open_tap(argv[3], argv[4]);
    struct way w[2] = {{.from = a, .to = b, .random = seed}, {.from = b, .to = a, .random = ~seed}};
    for (int i = 0; i < 2; i++) {
        w[i].slot = calloc(queue, sizeof *w[i].slot);
        if (w[i].slot == NULL) {
            die("queue", "");
        }
    }
    printf("ready\n");
    fflush(stdout);
    run(w);
    for (int i = 0; i < 2; i++) {
        printf("%s: %llu frames, %llu lost, %llu beyond the queue, %llu refused\n",
               i == 0 ? "there" : "back", (unsigned long long)w[i].frames,
               (unsigned long long)w[i].lost, (unsigned long long)w[i].full,
               (unsigned long long)w[i].refused);
        free(w[i].slot);
    }
    return 0;
}
