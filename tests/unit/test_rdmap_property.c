/* SPDX-License-Identifier: MIT */
/* Random messages arrive whole; flipped bits never place anything outside a region. */
#include "test_rdmap_kit.h"

static uint32_t pick(uint32_t limit)
{
    return ((uint32_t)rand() << 8 ^ (uint32_t)rand()) % limit;
}

/* --- bits flipped in valid segments --- */

/* Faults that the layers may find in a segment, as layer, type, code. */
static bool is_listed(struct verdict v)
{
    static const uint8_t listed[][3] = {
        {0, 1, 9}, {0, 2, 5}, {0, 2, 6}, {0, 2, 7}, {0, 2, 9}, {1, 1, 0},
        {1, 1, 1}, {1, 1, 2}, {1, 1, 3}, {1, 1, 4}, {1, 2, 1}, {1, 2, 2},
        {1, 2, 3}, {1, 2, 4}, {1, 2, 5}, {1, 2, 6}, {2, 0, 3},
    };
    for (size_t i = 0; i < ARRAY_LEN(listed); i++) {
        if (verdict_is(v, listed[i][0], listed[i][1], listed[i][2])) {
            return true;
        }
    }
    return false;
}

/* Only what the peer may write was written: a region with the right, the sink of our Read. */
static void check_memory(const struct kit *k)
{
    kit_check_zones(k);
    for (uint32_t i = 0; i < k->regions; i++) {
        const struct ddp_mem *m = &k->r[i].m;
        bool open = m->stag == 0xb602 || ((m->rights & KIT_W) != 0 && m->pd == KIT_PD &&
                                          (m->stream == 0 || m->stream == KIT_STREAM));
        assert_true(open || kit_is_filled(m));
    }
}

/* The Terminate tells the segment that was refused. */
static void check_terminate(struct kit *k, const uint8_t *ulpdu, uint32_t n)
{
    uint8_t out[DDP_HDR_MAX + RDMAP_TERM_MAX];
    uint32_t len = kit_terminate(k, out);
    if (len == 22) {
        assert_true(verdict_is(k->st.fault, 2, 0, 3));
        return;
    }
    uint32_t header = (ulpdu[0] & 0x80) != 0 ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
    assert_int_equal(len, 24 + header);
    assert_int_equal(get_be16(out + 22), n);
    assert_memory_equal(out + 24, ulpdu, header);
}

static void feed_flipped(const uint8_t *ulpdu, uint32_t n, uint32_t bit)
{
    struct kit k;
    kit_init_vectors(&k, false);
    struct ddp_msg m;
    uint8_t payload[RDMAP_READ_REQUEST_LEN];
    const struct rdmap_read_request r = {.sink_stag = 0xb602, .sink_to = 0x2000, .len = 12};
    rdmap_tx_read(&k.st, &r, 1, &m, payload);
    uint8_t bad[100];
    assert_true(n <= sizeof(bad));
    memcpy(bad, ulpdu, n);
    bad[bit / 8] ^= (uint8_t)(1 << bit % 8);
    struct rdmap_rx_event ev = kit_feed(&k, bad, n);
    check_memory(&k);
    assert_int_equal(k.st.dead, ev.kind == RDMAP_RX_FAULT || ev.kind == RDMAP_RX_TERMINATE);
    if (ev.kind == RDMAP_RX_FAULT) {
        assert_true(is_listed(k.st.fault));
        assert_int_equal(k.completed, 0);
        assert_int_equal(k.reads, 0);
        check_terminate(&k, bad, n);
    }
    kit_free(&k);
}

/* proves: DDP-5041-6.2.2-03 DDP-5041-7.1-15 RDMAP-5040-8.1.1-03 SEC-5042-6.2.1-01
 * DDP-5041-7.1-16 RDMAP-5040-7.1-03 */
static void any_flipped_bit(void **state)
{
    (void)state;
    static const char *const valid[] = {
        "001ac1400000a5010000000000010000746167676564207772697465",
        "001a81400000a5010000000000010000746167676564207772697465",
        "000ec1400000a5010000000000010000",
        "001ac1420000b6020000000000002000746167676564207772697465",
        "001a81420000b6020000000000002000746167676564207772697465",
        "001741430000000000000000000000010000000068656c6c6f",
        "001701430000000000000000000000010000000068656c6c6f",
        "00174144d804000100000000000000010000000068656c6c6f",
        "001741450000000000000000000000010000000068656c6c6f",
        "00174146d805000200000000000000010000000068656c6c6f",
        ("002e4141000000000000000100000001000000000000b602000000000000200000001000"
         "0000c7030000000000003000"),
        "00264147000000000000000200000001000000001100c000001ac140deadbe010000000000000000",
    };
    for (size_t i = 0; i < ARRAY_LEN(valid); i++) {
        static uint8_t ulpdu[KIT_ULPDU];
        uint32_t n = kit_unhex(valid[i], ulpdu);
        for (uint32_t bit = 0; bit < n * 8; bit++) {
            feed_flipped(ulpdu, n, bit);
        }
    }
}

