/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

static ts_tensor *param_of(ts_shape shape, double value, double grad)
{
    ts_tensor *t = ts_full(shape, value, NULL);
    ts_set_requires_grad(t, true);
    ts_set_grad(t, ts_full(shape, grad, NULL));
    return t;
}

static ts_tensor_list *list_of(ts_tensor *a, ts_tensor *b)
{
    ts_tensor_list *list = ts_tensor_list_new();
    ts_tensor_list_add(list, "a", a);
    if (b) ts_tensor_list_add(list, "b", b);
    return list;
}

TS_TEST(optim_skips_parameters_without_gradient)
{
    ts_tensor *a = param_of(TS_SHAPE(3), 1.0, 1.0), *b = param_of(TS_SHAPE(3), 1.0, 1.0);
    ts_optim *optim;
    uint64_t before;
    TS_PASS(ts_adamw_new(&optim, list_of(a, b), NULL));
    TS_PASS(ts_set_grad(b, NULL));
    before = ts_tensor_version(a);
    TS_PASS(ts_optim_step(optim));
    TS_EXPECT_ALL(ts_detach(b), 1.0);
    TS_EXPECT(ts_tensor_version(a) > before);
    ts_tensor_list *state = ts_optim_state_dict(optim);
    TS_EXPECT_INT(ts_tensor_list_count(state), 3 + 7); /* and the options of a group */
    TS_EXPECT_STR(ts_tensor_list_name(state, 0), "exp_avg.a");
    TS_EXPECT_STR(ts_tensor_list_name(state, 1), "exp_avg_sq.a");
    TS_EXPECT_STR(ts_tensor_list_name(state, 2), "step.a");
    TS_EXPECT_ALL(ts_tensor_list_get(state, 2), 1.0);
    ts_tensor_list_free(state);
    ts_optim_zero_grad(optim);
    TS_EXPECT(!ts_grad(a));
    TS_PASS(ts_optim_step(optim));
    ts_optim_free(optim);
}

TS_TEST(optim_state_continues_where_it_was)
{
    enum { N = 40000 }; /* more than one chunk */
    for (int rule = 0; rule < 2; rule++) {
        ts_manual_seed(1);
        ts_tensor *a = ts_randn(TS_SHAPE(N), NULL), *b = ts_clone(a);
        ts_optim *x, *y;
        ts_sgd_options sgd = {sizeof sgd, 0.1, 0.9, 0.5, 0.0, false, false};
        TS_PASS(ts_set_requires_grad(a, true));
        TS_PASS(ts_set_requires_grad(b, true));
        TS_PASS(rule ? ts_adamw_new(&x, list_of(a, NULL), NULL)
                     : ts_sgd_new(&x, list_of(a, NULL), &sgd));
        TS_PASS(rule ? ts_adamw_new(&y, list_of(b, NULL), NULL)
                     : ts_sgd_new(&y, list_of(b, NULL), &sgd));
        for (int step = 0; step < 4; step++) {
            TS_PASS(ts_set_grad(a, ts_randn(TS_SHAPE(N), NULL)));
            TS_PASS(ts_optim_step(x));
            if (step == 1) { /* b takes over a's state */
                ts_tensor_list *state = ts_optim_state_dict(x);
                bool former = ts_no_grad_begin();
                TS_GOOD(ts_copy_(b, a));
                ts_no_grad_end(former);
                TS_PASS(ts_optim_load_state_dict(y, state));
                ts_tensor_list_free(state);
            }
            if (step >= 2) {
                TS_PASS(ts_set_grad(b, ts_clone(ts_grad(a))));
                TS_PASS(ts_optim_step(y));
                TS_EXPECT_EQUAL(ts_detach(b), ts_detach(a));
            }
        }
        ts_optim_free(x);
        ts_optim_free(y);
    }
}

