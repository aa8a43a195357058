/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/debug.h>

#include "tensor/tensor.h"
#include "test.h"

/* y = a(x), and on some ranks also b(x); c is never used. */
typedef struct branches {
    ts_module *a, *b, *c;
    bool use_b;
} branches;

static ts_tensor *branches_forward(ts_module *self, ts_tensor *x)
{
    branches *m = ts_module_state(self);
    ts_tensor *y = ts_forward(m->a, x);
    return m->use_b ? ts_add(y, ts_forward(m->b, x)) : y;
}

static const ts_module_class branches_class = {
    .name = "branches", .state_size = sizeof(branches), .forward = branches_forward};

static ts_module *square(int64_t n, double value)
{
    ts_linear_options opt = TS_LINEAR_OPTIONS_INIT;
    opt.bias = false;
    ts_module *m = ts_linear_new(n, n, &opt);
    ts_init_constant_(ts_module_parameter(m, "weight"), value);
    return m;
}

static ts_module *branches_new(bool with_c)
{
    ts_module *self = ts_module_new(&branches_class);
    branches *m = ts_module_state(self);
    m->a = ts_module_add(self, "a", square(2, 1.0));
    m->b = ts_module_add(self, "b", square(2, 1.0));
    if (with_c) m->c = ts_module_add(self, "c", square(2, 1.0));
    m->use_b = true;
    return self;
}

static ts_module *mlp(uint64_t seed)
{
    const int64_t sizes[] = {6, 16, 16, 3};
    ts_manual_seed(seed);
    return ts_mlp_new(sizes, 4);
}

/* Every parameter has the same bits on all ranks. */
static bool replicas_equal(ts_group *group, ts_module *m)
{
    ts_tensor_list *list = ts_module_parameters(m);
    int size = ts_group_size(group);
    bool equal = true;
    for (int64_t i = 0; i < ts_tensor_list_count(list); i++) {
        ts_tensor *p = ts_detach(ts_tensor_list_get(list, i));
        ts_tensor *all = ts_empty(TS_SHAPE(size, ts_numel(p)), NULL);
        if (ts_all_gather_into_tensor(group, all, p, NULL) != TS_OK) return false;
        for (int r = 1; r < size; r++)
            equal =
                equal && memcmp(ts_data(all), (const char *)ts_data(all) + (size_t)r * ts_nbytes(p),
                                ts_nbytes(p)) == 0;
    }
    ts_tensor_list_free(list);
    return equal;
}

/* Row r of a global batch that every rank can make. */
static ts_tensor *batch_rows(int64_t first, int64_t rows, int step, int64_t columns)
{
    ts_manual_seed(1000 + (uint64_t)step);
    return ts_narrow(ts_randn(TS_SHAPE(24, columns), NULL), 0, first, rows);
}

static ts_status sgd_steps(ts_module *m, ts_optim *opt, int64_t first, int64_t rows, int steps)
{
    for (int step = 0; step < steps; step++) {
        ts_scope scope = ts_scope_begin();
        ts_tensor *x = batch_rows(first, rows, step, 6);
        ts_tensor *y = ts_narrow(ts_tanh(x), 1, 0, 3);
        ts_optim_zero_grad(opt);
        ts_status status = ts_backward(ts_mse_loss(ts_forward(m, x), y));
        if (status == TS_OK) status = ts_optim_step(opt);
        ts_scope_end(scope);
        if (status != TS_OK) return status;
    }
    return TS_OK;
}

static ts_optim *sgd(ts_module *m)
{
    ts_optim *opt = NULL;
    ts_sgd_options o = TS_SGD_OPTIONS_INIT;
    o.lr = 0.1;
    o.momentum = 0.9;
    ts_must(ts_sgd_new(&opt, ts_module_parameters(m), &o));
    return opt;
}

