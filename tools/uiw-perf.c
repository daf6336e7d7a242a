/* SPDX-License-Identifier: MIT */
/* uiw-perf: bandwidth and latency. See perf/perf.h. */
#include <stdlib.h>

#include "perf/out.h"

int main(int argc, char **argv)
{
    struct perf_options o;
    struct tool tool;
    char *spec;
    int r;

    tool_init("uiw-perf");
    r = perf_parse(argc, argv, &o);
    if (r == TOOL_OK && o.plot_file != NULL && !o.server)
        r = plot_check(&o);
    if (r != TOOL_OK)
        return r;
    spec = perf_device(&o);
    if (spec == NULL)
        return TOOL_USAGE;
    r = tool_open(&tool, spec, PERF_CTRL_CQE);
    if (r == TOOL_OK)
        r = o.server ? perf_server(&tool, &o) : perf_client(&tool, &o);
    tool_close(&tool);
    free(spec);
    return r;
}
