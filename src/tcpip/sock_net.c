/* SPDX-License-Identifier: MIT */
/* Nets over the kernel's TCP: opening, closing, turns. Several of them, each in a loop and thread of
 * its own, have nothing in common but the process. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "tcpip/sock.h"

enum { WARN_EVERY_MS = 10000, IP_MAX = 65535 };

/* --- shortage --- */

void sock_starved(struct sock_net *net)
{
    if (net->retry_at == 0) {
        net->retry_at = net_now_ms() + SOCK_RETRY_MS;
    }
}

void sock_starved_of(struct sock_net *net, const char *what, int err)
{
    uint64_t now = net_now_ms();
    sock_starved(net);
    if (net->warned_at == 0 || now >= net->warned_at + WARN_EVERY_MS) {
        net->warned_at = now;
        log_line(LOG_WARN, "%s: %s: %s", net->label, what, strerror(err));
    }
}

static void try_again(struct sock_net *net)
{
    net->retry_at = 0;
    LIST_EACH(it, &net->listeners)
    {
        struct sock_listener *l = CONTAINER_OF(it, struct sock_listener, node);
        if (l->starved) {
            l->starved = false;
            net_tell(&net->base, &l->base.news, NET_EV_ACCEPT);
        }
    }
    LIST_EACH(it, &net->streams)
    {
        struct sock_stream *s = CONTAINER_OF(it, struct sock_stream, node);
        if (s->rx_full) {
            sock_queue(&net->readable, &s->readable);
        }
        if (sock_tx_pending(s) && !s->blocked) {
            sock_queue(&net->dirty, &s->dirty);
        }
        sock_tx_tell_room(s);
    }
}

/* --- turning --- */

static uint32_t take_events(struct sock_net *net)
{
    struct epoll_event ev[SOCK_EVENTS];
    uint32_t did = 0;
    int n = epoll_wait(net->epoll_fd, ev, SOCK_EVENTS, 0);
    for (int i = 0; i < n; i++) {
        struct net_news *news = ev[i].data.ptr;
        if (news == NULL) {
            continue; /* the wake-up; sock_flush() takes it back */
        }
        did++;
        if (news->listener) {
            net_tell(&net->base, news, NET_EV_ACCEPT);
        } else {
            struct net_stream *s = CONTAINER_OF(news, struct net_stream, news);
            sock_stream_event(sock_stream_of(s), ev[i].events);
        }
    }
    return did;
}

static struct sock_stream *earliest(const struct list *timers)
{
    return list_empty(timers) ? NULL : CONTAINER_OF(timers->next, struct sock_stream, timed);
}

static void run_timers(struct list *timers, uint64_t now)
{
    struct sock_stream *s;
    while ((s = earliest(timers)) != NULL && s->deadline <= now) {
        sock_stream_timer(s);
    }
}

static bool timers_wanted(const struct sock_net *net)
{
    return net->retry_at != 0 || !list_empty(&net->connecting) || !list_empty(&net->lingering) ||
           !list_empty(&net->watched);
}

static uint32_t sock_turn(struct net *base)
{
    struct sock_net *net = sock_net_of(base);
    uint32_t did = take_events(net) + sock_rx_turn(net);
    if (timers_wanted(net)) {
        uint64_t now = net_now_ms();
        run_timers(&net->connecting, now);
        run_timers(&net->lingering, now);
        run_timers(&net->watched, now);
        if (net->retry_at != 0 && now >= net->retry_at) {
            try_again(net);
        }
    }
    return did;
}

static bool has_work(const struct sock_net *net)
{
    return !list_empty(&net->base.ready) || !list_empty(&net->base.later) ||
           !list_empty(&net->readable) || !list_empty(&net->dirty);
}

/* What is known here and no longer to epoll makes net_fd() readable all the same, for whoever sleeps on
 * it while another thread has the turn. */
static void wake_as_needed(struct sock_net *net)
{
    uint64_t n = 1;
    bool work = has_work(net);
    if (work == net->waking) {
        return;
    }
    ssize_t r = work ? write(net->wake_fd, &n, sizeof n) : read(net->wake_fd, &n, sizeof n);
    (void)r; /* neither can fail: the count is 1 or 0 */
    net->waking = work;
}

