/* SPDX-License-Identifier: MIT */
/* Every fault of a segment: what is found, and the Terminate that says so, octet by octet. The
 * vectors are written without pad and CRC. */
#include "test_rdmap_kit.h"

/* A row may name the STags of c703 (0) or of c704 (1) behind that index; see kit_init_vectors(). */
struct row {
    const char *name, *in, *terminate;
    bool write_only;
};

/* A Read Request is queued, and its source judged when the response is due. */
static void expect_row(const struct row *row, uint32_t recvs)
{
    struct kit k;
    kit_init_vectors(&k, row->write_only);
    k.recvs = recvs;
    struct rdmap_rx_event ev = kit_feed_hex(&k, row->in);
    if (ev.kind == RDMAP_RX_READ_REQUEST) {
        struct ddp_msg m;
        struct mspan src;
        assert_false(rdmap_tx_response(&k.st, &k.mem, &m, &src));
        assert_null(src.p);
    } else {
        assert_int_equal(ev.kind, RDMAP_RX_FAULT);
    }
    assert_true(k.st.dead);
    assert_int_equal(k.completed, 0);
    kit_expect_terminate(&k, row->terminate);
    for (uint32_t i = 0; i < k.regions; i++) {
        assert_true(kit_is_filled(&k.r[i].m));
    }
    kit_free(&k);
}

static void expect_rows(const struct row *rows, size_t cnt)
{
    for (size_t i = 0; i < cnt; i++) {
        print_message("%s\n", rows[i].name);
        expect_row(&rows[i], 1000);
    }
}

#define TERM38 "00264147000000000000000200000001000000"
#define TERM42 "002a4147000000000000000200000001000000"
#define TERM70 "00464147000000000000000200000001000000"

/* proves: DDP-5041-7.2-01 DDP-5041-7.2-03 DDP-5041-7.2-04 DDP-5041-7.2-05 DDP-5041-7.2-06
 * DDP-5041-7.2-07 DDP-5041-7.1-10 DDP-5041-7.1-11 DDP-5041-7.1-13 DDP-5041-7.1-14
 * DDP-5041-7.1-15 DDP-5041-7.1-16 DDP-5041-8.2-01 DDP-5041-8.2-02 DDP-5041-4.2-05
 * RDMAP-5040-4.8-21 RDMAP-5040-7.1-03 RDMAP-5040-3.1-07 RDMAP-5040-5.1-03 RDMAP-5040-3.2-05
 * RDMAP-5040-8.1.1-01 RDMAP-5040-8.1.1-02 RDMAP-5040-4.8-09 */
static void ddp_tagged(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"V088 DV 2", "0011c2400000a5010000000000010000647632",
         TERM38 "001104c0000011c2400000a5010000000000010000", false},
        {"V095 unknown STag", "001ac140deadbe0100000000000000006e6f20737563682073746167",
         TERM38 "001100c000001ac140deadbe010000000000000000", false},
        {"V096 one octet past the end", "0010c1400000a5010000000000010fff7878",
         TERM38 "001101c0000010c1400000a5010000000000010fff", false},
        {"V097 TO wraps", "0010c1400000a501ffffffffffffffff7878",
         TERM38 "001103c0000010c1400000a501ffffffffffffffff", false},
        {"V112 other PD", "0016c1400000a60100000000000100006f74686572207064",
         TERM38 "001102c0000016c1400000a6010000000000010000", false},
        {"other stream", "000fc140d8060003000000000000000078",
         TERM38 "001102c000000fc140d80600030000000000000000", false},
        {"no write right", "000f81400000c703000000000000300078",
         TERM38 "001100c000000f81400000c7030000000000003000", false},
        {"STag 0", "000fc14000000000000000000000000078",
         TERM38 "001100c000000fc140000000000000000000000000", false},
        {"one octet before the base", "000fc1400000c7040000000000004fff78",
         TERM38 "001101c000000fc1400000c7040000000000004fff", true},
    };
    expect_rows(rows, ARRAY_LEN(rows));
}

