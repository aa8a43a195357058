/* SPDX-License-Identifier: Apache-2.0 */
/* Ten steps from given gradients against PyTorch (tests/golden/optim.py). */
#include "golden.h"
#include "test.h"

enum { PARAMS = 6, STEPS = 10 };

#define MAKE(name)                                                                                 \
    static ts_status make_##name(ts_optim **out, ts_tensor_list *params)                           \
    {                                                                                              \
        return ts_##name##_new(out, params, NULL);                                                 \
    }
#define ROW(name) {#name, make_##name},
#define RULES(X)                                                                                   \
    X(sgd)                                                                                         \
    X(adam)                                                                                        \
    X(adamw) X(adagrad) X(rmsprop) X(adadelta) X(adamax) X(nadam) X(radam) X(rprop) X(lion) X(muon)
RULES(MAKE)
static const struct {
    const char *name;
    ts_status (*make)(ts_optim **out, ts_tensor_list *params);
} rules[] = {RULES(ROW)};

static int rule_of(const ts_tensor_list *golden, int number)
{
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
        if (ts_golden_get(golden, "rule.%d.%s", number, rules[r].name)) return (int)r;
    return -1;
}

/* Options in the order in which the case lists them. */
static ts_status set_options(ts_optim *optim, const ts_tensor_list *golden, int number)
{
    char prefix[24];
    int length = snprintf(prefix, sizeof prefix, "option.%d.", number);
    for (int64_t k = 0; k < ts_tensor_list_count(golden); k++) {
        const char *name = ts_tensor_list_name(golden, k);
        double value;
        if (strncmp(name, prefix, (size_t)length) != 0) continue;
        ts_status status = ts_item(ts_tensor_list_get(golden, k), &value);
        for (int g = 0; g < ts_optim_num_groups(optim) && status == TS_OK; g++)
            status = ts_optim_set_option(optim, g, name + length, value);
        if (status != TS_OK) return status;
    }
    return TS_OK;
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

/* Those of all, from first to last, that the rule can have. */
static ts_tensor_list *some_params(const ts_tensor_list *all, int first, int last, bool matrices)
{
    ts_tensor_list *some = ts_tensor_list_new();
    for (int i = first; i < last; i++) {
        ts_tensor *t = ts_tensor_list_get(all, i);
        if (matrices && ts_ndim(t) != 2) continue;
        if (ts_tensor_list_add(some, ts_tensor_list_name(all, i), t) != TS_OK) return NULL;
    }
    return some;
}

typedef enum step_kind { PLAIN, STRIDED, GROUPED, GIVEN } step_kind;

static ts_status make_case(ts_optim **out, const ts_tensor_list *golden, int number,
                           const ts_tensor_list *all, step_kind form)
{
    int rule = rule_of(golden, number), cut = form == GROUPED ? 3 : PARAMS;
    bool matrices = strcmp(rules[rule].name, "muon") == 0;
    ts_status status = rules[rule].make(out, some_params(all, 0, cut, matrices));
    if (status == TS_OK && form == GROUPED)
        status = ts_optim_add_param_group(*out, some_params(all, 3, PARAMS, false), NULL);
    if (status == TS_OK) status = set_options(*out, golden, number);
    if (status == TS_OK && form == GROUPED) status = ts_optim_set_option(*out, 1, "lr", 0.003);
    if (status == TS_OK && form == GROUPED)
        status = ts_optim_set_option(*out, 1, "weight_decay", 0.05);
    return status;
}

/* The step with gradients of their own, or given one by one in the opposite order. */
static ts_status step_form(ts_optim *optim, ts_tensor **param, step_kind form)
{
    if (form != GIVEN) return ts_optim_step(optim);
    for (int i = PARAMS - 1; i >= 0; i--) {
        ts_tensor *grad = ts_grad(param[i]) ? ts_clone(ts_grad(param[i])) : NULL;
        ts_status status = ts_set_grad(param[i], NULL);
        if (status == TS_OK) status = ts_optim_step_with(optim, &param[i], &grad, 1);
        if (status != TS_OK) return status;
    }
    return TS_OK;
}

static void run_case(ts_test *test, const ts_tensor_list *golden, int number, ts_dtype dtype,
                     step_kind form)
{
    const char *text = dtype == TS_FLOAT32 ? "f32" : "f64";
    const char *key = form == GROUPED ? "grouped" : "case";
    bool muon = ts_golden_get(golden, "rule.%d.muon", number) != NULL;
    double rtol = dtype == TS_FLOAT64 ? 1e-13 : 1e-6;
    if (muon)
        rtol *= 20; /* matrix products in another order, and what they are not told apart by */
    ts_scope scope = ts_scope_begin();
    ts_tensor_list *params = make_params(golden, dtype, form == STRIDED);
    ts_tensor *param[PARAMS];
    ts_optim *optim;
    TS_EXPECT(params != NULL);
    for (int i = 0; i < PARAMS; i++) param[i] = ts_tensor_list_get(params, i);
    TS_PASS(make_case(&optim, golden, number, params, form));
    for (int step = 0; step < STEPS; step++) {
        TS_PASS(set_grads(golden, param, step));
        TS_PASS(step_form(optim, param, form));
        if (step != 0 && step != STEPS - 1) continue;
        for (int i = 0; i < PARAMS; i++) {
            ts_tensor *expected =
                ts_golden_get(golden, "%s.%d.%s.%d.%d", key, number, text, step, i);
            if (expected) TS_EXPECT_CLOSE(ts_detach(param[i]), expected, rtol, rtol * 0.2);
        }
    }
    ts_optim_free(optim);
    ts_tensor_list_free(params);
    ts_scope_end(scope);
}

TS_TEST(optim_ten_steps_equal_pytorch)
{
    ts_tensor_list *golden;
    int cases = 0;
    TS_PASS(ts_golden_read(&golden, "tests/golden/optim.bin"));
    for (; rule_of(golden, cases) >= 0 && test->failures == 0; cases++) {
        run_case(test, golden, cases, TS_FLOAT32, PLAIN);
        run_case(test, golden, cases, TS_FLOAT64, PLAIN);
        run_case(test, golden, cases, TS_FLOAT32, STRIDED);
        if (!ts_golden_get(golden, "rule.%d.muon", cases))
            run_case(test, golden, cases, TS_FLOAT64, GIVEN);
        if (ts_golden_get(golden, "grouped.%d.f32.0.0", cases)) {
            run_case(test, golden, cases, TS_FLOAT32, GROUPED);
            run_case(test, golden, cases, TS_FLOAT64, GROUPED);
        }
        if (test->failures) fprintf(stderr, "in case %d\n", cases);
    }
    TS_EXPECT(cases >= 31 || test->failures);
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
