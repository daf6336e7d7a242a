/* SPDX-License-Identifier: MIT */
/* Every fault that a peer can commit in full operation, by the whole stack: the exact Terminate and
 * then FIN on the wire, and nothing else; event, completions and asynchronous event here; no octet placed
 * or delivered behind the fault. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "errors_spoilt.h"

/* --- the table: one bad segment --- */

struct row {
    enum errors_row row;
    const char *name;
    struct ddp_hdr h;
    enum region region; /* the STag in h, to invalidate, or of the Read's source */
    bool absolute;      /* h.to, from are not in the area */
    uint64_t from;      /* of a Read's source */
    uint32_t n;         /* octets of payload, or that the Read asks for; AOpCode */
    bool half;          /* 8 octets of a Send stand before it */
    struct want w;
};

#define TAG(op)  .tagged = true, .last = true, .version = 1, .ulp = 0x40 | (op)
#define SEND(op) .last = true, .version = 1, .ulp = 0x40 | (op), .msn = 1
#define REQ(op)  .last = true, .version = 1, .ulp = 0x40 | (op), .qn = 1, .msn = 1
#define MD       0xc0
#define MDR      0xe0
#define ACCESS   .async = UIW_ASYNC_QP_ACCESS

static const struct row table[] = {
    /* DDP */
    {E_DV_TAGGED,
     "DV, tagged",
     {.tagged = true, .last = true, .version = 2, .ulp = 0x40},
     R_ALL,
     .n = 8,
     .w = {1, 1, 4, MD}},
    {E_DV_UNTAGGED,
     "DV, untagged",
     {.last = true, .version = 0, .ulp = 0x43, .msn = 1},
     .n = 8,
     .w = {1, 2, 6, MD}},
    {E_QN, "QN", {SEND(3), .qn = 9}, .n = 8, .w = {1, 2, 1, MD}},
    {E_NO_RECEIVE, "no receive", {SEND(3)}, .n = 8, .w = {1, 2, 2, MD, .no_recv = true}},
    {E_MSN,
     "MSN ahead",
     {.last = true, .version = 1, .ulp = 0x43, .msn = 2},
     .n = 8,
     .w = {1, 2, 3, MD}},
    {E_MSN,
     "MSN of the past",
     {.last = true, .version = 1, .ulp = 0x43, .msn = 0},
     .n = 8,
     .w = {1, 2, 3, MD}},
    {E_MSN,
     "another message inside",
     {.last = true, .version = 1, .ulp = 0x43, .msn = 2},
     .n = 4,
     .half = true,
     .w = {1, 2, 3, MD, UIW_WC_FATAL_ERR}},
    {E_MO, "MO", {SEND(3), .mo = 4}, .n = 8, .w = {1, 2, 4, MD}},
    {E_MO,
     "MO inside a message",
     {SEND(3), .mo = 9},
     .n = 4,
     .half = true,
     .w = {1, 2, 4, MD, UIW_WC_FATAL_ERR}},
    {E_TOO_LONG, "Send too long", {SEND(3)}, .n = RECV + 1, .w = {1, 2, 5, MD, UIW_WC_LOC_LEN_ERR}},
    {E_TOO_LONG,
     "Send too long in its second segment",
     {SEND(3), .mo = 8},
     .n = 9,
     .half = true,
     .w = {1, 2, 5, MD, UIW_WC_LOC_LEN_ERR}},
    {E_TAGGED_STAG, "Write: STag unknown", {TAG(0)}, R_NONE, .n = 8, .w = {1, 1, 0, MD, ACCESS}},
    {E_TAGGED_STAG, "Write: wrong key", {TAG(0)}, R_KEY, .n = 8, .w = {1, 1, 0, MD, ACCESS}},
    {E_TAGGED_STAG, "Write: STag revoked", {TAG(0)}, R_GONE, .n = 8, .w = {1, 1, 0, MD, ACCESS}},
    {E_TAGGED_STAG, "Write: window closed", {TAG(0)}, R_CLOSED, .n = 8, .w = {1, 1, 0, MD, ACCESS}},
    {E_TAGGED_BOUNDS,
     "Write: behind",
     {TAG(0), .to = AREA - 7},
     R_ALL,
     .n = 8,
     .w = {1, 1, 1, MD, ACCESS}},
    {E_TAGGED_BOUNDS,
     "Write: before",
     {TAG(0), .to = (uint64_t)-1},
     R_ALL,
     .n = 8,
     .w = {1, 1, 1, MD, ACCESS}},
    {E_TAGGED_PD, "Write: other PD", {TAG(0)}, R_PD, .n = 8, .w = {1, 1, 2, MD, ACCESS}},
    {E_TAGGED_PD, "Write: other stream", {TAG(0)}, R_STREAM, .n = 8, .w = {1, 1, 2, MD, ACCESS}},
    {E_TAGGED_WRAP,
     "Write: wrap",
     {TAG(0), .to = (uint64_t)-4},
     R_ALL,
     true,
     .n = 8,
     .w = {1, 1, 3, MD, ACCESS}},
    {E_TAGGED_RIGHT, "Write: no right", {TAG(0)}, R_READ, .n = 8, .w = {1, 1, 0, MD, ACCESS}},
    /* RDMAP */
    {E_RV,
     "RV, tagged",
     {.tagged = true, .last = true, .version = 1, .ulp = 0x80},
     R_ALL,
     .n = 8,
     .w = {0, 2, 5, MD}},
    {E_RV,
     "RV, untagged",
     {.last = true, .version = 1, .ulp = 0x03, .msn = 1},
     .n = 8,
     .w = {0, 2, 5, MD}},
    {E_OPCODE, "opcode c", {SEND(0xc)}, .n = 8, .w = {0, 2, 6, MD}},
    {E_OPCODE, "opcode d, tagged", {TAG(0xd)}, R_ALL, .n = 8, .w = {0, 2, 6, MD}},
    {E_OPCODE, "opcode f", {REQ(0xf)}, .n = 8, .w = {0, 2, 6, MD}},
    {E_OPCODE, "a Send that is tagged", {TAG(3)}, R_ALL, .n = 8, .w = {0, 2, 6, MD}},
    {E_OPCODE, "a Write that is untagged", {SEND(0)}, .n = 8, .w = {0, 2, 6, MD}},
    {E_OPCODE, "a Send on queue 1", {REQ(3)}, .n = 8, .w = {0, 2, 6, MD}},
    {E_OPCODE, "a Read Request on queue 0", {SEND(1)}, .n = 28, .w = {0, 2, 6, MD}},
    {E_READ_STAG, "Read: STag unknown", {REQ(1)}, R_NONE, .n = 8, .w = {0, 1, 0, MDR, ACCESS}},
    {E_READ_STAG, "Read: STag revoked", {REQ(1)}, R_GONE, .n = 8, .w = {0, 1, 0, MDR, ACCESS}},
    {E_READ_STAG, "Read: window closed", {REQ(1)}, R_CLOSED, .n = 8, .w = {0, 1, 0, MDR, ACCESS}},
    {E_READ_BOUNDS,
     "Read: bounds",
     {REQ(1)},
     R_ALL,
     .from = 1,
     .n = AREA,
     .w = {0, 1, 1, MDR, ACCESS}},
    {E_READ_RIGHT, "Read: no right", {REQ(1)}, R_WRITE, .n = 8, .w = {0, 1, 2, MDR, ACCESS}},
    {E_READ_PD, "Read: other PD", {REQ(1)}, R_PD, .n = 8, .w = {0, 1, 3, MDR, ACCESS}},
    {E_READ_PD, "Read: other stream", {REQ(1)}, R_STREAM, .n = 8, .w = {0, 1, 3, MDR, ACCESS}},
    {E_READ_WRAP,
     "Read: wrap",
     {REQ(1)},
     R_ALL,
     true,
     .from = (uint64_t)-4,
     .n = 8,
     .w = {0, 1, 4, MDR, ACCESS}},
    {E_INV_UNKNOWN,
     "Invalidate: unknown",
     {SEND(4)},
     R_NONE,
     .n = 4,
     .w = {0, 2, 9, MD, UIW_WC_FATAL_ERR}},
    {E_INV_UNKNOWN,
     "Invalidate: revoked",
     {SEND(6)},
     R_GONE,
     .n = 4,
     .w = {0, 2, 9, MD, UIW_WC_FATAL_ERR}},
    {E_INV_OTHER,
     "Invalidate: other PD",
     {SEND(4)},
     R_PD,
     .n = 4,
     .w = {0, 1, 9, MD, UIW_WC_FATAL_ERR, ACCESS}},
    {E_INV_OTHER,
     "Invalidate: other stream",
     {SEND(6)},
     R_STREAM,
     .n = 4,
     .w = {0, 1, 9, MD, UIW_WC_FATAL_ERR, ACCESS}},
    {E_INV_OTHER,
     "Invalidate: barred",
     {SEND(4)},
     R_FIXED,
     .n = 4,
     .w = {0, 1, 9, MD, UIW_WC_FATAL_ERR, ACCESS}},
    {E_INV_UNKNOWN,
     "Invalidate: window closed",
     {SEND(4)},
     R_CLOSED,
     .n = 4,
     .w = {0, 2, 9, MD, UIW_WC_FATAL_ERR}},
    {E_INV_OTHER,
     "Invalidate: shared",
     {SEND(6)},
     R_SHARED,
     .n = 4,
     .w = {0, 1, 9, MD, UIW_WC_FATAL_ERR, ACCESS}},
    {E_INV_OTHER,
     "Invalidate: in use by another stream",
     {SEND(4)},
     R_BESIDE,
     .n = 4,
     .w = {0, 1, 9, MD, UIW_WC_FATAL_ERR, ACCESS}},
    {E_RESPONSE_UNASKED,
     "Read Response that nobody asked for",
     {TAG(2)},
     R_ALL,
     .n = 8,
     .w = {0, 2, 6, MD, .no_read = true}},
    {E_RESPONSE_DIFFERS,
     "Read Response: STag",
     {TAG(2)},
     R_ALL,
     .n = 8,
     .w = {1, 1, 0, MD, ACCESS, .read = UIW_WC_FATAL_ERR}},
    {E_RESPONSE_DIFFERS,
     "Read Response: TO",
     {TAG(2), .to = 1},
     R_SINK,
     .n = 7,
     .w = {1, 1, 1, MD, ACCESS, .read = UIW_WC_FATAL_ERR}},
    {E_RESPONSE_DIFFERS,
     "Read Response: too long",
     {TAG(2)},
     R_SINK,
     .n = 9,
     .w = {1, 1, 1, MD, ACCESS, .read = UIW_WC_FATAL_ERR}},
    {E_RESPONSE_DIFFERS,
     "Read Response: too short",
     {TAG(2)},
     R_SINK,
     .n = 7,
     .w = {1, 1, 1, MD, ACCESS, .read = UIW_WC_FATAL_ERR}},
    /* RFC 7306; n is the AOpCode of an Atomic */
    {E_ATOMIC_MISALIGNED,
     "Atomic: misaligned",
     {REQ(0xa)},
     R_ALL,
     .from = 4,
     .w = {0, 2, 7, MD, ACCESS}},
    {E_ATOMIC_OP, "Atomic: AOpCode", {REQ(0xa)}, R_ALL, .n = 1, .w = {0, 2, 6, MD}},
    {E_ATOMIC_STAG, "Atomic: STag unknown", {REQ(0xa)}, R_NONE, .w = {0, 1, 0, MD, ACCESS}},
    {E_ATOMIC_STAG, "Atomic: STag revoked", {REQ(0xa)}, R_GONE, .n = 2, .w = {0, 1, 0, MD, ACCESS}},
    {E_ATOMIC_STAG, "Atomic: window closed", {REQ(0xa)}, R_CLOSED, .w = {0, 1, 0, MD, ACCESS}},
    {E_ATOMIC_BOUNDS,
     "Atomic: bounds",
     {REQ(0xa)},
     R_ALL,
     .from = AREA,
     .w = {0, 1, 1, MD, ACCESS}},
    {E_ATOMIC_RIGHT, "Atomic: no right", {REQ(0xa)}, R_WRITE, .w = {0, 1, 2, MD, ACCESS}},
    {E_ATOMIC_PD, "Atomic: other PD", {REQ(0xa)}, R_PD, .w = {0, 1, 3, MD, ACCESS}},
    {E_ATOMIC_PD, "Atomic: other stream", {REQ(0xa)}, R_STREAM, .n = 2, .w = {0, 1, 3, MD, ACCESS}},
    {E_ATOMIC_WRAP,
     "Atomic: wrap",
     {REQ(0xa)},
     R_ALL,
     true,
     .from = (uint64_t)-4,
     .w = {0, 1, 4, MD, ACCESS}},
    {E_ATOMIC_RESPONSE,
     "Atomic Response that nobody asked for",
     {.last = true, .version = 1, .ulp = 0x4b, .qn = 3, .msn = 1},
     .n = 12,
     .w = {0, 2, 6, MD}},
    {E_IMMEDIATE, "Immediate Data too short", {SEND(8)}, .n = 7, .w = {0, 2, 0xff, MD}},
    {E_IMMEDIATE, "Immediate Data too long", {SEND(9)}, .n = 9, .w = {0, 2, 0xff, MD}},
};

