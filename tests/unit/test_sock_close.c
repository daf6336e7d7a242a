/* SPDX-License-Identifier: MIT */
/* Streams over the kernel's sockets: lent memory, and all the ways to end. */
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sock_testing.h"

/* --- lending --- */

/* The kernel has so much already that some of what is lent has to wait here. */
static void fill_up(struct seen *n)
{
    uint64_t before;
    do {
        before = n->sent;
        put(n, 4 << 20);
        until(NULL, NULL, 50);
    } while (n->sent - before == 4 << 20 || net_tx_acked(n->s) == net_tx_queued(n->s));
    n->to_send = n->sent;
}

/* The memory goes away while the peer does not read; it sees what was lent all the same. */
static void unlend_case(bool close_it)
{
    connected();
    e.b.hold = true;
    fill_up(&e.a);
    uint8_t *mem = malloc(65536);
    uint64_t at = e.a.sent;
    for (uint32_t i = 0; i < 65536; i++) {
        mem[i] = pattern(at + i);
    }
    uint32_t n = net_tx_room(e.a.s) >= 65536 ? 65536 : 1000;
    if (n == 1000) {
        /* The queue is full to the brim: make some room. */
        uint64_t acked = net_tx_acked(e.a.s);
        e.b.hold = false;
        take_pattern(&e.b);
        while (net_tx_acked(e.a.s) == acked || net_tx_room(e.a.s) < 1000) {
            turn_one(e.net[1]);
            turn_one(e.net[0]);
        }
        e.b.hold = true;
    }
    assert_true(net_tx_lend(e.a.s, mem, n));
    net_flush(e.net[0]);
    if (close_it) {
        net_stream_close(e.a.s, false);
        e.a.s = NULL;
    } else {
        net_tx_unlend(e.a.s, mem + 100, 10);
        net_tx_unlend(e.a.s, mem, 65536);
        net_tx_unlend(e.a.s, NULL, UINT64_MAX);
    }
    memset(mem, 0xee, 65536);
    free(mem);
    e.b.hold = false;
    take_pattern(&e.b);
    receives(&e.b, at + n);
    if (close_it) {
        assert_true(until(saw_fin, &e.b, LONG_MS));
        assert_false(e.b.events & NET_EV_CLOSED);
    }
    end();
}

static void test_unlend(void **state)
{
    (void)state;
    unlend_case(false);
    unlend_case(true);
}

/* --- ends --- */

static void test_shutdown_both_ways(void **state)
{
    (void)state;
    connected();
    put(&e.a, 100000);
    net_shutdown(e.a.s);
    assert_int_equal(net_tx_room(e.a.s), 0);
    assert_null(net_tx_reserve(e.a.s, 1));
    receives(&e.b, 100000);
    assert_true(until(saw_fin, &e.b, LONG_MS));
    a_while();
    assert_false((e.a.events | e.b.events) & NET_EV_CLOSED);
    assert_false(e.a.events & NET_EV_FIN);
    put(&e.b, 100000); /* the other direction lives on */
    receives(&e.a, 100000);
    net_shutdown(e.b.s);
    assert_true(until(was_closed, &e.b, LONG_MS));
    assert_true(until(was_closed, &e.a, LONG_MS));
    assert_true(e.a.events & NET_EV_FIN);
    assert_int_equal(e.a.error, 0);
    assert_int_equal(e.b.error, 0);
    end();
}

static void test_shutdown_at_once(void **state)
{
    (void)state;
    connected();
    put(&e.a, 50000);
    put(&e.b, 50000);
    net_shutdown(e.a.s);
    net_shutdown(e.b.s);
    assert_true(until(was_closed, &e.a, LONG_MS));
    assert_true(until(was_closed, &e.b, LONG_MS));
    assert_int_equal(e.a.received, 50000);
    assert_int_equal(e.b.received, 50000);
    assert_int_equal(e.a.error, 0);
    assert_int_equal(e.b.error, 0);
    end();
}

