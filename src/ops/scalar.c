/* SPDX-License-Identifier: Apache-2.0 */
/* Operations with numbers, which no gradient reaches. */
#include <math.h>

#include "ops/elementwise_rows.h"

static ts_tensor *with_numbers(const ts_op_def *def, ts_tensor *a, int n, double p, double q)
{
    ts_op_call call = {
        .def = def, .in = &a, .num_in = 1, .num_attrs = n, .attr = {{.f = p}, {.f = q}}};
    return ts_dispatch(&call);
}

#define WITH_NUMBER(name)                                                                          \
    ts_tensor *ts_##name(ts_tensor *a, double b) { return with_numbers(&name##_row, a, 1, b, 0); } \
    ts_tensor *ts_##name##_(ts_tensor *a, double b)                                                \
    {                                                                                              \
        return with_numbers(&name##_inplace_row, a, 1, b, 0);                                      \
    }

TS_UNARY_ROWS(add_scalar, ADD_SCALAR, ts_infer_scalar, TS_SAVE_NOTHING, g)
WITH_NUMBER(add_scalar)

TS_UNARY_ROWS(mul_scalar, MUL_SCALAR, ts_infer_scalar, TS_SAVE_NOTHING, ts_mul_scalar(g, p))
WITH_NUMBER(mul_scalar)

/* Whole numbers have no negative powers. */
static ts_status pow_scalar_infer(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_infer_scalar(call, out));
    if (ts_dtype_is_floating(out->dtype) || call->attr[0].f >= 0) return TS_OK;
    return ts_fail(TS_EDTYPE, "%s: %s to the power %g is not whole; convert it to a floating dtype",
                   call->def->name, ts_dtype_name((ts_dtype)call->in[0]->dtype), call->attr[0].f);
}
TS_UNARY_ROWS(pow_scalar, POW_SCALAR, pow_scalar_infer, TS_SAVE_A,
              p == 0 ? NULL : ts_mul_scalar(ts_mul(g, ts_pow_scalar(a, p - 1)), p))
WITH_NUMBER(pow_scalar)

/* ---- clamp ----------------------------------------------------------------------------------- */

static ts_tensor *clamp_slope(ts_tensor *g, ts_tensor *a, const ts_attr *bound);
static ts_status clamp_slope_backward(const ts_backward_call *call)
{
    if (call->needs[0]) call->grad_in[0] = clamp_slope(call->grad_out[0], call->in[1], call->attr);
    return TS_OK;
}
TS_ELEMENTWISE_ROW(clamp_slope_row, "clamp_backward", CLAMP_BACKWARD, ts_infer_floating,
                   TS_SAVE_BOTH, 0, clamp_slope_backward)
static ts_tensor *clamp_slope(ts_tensor *g, ts_tensor *a, const ts_attr *bound)
{
    ts_op_call call = {.def = &clamp_slope_row,
                       .in = (ts_tensor *[]){g, a},
                       .num_in = 2,
                       .num_attrs = 2,
                       .attr = {bound[0], bound[1]}};
    return ts_dispatch(&call);
}

static ts_status clamp_infer(const ts_op_call *call, ts_spec *out)
{
    if (isnan(call->attr[0].f) || isnan(call->attr[1].f))
        return ts_fail(TS_EINVAL, "%s: a bound is NaN; -INFINITY and INFINITY stand for none",
                       call->def->name);
    return ts_infer_scalar(call, out);
}
TS_UNARY_ROWS(clamp, CLAMP, clamp_infer, TS_SAVE_A, clamp_slope(g, a, call->attr))

ts_tensor *ts_clamp(ts_tensor *a, double low, double high)
{
    return with_numbers(&clamp_row, a, 2, low, high);
}
ts_tensor *ts_clamp_(ts_tensor *a, double low, double high)
{
    return with_numbers(&clamp_inplace_row, a, 2, low, high);
}

/* ---- by way of a tensor of no dimension ------------------------------------------------------ */

#define AS_TENSOR(name)                                                                            \
    ts_tensor *ts_##name##_scalar(ts_tensor *a, double b)                                          \
    {                                                                                              \
        return ts_##name(a, ts_scalar_like(a, b));                                                 \
    }

AS_TENSOR(sub)
AS_TENSOR(div)
AS_TENSOR(maximum)
AS_TENSOR(minimum)
AS_TENSOR(eq)
AS_TENSOR(ne)
AS_TENSOR(lt)
AS_TENSOR(le)
AS_TENSOR(gt)
AS_TENSOR(ge)
