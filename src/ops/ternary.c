/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on three tensors. */
#include "ops/elementwise_rows.h"

#define GRADIENT(name, for_a, for_b, for_c)                                                        \
    static ts_status name##_backward(const ts_backward_call *call)                                 \
    {                                                                                              \
        ts_tensor *g = call->grad_out[0], *a = call->in[0], *b = call->in[1], *c = call->in[2];    \
        double p = call->attr[0].f;                                                                \
        (void)a, (void)b, (void)c, (void)p;                                                        \
        if (call->needs[0]) call->grad_in[0] = for_a;                                              \
        if (call->needs[1]) call->grad_in[1] = for_b;                                              \
        if (call->needs[2]) call->grad_in[2] = for_c;                                              \
        return TS_OK;                                                                              \
    }

#define ROWS(name, loop_id, infer_fn, saves)                                                       \
    TS_ELEMENTWISE_ROW(name##_row, #name, loop_id, infer_fn, saves, 0, name##_backward)            \
    TS_ELEMENTWISE_ROW(name##_inplace_row, #name "_", loop_id, infer_fn, saves, TS_OP_INPLACE,     \
                       name##_backward)

static ts_tensor *dispatch(const ts_op_def *def, ts_tensor *a, ts_tensor *b, ts_tensor *c, double p)
{
    ts_op_call call = {.def = def,
                       .in = (ts_tensor *[]){a, b, c},
                       .num_in = 3,
                       .num_attrs = 1,
                       .attr = {{.f = p}}};
    return ts_dispatch(&call);
}

/* b where a, else c */
GRADIENT(where, NULL, ts_where(a, g, ts_scalar_like(g, 0)), ts_where(a, ts_scalar_like(g, 0), g))
TS_ELEMENTWISE_ROW(where_row, "where", WHERE, ts_infer_where, TS_SAVE_A, 0, where_backward)
ts_tensor *ts_where(ts_tensor *condition, ts_tensor *a, ts_tensor *b)
{
    return dispatch(&where_row, condition, a, b, 0);
}

/* a + p b c */
enum { SAVE_OTHERS = TS_SAVE(6, 0, 4, 2) };
GRADIENT(addcmul, g, ts_mul_scalar(ts_mul(g, c), p), ts_mul_scalar(ts_mul(g, b), p))
ROWS(addcmul, ADDCMUL, ts_infer_promoted, SAVE_OTHERS)
ts_tensor *ts_addcmul(ts_tensor *a, ts_tensor *b, ts_tensor *c, double value)
{
    return dispatch(&addcmul_row, a, b, c, value);
}
ts_tensor *ts_addcmul_(ts_tensor *a, ts_tensor *b, ts_tensor *c, double value)
{
    return dispatch(&addcmul_inplace_row, a, b, c, value);
}

/* a + p b / c */
enum { SAVE_QUOTIENT = TS_SAVE(6, 0, 4, 0) };
GRADIENT(addcdiv, g, ts_mul_scalar(ts_div(g, c), p),
         ts_mul_scalar(ts_mul(ts_div(g, c), ts_div(b, c)), -p))
ROWS(addcdiv, ADDCDIV, ts_infer_only_floating, SAVE_QUOTIENT)
ts_tensor *ts_addcdiv(ts_tensor *a, ts_tensor *b, ts_tensor *c, double value)
{
    return dispatch(&addcdiv_row, a, b, c, value);
}
ts_tensor *ts_addcdiv_(ts_tensor *a, ts_tensor *b, ts_tensor *c, double value)
{
    return dispatch(&addcdiv_inplace_row, a, b, c, value);
}

/* a + c (b - a) */
enum { SAVE_LERP = TS_SAVE(7, 4, 4, 3) };
GRADIENT(lerp, ts_sub(g, ts_mul(g, c)), ts_mul(g, c), ts_mul(g, ts_sub(b, a)))
ROWS(lerp, LERP, ts_infer_only_floating, SAVE_LERP)
ts_tensor *ts_lerp(ts_tensor *a, ts_tensor *b, ts_tensor *weight)
{
    return dispatch(&lerp_row, a, b, weight, 0);
}
ts_tensor *ts_lerp_(ts_tensor *a, ts_tensor *b, ts_tensor *weight)
{
    return dispatch(&lerp_inplace_row, a, b, weight, 0);
}

/* The same with a number c, which is not rounded to the dtype of a. */
static ts_status lerp_scalar_backward(const ts_backward_call *call)
{
    ts_tensor *g = call->grad_out[0];
    double p = call->attr[0].f;
    if (call->needs[0]) call->grad_in[0] = ts_mul_scalar(g, 1 - p);
    if (call->needs[1]) call->grad_in[1] = ts_mul_scalar(g, p);
    return TS_OK;
}
TS_ELEMENTWISE_ROW(lerp_scalar_row, "lerp", LERP_SCALAR, ts_infer_only_floating, TS_SAVE_NOTHING, 0,
                   lerp_scalar_backward)
TS_ELEMENTWISE_ROW(lerp_scalar_inplace_row, "lerp_", LERP_SCALAR, ts_infer_only_floating,
                   TS_SAVE_NOTHING, TS_OP_INPLACE, lerp_scalar_backward)

static ts_tensor *lerp_scalar(const ts_op_def *def, ts_tensor *a, ts_tensor *b, double weight)
{
    ts_op_call call = {.def = def,
                       .in = (ts_tensor *[]){a, b},
                       .num_in = 2,
                       .num_attrs = 1,
                       .attr = {{.f = weight}}};
    return ts_dispatch(&call);
}
ts_tensor *ts_lerp_scalar(ts_tensor *a, ts_tensor *b, double weight)
{
    return lerp_scalar(&lerp_scalar_row, a, b, weight);
}
ts_tensor *ts_lerp_scalar_(ts_tensor *a, ts_tensor *b, double weight)
{
    return lerp_scalar(&lerp_scalar_inplace_row, a, b, weight);
}