static void test_abort(void **state)
{
    (void)state;
    connected();
    put(&e.a, 3000);
    e.b.hold = true;
    a_while();
    net_stream_close(e.a.s, true);
    e.a.s = NULL;
    assert_true(until(was_closed, &e.b, LONG_MS));
    assert_int_equal(e.b.error, -ECONNRESET);
    assert_int_equal(net_rx_queued(e.b.s), 3000); /* still readable */
    e.b.hold = false;
    take_pattern(&e.b);
    assert_int_equal(e.b.received, 3000);
    assert_null(net_tx_reserve(e.b.s, 1));
    end();
}

/* The end is seen also by an owner who takes nothing, and by one who is sending. */
static void test_reset_while_stuck(void **state)
{
    (void)state;
    connected();
    e.b.hold = true;
    fill_up(&e.a);
    net_stream_close(e.a.s, true);
    e.a.s = NULL;
    assert_true(until(was_closed, &e.b, LONG_MS));
    assert_int_equal(e.b.error, -ECONNRESET);
    end();
    connected();
    e.b.hold = true;
    fill_up(&e.a);
    net_stream_close(e.b.s, true);
    e.b.s = NULL;
    assert_true(until(was_closed, &e.a, LONG_MS));
    assert_int_equal(e.a.error, -ECONNRESET);
    end();
}

/* What had come before the reset is given, though sending finds out first. */
static void test_reset_seen_by_sending(void **state)
{
    (void)state;
    connected();
    put(&e.a, 3000);
    turn_one(e.net[0]);
    net_stream_close(e.a.s, true);
    e.a.s = NULL;
    net_flush(e.net[0]);
    put(&e.b, 100000);
    net_flush(e.net[1]);
    assert_true(until(was_closed, &e.b, LONG_MS));
    assert_int_equal(e.b.error, -ECONNRESET);
    assert_int_equal(e.b.received, 3000);
    end();
}

static void test_close_delivers(void **state)
{
    (void)state;
    connected();
    e.b.hold = true;
    fill_up(&e.a);
    uint64_t sent = e.a.sent;
    net_stream_close(e.a.s, false);
    e.a.s = NULL;
    a_while();
    e.b.hold = false;
    take_pattern(&e.b);
    receives(&e.b, sent);
    assert_true(until(saw_fin, &e.b, LONG_MS));
    a_while();
    assert_false(e.b.events & NET_EV_CLOSED);
    put(&e.b, 1 << 20); /* the orphan takes and forgets it, and sends no reset */
    net_shutdown(e.b.s);
    assert_true(until(was_closed, &e.b, LONG_MS));
    assert_int_equal(e.b.error, 0);
    end();
}

static void test_close_with_unread_data(void **state)
{
    (void)state;
    connected();
    e.b.hold = true;
    fill_up(&e.a);
    put(&e.b, 100000);
    net_stream_close(e.b.s, false); /* what it has queued is delivered nevertheless */
    e.b.s = NULL;
    receives(&e.a, 100000);
    assert_true(until(saw_fin, &e.a, LONG_MS));
    assert_false(e.a.events & NET_EV_CLOSED);
    end();
}

/* Also when the net itself is closed: the kernel has it. */
static void test_close_net_delivers(void **state)
{
    (void)state;
    connected();
    put(&e.a, 200000);
    net_stream_close(e.a.s, false);
    e.a.s = NULL;
    net_close(e.net[0]);
    e.net[0] = sock_net_with((struct net_cfg){0});
    receives(&e.b, 200000);
    assert_true(until(saw_fin, &e.b, LONG_MS));
    assert_false(e.b.events & NET_EV_CLOSED);
    end();
}

/* Nobody takes what is left: a minute, then a reset. */
static void test_close_gives_up(void **state)
{
    (void)state;
    net_clock_virtual(1000);
    connected();
    e.b.hold = true;
    fill_up(&e.a);
    net_stream_close(e.a.s, false);
    e.a.s = NULL;
    later(59000);
    a_while();
    assert_false(e.b.events & NET_EV_CLOSED);
    later(2000);
    assert_true(until(was_closed, &e.b, LONG_MS));
    assert_int_equal(e.b.error, -ECONNRESET);
    end();
    net_clock_real();
}

