/* SPDX-License-Identifier: MIT */
/* Wake-ups that must not be lost: who sleeps hears of all that others leave behind. Real time, several
 * threads. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/qp.h"

static void must(int err, const char *what)
{
    if (err < 0) {
        fprintf(stderr, "%s: %d: %s\n", what, err, uiw_error());
        abort();
    }
}

/* --- posting beside the one who takes what is posted --- */

enum { DEPTH = 16, LOOKS = 2000, POST_MS = 1500 };

static struct uiw_device *dev; /* its loop is looked into */
static atomic_bool over;
static atomic_ulong looks;

/* Has the lock most of the time, so that posters have to rely on him. */
static void *take_what_is_posted(void *arg)
{
    struct loop *l = dev->loop;
    while (!atomic_load(&over)) {
        loop_lock(l);
        for (int i = 0; i < LOOKS; i++) {
            loop_take_posted(l);
            atomic_store_explicit(&looks, atomic_load_explicit(&looks, memory_order_relaxed) + 1,
                                  memory_order_relaxed);
        }
        loop_unlock(l);
    }
    return arg;
}

/* Two requests so close together that the second may be posted while the first is being taken. The QP is in
 * error: what is taken completes. */
static bool both_complete(struct uiw_qp *qp, struct uiw_cq *cq, unsigned apart)
{
    struct uiw_send_wr wr = {.opcode = UIW_WR_SEND};
    struct uiw_wc wc[DEPTH];
    must(uiw_qp_post_send(qp, &wr, NULL), "post");
    for (volatile unsigned k = apart; k > 0; k--) {
    }
    must(uiw_qp_post_send(qp, &wr, NULL), "post");
    unsigned long since = atomic_load(&looks);
    for (int done = 0; done < 2; done += uiw_cq_poll(cq, DEPTH, wc)) {
        if (done < 2 && atomic_load(&looks) - since > 3 * LOOKS) {
            return uiw_cq_poll(cq, DEPTH, wc) == 2 - done;
        }
    }
    return true;
}

static void test_posts_are_not_lost(void **state)
{
    (void)state;
    struct uiw_pd *pd;
    struct uiw_cq *cq;
    struct uiw_qp *qp;
    pthread_t taker;
    must(uiw_device_open("pair:wake,ip=198.18.0.1/24,progress=polled", &dev), "device");
    must(uiw_pd_create(dev, &pd), "PD");
    must(uiw_cq_create(dev, DEPTH, NULL, NULL, &cq), "CQ");
    struct uiw_qp_attr attr = {.send_cq = cq, .recv_cq = cq, .max_send_wr = DEPTH};
    must(uiw_qp_create(pd, &attr, &qp), "QP");
    must(uiw_qp_error(qp), "error");
    assert_int_equal(pthread_create(&taker, NULL, take_what_is_posted, NULL), 0);
    unsigned lost = 0, rounds = 0;
    for (uint64_t until = net_now_ms() + POST_MS; net_now_ms() < until; rounds++) {
        lost += !both_complete(qp, cq, rounds % 64);
    }
    atomic_store(&over, true);
    pthread_join(taker, NULL);
    print_message("%u rounds, %u lost\n", rounds, lost);
    assert_int_equal(lost, 0);
    must(uiw_qp_destroy(qp), "QP");
    must(uiw_cq_destroy(cq), "CQ");
    must(uiw_pd_destroy(pd), "PD");
    must(uiw_device_close(dev), "device");
}

/* --- two ends, each with a loop and a thread of its own --- */

enum { RECVS = 64, SOON_MS = 2000, LONG_MS = 10000 };

struct end {
    struct uiw_device *dev;
    bool shares; /* the other end's device */
    struct uiw_pd *pd;
    struct uiw_comp_channel *comps;
    struct uiw_cq *cq;
    struct uiw_event_channel *ch;
    struct uiw_listener *listener;
    struct uiw_qp *qp;
    struct uiw_conn *conn;
};

