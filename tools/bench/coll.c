/* SPDX-License-Identifier: Apache-2.0 */
/* tessera bench coll: time and bandwidth of collectives; the data is always checked. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/settings.h"
#include "bench/bench.h"
#include "commands.h"
#include "json.h"
#include "launch/launch.h"

const char *const bench_op_names[BENCH_NUM_OPS] = {"all_reduce",     "broadcast", "all_gather",
                                                   "reduce_scatter", "barrier",   "send_recv"};

typedef struct coll_values {
    const char *op, *bytes, *memory, *dtype, *backend;
    int64_t ranks, hosts, iterations;
    double seconds;
    bool async, json;
} coll_values;

#define AT(field) offsetof(coll_values, field)
static const ts_opt coll_options[] = {
    {"op", 0, TS_OPT_TEXT, AT(op), "OP,...", "all_reduce",
     "all_reduce, broadcast, all_gather, reduce_scatter, barrier, send_recv, or all.", 0, 0, NULL},
    {"bytes", 0, TS_OPT_TEXT, AT(bytes), "SIZE,...", "4,1K,64K,1M,16M,64M",
     "Sizes of the whole data; all_gather and reduce_scatter cut it into one piece per rank.", 0, 0,
     NULL},
    {"ranks", 'n', TS_OPT_INT, AT(ranks), "N", NULL, "Ranks to start. [the launcher's, else 2]", 1,
     1024, NULL},
    {"hosts", 0, TS_OPT_INT, AT(hosts), "H", "1",
     "Split the ranks into pretend hosts that talk TCP on loopback.", 1, 1024, NULL},
    {"backend", 0, TS_OPT_TEXT, AT(backend), "NAME", "native", "Backend.", 0, 0, NULL},
    {"memory", 0, TS_OPT_TEXT, AT(memory), "KIND", "shared",
     "Where the data lies: the heap that peers can read, or the plain one.", 0, 0, "shared|heap"},
    {"dtype", 0, TS_OPT_TEXT, AT(dtype), "NAME", "f32", "Type of the elements.", 0, 0,
     "f32|f64|f16|bf16|i32|i64|u8"},
    {"iterations", 0, TS_OPT_INT, AT(iterations), "N", "0",
     "Timed calls per line; 0: as many as fit --seconds, 20 to 2000.", 0, 1e9, NULL},
    {"seconds", 0, TS_OPT_REAL, AT(seconds), "X", "0.5", "Time per line.", 0.001, 3600, NULL},
    {"async", 0, TS_OPT_FLAG, AT(async), NULL, NULL, "Start each call, then wait for its work.", 0,
     0, NULL},
    {"json", 0, TS_OPT_FLAG, AT(json), NULL, NULL, "One JSON object per line.", 0, 0, NULL},
    {NULL, 0, TS_OPT_FLAG, 0, NULL, NULL, NULL, 0, 0, NULL}};

static const struct {
    const char *name;
    ts_dtype dtype;
} dtypes[] = {{"f32", TS_FLOAT32}, {"f64", TS_FLOAT64}, {"f16", TS_FLOAT16}, {"bf16", TS_BFLOAT16},
              {"i32", TS_INT32},   {"i64", TS_INT64},   {"u8", TS_UINT8}};

enum { MAX_SIZES = 64 };

typedef struct coll_plan {
    const coll_values *v;
    bool op[BENCH_NUM_OPS];
    int64_t size[MAX_SIZES];
    int sizes;
    ts_dtype dtype;
} coll_plan;

/* One line of the result: the operation and its tensors on this rank. */
typedef struct coll_case {
    const coll_plan *plan;
    bench_op op;
    int64_t count, piece; /* elements: whole, per rank */
    int rank, ranks;
    ts_tensor *in, *out;
} coll_case;

/* ---- the command line ------------------------------------------------------------------------ */

static int plan_ops(coll_plan *plan)
{
    const char *text = plan->v->op;
    while (*text) {
        size_t length = strcspn(text, ",");
        bool found = length == 3 && strncmp(text, "all", 3) == 0;
        for (int op = 0; op < BENCH_NUM_OPS; op++) {
            bool same = strlen(bench_op_names[op]) == length &&
                        strncmp(bench_op_names[op], text, length) == 0;
            if (same || (length == 3 && strncmp(text, "all", 3) == 0)) plan->op[op] = found = true;
        }
        if (!found)
            return ts_usage_error(&ts_command_bench_coll, "--op: there is no '%.*s'", (int)length,
                                  text);
        text += length + (text[length] == ',');
    }
    return TS_EXIT_OK;
}

