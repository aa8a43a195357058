/* SPDX-License-Identifier: Apache-2.0 */
/* Largest and smallest elements; norms. */
#include <math.h>
#include <tessera/ops.h>

#include "base/thread.h"
#include "kernels/optim.h"
#include "kernels/reduce.h"
#include "ops/elementwise_impl.h"

enum { BLOCK = 1 << 16 };

/* Row-major float32 or float64 of t, to be released; float64 for whole numbers. */
static ts_tensor *floats_of(ts_tensor *t)
{
    ts_dtype dtype = (ts_dtype)t->dtype;
    if (dtype == TS_FLOAT16 || dtype == TS_BFLOAT16) dtype = TS_FLOAT32;
    if (!ts_dtype_is_floating(dtype)) dtype = TS_FLOAT64;
    if (t->contiguous && t->dtype == (uint8_t)dtype) return ts_retain(t);
    ts_spec spec = {t->shape, dtype, TS_CPU};
    ts_tensor *copy = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION);
    if (ts_failed(copy) || ts_tensor_copy_data(copy, t) == TS_OK) return copy;
    ts_release(copy);
    return ts_retain(ts_fail_tensor_last(ts_thread()->error_status));
}

static ts_status not_complex(const ts_op_call *call)
{
    if (call->in[0]->dtype < TS_COMPLEX64) return TS_OK;
    return ts_fail(TS_EDTYPE, "%s: %s; complex numbers are stored and communicated only",
                   call->def->name, ts_dtype_name((ts_dtype)call->in[0]->dtype));
}

/* ---- max, min -------------------------------------------------------------------------------- */

static ts_status extreme_infer(const ts_op_call *call, ts_spec *out)
{
    *out = ts_tensor_spec(call->in[0]);
    out->shape = ts_shape_scalar();
    if (call->in[0]->numel == 0)
        return ts_fail(TS_ESHAPE, "%s: a tensor without elements has none", call->def->name);
    return not_complex(call);
}

/* Index of the first largest or smallest.  int64 beyond 2^53 does not fit a double. */
static int64_t extreme_int(const int64_t *x, int64_t n, bool largest)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (largest ? x[i] > x[best] : x[i] < x[best]) best = i;
    return best;
}

static ts_status run_extreme_int(ts_op_call *call, bool largest)
{
    ts_tensor *t = ts_row_major(call->in[0]);
    TS_TRY(ts_tensor_check(t, call->def->name));
    const int64_t *x = (const int64_t *)(const void *)ts_tensor_bytes(t);
    *(int64_t *)(void *)ts_tensor_bytes(call->out[0]) = x[extreme_int(x, t->numel, largest)];
    return TS_OK;
}

static ts_status run_extreme(ts_op_call *call, bool largest)
{
    if (call->in[0]->dtype == TS_INT64) return run_extreme_int(call, largest);
    ts_tensor *t = floats_of(call->in[0]);
    ts_status status = ts_tensor_check(t, call->def->name);
    if (status == TS_OK) {
        const ts_reduce_kernels *kernels = ts_reduce_kernels_for((ts_dtype)t->dtype);
        double best = (largest ? kernels->max : kernels->min)(ts_tensor_bytes(t), t->numel);
        status = ts_tensor_fill_data(call->out[0], best);
    }
    ts_release(t);
    return status;
}

static ts_status max_kernel(ts_op_call *call) { return run_extreme(call, true); }
static ts_status min_kernel(ts_op_call *call) { return run_extreme(call, false); }

static const ts_op_def max_row = {.name = "max",
                                  .flags = TS_OP_NO_GRAD,
                                  .num_out = 1,
                                  .infer = extreme_infer,
                                  .kernel = {[TS_CPU] = max_kernel}};
static const ts_op_def min_row = {.name = "min",
                                  .flags = TS_OP_NO_GRAD,
                                  .num_out = 1,
                                  .infer = extreme_infer,
                                  .kernel = {[TS_CPU] = min_kernel}};

