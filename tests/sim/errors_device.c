/* SPDX-License-Identifier: MIT */
/* What ends a whole device: every stream of it, and nothing beside it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "errors.h"
#include "family.h"

#define WHY    "the memory is bad"
#define FAILED "here: the device has failed: "

enum { QPS = 3 };

/* Two streams; a Request that waits for its answer; a QP without a connection. Each QP has a receive,
 * and the last one a Send that waits for a connection. */
struct failing {
    struct scene k;
    struct raw_conn c[2], asking;
    struct uiw_qp *qp[QPS];
    struct uiw_conn *conn[QPS];
};

static struct failing *failing_open(void)
{
    struct failing *c = calloc(1, sizeof *c);
    struct sim_side *b = &c->k.s.side[1];
    scene_begin_apart(&c->k, E_DEVICE, "mtu=1500");
    for (int i = 0; i < 2; i++) {
        raw_join(&c->k.r, &c->c[i], NULL);
        c->qp[i] = b->qp;
        c->conn[i] = b->conn;
        raw_first(&c->k.r, &c->c[i]);
    }
    sim_qps(&c->k.s, NULL);
    c->qp[2] = b->qp;
    for (int i = 0; i < QPS; i++) {
        assert_int_equal(uiw_qp_post_recv(c->qp[i], &(struct uiw_recv_wr){.wr_id = 1}, NULL), 0);
    }
    assert_int_equal(uiw_qp_post_send(b->qp, &(struct uiw_send_wr){.wr_id = 2}, NULL), 0);
    b->conn = NULL;
    raw_dial(&c->k.r, &c->asking);
    raw_frame(&c->asking, &(struct mpa_frame){.rev = 1, .crc = true});
    raw_run(&c->k.r, 10);
    c->conn[2] = b->conn;
    assert_non_null(b->conn);
    return c;
}

static void failing_close(struct failing *c)
{
    scene_expect_unharmed(&c->k);
    c->k.s.side[1].conn = NULL;
    c->k.s.side[1].qp = NULL;
    for (int i = 0; i < QPS; i++) {
        uiw_conn_destroy(c->conn[i]);
        uiw_qp_destroy(c->qp[i]);
    }
    scene_end(&c->k);
    free(c);
}

static void expect_device_gone(struct failing *c, const char *text)
{
    struct sim_side *b = &c->k.s.side[1];
    struct uiw_async_event ev;
    struct uiw_wc wc[8];
    sim_until(&c->k.s, &b->disconnected, 2, 1000);
    sim_until(&c->k.s, &b->failed, 1, 1000);
    assert_int_equal(b->last.reason, UIW_REASON_LOCAL);
    assert_string_equal(b->last.text, text);
    assert_int_equal(uiw_async_get(b->dev, &ev), 0);
    assert_int_equal(ev.type, UIW_ASYNC_DEVICE_FATAL);
    assert_string_equal(ev.text, text);
    assert_int_equal(uiw_async_get(b->dev, &ev), -EAGAIN); /* none for each QP */
    assert_int_equal(sim_cq_poll(&c->k.s, 1, 8, wc), QPS + 1);
    for (int i = 0; i < QPS + 1; i++) {
        assert_int_equal(wc[i].status, UIW_WC_WR_FLUSH_ERR);
    }
    for (int i = 0; i < QPS; i++) {
        struct uiw_qp_info info;
        uiw_qp_query(c->qp[i], &info);
        assert_int_equal(info.state, UIW_QP_ERROR);
    }
}

/* Nothing can be begun any more, at either end. */
static void expect_no_way_in(struct failing *c)
{
    struct sim_side *b = &c->k.s.side[1];
    struct uiw_conn *conn = NULL;
    struct uiw_listener *l = NULL;
    struct raw_conn late;
    struct sockaddr_storage to = test_addr("198.18.0.1", RAW_PORT);
    struct sockaddr_storage any = test_addr("0.0.0.0", RAW_PORT);
    assert_int_equal(uiw_connect(b->ch, c->qp[2], (struct sockaddr *)&to, NULL, &conn), -EIO);
    assert_int_equal(uiw_listen(b->ch, (struct sockaddr *)&any, 1, NULL, &l), -EIO);
    assert_string_equal(uiw_error(), "uiw_listen: the device has failed");
    raw_dial(&c->k.r, &late);
    raw_run(&c->k.r, 20);
    assert_true(late.close_came);
    raw_hangup(&c->k.r, &late, true);
}

