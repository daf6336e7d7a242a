/* SPDX-License-Identifier: MIT */
/* What the tests of the receiving side share: a stream with regions behind it, which is fed with
 * ULPDUs and does with the events what the owner of a stream would do. Every region lies between
 * guard zones, and every ULPDU is given in a heap block of its own size. */
#ifndef UIW_TESTS_TEST_RDMAP_KIT_H
#define UIW_TESTS_TEST_RDMAP_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "rdmap/rdmap_stream.h"

enum {
    KIT_PD = 1,
    KIT_OTHER_PD = 2,
    KIT_STREAM = 5,
    KIT_QUEUE = 8,
    KIT_REGIONS = 12,
    KIT_ZONE = 64,
    KIT_FILL = 0xee,
    KIT_ULPDU = 70000,
};

struct kit_region {
    struct ddp_mem m;
    uint8_t *block; /* zone, octets, zone */
};

struct kit {
    struct rdmap_stream st;
    struct ddp_mem_table mem;
    struct ddp_mem *slot[64];
    uint32_t recent[4];
    struct rdmap_open open[KIT_QUEUE];
    struct rdmap_asked asked[KIT_QUEUE];
    struct kit_region r[KIT_REGIONS];
    uint32_t regions;
    uint8_t *recv; /* the receive buffer, recv_len octets and a zone */
    uint32_t recv_len;
    uint32_t recvs;     /* receives posted */
    uint32_t completed; /* Sends that completed */
    uint32_t reads;     /* Reads that completed */
    uint32_t byte_len;  /* of the last Send */
};

static inline void kit_init(struct kit *k, uint32_t recv_len, uint32_t ird)
{
    *k = (struct kit){.recv_len = recv_len, .recvs = 1000};
    ddp_mem_table_init(&k->mem, k->slot, ARRAY_LEN(k->slot), k->recent, ARRAY_LEN(k->recent));
    rdmap_stream_init(&k->st, &(struct rdmap_cfg){.pd = KIT_PD,
                                                  .id = KIT_STREAM,
                                                  .open = k->open,
                                                  .ord = KIT_QUEUE,
                                                  .asked = k->asked,
                                                  .ird = ird});
    k->recv = malloc(recv_len + KIT_ZONE);
    assert_non_null(k->recv);
    memset(k->recv, KIT_FILL, recv_len + KIT_ZONE);
}

static inline struct ddp_mem *kit_add(struct kit *k, struct ddp_mem m)
{
    assert_true(k->regions < KIT_REGIONS);
    struct kit_region *r = &k->r[k->regions++];
    r->block = malloc(m.len + 2 * KIT_ZONE);
    assert_non_null(r->block);
    memset(r->block, KIT_FILL, m.len + 2 * KIT_ZONE);
    r->m = m;
    r->m.base = r->block + KIT_ZONE;
    r->m.valid = true;
    assert_true(ddp_mem_insert(&k->mem, &r->m, m.stag));
    return &r->m;
}

/* Nothing was written where nothing may be written. */
static inline void kit_check_zones(const struct kit *k)
{
    for (uint32_t i = 0; i < k->regions; i++) {
        const struct kit_region *r = &k->r[i];
        for (uint32_t j = 0; j < KIT_ZONE; j++) {
            assert_int_equal(r->block[j], KIT_FILL);
            assert_int_equal(r->block[KIT_ZONE + r->m.len + j], KIT_FILL);
        }
    }
    for (uint32_t j = 0; j < KIT_ZONE; j++) {
        assert_int_equal(k->recv[k->recv_len + j], KIT_FILL);
    }
}

static inline bool kit_is_filled(const struct ddp_mem *m)
{
    for (uint64_t i = 0; i < m->len; i++) {
        if (m->base[i] != KIT_FILL) {
            return false;
        }
    }
    return true;
}

static inline void kit_free(struct kit *k)
{
    kit_check_zones(k);
    for (uint32_t i = 0; i < k->regions; i++) {
        free(k->r[i].block);
    }
    free(k->recv);
}

enum { KIT_R = DDP_REMOTE_READ, KIT_W = DDP_REMOTE_WRITE, KIT_RW = KIT_R | KIT_W };

/* The memory that the vectors of faulty messages (V087 to V105) name, three regions to invalidate,
 * and the sink of V077. c704 stands in the place of c703 when write_only. */