TS_TEST(optim_load_errors_change_nothing)
{
    ts_tensor *a = param_of(TS_SHAPE(3), 1.0, 1.0);
    ts_optim *optim;
    TS_PASS(ts_adamw_new(&optim, list_of(a, NULL), NULL));
    TS_PASS(ts_optim_step(optim));
    ts_tensor_list *state = ts_tensor_list_new();
    TS_PASS(ts_tensor_list_add(state, "exp_avg.a", ts_zeros(TS_SHAPE(3), NULL)));
    TS_PASS(ts_tensor_list_add(state, "step.a", ts_zeros(ts_shape_scalar(), NULL)));
    TS_FAIL(ts_optim_load_state_dict(optim, state), TS_EINVAL, "'exp_avg_sq.a' is missing");
    TS_PASS(ts_tensor_list_add(state, "exp_avg_sq.a", ts_zeros(TS_SHAPE(4), NULL)));
    TS_FAIL(ts_optim_load_state_dict(optim, state), TS_ESHAPE,
            "'exp_avg_sq.a' has shape (4,), needs (3,)");
    TS_PASS(ts_tensor_list_add(state, "momentum_buffer.a", ts_zeros(TS_SHAPE(3), NULL)));
    TS_FAIL(ts_optim_load_state_dict(optim, state), TS_EINVAL,
            "'momentum_buffer.a' is not a state");
    ts_tensor_list_free(state);
    state = ts_optim_state_dict(optim);
    TS_EXPECT_ALL(ts_tensor_list_find(state, "step.a"), 1.0);
    TS_EXPECT_NEAR(ts_size(ts_tensor_list_find(state, "exp_avg.a"), 0), 3, 0);
    ts_tensor_list_free(state);
    state = ts_tensor_list_new(); /* nothing in it: nothing is kept */
    TS_PASS(ts_optim_load_state_dict(optim, state));
    ts_tensor_list_free(state);
    state = ts_optim_state_dict(optim);
    TS_EXPECT_INT(ts_tensor_list_count(state), 7); /* the options of a group */
    ts_tensor_list_free(state);
    TS_FAIL(ts_optim_load_state_dict(optim, NULL), TS_EINVAL, "needed");
    ts_optim_free(optim);
}

TS_TEST(optim_memory_is_in_its_line_of_the_ledger)
{
    ts_memory_stats before, after;
    ts_tensor *a = param_of(TS_SHAPE(1000), 1.0, 1.0);
    ts_optim *optim;
    ts_memory_read(&before);
    TS_PASS(ts_adamw_new(&optim, list_of(a, NULL), NULL));
    TS_PASS(ts_optim_step(optim));
    TS_PASS(ts_optim_step(optim));
    ts_memory_read(&after);
    TS_EXPECT_INT(after.current[TS_CATEGORY_OPTIMIZER] - before.current[TS_CATEGORY_OPTIMIZER],
                  8004);
    TS_EXPECT_INT(after.current_total - before.current_total, 8004);
    ts_optim_free(optim);
    ts_memory_read(&after);
    TS_EXPECT_INT(after.current_total, before.current_total);
}

TS_TEST(optim_refuses_wrong_arguments)
{
    ts_optim *optim = NULL;
    ts_tensor *a = param_of(TS_SHAPE(1), 1.0, 1.0);
    ts_sgd_options sgd = TS_SGD_OPTIONS_INIT;
    ts_adamw_options adamw = TS_ADAMW_OPTIONS_INIT;
    TS_FAIL(ts_sgd_new(&optim, ts_tensor_list_new(), NULL), TS_EINVAL,
            "sgd: the list of parameters is empty");
    TS_FAIL(ts_sgd_new(&optim, NULL, NULL), TS_EINVAL, "missing");
    TS_FAIL(ts_sgd_new(&optim, list_of(a, a), NULL), TS_EINVAL, "'a' and 'b' are the same tensor");
    TS_FAIL(ts_sgd_new(&optim, list_of(ts_mul_scalar(a, 2), NULL), NULL), TS_EINVAL, "leaves");
    sgd.lr = -1;
    TS_FAIL(ts_sgd_new(&optim, list_of(a, NULL), &sgd), TS_EINVAL, "sgd: lr is -1");
    sgd.lr = NAN;
    TS_FAIL(ts_sgd_new(&optim, list_of(a, NULL), &sgd), TS_EINVAL, "sgd: lr is nan");
    sgd = (ts_sgd_options){sizeof sgd, 0.1, 0.0, 0.0, 0.0, true, false};
    TS_FAIL(ts_sgd_new(&optim, list_of(a, NULL), &sgd), TS_EINVAL, "nesterov needs momentum");
    adamw.beta2 = 1.0;
    TS_FAIL(ts_adamw_new(&optim, list_of(a, NULL), &adamw), TS_EINVAL,
            "beta2 is 1; it must be in [0, 1)");
    adamw = (ts_adamw_options){0};
    TS_FAIL(ts_adamw_new(&optim, list_of(a, NULL), &adamw), TS_EINVAL, "not initialised");
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_BFLOAT16;
    TS_FAIL(ts_adamw_new(&optim, list_of(ts_zeros(TS_SHAPE(1), &opt), NULL), NULL), TS_EDTYPE,
            "'a' is bfloat16; needs float32 or float64");
    TS_FAIL(ts_optim_step(NULL), TS_EINVAL, "missing");
    TS_EXPECT(optim == NULL);
}