TS_TEST(ddp_equals_one_process_on_the_joined_batch, .ranks = 3)
{
    ts_module *ddp, *alone = mlp(7);
    TS_PASS(ts_ddp_new(&ddp, mlp(7 + (uint64_t)test->rank), NULL));
    ts_optim *opt = sgd(ddp), *opt_alone = sgd(alone);
    TS_PASS(sgd_steps(ddp, opt, 8 * test->rank, 8, 20));
    TS_PASS(sgd_steps(alone, opt_alone, 0, 24, 20));
    TS_EXPECT(replicas_equal(test->group, ddp));
    TS_EXPECT_CLOSE(ts_module_parameter(ddp, "module.fc1.weight"),
                    ts_module_parameter(alone, "fc1.weight"), 1e-5, 1e-6);
    TS_EXPECT_CLOSE(ts_module_parameter(ddp, "module.fc3.bias"),
                    ts_module_parameter(alone, "fc3.bias"), 1e-5, 1e-6);
    ts_optim_free(opt);
    ts_optim_free(opt_alone);
    ts_module_free(ddp);
    ts_module_free(alone);
}

TS_TEST(ddp_broadcasts_rank_0s_values, .ranks = 2)
{
    ts_module *ddp, *expected = mlp(1);
    TS_PASS(ts_ddp_new(&ddp, mlp(1 + (uint64_t)test->rank), NULL));
    TS_EXPECT_EQUAL(ts_module_parameter(ddp, "module.fc2.weight"),
                    ts_module_parameter(expected, "fc2.weight"));
    TS_EXPECT(ts_ddp_module(ddp) == ts_module_child(ddp, "module"));
    TS_EXPECT(ts_ddp_module(expected) == NULL);
    ts_module_train(ddp, false);
    TS_EXPECT(!ts_module_is_training(ts_ddp_module(ddp)));
    ts_tensor_list *state = ts_module_state_dict(ddp);
    TS_EXPECT_INT(ts_tensor_list_count(state), 6);
    for (int i = 0; i < 6; i++)
        TS_EXPECT(strncmp(ts_tensor_list_name(state, i), "module.", 7) == 0);
    ts_tensor_list_free(state);
    ts_module_free(ddp);
    ts_module_free(expected);
}

/* Without init_sync nothing is said when the module is wrapped, and every rank keeps its values. */
TS_TEST(ddp_without_init_sync_says_nothing, .ranks = 2)
{
    ts_module *ddp, *own = mlp(1 + (uint64_t)test->rank);
    ts_ddp_options opt = TS_DDP_OPTIONS_INIT;
    uint64_t before = ts_group_sequence(test->group);
    opt.init_sync = false;
    TS_PASS(ts_ddp_new(&ddp, mlp(1 + (uint64_t)test->rank), &opt));
    TS_EXPECT_INT(ts_group_sequence(test->group), before);
    TS_EXPECT_EQUAL(ts_module_parameter(ddp, "module.fc2.weight"),
                    ts_module_parameter(own, "fc2.weight"));
    TS_EXPECT(!replicas_equal(test->group, ddp));
    ts_module_free(ddp);
    ts_module_free(own);
}

TS_TEST(ddp_gradients_are_views_of_the_buckets, .ranks = 2)
{
    ts_module *ddp;
    ts_ddp_stats stats;
    TS_PASS(ts_ddp_new(&ddp, mlp(3), NULL));
    ts_tensor *w = ts_module_parameter(ddp, "module.fc1.weight");
    ts_tensor *b = ts_module_parameter(ddp, "module.fc3.bias");
    TS_PASS(ts_backward(ts_sum(ts_forward(ddp, ts_ones(TS_SHAPE(4, 6), NULL)))));
    TS_EXPECT(ts_same_storage(ts_grad(w), ts_grad(b)));
    TS_EXPECT(ts_is_shared(ts_grad(w)));
    TS_PASS(ts_ddp_get_stats(&stats, ddp));
    TS_EXPECT_INT(stats.num_buckets, 1);
    TS_EXPECT_INT(stats.bucket_bytes_total, 4 * (6 * 16 + 16 + 16 * 16 + 16 + 16 * 3 + 3));
    TS_EXPECT_INT(stats.iterations, 1);
    TS_EXPECT(!stats.rebuilt_buckets);
    TS_PASS(ts_backward(ts_sum(ts_forward(ddp, ts_ones(TS_SHAPE(4, 6), NULL)))));
    TS_PASS(ts_ddp_get_stats(&stats, ddp));
    TS_EXPECT(stats.rebuilt_buckets);
    TS_EXPECT(ts_same_storage(ts_grad(w), ts_grad(b)));
    ts_module_free(ddp);
}

