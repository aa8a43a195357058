/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules against PyTorch (tests/golden/schedule.py), their state, and what is refused. */
#include <math.h>
#include <stdlib.h>

#include "golden.h"
#include "test.h"

enum { STEPS = 50, GROUPS = 2 };

static double wave(int64_t step, int group, void *user)
{
    (void)group, (void)user;
    return 1.0 + sin((double)step);
}

static double metric(int64_t step)
{
    return fmax(1.0, 10.0 - (double)step) - (step > 40 ? 0.5 : 0.0);
}

static ts_status make_one_cycle(ts_lr_scheduler **out, ts_optim *o)
{
    ts_one_cycle_lr_options opt = TS_ONE_CYCLE_LR_OPTIONS_INIT;
    opt.max_lr = 0.5;
    opt.total_steps = 50;
    return ts_one_cycle_lr_new(out, o, &opt);
}

static ts_status make_three_phases(ts_lr_scheduler **out, ts_optim *o)
{
    ts_one_cycle_lr_options opt = TS_ONE_CYCLE_LR_OPTIONS_INIT;
    opt.max_lr = 0.4;
    opt.total_steps = 60;
    opt.pct_start = 0.25;
    opt.base_momentum = 0.7;
    opt.max_momentum = 0.9;
    opt.div_factor = 10;
    opt.final_div_factor = 100;
    opt.linear = opt.three_phase = true;
    return ts_one_cycle_lr_new(out, o, &opt);
}

static ts_status make_plateau(ts_lr_scheduler **out, ts_optim *o, bool maximize)
{
    ts_reduce_lr_on_plateau_options opt = TS_REDUCE_LR_ON_PLATEAU_OPTIONS_INIT;
    opt.factor = maximize ? 0.3 : 0.5;
    opt.patience = maximize ? 1 : 3;
    opt.cooldown = maximize ? 0 : 2;
    opt.min_lr = maximize ? 0 : 1e-3;
    opt.threshold = maximize ? 0.5 : 1e-4;
    opt.maximize = opt.threshold_is_absolute = maximize;
    return ts_reduce_lr_on_plateau_new(out, o, &opt);
}

/* Three schedules of a kind that combines them. */
static ts_status make_three(ts_lr_scheduler **out, ts_optim *o, int number)
{
    static const int64_t warm[] = {5, 30}, other[] = {4, 20}, steps[] = {2, 9};
    ts_lr_scheduler *s[3] = {NULL, NULL, NULL};
    ts_status status[3];
    if (number == 9) {
        status[0] = ts_linear_lr_new(&s[0], o, 0.1, 1.0, 5);
        status[1] = ts_cosine_annealing_lr_new(&s[1], o, 20, 1e-3);
        status[2] = ts_exponential_lr_new(&s[2], o, 0.9);
    } else if (number == 10) {
        status[0] = ts_constant_lr_new(&s[0], o, 0.1, 10);
        status[1] = ts_exponential_lr_new(&s[1], o, 0.95);
        status[2] = ts_step_lr_new(&s[2], o, 7, 0.5);
    } else {
        status[0] = ts_constant_lr_new(&s[0], o, 0.5, 3);
        status[1] = ts_lambda_lr_new(&s[1], o, wave, NULL);
        status[2] = ts_multi_step_lr_new(&s[2], o, steps, 2, 0.3);
    }
    for (int i = 0; i < 3; i++)
        if (status[i] != TS_OK) return status[i];
    if (number == 10) return ts_chained_scheduler_new(out, s, 3);
    return ts_sequential_lr_new(out, s, 3, number == 9 ? warm : other);
}

enum { ONE_CYCLE = 12, THREE_PHASES, PLATEAU, PLATEAU_MAX, CASES };

static ts_status make(ts_lr_scheduler **out, ts_optim *o, int number)
{
    static const int64_t milestones[] = {30, 4, 4, 11};
    switch (number) {
    case 0: return ts_constant_lr_new(out, o, 0.25, 8);
    case 1: return ts_step_lr_new(out, o, 6, 0.7);
    case 2: return ts_multi_step_lr_new(out, o, milestones, 4, 0.6);
    case 3: return ts_exponential_lr_new(out, o, 0.93);
    case 4: return ts_linear_lr_new(out, o, 0.3, 0.9, 17);
    case 5: return ts_polynomial_lr_new(out, o, 33, 1.7);
    case 6: return ts_cosine_annealing_lr_new(out, o, 12, 0.004);
    case 7: return ts_cosine_annealing_warm_restarts_new(out, o, 5, 2, 0.003);
    case 8: return ts_lambda_lr_new(out, o, wave, NULL);
    case ONE_CYCLE: return make_one_cycle(out, o);
    case THREE_PHASES: return make_three_phases(out, o);
    case PLATEAU:
    case PLATEAU_MAX: return make_plateau(out, o, number == PLATEAU_MAX);
    default: return make_three(out, o, number);
    }
}

