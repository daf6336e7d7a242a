/* SPDX-License-Identifier: MIT */
/* The table, with columns as perftest has them, and figures that all outputs share. */
#include <inttypes.h>
#include <stdio.h>

#include "out.h"

uint64_t report_messages(const struct perf_line *line)
{
    return line->here.messages + line->there.messages;
}

double report_message_rate(const struct perf_line *line)
{
    return result_rate(&line->here) + result_rate(&line->there);
}

double report_rate(const struct perf_line *line)
{
    return report_message_rate(line) * (double)line->size;
}

double report_peak(const struct perf_line *line)
{
    return (line->here.peak + line->there.peak) * (double)line->size;
}

double report_cpu(const struct perf_line *line, const struct perf_result *end)
{
    double octets = (double)report_messages(line) * (double)line->size;

    return octets > 0 ? (double)end->cpu_ns / octets : 0;
}

static const char *on(bool yes)
{
    return yes ? "on" : "off";
}

static const char *progress(bool polled)
{
    return polled ? "polled" : "threaded";
}

void table_head(const struct report *r)
{
    const struct perf_job *j = r->job;
    const char *unit = r->o->gbits ? "Gb/s" : "MiB/s";

    printf(
        "%s %s%s, %u thread(s) x %u QP(s), tx-depth %u, post_list %u, cq-mod %u, inline %u%s%s%s\n",
        perf_op_text(j->op), perf_test_text(j), j->bidir ? ", bidirectional" : "", j->threads,
        j->qps, j->tx_depth, j->post_list, j->cq_mod, j->max_inline, j->events ? ", events" : "",
        j->huge ? ", huge pages" : "", j->check ? ", content checked" : "");
    printf("client %s, server %s; CRC %s, markers sent %s, received %s; MTU %u, MULPDU %u\n",
           progress(r->polled), progress(r->peer_polled), on(r->conn.crc), on(r->conn.tx_markers),
           on(r->conn.rx_markers), r->mtu, r->conn.mulpdu);
    if (j->lat)
        printf("%10s %10s %11s %11s %11s %11s %11s %11s %11s %11s\n", "#bytes", "#iterations",
               "t_min[us]", "t_typ[us]", "t_avg[us]", "t_stdev[us]", "p50[us]", "p99[us]",
               "p99.9[us]", "t_max[us]");
    else
        printf("%10s %11s  BW peak[%s]  BW average[%s]  MsgRate[Mpps]  CPU client[s/GB]"
               "  CPU server[s/GB]\n",
               "#bytes", "#iterations", unit, unit);
    fflush(stdout);
}

static double in_unit(const struct report *r, double octets_per_s)
{
    return r->o->gbits ? octets_per_s * 8 / 1e9 : octets_per_s / 1048576;
}

void table_line(const struct report *r, const struct perf_line *line)
{
    const struct histogram *h = &line->hist;

    printf("%10" PRIu64 " %11" PRIu64, line->size, report_messages(line));
    if (r->job->lat)
        printf(" %10.2f %11.2f %11.2f %11.2f %11.2f %11.2f %11.2f %11.2f\n", (double)h->min / 1e3,
               histogram_typical(h) / 1e3, histogram_average(h) / 1e3, histogram_deviation(h) / 1e3,
               histogram_quantile(h, 0.5) / 1e3, histogram_quantile(h, 0.99) / 1e3,
               histogram_quantile(h, 0.999) / 1e3, (double)h->max / 1e3);
    else
        printf("  %*.2f  %*.2f  %13.6f  %16.3f  %16.3f\n", r->o->gbits ? 13 : 14,
               in_unit(r, report_peak(line)), r->o->gbits ? 16 : 17, in_unit(r, report_rate(line)),
               report_message_rate(line) / 1e6, report_cpu(line, &line->here),
               report_cpu(line, &line->there));
    fflush(stdout);
}
