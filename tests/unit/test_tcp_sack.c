/* SPDX-License-Identifier: MIT */
/* The scoreboard: what is known of each octet, against a model that has a state for each of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tcpip/tcp_sack.h"

enum { RUNS = 2000 };

static struct sack_run runs[RUNS];
static struct sack_pool pool;
static struct sack_board b;
static struct sack_news news;

static void begin(uint32_t at, uint32_t cnt)
{
    pool = (struct sack_pool){0};
    sack_pool_add(&pool, runs, cnt);
    sack_init(&b, &pool, at);
}

static void acked(uint32_t ack, uint64_t now, const struct sack_block *block, uint32_t n)
{
    struct sack_ack a = {.ack = ack, .n = n};
    for (uint32_t i = 0; i < n; i++) {
        a.block[i] = block[i];
    }
    news = (struct sack_news){0};
    sack_acked(&b, &a, now, &news);
}

#define BLOCKS(...)             \
    (const struct sack_block[]) \
    {                           \
        __VA_ARGS__             \
    }

/* The counts are those of the runs, which lie one behind the other. */
static void check(void)
{
    uint32_t at = b.una, sacked = 0, lost = 0, cnt = 0;
    const struct sack_run *last = NULL;
    for (const struct sack_run *r = b.first; r != NULL; r = r->next) {
        assert_int_equal(r->from, at);
        assert_true(seq_lt(r->from, r->to));
        assert_false(r->sacked && r->lost);
        sacked += r->sacked ? r->to - r->from : 0;
        lost += r->lost ? r->to - r->from : 0;
        at = r->to;
        cnt++;
        last = r;
    }
    assert_int_equal(at, b.nxt);
    assert_ptr_equal(last, b.last);
    assert_int_equal(sacked, b.sacked);
    assert_int_equal(lost, b.lost);
    assert_int_equal(cnt, b.count);
}

static uint32_t lost_before(uint64_t now)
{
    uint32_t wait;
    uint32_t n = sack_find_lost(&b, now, 0, &wait);
    check();
    return n;
}

static void test_in_order(void **state)
{
    (void)state;
    begin(1000, 10);
    sack_sent(&b, 2000, 10, 0);
    sack_sent(&b, 3000, 20, 0);
    assert_int_equal(sack_pipe(&b), 2000);
    acked(1500, 30, NULL, 0);
    check();
    assert_int_equal(news.acked, 500);
    assert_int_equal(news.delivered, 500);
    assert_int_equal(news.rtt, 20);
    acked(3000, 50, NULL, 0);
    assert_int_equal(news.acked, 1500);
    assert_int_equal(news.rtt, 30); /* of what was sent last */
    assert_int_equal(sack_pipe(&b), 0);
    assert_int_equal(pool.count, 10);
    check();
    /* An acknowledgement once more, and one of what was never sent. */
    acked(3000, 60, NULL, 0);
    acked(3001, 60, NULL, 0);
    acked(1000, 60, NULL, 0);
    assert_int_equal(b.una, 3000);
    assert_int_equal(news.acked, 0);
}