static void pause_ms(unsigned ms)
{
    poll(NULL, 0, (int)ms);
}

static void end_open_on(struct end *e, struct uiw_device *on)
{
    *e = (struct end){.dev = on, .shares = true};
    must(uiw_pd_create(e->dev, &e->pd), "PD");
    must(uiw_comp_channel_create(e->dev, &e->comps), "completion channel");
    must(uiw_cq_create(e->dev, 2 * RECVS, e->comps, NULL, &e->cq), "CQ");
    must(uiw_event_channel_create(e->dev, &e->ch), "channel");
    struct uiw_qp_attr attr = {
        .send_cq = e->cq, .recv_cq = e->cq, .max_send_wr = RECVS, .max_recv_wr = RECVS};
    must(uiw_qp_create(e->pd, &attr, &e->qp), "QP");
}

static void end_open(struct end *e, const char *spec)
{
    struct uiw_device *fresh;
    must(uiw_device_open(spec, &fresh), spec);
    end_open_on(e, fresh);
    e->shares = false;
}

static void end_close(struct end *e)
{
    if (e->conn != NULL) {
        must(uiw_conn_destroy(e->conn), "connection");
    }
    must(uiw_qp_destroy(e->qp), "QP");
    if (e->listener != NULL) {
        must(uiw_listener_destroy(e->listener), "listener");
    }
    must(uiw_event_channel_destroy(e->ch), "channel");
    must(uiw_cq_destroy(e->cq), "CQ");
    must(uiw_comp_channel_destroy(e->comps), "completion channel");
    must(uiw_pd_destroy(e->pd), "PD");
    if (!e->shares) {
        must(uiw_device_close(e->dev), "device");
    }
}

static struct uiw_event wait_for(struct end *e, enum uiw_event_type type)
{
    struct uiw_event ev;
    must(uiw_event_get(e->ch, &ev), "event");
    if (ev.type != type) {
        fail_msg("%s: %s", uiw_event_type_text(ev.type), ev.text);
    }
    return ev;
}

static void post_recv(struct end *e)
{
    struct uiw_recv_wr wr = {.wr_id = 0};
    must(uiw_qp_post_recv(e->qp, &wr, NULL), "receive");
}

static void post_send(struct end *e, unsigned n)
{
    struct uiw_send_wr wr = {.opcode = UIW_WR_SEND};
    for (unsigned i = 0; i < n; i++) {
        must(uiw_qp_post_send(e->qp, &wr, NULL), "send");
    }
}

static void meet(struct end *from, struct end *to)
{
    struct sockaddr_in any = {.sin_family = AF_INET};
    struct sockaddr_storage at;
    must(uiw_listen(to->ch, (struct sockaddr *)&any, 1, NULL, &to->listener), "listen");
    must(uiw_listener_addr(to->listener, &at), "address");
    for (int i = 0; i < RECVS; i++) {
        post_recv(to);
    }
    must(uiw_connect(from->ch, from->qp, (struct sockaddr *)&at, NULL, &from->conn), "connect");
    to->conn = wait_for(to, UIW_EVENT_CONNECT_REQUEST).conn;
    must(uiw_accept(to->conn, to->qp, NULL), "accept");
    wait_for(to, UIW_EVENT_ESTABLISHED);
    wait_for(from, UIW_EVENT_ESTABLISHED);
}

/* Sends of the peer; looks in the CQ, without a turn of the loop. */
static bool arrived(struct end *e, unsigned n, int within_ms)
{
    struct uiw_wc wc[RECVS];
    for (uint64_t until = net_now_ms() + (uint64_t)within_ms; n > 0;) {
        if (ring_count(&e->cq->ring) == 0) {
            if (e->dev->spec.progress == UIW_POLLED) {
                uiw_progress(e->dev, 0);
            }
            if (net_now_ms() >= until) {
                return false;
            }
            pause_ms(1);
            continue;
        }
        int got = uiw_cq_poll(e->cq, (int)n, wc);
        must(got, "poll");
        for (int i = 0; i < got; i++) {
            assert_int_equal(wc[i].status, UIW_WC_SUCCESS);
            post_recv(e);
        }
        n -= (unsigned)got;
    }
    return true;
}