TS_TEST(optim_learning_rate_can_change)
{
    ts_tensor *a = param_of(TS_SHAPE(2), 1.0, 1.0);
    ts_optim *optim;
    TS_PASS(ts_sgd_new(&optim, list_of(a, NULL), NULL));
    TS_EXPECT_NEAR(ts_optim_lr(optim), 1e-3, 0);
    ts_optim_set_lr(optim, 0.5);
    TS_EXPECT_NEAR(ts_optim_lr(optim), 0.5, 0);
    TS_PASS(ts_optim_step(optim));
    TS_EXPECT_ALL(ts_detach(a), 0.5);
    ts_optim_free(optim);
}

TS_TEST(clip_and_step_give_the_same_bits_for_any_number_of_threads)
{
    enum { N = 200003 };
    double norm[2];
    ts_tensor *result[2];
    for (int k = 0; k < 2; k++) {
        TS_PASS(ts_set_num_threads(k ? 3 : 1));
        ts_manual_seed(4);
        ts_tensor *a = ts_randn(TS_SHAPE(N), NULL), *b = ts_randn(TS_SHAPE(7, 5), NULL);
        TS_PASS(ts_set_requires_grad(a, true));
        TS_PASS(ts_set_requires_grad(b, true));
        TS_PASS(ts_set_grad(a, ts_randn(TS_SHAPE(N), NULL)));
        TS_PASS(ts_set_grad(b, ts_randn(TS_SHAPE(7, 5), NULL)));
        ts_tensor_list *list = list_of(a, b);
        TS_PASS(ts_clip_grad_norm(&norm[k], list, 1.0, 2.0));
        ts_optim *optim;
        TS_PASS(ts_adamw_new(&optim, list, NULL));
        TS_PASS(ts_optim_step(optim));
        result[k] = ts_detach(a);
        ts_optim_free(optim);
    }
    TS_EXPECT(norm[0] == norm[1]);
    TS_EXPECT_NEAR(norm[0], sqrt(N + 35.0), 3.0);
    TS_EXPECT_EQUAL(result[0], result[1]);
}

TS_TEST(clip_of_odd_gradients)
{
    ts_tensor *a = param_of(TS_SHAPE(2), 1.0, 3.0), *b = param_of(TS_SHAPE(0), 1.0, 1.0);
    ts_tensor_list *list = list_of(a, b);
    double norm;
    TS_PASS(ts_clip_grad_norm(&norm, list, INFINITY, 2.0)); /* only the norm */
    TS_EXPECT_NEAR(norm, 3.0 * sqrt(2.0), 1e-12);
    TS_EXPECT_ALL(ts_grad(a), 3.0);
    TS_PASS(ts_set_grad(a, ts_full(TS_SHAPE(2), NAN, NULL)));
    TS_PASS(ts_clip_grad_norm(&norm, list, 1.0, 2.0));
    TS_EXPECT(isnan(norm));
    TS_PASS(ts_clip_grad_norm(&norm, list, 1.0, INFINITY));
    TS_EXPECT(isnan(norm));
    TS_PASS(ts_set_grad(a, NULL));
    TS_PASS(ts_clip_grad_norm(&norm, list, 1.0, 2.0));
    TS_EXPECT_NEAR(norm, 0.0, 0);
    TS_PASS(ts_clip_grad_norm(NULL, list, 1.0, 2.0));
    TS_FAIL(ts_clip_grad_norm(&norm, NULL, 1.0, 2.0), TS_EINVAL, "missing");
    TS_FAIL(ts_clip_grad_norm(&norm, list, -1.0, 2.0), TS_EINVAL, "max_norm is -1");
    TS_FAIL(ts_clip_grad_norm(&norm, list, 1.0, 0.0), TS_EINVAL, "p is 0");
    ts_tensor_list_free(list);
}

