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

typedef enum bench_op {
    BENCH_ALL_REDUCE,
    BENCH_BROADCAST,
    BENCH_ALL_GATHER,
    BENCH_REDUCE_SCATTER,
    BENCH_BARRIER,
    BENCH_SEND_RECV,
    BENCH_NUM_OPS
} bench_op;
extern const char *const bench_op_names[BENCH_NUM_OPS];

/* Microseconds that the memory traffic of an operation on float32 takes when threads of one process
 * do it, one per rank, on the same cores, without any exchange but two meetings: the limit that a
 * shared-memory implementation can reach.  NaN where no such limit makes sense. */
double bench_limit_us(bench_op op, int64_t bytes, int ranks);

#endif
