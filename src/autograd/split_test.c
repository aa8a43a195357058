/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of inputs now, of parameters later. */
#include <string.h>
#include <tessera/tessera.h>

#include "test.h"

/* norm, attention over two heads of a projection, and a nonlinearity; the weight of `proj` is used
 * twice. */
typedef struct block {
    ts_module *norm, *qkv, *proj;
} block;

static ts_tensor *block_forward(ts_module *self, ts_tensor *x)
{
    block *b = ts_module_state(self);
    ts_tensor *h = ts_forward(b->qkv, ts_forward(b->norm, x)); /* (4, 3, 24) */
    ts_tensor *heads = ts_reshape(h, TS_SHAPE(4, 1, 3, 24));
    ts_tensor *y = ts_attention(ts_narrow(heads, 3, 0, 8), ts_narrow(heads, 3, 8, 8),
                                ts_narrow(heads, 3, 16, 8), true, 0);
    y = ts_forward(b->proj, ts_reshape(y, TS_SHAPE(4, 3, 8)));
    return ts_add(x, ts_forward(b->proj, ts_gelu(y, TS_GELU_ERF)));
}
static const ts_module_class block_class = {
    .name = "Block", .state_size = sizeof(block), .forward = block_forward};

static ts_module *block_new(void)
{
    ts_manual_seed(7);
    ts_module *m = ts_module_new(&block_class);
    block *b = ts_module_state(m);
    b->norm = ts_module_add(m, "norm", ts_layer_norm_new(TS_SHAPE(8), NULL));
    b->qkv = ts_module_add(m, "qkv", ts_linear_new(8, 24, NULL));
    b->proj = ts_module_add(m, "proj", ts_linear_new(8, 8, NULL));
    return m;
}

static ts_tensor *input(uint64_t seed)
{
    ts_manual_seed(seed);
    ts_tensor *x = ts_randn(TS_SHAPE(4, 3, 8), NULL);
    ts_set_requires_grad(x, true);
    return x;
}

static bool same_bits(ts_tensor *a, ts_tensor *b)
{
    return a && b && ts_nbytes(a) == ts_nbytes(b) &&
           memcmp(ts_data(a), ts_data(b), ts_nbytes(a)) == 0;
}

static void expect_equal_gradients(ts_test *test, ts_module *a, ts_module *b)
{
    ts_tensor_list *pa = ts_module_parameters(a), *pb = ts_module_parameters(b);
    TS_EXPECT_INT(ts_tensor_list_count(pa), 6);
    for (int64_t i = 0; i < ts_tensor_list_count(pa); i++)
        TS_EXPECT(
            same_bits(ts_grad(ts_tensor_list_get(pa, i)), ts_grad(ts_tensor_list_get(pb, i))));
    ts_tensor_list_free(pa);
    ts_tensor_list_free(pb);
}

enum { BATCHES = 3 };

TS_TEST(split_backward_gives_the_bits_of_one)
{
    ts_module *once = block_new(), *split = block_new();
    ts_backward_split *later[BATCHES];
    for (int k = 0; k < BATCHES; k++) {
        ts_tensor *x = input((uint64_t)k), *x2 = input((uint64_t)k), *dx = NULL;
        TS_PASS(ts_backward(ts_sum(ts_forward(once, x))));
        ts_tensor *loss = ts_sum(ts_forward(split, x2));
        TS_PASS(ts_backward_input(&later[k], &dx, &loss, NULL, 1, &x2, 1, NULL));
        TS_EXPECT(same_bits(dx, ts_grad(x)));
        TS_EXPECT(!ts_grad(x2));
    }
    TS_EXPECT(!ts_grad(ts_module_parameter(split, "qkv.weight"))); /* all are in flight */
    for (int k = 0; k < BATCHES; k++) {
        TS_PASS(ts_backward_weight(later[k]));
        TS_FAIL(ts_backward_weight(later[k]), TS_ESTATE, "once");
        ts_backward_split_free(later[k]);
    }
    expect_equal_gradients(test, once, split);
    ts_module_free(once);
    ts_module_free(split);
}

/* A stage in the middle of a pipeline: the gradient comes from outside, another root leads to no
 * input, and the input has a history that must not be touched. */
