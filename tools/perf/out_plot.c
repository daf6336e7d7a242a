/* SPDX-License-Identifier: MIT */
/* An SVG picture through gnuplot: rates or times by size; of a single size, the rate over time or the
 * distribution of the times. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "out.h"

static const char program[] = "gnuplot";
extern char **environ;

static bool installed(void)
{
    const char *path = getenv("PATH");
    char file[4096];

    while (path != NULL && *path != '\0') {
        size_t n = strcspn(path, ":");

        if (snprintf(file, sizeof file, "%.*s/%s", (int)n, path, program) < (int)sizeof file &&
            access(file, X_OK) == 0)
            return true;
        path += n + (path[n] == ':');
    }
    return false;
}

int plot_check(void)
{
    return installed() ? TOOL_OK
                       : tool_fail("--plot needs gnuplot, which is not installed (Debian: "
                                   "gnuplot-nox)");
}

/* --- what gnuplot is told --- */

static void common(FILE *f, const struct report *r)
{
    const struct perf_job *j = r->job;

    fprintf(f,
            "set terminal svg size 900,540 font 'sans-serif,13' background rgb 'white'\n"
            "set grid\nset key left top\n"
            "set title 'uiw-perf: %s %s%s, %u x %u QP, depth %u, CRC %s'\n",
            perf_op_text(j->op), perf_test_text(j), j->bidir ? " bidirectional" : "", j->threads,
            j->qps, j->tx_depth, r->conn.crc ? "on" : "off");
}

static void by_size_axis(FILE *f, const struct report *r)
{
    uint64_t least = UINT64_MAX, most = 0;

    for (unsigned i = 0; i < r->nlines; i++) {
        least = r->lines[i].size < least ? r->lines[i].size : least;
        most = r->lines[i].size > most ? r->lines[i].size : most;
    }
    fprintf(f,
            "set xlabel 'octets of a message'\nset logscale x 2\nset format x '%%.0b%%B'\n"
            "set xrange [%g:%g]\n",
            (double)least / 1.5, (double)most * 1.5);
}

static void rates_by_size(FILE *f, const struct report *r)
{
    by_size_axis(f, r);
    fprintf(f, "set ylabel 'Gbit/s'\nset yrange [0:*]\n$d << EOD\n");
    for (unsigned i = 0; i < r->nlines; i++)
        fprintf(f, "%" PRIu64 " %g %g\n", r->lines[i].size, report_rate(&r->lines[i]) * 8 / 1e9,
                report_peak(&r->lines[i]) * 8 / 1e9);
    fprintf(f, "EOD\nplot $d using 1:2 with linespoints lw 2 title 'average', "
               "$d using 1:3 with points title 'peak'\n");
}

static void times_by_size(FILE *f, const struct report *r)
{
    by_size_axis(f, r);
    fprintf(f, "set ylabel 'microseconds'\nset logscale y\n$d << EOD\n");
    for (unsigned i = 0; i < r->nlines; i++) {
        const struct histogram *h = &r->lines[i].hist;

        fprintf(f, "%" PRIu64 " %g %g %g %g\n", r->lines[i].size, (double)h->min / 1e3,
                histogram_quantile(h, 0.5) / 1e3, histogram_quantile(h, 0.99) / 1e3,
                histogram_quantile(h, 0.999) / 1e3);
    }
    fprintf(f, "EOD\nplot $d using 1:2 with linespoints title 'min', "
               "$d using 1:3 with linespoints lw 2 title 'p50', "
               "$d using 1:4 with linespoints title 'p99', "
               "$d using 1:5 with linespoints title 'p99.9'\n");
}

