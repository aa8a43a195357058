/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks on the backward of modules. */
#include <tessera/tessera.h>

#include "test.h"

/* y = 3 a + b b, second input optional. */
static ts_tensor *mix_forward(ts_module *self, ts_tensor *const *args, int n)
{
    (void)self;
    ts_tensor *y = ts_mul_scalar(args[0], 3);
    return n > 1 && args[1] ? ts_add(y, ts_mul(args[1], args[1])) : y;
}
static const ts_module_class mix_class = {.name = "Mix", .forward_args = mix_forward};

static ts_tensor *leaf(double value)
{
    ts_tensor *t = ts_full(TS_SHAPE(2), value, NULL);
    ts_set_requires_grad(t, true);
    return t;
}

typedef struct seen {
    int pre, post, n;
    double in[2], out; /* first elements; -1: none */
    ts_status result;
} seen;

static double first(ts_tensor *t) { return t ? (double)((const float *)ts_data(t))[0] : -1; }

static ts_tensor *note_pre(ts_module *m, ts_tensor *grad_out, void *user)
{
    (void)m, (void)grad_out;
    ((seen *)user)->pre++;
    return NULL;
}

static ts_tensor *double_pre(ts_module *m, ts_tensor *grad_out, void *user)
{
    (void)m, (void)user;
    return ts_mul_scalar(grad_out, 2);
}

static ts_status note_post(ts_module *m, ts_tensor **grad_in, int n, ts_tensor *grad_out,
                           void *user)
{
    seen *s = user;
    (void)m;
    s->post++;
    s->n = n;
    for (int i = 0; i < n && i < 2; i++) s->in[i] = first(grad_in[i]);
    s->out = first(grad_out);
    return s->result;
}

static ts_status negate_first(ts_module *m, ts_tensor **grad_in, int n, ts_tensor *grad_out,
                              void *user)
{
    (void)m, (void)n, (void)grad_out, (void)user;
    grad_in[0] = ts_neg(grad_in[0]);
    return TS_OK;
}

static ts_status wrong_shape(ts_module *m, ts_tensor **grad_in, int n, ts_tensor *grad_out,
                             void *user)
{
    (void)m, (void)n, (void)user;
    grad_in[0] = ts_sum(grad_out);
    return TS_OK;
}

TS_TEST(full_backward_hooks_see_and_replace_gradients)
{
    seen s = {0};
    ts_module *m = ts_module_new(&mix_class);
    TS_EXPECT(ts_module_register_full_backward_pre_hook(m, note_pre, &s) > 0);
    int64_t twice = ts_module_register_full_backward_pre_hook(m, double_pre, NULL);
    TS_EXPECT(ts_module_register_full_backward_hook(m, note_post, &s) > 0);
    ts_tensor *a = leaf(5), *b = leaf(7), *args[] = {a, b};
    TS_PASS(ts_backward(ts_sum(ts_module_call(m, args, 2))));
    TS_EXPECT(s.pre == 1 && s.post == 1 && s.n == 2);
    TS_EXPECT(s.out == 2 && s.in[0] == 6 && s.in[1] == 28);
    TS_EXPECT_ALL(ts_grad(a), 6.0);
    TS_EXPECT_ALL(ts_grad(b), 28.0);

    ts_module_remove_hook(m, twice);
    TS_EXPECT(ts_module_register_full_backward_hook(m, negate_first, NULL) > 0);
    ts_set_grad(a, NULL);
    ts_tensor *once = ts_module_call(m, args, 2), *again[] = {once, NULL};
    TS_PASS(ts_backward(ts_sum(ts_module_call(m, again, 2)))); /* two calls of one module */
    TS_EXPECT(s.pre == 3 && s.post == 3);
    TS_EXPECT(s.out == -3 && s.in[0] == -9); /* the inner call ran last */
    TS_EXPECT_ALL(ts_grad(a), 9.0);
    ts_module_free(m);
}

TS_TEST(full_backward_hooks_without_gradients_of_inputs)
{
    seen s = {0};
    ts_module *m = ts_linear_new(2, 2, NULL);
    TS_EXPECT(ts_module_register_full_backward_hook(m, note_post, &s) > 0);
    TS_PASS(ts_backward(ts_sum(ts_forward(m, ts_ones(TS_SHAPE(3, 2), NULL)))));
    TS_EXPECT(s.post == 1 && s.n == 1 && s.in[0] == -1 && s.out == 1);
    TS_EXPECT_ALL(ts_grad(ts_module_parameter(m, "bias")), 3.0);
    bool former = ts_no_grad_begin();
    TS_GOOD(ts_forward(m, ts_ones(TS_SHAPE(3, 2), NULL)));
    ts_no_grad_end(former);
    TS_EXPECT_INT(s.post, 1);
    TS_EXPECT_INT(ts_module_register_full_backward_hook(m, NULL, NULL), 0);
    TS_EXPECT_INT(ts_module_register_full_backward_pre_hook(NULL, note_pre, &s), 0);
    ts_module_free(m);
}

TS_TEST(full_backward_hooks_may_fail)
{
    seen s = {.result = TS_EUSER};
    ts_module *m = ts_module_new(&mix_class);
    ts_tensor *a = leaf(5);
    int64_t refusing = ts_module_register_full_backward_hook(m, note_post, &s);
    TS_FAIL(ts_backward(ts_sum(ts_forward(m, a))), TS_EUSER,
            "the backward hook of Mix returned TS_EUSER");
    ts_module_remove_hook(m, refusing);
    ts_module_register_full_backward_hook(m, wrong_shape, NULL);
    TS_FAIL(ts_backward(ts_sum(ts_forward(m, a))), TS_ESHAPE, "gradient of input 0");
    TS_EXPECT(!ts_grad(a));
    ts_module_free(m);
}
