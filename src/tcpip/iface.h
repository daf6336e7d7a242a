/* SPDX-License-Identifier: MIT */
/* A network interface of the system that a link lives on: is it there, is it up, what is its MTU. */
#ifndef UIW_TCPIP_IFACE_H
#define UIW_TCPIP_IFACE_H

#include <net/if.h>

#include "tcpip/link.h"

struct iface {
    int fd; /* to ask by; in the network namespace of whoever opened it */
    char name[IFNAMSIZ];
    unsigned index;
    bool there, up;
    uint32_t mtu, most;
    uint16_t vlan;    /* ours; 0: none */
    const char *kind; /* of the link */
    uint64_t asked_at;
};

/* Finds the interface that cfg names. 0; or -ENODEV, -ENETDOWN (it is there, but down), -EINVAL (cfg's MTU is
 * larger) or another negative errno and a line in err. hint: what to do without it. i is
 * closed then. */
int iface_open(struct iface *i, const struct net_cfg *cfg, const char *hint,
               char err[NET_ERR_TEXT]);
void iface_close(struct iface *i);

/* The interface was removed, as whoever uses it may notice first: the link is down for good, and its
 * descriptor quiet from now on. */
void iface_gone(struct iface *i, struct link *l);

/* Called at each tick; looks again now and then, and tells the link what has changed: mtu, resumed, and
 * up = false for good when the interface was removed. */
void iface_follow(struct iface *i, struct link *l);

/* For the link: the interface's MTU, or a lower one that was asked for. */
uint32_t iface_mtu(const struct iface *i);

/* "tap uiw0: TEXT" in err; returns -error. */
__attribute__((format(printf, 4, 5))) int iface_fault(const struct iface *i, char err[NET_ERR_TEXT],
                                                      int error, const char *fmt, ...);

#endif
