/* SPDX-License-Identifier: MIT */
/* What a peer's Terminate is understood as, and that nothing answers it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "errors.h"

/* The Terminate as a peer sends it, with the headers that its flags promise. */
static void send_terminate(struct raw_conn *c, uint32_t word, uint8_t flags)
{
    uint8_t seg[128], p[RDMAP_TERM_MAX] = {0};
    struct ddp_hdr h = {.last = true,
                        .version = 1,
                        .ulp = rdmap_control(RDMAP_TERMINATE),
                        .qn = DDP_QN_TERMINATE,
                        .msn = 1};
    put_be32(p, word | (uint32_t)flags << 8);
    uint32_t n = 4;
    if (flags != 0) {
        bool tagged = word >> 24 == 0x11;
        put_be16(p + 4, 46);
        p[6] = tagged ? 0xc1 : 0x41;
        n = 6 + (tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN);
        n += (flags & 0x20) != 0 ? RDMAP_READ_REQUEST_LEN : 0;
    }
    raw_ulpdu(c, seg, raw_segment(seg, &h, p, n));
}

static const struct {
    uint32_t word;
    uint8_t flags;
    enum uiw_wc_status read; /* what becomes of an open Read */
    const char *text;
} words[] = {
    {0x00000000, 0, UIW_WC_WR_FLUSH_ERR, "peer: RDMAP local catastrophic error"},
    {0x01000000, 0xe0, UIW_WC_REM_ACCESS_ERR, "peer: RDMAP remote protection error: invalid STag"},
    {0x01010000, 0xe0, UIW_WC_REM_ACCESS_ERR,
     "peer: RDMAP remote protection error: base or bounds violation"},
    {0x01020000, 0xe0, UIW_WC_REM_ACCESS_ERR,
     "peer: RDMAP remote protection error: access rights violation"},
    {0x01030000, 0xe0, UIW_WC_REM_ACCESS_ERR,
     "peer: RDMAP remote protection error: STag not associated with the stream"},
    {0x01040000, 0xe0, UIW_WC_REM_ACCESS_ERR, "peer: RDMAP remote protection error: TO wrap"},
    {0x01090000, 0xc0, UIW_WC_WR_FLUSH_ERR,
     "peer: RDMAP remote protection error: STag cannot be invalidated"},
    {0x02050000, 0xc0, UIW_WC_WR_FLUSH_ERR,
     "peer: RDMAP remote operation error: invalid RDMAP version"},
    {0x02060000, 0xc0, UIW_WC_WR_FLUSH_ERR,
     "peer: RDMAP remote operation error: unexpected opcode"},
    {0x02070000, 0xc0, UIW_WC_WR_FLUSH_ERR,
     "peer: RDMAP remote operation error: catastrophic, localised to the stream"},
    {0x02080000, 0, UIW_WC_WR_FLUSH_ERR,
     "peer: RDMAP remote operation error: catastrophic, global"},
    {0x02090000, 0xc0, UIW_WC_WR_FLUSH_ERR,
     "peer: RDMAP remote operation error: STag cannot be invalidated"},
    {0x02ff0000, 0xc0, UIW_WC_WR_FLUSH_ERR, "peer: RDMAP remote operation error: unspecified"},
    {0x10000000, 0, UIW_WC_WR_FLUSH_ERR, "peer: DDP local catastrophic error"},
    {0x11000000, 0xc0, UIW_WC_WR_FLUSH_ERR, "peer: DDP tagged buffer error: invalid STag"},
    {0x11010000, 0xc0, UIW_WC_WR_FLUSH_ERR,
     "peer: DDP tagged buffer error: base or bounds violation"},
    {0x11020000, 0xc0, UIW_WC_WR_FLUSH_ERR,
     "peer: DDP tagged buffer error: STag not associated with the stream"},
    {0x11030000, 0xc0, UIW_WC_WR_FLUSH_ERR, "peer: DDP tagged buffer error: TO wrap"},
    {0x11040000, 0xc0, UIW_WC_WR_FLUSH_ERR, "peer: DDP tagged buffer error: invalid DDP version"},
    {0x12010000, 0xc0, UIW_WC_WR_FLUSH_ERR, "peer: DDP untagged buffer error: invalid QN"},
    {0x12020000, 0xc0, UIW_WC_WR_FLUSH_ERR,
     "peer: DDP untagged buffer error: invalid MSN, no buffer available"},
    {0x12030000, 0xc0, UIW_WC_WR_FLUSH_ERR,
     "peer: DDP untagged buffer error: invalid MSN, out of range"},
    {0x12040000, 0xc0, UIW_WC_WR_FLUSH_ERR, "peer: DDP untagged buffer error: invalid MO"},
    {0x12050000, 0xc0, UIW_WC_WR_FLUSH_ERR,
     "peer: DDP untagged buffer error: message too long for the buffer"},
    {0x12060000, 0xc0, UIW_WC_WR_FLUSH_ERR, "peer: DDP untagged buffer error: invalid DDP version"},
    {0x20020000, 0, UIW_WC_WR_FLUSH_ERR, "peer: MPA error: CRC does not match"},
    {0x20030000, 0, UIW_WC_WR_FLUSH_ERR, "peer: MPA error: marker and ULPDU length disagree"},
    {0x20050000, 0, UIW_WC_WR_FLUSH_ERR, "peer: MPA error: local catastrophic"},
    {0x20060000, 0, UIW_WC_WR_FLUSH_ERR, "peer: MPA error: insufficient IRD"},
    {0x20070000, 0, UIW_WC_WR_FLUSH_ERR, "peer: MPA error: no matching RTR"},
    {0x37990000, 0, UIW_WC_WR_FLUSH_ERR, "peer: unknown layer or type of error"},
};

