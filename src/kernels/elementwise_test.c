/* SPDX-License-Identifier: Apache-2.0 */
/* Every loop of every instruction set against the plain ones, and those against double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "test.h"

enum { N = 203 };

static void fill(void *x, ts_dtype dtype, int salt)
{
    for (int i = 0; i < N; i++) {
        double v = fmod((i + salt) * 0.618034, 1.0) * 8 - 3;
        if (dtype == TS_FLOAT32) ((float *)x)[i] = (float)v;
        if (dtype == TS_FLOAT64) ((double *)x)[i] = v;
        if (dtype == TS_INT32) ((int32_t *)x)[i] = (int32_t)(v * 1e9);
        if (dtype == TS_INT64) ((int64_t *)x)[i] = (int64_t)(v * 1e18);
    }
}

/* Float results may differ by a few units in the last place, whole numbers not at all. */
static bool close_to(const void *a, const void *b, ts_dtype dtype, int i)
{
    if (dtype == TS_INT32) return ((const int32_t *)a)[i] == ((const int32_t *)b)[i];
    if (dtype == TS_INT64) return ((const int64_t *)a)[i] == ((const int64_t *)b)[i];
    bool wide = dtype == TS_FLOAT64;
    double x = wide ? ((const double *)a)[i] : (double)((const float *)a)[i];
    double y = wide ? ((const double *)b)[i] : (double)((const float *)b)[i];
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    return x == y || fabs(x - y) <= (wide ? 2e-15 : 5e-7) * (fabs(y) + 1);
}

static int64_t reach(const int64_t *step, int k, int64_t n) { return (n - 1) * step[k] + 1; }

static void compare_loop(ts_test *test, ts_dtype dtype, int isa, int id)
{
    static const int64_t steps[][4] = {{1, 1, 1, 1}, {1, 0, 1, 1}, {1, 1, 0, 0}, {2, 1, 2, 1},
                                       {1, 2, 1, 2}, {2, 1, 0, 1}, {1, 1, 1, 0}};
    static const double p[] = {0.5, 2.5};
    _Alignas(64) static char in[3][N * 8], got[N * 8], want[N * 8];
    ts_loop plain = ts_elementwise_kernels_of(dtype, TS_ISA_REF)->loop[id];
    ts_loop fast = ts_elementwise_kernels_of(dtype, (ts_isa)isa)->loop[id];
    TS_EXPECT(!plain == !fast);
    for (int k = 0; k < 3; k++) fill(in[k], dtype, id + 7 * k);
    for (size_t k = 0; plain && k < sizeof steps / sizeof *steps; k++) {
        int64_t n = N / 2 - (int64_t)k;
        memset(want, 0, sizeof want);
        memset(got, 0, sizeof got);
        plain((char *[]){want, in[0], in[1], in[2]}, steps[k], n, p);
        fast((char *[]){got, in[0], in[1], in[2]}, steps[k], n, p);
        for (int i = 0; i < N; i++)
            if (!close_to(got, want, dtype, i))
                TS_FAIL_TEST("loop %d of %s, isa %d, steps %d: element %d of %d differs", id,
                             ts_dtype_name(dtype), isa, (int)k, i, (int)reach(steps[k], 0, n));
    }
}

TS_TEST(elementwise_loops_agree)
{
    static const ts_dtype dtypes[] = {TS_FLOAT32, TS_FLOAT64, TS_INT32, TS_INT64};
    for (int isa = TS_ISA_AVX2; isa <= (int)ts_isa_best(); isa++)
        for (int d = 0; d < 4; d++)
            for (int id = 0; id < TS_NUM_LOOPS; id++) compare_loop(test, dtypes[d], isa, id);
}

/* ---- accuracy of the functions that are computed with vectors -------------------------------- */

