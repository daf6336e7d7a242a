/* SPDX-License-Identifier: MIT */
/* Buffers for received frames, from free lists: nothing is allocated per frame once the lists have
 * grown. A frame is a pbuf of lwIP as well, and comes back here when the last reader frees that. */
#ifndef UIW_TCPIP_FRAME_H
#define UIW_TCPIP_FRAME_H

#include <stdalign.h>

#include "base/base.h"
#include "lwip/pbuf.h"

enum {
    FRAME_HEAD = 64,        /* room in front of a frame, for a link's own header */
    FRAME_ROOM = 66 * 1024, /* what the largest buffers hold behind that */
    FRAME_MAX = 65535,      /* longest frame lwIP can take: lengths of pbufs have 16 bits */
    FRAME_SMALL = 2048,     /* shorter ones always get a buffer of their size */
    FRAME_BIG_HELD = 64, /* with that many large buffers in use, all get a buffer of their size */
};

/* What a frame borrows its memory from, other than its own buffer. */
struct frame_lender {
    void (*give_back)(struct frame_lender *lender, uint32_t slot);
};

struct frame {
    struct pbuf_custom pc; /* first: the pbuf is the frame */
    struct frame *next;    /* the rest of the same Ethernet frame; else the holder's */
    uint8_t *data;         /* Ethernet header */
    uint32_t len;
    bool sum_ok;  /* the TCP checksum needs no check */
    bool gathers; /* small pieces of a stream are collected here */
    uint8_t cls;
    struct frame_lender *lender; /* NULL: data lies in buf */
    uint32_t slot;
    uint64_t due; /* pair: when it arrives, ms */
    alignas(64) uint8_t buf[];
};

/* A frame with room for cap octets (at most FRAME_ROOM) at data; NULL without memory. data + 14 is
 * aligned to 16. */
struct frame *frame_new(uint32_t cap);
void frame_free(struct frame *f);

/* f when it may stay in the large buffer it was read into, else a copy in a buffer of its size, and
 * f is free for the next read (*again). NULL without memory. */
struct frame *frame_fit(struct frame *f, bool *again);

/* Hands the frame over as a pbuf; pbuf_free() frees it. */
struct pbuf *frame_pbuf(struct frame *f);

/* The frame of a pbuf, NULL when it is none. */
struct frame *frame_of(struct pbuf *p);

/* Returns unused buffers to the system. */
void frame_trim(void);

#endif
