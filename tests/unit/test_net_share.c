/* SPDX-License-Identifier: MIT */
/* Many streams on a path that takes time: they share what may be on its way, those that cannot send have no part
 * in it, and what a stream was promised it gets. */
#include "net_stream_testing.h"

enum {
    MANY = 151,
    PIECE = 16384,
    HEAD = 20, /* of an FPDU at MTU 9000, whose payload is lent */
    PAYLOAD = 8900,
    TAIL = 4,
    POSTING = 60,
    ROUNDS = 10000,
    WINDOW = 4 << 20, /* the most that is on its way of one */
    PATH =
        36
        << 20, /* of all: 24 times 512 KB, and twice as much: who has sent all he had does not count */
    BARE = (2 * 64) << 10, /* made ready of one, whatever its share */
};

static struct seen from[MANY], to[MANY];
static uint8_t lent[PIECE];
static uint64_t sent_on_wire;

static void open_all(uint32_t mtu, int count)
{
    struct sockaddr_storage at = test_addr("198.18.0.2", 4791);
    const struct net_wire slow = {.delay_ms = 1};
    memset(from, 0, sizeof from);
    memset(to, 0, sizeof to);
    begin(mtu);
    net_wire_set(w.a, &slow);
    net_wire_set(w.b, &slow);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&at, count, &l, &l.l), 0);
    for (int i = 0; i < count; i++) {
        assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&at, &from[i], &from[i].s), 0);
        for (int k = 0; k < 100 && (to[i].s = net_accept(l.l)) == NULL; k++) {
            run_for(&w, 1);
        }
        assert_non_null(to[i].s);
        net_stream_set_user(to[i].s, &to[i]);
    }
}

static void close_all(int count)
{
    for (int i = 0; i < count; i++) {
        net_stream_close(from[i].s, true);
        net_stream_close(to[i].s, true);
    }
    end(true);
}

/* Sends and takes without a look at the octets: there are many. */
static void lend_all(struct seen *n)
{
    while (n->sent < n->to_send && net_tx_lend(n->s, lent, PIECE)) {
        n->sent += PIECE;
    }
}

static void take_all(struct seen *n)
{
    uint32_t k = n->hold ? 0 : net_rx_queued(n->s);
    n->received += k;
    net_rx_consume(n->s, k);
}

static uint32_t turn_quickly(struct net *net, void (*may_send)(struct seen *))
{
    uint32_t did = net_turn(net);
    struct net_ready r;
    while ((r = net_next(net)).events != 0) {
        did++;
        if (r.listener == NULL) {
            take_all(r.user);
            may_send(r.user);
        }
    }
    net_flush(net);
    return did;
}

static void step(void (*may_send)(struct seen *))
{
    if (turn_quickly(w.a, may_send) + turn_quickly(w.b, may_send) == 0) {
        net_clock_advance(1);
    }
}

static void step_for(uint64_t ms)
{
    for (uint64_t until = net_now_ms() + ms; net_now_ms() < until;) {
        step(lend_all);
    }
}

/* --- promises --- */

static void make_fpdus(struct seen *n)
{
    while (n->sent < n->to_send && net_tx_room(n->s) >= HEAD + PAYLOAD + TAIL) {
        uint8_t *p = net_tx_reserve(n->s, HEAD);
        assert_non_null(p);
        memset(p, 0, HEAD);
        net_tx_commit(n->s, HEAD);
        assert_true(net_tx_lend(n->s, lent, PAYLOAD));
        p = net_tx_reserve(n->s, TAIL);
        assert_non_null(p);
        memset(p, 0, TAIL);
        net_tx_commit(n->s, TAIL);
        n->sent++;
    }
}

static void test_room_is_there_when_it_was_told(void **state)
{
    (void)state;
    unsigned seed = 1;
    open_all(9000, POSTING);
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = rand_r(&seed) % 8; k > 0; k--) {
            struct seen *n = &from[rand_r(&seed) % POSTING];
            n->to_send += n->sent == n->to_send ? 1 + (uint64_t)rand_r(&seed) % 60 : 0;
            make_fpdus(n);
        }
        net_flush(w.a);
        step(make_fpdus);
    }
    close_all(POSTING);
}

/* --- shares --- */

static void count_frame(void *arg, const uint8_t *frame, uint32_t len)
{
    (void)arg;
    (void)frame;
    sent_on_wire += len;
}

static void check_share(int count)
{
    uint64_t most = 0, most_made = 0;
    open_all(1500, count);
    net_wire_tap(w.a, count_frame, NULL);
    sent_on_wire = 0;
    for (int i = 0; i < count; i++) {
        from[i].to_send = UINT64_MAX;
        lend_all(&from[i]);
    }
    for (uint64_t until = net_now_ms() + 60; net_now_ms() < until;) {
        uint64_t acked = 0, made = 0;
        step(lend_all);
        for (int i = 0; i < count; i++) {
            acked += net_tx_acked(from[i].s);
            made += from[i].sent - net_tx_acked(from[i].s);
        }
        most_made = made > most_made ? made : most_made;
        most = sent_on_wire > acked && sent_on_wire - acked > most ? sent_on_wire - acked : most;
    }
    print_message("at most %llu MB made ready, %llu on its way\n",
                  (unsigned long long)(most_made >> 20), (unsigned long long)(most >> 20));
    assert_in_range(most, WINDOW, PATH);
    assert_in_range(most_made, WINDOW, PATH + (uint64_t)count * BARE);
    net_wire_tap(w.a, NULL, NULL);
    close_all(count);
}

static void test_many_share(void **state)
{
    (void)state;
    check_share(MANY);
    check_share(50);
}

static uint64_t rate_beside(int others)
{
    open_all(1500, 1 + others);
    for (int i = 1; i <= others; i++) {
        to[i].hold = true;
        from[i].to_send = UINT64_MAX;
        lend_all(&from[i]);
    }
    step_for(1000);
    from[0].to_send = UINT64_MAX;
    lend_all(&from[0]);
    step_for(200);
    uint64_t before = to[0].received;
    step_for(100);
    uint64_t n = to[0].received - before;
    print_message("beside %d: %llu MB\n", others, (unsigned long long)(n >> 20));
    close_all(1 + others);
    return n;
}

/* Their peers' windows are shut. */
static void test_who_cannot_send_has_no_share(void **state)
{
    (void)state;
    uint64_t alone = rate_beside(0);
    assert_true(alone > 0);
    assert_in_range(rate_beside(MANY - 1), alone / 2, UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_room_is_there_when_it_was_told),
        cmocka_unit_test(test_many_share),
        cmocka_unit_test(test_who_cannot_send_has_no_share),
    };
    cmocka_set_test_filter(getenv("UIW_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
