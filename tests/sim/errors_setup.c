/* SPDX-License-Identifier: MIT */
/* Errors of the set-up, each by the whole stack against a peer made by hand. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/conn.h"
#include "errors.h"
#include "family.h"

/* Allocations of that many octets an element fail. */
static size_t starved;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
    return size == starved ? NULL : __real_calloc(n, size);
}

/* TCP ended, and nothing had come before: no Reply, no Terminate. */
static void expect_closed(struct scene *c)
{
    raw_wait(&c->r, &c->c, 1);
    assert_true(c->c.closed || c->c.fin);
    assert_int_equal(c->c.len, 0);
}

/* The device's QP connects; its Request has come. */
static void take_request(struct scene *c, struct mpa_frame *ask)
{
    struct sockaddr_storage to = test_addr("198.18.0.1", RAW_PORT);
    struct sim_side *b = &c->s.side[1];
    sim_qps(&c->s, c->s.srq);
    raw_listen(&c->r, &c->c);
    assert_int_equal(uiw_connect(b->ch, b->qp, (struct sockaddr *)&to, NULL, &b->conn), 0);
    raw_run(&c->r, 20);
    raw_take_frame(&c->r, &c->c, false, ask);
    mpa_tx_init(&c->c.tx, ask->markers, true);
    mpa_rx_init(&c->c.rx, false, true);
}

/* A Request is with the program. */
static void put_request(struct scene *c, const struct mpa_frame *f)
{
    c->s.side[1].conn = NULL;
    raw_dial(&c->r, &c->c);
    raw_frame(&c->c, f);
    raw_run(&c->r, 10);
    assert_non_null(c->s.side[1].conn);
}

static struct mpa_frame enhanced_reply(uint16_t ird, uint16_t ord, uint8_t rtr)
{
    return (struct mpa_frame){.reply = true,
                              .rev = 2,
                              .crc = true,
                              .enhanced = true,
                              .p2p = rtr != 0,
                              .rtr = rtr,
                              .ird = ird,
                              .ord = ord};
}

/* --- bad frames --- */

/* proves: MPA-5044-8-05 MPA-5044-8-09 MPA-5044-7.1.2-04 */
static void test_bad_request(void **state)
{
    (void)state;
    static const struct {
        uint32_t at;
        uint8_t octet;
    } spoilt[] = {{0, 'X'}, {15, 0}, {10, 'p'}, {17, 0}, {17, 3}, {18, 2}};
    for (size_t i = 0; i < ARRAY_LEN(spoilt); i++) {
        struct scene *c = scene_open(E_BAD_FRAME, "mtu=1500");
        uint8_t buf[MPA_FRAME_MAX];
        struct mpa_frame f = {.rev = 1, .crc = true};
        uint32_t n = mpa_frame_pack(&f, buf);
        buf[spoilt[i].at] = spoilt[i].octet;
        buf[19] = spoilt[i].at == 18 ? 1 : 0;
        raw_dial(&c->r, &c->c);
        raw_put(&c->c, buf, n);
        scene_hit(c);
        uint64_t start = c->s.ms;
        expect_closed(c);
        assert_true(c->s.ms - start < 100);
        assert_int_equal(c->c.rx_octets, 0);
        assert_null(c->s.side[1].conn); /* no program was asked */
        raw_hangup(&c->r, &c->c, true);
        scene_close(c);
    }
}

/* Octets that come while the program still decides: the Initiator had to wait for the Reply.
 * proves: MPA-5044-7.1.1-22 */
static void test_octets_before_the_answer(void **state)
{
    (void)state;
    struct scene *c = scene_open(E_BAD_FRAME, "mtu=1500");
    const struct mpa_frame f = {.rev = 1, .crc = true};
    sim_qps(&c->s, c->s.srq);
    put_request(c, &f);
    raw_put(&c->c, "", 1);
    scene_hit(c);
    sim_until(&c->s, &c->s.side[1].failed, 1, 1000);
    scene_expect_last(c, UIW_EVENT_CONNECT_ERROR, UIW_REASON_MALFORMED, 0);
    assert_int_equal(uiw_accept(c->s.side[1].conn, c->s.side[1].qp, NULL), -ENOTCONN);
    expect_closed(c);
    scene_close(c);
}

/* Nobody can use up the places of a listener by nonsense. */
static void test_bad_requests_do_not_use_up_the_listener(void **state)
{
    (void)state;
    struct scene *c = scene_open(E_BAD_FRAME, "mtu=1500");
    for (int i = 0; i < 70; i++) { /* its backlog is 64 */
        raw_dial(&c->r, &c->c);
        raw_put(&c->c, "GET / HTTP/1.0\r\n\r\n", 18);
        if (i == 35) {
            scene_hit(c);
        }
        raw_wait(&c->r, &c->c, 1);
        raw_hangup(&c->r, &c->c, true);
    }
    raw_join(&c->r, &c->c, NULL);
    scene_close(c);
}

