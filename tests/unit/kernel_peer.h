/* SPDX-License-Identifier: MIT */
/* The kernel's TCP as the peer of a net, in a child process: both send the pattern and check what comes. */
#ifndef UIW_TESTS_KERNEL_PEER_H
#define UIW_TESTS_KERNEL_PEER_H

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net_testing.h"

#define KERNEL_IP "198.18.0.1"
#define OUR_IP    "198.18.0.2"

enum { OCTETS = 24 << 20, PORT = 5001 };

/* A shell command that has to succeed. */
__attribute__((format(printf, 1, 2))) static inline void sh(const char *format, ...)
{
    char command[300];
    va_list ap;
    va_start(ap, format);
    vsnprintf(command, sizeof command, format, ap);
    va_end(ap);
    if (system(command) != 0) {
        fail_msg("failed: %s", command);
    }
}

static inline int kernel_socket(void)
{
    int s = socket(test_v6() ? AF_INET6 : AF_INET, SOCK_STREAM, 0), one = 1;
    if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0) {
        _exit(2);
    }
    /* Some default controls pace in a way that takes long to get going. */
    (void)setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    return s;
}

/* Sends the pattern and checks what comes, until both sides have had all. */
static inline int kernel_traffic(int s)
{
    static uint8_t out[1 << 16], in[1 << 16];
    uint64_t sent = 0, got = 0;
    bool eof = false;
    while (!eof) {
        struct pollfd p = {s, (short)(POLLIN | (sent < OCTETS ? POLLOUT : 0)), 0};
        if (poll(&p, 1, 20000) <= 0) {
            return 3;
        }
        if (p.revents & POLLOUT) {
            size_t n = sent + sizeof out > OCTETS ? OCTETS - (size_t)sent : sizeof out;
            for (size_t i = 0; i < n; i++) {
                out[i] = pattern(sent + i);
            }
            ssize_t k = send(s, out, n, MSG_DONTWAIT | MSG_NOSIGNAL);
            sent += k > 0 ? (uint64_t)k : 0;
            if (sent == OCTETS) {
                shutdown(s, SHUT_WR);
            }
        }
        if (p.revents & (POLLIN | POLLHUP | POLLERR)) {
            ssize_t k = recv(s, in, sizeof in, MSG_DONTWAIT);
            for (ssize_t i = 0; i < k; i++) {
                if (in[i] != pattern(got + (uint64_t)i)) {
                    return 4;
                }
            }
            got += k > 0 ? (uint64_t)k : 0;
            eof = k == 0;
        }
    }
    return got == OCTETS && sent == OCTETS ? 0 : 5;
}

static inline int kernel_server(int listener)
{
    int s = accept(listener, NULL, NULL);
    return s < 0 ? 2 : kernel_traffic(s);
}

static inline int kernel_client(int unused)
{
    (void)unused;
    int s = kernel_socket();
    struct sockaddr_storage to = test_addr(OUR_IP, PORT);
    return connect(s, (struct sockaddr *)&to, sizeof to) != 0 ? 2 : kernel_traffic(s);
}

static inline pid_t start(int (*run)(int), int arg)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(run(arg));
    }
    return pid;
}

static inline void finish(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static inline void run_to_end(struct net *net, struct seen *n)
{
    assert_true(wait_until(net, was_closed, n, 60000));
    assert_int_equal(n->error, 0);
    assert_int_equal(n->received, OCTETS);
    assert_int_equal(n->bad, 0);
    net_stream_close(n->s, false);
}

static inline uint32_t emss_at(int mtu)
{
    uint32_t room = (uint32_t)mtu - test_headers();
    return room < 65408 ? room & ~3u : 65408;
}

/* We connect, and both send at once. */
static inline void kernel_accepts(struct net *net, uint32_t emss)
{
    int l = kernel_socket();
    struct sockaddr_storage at = test_addr(KERNEL_IP, PORT);
    assert_int_equal(bind(l, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(l, 1), 0);
    pid_t pid = start(kernel_server, l);
    struct seen n = {.to_send = OCTETS, .want = OCTETS, .piece = 60000};
    assert_int_equal(net_connect(net, NULL, (struct sockaddr *)&at, &n, &n.s), 0);
    assert_true(wait_until(net, has_event, &n, 5000));
    assert_int_equal(net_emss(n.s), emss);
    run_to_end(net, &n);
    finish(pid);
    close(l);
}

static inline void kernel_connects(struct net *net, uint32_t emss)
{
    struct sockaddr_storage at = test_addr(OUR_IP, PORT);
    struct seen l = {0}, n = {.to_send = OCTETS, .want = OCTETS, .piece = 1400};
    assert_int_equal(net_listen(net, (struct sockaddr *)&at, 4, &l, &l.l), 0);
    pid_t pid = start(kernel_client, 0);
    assert_true(wait_until(net, can_accept, &l, 5000));
    n.s = net_accept(l.l);
    assert_non_null(n.s);
    net_stream_set_user(n.s, &n);
    assert_int_equal(net_emss(n.s), emss);
    send_pattern(&n);
    run_to_end(net, &n);
    finish(pid);
    net_listener_close(l.l);
}

#endif
