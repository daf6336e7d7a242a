/* SPDX-License-Identifier: MIT */
/* Hand-made and broken frames against a stream: what a hostile or faulty peer may send. */
#include "net_testing.h"
#include "tcpip/vnet.h"

/* Octets in front of the TCP header. */
#define HEAD (14 + test_headers() - 20)

static struct wire_ends w;
static struct seen l, a, b;
static uint64_t rnd_state = 1;

static uint32_t rnd(uint32_t below)
{
    rnd_state = rnd_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rnd_state >> 33) % below;
}

/* The last TCP frame that left each end, and counts. */
struct watch {
    uint8_t frame[2048]; /* its beginning */
    uint32_t len;
    uint64_t frames, acks, resets, mss_faults, syns;
    uint8_t to[6];
    uint32_t mss;
};

static struct watch from_a, from_b;

static uint32_t option_mss(const uint8_t *f, const struct vnet_tcp *t)
{
    for (uint32_t i = t->l4 + 20; i + 3 < t->pay;) {
        if (f[i] == 2) {
            return get_be16(f + i + 2);
        }
        i += f[i] == 1 ? 1 : f[i + 1];
    }
    return 0;
}

static void on_frame(void *arg, const uint8_t *f, uint32_t len)
{
    struct watch *x = arg;
    struct vnet_tcp t;
    memcpy(x->to, f, 6);
    if (!vnet_find_tcp(f, len, len, &t)) {
        return;
    }
    uint8_t flags = f[t.l4 + 13];
    x->frames++;
    x->acks += flags == VNET_ACK && t.pay == t.end;
    x->resets += (flags & VNET_RST) != 0;
    if (flags & VNET_SYN) {
        x->syns++;
        x->mss_faults += option_mss(f, &t) != x->mss;
        return;
    }
    x->len = len;
    memcpy(x->frame, f, min_u32(len, sizeof x->frame));
}

static void connected(uint32_t mtu)
{
    memset(&l, 0, sizeof l);
    a = b = l;
    memset(&from_a, 0, sizeof from_a);
    from_b = from_a;
    from_a.mss = from_b.mss = mtu - test_headers();
    w = wire_open(mtu);
    net_wire_watch(w.a, on_frame, &from_a);
    net_wire_watch(w.b, on_frame, &from_b);
    make_stream(&w, &l, &a, &b);
    a.to_send = b.to_send = 10;
    send_pattern(&a);
    send_pattern(&b);
    run_for(&w, 100);
    assert_int_equal(a.received, 10);
    assert_int_equal(b.received, 10);
}

static void end(void)
{
    net_stream_close(a.s, true);
    net_stream_close(b.s, true);
    net_listener_close(l.l);
    wire_close(&w);
}

/* A segment as a would send it to b: sequence number relative to the next octet. */
struct segment {
    uint32_t rel;
    uint8_t flags;
    const uint8_t *options;
    uint32_t options_len; /* a multiple of 4 */
    uint32_t ack_rel;     /* added to the right acknowledgement */
    uint32_t from;        /* payload: the pattern from there */
    uint32_t len;
    uint16_t window;
};

static uint32_t build(const struct segment *s, uint8_t *f)
{
    struct vnet_tcp t;
    uint32_t have = min_u32(from_a.len, sizeof from_a.frame);
    assert_true(vnet_find_tcp(from_a.frame, have, from_a.len, &t));
    uint32_t next = get_be32(from_a.frame + t.l4 + 4) + t.end - t.pay;
    uint32_t ack = get_be32(from_a.frame + t.l4 + 8);
    memcpy(f, from_a.frame, t.l4 + 20);
    t.pay = t.l4 + 20 + s->options_len;
    t.end = t.pay + s->len;
    vnet_put_length(f, &t);
    put_be32(f + t.l4 + 4, next + s->rel);
    put_be32(f + t.l4 + 8, ack + s->ack_rel);
    f[t.l4 + 12] = (uint8_t)((20 + s->options_len) / 4 << 4);
    f[t.l4 + 13] = s->flags;
    put_be16(f + t.l4 + 14, s->window != 0 ? s->window : 0x4000);
    if (s->options_len > 0) {
        memcpy(f + t.l4 + 20, s->options, s->options_len);
    }
    for (uint32_t i = 0; i < s->len; i++) {
        f[t.pay + i] = pattern(s->from + i);
    }
    vnet_put_sums(f, &t);
    return t.end;
}

