/* SPDX-License-Identifier: MIT */
/* Two processes over shared memory: bulk both ways, and one of them killed at odd moments. */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "net_testing.h"
#include "tcpip/shm_ring.h"

#define IP_A "198.18.2.1"
#define IP_B "198.18.2.2"

enum { PORT = 4791 };

static char name[64];
static uint64_t octets = 100u << 20;

static struct net *open_shm(const char *ip)
{
    struct net_cfg cfg = {.kind = NET_SHM};
    char err[NET_ERR_TEXT] = "";
    struct net *net = NULL;
    strcpy(cfg.name, name);
    test_cfg_ip(&cfg, ip);
    if (net_open(&cfg, &net, err) != 0) {
        fail_msg("%s", err);
    }
    return net;
}

/* Both ends do the same but for who connects. 0: all went well. */
static int traffic(bool connects, uint32_t piece, bool lend)
{
    struct net *net = open_shm(connects ? IP_A : IP_B);
    uint8_t *source = lend ? malloc(octets) : NULL;
    struct seen l = {0}, n = {.to_send = octets, .want = octets, .piece = piece};
    for (uint64_t i = 0; lend && i < octets; i++) {
        source[i] = pattern(i);
    }
    n.lend = lend;
    n.lent_from = source;
    struct sockaddr_storage at = test_addr(IP_B, PORT);
    if (connects) {
        assert_int_equal(net_connect(net, NULL, (struct sockaddr *)&at, &n, &n.s), 0);
    } else {
        assert_int_equal(net_listen(net, (struct sockaddr *)&at, 4, &l, &l.l), 0);
        if (!wait_until(net, can_accept, &l, 10000)) {
            return 2;
        }
        n.s = net_accept(l.l);
        net_stream_set_user(n.s, &n);
        send_pattern(&n);
    }
    if (!wait_until(net, was_closed, &n, 60000)) {
        return 3;
    }
    int r = n.error != 0 ? 4 : n.bad != 0 ? 5 : n.received != octets ? 6 : 0;
    net_stream_close(n.s, false);
    if (l.l != NULL) {
        net_listener_close(l.l);
    }
    net_close(net);
    free(source);
    return net_test_asserts() != 0 ? 7 : r;
}

static void pair_of_processes(uint32_t piece, bool lend)
{
    pid_t pid = fork();
    if (pid == 0) {
        _exit(traffic(false, piece, lend));
    }
    assert_int_equal(traffic(true, piece, lend), 0);
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_bulk(void **state)
{
    (void)state;
    octets = 100u << 20;
    pair_of_processes(60000, false);
    pair_of_processes(65408, true);
    octets = 8u << 20;
    pair_of_processes(64, false);
    pair_of_processes(1460, false);
}

/* --- killed and joined again --- */

static void child_sends_for_ever(void)
{
    struct net *net = open_shm(IP_B);
    struct seen l = {0}, n = {.to_send = UINT64_MAX, .piece = 50000};
    struct sockaddr_storage at = test_addr(IP_B, PORT);
    if (net_listen(net, (struct sockaddr *)&at, 4, &l, &l.l) != 0 ||
        !wait_until(net, can_accept, &l, 20000)) {
        _exit(2);
    }
    n.s = net_accept(l.l);
    net_stream_set_user(n.s, &n);
    send_pattern(&n);
    wait_until(net, was_closed, &n, 60000);
    _exit(0);
}

static bool got_some(void *arg)
{
    const struct seen *n = arg;
    return n->received > (1 << 20) || (n->events & NET_EV_CLOSED) != 0;
}

static void pause_us(long us)
{
    struct timespec t = {0, us * 1000};
    nanosleep(&t, NULL);
}

static void test_kill_and_rejoin(void **state)
{
    (void)state;
    struct net *net = open_shm(IP_A);
    struct sockaddr_storage at = test_addr(IP_B, PORT);
    srand(4);
    for (int round = 0; round < 12; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            /* What was open in the parent means nothing here; the child joins by itself. */
            execl("/proc/self/exe", "test_link_shm", "sender", name, (char *)NULL);
            _exit(9);
        }
        struct seen n = {0};
        assert_int_equal(net_connect(net, NULL, (struct sockaddr *)&at, &n, &n.s), 0);
        assert_true(wait_until(net, got_some, &n, 10000));
        assert_int_equal(n.error, 0);
        pause_us(rand() % 3000);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        assert_true(wait_until(net, was_closed, &n, 3000));
        assert_int_equal(n.error, -ECONNRESET);
        assert_int_equal(n.bad, 0);
        net_stream_close(n.s, false);
    }
    net_close(net);
    assert_int_equal(net_test_asserts(), 0);
}

