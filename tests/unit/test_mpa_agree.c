/* SPDX-License-Identifier: MIT */
/* What Request and Reply agree on (mpa_setup.h), seen from both ends. */
#include "mpa_pair.h"

/* proves: MPA-5044-7.1.1-05 MPA-5044-7.1.1-06 MPA-5044-7.1.1-07 MPA-5044-7.1.1-08 MPA-5044-7.1.1-10 */
static void markers_and_crc_matrix(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 32; i++) {
        struct mpa_cfg a = i & 16 ? enhanced(1, 1) : plain(), b = enhanced(1, 1);
        a.markers = i & 1;
        b.markers = i & 2;
        a.crc = i & 4;
        b.crc = i & 8;
        assert_int_equal(exchange(a, b), MPA_SETUP_ACCEPTED);
        assert_int_equal(req[16] >> 6, a.markers << 1 | a.crc);
        assert_int_equal(rep[16] >> 6, b.markers << 1 | (a.crc || b.crc));
        assert_int_equal(ini.agreed.rx_markers, a.markers);
        assert_int_equal(ini.agreed.tx_markers, b.markers);
        assert_int_equal(res.agreed.rx_markers, b.markers);
        assert_int_equal(res.agreed.tx_markers, a.markers);
        assert_int_equal(ini.agreed.crc, a.crc || b.crc);
        assert_int_equal(res.agreed.crc, a.crc || b.crc);
    }
}

/* Initiator's wish (ird, ord), Responder's wish, the Reply's values, and what is in effect. */
struct depth_case {
    uint16_t ii, io, ri, ro;
    uint16_t wi, wo;
    uint16_t ini_i, ini_o, res_i, res_o;
};

static void check_depths(const struct depth_case *c)
{
    assert_int_equal(exchange(enhanced(c->ii, c->io), enhanced(c->ri, c->ro)), MPA_SETUP_ACCEPTED);
    assert_words((uint32_t)c->ii << 16 | c->io, (uint32_t)c->wi << 16 | c->wo);
    assert_int_equal(ini.agreed.ird, c->ini_i);
    assert_int_equal(ini.agreed.ord, c->ini_o);
    assert_int_equal(res.agreed.ird, c->res_i);
    assert_int_equal(res.agreed.ord, c->res_o);
    assert_int_equal(ini.agreed.peer_ird, c->wi);
    assert_int_equal(ini.agreed.peer_ord, c->wo);
    assert_int_equal(res.agreed.peer_ird, c->ii);
    assert_int_equal(res.agreed.peer_ord, c->io);
}