static void inject(const struct segment *s)
{
    static uint8_t f[70000];
    uint32_t len = build(s, f);
    net_wire_inject(w.b, f, len);
    turn_one(w.b);
}

static void still_works(void)
{
    uint64_t before = b.received;
    a.to_send += 5000;
    send_pattern(&a);
    run_for(&w, 3000);
    assert_int_equal(b.received, before + 5000);
    assert_int_equal(b.bad, 0);
    assert_false((a.events | b.events) & NET_EV_CLOSED);
}

/* The MSS that the peer sees is the wire's, never lwIP's own. */
static void test_mss_option(void **state)
{
    (void)state;
    static const uint32_t mtu[] = {576, 1500, 9000};
    for (int i = 0; i < 3; i++) {
        connected(mtu[i]);
        /* Also when it is sent again. */
        struct net_wire lossy = {.seed = 1, .loss_ppm = 700000};
        net_wire_set(w.a, &lossy);
        net_wire_set(w.b, &lossy);
        struct sockaddr_storage at = test_addr("198.18.0.2", 4791);
        struct seen c[20] = {{0}};
        for (int k = 0; k < 20; k++) {
            assert_int_equal(net_connect(w.a, NULL, (struct sockaddr *)&at, &c[k], &c[k].s), 0);
        }
        run_for(&w, 9000);
        for (int k = 0; k < 20; k++) {
            net_stream_close(c[k].s, true);
        }
        assert_true(from_a.syns > 30);
        assert_true(from_b.syns > 3);
        assert_int_equal(from_a.mss_faults, 0);
        assert_int_equal(from_b.mss_faults, 0);
        end();
    }
}

/* L02 */
static void test_syn_in_stream(void **state)
{
    (void)state;
    connected(1500);
    static const uint32_t rel[] = {0,        1,          1000,       0x3fffff,
                                   0x400000, 0x80000000, 0xffffffff, 0xfffffff5};
    for (size_t i = 0; i < ARRAY_LEN(rel); i++) {
        inject(&(struct segment){.rel = rel[i], .flags = VNET_SYN});
        inject(&(struct segment){.rel = rel[i], .flags = VNET_SYN | VNET_ACK});
        inject(
            &(struct segment){.rel = rel[i], .flags = VNET_SYN | VNET_ACK, .from = 10, .len = 50});
        still_works();
    }
    end();
}

/* L03 */
static void test_reset_only_exact(void **state)
{
    (void)state;
    connected(1500);
    for (uint32_t i = 1; i < 2000; i++) {
        inject(&(struct segment){.rel = i, .flags = VNET_RST});
        inject(&(struct segment){.rel = 0u - i, .flags = VNET_RST | VNET_ACK});
        inject(&(struct segment){.rel = i * 2097, .flags = VNET_RST | VNET_ACK});
    }
    assert_true(from_b.acks > 0); /* challenges */
    still_works();
    inject(&(struct segment){.rel = 0, .flags = VNET_RST});
    assert_true(b.events & NET_EV_CLOSED);
    assert_int_equal(b.error, -ECONNRESET);
    end();
}

/* L10 */
static uint32_t random_options(uint8_t *o, uint32_t most)
{
    uint32_t n = 0;
    while (n < most && rnd(12) != 0) {
        static const uint8_t kinds[] = {0, 1, 1, 2, 3, 4, 5, 8, 19, 34, 254};
        uint8_t kind = kinds[rnd(ARRAY_LEN(kinds))];
        o[n++] = kind;
        if (kind <= 1 || n >= most) {
            continue;
        }
        static const uint8_t right[] = {0, 0, 4, 3, 2, 10, 0, 0, 10};
        uint8_t len = kind < sizeof right && rnd(3) != 0 ? right[kind] : (uint8_t)rnd(50);
        o[n++] = len;
        for (uint32_t i = 2; i < len && n < most; i++) {
            o[n++] = (uint8_t)rnd(256);
        }
    }
    while (n % 4 != 0) {
        o[n++] = (uint8_t)rnd(3);
    }
    return n;
}

