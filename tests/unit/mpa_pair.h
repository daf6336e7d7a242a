/* SPDX-License-Identifier: MIT */
/* For the tests of the MPA set-up: an Initiator and a Responder, and what they send one another. */
#ifndef UIW_TESTS_MPA_PAIR_H
#define UIW_TESTS_MPA_PAIR_H

#include "mpa/mpa_setup.h"

#include "mpa_testing.h"

enum { U = MPA_DEPTH_UNSET, S = MPA_RTR_SEND, W = MPA_RTR_WRITE, R = MPA_RTR_READ };

static struct mpa_setup ini, res;
static uint8_t req[MPA_FRAME_MAX], rep[MPA_FRAME_MAX];
static uint32_t req_len, rep_len;

static inline struct mpa_cfg plain(void)
{
    return (struct mpa_cfg){.crc = true, .rev = 1, .ird = 8, .ord = 8};
}

static inline struct mpa_cfg enhanced(uint16_t ird, uint16_t ord)
{
    return (struct mpa_cfg){.crc = true, .rev = 2, .rtr = W | R, .ird = ird, .ord = ord};
}

static inline struct mpa_cfg p2p(uint8_t rtr, uint16_t ird, uint16_t ord)
{
    struct mpa_cfg cfg = enhanced(ird, ord);
    cfg.p2p = true;
    cfg.rtr = rtr;
    return cfg;
}

static inline enum mpa_setup_event feed(struct mpa_setup *s, const uint8_t *p, uint32_t n)
{
    struct span v;
    struct cursor in = cursor_flat(&v, p, n);
    return mpa_setup_rx(s, &in);
}

/* The Request from ini, taken by res. */
static inline enum mpa_setup_event request(struct mpa_cfg a, struct mpa_cfg b)
{
    mpa_setup_init(&ini, true, &a);
    mpa_setup_init(&res, false, &b);
    req_len = mpa_setup_request(&ini, NULL, 0, req);
    assert_true(req_len >= MPA_FRAME_HDR);
    return feed(&res, req, req_len);
}

/* The whole exchange; what ini says at the end. */
static inline enum mpa_setup_event exchange(struct mpa_cfg a, struct mpa_cfg b)
{
    assert_int_equal(request(a, b), MPA_SETUP_REQUEST);
    rep_len = mpa_setup_accept(&res, &(struct mpa_answer){b.ird, b.ord, NULL, 0}, rep);
    assert_true(rep_len >= MPA_FRAME_HDR);
    return feed(&ini, rep, rep_len);
}

/* The enhanced words as they went over the wire. */
static inline void assert_words(uint32_t request_word, uint32_t reply_word)
{
    assert_int_equal(req_len, 24);
    assert_int_equal(rep_len, 24);
    assert_int_equal(get_be32(req + 20), request_word);
    assert_int_equal(get_be32(rep + 20), reply_word);
}

/* An Initiator that sent its Request and gets a Reply made by hand. */
static inline enum mpa_setup_event answer(struct mpa_cfg a, const struct mpa_frame *f)
{
    mpa_setup_init(&ini, true, &a);
    mpa_setup_request(&ini, NULL, 0, req);
    return feed(&ini, rep, mpa_frame_pack(f, rep));
}

static inline struct mpa_frame reply_frame(uint16_t ird, uint16_t ord)
{
    return (struct mpa_frame){.reply = true, .rev = 2, .enhanced = true, .ird = ird, .ord = ord};
}

#endif
