/* SPDX-License-Identifier: MIT */
/* pcapng: sections in either byte order, interfaces with links and clocks of their own, which libpcap
 * takes only when all are alike. */
#include <stdlib.h>

#include "input_int.h"

enum {
    BLOCK_SECTION = 0x0a0d0d0a,
    BLOCK_IFACE = 1,
    BLOCK_PACKET_OLD = 2,
    BLOCK_SIMPLE = 3,
    BLOCK_STATS = 5,
    BLOCK_PACKET = 6,
    ORDER = 0x1a2b3c4d,
    HEAD = 8, /* type and length */
    BLOCK_MIN = 12,
    BODY_MAX = INPUT_BUFFER - 4096, /* of a block whose options are looked at */
    OPT_RESOLUTION = 9,
    OPT_OFFSET = 14,
    OPT_IFDROP = 5,
    OPT_OSDROP = 7,
    MICROSECONDS = 6,
};

static uint16_t load16(const struct input *in, const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return in->swap ? __builtin_bswap16(v) : v;
}

static uint64_t load64(const struct input *in, const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return in->swap ? __builtin_bswap64(v) : v;
}

bool ng_begins(const struct input *in)
{
    uint32_t type;
    memcpy(&type, in->buf + in->at, sizeof type); /* the same in both orders */
    return type == BLOCK_SECTION;
}

void ng_reset(struct ng *ng)
{
    free(ng->iface);
    *ng = (struct ng){0};
}

/* Steps behind the last block: what is left of it, and its length once more. */
static int finish_block(struct input *in)
{
    struct ng *ng = &in->ng;
    while (ng->rest > 0) {
        uint32_t n = ng->rest > INPUT_CAP_MAX ? INPUT_CAP_MAX : (uint32_t)ng->rest;
        if (!input_fill(in, n)) {
            return input_fail(in, "the file ends inside a block");
        }
        ng->rest -= n;
        if (ng->rest == 0 && input_load32(in, in->buf + in->at + n - 4) != ng->total) {
            return input_fail(in, "the two lengths of a block differ");
        }
        in->at += n;
    }
    return 1;
}

/* Calls see for each option in n octets at p. */
static void options(struct input *in, const uint8_t *p, uint32_t n, struct ng_iface *i,
                    void (*see)(struct input *, struct ng_iface *, uint16_t, uint16_t,
                                const uint8_t *))
{
    while (n >= 4) {
        uint16_t code = load16(in, p);
        uint16_t len = load16(in, p + 2);
        uint32_t step = 4 + ((uint32_t)len + 3) / 4 * 4;
        if (code == 0 || step > n) {
            return;
        }
        see(in, i, code, len, p + 4);
        p += step;
        n -= step;
    }
}

static void iface_option(struct input *in, struct ng_iface *i, uint16_t code, uint16_t len,
                         const uint8_t *p)
{
    if (code == OPT_RESOLUTION && len == 1) {
        i->resolution = p[0];
    } else if (code == OPT_OFFSET && len == 8) {
        i->offset_s = (int64_t)load64(in, p);
    }
}

static void stats_option(struct input *in, struct ng_iface *i, uint16_t code, uint16_t len,
                         const uint8_t *p)
{
    if ((code == OPT_IFDROP || code == OPT_OSDROP) && len == 8) {
        i->dropped += load64(in, p);
    }
}

static int take_section(struct input *in, const uint8_t *body)
{
    in->ng.ifaces = 0;
    return load16(in, body + 4) == 1 ? 1 : input_fail(in, "a version of pcapng that is not known");
}

static int take_iface(struct input *in, const uint8_t *body, uint32_t n)
{
    struct ng *ng = &in->ng;
    if (ng->ifaces == ng->cap) {
        uint32_t cap = ng->cap == 0 ? 8 : ng->cap * 2;
        struct ng_iface *v = cap <= NG_IFACES ? realloc(ng->iface, cap * sizeof *v) : NULL;
        if (v == NULL) {
            return input_fail(in, "too many interfaces");
        }
        ng->iface = v;
        ng->cap = cap;
    }
    struct ng_iface *i = &ng->iface[ng->ifaces++];
    *i = (struct ng_iface){.link = input_link(load16(in, body)),
                           .snaplen = input_load32(in, body + 4),
                           .resolution = MICROSECONDS};
    options(in, body + 8, n - 8, i, iface_option);
    bool possible = (i->resolution & 0x7f) <= ((i->resolution & 0x80) != 0 ? 63 : 19);
    return possible ? 1 : input_fail(in, "an impossible clock");
}

/* The last block of statistics counts: each has all packets since the beginning. */
static void take_stats(struct input *in, const uint8_t *body, uint32_t n)
{
    struct ng *ng = &in->ng;
    uint32_t id = input_load32(in, body);
    if (id < ng->ifaces) {
        struct ng_iface *i = &ng->iface[id];
        in->dropped -= i->dropped;
        i->dropped = 0;
        options(in, body + 12, n - 12, i, stats_option);
        in->dropped += i->dropped;
    }
}

static uint64_t power10(unsigned n)
{
    uint64_t v = 1;
    for (; n > 0; n--) {
        v *= 10;
    }
    return v;
}