TS_TEST(ddp_small_buckets_give_the_same_bits, .ranks = 2)
{
    ts_module *one, *many;
    ts_ddp_options opt = TS_DDP_OPTIONS_INIT;
    ts_ddp_stats stats;
    TS_PASS(ts_ddp_new(&one, mlp(5), NULL));
    opt.bucket_cap_mb = 100.0 / 1048576.0;
    TS_PASS(ts_ddp_new(&many, mlp(5), &opt));
    ts_optim *opt_one = sgd(one), *opt_many = sgd(many);
    TS_PASS(sgd_steps(one, opt_one, 12 * test->rank, 12, 6));
    TS_PASS(sgd_steps(many, opt_many, 12 * test->rank, 12, 6));
    TS_PASS(ts_ddp_get_stats(&stats, many));
    TS_EXPECT(stats.num_buckets > 3);
    TS_EXPECT_EQUAL(ts_module_parameter(one, "module.fc1.weight"),
                    ts_module_parameter(many, "module.fc1.weight"));
    TS_EXPECT_EQUAL(ts_module_parameter(one, "module.fc3.weight"),
                    ts_module_parameter(many, "module.fc3.weight"));
    ts_optim_free(opt_one);
    ts_optim_free(opt_many);
    ts_module_free(one);
    ts_module_free(many);
}

/* w = 1, x = rank + 1: gradients 1 and 2, mean 1.5. */
static ts_status scalar_step(ts_module *ddp, double x)
{
    return ts_backward(ts_sum(ts_forward(ddp, ts_full(TS_SHAPE(1, 1), x, NULL))));
}

TS_TEST(ddp_no_sync_accumulates, .ranks = 2)
{
    ts_module *ddp;
    TS_PASS(ts_ddp_new(&ddp, square(1, 1.0), NULL));
    ts_tensor *w = ts_module_parameter(ddp, "module.weight");
    bool former = ts_ddp_no_sync_begin(ddp);
    TS_PASS(scalar_step(ddp, test->rank + 1));
    TS_EXPECT_ALL(ts_grad(w), test->rank + 1);
    ts_ddp_no_sync_end(ddp, former);
    TS_PASS(scalar_step(ddp, test->rank + 1));
    TS_EXPECT_ALL(ts_grad(w), 3.0); /* (1 + 1 + 2 + 2) / 2 */

    /* What counts is where forward ran. */
    ts_module_zero_grad(ddp);
    former = ts_ddp_no_sync_begin(ddp);
    ts_tensor *inside = ts_forward(ddp, ts_full(TS_SHAPE(1, 1), test->rank + 1, NULL));
    ts_ddp_no_sync_end(ddp, former);
    TS_PASS(ts_backward(ts_sum(inside)));
    TS_EXPECT_ALL(ts_grad(w), test->rank + 1);

    ts_module_zero_grad(ddp);
    ts_tensor *outside = ts_forward(ddp, ts_full(TS_SHAPE(1, 1), test->rank + 1, NULL));
    former = ts_ddp_no_sync_begin(ddp);
    TS_PASS(ts_backward(ts_sum(outside)));
    ts_ddp_no_sync_end(ddp, former);
    TS_EXPECT_ALL(ts_grad(w), 1.5);
    ts_module_free(ddp);
}