static ts_tensor_list *some_params(const char *name)
{
    ts_tensor_list *params = ts_tensor_list_new();
    ts_tensor *t = ts_zeros(TS_SHAPE(2), NULL);
    if (ts_set_requires_grad(t, true) != TS_OK || ts_tensor_list_add(params, name, t) != TS_OK)
        return NULL;
    return params;
}

/* Two groups with rates 0.1 and 0.02. */
static ts_optim *make_optim(int number)
{
    ts_optim *o = NULL;
    ts_status status = number == THREE_PHASES ? ts_adamw_new(&o, some_params("a"), NULL)
                                              : ts_sgd_new(&o, some_params("a"), NULL);
    if (status == TS_OK) status = ts_optim_add_param_group(o, some_params("b"), NULL);
    if (status == TS_OK) status = ts_optim_set_option(o, 0, "lr", 0.1);
    if (status == TS_OK) status = ts_optim_set_option(o, 1, "lr", 0.02);
    return status == TS_OK ? o : NULL;
}

static ts_status step(ts_lr_scheduler *s, int number, int64_t n)
{
    return number >= PLATEAU ? ts_lr_scheduler_step_metric(s, metric(n)) : ts_lr_scheduler_step(s);
}

static void compare(ts_test *test, const ts_tensor_list *golden, const ts_optim *o, int number,
                    int64_t n)
{
    for (int g = 0; g < GROUPS; g++) {
        double expected, momentum;
        ts_tensor *rates = ts_golden_get(golden, "lr.%d", number);
        ts_tensor *momenta = ts_golden_get(golden, "momentum.%d", number);
        TS_PASS(ts_item(ts_select(ts_select(rates, 0, n), 0, g), &expected));
        TS_EXPECT_NEAR(ts_optim_group_lr(o, g), expected, 1e-12 * (1e-2 + expected));
        if (!momenta) continue;
        const char *name = number == THREE_PHASES ? "beta1" : "momentum";
        TS_PASS(ts_item(ts_select(ts_select(momenta, 0, n), 0, g), &expected));
        TS_PASS(ts_optim_option(o, g, name, &momentum));
        TS_EXPECT_NEAR(momentum, expected, 1e-12);
    }
}

TS_TEST(schedules_equal_pytorch_over_50_steps)
{
    ts_tensor_list *golden;
    TS_PASS(ts_golden_read(&golden, "tests/golden/schedule.bin"));
    for (int number = 0; number < CASES; number++) {
        ts_optim *o = make_optim(number);
        ts_lr_scheduler *s = NULL;
        TS_PASS(make(&s, o, number));
        compare(test, golden, o, number, 0);
        for (int64_t n = 0; n < STEPS; n++) {
            TS_PASS(step(s, number, n));
            compare(test, golden, o, number, n + 1);
        }
        TS_EXPECT(ts_lr_scheduler_last_step(s) == STEPS);
        if (test->failures) fprintf(stderr, "in case %d\n", number);
        ts_lr_scheduler_free(s);
        ts_optim_free(o);
    }
    ts_tensor_list_free(golden);
}

/* Saved at step 23 as bytes and loaded into new ones: all goes on as before. */
TS_TEST(schedules_go_on_from_their_state)
{
    ts_tensor_list *golden;
    TS_PASS(ts_golden_read(&golden, "tests/golden/schedule.bin"));
    for (int number = 0; number < CASES; number++) {
        ts_optim *first = make_optim(number), *second = make_optim(number);
        ts_lr_scheduler *s = NULL, *t = NULL;
        void *bytes;
        size_t size;
        TS_PASS(make(&s, first, number));
        TS_PASS(make(&t, second, number));
        for (int64_t n = 0; n < 23; n++) TS_PASS(step(s, number, n));
        ts_object *state = ts_lr_scheduler_state_dict(s);
        TS_PASS(ts_object_encode(state, &bytes, &size));
        ts_object *read = ts_object_decode(bytes, size);
        ts_tensor_list *rates = ts_optim_state_dict(first);
        TS_PASS(ts_lr_scheduler_load_state_dict(t, read));
        TS_PASS(ts_optim_load_state_dict(second, rates));
        ts_tensor_list_free(rates);
        for (int64_t n = 23; n < STEPS; n++) {
            TS_PASS(step(t, number, n));
            compare(test, golden, second, number, n + 1);
        }
        if (test->failures) fprintf(stderr, "in case %d\n", number);
        free(bytes);
        ts_object_free(read);
        ts_object_free(state);
        ts_lr_scheduler_free(s);
        ts_lr_scheduler_free(t);
        ts_optim_free(first);
        ts_optim_free(second);
    }
    ts_tensor_list_free(golden);
}

