/* SPDX-License-Identifier: Apache-2.0 */
/* Functions with a gradient of their own. */
#include <tessera/tessera.h>

#include "test.h"

static ts_tensor *leaf(ts_shape shape, ts_dtype dtype, double value)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = dtype;
    opt.requires_grad = true;
    return ts_full(shape, value, &opt);
}

typedef struct probe {
    double scale;
    int finished;
} probe;

static void count_fini(void *user) { ((probe *)user)->finished++; }

/* y = scale x^3, and the sign of x, which has no gradient */
static ts_status cube_forward(ts_function_call *call, ts_tensor *const *in, int n, ts_tensor **out)
{
    const probe *p = ts_function_user(call);
    if (n != 1) return TS_EUSER;
    out[0] = ts_mul_scalar(ts_mul(ts_mul(in[0], in[0]), in[0]), p->scale);
    out[1] = ts_sign(in[0]);
    ts_function_mark_non_differentiable(call, 1);
    return ts_function_save(call, in[0]);
}

static ts_status cube_backward(ts_function_call *call, ts_tensor *const *grad, ts_tensor **grad_in)
{
    const probe *p = ts_function_user(call);
    ts_tensor *x = ts_function_saved(call, 0);
    if (ts_function_needs(call, 0))
        grad_in[0] = ts_mul_scalar(ts_mul(grad[0], ts_mul(x, x)), 3 * p->scale);
    return TS_OK;
}

static const ts_function_class cube = {.name = "cube",
                                       .num_out = 2,
                                       .forward = cube_forward,
                                       .backward = cube_backward,
                                       .fini = count_fini};

static ts_tensor *call_cube(ts_tensor *const *in, int n, void *user)
{
    return ts_function_apply(&cube, in, n, user, NULL);
}

TS_TEST(function_gradients_pass_the_check_and_the_graph_lets_its_user_go)
{
    probe p = {.scale = 2};
    ts_scope scope = ts_scope_begin();
    ts_tensor *x = leaf(TS_SHAPE(3), TS_FLOAT64, 1.5), *out[2];
    TS_PASS(ts_gradcheck(call_cube, &x, 1, &p, 1e-6, 1e-6, 1e-6));
    p.finished = 0;
    ts_tensor *y = ts_function_apply(&cube, &x, 1, &p, out);
    TS_EXPECT(y == out[0] && ts_requires_grad(y) && !ts_requires_grad(out[1]));
    TS_EXPECT_ALL(out[1], 1.0);
    TS_PASS(ts_backward(ts_sum(y)));
    TS_EXPECT_ALL(ts_grad(x), 13.5);
    TS_EXPECT_INT(p.finished, 1);
    TS_FAIL(ts_backward(ts_sum(y)), TS_ESTATE, "cube had saved");
    bool former = ts_no_grad_begin();
    TS_EXPECT(!ts_requires_grad(call_cube(&x, 1, &p)));
    ts_no_grad_end(former);
    TS_EXPECT_INT(p.finished, 2);
    TS_PASS(ts_scope_end(scope));
    TS_EXPECT_INT(p.finished, 2);
}

TS_TEST(function_gradients_can_be_differentiated)
{
    probe p = {.scale = 1};
    ts_tensor *x = leaf(TS_SHAPE(2), TS_FLOAT32, 3), *first, *second;
    ts_backward_options opt = TS_BACKWARD_OPTIONS_INIT;
    opt.create_graph = true;
    ts_tensor *loss = ts_sum(call_cube(&x, 1, &p));
    TS_PASS(ts_grad_of(&first, &loss, NULL, 1, &x, 1, &opt));
    TS_EXPECT_ALL(first, 27.0);
    ts_tensor *sum = ts_sum(first);
    TS_PASS(ts_grad_of(&second, &sum, NULL, 1, &x, 1, NULL));
    TS_EXPECT_ALL(second, 18.0);
}

TS_TEST(functions_guard_what_they_saved)
{
    probe p = {.scale = 1};
    ts_tensor *x = leaf(TS_SHAPE(2), TS_FLOAT32, 3), *h = ts_mul_scalar(x, 2);
    ts_tensor *y = call_cube(&h, 1, &p);
    ts_add_scalar_(h, 1);
    TS_FAIL(ts_backward(ts_sum(y)), TS_ESTATE, "backward of cube: the tensor of shape (2,)");
}

/* Each of n outputs is the input times its number; the gradient of the input is the sum. */
static ts_status many_forward(ts_function_call *call, ts_tensor *const *in, int n, ts_tensor **out)
{
    (void)call, (void)n;
    for (int i = 0; i < TS_FUNCTION_MAX_OUTPUTS; i++) out[i] = ts_mul_scalar(in[0], i);
    return TS_OK;
}