/* proves: DDP-5041-7.2-01 DDP-5041-7.2-08 DDP-5041-7.2-10 DDP-5041-7.2-11 DDP-5041-7.2-13
 * DDP-5041-7.1-01 DDP-5041-7.1-03 DDP-5041-7.1-05 DDP-5041-7.1-16 RDMAP-5040-4.8-21
 * RDMAP-5040-7.1-03 EXT-7306-10-02 RDMAP-5040-4.8-09 */
static void ddp_untagged(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"V087 DV 0", "0015404300000000000000000000000100000000647630",
         TERM42 "001206c0000015404300000000000000000000000100000000", false},
        {"V091 QN 5", "0015414300000000000000050000000100000000716e35",
         TERM42 "001201c0000015414300000000000000050000000100000000", false},
        {"V092 MSN 3", "00164143000000000000000000000003000000006d736e33",
         TERM42 "001203c0000016414300000000000000000000000300000000", false},
        {"MSN 0", "00164143000000000000000000000000000000006d736e30",
         TERM42 "001203c0000016414300000000000000000000000000000000", false},
        {"V093 MO 4096", "00184143000000000000000000000001000010006d6f34303936",
         TERM42 "001204c0000018414300000000000000000000000100001000", false},
        {"Read Request with MO 28",
         "002e41410000000000000001000000010000001c000000000000"
         "00000000000000000000000000000000000000000000",
         TERM42 "001204c000002e41410000000000000001000000010000001c", false},
        {"Read Request with MSN 2",
         "002e414100000000000000010000000200000000000000000000"
         "00000000000000000000000000000000000000000000",
         TERM42 "001203c000002e414100000000000000010000000200000000", false},
        {"Read Request of 29 octets",
         "002f414100000000000000010000000100000000000000000000"
         "0000000000000000000000000000000000000000000000",
         TERM42 "001205c000002f414100000000000000010000000100000000", false},
        {"Read Request without L",
         "002e014100000000000000010000000100000000000000000000"
         "00000000000000000000000000000000000000000000",
         TERM42 "001205c000002e014100000000000000010000000100000000", false},
    };
    expect_rows(rows, ARRAY_LEN(rows));
}

/* proves: DDP-5041-7.1-02 DDP-5041-7.1-06 DDP-5041-7.2-09 DDP-5041-7.1-09 DDP-5041-7.1-08 */
static void no_receive_posted(void **state)
{
    (void)state;
    static const struct row row = {
        "V116", "001b4143000000000000000000000001000000006e6f20627566666572",
        TERM42 "001202c000001b414300000000000000000000000100000000", false};
    expect_row(&row, 0);
}

/* proves: DDP-5041-7.1-04 DDP-5041-7.2-12 RDMAP-5040-5.3-04 RDMAP-5040-3.2-03 */
static void send_too_long(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    struct rdmap_rx_event ev =
        kit_feed_seg(&k, kit_send_hdr(RDMAP_SEND, 1, 0, true), 1025); /* V094 */
    kit_expect_fault(&k, &ev, verdict_bad(1, 2, 5));
    assert_true(rdmap_rx_in_send(&k.st));
    kit_expect_terminate(&k,
                         TERM42 "001205c0000413414300000000000000000000000100000000"); /* V119 */
    kit_free(&k);
    kit_init_vectors(&k, false);
    kit_feed_seg(&k, kit_send_hdr(RDMAP_SEND, 1, 0, false), 1000);
    ev = kit_feed_seg(&k, kit_send_hdr(RDMAP_SEND, 1, 1000, false), 25);
    kit_expect_fault(&k, &ev, verdict_bad(1, 2, 5));
    kit_free(&k);
}

/* proves: RDMAP-5040-7.2-02 RDMAP-5040-7.2-03 RDMAP-5040-4.1-04 RDMAP-5040-5.3-13
 * RDMAP-5040-4.8-20 RDMAP-5040-5.2.2-04 REG-6580-3.4-01 EXT-7306-8.2-02 RDMAP-5040-7.1-03 */