/* proves: RDMAP-5040-4.8-20 */
static void test_device_fails(void **state)
{
    (void)state;
    struct failing *c = failing_open();
    struct uiw_device *dev = c->k.s.side[1].dev;
    assert_int_equal(uiw_device_fail(dev, WHY), 0);
    assert_int_equal(uiw_device_fail(dev, "again"), 0); /* once is enough */
    scene_hit(&c->k);
    for (int i = 0; i < 2; i++) {
        struct rdmap_term t;
        raw_terminate(&c->k.r, &c->c[i], &c->k.u, &t);
        assert_int_equal(c->k.u.seg.plen, 4);
        assert_int_equal(get_be32(c->k.u.octets + DDP_UNTAGGED_LEN), 0x02080000);
        raw_hangup(&c->k.r, &c->c[i], false);
    }
    assert_true(c->asking.close_came);
    assert_int_equal(c->asking.rx_octets, 0);
    expect_device_gone(c, FAILED WHY);
    expect_no_way_in(c);
    failing_close(c);
}

/* The Initiator's first FPDU has not come: the Reply is all that the Responder may have sent.
 * proves: MPA-5044-7.1.2-15 */
static void test_device_fails_before_the_first_fpdu(void **state)
{
    (void)state;
    struct failing *f = calloc(1, sizeof *f);
    struct scene *c = &f->k;
    scene_begin_apart(c, E_DEVICE, "mtu=1500");
    raw_join(&c->r, &c->c, NULL); /* takes the Reply */
    uint32_t before = c->c.rx_octets;
    assert_int_equal(uiw_device_fail(c->s.side[1].dev, WHY), 0);
    scene_hit(c);
    raw_run(&c->r, 50);
    assert_true(c->c.close_came);
    assert_int_equal(c->c.rx_octets, before);
    sim_until(&c->s, &c->s.side[1].disconnected, 1, 1000);
    scene_expect_last(c, UIW_EVENT_DISCONNECTED, UIW_REASON_LOCAL, 0x000208);
    scene_end(c);
    free(f);
}

/* As when a TAP interface is removed: nothing can be told to the peers. */
static void test_link_is_removed(void **state)
{
    (void)state;
    struct failing *c = failing_open();
    net_wire_remove(c->k.s.side[1].net);
    scene_hit(&c->k);
    expect_device_gone(c, FAILED "its link is gone");
    failing_close(c);
}

/* The other device of the process: its stream ends by the peer's word, it itself goes on. */
static void test_device_beside(void **state)
{
    (void)state;
    struct sim s;
    struct uiw_async_event ev;
    struct uiw_listener *l = NULL;
    sim_open(&s, 1, "mtu=1500");
    sim_connect(&s, NULL, NULL);
    struct uiw_send_wr first = {.opcode = UIW_WR_RDMA_WRITE}; /* then the Responder may send */
    assert_int_equal(uiw_qp_post_send(s.side[0].qp, &first, NULL), 0);
    for (int i = 0; i < 50; i++) {
        sim_step(&s);
    }
    assert_int_equal(uiw_device_fail(s.side[1].dev, WHY), 0);
    sim_until(&s, &s.side[0].disconnected, 1, 1000);
    const struct uiw_event *e = &s.side[0].last;
    assert_int_equal(e->reason, UIW_REASON_PEER_TERMINATE);
    assert_string_equal(e->text, "peer: RDMAP remote operation error: catastrophic, global");
    assert_int_equal(uiw_async_get(s.side[0].dev, &ev), -EAGAIN);
    sim_until(&s, &s.side[1].disconnected, 1, 1000);
    e = &s.side[1].last;
    assert_int_equal(e->reason, UIW_REASON_LOCAL);
    assert_int_equal(e->layer << 16 | e->etype << 8 | e->code, 0x000208);
    sim_drop(&s);
    struct sockaddr_storage at = test_addr("0.0.0.0", 1234);
    assert_int_equal(uiw_listen(s.side[0].ch, (struct sockaddr *)&at, 1, NULL, &l), 0);
    uiw_listener_destroy(l);
    sim_close(&s);
}

int errors_device(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device_fails),
        cmocka_unit_test(test_device_fails_before_the_first_fpdu),
        cmocka_unit_test(test_link_is_removed),
        cmocka_unit_test(test_device_beside),
    };
    return cmocka_run_group_tests_name("errors of the device", tests, NULL, NULL);
}