static void test_options(void **state)
{
    (void)state;
    connected(1500);
    uint64_t sent = a.sent;
    for (uint32_t i = 0; i < 20000; i++) {
        uint8_t o[48];
        uint32_t n = random_options(o, 40);
        struct segment s = {.flags = VNET_ACK, .options = o, .options_len = n};
        if (i % 3 == 0) {
            s.flags = VNET_SYN;
        } else if (i % 3 == 1) {
            s.rel = 0u - 5; /* seen before */
            s.from = (uint32_t)sent - 5;
            s.len = 5;
        }
        inject(&s);
    }
    still_works();
    end();
}

/* Duplicate ACKs with any options, good SACK blocks among them, while data is out. */
static void test_options_of_duplicates(void **state)
{
    (void)state;
    connected(1500);
    struct net_wire dead = {.loss_ppm = 1000000}, fine = {0};
    net_wire_set(w.b, &dead);
    b.to_send += 400000;
    send_pattern(&b);
    turn_one(w.b);
    uint64_t acked = net_tx_acked(b.s);
    for (uint32_t i = 0; i < 20000; i++) {
        uint8_t o[48] = {1, 1, 5, 10};
        uint32_t n = i % 4 == 0 ? 12 : random_options(o, 40);
        inject(&(struct segment){.flags = VNET_ACK,
                                 .options = o,
                                 .options_len = n,
                                 .window = (uint16_t)(1 + rnd(65535))});
    }
    assert_int_equal(net_tx_acked(b.s), acked);
    net_wire_set(w.b, &fine);
    run_for(&w, 20000);
    assert_int_equal(a.received, 400010);
    still_works();
    end();
}

/* A listener honours an MSS that follows options it does not know. */
static void test_options_of_syn(void **state)
{
    (void)state;
    connected(1500);
    for (uint32_t i = 0; i < 3000; i++) {
        static uint8_t f[2048];
        uint8_t o[48] = {254, 4, 1, 2, 1, 1, 2, 4, 2, 0x18 /* 536 */};
        uint32_t n = i == 0 ? 12 : random_options(o, 40);
        struct segment s = {.flags = VNET_SYN, .options = o, .options_len = n};
        build(&s, f);
        put_be16(f + HEAD, 1000 + i); /* from another port: new connections */
        uint32_t end = HEAD + 20 + n;
        struct vnet_tcp t = {HEAD, end, end, test_v6()};
        vnet_put_sums(f, &t);
        net_wire_inject(w.b, f, t.end);
        turn_one(w.b);
        if (i == 0) {
            run_for(&w, 1); /* a knows nothing of it and resets it */
        }
        turn_one(w.a);
        turn_one(w.b);
    }
    assert_int_equal(from_b.mss_faults, 0);
    assert_null(net_accept(l.l));
    still_works();
    end();
}

/* L01: segments that overlap each other in all ways, contents always right. */
static void test_overlaps(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 30; round++) {
        connected(1500);
        b.hold = round % 3 == 0;
        uint32_t most = round % 2 ? 5000 : 60000;
        for (uint32_t i = 0; i < 400; i++) {
            uint32_t off = rnd(round % 5 == 0 ? 4300000 : 200000);
            inject(&(struct segment){
                .rel = off, .flags = VNET_ACK, .from = 10 + off, .len = 1 + rnd(most)});
        }
        b.hold = false;
        take_pattern(&b);
        for (uint32_t off = 0; off < 270000; off += 1400) {
            inject(&(struct segment){.rel = off, .flags = VNET_ACK, .from = 10 + off, .len = 1400});
        }
        assert_true(b.received >= 260000);
        assert_int_equal(b.bad, 0);
        end();
    }
}

/* Beyond the window nothing gets in. */
static void test_window_is_kept(void **state)
{
    (void)state;
    connected(1500);
    b.hold = true;
    for (uint32_t off = 0; off < 6u << 20; off += 60000) {
        inject(&(struct segment){.rel = off, .flags = VNET_ACK, .from = 10 + off, .len = 60000});
    }
    assert_true(net_rx_queued(b.s) <= 4u << 20);
    b.hold = false;
    take_pattern(&b);
    assert_int_equal(b.bad, 0);
    end();
}

