/* SPDX-License-Identifier: MIT */
/* What tests may do to the in-memory wire (kind NET_PAIR) and its clock. Two nets with the same name
 * are the two ends of one wire. */
#ifndef UIW_TCPIP_NET_TEST_H
#define UIW_TCPIP_NET_TEST_H

#include "tcpip/net.h"

/* From here on the clock of lwIP stands still but for net_clock_advance(). lwIP's timers run at most
 * once per net_turn(): advance in steps of net_timeout_ms(); a larger step is to the stack what being
 * stopped for that long is to a process. */
void net_clock_virtual(uint64_t start_ms);
void net_clock_advance(uint64_t ms);
void net_clock_real(void);

struct net_wire {
    uint32_t seed;        /* of everything random below */
    uint32_t loss_ppm;    /* frames dropped */
    uint32_t dup_ppm;     /* frames doubled */
    uint32_t reorder_ppm; /* frames held back behind the next one */
    uint32_t cut_ppm;     /* TCP data frames cut in two at a random octet */
    uint32_t cut_every; /* not 0: each TCP data frame cut into pieces of at most that many octets */
    uint32_t cut_at;    /* not 0: the stream is cut at each multiple of it, by TCP sequence from the
                             first data octet of a direction */
    uint32_t delay_ms;  /* one way */
    uint32_t room; /* not 0: so many frames lie on the wire at most; for more there is no room */
    uint16_t lost_port; /* not 0: of TCP, all from and to that port is lost */
};

/* For frames that leave that net. */
void net_wire_set(struct net *net, const struct net_wire *w);

/* Frames that have left the net so far, and of those dropped by loss. */
void net_wire_stats(const struct net *net, uint64_t *frames, uint64_t *lost);

/* A whole Ethernet frame, as if it had come over the wire. The checksums must be right. */
void net_wire_inject(struct net *net, const void *frame, uint32_t len);

/* The net's link is gone for good, as a TAP interface that was removed. */
void net_wire_remove(struct net *net);

/* Shows every frame that leaves that net, before anything is done to it; NULL: no longer. */
typedef void net_wire_watcher(void *arg, const uint8_t *frame, uint32_t len);
void net_wire_watch(struct net *net, net_wire_watcher *fn, void *arg);

/* Shows every frame as it goes on the wire: large segments are cut to the wire's size, nothing is lost
 * or doubled yet. */
void net_wire_tap(struct net *net, net_wire_watcher *fn, void *arg);

/* Failed assertions of lwIP so far; a test wants none. */
uint64_t net_test_asserts(void);

/* Segments that the stream keeps because they arrived out of order. */
uint32_t net_test_oos(const struct net_stream *s);

/* Sets the ISN of the next connections that this process opens or accepts (L04). */
void net_test_isn(bool fixed, uint32_t isn);

/* The most that a connection which this process opens from now on receives unread; 0: as ever. */
void net_test_window(uint32_t octets);

#endif
