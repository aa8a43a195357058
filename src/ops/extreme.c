/* SPDX-License-Identifier: Apache-2.0 */
/* Largest and smallest elements, and where they are. */
#include <math.h>
#include <tessera/ops.h>

#include "kernels/reduce.h"
#include "ops/reduce.h"

/* The first largest or smallest; NaN counts as either. */
#define LINES(type, name)                                                                          \
    static int64_t where_max_##name(const type *x, int64_t n)                                      \
    {                                                                                              \
        int64_t best = 0;                                                                          \
        for (int64_t i = 1; i < n && x[best] == x[best]; i++)                                      \
            if (!(x[i] <= x[best])) best = i;                                                      \
        return best;                                                                               \
    }                                                                                              \
    static int64_t where_min_##name(const type *x, int64_t n)                                      \
    {                                                                                              \
        int64_t best = 0;                                                                          \
        for (int64_t i = 1; i < n && x[best] == x[best]; i++)                                      \
            if (!(x[i] >= x[best])) best = i;                                                      \
        return best;                                                                               \
    }                                                                                              \
    static void argmax_##name(void *out, const void *x, int64_t n, const ts_attr *attr)            \
    {                                                                                              \
        (void)attr;                                                                                \
        *(int64_t *)out = where_max_##name(x, n);                                                  \
    }                                                                                              \
    static void argmin_##name(void *out, const void *x, int64_t n, const ts_attr *attr)            \
    {                                                                                              \
        (void)attr;                                                                                \
        *(int64_t *)out = where_min_##name(x, n);                                                  \
    }
LINES(float, f32)
LINES(double, f64)
LINES(int64_t, i64)
#undef LINES

#define FLOAT_LINE(name, type, dtype)                                                              \
    static void name##_##dtype(void *out, const void *x, int64_t n, const ts_attr *attr)           \
    {                                                                                              \
        (void)attr;                                                                                \
        *(type *)out =                                                                             \
            (type)ts_reduce_kernels_for(sizeof(type) == 4 ? TS_FLOAT32 : TS_FLOAT64)->name(x, n);  \
    }
FLOAT_LINE(max, float, f32)
FLOAT_LINE(max, double, f64)
FLOAT_LINE(min, float, f32)
FLOAT_LINE(min, double, f64)
#undef FLOAT_LINE

/* int64 beyond 2^53 does not fit a double. */
static void max_i64(void *out, const void *x, int64_t n, const ts_attr *attr)
{
    (void)attr;
    *(int64_t *)out = ((const int64_t *)x)[where_max_i64(x, n)];
}
static void min_i64(void *out, const void *x, int64_t n, const ts_attr *attr)
{
    (void)attr;
    *(int64_t *)out = ((const int64_t *)x)[where_min_i64(x, n)];
}

static const ts_line_fns max_lines = {max_f32, max_f64, max_i64, TS_NUM_DTYPES};
static const ts_line_fns min_lines = {min_f32, min_f64, min_i64, TS_NUM_DTYPES};
static const ts_line_fns argmax_lines = {argmax_f32, argmax_f64, argmax_i64, TS_INT64};
static const ts_line_fns argmin_lines = {argmin_f32, argmin_f64, argmin_i64, TS_INT64};

/* ---- values; ties share the gradient --------------------------------------------------------- */

static ts_status max_kernel(ts_op_call *call)
{
    return ts_reduce_lines(call, call->out[0], &max_lines);
}
static ts_status min_kernel(ts_op_call *call)
{
    return ts_reduce_lines(call, call->out[0], &min_lines);
}

static ts_status extreme_backward(const ts_backward_call *call)
{
    ts_tensor *g = ts_with_dims(call, call->grad_out[0]), *y = ts_with_dims(call, call->out[0]);
    ts_tensor *chosen = ts_to_dtype(ts_eq(call->in[0], y), (ts_dtype)g->dtype);
    int dims[TS_MAX_DIMS], n = 0;
    for (int i = 0; i < call->in_spec[0].shape.ndim; i++)
        if ((uint64_t)call->attr[TS_REDUCE_DIMS].i >> i & 1) dims[n++] = i;
    ts_tensor *count = n > 0 ? ts_sum_dims(chosen, dims, n, true) : chosen;
    call->grad_in[0] = ts_mul(chosen, ts_div(g, count));
    return TS_OK;
}

#define EXTREME(row_name, text, kernel_fn)                                                         \
    static const ts_op_def row_name = {.name = text,                                               \
                                       .num_out = 1,                                               \
                                       .save_in = 1,                                               \
                                       .save_out = 1,                                              \
                                       .infer = ts_choose_infer,                                   \
                                       .kernel = {[TS_CPU] = kernel_fn},                           \
                                       .backward = extreme_backward};
EXTREME(max_row, "max", max_kernel)
EXTREME(min_row, "min", min_kernel)
#undef EXTREME

