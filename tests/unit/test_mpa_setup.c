/* SPDX-License-Identifier: MIT */
/* The course of the set-up (mpa_setup.h): frames in turn, revisions, rejects, faults. */
#include "mpa_pair.h"

/* proves: ECM-6581-6-02 ECM-6581-6-03 ECM-6581-6-04 ECM-6581-10-01 ECM-6581-10-02 ECM-6581-10-04 */
static void revision_of_the_reply(void **state)
{
    (void)state;
    assert_int_equal(exchange(plain(), enhanced(4, 4)), MPA_SETUP_ACCEPTED);
    assert_int_equal(get_be16(req + 16), 0x4001);
    assert_int_equal(get_be16(rep + 16), 0x4001);
    assert_int_equal(rep_len, 20);
    assert_int_equal(ini.agreed.rev, 1);
    assert_int_equal(res.agreed.rev, 1);
    assert_false(res.agreed.enhanced);
    assert_int_equal(res.agreed.peer_ird, U);
    assert_int_equal(res.agreed.ird, 4);
    assert_int_equal(res.agreed.ord, 4);
    assert_int_equal(ini.agreed.ord, 8);

    assert_int_equal(exchange(enhanced(4, 4), enhanced(4, 4)), MPA_SETUP_ACCEPTED);
    assert_int_equal(get_be16(req + 16), 0x5002);
    assert_int_equal(get_be16(rep + 16), 0x5002);
    assert_int_equal(ini.agreed.rev, 2);
    assert_int_equal(res.agreed.rev, 2);
    assert_true(ini.agreed.enhanced && res.agreed.enhanced);
}

/* proves: ECM-6581-10-03 ECM-6581-6-03 MPA-5044-7.1.1-17 */
static void nothing_enhanced_wanted(void **state)
{
    (void)state;
    assert_int_equal(exchange(enhanced(U, U), enhanced(4, 4)), MPA_SETUP_ACCEPTED);
    assert_int_equal(get_be16(req + 16), 0x4001);
    assert_int_equal(req_len, 20);
    assert_int_equal(exchange(enhanced(U, 1), enhanced(4, 4)), MPA_SETUP_ACCEPTED);
    assert_int_equal(get_be16(req + 16), 0x5002);
}

/* A Rev 2 Request without S, which we never send. */
/* proves: ECM-6581-10-02 ECM-6581-6-01 */
static void rev_2_without_s(void **state)
{
    (void)state;
    struct mpa_cfg cfg = enhanced(4, 4);
    struct mpa_frame f = {.rev = 2, .crc = true, .pd_len = 6, .pd = "abcdef"};
    mpa_setup_init(&res, false, &cfg);
    assert_int_equal(feed(&res, req, mpa_frame_pack(&f, req)), MPA_SETUP_REQUEST);
    assert_int_equal(res.peer.pd_len, 6);
    assert_int_equal(mpa_setup_accept(&res, &(struct mpa_answer){4, 4, NULL, 0}, rep), 20);
    assert_int_equal(get_be16(rep + 16), 0x4002);
}

/* proves: MPA-5044-7.1.2-13 MPA-5044-7.1.2-05 MPA-5044-7.1.2-06 ECM-6581-9.1-06 ECM-6581-9.1-10
 * ECM-6581-6-01 */
static void reject(void **state)
{
    (void)state;
    assert_int_equal(request(enhanced(1, 4), enhanced(4, 8)), MPA_SETUP_REQUEST);
    rep_len = mpa_setup_reject(&res, "no room", 7, rep);
    assert_int_equal(rep_len, 31);
    assert_int_equal(get_be16(rep + 16), 0x7002);
    assert_int_equal(get_be32(rep + 20), 0x00040008);
    assert_int_equal(feed(&ini, rep, rep_len), MPA_SETUP_REJECTED);
    assert_int_equal(ini.peer.pd_len, 7);
    assert_memory_equal(ini.peer.pd, "no room", 7);
    assert_int_equal(ini.agreed.peer_ird, 4);
    assert_int_equal(ini.agreed.peer_ord, 8);
    assert_int_equal(mpa_setup_accept(&res, &(struct mpa_answer){1, 1, NULL, 0}, rep), 0);

    assert_int_equal(request(plain(), plain()), MPA_SETUP_REQUEST);
    assert_int_equal(mpa_setup_reject(&res, NULL, 0, rep), 20);
    assert_int_equal(get_be16(rep + 16), 0x6001);
    assert_int_equal(feed(&ini, rep, 20), MPA_SETUP_REJECTED);
    assert_int_equal(ini.peer.pd_len, 0);
}

