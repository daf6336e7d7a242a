/* SPDX-License-Identifier: MIT */
/* Bulk transfers both ways over a bad wire, byte-exact, in virtual time. */
#include "net_testing.h"

static bool both_closed(void *arg)
{
    struct seen *n = arg;
    return (n[0].events & n[1].events & NET_EV_CLOSED) != 0;
}

struct bulk {
    uint32_t mtu;
    uint64_t octets;
    uint32_t piece;
    struct net_wire wire;
    uint64_t limit_ms;
};

static void transfer(const struct bulk *b)
{
    struct wire_ends w = wire_open(b->mtu);
    struct seen l = {0};
    struct seen n[2] = {{.to_send = b->octets, .want = b->octets, .piece = b->piece},
                        {.to_send = b->octets, .want = b->octets, .piece = b->piece}};
    struct net_wire back = b->wire;
    back.seed ^= 0x5555;
    net_wire_set(w.a, &b->wire);
    net_wire_set(w.b, &back);
    make_stream(&w, &l, &n[0], &n[1]);
    uint64_t began = net_now_ms();
    if (!run_until(&w, both_closed, n, b->limit_ms)) {
        fail_msg("stuck: a sent %llu got %llu, b sent %llu got %llu, events %x %x",
                 (unsigned long long)n[0].sent, (unsigned long long)n[0].received,
                 (unsigned long long)n[1].sent, (unsigned long long)n[1].received, n[0].events,
                 n[1].events);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(n[i].received, b->octets);
        assert_int_equal(n[i].bad, 0);
        assert_int_equal(n[i].error, 0);
        assert_int_equal(net_tx_acked(n[i].s), b->octets);
        net_stream_close(n[i].s, false);
    }
    uint64_t frames, lost;
    net_wire_stats(w.a, &frames, &lost);
    print_message("  %llu ms, %llu frames, %llu lost\n", (unsigned long long)(net_now_ms() - began),
                  (unsigned long long)frames, (unsigned long long)lost);
    net_listener_close(l.l);
    wire_close(&w);
}

static void test_clean(void **state)
{
    (void)state;
    transfer(&(struct bulk){.mtu = 1500, .octets = 8 << 20, .limit_ms = 20000});
    transfer(&(struct bulk){.mtu = 9000, .octets = 8 << 20, .limit_ms = 20000});
    transfer(&(struct bulk){.mtu = 0, .octets = 8 << 20, .piece = 60000, .limit_ms = 20000});
    transfer(&(struct bulk){.mtu = 0, .octets = 1 << 20, .piece = 1, .limit_ms = 20000});
    transfer(&(struct bulk){.mtu = 576, .octets = 1 << 20, .piece = 65536, .limit_ms = 20000});
}

static void test_loss(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 4; seed++) {
        struct net_wire w = {.seed = seed, .loss_ppm = 3000, .delay_ms = 1};
        transfer(&(struct bulk){.mtu = 1500, .octets = 3 << 20, .wire = w, .limit_ms = 600000});
        w.loss_ppm = 20000;
        transfer(&(struct bulk){.mtu = 0, .octets = 3 << 20, .wire = w, .limit_ms = 600000});
    }
}

static void test_duplicates_and_order(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 4; seed++) {
        struct net_wire w = {.seed = seed, .dup_ppm = 50000, .reorder_ppm = 50000};
        transfer(&(struct bulk){.mtu = 1500, .octets = 3 << 20, .wire = w, .limit_ms = 600000});
        transfer(&(struct bulk){.mtu = 0, .octets = 3 << 20, .wire = w, .limit_ms = 600000});
    }
}

static void test_cuts(void **state)
{
    (void)state;
    struct net_wire w = {.seed = 7, .cut_every = 100};
    transfer(&(struct bulk){.mtu = 1500, .octets = 2 << 20, .wire = w, .limit_ms = 60000});
    w = (struct net_wire){.seed = 7, .cut_at = 4096};
    transfer(&(struct bulk){.mtu = 1500, .octets = 2 << 20, .wire = w, .limit_ms = 60000});
    transfer(&(struct bulk){.mtu = 0, .octets = 2 << 20, .wire = w, .limit_ms = 60000});
    w = (struct net_wire){.seed = 7, .cut_ppm = 300000};
    transfer(&(struct bulk){.mtu = 0, .octets = 2 << 20, .wire = w, .limit_ms = 60000});
    w = (struct net_wire){.seed = 7, .cut_every = 1};
    transfer(&(struct bulk){.mtu = 1500, .octets = 60000, .wire = w, .limit_ms = 60000});
}

static void test_all_at_once(void **state)
{
    (void)state;
    for (uint32_t seed = 11; seed <= 16; seed++) {
        struct net_wire w = {.seed = seed,
                             .loss_ppm = 2000,
                             .dup_ppm = 10000,
                             .reorder_ppm = 10000,
                             .cut_ppm = 100000,
                             .delay_ms = seed % 3};
        transfer(&(struct bulk){
            .mtu = seed % 2 ? 1500 : 0, .octets = 2 << 20, .wire = w, .limit_ms = 600000});
    }
}

/* L04: sequence numbers around the wrap and the sign bit. */
static void test_isn(void **state)
{
    (void)state;
    static const uint32_t isn[] = {0, 0x7fffffff, 0x80000000, 0xffffffff, 0x7ff80000u, 0xfff80000u};
    for (size_t i = 0; i < sizeof isn / sizeof isn[0]; i++) {
        net_test_isn(true, isn[i]);
        struct net_wire w = {.seed = 3, .loss_ppm = 2000, .reorder_ppm = 5000};
        transfer(&(struct bulk){.mtu = 1500, .octets = 1 << 20, .wire = w, .limit_ms = 600000});
    }
}

int main(void)
{
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_duplicates_and_order),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_all_at_once),
        cmocka_unit_test(test_isn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