static void rdmap_operation(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"V089 RV 0", "0015410300000000000000000000000100000000727630",
         TERM42 "000205c0000015410300000000000000000000000100000000", false},
        {"RV 2 tagged", "000fc1800000a501000000000000000078",
         TERM38 "000205c000000fc1800000a5010000000000000000", false},
        {"V090 opcode f", "001a414f000000000000000000000001000000006f70636f64652066",
         TERM42 "000206c000001a414f00000000000000000000000100000000", false},
        {"V098 Send with T=1", "001cc1430000a501000000000001000073656e6420617320746167676564",
         TERM38 "000206c000001cc1430000a5010000000000010000", false},
        {"V099 Write with T=0",
         "0023414000000000000000000000000100000000777269746520617320756e746167676564",
         TERM42 "000206c0000023414000000000000000000000000100000000", false},
        {"V101 Read Response nobody asked for", "0015c1420000b6020000000000002000756e61736b6564",
         TERM38 "000206c0000015c1420000b6020000000000002000", false},
        {"Send on QN 1", "001341430000000000000001000000010000000078",
         TERM42 "000206c0000013414300000000000000010000000100000000", false},
        {"Send on QN 2", "001341430000000000000002000000010000000078",
         TERM42 "000206c0000013414300000000000000020000000100000000", false},
        {"Terminate on QN 0", "001641470000000000000000000000010000000011000000",
         TERM42 "000206c0000016414700000000000000000000000100000000", false},
        {"V100 Invalidate of an unknown STag",
         "00194144deadbe0200000000000000010000000062616420696e76",
         TERM42 "000209c00000194144deadbe02000000000000000100000000", false},
        {"Invalidate of another PD's STag", "001241440000a601000000000000000100000000",
         TERM42 "000109c000001241440000a601000000000000000100000000", false},
        {"Invalidate of a shared STag", "001241460000a501000000000000000100000000",
         TERM42 "000109c000001241460000a501000000000000000100000000", false},
    };
    expect_rows(rows, ARRAY_LEN(rows));
}

#define READ_HEAD "4141000000000000000100000001000000000000b6020000000000002000"

/* proves: RDMAP-5040-7.2-06 RDMAP-5040-7.2-07 RDMAP-5040-7.2-08 RDMAP-5040-7.2-09
 * RDMAP-5040-7.2-10 RDMAP-5040-7.2-11 RDMAP-5040-4.8-15 RDMAP-5040-4.8-19 RDMAP-5040-7.1-04
 * RDMAP-5040-5.2.1-13 RDMAP-5040-5.2.1-05 RDMAP-5040-3.2-07 SEC-5042-6.3.5-01 */
static void read_protection(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"V102 unknown source", "002e" READ_HEAD "00000040deadbe030000000000000000",
         TERM70 "000100e000002e" READ_HEAD "00000040deadbe030000000000000000", false},
        {"V103 one octet too long", "002e" READ_HEAD "000010010000c7030000000000003000",
         TERM70 "000101e000002e" READ_HEAD "000010010000c7030000000000003000", false},
        {"one octet before the base", "002e" READ_HEAD "000000010000c7030000000000002fff",
         TERM70 "000101e000002e" READ_HEAD "000000010000c7030000000000002fff", false},
        {"V105 write-only source", "002e" READ_HEAD "000008000000c7040000000000005000",
         TERM70 "000102e000002e" READ_HEAD "000008000000c7040000000000005000", true},
        {"other PD", "002e" READ_HEAD "000000400000a6010000000000000000",
         TERM70 "000103e000002e" READ_HEAD "000000400000a6010000000000000000", false},
        {"other stream", "002e" READ_HEAD "00000001d80600030000000000000000",
         TERM70 "000103e000002e" READ_HEAD "00000001d80600030000000000000000", false},
        {"V104 source TO wraps", "002e" READ_HEAD "000002000000c703ffffffffffffff00",
         TERM70 "000104e000002e" READ_HEAD "000002000000c703ffffffffffffff00", false},
        {"4 GiB of a small region", "002e" READ_HEAD "ffffffff0000c7030000000000003000",
         TERM70 "000101e000002e" READ_HEAD "ffffffff0000c7030000000000003000", false},
    };
    expect_rows(rows, ARRAY_LEN(rows));
}

