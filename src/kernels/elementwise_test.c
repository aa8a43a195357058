/* SPDX-License-Identifier: Apache-2.0 */
/* Every loop of every instruction set against the plain ones, and those against double. */
#include <math.h>
#include <stdlib.h>

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
    return x == y || fabs(x - y) <= (wide ? 1e-15 : 5e-7) * fabs(y);
}

static void compare_unary(ts_test *test, ts_dtype dtype, int isa, int id)
{
    static const int step[][2] = {{1, 1}, {1, 2}, {2, 1}, {1, 0}};
    _Alignas(64) char a[2 * N * 8], got[2 * N * 8] = {0}, want[2 * N * 8] = {0};
    ts_unary_loop plain = ts_elementwise_kernels_of(dtype, TS_ISA_REF)->unary[id];
    ts_unary_loop fast = ts_elementwise_kernels_of(dtype, (ts_isa)isa)->unary[id];
    TS_EXPECT(!plain == !fast);
    fill(a, dtype, id);
    for (int k = 0; plain && k < 4; k++) {
        int n = N / 2 - k;
        plain(want, step[k][0], a, step[k][1], n, 2.5);
        fast(got, step[k][0], a, step[k][1], n, 2.5);
        for (int i = 0; i < n * step[k][0]; i++)
            if (!close_to(got, want, dtype, i))
                TS_FAIL_TEST("unary %d of %s, isa %d, steps %d: element %d differs", id,
                             ts_dtype_name(dtype), isa, k, i);
    }
}

static void compare_binary(ts_test *test, ts_dtype dtype, int isa, int id)
{
    static const int step[][3] = {{1, 1, 1}, {1, 0, 1}, {1, 1, 0}, {2, 1, 2}};
    _Alignas(64) char a[2 * N * 8], b[2 * N * 8], got[2 * N * 8] = {0}, want[2 * N * 8] = {0};
    ts_binary_loop plain = ts_elementwise_kernels_of(dtype, TS_ISA_REF)->binary[id];
    ts_binary_loop fast = ts_elementwise_kernels_of(dtype, (ts_isa)isa)->binary[id];
    TS_EXPECT(!plain == !fast);
    fill(a, dtype, id);
    fill(b, dtype, id + 7);
    for (int k = 0; plain && k < 4; k++) {
        int n = N / 2 - k;
        plain(want, step[k][0], a, step[k][1], b, step[k][2], n);
        fast(got, step[k][0], a, step[k][1], b, step[k][2], n);
        for (int i = 0; i < n * step[k][0]; i++)
            if (!close_to(got, want, dtype, i))
                TS_FAIL_TEST("binary %d of %s, isa %d, steps %d: element %d differs", id,
                             ts_dtype_name(dtype), isa, k, i);
    }
}

TS_TEST(elementwise_loops_agree)
{
    static const ts_dtype dtypes[] = {TS_FLOAT32, TS_FLOAT64, TS_INT32, TS_INT64};
    for (int isa = TS_ISA_AVX2; isa <= (int)ts_isa_best(); isa++)
        for (int d = 0; d < 4; d++) {
            for (int id = 0; id < TS_NUM_UNARY; id++) compare_unary(test, dtypes[d], isa, id);
            for (int id = 0; id < TS_NUM_BINARY; id++) compare_binary(test, dtypes[d], isa, id);
        }
}

/* ---- accuracy of the functions that are computed with vectors -------------------------------- */

static double exact(int id, double x)
{
    switch (id) {
    case TS_UNARY_EXP: return exp(x);
    case TS_UNARY_LOG: return log(x);
    case TS_UNARY_TANH: return tanh(x);
    default: return 1 / (1 + exp(-x));
    }
}

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
    static const int ids[] = {TS_UNARY_EXP, TS_UNARY_LOG, TS_UNARY_TANH, TS_UNARY_SIGMOID};
    static const double from[] = {-87, 1e-30, -12, -80}, to[] = {88.5, 1e30, 12, 30};
    enum { POINTS = 4000 };
    static float x[2 * POINTS], y[2 * POINTS];
    for (int isa = TS_ISA_REF; isa <= (int)ts_isa_best(); isa++)
        for (int f = 0; f < 4; f++) {
            for (int i = 0; i < POINTS; i++) {
                double t = (double)i / POINTS;
                x[i] = (float)(f == 1 ? exp(log(from[f]) + t * (log(to[f]) - log(from[f])))
                                      : from[f] + t * (to[f] - from[f]));
                x[POINTS + i] = (float)(f == 1 ? 0.5 + 1.5 * t : (t - 0.5) * 2);
            }
            ts_elementwise_kernels_of(TS_FLOAT32, (ts_isa)isa)
                ->unary[ids[f]](y, 1, x, 1, 2 * POINTS, 0);
            double worst = 0, at = 0;
            for (int i = 0; i < 2 * POINTS; i++) {
                double u = ulps(y[i], exact(ids[f], (double)x[i]));
                if (u > worst) worst = u, at = (double)x[i];
            }
            if (worst > (f == 3 ? 3 : 2))
                TS_FAIL_TEST("isa %d function %d: %g ulp at %.9g", isa, f, worst, at);
        }
}

TS_TEST(functions_at_the_ends_of_the_range)
{
    static const float x[] = {0, -0.0f, INFINITY, -INFINITY, NAN, -1, 1e-40f, 200, -200};
    enum { COUNT = sizeof x / sizeof *x };
    static const int ids[] = {TS_UNARY_EXP, TS_UNARY_LOG, TS_UNARY_TANH, TS_UNARY_SIGMOID};
    float y[COUNT];
    for (int isa = TS_ISA_REF; isa <= (int)ts_isa_best(); isa++)
        for (int f = 0; f < 4; f++) {
            ts_elementwise_kernels_of(TS_FLOAT32, (ts_isa)isa)->unary[ids[f]](y, 1, x, 1, COUNT, 0);
            for (int i = 0; i < COUNT; i++)
                if (ulps(y[i], exact(ids[f], (double)x[i])) > 3)
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
            TS_EXPECT_INT(k->argmax(x, n), ref->argmax(x, n));
            TS_EXPECT(x[k->argmax(x, n)] == (float)k->max(x, n));
            x[n / 2] = NAN;
            TS_EXPECT(isnan(k->max(x, n)) && isnan(k->min(x, n)) && isnan(k->sum(x, n)));
            TS_EXPECT_INT(k->argmax(x, n), n / 2);
        }
    }
}
