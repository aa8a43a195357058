/* SPDX-License-Identifier: Apache-2.0 */
/* Norms: attribute p. */
#include <math.h>
#include <tessera/ops.h>

#include "kernels/optim.h"
#include "kernels/reduce.h"
#include "ops/reduce.h"

enum { BLOCK = 1 << 16 };

static ts_status norm_infer(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_reduce_infer(call, out));
    TS_TRY(ts_reduce_need_floating(call));
    double p = call->attr[TS_REDUCE_EXTRA].f;
    if (!(p >= 0)) return ts_fail(TS_EINVAL, "norm: p is %g; it must not be negative", p);
    int64_t n = ts_reduced_count(call->in[0]->shape, (uint64_t)call->attr[TS_REDUCE_DIMS].i);
    if (isinf(p) && n == 0)
        return ts_fail(TS_ESHAPE, "norm: a tensor without elements has no largest one");
    return TS_OK;
}

static double block_sum(ts_dtype dtype, const void *x, int64_t n, double p)
{
    const ts_optim_kernels *kernels = ts_optim_kernels_for(dtype);
    if (p == 2) return kernels->sum_squares(x, n);
    if (p == 1) return kernels->sum_abs(x, n);
    return ts_reduce_kernels_for(dtype)->sum_pow(x, n, p);
}

static double count_nonzero(ts_dtype dtype, const void *x, int64_t n)
{
    double count = 0;
    for (int64_t i = 0; i < n; i++)
        count +=
            (dtype == TS_FLOAT64 ? ((const double *)x)[i] : (double)((const float *)x)[i]) != 0;
    return count;
}

static double norm_of(ts_dtype dtype, const void *x, int64_t n, double p)
{
    if (n == 0) return 0;
    if (p == 0) return count_nonzero(dtype, x, n);
    if (isinf(p)) return ts_optim_kernels_for(dtype)->max_abs(x, n);
    double sum = 0;
    for (int64_t at = 0; at < n; at += BLOCK)
        sum += block_sum(dtype, (const char *)x + at * (int64_t)ts_dtype_size(dtype),
                         n - at < BLOCK ? n - at : BLOCK, p);
    return p == 1 ? sum : p == 2 ? sqrt(sum) : pow(sum, 1 / p);
}

static void norm_f32(void *out, const void *x, int64_t n, const ts_attr *attr)
{
    *(float *)out = (float)norm_of(TS_FLOAT32, x, n, attr[TS_REDUCE_EXTRA].f);
}
static void norm_f64(void *out, const void *x, int64_t n, const ts_attr *attr)
{
    *(double *)out = norm_of(TS_FLOAT64, x, n, attr[TS_REDUCE_EXTRA].f);
}

static ts_status norm_kernel(ts_op_call *call)
{
    static const ts_line_fns lines = {norm_f32, norm_f64, NULL, TS_NUM_DTYPES};
    return ts_reduce_lines(call, call->out[0], &lines);
}

/* 1 where the norm is 0; there the gradient of the others is taken as 0. */
static ts_tensor *safe(ts_tensor *norm) { return ts_add(norm, ts_eq_scalar(norm, 0)); }

/* 1 / how many share, in each reduced part */
static ts_tensor *share_of(const ts_backward_call *call, ts_tensor *largest)
{
    int dims[TS_MAX_DIMS], n = 0;
    for (int i = 0; i < call->in_spec[0].shape.ndim; i++)
        if ((uint64_t)call->attr[TS_REDUCE_DIMS].i >> i & 1) dims[n++] = i;
    return n > 0 ? ts_sum_dims(largest, dims, n, true) : largest;
}

/* y = (sum |a|^p)^(1/p)    da = dy sign(a) (|a| / y)^(p - 1)    inf: shared by the largest */
static ts_status norm_backward(const ts_backward_call *call)
{
    ts_tensor *g = ts_with_dims(call, call->grad_out[0]), *a = call->in[0];
    ts_tensor *y = ts_with_dims(call, call->out[0]), *share;
    double p = call->attr[TS_REDUCE_EXTRA].f;
    if (p == 0) return TS_OK;
    if (p == 2) {
        share = ts_div(a, safe(y));
    } else if (p == 1) {
        share = ts_sign(a);
    } else if (isinf(p)) {
        ts_tensor *largest = ts_eq(ts_abs(a), y);
        share = ts_div(ts_mul(ts_sign(a), largest), share_of(call, largest));
    } else {
        share = ts_mul(ts_sign(a), ts_pow_scalar(ts_div(ts_abs(a), safe(y)), p - 1));
    }
    call->grad_in[0] = ts_mul(share, g);
    return TS_OK;
}

static const ts_op_def norm_row = {.name = "norm",
                                   .num_out = 1,
                                   .save_in = 1,
                                   .save_out = 1,
                                   .infer = norm_infer,
                                   .kernel = {[TS_CPU] = norm_kernel},
                                   .backward = norm_backward};

ts_tensor *ts_norm(ts_tensor *a, double p) { return ts_norm_dims(a, p, NULL, 0, false); }
ts_tensor *ts_norm_dims(ts_tensor *a, double p, const int *dims, int n, bool keepdim)
{
    return ts_reduce_dispatch(&norm_row, a, dims, n, keepdim, (ts_attr){.f = p});
}