/* proves: RDMAP-5040-6.1-05 RDMAP-5040-4.8-20 SEC-5042-6.4.3.3-03 */
static void reads_beyond_ird(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false); /* IRD 2 */
    struct ddp_hdr h = {.last = true, .ulp = 0x41, .qn = 1};
    for (h.msn = 1; h.msn <= 2; h.msn++) {
        assert_int_equal(kit_feed_seg(&k, h, 28).kind, RDMAP_RX_READ_REQUEST);
    }
    struct rdmap_rx_event ev = kit_feed_seg(&k, h, 28);
    kit_expect_fault(&k, &ev, verdict_bad(0, 2, 7));
    assert_int_equal(k.st.irq.cnt, 2);
    kit_expect_terminate(&k,
                         TERM42 "000207c000002e414100000000000000010000000300000000"); /* V136 */
    kit_free(&k);
}

/* proves: DDP-5041-7.2-02 RDMAP-5040-4.8-12 RDMAP-5040-4.8-18 RDMAP-5040-4.8-22
 * RDMAP-5040-6.2.1-01 DDP-5041-7-01 DDP-5041-6.2.2-05 */
static void failures_without_a_segment(void **state)
{
    (void)state;
    static const uint8_t v[][3] = {{0, 0, 0}, {0, 0, 0xff}, {0, 2, 7}, {0, 2, 8}, {1, 0, 0},
                                   {2, 0, 2}, {2, 0, 3},    {2, 0, 5}, {2, 0, 6}, {2, 0, 7}};
    for (size_t i = 0; i < ARRAY_LEN(v); i++) {
        struct kit k;
        kit_init_vectors(&k, false);
        rdmap_fail(&k.st, verdict_bad(v[i][0], v[i][1], v[i][2]));
        uint8_t out[DDP_HDR_MAX + RDMAP_TERM_MAX];
        const uint8_t want[] = {(uint8_t)(v[i][0] << 4 | v[i][1]), v[i][2], 0, 0};
        assert_int_equal(kit_terminate(&k, out), 22);
        assert_memory_equal(out + DDP_UNTAGGED_LEN, want, 4);
        kit_free(&k);
    }
}

/* --- which fault is the first --- */

/* proves: RDMAP-5040-7.2-01 EXT-7306-8.2-01 */
static void ddp_before_rdmap(void **state)
{
    (void)state;
    static const struct {
        struct ddp_hdr h;
        uint32_t n;
        uint8_t layer, type, code;
    } bad[] = {
        /* S13 */
        {{.version = 2, .last = true, .ulp = 0x4f, .msn = 1}, 3, 1, 2, 6},
        {{.tagged = true, .version = 2, .ulp = 0x4f, .stag = 0xdeadbe01}, 3, 1, 1, 4},
        {{.tagged = true, .ulp = 0x4f, .stag = 0xdeadbe01}, 3, 1, 1, 0},
        {{.tagged = true, .ulp = 0x00, .stag = 0xdeadbe01}, 3, 1, 1, 0},
        {{.tagged = true, .ulp = 0x4f, .stag = 0xa601}, 3, 1, 1, 2},
        {{.tagged = true, .ulp = 0x4f, .stag = 0xa501, .to = UINT64_MAX}, 3, 1, 1, 3},
        {{.tagged = true, .ulp = 0x4f, .stag = 0xa501, .to = 0x11000}, 3, 1, 1, 1},
        {{.tagged = true, .ulp = 0x4f, .stag = 0xa501}, 3, 0, 2, 6},
        {{.tagged = true, .ulp = 0x0f, .stag = 0xa501}, 3, 0, 2, 5},
        /* nothing but the control octet of an empty tagged segment is looked at */
        {{.tagged = true, .ulp = 0x4f, .stag = 0xdeadbe01}, 0, 0, 2, 6},
        {{.tagged = true, .ulp = 0x82, .stag = 0xdeadbe01}, 0, 0, 2, 5},
        {{.last = true, .ulp = 0x0f, .qn = 5, .msn = 9}, 3, 1, 2, 1},
        {{.last = true, .ulp = 0x0f, .msn = 9}, 3, 1, 2, 3},
        {{.last = true, .ulp = 0x0f, .msn = 1, .mo = 9}, 3, 1, 2, 4},
        {{.last = true, .ulp = 0x0f, .msn = 1}, 3, 0, 2, 5},
        {{.last = true, .ulp = 0x4a, .msn = 1}, 52, 0, 2, 6},
        {{.last = true, .ulp = 0x41, .qn = 1, .msn = 9}, 3, 1, 2, 3},
        {{.last = true, .ulp = 0x41, .qn = 1, .msn = 1}, 3, 2, 0, 3},
        {{.last = true, .ulp = 0x01, .qn = 1, .msn = 1}, 29, 0, 2, 5},
        {{.last = true, .ulp = 0x43, .qn = 2, .msn = 9}, 3, 1, 2, 3},
        {{.last = true, .ulp = 0x07, .qn = 2, .msn = 1}, 4, 0, 2, 5},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct kit k;
        kit_init_vectors(&k, false);
        struct rdmap_rx_event ev = kit_feed_seg(&k, bad[i].h, bad[i].n);
        kit_expect_fault(&k, &ev, verdict_bad(bad[i].layer, bad[i].type, bad[i].code));
        kit_free(&k);
    }
}

