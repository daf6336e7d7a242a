/* SPDX-License-Identifier: MIT */
/* What a peer's Terminate is understood as, and that nothing answers it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "raw.h"

struct scene {
    struct sim s;
    struct raw r;
    struct raw_conn c;
    struct raw_ulpdu u;
};

static struct scene *scene_open(const char *keys)
{
    struct scene *c = calloc(1, sizeof *c);
    sim_open_one(&c->s, 1, keys);
    raw_open(&c->r, &c->s);
    return c;
}

static void scene_close(struct scene *c)
{
    raw_close(&c->r);
    sim_close(&c->s);
    free(c);
}

static void expect_last(const struct scene *c, enum uiw_reason reason, unsigned code)
{
    const struct uiw_event *e = &c->s.side[1].last;
    assert_int_equal(e->type, UIW_EVENT_DISCONNECTED);
    assert_int_equal(e->reason, reason);
    assert_int_equal(e->layer << 16 | e->etype << 8 | e->code, code);
}

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

static void take_terminate(struct scene *c, size_t i)
{
    struct uiw_wc wc[2];
    uint8_t sink[8];
    struct uiw_recv_wr rwr = {.wr_id = 21};
    struct uiw_mr *mr = sim_reg(&c->s, 1, sink, sizeof sink, UIW_ACCESS_LOCAL_WRITE);
    struct mpa_frame ask = {.rev = 2, .crc = true, .enhanced = true, .ird = 2, .ord = 2};
    struct sim_side *b = &c->s.side[1];
    b->disconnected = 0;
    raw_join(&c->r, &c->c, &ask);
    assert_int_equal(uiw_qp_post_recv(b->qp, &rwr, NULL), 0);
    raw_write(&c->c, (struct sim_at){0, 0}, NULL, 0);
    raw_run(&c->r, 3);
    sim_post(&c->s, 1, UIW_WR_RDMA_READ, sim_sge(mr, sink, 8), (struct sim_at){0x1000, 7});
    assert_true(raw_next(&c->r, &c->c, &c->u));
    send_terminate(&c->c, words[i].word, words[i].flags);
    sim_until(&c->s, &b->disconnected, 1, 1000);
    expect_last(c, UIW_REASON_PEER_TERMINATE,
                words[i].word >> 28 << 16 | (words[i].word >> 24 & 0xf) << 8 |
                    (words[i].word >> 16 & 0xff));
    assert_string_equal(b->last.text, words[i].text);
    sim_poll(&c->s, 1, 2, wc);
    assert_int_equal(wc[0].status, words[i].read);
    assert_int_equal(wc[1].status, UIW_WC_WR_FLUSH_ERR);
    assert_false(raw_next(&c->r, &c->c, &c->u)); /* FIN, and no Terminate in answer */
    assert_true(c->c.fin && !c->c.closed);
    raw_hangup(&c->r, &c->c, false);
    sim_drop(&c->s);
    uiw_mr_dereg(mr);
}

/* proves: RDMAP-5040-6.2.1-02 RDMAP-5040-6.2.1-03 RDMAP-5040-6.2.1-04 RDMAP-5040-7-03 REG-6580-3.3-01 */
static void test_words_of_the_peer(void **state)
{
    (void)state;
    struct scene *c = scene_open("mtu=1500");
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        take_terminate(c, i);
    }
    scene_close(c);
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
    struct scene *c = scene_open("mtu=1500");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        uint8_t seg[64];
        struct ddp_hdr h = {.last = bad[i].last,
                            .version = 1,
                            .ulp = rdmap_control(RDMAP_TERMINATE),
                            .qn = DDP_QN_TERMINATE,
                            .msn = bad[i].msn,
                            .mo = bad[i].mo};
        c->s.side[1].disconnected = 0;
        raw_join(&c->r, &c->c, NULL);
        raw_ulpdu(&c->c, seg, raw_segment(seg, &h, "\x01\x02\0\0", bad[i].n));
        sim_until(&c->s, &c->s.side[1].disconnected, 1, 1000);
        assert_int_equal(c->s.side[1].last.reason, UIW_REASON_PEER_TERMINATE);
        assert_false(raw_next(&c->r, &c->c, &c->u));
        raw_hangup(&c->r, &c->c, false);
        sim_drop(&c->s);
    }
    scene_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_of_the_peer),
        cmocka_unit_test(test_broken_terminates),
    };
    cmocka_set_test_filter(getenv("UIW_TEST")); /* one test by its name, for debugging */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