TS_TEST(schedules_refuse_what_is_wrong)
{
    ts_optim *o = make_optim(0), *other = make_optim(0), *adagrad = NULL;
    ts_lr_scheduler *s = NULL, *pair[2];
    ts_one_cycle_lr_options cycle = TS_ONE_CYCLE_LR_OPTIONS_INIT;
    int64_t milestone = 0;
    TS_FAIL(ts_step_lr_new(&s, NULL, 3, 0.1), TS_EINVAL, "step_lr: the optimizer is missing");
    TS_FAIL(ts_step_lr_new(&s, o, 0, 0.1), TS_EINVAL, "step_size is 0; it must be at least 1");
    TS_FAIL(ts_constant_lr_new(&s, o, 1.5, 3), TS_EINVAL, "factor is 1.5");
    TS_FAIL(ts_linear_lr_new(&s, o, 0.0, 1, 3), TS_EINVAL, "start_factor is 0");
    TS_FAIL(ts_exponential_lr_new(&s, o, (double)NAN), TS_EINVAL, "gamma is nan");
    TS_FAIL(ts_lambda_lr_new(&s, o, NULL, NULL), TS_EINVAL, "the function is missing");
    TS_FAIL(ts_multi_step_lr_new(&s, o, NULL, 2, 0.1), TS_EINVAL, "2 milestones at no address");
    TS_FAIL(ts_one_cycle_lr_new(&s, o, &cycle), TS_EINVAL, "max_lr is 0");
    TS_FAIL(ts_chained_scheduler_new(&s, NULL, 0), TS_EINVAL, "there are no schedules");
    cycle.max_lr = 1;
    cycle.total_steps = 2;
    TS_PASS(ts_adagrad_new(&adagrad, some_params("a"), NULL));
    TS_FAIL(ts_one_cycle_lr_new(&s, adagrad, &cycle), TS_EINVAL, "neither momentum nor beta1");
    TS_EXPECT(s == NULL);
    TS_PASS(ts_step_lr_new(&pair[0], o, 3, 0.1));
    TS_PASS(ts_step_lr_new(&pair[1], other, 3, 0.1));
    TS_FAIL(ts_chained_scheduler_new(&s, pair, 2), TS_EINVAL, "of another optimizer");
    TS_PASS(ts_step_lr_new(&pair[0], o, 3, 0.1));
    TS_PASS(ts_step_lr_new(&pair[1], o, 3, 0.1));
    TS_FAIL(ts_sequential_lr_new(&s, pair, 2, &milestone), TS_EINVAL, "they must ascend from 1 on");
    TS_PASS(ts_reduce_lr_on_plateau_new(&s, o, NULL));
    TS_FAIL(ts_lr_scheduler_step(s), TS_EINVAL, "use ts_lr_scheduler_step_metric");
    ts_lr_scheduler_free(s);
    TS_PASS(ts_one_cycle_lr_new(&s, o, &cycle));
    TS_PASS(ts_lr_scheduler_step(s));
    TS_PASS(ts_lr_scheduler_step(s));
    TS_FAIL(ts_lr_scheduler_step(s), TS_EINVAL, "step 3 is beyond total_steps, 2");
    TS_FAIL(ts_lr_scheduler_step_metric(s, 1), TS_EINVAL, "the schedule is one_cycle_lr");
    ts_lr_scheduler_free(s);
    ts_lr_scheduler_free(NULL);
    ts_optim_free(o);
    ts_optim_free(other);
    ts_optim_free(adagrad);
}

TS_TEST(schedules_keep_their_state_when_loading_fails)
{
    ts_optim *o = make_optim(0);
    ts_lr_scheduler *s = NULL, *other = NULL;
    TS_PASS(make(&s, o, 9));
    TS_PASS(ts_step_lr_new(&other, o, 3, 0.1));
    for (int i = 0; i < 7; i++) TS_PASS(ts_lr_scheduler_step(s));
    ts_object *state = ts_lr_scheduler_state_dict(other), *damaged = ts_lr_scheduler_state_dict(s);
    ts_object_set(ts_object_at(ts_object_get(damaged, "schedulers"), 2), "T_cur",
                  ts_object_text("x"));
    ts_object_set(damaged, "last_epoch", ts_object_int(1));
    TS_FAIL(ts_lr_scheduler_load_state_dict(s, state), TS_EINVAL, "the state is of step_lr");
    TS_EXPECT(ts_lr_scheduler_load_state_dict(s, damaged) != TS_OK);
    TS_FAIL(ts_lr_scheduler_load_state_dict(s, NULL), TS_EINVAL, "a schedule and a state");
    TS_EXPECT_INT(ts_lr_scheduler_last_step(s), 7);
    TS_PASS(ts_optim_add_param_group(o, some_params("c"), NULL));
    TS_FAIL(ts_lr_scheduler_step(s), TS_ESTATE, "the optimizer has 3 parameter groups");
    ts_object_free(state);
    ts_object_free(damaged);
    ts_lr_scheduler_free(s);
    ts_lr_scheduler_free(other);
    ts_optim_free(o);
}
