/* SPDX-License-Identifier: MIT */
/* The table of errors, row by row (errors.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "errors.h"

static int all(bool shared)
{
    scene_shared = shared;
    return errors_peer() + errors_setup() + errors_local() + errors_device() + errors_words();
}

int main(void)
{
    const char *one = getenv("UIW_TEST"); /* one test by its name, for debugging */
    cmocka_set_test_filter(one);
    int bad = all(false) + all(true);
    bad += one == NULL ? (int)errors_missing() : 0;
    return bad > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