/* L09: acknowledged is what is acknowledged, at every boundary. */
static void test_partial_acks(void **state)
{
    (void)state;
    connected(1500);
    struct net_wire dead = {.loss_ppm = 1000000};
    net_wire_set(w.b, &dead);
    uint64_t base = net_tx_acked(b.s);
    b.to_send += 3000;
    send_pattern(&b);
    turn_one(w.b);
    for (uint32_t i = 1; i <= 3000; i++) {
        inject(&(struct segment){.flags = VNET_ACK, .ack_rel = i});
        assert_true(net_tx_acked(b.s) - base <= i);
    }
    assert_int_equal(net_tx_acked(b.s) - base, 3000);
    inject(&(struct segment){.flags = VNET_ACK, .ack_rel = 5000}); /* of what was never sent */
    assert_int_equal(net_tx_acked(b.s) - base, 3000);
    end();
}

static void test_broken_frames(void **state)
{
    (void)state;
    connected(1500);
    static uint8_t good[2048], f[2048];
    uint32_t len = build(&(struct segment){.flags = VNET_ACK, .from = 10, .len = 700}, good);
    /* One bit wrong anywhere but in the sender's Ethernet address, which no checksum covers. */
    for (uint32_t bit = 0; bit < len * 8; bit++) {
        uint32_t at = bit / 8;
        /* Nor those of IPv6 traffic class, flow label and hop limit. */
        bool free6 = test_v6() && ((at == 14 && bit % 8 < 4) || (at > 14 && at < 18) || at == 21);
        memcpy(f, good, len);
        f[at] ^= (uint8_t)(1 << bit % 8);
        if ((at < 6 || at >= 12) && !free6) {
            net_wire_inject(w.b, f, len);
        }
        turn_one(w.b);
        assert_int_equal(b.received, 10);
    }
    end();
    connected(1500);
    /* Cut short anywhere, or full of noise with good checksums. */
    for (uint32_t n = 0; n < len; n++) {
        net_wire_inject(w.b, good, n);
        turn_one(w.b);
    }
    assert_int_equal(b.received, 10);
    for (uint32_t i = 0; i < 30000; i++) {
        memcpy(f, good, len);
        for (uint32_t k = 1 + rnd(4); k > 0; k--) {
            f[14 + rnd(60)] = (uint8_t)rnd(256);
        }
        struct vnet_tcp t = {HEAD, HEAD + 20, len, test_v6()};
        if (rnd(2) != 0) {
            vnet_put_sums(f, &t);
        }
        net_wire_inject(w.b, f, len);
        turn_one(w.b);
        turn_one(w.a);
    }
    end();
}

static void test_fragments_and_ip_options(void **state)
{
    (void)state;
    if (test_v6()) {
        return; /* test_net_ip6.c has those of IPv6 */
    }
    connected(1500);
    static uint8_t f[2048];
    struct vnet_tcp t = {HEAD, HEAD + 20, 0, false};
    t.end = build(&(struct segment){.flags = VNET_ACK, .from = 10, .len = 100}, f);
    put_be16(f + 20, 0x2000); /* more fragments */
    vnet_put_sums(f, &t);
    net_wire_inject(w.b, f, t.end);
    put_be16(f + 20, 0x0010);
    vnet_put_sums(f, &t);
    net_wire_inject(w.b, f, t.end);
    turn_one(w.b);
    turn_one(w.b);
    assert_int_equal(b.received, 10);
    still_works();
    end();
}

/* The peer is back with another MAC address: its announcement counts. */
static void test_new_neighbour(void **state)
{
    (void)state;
    if (test_v6()) {
        return;
    }
    connected(1500);
    static const uint8_t mac[6] = {2, 1, 2, 3, 4, 5};
    uint8_t f[42] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 1, 2, 3, 4,   5,  8, 6,
                     0,    1,    8,    0,    6,    4,    0, 1, 2, 1, 2,   3,  4, 5,
                     198,  18,   0,    1,    0,    0,    0, 0, 0, 0, 198, 18, 0, 1};
    net_wire_inject(w.b, f, sizeof f);
    turn_one(w.b);
    b.to_send += 100;
    send_pattern(&b);
    turn_one(w.b);
    assert_memory_equal(from_b.to, mac, 6);
    end();
}

