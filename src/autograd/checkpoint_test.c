/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that run again in backward. */
#include <tessera/tessera.h>

#include "test.h"

static ts_tensor *leaf(ts_shape shape, double value)
{
    ts_tensor *t = ts_full(shape, value, NULL);
    ts_set_requires_grad(t, true);
    return t;
}

typedef struct block {
    ts_tensor *weight;
    int runs, finished; /* started, and got to the end */
    double p;
    int changes; /* at run 2: 1 fewer, 2 more operations, 3 another dtype */
} block;

/* dropout(exp(tanh(x w)) + mask) and a second output */
static ts_status run_block(ts_tensor *const *in, int n, ts_tensor **out, int num_out, void *user)
{
    block *b = user;
    b->runs++;
    ts_tensor *h = ts_tanh(ts_mul(in[0], b->weight));
    if (b->changes == 1 && b->runs == 2) {
        out[0] = out[num_out - 1] = h;
        return TS_OK;
    }
    if (b->changes == 3 && b->runs == 2) h = ts_to_dtype(h, TS_FLOAT64);
    h = ts_exp(h);
    if (b->p > 0) h = ts_dropout(h, b->p, true);
    if (n > 1 && in[1]) h = ts_mul(h, in[1]);
    out[0] = h;
    if (num_out > 1) out[1] = ts_sin(h);
    if (!ts_failed(out[num_out - 1])) b->finished++;
    return TS_OK;
}

static ts_tensor *loss_of(block *b, ts_tensor *x, ts_tensor *mask, bool again,
                          const ts_checkpoint_options *opt)
{
    ts_tensor *in[] = {x, mask}, *out[2] = {0};
    if (again)
        ts_checkpoint(run_block, in, 2, out, 2, b, opt);
    else
        run_block(in, 2, out, 2, b);
    return ts_sum(ts_mul(out[0], out[1]));
}

static bool same(ts_tensor *a, ts_tensor *b)
{
    float x[64], y[64];
    if (!a || !b || ts_copy_out(a, x, ts_nbytes(a)) || ts_copy_out(b, y, ts_nbytes(b)))
        return false;
    return memcmp(x, y, ts_nbytes(a)) == 0;
}

/* Gradients of the weight and of an input that is not a leaf, with and without. */
static bool equal_with(block *b, ts_tensor *source, ts_tensor *mask,
                       const ts_checkpoint_options *opt)
{
    ts_tensor *want[2], *got[2], *in[] = {b->weight, source};
    ts_manual_seed(7);
    ts_tensor *loss = loss_of(b, ts_mul_scalar(source, 2), mask, false, NULL);
    if (ts_grad_of(want, &loss, NULL, 1, in, 2, NULL) != TS_OK) return false;
    ts_generator_state end = ts_generator_get_state();
    b->runs = b->finished = 0;
    ts_manual_seed(7);
    loss = loss_of(b, ts_mul_scalar(source, 2), mask, true, opt);
    ts_rand(TS_SHAPE(5), NULL); /* something draws between forward and backward */
    ts_generator_state middle = ts_generator_get_state();
    if (middle.offset != end.offset + 8) return false;
    if (ts_grad_of(got, &loss, NULL, 1, in, 2, NULL) != TS_OK) return false;
    ts_generator_state after = ts_generator_get_state();
    return after.offset == middle.offset && same(want[0], got[0]) && same(want[1], got[1]);
}

TS_TEST(checkpoints_give_the_same_gradients_with_dropout)
{
    block b = {.weight = leaf(TS_SHAPE(8), 0.5), .p = 0.5};
    ts_tensor *x = ts_rand(TS_SHAPE(8), NULL), *mask = ts_rand(TS_SHAPE(8), NULL);
    ts_set_requires_grad(x, true);
    TS_EXPECT(equal_with(&b, x, mask, NULL));
    TS_EXPECT_INT(b.runs, 2);
    TS_EXPECT_INT(b.finished, 1); /* the second run stopped at sin */
    ts_checkpoint_options whole = TS_CHECKPOINT_OPTIONS_INIT;
    whole.early_stop = false;
    TS_EXPECT(equal_with(&b, x, NULL, &whole));
    TS_EXPECT_INT(b.finished, 2);
    ts_checkpoint_options loose = TS_CHECKPOINT_OPTIONS_INIT;
    loose.preserve_rng_state = false;
    TS_EXPECT(!equal_with(&b, x, mask, &loose));
}

