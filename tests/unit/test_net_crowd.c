/* SPDX-License-Identifier: MIT */
/* More connections than a wire of shared memory has room for: they take turns, none makes ready what has to wait
 * until it is cold, and none is forgotten. */
#include <sys/stat.h>
#include <unistd.h>

#include "net_stream_testing.h"

enum {
    MANY = 100,
    PIECE = 16384,
    WARM_UP = 2000, /* turns; before, nobody knows that there are many */
    ROUNDS = 1000,
    AT_ONCE = 128 << 10, /* on its way of one stream */
    BARE = 2 * 64 << 10, /* made ready whatever the peer's window */
    WHOLE = 4 << 20,     /* a window */
    SMALL = 64,
    EVERY_MS =
        6, /* longer than the queue takes to go round, shorter than an acknowledgement may wait */
};

static char crowd_dir[32];
static struct seen from[MANY], to[MANY];

static struct net *open_shm(const char *path, const char *ip)
{
    struct net_cfg cfg = {.kind = NET_SHM};
    char err[NET_ERR_TEXT] = "";
    struct net *net = NULL;
    snprintf(cfg.name, sizeof cfg.name, "%s", path);
    test_cfg_ip(&cfg, ip);
    if (net_open(&cfg, &net, err) != 0) {
        fail_msg("%s", err);
    }
    return net;
}

static void turn_both(void)
{
    turn_one(w.a);
    turn_one(w.b);
    net_woken(w.a); /* the real clock goes on */
    net_woken(w.b);
}

static void turn_for(uint64_t ms)
{
    uint64_t end = net_now_ms() + ms;
    while (net_now_ms() < end) {
        turn_both();
    }
}

static void await(unsigned *events, unsigned wanted)
{
    uint64_t end = net_now_ms() + 10000;
    while ((*events & wanted) == 0 && net_now_ms() < end) {
        turn_both();
    }
    assert_true(*events & wanted);
}

static void connect_all(void)
{
    struct sockaddr_storage at = test_addr("198.18.0.2", 4791);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&at, MANY, &l, &l.l), 0);
    for (int i = 0; i < MANY; i++) {
        l.events = 0;
        assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&at, &from[i], &from[i].s), 0);
        await(&from[i].events, NET_EV_UP | NET_EV_CLOSED);
        while ((to[i].s = net_accept(l.l)) == NULL) {
            turn_both();
        }
        net_stream_set_user(to[i].s, &to[i]);
        from[i].piece = PIECE;
    }
}

static int crowd_open(void **state)
{
    (void)state;
    char path[64];
    snprintf(crowd_dir, sizeof crowd_dir, "%s", "/tmp/uiw-crowd-XXXXXX");
    memset(from, 0, sizeof from);
    memset(to, 0, sizeof to);
    memset(&l, 0, sizeof l);
    assert_non_null(mkdtemp(crowd_dir));
    snprintf(path, sizeof path, "%s/wire", crowd_dir);
    w = (struct wire_ends){open_shm(path, "198.18.0.1"), NULL, 0};
    w.b = open_shm(path, "198.18.0.2");
    connect_all();
    return 0;
}

static int crowd_close(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(to[i].bad, 0);
        net_stream_close(from[i].s, true);
        net_stream_close(to[i].s, true);
    }
    net_listener_close(l.l);
    net_close(w.a);
    net_close(w.b);
    assert_int_equal(rmdir(crowd_dir), 0);
    return 0;
}

/* From that one on, they have no end of data. */
static void fill_from(int first)
{
    for (int i = first; i < MANY; i++) {
        from[i].to_send = UINT64_MAX;
        send_pattern(&from[i]);
    }
}

static void stop_from(int first)
{
    for (int i = first; i < MANY; i++) {
        from[i].to_send = from[i].sent;
    }
}

/* --- turns --- */

/* Octets that were made ready, and that no peer has yet. */
static uint64_t under_way(void)
{
    uint64_t n = 0;
    for (int i = 0; i < MANY; i++) {
        n += from[i].sent - net_tx_acked(from[i].s);
    }
    return n;
}

