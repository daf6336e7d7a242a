/* SPDX-License-Identifier: MIT */
/* The progress thread, blocking channels, several program threads on one QP: real time, run under
 * TSan as well. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/uiw.h"
#include "base/base.h"

enum { PORT = 7174, ROUNDS = 2000, BUF = 4096 };

/* The wire: in memory, or the kernel's sockets, where each device has a loop and thread of its own. */
static bool on_sockets;
static struct sockaddr_in server; /* where the listener is */

/* One end: everything of its own, in a thread of its own. */
struct end {
    struct uiw_device *dev;
    struct uiw_pd *pd;
    struct uiw_comp_channel *comp;
    struct uiw_cq *cq;
    struct uiw_event_channel *ch;
    struct uiw_listener *listener;
    struct uiw_qp *qp;
    struct uiw_conn *conn;
    struct uiw_mr *mr;
    uint8_t buf[2][BUF];
    bool listens;
    unsigned rounds;
};

/* cmocka's asserts belong to the main thread. */
static void must(int err, const char *what)
{
    if (err < 0) {
        fprintf(stderr, "%s: %d: %s\n", what, err, uiw_error());
        abort();
    }
}

static void end_open(struct end *e, int host, const char *keys)
{
    char spec[160];
    if (on_sockets) {
        snprintf(spec, sizeof spec, "sock:127.0.0.1%s", keys);
    } else {
        snprintf(spec, sizeof spec, "pair:threads,ip=198.18.0.%d/24%s", host, keys);
    }
    memset(e, 0, sizeof *e);
    must(uiw_device_open(spec, &e->dev), spec);
    must(uiw_pd_create(e->dev, &e->pd), "pd");
    must(uiw_comp_channel_create(e->dev, &e->comp), "comp channel");
    must(uiw_cq_create(e->dev, 1024, e->comp, e, &e->cq), "cq");
    must(uiw_event_channel_create(e->dev, &e->ch), "channel");
    must(uiw_mr_reg(e->pd, e->buf, sizeof e->buf, UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE,
                    &e->mr),
         "mr");
}

static void end_qp(struct end *e)
{
    struct uiw_qp_attr attr = {.send_cq = e->cq,
                               .recv_cq = e->cq,
                               .max_send_wr = 64,
                               .max_recv_wr = 128,
                               .max_send_sge = 1,
                               .max_recv_sge = 1,
                               .max_inline = 64};
    must(uiw_qp_create(e->pd, &attr, &e->qp), "qp");
}

static void end_close(struct end *e)
{
    if (e->conn != NULL) {
        must(uiw_conn_destroy(e->conn), "conn");
    }
    if (e->qp != NULL) {
        must(uiw_qp_destroy(e->qp), "qp");
    }
    if (e->listener != NULL) {
        must(uiw_listener_destroy(e->listener), "listener");
    }
    must(uiw_mr_dereg(e->mr), "mr");
    must(uiw_event_channel_destroy(e->ch), "channel");
    must(uiw_cq_destroy(e->cq), "cq");
    must(uiw_comp_channel_destroy(e->comp), "comp channel");
    must(uiw_pd_destroy(e->pd), "pd");
    must(uiw_device_close(e->dev), "device");
}

static void end_listen(struct end *e)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(on_sockets ? 0 : PORT)};
    struct sockaddr_storage at;
    must(uiw_listen(e->ch, (struct sockaddr *)&any, 16, NULL, &e->listener), "listen");
    must(uiw_listener_addr(e->listener, &at), "listener");
    memcpy(&server, &at, sizeof server);
    e->listens = true;
}

static void wait_event(struct end *e, enum uiw_event_type type)
{
    struct uiw_event ev;
    do {
        must(uiw_event_get(e->ch, &ev), "event");
        if (ev.type == UIW_EVENT_CONNECT_REQUEST) {
            e->conn = ev.conn;
        } else if (ev.type != type) {
            fprintf(stderr, "unexpected event: %s: %s\n", uiw_event_type_text(ev.type), ev.text);
            abort();
        }
    } while (ev.type != type);
}

static void end_meet(struct end *e)
{
    if (e->listens) {
        wait_event(e, UIW_EVENT_CONNECT_REQUEST);
        must(uiw_accept(e->conn, e->qp, NULL), "accept");
    } else {
        must(uiw_connect(e->ch, e->qp, (struct sockaddr *)&server, NULL, &e->conn), "connect");
    }
    wait_event(e, UIW_EVENT_ESTABLISHED);
}