TS_TEST(checkpoints_take_inputs_without_gradient_and_leaves)
{
    block b = {.weight = leaf(TS_SHAPE(4), 0.5)};
    ts_tensor *x = ts_ones(TS_SHAPE(4), NULL), *y = leaf(TS_SHAPE(4), 1);
    TS_PASS(ts_backward(loss_of(&b, x, NULL, true, NULL)));
    ts_tensor *first = ts_grad(b.weight);
    TS_EXPECT(first && b.runs == 2);
    ts_tensor *kept = ts_clone(first);
    ts_set_grad(b.weight, NULL);
    TS_PASS(ts_backward(loss_of(&b, y, NULL, true, NULL)));
    TS_EXPECT(same(kept, ts_grad(b.weight)) && ts_grad(y));
    b.runs = 0;
    bool former = ts_no_grad_begin();
    TS_EXPECT(!ts_requires_grad(loss_of(&b, y, NULL, true, NULL)) && b.runs == 1);
    ts_no_grad_end(former);
}

TS_TEST(checkpoints_run_again_for_each_pass_of_a_retained_graph)
{
    block b = {.weight = leaf(TS_SHAPE(4), 0.5)};
    ts_tensor *loss = loss_of(&b, leaf(TS_SHAPE(4), 1), NULL, true, NULL);
    ts_backward_options keep = TS_BACKWARD_OPTIONS_INIT;
    keep.retain_graph = true;
    TS_PASS(ts_backward_ex(&loss, NULL, 1, &keep));
    ts_tensor *once = ts_mul_scalar(ts_grad(b.weight), 2);
    TS_PASS(ts_backward(loss));
    TS_EXPECT(same(once, ts_detach(ts_grad(b.weight))));
    TS_EXPECT_INT(b.runs, 3);
    TS_FAIL(ts_backward(loss), TS_ESTATE, "was let go");
}

static ts_status run_pair(ts_tensor *const *in, int n, ts_tensor **out, int num_out, void *user)
{
    block *b = user;
    b->runs++;
    ts_tensor *h = ts_sin(in[0]);
    h = ts_checkpoint(run_block, &h, n, NULL, num_out, b + 1, NULL);
    h = ts_checkpoint(run_block, &h, n, NULL, num_out, b + 1, NULL);
    out[0] = ts_cos(h);
    return TS_OK;
}

TS_TEST(checkpoints_nest)
{
    block b[2] = {{.runs = 0}, {.weight = leaf(TS_SHAPE(4), 0.5), .p = 0.3}};
    ts_tensor *x = leaf(TS_SHAPE(4), 0.7), *want[2], *got[2], *in[] = {x, b[1].weight}, *out;
    ts_manual_seed(3);
    TS_PASS(run_pair(&x, 1, &out, 1, b));
    ts_tensor *loss = ts_sum(out);
    TS_PASS(ts_grad_of(want, &loss, NULL, 1, in, 2, NULL));
    ts_manual_seed(3);
    loss = ts_sum(ts_checkpoint(run_pair, &x, 1, NULL, 1, b, NULL));
    TS_PASS(ts_grad_of(got, &loss, NULL, 1, in, 2, NULL));
    TS_EXPECT(same(want[0], got[0]) && same(want[1], got[1]));
    TS_EXPECT_INT(b[0].runs, 3);
}

TS_TEST(checkpoints_notice_functions_that_change)
{
    block b = {.weight = leaf(TS_SHAPE(4), 0.5), .changes = 1};
    ts_tensor *x = leaf(TS_SHAPE(4), 1);
    TS_FAIL(ts_backward(loss_of(&b, x, NULL, true, NULL)), TS_ESTATE, "must do the same each time");
    b.changes = 3;
    b.runs = 0;
    TS_FAIL(ts_backward(loss_of(&b, x, NULL, true, NULL)), TS_ESHAPE, "comes back as float64");
    b.changes = 0;
    ts_tensor *h = ts_mul_scalar(x, 2), *loss = loss_of(&b, h, NULL, true, NULL);
    ts_zero_(h);
    TS_FAIL(ts_backward(loss), TS_ESTATE, "checkpoint: the tensor of shape (4,)");
}

TS_TEST(checkpoints_can_be_differentiated_twice)
{
    block b = {.weight = leaf(TS_SHAPE(4), 0.5)};
    ts_tensor *second[2], *x = leaf(TS_SHAPE(4), 0.25);
    ts_backward_options opt = TS_BACKWARD_OPTIONS_INIT;
    opt.create_graph = true;
    for (int i = 0; i < 2; i++) {
        ts_tensor *first, *h = ts_mul_scalar(x, 2), *loss = loss_of(&b, h, NULL, i == 1, NULL);
        TS_PASS(ts_grad_of(&first, &loss, NULL, 1, &x, 1, &opt));
        ts_tensor *sum = ts_sum(ts_mul(first, first));
        TS_PASS(ts_grad_of(&second[i], &sum, NULL, 1, &x, 1, NULL));
    }
    TS_EXPECT(same(second[0], second[1]));
}

static int64_t live_bytes(void)
{
    ts_memory_stats stats;
    ts_memory_read(&stats);
    return stats.current_total;
}

