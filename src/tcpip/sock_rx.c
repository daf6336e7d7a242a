/* SPDX-License-Identifier: MIT */
/* What a stream has received: one buffer, used as a ring. Buffers belong to the net and are large, so
 * that a busy stream is read seldom; they go back as soon as they are empty, and what stays in them
 * for longer is moved to as much memory as it needs. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "tcpip/sock.h"

/* --- buffers --- */

static struct sock_ring *ring_new(struct sock_net *net)
{
    struct sock_ring *r = net->rings;
    if (r != NULL) {
        net->rings = r->next;
        net->ring_cnt--;
        return r;
    }
    r = malloc(sizeof *r + SOCK_RING);
    if (r == NULL) {
        sock_starved(net);
        return NULL;
    }
    r->size = SOCK_RING;
    return r;
}

static void ring_free(struct sock_net *net, struct sock_ring *r)
{
    if (r->size != SOCK_RING || net->ring_cnt >= SOCK_READS) {
        free(r);
        return;
    }
    r->next = net->rings;
    net->rings = r;
    net->ring_cnt++;
}

void sock_rings_free(struct sock_net *net)
{
    while (net->rings != NULL) {
        struct sock_ring *r = net->rings;
        net->rings = r->next;
        free(r);
    }
    net->ring_cnt = 0;
}

static void let_go(struct sock_stream *s)
{
    struct sock_net *net = sock_net_of(s->base.net);
    if (s->rx != NULL) {
        ring_free(net, s->rx);
        s->rx = NULL;
        s->rx_at = 0;
    }
    if (!list_empty(&s->held)) {
        list_remove(&s->held);
        net->held_cnt--;
    }
}

void sock_rx_drop(struct sock_stream *s)
{
    let_go(s);
    s->base.rx_queued = 0;
}

/* The filled part in one or two pieces. */
static uint32_t filled(const struct sock_stream *s, struct span v[2])
{
    uint32_t n = s->base.rx_queued;
    if (n == 0) {
        return 0;
    }
    uint32_t first = min_u32(n, s->rx->size - s->rx_at);
    v[0] = (struct span){s->rx->data + s->rx_at, first};
    v[1] = (struct span){s->rx->data, n - first};
    return first < n ? 2 : 1;
}

static void move_to(struct sock_stream *s, struct sock_ring *to)
{
    struct span v[2];
    uint32_t at = 0, cnt = filled(s, v);
    for (uint32_t i = 0; i < cnt; i++) {
        memcpy(to->data + at, v[i].p, v[i].n);
        at += v[i].n;
    }
    let_go(s);
    s->rx = to;
    s->rx_at = 0;
}

static void hold(struct sock_stream *s)
{
    struct sock_net *net = sock_net_of(s->base.net);
    list_append(&net->held, &s->held);
    net->held_cnt++;
}

/* Sees to it that the stream has a large buffer with some room. */
static bool has_room(struct sock_stream *s)
{
    if (s->rx != NULL && s->rx->size == SOCK_RING) {
        return s->base.rx_queued < SOCK_RING;
    }
    if (s->rx_peeked) {
        return false;
    }
    struct sock_ring *r = ring_new(sock_net_of(s->base.net));
    if (r == NULL) {
        return false;
    }
    if (s->rx != NULL) {
        move_to(s, r);
    } else {
        s->rx = r;
        s->rx_at = 0;
    }
    hold(s);
    return true;
}

static void park(struct sock_stream *s)
{
    struct sock_ring *r = malloc(sizeof *r + s->base.rx_queued);
    if (r != NULL) {
        r->size = s->base.rx_queued;
        move_to(s, r);
    }
}

void sock_rx_settle(struct sock_net *net)
{
    struct list *node = net->held.next;
    while (node != &net->held) {
        struct sock_stream *s = CONTAINER_OF(node, struct sock_stream, held);
        node = node->next;
        if (s->base.rx_queued == 0) {
            let_go(s);
        } else if (net->held_cnt > SOCK_RINGS_HELD && !s->rx_peeked) {
            park(s);
        }
    }
}

/* --- reading --- */

static uint32_t unfilled(struct sock_stream *s, struct iovec iov[2])
{
    struct sock_ring *r = s->rx;
    uint32_t n = s->base.rx_queued, room = r->size - n;
    if (n == 0) {
        s->rx_at = 0;
    }
    uint32_t from = (s->rx_at + n) % r->size;
    uint32_t first = min_u32(room, r->size - from);
    iov[0] = (struct iovec){r->data + from, first};
    iov[1] = (struct iovec){r->data, room - first};
    return room;
}