/* proves: MPA-5044-8-05 */
static void test_bad_reply(void **state)
{
    (void)state;
    static const struct {
        uint32_t at;
        uint8_t octet;
        enum uiw_reason reason;
    } spoilt[] = {{0, 'X', UIW_REASON_BAD_KEY},
                  {7, 'q', UIW_REASON_BAD_KEY},
                  {17, 9, UIW_REASON_BAD_REVISION},
                  {18, 3, UIW_REASON_MALFORMED}};
    for (size_t i = 0; i < ARRAY_LEN(spoilt); i++) {
        struct scene *c = scene_open(E_BAD_FRAME, "mtu=1500,rev=1");
        struct mpa_frame ask, reply = {.reply = true, .rev = 1, .crc = true};
        uint8_t buf[MPA_FRAME_MAX];
        take_request(c, &ask);
        uint32_t n = mpa_frame_pack(&reply, buf);
        buf[spoilt[i].at] = spoilt[i].octet;
        raw_put(&c->c, buf, n);
        scene_hit(c);
        sim_until(&c->s, &c->s.side[1].failed, 1, 1000);
        scene_expect_last(c, UIW_EVENT_CONNECT_ERROR, spoilt[i].reason, 0);
        expect_closed(c);
        scene_expect_no_async(c);
        scene_close(c);
    }
}

/* --- limits --- */

/* proves: MPA-5044-7.1.2-20 MPA-5044-7.1.2-24 */
static void test_silent_initiator(void **state)
{
    (void)state;
    struct scene *c = scene_open(E_STARTUP_LIMIT, "mtu=1500,setup=3");
    raw_dial(&c->r, &c->c);
    raw_put(&c->c, "MPA ID Req", 10); /* and no more */
    raw_run(&c->r, 2990);
    assert_false(c->c.closed || c->c.fin);
    scene_hit(c);
    raw_run(&c->r, 500);
    assert_true(c->c.closed || c->c.fin);
    assert_int_equal(c->c.rx_octets, 0);
    raw_hangup(&c->r, &c->c, true);
    scene_close(c);
}

/* proves: MPA-5044-7.1.2-20 */
static void test_silent_responder(void **state)
{
    (void)state;
    struct scene *c = scene_open(E_STARTUP_LIMIT, "mtu=1500,setup=3");
    struct mpa_frame ask;
    uint64_t start = c->s.ms;
    take_request(c, &ask);
    raw_run(&c->r, 2900);
    scene_hit(c);
    sim_until(&c->s, &c->s.side[1].failed, 1, 4000);
    assert_in_range(c->s.ms - start, 2900, 3200);
    scene_expect_last(c, UIW_EVENT_CONNECT_ERROR, UIW_REASON_TIMEOUT, 0);
    assert_int_equal(c->s.side[1].last.status, -ETIMEDOUT);
    expect_closed(c);
    scene_close(c);
}

/* The limit is for all of the frame, not for each piece.
 * proves: MPA-5044-7.1.2-24 */
static void test_slow_initiator(void **state)
{
    (void)state;
    struct scene *c = scene_open(E_STARTUP_LIMIT, "mtu=1500,setup=3");
    const struct mpa_frame f = {.rev = 1, .crc = true};
    uint8_t buf[MPA_FRAME_MAX];
    uint32_t n = mpa_frame_pack(&f, buf), sent = 0;
    raw_dial(&c->r, &c->c);
    while (sent < n && !c->c.closed && !c->c.fin) {
        raw_put(&c->c, buf + sent++, 1);
        if (sent == 6) {
            scene_hit(c);
        }
        raw_run(&c->r, 500);
    }
    assert_in_range(sent, 6, 7);
    assert_int_equal(c->c.rx_octets, 0);
    raw_hangup(&c->r, &c->c, true);
    scene_close(c);
}

/* proves: MPA-5044-7.1.2-24 */
static void test_slow_responder(void **state)
{
    (void)state;
    struct scene *c = scene_open(E_STARTUP_LIMIT, "mtu=1500,setup=3");
    struct mpa_frame ask, reply = enhanced_reply(4, 4, 0);
    uint8_t buf[MPA_FRAME_MAX];
    uint32_t n = mpa_frame_pack(&reply, buf), sent = 0;
    take_request(c, &ask);
    while (sent < n && c->s.side[1].failed == 0) {
        raw_put(&c->c, buf + sent++, 1);
        if (sent == 6) {
            scene_hit(c);
        }
        raw_run(&c->r, 500);
    }
    assert_in_range(sent, 6, 7);
    scene_expect_last(c, UIW_EVENT_CONNECT_ERROR, UIW_REASON_TIMEOUT, 0);
    expect_closed(c);
    scene_close(c);
}

/* --- no agreement --- */