/* RFC 8985 sec 6.2: what was sent before something that arrived is lost, the rest may be on its way. */
static void test_a_hole(void **state)
{
    (void)state;
    begin(0xfffffff0, 20); /* the numbers wrap around within */
    uint32_t at = 0xfffffff0;
    sack_sent(&b, at + 1000, 100, 0);
    acked(at + 100, 200, BLOCKS({at + 200, at + 300}), 1);
    check();
    assert_int_equal(b.sacked, 100);
    assert_int_equal(news.delivered, 200);
    assert_int_equal(lost_before(200), 100); /* and what follows is not */
    assert_int_equal(sack_pipe(&b), 700);
    struct sack_block r;
    assert_true(sack_next_lost(&b, 1000, &r));
    assert_int_equal(r.from, at + 100);
    assert_int_equal(r.to, at + 200);
    assert_true(sack_next_lost(&b, 30, &r));
    assert_int_equal(r.to, at + 130);
    sack_resent(&b, r.from, r.to, 210);
    check();
    assert_int_equal(b.lost, 70);
    assert_true(sack_next_lost(&b, 1000, &r));
    assert_int_equal(r.from, at + 130);
    sack_resent(&b, r.from, r.to, 210);
    assert_int_equal(b.lost, 0);
    assert_false(sack_next_lost(&b, 1000, &r));
    /* The hole is filled: what arrived again is no sample of the round trip. */
    acked(at + 300, 300, NULL, 0);
    check();
    assert_int_equal(news.acked, 200);
    assert_int_equal(news.delivered, 100);
    assert_int_equal(news.repaired, 100);
    assert_int_equal(news.rtt, 0);
    acked(at + 1000, 310, NULL, 0);
    assert_int_equal(pool.count, 20);
}

/* Of a retransmission that is lost as well, the order of time tells. */
static void test_lost_again(void **state)
{
    (void)state;
    begin(0, 20);
    sack_sent(&b, 300, 100, 0);
    acked(0, 200, BLOCKS({100, 300}), 1);
    assert_int_equal(lost_before(200), 100);
    sack_resent(&b, 0, 100, 200);
    sack_sent(&b, 400, 210, 0);
    assert_int_equal(lost_before(300), 0);
    acked(0, 310, BLOCKS({100, 400}), 1);
    assert_int_equal(lost_before(310), 100);
    sack_resent(&b, 0, 100, 310);
    acked(400, 410, NULL, 0);
    assert_int_equal(sack_pipe(&b), 0);
}

/* A window for reordering: not lost yet, and when it will be. */
static void test_wait(void **state)
{
    (void)state;
    begin(0, 20);
    sack_sent(&b, 100, 1000, 0);
    sack_sent(&b, 200, 1010, 0);
    acked(0, 2010, BLOCKS({100, 200}), 1);
    uint32_t wait;
    assert_int_equal(sack_find_lost(&b, 2010, 250, &wait), 0);
    assert_int_equal(wait, 240);
    assert_int_equal(sack_find_lost(&b, 2250, 250, &wait), 100);
    assert_int_equal(wait, 0);
    /* It was only late. */
    acked(200, 2300, NULL, 0);
    assert_true(news.unlost);
    assert_true(b.reordered);
    check();
}

static void test_unlose(void **state)
{
    (void)state;
    begin(0, 20);
    sack_sent(&b, 1000, 1, 0);
    acked(0, 50, BLOCKS({400, 500}), 1);
    sack_lose(&b, 100);
    check();
    assert_int_equal(b.lost, 900);
    sack_resent(&b, 0, 100, 100);
    sack_unlose(&b);
    check();
    assert_int_equal(b.lost, 0);
    assert_int_equal(sack_pipe(&b), 900);
    sack_lose(&b, 100); /* what was sent at 100 may still arrive, but the first octets have to go */
    assert_int_equal(b.lost, 900);
    check();
}

/* RFC 2018 sec 8: the peer may take back what it reported; that shows when it asks for it. */
static void test_reneging(void **state)
{
    (void)state;
    begin(0, 20);
    sack_sent(&b, 1000, 1, 0);
    acked(0, 50, BLOCKS({100, 1000}), 1);
    assert_int_equal(lost_before(50), 100);
    sack_resent(&b, 0, 100, 50);
    acked(100, 100, NULL, 0);
    assert_true(news.reneged);
    check();
    assert_int_equal(b.sacked, 0);
    assert_int_equal(sack_pipe(&b), 900);
    assert_int_equal(lost_before(100), 900); /* sent before what arrived last */
}