/* The same with roles changed: the survivor is the one that has to take the lock over. */
static void test_first_one_dies(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "test_link_shm", "sender", name, (char *)NULL);
        _exit(9);
    }
    pause_us(300000);
    struct net *net = open_shm(IP_A);
    struct sockaddr_storage at = test_addr(IP_B, PORT);
    for (int round = 0; round < 3; round++) {
        struct seen n = {0};
        assert_int_equal(net_connect(net, NULL, (struct sockaddr *)&at, &n, &n.s), 0);
        assert_true(wait_until(net, got_some, &n, 10000));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        pid = fork();
        if (pid == 0) {
            execl("/proc/self/exe", "test_link_shm", "sender", name, (char *)NULL);
            _exit(9);
        }
        assert_true(wait_until(net, was_closed, &n, 3000));
        net_stream_close(n.s, false);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    net_close(net);
}

/* --- one process --- */

static void test_both_ends_here(void **state)
{
    (void)state;
    net_clock_real();
    struct wire_ends w = {open_shm(IP_A), open_shm(IP_B), 0};
    struct seen l = {0}, n[2] = {{0}};
    struct sockaddr_storage at = test_addr(IP_B, PORT);
    struct stat st;
    assert_int_equal(stat(name, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&at, 4, &l, &l.l), 0);
    n[0] = (struct seen){.to_send = 16u << 20, .piece = 50000};
    assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&at, &n[0], &n[0].s), 0);
    for (int i = 0; i < 1000000 && n[1].received < n[0].to_send; i++) {
        turn_one(w.a);
        turn_one(w.b);
        if (n[1].s == NULL && (n[1].s = net_accept(l.l)) != NULL) {
            net_stream_set_user(n[1].s, &n[1]);
            assert_true(net_emss(n[1].s) > 60000);
        }
    }
    assert_int_equal(n[1].received, n[0].to_send);
    assert_int_equal(n[1].bad, 0);
    net_stream_close(n[0].s, true);
    net_stream_close(n[1].s, true);
    net_listener_close(l.l);
    net_close(w.a);
    net_close(w.b);
    assert_int_not_equal(stat(name, &st), 0);
    errno = 0;
}

/* --- another process in the place of the one before --- */

enum {
    PORT_A = 50001,
    GONE = 60 /* ms: three times as long as the end of a peer may go unnoticed */
};

/* By so many ms at least, and as many turns, however slow the machine is. */
static void turn_both(const struct wire_ends *w, int ms)
{
    for (int i = 0; i < ms; i++) {
        pause_us(1000);
        for (int k = 0; k < 20; k++) {
            turn_one(w->a);
            turn_one(w->b);
        }
    }
}

static int dial(struct net *net, const struct sockaddr_storage *from, const char *to,
                struct seen *n)
{
    struct sockaddr_storage at = test_addr(to, PORT);
    memset(n, 0, sizeof *n);
    return net_connect(net, (const struct sockaddr *)from, (struct sockaddr *)&at, n, &n->s);
}

static struct net_listener *listen_at(struct net *net, const char *ip, struct seen *l)
{
    struct sockaddr_storage at = test_addr(ip, PORT);
    memset(l, 0, sizeof *l);
    assert_int_equal(net_listen(net, (struct sockaddr *)&at, 1, l, &l->l), 0);
    return l->l;
}

static void take(struct seen *l, struct seen *n)
{
    *n = (struct seen){.s = net_accept(l->l)};
    assert_non_null(n->s);
    net_stream_set_user(n->s, n);
}

/* A connection in TIME-WAIT keeps no port from who connects to the next process. */
static void test_other_process(void **state)
{
    (void)state;
    net_clock_real();
    struct wire_ends w = {open_shm(IP_A), open_shm(IP_B), 0};
    struct seen l, n[2];
    struct sockaddr_storage from = test_addr(IP_A, PORT_A);
    listen_at(w.b, IP_B, &l);
    assert_int_equal(dial(w.a, &from, IP_B, &n[0]), 0);
    turn_both(&w, 50);
    take(&l, &n[1]);
    net_stream_close(n[0].s, false); /* first: this end waits */
    turn_both(&w, 20);
    net_stream_close(n[1].s, false);
    turn_both(&w, 20);
    assert_int_equal(dial(w.a, &from, IP_B, &n[0]), -EADDRINUSE);
    net_close(w.b);
    turn_both(&(struct wire_ends){w.a, w.a, 0}, GONE);
    w.b = open_shm(IP_B);
    listen_at(w.b, IP_B, &l);
    assert_int_equal(dial(w.a, &from, IP_B, &n[0]), 0);
    turn_both(&w, GONE);
    assert_int_equal(n[0].events, NET_EV_UP);
    net_close(w.a);
    net_close(w.b);
}

static bool got_fin(void *arg)
{
    const struct seen *n = arg;
    return (n->events & NET_EV_FIN) != 0;
}