/* PyTorch's first example: one step of a linear model. */
TS_TEST(ddp_linear_example, .ranks = 2)
{
    ts_module *ddp;
    ts_optim *opt;
    TS_PASS(ts_ddp_new(&ddp, ts_linear_new(10, 10, NULL), NULL));
    ts_sgd_options o = TS_SGD_OPTIONS_INIT;
    TS_PASS(ts_sgd_new(&opt, ts_module_parameters(ddp), &o));
    ts_tensor *before = ts_clone(ts_detach(ts_module_parameter(ddp, "module.weight")));
    ts_tensor *x = batch_rows(4 * test->rank, 20, 0, 10), *y = batch_rows(0, 20, 1, 10);
    TS_PASS(ts_backward(ts_mse_loss(ts_forward(ddp, x), y)));
    TS_PASS(ts_optim_step(opt));
    TS_EXPECT(replicas_equal(test->group, ddp));
    double moved;
    ts_tensor *now = ts_detach(ts_module_parameter(ddp, "module.weight"));
    TS_PASS(ts_item(ts_norm(ts_sub(now, before), 2), &moved));
    TS_EXPECT(moved > 0);
    ts_optim_free(opt);
    ts_module_free(ddp);
}

/* Three backward passes inside the window and one behind it are one of the summed losses. */
TS_TEST(ddp_no_sync_loop_equals_one_backward, .ranks = 2)
{
    ts_module *ddp, *whole;
    ts_tensor *total = NULL, *loss;
    TS_PASS(ts_ddp_new(&ddp, mlp(4), NULL));
    TS_PASS(ts_ddp_new(&whole, mlp(4), NULL));
    bool former = ts_ddp_no_sync_begin(ddp);
    for (int i = 0; i < 4; i++) {
        ts_tensor *x = batch_rows(12 * test->rank, 12, i, 6);
        loss = ts_mean(ts_forward(whole, x));
        total = total ? ts_add(total, loss) : loss;
        if (i == 3) ts_ddp_no_sync_end(ddp, former);
        TS_PASS(ts_backward(ts_mean(ts_forward(ddp, x))));
    }
    TS_PASS(ts_backward(total));
    TS_EXPECT_CLOSE(ts_grad(ts_module_parameter(ddp, "module.fc1.weight")),
                    ts_grad(ts_module_parameter(whole, "module.fc1.weight")), 1e-5, 1e-7);
    TS_EXPECT_CLOSE(ts_grad(ts_module_parameter(ddp, "module.fc3.bias")),
                    ts_grad(ts_module_parameter(whole, "module.fc3.bias")), 1e-5, 1e-7);
    ts_module_free(ddp);
    ts_module_free(whole);
}

TS_TEST(ddp_keeps_accumulating_into_a_gradient_that_was_not_cleared, .ranks = 2)
{
    ts_module *ddp;
    TS_PASS(ts_ddp_new(&ddp, square(1, 1.0), NULL));
    ts_tensor *w = ts_module_parameter(ddp, "module.weight");
    TS_PASS(ts_set_grad(w, ts_full(TS_SHAPE(1, 1), 10.0, NULL))); /* a foreign gradient */
    TS_PASS(scalar_step(ddp, test->rank + 1));
    TS_EXPECT_ALL(ts_grad(w), 11.5);
    TS_PASS(scalar_step(ddp, test->rank + 1));
    TS_EXPECT_ALL(ts_grad(w), 13.0);
    ts_module_free(ddp);
}

TS_TEST(ddp_names_parameters_that_got_no_gradient, .ranks = 2)
{
    ts_module *ddp;
    TS_PASS(ts_ddp_new(&ddp, branches_new(true), NULL));
    ts_tensor *x = ts_ones(TS_SHAPE(1, 2), NULL);
    TS_FAIL(ts_backward(ts_sum(ts_forward(ddp, x))), TS_ESTATE, "'c.weight' (ranks 0, 1)");
    TS_EXPECT_ALL(ts_grad(ts_module_parameter(ddp, "module.a.weight")), 1.0);
    TS_PASS(ts_barrier(test->group, NULL)); /* the group is in step */
    ts_module_free(ddp);
}

