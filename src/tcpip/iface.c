/* SPDX-License-Identifier: MIT */
#include "tcpip/iface.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "tcpip/net_base.h"

enum { ASK_MS = 100, MTU_LEAST = 128 };

/* A name may stand for another interface by now, so its index has to be the same. */
static int ask(struct iface *i)
{
    struct ifreq rq = {0};
    strcpy(rq.ifr_name, i->name);
    if (ioctl(i->fd, SIOCGIFINDEX, &rq) != 0) {
        return -errno;
    }
    if (i->index != 0 && (unsigned)rq.ifr_ifindex != i->index) {
        return -ENODEV;
    }
    i->index = (unsigned)rq.ifr_ifindex;
    if (ioctl(i->fd, SIOCGIFFLAGS, &rq) != 0) {
        return -errno;
    }
    i->up = (rq.ifr_flags & IFF_UP) != 0;
    if (ioctl(i->fd, SIOCGIFMTU, &rq) != 0) {
        return -errno;
    }
    i->mtu = (uint32_t)rq.ifr_mtu;
    return 0;
}

/* The descriptor of a removed interface may be readable for ever. Whoever waits on it gets one that is
 * quiet instead. */
static void link_quiet(const struct link *l)
{
    int quiet = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (quiet >= 0) {
        (void)dup3(quiet, l->fd, O_CLOEXEC);
        close(quiet);
    }
}

int iface_fault(const struct iface *i, char err[NET_ERR_TEXT], int error, const char *fmt, ...)
{
    int n = snprintf(err, NET_ERR_TEXT, "%s %s: ", i->kind, i->name);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err + n, (size_t)(NET_ERR_TEXT - n), fmt, ap);
    va_end(ap);
    return -error;
}

static int find(struct iface *i, const struct net_cfg *cfg, const char *hint,
                char err[NET_ERR_TEXT])
{
    i->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (i->fd < 0) {
        return iface_fault(i, err, errno, "socket: %s", strerror(errno));
    }
    int r = ask(i);
    if (r == -ENODEV) {
        return iface_fault(i, err, ENODEV, "no such interface; %s", hint);
    }
    if (r != 0) {
        return iface_fault(i, err, -r, "cannot be queried: %s", strerror(-r));
    }
    if (!i->up) {
        return iface_fault(i, err, ENETDOWN, "the interface is down; ip link set %s up", i->name);
    }
    if (cfg->mtu > i->mtu) {
        return iface_fault(i, err, EINVAL, "MTU %u asked for, the interface has %u", cfg->mtu,
                           i->mtu);
    }
    return 0;
}

int iface_open(struct iface *i, const struct net_cfg *cfg, const char *hint, char err[NET_ERR_TEXT])
{
    *i = (struct iface){.fd = -1, .kind = net_kind_name(cfg->kind)};
    if (strlen(cfg->name) >= sizeof i->name) {
        snprintf(err, NET_ERR_TEXT, "%s %.20s...: no interface has a name that long", i->kind,
                 cfg->name);
        return -ENODEV;
    }
    strcpy(i->name, cfg->name);
    i->vlan = cfg->vlan;
    i->most = cfg->mtu != 0 ? cfg->mtu : LINK_MTU_MAX;
    int r = find(i, cfg, hint, err);
    if (r != 0) {
        iface_close(i);
        return r;
    }
    i->there = true;
    return 0;
}

void iface_close(struct iface *i)
{
    if (i->fd >= 0) {
        close(i->fd);
        i->fd = -1;
    }
}

uint32_t iface_mtu(const struct iface *i)
{
    return max_u32(min_u32(i->mtu, i->most), MTU_LEAST);
}

static void note_mtu(const struct iface *i, struct link *l)
{
    uint32_t mtu = iface_mtu(i);
    if (mtu != l->mtu) {
        log_line(LOG_INFO, "%s %s: the MTU is %u now", i->kind, i->name, mtu);
        l->mtu = mtu;
    }
}

void iface_gone(struct iface *i, struct link *l)
{
    if (!i->there) {
        return;
    }
    log_line(LOG_ERROR, "%s %s: the interface was removed", i->kind, i->name);
    i->there = false;
    l->up = false;
    l->gone = true;
    link_quiet(l);
}

void iface_follow(struct iface *i, struct link *l)
{
    uint64_t now = net_now_ms();
    if (!i->there || (now < i->asked_at + ASK_MS && now >= i->asked_at)) {
        return;
    }
    i->asked_at = now;
    bool was_up = i->up;
    if (ask(i) != 0) {
        iface_gone(i, l);
        return;
    }
    if (i->up != was_up) {
        log_line(LOG_INFO, "%s %s: the interface is %s", i->kind, i->name,
                 i->up ? "up again" : "down");
        l->resumed += i->up;
    }
    note_mtu(i, l);
}
