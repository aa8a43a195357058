/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "kernels/optim.h"

enum { N = 53 };

typedef struct arrays {
    double p[N], g[N], m[N], v[N];
} arrays;

static arrays some_arrays(void)
{
    arrays a;
    for (int i = 0; i < N; i++) {
        a.p[i] = sin(i * 1.7);
        a.g[i] = cos(i * 0.9) * (i % 5 == 0 ? 1e-3 : 1);
        a.m[i] = 0.1 * sin(i * 0.3);
        a.v[i] = 0.01 * (1 + cos(i * 2.1));
    }
    return a;
}

static void to_dtype(ts_dtype dtype, void *to, const double *from)
{
    for (int i = 0; i < N; i++) {
        if (dtype == TS_FLOAT64)
            ((double *)to)[i] = from[i];
        else
            ((float *)to)[i] = (float)from[i];
    }
}

static double worst(ts_dtype dtype, const void *got, const double *expected)
{
    double most = 0;
    for (int i = 0; i < N; i++) {
        double x = dtype == TS_FLOAT64 ? ((const double *)got)[i] : ((const float *)got)[i];
        most = fmax(most, fabs(x - expected[i]));
    }
    return most;
}

TS_TEST(optim_adamw_kernel_follows_the_formula)
{
    arrays a = some_arrays();
    ts_adam_step s = {.decay = 0.99,
                      .beta1 = 0.9,
                      .beta2 = 0.99,
                      .eps = 1e-8,
                      .step_size = 0.02,
                      .bias2_sqrt = 0.3,
                      .grad_scale = 0.5};
    arrays e = a;
    for (int i = 0; i < N; i++) {
        double g = a.g[i] * 0.5;
        e.m[i] = 0.9 * a.m[i] + 0.1 * g;
        e.v[i] = 0.99 * a.v[i] + 0.01 * g * g;
        e.p[i] = a.p[i] * 0.99 - 0.02 * e.m[i] / (sqrt(e.v[i]) / 0.3 + 1e-8);
    }
    for (int isa = 0; isa < TS_NUM_ISAS; isa++)
        for (int dtype = 0; dtype < 2; dtype++) {
            const ts_optim_kernels *k = ts_optim_kernels_of((ts_dtype)dtype, (ts_isa)isa);
            if (!k) continue;
            double tolerance = dtype == TS_FLOAT64 ? 1e-15 : 3e-7;
            arrays b;
            to_dtype((ts_dtype)dtype, b.p, a.p);
            to_dtype((ts_dtype)dtype, b.g, a.g);
            to_dtype((ts_dtype)dtype, b.m, a.m);
            to_dtype((ts_dtype)dtype, b.v, a.v);
            void *state[] = {b.m, b.v, NULL};
            k->update[TS_OPTIM_KERNEL_adam](b.p, b.g, state, N, &s);
            TS_EXPECT(worst((ts_dtype)dtype, b.p, e.p) < tolerance);
            TS_EXPECT(worst((ts_dtype)dtype, b.m, e.m) < tolerance);
            TS_EXPECT(worst((ts_dtype)dtype, b.v, e.v) < tolerance);
        }
}

static void sgd_expected(arrays *e, const arrays *a, const ts_sgd_step *s)
{
    for (int i = 0; i < N; i++) {
        double g = a->g[i] * s->grad_scale + s->weight_decay * a->p[i];
        if (s->momentum != 0) {
            e->m[i] = s->first ? g : s->momentum * a->m[i] + (1 - s->dampening) * g;
            g = s->nesterov ? g + s->momentum * e->m[i] : e->m[i];
        }
        e->p[i] = a->p[i] - s->lr * g;
    }
}