/* proves: ECM-6581-9.1-11 ECM-6581-9.1-13 ECM-6581-9.2-04 */
static void reject_keeps_the_rules(void **state)
{
    (void)state;
    struct mpa_cfg a = p2p(W, U, U);
    assert_int_equal(request(a, enhanced(4, 8)), MPA_SETUP_REQUEST);
    assert_int_equal(mpa_setup_reject(&res, NULL, 0, rep), 24);
    assert_int_equal(get_be32(rep + 20), 0xbfffbfff);
    assert_int_equal(feed(&ini, rep, 24), MPA_SETUP_REJECTED);
}

/* proves: MPA-5044-7.1.2-02 MPA-5044-7.1.2-09 MPA-5044-7.1.1-24 ECM-6581-9-02 ECM-6581-6-05 */
static void private_data(void **state)
{
    (void)state;
    static const uint32_t lens[] = {0, 1, 4, 100, 507, 508, 511, 512, 513};
    uint8_t pd[513];
    rnd_fill(pd, sizeof pd);
    for (size_t i = 0; i < 2 * ARRAY_LEN(lens); i++) {
        uint32_t n = lens[i / 2];
        struct mpa_cfg cfg = i & 1 ? enhanced(1, 1) : plain();
        mpa_setup_init(&ini, true, &cfg);
        mpa_setup_init(&res, false, &cfg);
        req_len = mpa_setup_request(&ini, pd, n, req);
        if (n > (i & 1 ? 508 : 512)) {
            /* nothing was done: another try is welcome */
            assert_int_equal(req_len, 0);
            assert_int_equal(mpa_setup_request(&ini, pd, 5, req), i & 1 ? 29 : 25);
            continue;
        }
        assert_int_equal(req_len, (i & 1 ? 24 : 20) + n);
        assert_int_equal(feed(&res, req, req_len), MPA_SETUP_REQUEST);
        assert_int_equal(res.peer.pd_len, n);
        assert_memory_equal(res.peer.pd, pd, n);
        assert_int_equal(mpa_setup_accept(&res, &(struct mpa_answer){1, 1, pd, 513}, rep), 0);
        assert_int_equal(mpa_setup_reject(&res, pd, 513, rep), 0);
        if (i & 1) {
            assert_int_equal(mpa_setup_accept(&res, &(struct mpa_answer){1, 1, pd, 509}, rep), 0);
            assert_int_equal(mpa_setup_reject(&res, pd, 509, rep), 0);
        }
        rep_len = mpa_setup_accept(&res, &(struct mpa_answer){1, 1, pd + 1, n / 2}, rep);
        assert_int_equal(feed(&ini, rep, rep_len), MPA_SETUP_ACCEPTED);
        assert_int_equal(ini.peer.pd_len, n / 2);
        assert_memory_equal(ini.peer.pd, pd + 1, n / 2);
    }
}

/* proves: MPA-5044-7.1.1-22 MPA-5044-7.1.2-04 */
static void octets_behind_a_request(void **state)
{
    (void)state;
    struct mpa_cfg cfg = plain();
    mpa_setup_init(&ini, true, &cfg);
    mpa_setup_request(&ini, NULL, 0, req);
    mpa_setup_init(&res, false, &cfg);
    assert_int_equal(feed(&res, req, 21), MPA_SETUP_BAD);
    assert_int_equal(res.fault, MPA_FAULT_TRAILING);
    assert_int_equal(mpa_setup_accept(&res, &(struct mpa_answer){1, 1, NULL, 0}, rep), 0);
    /* and when they come while the ULP decides */
    mpa_setup_init(&res, false, &cfg);
    assert_int_equal(feed(&res, req, 20), MPA_SETUP_REQUEST);
    assert_int_equal(feed(&res, req, 0), MPA_SETUP_MORE);
    assert_int_equal(feed(&res, req, 1), MPA_SETUP_BAD);
    assert_int_equal(res.fault, MPA_FAULT_TRAILING);
    assert_int_equal(mpa_setup_reject(&res, NULL, 0, rep), 0);
    assert_int_equal(feed(&res, req, 1), MPA_SETUP_MORE);
}

/* A Responder may send at once, so FPDUs can stand behind its Reply. */
/* proves: MPA-5044-7.1.2-11 MPA-5044-7.1.2-14 */
static void octets_behind_a_reply_stay(void **state)
{
    (void)state;
    assert_int_equal(exchange(plain(), plain()), MPA_SETUP_ACCEPTED);
    struct mpa_cfg cfg = plain();
    mpa_setup_init(&ini, true, &cfg);
    mpa_setup_request(&ini, NULL, 0, req);
    struct span v[] = {{rep, 20}, {req, 7}};
    struct cursor in = cursor_of(v, 2);
    assert_int_equal(mpa_setup_rx(&ini, &in), MPA_SETUP_ACCEPTED);
    assert_int_equal(in.left, 7);
    assert_int_equal(mpa_setup_rx(&ini, &in), MPA_SETUP_MORE);
    assert_int_equal(in.left, 7);
}