static void no_agreement(enum errors_row row, const struct uiw_conn_param *p, struct mpa_frame f,
                         unsigned code)
{
    struct scene *c = scene_open(row, "mtu=1500");
    raw_answer(&c->r, &c->c, p, &f);
    scene_hit(c);
    scene_expect_word(c, 0x20000000 | code << 16);
    sim_until(&c->s, &c->s.side[1].failed, 1, 1000);
    scene_expect_last(c, UIW_EVENT_CONNECT_ERROR, code == 6 ? UIW_REASON_IRD : UIW_REASON_RTR,
                      0x20000 | code);
    assert_int_equal(c->s.side[1].established, 0);
    scene_close(c);
}

/* proves: ECM-6581-9.1-07 REG-6580-3.3-01 */
static void test_ird_too_small(void **state)
{
    (void)state;
    no_agreement(E_SETUP_IRD, &(struct uiw_conn_param){.ird = 4, .ord = 4}, enhanced_reply(4, 5, 0),
                 6);
}

/* proves: REG-6580-3.3-01 */
static void test_no_rtr_in_common(void **state)
{
    (void)state;
    /* the device offers Write and Read */
    no_agreement(E_SETUP_RTR, &(struct uiw_conn_param){.ird = 4, .ord = 4, .p2p = true},
                 enhanced_reply(4, 4, MPA_RTR_SEND), 7);
}

/* --- failures at this end --- */

static const size_t needed[] = {sizeof(struct rdmap_open), sizeof(struct rdmap_asked),
                                sizeof(struct cm_event)};

/* The Reply was good, but the Initiator cannot go on.
 * proves: ECM-6581-8-02 ECM-6581-9.3-01 REG-6580-3.3-01 */
static void test_initiator_fails_itself(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        struct scene *c = scene_open(E_SETUP_LOCAL, "mtu=1500");
        struct mpa_frame ask, reply = enhanced_reply(4, 4, 0);
        take_request(c, &ask);
        starved = needed[i];
        raw_frame(&c->c, &reply);
        scene_hit(c);
        scene_expect_word(c, 0x20050000);
        starved = 0;
        sim_until(&c->s, &c->s.side[1].failed, 1, 1000);
        assert_int_equal(c->s.side[1].last.reason, UIW_REASON_LOCAL);
        assert_int_equal(c->s.side[1].established, 0);
        scene_close(c);
    }
}

/* The Reply has left when it shows: a Terminate behind it.
 * proves: ECM-6581-9.3-01 */
static void test_responder_fails_itself(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        struct scene *c = scene_open(E_SETUP_LOCAL, "mtu=1500");
        struct mpa_frame f = {.rev = 2, .crc = true, .enhanced = true, .ird = 1, .ord = 1};
        sim_qps(&c->s, c->s.srq);
        put_request(c, &f);
        starved = needed[i];
        assert_true(uiw_accept(c->s.side[1].conn, c->s.side[1].qp, NULL) < 0);
        starved = 0;
        scene_hit(c);
        raw_run(&c->r, 50);
        raw_take_frame(&c->r, &c->c, true, &f);
        assert_false(f.reject);
        mpa_rx_init(&c->c.rx, false, true);
        scene_expect_word(c, 0x20050000);
        scene_close(c);
    }
}

/* --- rejects --- */

static void test_reject_here(void **state)
{
    (void)state;
    struct scene *c = scene_open(E_REJECT, "mtu=1500");
    struct mpa_frame f = {.rev = 1, .crc = true};
    put_request(c, &f);
    assert_int_equal(uiw_reject(c->s.side[1].conn, "no", 2), 0);
    scene_hit(c);
    raw_take_frame(&c->r, &c->c, true, &f);
    assert_true(f.reject);
    expect_closed(c);
    scene_expect_no_async(c);
    scene_close(c);
}

static void test_reject_there(void **state)
{
    (void)state;
    struct scene *c = scene_open(E_REJECT, "mtu=1500");
    struct mpa_frame ask, reply = enhanced_reply(4, 4, 0);
    reply.reject = true;
    take_request(c, &ask);
    raw_frame(&c->c, &reply);
    scene_hit(c);
    sim_until(&c->s, &c->s.side[1].rejected, 1, 1000);
    expect_closed(c);
    scene_expect_no_async(c);
    scene_close(c);
}

int errors_setup(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_request),
        cmocka_unit_test(test_bad_requests_do_not_use_up_the_listener),
        cmocka_unit_test(test_octets_before_the_answer),
        cmocka_unit_test(test_bad_reply),
        cmocka_unit_test(test_silent_initiator),
        cmocka_unit_test(test_silent_responder),
        cmocka_unit_test(test_slow_initiator),
        cmocka_unit_test(test_slow_responder),
        cmocka_unit_test(test_ird_too_small),
        cmocka_unit_test(test_no_rtr_in_common),
        cmocka_unit_test(test_initiator_fails_itself),
        cmocka_unit_test(test_responder_fails_itself),
        cmocka_unit_test(test_reject_here),
        cmocka_unit_test(test_reject_there),
    };
    return cmocka_run_group_tests_name("errors of the set-up", tests, NULL, NULL);
}