/* A header of random fields, each more often near what is right than not. */
static struct ddp_hdr random_hdr(const struct kit *k)
{
    static const uint32_t stags[] = {0xa501, 0xa601,     0xb602,     0xc703,
                                     0,      0xd8040001, 0xd8050002, 0xd8060003};
    uint32_t qn = pick(8) > 0 ? pick(3) : pick(6);
    struct ddp_hdr h = {.tagged = pick(2) > 0,
                        .last = pick(3) > 0,
                        .version = (uint8_t)(pick(40) > 0 ? 1 : pick(4)),
                        .ulp = (uint8_t)(pick(40) > 0 ? rdmap_control(pick(10)) : pick(256)),
                        .stag = stags[pick(ARRAY_LEN(stags))],
                        .to = pick(0x12000),
                        .ulp32 = stags[pick(ARRAY_LEN(stags))],
                        .qn = qn,
                        .msn = pick(20) > 0 && qn < DDP_QNS ? k->st.rx.q[qn].msn : pick(4),
                        .mo = pick(20) > 0 && qn < DDP_QNS ? k->st.rx.q[qn].mo : pick(2000)};
    if (h.stag == 0xb602 && k->st.orq.cnt > 0) {
        const struct rdmap_open *r = &k->st.open[k->st.orq.head];
        h.to = r->sink_to + r->done;
        h.ulp = 0x42;
    }
    return h;
}

/* proves: DDP-5041-6.2.2-03 RDMAP-5040-8.1.1-03 SEC-5042-6.2.1-01 DDP-5041-7.1-15 */
static void any_sequence_of_segments(void **state)
{
    (void)state;
    kit_seed();
    for (unsigned round = 0; round < 4000; round++) {
        struct kit k;
        kit_init_vectors(&k, false);
        k.recvs = pick(10);
        for (unsigned i = 0; i < 40 && !k.st.dead; i++) {
            if (rdmap_orq_room(&k.st) && pick(4) == 0) {
                struct ddp_msg m;
                uint8_t payload[RDMAP_READ_REQUEST_LEN];
                const struct rdmap_read_request r = {
                    .sink_stag = 0xb602, .sink_to = 0x2000 + pick(64), .len = pick(200)};
                rdmap_tx_read(&k.st, &r, 1, &m, payload);
            }
            uint32_t n = pick(4) == 0 ? 28 : pick(200);
            struct rdmap_rx_event ev = kit_feed_seg(&k, random_hdr(&k), n);
            if (ev.kind == RDMAP_RX_READ_REQUEST && pick(2) > 0) {
                rdmap_irq_pop(&k.st);
            }
            assert_true(ev.kind != RDMAP_RX_FAULT || is_listed(k.st.fault));
        }
        check_memory(&k);
        kit_free(&k);
    }
}

/* --- random messages between two ends --- */

enum { SPACE = 20000 };

/* Two ends: a sends and reads, b receives and answers; memory of b and a model of it. */
struct pair {
    struct kit a, b;
    uint8_t *model; /* what b's region must hold */
    uint32_t mulpdu;
    uint32_t segments;
};

static void pair_init(struct pair *p)
{
    kit_init(&p->a, 1, 1);
    kit_init(&p->b, SPACE, KIT_QUEUE);
    kit_add(&p->a, (struct ddp_mem){
                       .stag = 0x1100, .len = SPACE, .pd = KIT_PD, .rights = DDP_LOCAL_WRITE});
    kit_add(&p->b, (struct ddp_mem){
                       .stag = 0x2200, .to = 77, .len = SPACE, .pd = KIT_PD, .rights = KIT_RW});
    p->model = malloc(SPACE);
    assert_non_null(p->model);
    memset(p->model, KIT_FILL, SPACE);
}

/* Sends all of a message to the other end, in pieces as random as its segments. */
static struct rdmap_rx_event carry(struct pair *p, struct kit *to, struct ddp_msg *m,
                                   const uint8_t *payload)
{
    struct rdmap_rx_event ev = {.kind = RDMAP_RX_NONE};
    while (!m->done) {
        static uint8_t ulpdu[KIT_ULPDU];
        uint32_t hlen;
        uint32_t off = m->off;
        uint32_t n = ddp_tx_next(m, pick(9) > 0 ? p->mulpdu : 128 + pick(4000), ulpdu, &hlen);
        if (n > 0) {
            memcpy(ulpdu + hlen, payload + off, n);
        }
        ev = kit_feed(to, ulpdu, hlen + n);
        assert_int_not_equal(ev.kind, RDMAP_RX_FAULT);
        p->segments++;
    }
    return ev;
}