/* --- a thread that keeps away leaves alone what is meant for those who sleep --- */

static void *wait_for_the_end(void *arg)
{
    wait_for(arg, UIW_EVENT_DISCONNECTED);
    return NULL;
}

static bool keeps_far_away(struct loop *l)
{
    for (int i = 0; i < LONG_MS; i++) {
        int away = atomic_load(&l->away);
        if (away == LOOP_HERE) {
            loop_wake(l); /* it may sleep on the links still */
        }
        pause_ms(1);
        if (away == LOOP_FAR) {
            return true; /* and asleep by now */
        }
    }
    return false;
}

static bool is_readable(int fd, int within_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, within_ms) == 1;
}

/* The token of a wake-up is there until a sleeper takes it. This one is slow. */
static void test_who_keeps_away_takes_no_wake_up(void **state)
{
    (void)state;
    struct end a;
    uint64_t count;
    end_open(&a, "sock:127.0.0.1");
    struct loop *l = a.dev->loop;
    atomic_fetch_add(&l->drivers, 1);
    assert_true(keeps_far_away(l));
    atomic_fetch_add(&l->sleepers, 1);
    loop_wake(l);
    for (int i = 0; i < 20; i++) {
        pause_ms(1);
        assert_true(is_readable(l->wake_fd, 0));
    }
    assert_int_equal(read(l->wake_fd, &count, sizeof count), sizeof count);
    atomic_fetch_sub(&l->sleepers, 1);
    atomic_fetch_sub(&l->drivers, 1);
    loop_rouse(l);
    end_close(&a);
}

/* One thread waits in a call, so that the progress thread has gone far away. Another posts more than goes out at
 * once: the waiting one is woken to see to the rest. */
static void test_who_waits_hears_of_posts(void **state)
{
    (void)state;
    enum { ROUNDS = 20, MANY = 8 };
    struct end a, b;
    pthread_t waiter;
    end_open(&a, "sock:127.0.0.1");
    end_open(&b, "sock:127.0.0.1");
    meet(&a, &b);
    assert_int_equal(pthread_create(&waiter, NULL, wait_for_the_end, &a), 0);
    for (int i = 0; i < ROUNDS; i++) {
        assert_true(keeps_far_away(a.dev->loop));
        post_send(&a, MANY);
        assert_true(arrived(&b, MANY, SOON_MS));
    }
    must(uiw_disconnect(b.conn), "disconnect");
    pthread_join(waiter, NULL);
    end_close(&a);
    end_close(&b);
}

/* --- who sleeps hears of what another's call has brought about --- */

static bool is_asleep(struct loop *l)
{
    for (int i = 0; i < LONG_MS && atomic_load(&l->sleepers) == 0; i++) {
        pause_ms(1);
    }
    pause_ms(1);
    return atomic_load(&l->sleepers) > 0;
}

/* A connection of a device to itself: what is sent is on no link, and no descriptor tells of it. */
static void test_sleeper_hears_of_own_frames(void **state)
{
    (void)state;
    struct end a, b;
    char spec[80];
    snprintf(spec, sizeof spec, "shm:/uiw-wake-%d,ip=198.18.0.1/24,progress=polled", (int)getpid());
    end_open(&a, spec);
    end_open_on(&b, a.dev);
    meet(&a, &b);
    struct loop *l = a.dev->loop;
    while (uiw_progress(a.dev, 0) > 0) {
    }
    /* It wakes soon, so that no timer is what it has to wake for. */
    struct sleeper s = {.until = net_now_ms()};
    loop_lock(l);
    list_append(&l->asleep, &s.node);
    atomic_fetch_add(&l->sleepers, 1);
    pthread_mutex_unlock(&l->lock);
    struct uiw_wc wc;
    assert_int_equal(uiw_cq_poll(b.cq, 1, &wc), 0);
    assert_false(is_readable(l->wake_fd, 0)); /* nothing was to be done */
    post_send(&a, 1);
    assert_true(is_readable(l->wake_fd, 0));
    loop_lock(l);
    list_remove(&s.node);
    atomic_fetch_sub(&l->sleepers, 1);
    loop_unlock(l);
    assert_true(arrived(&b, 1, SOON_MS));
    end_close(&b);
    end_close(&a);
}