static void post_recv(struct end *e)
{
    struct uiw_sge sge = {(uint64_t)(uintptr_t)e->buf[1], BUF, uiw_mr_lkey(e->mr)};
    struct uiw_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
    must(uiw_qp_post_recv(e->qp, &wr, NULL), "post_recv");
}

static int post_send(struct end *e, uint64_t id, uint32_t len, unsigned flags)
{
    struct uiw_sge sge = {(uint64_t)(uintptr_t)e->buf[0], len, uiw_mr_lkey(e->mr)};
    struct uiw_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .flags = flags};
    return uiw_qp_post_send(e->qp, &wr, NULL);
}

/* Sleeps in the channel until a receive has completed. */
static uint32_t wait_recv(struct end *e)
{
    struct uiw_wc wc;
    struct uiw_cq *cq;
    void *user;
    for (;;) {
        while (uiw_cq_poll(e->cq, 1, &wc) == 1) {
            if (wc.status != UIW_WC_SUCCESS) {
                fprintf(stderr, "completion: %s\n", uiw_wc_status_text(wc.status));
                abort();
            }
            if (wc.opcode == UIW_WC_RECV) {
                return wc.byte_len;
            }
        }
        must(uiw_cq_arm(e->cq, false), "arm");
        if (uiw_cq_poll(e->cq, 1, &wc) == 1) {
            if (wc.opcode == UIW_WC_RECV) {
                return wc.byte_len;
            }
            continue;
        }
        must(uiw_comp_channel_get(e->comp, &cq, &user), "comp event");
        if (cq != e->cq || user != e) {
            abort();
        }
    }
}

static void *ping_pong(void *arg)
{
    struct end *e = arg;
    for (int i = 0; i < 4; i++) {
        post_recv(e);
    }
    end_meet(e);
    for (unsigned i = 0; i < e->rounds; i++) {
        uint32_t len = i % BUF + 1;
        if (!e->listens) {
            must(post_send(e, i, len, i % 8 == 7 ? UIW_SEND_SIGNALED : 0), "send");
        }
        if (wait_recv(e) != len) {
            abort();
        }
        post_recv(e);
        if (e->listens) {
            must(post_send(e, i, len, i % 8 == 7 ? UIW_SEND_SIGNALED : 0), "send");
        }
    }
    if (!e->listens) {
        must(uiw_disconnect(e->conn), "disconnect");
    }
    wait_event(e, UIW_EVENT_DISCONNECTED);
    return NULL;
}

static void both(struct end *a, struct end *b, void *(*run)(void *))
{
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, run, b), 0);
    run(a);
    assert_int_equal(pthread_join(t, NULL), 0);
}

static void ping_pong_with(const char *keys)
{
    static struct end a, b;
    end_open(&a, 1, keys);
    end_open(&b, 2, keys);
    a.rounds = b.rounds = ROUNDS;
    end_qp(&a);
    end_qp(&b);
    end_listen(&b);
    both(&a, &b, ping_pong);
    end_close(&a);
    end_close(&b);
}

static void test_blocking_ping_pong(void **state)
{
    (void)state;
    ping_pong_with("");
}

static void test_polled_ping_pong(void **state)
{
    (void)state;
    ping_pong_with(",progress=polled");
}

/* --- several threads post, one polls (bugs C08) --- */

static atomic_uint posted;

static void *poster(void *arg)
{
    struct end *e = arg;
    for (unsigned i = 0; i < 20000; i++) {
        while (post_send(e, i, 8, UIW_SEND_SIGNALED | UIW_SEND_INLINE) == -ENOMEM) {
            sched_yield();
        }
        atomic_fetch_add(&posted, 1);
    }
    return NULL;
}

static unsigned drain(struct end *e, bool repost)
{
    struct uiw_wc wc[16];
    int n = uiw_cq_poll(e->cq, 16, wc);
    must(n, "poll");
    for (int i = 0; i < n; i++) {
        if (wc[i].status != UIW_WC_SUCCESS) {
            abort();
        }
        if (repost) {
            post_recv(e);
        }
    }
    return (unsigned)n;
}

static void *meet(void *arg)
{
    end_meet(arg);
    return NULL;
}

static void test_many_threads_one_qp(void **state)
{
    (void)state;
    static struct end a, b;
    pthread_t t[2];
    const char *keys = ",rnr=30";
    end_open(&a, 1, keys);
    end_open(&b, 2, keys);
    end_qp(&a);
    end_qp(&b);
    end_listen(&b);
    for (int i = 0; i < 100; i++) {
        post_recv(&b);
    }
    both(&a, &b, meet);
    atomic_store(&posted, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&t[i], NULL, poster, &a), 0);
    }
    unsigned sent = 0, got = 0;
    while (sent < 40000 || got < 40000) {
        sent += drain(&a, false);
        got += drain(&b, true);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], NULL);
    }
    assert_int_equal(sent, atomic_load(&posted));
    assert_int_equal(got, sent);
    end_close(&a);
    end_close(&b);
}

