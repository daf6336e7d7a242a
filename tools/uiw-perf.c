/* SPDX-License-Identifier: MIT */
/* uiw-perf: bandwidth and latency. See perf/perf.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf/out.h"

/* Told before the runs, not behind them. */
static int check_file(const char *name)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

    if (fd < 0)
        return tool_fail("%s: %s", name, strerror(errno));
    close(fd);
    return TOOL_OK;
}

int main(int argc, char **argv)
{
    struct perf_options o;
    struct tool tool;
    char *spec;
    int r;

    tool_init("uiw-perf");
    r = perf_parse(argc, argv, &o);
    if (r == TOOL_OK && o.plot_file != NULL)
        r = plot_check();
    if (r == TOOL_OK && o.plot_file != NULL)
        r = check_file(o.plot_file);
    if (r == TOOL_OK && o.json_file != NULL)
        r = check_file(o.json_file);
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
