/* SPDX-License-Identifier: MIT */
/* Wake-ups that must not be lost: who sleeps hears of all that others leave behind. Real time, several
 * threads. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/qp.h"

static void must(int err, const char *what)
{
    if (err < 0) {
        fprintf(stderr, "%s: %d: %s\n", what, err, uiw_error());
        abort();
    }
}

/* --- posting beside the one who takes what is posted --- */

enum { DEPTH = 16, LOOKS = 2000, POST_MS = 1500 };

static struct uiw_device *dev;
static atomic_bool over;
static atomic_ulong looks;

/* Has the lock most of the time, so that posters have to rely on him. */
static void *take_what_is_posted(void *arg)
{
    struct loop *l = dev->loop;
    while (!atomic_load(&over)) {
        loop_lock(l);
        for (int i = 0; i < LOOKS; i++) {
            loop_take_posted(l);
            atomic_store_explicit(&looks, atomic_load_explicit(&looks, memory_order_relaxed) + 1,
                                  memory_order_relaxed);
        }
        loop_unlock(l);
    }
    return arg;
}

/* Two requests so close together that the second may be posted while the first is being taken. The QP is in
 * error: what is taken completes. */
static bool both_complete(struct uiw_qp *qp, struct uiw_cq *cq, unsigned apart)
{
    struct uiw_send_wr wr = {.opcode = UIW_WR_SEND};
    struct uiw_wc wc[DEPTH];
    must(uiw_qp_post_send(qp, &wr, NULL), "post");
    for (volatile unsigned k = apart; k > 0; k--) {
    }
    must(uiw_qp_post_send(qp, &wr, NULL), "post");
    unsigned long since = atomic_load(&looks);
    for (int done = 0; done < 2; done += uiw_cq_poll(cq, DEPTH, wc)) {
        if (done < 2 && atomic_load(&looks) - since > 3 * LOOKS) {
            return uiw_cq_poll(cq, DEPTH, wc) == 2 - done;
        }
    }
    return true;
}

static void test_posts_are_not_lost(void **state)
{
    (void)state;
    struct uiw_pd *pd;
    struct uiw_cq *cq;
    struct uiw_qp *qp;
    pthread_t taker;
    must(uiw_device_open("pair:wake,ip=198.18.0.1/24,progress=polled", &dev), "device");
    must(uiw_pd_create(dev, &pd), "PD");
    must(uiw_cq_create(dev, DEPTH, NULL, NULL, &cq), "CQ");
    struct uiw_qp_attr attr = {.send_cq = cq, .recv_cq = cq, .max_send_wr = DEPTH};
    must(uiw_qp_create(pd, &attr, &qp), "QP");
    must(uiw_qp_error(qp), "error");
    assert_int_equal(pthread_create(&taker, NULL, take_what_is_posted, NULL), 0);
    unsigned lost = 0, rounds = 0;
    for (uint64_t until = net_now_ms() + POST_MS; net_now_ms() < until; rounds++) {
        lost += !both_complete(qp, cq, rounds % 64);
    }
    atomic_store(&over, true);
    pthread_join(taker, NULL);
    print_message("%u rounds, %u lost\n", rounds, lost);
    assert_int_equal(lost, 0);
    must(uiw_qp_destroy(qp), "QP");
    must(uiw_cq_destroy(cq), "CQ");
    must(uiw_pd_destroy(pd), "PD");
    must(uiw_device_close(dev), "device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_posts_are_not_lost),
    };
    cmocka_set_test_filter(getenv("UIW_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