ts_tensor *ts_max(ts_tensor *a) { return ts_dispatch1(&max_row, a); }
ts_tensor *ts_min(ts_tensor *a) { return ts_dispatch1(&min_row, a); }

/* ---- argmax: attributes dim, keepdim --------------------------------------------------------- */

static ts_status argmax_infer(const ts_op_call *call, ts_spec *out)
{
    ts_shape shape = call->in[0]->shape;
    int dim = ts_wrap_dim("argmax", (int)call->attr[0].i, shape.ndim);
    if (dim < 0) return TS_ESHAPE;
    *out = ts_tensor_spec(call->in[0]);
    out->dtype = TS_INT64;
    TS_TRY(not_complex(call));
    if (shape.ndim == 0) return TS_OK;
    if (shape.dim[dim] == 0) return ts_fail(TS_ESHAPE, "argmax: dim %d has no elements", dim);
    out->shape.dim[dim] = 1;
    if (call->attr[1].i) return TS_OK;
    out->shape.ndim--;
    for (int i = dim; i < out->shape.ndim; i++) out->shape.dim[i] = shape.dim[i + 1];
    return TS_OK;
}

typedef struct argmax_job {
    int64_t (*argmax)(const void *x, int64_t n);
    const char *x;
    int64_t *out, n;
    size_t size;
} argmax_job;

static int64_t argmax_int(const void *x, int64_t n) { return extreme_int(x, n, true); }

static void argmax_lines(int64_t begin, int64_t end, void *user)
{
    const argmax_job *j = user;
    for (int64_t i = begin; i < end; i++)
        j->out[i] = j->argmax(j->x + i * j->n * (int64_t)j->size, j->n);
}

/* t with dim moved to the end, so that lines are contiguous once copied. */
static ts_tensor *dim_last(ts_tensor *t, int dim)
{
    ts_shape shape = t->shape;
    int64_t stride[TS_MAX_DIMS];
    int last = shape.ndim - 1;
    for (int i = 0; i <= last; i++) {
        int from = i == last ? dim : i < dim ? i : i + 1;
        shape.dim[i] = t->shape.dim[from];
        stride[i] = t->stride[from];
    }
    return ts_tensor_view(t, shape, stride, t->offset);
}

static ts_status argmax_kernel(ts_op_call *call)
{
    ts_tensor *a = call->in[0];
    int64_t *out = (int64_t *)(void *)ts_tensor_bytes(call->out[0]);
    if (a->shape.ndim == 0) return ts_tensor_fill_data(call->out[0], 0);
    ts_tensor *moved = dim_last(a, ts_wrap_dim("argmax", (int)call->attr[0].i, a->shape.ndim));
    TS_TRY(ts_tensor_check(moved, "argmax"));
    bool whole = a->dtype == TS_INT64;
    ts_tensor *t = whole ? ts_retain(ts_row_major(moved)) : floats_of(moved);
    ts_status status = ts_tensor_check(t, "argmax");
    if (status == TS_OK && t->numel > 0) {
        ts_dtype dtype = (ts_dtype)t->dtype;
        argmax_job job = {whole ? argmax_int : ts_reduce_kernels_for(dtype)->argmax,
                          ts_tensor_bytes(t), out, t->shape.dim[t->shape.ndim - 1],
                          ts_dtype_size(dtype)};
        ts_parallel_for(call->out[0]->numel, BLOCK / job.n + 1, argmax_lines, &job);
    }
    ts_release(t);
    return status;
}

static const ts_op_def argmax_row = {.name = "argmax",
                                     .flags = TS_OP_NO_GRAD,
                                     .num_out = 1,
                                     .infer = argmax_infer,
                                     .kernel = {[TS_CPU] = argmax_kernel}};

ts_tensor *ts_argmax(ts_tensor *a, int dim, bool keepdim)
{
    ts_op_call call = {.def = &argmax_row,
                       .in = &a,
                       .num_in = 1,
                       .num_attrs = 2,
                       .attr = {{.i = dim}, {.i = keepdim}}};
    return ts_dispatch(&call);
}

