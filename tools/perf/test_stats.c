/* SPDX-License-Identifier: MIT */
/* The histogram's figures against those of the sorted times themselves. */
#include <stdio.h>
#include <stdlib.h>

#include "stats.h"

enum { N = 20000 };

static int faults;

static void near(const char *what, double got, double want, double tolerance)
{
    double off = got > want ? got - want : want - got;

    if (off <= want * tolerance + 0.5)
        return;
    printf("%s: %g, expected %g\n", what, got, want);
    faults++;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void compare(const char *name, uint64_t *ns)
{
    static struct histogram whole, half[2];
    double sum = 0;

    histogram_clear(&half[0]);
    histogram_clear(&half[1]);
    histogram_clear(&whole);
    for (unsigned i = 0; i < N; i++) {
        histogram_add(&half[i % 2], ns[i]);
        sum += (double)ns[i];
    }
    histogram_merge(&whole, &half[0]);
    histogram_merge(&whole, &half[1]);
    qsort(ns, N, sizeof *ns, by_value);
    printf("%s\n", name);
    near("min", (double)whole.min, (double)ns[0], 0);
    near("max", (double)whole.max, (double)ns[N - 1], 0);
    near("average", histogram_average(&whole), sum / N, 1e-9);
    near("p50", histogram_quantile(&whole, 0.5), (double)ns[N / 2 - 1], 0.004);
    near("p99", histogram_quantile(&whole, 0.99), (double)ns[N * 99 / 100 - 1], 0.004);
    near("p99.9", histogram_quantile(&whole, 0.999), (double)ns[N * 999 / 1000 - 1], 0.004);
    near("p100", histogram_quantile(&whole, 1), (double)ns[N - 1], 0.004);
}

static void bins_join(void)
{
    for (unsigned i = 0; i + 1 < STATS_BINS; i++) {
        if (histogram_bin_low(i) >= histogram_bin_low(i + 1)) {
            printf("bin %u is not below the next\n", i);
            faults++;
        }
    }
}

static void typical(void)
{
    static struct histogram h;

    histogram_clear(&h);
    near("nothing", histogram_typical(&h) + histogram_quantile(&h, 0.5), 0, 0);
    for (unsigned i = 0; i < 3000; i++)
        histogram_add(&h, 1000 + i % 10); /* the crowd */
    for (unsigned i = 0; i < 7000; i++)
        histogram_add(&h, 5000 + 37 * i);
    near("typical", histogram_typical(&h), 1005, 0.01);
    histogram_clear(&h);
    for (unsigned i = 0; i < 10; i++)
        histogram_add(&h, 40 + 20 * (i % 2));
    near("average of two", histogram_average(&h), 50, 0);
    near("deviation", histogram_deviation(&h), 10, 1e-6);
}

int main(void)
{
    static uint64_t ns[N];
    uint64_t x = 1;

    for (unsigned i = 0; i < N; i++)
        ns[i] = i;
    compare("in turn", ns);
    for (unsigned i = 0; i < N; i++) {
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
        ns[i] = (x >> 33) >> (x >> 59); /* over all magnitudes */
    }
    compare("wild", ns);
    for (unsigned i = 0; i < N; i++)
        ns[i] = 1437;
    compare("all the same", ns);
    bins_join();
    typical();
    printf("stats: %d fault(s)\n", faults);
    return faults > 0;
}