/* proves: RDMAP-5040-7.1-05 DDP-5041-7.1-17 DDP-5041-7.1-15 */
static void first_fault_wins_and_the_rest_is_dropped(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    kit_feed_hex(&k, "001ac140deadbe0100000000000000006e6f20737563682073746167"); /* V095 */
    assert_int_equal(kit_feed_hex(&k, "0015414300000000000000050000000100000000716e35").kind,
                     RDMAP_RX_NONE); /* V091 */
    for (uint32_t i = 0; i < 3; i++) {
        struct ddp_hdr h = kit_tagged_hdr(RDMAP_WRITE, 0xa501, 0, true);
        assert_int_equal(kit_feed_seg(&k, h, 10).kind, RDMAP_RX_NONE);
        h = kit_send_hdr(RDMAP_SEND, 1, 0, true);
        assert_int_equal(kit_feed_seg(&k, h, 10).kind, RDMAP_RX_NONE);
    }
    assert_true(kit_is_filled(kit_region(&k, 0xa501)));
    assert_int_equal(k.completed, 0);
    kit_expect_terminate(&k, TERM38 "001100c000001ac140deadbe010000000000000000");
    kit_free(&k);
}

/* --- the peer's Terminate --- */

/* proves: RDMAP-5040-5.4-03 RDMAP-5040-5.4-04 RDMAP-5040-5.4-05 */
static void terminate_is_taken(void **state)
{
    (void)state;
    struct kit k;
    kit_init_vectors(&k, false);
    k.recvs = 0;
    struct ddp_hdr h = {.last = true, .ulp = 0x41, .qn = 1};
    for (h.msn = 1; h.msn <= 2; h.msn++) {
        kit_feed_seg(&k, h, 28); /* the read queue is full */
    }
    struct rdmap_rx_event ev =
        kit_feed_hex(&k, TERM38 "001100c000001ac140deadbe010000000000000000"); /* V110 */
    assert_int_equal(ev.kind, RDMAP_RX_TERMINATE);
    assert_true(verdict_is(ev.term.v, 1, 1, 0));
    assert_int_equal(ev.term.seg_len, 26);
    assert_true(k.st.dead);
    assert_false(k.st.fault.bad);
    /* a second one is ignored */
    assert_int_equal(kit_feed_hex(&k, TERM38 "001100c000001ac140deadbe010000000000000000").kind,
                     RDMAP_RX_NONE);
    kit_free(&k);
}

/* proves: RDMAP-5040-5.4-06 REG-6580-3.1-02 */
static void odd_terminates_end_the_stream_too(void **state)
{
    (void)state;
    static const struct {
        const char *fpdu;
        uint8_t layer, type, code;
    } odd[] = {
        {"001641470000000000000002000000020000000011000000", 1, 1, 0},    /* MSN 2 */
        {"001641470000000000000002000000010000000411000000", 1, 1, 0},    /* MO 4 */
        {"0015414700000000000000020000000100000000110000", 1, 1, 0},      /* 3 octets */
        {"0012414700000000000000020000000100000000", 0xf, 0xf, 0xff},     /* none */
        {"001641470000000000000002000000010000000003770000", 0, 3, 0x77}, /* unregistered */
        {"001601470000000000000002000000010000000020020000", 2, 0, 2},    /* L=0 */
        {"001641770000000000000002000000010000000020021fff", 2, 0, 2},    /* reserved bits */
        {"00164147ffffffff0000000200000001ffffffff20020000", 2, 0, 2},    /* STag, MO */
    };
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        struct kit k;
        kit_init_vectors(&k, false);
        struct rdmap_rx_event ev = kit_feed_hex(&k, odd[i].fpdu);
        assert_int_equal(ev.kind, RDMAP_RX_TERMINATE);
        assert_true(verdict_is(ev.term.v, odd[i].layer, odd[i].type, odd[i].code));
        assert_true(k.st.dead);
        assert_false(k.st.fault.bad);
        kit_free(&k);
    }
}