static void do_send(struct pair *p, const uint8_t *data, uint32_t len)
{
    static const unsigned opcodes[] = {RDMAP_SEND, RDMAP_SEND_INV, RDMAP_SEND_SE,
                                       RDMAP_SEND_SE_INV};
    unsigned opcode = opcodes[pick(4)];
    struct ddp_mem m = {.len = 0, .pd = KIT_PD, .inv_ok = true, .valid = true};
    while (!ddp_mem_insert(&p->b.mem, &m, random_u32())) {
    }
    struct ddp_msg msg;
    uint32_t before = p->b.completed;
    rdmap_tx_send(&p->a.st, opcode, m.stag, len, &msg);
    struct rdmap_rx_event ev = carry(p, &p->b, &msg, data);
    assert_int_equal(p->b.completed, before + 1);
    assert_int_equal(p->b.byte_len, len);
    assert_memory_equal(p->b.recv, data, len);
    assert_int_equal(ev.opcode, opcode);
    assert_int_equal(ev.invalidated, rdmap_opcode_invalidates(opcode) ? m.stag : 0);
    assert_int_equal(m.valid, !rdmap_opcode_invalidates(opcode));
    ddp_mem_remove(&p->b.mem, &m);
    p->b.recvs++;
}

static void do_write(struct pair *p, const uint8_t *data, uint32_t len)
{
    uint32_t at = pick(SPACE - len + 1);
    struct ddp_msg msg;
    rdmap_tx_write(&p->a.st, 0x2200, 77 + at, len, &msg);
    carry(p, &p->b, &msg, data);
    memcpy(p->model + at, data, len);
    assert_memory_equal(p->b.r[0].m.base, p->model, SPACE);
}

static void do_reads(struct pair *p)
{
    struct rdmap_read_request r[KIT_QUEUE];
    uint32_t cnt = 1 + pick(KIT_QUEUE);
    for (uint32_t i = 0; i < cnt; i++) {
        r[i] = (struct rdmap_read_request){
            .sink_stag = 0x1100, .src_stag = 0x2200, .len = pick(4) > 0 ? pick(SPACE / 2) : 0};
        r[i].sink_to = pick(SPACE - r[i].len + 1);
        r[i].src_to = 77 + pick(SPACE - r[i].len + 1);
        struct ddp_msg msg;
        uint8_t payload[RDMAP_READ_REQUEST_LEN];
        rdmap_tx_read(&p->a.st, &r[i], i, &msg, payload);
        carry(p, &p->b, &msg, payload);
    }
    uint32_t before = p->a.reads;
    for (uint32_t i = 0; i < cnt; i++) {
        struct ddp_msg msg;
        struct mspan src;
        assert_true(rdmap_orq_head(&p->a.st)->user == i);
        assert_true(rdmap_tx_response(&p->b.st, &p->b.mem, &msg, &src));
        carry(p, &p->a, &msg, src.p);
        rdmap_irq_pop(&p->b.st);
        assert_int_equal(p->a.reads, before + i + 1);
        assert_memory_equal(p->a.r[0].m.base + r[i].sink_to, p->model + (r[i].src_to - 77),
                            r[i].len);
    }
}

/* proves: DDP-5041-5.2-03 DDP-5041-5.2-04 DDP-5041-5.2-01 RDMAP-5040-5.2.1-11
 * RDMAP-5040-5.2.1-08 RDMAP-5040-5.5-22 RDMAP-5040-5.5-10 RDMAP-5040-5.3-05
 * RDMAP-5040-4.4-05 RDMAP-5040-5.2-01 RDMAP-5040-3.1-03 RDMAP-5040-5.2.1-10 */
static void random_messages_arrive(void **state)
{
    (void)state;
    kit_seed();
    for (unsigned round = 0; round < 30; round++) {
        struct pair p = {.mulpdu = 128 + pick(pick(3) > 0 ? 1500 : 9000)};
        pair_init(&p);
        p.a.st.tx_msn[0] = p.b.st.rx.q[0].msn = 0u - pick(20);
        p.a.st.tx_msn[1] = p.b.st.rx.q[1].msn = 0u - pick(20);
        for (unsigned i = 0; i < 60; i++) {
            static uint8_t data[SPACE];
            uint32_t len = pick(4) > 0 ? pick(3 * p.mulpdu) : pick(100);
            len = min_u32(len, SPACE);
            for (uint32_t j = 0; j < len; j++) {
                data[j] = (uint8_t)rand();
            }
            uint32_t what = pick(3);
            if (what == 0) {
                do_send(&p, data, len);
            } else if (what == 1) {
                do_write(&p, data, len);
            } else {
                do_reads(&p);
            }
        }
        assert_false(p.a.st.dead || p.b.st.dead);
        free(p.model);
        kit_free(&p.a);
        kit_free(&p.b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_flipped_bit),
        cmocka_unit_test(any_sequence_of_segments),
        cmocka_unit_test(random_messages_arrive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
