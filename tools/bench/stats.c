/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "bench.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bench_stats bench_stats_of(double *values, int n)
{
    if (n == 0) return (bench_stats){NAN, NAN, NAN};
    qsort(values, (size_t)n, sizeof *values, by_value);
    double median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
    int last = (int)ceil(0.99 * n) - 1;
    return (bench_stats){median, values[0], values[last]};
}
