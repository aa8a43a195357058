/* SPDX-License-Identifier: Apache-2.0 */
/* Products, variances, log-sum-exp, any and all. */
#include <math.h>
#include <tessera/ops.h>

#include "ops/reduce.h"

static const ts_attr nothing = {.i = 0};

#define KERNEL(name, result)                                                                       \
    static ts_status name##_kernel(ts_op_call *call)                                               \
    {                                                                                              \
        static const ts_line_fns lines = {name##_f32, name##_f64, name##_i64, result};             \
        return ts_reduce_lines(call, call->out[0], &lines);                                        \
    }

#define ROW(row_name, text, infer_fn, kernel_fn, backward_fn, row_flags, out)                      \
    static const ts_op_def row_name = {.name = text,                                               \
                                       .flags = row_flags,                                         \
                                       .num_out = 1,                                               \
                                       .save_in = 1,                                               \
                                       .save_out = out,                                            \
                                       .infer = infer_fn,                                          \
                                       .kernel = {[TS_CPU] = kernel_fn},                           \
                                       .backward = backward_fn};

/* The reduced dimensions of a call, for the operations that backward is written with. */
typedef struct dim_list {
    int dim[TS_MAX_DIMS], n;
} dim_list;

static dim_list dims_of(const ts_backward_call *call)
{
    dim_list list = {.n = 0};
    for (int i = 0; i < call->in_spec[0].shape.ndim; i++)
        if ((uint64_t)call->attr[TS_REDUCE_DIMS].i >> i & 1) list.dim[list.n++] = i;
    return list;
}

/* ---- prod ------------------------------------------------------------------------------------ */

#define PROD(name, type, wide)                                                                     \
    static void prod_##name(void *out, const void *x, int64_t n, const ts_attr *attr)              \
    {                                                                                              \
        wide product = 1;                                                                          \
        (void)attr;                                                                                \
        for (int64_t i = 0; i < n; i++) product *= (wide)((const type *)x)[i];                     \
        *(type *)out = (type)product;                                                              \
    }
PROD(f32, float, double)
PROD(f64, double, double)
PROD(i64, int64_t, uint64_t)
KERNEL(prod, TS_NUM_DTYPES)

static ts_status prod_infer(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_reduce_infer(call, out));
    if (!ts_dtype_is_floating(out->dtype)) out->dtype = TS_INT64;
    return TS_OK;
}

/* da = g times the product of the others.  That is y / a; where one element is 0, it is 0 for the
 * others and the product of those for itself; where several are 0, it is 0. */
static ts_status prod_backward(const ts_backward_call *call)
{
    ts_tensor *g = ts_with_dims(call, call->grad_out[0]), *a = call->in[0];
    dim_list dims = dims_of(call);
    ts_tensor *zero = ts_eq_scalar(a, 0), *rest = ts_add(a, zero); /* 1 for 0 */
    ts_tensor *count = dims.n > 0 ? ts_sum_dims(zero, dims.dim, dims.n, true) : zero;
    ts_tensor *product = ts_prod_dims(rest, dims.dim, dims.n, true);
    if (dims.n == 0) product = rest;
    ts_tensor *for_zero = ts_mul(product, ts_eq_scalar(count, 1));
    ts_tensor *for_others = ts_mul(ts_div(product, rest), ts_eq_scalar(count, 0));
    call->grad_in[0] = ts_mul(g, ts_where(zero, for_zero, for_others));
    return TS_OK;
}
ROW(prod_row, "prod", prod_infer, prod_kernel, prod_backward, 0, 0)

ts_tensor *ts_prod(ts_tensor *a) { return ts_prod_dims(a, NULL, 0, false); }
ts_tensor *ts_prod_dims(ts_tensor *a, const int *dims, int n, bool keepdim)
{
    return ts_reduce_dispatch(&prod_row, a, dims, n, keepdim, nothing);
}

/* ---- var, std: attribute correction ---------------------------------------------------------- */

/* In two passes. */
#define VARIANCE(name, type)                                                                       \
    static double variance_##name(const type *x, int64_t n, double correction)                     \
    {                                                                                              \
        double sum = 0, squares = 0, lost = 0, left = (double)n - correction;                      \
        for (int64_t i = 0; i < n; i++) sum += (double)x[i];                                       \
        for (int64_t i = 0; i < n; i++) {                                                          \
            double d = (double)x[i] - sum / (double)n;                                             \
            squares += d * d;                                                                      \
            lost += d;                                                                             \
        }                                                                                          \
        if (n > 0) squares -= lost * lost / (double)n;                                             \
        return squares / (left > 0 ? left : 0);                                                    \
    }                                                                                              \
    static void var_##name(void *out, const void *x, int64_t n, const ts_attr *attr)               \
    {                                                                                              \
        *(type *)out = (type)variance_##name(x, n, attr[TS_REDUCE_EXTRA].f);                       \
    }                                                                                              \
    static void std_##name(void *out, const void *x, int64_t n, const ts_attr *attr)               \
    {                                                                                              \
        *(type *)out = (type)sqrt(variance_##name(x, n, attr[TS_REDUCE_EXTRA].f));                 \
    }
VARIANCE(f32, float)
VARIANCE(f64, double)
#define var_i64 NULL
#define std_i64 NULL
KERNEL(var, TS_NUM_DTYPES)
KERNEL(std, TS_NUM_DTYPES)

static ts_status floating_infer(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_reduce_infer(call, out));
    return ts_reduce_need_floating(call);
}

