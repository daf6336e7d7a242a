/* SPDX-License-Identifier: MIT */
#include "out.h"
#include <stdlib.h>
struct out_html {
    FILE *f;
};
struct out_html *out_html_open(const char *path, const struct out_cfg *cfg)
{
    (void)cfg;
    struct out_html *o = calloc(1, sizeof *o);
    o->f = fopen(path, "w");
    return o;
}
void out_html_sink(struct out_html *o, struct sink *s)
{
    *s = (struct sink){.ctx = o};
}
bool out_html_close(struct out_html *o)
{
    bool ok = fclose(o->f) == 0;
    free(o);
    return ok;
}
