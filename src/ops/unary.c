/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one tensor, each with its gradient beside it. */
#include <tessera/ops.h>

#include "ops/elementwise_impl.h"

static ts_tensor *with_scalar(const ts_op_def *def, ts_tensor *a, double p)
{
    ts_op_call call = {.def = def, .in = &a, .num_in = 1, .num_attrs = 1, .attr = {{.f = p}}};
    return ts_dispatch(&call);
}

/* y = -a    da = -dy */
static ts_status neg_kernel(ts_op_call *call) { return ts_unary_run(call, TS_UNARY_NEG, 0); }
static ts_status neg_backward(const ts_backward_call *call)
{
    call->grad_in[0] = ts_neg(call->grad_out[0]);
    return TS_OK;
}
static const ts_op_def neg_row = {.name = "neg",
                                  .num_out = 1,
                                  .infer = ts_unary_infer,
                                  .kernel = {[TS_CPU] = neg_kernel},
                                  .backward = neg_backward};
ts_tensor *ts_neg(ts_tensor *a) { return ts_dispatch1(&neg_row, a); }

/* -1, 0 or 1; no gradient */
static ts_status sign_kernel(ts_op_call *call) { return ts_unary_run(call, TS_UNARY_SIGN, 0); }
static const ts_op_def sign_row = {.name = "sign",
                                   .flags = TS_OP_NO_GRAD,
                                   .num_out = 1,
                                   .infer = ts_unary_float_infer,
                                   .kernel = {[TS_CPU] = sign_kernel}};
ts_tensor *ts_sign(ts_tensor *a) { return ts_dispatch1(&sign_row, a); }

/* y = |a|    da = dy sign(a) */
static ts_status abs_kernel(ts_op_call *call) { return ts_unary_run(call, TS_UNARY_ABS, 0); }
static ts_status abs_backward(const ts_backward_call *call)
{
    call->grad_in[0] = ts_mul(call->grad_out[0], ts_sign(call->in[0]));
    return TS_OK;
}
static const ts_op_def abs_row = {.name = "abs",
                                  .num_out = 1,
                                  .save_in = 1,
                                  .infer = ts_unary_infer,
                                  .kernel = {[TS_CPU] = abs_kernel},
                                  .backward = abs_backward};
ts_tensor *ts_abs(ts_tensor *a) { return ts_dispatch1(&abs_row, a); }

/* y = e^a    da = dy y */
static ts_status exp_kernel(ts_op_call *call) { return ts_unary_run(call, TS_UNARY_EXP, 0); }
static ts_status exp_backward(const ts_backward_call *call)
{
    call->grad_in[0] = ts_mul(call->grad_out[0], call->out[0]);
    return TS_OK;
}
static const ts_op_def exp_row = {.name = "exp",
                                  .num_out = 1,
                                  .save_out = 1,
                                  .infer = ts_unary_float_infer,
                                  .kernel = {[TS_CPU] = exp_kernel},
                                  .backward = exp_backward};
ts_tensor *ts_exp(ts_tensor *a) { return ts_dispatch1(&exp_row, a); }

/* y = ln a    da = dy / a */
static ts_status log_kernel(ts_op_call *call) { return ts_unary_run(call, TS_UNARY_LOG, 0); }
static ts_status log_backward(const ts_backward_call *call)
{
    call->grad_in[0] = ts_div(call->grad_out[0], call->in[0]);
    return TS_OK;
}
static const ts_op_def log_row = {.name = "log",
                                  .num_out = 1,
                                  .save_in = 1,
                                  .infer = ts_unary_float_infer,
                                  .kernel = {[TS_CPU] = log_kernel},
                                  .backward = log_backward};
ts_tensor *ts_log(ts_tensor *a) { return ts_dispatch1(&log_row, a); }

/* y = sqrt a    da = dy / (2 y) */
static ts_status sqrt_kernel(ts_op_call *call) { return ts_unary_run(call, TS_UNARY_SQRT, 0); }
static ts_status sqrt_backward(const ts_backward_call *call)
{
    call->grad_in[0] = ts_div(call->grad_out[0], ts_mul_scalar(call->out[0], 2));
    return TS_OK;
}
static const ts_op_def sqrt_row = {.name = "sqrt",
                                   .num_out = 1,
                                   .save_out = 1,
                                   .infer = ts_unary_float_infer,
                                   .kernel = {[TS_CPU] = sqrt_kernel},
                                   .backward = sqrt_backward};
ts_tensor *ts_sqrt(ts_tensor *a) { return ts_dispatch1(&sqrt_row, a); }

