/* SPDX-License-Identifier: MIT */
/* More connections than a wire of shared memory has room for: they take turns, and none makes ready what has to wait
 * until it is cold. By the real clock. */
#include <sys/stat.h>
#include <unistd.h>

#include "net_stream_testing.h"

enum {
    MANY = 100,
    PIECE = 16384,
    WARM_UP = 2000, /* turns; before, nobody knows that there are many */
    ROUNDS = 1000,
    AT_ONCE = 128 << 10, /* on its way of one stream */
    CALLED = 16, /* streams that make something ready meanwhile; they are called 8 at a time */
};

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

static void await(unsigned *events, unsigned wanted)
{
    uint64_t end = net_now_ms() + 10000;
    while ((*events & wanted) == 0 && net_now_ms() < end) {
        turn_both();
    }
    assert_true(*events & wanted);
}

/* Octets that were made ready, and that no peer has yet. */
static uint64_t under_way(void)
{
    uint64_t n = 0;
    for (int i = 0; i < MANY; i++) {
        n += from[i].sent - net_tx_acked(from[i].s);
    }
    return n;
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
    }
}

static void check_shares(const uint64_t before[MANY])
{
    uint64_t least = UINT64_MAX, most = 0;
    for (int i = 0; i < MANY; i++) {
        uint64_t n = to[i].received - before[i];
        assert_int_equal(to[i].bad, 0);
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    assert_in_range(least, most / 4, most);
}

static void test_crowd_takes_turns(void **state)
{
    (void)state;
    char dir[] = "/tmp/uiw-crowd-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/wire", dir);
    w = (struct wire_ends){open_shm(path, "198.18.0.1"), NULL, 0};
    w.b = open_shm(path, "198.18.0.2");
    connect_all();
    for (int i = 0; i < MANY; i++) {
        from[i].piece = PIECE;
        from[i].to_send = UINT64_MAX;
        send_pattern(&from[i]);
    }
    for (int i = 0; i < WARM_UP; i++) {
        turn_both();
    }
    uint64_t before[MANY], most = 0;
    for (int i = 0; i < MANY; i++) {
        before[i] = to[i].received;
    }
    for (int i = 0; i < ROUNDS; i++) {
        turn_both();
        most = under_way() > most ? under_way() : most;
    }
    print_message("%llu KB under way at most\n", (unsigned long long)(most >> 10));
    assert_in_range(most, 1, MANY * AT_ONCE / 4 * 3);
    check_shares(before);
    for (int i = 0; i < MANY; i++) {
        net_stream_close(from[i].s, true);
        net_stream_close(to[i].s, true);
    }
    net_listener_close(l.l);
    net_close(w.a);
    net_close(w.b);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crowd_takes_turns)};
    cmocka_set_test_filter(getenv("UIW_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
