/* SPDX-License-Identifier: MIT */
/* Writes what nets send and receive to a pcapng file, for uiw-dump, tshark and Wireshark. Several nets of a
 * process that name the same file share it, each as an interface of its own. A file that can no longer be
 * written is given up with a line in the log: a full disk must not end connections. */
#ifndef UIW_TCPIP_CAPTURE_H
#define UIW_TCPIP_CAPTURE_H

#include <sys/uio.h>

#include "tcpip/net_base.h"

enum capture_kind { CAPTURE_ETHERNET, CAPTURE_RAW_IP };

struct capture;

/* name: of the interface, as it is to stand in the file. On failure a negative errno and a line in err. */
int capture_open(const char *path, const char *name, enum capture_kind kind, struct capture **out,
                 char err[NET_ERR_TEXT]);
void capture_close(struct capture *c); /* c may be NULL */

/* The frames to come travel with the tag of that VLAN (1..4094), which they do not have here. */
void capture_vlan(struct capture *c, uint16_t vlan);

/* A frame or packet of n pieces. May be called by several threads. */
void capture_packet(struct capture *c, bool sent, const struct iovec *v, uint32_t n);

/* What was captured is in the file when this returns. To be called now and then. */
void capture_flush(struct capture *c);

/* --- streams without packets: the kernel's TCP, told as packets that never were --- */

struct capture_tcp {
    struct capture *c; /* NULL: not captured */
    union net_addr local, remote;
    uint32_t seq[2]; /* next of ours, of the peer's */
};

/* Begins with a handshake; connected: ours was the SYN. */
void capture_tcp_open(struct capture_tcp *t, struct capture *c, const struct net_stream *s,
                      bool connected);
void capture_tcp_data(struct capture_tcp *t, bool sent, const struct iovec *v, uint32_t n);
void capture_tcp_end(struct capture_tcp *t, bool sent, bool reset);

#endif