TS_TEST(ddp_names_the_rank_that_skipped_a_layer, .ranks = 2)
{
    ts_module *ddp, *model = branches_new(false);
    TS_PASS(ts_ddp_new(&ddp, model, NULL));
    branches *m = ts_module_state(model);
    m->use_b = test->rank == 0;
    ts_tensor *x = ts_ones(TS_SHAPE(1, 2), NULL);
    TS_FAIL(ts_backward(ts_sum(ts_forward(ddp, x))), TS_ESTATE, "'b.weight' (rank 1)");
    m->use_b = true;
    ts_module_zero_grad(ddp);
    TS_PASS(ts_backward(ts_sum(ts_forward(ddp, x))));
    TS_EXPECT_ALL(ts_grad(ts_module_parameter(ddp, "module.b.weight")), 1.0);

    /* A rank without a gradient adds zeros, not what its bucket holds from the step before - which
     * is the second one, because the first is followed by new buckets. */
    ts_module_zero_grad(ddp);
    TS_PASS(ts_backward(ts_sum(ts_forward(ddp, x))));
    m->use_b = test->rank == 0;
    ts_module_zero_grad(ddp);
    TS_FAIL(ts_backward(ts_sum(ts_forward(ddp, x))), TS_ESTATE, "'b.weight' (rank 1)");
    if (test->rank == 0) TS_EXPECT_ALL(ts_grad(ts_module_parameter(ddp, "module.b.weight")), 0.5);
    TS_EXPECT_ALL(ts_grad(ts_module_parameter(ddp, "module.a.weight")), 1.0);
    ts_module_free(ddp);
}

TS_TEST(ddp_refuses_models_that_differ, .ranks = 3)
{
    ts_module *ddp = NULL;
    const int64_t sizes[] = {6, test->rank == 2 ? 17 : 16, 3};
    TS_FAIL(ts_ddp_new(&ddp, ts_mlp_new(sizes, 3), NULL), TS_EMISMATCH,
            "fc1.weight float32 (16, 6) on rank 0 but fc1.weight float32 (17, 6) on rank 2");
    TS_EXPECT(!ddp);
    TS_FAIL(ts_ddp_new(&ddp, branches_new(test->rank == 1), NULL), TS_EMISMATCH,
            "parameter 2 is (nothing) on rank 0 but c.weight");
    TS_PASS(ts_ddp_new(&ddp, mlp(1), NULL));
    ts_module_free(ddp);
}

TS_TEST(ddp_tells_all_ranks_when_one_cannot_build_its_model, .ranks = 2)
{
    ts_module *ddp = NULL;
    ts_module *model = test->rank == 1 ? ts_module_fail("no such file: weights.bin") : mlp(1);
    TS_FAIL(ts_ddp_new(&ddp, model, NULL), test->rank == 1 ? TS_EINVAL : TS_EREMOTE,
            "no such file: weights.bin");
    TS_PASS(ts_barrier(test->group, NULL));
}

TS_TEST(ddp_without_a_place_for_the_result_reaches_all, .ranks = 2)
{
    ts_module *ddp = NULL;
    TS_FAIL(ts_ddp_new(test->rank == 0 ? NULL : &ddp, mlp(1), NULL),
            test->rank == 0 ? TS_EINVAL : TS_EREMOTE, "place for the result");
    TS_PASS(ts_barrier(test->group, NULL));
}

TS_TEST(ddp_options_not_set_up_on_one_rank_reach_all, .ranks = 2)
{
    ts_module *ddp = NULL;
    ts_ddp_options opt = {0};
    TS_FAIL(ts_ddp_new(&ddp, mlp(1), test->rank == 0 ? &opt : NULL),
            test->rank == 0 ? TS_EINVAL : TS_EREMOTE, "TS_DDP_OPTIONS_INIT");
    TS_PASS(ts_barrier(test->group, NULL));
}