static inline void kit_init_vectors(struct kit *k, bool write_only)
{
    static const struct ddp_mem mem[] = {
        {.stag = 0xa501, .len = 0x11000, .pd = KIT_PD, .rights = KIT_RW},
        {.stag = 0xa601, .len = 0x11000, .pd = KIT_OTHER_PD, .rights = KIT_RW, .inv_ok = true},
        {.stag = 0xb602, .to = 0x2000, .len = 0x1000, .pd = KIT_PD, .rights = DDP_LOCAL_WRITE},
        {.stag = 0xd8040001, .len = 16, .pd = KIT_PD, .rights = KIT_RW, .inv_ok = true},
        {.stag = 0xd8050002,
         .len = 16,
         .pd = KIT_PD,
         .stream = KIT_STREAM,
         .rights = KIT_RW,
         .inv_ok = true},
        {.stag = 0xd8060003,
         .len = 16,
         .pd = KIT_PD,
         .stream = KIT_STREAM + 1,
         .rights = KIT_RW,
         .inv_ok = true},
    };
    kit_init(k, 1024, 2);
    for (size_t i = 0; i < ARRAY_LEN(mem); i++) {
        kit_add(k, mem[i]);
    }
    kit_add(k,
            write_only
                ? (struct ddp_mem){.stag = 0xc704,
                                   .to = 0x5000,
                                   .len = 0x1000,
                                   .pd = KIT_PD,
                                   .rights = KIT_W}
                : (struct ddp_mem){
                      .stag = 0xc703, .to = 0x3000, .len = 0x1000, .pd = KIT_PD, .rights = KIT_R});
}

static inline struct ddp_mem *kit_region(struct kit *k, uint32_t stag)
{
    struct ddp_mem *m = ddp_mem_find(&k->mem, stag);
    assert_non_null(m);
    return m;
}

enum { KIT_WORDS = 0xc703, KIT_WORDS_TO = 0x3000 };

/* The vectors' responder: c703 has the atomic right, 41 at 3008, 5555666677778888 at 3010. IRD as
 * asked for. */
static inline void kit_init_ext(struct kit *k, uint32_t ird)
{
    kit_init_vectors(k, false);
    rdmap_stream_init(&k->st, &(struct rdmap_cfg){.pd = KIT_PD,
                                                  .id = KIT_STREAM,
                                                  .ext = true,
                                                  .open = k->open,
                                                  .ord = KIT_QUEUE,
                                                  .asked = k->asked,
                                                  .ird = ird});
    struct ddp_mem *m = kit_region(k, KIT_WORDS);
    const uint64_t a = 41, b = 0x5555666677778888;
    m->rights |= DDP_REMOTE_ATOMIC;
    memcpy(m->base + 8, &a, sizeof a);
    memcpy(m->base + 16, &b, sizeof b);
}

/* What the owner of the stream does with an event while the ULPDU's bytes are there. */
static inline void kit_obey(struct kit *k, const struct rdmap_rx_event *ev)
{
    if (ev->kind == RDMAP_RX_WRITE || ev->kind == RDMAP_RX_READ_RESPONSE) {
        assert_int_equal(ev->dst.n, ev->seg.plen);
        ddp_mem_place(ev->dst, ev->seg.payload);
    }
    if (ev->kind == RDMAP_RX_READ_RESPONSE && ev->last) {
        rdmap_orq_pop(&k->st);
        k->reads++;
    }
    if (ev->kind == RDMAP_RX_SEND) {
        assert_true(ev->seg.hdr.mo + ev->seg.plen <= k->recv_len);
        ddp_mem_place((struct mspan){k->recv + ev->seg.hdr.mo, ev->seg.plen}, ev->seg.payload);
        if (ev->last) {
            k->byte_len = ev->seg.hdr.mo + ev->seg.plen;
            k->completed++;
        }
    }
}

static inline struct rdmap_rx_event kit_rx(struct kit *k, struct cursor ulpdu)
{
    struct rdmap_rx_event ev;
    rdmap_rx(&k->st, &k->mem, ulpdu, &ev);
    return ev;
}

/* Gives one ULPDU to the stream, with receives as long as there are some. */
static inline struct rdmap_rx_event kit_feed(struct kit *k, const uint8_t *p, uint32_t n)
{
    uint8_t *copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    if (n > 0) {
        memcpy(copy, p, n);
    }
    struct span whole = {copy, n};
    struct rdmap_rx_event ev = kit_rx(k, cursor_of(&whole, 1));
    if (ev.kind == RDMAP_RX_WANT_RECV) {
        assert_false(rdmap_rx_in_send(&k->st));
        if (k->recvs > 0) {
            k->recvs--;
            rdmap_rx_give_recv(&k->st, k->recv_len);
        } else {
            rdmap_rx_no_recv(&k->st);
        }
        rdmap_rx_again(&k->st, &k->mem, &ev);
        assert_int_not_equal(ev.kind, RDMAP_RX_WANT_RECV);
    }
    kit_obey(k, &ev);
    ev.seg.payload = (struct cursor){NULL, 0, 0};
    free(copy);
    return ev;
}