/* (a - mean) / (n - correction) */
static ts_tensor *deviation(const ts_backward_call *call)
{
    dim_list dims = dims_of(call);
    ts_tensor *a = call->in[0], *mean = a;
    int64_t n = ts_reduced_count(call->in_spec[0].shape, (uint64_t)call->attr[TS_REDUCE_DIMS].i);
    if (dims.n > 0) mean = ts_mul_scalar(ts_sum_dims(a, dims.dim, dims.n, true), 1 / (double)n);
    double left = (double)n - call->attr[TS_REDUCE_EXTRA].f;
    return ts_mul_scalar(ts_sub(a, mean), 1 / (left > 0 ? left : 0));
}

static ts_status var_backward(const ts_backward_call *call)
{
    ts_tensor *g = ts_with_dims(call, call->grad_out[0]);
    call->grad_in[0] = ts_mul(ts_mul_scalar(g, 2), deviation(call));
    return TS_OK;
}

/* 0 where the deviation is 0 */
static ts_status std_backward(const ts_backward_call *call)
{
    ts_tensor *g = ts_with_dims(call, call->grad_out[0]), *y = ts_with_dims(call, call->out[0]);
    ts_tensor *zero = ts_eq_scalar(y, 0), *slope = ts_div(g, ts_add(y, zero));
    call->grad_in[0] = ts_mul(ts_mul(slope, ts_logical_not(zero)), deviation(call));
    return TS_OK;
}
ROW(var_row, "var", floating_infer, var_kernel, var_backward, 0, 0)
ROW(std_row, "std", floating_infer, std_kernel, std_backward, 0, 1)

ts_tensor *ts_var(ts_tensor *a, const int *dims, int n, double correction, bool keepdim)
{
    return ts_reduce_dispatch(&var_row, a, dims, n, keepdim, (ts_attr){.f = correction});
}
ts_tensor *ts_std(ts_tensor *a, const int *dims, int n, double correction, bool keepdim)
{
    return ts_reduce_dispatch(&std_row, a, dims, n, keepdim, (ts_attr){.f = correction});
}

/* ---- logsumexp ------------------------------------------------------------------------------- */

#define LOG_SUM_EXP(name, type)                                                                    \
    static void logsumexp_##name(void *out, const void *line, int64_t n, const ts_attr *attr)      \
    {                                                                                              \
        const type *x = line;                                                                      \
        double most = -INFINITY, sum = 0;                                                          \
        (void)attr;                                                                                \
        for (int64_t i = 0; i < n; i++)                                                            \
            if (!((double)x[i] <= most)) most = (double)x[i];                                      \
        double from = isfinite(most) ? most : 0;                                                   \
        for (int64_t i = 0; i < n; i++) sum += exp((double)x[i] - from);                           \
        *(type *)out = (type)(log(sum) + from);                                                    \
    }
LOG_SUM_EXP(f32, float)
LOG_SUM_EXP(f64, double)
#define logsumexp_i64 NULL
KERNEL(logsumexp, TS_NUM_DTYPES)

/* Where everything is -infinity, 0. */
static ts_status logsumexp_backward(const ts_backward_call *call)
{
    ts_tensor *g = ts_with_dims(call, call->grad_out[0]), *y = ts_with_dims(call, call->out[0]);
    ts_tensor *from = ts_where(ts_isfinite(y), y, ts_mul_scalar(ts_sign(y), 0));
    call->grad_in[0] = ts_mul(g, ts_exp(ts_sub(call->in[0], from)));
    return TS_OK;
}
ROW(logsumexp_row, "logsumexp", floating_infer, logsumexp_kernel, logsumexp_backward, 0, 1)

ts_tensor *ts_logsumexp(ts_tensor *a, const int *dims, int n, bool keepdim)
{
    return ts_reduce_dispatch(&logsumexp_row, a, dims, n, keepdim, nothing);
}

/* ---- any, all: bool -------------------------------------------------------------------------- */

#define TRUTH(name, type)                                                                          \
    static void any_##name(void *out, const void *x, int64_t n, const ts_attr *attr)               \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        (void)attr;                                                                                \
        while (i < n && ((const type *)x)[i] == 0) i++;                                            \
        *(bool *)out = i < n;                                                                      \
    }                                                                                              \
    static void all_##name(void *out, const void *x, int64_t n, const ts_attr *attr)               \
    {                                                                                              \
        int64_t i = 0;                                                                             \
        (void)attr;                                                                                \
        while (i < n && ((const type *)x)[i] != 0) i++;                                            \
        *(bool *)out = i == n;                                                                     \
    }
TRUTH(f32, float)
TRUTH(f64, double)
TRUTH(i64, int64_t)
KERNEL(any, TS_BOOL)
KERNEL(all, TS_BOOL)

static ts_status bool_infer(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_reduce_infer(call, out));
    out->dtype = TS_BOOL;
    return TS_OK;
}
ROW(any_row, "any", bool_infer, any_kernel, NULL, TS_OP_NO_GRAD, 0)
ROW(all_row, "all", bool_infer, all_kernel, NULL, TS_OP_NO_GRAD, 0)

ts_tensor *ts_any(ts_tensor *a, const int *dims, int n, bool keepdim)
{
    return ts_reduce_dispatch(&any_row, a, dims, n, keepdim, nothing);
}
ts_tensor *ts_all(ts_tensor *a, const int *dims, int n, bool keepdim)
{
    return ts_reduce_dispatch(&all_row, a, dims, n, keepdim, nothing);
}
