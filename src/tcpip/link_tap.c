/* SPDX-License-Identifier: MIT */
/* A TAP interface: frames with a virtio-net header in front, so that the kernel does segmentation
 * and checksums (linux/Documentation/networking/tuntap.rst). */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "tcpip/link.h"

enum { VNET_LEN = sizeof(struct virtio_net_hdr) };

struct link_tap {
    struct link base;
    struct frame *spare; /* for the next read */
    bool full;
    uint64_t lost;
    char name[IFNAMSIZ];
};

static struct link_tap *tap_of(struct link *l)
{
    return CONTAINER_OF(l, struct link_tap, base);
}

/* --- receive --- */

/* The interface was removed: its descriptor would be readable for ever. Whoever waits on that gets
 * one that is quiet instead. */
static void device_gone(struct link_tap *t)
{
    log_line(LOG_ERROR, "tap %s: the interface was removed", t->name);
    t->base.up = false;
    t->base.gone = true;
    int quiet = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (quiet >= 0) {
        (void)dup3(quiet, t->base.fd, O_CLOEXEC);
        close(quiet);
    }
}

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
            device_gone(t);
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

static uint32_t tap_rx(struct link *l, struct frame **out, uint32_t max)
{
    struct link_tap *t = tap_of(l);
    uint32_t n = 0;
    while (n < max && l->up) {
        struct frame *f = read_frame(t);
        if (f == NULL) {
            break;
        }
        out[n++] = f;
    }
    return n;
}

/* --- send --- */

static int tap_tx(struct link *l, struct link_tx *tx)
{
    struct link_tap *t = tap_of(l);
    tx->v[0].iov_base = &tx->vh;
    tx->v[0].iov_len = VNET_LEN;
    ssize_t n = l->up ? writev(l->fd, tx->v, (int)tx->n) : -1;
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
    tap_of(l)->full = false;
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
    log_line(LOG_DEBUG, "tap %s: %llu frames lost", t->name, (unsigned long long)t->lost);
    close(l->fd);
    free(t);
}

static const struct link_ops tap_ops = {tap_rx,    tap_tx,   tap_ready, tap_sleep,
                                        tap_woken, tap_tick, tap_due,   tap_close};

/* --- opening --- */

__attribute__((format(printf, 4, 5))) static int fault(char err[NET_ERR_TEXT], int error,
                                                       const char *name, const char *fmt, ...)
{
    int n = snprintf(err, NET_ERR_TEXT, "tap %.20s: ", name);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err + n, (size_t)(NET_ERR_TEXT - n), fmt, ap);
    va_end(ap);
    return -error;
}

/* The interface must be there and up: TUNSETIFF would quietly make a new one that goes away with
 * us, and has no address or bridge. */
static int check_device(const struct net_cfg *cfg, struct ifreq *rq, char err[NET_ERR_TEXT])
{
    const char *name = cfg->name;
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0) {
        return fault(err, errno, name, "socket: %m");
    }
    int error = 0;
    if (ioctl(s, SIOCGIFFLAGS, rq) != 0) {
        error = errno;
    } else if ((rq->ifr_flags & IFF_UP) == 0) {
        error = ENETDOWN;
    } else if (ioctl(s, SIOCGIFMTU, rq) != 0) {
        error = errno;
    }
    close(s);
    if (error == ENODEV) {
        return fault(err, ENODEV, name,
                     "no such interface; \"ip tuntap add %s mode tap\" and \"ip link set %s up\" "
                     "make one",
                     name, name);
    }
    if (error == ENETDOWN) {
        return fault(err, ENETDOWN, name, "the interface is down; ip link set %s up", name);
    }
    if (error != 0) {
        return fault(err, error, name, "cannot be queried: %s", strerror(error));
    }
    return 0;
}

static int attach(struct link_tap *t, struct ifreq *rq, char err[NET_ERR_TEXT])
{
    t->base.fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (t->base.fd < 0) {
        return fault(err, errno, t->name, "/dev/net/tun: %s", strerror(errno));
    }
    rq->ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    if (ioctl(t->base.fd, TUNSETIFF, rq) == 0) {
        return 0;
    }
    int error = errno;
    switch (error) {
    case EINVAL:
        return fault(err, ENOTTY, t->name,
                     "the interface is no TAP, or one with other options (multi_queue?)");
    case EPERM:
        return fault(err, EPERM, t->name,
                     "no permission; it takes root, CAP_NET_ADMIN or an interface of your own "
                     "(ip tuntap add %s mode tap user NAME)",
                     t->name);
    case EBUSY: return fault(err, EBUSY, t->name, "in use by another process");
    default: return fault(err, error, t->name, "TUNSETIFF: %s", strerror(error));
    }
}

static int set_offloads(struct link_tap *t, char err[NET_ERR_TEXT])
{
    int len = VNET_LEN;
    if (ioctl(t->base.fd, TUNSETVNETHDRSZ, &len) != 0 ||
        ioctl(t->base.fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0) {
        return fault(err, errno, t->name, "the kernel refuses segmentation offload: %s",
                     strerror(errno));
    }
    return 0;
}

static int tap_setup(struct link_tap *t, const struct net_cfg *cfg, char err[NET_ERR_TEXT])
{
    struct ifreq rq = {0};
    if (strlen(cfg->name) >= sizeof rq.ifr_name) {
        return fault(err, ENODEV, cfg->name, "no interface has a name that long");
    }
    strcpy(rq.ifr_name, cfg->name);
    strcpy(t->name, cfg->name);
    int r = check_device(cfg, &rq, err);
    if (r != 0) {
        return r;
    }
    uint32_t mtu = (uint32_t)rq.ifr_mtu;
    if (cfg->mtu > mtu) {
        return fault(err, EINVAL, t->name, "MTU %u asked for, the interface has %u", cfg->mtu, mtu);
    }
    t->base.mtu = min_u32(cfg->mtu != 0 ? cfg->mtu : mtu, LINK_MTU_MAX);
    r = attach(t, &rq, err);
    return r != 0 ? r : set_offloads(t, err);
}

int link_tap_open(const struct net_cfg *cfg, struct link **out, char err[NET_ERR_TEXT])
{
    struct link_tap *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return fault(err, ENOMEM, cfg->name, "out of memory");
    }
    t->base.ops = &tap_ops;
    t->base.fd = -1;
    t->base.up = true;
    int r = tap_setup(t, cfg, err);
    if (r != 0) {
        if (t->base.fd >= 0) {
            close(t->base.fd);
        }
        free(t);
        return r;
    }
    *out = &t->base;
    return 0;
}