/* f(g, y) = g (1 - y y)    dg = f(df, y)    dy = -2 df g y */
static ts_status tanh_slope_kernel(ts_op_call *call)
{
    return ts_binary_run(call, TS_BINARY_TANH_BACKWARD);
}
static ts_status tanh_slope_backward(const ts_backward_call *call);
static const ts_op_def tanh_slope_row = {.name = "tanh_backward",
                                         .num_out = 1,
                                         .save_in = 3,
                                         .save_in_if = {2},
                                         .infer = ts_binary_float_infer,
                                         .kernel = {[TS_CPU] = tanh_slope_kernel},
                                         .backward = tanh_slope_backward};
static ts_status tanh_slope_backward(const ts_backward_call *call)
{
    ts_tensor *df = call->grad_out[0], *y = call->in[1];
    if (call->needs[0]) call->grad_in[0] = ts_dispatch2(&tanh_slope_row, df, y);
    if (call->needs[1]) call->grad_in[1] = ts_mul_scalar(ts_mul(ts_mul(df, call->in[0]), y), -2);
    return TS_OK;
}

/* y = tanh a    da = dy (1 - y y) */
static ts_status tanh_kernel(ts_op_call *call) { return ts_unary_run(call, TS_UNARY_TANH, 0); }
static ts_status tanh_backward(const ts_backward_call *call)
{
    call->grad_in[0] = ts_dispatch2(&tanh_slope_row, call->grad_out[0], call->out[0]);
    return TS_OK;
}
static const ts_op_def tanh_row = {.name = "tanh",
                                   .num_out = 1,
                                   .save_out = 1,
                                   .infer = ts_unary_float_infer,
                                   .kernel = {[TS_CPU] = tanh_kernel},
                                   .backward = tanh_backward};
ts_tensor *ts_tanh(ts_tensor *a) { return ts_dispatch1(&tanh_row, a); }

/* f(g, y) = g y (1 - y)    dg = f(df, y)    dy = df g (1 - 2 y) */
static ts_status sigmoid_slope_kernel(ts_op_call *call)
{
    return ts_binary_run(call, TS_BINARY_SIGMOID_BACKWARD);
}
static ts_status sigmoid_slope_backward(const ts_backward_call *call);
static const ts_op_def sigmoid_slope_row = {.name = "sigmoid_backward",
                                            .num_out = 1,
                                            .save_in = 3,
                                            .save_in_if = {2},
                                            .infer = ts_binary_float_infer,
                                            .kernel = {[TS_CPU] = sigmoid_slope_kernel},
                                            .backward = sigmoid_slope_backward};
static ts_status sigmoid_slope_backward(const ts_backward_call *call)
{
    ts_tensor *df = call->grad_out[0], *y = call->in[1];
    if (call->needs[0]) call->grad_in[0] = ts_dispatch2(&sigmoid_slope_row, df, y);
    if (call->needs[1])
        call->grad_in[1] = ts_mul(ts_mul(df, call->in[0]), ts_add_scalar(ts_mul_scalar(y, -2), 1));
    return TS_OK;
}

/* y = 1 / (1 + e^-a)    da = dy y (1 - y) */
static ts_status sigmoid_kernel(ts_op_call *call)
{
    return ts_unary_run(call, TS_UNARY_SIGMOID, 0);
}
static ts_status sigmoid_backward(const ts_backward_call *call)
{
    call->grad_in[0] = ts_dispatch2(&sigmoid_slope_row, call->grad_out[0], call->out[0]);
    return TS_OK;
}
static const ts_op_def sigmoid_row = {.name = "sigmoid",
                                      .num_out = 1,
                                      .save_out = 1,
                                      .infer = ts_unary_float_infer,
                                      .kernel = {[TS_CPU] = sigmoid_kernel},
                                      .backward = sigmoid_backward};
ts_tensor *ts_sigmoid(ts_tensor *a) { return ts_dispatch1(&sigmoid_row, a); }

/* f(g, y) = g where y > 0, else 0    dg = f(df, y) */
static ts_status relu_slope_kernel(ts_op_call *call)
{
    return ts_binary_run(call, TS_BINARY_RELU_BACKWARD);
}
static ts_status relu_slope_backward(const ts_backward_call *call);
static const ts_op_def relu_slope_row = {.name = "relu_backward",
                                         .num_out = 1,
                                         .save_in = 2,
                                         .infer = ts_binary_float_infer,
                                         .kernel = {[TS_CPU] = relu_slope_kernel},
                                         .backward = relu_slope_backward};