TS_TEST(learning_rate_warms_up_and_decays)
{
    TS_EXPECT_NEAR(ts_lr_warmup_cosine(0, 10, 110, 1.0, 0.1), 0.0, 0);
    TS_EXPECT_NEAR(ts_lr_warmup_cosine(5, 10, 110, 1.0, 0.1), 0.5, 1e-15);
    TS_EXPECT_NEAR(ts_lr_warmup_cosine(10, 10, 110, 1.0, 0.1), 1.0, 1e-15);
    TS_EXPECT_NEAR(ts_lr_warmup_cosine(60, 10, 110, 1.0, 0.1), 0.55, 1e-15);
    TS_EXPECT_NEAR(ts_lr_warmup_cosine(110, 10, 110, 1.0, 0.1), 0.1, 0);
    TS_EXPECT_NEAR(ts_lr_warmup_cosine(500, 10, 110, 1.0, 0.1), 0.1, 0);
    TS_EXPECT_NEAR(ts_lr_warmup_cosine(0, 0, 10, 1.0, 0.1), 1.0, 1e-15);
    TS_EXPECT_NEAR(ts_lr_warmup_cosine(3, 5, 5, 1.0, 0.1), 0.6, 1e-15);
    TS_EXPECT_NEAR(ts_lr_warmup_cosine(5, 5, 5, 1.0, 0.1), 0.1, 0);
    TS_EXPECT_NEAR(ts_lr_warmup_cosine(-1, 5, 9, 1.0, 0.1), 0.0, 0);
}

TS_TEST(clip_by_value_and_by_a_given_norm)
{
    ts_tensor *a = param_of(TS_SHAPE(3), 1.0, 3.0), *b = param_of(TS_SHAPE(0), 1.0, 1.0);
    ts_tensor *c = param_of(TS_SHAPE(2), 1.0, -5.0);
    ts_tensor_list *list = list_of(a, b);
    double norm;
    TS_PASS(ts_tensor_list_add(list, "c", c));
    TS_PASS(ts_clip_grad_value(list, 4.0));
    TS_EXPECT_ALL(ts_grad(a), 3.0);
    TS_EXPECT_ALL(ts_grad(c), -4.0);
    TS_PASS(ts_grad_norm(&norm, list, 1.0, true));
    TS_EXPECT_NEAR(norm, 17.0, 1e-12);
    TS_PASS(ts_clip_grads_with_norm(list, 2.0, 4.0 - 1e-6));
    TS_EXPECT_ALL(ts_grad(a), 1.5);
    TS_EXPECT_ALL(ts_grad(c), -2.0);
    TS_PASS(ts_clip_grads_with_norm(list, 2.0, 1.0));
    TS_EXPECT_ALL(ts_grad(a), 1.5);
    TS_PASS(ts_set_grad(c, ts_full(TS_SHAPE(2), NAN, NULL)));
    TS_PASS(ts_clip_grad_value(list, 1.0));
    TS_EXPECT_ALL(ts_grad(a), 1.0);
    TS_PASS(ts_grad_norm(&norm, list, 2.0, false));
    TS_EXPECT(isnan(norm));
    TS_FAIL(ts_grad_norm(&norm, list, INFINITY, true), TS_EINVAL, "not finite");
    TS_FAIL(ts_clip_grad_value(list, -1.0), TS_EINVAL, "value is -1");
    TS_FAIL(ts_clip_grad_value(NULL, 1.0), TS_EINVAL, "missing");
    ts_tensor_list_free(list);
}