/* ---- norm: attribute p ----------------------------------------------------------------------- */

static ts_status norm_infer(const ts_op_call *call, ts_spec *out)
{
    *out = ts_tensor_spec(call->in[0]);
    out->shape = ts_shape_scalar();
    double p = call->attr[0].f;
    if (!ts_dtype_is_floating((ts_dtype)call->in[0]->dtype))
        return ts_fail(TS_EDTYPE, "norm: %s has no norm; convert it to a floating dtype",
                       ts_dtype_name((ts_dtype)call->in[0]->dtype));
    if (!(p >= 0)) return ts_fail(TS_EINVAL, "norm: p is %g; it must not be negative", p);
    if (isinf(p) && call->in[0]->numel == 0)
        return ts_fail(TS_ESHAPE, "norm: a tensor without elements has no largest one");
    return TS_OK;
}

static double block_sum(const ts_tensor *t, int64_t at, int64_t n, double p)
{
    const char *x = ts_tensor_bytes(t) + at * (int64_t)ts_dtype_size((ts_dtype)t->dtype);
    const ts_optim_kernels *kernels = ts_optim_kernels_for((ts_dtype)t->dtype);
    if (p == 2) return kernels->sum_squares(x, n);
    if (p == 1) return kernels->sum_abs(x, n);
    return ts_reduce_kernels_for((ts_dtype)t->dtype)->sum_pow(x, n, p);
}

static double count_nonzero(const ts_tensor *t)
{
    double count = 0;
    bool wide = t->dtype == TS_FLOAT64;
    const void *x = ts_tensor_bytes(t);
    for (int64_t i = 0; i < t->numel; i++)
        count += (wide ? ((const double *)x)[i] : (double)((const float *)x)[i]) != 0;
    return count;
}

static double norm_of(const ts_tensor *t, double p)
{
    if (t->numel == 0) return 0;
    if (p == 0) return count_nonzero(t);
    if (isinf(p))
        return ts_optim_kernels_for((ts_dtype)t->dtype)->max_abs(ts_tensor_bytes(t), t->numel);
    double sum = 0;
    for (int64_t at = 0; at < t->numel; at += BLOCK)
        sum += block_sum(t, at, t->numel - at < BLOCK ? t->numel - at : BLOCK, p);
    return p == 1 ? sum : p == 2 ? sqrt(sum) : pow(sum, 1 / p);
}

static ts_status norm_kernel(ts_op_call *call)
{
    ts_tensor *t = floats_of(call->in[0]);
    ts_status status = ts_tensor_check(t, "norm");
    if (status == TS_OK) status = ts_tensor_fill_data(call->out[0], norm_of(t, call->attr[0].f));
    ts_release(t);
    return status;
}

/* 1 where the norm is not 0; there the gradient of the others is taken as 0. */
static ts_tensor *safe(ts_tensor *norm)
{
    ts_tensor *zero = ts_eq_scalar(norm, 0);
    return ts_add(norm, zero);
}

/* y = (sum |a|^p)^(1/p)    da = dy sign(a) (|a| / y)^(p - 1)    inf: shared by the largest */
static ts_status norm_backward(const ts_backward_call *call)
{
    ts_tensor *g = call->grad_out[0], *a = call->in[0], *y = call->out[0], *share;
    double p = call->attr[0].f;
    if (p == 0) return TS_OK;
    if (p == 2) {
        share = ts_div(a, safe(y));
    } else if (p == 1) {
        share = ts_sign(a);
    } else if (isinf(p)) {
        ts_tensor *largest = ts_eq(ts_abs(a), y);
        share = ts_div(ts_mul(ts_sign(a), largest), ts_sum(largest));
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

ts_tensor *ts_norm(ts_tensor *a, double p)
{
    ts_op_call call = {.def = &norm_row, .in = &a, .num_in = 1, .num_attrs = 1, .attr = {{.f = p}}};
    return ts_dispatch(&call);
}
