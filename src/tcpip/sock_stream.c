/* SPDX-License-Identifier: MIT */
/* The life of a stream over a socket: what epoll says of it, timers, and the end. */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tcpip/sock.h"

struct sock_stream *sock_stream_new(struct sock_net *net)
{
    struct sock_stream *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    net_stream_init(&s->base, &net->base);
    s->fd = -1;
    list_append(&net->streams, &s->node);
    list_init(&s->readable);
    list_init(&s->held);
    list_init(&s->dirty);
    list_init(&s->timed);
    return s;
}

/* A descriptor that a child has inherited would keep the socket in the set. */
static void fd_close(struct sock_stream *s, bool reset)
{
    if (s->fd < 0) {
        return;
    }
    if (reset) {
        sock_captured_end(s, true, true);
        struct linger now = {.l_onoff = 1};
        setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    epoll_ctl(sock_net_of(s->base.net)->epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
    close(s->fd);
    s->fd = -1;
}

void sock_stream_free(struct sock_stream *s)
{
    fd_close(s, false);
    sock_rx_drop(s);
    sock_tx_drop(s);
    list_remove(&s->node);
    list_remove(&s->readable);
    list_remove(&s->dirty);
    list_remove(&s->timed);
    net_forget(&s->base.news);
    free(s->capture);
    free(s);
}

int sock_stream_attach(struct sock_stream *s, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                             .data.ptr = &s->base.news};
    if (epoll_ctl(sock_net_of(s->base.net)->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0) {
        return -errno;
    }
    s->fd = fd;
    return 0;
}

void sock_stream_deadline(struct sock_stream *s, struct list *list, uint32_t ms)
{
    s->deadline = net_now_ms() + ms;
    list_remove(&s->timed);
    list_append(list, &s->timed);
}

/* --- what the kernel knows --- */

static bool look(const struct sock_stream *s, struct tcp_info *info)
{
    socklen_t len = sizeof *info;
    memset(info, 0, sizeof *info);
    return getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, info, &len) == 0;
}

/* The peer has acknowledged all that the kernel was given, a FIN included. */
static bool delivered(const struct sock_stream *s)
{
    int n;
    return ioctl(s->fd, SIOCOUTQ, &n) == 0 && n == 0;
}

/* It begins low on some routes, and follows the path's MTU. FPDUs are multiples of 4: only segments
 * that are, too, begin with one (RFC 5044 sec 5.1). */
void sock_look_at_emss(struct sock_stream *s)
{
    struct tcp_info info;
    s->emss_at = s->base.tx_acked + SOCK_EMSS_EVERY;
    if (look(s, &info) && info.tcpi_snd_mss > 4) {
        s->base.emss = info.tcpi_snd_mss & ~3u;
    }
}

/* The kernel tells it once: it is kept. */
int sock_stream_error(struct sock_stream *s)
{
    int err = 0;
    socklen_t len = sizeof err;
    if (s->base.error == 0 && getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0) {
        s->base.error = err == EPIPE ? -ECONNRESET : -err;
    }
    return s->base.error;
}

bool sock_stream_is_over(struct sock_stream *s)
{
    struct tcp_info info;
    if (s->closed) {
        return true;
    }
    if (!look(s, &info) || info.tcpi_state != TCP_CLOSE) {
        return false;
    }
    int error = sock_stream_error(s);
    sock_stream_end(s, error != 0 || s->fin_in ? error : -ECONNRESET);
    return true;
}

/* --- events --- */

static void local_address(struct sock_stream *s)
{
    socklen_t len = sizeof s->base.local;
    getsockname(s->fd, &s->base.local.sa, &len);
    sock_addr_unmap(&s->base.local);
}

/* Without memory for it the stream is not captured. */
static void capture_begin(struct sock_stream *s, bool connected)
{
    struct sock_net *net = sock_net_of(s->base.net);
    s->capture = net->capture != NULL ? calloc(1, sizeof *s->capture) : NULL;
    if (s->capture != NULL) {
        capture_tcp_open(s->capture, net->capture, &s->base, connected);
    }
}

void sock_stream_up(struct sock_stream *s, bool connected)
{
    s->up = true;
    list_remove(&s->timed);
    local_address(s);
    sock_look_at_emss(s);
    capture_begin(s, connected);
}

int sock_connect_error(int error)
{
    switch (error) {
    case -ENETUNREACH:
    case -EHOSTDOWN:
    case -ENONET:
    case -EINVAL: return -EHOSTUNREACH;
    case -EPERM: return -EACCES;
    default: return error;
    }
}

static void connect_event(struct sock_stream *s)
{
    int error = sock_stream_error(s);
    if (error != 0) {
        s->base.error = 0;
        sock_stream_end(s, sock_connect_error(error));
        return;
    }
    struct tcp_info info;
    if (look(s, &info) && info.tcpi_state != TCP_SYN_SENT) {
        sock_stream_up(s, true);
        net_tell(s->base.net, &s->base.news, NET_EV_UP);
    }
}

void sock_stream_event(struct sock_stream *s, uint32_t events)
{
    struct sock_net *net = sock_net_of(s->base.net);
    if (!s->up) {
        connect_event(s);
        if (!s->up) {
            return;
        }
    }
    s->ending |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    if ((events & ~(uint32_t)EPOLLOUT) != 0) {
        sock_queue(&net->readable, &s->readable);
    }
    if ((events & EPOLLOUT) != 0 && s->blocked) {
        s->blocked = false;
        sock_queue(&net->dirty, &s->dirty);
    }
}

/* --- timers --- */

/* The kernel gives up on a silent peer after a quarter of an hour; one that answers, though its window
 * is closed, may take as long as it likes. Two looks, because the answer may just be on its way. */
static void watch(struct sock_stream *s)
{
    struct tcp_info info;
    if (delivered(s) || !look(s, &info)) {
        s->silent = false;
        return; /* keep-alive does the rest */
    }
    bool silent = (info.tcpi_retransmits > 0 || info.tcpi_probes > 0) &&
                  info.tcpi_last_ack_recv >= SOCK_SILENT_MS;
    if (silent && s->silent) {
        sock_stream_end(s, -ETIMEDOUT);
        return;
    }
    s->silent = silent;
    sock_stream_deadline(s, &sock_net_of(s->base.net)->watched, SOCK_WATCH_MS);
}

static void linger_is_over(struct sock_stream *s)
{
    fd_close(s, !s->fin_sent || !delivered(s));
    sock_stream_free(s);
}

void sock_stream_timer(struct sock_stream *s)
{
    list_remove(&s->timed);
    if (s->orphan) {
        linger_is_over(s);
    } else if (!s->up) {
        sock_stream_end(s, -ETIMEDOUT);
    } else {
        watch(s);
    }
}

/* --- the end --- */

void sock_stream_end(struct sock_stream *s, int error)
{
    fd_close(s, error != 0);
    s->up = false;
    s->closed = true;
    s->base.error = error;
    list_remove(&s->readable);
    list_remove(&s->dirty);
    list_remove(&s->timed);
    sock_tx_drop(s);
    if (s->orphan) {
        sock_stream_free(s);
    } else {
        net_tell(s->base.net, &s->base.news, NET_EV_CLOSED);
    }
}

bool sock_orphan_done(struct sock_stream *s)
{
    if (!s->orphan || !s->fin_sent || !s->fin_in) {
        return false;
    }
    sock_stream_free(s); /* the kernel sends the rest */
    return true;
}

/* --- the face --- */

void sock_shutdown(struct net_stream *stream)
{
    struct sock_stream *s = sock_stream_of(stream);
    s->fin_out = true;
    if (!s->blocked && s->up) {
        sock_queue(&sock_net_of(s->base.net)->dirty, &s->dirty);
    }
}

/* What comes is read and forgotten: the kernel answers a close() before that by a reset. */
static void close_in_order(struct sock_stream *s)
{
    struct sock_net *net = sock_net_of(s->base.net);
    sock_rx_drop(s);
    s->orphan = true;
    net_forget(&s->base.news);
    sock_stream_deadline(s, &net->lingering, SOCK_LINGER_MS);
    sock_shutdown(&s->base);
    if (!s->fin_in) {
        sock_queue(&net->readable, &s->readable);
    }
    sock_orphan_done(s);
}

void sock_stream_close(struct net_stream *stream, bool abort)
{
    struct sock_stream *s = sock_stream_of(stream);
    if (s->up && !s->tx_dead && !abort && sock_tx_unlend_all(s)) {
        close_in_order(s);
        return;
    }
    fd_close(s, true);
    sock_stream_free(s);
}