static void sock_flush(struct net *base)
{
    struct sock_net *net = sock_net_of(base);
    struct list *node;
    while ((node = list_shift(&net->dirty)) != NULL) {
        sock_tx_flush(CONTAINER_OF(node, struct sock_stream, dirty));
    }
    sock_rx_settle(net);
    if (net->capture != NULL) {
        capture_flush(net->capture);
    }
    wake_as_needed(net);
}

/* --- sleeping --- */

static int sock_fd(const struct net *base)
{
    return CONTAINER_OF(base, const struct sock_net, base)->epoll_fd;
}

static bool sock_sleep(struct net *base)
{
    return !has_work(sock_net_of(base));
}

static void sock_woken(struct net *base)
{
    (void)base;
}

static int sock_timeout_ms(const struct net *base)
{
    const struct sock_net *net = CONTAINER_OF(base, const struct sock_net, base);
    const struct list *const timers[] = {&net->connecting, &net->lingering, &net->watched};
    if (!timers_wanted(net)) {
        return -1;
    }
    uint64_t due = net->retry_at != 0 ? net->retry_at : UINT64_MAX, now = net_now_ms();
    for (size_t i = 0; i < ARRAY_LEN(timers); i++) {
        const struct sock_stream *s = earliest(timers[i]);
        due = s != NULL ? min_u64(due, s->deadline) : due;
    }
    return due > now ? (int)min_u64(due - now, 1000000) : 0;
}

static uint32_t sock_mtu(const struct net *base)
{
    const struct sock_net *net = CONTAINER_OF(base, const struct sock_net, base);
    return net->mtu != 0 ? net->mtu : IP_MAX;
}

/* --- closing --- */

/* Those that were only still closing are left to the kernel when it has all their octets. */
static void drop_streams(struct sock_net *net)
{
    struct list *node = net->streams.next;
    while (node != &net->streams) {
        struct sock_stream *s = CONTAINER_OF(node, struct sock_stream, node);
        node = node->next;
        if (s->orphan && s->fin_sent) {
            sock_stream_free(s);
        } else {
            sock_stream_close(&s->base, true);
        }
    }
}

static void sock_close(struct net *base)
{
    struct sock_net *net = sock_net_of(base);
    while (!list_empty(&net->listeners)) {
        sock_listener_close(&CONTAINER_OF(net->listeners.next, struct sock_listener, node)->base);
    }
    sock_flush(base);
    sock_rx_turn(net);
    drop_streams(net);
    sock_rings_free(net);
    sock_outs_free(net);
    net_chunks_free(&net->chunks);
    capture_close(net->capture);
    close(net->wake_fd);
    close(net->epoll_fd);
    free(net);
}

/* Only the numbers: the sockets and what epoll knows of them are the parent's. */
static void sock_abandon(struct net *base)
{
    struct sock_net *net = sock_net_of(base);
    LIST_EACH(it, &net->listeners)
    {
        close(CONTAINER_OF(it, struct sock_listener, node)->fd);
    }
    LIST_EACH(it, &net->streams)
    {
        struct sock_stream *s = CONTAINER_OF(it, struct sock_stream, node);
        if (s->fd >= 0) {
            close(s->fd);
        }
    }
    close(net->wake_fd);
    close(net->epoll_fd);
}

/* --- the face --- */

static const struct net_ops sock_ops = {
    .close = sock_close,
    .abandon = sock_abandon,
    .mtu = sock_mtu,
    .turn = sock_turn,
    .flush = sock_flush,
    .fd = sock_fd,
    .sleep = sock_sleep,
    .woken = sock_woken,
    .timeout_ms = sock_timeout_ms,
    .listen = sock_listen,
    .listener_addr = sock_listener_addr,
    .listener_close = sock_listener_close,
    .accept = sock_accept,
    .connect = sock_connect,
    .rx_peek = sock_rx_peek,
    .rx_consume = sock_rx_consume,
    .tx_reserve = sock_tx_reserve,
    .tx_commit = sock_tx_commit,
    .tx_lend = sock_tx_lend,
    .tx_room = sock_tx_room,
    .tx_unlend = sock_tx_unlend,
    .shutdown = sock_shutdown,
    .stream_close = sock_stream_close,
};

/* --- opening --- */