/* Leaves its end of a connection open that the other has closed, and half of another, and is killed. */
static void child_dies_half_way(void)
{
    struct net *net = open_shm(IP_B);
    struct seen l, n, out;
    listen_at(net, IP_B, &l);
    if (!wait_until(net, can_accept, &l, 20000)) {
        _exit(2);
    }
    take(&l, &n);
    if (!wait_until(net, got_fin, &n, 20000) || dial(net, NULL, IP_A, &out) != 0) {
        _exit(3);
    }
    raise(SIGKILL); /* the SYN is on its way */
}

static void test_killed_half_way(void **state)
{
    (void)state;
    struct net *net = open_shm(IP_A);
    struct seen l, n;
    struct sockaddr_storage from = test_addr(IP_A, PORT_A);
    int status;
    listen_at(net, IP_A, &l);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "test_link_shm", "half", name, (char *)NULL);
        _exit(9);
    }
    assert_int_equal(dial(net, &from, IP_B, &n), 0);
    assert_true(wait_until(net, has_event, &n, 20000));
    assert_int_equal(n.error, 0);
    net_stream_close(n.s, false);
    net_flush(net);
    for (pid_t gone = 0; gone == 0; turn_one(net)) {
        gone = waitpid(pid, &status, WNOHANG);
    }
    assert_true(WIFSIGNALED(status));
    struct wire_ends w = {net, net, 0};
    turn_both(&w, GONE);
    w.b = open_shm(IP_B);
    turn_both(&w, GONE);
    /* The listener has room for one. That half a connection would keep it for 20 s. */
    assert_int_equal(dial(w.b, NULL, IP_A, &n), 0);
    turn_both(&w, GONE);
    assert_int_equal(n.events, NET_EV_UP);
    net_stream_close(n.s, true);
    assert_int_equal(dial(w.a, &from, IP_B, &n), 0);
    net_close(w.a);
    net_close(w.b);
}

/* Of two threads one sleeps on the link when the other begins a session with the peer that has come. */
static void test_sleeper_hears_of_session(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        struct net *early = open_shm(first == 0 ? IP_A : IP_B), *late;
        turn_both(&(struct wire_ends){early, early, 0}, 30);
        struct net *slow = first == 0 ? early : NULL;
        assert_true(slow == NULL || net_sleep(slow));
        late = open_shm(first == 0 ? IP_B : IP_A);
        if (slow == NULL) {
            slow = late;
            assert_true(net_sleep(slow));
        }
        struct pollfd p = {net_fd(slow), POLLIN, 0};
        for (int i = 0; i < 200; i++) {
            pause_us(1000);
            turn_one(early);
            turn_one(late);
        }
        assert_int_equal(poll(&p, 1, 0), 1);
        net_close(early);
        net_close(late);
    }
}

/* Turns and lies down, as often as it is woken; returns how often it was. */
static int lie_down(struct net *net)
{
    int woken = 0;
    struct pollfd p = {net_fd(net), POLLIN, 0};
    turn_one(net);
    while (woken < 10 && (!net_sleep(net) || poll(&p, 1, 0) > 0)) {
        woken++;
        net_woken(net);
        turn_one(net);
    }
    return woken;
}

/* Who lies down without a word does not wake the other one, who would lie down again, and wake him. */
static void test_sleepers_let_each_other_be(void **state)
{
    (void)state;
    struct net *a = open_shm(IP_A), *b = open_shm(IP_B);
    for (int i = 0; i < 20; i++) { /* what is said at the beginning */
        lie_down(a);
        lie_down(b);
    }
    int woken = 0;
    for (int i = 0; i < 20; i++) {
        woken += lie_down(a) + lie_down(b);
    }
    assert_int_equal(woken, 0);
    net_close(a);
    net_close(b);
}

static void test_stalled_stream_does_not_block(void **state)
{
    (void)state;
    net_clock_real();
    struct wire_ends w = {open_shm(IP_A), open_shm(IP_B), 0};
    struct seen l = {0}, out[2] = {{0}}, in[2] = {{0}};
    struct sockaddr_storage at = test_addr(IP_B, PORT);
    assert_int_equal(net_listen(w.b, (struct sockaddr *)&at, 4, &l, &l.l), 0);
    for (int k = 0; k < 2; k++) {
        out[k] = (struct seen){.to_send = 32u << 20, .piece = 60000};
        in[k].hold = k == 0;
        assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&at, &out[k], &out[k].s), 0);
        for (int i = 0; i < 100000 && in[k].s == NULL; i++) {
            turn_one(w.a);
            turn_one(w.b);
            in[k].s = net_accept(l.l);
        }
        assert_non_null(in[k].s);
        net_stream_set_user(in[k].s, &in[k]);
        for (int i = 0; i < 20000; i++) {
            turn_one(w.a);
            turn_one(w.b);
        }
    }
    assert_int_equal(in[1].received, out[1].to_send);
    assert_int_equal(in[0].received, 0);
    assert_true(net_rx_queued(in[0].s) > 3u << 20);
    for (int k = 0; k < 2; k++) {
        net_stream_close(out[k].s, true);
        net_stream_close(in[k].s, true);
    }
    net_listener_close(l.l);
    net_close(w.a);
    net_close(w.b);
}