TS_TEST(ddp_failed_forward_on_one_rank_reaches_all, .ranks = 3)
{
    ts_module *ddp;
    TS_PASS(ts_ddp_new(&ddp, mlp(1), NULL));
    ts_tensor *x = ts_ones(TS_SHAPE(4, test->rank == 1 ? 5 : 6), NULL);
    ts_status status = ts_backward(ts_sum(ts_forward(ddp, x)));
    TS_EXPECT_INT(status, test->rank == 1 ? TS_ESHAPE : TS_EREMOTE);
    TS_EXPECT_TEXT(ts_error_last(), "linear");
    TS_PASS(ts_backward(ts_sum(ts_forward(ddp, ts_ones(TS_SHAPE(4, 6), NULL)))));
    ts_module_free(ddp);
}

static ts_tensor *failing_hook(ts_tensor *grad, void *user)
{
    (void)grad, (void)user;
    return ts_fail_tensor(TS_EUSER, "the hook says no");
}

TS_TEST(ddp_failed_backward_on_one_rank_reaches_all, .ranks = 2)
{
    ts_module *ddp;
    ts_ddp_options opt = TS_DDP_OPTIONS_INIT;
    opt.bucket_cap_mb = 100.0 / 1048576.0;
    TS_PASS(ts_ddp_new(&ddp, mlp(1), &opt));
    ts_tensor *w = ts_module_parameter(ddp, "module.fc1.weight");
    int64_t hook = test->rank == 1 ? ts_tensor_register_hook(w, failing_hook, NULL) : 0;
    ts_status status = ts_backward(ts_sum(ts_forward(ddp, ts_ones(TS_SHAPE(4, 6), NULL))));
    TS_EXPECT_INT(status, test->rank == 1 ? TS_EUSER : TS_EREMOTE);
    TS_EXPECT_TEXT(ts_error_last(), "the hook says no");
    if (hook) ts_hook_remove(w, hook);
    ts_module_zero_grad(ddp);
    TS_PASS(ts_backward(ts_sum(ts_forward(ddp, ts_ones(TS_SHAPE(4, 6), NULL)))));
    ts_module_free(ddp);
}

TS_TEST(ddp_needs_a_group_and_a_trainable_parameter)
{
    ts_module *ddp = NULL;
    TS_FAIL(ts_ddp_new(&ddp, mlp(1), NULL), TS_ESTATE, "ts_init_process_group");
}

TS_TEST(ddp_refuses_bad_options, .ranks = 1, .mode = TS_TEST_THREADS)
{
    ts_module *ddp = NULL;
    ts_ddp_options opt = {0};
    TS_FAIL(ts_ddp_new(&ddp, mlp(1), &opt), TS_EINVAL, "TS_DDP_OPTIONS_INIT");
    opt = (ts_ddp_options)TS_DDP_OPTIONS_INIT;
    opt.bucket_cap_mb = -1;
    TS_FAIL(ts_ddp_new(&ddp, mlp(1), &opt), TS_EINVAL, "bucket_cap_mb is -1");
    TS_FAIL(ts_ddp_new(&ddp, ts_relu_new(), NULL), TS_EINVAL, "no parameter");
    TS_FAIL(ts_ddp_new(&ddp, NULL, NULL), TS_EINVAL, "module is missing");
}

TS_TEST(ddp_can_be_freed_and_made_again, .ranks = 2)
{
    ts_module *ddp;
    for (int round = 0; round < 3; round++) {
        TS_PASS(ts_ddp_new(&ddp, mlp(2), NULL));
        TS_PASS(ts_backward(ts_sum(ts_forward(ddp, ts_ones(TS_SHAPE(4, 6), NULL)))));
        ts_module_free(ddp);
    }
}