static bool is_atomic(const struct row *row)
{
    return rdmap_opcode(row->h.ulp) == RDMAP_ATOMIC_REQUEST && row->h.qn == DDP_QN_REQUEST;
}

static uint32_t build(struct spoilt *c, const struct row *row, uint8_t *out)
{
    static const uint8_t some[64] = {0xee, 0xee, 0xee, 0xee};
    uint64_t base = row->absolute ? 0 : (uint64_t)(uintptr_t)c->area;
    struct ddp_hdr h = row->h;
    h.to += base;
    h.stag = h.ulp32 = c->stag[row->region];
    if (is_atomic(row)) {
        uint8_t op[RDMAP_ATOMIC_REQUEST_LEN];
        rdmap_atomic_request_pack(
            &(struct rdmap_atomic_request){
                .op = (uint8_t)row->n, .id = 1, .stag = h.stag, .to = base + row->from, .data = 1},
            op);
        h.ulp32 = 0;
        return raw_segment(out, &h, op, sizeof op);
    }
    if (h.tagged || row->w.flags != MDR) {
        return raw_segment(out, &h, some, row->n);
    }
    uint8_t ask[RDMAP_READ_REQUEST_LEN];
    rdmap_read_request_pack(&(struct rdmap_read_request){.sink_stag = 5,
                                                         .sink_to = 0x1234,
                                                         .len = row->n,
                                                         .src_stag = c->stag[row->region],
                                                         .src_to = base + row->from},
                            ask);
    h.ulp32 = 0;
    return raw_segment(out, &h, ask, sizeof ask);
}

