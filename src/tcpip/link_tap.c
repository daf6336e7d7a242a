/* SPDX-License-Identifier: MIT */
/* A TAP interface: frames with a virtio-net header in front, so that the kernel does segmentation
 * and checksums (linux/Documentation/networking/tuntap.rst). */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "tcpip/iface.h"
#include "tcpip/vnet.h"

enum {
    VNET_LEN = sizeof(struct virtio_net_hdr),
    AT_ONCE = 512, /* a frame of no more leaves from one piece of memory */
};

struct link_tap {
    struct link base;
    struct frame *spare; /* for the next read */
    struct iface iface;
    bool full;
    uint8_t tagged[VNET_LEN + VNET_TAG_AT + VNET_TAG]; /* what leaves in front, on a VLAN */
    uint64_t lost;
};

static struct link_tap *tap_of(struct link *l)
{
    return CONTAINER_OF(l, struct link_tap, base);
}

/* --- receive --- */

/* The header that the kernel puts in front lies just before the frame in the buffer. */
static struct frame *read_frame(struct link_tap *t)
{
    struct frame *f = t->spare != NULL ? t->spare : frame_new(FRAME_ROOM);
    t->spare = f;
    if (f == NULL) {
        return NULL;
    }
    ssize_t n = read(t->base.fd, f->data - VNET_LEN, FRAME_ROOM + VNET_LEN);
    if (n < VNET_LEN) {
        if (n < 0 && errno == EBADFD) {
            iface_gone(&t->iface, &t->base);
        }
        return NULL;
    }
    struct virtio_net_hdr vh;
    memcpy(&vh, f->data - VNET_LEN, VNET_LEN);
    f->len = (uint32_t)n - VNET_LEN;
    /* What the kernel itself has sent or verified; the rest may come from a real wire. */
    f->sum_ok = (vh.flags & (VIRTIO_NET_HDR_F_NEEDS_CSUM | VIRTIO_NET_HDR_F_DATA_VALID)) != 0;
    bool again;
    struct frame *got = frame_fit(f, &again);
    t->spare = again ? f : NULL;
    return got;
}

/* A frame of another VLAN, or of none, is emptied: nobody wants that. */
static void untag(const struct link_tap *t, struct frame *f)
{
    if (!vnet_untag(f->data, f->len, t->iface.vlan)) {
        f->len = 0;
        return;
    }
    f->data += VNET_TAG;
    f->len -= VNET_TAG;
}

static uint32_t tap_rx(struct link *l, struct frame **out, uint32_t max)
{
    struct link_tap *t = tap_of(l);
    uint32_t n = 0;
    while (n < max && l->up) {
        struct frame *f = read_frame(t);
        if (f == NULL) {
            break;
        }
        if (t->iface.vlan != 0) {
            untag(t, f);
        }
        out[n++] = f;
    }
    return n;
}

/* --- send --- */

/* The tag goes between the MAC addresses and the rest of the headers. */
static void put_tag(struct link_tap *t, struct link_tx *tx)
{
    uint8_t *at = t->tagged;
    struct virtio_net_hdr vh = tx->vh;
    if (vh.flags != 0) {
        vh.csum_start = (uint16_t)(vh.csum_start + VNET_TAG);
        vh.hdr_len = (uint16_t)(vh.hdr_len + VNET_TAG);
    }
    memcpy(at, &vh, VNET_LEN);
    memcpy(at + VNET_LEN, tx->v[1].iov_base, VNET_TAG_AT);
    vnet_put_tag(at + VNET_LEN + VNET_TAG_AT, t->iface.vlan);
    tx->v[0] = (struct iovec){at, sizeof t->tagged};
    tx->v[1].iov_base = (uint8_t *)tx->v[1].iov_base + VNET_TAG_AT;
    tx->v[1].iov_len -= VNET_TAG_AT;
}

/* The kernel takes longer to walk a list of pieces than it takes to put small ones together. */
static ssize_t write_frame(int fd, const struct link_tx *tx)
{
    uint8_t whole[VNET_LEN + VNET_TAG + AT_ONCE];
    uint32_t n = 0;
    if (tx->len > AT_ONCE) {
        return writev(fd, tx->v, (int)tx->n);
    }
    for (uint32_t i = 0; i < tx->n; i++) {
        memcpy(whole + n, tx->v[i].iov_base, tx->v[i].iov_len);
        n += (uint32_t)tx->v[i].iov_len;
    }
    return write(fd, whole, n);
}