static uint64_t to_ns(const struct ng_iface *i, uint64_t t)
{
    unsigned n = i->resolution & 0x7f;
    uint64_t ns;
    if ((i->resolution & 0x80) != 0) {
        uint64_t part = n == 0 ? 0 : t & ((UINT64_C(1) << n) - 1);
        /* The low bits of a fine clock are below a nanosecond. */
        unsigned cut = n > 32 ? n - 32 : 0;
        ns = (t >> n) * 1000000000u + (((part >> cut) * 1000000000u) >> (n - cut));
    } else {
        ns = n <= 9 ? t * power10(9 - n) : t / power10(n - 9);
    }
    return ns + (uint64_t)i->offset_s * 1000000000u;
}

/* Fixed fields of the block, without type and length. */
static uint32_t fixed_size(uint32_t type)
{
    switch (type) {
    case BLOCK_SECTION: return 16;
    case BLOCK_IFACE: return 8;
    case BLOCK_PACKET_OLD:
    case BLOCK_PACKET: return 20;
    case BLOCK_SIMPLE: return 4;
    case BLOCK_STATS: return 12;
    default: return 0;
    }
}

/* The packet in a block of total octets, of which the fixed fields are in the buffer. */
static int take_packet(struct input *in, uint32_t type, uint32_t total, struct frame *f)
{
    struct ng *ng = &in->ng;
    const uint8_t *b = in->buf + in->at + HEAD;
    bool simple = type == BLOCK_SIMPLE;
    uint32_t at = HEAD + fixed_size(type);
    uint32_t id = simple ? 0 : type == BLOCK_PACKET ? input_load32(in, b) : load16(in, b);
    uint32_t len = input_load32(in, simple ? b : b + 16);
    if (id >= ng->ifaces) {
        return input_fail(in, "a packet of an interface that was not described");
    }
    const struct ng_iface *i = &ng->iface[id];
    uint32_t room = total - at - 4;
    uint32_t cap = simple ? min_u32(len, room) : input_load32(in, b + 12);
    if (simple && i->snaplen > 0) {
        cap = min_u32(cap, i->snaplen);
    }
    if (cap > INPUT_CAP_MAX || cap > room) {
        return input_fail(in, "a frame's length is impossible");
    }
    if (!simple) {
        uint64_t t = (uint64_t)input_load32(in, b + 4) << 32 | input_load32(in, b + 8);
        ng->last_ns = to_ns(i, t);
    }
    if (!input_fill(in, at + cap)) {
        return input_fail(in, "the file ends inside a frame");
    }
    *f = (struct frame){.num = ++in->frames,
                        .ns = ng->last_ns,
                        .p = in->buf + in->at + at,
                        .cap = cap,
                        .len = max_u32(cap, len),
                        .link = i->link};
    in->at += at + cap;
    ng->rest = total - at - cap;
    return 1;
}

/* A block that holds no packet. */
static int take_other(struct input *in, uint32_t type, uint32_t total)
{
    uint32_t n = total - BLOCK_MIN;
    int rc = 1;
    if (type == BLOCK_SECTION || type == BLOCK_IFACE || type == BLOCK_STATS) {
        if (n > BODY_MAX) {
            return input_fail(in, "a block's length is impossible");
        }
        if (!input_fill(in, total)) {
            return input_fail(in, "the file ends inside a block");
        }
        const uint8_t *body = in->buf + in->at + HEAD;
        if (type == BLOCK_STATS) {
            take_stats(in, body, n);
        } else {
            rc = type == BLOCK_SECTION ? take_section(in, body) : take_iface(in, body, n);
        }
    }
    in->at += HEAD;
    in->ng.rest = total - HEAD;
    return rc;
}

/* Type and length of the next block. 0 at the end of the file. */
static int take_head(struct input *in, uint32_t *type, uint32_t *total)
{
    if (!input_fill(in, BLOCK_MIN)) {
        bool whole = in->have == in->at && in->io_errno == 0;
        return whole ? 0 : input_fail(in, "the file ends inside a block");
    }
    const uint8_t *p = in->buf + in->at;
    if (ng_begins(in)) {
        in->swap = false;
        in->swap = input_load32(in, p + HEAD) != ORDER;
        if (input_load32(in, p + HEAD) != ORDER) {
            return input_fail(in, "a section without a byte order");
        }
    }
    *type = input_load32(in, p);
    *total = input_load32(in, p + 4);
    if (*total % 4 != 0 || *total < BLOCK_MIN + fixed_size(*type)) {
        return input_fail(in, "a block's length is impossible");
    }
    return 1;
}

int ng_next(struct input *in, struct frame *f)
{
    for (;;) {
        uint32_t type = 0;
        uint32_t total = 0;
        int rc = finish_block(in);
        if (rc < 1 || (rc = take_head(in, &type, &total)) < 1) {
            return rc;
        }
        in->ng.total = total;
        bool packet = type == BLOCK_PACKET || type == BLOCK_PACKET_OLD || type == BLOCK_SIMPLE;
        if (packet) {
            return input_fill(in, HEAD + fixed_size(type))
                       ? take_packet(in, type, total, f)
                       : input_fail(in, "the file ends inside a frame's header");
        }
        if ((rc = take_other(in, type, total)) < 1) {
            return rc;
        }
    }
}