TS_TEST(optim_sgd_kernel_follows_the_formula)
{
    static const ts_sgd_step steps[] = {
        {0.1, 0, 0, 0, 1, false, false},       {0.1, 0, 0, 0.05, 1, false, false},
        {0.1, 0.9, 0.1, 0.05, 1, false, true}, {0.1, 0.9, 0.1, 0.05, 2, false, false},
        {0.1, 0.9, 0, 0, 1, true, false},
    };
    arrays a = some_arrays();
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        arrays e = a;
        sgd_expected(&e, &a, &steps[i]);
        for (int isa = 0; isa < TS_NUM_ISAS; isa++)
            for (int dtype = 0; dtype < 2; dtype++) {
                const ts_optim_kernels *k = ts_optim_kernels_of((ts_dtype)dtype, (ts_isa)isa);
                if (!k) continue;
                double tolerance = dtype == TS_FLOAT64 ? 1e-15 : 5e-7;
                arrays b;
                to_dtype((ts_dtype)dtype, b.p, a.p);
                to_dtype((ts_dtype)dtype, b.g, a.g);
                to_dtype((ts_dtype)dtype, b.m, a.m);
                void *state[] = {steps[i].momentum != 0 ? b.m : NULL};
                k->update[TS_OPTIM_KERNEL_sgd](b.p, b.g, state, N, &steps[i]);
                TS_EXPECT(worst((ts_dtype)dtype, b.p, e.p) < tolerance);
                TS_EXPECT(worst((ts_dtype)dtype, b.m, e.m) < tolerance);
            }
    }
}

TS_TEST(optim_norm_kernels_and_scale)
{
    arrays a = some_arrays();
    double squares = 0, sum = 0, most = 0;
    for (int i = 0; i < N; i++) {
        squares += a.p[i] * a.p[i];
        sum += fabs(a.p[i]);
        most = fmax(most, fabs(a.p[i]));
    }
    for (int isa = 0; isa < TS_NUM_ISAS; isa++)
        for (int dtype = 0; dtype < 2; dtype++) {
            const ts_optim_kernels *k = ts_optim_kernels_of((ts_dtype)dtype, (ts_isa)isa);
            if (!k) continue;
            double tolerance = dtype == TS_FLOAT64 ? 1e-13 : 1e-6, b[N];
            to_dtype((ts_dtype)dtype, b, a.p);
            TS_EXPECT_NEAR(k->sum_squares(b, N), squares, tolerance);
            TS_EXPECT_NEAR(k->sum_abs(b, N), sum, tolerance);
            TS_EXPECT_NEAR(k->max_abs(b, N), most, tolerance);
            TS_EXPECT_NEAR(k->sum_squares(b, 0), 0, 0);
            TS_EXPECT_NEAR(k->max_abs(b, 0), 0, 0);
            k->scale(b, -2.0, N);
            TS_EXPECT_NEAR(k->sum_abs(b, N), 2 * sum, tolerance * 2);
            if (dtype == TS_FLOAT64)
                b[7] = NAN;
            else
                ((float *)b)[7] = NAN;
            TS_EXPECT(isnan(k->max_abs(b, N)));
        }
}

/* The hand-made and the compiler's vectors against the plain loops. */
TS_TEST(optim_kernels_of_all_sets_agree)
{
    union {
        double number[16];
        ts_radam_step radam; /* its bool is the low byte of 0.5: false */
    } step = {.number = {0.9, 0.1, 0.8, 0.7, 0.3, 0.6, 0.5, 0.5, -1.0}};
    arrays a = some_arrays();
    for (int i = 0; i < N; i++) a.v[i] += 0.5;
    for (int dtype = 0; dtype < 2; dtype++)
        for (int k = TS_OPTIM_KERNEL_adagrad; k < TS_NUM_OPTIM_KERNELS; k++) {
            arrays b[2];
            for (int isa = 0; isa < TS_NUM_ISAS; isa++) {
                const ts_optim_kernels *table = ts_optim_kernels_of((ts_dtype)dtype, (ts_isa)isa);
                if (!table) continue;
                arrays *to = &b[isa != 0];
                double spare[N] = {0};
                to_dtype((ts_dtype)dtype, to->p, a.p);
                to_dtype((ts_dtype)dtype, to->g, a.g);
                to_dtype((ts_dtype)dtype, to->m, a.v);
                to_dtype((ts_dtype)dtype, to->v, a.v);
                void *state[] = {to->m, to->v, spare};
                table->update[k](to->p, to->g, state, N, &step);
                if (isa == 0) continue;
                double most = 0;
                for (int i = 0; i < N; i++) {
                    double x = dtype ? b[0].p[i] : ((float *)b[0].p)[i];
                    double y = dtype ? b[1].p[i] : ((float *)b[1].p)[i];
                    most = fmax(most, fabs(x - y) / fmax(1.0, fabs(x)));
                    TS_EXPECT(isfinite(x) || k == TS_OPTIM_KERNEL_rmsprop);
                }
                TS_EXPECT(most < (dtype ? 1e-14 : 2e-6));
            }
        }
}