/* --- large requests: lent, and complete by themselves --- */

/* Both threads are asleep between the Writes, and nothing comes back from the peer. */
static void lent_with(const char *keys)
{
    enum { LARGE = 1 << 20 };
    static struct end a, b;
    end_open(&a, 1, keys);
    end_open(&b, 2, keys);
    end_qp(&a);
    end_qp(&b);
    end_listen(&b);
    both(&a, &b, meet);
    uint8_t *from = malloc(LARGE), *to = calloc(1, LARGE);
    struct uiw_mr *mr[2];
    memset(from, 0x5a, LARGE);
    must(uiw_mr_reg(a.pd, from, LARGE, 0, &mr[0]), "mr");
    must(uiw_mr_reg(b.pd, to, LARGE, UIW_ACCESS_LOCAL_WRITE | UIW_ACCESS_REMOTE_WRITE, &mr[1]),
         "mr");
    struct uiw_sge sge = {(uint64_t)(uintptr_t)from, LARGE, uiw_mr_lkey(mr[0])};
    struct uiw_send_wr wr = {.opcode = UIW_WR_RDMA_WRITE,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .remote_addr = uiw_mr_addr(mr[1]),
                             .rkey = uiw_mr_rkey(mr[1]),
                             .flags = UIW_SEND_SIGNALED};
    for (unsigned i = 0; i < 100; i++) {
        struct uiw_wc wc;
        struct uiw_cq *cq;
        usleep(500);
        must(uiw_cq_arm(a.cq, false), "arm");
        must(uiw_qp_post_send(a.qp, &wr, NULL), "write");
        must(uiw_comp_channel_get(a.comp, &cq, NULL), "comp event");
        while (uiw_cq_poll(a.cq, 1, &wc) != 1) {
        }
        assert_int_equal(wc.status, UIW_WC_SUCCESS);
    }
    post_recv(&b);
    must(post_send(&a, 1, 100, 0), "send");
    assert_int_equal(wait_recv(&b), 100);
    assert_memory_equal(from, to, LARGE);
    must(uiw_mr_dereg(mr[0]), "mr");
    must(uiw_mr_dereg(mr[1]), "mr");
    end_close(&a);
    end_close(&b);
    free(from);
    free(to);
}

static void test_lent_writes(void **state)
{
    (void)state;
    lent_with("");
}

/* --- connections that end at any moment (bugs F08) --- */

/* Over sockets the next request may come before the end of the last connection. */
static struct {
    struct uiw_conn *conn;
    struct uiw_qp *qp;
} served[64];

static size_t served_at(const struct uiw_conn *conn)
{
    size_t i = 0;
    while (served[i].conn != conn) {
        if (++i == ARRAY_LEN(served)) {
            abort();
        }
    }
    return i;
}

static void serve_end(size_t i)
{
    must(uiw_qp_destroy(served[i].qp), "qp");
    must(uiw_conn_destroy(served[i].conn), "conn");
    memset(&served[i], 0, sizeof served[i]);
}