static ts_status relu_slope_backward(const ts_backward_call *call)
{
    call->grad_in[0] = ts_dispatch2(&relu_slope_row, call->grad_out[0], call->in[1]);
    return TS_OK;
}

/* y = max(a, 0)    da = dy where y > 0, else 0 */
static ts_status relu_kernel(ts_op_call *call) { return ts_unary_run(call, TS_UNARY_RELU, 0); }
static ts_status relu_backward(const ts_backward_call *call)
{
    call->grad_in[0] = ts_dispatch2(&relu_slope_row, call->grad_out[0], call->out[0]);
    return TS_OK;
}
static const ts_op_def relu_row = {.name = "relu",
                                   .num_out = 1,
                                   .save_out = 1,
                                   .infer = ts_unary_float_infer,
                                   .kernel = {[TS_CPU] = relu_kernel},
                                   .backward = relu_backward};
ts_tensor *ts_relu(ts_tensor *a) { return ts_dispatch1(&relu_row, a); }

/* ---- with a scalar --------------------------------------------------------------------------- */

/* y = a + p    da = dy */
static ts_status add_scalar_kernel(ts_op_call *call)
{
    return ts_unary_run(call, TS_UNARY_ADD_SCALAR, call->attr[0].f);
}
static ts_status add_scalar_backward(const ts_backward_call *call)
{
    call->grad_in[0] = call->grad_out[0];
    return TS_OK;
}
static const ts_op_def add_scalar_row = {.name = "add_scalar",
                                         .num_out = 1,
                                         .infer = ts_unary_scalar_infer,
                                         .kernel = {[TS_CPU] = add_scalar_kernel},
                                         .backward = add_scalar_backward};
static const ts_op_def add_scalar_inplace_row = {.name = "add_scalar_",
                                                 .flags = TS_OP_INPLACE,
                                                 .num_out = 1,
                                                 .infer = ts_unary_scalar_infer,
                                                 .kernel = {[TS_CPU] = add_scalar_kernel},
                                                 .backward = add_scalar_backward};
ts_tensor *ts_add_scalar(ts_tensor *a, double b) { return with_scalar(&add_scalar_row, a, b); }
ts_tensor *ts_add_scalar_(ts_tensor *a, double b)
{
    return with_scalar(&add_scalar_inplace_row, a, b);
}

/* y = p a    da = p dy */
static ts_status mul_scalar_kernel(ts_op_call *call)
{
    return ts_unary_run(call, TS_UNARY_MUL_SCALAR, call->attr[0].f);
}
static ts_status mul_scalar_backward(const ts_backward_call *call)
{
    call->grad_in[0] = ts_mul_scalar(call->grad_out[0], call->attr[0].f);
    return TS_OK;
}
static const ts_op_def mul_scalar_row = {.name = "mul_scalar",
                                         .num_out = 1,
                                         .infer = ts_unary_scalar_infer,
                                         .kernel = {[TS_CPU] = mul_scalar_kernel},
                                         .backward = mul_scalar_backward};
static const ts_op_def mul_scalar_inplace_row = {.name = "mul_scalar_",
                                                 .flags = TS_OP_INPLACE,
                                                 .num_out = 1,
                                                 .infer = ts_unary_scalar_infer,
                                                 .kernel = {[TS_CPU] = mul_scalar_kernel},
                                                 .backward = mul_scalar_backward};
ts_tensor *ts_mul_scalar(ts_tensor *a, double b) { return with_scalar(&mul_scalar_row, a, b); }
ts_tensor *ts_mul_scalar_(ts_tensor *a, double b)
{
    return with_scalar(&mul_scalar_inplace_row, a, b);
}

/* y = a^p    da = dy p a^(p - 1), 0 if p is 0 */
static ts_status pow_scalar_kernel(ts_op_call *call)
{
    return ts_unary_run(call, TS_UNARY_POW_SCALAR, call->attr[0].f);
}
static ts_status pow_scalar_backward(const ts_backward_call *call)
{
    double p = call->attr[0].f;
    if (p == 0) return TS_OK;
    call->grad_in[0] =
        ts_mul_scalar(ts_mul(call->grad_out[0], ts_pow_scalar(call->in[0], p - 1)), p);
    return TS_OK;
}
static const ts_op_def pow_scalar_row = {.name = "pow_scalar",
                                         .num_out = 1,
                                         .save_in = 1,
                                         .infer = ts_unary_float_infer,
                                         .kernel = {[TS_CPU] = pow_scalar_kernel},
                                         .backward = pow_scalar_backward};
ts_tensor *ts_pow_scalar(ts_tensor *a, double exponent)
{
    return with_scalar(&pow_scalar_row, a, exponent);
}