/* RFC 2883 sec 4. */
static void test_dsack(void **state)
{
    (void)state;
    begin(0, 20);
    sack_sent(&b, 1000, 1, 0);
    acked(500, 50, BLOCKS({100, 200}), 1);
    assert_int_equal(news.twice, 100);
    acked(500, 60, BLOCKS({700, 750}, {600, 800}), 2);
    assert_int_equal(news.twice, 50);
    assert_int_equal(b.sacked, 200);
    check();
}

/* Blocks that no honest peer sends change nothing. */
static void test_garbage(void **state)
{
    (void)state;
    static const uint32_t isn[] = {0, 0x7fffff00, 0x80000000, 0xffffff00};
    for (size_t i = 0; i < ARRAY_LEN(isn); i++) {
        uint32_t at = isn[i];
        begin(at, 20);
        sack_sent(&b, at + 1000, 1, 0);
        acked(at + 100, 2, NULL, 0);
        const struct sack_block bad[] = {
            {at + 300, at + 200},
            {at + 300, at + 300},
            {at + 900, at + 1001},
            {at + 1000, at + 2000},
            {at + 100, at + 200},
            {at + 50, at + 200},
            {at, at + 1000},
            {at + 200, at - 0x70000000},
            {at + 0x7fffffff, at + 500},
            {at + 0x80000000, at + 500},
            {at - 100, at + 0x7fffffff},
            {0, 0},
        };
        for (size_t k = 0; k < ARRAY_LEN(bad); k++) {
            acked(at + 100, 5, BLOCKS({at + 1000, at + 1001}, bad[k]), 2);
            check();
            assert_int_equal(b.sacked, 0);
            assert_int_equal(news.delivered, 0);
        }
        acked(at + 0x80000000, 5, NULL, 0);
        acked(at - 1, 5, NULL, 0);
        acked(at + 1001, 5, NULL, 0);
        assert_int_equal(b.una, at + 100);
        assert_int_equal(lost_before(1000), 0);
        acked(at + 1000, 6, NULL, 0);
        assert_int_equal(pool.count, 20);
    }
}

/* What is sent at about the same time shares a run; what is not does not. */
static void test_grain(void **state)
{
    (void)state;
    begin(0, 20);
    for (uint32_t i = 1; i <= 100; i++) {
        sack_sent(&b, i * 10, i * 10, 100);
    }
    check();
    assert_in_range(b.count, 9, 11);
}

/* Without runs to spare a board knows less, and what it does not know it takes for not arrived. */
static void test_no_memory(void **state)
{
    (void)state;
    for (uint32_t cnt = 0; cnt < 6; cnt++) {
        begin(0, cnt);
        for (uint32_t i = 1; i <= 20; i++) {
            sack_sent(&b, i * 100, i, 0);
            check();
        }
        for (uint32_t i = 0; i < 9; i++) {
            uint32_t at = 100 + i * 200;
            acked(0, 100, BLOCKS({at, at + 100}), 1);
            check();
            sack_sent(&b, b.nxt + 100, 100 + i, 0);
            check();
        }
        assert_true(b.sacked <= 900);
        sack_lose(&b, 1000);
        struct sack_block r;
        uint32_t at = 0;
        while (sack_next_lost(&b, 100, &r)) {
            assert_true(seq_leq(at, r.from));
            at = r.from;
            sack_resent(&b, r.from, r.to, 200);
            check();
        }
        acked(b.nxt, 300, NULL, 0);
        check();
        assert_int_equal(b.count, 0);
        assert_int_equal(pool.count, cnt);
    }
}

/* A peer that reports every second octet of a large window does not get more than its share. */
static void test_fragments(void **state)
{
    (void)state;
    begin(0, RUNS);
    sack_sent(&b, 100000, 1, 0);
    for (uint32_t i = 1; i < 50000; i++) {
        acked(0, 2, BLOCKS({2 * i, 2 * i + 1}), 1);
    }
    check();
    assert_true(b.count <= SACK_RUNS_MAX);
    uint32_t lost = lost_before(10);
    assert_true(lost > 0);
    assert_int_equal(lost, b.lost);
    acked(100000, 20, NULL, 0);
    assert_int_equal(pool.count, RUNS);
}

