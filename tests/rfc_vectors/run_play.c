/* SPDX-License-Identifier: MIT */
/* Plays the vector files of the folders named as arguments against a whole stack in this process: the
 * player is the one end of a wire in memory, the responder the other, and time is virtual.
 *   --cut    again with the stream cut at every octet
 *   --all D  where the octets of other vectors are looked up
 *   --id ID  only that file
 *   -v       every message */
#include <stdlib.h>

#include "play_world.h"

struct totals {
    unsigned files, runs, skipped, faults;
};

static struct {
    bool cut, verbose;
    const char *all, *id;
} opt;

static void report(const struct script *s, const struct play_out *out, uint32_t cut)
{
    printf("%s:%u: %s %s", s->path, out->line, s->id, s->name);
    if (cut > 0) {
        printf(", cut at %u", cut);
    }
    printf(": %s\n", out->why);
}

static bool run_once(struct world *w, const struct script *s, uint32_t cut, struct totals *t)
{
    struct play_out out;
    world_cut(w, cut);
    world_play(w, s, &out);
    t->runs++;
    bool ok = out.result == PLAY_PASS;
    if (out.result == PLAY_SKIP && cut == 0) {
        t->skipped++;
    }
    if (!ok) {
        report(s, &out, cut);
        t->faults++;
    }
    if (out.mute) {
        /* One fault is one fault: the next file has a responder that answers. */
        printf("%s: a responder gave no answer%s\n", s->id, ok ? " at first" : "");
        world_reopen(w);
    }
    w->octets = out.octets;
    return ok;
}

/* Every octet of short streams; of longer ones the first and then ever fewer. */
static void run_cuts(struct world *w, const struct script *s, struct totals *t)
{
    uint32_t n = (uint32_t)min_u64(w->octets, 4000);
    for (uint32_t cut = 1; cut < n; cut += cut < 64 ? 1 : 1 + (n - 64) / 100) {
        if (!run_once(w, s, cut, t)) {
            return;
        }
    }
}

static void run_script(struct world *w, const struct script *s, struct totals *t)
{
    if (s->lines == 0 || (opt.id != NULL && strcmp(opt.id, s->id) != 0)) {
        return;
    }
    t->files++;
    if (run_once(w, s, 0, t) && opt.cut && !s->one_piece) {
        run_cuts(w, s, t);
    }
}

static int options(int argc, char **argv)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--cut") == 0) {
            opt.cut = true;
        } else if (strcmp(argv[i], "-v") == 0) {
            opt.verbose = true;
        } else if (strcmp(argv[i], "--all") == 0 && i + 1 < argc) {
            opt.all = argv[++i];
        } else if (strcmp(argv[i], "--id") == 0 && i + 1 < argc) {
            opt.id = argv[++i];
        }
    }
    return i;
}

int main(int argc, char **argv)
{
    struct totals t = {0, 0, 0, 0};
    struct world w;
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
    world_open(&w, all, all_cnt, opt.verbose);
    for (unsigned i = 0; i < cnt; i++) {
        run_script(&w, v[i], &t);
    }
    t.faults += world_close(&w);
    script_free_all(all, all_cnt);
    script_free_all(v, cnt);
    printf("%u files, %u runs, %u faults\n", t.files, t.runs, t.faults);
    return t.faults > 0 || t.files == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