TS_TEST(split_backward_of_a_stage)
{
    ts_module *once = block_new(), *split = block_new(), *both[] = {once, split};
    ts_tensor *grad = ts_randn(TS_SHAPE(4, 3, 8), NULL), *dx = NULL, *source = input(1);
    ts_backward_split *later;
    for (int k = 0; k < 2; k++) {
        ts_tensor *x = k ? ts_mul_scalar(source, 1) : input(1);
        ts_tensor *w = ts_module_parameter(both[k], "qkv.weight");
        ts_tensor *roots[] = {ts_forward(both[k], x), ts_sum(ts_mul(w, w))},
                  *grads[] = {grad, NULL};
        if (k == 0) TS_PASS(ts_backward_ex(roots, grads, 2, NULL));
        if (k == 1) TS_PASS(ts_backward_input(&later, &dx, roots, grads, 2, &x, 1, NULL));
    }
    TS_PASS(ts_backward_weight(later));
    TS_EXPECT(!ts_grad(source));
    expect_equal_gradients(test, once, split);
    ts_backward_split_free(later);
    ts_module_free(once);
    ts_module_free(split);
}

TS_TEST(split_backward_frees_what_is_not_needed)
{
    ts_memory_stats before, between, after;
    ts_tensor *x = input(1), *dx = NULL;
    ts_backward_split *later;
    ts_module *m = ts_linear_new(8, 8, NULL);
    ts_memory_read(&before);
    ts_scope scope = ts_scope_begin();
    ts_tensor *h = ts_exp(ts_exp(ts_exp(ts_forward(m, x)))), *loss = ts_sum(ts_mul_scalar(h, 0));
    TS_PASS(ts_backward_input(&later, &dx, &loss, NULL, 1, &x, 1, NULL));
    TS_PASS(ts_scope_end(scope));
    ts_memory_read(&between);
    /* the gradient of the linear's output, and nothing of the three exponentials */
    TS_EXPECT_INT(between.current[TS_CATEGORY_ACTIVATION] - before.current[TS_CATEGORY_ACTIVATION],
                  4 * 3 * 8 * 4);
    ts_backward_split_free(later); /* without having run */
    ts_memory_read(&after);
    TS_EXPECT_INT(after.current[TS_CATEGORY_ACTIVATION], before.current[TS_CATEGORY_ACTIVATION]);
    TS_EXPECT(!ts_grad(ts_module_parameter(m, "weight")));
    ts_module_free(m);
}

static ts_status count_leaf(ts_tensor *leaf, void *user)
{
    (void)leaf;
    ++*(int *)user;
    return TS_OK;
}

static ts_tensor *count_grad(ts_tensor *grad, void *user)
{
    (void)grad;
    ++*(int *)user;
    return NULL;
}

TS_TEST(split_backward_runs_hooks_once)
{
    int on_leaf = 0, on_way = 0;
    ts_module *m = ts_linear_new(8, 8, NULL);
    ts_tensor *x = input(1), *y = ts_forward(m, x), *loss = ts_sum(ts_mul(y, y)), *dx = NULL;
    ts_tensor_register_hook(y, count_grad, &on_way);
    ts_register_post_accumulate_hook(ts_module_parameter(m, "weight"), count_leaf, &on_leaf);
    ts_backward_split *later;
    TS_PASS(ts_backward_input(&later, &dx, &loss, NULL, 1, &x, 1, NULL));
    TS_EXPECT(on_way == 1 && on_leaf == 0);
    TS_PASS(ts_backward_weight(later));
    TS_EXPECT(on_way == 1 && on_leaf == 1);
    ts_backward_split_free(later);

    later = NULL;
    TS_FAIL(ts_backward_input(&later, &dx, &loss, NULL, 1, &x, 1, NULL), TS_ESTATE, "retain_graph");
    TS_FAIL(ts_backward_input(&later, &dx, &loss, NULL, 1, NULL, 0, NULL), TS_EINVAL,
            "backward_input: inputs are missing");
    ts_backward_options opt = TS_BACKWARD_OPTIONS_INIT;
    opt.create_graph = true;
    TS_FAIL(ts_backward_input(&later, &dx, &loss, NULL, 1, &x, 1, &opt), TS_EUNSUPPORTED,
            "create_graph");
    TS_FAIL(ts_backward_weight(NULL), TS_EINVAL, "missing");
    TS_EXPECT(!later);
    ts_module_free(m);
}