static void check_shares(const uint64_t before[MANY])
{
    uint64_t least = UINT64_MAX, most = 0;
    for (int i = 0; i < MANY; i++) {
        uint64_t n = to[i].received - before[i];
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    print_message("%llu to %llu KB each\n", (unsigned long long)(least >> 10),
                  (unsigned long long)(most >> 10));
    assert_in_range(least, most / 4, most);
}

static void note_received(uint64_t before[MANY])
{
    for (int i = 0; i < MANY; i++) {
        before[i] = to[i].received;
    }
}

static void test_crowd_takes_turns(void **state)
{
    (void)state;
    uint64_t before[MANY], most = 0;
    fill_from(0);
    for (int i = 0; i < WARM_UP; i++) {
        turn_both();
    }
    note_received(before);
    for (int i = 0; i < ROUNDS; i++) {
        turn_both();
        most = under_way() > most ? under_way() : most;
    }
    print_message("%llu KB under way at most\n", (unsigned long long)(most >> 10));
    assert_in_range(most, 1, MANY * AT_ONCE / 4 * 3);
    check_shares(before);
}

/* Its window is shut while the others crowd the link, and nobody hears of its opening by itself. */
static void test_slow_reader_is_called_again(void **state)
{
    (void)state;
    uint64_t end = net_now_ms() + 20000, was;
    to[0].hold = true;
    fill_from(0);
    do {
        was = from[0].sent;
        turn_for(500);
    } while (from[0].sent != was && net_now_ms() < end);
    assert_int_equal(from[0].sent, was);
    assert_in_range(was, WHOLE / 2, WHOLE + AT_ONCE + BARE);
    stop_from(1);
    turn_for(200);
    to[0].hold = false;
    take_pattern(&to[0]);
    for (end = net_now_ms() + 20000; from[0].sent < 2 * was && net_now_ms() < end;) {
        turn_both();
    }
    assert_true(from[0].sent >= 2 * was);
}

/* A timeout leaves a congestion window of little more than a segment. */
static void test_timed_out_stream_is_called_again(void **state)
{
    (void)state;
    from[0].piece = SMALL;
    put(&from[0], SMALL);
    net_flush(w.a);
    for (uint64_t end = net_now_ms() + 3000; net_now_ms() < end;) { /* the peer stands still */
        turn_one(w.a);
        net_woken(w.a);
    }
    fill_from(1);
    turn_for(500);
    from[0].piece = PIECE;
    put(&from[0], 64 * PIECE);
    for (uint64_t end = net_now_ms() + 20000;
         to[0].received < from[0].to_send && net_now_ms() < end;) {
        turn_both();
    }
    assert_int_equal(to[0].received, SMALL + 64 * PIECE);
}

/* As an endpoint does, which sends after whatever has happened. */
static void turn_and_send(void)
{
    struct net *net[] = {w.a, w.b};
    for (size_t i = 0; i < ARRAY_LEN(net); i++) {
        net_turn(net[i]);
        struct net_ready r;
        while ((r = net_next(net[i])).events != 0) {
            handle(&r);
            if (r.stream != NULL) {
                send_pattern(r.user);
            }
        }
        net_flush(net[i]);
        net_woken(net[i]);
    }
}

/* What comes for it must not put it at the end of the queue. */
static void test_small_messages_keep_the_place(void **state)
{
    (void)state;
    uint64_t before[MANY] = {0}, start = net_now_ms(), last = 0;
    to[0].piece = SMALL;
    fill_from(0);
    for (bool warm = false; net_now_ms() < start + 3000;) {
        if (!warm && net_now_ms() >= start + 1000) {
            warm = true;
            note_received(before);
        }
        if (net_now_ms() >= last + EVERY_MS) {
            last = net_now_ms();
            put(&to[0], SMALL);
        }
        turn_and_send();
    }
    assert_true(from[0].received > 0);
    check_shares(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_crowd_takes_turns, crowd_open, crowd_close),
        cmocka_unit_test_setup_teardown(test_slow_reader_is_called_again, crowd_open, crowd_close),
        cmocka_unit_test_setup_teardown(test_timed_out_stream_is_called_again, crowd_open,
                                        crowd_close),
        cmocka_unit_test_setup_teardown(test_small_messages_keep_the_place, crowd_open,
                                        crowd_close),
    };
    cmocka_set_test_filter(getenv("UIW_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
