/* SPDX-License-Identifier: Apache-2.0 */
/* Lines along the reduced dimensions to one element each. */
#include "ops/reduce.h"

#include <tessera/ops.h>

#include "base/thread.h"

enum { GRAIN = 1 << 16 };

ts_shape ts_reduced_shape(ts_shape shape, uint64_t dims, bool keep)
{
    ts_shape out = {0};
    for (int i = 0; i < shape.ndim; i++) {
        if (!(dims >> i & 1))
            out.dim[out.ndim++] = shape.dim[i];
        else if (keep)
            out.dim[out.ndim++] = 1;
    }
    return out;
}

int64_t ts_reduced_count(ts_shape shape, uint64_t dims)
{
    int64_t count = 1;
    for (int i = 0; i < shape.ndim; i++)
        if (dims >> i & 1) count *= shape.dim[i];
    return count;
}

ts_status ts_reduce_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *a = call->in[0];
    *out = ts_tensor_spec(a);
    out->shape = ts_reduced_shape(a->shape, (uint64_t)call->attr[TS_REDUCE_DIMS].i,
                                  call->attr[TS_REDUCE_KEEP].i);
    if (a->dtype < TS_COMPLEX64) return TS_OK;
    return ts_fail(TS_EDTYPE, "%s: %s; complex numbers are stored and communicated only",
                   call->def->name, ts_dtype_name((ts_dtype)a->dtype));
}

ts_status ts_choose_infer(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_reduce_infer(call, out));
    ts_shape shape = call->in[0]->shape;
    uint64_t dims = (uint64_t)call->attr[TS_REDUCE_DIMS].i;
    if (ts_reduced_count(shape, dims) > 0) return TS_OK;
    for (int i = 0; i < shape.ndim; i++)
        if ((dims >> i & 1) && shape.dim[i] == 0)
            return ts_fail(TS_ESHAPE, "%s: dim %d has no elements to choose from", call->def->name,
                           i);
    return TS_OK;
}

ts_status ts_reduce_need_floating(const ts_op_call *call)
{
    ts_dtype dtype = (ts_dtype)call->in[0]->dtype;
    if (ts_dtype_is_floating(dtype)) return TS_OK;
    return ts_fail(TS_EDTYPE, "%s: %s has no %s; convert it to a floating dtype", call->def->name,
                   ts_dtype_name(dtype), call->def->name);
}

ts_tensor *ts_reduce_dispatch(const ts_op_def *def, ts_tensor *a, const int *dims, int n,
                              bool keepdim, ts_attr extra)
{
    uint64_t bits = 0;
    bool all = !dims || n == 0, real = a && !ts_failed(a);
    if (all && real) bits = (UINT64_C(1) << a->shape.ndim) - 1;
    for (int i = 0; !all && real && i < n; i++) {
        int dim = ts_wrap_dim(def->name, dims[i], a->shape.ndim);
        if (dim < 0) return ts_fail_tensor_last(TS_ESHAPE);
        if (bits >> dim & 1)
            return ts_fail_tensor(TS_ESHAPE, "%s: dim %d is given twice", def->name, dim);
        bits |= UINT64_C(1) << dim;
    }
    ts_op_call call = {.def = def, .in = &a, .num_in = 1, .num_attrs = TS_REDUCE_ATTRS};
    call.attr[TS_REDUCE_DIMS].i = (int64_t)bits;
    call.attr[TS_REDUCE_KEEP].i = keepdim;
    call.attr[TS_REDUCE_EXTRA] = extra;
    return ts_dispatch(&call);
}

ts_tensor *ts_dims_last(ts_tensor *t, uint64_t dims)
{
    ts_shape shape = t->shape;
    int64_t stride[TS_MAX_DIMS];
    int at = 0;
    for (int last = 0; last < 2; last++)
        for (int i = 0; i < t->shape.ndim; i++) {
            if ((int)(dims >> i & 1) != last) continue;
            shape.dim[at] = t->shape.dim[i];
            stride[at++] = t->stride[i];
        }
    return ts_tensor_view(t, shape, stride, t->offset);
}

