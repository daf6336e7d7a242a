/* SPDX-License-Identifier: MIT */
/* One JSON object with all that was measured; uiw-perf(1) has the fields. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "out.h"

static void set(json_t *o, const char *key, json_t *v)
{
    json_object_set_new(o, key, v);
}

static void set_u64(json_t *o, const char *key, uint64_t v)
{
    set(o, key, json_integer((json_int_t)v));
}

static json_t *result_json(const struct perf_result *r)
{
    json_t *j = json_object();

    set_u64(j, "messages", r->messages);
    set(j, "seconds", json_real((double)r->ns / 1e9));
    set(j, "message_rate", json_real(result_rate(r)));
    set(j, "cpu_seconds", json_real((double)r->cpu_ns / 1e9));
    set_u64(j, "sent", r->sent);
    set_u64(j, "received", r->received);
    set_u64(j, "errors", r->errors);
    return j;
}

static json_t *latency_json(const struct histogram *h)
{
    json_t *j = json_object();

    set(j, "min", json_real((double)h->min / 1e3));
    set(j, "typical", json_real(histogram_typical(h) / 1e3));
    set(j, "average", json_real(histogram_average(h) / 1e3));
    set(j, "stdev", json_real(histogram_deviation(h) / 1e3));
    set(j, "p50", json_real(histogram_quantile(h, 0.5) / 1e3));
    set(j, "p99", json_real(histogram_quantile(h, 0.99) / 1e3));
    set(j, "p99_9", json_real(histogram_quantile(h, 0.999) / 1e3));
    set(j, "max", json_real((double)h->max / 1e3));
    return j;
}

static json_t *line_json(const struct report *r, const struct perf_line *line)
{
    json_t *j = json_object();

    set_u64(j, "size", line->size);
    set_u64(j, "messages", report_messages(line));
    if (r->job->lat) {
        set(j, "latency_us", latency_json(&line->hist));
    } else {
        set(j, "peak_gbit_s", json_real(report_peak(line) * 8 / 1e9));
        set(j, "average_gbit_s", json_real(report_rate(line) * 8 / 1e9));
        set(j, "peak_mib_s", json_real(report_peak(line) / 1048576));
        set(j, "average_mib_s", json_real(report_rate(line) / 1048576));
    }
    set(j, "message_rate", json_real(report_message_rate(line)));
    set(j, "cpu_client_s_per_gb", json_real(report_cpu(line, &line->here)));
    set(j, "cpu_server_s_per_gb", json_real(report_cpu(line, &line->there)));
    set(j, "client", result_json(&line->here));
    set(j, "server", result_json(&line->there));
    return j;
}

static const char *progress(bool polled)
{
    return polled ? "polled" : "threaded";
}

static void set_job(json_t *j, const struct perf_job *job)
{
    set(j, "operation", json_string(perf_op_text(job->op)));
    set(j, "test", json_string(perf_test_text(job)));
    set(j, "bidirectional", json_boolean(job->bidir));
    set(j, "events", json_boolean(job->events));
    set(j, "checked", json_boolean(job->check));
    set(j, "hugepages", json_boolean(job->huge));
    set_u64(j, "threads", job->threads);
    set_u64(j, "qps", job->qps);
    set_u64(j, "tx_depth", job->tx_depth);
    set_u64(j, "rx_depth", job->rx_depth);
    set_u64(j, "post_list", job->post_list);
    set_u64(j, "cq_mod", job->cq_mod);
    set_u64(j, "inline_size", job->max_inline);
}

static json_t *report_json(const struct report *r)
{
    json_t *j = json_object(), *lines = json_array();

    set(j, "tool", json_string("uiw-perf"));
    set(j, "version", json_string(uiw_version()));
    set(j, "server", json_string(r->o->address));
    set_u64(j, "port", r->o->port);
    set_job(j, r->job);
    set(j, "client_progress", json_string(progress(r->polled)));
    set(j, "server_progress", json_string(progress(r->peer_polled)));
    set(j, "crc", json_boolean(r->conn.crc));
    set(j, "tx_markers", json_boolean(r->conn.tx_markers));
    set(j, "rx_markers", json_boolean(r->conn.rx_markers));
    set_u64(j, "ird", r->conn.ird);
    set_u64(j, "ord", r->conn.ord);
    set_u64(j, "mtu", r->mtu);
    set_u64(j, "mulpdu", r->conn.mulpdu);
    for (unsigned i = 0; i < r->nlines; i++)
        json_array_append_new(lines, line_json(r, &r->lines[i]));
    set(j, "results", lines);
    return j;
}

int json_write(const struct report *r)
{
    const char *name = r->o->json_file;
    FILE *f = name != NULL ? fopen(name, "w") : stdout;
    json_t *j;
    bool bad;

    if (f == NULL)
        return tool_fail("%s: %s", name, strerror(errno));
    j = report_json(r);
    bad = json_dumpf(j, f, JSON_INDENT(2) | JSON_REAL_PRECISION(10)) != 0;
    json_decref(j);
    bad |= fputc('\n', f) == EOF;
    bad |= (name != NULL ? fclose(f) : fflush(f)) != 0;
    if (bad && name != NULL)
        return tool_fail("%s: cannot write", name);
    return bad ? TOOL_FAILED : TOOL_OK; /* of standard output the exit tells */
}
