/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of tessera bench coll. */
#ifndef TS_TOOLS_BENCH_COLL_H
#define TS_TOOLS_BENCH_COLL_H

#include <tessera/collectives.h>

#include "bench/bench.h"
#include "options.h"

enum { COLL_MAX_SIZES = 64, COLL_MAX_OPS = 16, COLL_MAX_RANKS = 1024, COLL_PARTS = 16 };

/* ---- what to measure (coll_plan.c) ----------------------------------------------------------- */

typedef struct coll_values {
    const char *op, *bytes, *memory, *dtype, *backend, *mpi, *svg, *compare, *output, *hosts_class;
    int64_t ranks, hosts, iterations, rounds;
    double seconds;
    bool async, json, no_limit, tune;
} coll_values;

extern const ts_opt coll_options[];

typedef struct coll_op coll_op;

typedef struct coll_plan {
    const coll_values *v;
    const coll_op *op[COLL_MAX_OPS];
    int64_t size[COLL_MAX_SIZES];
    int ops, sizes;
    ts_dtype dtype;
    ts_memory memory;
    bool fake; /* the backend moves nothing: one process stands for all, data is not checked */
} coll_plan;

/* Reads the options; the exit status. */
int coll_plan_make(coll_plan *plan, const coll_values *v);
/* --bytes, or its default. */
const char *coll_sizes(const coll_plan *plan);

/* ---- operations (coll_ops.c) ----------------------------------------------------------------- */

/* One operation at one size: the tensors on this rank.  Rooted operations take the ranks in turn as
 * root, so that no rank can run ahead of the others. */
typedef struct coll_case {
    const coll_plan *plan;
    const coll_op *op;
    int64_t bytes, count, piece; /* elements: whole, per rank */
    int rank, ranks;
    ts_tensor *in, *out; /* the same one for operations in place */
    ts_tensor **in_parts, **out_parts;
} coll_case;

/* How many elements: of the whole; of one rank's piece; of as many pieces as there are ranks. */
typedef enum coll_extent { COLL_WHOLE, COLL_PIECE, COLL_PIECES, COLL_IN_PLACE } coll_extent;

struct coll_op {
    const char *name;
    bench_limit limit; /* what its streaming limit moves */
    coll_extent in, out;
    bool rooted, fills_at_root, result_at_root;
    bool pair;    /* the first and the last rank only */
    bool no_data; /* one line, whatever the sizes */
    double share; /* of a call's time that counts */
    /* Element i of the result on this rank. */
    double (*expected)(const coll_case *c, int root, int64_t i);
    ts_status (*issue)(const coll_case *c, int root, ts_work **work);
    /* Bytes on each link of a ring, over bytes; NULL: 1. */
    double (*bus)(int ranks);
};

extern const coll_op coll_ops[];
extern const int coll_num_ops;

/* Makes the tensors, in the scope of the caller. */
ts_status coll_case_make(coll_case *c, const coll_plan *plan, const coll_op *op, int64_t bytes);
void coll_case_free(coll_case *c);
/* Runs call number i (rooted ones by rank i % ranks) and waits for it. */
ts_status coll_case_call(const coll_case *c, int64_t i);
/* Fills the tensors anew, runs call number i and looks at every element. */
ts_status coll_case_check(const coll_case *c, int64_t i);

/* ---- measuring (coll_measure.c) -------------------------------------------------------------- */

typedef struct coll_result {
    const coll_case *c;
    bench_stats us;
    int samples, calls; /* calls in a sample */
    double limit_us;    /* NaN: there is none */
} coll_result;

/* Collective. */
ts_status coll_measure(coll_result *result, const coll_case *c);

/* The starting process measures the limits before the ranks run, so that nothing disturbs either,
 * and leaves them in the environment. */
void coll_limits_leave(const coll_plan *plan, int ranks);

/* ---- printing (coll_print.c, coll_chart.c) --------------------------------------------------- */

void coll_print_head(const coll_plan *plan);
void coll_print(const coll_result *result);

/* A chart of time against bytes for each operation, with its limit and the curves of other runs. */
typedef struct coll_chart coll_chart;
ts_status coll_chart_new(coll_chart **out, const coll_plan *plan, int ranks);
ts_status coll_chart_add(coll_chart *chart, const coll_result *result);
ts_status coll_chart_write(coll_chart *chart, const char *path);
void coll_chart_free(coll_chart *chart);

/* What a line that --json printed says; NaN: nothing. */
double coll_line_number(const char *line, const char *key);

/* ---- tuning (coll_tune.c) -------------------------------------------------------------------- */

/* Measures all algorithms and writes the table; the exit status. */
int coll_tune(const coll_plan *plan);

#endif
