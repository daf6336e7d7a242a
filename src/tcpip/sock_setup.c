/* SPDX-License-Identifier: MIT */
/* How streams over sockets come to be: accepted or connected; their addresses and options. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tcpip/sock.h"

enum {
    KEEP_IDLE_S = 15,
    KEEP_INTERVAL_S = 3,
    KEEP_PROBES = 5,
    IP4_TCP = 40, /* headers without options */
    IP6_TCP = 60,
};

/* --- addresses --- */

static socklen_t addr_len(const union net_addr *a)
{
    return a->sa.sa_family == AF_INET6 ? sizeof a->in6 : sizeof a->in4;
}

static uint16_t *addr_port(union net_addr *a)
{
    return a->sa.sa_family == AF_INET6 ? &a->in6.sin6_port : &a->in4.sin_port;
}

static bool addr_is_any(const union net_addr *a)
{
    return a->sa.sa_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr)
                                       : a->in4.sin_addr.s_addr == INADDR_ANY;
}

static bool addr_same_host(const union net_addr *a, const union net_addr *b)
{
    if (a->sa.sa_family != b->sa.sa_family) {
        return false;
    }
    return a->sa.sa_family == AF_INET6
               ? memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof a->in6.sin6_addr) == 0
               : a->in4.sin_addr.s_addr == b->in4.sin_addr.s_addr;
}

void sock_addr_unmap(union net_addr *a)
{
    if (a->sa.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr)) {
        struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = a->in6.sin6_port};
        memcpy(&in4.sin_addr, a->in6.sin6_addr.s6_addr + 12, sizeof in4.sin_addr);
        memset(a, 0, sizeof *a);
        a->in4 = in4;
    }
}

static int addr_get(const struct sockaddr *from, union net_addr *out)
{
    memset(out, 0, sizeof *out);
    if (from->sa_family == AF_INET) {
        memcpy(&out->in4, from, sizeof out->in4);
    } else if (from->sa_family == AF_INET6) {
        memcpy(&out->in6, from, sizeof out->in6);
        sock_addr_unmap(out);
    } else {
        return -EAFNOSUPPORT;
    }
    return 0;
}

/* A literal address; link-local ones with %INTERFACE. */
int sock_addr_parse(const char *text, union net_addr *out)
{
    char copy[NET_NAME_MAX];
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, text, &out->in4.sin_addr) == 1) {
        out->sa.sa_family = AF_INET;
        return 0;
    }
    snprintf(copy, sizeof copy, "%s", text);
    char *scope = strchr(copy, '%');
    if (scope != NULL) {
        *scope++ = '\0';
        out->in6.sin6_scope_id = if_nametoindex(scope);
        if (out->in6.sin6_scope_id == 0) {
            return -ENODEV;
        }
    }
    out->sa.sa_family = AF_INET6;
    return inet_pton(AF_INET6, copy, &out->in6.sin6_addr) == 1 ? 0 : -EINVAL;
}

/* Puts the device's own address, if it has one, in the place of any; another one is not ours. */
static int addr_ours(const struct sock_net *net, union net_addr *a)
{
    const union net_addr *src = &net->src;
    if (src->sa.sa_family == AF_UNSPEC) {
        return 0;
    }
    bool all = a->sa.sa_family == AF_INET6 && addr_is_any(a); /* :: is of every family */
    if (!all && src->sa.sa_family != a->sa.sa_family) {
        return -EAFNOSUPPORT;
    }
    if (!addr_is_any(a) && !addr_same_host(a, src)) {
        return -EADDRNOTAVAIL;
    }
    uint16_t port = *addr_port(a);
    *a = *src;
    *addr_port(a) = port;
    return 0;
}

/* Where to connect from. */
static int addr_local(const struct sock_net *net, const union net_addr *remote,
                      const struct sockaddr *local, union net_addr *out)
{
    int r = 0;
    memset(out, 0, sizeof *out);
    out->sa.sa_family = remote->sa.sa_family;
    if (local != NULL) {
        r = addr_get(local, out);
    }
    if (r == 0) {
        r = addr_ours(net, out);
    }
    return r == 0 && out->sa.sa_family != remote->sa.sa_family ? -EAFNOSUPPORT : r;
}

/* --- sockets --- */

static void flag(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof value);
}

/* Listeners hand them on to what they accept. */
int sock_options(const struct sock_net *net, int fd, int family)
{
    flag(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    flag(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    flag(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
    flag(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S);
    flag(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_PROBES);
    if (family == AF_INET6) {
        flag(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    }
    if (net->mtu != 0) {
        flag(fd, IPPROTO_TCP, TCP_MAXSEG, (int)net->mtu - (family == AF_INET6 ? IP6_TCP : IP4_TCP));
    }
    if (net->cc[0] != '\0' &&
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, net->cc, (socklen_t)strlen(net->cc)) != 0) {
        return -errno;
    }
    return 0;
}

/* Without a port the kernel chooses one when it knows the peer, so that they last longer. */
int sock_bind(int fd, const union net_addr *at)
{
    union net_addr a = *at;
    if (*addr_port(&a) == 0) {
        if (addr_is_any(&a)) {
            return 0;
        }
        flag(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    } else {
        flag(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    }
    return bind(fd, &a.sa, addr_len(&a)) == 0 ? 0 : -errno;
}

static int open_socket(const struct sock_net *net, int family, int *out)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0) {
        return -errno;
    }
    int r = sock_options(net, fd, family);
    if (r != 0) {
        close(fd);
        return r;
    }
    *out = fd;
    return 0;
}

/* --- listening --- */

static int listen_start(struct sock_net *net, struct sock_listener *l, const union net_addr *at,
                        int backlog)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.ptr = &l->base.news};
    int r = open_socket(net, at->sa.sa_family, &l->fd);
    if (r != 0) {
        return r;
    }
    flag(l->fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(l->fd, &at->sa, addr_len(at)) != 0 || listen(l->fd, backlog) != 0 ||
        epoll_ctl(net->epoll_fd, EPOLL_CTL_ADD, l->fd, &ev) != 0) {
        r = -errno;
        close(l->fd);
    }
    return r;
}

int sock_listen(struct net *base, const struct sockaddr *addr, int backlog,
                struct net_listener **out)
{
    struct sock_net *net = sock_net_of(base);
    union net_addr at;
    int r = addr_get(addr, &at);
    if (r == 0) {
        r = addr_ours(net, &at);
    }
    if (r != 0) {
        return r;
    }
    struct sock_listener *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return -ENOMEM;
    }
    net_listener_init(&l->base, base);
    r = listen_start(net, l, &at, backlog < 1 ? 1 : backlog);
    if (r == -EAFNOSUPPORT && addr_is_any(&at)) { /* a host without IPv6 */
        at = (union net_addr){.in4 = {.sin_family = AF_INET, .sin_port = at.in6.sin6_port}};
        r = listen_start(net, l, &at, backlog < 1 ? 1 : backlog);
    }
    if (r != 0) {
        free(l);
        return r;
    }
    list_append(&net->listeners, &l->node);
    *out = &l->base;
    return 0;
}