/* --- against a model --- */

static uint64_t rnd_state;

static uint32_t random_below(uint32_t n)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(((rnd_state >> 32) * n) >> 32);
}

enum { SPACE = 4000 };
enum fate { NOT_SENT, ON_ITS_WAY, LOST, THERE };

static void model_check(const enum fate *m, uint32_t base)
{
    uint32_t lost = 0, there = 0;
    for (uint32_t i = b.una - base; i < b.nxt - base; i++) {
        lost += m[i] == LOST;
        there += m[i] == THERE;
    }
    assert_int_equal(b.lost, lost);
    assert_int_equal(b.sacked, there);
    check();
}

static void model_acked(enum fate *m, uint32_t base, uint64_t now)
{
    uint32_t out = b.nxt - b.una;
    struct sack_block k[SACK_BLOCKS];
    uint32_t n = random_below(SACK_BLOCKS + 1), ack = b.una;
    if (random_below(4) == 0) {
        ack += random_below(out + 1);
        while (ack != b.nxt && m[ack - base] == THERE) {
            ack++; /* an honest peer acknowledges what it has */
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from = ack + 1 + random_below(out + 1), len = 1 + random_below(60);
        k[i] = (struct sack_block){from, from + len};
    }
    acked(ack, now, k, n);
    for (uint32_t i = 0; i < n; i++) {
        /* The first may be a repetition, by chance. */
        bool twice = i == 0 && n > 1 && seq_leq(k[1].from, k[0].from) && seq_leq(k[0].to, k[1].to);
        for (uint32_t x = k[i].from; !twice && seq_leq(k[i].to, b.nxt) && x != k[i].to; x++) {
            m[x - base] = THERE;
        }
    }
}

static void test_model(void **state)
{
    (void)state;
    static enum fate m[SPACE];
    const char *env = getenv("UIW_SEED");
    rnd_state = env != NULL ? strtoull(env, NULL, 0) : 1;
    for (uint32_t round = 0; round < 300; round++) {
        uint32_t base = round % 3 == 0 ? 0u - SPACE / 2 : random_below(UINT32_MAX);
        uint64_t now = 1000;
        memset(m, 0, sizeof m);
        begin(base, RUNS);
        while (b.nxt - base < SPACE - 200) {
            now += random_below(20);
            uint32_t to = b.nxt + 1 + random_below(150);
            for (uint32_t x = b.nxt; x != to; x++) {
                m[x - base] = ON_ITS_WAY;
            }
            sack_sent(&b, to, now, 0);
            model_acked(m, base, now + 5);
            model_check(m, base);
            if (random_below(8) == 0) {
                sack_lose(&b, now + 1);
                for (uint32_t x = b.una; x != b.nxt; x++) {
                    m[x - base] = m[x - base] == THERE ? THERE : LOST;
                }
            }
            struct sack_block r;
            while (random_below(3) != 0 && sack_next_lost(&b, 1 + random_below(40), &r)) {
                for (uint32_t x = b.una; x != r.from; x++) {
                    assert_int_not_equal(m[x - base], LOST);
                }
                for (uint32_t x = r.from; x != r.to; x++) {
                    assert_int_equal(m[x - base], LOST);
                    m[x - base] = ON_ITS_WAY;
                }
                sack_resent(&b, r.from, r.to, now);
            }
            model_check(m, base);
        }
        sack_clear(&b);
        assert_int_equal(pool.count, RUNS);
    }
}

int main(void)
{
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order),   cmocka_unit_test(test_a_hole),
        cmocka_unit_test(test_lost_again), cmocka_unit_test(test_wait),
        cmocka_unit_test(test_unlose),     cmocka_unit_test(test_reneging),
        cmocka_unit_test(test_dsack),      cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_grain),      cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_fragments),  cmocka_unit_test(test_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
