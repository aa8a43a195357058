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

/* The mean loss over this rank's part of the batch: rows rank, of size parts. */
static ts_tensor *loss_of_part(const training *t, ts_module *model, int64_t step, int rank,
                               int size)
{
    int64_t rows = t->sizes[5] / size;
    ts_tensor *batch = ts_narrow(ts_select(t->tokens, 0, step), 0, rank * rows, rows);
    ts_tensor *args[] = {ts_narrow(batch, 1, 0, t->sizes[1]), ts_narrow(batch, 1, 1, t->sizes[1])};
    return ts_module_call(model, args, 2);
}

static ts_tensor *loss_of_step(const training *t, int64_t step)
{
    return loss_of_part(t, t->model, step, 0, 1);
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

static ts_status new_sgd(ts_optim **out, const training *t, ts_module *model)
{
    ts_sgd_options opt = {sizeof opt, 0.0, 0.9, 0.0, 0.0, false, false};
    ts_status status = ts_item(ts_golden_get(t->golden, "sgd_lr"), &opt.lr);
    return status == TS_OK ? ts_sgd_new(out, ts_module_parameters(model), &opt) : status;
}

static ts_status new_adamw(ts_optim **out, const training *t, ts_module *model)
{
    ts_adamw_options opt = {sizeof opt, 1e-3, 0.9, 0.95, 1e-8, 0.1, false, false};
    (void)t;
    return ts_adamw_new(out, ts_module_parameters(model), &opt);
}

typedef ts_status (*optim_maker)(ts_optim **out, const training *t, ts_module *model);

static void train_alone(ts_test *test, ts_dtype dtype, optim_maker maker, const char *name,
                        double rtol)
{
    training t;
    ts_optim *optim;
    TS_PASS(begin(&t, dtype));
    TS_PASS(maker(&optim, &t, t.model));
    train(test, &t, optim, name, rtol);
    ts_optim_free(optim);
    end(&t);
}

TS_TEST(gpt_training_sgd_f32_equals_pytorch, .timeout_s = 120)
{
    train_alone(test, TS_FLOAT32, new_sgd, "sgd.f32", 1e-5);
}
TS_TEST(gpt_training_sgd_f64_equals_pytorch, .timeout_s = 120)
{
    train_alone(test, TS_FLOAT64, new_sgd, "sgd.f64", 1e-12);
}
TS_TEST(gpt_training_adamw_f64_equals_pytorch, .timeout_s = 120)
{
    train_alone(test, TS_FLOAT64, new_adamw, "adamw.f64", 1e-10);
}
TS_TEST(gpt_training_adamw_f32_equals_pytorch, .timeout_s = 120)
{
    train_alone(test, TS_FLOAT32, new_adamw, "adamw.f32", 1e-4);
}

/* ---- the same with the batch divided between ranks ------------------------------------------- */

/* One step of both: the wrapped model on this rank's part, and the model alone on the whole batch
 * while alone is not NULL.  *loss is the mean over the ranks. */
static ts_status step_both(double *loss, const training *t, ts_module *ddp, ts_optim *optim,
                           ts_optim *alone, int64_t step, const ts_test *test)
{
    ts_scope scope = ts_scope_begin();
    ts_tensor *part = loss_of_part(t, ddp, step, test->rank, test->size);
    ts_tensor *mean = ts_to_dtype(ts_clone(ts_detach(part)), TS_FLOAT64);
    ts_optim_zero_grad(optim);
    ts_status status = ts_backward(part);
    if (status == TS_OK) status = ts_optim_step(optim);
    if (status == TS_OK) status = ts_all_reduce(test->group, mean, TS_AVG, NULL);
    if (status == TS_OK) status = ts_item(mean, loss);
    if (alone && status == TS_OK) {
        ts_optim_zero_grad(alone);
        status = ts_backward(loss_of_step(t, step));
        if (status == TS_OK) status = ts_optim_step(alone);
    }
    ts_status end_status = ts_scope_end(scope);
    return status == TS_OK ? end_status : status;
}

/* Global norm of the difference of all parameters, and of the parameters. */
static void difference(double *diff, double *norm, ts_module *a, ts_module *b)
{
    ts_tensor_list *x = ts_module_parameters(a), *y = ts_module_parameters(b);
    double sum = 0, all = 0;
    for (int64_t i = 0; i < ts_tensor_list_count(x); i++) {
        double d = 0, n = 0;
        ts_tensor *p = ts_to_dtype(ts_detach(ts_tensor_list_get(x, i)), TS_FLOAT64);
        ts_tensor *q = ts_to_dtype(ts_detach(ts_tensor_list_get(y, i)), TS_FLOAT64);
        ts_must(ts_item(ts_norm(ts_sub(p, q), 2), &d));
        ts_must(ts_item(ts_norm(q, 2), &n));
        sum += d * d;
        all += n * n;
    }
    ts_tensor_list_free(x);
    ts_tensor_list_free(y);
    *diff = sqrt(sum);
    *norm = sqrt(all);
}

/* Are the parameters bit-equal on all ranks? */
static bool replicas_equal(const ts_test *test, ts_module *model)
{
    ts_tensor_list *list = ts_module_parameters(model);
    bool equal = true;
    for (int64_t i = 0; i < ts_tensor_list_count(list); i++) {
        ts_tensor *own = ts_detach(ts_tensor_list_get(list, i));
        ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
        opt.dtype = ts_tensor_dtype(own);
        ts_tensor *all = ts_empty(TS_SHAPE(test->size, ts_numel(own)), &opt);
        ts_must(ts_all_gather_into_tensor(test->group, all, own, NULL));
        for (int r = 0; r < test->size; r++)
            equal = equal && !memcmp((const char *)ts_data(all) + (size_t)r * ts_nbytes(own),
                                     ts_data(own), ts_nbytes(own));
    }
    ts_tensor_list_free(list);
    return equal;
}

enum { COMPARED_STEPS = 20 };

/* rtol: of the losses against PyTorch's.  After COMPARED_STEPS steps the parameters differ from
 * those of one process by at most absolute, or relative times their norm. */
static void train_divided(ts_test *test, ts_dtype dtype, optim_maker maker, const char *name,
                          double rtol, double absolute, double relative)
{
    training t, whole;
    ts_module *ddp;
    ts_optim *optim, *alone;
    TS_PASS(begin(&t, dtype));
    TS_PASS(begin(&whole, dtype));
    TS_PASS(ts_ddp_new(&ddp, t.model, NULL));
    TS_PASS(maker(&optim, &t, ddp));
    TS_PASS(maker(&alone, &t, whole.model));
    const double *losses = ts_data(ts_golden_get(t.golden, "loss.%s", name));
    for (int64_t step = 0; step < t.sizes[6]; step++) {
        double loss, diff, norm;
        bool both = step < COMPARED_STEPS;
        TS_PASS(step_both(&loss, &whole, ddp, optim, both ? alone : NULL, step, test));
        if (!(fabs(loss - losses[step]) <= rtol * losses[step]))
            TS_FAIL_TEST("%s: step %lld: loss %.9g, PyTorch has %.9g", name, (long long)step, loss,
                         losses[step]);
        if (step != COMPARED_STEPS - 1) continue;
        ts_scope scope = ts_scope_begin();
        difference(&diff, &norm, ts_ddp_module(ddp), whole.model);
        TS_PASS(ts_scope_end(scope));
        TS_EXPECT_NEAR(diff, 0, fmax(absolute, relative * norm));
    }
    TS_EXPECT(replicas_equal(test, ddp));
    ts_optim_free(optim);
    ts_optim_free(alone);
    ts_module_free(ddp);
    ts_tensor_list_free(t.golden);
    end(&whole);
}

TS_TEST(gpt_training_on_two_ranks_sgd_f32, .ranks = 2, .timeout_s = 240)
{
    train_divided(test, TS_FLOAT32, new_sgd, "sgd.f32", 1e-5, 0, 1e-6);
}
TS_TEST(gpt_training_on_two_ranks_adamw_f64, .ranks = 2, .timeout_s = 240)
{
    train_divided(test, TS_FLOAT64, new_adamw, "adamw.f64", 1e-10, 1e-12, 0);
}
TS_TEST(gpt_training_on_two_ranks_adamw_f32, .ranks = 2, .timeout_s = 240)
{
    train_divided(test, TS_FLOAT32, new_adamw, "adamw.f32", 1e-4, 0, 1e-3);
}

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
