/* SPDX-License-Identifier: MIT */
/* The kernel's TCP. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../address.h"
#include "transport.h"

enum { MAX_CONNS = 64 };

struct tr_conn {
    struct sock_transport *t;
    int fd;
    enum tr_state state;
    uint8_t *in;
    uint32_t have, room;
};

struct sock_transport {
    struct transport base;
    int listener;
    uint32_t mss; /* for the next connection; 0: as it is */
    struct tr_conn *conn[MAX_CONNS];
    unsigned cnt;
};

static struct sock_transport *of(struct transport *t)
{
    return (struct sock_transport *)t;
}

static void tune_fd(struct sock_transport *t, int fd)
{
    int one = 1, mss = (int)t->mss;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (mss != 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof mss);
    }
}

static struct tr_conn *adopt(struct sock_transport *t, int fd, enum tr_state state)
{
    struct tr_conn *c = t->cnt < MAX_CONNS ? calloc(1, sizeof *c) : NULL;
    if (c == NULL) {
        close(fd);
        return NULL;
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    tune_fd(t, fd);
    c->t = t;
    c->fd = fd;
    c->state = state;
    t->conn[t->cnt++] = c;
    return c;
}

static struct tr_conn *sock_dial(struct transport *base)
{
    struct sock_transport *t = of(base);
    const struct sockaddr_storage *to = &base->peer;
    int fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return NULL;
    }
    tune_fd(t, fd);
    if (connect(fd, (const struct sockaddr *)to, address_len(to)) != 0 && errno != EINPROGRESS) {
        close(fd);
        return NULL;
    }
    return adopt(t, fd, TR_OPENING);
}

/* A socket that listens there, or -1. */
static int listener_at(const struct sockaddr *at, socklen_t len)
{
    int one = 1, zero = 0;
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (at->sa_family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    }
    if (bind(fd, at, len) != 0 || listen(fd, 16) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* At all addresses of both families; a host may have no IPv6. */
static bool sock_listen(struct transport *base)
{
    struct sock_transport *t = of(base);
    const struct sockaddr_in6 all = {.sin6_family = AF_INET6, .sin6_port = htons(base->my_port)};
    const struct sockaddr_in all4 = {.sin_family = AF_INET, .sin_port = htons(base->my_port)};
    struct sockaddr_storage got;
    socklen_t len = sizeof got;
    if (t->listener >= 0) {
        return true;
    }
    t->listener = listener_at((const struct sockaddr *)&all, sizeof all);
    if (t->listener < 0 && errno == EAFNOSUPPORT) {
        t->listener = listener_at((const struct sockaddr *)&all4, sizeof all4);
    }
    if (t->listener < 0 || getsockname(t->listener, (struct sockaddr *)&got, &len) != 0) {
        return false;
    }
    base->my_port = address_port(&got);
    return true;
}

static void note_my_address(struct transport *base, int fd)
{
    socklen_t len = sizeof base->my;
    if (getsockname(fd, (struct sockaddr *)&base->my, &len) != 0) {
        base->my.ss_family = AF_UNSPEC;
    }
}

static struct tr_conn *sock_accept(struct transport *base)
{
    struct sock_transport *t = of(base);
    int fd = t->listener >= 0 ? accept4(t->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    return fd >= 0 ? adopt(t, fd, TR_OPEN) : NULL;
}

/* --- octets --- */

static void fill(struct tr_conn *c)
{
    while (c->state == TR_OPEN) {
        if (c->room - c->have < 65536) {
            uint8_t *more = realloc(c->in, c->room + 262144);
            if (more == NULL) {
                return;
            }
            c->in = more;
            c->room += 262144;
        }
        ssize_t n = recv(c->fd, c->in + c->have, c->room - c->have, 0);
        if (n > 0) {
            c->have += (uint32_t)n;
        } else if (n == 0) {
            c->state = TR_FIN;
        } else if (errno != EINTR) {
            c->state = errno == EAGAIN ? c->state : TR_RESET;
            return;
        }
    }
}

static void settle(struct tr_conn *c, short revents)
{
    int err = 0;
    socklen_t len = sizeof err;
    if (c->state == TR_OPENING && (revents & (POLLOUT | POLLERR | POLLHUP)) != 0) {
        getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len);
        c->state = err == 0 ? TR_OPEN : TR_FAILED;
        if (err == 0) {
            note_my_address(&c->t->base, c->fd);
        }
    }
    if (c->state == TR_OPEN) {
        fill(c);
    } else if (c->state == TR_FIN && (revents & POLLERR) != 0) {
        c->state = TR_RESET;
    }
}

static void sock_turn(struct transport *base, unsigned ms)
{
    struct sock_transport *t = of(base);
    struct pollfd p[MAX_CONNS + 1];
    nfds_t n = 0;
    for (unsigned i = 0; i < t->cnt; i++) {
        bool opening = t->conn[i]->state == TR_OPENING;
        /* What has ended is ready for ever. */
        bool ended = t->conn[i]->state > TR_OPEN;
        p[n++] = (struct pollfd){.fd = ended ? -1 : t->conn[i]->fd,
                                 .events = opening ? POLLOUT : POLLIN};
    }
    if (t->listener >= 0) {
        p[n++] = (struct pollfd){.fd = t->listener, .events = POLLIN};
    }
    poll(p, n, (int)ms);
    for (unsigned i = 0; i < t->cnt; i++) {
        settle(t->conn[i], p[i].revents);
    }
}

static uint32_t sock_read(struct tr_conn *c, uint8_t *to, uint32_t max)
{
    uint32_t n = min_u32(c->have, max);
    if (n > 0) {
        memcpy(to, c->in, n);
        memmove(c->in, c->in + n, c->have - n);
        c->have -= n;
    }
    return n;
}

/* A pause between two pieces lets each leave as a segment of its own. */
static void pause_us(unsigned us)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)us * 1000}, NULL);
}

