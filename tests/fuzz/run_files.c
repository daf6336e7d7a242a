/* SPDX-License-Identifier: MIT */
/* A fuzzer without its engine: gives it each file named, and each file of a folder named, once. */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "fuzz.h"

static unsigned files;

static void __attribute__((noreturn)) die(const char *path)
{
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(EXIT_FAILURE);
}

/* Whoever sees it crash wants to know which file it was. */
static void run_file(const char *path, size_t size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (f == NULL || data == NULL || fread(data, 1, size, f) != size) {
        die(path);
    }
    fclose(f);
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    files++;
}

static void run(const char *path)
{
    struct stat st;
    struct dirent **names = NULL;
    if (stat(path, &st) != 0) {
        die(path);
    }
    if (!S_ISDIR(st.st_mode)) {
        run_file(path, (size_t)st.st_size);
        return;
    }
    int n = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char *inner;
        if (asprintf(&inner, "%s/%s", path, names[i]->d_name) < 0) {
            die(path);
        }
        if (names[i]->d_name[0] != '.') {
            run(inner);
        }
        free(inner);
        free(names[i]);
    }
    free(names);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        run(argv[i]);
    }
    printf("%u files\n", files);
    return files > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