/* proves: MPA-5044-7.1.1-18 MPA-5044-7.1.1-19 ECM-6581-10-01 ECM-6581-10-06 MPA-5044-7.1.2-12 */
static void reply_that_does_not_fit(void **state)
{
    (void)state;
    static const struct {
        uint8_t sent, rev;
        bool enhanced, good;
    } cases[] = {
        {1, 1, false, true},  {1, 2, false, false}, {1, 2, true, false}, {2, 2, true, true},
        {2, 2, false, false}, {2, 1, false, false}, {1, 1, true, true},  {2, 1, true, false},
    };
    for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
        struct mpa_frame f = reply_frame(4, 4);
        f.rev = cases[i / 2].rev;
        f.enhanced = cases[i / 2].enhanced;
        f.reject = i & 1;
        enum mpa_setup_event ev = answer(cases[i / 2].sent == 1 ? plain() : enhanced(4, 4), &f);
        if (cases[i / 2].good) {
            assert_int_equal(ev, i & 1 ? MPA_SETUP_REJECTED : MPA_SETUP_ACCEPTED);
        } else {
            assert_int_equal(ev, MPA_SETUP_BAD);
            assert_int_equal(ini.fault, MPA_FAULT_REV_MISMATCH);
        }
    }
}

/* proves: ECM-6581-10-05 MPA-5044-7.1.1-19 */
static void responder_of_revision_1(void **state)
{
    (void)state;
    assert_int_equal(request(enhanced(4, 4), plain()), MPA_SETUP_BAD);
    assert_int_equal(res.fault, MPA_FAULT_REV);
    assert_int_equal(mpa_setup_accept(&res, &(struct mpa_answer){1, 1, NULL, 0}, rep), 0);
    assert_int_equal(request(plain(), plain()), MPA_SETUP_REQUEST);
}

/* proves: MPA-5044-7.1.1-02 MPA-5044-7.1.1-04 MPA-5044-7.1.2-19 MPA-5044-7.1.2-04 MPA-5044-8-04 */
static void bad_frames_end_it(void **state)
{
    (void)state;
    struct mpa_cfg cfg = plain();
    for (int initiator = 0; initiator <= 1; initiator++) {
        static const struct {
            uint32_t at;
            uint8_t by;
            enum mpa_fault fault;
        } cases[] = {
            {0, 1, MPA_FAULT_KEY},        {15, 1, MPA_FAULT_KEY}, {9, 1, MPA_FAULT_ROLE},
            {17, 1, MPA_FAULT_REV},       {17, 2, MPA_FAULT_REV}, {17, 0x80, MPA_FAULT_REV},
            {18, 4, MPA_FAULT_PD_LENGTH},
        };
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
            struct mpa_frame f = {.reply = initiator, .rev = 1};
            struct mpa_setup s;
            mpa_setup_init(&s, initiator, &cfg);
            if (initiator) {
                mpa_setup_request(&s, NULL, 0, req);
            }
            mpa_frame_pack(&f, rep);
            rep[cases[i].at] ^= cases[i].by;
            assert_int_equal(feed(&s, rep, 20), MPA_SETUP_BAD);
            assert_int_equal(s.fault, cases[i].fault);
            rep[cases[i].at] ^= cases[i].by;
            assert_int_equal(feed(&s, rep, 20), MPA_SETUP_MORE);
        }
    }
}

/* proves: MPA-5044-7.1.2-11 MPA-5044-7.1.2-14 MPA-5044-5.1-05 */
static void one_event_after_the_last_octet(void **state)
{
    (void)state;
    struct mpa_cfg cfg = enhanced(4, 4);
    uint8_t pd[508];
    rnd_fill(pd, sizeof pd);
    for (uint32_t n = 0; n <= 508; n += 127) {
        mpa_setup_init(&ini, true, &cfg);
        mpa_setup_init(&res, false, &cfg);
        req_len = mpa_setup_request(&ini, pd, n, req);
        for (uint32_t have = 0; have < req_len; have++) {
            assert_int_equal(feed(&res, req, have), MPA_SETUP_MORE);
        }
        assert_int_equal(feed(&res, req, req_len), MPA_SETUP_REQUEST);
        assert_int_equal(feed(&res, req, 0), MPA_SETUP_MORE);
        rep_len = mpa_setup_accept(&res, &(struct mpa_answer){4, 4, pd, n}, rep);
        for (uint32_t have = 0; have < rep_len; have++) {
            assert_int_equal(feed(&ini, rep, have), MPA_SETUP_MORE);
        }
        assert_int_equal(feed(&ini, rep, rep_len), MPA_SETUP_ACCEPTED);
        assert_int_equal(feed(&ini, rep, 0), MPA_SETUP_MORE);
    }
}