static ts_status deep(ts_tensor *const *in, int n, ts_tensor **out, int num_out, void *user)
{
    (void)n, (void)num_out;
    int *runs = user;
    ++*runs;
    ts_scope scope = ts_scope_begin();
    ts_tensor *h = in[0];
    for (int i = 0; i < 20; i++) h = ts_tanh(h);
    out[0] = ts_scope_end_keep(scope, h);
    return TS_OK;
}

TS_TEST(checkpoints_keep_inputs_only_and_return_all)
{
    int64_t before = live_bytes();
    const char *const names[] = {"tanh"};
    int runs = 0;
    ts_scope outer = ts_scope_begin();
    ts_tensor *x = leaf(TS_SHAPE(1000), 1);
    ts_checkpoint_options keep = TS_CHECKPOINT_OPTIONS_INIT;
    keep.keep = names;
    keep.num_keep = 1;
    for (int i = 0; i < 3; i++) {
        int64_t start = live_bytes();
        ts_scope scope = ts_scope_begin();
        ts_tensor *h = ts_mul_scalar(x, 0.5);
        ts_tensor *loss = ts_sum(ts_checkpoint(deep, &h, 1, NULL, 1, &runs, i ? &keep : NULL));
        int64_t bytes = live_bytes() - start;
        TS_EXPECT(i ? bytes >= 20 * 4000 : bytes <= 3 * 4000);
        if (i < 2) TS_PASS(ts_backward(loss));
        if (i == 0) TS_PASS(ts_set_grad(x, NULL));
        TS_PASS(ts_scope_end(scope));
    }
    TS_EXPECT_INT(runs, 5);
    TS_PASS(ts_scope_end(outer));
    TS_EXPECT_INT(live_bytes(), before);
}

TS_TEST(checkpoints_keep_outputs_of_named_operations)
{
    const char *const names[] = {"exp", "dropout"};
    ts_checkpoint_options keep = TS_CHECKPOINT_OPTIONS_INIT;
    keep.keep = names;
    keep.num_keep = 2;
    block b = {.weight = leaf(TS_SHAPE(8), 0.5), .p = 0.5};
    ts_tensor *x = ts_rand(TS_SHAPE(8), NULL), *mask = ts_rand(TS_SHAPE(8), NULL);
    ts_set_requires_grad(x, true);
    TS_EXPECT(equal_with(&b, x, mask, &keep));
    TS_EXPECT_INT(b.runs, 2);
}

static ts_status fails_later(ts_tensor *const *in, int n, ts_tensor **out, int num_out, void *user)
{
    (void)n, (void)num_out;
    int *runs = user;
    if (++*runs > 1) return TS_EUSER;
    out[0] = ts_exp(in[0]);
    return TS_OK;
}

static ts_status gives_nothing(ts_tensor *const *in, int n, ts_tensor **out, int num, void *user)
{
    (void)in, (void)n, (void)out, (void)num, (void)user;
    return TS_OK;
}

TS_TEST(checkpoints_report_failures)
{
    int runs = 0;
    ts_tensor *x = leaf(TS_SHAPE(4), 1), *out[2];
    ts_tensor *y = ts_checkpoint(fails_later, &x, 1, NULL, 1, &runs, NULL);
    TS_FAIL(ts_backward(ts_sum(y)), TS_EUSER, "checkpointed function returned TS_EUSER");
    TS_BAD(ts_checkpoint(fails_later, &x, 1, out, 2, &runs, NULL), TS_EUSER, "TS_EUSER");
    TS_EXPECT(ts_failed(out[0]) && ts_failed(out[1]));
    TS_BAD(ts_checkpoint(gives_nothing, &x, 1, NULL, 1, NULL, NULL), TS_EINVAL, "no output 0");
    TS_BAD(ts_checkpoint(NULL, &x, 1, NULL, 1, NULL, NULL), TS_EINVAL, "needs a function");
    ts_checkpoint_options zero = {0};
    TS_BAD(ts_checkpoint(gives_nothing, &x, 1, NULL, 1, NULL, &zero), TS_EINVAL, "_INIT");
}

TS_TEST(checkpointed_modules_train_alike, .ranks = 2, .no_group = true)
{
    ts_manual_seed(1);
    ts_module *parts[] = {ts_linear_new(8, 16, NULL), ts_linear_new(16, 4, NULL)};
    ts_module *m = ts_sequential_new(parts, 2);
    ts_tensor *x = ts_rand(TS_SHAPE(3, 8), NULL), *weight = ts_module_parameter(m, "0.weight");
    TS_PASS(ts_backward(ts_sum(ts_sin(ts_forward(m, x)))));
    ts_tensor *want = ts_mul_scalar(ts_detach(ts_grad(weight)), 1);
    ts_set_grad(weight, NULL);
    TS_PASS(ts_backward(ts_sum(ts_sin(ts_checkpoint_forward(m, x, NULL)))));
    TS_EXPECT(memcmp(ts_data(want), ts_data(ts_grad(weight)), ts_nbytes(want)) == 0);
    ts_module_free(m);
}