static void run_line(ts_isa isa, ts_loop_id id, float *y, const float *x, int n)
{
    static const int64_t steps[] = {1, 1};
    static const double p[] = {0, 0};
    ts_elementwise_kernels_of(TS_FLOAT32, isa)
        ->loop[id]((char *[]){(char *)y, (char *)(uintptr_t)x}, steps, n, p);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double silu(double x) { return isinf(x) ? (x > 0 ? x : -NAN) : x * sigmoid(x); }

/* Where points lie: from..to evenly, or by size, and around 0 or 1. */
static const struct {
    ts_loop_id id;
    double (*exact)(double x);
    double from, to;
    bool by_size;
    double most; /* units in the last place */
} functions[] = {
    {TS_LOOP_EXP, exp, -87, 88.5, false, 2},     {TS_LOOP_LOG, log, 1e-30, 1e30, true, 2},
    {TS_LOOP_TANH, tanh, -12, 12, false, 2},     {TS_LOOP_SIGMOID, sigmoid, -80, 30, false, 3},
    {TS_LOOP_SILU, silu, -80, 30, false, 3},     {TS_LOOP_SIN, sin, -30000, 30000, false, 2},
    {TS_LOOP_COS, cos, -30000, 30000, false, 2}, {TS_LOOP_SIN, sin, 1e-30, 1e30, true, 2},
    {TS_LOOP_COS, cos, 1e-30, 1e30, true, 2}};
enum { NUM_FUNCTIONS = sizeof functions / sizeof *functions };

/* Distance in units in the last place of the float nearest to want. */
static double ulps(float got, double want)
{
    float nearest = (float)want;
    if (isnan(nearest)) return isnan(got) ? 0 : 1e9;
    if (isinf(nearest) || isinf(got)) return nearest == got ? 0 : 1e9;
    double unit = fabs((double)nextafterf(nearest, INFINITY) - (double)nearest);
    return fabs((double)got - want) / unit;
}

TS_TEST(functions_are_accurate)
{
    enum { POINTS = 4000 };
    static float x[2 * POINTS], y[2 * POINTS];
    for (int isa = TS_ISA_REF; isa <= (int)ts_isa_best(); isa++)
        for (int f = 0; f < NUM_FUNCTIONS; f++) {
            double from = functions[f].from, to = functions[f].to;
            bool by_size = functions[f].by_size;
            for (int i = 0; i < POINTS; i++) {
                double t = (double)i / POINTS;
                x[i] = (float)(by_size ? exp(log(from) + t * (log(to) - log(from)))
                                       : from + t * (to - from));
                x[POINTS + i] = (float)(by_size ? 0.5 + 1.5 * t : (t - 0.5) * 2);
            }
            run_line((ts_isa)isa, functions[f].id, y, x, 2 * POINTS);
            double worst = 0, at = 0;
            for (int i = 0; i < 2 * POINTS; i++) {
                double u = ulps(y[i], functions[f].exact((double)x[i]));
                if (u > worst) worst = u, at = (double)x[i];
            }
            if (worst > functions[f].most)
                TS_FAIL_TEST("isa %d function %d: %g ulp at %.9g", isa, f, worst, at);
        }
}

TS_TEST(functions_at_the_ends_of_the_range)
{
    static const float x[] = {0, -0.0f, INFINITY, -INFINITY, NAN, -1, 1e-40f, 200, -200};
    enum { COUNT = sizeof x / sizeof *x };
    float y[COUNT];
    for (int isa = TS_ISA_REF; isa <= (int)ts_isa_best(); isa++)
        for (int f = 0; f < NUM_FUNCTIONS; f++) {
            run_line((ts_isa)isa, functions[f].id, y, x, COUNT);
            for (int i = 0; i < COUNT; i++)
                if (ulps(y[i], functions[f].exact((double)x[i])) > 3)
                    TS_FAIL_TEST("isa %d function %d of %g is %g", isa, f, (double)x[i],
                                 (double)y[i]);
        }
}

/* ---- reductions ------------------------------------------------------------------------------ */

TS_TEST(sums_of_ten_million_are_accurate)
{
    enum { MANY = 10000000 };
    float *x = malloc(MANY * sizeof *x);
    TS_EXPECT(x);
    double exact_sum = 0, size = 0;
    for (int i = 0; i < MANY; i++) {
        x[i] = (float)fmod(i * 0.618034, 1.0) + 0.1f;
        exact_sum += (double)x[i];
        size += fabs((double)x[i]);
    }
    ts_tensor *t = ts_wrap(x, TS_SHAPE(MANY), NULL, NULL, NULL);
    double sum, mean, columns;
    TS_PASS(ts_item(ts_sum(t), &sum));
    TS_PASS(ts_item(ts_mean(t), &mean));
    TS_PASS(ts_item(ts_sum(ts_sum_dim(ts_view(t, TS_SHAPE(10000, -1)), 0, false)), &columns));
    TS_EXPECT(fabs(sum - exact_sum) / size < 1e-7);
    TS_EXPECT(fabs(mean * MANY - exact_sum) / size < 1e-7);
    TS_EXPECT(fabs(columns - exact_sum) / size < 1e-7);
    free(x);
}

TS_TEST(reductions_agree_and_keep_nan)
{
    float x[N];
    for (int isa = TS_ISA_REF; isa <= (int)ts_isa_best(); isa++) {
        const ts_reduce_kernels *k = ts_reduce_kernels_of(TS_FLOAT32, (ts_isa)isa);
        const ts_reduce_kernels *ref = ts_reduce_kernels_of(TS_FLOAT32, TS_ISA_REF);
        for (int n = 1; n < N; n += 13) {
            fill(x, TS_FLOAT32, n);
            TS_EXPECT_NEAR(k->sum(x, n), ref->sum(x, n), 1e-12);
            TS_EXPECT(k->max(x, n) == ref->max(x, n) && k->min(x, n) == ref->min(x, n));
            x[n / 2] = NAN;
            TS_EXPECT(isnan(k->max(x, n)) && isnan(k->min(x, n)) && isnan(k->sum(x, n)));
        }
    }
}