static int tap_tx(struct link *l, struct link_tx *tx)
{
    struct link_tap *t = tap_of(l);
    tx->v[0].iov_base = &tx->vh;
    tx->v[0].iov_len = VNET_LEN;
    struct iovec first = tx->v[1];
    if (t->iface.vlan != 0) {
        put_tag(t, tx);
    }
    ssize_t n = l->up ? write_frame(l->fd, tx) : -1;
    tx->v[1] = first; /* the caller may want to capture the frame, or to try again */
    if (n >= 0) {
        return 0;
    }
    if (!l->up) {
        return -ENETDOWN;
    }
    if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) {
        t->full = true;
        return -EAGAIN;
    }
    int error = -errno; /* the interface is down (EIO), say */
    t->lost++;
    return error;
}

/* A TAP does not tell when a write would work again; it is tried at each tick. */
static bool tap_ready(struct link *l)
{
    return !tap_of(l)->full;
}

static void tap_tick(struct link *l)
{
    struct link_tap *t = tap_of(l);
    t->full = false;
    iface_follow(&t->iface, l);
}

static int tap_due(const struct link *l)
{
    const struct link_tap *t = CONTAINER_OF(l, const struct link_tap, base);
    return t->full ? 1 : -1;
}

static bool tap_sleep(struct link *l, bool want_room)
{
    (void)l;
    (void)want_room;
    return true;
}

static void tap_woken(struct link *l)
{
    (void)l;
}

static void tap_close(struct link *l)
{
    struct link_tap *t = tap_of(l);
    if (t->spare != NULL) {
        frame_free(t->spare);
    }
    log_line(LOG_DEBUG, "tap %s: %llu frames lost", t->iface.name, (unsigned long long)t->lost);
    iface_close(&t->iface);
    close(l->fd);
    free(t);
}

static const struct link_ops tap_ops = {
    .rx = tap_rx,
    .tx = tap_tx,
    .tx_ready = tap_ready,
    .sleep = tap_sleep,
    .woken = tap_woken,
    .tick = tap_tick,
    .due_ms = tap_due,
    .close = tap_close,
};

/* --- opening --- */

/* The interface is there, or TUNSETIFF would quietly make a new one that goes away with us, and has no
 * address or bridge. */
static int attach(struct link_tap *t, char err[NET_ERR_TEXT])
{
    struct iface *i = &t->iface;
    struct ifreq rq = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    strcpy(rq.ifr_name, i->name);
    t->base.fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (t->base.fd < 0) {
        return iface_fault(i, err, errno, "/dev/net/tun: %s", strerror(errno));
    }
    if (ioctl(t->base.fd, TUNSETIFF, &rq) == 0) {
        return 0;
    }
    int error = errno;
    switch (error) {
    case EINVAL:
        return iface_fault(i, err, ENOTTY,
                           "the interface is no TAP, or one with other options (multi_queue?)");
    case EPERM:
        return iface_fault(
            i, err, EPERM,
            "no permission; it takes root, CAP_NET_ADMIN or an interface of your own "
            "(ip tuntap add %s mode tap user NAME)",
            t->iface.name);
    case EBUSY: return iface_fault(i, err, EBUSY, "in use by another process");
    default: return iface_fault(i, err, error, "TUNSETIFF: %s", strerror(error));
    }
}

static int set_offloads(struct link_tap *t, char err[NET_ERR_TEXT])
{
    const struct iface *i = &t->iface;
    int len = VNET_LEN;
    if (ioctl(t->base.fd, TUNSETVNETHDRSZ, &len) != 0 ||
        ioctl(t->base.fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0) {
        return iface_fault(i, err, errno, "the kernel refuses segmentation offload: %s",
                           strerror(errno));
    }
    return 0;
}

static int tap_setup(struct link_tap *t, const struct net_cfg *cfg, char err[NET_ERR_TEXT])
{
    int r = iface_open(&t->iface, cfg,
                       "\"ip tuntap add NAME mode tap\" and \"ip link set NAME up\" make one", err);
    if (r == 0) {
        t->base.mtu = iface_mtu(&t->iface);
        r = attach(t, err);
    }
    return r != 0 ? r : set_offloads(t, err);
}

int link_tap_open(const struct net_cfg *cfg, struct link **out, char err[NET_ERR_TEXT])
{
    struct link_tap *t = calloc(1, sizeof *t);
    if (t == NULL) {
        snprintf(err, NET_ERR_TEXT, "tap %.80s: out of memory", cfg->name);
        return -ENOMEM;
    }
    t->base.ops = &tap_ops;
    t->base.fd = -1;
    t->base.up = true;
    int r = tap_setup(t, cfg, err);
    if (r != 0) {
        if (t->base.fd >= 0) {
            close(t->base.fd);
        }
        iface_close(&t->iface);
        free(t);
        return r;
    }
    *out = &t->base;
    return 0;
}