static void run_row(const struct row *row)
{
    uint8_t bad[128];
    struct spoilt *c = spoilt_open(row->row, "mtu=1500");
    print_message("  %s\n", row->name);
    spoilt_recvs(c, row->w.no_recv ? 0 : RECVS);
    if (!row->w.no_read) {
        spoilt_read(c);
    }
    if (row->half) {
        struct ddp_hdr h = {.version = 1, .ulp = 0x43, .msn = 1};
        raw_ulpdu(&c->k.c, bad, raw_segment(bad, &h, "12345678", 8));
    }
    uint32_t n = build(c, row, bad);
    raw_ulpdu(&c->k.c, bad, n);
    if (row->w.flags == MDR || is_atomic(row)) {
        raw_run(&c->k.r, 5); /* these are judged when their answer is made: not what follows them */
    }
    spoilt_more(c);
    spoilt_expect(c, &row->w, bad, n);
    spoilt_close(c);
}

/* proves: RDMAP-5040-7.1-01 RDMAP-5040-5.4-07 RDMAP-5040-5.4-08 RDMAP-5040-6.2.1-02
 * RDMAP-5040-6.2.1-04 RDMAP-5040-7-02 RDMAP-5040-7-03 DDP-5041-3-08 DDP-5041-3-10 DDP-5041-6.2-01
 * DDP-5041-6.2.2-06 DDP-5041-7.1-18 DDP-5041-8.3-05 DDP-5041-8.3.1-01 REG-6580-3.3-01
 * DDP-5041-7-01 RDMAP-5040-3.2-03 */
