/* SPDX-License-Identifier: MIT */
/* Figures of a run. */
#ifndef UIW_TOOLS_PERF_STATS_H
#define UIW_TOOLS_PERF_STATS_H

#include <stdbool.h>
#include <stdint.h>

/* Counts of times by size: each octave has STATS_SUB bins, so that a time is known to 0.4%, whatever
 * the number of samples. Least, greatest, sum and sum of squares are exact. */
enum { STATS_SUB_BITS = 8, STATS_SUB = 1 << STATS_SUB_BITS, STATS_BINS = 40 * STATS_SUB };

struct histogram {
    uint64_t count, min, max;
    double sum, squares;
    uint64_t bin[STATS_BINS];
};

void histogram_clear(struct histogram *h);
void histogram_add(struct histogram *h, uint64_t ns);
void histogram_merge(struct histogram *to, const struct histogram *from);
/* The time in ns that the fraction f of the samples does not exceed. */
double histogram_quantile(const struct histogram *h, double f);
/* The time around which the samples lie densest: the middle of the shortest span with a tenth. */
double histogram_typical(const struct histogram *h);
double histogram_average(const struct histogram *h);
double histogram_deviation(const struct histogram *h);
/* Bounds of a bin in ns. */
uint64_t histogram_bin_low(unsigned bin);

enum { STATS_SAMPLES = 1024 };

struct sample {
    uint64_t ns; /* since the timed part began */
    double rate; /* messages a second until then */
};

/* What one end did in the timed part of a run; sent and received count the warm-up too. */
struct perf_result {
    uint64_t messages, ns, cpu_ns, sent, received, errors;
    double peak; /* messages a second */
};

/* One line of the table. */
struct perf_line {
    uint64_t size;
    struct perf_result here, there;
    struct histogram hist;
    struct sample samples[STATS_SAMPLES];
    unsigned nsamples;
};

double result_rate(const struct perf_result *r); /* messages a second */

/* Processor time of this process so far. */
uint64_t stats_cpu_ns(void);

#endif
