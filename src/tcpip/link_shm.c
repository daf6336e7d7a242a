/* SPDX-License-Identifier: MIT */
/* A wire of shared memory between two processes of one host: no root, one copy per frame. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/copy.h"
#include "base/log.h"
#include "tcpip/link.h"
#include "tcpip/shm_join.h"
#include "tcpip/vnet.h"

enum {
    LINGER_SLOTS = SHM_SLOTS / 2, /* with more in use, frames are copied out of their slots */
    HEAD_COPY = 144,              /* of a frame in a slot; holds all headers */
    WATCH_MS = 20,                /* between looks at the peer */
    RETURN_AT = 16,               /* that many slots go back together, at the latest */
};

/* The memory of a session; it outlives the session while frames lie in it. */
struct memory {
    struct frame_lender lender;
    struct link *link;
    struct shm_area *area;
    struct shm_rx rx;
    struct shm_tx tx;
    uint32_t done[RETURN_AT]; /* slots to give back */
    uint32_t done_count;
    int wake_peer;
    bool asleep; /* somebody waits for the link */
    bool parted;
};

struct link_shm {
    struct link base;
    struct shm_join join;
    struct shm_session session;
    struct memory *mem; /* NULL: no session */
    bool peer_gone;     /* what it has sent before is still taken */
    bool broken;        /* the peer broke the ring's rules: it is a peer lost */
    uint64_t watch_at;
    uint64_t lost;
};

static struct link_shm *shm_of(struct link *l)
{
    return CONTAINER_OF(l, struct link_shm, base);
}

static void signal_to(int fd)
{
    uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof one);
    (void)n; /* a full counter wakes as well */
}

/* --- sessions --- */

static void memory_unref(struct memory *m)
{
    if (m->parted && m->rx.held_count == 0) {
        shm_area_free(m->area);
        free(m);
    }
}

static void give_back(struct frame_lender *lender, uint32_t slot)
{
    struct memory *m = CONTAINER_OF(lender, struct memory, lender);
    shm_rx_return(&m->rx, slot);
    if (!m->parted) {
        m->link->untold = true;
    }
    memory_unref(m);
}

/* A slot whose frame was copied goes back a little later: the answer to the frame should not wait
 * for that. */
static void give_back_done(struct memory *m)
{
    for (uint32_t i = 0; i < m->done_count; i++) {
        shm_rx_return(&m->rx, m->done[i]);
        m->link->untold = true;
    }
    m->done_count = 0;
}

static void shm_tell(struct link *l)
{
    struct memory *m = shm_of(l)->mem;
    l->untold = false;
    if (m != NULL && shm_signal_due(&m->rx, &m->tx)) {
        signal_to(m->wake_peer);
    }
}

/* Whoever sleeps on the link while another thread begins the session is to hear of its first frame. */
static void begin(struct link_shm *s)
{
    struct memory *m = calloc(1, sizeof *m);
    if (m == NULL) {
        shm_area_free(s->session.area);
        shm_join_part(&s->join, &s->session);
        return;
    }
    m->lender.give_back = give_back;
    m->link = &s->base;
    m->area = s->session.area;
    m->wake_peer = s->session.wake_peer;
    m->asleep = true;
    unsigned in = s->session.listened ? 1 : 0;
    shm_rx_init(&m->rx, &m->area->way[in]);
    shm_tx_init(&m->tx, &m->area->way[1 - in]);
    if (!shm_sleep(&m->rx, &m->tx, false)) {
        signal_to(s->session.wake_us);
    }
    s->mem = m;
    s->peer_gone = false;
    s->broken = false;
    s->base.up = true;
    s->base.epoch++;
    log_line(LOG_INFO, "shm: the other end of %s is there", s->join.path);
}

static void part(struct link_shm *s, const char *why)
{
    struct memory *m = s->mem;
    give_back_done(m);
    shm_tell(&s->base);
    s->mem = NULL;
    s->base.up = false;
    shm_join_part(&s->join, &s->session);
    m->parted = true;
    memory_unref(m);
    log_line(LOG_INFO, "shm: %s: %s", s->join.path, why);
}

static void watch_peer(struct link_shm *s)
{
    if (s->mem == NULL) {
        if (shm_join_step(&s->join, &s->session) == 1) {
            begin(s);
        }
        return;
    }
    if (s->broken) {
        part(s, "the other end broke the ring's rules");
        return;
    }
    s->peer_gone = s->peer_gone || !shm_join_alive(&s->join);
    if (s->peer_gone && !shm_rx_waiting(&s->mem->rx)) {
        part(s, "the other end is gone");
    }
}

/* --- receive --- */

static struct frame *copied(struct memory *m, uint32_t slot, const uint8_t *d, uint32_t len)
{
    struct frame *f = frame_new(len);
    if (f != NULL) {
        memcpy(f->data, d, len);
        f->len = len;
    }
    m->done[m->done_count++] = slot;
    if (m->done_count == RETURN_AT) {
        give_back_done(m);
    }
    return f;
}

/* Headers are read more than once by lwIP, so they come from a copy that the peer cannot change;
 * payload stays in the slot. */
static struct frame *borrowed(struct memory *m, uint32_t slot, const uint8_t *d, uint32_t len)
{
    struct frame *head = frame_new(HEAD_COPY), *rest = frame_new(0);
    struct vnet_tcp t;
    if (head != NULL && rest != NULL) {
        memcpy(head->data, d, HEAD_COPY);
        if (vnet_find_tcp(head->data, HEAD_COPY, len, &t)) {
            head->len = t.pay;
            head->next = rest;
            rest->data = m->rx.way->data[slot] + t.pay;
            rest->len = len - t.pay;
            rest->lender = &m->lender;
            rest->slot = slot;
            return head;
        }
    }
    if (head != NULL) {
        frame_free(head);
    }
    if (rest != NULL) {
        frame_free(rest);
    }
    return copied(m, slot, d, len);
}

