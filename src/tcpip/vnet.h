/* SPDX-License-Identifier: MIT */
/* Frames as octets: where the TCP parts of an Ethernet frame are, checksums, the virtio-net header
 * for segmentation offload, and that segmentation in software. Knows no lwIP. */
#ifndef UIW_TCPIP_VNET_H
#define UIW_TCPIP_VNET_H

#include <linux/virtio_net.h>

#include "base/base.h"

enum {
    VNET_ETH = 14,
    VNET_IP4 = 20,
    VNET_IP6 = 40,
    VNET_TCP = 20,
    VNET_HDR_MAX = 14 + 40 + 60, /* Ethernet, IPv6 without extensions, TCP with all options */
    VNET_TYPE_IP4 = 0x0800,
    VNET_TYPE_ARP = 0x0806,
    VNET_TYPE_IP6 = 0x86dd,
    VNET_TYPE_VLAN = 0x8100,
    VNET_TAG = 4,     /* octets of an IEEE 802.1Q tag, behind the */
    VNET_TAG_AT = 12, /* MAC addresses */
};

enum { VNET_FIN = 0x01, VNET_SYN = 0x02, VNET_RST = 0x04, VNET_PSH = 0x08, VNET_ACK = 0x10 };

/* Offsets in a frame with TCP in unfragmented IPv4, or in IPv6 without extension headers. */
struct vnet_tcp {
    uint32_t l4;  /* TCP header */
    uint32_t pay; /* payload */
    uint32_t end; /* end of the IP packet; the frame may be padded beyond */
    bool v6;
};

/* False when the frame is anything else, or its lengths contradict each other. 'have' octets of the
 * 'len' octets of the frame are at f: the headers suffice. */
bool vnet_find_tcp(const uint8_t *f, uint32_t have, uint32_t len, struct vnet_tcp *t);

uint16_t vnet_type(const uint8_t *f); /* EtherType; the frame has at least 14 octets */

/* Adds n octets to a running Internet checksum (RFC 1071). The pieces but the last must have even
 * lengths. Begins with 0; vnet_sum_end() gives the value to send, 0 over data with its checksum. */
uint64_t vnet_sum(uint64_t sum, const void *p, size_t n);
uint16_t vnet_sum_end(uint64_t sum);

/* The TCP checksum of a whole frame is right. */
bool vnet_tcp_sum_ok(const uint8_t *f, const struct vnet_tcp *t);

/* Writes the tag of a VLAN, priority 0. */
void vnet_put_tag(uint8_t tag[VNET_TAG], uint16_t vlan);

/* Takes the tag of that VLAN out of a frame, which then begins VNET_TAG octets later. False: it has none, or
 * that of another VLAN, and is as it was. */
bool vnet_untag(uint8_t *f, uint32_t len, uint16_t vlan);

/* Its checksum field has the sum of the pseudo header, as vnet_offload() leaves it. */
bool vnet_tcp_sum_partial(const uint8_t *f, const struct vnet_tcp *t);

/* Writes the length of the IP packet as t has it. */
void vnet_put_length(uint8_t *f, const struct vnet_tcp *t);

/* Writes the checksum of IPv4's header; IPv6 has none. */
void vnet_put_ip_sum(uint8_t *f, const struct vnet_tcp *t);

/* Routers are not to cut the packet, if it is IPv4, but to tell us (RFC 1191 sec 3). */
void vnet_dont_fragment(uint8_t *f, const struct vnet_tcp *t);

/* Writes the checksums of TCP and, for IPv4, of IP into a whole frame. */
void vnet_put_sums(uint8_t *f, const struct vnet_tcp *t);

/* Lowers the MSS option (RFC 9293 sec 3.7.1) of a SYN whose headers are at f to at most mss. The TCP
 * checksum is wrong afterwards. */
void vnet_clamp_mss(uint8_t *f, const struct vnet_tcp *t, uint16_t mss);

/* Prepares headers at f for a device that finishes checksums and cuts at gso: the checksum field
 * gets the sum of the pseudo header, vh the instructions. */
void vnet_offload(uint8_t *f, const struct vnet_tcp *t, uint32_t gso, struct virtio_net_hdr *vh);

/* Copies the headers of frame f and payload [off, off + n) to out, as a frame of its own: sequence
 * number, lengths and checksums right, PSH and FIN only on the last piece (RFC 9293; as segmentation
 * offload does). Returns its length. */
uint32_t vnet_piece(const uint8_t *f, const struct vnet_tcp *t, uint32_t off, uint32_t n,
                    uint8_t *out);

#endif