static uint32_t sock_write(struct tr_conn *c, const uint8_t *p, uint32_t n)
{
    uint32_t cut = c->t->base.cut;
    n = cut != 0 ? min_u32(n, cut) : n;
    ssize_t done = send(c->fd, p, n, MSG_NOSIGNAL);
    if (done < 0 && errno != EAGAIN && errno != EINTR) {
        fill(c); /* a reset may stand behind octets that are still to be read */
        c->state = c->state == TR_OPEN ? TR_RESET : c->state;
        return n;
    }
    if (cut != 0) {
        pause_us(200);
    }
    return done > 0 ? (uint32_t)done : 0;
}

static void sock_fin(struct tr_conn *c)
{
    shutdown(c->fd, SHUT_WR);
}

static enum tr_state sock_state(struct tr_conn *c)
{
    return c->state;
}

static uint32_t sock_emss(struct tr_conn *c)
{
    int mss = 0;
    socklen_t len = sizeof mss;
    getsockopt(c->fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &len);
    return mss > 0 ? (uint32_t)mss : 0;
}

static void sock_drop(struct tr_conn *c, bool reset)
{
    struct sock_transport *t = c->t;
    for (unsigned i = 0; i < t->cnt; i++) {
        if (t->conn[i] == c) {
            t->conn[i] = t->conn[--t->cnt];
            break;
        }
    }
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (reset) {
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    close(c->fd);
    free(c->in);
    free(c);
}

static uint64_t sock_now(struct transport *base)
{
    (void)base;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool sock_tune(struct transport *base, const char *knob, uint32_t value)
{
    if (strcmp(knob, "mss") == 0) {
        of(base)->mss = value;
        return true;
    }
    return false;
}

static void sock_close(struct transport *base)
{
    struct sock_transport *t = of(base);
    while (t->cnt > 0) {
        sock_drop(t->conn[0], true);
    }
    if (t->listener >= 0) {
        close(t->listener);
    }
    free(t);
}

struct transport *transport_sock(void)
{
    static const struct transport_ops ops = {
        .dial = sock_dial,
        .listen = sock_listen,
        .accept = sock_accept,
        .read = sock_read,
        .write = sock_write,
        .fin = sock_fin,
        .state = sock_state,
        .emss = sock_emss,
        .drop = sock_drop,
        .turn = sock_turn,
        .now = sock_now,
        .tune = sock_tune,
        .close = sock_close,
    };
    struct sock_transport *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return NULL;
    }
    t->base.ops = &ops;
    t->listener = -1;
    return &t->base;
}