static void rate_over_time(FILE *f, const struct perf_line *line)
{
    double scale = (double)line->size * 8 / 1e9;

    fprintf(f, "set xlabel 'seconds'\nset ylabel 'Gbit/s'\nset xrange [0:*]\n"
               "set yrange [0:*]\n$d << EOD\n");
    for (unsigned i = 0; i < line->nsamples; i++)
        fprintf(f, "%g %g\n", (double)line->samples[i].ns / 1e9, line->samples[i].rate * scale);
    /* Too short for a sample: the average is what there is. */
    if (line->nsamples == 0)
        fprintf(f, "%g %g\n", (double)line->here.ns / 1e9, result_rate(&line->here) * scale);
    fprintf(f,
            "EOD\nplot $d using 1:2 with linespoints pt 7 ps 0.3 title "
            "'%" PRIu64 " octets, from the client', %g title 'average'\n",
            line->size, result_rate(&line->here) * scale);
}

static void distribution(FILE *f, const struct perf_line *line)
{
    const struct histogram *h = &line->hist;
    uint64_t seen = 0;

    fprintf(f, "set xlabel 'microseconds'\nset logscale x\nset ylabel 'share of messages within'\n"
               "set yrange [0:1]\nset key right bottom\n$d << EOD\n");
    for (unsigned i = 0; i < STATS_BINS; i++) {
        if (seen == 0 && h->bin[i] > 0)
            fprintf(f, "%g 0\n", (double)(h->min > 0 ? h->min : 1) / 1e3);
        seen += h->bin[i];
        if (h->bin[i] > 0)
            fprintf(f, "%g %g\n", (double)histogram_bin_low(i + 1) / 1e3,
                    (double)seen / (double)h->count);
    }
    fprintf(f, "EOD\nplot $d using 1:2 with steps lw 2 title '%" PRIu64 " octets'\n", line->size);
}

static void script(FILE *f, const struct report *r)
{
    common(f, r);
    if (r->nlines > 1 && r->job->lat)
        times_by_size(f, r);
    else if (r->nlines > 1)
        rates_by_size(f, r);
    else if (r->job->lat)
        distribution(f, &r->lines[0]);
    else
        rate_over_time(f, &r->lines[0]);
}

/* --- running it --- */

static int spawn(FILE *to, FILE *from, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    char name[sizeof program];
    char *argv[] = {name, NULL};
    int err;

    memcpy(name, program, sizeof program);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(from), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(to), STDOUT_FILENO);
    err = posix_spawnp(pid, program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return err;
}

/* gnuplot's status does not tell whether all could be written. */
static int copy(FILE *from, const char *name)
{
    FILE *to = fopen(name, "w");
    char octets[4096];
    bool bad;
    size_t n;

    if (to == NULL)
        return tool_fail("%s: %s", name, strerror(errno));
    rewind(from);
    while ((n = fread(octets, 1, sizeof octets, from)) > 0 && fwrite(octets, 1, n, to) == n)
        ;
    bad = ferror(from) || ferror(to);
    bad |= fclose(to) != 0;
    return bad ? tool_fail("%s: cannot write", name) : TOOL_OK;
}

static int draw(const struct report *r, FILE *commands, FILE *picture)
{
    int err, status = 0;
    pid_t pid;

    script(commands, r);
    if (fflush(commands) != 0 || fseek(commands, 0, SEEK_SET) != 0 ||
        lseek(fileno(commands), 0, SEEK_SET) != 0)
        return tool_fail("--plot: temporary file: %s", strerror(errno));
    err = spawn(picture, commands, &pid);
    if (err != 0)
        return tool_fail("gnuplot: %s", strerror(err));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return tool_fail("%s: gnuplot failed", r->o->plot_file);
    return copy(picture, r->o->plot_file);
}

int plot_write(const struct report *r)
{
    FILE *commands = tmpfile(), *picture = tmpfile();
    int result;

    if (commands != NULL && picture != NULL)
        result = draw(r, commands, picture);
    else
        result = tool_fail("--plot: temporary file: %s", strerror(errno));
    if (commands != NULL)
        fclose(commands);
    if (picture != NULL)
        fclose(picture);
    return result;
}
