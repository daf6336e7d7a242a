/* SPDX-License-Identifier: MIT */
/* Atomic headers and what an operation makes of a value. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "rdmap/rdmap_atomic.h"

static uint64_t random64(void)
{
    uint64_t v;
    random_bytes(&v, sizeof v);
    return v;
}

/* RFC 7306 sec 5.1.1, bit after bit. */
static uint64_t model_add(uint64_t x, uint64_t add, uint64_t mask)
{
    uint64_t out = 0;
    unsigned carry = 0;
    for (unsigned bit = 0; bit < 64; bit++) {
        unsigned sum = carry + (unsigned)(x >> bit & 1) + (unsigned)(add >> bit & 1);
        out |= (uint64_t)(sum & 1) << bit;
        carry = (mask >> bit & 1) != 0 ? 0 : sum >> 1;
    }
    return out;
}

/* RFC 7306 sec 5.1.2, bit after bit. */
static uint64_t model_swap(uint64_t x, const struct rdmap_atomic_request *r)
{
    uint64_t out = 0;
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t here = (uint64_t)1 << bit;
        if ((r->compare_mask & here) != 0 && (x & here) != (r->compare & here)) {
            return x;
        }
        out |= (r->mask & here) != 0 ? r->data & here : x & here;
    }
    return out;
}

static uint64_t add(uint64_t x, uint64_t data, uint64_t mask)
{
    return rdmap_atomic_result(
        &(struct rdmap_atomic_request){.op = RDMAP_FETCH_ADD, .data = data, .mask = mask}, x);
}

/* proves: EXT-7306-5.1.1-04 EXT-7306-1.1-03 */
static void plain_add(void **state)
{
    (void)state;
    assert_true(add(UINT64_MAX, 1, 0) == 0);
    assert_true(add(41, 1, 0) == 42);
    assert_true(add(0x7fffffffffffffff, 1, 0) == 0x8000000000000000);
    assert_true(add(5, (uint64_t)-7, 0) == (uint64_t)-2);
    for (unsigned i = 0; i < 10000; i++) {
        uint64_t x = random64(), a = random64();
        assert_true(add(x, a, 0) == x + a);
        assert_true(add(x, 0, 0) == x);
    }
}

/* proves: EXT-7306-5.1.1-05 */
static void masked_add(void **state)
{
    (void)state;
    const uint64_t halves = 0x8000000080000000;
    assert_true(add(0x00000001ffffffff, 0x0000000100000001, halves) == 0x0000000200000000);
    assert_true(add(0xffffffff00000000, 0x0000000100000001, halves) == 0x0000000000000001);
    /* without a mask bit at the very top the last carry has nowhere to go all the same */
    assert_true(add(UINT64_MAX, 1, 0x80000000) == 0xffffffff00000000);
    /* every bit a field of its own: exclusive or */
    assert_true(add(0xf0f0, 0xff00, UINT64_MAX) == 0x0ff0);
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t x = random64(), a = random64();
        uint64_t mask = random64() & (i % 2 == 0 ? random64() & random64() : UINT64_MAX);
        assert_true(add(x, a, mask) == model_add(x, a, mask));
    }
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t mask = (uint64_t)1 << bit;
        assert_true(add(UINT64_MAX, 1, mask) == model_add(UINT64_MAX, 1, mask));
        assert_true(add(mask, mask, mask) == 0);
    }
}

/* proves: EXT-7306-5.1.2-01 */
static void compare_and_swap(void **state)
{
    (void)state;
    struct rdmap_atomic_request r = {.op = RDMAP_CMP_SWAP,
                                     .data = 9,
                                     .mask = UINT64_MAX,
                                     .compare = 5,
                                     .compare_mask = UINT64_MAX};
    assert_true(rdmap_atomic_result(&r, 5) == 9);
    assert_true(rdmap_atomic_result(&r, 6) == 6);
    r.compare_mask = 0; /* always equal */
    assert_true(rdmap_atomic_result(&r, 6) == 9);
    r.mask = 0; /* nothing is swapped */
    assert_true(rdmap_atomic_result(&r, 6) == 6);
    unsigned swapped = 0;
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t x = random64();
        r = (struct rdmap_atomic_request){.op = RDMAP_CMP_SWAP,
                                          .data = random64(),
                                          .mask = random64(),
                                          .compare = i % 2 == 0 ? x : random64(),
                                          .compare_mask = random64() & random64() & random64()};
        assert_true(rdmap_atomic_result(&r, x) == model_swap(x, &r));
        swapped += rdmap_atomic_result(&r, x) != x;
    }
    assert_true(swapped > 5000);
}