void sock_listener_addr(const struct net_listener *listener, struct sockaddr_storage *out)
{
    const struct sock_listener *l = CONTAINER_OF(listener, const struct sock_listener, base);
    socklen_t len = sizeof *out;
    getsockname(l->fd, (struct sockaddr *)out, &len);
}

/* The kernel resets what was not accepted. */
void sock_listener_close(struct net_listener *listener)
{
    struct sock_listener *l = CONTAINER_OF(listener, struct sock_listener, base);
    epoll_ctl(sock_net_of(listener->net)->epoll_fd, EPOLL_CTL_DEL, l->fd, NULL);
    close(l->fd);
    list_remove(&l->node);
    net_forget(&l->base.news);
    free(l);
}

static bool is_shortage(int err)
{
    return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

/* A connection, or -1. One that has gone meanwhile is passed over. */
static int accept_fd(struct sock_listener *l, union net_addr *remote)
{
    for (;;) {
        socklen_t len = sizeof *remote;
        int fd = accept4(l->fd, &remote->sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            return fd;
        }
        if (is_shortage(errno)) {
            l->starved = true;
            sock_starved_of(sock_net_of(l->base.net), "connections wait to be accepted", errno);
            return -1;
        }
        if (errno == EAGAIN || errno == EBADF || errno == EINVAL) {
            return -1;
        }
    }
}

struct net_stream *sock_accept(struct net_listener *listener)
{
    struct sock_listener *l = CONTAINER_OF(listener, struct sock_listener, base);
    struct sock_net *net = sock_net_of(listener->net);
    union net_addr remote;
    int fd = accept_fd(l, &remote);
    if (fd < 0) {
        return NULL;
    }
    struct sock_stream *s = sock_stream_new(net);
    int r = s != NULL ? sock_stream_attach(s, fd) : -ENOMEM;
    if (r != 0) {
        sock_starved_of(net, "a connection is dropped", -r);
        close(fd);
        if (s != NULL) {
            sock_stream_free(s);
        }
        return NULL;
    }
    sock_addr_unmap(&remote);
    s->base.remote = remote;
    sock_stream_up(s, false);
    return &s->base;
}

/* --- connecting --- */

/* What the caller is told at once; the rest comes as an event. */
static bool is_refusal(int r)
{
    return r == -EADDRINUSE || r == -EAFNOSUPPORT || r == -ENOMEM;
}

static int connect_fd(int fd, const union net_addr *to)
{
    if (connect(fd, &to->sa, addr_len(to)) == 0 || errno == EINPROGRESS) {
        return 0;
    }
    /* All of our ports, or the one that was asked for, are in use towards that peer. */
    return errno == EADDRNOTAVAIL || errno == EAGAIN ? -EADDRINUSE : -errno;
}

/* A connection that cannot even be tried fails like one that was: by its event. */
static int connect_start(struct sock_net *net, struct sock_stream *s)
{
    int fd = -1;
    int r = open_socket(net, s->base.remote.sa.sa_family, &fd);
    if (r != 0) {
        return r;
    }
    r = sock_bind(fd, &s->base.local);
    if (r == 0) {
        int failed = connect_fd(fd, &s->base.remote);
        r = is_refusal(failed) ? failed : sock_stream_attach(s, fd);
        if (r == 0 && failed != 0) {
            sock_stream_end(s, sock_connect_error(failed));
            return 0;
        }
    }
    if (r != 0) {
        close(fd);
        return r;
    }
    sock_stream_deadline(s, &net->connecting, SOCK_CONNECT_MS);
    return 0;
}

int sock_connect(struct net *base, const struct sockaddr *local, const struct sockaddr *remote,
                 struct net_stream **out)
{
    struct sock_net *net = sock_net_of(base);
    union net_addr from, to;
    int r = addr_get(remote, &to);
    if (r == 0) {
        r = addr_local(net, &to, local, &from);
    }
    if (r == 0 && *addr_port(&to) == 0) {
        r = -EINVAL;
    }
    if (r != 0) {
        return r;
    }
    struct sock_stream *s = sock_stream_new(net);
    if (s == NULL) {
        return -ENOMEM;
    }
    s->base.remote = to;
    s->base.local = from;
    r = connect_start(net, s);
    if (r != 0) {
        sock_stream_free(s);
        return r;
    }
    *out = &s->base;
    return 0;
}