static int plan_sizes(coll_plan *plan)
{
    const char *text = plan->v->bytes;
    while (*text) {
        char one[32];
        size_t length = strcspn(text, ",");
        snprintf(one, sizeof one, "%.*s", (int)length, text);
        if (plan->sizes == MAX_SIZES || ts_parse_size(&plan->size[plan->sizes++], one) != TS_OK)
            return ts_usage_error(&ts_command_bench_coll, "--bytes: %s",
                                  plan->sizes == MAX_SIZES ? "too many" : ts_error_last());
        text += length + (text[length] == ',');
    }
    return TS_EXIT_OK;
}

static int make_plan(coll_plan *plan, const coll_values *v)
{
    *plan = (coll_plan){.v = v};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, v->dtype) == 0) plan->dtype = dtypes[i].dtype;
    if (strcmp(v->backend, "native") != 0 && strcmp(v->backend, "gloo") != 0)
        return ts_usage_error(&ts_command_bench_coll,
                              "--backend %s is not offered yet by this version; use native",
                              v->backend);
    int status = plan_ops(plan);
    return status == TS_EXIT_OK ? plan_sizes(plan) : status;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Element i of a rank: small whole numbers, whose sums every dtype holds for a few ranks. */
static double pattern(int64_t i, int rank) { return (double)(i % 3 + rank % 2); }

static double pattern_sum(int64_t i, int ranks)
{
    double sum = 0;
    for (int r = 0; r < ranks; r++) sum += pattern(i, r);
    return sum;
}

static ts_tensor *make_tensor(const coll_case *c, int64_t n, int64_t first, bool filled)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_FLOAT64;
    double *values = ts_calloc((size_t)(n ? n : 1), sizeof *values);
    for (int64_t i = 0; values && filled && i < n; i++) values[i] = pattern(first + i, c->rank);
    ts_tensor *wide = values ? ts_from_data(values, TS_SHAPE(n), &opt) : NULL;
    free(values);
    opt.dtype = c->plan->dtype;
    opt.memory = strcmp(c->plan->v->memory, "shared") == 0 ? TS_MEMORY_SHARED : TS_MEMORY_HEAP;
    opt.category = TS_CATEGORY_COMMUNICATION;
    ts_tensor *t = ts_empty(TS_SHAPE(n), &opt);
    return wide ? ts_copy_(t, wide) : t;
}

static void make_tensors(coll_case *c)
{
    bool root = c->rank == 0;
    int64_t in = c->count, out = in;
    if (c->op == BENCH_ALL_GATHER) in = c->piece, out = c->piece * c->ranks;
    if (c->op == BENCH_REDUCE_SCATTER) in = c->piece * c->ranks, out = c->piece;
    bool filled = c->op == BENCH_BROADCAST || c->op == BENCH_SEND_RECV ? root : true;
    c->in = make_tensor(c, in, c->op == BENCH_ALL_GATHER ? c->rank * c->piece : 0, filled);
    c->out = c->op == BENCH_ALL_GATHER || c->op == BENCH_REDUCE_SCATTER
                 ? make_tensor(c, out, 0, false)
                 : c->in;
}

static double expected(const coll_case *c, int64_t i)
{
    switch (c->op) {
    case BENCH_ALL_REDUCE: return pattern_sum(i, c->ranks);
    case BENCH_REDUCE_SCATTER: return pattern_sum(c->rank * c->piece + i, c->ranks);
    case BENCH_ALL_GATHER: return pattern(i, (int)(i / c->piece));
    default: return pattern(i, 0);
    }
}