/* All is read up to the peer's FIN. */
static void on_fin(struct sock_stream *s)
{
    s->fin_in = true;
    sock_captured_end(s, false, s->base.error != 0);
    int error = sock_stream_error(s);
    if (error != 0) {
        sock_stream_end(s, error);
        return;
    }
    if (!s->orphan) {
        net_tell(s->base.net, &s->base.news, NET_EV_FIN);
    }
    if (!sock_stream_is_over(s) && s->orphan) {
        sock_orphan_done(s);
    }
}

/* What recv() gave but octets. True: to be tried again. */
static bool on_no_data(struct sock_stream *s, ssize_t r, int err)
{
    if (r < 0 && err == EINTR) {
        return true;
    }
    if (r == 0) {
        on_fin(s);
    } else if (err != EAGAIN) {
        sock_captured_end(s, false, true);
        sock_stream_end(s, -err);
    } else if (s->ending) {
        sock_stream_is_over(s);
    }
    return false;
}

/* Of a stream whose owner has let go of it; unread octets would make the kernel send a reset. */
static bool drain(struct sock_stream *s)
{
    struct sock_net *net = sock_net_of(s->base.net);
    struct sock_ring *r = ring_new(net);
    if (r == NULL) {
        s->rx_full = true;
        return false;
    }
    ssize_t n = recv(s->fd, r->data, SOCK_RING, MSG_TRUNC | MSG_DONTWAIT); /* copies nothing */
    int err = errno;
    ring_free(net, r);
    return n > 0 || on_no_data(s, n, err);
}

/* An owner who does not take what there is will never see what is behind it, but is to see the end. */
static bool no_room(struct sock_stream *s)
{
    if (s->ending && s->rx_full) {
        int error = sock_stream_error(s);
        if (error != 0) {
            sock_stream_end(s, error);
        }
        return false;
    }
    s->rx_full = true;
    return s->ending;
}

/* A buffer's worth; true when there may be more. */
static bool read_some(struct sock_stream *s)
{
    if (s->fin_in) {
        if (s->ending) {
            sock_stream_is_over(s);
        }
        return false;
    }
    if (s->orphan) {
        return drain(s);
    }
    if (!has_room(s)) {
        return no_room(s);
    }
    struct iovec iov[2];
    uint32_t asked = unfilled(s, iov);
    ssize_t r = readv(s->fd, iov, iov[1].iov_len > 0 ? 2 : 1);
    if (r <= 0) {
        return on_no_data(s, r, errno);
    }
    sock_captured(s, false, iov, (size_t)r);
    s->rx_full = false;
    s->base.rx_queued += (uint32_t)r;
    net_tell(s->base.net, &s->base.news, NET_EV_DATA);
    return (uint32_t)r == asked || s->ending;
}

uint32_t sock_rx_turn(struct sock_net *net)
{
    struct list again, *node;
    uint32_t cnt = 0;
    list_init(&again);
    while (cnt < SOCK_READS && (node = list_shift(&net->readable)) != NULL) {
        struct sock_stream *s = CONTAINER_OF(node, struct sock_stream, readable);
        cnt++;
        if (read_some(s)) {
            list_append(&again, node);
        }
    }
    while ((node = list_shift(&again)) != NULL) {
        list_append(&net->readable, node);
    }
    return cnt;
}

/* --- the face --- */

uint32_t sock_rx_peek(struct net_stream *stream, struct span *v, uint32_t max)
{
    struct sock_stream *s = sock_stream_of(stream);
    struct span all[2];
    uint32_t n = min_u32(filled(s, all), max);
    for (uint32_t i = 0; i < n; i++) {
        v[i] = all[i];
    }
    s->rx_peeked = n > 0;
    return n;
}

void sock_rx_consume(struct net_stream *stream, uint32_t n)
{
    struct sock_stream *s = sock_stream_of(stream);
    n = min_u32(n, s->base.rx_queued);
    s->base.rx_queued -= n;
    s->rx_peeked = false;
    if (n > 0) {
        s->rx_at = (s->rx_at + n) % s->rx->size;
    }
    if (s->rx_full && s->fd >= 0) {
        s->rx_full = false;
        sock_queue(&sock_net_of(s->base.net)->readable, &s->readable);
    }
}