/* A peer that reads nothing but lives is waited for, however long it takes. */
static void test_patience(void **state)
{
    (void)state;
    net_clock_virtual(1000);
    connected();
    e.b.hold = true;
    fill_up(&e.a);
    for (int i = 0; i < 100; i++) {
        later(15000);
    }
    assert_false(e.a.events & NET_EV_CLOSED);
    e.b.hold = false;
    take_pattern(&e.b);
    receives(&e.b, e.a.sent);
    for (int i = 0; i < 3; i++) {
        later(15000);
    }
    assert_int_equal(net_timeout_ms(e.net[0]), -1); /* all is delivered: nothing to watch */
    end();
    net_clock_real();
}

/* A child that inherits the sockets lets go of them: the peer is not kept waiting. */
static void test_fork(void **state)
{
    (void)state;
    connected();
    int hold[2], told[2];
    char c = 0;
    assert_int_equal(pipe(hold), 0);
    assert_int_equal(pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(hold[1]);
        net_abandon(e.net[0]);
        net_abandon(e.net[1]);
        _exit(write(told[1], &c, 1) == 1 && read(hold[0], &c, 1) == 0 ? 0 : 1);
    }
    assert_int_equal(read(told[0], &c, 1), 1);
    net_stream_close(e.a.s, false);
    e.a.s = NULL;
    assert_true(until(saw_fin, &e.b, LONG_MS));
    net_listener_close(e.l.l);
    e.l.l = NULL;
    /* Nobody listens any more, also not the child. */
    struct seen again = {0};
    struct sockaddr_storage at;
    net_stream_local(e.b.s, &at);
    assert_int_equal(net_connect(e.net[0], NULL, (struct sockaddr *)&at, &again, &again.s), 0);
    assert_true(until(was_closed, &again, LONG_MS));
    assert_int_equal(again.error, -ECONNREFUSED);
    net_stream_close(again.s, true);
    int status;
    close(hold[0]);
    close(hold[1]);
    close(told[0]);
    close(told[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    end();
}

/* --- many --- */

/* Idle ones hold no buffers; each is as good as the first. */
static void test_many(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    struct rlimit lim;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &lim), 0);
    lim.rlim_cur = lim.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &lim), 0);
    if (lim.rlim_cur < 2 * MANY + 100) {
        skip();
    }
    static struct seen a[MANY], b[MANY];
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    connected();
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < MANY; i++) {
        meet(&a[i], &b[i]);
        put(&a[i], 100);
    }
    for (int i = 0; i < MANY; i++) {
        receives(&b[i], 100);
        put(&b[i], 50);
        turn_one(e.net[1]);
    }
    for (int i = 0; i < MANY; i++) {
        receives(&a[i], 50);
    }
    size_t each = (mallinfo2().uordblks - before) / (2 * MANY);
    print_message("  %zu octets for an idle stream\n", each);
#ifndef __SANITIZE_ADDRESS__
    assert_true(each < 1024 + 1024); /* the buffers in stock included */
#endif
    for (int i = 0; i < MANY; i++) {
        net_stream_close(a[i].s, i % 2 == 0);
        net_stream_close(b[i].s, i % 3 == 0);
    }
    end();
}

int main(void)
{
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unlend),
        cmocka_unit_test(test_shutdown_both_ways),
        cmocka_unit_test(test_shutdown_at_once),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_reset_while_stuck),
        cmocka_unit_test(test_reset_seen_by_sending),
        cmocka_unit_test(test_close_delivers),
        cmocka_unit_test(test_close_with_unread_data),
        cmocka_unit_test(test_close_net_delivers),
        cmocka_unit_test(test_close_gives_up),
        cmocka_unit_test(test_patience),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