/* proves: EXT-7306-5.1.1-06 EXT-7306-5.1.2-01 */
static void execute_in_memory(void **state)
{
    (void)state;
    uint64_t word[3] = {0xaaaaaaaaaaaaaaaa, 41, 0xbbbbbbbbbbbbbbbb};
    struct rdmap_atomic_request r = {.op = RDMAP_FETCH_ADD, .data = 1};
    assert_true(rdmap_atomic_execute(&r, (uint8_t *)&word[1]) == 41);
    assert_true(word[1] == 42);
    r = (struct rdmap_atomic_request){
        .op = RDMAP_CMP_SWAP, .data = 7, .mask = 0xff, .compare = 42, .compare_mask = 0xff};
    assert_true(rdmap_atomic_execute(&r, (uint8_t *)&word[1]) == 42);
    assert_true(word[1] == 7);
    assert_true(rdmap_atomic_execute(&r, (uint8_t *)&word[1]) == 7); /* no match */
    assert_true(word[1] == 7);
    assert_true(word[0] == 0xaaaaaaaaaaaaaaaa && word[2] == 0xbbbbbbbbbbbbbbbb);
}

enum { ADDS = 100000, THREADS = 3 };

static uint64_t contended[3];

static void *add_remotely(void *arg)
{
    const struct rdmap_atomic_request r = {.op = RDMAP_FETCH_ADD, .data = 1};
    for (unsigned i = 0; i < ADDS; i++) {
        rdmap_atomic_execute(&r, (uint8_t *)&contended[1]);
    }
    return arg;
}

static void *add_locally(void *arg)
{
    for (unsigned i = 0; i < ADDS; i++) {
        __atomic_fetch_add(&contended[1], 1, __ATOMIC_RELAXED);
    }
    return arg;
}

/* More than RFC 7306 sec 5.3 asks for: the program's own atomic instructions count too. */
/* proves: EXT-7306-5-01 EXT-7306-5.3-01 EXT-7306-5.4-02 */
static void nothing_comes_between(void **state)
{
    (void)state;
    pthread_t t[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&t[i], NULL, i == 0 ? add_locally : add_remotely, NULL), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(t[i], NULL), 0);
    }
    assert_true(contended[1] == (uint64_t)THREADS * ADDS);
    assert_true(contended[0] == 0 && contended[2] == 0);
}

/* proves: EXT-7306-5-02 EXT-7306-5.2.1-02 EXT-7306-10-01 EXT-7306-1.1-01 */
static void operation_codes(void **state)
{
    (void)state;
    for (unsigned op = 0; op < 16; op++) {
        assert_int_equal(rdmap_atomic_known(op), op == 0 || op == 2);
    }
}

/* proves: EXT-7306-4-02 EXT-7306-5.2.1-01 */
static void request_header(void **state)
{
    (void)state;
    uint8_t want[RDMAP_ATOMIC_REQUEST_LEN] = {0, 0, 0, RDMAP_CMP_SWAP};
    for (uint8_t i = 4; i < sizeof want; i++) {
        want[i] = i;
    }
    const struct rdmap_atomic_request r = {.op = RDMAP_CMP_SWAP,
                                           .id = 0x04050607,
                                           .stag = 0x08090a0b,
                                           .to = 0x0c0d0e0f10111213,
                                           .data = 0x1415161718191a1b,
                                           .mask = 0x1c1d1e1f20212223,
                                           .compare = 0x2425262728292a2b,
                                           .compare_mask = 0x2c2d2e2f30313233};
    uint8_t out[sizeof want];
    rdmap_atomic_request_pack(&r, out);
    assert_memory_equal(out, want, sizeof want);
    memset(want, 0xff, 3);
    want[3] |= 0xf0; /* the reserved bits are not looked at */
    struct rdmap_atomic_request back;
    rdmap_atomic_request_unpack(want, &back);
    assert_int_equal(back.op, RDMAP_CMP_SWAP);
    assert_int_equal(back.id, r.id);
    assert_int_equal(back.stag, r.stag);
    assert_true(back.to == r.to && back.data == r.data && back.mask == r.mask);
    assert_true(back.compare == r.compare && back.compare_mask == r.compare_mask);
    struct rdmap_atomic_request wide = r;
    wide.op = 0xf2;
    rdmap_atomic_request_pack(&wide, out);
    assert_int_equal(out[3], RDMAP_CMP_SWAP);
}

/* proves: EXT-7306-4-03 EXT-7306-5.2.2-01 */
static void response_header(void **state)
{
    (void)state;
    static const uint8_t want[RDMAP_ATOMIC_RESPONSE_LEN] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const struct rdmap_atomic_response r = {.id = 0x01020304, .original = 0x05060708090a0b0c};
    uint8_t out[sizeof want];
    rdmap_atomic_response_pack(&r, out);
    assert_memory_equal(out, want, sizeof want);
    struct rdmap_atomic_response back;
    rdmap_atomic_response_unpack(want, &back);
    assert_int_equal(back.id, r.id);
    assert_true(back.original == r.original);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_add),
        cmocka_unit_test(masked_add),
        cmocka_unit_test(compare_and_swap),
        cmocka_unit_test(execute_in_memory),
        cmocka_unit_test(nothing_comes_between),
        cmocka_unit_test(operation_codes),
        cmocka_unit_test(request_header),
        cmocka_unit_test(response_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