/* A module with a running value that every forward changes by the rank. */
typedef struct running {
    ts_module *linear;
    ts_tensor *value;
    double step;
} running;

static ts_tensor *running_forward(ts_module *self, ts_tensor *x)
{
    running *m = ts_module_state(self);
    ts_add_scalar_(m->value, m->step);
    return ts_forward(m->linear, x);
}

static const ts_module_class running_class = {
    .name = "running", .state_size = sizeof(running), .forward = running_forward};

TS_TEST(ddp_buffers_follow_rank_0, .ranks = 2)
{
    ts_module *ddp, *model = ts_module_new(&running_class);
    running *m = ts_module_state(model);
    m->linear = ts_module_add(model, "linear", square(2, 1.0));
    m->value = ts_module_add_buffer(model, "value", ts_zeros(TS_SHAPE(1), NULL), true);
    m->step = 1 + test->rank;
    TS_PASS(ts_ddp_new(&ddp, model, NULL));
    ts_tensor *x = ts_ones(TS_SHAPE(1, 2), NULL);
    TS_PASS(ts_backward(ts_sum(ts_forward(ddp, x))));
    TS_EXPECT_ALL(m->value, 1 + test->rank);
    TS_PASS(ts_backward(ts_sum(ts_forward(ddp, x))));
    TS_EXPECT_ALL(m->value, 1 + 1 + test->rank); /* rank 0's 1, then its own step */
    ts_module_free(ddp);
}

/* Collectives that a forward issues: one for its buffer, if it is due. */
static int64_t syncs_of_forward(ts_test *test, ts_module *ddp)
{
    uint64_t before = ts_group_sequence(test->group);
    ts_forward(ddp, ts_ones(TS_SHAPE(1, 2), NULL));
    return (int64_t)(ts_group_sequence(test->group) - before);
}

/* After a forward that does not synchronise, the next one takes its buffers as they are.  Windows
 * nest.  Parameters are not sent again. */
TS_TEST(ddp_sends_buffers_when_the_last_forward_synchronised, .ranks = 2)
{
    static const int64_t due[] = {1, 1, 0, 0, 1, 1, 0};
    ts_module *ddp, *model = ts_module_new(&running_class);
    running *m = ts_module_state(model);
    m->linear = ts_module_add(model, "linear", square(2, 1.0));
    m->value = ts_module_add_buffer(model, "value", ts_zeros(TS_SHAPE(1), NULL), true);
    TS_PASS(ts_ddp_new(&ddp, model, NULL));
    ts_tensor *weight = ts_detach(ts_module_parameter(ddp, "module.linear.weight"));
    ts_fill_(weight, test->rank);
    for (int i = 0; i < 7; i++) {
        bool window = i == 1 || i == 2, grad = i != 5;
        bool former = window ? ts_ddp_no_sync_begin(ddp) : true;
        if (window) ts_ddp_no_sync_end(ddp, ts_ddp_no_sync_begin(ddp));
        bool recorded = grad ? false : ts_no_grad_begin();
        TS_EXPECT_INT(syncs_of_forward(test, ddp), due[i]);
        if (!grad) ts_no_grad_end(recorded);
        if (window) ts_ddp_no_sync_end(ddp, former);
    }
    TS_EXPECT_ALL(weight, test->rank);
    ts_module_free(ddp);
}

TS_TEST(ddp_outlives_its_group, .ranks = 2, .no_group = true)
{
    ts_init_options init = TS_INIT_OPTIONS_INIT;
    init.store = test->store;
    init.rank = test->rank;
    init.world_size = test->size;
    TS_PASS(ts_init_process_group(&init));
    ts_module *ddp;
    TS_PASS(ts_ddp_new(&ddp, mlp(5), NULL));
    ts_tensor *loss = ts_mean(ts_forward(ddp, ts_ones(TS_SHAPE(4, 6), NULL)));
    TS_PASS(ts_destroy_process_group(NULL));
    TS_EXPECT_INT(ts_backward(loss), TS_ESTATE);
    TS_EXPECT_TEXT(ts_error_last(), "group 'default' has been destroyed");
    ts_module_free(ddp);
}