static inline unsigned kit_nibble(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a' + 10);
}

/* The ULPDU of an FPDU in hex, as the conformance vectors print it; what comes behind the ULPDU may
 * be left out. Returns its length. */
static inline uint32_t kit_unhex(const char *fpdu, uint8_t out[KIT_ULPDU])
{
    uint32_t octets = (uint32_t)strlen(fpdu) / 2;
    uint8_t *all = malloc(octets);
    assert_non_null(all);
    for (uint32_t i = 0; i < octets; i++) {
        all[i] = (uint8_t)(kit_nibble(fpdu[2 * i]) << 4 | kit_nibble(fpdu[2 * i + 1]));
    }
    uint32_t n = get_be16(all);
    assert_true(n + 2 <= octets && n <= KIT_ULPDU);
    memcpy(out, all + 2, n);
    free(all);
    return n;
}

static inline struct rdmap_rx_event kit_feed_hex(struct kit *k, const char *fpdu)
{
    static uint8_t ulpdu[KIT_ULPDU];
    return kit_feed(k, ulpdu, kit_unhex(fpdu, ulpdu));
}

/* One segment with n octets of pattern payload. */
static inline struct rdmap_rx_event kit_feed_seg(struct kit *k, struct ddp_hdr h, uint32_t n)
{
    static uint8_t ulpdu[KIT_ULPDU];
    if (h.version == 0) {
        h.version = DDP_VERSION;
    }
    uint32_t hlen = ddp_hdr_pack(&h, ulpdu);
    for (uint32_t i = 0; i < n; i++) {
        ulpdu[hlen + i] = (uint8_t)(7 * i + 3);
    }
    return kit_feed(k, ulpdu, hlen + n);
}

/* The ULPDU of the Terminate that this end would send; returns its length. */
static inline uint32_t kit_terminate(struct kit *k, uint8_t out[DDP_HDR_MAX + RDMAP_TERM_MAX])
{
    struct ddp_msg msg;
    uint8_t payload[RDMAP_TERM_MAX];
    uint32_t hlen;
    rdmap_tx_terminate(&k->st, &msg, payload);
    uint32_t n = ddp_tx_next(&msg, 128, out, &hlen);
    assert_true(msg.done);
    memcpy(out + hlen, payload, n);
    return hlen + n;
}

static inline void kit_expect_terminate(struct kit *k, const char *fpdu)
{
    static uint8_t want[KIT_ULPDU];
    uint8_t got[DDP_HDR_MAX + RDMAP_TERM_MAX];
    uint32_t n = kit_unhex(fpdu, want);
    assert_int_equal(kit_terminate(k, got), n);
    assert_memory_equal(got, want, n);
}

static inline void kit_expect_fault(const struct kit *k, const struct rdmap_rx_event *ev,
                                    struct verdict v)
{
    assert_int_equal(ev->kind, RDMAP_RX_FAULT);
    assert_true(k->st.dead);
    assert_int_equal(k->st.fault.layer, v.layer);
    assert_int_equal(k->st.fault.type, v.type);
    assert_int_equal(k->st.fault.code, v.code);
    assert_null(ev->dst.p);
}

/* The payload of kit_feed_seg(). */
static inline void kit_expect_pattern(const uint8_t *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(p[i], (uint8_t)(7 * i + 3));
    }
}

/* A segment of a Send type on queue 0. */
static inline struct ddp_hdr kit_send_hdr(unsigned opcode, uint32_t msn, uint32_t mo, bool last)
{
    return (struct ddp_hdr){.last = last, .ulp = rdmap_control(opcode), .msn = msn, .mo = mo};
}

static inline struct ddp_hdr kit_tagged_hdr(unsigned opcode, uint32_t stag, uint64_t to, bool last)
{
    return (struct ddp_hdr){
        .tagged = true, .last = last, .ulp = rdmap_control(opcode), .stag = stag, .to = to};
}

static inline void kit_seed(void)
{
    const char *env = getenv("UIW_SEED");
    unsigned seed = env != NULL ? (unsigned)strtoul(env, NULL, 0) : random_u32();
    print_message("UIW_SEED=%u\n", seed);
    srand(seed);
}

/* The one segment of a message with that payload, held against a vector. */
static inline void kit_expect_segment(struct ddp_msg *m, const uint8_t *payload, const char *fpdu)
{
    static uint8_t want[KIT_ULPDU];
    uint8_t got[128];
    uint32_t hlen, n = kit_unhex(fpdu, want), plen = ddp_tx_next(m, 128, got, &hlen);
    assert_true(m->done);
    memcpy(got + hlen, payload, plen);
    assert_int_equal(hlen + plen, n);
    assert_memory_equal(got, want, n);
}

#endif
