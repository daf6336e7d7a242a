/* SPDX-License-Identifier: MIT */
/* What a stream sends. Its owner writes into chunks or lends memory; a flush hands all of it to the
 * kernel in one gathering call. The kernel copies, so that nothing is needed here any more once it
 * has taken it: that is what "acknowledged" means for these streams. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "tcpip/sock.h"

enum {
    /* What net_tx_room() tells at most, and what that may take: any two chunks that follow each other
     * hold more than one chunk's worth of pieces. */
    ROOM_MAX = 2 * NET_CHUNK,
    CHUNK_STOCK = 5,
    ITEMS_SPARE = 24,
    ITEMS_OF_PIECE = 1,
};

/* --- the queue --- */

static struct sock_item *item_at(struct sock_out *o, uint32_t i)
{
    return &o->items[(o->first + i) % SOCK_ITEMS];
}

static bool out_stock(struct sock_net *net)
{
    if (net->outs == NULL) {
        net->outs = malloc(sizeof *net->outs);
        if (net->outs == NULL) {
            return false;
        }
        net->outs->next = NULL;
    }
    return true;
}

static void out_take(struct sock_stream *s)
{
    struct sock_net *net = sock_net_of(s->base.net);
    s->out = net->outs;
    net->outs = s->out->next;
    s->out->first = 0;
    s->out->count = 0;
}

static void out_give_back(struct sock_stream *s)
{
    struct sock_net *net = sock_net_of(s->base.net);
    if (s->out != NULL) {
        s->out->next = net->outs;
        net->outs = s->out;
        s->out = NULL;
    }
}

void sock_outs_free(struct sock_net *net)
{
    while (net->outs != NULL) {
        struct sock_out *o = net->outs;
        net->outs = o->next;
        free(o);
    }
}

bool sock_tx_pending(const struct sock_stream *s)
{
    return s->out != NULL;
}

void sock_tx_drop(struct sock_stream *s)
{
    net_txmem_drop(&s->tx_mem, &sock_net_of(s->base.net)->chunks);
    out_give_back(s);
    s->tx_reserved = 0;
}

/* --- room --- */

/* With so many items to spare, and memory in stock, so that what net_tx_room() promises needs no
 * allocation. */
static uint32_t room(const struct sock_stream *s, uint32_t spare)
{
    struct sock_net *net = sock_net_of(s->base.net);
    if (!s->up || s->fin_out || s->tx_dead) {
        return 0;
    }
    if (!out_stock(net) || !net_chunks_stock(&net->chunks, CHUNK_STOCK)) {
        sock_starved(net);
        return 0;
    }
    if (s->out != NULL && s->out->count + spare > SOCK_ITEMS) {
        return 0;
    }
    uint64_t used = s->base.tx_queued - s->base.tx_acked;
    return used < SOCK_AHEAD ? min_u32(SOCK_AHEAD - (uint32_t)used, ROOM_MAX) : 0;
}

uint32_t sock_tx_room(struct net_stream *stream)
{
    struct sock_stream *s = sock_stream_of(stream);
    uint32_t n = room(s, ITEMS_SPARE);
    s->want_room |= n < NET_CHUNK;
    return n;
}

/* A chunk's worth is what the owner may ask for at most, and he is not called for less. */
void sock_tx_tell_room(struct sock_stream *s)
{
    if (s->want_room && !s->orphan && room(s, ITEMS_SPARE) >= NET_CHUNK) {
        s->want_room = false;
        net_tell(s->base.net, &s->base.news, NET_EV_ROOM);
    }
}

/* --- queueing --- */

static void add_item(struct sock_stream *s, struct sock_item item)
{
    if (s->out == NULL) {
        out_take(s);
    }
    struct sock_out *o = s->out;
    struct sock_item *last = o->count > 0 ? item_at(o, o->count - 1) : NULL;
    if (last != NULL && item.lent == last->lent && last->p + last->n == item.p) {
        last->n += item.n;
    } else {
        *item_at(o, o->count++) = item;
    }
    s->base.tx_queued += item.n;
    if (!s->blocked) {
        sock_queue(&sock_net_of(s->base.net)->dirty, &s->dirty);
    }
}

uint8_t *sock_tx_reserve(struct net_stream *stream, uint32_t n)
{
    struct sock_stream *s = sock_stream_of(stream);
    uint8_t *p = NULL;
    if (n <= NET_CHUNK && room(s, ITEMS_OF_PIECE) >= n) {
        p = net_txmem_reserve(&s->tx_mem, &sock_net_of(s->base.net)->chunks, n);
    }
    s->want_room |= p == NULL;
    s->tx_reserved = p != NULL ? n : 0;
    return p;
}

void sock_tx_commit(struct net_stream *stream, uint32_t n, uint32_t unit)
{
    (void)unit; /* where segments begin is the kernel's affair */
    struct sock_stream *s = sock_stream_of(stream);
    n = min_u32(n, s->tx_reserved);
    s->tx_reserved = 0;
    if (n > 0) {
        const uint8_t *p = net_txmem_commit(&s->tx_mem, n, s->base.tx_queued + n);
        add_item(s, (struct sock_item){p, n, false});
    }
}