static int fail(const struct sock_net *net, char err[NET_ERR_TEXT], int r, const char *what)
{
    snprintf(err, NET_ERR_TEXT, "%s: %s: %s", net->label, what, strerror(-r));
    return r;
}

static int source_address(struct sock_net *net, const struct net_cfg *cfg, char err[NET_ERR_TEXT])
{
    if (cfg->name[0] != '\0') {
        int r = sock_addr_parse(cfg->name, &net->src);
        if (r != 0) {
            snprintf(err, NET_ERR_TEXT, "%s: %s", net->label,
                     r == -ENODEV ? "no such interface" : "not an IPv4 or IPv6 address");
        }
        return r;
    }
    if (cfg->ip.s_addr != INADDR_ANY) {
        net->src.in4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = cfg->ip};
    } else if (!IN6_IS_ADDR_UNSPECIFIED(&cfg->ip6)) {
        net->src.in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = cfg->ip6};
    }
    return 0;
}

/* A socket that nobody uses tells now what every connection would run into. */
static int try_socket(struct sock_net *net, char err[NET_ERR_TEXT])
{
    int family = net->src.sa.sa_family != AF_UNSPEC ? net->src.sa.sa_family : AF_INET;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0) {
        return fail(net, err, -errno, "socket");
    }
    int r = sock_options(net, fd, family);
    if (r != 0) {
        char what[NET_CC_MAX + 32];
        snprintf(what, sizeof what, "cc=%s is refused by the kernel", net->cc);
        fail(net, err, r, what);
    } else if (net->src.sa.sa_family != AF_UNSPEC) {
        r = sock_bind(fd, &net->src);
        if (r != 0) {
            fail(net, err, r, "no interface of this host has that address");
        }
    }
    close(fd);
    return r;
}

static int open_fds(struct sock_net *net, char err[NET_ERR_TEXT])
{
    struct epoll_event ev = {.events = EPOLLIN};
    net->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    net->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (net->epoll_fd >= 0 && net->wake_fd >= 0 &&
        epoll_ctl(net->epoll_fd, EPOLL_CTL_ADD, net->wake_fd, &ev) == 0) {
        return 0;
    }
    int r = -errno;
    close(net->epoll_fd);
    close(net->wake_fd);
    return fail(net, err, r, "epoll");
}

static void lists_init(struct sock_net *net)
{
    list_init(&net->streams);
    list_init(&net->listeners);
    list_init(&net->readable);
    list_init(&net->held);
    list_init(&net->dirty);
    list_init(&net->connecting);
    list_init(&net->lingering);
    list_init(&net->watched);
}

static void label(struct sock_net *net, const struct net_cfg *cfg)
{
    char ip[INET6_ADDRSTRLEN] = "";
    if (cfg->ip.s_addr != INADDR_ANY) {
        inet_ntop(AF_INET, &cfg->ip, ip, sizeof ip);
    } else if (!IN6_IS_ADDR_UNSPECIFIED(&cfg->ip6)) {
        inet_ntop(AF_INET6, &cfg->ip6, ip, sizeof ip);
    }
    const char *at = cfg->name[0] != '\0' ? cfg->name : ip;
    snprintf(net->label, sizeof net->label, "sock%s%.50s", at[0] != '\0' ? " " : "", at);
}

int sock_open(const struct net_cfg *cfg, struct net **out, char err[NET_ERR_TEXT])
{
    struct sock_net *net = calloc(1, sizeof *net);
    if (net == NULL) {
        snprintf(err, NET_ERR_TEXT, "sock %.40s: out of memory", cfg->name);
        return -ENOMEM;
    }
    net_init(&net->base, &sock_ops);
    lists_init(net);
    label(net, cfg);
    memcpy(net->cc, cfg->cc, sizeof net->cc);
    net->mtu = cfg->mtu;
    int r = source_address(net, cfg, err);
    if (r == 0) {
        r = try_socket(net, err);
    }
    if (r == 0 && cfg->capture[0] != '\0') {
        r = capture_open(cfg->capture, net->label, CAPTURE_RAW_IP, &net->capture, err);
    }
    if (r == 0) {
        r = open_fds(net, err);
    }
    if (r != 0) {
        capture_close(net->capture);
        free(net);
        return r;
    }
    *out = &net->base;
    return 0;
}
