/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <stdlib.h>

#include "kernels/elementwise.h"
#include "kernels/nn.h"

/* Arrays in the table's dtype, read and written as double. */
typedef struct table {
    const ts_nn_kernels *k, *ref;
    bool f64;
    double tolerance;
    const char *name;
} table;

enum { NUM_TABLES = TS_NUM_ISAS * 2, MOST = 700 };

/* The i-th table; k is NULL if there is none. */
static table table_at(int i)
{
    ts_dtype dtype = (ts_dtype)(i % 2);
    table t = {.f64 = dtype == TS_FLOAT64, .tolerance = dtype == TS_FLOAT64 ? 4e-15 : 1e-6};
    t.k = ts_nn_kernels_of(dtype, (ts_isa)(i / 2));
    t.ref = ts_nn_kernels_of(TS_FLOAT64, TS_ISA_REF);
    t.name = ts_isa_name((ts_isa)(i / 2));
    return t;
}

static void put(const table *t, void *to, const double *from, int n)
{
    for (int i = 0; i < n; i++) {
        if (t->f64)
            ((double *)to)[i] = from[i];
        else
            ((float *)to)[i] = (float)from[i];
    }
}

static double get(const table *t, const void *from, int i)
{
    return t->f64 ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

/* Rounds to the dtype, so that the expected values start from the same numbers. */
static void fill(const table *t, double *to, int n, double size, int seed)
{
    for (int i = 0; i < n; i++) {
        to[i] = size * sin(1.3 * i + seed + 0.01 * i * i);
        if (!t->f64) to[i] = (double)(float)to[i];
    }
}

/* Largest |got - expected| / (1 + |expected|). */
static double worst(const table *t, const void *got, const double *expected, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++) {
        double e = fabs(get(t, got, i) - expected[i]) / (1 + fabs(expected[i]));
        most = e > most || isnan(e) ? e : most;
    }
    return most;
}