/* ---- what the log tells ---------------------------------------------------------------------- */

typedef struct ddp_lines {
    int made, rebuilt, iterations;
    char text[4096], last[1024];
} ddp_lines;

static void take_line(ts_log_severity severity, const char *component, const char *line, void *user)
{
    ddp_lines *l = user;
    (void)severity;
    if (strcmp(component, "ddp") != 0) return;
    if (strstr(line, "made: ")) l->made++, snprintf(l->text, sizeof l->text, "%s", line);
    if (strstr(line, "buckets rebuilt")) l->rebuilt++;
    if (strstr(line, "iteration ") && !strstr(line, "made: "))
        l->iterations++, snprintf(l->last, sizeof l->last, "%s", line);
}

static void train_with_log(ts_test *test, ts_debug_level level, int steps)
{
    ts_module *ddp;
    TS_PASS(ts_set_debug_level(level));
    TS_PASS(ts_ddp_new(&ddp, mlp(5), NULL));
    for (int i = 0; i < steps; i++)
        TS_PASS(ts_backward(ts_mean(ts_forward(ddp, ts_ones(TS_SHAPE(4, 6), NULL)))));
    ts_module_free(ddp);
}

TS_TEST(ddp_tells_the_log_how_it_was_made, .ranks = 2, .mode = TS_TEST_PROCESSES)
{
    ddp_lines l = {.made = 0};
    ts_set_log_sink(take_line, &l);
    setenv("TORCH_CPP_LOG_LEVEL", "INFO", 1);
    setenv("NCCL_DEBUG", "WARN", 1);
    train_with_log(test, TS_DEBUG_OFF, 2);
    TS_EXPECT(l.made == 0 && l.rebuilt == 0 && l.iterations == 0);
    train_with_log(test, TS_DEBUG_INFO, 2);
    TS_EXPECT(l.made == 1 && l.rebuilt == 1 && l.iterations == 0);
    TS_EXPECT_TEXT(l.text, "of 2, iteration 0, 6 parameters of 1740 bytes, dtypes float32");
    TS_EXPECT_TEXT(l.text, "bucket sizes 1740");
    TS_EXPECT_TEXT(l.text, "broadcast_buffers 1, find_unused_parameters 0");
    TS_EXPECT_TEXT(l.text, "backend native");
    TS_EXPECT_TEXT(l.text, "NCCL_SOCKET_IFNAME=N/A, NCCL_DEBUG=WARN");
    ts_set_log_sink(NULL, NULL);
}

/* Iterations 1 to 10, then each hundredth. */
TS_TEST(ddp_tells_the_log_its_times, .ranks = 2, .mode = TS_TEST_PROCESSES)
{
    ddp_lines l = {.made = 0};
    long long forward = 0, backward = 0, communication = 0, overlap = 0;
    ts_set_log_sink(take_line, &l);
    setenv("TORCH_CPP_LOG_LEVEL", "INFO", 1);
    train_with_log(test, TS_DEBUG_DETAIL, 105);
    TS_EXPECT_INT(l.iterations, 11);
    TS_EXPECT_TEXT(l.last, "iteration 100: unused parameters 0 bytes, means of 11: ");
    const char *means = strstr(l.last, "forward ");
    TS_EXPECT(means && sscanf(means,
                              "forward %lld ns, backward %lld ns, communication %lld ns, overlap "
                              "%lld ns",
                              &forward, &backward, &communication, &overlap) == 4);
    TS_EXPECT(forward > 0 && backward > 0 && communication > 0);
    TS_EXPECT(overlap >= 0 && overlap <= backward && overlap <= communication);
    ts_set_log_sink(NULL, NULL);
}