/* A list that a peer makes long costs for each frame more; so it has a limit, and neighbours are joined. */
static void test_out_of_order(void **state)
{
    (void)state;
    static const struct {
        uint32_t step, len, most;
    } c[] = {{2, 1, 520}, {1, 1, 60}, {1460, 1460, 60}, {3000, 1460, 520}};
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        connected(1500);
        uint32_t longest = 0, n = min_u32(2500, 3900000 / c[i].step);
        for (uint32_t k = 1; k <= n; k++) {
            uint32_t at = 10000 + k * c[i].step; /* beyond what is sent below */
            inject(&(struct segment){
                .rel = at, .flags = VNET_ACK, .from = 10 + at, .len = c[i].len, .window = 0x4000});
            longest = max_u32(longest, net_test_oos(b.s));
        }
        print_message("  %u segments of %u, at most %u kept apart\n", n, c[i].len, longest);
        assert_true(longest > 20);
        assert_true(longest <= c[i].most);
        still_works();
        end();
    }
}

/* Turns without time going by until nothing is left to do; false: the ends do not come to rest. */
static bool comes_to_rest(void)
{
    for (unsigned i = 0; i < 20000; i++) {
        if (turn_one(w.a) + turn_one(w.b) == 0) {
            return true;
        }
    }
    return false;
}

/* The same while that many virtual ms go by. */
static bool rests_for(uint64_t ms)
{
    for (uint64_t until = net_now_ms() + ms; net_now_ms() < until;) {
        if (!comes_to_rest()) {
            return false;
        }
        net_clock_advance(10);
    }
    return true;
}

static uint64_t frames_of_both(void)
{
    return from_a.frames + from_b.frames;
}

/* A segment that a never sent takes b beyond what a has to send: each thinks that the other's
 * acknowledgement is wrong, and is to say so, but not for each that says so (compare RFC 5961 sec 7). */
static void test_answers_end(void **state)
{
    (void)state;
    connected(1500);
    uint64_t before = frames_of_both();
    inject(&(struct segment){.flags = VNET_ACK, .from = 10, .len = 100});
    assert_true(rests_for(10000));
    assert_int_equal(b.received, 110);
    print_message("  %u frames in 10 s\n", (unsigned)(frames_of_both() - before));
    assert_true(frames_of_both() - before < 100);
    end();
}

/* Nobody takes what has come: both windows are shut, both ask now and then whether they still are, and
 * no answer brings another one. */
static void test_both_shut(void **state)
{
    (void)state;
    connected(1500);
    a.hold = b.hold = true;
    a.to_send = b.to_send = 12000000;
    send_pattern(&a);
    send_pattern(&b);
    assert_true(rests_for(1000));
    uint64_t before = frames_of_both();
    assert_true(rests_for(10000));
    print_message("  %u frames in 10 s\n", (unsigned)(frames_of_both() - before));
    assert_true(frames_of_both() - before < 100);
    a.hold = b.hold = false;
    take_pattern(&a);
    take_pattern(&b);
    run_for(&w, 5000);
    assert_int_equal(a.received, 12000000);
    assert_int_equal(b.received, 12000000);
    assert_int_equal(a.bad + b.bad, 0);
    end();
}

int main(void)
{
    cmocka_set_test_filter(getenv("UIW_TEST"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mss_option),
        cmocka_unit_test(test_syn_in_stream),
        cmocka_unit_test(test_reset_only_exact),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_options_of_duplicates),
        cmocka_unit_test(test_options_of_syn),
        cmocka_unit_test(test_overlaps),
        cmocka_unit_test(test_window_is_kept),
        cmocka_unit_test(test_partial_acks),
        cmocka_unit_test(test_broken_frames),
        cmocka_unit_test(test_fragments_and_ip_options),
        cmocka_unit_test(test_new_neighbour),
        cmocka_unit_test(test_out_of_order),
        cmocka_unit_test(test_answers_end),
        cmocka_unit_test(test_both_shut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