#define EXPECT_SMALL(value)                                                                        \
    do {                                                                                           \
        double v_ = (value);                                                                       \
        if (!(v_ <= t.tolerance))                                                                  \
            TS_FAIL_TEST("%s, float%d: %s is %g", t.name, t.f64 ? 64 : 32, #value, v_);            \
    } while (0)

static const int widths[] = {1, 3, 8, 16, 17, 32, 45, 100};
enum { NUM_WIDTHS = sizeof widths / sizeof *widths, ROWS = 5 };

TS_TEST(nn_kernel_softmax_follows_the_formula)
{
    double x[MOST], dy[MOST], y[MOST], e[MOST], bx[MOST], bd[MOST], by[MOST], bg[MOST];
    for (int i = 0; i < NUM_TABLES * NUM_WIDTHS; i++) {
        table t = table_at(i / NUM_WIDTHS);
        int n = widths[i % NUM_WIDTHS], count = ROWS * n;
        if (!t.k) continue;
        fill(&t, x, count, 9, i);
        fill(&t, dy, count, 1, i + 1);
        put(&t, bx, x, count);
        put(&t, bd, dy, count);
        t.ref->softmax(y, x, ROWS, n);
        t.k->softmax(by, bx, ROWS, n);
        EXPECT_SMALL(worst(&t, by, y, count));
        t.ref->softmax_grad(e, y, dy, ROWS, n);
        t.k->softmax_grad(bg, by, bd, ROWS, n);
        EXPECT_SMALL(worst(&t, bg, e, count));
        t.ref->log_softmax(y, x, ROWS, n);
        t.k->log_softmax(by, bx, ROWS, n);
        EXPECT_SMALL(worst(&t, by, y, count));
        t.ref->log_softmax_grad(e, y, dy, ROWS, n);
        t.k->log_softmax_grad(bg, by, bd, ROWS, n);
        EXPECT_SMALL(worst(&t, bg, e, count));
    }
}

TS_TEST(nn_kernel_softmax_ends_of_the_range)
{
    for (int i = 0; i < NUM_TABLES; i++) {
        table t = table_at(i);
        if (!t.k) continue;
        double x[5] = {-INFINITY, 1000, 999, -1e30, 1000}, bx[5], by[5], e = exp(-1.0);
        double expected[5] = {0, 1 / (2 + e), e / (2 + e), 0, 1 / (2 + e)};
        put(&t, bx, x, 5);
        t.k->softmax(by, bx, 1, 5);
        EXPECT_SMALL(worst(&t, by, expected, 5));
        x[2] = NAN;
        put(&t, bx, x, 5);
        t.k->softmax(by, bx, 1, 5);
        TS_EXPECT(isnan(get(&t, by, 1)));
    }
}

TS_TEST(nn_kernel_cross_entropy_parts)
{
    double x[100], bx[100], bd[100], e[100];
    for (int i = 0; i < NUM_TABLES * NUM_WIDTHS; i++) {
        table t = table_at(i / NUM_WIDTHS);
        int n = widths[i % NUM_WIDTHS];
        if (!t.k) continue;
        fill(&t, x, n, 7, i);
        put(&t, bx, x, n);
        double lse, sum, exps = 0, plain = 0;
        for (int j = 0; j < n; j++) {
            exps += exp(x[j]);
            plain += x[j];
        }
        t.k->log_sum_exp(&lse, &sum, bx, n);
        EXPECT_SMALL(fabs(lse - log(exps)) / 8);
        EXPECT_SMALL(fabs(sum - plain) / 50);
        for (int j = 0; j < n; j++) e[j] = 0.25 * (exp(x[j] - log(exps)) - 0.1);
        t.k->softmax_minus(bd, bx, n, log(exps), 0.25, 0.1);
        EXPECT_SMALL(worst(&t, bd, e, n));
    }
}

TS_TEST(nn_kernel_layer_norm_follows_the_formula)
{
    double x[MOST], w[100], b[100], dy[MOST], y[MOST], m[ROWS], s[ROWS], dx[MOST];
    double bx[MOST], bw[100], bb[100], bdy[MOST], by[MOST], bm[ROWS], bs[ROWS], bdx[MOST];
    for (int i = 0; i < NUM_TABLES * NUM_WIDTHS * 2; i++) {
        table t = table_at(i / NUM_WIDTHS / 2);
        int n = widths[i / 2 % NUM_WIDTHS], count = ROWS * n;
        bool affine = i % 2;
        if (!t.k) continue;
        fill(&t, x, count, 2, i);
        for (int j = 0; j < count; j++) x[j] += 50; /* E[x^2] - E[x]^2 would lose it */
        fill(&t, w, n, 1, 3);
        fill(&t, b, n, 1, 4);
        fill(&t, dy, count, 1, 5);
        for (int j = 0; j < count; j++) x[j] = t.f64 ? x[j] : (double)(float)x[j];
        put(&t, bx, x, count);
        put(&t, bw, w, n);
        put(&t, bb, b, n);
        put(&t, bdy, dy, count);
        t.tolerance *= 20;
        t.ref->layer_norm(y, m, s, x, affine ? w : NULL, affine ? b : NULL, ROWS, n, 1e-3);
        t.k->layer_norm(by, bm, bs, bx, affine ? bw : NULL, affine ? bb : NULL, ROWS, n, 1e-3);
        EXPECT_SMALL(worst(&t, by, y, count));
        EXPECT_SMALL(worst(&t, bm, m, ROWS));
        EXPECT_SMALL(worst(&t, bs, s, ROWS));
        double dw[100] = {0}, db[100] = {0}, bdw[100] = {0}, bdb[100] = {0};
        t.ref->layer_norm_grad(dx, dw, db, dy, x, affine ? w : NULL, m, s, ROWS, n);
        t.k->layer_norm_grad(bdx, affine ? bdw : NULL, affine ? bdb : NULL, bdy, bx,
                             affine ? bw : NULL, bm, bs, ROWS, n);
        EXPECT_SMALL(worst(&t, bdx, dx, count) / 10);
        if (!affine) continue;
        EXPECT_SMALL(worst(&t, bdw, dw, n));
        EXPECT_SMALL(worst(&t, bdb, db, n));
    }
}

static double gelu_by_formula(bool tanh_form, double x)
{
    if (tanh_form) return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    return 0.5 * x * erfc(-x / sqrt(2));
}

static void run_loop(const table *t, ts_loop_id id, void *to, const void *x, const void *y, int n)
{
    static const int64_t steps[] = {1, 1, 1};
    static const double p[] = {0, 0};
    ts_dtype dtype = t->f64 ? TS_FLOAT64 : TS_FLOAT32;
    ts_isa isa = TS_ISA_REF;
    while (strcmp(ts_isa_name(isa), t->name) != 0) isa++;
    ts_elementwise_kernels_of(dtype, isa)
        ->loop[id]((char *[]){to, (char *)(uintptr_t)x, (char *)(uintptr_t)y}, steps, n, p);
}

static void gelu(const table *t, bool tanh_form, void *y, const void *x, int n)
{
    run_loop(t, tanh_form ? TS_LOOP_GELU_TANH : TS_LOOP_GELU_ERF, y, x, NULL, n);
}

static void gelu_backward(const table *t, bool tanh_form, void *dx, const void *dy, const void *x,
                          int n)
{
    run_loop(t, tanh_form ? TS_LOOP_GELU_TANH_BACKWARD : TS_LOOP_GELU_ERF_BACKWARD, dx, dy, x, n);
}

TS_TEST(nn_kernel_gelu_follows_the_formula)
{
    enum { N = 401 };
    double x[N], one[N], y[N], d[N], bx[N], bone[N], by[N], bd[N];
    for (int i = 0; i < NUM_TABLES * 2; i++) {
        table t = table_at(i / 2);
        bool tanh_form = i % 2;
        if (!t.k) continue;
        for (int j = 0; j < N; j++) {
            x[j] = (j - 200) / 16.0;
            one[j] = 1;
            y[j] = gelu_by_formula(tanh_form, x[j]);
            d[j] = (gelu_by_formula(tanh_form, x[j] + 1e-6) -
                    gelu_by_formula(tanh_form, x[j] - 1e-6)) /
                   2e-6;
        }
        put(&t, bx, x, N);
        put(&t, bone, one, N);
        gelu(&t, tanh_form, by, bx, N);
        gelu_backward(&t, tanh_form, bd, bone, bx, N);
        EXPECT_SMALL(worst(&t, by, y, N));
        t.tolerance = fmax(t.tolerance, 1e-8); /* of the difference quotient */
        EXPECT_SMALL(worst(&t, bd, d, N));
    }
}

TS_TEST(nn_kernel_gelu_tails)
{
    for (int i = 0; i < NUM_TABLES; i++) {
        table t = table_at(i);
        if (!t.k) continue;
        double x[6] = {-8, -12, 1e30, -1e30, INFINITY, NAN}, one[6] = {1, 1, 1, 1, 1, 1};
        double bx[6], by[6], bone[6], bd[6];
        put(&t, bx, x, 6);
        put(&t, bone, one, 6);
        gelu(&t, false, by, bx, 6);
        /* relative accuracy far below the rounding of 1 + erf */
        TS_EXPECT_NEAR(get(&t, by, 0) / (-4 * erfc(8 / sqrt(2))), 1, t.tolerance * 40);
        TS_EXPECT_NEAR(get(&t, by, 1) / (-6 * erfc(12 / sqrt(2))), 1, t.tolerance * 40);
        for (int form = 0; form < 2; form++) {
            gelu(&t, form, by, bx, 6);
            gelu_backward(&t, form, bd, bone, bx, 6);
            TS_EXPECT_NEAR(get(&t, by, 2), t.f64 ? 1e30 : (double)1e30f, 0);
            TS_EXPECT_NEAR(get(&t, by, 3), 0, 0);
            TS_EXPECT(isinf(get(&t, by, 4)) && isnan(get(&t, by, 5)));
            TS_EXPECT_NEAR(get(&t, bd, 2), 1, 1e-12);
            TS_EXPECT_NEAR(get(&t, bd, 3), 0, 1e-12);
            TS_EXPECT(isnan(get(&t, bd, 5)));
        }
    }
}

TS_TEST(nn_kernel_sums)
{
    enum { R = 70, N = 77, LD = 78 };
    double x[R * LD], bx[R * LD], bto[N], e[N], bsum[N];
    for (int i = 0; i < NUM_TABLES; i++) {
        table t = table_at(i);
        if (!t.k) continue;
        t.tolerance *= 4; /* sums of 70 numbers */
        fill(&t, x, R * LD, 1, i);
        put(&t, bx, x, R * LD);
        double dot = 0, distance = 0;
        for (int j = 0; j < N; j++) {
            e[j] = 0;
            for (int r = 0; r < R; r++) e[j] += x[r * LD + j];
        }
        for (int j = 0; j < 333; j++) {
            dot += x[j] * x[j + 11];
            distance += (x[j] - x[j + 11]) * (x[j] - x[j + 11]);
        }
        const char *second = (const char *)bx + 11 * (t.f64 ? 8 : 4);
        t.k->column_sum(bto, bx, R, N, LD);
        EXPECT_SMALL(worst(&t, bto, e, N));
        memcpy(bsum, bto, sizeof bto);
        t.k->add_to(bsum, bto, N);
        for (int j = 0; j < N; j++) e[j] *= 2;
        EXPECT_SMALL(worst(&t, bsum, e, N));
        EXPECT_SMALL(fabs(t.k->dot(bx, second, 333) - dot) / 50);
        EXPECT_SMALL(fabs(t.k->squared_distance(bx, second, 333) - distance) / 50);
        t.k->scaled_difference(bsum, bx, second, 0.5, N);
        for (int j = 0; j < N; j++) e[j] = 0.5 * (x[j] - x[j + 11]);
        EXPECT_SMALL(worst(&t, bsum, e, N));
    }
}

/* Softmax of a row in two blocks equals softmax of the row; its gradient step the closed formula.
 */
TS_TEST(nn_kernel_softmax_steps)
{
    enum { N = 45, FIRST = 19 };
    for (int i = 0; i < NUM_TABLES * 2; i++) {
        table t = table_at(i / 2);
        double x[N], bx[N], dp[N], bdp[N], scale = i % 2 ? 0.7 : -0.7, total = 0;
        if (!t.k) continue;
        fill(&t, x, N, 5, i);
        fill(&t, dp, N, 1, i + 2);
        put(&t, bx, x, N);
        put(&t, bdp, dp, N);
        for (int j = 0; j < N; j++) total += exp(scale * x[j]);
        double max = -INFINITY, sum = 0;
        size_t esize = t.f64 ? 8 : 4;
        double none = t.k->softmax_step(bx, FIRST, scale, &max, &sum);
        double correction =
            t.k->softmax_step((char *)bx + FIRST * esize, N - FIRST, scale, &max, &sum);
        TS_EXPECT_NEAR(none, 0, 0);
        EXPECT_SMALL(fabs(max + log(sum) - log(total)));
        for (int j = 0; j < N; j++) {
            double p = get(&t, bx, j) / sum * (j < FIRST ? correction : 1);
            EXPECT_SMALL(fabs(p - exp(scale * x[j]) / total));
        }
        put(&t, bx, x, N);
        t.k->softmax_step_grad(bx, bdp, N, scale, log(total), 0.3);
        for (int j = 0; j < N; j++) {
            double p = exp(scale * x[j]) / total;
            EXPECT_SMALL(fabs(get(&t, bx, j) - p));
            EXPECT_SMALL(fabs(get(&t, bdp, j) - scale * p * (dp[j] - 0.3)));
        }
    }
}