/* proves: ECM-6581-9.1-01 ECM-6581-9.1-02 ECM-6581-9.1-03 ECM-6581-9.1-04 ECM-6581-9.1-08 */
static void depth_table(void **state)
{
    (void)state;
    static const struct depth_case cases[] = {
        {3, 7, 3, 7, 3, 3, 3, 3, 3, 3},
        {3, 7, 9, 1, 9, 1, 3, 7, 9, 1},
        {16, 8, 8, 16, 8, 16, 16, 8, 8, 16},
        {0, 0, 5, 5, 5, 0, 0, 0, 5, 0},
        {0x3ffe, 0x3ffe, 128, 128, 128, 128, 0x3ffe, 128, 128, 128},
        {5, 5, 0, 0, 0, 0, 5, 0, 0, 0},
        {1, 2, 2, 1, 2, 1, 1, 2, 2, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        check_depths(&cases[i]);
    }
}

/* proves: ECM-6581-9.1-11 ECM-6581-9.1-12 ECM-6581-9.1-13 ECM-6581-9.1-14 */
static void depths_left_to_the_ulp(void **state)
{
    (void)state;
    static const struct depth_case cases[] = {
        {5, U, 2, 2, U, 2, 5, U, 2, 2}, /* Initiator's ORD: so is the Responder's IRD */
        {U, 5, 2, 2, 2, U, U, 2, 2, 2}, /* its IRD: so is the Responder's ORD */
        {5, 5, U, U, U, 5, 5, 5, U, 5}, /* no wish there: not above what the peer can take */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        check_depths(&cases[i]);
    }
}

/* proves: ECM-6581-9.1-01 ECM-6581-9.1-04 ECM-6581-9.1-08 */
static void depth_matrix(void **state)
{
    (void)state;
    static const uint16_t depths[] = {0, 1, 2, 8, 0x3ffe};
    for (unsigned i = 0; i < 625; i++) {
        struct mpa_cfg a = enhanced(depths[i % 5], depths[i / 5 % 5]);
        struct mpa_cfg b = enhanced(depths[i / 25 % 5], depths[i / 125]);
        assert_int_equal(exchange(a, b), MPA_SETUP_ACCEPTED);
        assert_true(ini.agreed.ord <= res.agreed.ird && ini.agreed.ord <= a.ord);
        assert_true(res.agreed.ord <= ini.agreed.ird && res.agreed.ord <= b.ord);
    }
}

/* proves: ECM-6581-9.1-09 ECM-6581-8-01 ECM-6581-8-03 ECM-6581-9.1-14 */
static void reply_asks_too_much(void **state)
{
    (void)state;
    struct mpa_frame f = reply_frame(1, 5);
    f.markers = f.crc = true;
    assert_int_equal(answer(enhanced(4, 4), &f), MPA_SETUP_TERM);
    assert_int_equal(ini.fault, MPA_FAULT_IRD);
    assert_true(verdict_is(ini.term, LAYER_LLP, LLP_MPA, MPA_ERR_IRD));
    assert_true(ini.agreed.tx_markers && ini.agreed.crc);
    assert_int_equal(feed(&ini, rep, 24), MPA_SETUP_MORE);
    f.ord = 4;
    assert_int_equal(answer(enhanced(4, 4), &f), MPA_SETUP_ACCEPTED);
    assert_int_equal(ini.agreed.ord, 1);
    f.ord = U;
    assert_int_equal(answer(enhanced(4, 4), &f), MPA_SETUP_ACCEPTED);
    f.ord = 0x3ffe;
    assert_int_equal(answer(enhanced(U, 4), &f), MPA_SETUP_ACCEPTED);
}

/* What each end can do, and what comes of it. */
/* proves: ECM-6581-9.2-01 ECM-6581-9.2-04 ECM-6581-9.2-05 ECM-6581-9.2-09 ECM-6581-9.2-10 */
static void rtr_table(void **state)
{
    (void)state;
    static const struct {
        uint8_t offer, can, selected, first;
    } cases[] = {
        {W | R | S, W | R | S, W | R | S, W},
        {W | R, R, R, R},
        {W | R, W, W, W},
        {R | S, W | R | S, R | S, R},
        {S, W | R | S, S, S},
        {W | R | S, S, S, S},
        {W, R, R, 0},
        {S, W | R, W | R, 0},
        {R, S | W, S | W, 0},
        {W, 0, W, W},
        {R, 0, W, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        enum mpa_setup_event ev = exchange(p2p(cases[i].offer, 4, 4), p2p(cases[i].can, 4, 4));
        assert_int_equal(ini.peer.rtr, cases[i].selected);
        assert_true(ini.peer.p2p && res.peer.p2p);
        assert_int_equal(res.peer.rtr, cases[i].offer);
        assert_int_equal(res.agreed.rtr, cases[i].selected);
        assert_int_equal(ini.agreed.rtr, cases[i].first);
        assert_int_equal(ev, cases[i].first != 0 ? MPA_SETUP_ACCEPTED : MPA_SETUP_TERM);
        assert_true(res.agreed.p2p && ini.agreed.p2p);
    }
}

/* proves: ECM-6581-9.2-02 ECM-6581-9.2-03 ECM-6581-9.2-07 ECM-6581-9.2-09 */
static void rtr_matrix(void **state)
{
    (void)state;
    for (uint8_t offer = 0; offer < 8; offer++) {
        for (uint8_t can = 0; can < 8; can++) {
            enum mpa_setup_event ev = exchange(p2p(offer, 4, 4), p2p(can, 4, 4));
            unsigned able = can != 0 ? can : (unsigned)W;
            assert_int_equal(res.peer.rtr, offer);
            assert_int_equal(ini.peer.rtr, offer & able ? offer & able : able);
            assert_int_equal(ev, offer & able ? MPA_SETUP_ACCEPTED : MPA_SETUP_TERM);
        }
    }
}

/* proves: ECM-6581-9.2-11 ECM-6581-8-04 ECM-6581-9.2-08 ECM-6581-9.2-06 */
static void rtr_of_a_foreign_responder(void **state)
{
    (void)state;
    for (uint8_t mine = 0; mine < 8; mine++) {
        for (uint8_t theirs = 0; theirs < 8; theirs++) {
            struct mpa_frame f = reply_frame(4, 4);
            f.p2p = true;
            f.rtr = theirs;
            enum mpa_setup_event ev = answer(p2p(mine, 4, 4), &f);
            unsigned both = mine & theirs;
            assert_int_equal(ev, both != 0 ? MPA_SETUP_ACCEPTED : MPA_SETUP_TERM);
            unsigned want = both & W ? W : both & R ? R : both & S;
            assert_int_equal(ini.agreed.rtr, want);
            if (both == 0) {
                assert_int_equal(ini.fault, MPA_FAULT_RTR);
                assert_true(verdict_is(ini.term, LAYER_LLP, LLP_MPA, MPA_ERR_RTR));
            }
        }
    }
}

/* proves: ECM-6581-9.2-12 ECM-6581-9.2-13 ECM-6581-9.2-14 ECM-6581-9.2-15 */
static void client_server(void **state)
{
    (void)state;
    assert_int_equal(exchange(enhanced(4, 4), p2p(W | R, 4, 4)), MPA_SETUP_ACCEPTED);
    assert_words(0x00040004, 0x00040004);
    assert_false(ini.agreed.p2p || res.agreed.p2p);
    assert_int_equal(ini.agreed.rtr | res.agreed.rtr, 0);

    /* B, C and D behind A=0, in a Request and in a Reply */
    struct mpa_cfg cfg = p2p(W | R | S, 4, 4);
    mpa_setup_init(&res, false, &cfg);
    put_be32(req + 20, 0x4004c004);
    assert_int_equal(feed(&res, req, 24), MPA_SETUP_REQUEST);
    assert_int_equal(mpa_setup_accept(&res, &(struct mpa_answer){0, 4, NULL, 0}, rep), 24);
    assert_int_equal(get_be32(rep + 20), 0x00000004);
    assert_int_equal(res.agreed.rtr, 0);

    cfg.p2p = false;
    mpa_setup_init(&ini, true, &cfg);
    mpa_setup_request(&ini, NULL, 0, req);
    put_be32(rep + 20, 0x4004c004);
    assert_int_equal(feed(&ini, rep, 24), MPA_SETUP_ACCEPTED);
    assert_int_equal(ini.agreed.rtr, 0);
    /* even with A=1, which was not asked for */
    struct mpa_frame f = reply_frame(4, 4);
    f.p2p = true;
    f.rtr = S;
    assert_int_equal(answer(cfg, &f), MPA_SETUP_ACCEPTED);
    assert_false(ini.agreed.p2p);
}

/* A peer that answers A=1 with A=0 does not do peer-to-peer; the connection is client-server. */
/* proves: ECM-6581-9.2-15 */
static void responder_declines_p2p(void **state)
{
    (void)state;
    struct mpa_frame f = reply_frame(4, 4);
    assert_int_equal(answer(p2p(W, 4, 4), &f), MPA_SETUP_ACCEPTED);
    assert_false(ini.agreed.p2p);
    assert_int_equal(ini.agreed.rtr, 0);
    /* B, C and D behind that A=0 */
    struct mpa_cfg cfg = p2p(W | R | S, 4, 4);
    mpa_setup_init(&ini, true, &cfg);
    mpa_setup_request(&ini, NULL, 0, req);
    put_be32(rep + 20, 0x4004c004);
    assert_int_equal(feed(&ini, rep, 24), MPA_SETUP_ACCEPTED);
    assert_false(ini.agreed.p2p);
    assert_int_equal(ini.agreed.rtr, 0);
}

/* proves: ECM-6581-9.1-05 ECM-6581-9.1-01 ECM-6581-9.2-10 */
static void read_rtr_needs_a_place(void **state)
{
    (void)state;
    assert_int_equal(exchange(p2p(R, 0, 0), p2p(R, 0, 0)), MPA_SETUP_ACCEPTED);
    assert_words(0x80004001, 0x80014000);
    assert_int_equal(ini.agreed.ord, 1);
    assert_int_equal(res.agreed.ird, 1);
    assert_int_equal(ini.agreed.ird, 0);
    assert_int_equal(res.agreed.ord, 0);
    /* with a Write nothing is raised */
    assert_int_equal(exchange(p2p(W, 0, 0), p2p(W | R, 0, 0)), MPA_SETUP_ACCEPTED);
    assert_words(0x80008000, 0x80008000);
    assert_int_equal(ini.agreed.ord, 0);
    assert_int_equal(res.agreed.ird, 0);
    /* chosen by the Responder from both, but the Initiator takes the Write */
    assert_int_equal(exchange(p2p(W | R, 0, 0), p2p(W | R, 0, 0)), MPA_SETUP_ACCEPTED);
    assert_int_equal(res.agreed.ird, 1);
    assert_int_equal(ini.agreed.ord, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markers_and_crc_matrix),
        cmocka_unit_test(depth_table),
        cmocka_unit_test(depths_left_to_the_ulp),
        cmocka_unit_test(depth_matrix),
        cmocka_unit_test(reply_asks_too_much),
        cmocka_unit_test(rtr_table),
        cmocka_unit_test(rtr_matrix),
        cmocka_unit_test(rtr_of_a_foreign_responder),
        cmocka_unit_test(client_server),
        cmocka_unit_test(responder_declines_p2p),
        cmocka_unit_test(read_rtr_needs_a_place),
    };
    rnd_seed();
    return cmocka_run_group_tests_name("mpa_agree", tests, NULL, NULL);
}
