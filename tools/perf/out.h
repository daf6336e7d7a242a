/* SPDX-License-Identifier: MIT */
/* Showing the figures: table, JSON, plot. */
#ifndef UIW_TOOLS_PERF_OUT_H
#define UIW_TOOLS_PERF_OUT_H

#include "session.h"

struct report {
    const struct perf_options *o;
    const struct perf_job *job;
    struct uiw_conn_info conn; /* of the first data connection */
    bool polled, peer_polled;
    uint32_t mtu;
    struct perf_line *lines;
    unsigned nlines;
};

/* Octets a second, of both directions. */
double report_rate(const struct perf_line *line);
double report_peak(const struct perf_line *line);
/* Messages, and messages a second. */
uint64_t report_messages(const struct perf_line *line);
double report_message_rate(const struct perf_line *line);
/* Seconds of processor time for 10^9 octets. */
double report_cpu(const struct perf_line *line, const struct perf_result *end);

void table_head(const struct report *r);
void table_line(const struct report *r, const struct perf_line *line);

/* TOOL_OK, or has said why not. */
int json_write(const struct report *r);

/* Before the runs: is there a gnuplot? */
int plot_check(void);
int plot_write(const struct report *r);

#endif
