/* SPDX-License-Identifier: MIT */
/* log.h and random.h. */
#include "base/log.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* What log_line() wrote, in text. */
static void capture(FILE *to, char *text, size_t size)
{
    fflush(stderr);
    rewind(to);
    size_t n = fread(text, 1, size - 1, to);
    text[n] = 0;
}

static void log_levels(void **state)
{
    (void)state;
    static char text[4096], longest[3000];
    FILE *to = tmpfile();
    int old = dup(STDERR_FILENO);
    assert_non_null(to);
    assert_true(old >= 0 && dup2(fileno(to), STDERR_FILENO) >= 0);
    memset(longest, 'x', sizeof longest - 1);
    log_line(LOG_ERROR, "one %d", 1);
    log_line(LOG_INFO, "two %s", "2");
    log_line(LOG_DEBUG, "three");
    log_line(LOG_WARN, "%s", longest);
    capture(to, text, sizeof text);
    dup2(old, STDERR_FILENO);
    close(old);
    fclose(to);
    /* main() chose "info" before the first line was logged */
    assert_true(log_wants(LOG_ERROR) && log_wants(LOG_WARN) && log_wants(LOG_INFO));
    assert_false(log_wants(LOG_DEBUG));
    const char *begin = "uiw: error: one 1\nuiw: info: two 2\nuiw: warn: xxx";
    assert_memory_equal(text, begin, strlen(begin));
    assert_true(strlen(text) < 1024);
    assert_int_equal(text[strlen(text) - 1], '\n');
}

static void random_fills(void **state)
{
    (void)state;
    uint8_t a[64] = {0}, seen[64] = {0};
    random_bytes(a, 0);
    assert_int_equal(a[0], 0);
    for (int round = 0; round < 64; round++) {
        random_bytes(a, sizeof a);
        for (size_t i = 0; i < sizeof a; i++) {
            seen[i] |= a[i];
        }
    }
    for (size_t i = 0; i < sizeof a; i++) {
        assert_int_not_equal(seen[i], 0);
    }
}

/* More words than one pool has; two equal ones among 1000 come once in 8000 runs, three never. */
static void random_words(void **state)
{
    (void)state;
    static uint32_t w[1000];
    unsigned same = 0;
    for (size_t i = 0; i < ARRAY_LEN(w); i++) {
        w[i] = random_u32();
        for (size_t k = 0; k < i; k++) {
            same += w[i] == w[k];
        }
    }
    assert_true(same < 3);
}

static void keyed_hash(void **state)
{
    (void)state;
    uint8_t in[24] = "four-tuple of a stream.";
    uint64_t h = random_keyed_hash(in, sizeof in);
    assert_true(random_keyed_hash(in, sizeof in) == h);
    assert_true(random_keyed_hash(in, sizeof in - 1) != h);
    for (size_t bit = 0; bit < 8 * sizeof in; bit++) {
        in[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_true(random_keyed_hash(in, sizeof in) != h);
        in[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_levels),
        cmocka_unit_test(random_fills),
        cmocka_unit_test(random_words),
        cmocka_unit_test(keyed_hash),
    };
    setenv("UIW_LOG", "info", 1);
    return cmocka_run_group_tests_name("base_misc", tests, NULL, NULL);
}