static ts_status many_backward(ts_function_call *call, ts_tensor *const *grad, ts_tensor **grad_in)
{
    (void)call;
    for (int i = 0; i < TS_FUNCTION_MAX_OUTPUTS; i++) {
        if (!grad[i]) continue;
        ts_tensor *part = ts_mul_scalar(grad[i], i);
        grad_in[0] = grad_in[0] ? ts_add(grad_in[0], part) : part;
    }
    return TS_OK;
}

static const ts_function_class many = {
    .name = "many", .num_out = TS_FUNCTION_MAX_OUTPUTS, .forward = many_forward, many_backward};

TS_TEST(functions_with_many_outputs)
{
    ts_tensor *x = leaf(TS_SHAPE(2), TS_FLOAT32, 3), *out[TS_FUNCTION_MAX_OUTPUTS];
    ts_function_apply(&many, &x, 1, NULL, out);
    ts_tensor *loss = ts_sum(ts_add(ts_add(out[31], out[31]), out[4]));
    TS_PASS(ts_backward(loss));
    TS_EXPECT_ALL(ts_grad(x), 66.0);
}

static ts_status same_forward(ts_function_call *call, ts_tensor *const *in, int n, ts_tensor **out)
{
    (void)call, (void)n;
    out[0] = in[0];
    return TS_OK;
}

static ts_status negated(ts_function_call *call, ts_tensor *const *grad, ts_tensor **grad_in)
{
    (void)call;
    grad_in[0] = ts_neg(grad[0]);
    return TS_OK;
}

static ts_status bad_gradient(ts_function_call *call, ts_tensor *const *grad, ts_tensor **grad_in)
{
    (void)call;
    grad_in[0] = ts_sum(grad[0]);
    return TS_OK;
}

static ts_status refuses(ts_function_call *call, ts_tensor *const *grad, ts_tensor **grad_in)
{
    (void)call, (void)grad, (void)grad_in;
    return TS_EUSER;
}

static ts_status forgets(ts_function_call *call, ts_tensor *const *in, int n, ts_tensor **out)
{
    (void)call, (void)in, (void)n, (void)out;
    return TS_OK;
}

TS_TEST(functions_may_pass_their_input_on)
{
    const ts_function_class reverse = {"reverse", 1, same_forward, negated, NULL};
    ts_tensor *x = leaf(TS_SHAPE(2), TS_FLOAT32, 3), *h = ts_mul_scalar(x, 2);
    ts_tensor *y = ts_function_apply(&reverse, &h, 1, NULL, NULL);
    TS_EXPECT(y != h && ts_same_storage(y, h));
    TS_PASS(ts_backward(ts_sum(ts_add(y, y))));
    TS_EXPECT_ALL(ts_grad(x), -4.0);
    TS_BAD(ts_zero_(ts_function_apply(&reverse, &x, 1, NULL, NULL)), TS_ESTATE, "view of a leaf");
}

TS_TEST(functions_report_wrong_results)
{
    const ts_function_class wrong = {"wrong", 1, same_forward, bad_gradient, NULL};
    const ts_function_class refusing = {"refusing", 1, same_forward, refuses, NULL};
    const ts_function_class empty = {"empty", 1, forgets, negated, count_fini};
    const ts_function_class nothing = {"nothing", 0, forgets, NULL, NULL};
    ts_tensor *x = leaf(TS_SHAPE(2), TS_FLOAT32, 3), *out[1], *bad;
    probe p = {0};
    TS_FAIL(ts_backward(ts_sum(ts_function_apply(&wrong, &x, 1, NULL, NULL))), TS_ESHAPE,
            "backward of wrong: the gradient of input 0 has shape (); the input has (2,)");
    TS_FAIL(ts_backward(ts_sum(ts_function_apply(&refusing, &x, 1, NULL, NULL))), TS_EUSER,
            "backward of refusing");
    TS_BAD(ts_function_apply(&empty, &x, 1, &p, out), TS_EINVAL, "empty: forward gave no output 0");
    TS_EXPECT(ts_failed(out[0]) && p.finished == 1);
    TS_BAD(ts_function_apply(&nothing, &x, 1, NULL, NULL), TS_EINVAL, "outputs");
    TS_BAD(call_cube((ts_tensor *const[]){x, x}, 2, &p), TS_EUSER, "cube returned TS_EUSER");
    bad = ts_add(x, ts_ones(TS_SHAPE(3), NULL));
    TS_EXPECT(call_cube(&bad, 1, &p) == bad && p.finished == 3);
}

TS_TEST(functions_return_their_memory)
{
    ts_memory_stats before, after;
    probe p = {.scale = 1};
    ts_memory_read(&before);
    ts_scope scope = ts_scope_begin();
    ts_tensor *x = leaf(TS_SHAPE(1000), TS_FLOAT32, 3), *y = x;
    for (int i = 0; i < 5; i++) y = call_cube(&y, 1, &p);
    TS_PASS(ts_scope_end(scope));
    ts_memory_read(&after);
    TS_EXPECT_INT(after.current_total, before.current_total);
    TS_EXPECT_INT(p.finished, 5);
}