ts_tensor *ts_computable(ts_tensor *a, bool fresh)
{
    ts_dtype dtype = (ts_dtype)a->dtype;
    if (ts_failed(a)) return ts_retain(a);
    if (dtype == TS_FLOAT16 || dtype == TS_BFLOAT16) dtype = TS_FLOAT32;
    if (!ts_dtype_is_floating(dtype)) dtype = TS_INT64;
    if (!fresh && a->contiguous && a->dtype == (uint8_t)dtype) return ts_retain(a);
    ts_spec spec = {a->shape, dtype, TS_CPU};
    ts_tensor *copy = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION);
    if (ts_failed(copy) || ts_tensor_copy_data(copy, a) == TS_OK) return copy;
    ts_release(copy);
    return ts_retain(ts_fail_tensor_last(ts_thread()->error_status));
}

typedef struct job {
    ts_line_fn fn;
    const ts_attr *attr;
    const char *x;
    char *out;
    int64_t n, line, size; /* elements of a line; bytes of a line and of a result */
} job;

static void run(int64_t begin, int64_t end, void *user)
{
    const job *j = user;
    for (int64_t i = begin; i < end; i++)
        j->fn(j->out + i * j->size, j->x + i * j->line, j->n, j->attr);
}

static void run_lines(const ts_op_call *call, ts_tensor *out, const ts_tensor *x, ts_line_fn fn,
                      int64_t n)
{
    job j = {.fn = fn,
             .attr = call->attr,
             .x = ts_tensor_bytes(x),
             .out = ts_tensor_bytes(out),
             .n = n,
             .line = n * (int64_t)ts_dtype_size((ts_dtype)x->dtype),
             .size = (int64_t)ts_dtype_size((ts_dtype)out->dtype)};
    if (out->numel > 0) ts_parallel_for(out->numel, GRAIN / (n + 1) + 1, run, &j);
}

static ts_line_fn function_for(const ts_line_fns *fns, ts_dtype dtype)
{
    return dtype == TS_FLOAT32 ? fns->f32 : dtype == TS_FLOAT64 ? fns->f64 : fns->i64;
}

/* out in another dtype than the lines give. */
static ts_status run_converting(const ts_op_call *call, ts_tensor *out, const ts_tensor *x,
                                ts_line_fn fn, int64_t n, ts_dtype result)
{
    ts_spec spec = {out->shape, result, TS_CPU};
    ts_tensor *raw = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION);
    ts_status status = ts_tensor_check(raw, call->def->name);
    if (status == TS_OK) {
        run_lines(call, raw, x, fn, n);
        status = ts_tensor_copy_data(out, raw);
    }
    ts_release(raw);
    return status;
}

ts_status ts_reduce_lines(const ts_op_call *call, ts_tensor *out, const ts_line_fns *fns)
{
    uint64_t dims = (uint64_t)call->attr[TS_REDUCE_DIMS].i;
    int64_t n = ts_reduced_count(call->in[0]->shape, dims);
    ts_tensor *x = ts_computable(ts_dims_last(call->in[0], dims), false);
    ts_status status = ts_tensor_check(x, call->def->name);
    if (status == TS_OK) {
        ts_line_fn fn = function_for(fns, (ts_dtype)x->dtype);
        ts_dtype result = fns->result == TS_NUM_DTYPES ? (ts_dtype)x->dtype : fns->result;
        if (out->dtype == (uint8_t)result)
            run_lines(call, out, x, fn, n);
        else
            status = run_converting(call, out, x, fn, n, result);
    }
    ts_release(x);
    return status;
}

ts_tensor *ts_with_dims(const ts_backward_call *call, ts_tensor *t)
{
    return ts_reshape(
        t, ts_reduced_shape(call->in_spec[0].shape, (uint64_t)call->attr[TS_REDUCE_DIMS].i, true));
}