static void test_one_bad_segment(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        run_row(&table[i]);
    }
}

/* --- what is not one bad segment --- */

/* proves: RDMAP-5040-7.1-01 */
static void test_short_ulpdu(void **state)
{
    (void)state;
    static const uint8_t lens[] = {0, 1, 2, 13, 17};
    static const struct want w = {.layer = 2, .code = 3};
    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        uint8_t bad[32] = {0x41, 0x43};
        struct spoilt *c = spoilt_open(E_SHORT_ULPDU, "mtu=1500");
        spoilt_recvs(c, RECVS);
        spoilt_read(c);
        raw_ulpdu(&c->k.c, bad, lens[i]);
        spoilt_more(c);
        spoilt_expect(c, &w, bad, lens[i]);
        spoilt_close(c);
    }
}

/* proves: MPA-5044-8-11 MPA-5044-8-12 MPA-5044-8-05 DDP-5041-6.2.2-02 DDP-5041-6.2.2-04 REG-6580-3.3-01 */
static void test_bad_crc(void **state)
{
    (void)state;
    static const struct want w = {.layer = 2, .code = 2};
    struct spoilt *c = spoilt_open(E_CRC, "mtu=1500");
    uint8_t fpdu[64] = {0, 19, 0x41, 0x43, [15] = 1, [20] = 'a'}; /* its CRC field is zero */
    spoilt_recvs(c, RECVS);
    spoilt_read(c);
    raw_put(&c->k.c, fpdu, 2 + 19 + 3 + 4);
    c->k.c.tx.pos += 2 + 19 + 3 + 4;
    spoilt_more(c);
    spoilt_expect(c, &w, fpdu + 2, 19);
    spoilt_close(c);
}