/* The peer by hand: it answers the Request, and nothing else. */
static int hand_made_peer(struct end *e)
{
    static const uint8_t reply[20] = "MPA ID Rep Frame\0\1\0";
    uint8_t request[20];
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof any;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&any, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&any, &len), 0);
    must(uiw_connect(e->ch, e->qp, (struct sockaddr *)&any, NULL, &e->conn), "connect");
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    close(listener);
    assert_int_equal(recv(fd, request, sizeof request, MSG_WAITALL), sizeof request);
    assert_int_equal(send(fd, reply, sizeof reply, 0), sizeof reply);
    wait_for(e, UIW_EVENT_ESTABLISHED);
    return fd;
}

/* What is posted sets a timer (conn_nudge()) for which the thread, asleep for as long as it may, has to wake. */
static void test_sleeper_hears_of_timers(void **state)
{
    (void)state;
    struct end a;
    uint8_t octets[256];
    end_open(&a, "sock:127.0.0.1,rev=1,crc=off");
    int peer = hand_made_peer(&a);
    pause_ms(20); /* until it does not keep away any more */
    assert_true(is_asleep(a.dev->loop));
    post_send(&a, 1);
    assert_true(is_readable(peer, LONG_MS));
    assert_true(recv(peer, octets, sizeof octets, 0) > 0);
    assert_true(is_readable(peer, SOON_MS));
    close(peer);
    end_close(&a);
}

/* --- a polled device in a poll() of the program --- */

static void nonblock(int fd)
{
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
}

/* Waits until that descriptor of the device is readable, and then for nothing but the device's. */
static bool wait_outside(struct end *e, int fd, uint64_t within_ms)
{
    uint64_t until = net_now_ms() + within_ms;
    for (;;) {
        while (uiw_progress(e->dev, 0) > 0) {
        }
        if (is_readable(fd, 0)) {
            return true;
        }
        uint64_t now = net_now_ms();
        if (now >= until || !is_readable(uiw_device_fd(e->dev), (int)(until - now))) {
            return false;
        }
    }
}

static void test_timers_are_told_outside(void **state)
{
    (void)state;
    struct end a;
    struct uiw_event ev;
    struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_port = htons(7174)};
    char spec[80];
    snprintf(spec, sizeof spec, "shm:/uiw-wake-%d,ip=198.18.0.1/24,setup=1,progress=polled",
             (int)getpid());
    end_open(&a, spec);
    nonblock(uiw_event_channel_fd(a.ch));
    inet_pton(AF_INET, "198.18.0.2", &nobody.sin_addr);
    must(uiw_connect(a.ch, a.qp, (struct sockaddr *)&nobody, NULL, &a.conn), "connect");
    assert_true(wait_outside(&a, uiw_event_channel_fd(a.ch), LONG_MS));
    assert_int_equal(uiw_event_get(a.ch, &ev), 0);
    assert_int_equal(ev.type, UIW_EVENT_CONNECT_ERROR);
    end_close(&a);
}

/* How often the device has something to do of itself. */
static unsigned turns_outside(struct end *e, uint64_t within_ms)
{
    uint64_t until = net_now_ms() + within_ms, now;
    unsigned n = 0;
    while ((now = net_now_ms()) < until) {
        n += is_readable(uiw_device_fd(e->dev), (int)(until - now));
        while (uiw_progress(e->dev, 0) > 0) {
        }
    }
    return n;
}