TS_TEST(optim_groups_have_their_own_options)
{
    ts_tensor *a = param_of(TS_SHAPE(2), 1.0, 1.0), *b = param_of(TS_SHAPE(2), 1.0, 1.0);
    ts_optim *optim;
    double value;
    ts_sgd_options opt = TS_SGD_OPTIONS_INIT;
    TS_PASS(ts_sgd_new(&optim, list_of(a, NULL), NULL));
    opt.lr = 0.5;
    opt.momentum = 0.9;
    ts_tensor_list *second = ts_tensor_list_new();
    TS_PASS(ts_tensor_list_add(second, "b", b));
    TS_PASS(ts_optim_add_param_group(optim, second, &opt));
    TS_EXPECT_INT(ts_optim_num_groups(optim), 2);
    TS_PASS(ts_optim_set_option(optim, 0, "lr", 0.25));
    TS_PASS(ts_optim_step(optim));
    TS_EXPECT_ALL(ts_detach(a), 0.75);
    TS_EXPECT_ALL(ts_detach(b), 0.5);
    TS_EXPECT_NEAR(ts_optim_group_lr(optim, 1), 0.5, 0);
    TS_EXPECT(isnan(ts_optim_group_lr(optim, 2)));
    ts_tensor_list *state = ts_optim_state_dict(optim);
    TS_EXPECT(!ts_tensor_list_find(state, "momentum_buffer.a"));
    TS_EXPECT_ALL(ts_tensor_list_find(state, "momentum_buffer.b"), 1.0);
    TS_EXPECT_ALL(ts_tensor_list_find(state, "param_groups.1.momentum"), 0.9);
    ts_optim_set_lr(optim, 9.0);
    TS_PASS(ts_optim_set_option(optim, 1, "momentum", 0.0));
    TS_PASS(ts_optim_load_state_dict(optim, state));
    TS_EXPECT_NEAR(ts_optim_group_lr(optim, 0), 0.25, 0);
    TS_PASS(ts_optim_option(optim, 1, "momentum", &value));
    TS_EXPECT_NEAR(value, 0.9, 0);
    ts_tensor_list_free(state);
    /* What is refused changes nothing. */
    TS_FAIL(ts_optim_set_option(optim, 0, "nesterov", 1.0), TS_EINVAL, "nesterov needs momentum");
    TS_PASS(ts_optim_option(optim, 0, "nesterov", &value));
    TS_EXPECT_NEAR(value, 0.0, 0);
    TS_FAIL(ts_optim_set_option(optim, 0, "beta1", 1.0), TS_EINVAL, "'beta1' is not an option");
    TS_FAIL(ts_optim_set_option(optim, 2, "lr", 1.0), TS_EINVAL, "no group 2");
    ts_tensor_list *twice = ts_tensor_list_new();
    TS_PASS(ts_tensor_list_add(twice, "c", b));
    TS_FAIL(ts_optim_add_param_group(optim, twice, NULL), TS_EINVAL, "same tensor");
    ts_tensor *c = param_of(TS_SHAPE(1), 1.0, 1.0);
    TS_FAIL(ts_optim_add_param_group(optim, list_of(c, NULL), NULL), TS_EINVAL,
            "two parameters are called 'a'");
    TS_EXPECT_INT(ts_optim_num_groups(optim), 2);
    state = ts_tensor_list_new();
    ts_tensor_options f64 = TS_TENSOR_OPTIONS_INIT;
    f64.dtype = TS_FLOAT64;
    TS_PASS(ts_tensor_list_add(state, "param_groups.0.lr", ts_full(TS_SHAPE(1), 3.0, &f64)));
    TS_PASS(ts_tensor_list_add(state, "param_groups.1.lr", ts_full(TS_SHAPE(1), -3.0, &f64)));
    TS_FAIL(ts_optim_load_state_dict(optim, state), TS_EINVAL, "lr is -3");
    TS_EXPECT_NEAR(ts_optim_group_lr(optim, 0), 0.25, 0);
    ts_tensor_list_free(state);
    ts_optim_free(optim);
}

static ts_tensor *square_loss(void *user)
{
    ts_tensor *a = user, *loss = ts_sum(ts_mul(a, a));
    return ts_set_grad(a, NULL) == TS_OK && ts_backward(loss) == TS_OK ? loss : NULL;
}

static ts_tensor *failed_loss(void *user) { return ts_add(user, ts_zeros(TS_SHAPE(3), NULL)); }

TS_TEST(optim_closures_and_given_gradients)
{
    ts_tensor *a = param_of(TS_SHAPE(2), 1.0, 7.0), *b = param_of(TS_SHAPE(2), 1.0, 1.0);
    ts_optim *optim;
    double loss = 0;
    TS_PASS(ts_sgd_new(&optim, list_of(a, b), NULL));
    ts_optim_set_lr(optim, 0.25);
    TS_PASS(ts_set_grad(b, NULL));
    TS_PASS(ts_optim_step_closure(optim, square_loss, a, &loss));
    TS_EXPECT_NEAR(loss, 2.0, 0);
    TS_EXPECT_ALL(ts_detach(a), 0.5);
    TS_FAIL(ts_optim_step_closure(optim, failed_loss, a, &loss), TS_ESHAPE, "add");
    TS_EXPECT_ALL(ts_detach(a), 0.5);
    ts_tensor *params[] = {b, a}, *grads[] = {ts_full(TS_SHAPE(2), 2.0, NULL), NULL};
    TS_PASS(ts_optim_step_with(optim, params, grads, 2));
    TS_EXPECT_ALL(ts_detach(b), 0.5);
    TS_EXPECT_ALL(ts_detach(a), 0.5);
    params[1] = b;
    grads[1] = grads[0];
    TS_FAIL(ts_optim_step_with(optim, params, grads, 2), TS_EINVAL, "'b' is given twice");
    params[0] = grads[0];
    TS_FAIL(ts_optim_step_with(optim, params, grads, 1), TS_EINVAL, "not a parameter");
    ts_optim_free(optim);
}
