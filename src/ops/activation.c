/* SPDX-License-Identifier: Apache-2.0 */
/* Activations, up to the second derivative. */
#include "ops/elementwise_rows.h"

TS_SLOPE(tanh, TANH_BACKWARD, ts_mul_scalar(ts_mul(ts_mul(h, g), x), -2))
TS_UNARY(tanh, TANH, ts_infer_floating, TS_SAVE_Y, slope_tanh(g, y))

TS_SLOPE(sigmoid, SIGMOID_BACKWARD, ts_mul(ts_mul(h, g), ts_add_scalar(ts_mul_scalar(x, -2), 1)))
TS_UNARY(sigmoid, SIGMOID, ts_infer_floating, TS_SAVE_Y, slope_sigmoid(g, y))

TS_SLOPE(relu, RELU_BACKWARD, NULL)
TS_UNARY(relu, RELU, ts_infer_promoted, TS_SAVE_Y, slope_relu(g, y))

/* f = x s with s = 1 / (1 + e^-x):  f'' = s (1 - s) (2 + x (1 - 2 s)) */
static ts_tensor *silu_second(ts_tensor *x)
{
    ts_tensor *s = ts_sigmoid(x), *t = ts_sigmoid(ts_neg(x));
    return ts_mul(ts_mul(s, t), ts_add_scalar(ts_mul(x, ts_sub(t, s)), 2));
}
TS_SLOPE(silu, SILU_BACKWARD, ts_mul(ts_mul(h, g), silu_second(x)))
TS_UNARY(silu, SILU, ts_infer_only_floating, TS_SAVE_A, slope_silu(g, a))

/* ---- gelu ------------------------------------------------------------------------------------ */

/* Over the normal density: 2 - x^2. */
static ts_tensor *gelu_erf_second(ts_tensor *x)
{
    ts_tensor *square = ts_mul(x, x);
    ts_tensor *density = ts_mul_scalar(ts_exp(ts_mul_scalar(square, -0.5)), 0.39894228040143268);
    return ts_mul(density, ts_add_scalar(ts_neg(square), 2));
}
TS_SLOPE(gelu_erf, GELU_ERF_BACKWARD, ts_mul(ts_mul(h, g), gelu_erf_second(x)))
TS_UNARY_ROWS(gelu_erf, GELU_ERF, ts_infer_only_floating, TS_SAVE_A, slope_gelu_erf(g, a))

/* With s = 1 / (1 + exp(-w)), w = 2 u:  s (1 - s) (2 w' + x w'' + x w'^2 (1 - 2 s)). */
static ts_tensor *gelu_tanh_second(ts_tensor *x)
{
    const double c = 2 * 0.79788456080286536;
    ts_tensor *square = ts_mul(x, x);
    ts_tensor *w1 = ts_add_scalar(ts_mul_scalar(square, 3 * 0.044715 * c), c);
    ts_tensor *w = ts_mul(x, ts_add_scalar(ts_mul_scalar(square, 0.044715 * c), c));
    ts_tensor *s = ts_sigmoid(w), *t = ts_sigmoid(ts_neg(w));
    ts_tensor *curve = ts_mul_scalar(square, 6 * 0.044715 * c); /* x w'' */
    ts_tensor *inner = ts_add(ts_add(ts_mul_scalar(w1, 2), curve),
                              ts_mul(ts_mul(x, ts_mul(w1, w1)), ts_sub(t, s)));
    return ts_mul(ts_mul(s, t), inner);
}
TS_SLOPE(gelu_tanh, GELU_TANH_BACKWARD, ts_mul(ts_mul(h, g), gelu_tanh_second(x)))
TS_UNARY_ROWS(gelu_tanh, GELU_TANH, ts_infer_only_floating, TS_SAVE_A, slope_gelu_tanh(g, a))

static ts_tensor *gelu(ts_tensor *a, ts_gelu_form form, const ts_op_def *exact,
                       const ts_op_def *by_tanh)
{
    if (form == TS_GELU_ERF) return ts_dispatch1(exact, a);
    if (form == TS_GELU_TANH) return ts_dispatch1(by_tanh, a);
    return ts_fail_tensor(TS_EINVAL, "gelu: form %d is neither TS_GELU_ERF nor TS_GELU_TANH",
                          (int)form);
}

ts_tensor *ts_gelu(ts_tensor *a, ts_gelu_form form)
{
    return gelu(a, form, &gelu_erf_row, &gelu_tanh_row);
}
ts_tensor *ts_gelu_(ts_tensor *a, ts_gelu_form form)
{
    return gelu(a, form, &gelu_erf_inplace_row, &gelu_tanh_inplace_row);
}
