/* SPDX-License-Identifier: Apache-2.0 */
/* What the benchmarks share. */
#ifndef TS_TOOLS_BENCH_H
#define TS_TOOLS_BENCH_H

#include <stdint.h>
#include <tessera/collectives.h>

typedef struct bench_stats {
    double median, min, p99;
} bench_stats;

/* Sorts values. */
bench_stats bench_stats_of(double *values, int n);

/* What memory traffic an operation cannot do without. */
typedef enum bench_limit {
    BENCH_LIMIT_NONE,
    BENCH_LIMIT_ALL_REDUCE,
    BENCH_LIMIT_REDUCE,
    BENCH_LIMIT_REDUCE_SCATTER,
    BENCH_LIMIT_BROADCAST,
    BENCH_LIMIT_ALL_GATHER,
    BENCH_LIMIT_GATHER,
    BENCH_LIMIT_SCATTER,
    BENCH_LIMIT_ALL_TO_ALL
} bench_limit;

/* Microseconds that the memory traffic of an operation on float32 takes when threads of one process
 * do it, one per rank, with the library's kernels, on the same cores and the same kind of memory, and
 * without any exchange but a meeting before and after: the limit that an implementation through
 * shared memory can reach.  NaN where no such limit makes sense.
 * Takes about `seconds`. */
double bench_limit_us(bench_limit limit, int64_t bytes, int ranks, ts_memory memory,
                      double seconds);

#endif