/* The operation has run once on fresh tensors: is the result right? */
static ts_status check_data(const coll_case *c)
{
    if (c->op == BENCH_BARRIER || (c->op == BENCH_SEND_RECV && c->rank > 1)) return TS_OK;
    ts_tensor *wide = ts_to_dtype(c->out, TS_FLOAT64);
    int64_t n = ts_numel(wide);
    double *values = ts_calloc((size_t)(n ? n : 1), sizeof *values);
    if (!values) return ts_fail(TS_ENOMEM, "bench coll: out of memory for the check");
    ts_status status = ts_copy_out(wide, values, (size_t)n * sizeof *values);
    for (int64_t i = 0; i < n && status == TS_OK; i++)
        if (!(fabs(values[i] - expected(c, i)) <= 0.01 * fabs(expected(c, i))))
            status = ts_fail(
                TS_EUSER, "bench coll: %s of %lld elements: element %lld is %g, expected %g",
                bench_op_names[c->op], (long long)n, (long long)i, values[i], expected(c, i));
    free(values);
    return status;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static ts_status send_recv(const coll_case *c, ts_work **work)
{
    if (c->rank == 0) return work ? ts_isend(NULL, c->in, 1, 0, work) : ts_send(NULL, c->in, 1, 0);
    if (c->rank == 1)
        return work ? ts_irecv(NULL, c->in, 0, 0, work) : ts_recv(NULL, c->in, 0, 0, NULL);
    return TS_OK;
}

static ts_status issue(const coll_case *c, ts_work **work)
{
    switch (c->op) {
    case BENCH_ALL_REDUCE: return ts_all_reduce(NULL, c->in, TS_SUM, work);
    case BENCH_BROADCAST: return ts_broadcast(NULL, c->in, 0, work);
    case BENCH_ALL_GATHER: return ts_all_gather_into_tensor(NULL, c->out, c->in, work);
    case BENCH_REDUCE_SCATTER: return ts_reduce_scatter_tensor(NULL, c->out, c->in, TS_SUM, work);
    case BENCH_BARRIER: return ts_barrier(NULL, work);
    default: return send_recv(c, work);
    }
}

static ts_status call(const coll_case *c)
{
    ts_work *work = NULL;
    if (!c->plan->v->async) return issue(c, NULL);
    ts_status status = issue(c, &work);
    if (status == TS_OK && work) status = ts_work_wait(work, 0);
    ts_work_free(work);
    return status;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static ts_status max_over_ranks(double *values, int n)
{
    ts_scope scope = ts_scope_begin();
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_FLOAT64;
    ts_tensor *t = ts_from_data(values, TS_SHAPE(n), &opt);
    ts_status status = ts_all_reduce(NULL, t, TS_MAX, NULL);
    if (status == TS_OK) status = ts_copy_out(t, values, (size_t)n * sizeof *values);
    ts_scope_end(scope);
    return status;
}

/* Values would grow without bound when an all-reduce in place is repeated. */
static ts_status calm(const coll_case *c)
{
    return c->op == BENCH_ALL_REDUCE ? ts_tensor_status(ts_zero_(c->in)) : TS_OK;
}

static ts_status choose_iterations(int *n, const coll_case *c)
{
    int64_t begin = ts_now_ns();
    for (int i = 0; i < 5; i++) TS_TRY(call(c));
    double each = (double)(ts_now_ns() - begin) / 5 * 1e-9;
    double wanted = c->plan->v->iterations > 0 ? (double)c->plan->v->iterations
                                               : c->plan->v->seconds / (each > 0 ? each : 1e-9);
    if (c->plan->v->iterations == 0) wanted = wanted < 20 ? 20 : wanted > 2000 ? 2000 : wanted;
    TS_TRY(max_over_ranks(&wanted, 1));
    *n = (int)wanted;
    return TS_OK;
}

static ts_status measure(double **us, int *n, const coll_case *c)
{
    TS_TRY(calm(c));
    TS_TRY(choose_iterations(n, c));
    *us = ts_calloc((size_t)*n, sizeof **us);
    if (!*us) return ts_fail(TS_ENOMEM, "bench coll: out of memory for %d times", *n);
    for (int i = 0; i < *n; i++) {
        TS_TRY(ts_barrier(NULL, NULL));
        int64_t begin = ts_now_ns();
        TS_TRY(call(c));
        (*us)[i] = (double)(ts_now_ns() - begin) * 1e-3;
    }
    return max_over_ranks(*us, *n);
}

/* The limit that the starting process measured and left in the environment. */
static double limit_of(const coll_case *c, int64_t bytes)
{
    char name[64];
    snprintf(name, sizeof name, "TESSERA_BENCH_%s_%lld", bench_op_names[c->op], (long long)bytes);
    const char *text = getenv(name);
    return text ? atof(text) : NAN;
}

static double bus_factor(const coll_case *c)
{
    double n = c->ranks;
    if (c->op == BENCH_ALL_REDUCE) return 2 * (n - 1) / n;
    return c->op == BENCH_ALL_GATHER || c->op == BENCH_REDUCE_SCATTER ? (n - 1) / n : 1;
}

static void print_case(const coll_case *c, int64_t bytes, bench_stats s)
{
    const coll_values *v = c->plan->v;
    double speed = bytes ? (double)bytes / s.median * 1e-3 : 0, limit = limit_of(c, bytes);
    if (v->json) {
        ts_json json = ts_json_begin(stdout);
        ts_json_text(&json, "op", bench_op_names[c->op]);
        ts_json_int(&json, "bytes", bytes);
        ts_json_int(&json, "ranks", c->ranks);
        ts_json_int(&json, "hosts", v->hosts);
        ts_json_text(&json, "backend", ts_group_backend(NULL));
        ts_json_text(&json, "memory", v->memory);
        ts_json_text(&json, "dtype", v->dtype);
        ts_json_bool(&json, "async", v->async);
        ts_json_real(&json, "us_median", s.median);
        ts_json_real(&json, "us_min", s.min);
        ts_json_real(&json, "us_p99", s.p99);
        ts_json_real(&json, "GBps", speed);
        ts_json_real(&json, "busGBps", speed * bus_factor(c));
        ts_json_text(&json, "check", "ok");
        ts_json_real(&json, "limit_us", limit);
        ts_json_real(&json, "of_limit", limit / s.median);
        ts_json_end(&json);
        return;
    }
    printf("%-15s %10lld  %11.2f %11.2f %11.2f  %8.3f %8.3f", bench_op_names[c->op],
           (long long)bytes, s.median, s.min, s.p99, speed, speed * bus_factor(c));
    if (isfinite(limit)) printf("  %3.0f%% of %.1f us", 100 * limit / s.median, limit);
    printf("\n");
    fflush(stdout);
}

static ts_status run_case(const coll_plan *plan, bench_op op, int64_t bytes)
{
    coll_case c = {.plan = plan, .op = op, .rank = ts_rank(), .ranks = ts_world_size()};
    double *us = NULL;
    int n = 0;
    c.count = bytes / (int64_t)ts_dtype_size(plan->dtype);
    if (c.count < 1) c.count = 1;
    c.piece = c.count / c.ranks > 0 ? c.count / c.ranks : 1;
    make_tensors(&c);
    TS_TRY(call(&c));
    TS_TRY(check_data(&c));
    ts_status status = measure(&us, &n, &c);
    if (status == TS_OK && c.rank == 0) print_case(&c, bytes, bench_stats_of(us, n));
    free(us);
    return status;
}

static ts_status run_all(const coll_plan *plan)
{
    TS_TRY(ts_init_process_group(NULL));
    if (ts_rank() == 0 && !plan->v->json)
        printf("%-15s %10s  %11s %11s %11s  %8s %8s\n", "operation", "bytes", "median us", "min",
               "p99", "GB/s", "bus");
    for (int op = 0; op < BENCH_NUM_OPS; op++) {
        if (!plan->op[op]) continue;
        if (op == BENCH_SEND_RECV && ts_world_size() < 2) continue;
        int sizes = op == BENCH_BARRIER ? 1 : plan->sizes;
        for (int i = 0; i < sizes; i++) {
            ts_scope scope = ts_scope_begin();
            ts_status status =
                run_case(plan, (bench_op)op, op == BENCH_BARRIER ? 0 : plan->size[i]);
            ts_status left = ts_scope_end(scope);
            TS_TRY(status);
            TS_TRY(left);
        }
    }
    return ts_destroy_process_group(NULL);
}

/* ---- starting -------------------------------------------------------------------------------- */

/* Measures the limits before the ranks run, so that nothing disturbs either. */
static void leave_limits(const coll_plan *plan, int ranks)
{
    char name[64], text[32];
    for (int op = 0; op < BENCH_NUM_OPS; op++)
        for (int i = 0; plan->op[op] && i < plan->sizes; i++) {
            double us = bench_limit_us((bench_op)op, plan->size[i], ranks);
            if (!isfinite(us)) continue;
            snprintf(name, sizeof name, "TESSERA_BENCH_%s_%lld", bench_op_names[op],
                     (long long)plan->size[i]);
            snprintf(text, sizeof text, "%.3f", us);
            setenv(name, text, 1);
        }
}

/* A rank of the pretend host that its number falls into. */
static void set_pretend_host(const coll_values *v)
{
    char host[32];
    if (v->hosts < 2) return;
    snprintf(host, sizeof host, "bench-host-%lld",
             atoll(getenv("RANK")) * v->hosts / atoll(getenv("WORLD_SIZE")));
    setenv("TESSERA_HOST_ID", host, 1);
}

static int coll_run(void *values, int argc, char **argv)
{
    const coll_values *v = values;
    coll_plan plan;
    (void)argc, (void)argv;
    int status = make_plan(&plan, v);
    if (status != TS_EXIT_OK) return status;
    if (!ts_launched()) {
        int ranks = v->ranks > 0 ? (int)v->ranks : 2;
        if (v->hosts < 2 && plan.dtype == TS_FLOAT32) leave_limits(&plan, ranks);
        return ts_launch_self("tessera bench coll", ranks);
    }
    set_pretend_host(v);
    if (run_all(&plan) == TS_OK) return TS_EXIT_OK;
    fprintf(stderr, "tessera bench coll: rank %d: %s\n", ts_rank(), ts_error_last());
    return TS_EXIT_FAILURE;
}

const ts_command ts_command_bench_coll = {
    .name = "bench coll",
    .summary = "Measure collectives; the data is always checked.",
    .about = "A time is that of the slowest rank. GB/s is bytes over the median time; bus is what "
             "the links would carry in a ring. The limit is the time of the same memory traffic by "
             "threads of one process (float32, one host).",
    .options = coll_options,
    .values_size = sizeof(coll_values),
    .run = coll_run,
};
