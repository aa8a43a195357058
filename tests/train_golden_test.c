/* SPDX-License-Identifier: Apache-2.0 */
/* A GPT trained by PyTorch and by us from the same weights and tokens (tests/golden/gpt.py).
 * TESSERA_GOLDEN_GPT names another file, such as one of a larger model. */
#include <stdlib.h>

#include "golden.h"
#include "test.h"

typedef struct training {
    ts_tensor_list *golden;
    const int64_t *sizes; /* vocab, block, layers, heads, dim, batch, steps */
    ts_module *model;
    ts_tensor *tokens; /* (steps, batch, block + 1) */
} training;

static ts_status load_start(const training *t, ts_dtype dtype)
{
    ts_tensor_list *state = ts_module_state_dict(t->model);
    ts_tensor_list *start = ts_tensor_list_new();
    ts_status status = TS_OK;
    for (int64_t i = 0; i < ts_tensor_list_count(state) && status == TS_OK; i++) {
        const char *name = ts_tensor_list_name(state, i);
        ts_tensor *value = ts_golden_get(t->golden, "start.%s", name);
        if (!value) value = ts_golden_get(t->golden, "start.transformer.wte.weight");
        status = ts_tensor_list_add(start, name, ts_to_dtype(value, dtype));
    }
    if (status == TS_OK) status = ts_module_load_state_dict(t->model, start, true);
    ts_tensor_list_free(start);
    ts_tensor_list_free(state);
    return status;
}

static ts_status begin(training *t, ts_dtype dtype)
{
    const char *path = getenv("TESSERA_GOLDEN_GPT");
    ts_status status = ts_golden_read(&t->golden, path ? path : "tests/golden/gpt.bin");
    if (status != TS_OK) return status;
    t->sizes = ts_data(ts_golden_get(t->golden, "sizes"));
    ts_gpt_options opt = TS_GPT_OPTIONS_INIT;
    opt.vocab_size = t->sizes[0];
    opt.block_size = t->sizes[1];
    opt.n_layer = t->sizes[2];
    opt.n_head = t->sizes[3];
    opt.n_embd = t->sizes[4];
    opt.dtype = dtype;
    t->model = ts_gpt_new(&opt);
    t->tokens = ts_to_dtype(ts_golden_get(t->golden, "tokens"), TS_INT64);
    return load_start(t, dtype);
}

static void end(training *t)
{
    ts_module_free(t->model);
    ts_tensor_list_free(t->golden);
}

static ts_tensor *loss_of_step(const training *t, int64_t step)
{
    ts_tensor *batch = ts_select(t->tokens, 0, step);
    ts_tensor *args[] = {ts_narrow(batch, 1, 0, t->sizes[1]), ts_narrow(batch, 1, 1, t->sizes[1])};
    return ts_module_call(t->model, args, 2);
}

static void train(ts_test *test, const training *t, ts_optim *optim, const char *name, double rtol)
{
    ts_tensor *expected = ts_golden_get(t->golden, "loss.%s", name);
    TS_EXPECT_INT(ts_numel(expected), t->sizes[6]);
    const double *losses = ts_data(expected);
    for (int64_t step = 0; step < t->sizes[6]; step++) {
        ts_scope scope = ts_scope_begin();
        ts_tensor *loss = loss_of_step(t, step);
        double value;
        TS_PASS(ts_item(loss, &value));
        if (!(fabs(value - losses[step]) <= rtol * losses[step]))
            TS_FAIL_TEST("%s: step %lld: loss %.9g, PyTorch has %.9g", name, (long long)step, value,
                         losses[step]);
        ts_optim_zero_grad(optim);
        TS_PASS(ts_backward(loss));
        TS_PASS(ts_optim_step(optim));
        TS_PASS(ts_scope_end(scope));
    }
}

static void train_sgd(ts_test *test, ts_dtype dtype, const char *name, double rtol)
{
    training t;
    ts_optim *optim;
    ts_sgd_options opt = {sizeof opt, 0.0, 0.9, 0.0, 0.0, false};
    TS_PASS(begin(&t, dtype));
    TS_PASS(ts_item(ts_golden_get(t.golden, "sgd_lr"), &opt.lr));
    TS_PASS(ts_sgd_new(&optim, ts_module_parameters(t.model), &opt));
    train(test, &t, optim, name, rtol);
    ts_optim_free(optim);
    end(&t);
}

static void train_adamw(ts_test *test, ts_dtype dtype, const char *name, double rtol)
{
    training t;
    ts_optim *optim;
    ts_adamw_options opt = {sizeof opt, 1e-3, 0.9, 0.95, 1e-8, 0.1};
    TS_PASS(begin(&t, dtype));
    TS_PASS(ts_adamw_new(&optim, ts_module_parameters(t.model), &opt));
    train(test, &t, optim, name, rtol);
    ts_optim_free(optim);
    end(&t);
}

TS_TEST(gpt_training_sgd_f32_equals_pytorch) { train_sgd(test, TS_FLOAT32, "sgd.f32", 1e-5); }
TS_TEST(gpt_training_sgd_f64_equals_pytorch) { train_sgd(test, TS_FLOAT64, "sgd.f64", 1e-12); }
TS_TEST(gpt_training_adamw_f64_equals_pytorch)
{
    train_adamw(test, TS_FLOAT64, "adamw.f64", 1e-10);
}
TS_TEST(gpt_training_adamw_f32_equals_pytorch) { train_adamw(test, TS_FLOAT32, "adamw.f32", 1e-4); }

TS_TEST(gpt_gradients_equal_pytorch)
{
    training t;
    TS_PASS(begin(&t, TS_FLOAT64));
    TS_PASS(ts_backward(loss_of_step(&t, 0)));
    ts_tensor_list *params = ts_module_parameters(t.model);
    for (int64_t i = 0; i < ts_tensor_list_count(params); i++) {
        ts_tensor *expected = ts_golden_get(t.golden, "grad.%s", ts_tensor_list_name(params, i));
        TS_EXPECT_CLOSE(ts_to_dtype(ts_grad(ts_tensor_list_get(params, i)), TS_FLOAT32), expected,
                        1e-6, 1e-10);
    }
    ts_tensor_list_free(params);
    end(&t);
}
