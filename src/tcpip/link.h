/* SPDX-License-Identifier: MIT */
/* The face of a link below lwIP: whole Ethernet frames in batches, with a virtio-net header that
 * leaves checksums and segmentation to whoever does them best. */
#ifndef UIW_TCPIP_LINK_H
#define UIW_TCPIP_LINK_H

#include <linux/virtio_net.h>
#include <sys/uio.h>

#include "tcpip/frame.h"
#include "tcpip/net.h"

enum {
    LINK_PIECES = 140,    /* of a frame to send, its headers included */
    LINK_MTU_MAX = 65521, /* such a datagram with its Ethernet header is FRAME_MAX long */
};

/* A frame to send. v[0] is unused, for a header of the link's own; the headers lie in v[1]. */
struct link_tx {
    struct virtio_net_hdr vh; /* all zero: the frame is complete as it is */
    uint32_t len;             /* of the frame */
    uint32_t n;               /* entries of v, v[0] included */
    struct iovec v[LINK_PIECES + 1];
};

struct link;

struct link_ops {
    /* Takes up to max frames that have arrived. The caller owns them. */
    uint32_t (*rx)(struct link *l, struct frame **out, uint32_t max);
    /* 0: sent, or lost as on any wire. -EAGAIN: no room; tx_ready() tells when it is worth another
     * try. The frame is not kept. */
    int (*tx)(struct link *l, struct link_tx *t);
    bool (*tx_ready)(struct link *l);
    /* Tells the other end of what was sent and taken, if 'untold' says that it may not know. */
    void (*tell)(struct link *l);
    /* See net_sleep(); want_room: room to send is a reason to wake up as well. */
    bool (*sleep)(struct link *l, bool want_room);
    void (*woken)(struct link *l);
    /* Housekeeping, every few ms at least while the net turns. */
    void (*tick)(struct link *l);
    /* ms until rx() or tick() has something to do by itself; -1: never. */
    int (*due_ms)(const struct link *l);
    void (*close)(struct link *l);
};

struct link {
    const struct link_ops *ops;
    int fd;           /* readable when there is something to do; -1: none */
    uint32_t mtu;     /* largest IP datagram, at most LINK_MTU_MAX; may change in a tick() */
    bool memory;      /* frames stay in memory: no checksum, no segmentation needed */
    bool up;          /* the other end is there, as far as the link knows */
    bool gone;        /* for good; up is false then */
    bool untold;      /* tell() is due at the end of the turn */
    uint32_t epoch;   /* counts how often it came up: the neighbours are to be told */
    uint32_t resumed; /* counts how often it works again with the other end still there */
};

/* Each returns 0 and a link, or a negative errno and a line in err. */
int link_tap_open(const struct net_cfg *cfg, struct link **out, char err[NET_ERR_TEXT]);
int link_shm_open(const struct net_cfg *cfg, struct link **out, char err[NET_ERR_TEXT]);
/* mac: ours, to be told from the interface's own. */
int link_pcap_open(const struct net_cfg *cfg, const uint8_t mac[6], struct link **out,
                   char err[NET_ERR_TEXT]);
int link_pair_open(const struct net_cfg *cfg, struct link **out, char err[NET_ERR_TEXT]);

#endif