static const ts_attr nothing = {.i = 0};

ts_tensor *ts_max(ts_tensor *a) { return ts_amax(a, NULL, 0, false); }
ts_tensor *ts_min(ts_tensor *a) { return ts_amin(a, NULL, 0, false); }
ts_tensor *ts_amax(ts_tensor *a, const int *dims, int n, bool keepdim)
{
    return ts_reduce_dispatch(&max_row, a, dims, n, keepdim, nothing);
}
ts_tensor *ts_amin(ts_tensor *a, const int *dims, int n, bool keepdim)
{
    return ts_reduce_dispatch(&min_row, a, dims, n, keepdim, nothing);
}

/* ---- places ---------------------------------------------------------------------------------- */

static ts_status arg_infer(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_choose_infer(call, out));
    out->dtype = TS_INT64;
    return TS_OK;
}
static ts_status argmax_kernel(ts_op_call *call)
{
    return ts_reduce_lines(call, call->out[0], &argmax_lines);
}
static ts_status argmin_kernel(ts_op_call *call)
{
    return ts_reduce_lines(call, call->out[0], &argmin_lines);
}

#define PLACE(op)                                                                                  \
    static const ts_op_def op##_row = {.name = #op,                                                \
                                       .flags = TS_OP_NO_GRAD,                                     \
                                       .num_out = 1,                                               \
                                       .infer = arg_infer,                                         \
                                       .kernel = {[TS_CPU] = op##_kernel}};                        \
    ts_tensor *ts_##op(ts_tensor *a, int dim, bool keepdim)                                        \
    {                                                                                              \
        return ts_reduce_dispatch(&op##_row, a, &dim, 1, keepdim, nothing);                        \
    }
PLACE(argmax)
PLACE(argmin)
#undef PLACE

/* ---- values with their places; the first of equals has the gradient -------------------------- */

static ts_status both_infer(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_choose_infer(call, out));
    out[1] = out[0];
    out[1].dtype = TS_INT64;
    return TS_OK;
}
static ts_status max_dim_kernel(ts_op_call *call)
{
    TS_TRY(ts_reduce_lines(call, call->out[0], &max_lines));
    return ts_reduce_lines(call, call->out[1], &argmax_lines);
}
static ts_status min_dim_kernel(ts_op_call *call)
{
    TS_TRY(ts_reduce_lines(call, call->out[0], &min_lines));
    return ts_reduce_lines(call, call->out[1], &argmin_lines);
}

static ts_status both_backward(const ts_backward_call *call)
{
    ts_shape shape = call->in_spec[0].shape, along = {.ndim = shape.ndim};
    ts_tensor *g = ts_with_dims(call, call->grad_out[0]), *at = ts_with_dims(call, call->out[1]);
    int64_t n = 1;
    for (int i = 0; i < shape.ndim; i++) {
        along.dim[i] = 1;
        if ((uint64_t)call->attr[TS_REDUCE_DIMS].i >> i & 1) along.dim[i] = n = shape.dim[i];
    }
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    opt.device = call->in_spec[0].device;
    ts_tensor *index = ts_reshape(ts_arange(0, (double)n, 1, &opt), along);
    call->grad_in[0] = ts_mul(ts_to_dtype(ts_eq(index, at), (ts_dtype)g->dtype), g);
    return TS_OK;
}

#define BOTH(op)                                                                                   \
    static const ts_op_def op##_row = {.name = #op,                                                \
                                       .num_out = 2,                                               \
                                       .save_out = 2,                                              \
                                       .infer = both_infer,                                        \
                                       .kernel = {[TS_CPU] = op##_kernel},                         \
                                       .backward = both_backward};                                 \
    ts_tensor *ts_##op(ts_tensor *a, int dim, bool keepdim, ts_tensor **indices)                   \
    {                                                                                              \
        return both(&op##_row, a, dim, keepdim, indices);                                          \
    }

static ts_tensor *both(const ts_op_def *def, ts_tensor *a, int dim, bool keepdim,
                       ts_tensor **indices)
{
    int wrapped = 0;
    ts_op_call call = {.def = def, .in = &a, .num_in = 1, .num_attrs = TS_REDUCE_ATTRS};
    if (a && !ts_failed(a)) wrapped = ts_wrap_dim(def->name, dim, a->shape.ndim);
    if (wrapped < 0) {
        call.out[0] = call.out[1] = ts_fail_tensor_last(TS_ESHAPE);
    } else {
        uint64_t bits = a && !ts_failed(a) && a->shape.ndim > 0 ? UINT64_C(1) << wrapped : 0;
        call.attr[TS_REDUCE_DIMS].i = (int64_t)bits;
        call.attr[TS_REDUCE_KEEP].i = keepdim;
        ts_dispatch(&call);
    }
    if (indices) *indices = call.out[1];
    return call.out[0];
}
BOTH(max_dim)
BOTH(min_dim)
