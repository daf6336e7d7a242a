/* SPDX-License-Identifier: MIT */
/* One frame down to its TCP segment: link layer, VLAN tags, IPv4, IPv6 with extension headers. */
#ifndef UIW_DUMP_PACKET_H
#define UIW_DUMP_PACKET_H

#include "base/base.h"
#include "input.h"

enum packet_kind {
    PACKET_TCP,
    PACKET_OTHER,    /* not TCP over IP */
    PACKET_FRAGMENT, /* a fragment of an IP packet that may hold TCP */
    PACKET_CUT,      /* the snaplen ended before the TCP header did */
    PACKET_BAD,      /* lengths contradict each other, or the IP header's checksum is wrong */
    PACKET_LINK,     /* a link layer that is not known here */
    PACKET_KINDS,
};

enum packet_sum {
    SUM_GOOD,
    SUM_OFFLOAD, /* what a sender leaves there whose device would have filled it in */
    SUM_BAD,
    SUM_UNKNOWN, /* not all octets are there */
};

enum { TCP_FIN = 0x01, TCP_SYN = 0x02, TCP_RST = 0x04, TCP_ACK = 0x10 };

/* Where a fragment belongs. */
struct part {
    uint32_t id, off, len; /* len octets on the wire, data.n of them captured */
    uint8_t next;          /* what the whole packet's payload begins with */
    bool more;
};

struct packet {
    bool v6;
    const uint8_t *src, *dst; /* 4 or 16 octets, in the frame */
    uint16_t sport, dport;
    uint32_t seq, ack;
    uint8_t flags;
    uint16_t mss;     /* of a SYN; 0: none */
    struct span data; /* the payload as far as it was captured */
    uint32_t len;     /* and as it was on the wire; data.n <= len */
    enum packet_sum sum;
    struct part
        part; /* of a fragment, whose octets are in data; the other fields are not set then */
};

/* Fills *out when the answer is PACKET_TCP or PACKET_FRAGMENT. Everything it points at is in the frame. */
enum packet_kind packet_parse(const struct frame *f, struct packet *out);
/* The same for the payload of a packet that was put together: len octets at p, cap of them there; *out
 * is the part that completed it. */
enum packet_kind packet_parse_whole(const uint8_t *p, uint32_t cap, uint32_t len,
                                    struct packet *out);

const char *packet_kind_text(enum packet_kind kind);

#endif