static void test_ring_rules(void **state)
{
    (void)state;
    struct shm_way *way = aligned_alloc(4096, sizeof *way);
    memset(way, 0, sizeof *way);
    struct shm_tx tx;
    struct shm_rx rx;
    uint32_t slot, len;
    shm_tx_init(&tx, way);
    shm_rx_init(&rx, way);
    for (uint32_t i = 0; i < 70000u * 3; i++) { /* past the wrap of laps */
        assert_int_equal(shm_tx_slot(&tx, &slot), 1);
        shm_tx_post(&tx, slot, 14 + i % 1000);
        assert_false(shm_signal_due(&rx, &tx));
        if (i < 40) {
            continue; /* keep some in flight */
        }
        assert_int_equal(shm_rx_take(&rx, 65535, &slot, &len), 1);
        assert_int_equal(len, 14 + (i - 40) % 1000);
        shm_rx_return(&rx, slot);
        assert_false(shm_signal_due(&rx, &tx));
    }
    while (shm_tx_slot(&tx, &slot) == 1) {
        shm_tx_post(&tx, slot, 100);
    }
    assert_int_equal(tx.free_count, 0);
    assert_true(shm_sleep(&(struct shm_rx){.way = way, .posts = tx.posts}, &tx, false));
    assert_false(shm_sleep(&rx, &tx, true)); /* frames wait; who was asleep is so still */
    assert_int_equal(atomic_load(&way->sleeping), 1);
    shm_awake(&rx, &tx);
    while (shm_rx_take(&rx, 65535, &slot, &len) == 1) {
    }
    assert_true(shm_sleep(&rx, &tx, true));
    atomic_store(&way->sleeping, 0);
    shm_rx_return(&rx, 5);
    assert_true(shm_signal_due(&rx, &tx)); /* the producer waits for room */
    assert_false(shm_signal_due(&rx, &tx));
    assert_int_equal(shm_tx_slot(&tx, &slot), 1);
    assert_true(shm_sleep(&rx, &tx, false));
    shm_tx_post(&tx, slot, 20);
    assert_true(shm_signal_due(&rx, &tx)); /* the consumer sleeps */
    assert_false(shm_signal_due(&rx, &tx));
    assert_int_equal(shm_rx_take(&rx, 65535, &slot, &len), 1);

    /* Words that no honest peer writes. */
    uint64_t lap = (uint64_t)(uint16_t)(rx.posts / SHM_SLOTS + 1) << 48;
    static const uint64_t bad[] = {
        (uint64_t)64 << 32 | 100, (uint64_t)0xffff << 32 | 100, (uint64_t)6 << 32 | 100 /* held */,
        (uint64_t)5 << 32 | 13,   (uint64_t)5 << 32 | 65536,    (uint64_t)5 << 32 | 0xffffffffu};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        atomic_store(&way->posted[rx.posts % SHM_SLOTS], lap | bad[i]);
        assert_int_equal(shm_rx_take(&rx, 65535, &slot, &len), -EPROTO);
    }
    lap = (uint64_t)(uint16_t)(tx.returns / SHM_SLOTS + 1) << 48;
    atomic_store(&way->returned[tx.returns % SHM_SLOTS], lap | (uint64_t)64 << 32);
    assert_int_equal(shm_tx_slot(&tx, &slot), -EPROTO);
    free(way);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "sender") == 0) {
        snprintf(name, sizeof name, "%s", argv[2]);
        child_sends_for_ever();
    }
    if (argc == 3 && strcmp(argv[1], "half") == 0) {
        snprintf(name, sizeof name, "%s", argv[2]);
        child_dies_half_way();
    }
    char dir[] = "/tmp/uiw-shm-XXXXXX";
    if (mkdtemp(dir) == NULL) {
        return 1;
    }
    snprintf(name, sizeof name, "%s/w", dir);
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_rules),
        cmocka_unit_test(test_both_ends_here),
        cmocka_unit_test(test_stalled_stream_does_not_block),
        cmocka_unit_test(test_sleeper_hears_of_session),
        cmocka_unit_test(test_sleepers_let_each_other_be),
        cmocka_unit_test(test_other_process),
        cmocka_unit_test(test_killed_half_way),
        cmocka_unit_test(test_bulk),
        cmocka_unit_test(test_kill_and_rejoin),
        cmocka_unit_test(test_first_one_dies),
    };
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(name);
    strcat(name, ".lock");
    unlink(name);
    rmdir(dir);
    return r;
}
