/* SPDX-License-Identifier: Apache-2.0 */
/* Ten steps from given gradients against PyTorch (tests/golden/optim.py). */
#include "golden.h"
#include "test.h"

enum { PARAMS = 5, STEPS = 10 };

static ts_status make_case(ts_optim **out, int number, ts_tensor_list *params)
{
    ts_sgd_options sgd = TS_SGD_OPTIONS_INIT;
    ts_adamw_options adamw = TS_ADAMW_OPTIONS_INIT;
    switch (number) {
    case 0: sgd.lr = 0.1; return ts_sgd_new(out, params, &sgd);
    case 1:
        sgd = (ts_sgd_options){sizeof sgd, 0.05, 0.9, 0.25, 0.01, false};
        return ts_sgd_new(out, params, &sgd);
    case 2:
        sgd = (ts_sgd_options){sizeof sgd, 0.05, 0.8, 0.0, 0.1, true};
        return ts_sgd_new(out, params, &sgd);
    case 3:
        sgd = (ts_sgd_options){sizeof sgd, 0.2, 0.0, 0.0, 0.3, false};
        return ts_sgd_new(out, params, &sgd);
    case 4: return ts_adamw_new(out, params, NULL);
    case 5:
        adamw = (ts_adamw_options){sizeof adamw, 0.02, 0.8, 0.95, 1e-6, 0.1};
        return ts_adamw_new(out, params, &adamw);
    default:
        adamw = (ts_adamw_options){sizeof adamw, 0.01, 0.0, 0.5, 1e-3, 0.0};
        return ts_adamw_new(out, params, &adamw);
    }
}

/* Parameters of dtype from the golden start; every second one strided. */
static ts_tensor_list *make_params(const ts_tensor_list *golden, ts_dtype dtype, bool strided)
{
    ts_tensor_list *params = ts_tensor_list_new();
    for (int i = 0; i < PARAMS; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", i);
        ts_tensor *t = ts_clone(ts_to_dtype(ts_golden_get(golden, "start.%d", i), dtype));
        if (strided && ts_ndim(t) >= 2) t = ts_transpose(ts_clone(ts_transpose(t, 0, -1)), 0, -1);
        if (ts_set_requires_grad(t, true) != TS_OK || ts_tensor_list_add(params, name, t) != TS_OK)
            return NULL;
    }
    return params;
}

/* The gradients of a step, strided too, if the parameters are. */
static ts_status set_grads(const ts_tensor_list *golden, ts_tensor *const *param, int step)
{
    for (int i = 0; i < PARAMS; i++) {
        ts_tensor *grad = ts_golden_get(golden, "grad.%d.%d", step, i);
        if (grad) grad = ts_clone(ts_to_dtype(grad, ts_tensor_dtype(param[i])));
        if (grad && !ts_is_contiguous(param[i]))
            grad = ts_transpose(ts_clone(ts_transpose(grad, 0, -1)), 0, -1);
        ts_status status = ts_set_grad(param[i], grad);
        if (status != TS_OK) return status;
    }
    return TS_OK;
}

static void run_case(ts_test *test, const ts_tensor_list *golden, int number, ts_dtype dtype,
                     bool strided)
{
    const char *text = dtype == TS_FLOAT32 ? "f32" : "f64";
    ts_tensor_list *params = make_params(golden, dtype, strided);
    ts_tensor *param[PARAMS];
    ts_optim *optim;
    TS_EXPECT(params != NULL);
    for (int i = 0; i < PARAMS; i++) param[i] = ts_tensor_list_get(params, i);
    TS_PASS(make_case(&optim, number, params));
    for (int step = 0; step < STEPS; step++) {
        TS_PASS(set_grads(golden, param, step));
        TS_PASS(ts_optim_step(optim));
        if (step != 0 && step != STEPS - 1) continue;
        for (int i = 0; i < PARAMS; i++) {
            ts_tensor *expected = ts_golden_get(golden, "case.%d.%s.%d.%d", number, text, step, i);
            double rtol = dtype == TS_FLOAT32 ? 1e-6 : 1e-13;
            TS_EXPECT_CLOSE(ts_detach(param[i]), expected, rtol, rtol * 1e-1);
        }
    }
    ts_optim_free(optim);
}

TS_TEST(optim_ten_steps_equal_pytorch)
{
    ts_tensor_list *golden;
    TS_PASS(ts_golden_read(&golden, "tests/golden/optim.bin"));
    for (int number = 0; number < 7 && test->failures == 0; number++) {
        run_case(test, golden, number, TS_FLOAT32, false);
        run_case(test, golden, number, TS_FLOAT64, false);
        run_case(test, golden, number, TS_FLOAT32, true);
    }
    ts_tensor_list_free(golden);
}

TS_TEST(clip_grad_norm_equals_pytorch)
{
    static const double norms[] = {2.0, 1.0, 3.0, 0.5, INFINITY}, limits[] = {0.5, 1e6};
    ts_tensor_list *golden;
    TS_PASS(ts_golden_read(&golden, "tests/golden/optim.bin"));
    for (int k = 0; k < 20; k++) {
        double p = norms[k % 5], limit = limits[k / 5 % 2], total, expected;
        ts_tensor_list *params = make_params(golden, TS_FLOAT32, k >= 10);
        for (int i = 0; i < PARAMS; i++) {
            ts_tensor *grad = ts_golden_get(golden, "grad.1.%d", i);
            if (k >= 10 && ts_ndim(grad) >= 2)
                grad = ts_transpose(ts_clone(ts_transpose(grad, 0, -1)), 0, -1);
            TS_PASS(ts_set_grad(ts_tensor_list_get(params, i), ts_clone(grad)));
        }
        TS_PASS(ts_clip_grad_norm(&total, params, limit, p));
        TS_PASS(ts_item(ts_golden_get(golden, "norm.%g.%g", p, limit), &expected));
        TS_EXPECT_NEAR(total, expected, 1e-6 * expected);
        for (int i = 0; i < PARAMS; i++)
            TS_EXPECT_CLOSE(ts_grad(ts_tensor_list_get(params, i)),
                            ts_golden_get(golden, "clipped.%g.%g.%d", p, limit, i), 1e-6, 1e-12);
        ts_tensor_list_free(params);
    }
    ts_tensor_list_free(golden);
}