/* --- lengths --- */

struct expected {
    enum rdmap_rx_kind kind;
    struct verdict v;
};

static struct expected faulty(unsigned layer, unsigned type, unsigned code)
{
    return (struct expected){RDMAP_RX_FAULT, verdict_bad(layer, type, code)};
}

static struct expected good(enum rdmap_rx_kind kind)
{
    return (struct expected){kind, VERDICT_OK};
}

/* What a segment of that opcode gives when all but its length is in order. */
static struct expected model(unsigned opcode, bool tagged, uint32_t len, bool last)
{
    uint32_t header = tagged ? 14 : 18;
    if (len < header) {
        return faulty(2, 0, 3);
    }
    if (tagged) {
        return opcode != RDMAP_WRITE ? faulty(0, 2, 6)
                                     : good(len > header ? RDMAP_RX_WRITE : RDMAP_RX_NONE);
    }
    switch (opcode) {
    case RDMAP_READ_REQUEST:
        if (len > 46 || (len == 46 && !last)) {
            return faulty(1, 2, 5);
        }
        return len < 46 ? faulty(2, 0, 3) : good(RDMAP_RX_READ_REQUEST);
    case RDMAP_SEND:
    case RDMAP_SEND_INV:
    case RDMAP_SEND_SE:
    case RDMAP_SEND_SE_INV: return good(RDMAP_RX_SEND);
    case RDMAP_TERMINATE: return good(RDMAP_RX_TERMINATE);
    default: return faulty(0, 2, 6);
    }
}

/* S58 */
/* proves: DDP-5041-4.4-01 MPA-5044-6-04 RDMAP-5040-4.2-02 */
static void every_length_with_every_opcode(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 71 * 16 * 4; i++) {
        uint32_t len = i % 71;
        unsigned opcode = i / 71 % 16;
        bool tagged = (i / 71 / 16 & 1) != 0, last = (i / 71 / 32) != 0;
        struct ddp_hdr h = {.tagged = tagged,
                            .last = last,
                            .version = DDP_VERSION,
                            .ulp = rdmap_control(opcode),
                            .stag = 0xa501,
                            .ulp32 = 0xd8040001,
                            .qn = opcode == RDMAP_READ_REQUEST ? 1
                                  : opcode == RDMAP_TERMINATE  ? 2
                                                               : 0,
                            .msn = 1};
        uint8_t ulpdu[80] = {0};
        ddp_hdr_pack(&h, ulpdu);
        struct kit k;
        kit_init_vectors(&k, false);
        struct expected want = model(opcode, tagged, len, last);
        if (len == 0) {
            want = faulty(2, 0, 3);
        }
        struct rdmap_rx_event ev = kit_feed(&k, ulpdu, len);
        assert_int_equal(ev.kind, want.kind);
        if (want.v.bad) {
            kit_expect_fault(&k, &ev, want.v);
        }
        kit_free(&k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ddp_tagged),
        cmocka_unit_test(ddp_untagged),
        cmocka_unit_test(no_receive_posted),
        cmocka_unit_test(send_too_long),
        cmocka_unit_test(rdmap_operation),
        cmocka_unit_test(read_protection),
        cmocka_unit_test(reads_beyond_ird),
        cmocka_unit_test(failures_without_a_segment),
        cmocka_unit_test(ddp_before_rdmap),
        cmocka_unit_test(first_fault_wins_and_the_rest_is_dropped),
        cmocka_unit_test(terminate_is_taken),
        cmocka_unit_test(odd_terminates_end_the_stream_too),
        cmocka_unit_test(every_length_with_every_opcode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