/* The other process: sends back what comes, with a thread of its own. */
static int send_back(const char *spec)
{
    struct end b;
    struct uiw_event ev;
    end_open(&b, spec);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(7174)};
    must(uiw_listen(b.ch, (struct sockaddr *)&any, 1, NULL, &b.listener), "listen");
    for (int i = 0; i < RECVS; i++) {
        post_recv(&b);
    }
    must(uiw_event_get(b.ch, &ev), "event");
    must(uiw_accept(b.conn = ev.conn, b.qp, NULL), "accept");
    must(uiw_event_get(b.ch, &ev), "event");
    nonblock(uiw_event_channel_fd(b.ch));
    while (uiw_event_get(b.ch, &ev) != 0) {
        struct uiw_wc wc;
        if (uiw_cq_poll(b.cq, 1, &wc) == 1 && wc.opcode == UIW_WC_RECV) {
            post_recv(&b);
            must(uiw_qp_post_send(b.qp, &(struct uiw_send_wr){.opcode = UIW_WR_SEND}, NULL),
                 "send");
        }
    }
    end_close(&b);
    return 0;
}

static void test_frames_are_told_outside(void **state)
{
    (void)state;
    enum { ROUNDS = 100, QUIET_MS = 200 };
    struct end a;
    struct uiw_event ev;
    struct uiw_wc wc[2];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(7174)};
    char mine[100], other[100];
    int status;
    snprintf(mine, sizeof mine, "shm:/uiw-wake-%d,ip=198.18.0.1/24,progress=polled", (int)getpid());
    snprintf(other, sizeof other, "shm:/uiw-wake-%d,ip=198.18.0.2/24", (int)getpid());
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/proc/self/exe", "test_wake", other, (char *)NULL);
        _exit(9);
    }
    end_open(&a, mine);
    int ch = uiw_event_channel_fd(a.ch), comps = uiw_comp_channel_fd(a.comps);
    nonblock(ch);
    nonblock(comps);
    inet_pton(AF_INET, "198.18.0.2", &to.sin_addr);
    do { /* the other one may not listen yet */
        if (a.conn != NULL) {
            end_close(&a);
            end_open(&a, mine);
            ch = uiw_event_channel_fd(a.ch);
            comps = uiw_comp_channel_fd(a.comps);
            nonblock(ch);
            nonblock(comps);
        }
        must(uiw_connect(a.ch, a.qp, (struct sockaddr *)&to, NULL, &a.conn), "connect");
        assert_true(wait_outside(&a, ch, LONG_MS));
        assert_int_equal(uiw_event_get(a.ch, &ev), 0);
    } while (ev.type != UIW_EVENT_ESTABLISHED);
    for (int i = 0; i < ROUNDS; i++) {
        struct uiw_cq *cq;
        void *user;
        post_recv(&a);
        must(uiw_cq_arm(a.cq, false), "arm");
        post_send(&a, 1);
        assert_true(wait_outside(&a, comps, LONG_MS));
        assert_int_equal(uiw_comp_channel_get(a.comps, &cq, &user), 0);
        assert_true(uiw_cq_poll(a.cq, 2, wc) >= 0);
    }
    assert_in_range(turns_outside(&a, QUIET_MS), 0,
                    QUIET_MS / 2); /* timers: there is nothing else */
    must(uiw_disconnect(a.conn), "disconnect");
    assert_true(wait_outside(&a, ch, LONG_MS));
    end_close(&a);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        return send_back(argv[1]);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_posts_are_not_lost),
        cmocka_unit_test(test_who_keeps_away_takes_no_wake_up),
        cmocka_unit_test(test_who_waits_hears_of_posts),
        cmocka_unit_test(test_sleeper_hears_of_own_frames),
        cmocka_unit_test(test_sleeper_hears_of_timers),
        cmocka_unit_test(test_timers_are_told_outside),
        cmocka_unit_test(test_frames_are_told_outside),
    };
    cmocka_set_test_filter(getenv("UIW_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
