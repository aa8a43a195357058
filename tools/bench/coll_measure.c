/* SPDX-License-Identifier: Apache-2.0 */
/* Times of one operation at one size.
 *
 * A sample is a run of calls back to back, after a barrier: as many as take about SAMPLE_NS, one if
 * a call takes longer.  A rank's time is that of the run over the calls in it; the sample's is that
 * of the slowest rank. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tessera/tessera.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "bench/coll.h"

enum { SAMPLE_NS = 50000, WARM_CALLS = 5, MAX_CALLS = 500, MIN_SAMPLES = 5, MAX_SAMPLES = 2000 };

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

/* Sums in place would grow without bound. */
static ts_status calm(const coll_case *c)
{
    TS_TRY(ts_tensor_status(ts_zero_(c->in)));
    return ts_tensor_status(ts_zero_(c->out));
}

static double between(double low, double value, double high)
{
    return fmin(fmax(low, value), high);
}

/* Nanoseconds per call of a run of calls that begins with number first. */
static ts_status one_sample(double *ns, const coll_case *c, int64_t first, int calls)
{
    TS_TRY(ts_barrier(NULL, NULL));
    int64_t begin = ts_now_ns();
    for (int i = 0; i < calls; i++) TS_TRY(coll_case_call(c, first + i));
    *ns = (double)(ts_now_ns() - begin) / calls;
    return TS_OK;
}

/* Every rank comes to the same numbers. */
static ts_status choose(coll_result *result, const coll_case *c)
{
    const coll_values *v = c->plan->v;
    double each;
    TS_TRY(one_sample(&each, c, 0, WARM_CALLS));
    TS_TRY(max_over_ranks(&each, 1));
    TS_TRY(one_sample(&each, c, 0, each < SAMPLE_NS / 10.0 ? 10 * WARM_CALLS : WARM_CALLS));
    TS_TRY(max_over_ranks(&each, 1));
    each = fmax(each, 1);
    result->calls = (int)between(1, ceil(SAMPLE_NS / each), MAX_CALLS);
    double samples = v->seconds * 1e9 / (each * result->calls);
    result->samples =
        (int)(v->iterations ? (double)v->iterations : between(MIN_SAMPLES, samples, MAX_SAMPLES));
    return TS_OK;
}

static ts_status take_samples(double *us, const coll_result *result)
{
    const coll_case *c = result->c;
    double share = c->op->share > 0 ? c->op->share : 1;
    for (int i = 0; i < result->samples; i++) {
        TS_TRY(one_sample(&us[i], c, (int64_t)i * result->calls, result->calls));
        us[i] *= share * 1e-3;
    }
    return max_over_ranks(us, result->samples);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void limit_name(char *name, size_t size, const coll_op *op, int64_t bytes)
{
    snprintf(name, size, "TESSERA_BENCH_%s_%lld", op->name, (long long)bytes);
}

static double limit_of(const coll_case *c)
{
    char name[64];
    limit_name(name, sizeof name, c->op, c->bytes);
    const char *text = getenv(name);
    return text ? atof(text) : NAN;
}

void coll_limits_leave(const coll_plan *plan, int ranks)
{
    char name[64], text[32];
    if (plan->v->no_limit || plan->v->hosts > 1 || plan->fake || plan->dtype != TS_FLOAT32) return;
    for (int op = 0; op < plan->ops; op++)
        for (int i = 0; i < plan->sizes; i++) {
            double us = bench_limit_us(plan->op[op]->limit, plan->size[i], ranks, plan->memory,
                                       plan->v->seconds / 2);
            if (!isfinite(us)) continue;
            limit_name(name, sizeof name, plan->op[op], plan->size[i]);
            snprintf(text, sizeof text, "%.3f", us);
            setenv(name, text, 1);
        }
}

ts_status coll_measure(coll_result *result, const coll_case *c)
{
    *result = (coll_result){.c = c, .limit_us = limit_of(c)};
    TS_TRY(coll_case_check(c, 0));
    TS_TRY(calm(c));
    TS_TRY(choose(result, c));
    double *us = ts_calloc((size_t)result->samples, sizeof *us);
    if (!us) return ts_fail_memory((size_t)result->samples * sizeof *us, "bench coll");
    ts_status status = take_samples(us, result);
    if (status == TS_OK) status = coll_case_check(c, c->ranks - 1);
    if (status == TS_OK) result->us = bench_stats_of(us, result->samples);
    free(us);
    return status;
}