static void take_terminate(size_t i)
{
    struct scene *c = scene_open(E_TERMINATE, "mtu=1500");
    struct uiw_wc wc;
    uint8_t sink[8];
    struct uiw_mr *mr = sim_reg(&c->s, 1, sink, sizeof sink, UIW_ACCESS_LOCAL_WRITE);
    struct sim_side *b = &c->s.side[1];
    scene_join(c);
    scene_recv(c, 21);
    sim_post(&c->s, 1, UIW_WR_RDMA_READ, sim_sge(mr, sink, 8), (struct sim_at){0x1000, 7});
    assert_true(raw_next(&c->r, &c->c, &c->u));
    send_terminate(&c->c, words[i].word, words[i].flags);
    scene_hit(c);
    sim_until(&c->s, &b->disconnected, 1, 1000);
    scene_expect_last(c, UIW_EVENT_DISCONNECTED, UIW_REASON_PEER_TERMINATE,
                      words[i].word >> 28 << 16 | (words[i].word >> 24 & 0xf) << 8 |
                          (words[i].word >> 16 & 0xff));
    assert_string_equal(b->last.text, words[i].text);
    sim_poll(&c->s, 1, 1, &wc);
    assert_int_equal(wc.status, words[i].read);
    scene_expect_flush(c, 21);
    assert_false(raw_next(&c->r, &c->c, &c->u)); /* FIN, and no Terminate in answer */
    assert_true(c->c.fin && !c->c.closed);
    uiw_mr_dereg(mr);
    scene_close(c);
}

/* proves: RDMAP-5040-6.2.1-02 RDMAP-5040-6.2.1-03 RDMAP-5040-6.2.1-04 RDMAP-5040-7-03 REG-6580-3.3-01 */
static void test_words_of_the_peer(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        take_terminate(i);
    }
}

/* Whatever is wrong with a Terminate, it ends the stream and is not answered by another. */
static void test_broken_terminates(void **state)
{
    (void)state;
    static const struct {
        uint32_t msn, mo, n;
        bool last;
    } bad[] = {
        {1, 0, 0, true}, {1, 0, 3, true}, {2, 0, 4, true}, {1, 8, 4, true}, {1, 0, 4, false}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct scene *c = scene_open(E_BAD_TERMINATE, "mtu=1500");
        uint8_t seg[64];
        struct ddp_hdr h = {.last = bad[i].last,
                            .version = 1,
                            .ulp = rdmap_control(RDMAP_TERMINATE),
                            .qn = DDP_QN_TERMINATE,
                            .msn = bad[i].msn,
                            .mo = bad[i].mo};
        raw_join(&c->r, &c->c, NULL);
        raw_ulpdu(&c->c, seg, raw_segment(seg, &h, "\x01\x02\0\0", bad[i].n));
        scene_hit(c);
        sim_until(&c->s, &c->s.side[1].disconnected, 1, 1000);
        assert_int_equal(c->s.side[1].last.reason, UIW_REASON_PEER_TERMINATE);
        assert_false(raw_next(&c->r, &c->c, &c->u));
        scene_close(c);
    }
}

int errors_words(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_of_the_peer),
        cmocka_unit_test(test_broken_terminates),
    };
    return cmocka_run_group_tests_name("errors of a peer's word", tests, NULL, NULL);
}