static uint32_t shm_rx(struct link *l, struct frame **out, uint32_t max)
{
    struct link_shm *s = shm_of(l);
    struct memory *m = s->mem;
    uint32_t n = 0, slot, len;
    if (m != NULL) {
        give_back_done(m);
    }
    while (m != NULL && !s->broken && n < max) {
        int r = shm_rx_take(&m->rx, FRAME_MAX, &slot, &len);
        if (r <= 0) {
            s->broken |= r < 0;
            break;
        }
        const uint8_t *d = m->rx.way->data[slot];
        bool small = len < FRAME_SMALL || m->rx.held_count > LINGER_SLOTS;
        struct frame *f = small ? copied(m, slot, d, len) : borrowed(m, slot, d, len);
        if (f != NULL) {
            f->sum_ok = true;
            out[n++] = f;
        }
    }
    return n;
}

/* --- send --- */

/* Who sleeps already, while another thread fills the link, did not ask to be woken for room. */
static int slot_for(struct memory *m, uint32_t *slot)
{
    int r = shm_tx_slot(&m->tx, slot);
    if (r == 0 && m->asleep) {
        shm_sleep(&m->rx, &m->tx, true);
        r = shm_tx_slot(&m->tx, slot);
    }
    return r;
}

static int shm_tx(struct link *l, struct link_tx *tx)
{
    struct link_shm *s = shm_of(l);
    struct memory *m = s->mem;
    if (m == NULL || s->peer_gone || s->broken) {
        s->lost++;
        return -ENETDOWN;
    }
    uint32_t slot;
    int r = slot_for(m, &slot);
    if (r <= 0) {
        s->broken |= r < 0;
        return r < 0 ? -ENETDOWN : -EAGAIN;
    }
    uint8_t *d = m->tx.way->data[slot];
    for (uint32_t i = 1; i < tx->n; i++) {
        copy_across(d, tx->v[i].iov_base, tx->v[i].iov_len);
        d += tx->v[i].iov_len;
    }
    shm_tx_post(&m->tx, slot, tx->len);
    l->untold = true;
    s->broken |= shm_tx_collect(&m->tx) < 0;
    return 0;
}

static bool shm_ready(struct link *l)
{
    struct link_shm *s = shm_of(l);
    uint32_t slot;
    return s->mem == NULL || shm_tx_slot(&s->mem->tx, &slot) != 0;
}

/* --- the rest --- */

static bool shm_link_sleep(struct link *l, bool want_room)
{
    struct link_shm *s = shm_of(l);
    if (s->mem == NULL) {
        return true;
    }
    give_back_done(s->mem);
    if (l->untold) { /* else two ends with nothing to say would wake each other for ever */
        shm_tell(l);
    }
    s->mem->asleep = true;
    return shm_sleep(&s->mem->rx, &s->mem->tx, want_room);
}

static void shm_woken(struct link *l)
{
    struct link_shm *s = shm_of(l);
    if (s->mem != NULL) {
        s->mem->asleep = false;
        shm_awake(&s->mem->rx, &s->mem->tx);
        uint64_t count;
        ssize_t n = read(s->session.wake_us, &count, sizeof count);
        if (n == (ssize_t)sizeof count) {
            return; /* it was a signal, so the peer is alive */
        }
    }
    watch_peer(s);
}

static void shm_tick(struct link *l)
{
    struct link_shm *s = shm_of(l);
    uint64_t now = net_now_ms();
    if (s->mem == NULL || s->peer_gone || s->broken || now >= s->watch_at ||
        s->watch_at > now + WATCH_MS) {
        s->watch_at = now + WATCH_MS;
        watch_peer(s);
    }
}

static int shm_due(const struct link *l)
{
    const struct link_shm *s = CONTAINER_OF(l, const struct link_shm, base);
    return s->mem != NULL ? -1 : shm_join_due_ms(&s->join);
}

static void shm_close(struct link *l)
{
    struct link_shm *s = shm_of(l);
    if (s->mem != NULL) {
        part(s, "closed");
    }
    shm_join_close(&s->join);
    free(s);
}

static const struct link_ops shm_ops = {
    .rx = shm_rx,
    .tx = shm_tx,
    .tx_ready = shm_ready,
    .tell = shm_tell,
    .sleep = shm_link_sleep,
    .woken = shm_woken,
    .tick = shm_tick,
    .due_ms = shm_due,
    .close = shm_close,
};

int link_shm_open(const struct net_cfg *cfg, struct link **out, char err[NET_ERR_TEXT])
{
    struct link_shm *s = calloc(1, sizeof *s);
    if (s == NULL) {
        snprintf(err, NET_ERR_TEXT, "shm %.80s: out of memory", cfg->name);
        return -ENOMEM;
    }
    int r = shm_join_open(&s->join, cfg->name, err);
    if (r != 0) {
        free(s);
        return r;
    }
    s->base.ops = &shm_ops;
    s->base.fd = s->join.epoll_fd;
    s->base.memory = true;
    s->base.mtu = min_u32(cfg->mtu != 0 ? cfg->mtu : LINK_MTU_MAX, LINK_MTU_MAX);
    watch_peer(s); /* whoever comes second is connected at once */
    *out = &s->base;
    return 0;
}
