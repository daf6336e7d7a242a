/* SPDX-License-Identifier: MIT */
/* What the memory of this machine takes: a process sums pieces of its buffers and copies them into slots that it
 * shares with another one, which sums them there and copies them into buffers of its own. Nothing else is done,
 * so no stack that has its wire in memory is faster.
 *   mem_raw MB SECONDS [huge]     MB: buffers of 1 MB at each end, used in turn; huge: in huge pages
 * Prints one JSON object: gbit. */
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tools/perf/pages.h"
#include "base/copy.h"
#include "base/crc32c.h"
#include "bench.h"

enum {
    PIECE = 61 << 10, /* what a frame holds */
    SLOTS = 4,
    BUFFER = 1 << 20,
    PIECES = BUFFER / PIECE, /* of a buffer */
    SPINS = 10000,
};

struct slot {
    alignas(64) uint8_t data[PIECE];
    uint32_t sum;
};

static struct shared {
    alignas(128) atomic_ullong sent;
    alignas(128) atomic_ullong received;
    atomic_bool ready, over;
    struct slot slot[SLOTS];
} * shared;

static bool huge;

static uint8_t *buffers(size_t mb)
{
    uint8_t *p = pages_make(mb * BUFFER, huge);
    if (p == NULL) {
        atomic_store(&shared->over, true); /* or the other end would wait for ever */
        die("mem_raw");
    }
    return p;
}

static uint8_t *piece(uint8_t *buf, size_t mb, unsigned long long i)
{
    return buf + i / PIECES % mb * BUFFER + i % PIECES * PIECE;
}

static uint32_t sum_of(const uint8_t *p)
{
    return crc32c_final(crc32c_add(CRC32C_INIT, p, PIECE));
}

/* Until the other end has come so far; false at the end. */
static bool wait_for(const atomic_ullong *count, unsigned long long at_least)
{
    for (unsigned n = 0; atomic_load_explicit(count, memory_order_acquire) < at_least; n++) {
        if (atomic_load_explicit(&shared->over, memory_order_relaxed)) {
            return false;
        }
        if (n % SPINS == SPINS - 1) {
            sched_yield();
        }
    }
    return true;
}

static int receive(size_t mb)
{
    uint8_t *to = buffers(mb);
    atomic_store(&shared->ready, true);
    for (unsigned long long i = 0; wait_for(&shared->sent, i + 1); i++) {
        const struct slot *s = &shared->slot[i % SLOTS];
        if (sum_of(s->data) != s->sum) {
            fputs("mem_raw: a wrong sum\n", stderr);
            atomic_store(&shared->over, true);
            return 1;
        }
        memcpy(piece(to, mb, i), s->data, PIECE);
        atomic_store_explicit(&shared->received, i + 1, memory_order_release);
    }
    pages_free(to, mb * BUFFER);
    return 0;
}

/* Returns the rate in Gbit/s. */
static double send_for(size_t mb, int seconds)
{
    uint8_t *from = buffers(mb);
    while (!atomic_load(&shared->ready) && !atomic_load(&shared->over)) {
        sched_yield();
    }
    double begin = now(), took = 0;
    unsigned long long i = 0;
    for (; took < seconds && !atomic_load_explicit(&shared->over, memory_order_relaxed); i++) {
        struct slot *s = &shared->slot[i % SLOTS];
        uint8_t *p = piece(from, mb, i);
        wait_for(&shared->received, i < SLOTS ? 0 : i - SLOTS + 1);
        s->sum = sum_of(p);
        copy_across(s->data, p, PIECE);
        atomic_store_explicit(&shared->sent, i + 1, memory_order_release);
        took = i % 64 == 0 ? now() - begin : took;
    }
    atomic_store(&shared->over, true);
    pages_free(from, mb * BUFFER);
    return 8e-9 * PIECE * (double)i / took;
}

int main(int argc, char **argv)
{
    int mb = argc >= 3 ? atoi(argv[1]) : 0, seconds = argc >= 3 ? atoi(argv[2]) : 0;
    huge = argc == 4 && strcmp(argv[3], "huge") == 0;
    if (mb < 1 || mb > 4096 || seconds < 1 || seconds > 60 || argc > 3 + huge) {
        fputs("usage: mem_raw MB SECONDS [huge] (1..4096, 1..60)\n", stderr);
        return 2;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        die("mem_raw: mmap");
    }
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        return getppid() == parent ? receive((size_t)mb) : 0;
    }
    if (child < 0) {
        die("mem_raw: fork");
    }
    double gbit = send_for((size_t)mb, seconds);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) {
        fputs("mem_raw: the other end failed\n", stderr);
        return 1;
    }
    printf("{\"gbit\": %.3f}\n", gbit);
    return 0;
}
