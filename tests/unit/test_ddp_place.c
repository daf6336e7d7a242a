/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "ddp/ddp_mem.h"

enum { ROOM = 512, GUARD = 0xee };

/* Cuts src[0..n) into up to cnt pieces at random places, empty ones too. */
static uint32_t cut(const uint8_t *src, uint32_t n, struct span *v, uint32_t cnt)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i + 1 < cnt; i++) {
        uint32_t len = (uint32_t)rand() % (n - used + 1);
        v[i] = (struct span){src + used, len};
        used += len;
    }
    v[cnt - 1] = (struct span){src + used, n - used};
    return cnt;
}

/* proves: DDP-5041-5.2-04 DDP-5041-4.1-01 RDMAP-5040-8.1.1-03 */
static void all_lengths_and_alignments(void **state)
{
    (void)state;
    uint8_t src[ROOM];
    for (uint32_t i = 0; i < ROOM; i++) {
        src[i] = (uint8_t)(7 * i + 3);
    }
    for (uint32_t at = 32; at < 48; at++) {
        for (uint32_t n = 0; n < 130; n++) {
            for (uint32_t pieces = 1; pieces < 5; pieces++) {
                _Alignas(16) uint8_t dst[ROOM];
                memset(dst, GUARD, sizeof(dst));
                struct span v[4];
                uint32_t cnt = cut(src, n, v, pieces);
                ddp_mem_place((struct mspan){dst + at, n}, cursor_of(v, cnt));
                assert_memory_equal(dst + at, src, n);
                for (uint32_t i = 0; i < ROOM; i++) {
                    assert_true((i >= at && i < at + n) || dst[i] == GUARD);
                }
            }
        }
    }
}

/* proves: RDMAP-5040-5.1-09 */
static void nothing_to_nowhere(void **state)
{
    (void)state;
    struct span v = {NULL, 0};
    ddp_mem_place((struct mspan){NULL, 0}, cursor_of(&v, 1));
    ddp_mem_place((struct mspan){NULL, 0}, cursor_of(NULL, 0));
}

/* A program that spins on the last octets of what a peer writes. */
struct spin {
    uint8_t *buf;
    uint32_t n;
    uint32_t rounds;
    uint32_t seen; /* rounds the spinner has checked */
    bool torn;
};

/* Loads it with the width of the store that brings it: the hardware does not care, but
 * ThreadSanitizer pairs a release with an acquire of the same address only. */
static uint8_t last_octet(const struct spin *s)
{
    uint8_t octets[8];
    const uint8_t *end = s->buf + s->n;
    if (s->n >= 8 && (uintptr_t)end % 8 == 0) {
        uint64_t v = __atomic_load_n((const uint64_t *)(const void *)(end - 8), __ATOMIC_ACQUIRE);
        memcpy(octets, &v, 8);
        return octets[7];
    }
    if (s->n >= 4 && (uintptr_t)end % 4 == 0) {
        uint32_t v = __atomic_load_n((const uint32_t *)(const void *)(end - 4), __ATOMIC_ACQUIRE);
        memcpy(octets, &v, 4);
        return octets[3];
    }
    return __atomic_load_n(end - 1, __ATOMIC_ACQUIRE);
}

static void *spinner(void *arg)
{
    struct spin *s = arg;
    for (uint32_t round = 1; round <= s->rounds; round++) {
        while (last_octet(s) != (uint8_t)round) {
            sched_yield();
        }
        for (uint32_t i = 0; i + 1 < s->n; i++) {
            /* the tail before the last octet is stored atomically, the rest is not */
            uint8_t got = s->n - i <= 8 ? __atomic_load_n(s->buf + i, __ATOMIC_RELAXED) : s->buf[i];
            s->torn |= got != (uint8_t)round;
        }
        __atomic_store_n(&s->seen, round, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void spin_on(uint8_t *buf, uint32_t n)
{
    struct spin s = {.buf = buf, .n = n, .rounds = 300};
    memset(buf, 0, n);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, spinner, &s), 0);
    uint8_t *src = malloc(n);
    assert_non_null(src);
    for (uint32_t round = 1; round <= s.rounds; round++) {
        memset(src, (int)(round & 0xff), n);
        struct span v[3];
        uint32_t cnt = cut(src, n, v, 3);
        ddp_mem_place((struct mspan){buf, n}, cursor_of(v, cnt));
        while (__atomic_load_n(&s.seen, __ATOMIC_ACQUIRE) < round) {
            sched_yield();
        }
    }
    pthread_join(thread, NULL);
    free(src);
    assert_false(s.torn);
}

/* proves: RDMAP-5040-5.1-07 DDP-5041-5.3-02 */
static void last_octet_comes_last(void **state)
{
    (void)state;
    _Alignas(16) static uint8_t buf[8192];
    static const uint32_t lengths[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 64, 1436, 4096};
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        spin_on(buf, lengths[i]);
        spin_on(buf + 1, lengths[i]);
        spin_on(buf + 4, lengths[i]);
    }
}

