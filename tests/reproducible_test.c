/* SPDX-License-Identifier: Apache-2.0 */
/* Training by docs/howto/reproducible.md: the same weights, bit for bit, on any number of ranks. */
#include "test.h"

enum { V = 4, STEPS = 5, MOST = 8 };

typedef struct trainee {
    ts_module *model;
    ts_tensor_list *parameters;
    ts_optim *optim;
    int n; /* parameters */
} trainee;

static void trainee_new(trainee *t)
{
    ts_sgd_options opt = TS_SGD_OPTIONS_INIT;
    opt.lr = 0.1;
    ts_manual_seed(7);
    t->model = ts_mlp_new((const int64_t[]){5, 16, 1}, 3);
    t->parameters = ts_module_parameters(t->model);
    t->n = (int)ts_tensor_list_count(t->parameters);
    ts_must(ts_sgd_new(&t->optim, ts_module_parameters(t->model), &opt));
}

static void trainee_free(trainee *t)
{
    ts_optim_free(t->optim);
    ts_tensor_list_free(t->parameters);
    ts_module_free(t->model);
}

static ts_tensor *parameter(const trainee *t, int p)
{
    return ts_tensor_list_get(t->parameters, p);
}

/* Gradients of one shard, whose data depend on step and shard alone. */
static void backward(trainee *t, int step, int shard, ts_tensor **gradient)
{
    ts_manual_seed((uint64_t)(1000 * step + shard));
    ts_tensor *x = ts_randn(TS_SHAPE(16, 5), NULL), *y = ts_sum_dim(x, 1, true);
    ts_optim_zero_grad(t->optim);
    ts_must(ts_backward(ts_mse_loss(ts_forward(t->model, x), y)));
    for (int p = 0; p < t->n; p++) gradient[p] = ts_clone(ts_grad(parameter(t, p)));
}

/* One step on all ranks. */
static void step_shared(trainee *t, int step)
{
    int each = V / ts_world_size();
    ts_tensor *gradient[V][MOST], *shard[V];
    for (int i = 0; i < each; i++) backward(t, step, ts_rank() * each + i, gradient[i]);
    for (int p = 0; p < t->n; p++) {
        for (int i = 0; i < each; i++) shard[i] = gradient[i][p];
        ts_must(ts_all_reduce_shards(NULL, ts_grad(parameter(t, p)), shard, each, TS_AVG, NULL));
    }
    ts_must(ts_optim_step(t->optim));
}

/* The same on this rank alone, by tensor operations. */
static void step_alone(trainee *t, int step)
{
    ts_tensor *g[V][MOST];
    for (int i = 0; i < V; i++) backward(t, step, i, g[i]);
    for (int p = 0; p < t->n; p++) {
        ts_tensor *sum = ts_add(ts_add(g[0][p], g[1][p]), ts_add(g[2][p], g[3][p]));
        ts_copy_(ts_grad(parameter(t, p)), ts_mul_scalar(sum, 1.0 / V));
    }
    ts_must(ts_optim_step(t->optim));
}

static void train(ts_test *test)
{
    trainee shared, alone;
    trainee_new(&shared);
    trainee_new(&alone);
    for (int step = 0; step < STEPS; step++) {
        ts_scope scope = ts_scope_begin();
        step_shared(&shared, step);
        step_alone(&alone, step);
        TS_PASS(ts_scope_end(scope));
    }
    for (int p = 0; p < shared.n; p++)
        TS_EXPECT(memcmp(ts_data(parameter(&shared, p)), ts_data(parameter(&alone, p)),
                         ts_nbytes(parameter(&alone, p))) == 0);
    trainee_free(&shared);
    trainee_free(&alone);
}

TS_TEST(shards_train_the_same_on_1, .ranks = 1) { train(test); }
TS_TEST(shards_train_the_same_on_2, .ranks = 2) { train(test); }
TS_TEST(shards_train_the_same_on_4, .ranks = 4) { train(test); }