bool sock_tx_lend(struct net_stream *stream, const void *p, uint32_t n)
{
    struct sock_stream *s = sock_stream_of(stream);
    if (room(s, ITEMS_OF_PIECE) < n) {
        s->want_room = true;
        return false;
    }
    if (n > 0) {
        add_item(s, (struct sock_item){p, n, true});
        s->lent = true;
    }
    return true;
}

/* --- sending --- */

/* The kernel has a copy of n more octets. */
static void taken(struct sock_stream *s, uint32_t n)
{
    struct sock_out *o = s->out;
    if (s->lent) {
        net_tell(s->base.net, &s->base.news, NET_EV_ACKED);
    }
    s->base.tx_acked += n;
    while (n > 0) {
        struct sock_item *it = item_at(o, 0);
        uint32_t part = min_u32(n, it->n);
        it->p += part;
        it->n -= part;
        n -= part;
        if (it->n == 0) {
            o->first = (o->first + 1) % SOCK_ITEMS;
            o->count--;
        }
    }
    bool idle = o->count == 0 && s->tx_reserved == 0;
    net_txmem_release(&s->tx_mem, &sock_net_of(s->base.net)->chunks, s->base.tx_acked, idle);
    if (o->count == 0) {
        s->lent = false;
        out_give_back(s);
    }
}

/* All that is queued, as far as the kernel takes it; negative errno when it will take no more. */
static int send_queue(struct sock_stream *s)
{
    struct iovec iov[SOCK_ITEMS];
    while (s->out != NULL && !s->blocked) {
        uint64_t left = s->base.tx_queued - s->base.tx_acked;
        struct msghdr m = {.msg_iov = iov, .msg_iovlen = s->out->count};
        for (uint32_t i = 0; i < s->out->count; i++) {
            const struct sock_item *it = item_at(s->out, i);
            iov[i] = (struct iovec){(void *)(uintptr_t)it->p, it->n};
        }
        ssize_t r = sendmsg(s->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (r >= 0) {
            sock_captured(s, true, iov, (size_t)r);
            taken(s, (uint32_t)r);
            s->blocked = (uint64_t)r < left; /* epoll will tell of room */
        } else if (errno == EAGAIN) {
            s->blocked = true;
        } else if (errno == ENOBUFS || errno == ENOMEM) {
            sock_starved(sock_net_of(s->base.net));
            return 0;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

/* The reading side finds out what happened, after what had come before. */
static void send_failed(struct sock_stream *s, int error)
{
    s->base.error = error == -EPIPE ? -ECONNRESET : error;
    s->tx_dead = true;
    s->ending = true;
    sock_tx_drop(s);
    sock_queue(&sock_net_of(s->base.net)->readable, &s->readable);
}

void sock_tx_flush(struct sock_stream *s)
{
    if (!s->up || s->tx_dead) {
        return;
    }
    struct sock_net *net = sock_net_of(s->base.net);
    uint64_t before = s->base.tx_acked;
    int r = send_queue(s);
    if (r != 0) {
        send_failed(s, r);
        return;
    }
    if (s->base.tx_acked != before) {
        if (list_empty(&s->timed)) {
            sock_stream_deadline(s, &net->watched, SOCK_WATCH_MS);
        }
        if (s->base.tx_acked >= s->emss_at) {
            sock_look_at_emss(s);
        }
        sock_tx_tell_room(s);
    }
    if (s->fin_out && !s->fin_sent && s->out == NULL) {
        s->fin_sent = true;
        shutdown(s->fd, SHUT_WR);
        sock_captured_end(s, true, false);
        sock_orphan_done(s);
    }
}

/* --- taking lent memory back --- */

static bool unlend(struct sock_stream *s, uintptr_t from, uint64_t n)
{
    for (uint32_t i = 0; s->out != NULL && i < s->out->count; i++) {
        struct sock_item *it = item_at(s->out, i);
        if (!it->lent || !net_overlaps(it->p, it->n, from, n)) {
            continue;
        }
        const uint8_t *copy = net_txmem_copy(&s->tx_mem, it->p, it->n, s->base.tx_queued);
        if (copy == NULL) {
            return false;
        }
        it->p = copy;
        it->lent = false;
    }
    return true;
}

bool sock_tx_unlend_all(struct sock_stream *s)
{
    return unlend(s, 0, UINT64_MAX);
}

/* The memory is about to vanish, so without memory for a copy the connection has to go. */
void sock_tx_unlend(struct net_stream *stream, const void *p, uint64_t n)
{
    struct sock_stream *s = sock_stream_of(stream);
    if (n > 0 && !unlend(s, (uintptr_t)p, n)) {
        sock_stream_end(s, -ENOMEM);
    }
}
