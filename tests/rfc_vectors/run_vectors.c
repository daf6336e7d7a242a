/* SPDX-License-Identifier: MIT */
/* Runs the byte vectors of the folders named as arguments (docs/vectors.md). */
#include <stdlib.h>

#include "vec.h"

struct totals {
    unsigned vectors, runs, faults;
};

static struct vec vec;

static void run(struct vec *v)
{
    if (v->faults > 0) {
        return; /* the file is wrong; what it would show is anyone's guess */
    }
    if (vec_is(&v->cfg, "startup")) {
        vec_run_startup(v);
    } else if (vec_is(&v->cfg, "stream")) {
        vec_run_stream(v);
    } else {
        vec_fail(v, v->cfg.line, "unknown kind of vector '%s'", v->cfg.what);
    }
    if (v->faults == 0) {
        vec_unused(v);
    }
}

int main(int argc, char **argv)
{
    struct totals t = {0, 0, 0};
    unsigned cnt;
    char *err;
    struct script **v =
        script_find((const char *const *)argv + 1, (unsigned)(argc - 1), &cnt, &err);
    if (err != NULL) {
        printf("%s\n", err);
        t.faults++;
    }
    for (unsigned i = 0; i < cnt; i++) {
        if (v[i]->vector) {
            vec_begin(&vec, v[i]);
            run(&vec);
            t.vectors++;
            t.runs += vec.runs;
            t.faults += vec.faults;
        }
    }
    script_free_all(v, cnt);
    free(err);
    printf("%u vectors, %u runs, %u faults\n", t.vectors, t.runs, t.faults);
    return t.faults > 0 || t.vectors == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
