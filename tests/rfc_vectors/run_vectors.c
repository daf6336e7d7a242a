/* SPDX-License-Identifier: MIT */
/* Runs the byte vectors of the folders named as arguments (docs/vectors.md). */
#include <dirent.h>
#include <errno.h>
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

static void run_file(const char *path, struct totals *t)
{
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        printf("%s: %s\n", path, strerror(errno));
        t->faults++;
        return;
    }
    unsigned line = 0;
    while (vec_read(f, path, &line, &vec)) {
        run(&vec);
        t->vectors++;
        t->runs += vec.runs;
        t->faults += vec.faults;
        vec_free(&vec);
    }
    t->faults += vec.faults;
    fclose(f);
}

static int is_vec(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');
    return dot != NULL && strcmp(dot, ".vec") == 0;
}

static void run_folder(const char *folder, struct totals *t)
{
    struct dirent **names = NULL;
    int n = scandir(folder, &names, is_vec, alphasort);
    if (n <= 0) {
        printf("%s: no vector files\n", folder);
        t->faults++;
    }
    for (int i = 0; i < n; i++) {
        char *path;
        if (asprintf(&path, "%s/%s", folder, names[i]->d_name) < 0) {
            printf("%s: out of memory\n", folder);
            exit(EXIT_FAILURE);
        }
        run_file(path, t);
        free(path);
        free(names[i]);
    }
    free(names);
}

int main(int argc, char **argv)
{
    struct totals t = {0, 0, 0};
    for (int i = 1; i < argc; i++) {
        run_folder(argv[i], &t);
    }
    printf("%u vectors, %u runs, %u faults\n", t.vectors, t.runs, t.faults);
    return t.faults > 0 || t.vectors == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