static void *serve_churn(void *arg)
{
    struct end *e = arg;
    struct uiw_event ev;
    memset(served, 0, sizeof served);
    for (;;) {
        must(uiw_event_get(e->ch, &ev), "event");
        if (ev.type == UIW_EVENT_CONNECT_REQUEST) {
            if (ev.private_len > 0 && ev.private_data[0] == 'x') {
                uiw_reject(ev.conn, NULL, 0);
                uiw_conn_destroy(ev.conn);
                break;
            }
            end_qp(e);
            size_t i = served_at(NULL);
            served[i].conn = ev.conn;
            served[i].qp = e->qp;
            if (uiw_accept(ev.conn, e->qp, NULL) == 0) {
                post_recv(e);
                post_send(e, 1, 100, 0);
            }
        } else if (ev.type == UIW_EVENT_DISCONNECTED || ev.type == UIW_EVENT_CONNECT_ERROR) {
            serve_end(served_at(ev.conn));
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(served); i++) {
        if (served[i].conn != NULL) {
            serve_end(i);
        }
    }
    e->qp = NULL;
    return NULL;
}

static void *churn(void *arg)
{
    struct end *e = arg;
    unsigned seed = 7;
    for (unsigned i = 0; i < e->rounds; i++) {
        struct uiw_conn_param p = {0};
        if (i + 1 == e->rounds) {
            p.private_data = "x";
            p.private_len = 1;
        }
        end_qp(e);
        post_recv(e);
        must(uiw_connect(e->ch, e->qp, (struct sockaddr *)&server, &p, &e->conn), "connect");
        post_send(e, 1, 3000, UIW_SEND_SIGNALED);
        usleep((unsigned)rand_r(&seed) % 1500);
        if (i + 1 == e->rounds) {
            struct uiw_event ev;
            must(uiw_event_get(e->ch, &ev), "event");
        }
        if (rand_r(&seed) % 2 == 0) {
            uiw_qp_destroy(e->qp);
            uiw_conn_destroy(e->conn);
        } else {
            uiw_conn_destroy(e->conn);
            uiw_qp_destroy(e->qp);
        }
        e->qp = NULL;
        e->conn = NULL;
    }
    return NULL;
}

static void *churn_pick(void *arg)
{
    return ((struct end *)arg)->listens ? serve_churn(arg) : churn(arg);
}

static void test_connection_churn(void **state)
{
    (void)state;
    static struct end a, b;
    end_open(&a, 1, "");
    end_open(&b, 2, "");
    a.rounds = 400;
    end_listen(&b);
    both(&a, &b, churn_pick);
    end_close(&a);
    end_close(&b);
}

/* A child has nothing of the device, and the parent is not hurt by what it does. */
static void test_fork(void **state)
{
    (void)state;
    static struct end a, b;
    end_open(&a, 1, "");
    end_open(&b, 2, "");
    end_qp(&a);
    end_qp(&b);
    end_listen(&b);
    both(&a, &b, meet);
    pid_t pid = fork();
    if (pid == 0) {
        struct sockaddr_in any = {.sin_family = AF_INET};
        struct uiw_listener *l;
        bool ok = post_send(&a, 1, 8, 0) == -ENODEV &&
                  uiw_listen(a.ch, (struct sockaddr *)&any, 1, NULL, &l) == -ENODEV;
        end_close(&a);
        end_close(&b);
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    post_recv(&b);
    must(post_send(&a, 1, 100, 0), "send");
    assert_int_equal(wait_recv(&b), 100);
    end_close(&a);
    end_close(&b);
}

#ifndef __SANITIZE_THREAD__
static void *block_for_ever(void *arg)
{
    struct end *e = arg;
    struct uiw_cq *cq;
    must(uiw_cq_arm(e->cq, false), "arm");
    uiw_comp_channel_get(e->comp, &cq, NULL);
    return NULL;
}

/* rping and others cancel the threads that wait in a channel; no lock may go with them. */
static void test_cancelled_waiters(void **state)
{
    (void)state;
    static struct end a, b;
    const char *keys[] = {"", ",progress=polled"};
    for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
        end_open(&a, 1, keys[k]);
        end_open(&b, 2, keys[k]);
        for (unsigned i = 0; i < 50; i++) {
            pthread_t t;
            void *result;
            assert_int_equal(pthread_create(&t, NULL, block_for_ever, &a), 0);
            usleep(i * 20);
            pthread_cancel(t);
            assert_int_equal(pthread_join(t, &result), 0);
            assert_ptr_equal(result, PTHREAD_CANCELED);
        }
        end_qp(&a);
        end_qp(&b);
        end_listen(&b);
        both(&a, &b, meet);
        end_close(&a);
        end_close(&b);
    }
}
#endif

static int use_sockets(void **state)
{
    (void)state;
    on_sockets = true;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocking_ping_pong),
        cmocka_unit_test(test_polled_ping_pong),
        cmocka_unit_test(test_many_threads_one_qp),
        cmocka_unit_test(test_connection_churn),
        cmocka_unit_test(test_fork),
#ifndef __SANITIZE_THREAD__
        /* TSan takes a thread that is cancelled inside poll() for one that is still there, and sees none
         * of the locks it takes while it unwinds. */
        cmocka_unit_test(test_cancelled_waiters),
#endif
        cmocka_unit_test(test_lent_writes),
        {"test_sock_ping_pong", test_blocking_ping_pong, use_sockets, NULL, NULL},
        {"test_sock_polled", test_polled_ping_pong, use_sockets, NULL, NULL},
        {"test_sock_many_threads", test_many_threads_one_qp, use_sockets, NULL, NULL},
        {"test_sock_churn", test_connection_churn, use_sockets, NULL, NULL},
        {"test_sock_fork", test_fork, use_sockets, NULL, NULL},
        {"test_sock_lent_writes", test_lent_writes, use_sockets, NULL, NULL},
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