/* Calls that come at the wrong time do nothing. */
/* proves: MPA-5044-7.1.2-03 MPA-5044-7.1.2-01 */
static void out_of_turn(void **state)
{
    (void)state;
    struct mpa_cfg cfg = plain();
    mpa_setup_init(&res, false, &cfg);
    assert_int_equal(mpa_setup_request(&res, NULL, 0, req), 0);
    assert_int_equal(mpa_setup_accept(&res, &(struct mpa_answer){1, 1, NULL, 0}, rep), 0);
    assert_int_equal(mpa_setup_reject(&res, NULL, 0, rep), 0);
    mpa_setup_init(&ini, true, &cfg);
    struct mpa_frame f = {.reply = true, .crc = true, .rev = 1};
    mpa_frame_pack(&f, rep);
    assert_int_equal(feed(&ini, rep, 20), MPA_SETUP_MORE);
    assert_int_equal(mpa_setup_request(&ini, NULL, 0, req), 20);
    assert_int_equal(mpa_setup_request(&ini, NULL, 0, req), 0);
    assert_int_equal(mpa_setup_accept(&ini, &(struct mpa_answer){1, 1, NULL, 0}, rep), 0);
}

/* Every octet of a good Reply changed to every value: a defined end, and nothing out of range. */
/* proves: MPA-5044-8-04 ECM-6581-12-01 */
static void every_field_mutated(void **state)
{
    (void)state;
    struct mpa_cfg cfg = p2p(W | R, 4, 4);
    assert_int_equal(exchange(cfg, cfg), MPA_SETUP_ACCEPTED);
    for (uint32_t at = 0; at < rep_len; at++) {
        uint8_t good = rep[at];
        for (unsigned v = 0; v < 256; v++) {
            rep[at] = (uint8_t)v;
            mpa_setup_init(&ini, true, &cfg);
            mpa_setup_request(&ini, NULL, 0, req);
            enum mpa_setup_event ev = feed(&ini, rep, rep_len);
            assert_int_equal(ev == MPA_SETUP_BAD || ev == MPA_SETUP_TERM,
                             ini.fault != MPA_FAULT_NONE);
            assert_int_equal(ev == MPA_SETUP_TERM, ini.term.bad);
            assert_true(ini.agreed.rtr == 0 || ini.agreed.rtr == W || ini.agreed.rtr == R);
            assert_true(ini.agreed.ird <= 4 && ini.agreed.ord <= 4);
            if (at < 16 && v != good) {
                assert_int_equal(ev, MPA_SETUP_BAD);
            }
        }
        rep[at] = good;
    }
}

static void fault_texts(void **state)
{
    (void)state;
    for (int i = MPA_FAULT_NONE; i <= MPA_FAULT_RTR; i++) {
        const char *text = mpa_fault_text((enum mpa_fault)i);
        assert_non_null(text);
        assert_true(strlen(text) > 5);
        assert_string_not_equal(text, "unknown fault");
    }
    assert_string_equal(mpa_fault_text((enum mpa_fault)(MPA_FAULT_RTR + 1)), "unknown fault");
    assert_string_equal(mpa_fault_text((enum mpa_fault)99), "unknown fault");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revision_of_the_reply),
        cmocka_unit_test(nothing_enhanced_wanted),
        cmocka_unit_test(rev_2_without_s),
        cmocka_unit_test(reject),
        cmocka_unit_test(reject_keeps_the_rules),
        cmocka_unit_test(private_data),
        cmocka_unit_test(octets_behind_a_request),
        cmocka_unit_test(octets_behind_a_reply_stay),
        cmocka_unit_test(reply_that_does_not_fit),
        cmocka_unit_test(responder_of_revision_1),
        cmocka_unit_test(bad_frames_end_it),
        cmocka_unit_test(one_event_after_the_last_octet),
        cmocka_unit_test(out_of_turn),
        cmocka_unit_test(every_field_mutated),
        cmocka_unit_test(fault_texts),
    };
    rnd_seed();
    return cmocka_run_group_tests_name("mpa_setup", tests, NULL, NULL);
}
