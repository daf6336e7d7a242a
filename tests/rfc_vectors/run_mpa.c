/* SPDX-License-Identifier: MIT */
/* Plays the vector files of the folders named as arguments against the MPA layer alone: no DDP, RDMAP, TCP
 * or API is tested, or there at all. Files that need them say so (`needs stack WHY`), are held to it, and
 * are listed.
 *   --cut    again with the stream cut at every octet
 *   --all D  where the octets of other vectors are looked up
 *   --doc F  the list must stand in that file
 *   --id ID  only that file */
#include <stdlib.h>

#include "mpa_world.h"

struct totals {
    unsigned files, runs, faults, up, down, frames, events, beyond;
};

static struct {
    bool cut;
    const char *all, *doc, *id;
} opt;

static struct mpa_world world;

static void report(const struct script *s, const struct play_out *out, uint32_t cut)
{
    printf("%s:%u: %s %s", s->path, out->line, s->id, s->name);
    if (cut > 0) {
        printf(", cut at %u", cut);
    }
    printf(": %s\n", out->why);
}

/* Whether MPA had anything to do with it. */
static bool was_used(const struct mpa_world *w)
{
    return w->frames + w->up + w->down > 0 || w->fed > 0;
}

static bool run_once(const struct script *s, uint32_t cut, struct play_out *out, struct totals *t)
{
    mpa_world_play(&world, s, cut, out);
    t->runs++;
    t->up += world.up;
    t->down += world.down;
    t->frames += world.frames;
    t->events += world.events;
    t->beyond += world.beyond;
    if (out->result == PLAY_PASS && !was_used(&world)) {
        out->result = PLAY_SKIP;
        snprintf(out->why, sizeof out->why, "nothing of it concerns MPA");
    }
    return out->result == PLAY_PASS;
}

/* Every octet of short streams; of longer ones the first and then ever fewer. */
static void run_cuts(const struct script *s, uint32_t octets, struct totals *t)
{
    struct play_out out;
    uint32_t n = min_u32(octets, 4000);
    for (uint32_t cut = 1; cut < n; cut += cut < 64 ? 1 : 1 + (n - 64) / 100) {
        if (!run_once(s, cut, &out, t)) {
            report(s, &out, cut);
            t->faults++;
            return;
        }
    }
}

/* A file that says that it needs the stack must not pass without. */
static void run_script(const struct script *s, struct totals *t)
{
    struct play_out out;
    bool ok = run_once(s, 0, &out, t), needs = s->stack[0] != 0;
    t->files += !needs;
    if (ok && needs) {
        snprintf(out.why, sizeof out.why, "passes on MPA alone, and says that it needs the stack");
    }
    if (ok == needs) {
        report(s, &out, 0);
        t->faults++;
    } else if (ok && opt.cut && !s->one_piece) {
        run_cuts(s, (uint32_t)min_u64(out.octets, UINT32_MAX), t);
    }
}

/* --- the list --- */

static char *list_of(struct script **v, unsigned cnt, unsigned files)
{
    enum { ROOM = 1 << 16 };
    char *text = calloc(1, ROOM);
    size_t n = 0;
    if (text == NULL) {
        abort();
    }
    n += (size_t)snprintf(text + n, ROOM - n,
                          "Of the %u files %u play on MPA alone; these %u do not:\n\n"
                          "| file | why it needs the stack |\n|---|---|\n",
                          cnt, files, cnt - files);
    for (unsigned i = 0; i < cnt && n + 200 < ROOM; i++) {
        if (v[i]->stack[0] != 0) {
            n += (size_t)snprintf(text + n, ROOM - n, "| %s %s | %s |\n", v[i]->id, v[i]->name,
                                  v[i]->stack);
        }
    }
    return text;
}

static bool stands_in(const char *path, const char *text)
{
    FILE *f = fopen(path, "r");
    char *all = calloc(1, 1 << 18);
    size_t n = f != NULL && all != NULL ? fread(all, 1, (1 << 18) - 1, f) : 0;
    bool there = n > 0 && strstr(all, text) != NULL;
    free(all);
    if (f != NULL) {
        fclose(f);
    }
    return there;
}

static void tell(struct script **v, unsigned cnt, struct totals *t)
{
    char *text = list_of(v, cnt, t->files);
    printf("%s", text);
    if (opt.doc != NULL && !stands_in(opt.doc, text)) {
        printf("%s must have that, word by word\n", opt.doc);
        t->faults++;
    }
    free(text);
}

/* --- main --- */

static int options(int argc, char **argv)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        const char **val = strcmp(argv[i], "--all") == 0   ? &opt.all
                           : strcmp(argv[i], "--doc") == 0 ? &opt.doc
                           : strcmp(argv[i], "--id") == 0  ? &opt.id
                                                           : NULL;
        if (val != NULL && i + 1 < argc) {
            *val = argv[++i];
        } else {
            opt.cut |= strcmp(argv[i], "--cut") == 0;
        }
    }
    return i;
}

int main(int argc, char **argv)
{
    struct totals t = {0};
    int first = options(argc, argv);
    unsigned all_cnt, cnt = 0;
    char *err;
    struct script **v = NULL, **all = script_find(&opt.all, opt.all != NULL, &all_cnt, &err);
    if (err == NULL) {
        v = script_find((const char *const *)argv + first, (unsigned)(argc - first), &cnt, &err);
    }
    if (err != NULL) {
        printf("%s\n", err);
        return EXIT_FAILURE;
    }
    mpa_world_open(&world, all, all_cnt);
    for (unsigned i = 0; i < cnt; i++) {
        if (opt.id == NULL || strcmp(opt.id, v[i]->id) == 0) {
            run_script(v[i], &t);
        }
    }
    if (opt.id == NULL) {
        tell(v, cnt, &t);
    }
    script_free_all(all, all_cnt);
    script_free_all(v, cnt);
    printf("%u runs: %u frames, %u ULPDUs up, %u down, %u events; %u events of layers above passed "
           "over; %u faults\n",
           t.runs, t.frames, t.up, t.down, t.events, t.beyond, t.faults);
    return t.faults > 0 || t.files == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