/* Two pages, of which the second cannot be written until the first try, by whoever stores there. */
static struct {
    uint8_t *pages;
    size_t page;
    const uint8_t *dst, *src;
    unsigned tries;
    bool early; /* octets before the second page were missing at that try */
} fence;

static void on_store(int sig, siginfo_t *info, void *context)
{
    const uint8_t *at = info->si_addr, *second = fence.pages + fence.page;
    (void)context;
    if (at < second || at >= second + fence.page || fence.tries > 0) {
        signal(sig, SIG_DFL); /* no store of the test: let it fall */
        return;
    }
    fence.tries++;
    fence.early |= memcmp(fence.dst, fence.src, (size_t)(second - fence.dst)) != 0;
    mprotect(fence.pages + fence.page, fence.page, PROT_READ | PROT_WRITE);
}

/* What it looks like when the first of the last octets is stored: nothing before them is missing, however
 * the payload was cut. The racing program above sees a wrong order only where the copying is slow.
 * proves: RDMAP-5040-5.1-07 DDP-5041-5.3-02 */
static void all_else_is_there_before_the_last(void **state)
{
    (void)state;
    struct sigaction old, mine = {.sa_sigaction = on_store, .sa_flags = SA_SIGINFO};
    uint8_t src[ROOM];
    fence.page = (size_t)sysconf(_SC_PAGESIZE);
    fence.pages =
        mmap(NULL, 2 * fence.page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(fence.pages != MAP_FAILED);
    sigaction(SIGSEGV, &mine, &old);
    for (uint32_t n = 9; n < ROOM; n++) {
        for (uint32_t last = 1; last <= 8; last++) {
            uint8_t *dst = fence.pages + fence.page - (n - last);
            struct span v[3];
            memset(src, (int)(n + last) | 1, n);
            memset(dst, 0, n);
            uint32_t cnt = cut(src, n, v, 1 + (n + last) % 3);
            fence.dst = dst;
            fence.src = src;
            fence.tries = 0;
            mprotect(fence.pages + fence.page, fence.page, PROT_READ);
            ddp_mem_place((struct mspan){dst, n}, cursor_of(v, cnt));
            assert_int_equal(fence.tries, 1);
            assert_memory_equal(dst, src, n);
        }
    }
    sigaction(SIGSEGV, &old, NULL);
    munmap(fence.pages, 2 * fence.page);
    assert_false(fence.early);
}

/* A program that spins on a 64-bit word at the end. */
struct word {
    uint64_t *at;
    bool stop, half;
};

static void *word_spinner(void *arg)
{
    struct word *w = arg;
    while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
        uint64_t v = __atomic_load_n(w->at, __ATOMIC_ACQUIRE);
        w->half |= v != (v & 0xff) * 0x0101010101010101u;
    }
    return NULL;
}

/* proves: RDMAP-5040-5.1-07 */
static void aligned_word_at_the_end_is_whole(void **state)
{
    (void)state;
    _Alignas(16) static uint64_t buf[4];
    struct word w = {.at = &buf[3]};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, word_spinner, &w), 0);
    for (uint32_t round = 0; round < 300000; round++) {
        uint8_t src[32];
        memset(src, (int)(round & 0xff), sizeof(src));
        uint32_t n = 8 + round % 25;
        struct span v[3];
        uint32_t cnt = cut(src, n, v, 3);
        ddp_mem_place((struct mspan){(uint8_t *)buf + sizeof(buf) - n, n}, cursor_of(v, cnt));
    }
    __atomic_store_n(&w.stop, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    assert_false(w.half);
}

int main(void)
{
    srand(random_u32());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_lengths_and_alignments),
        cmocka_unit_test(nothing_to_nowhere),
        cmocka_unit_test(last_octet_comes_last),
        cmocka_unit_test(all_else_is_there_before_the_last),
        cmocka_unit_test(aligned_word_at_the_end_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