/* The Marker of the third FPDU points to another place than the lengths. */
static void test_bad_marker(void **state)
{
    (void)state;
    static const struct want w = {.layer = 2, .code = 3};
    struct spoilt *c = spoilt_open(E_MARKER, "mtu=1500,markers=on");
    uint8_t big[600] = {0}, zeros[500] = {0}, *to;
    spoilt_recvs(c, RECVS);
    spoilt_read(c);
    struct ddp_hdr h = {TAG(0), .stag = c->stag[R_ALL], .to = (uintptr_t)c->area};
    uint32_t n = raw_segment(big, &h, zeros, sizeof zeros);
    struct span none = {NULL, 0};
    struct cursor cur = cursor_of(&none, 0);
    struct raw_conn *raw = &c->k.c;
    assert_true(raw->tx.markers);
    uint32_t before = raw->tx.pos;
    assert_int_not_equal(before, 0);
    uint32_t size = mpa_tx_size(&raw->tx, n);
    to = net_tx_reserve(raw->stream, size);
    mpa_tx_copy(&raw->tx, &(struct mpa_out){big, n, &cur, 0}, to);
    to[MPA_MARKER_GAP - before + 3] ^= 4; /* the low octet of its FPDU pointer */
    put_le32(to + size - 4, crc32c_final(crc32c_add(CRC32C_INIT, to, size - 4)));
    net_tx_commit(raw->stream, size);
    spoilt_more(c);
    spoilt_expect(c, &w, big, n);
    spoilt_close(c);
}

static void test_reads_over_ird(void **state)
{
    (void)state;
    static const struct want w = {0, 2, 7, MD, .no_read = true};
    struct spoilt *c = spoilt_open(E_OVER_IRD, "mtu=1500,ird=2");
    uint8_t bad[64], ask[RDMAP_READ_REQUEST_LEN];
    spoilt_recvs(c, RECVS);
    struct rdmap_read_request q = {
        .sink_stag = 1, .len = 8, .src_stag = c->stag[R_ALL], .src_to = (uintptr_t)c->area};
    rdmap_read_request_pack(&q, ask);
    struct ddp_hdr h = {REQ(1)};
    uint32_t n = 0;
    for (h.msn = 1; h.msn <= 3; h.msn++) { /* in one segment: none is answered between */
        n = raw_segment(bad, &h, ask, sizeof ask);
        raw_ulpdu(&c->k.c, bad, n);
    }
    spoilt_more(c);
    spoilt_expect(c, &w, bad, n);
    spoilt_close(c);
}

/* The identifier is that of the Request, but for one bit; or the answer is one to the other kind.
 * proves: EXT-7306-5.2.2-07 */
static void test_wrong_answer_to_an_atomic(void **state)
{
    (void)state;
    static const struct want w = {.type = 2, .code = 6, .flags = MD};
    for (int i = 0; i < 2; i++) {
        struct spoilt *c = spoilt_open(i == 0 ? E_ATOMIC_RESPONSE : E_RESPONSE_UNASKED, "mtu=1500");
        struct rdmap_atomic_request asked;
        uint8_t bad[64], resp[RDMAP_ATOMIC_RESPONSE_LEN];
        spoilt_recvs(c, RECVS);
        spoilt_request(c, UIW_WR_ATOMIC_FETCH_ADD, RDMAP_ATOMIC_REQUEST);
        rdmap_atomic_request_unpack(c->k.u.octets + DDP_UNTAGGED_LEN, &asked);
        rdmap_atomic_response_pack(&(struct rdmap_atomic_response){.id = asked.id ^ 0x80000000},
                                   resp);
        struct ddp_hdr other = {TAG(2), .stag = c->stag[R_SINK], .to = (uintptr_t)c->area};
        struct ddp_hdr h = {.last = true, .version = 1, .ulp = 0x4b, .qn = 3, .msn = 1};
        uint32_t n =
            i == 0 ? raw_segment(bad, &h, resp, sizeof resp) : raw_segment(bad, &other, resp, 8);
        raw_ulpdu(&c->k.c, bad, n);
        spoilt_more(c);
        spoilt_expect(c, &w, bad, n);
        spoilt_close(c);
    }
}

int errors_peer(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_bad_segment), cmocka_unit_test(test_short_ulpdu),
        cmocka_unit_test(test_bad_crc),         cmocka_unit_test(test_bad_marker),
        cmocka_unit_test(test_reads_over_ird),  cmocka_unit_test(test_wrong_answer_to_an_atomic),
    };
    return cmocka_run_group_tests_name("faults of the peer", tests, NULL, NULL);
}
