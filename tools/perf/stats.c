/* SPDX-License-Identifier: MIT */
/* See stats.h. */
#include "stats.h"

#include <string.h>
#include <sys/resource.h>

void histogram_clear(struct histogram *h)
{
    memset(h, 0, sizeof *h);
    h->min = UINT64_MAX;
}

static unsigned bin_of(uint64_t ns)
{
    unsigned octave, bin;

    if (ns < STATS_SUB)
        return (unsigned)ns;
    octave = 63 - (unsigned)__builtin_clzll(ns) - STATS_SUB_BITS;
    bin = (octave + 1) * STATS_SUB + (unsigned)((ns >> octave) - STATS_SUB);
    return bin < STATS_BINS ? bin : STATS_BINS - 1;
}

uint64_t histogram_bin_low(unsigned bin)
{
    unsigned octave = bin / STATS_SUB;

    if (octave == 0)
        return bin;
    return ((uint64_t)STATS_SUB + bin % STATS_SUB) << (octave - 1);
}

void histogram_add(struct histogram *h, uint64_t ns)
{
    h->bin[bin_of(ns)]++;
    h->count++;
    h->min = ns < h->min ? ns : h->min;
    h->max = ns > h->max ? ns : h->max;
    h->sum += (double)ns;
    h->squares += (double)ns * (double)ns;
}

void histogram_merge(struct histogram *to, const struct histogram *from)
{
    for (unsigned i = 0; i < STATS_BINS; i++)
        to->bin[i] += from->bin[i];
    to->count += from->count;
    to->min = from->min < to->min ? from->min : to->min;
    to->max = from->max > to->max ? from->max : to->max;
    to->sum += from->sum;
    to->squares += from->squares;
}

/* The middle of a span of bins, within what was seen. */
static double middle(const struct histogram *h, unsigned first, unsigned last)
{
    double low = (double)histogram_bin_low(first), high = (double)histogram_bin_low(last + 1) - 1;
    double at = (low + high) / 2;

    if (at < (double)h->min)
        return (double)h->min;
    return at > (double)h->max ? (double)h->max : at;
}

double histogram_quantile(const struct histogram *h, double f)
{
    double want = f * (double)h->count;
    uint64_t seen = 0;

    if (h->count == 0)
        return 0;
    for (unsigned i = 0; i < STATS_BINS; i++) {
        seen += h->bin[i];
        if (seen > 0 && (double)seen >= want)
            return middle(h, i, i);
    }
    return (double)h->max;
}

double histogram_typical(const struct histogram *h)
{
    uint64_t want = h->count / 10 + 1, within = 0;
    uint64_t best = UINT64_MAX;
    unsigned first = 0, from = 0, to = 0;

    if (h->count == 0)
        return 0;
    for (unsigned last = 0; last < STATS_BINS; last++) {
        within += h->bin[last];
        while (within - h->bin[first] >= want)
            within -= h->bin[first++];
        if (within >= want && histogram_bin_low(last) - histogram_bin_low(first) < best) {
            best = histogram_bin_low(last) - histogram_bin_low(first);
            from = first;
            to = last;
        }
    }
    return middle(h, from, to);
}

double histogram_average(const struct histogram *h)
{
    return h->count == 0 ? 0 : h->sum / (double)h->count;
}

/* Newton's, to do without libm. */
static double root(double x)
{
    double r = x > 1 ? x : 1;

    for (int i = 0; i < 200; i++) {
        double next = (r + x / r) / 2;

        if (next >= r)
            break;
        r = next;
    }
    return x > 0 ? r : 0;
}

double histogram_deviation(const struct histogram *h)
{
    double mean = histogram_average(h);

    return h->count == 0 ? 0 : root(h->squares / (double)h->count - mean * mean);
}

double result_rate(const struct perf_result *r)
{
    return r->ns == 0 ? 0 : (double)r->messages * 1e9 / (double)r->ns;
}

uint64_t stats_cpu_ns(void)
{
    struct rusage use;

    getrusage(RUSAGE_SELF, &use);
    return ((uint64_t)use.ru_utime.tv_sec + (uint64_t)use.ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)use.ru_utime.tv_usec + (uint64_t)use.ru_stime.tv_usec) * 1000u;
}
