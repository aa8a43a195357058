/* SPDX-License-Identifier: Apache-2.0 */
/* Other orders and shapes, written with views, joins and selections. */
#include <math.h>
#include <tessera/ops.h>

#include "ops/elementwise_impl.h"

/* Returns from the function if a is missing or failed. */
#define NEED(op, a)                                                                                \
    do {                                                                                           \
        if (!(a)) return ts_fail_tensor(TS_EINVAL, op ": input 0 is missing (NULL)");              \
        if (ts_failed(a)) return (a);                                                              \
    } while (0)

static ts_tensor_options like(const ts_tensor *a, ts_dtype dtype)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = dtype;
    opt.device = (ts_device)a->device;
    return opt;
}

/* 0 .. n-1 as int64 on a's device. */
static ts_tensor *numbers(const ts_tensor *a, int64_t n)
{
    ts_tensor_options opt = like(a, TS_INT64);
    return ts_arange(0, (double)n, 1, &opt);
}

ts_tensor *ts_stack(ts_tensor *const *tensors, int n, int dim)
{
    enum { FEW = 16 };
    if (n <= 0 || !tensors) return ts_fail_tensor(TS_EINVAL, "stack: needs at least one tensor");
    NEED("stack", tensors[0]);
    ts_tensor *row[FEW], *joined = NULL;
    dim = ts_wrap_dim("stack", dim, tensors[0]->shape.ndim + 1);
    if (dim < 0) return ts_fail_tensor_last(TS_ESHAPE);
    for (int at = 0; at < n; at += FEW) {
        int count = n - at < FEW ? n - at : FEW;
        for (int i = 0; i < count; i++) {
            const ts_tensor *t = tensors[at + i];
            if (t && !ts_failed(t) && !ts_shape_equal(t->shape, tensors[0]->shape)) {
                char a[TS_SHAPE_TEXT], b[TS_SHAPE_TEXT];
                return ts_fail_tensor(TS_ESHAPE, "stack: input %d has shape %s, input 0 %s", at + i,
                                      ts_shape_format(a, sizeof a, t->shape),
                                      ts_shape_format(b, sizeof b, tensors[0]->shape));
            }
            row[i] = ts_unsqueeze(tensors[at + i], dim);
        }
        ts_tensor *part = ts_cat(row, count, dim);
        joined = joined ? ts_cat((ts_tensor *[]){joined, part}, 2, dim) : part;
    }
    return joined;
}

ts_tensor *ts_masked_fill(ts_tensor *a, ts_tensor *mask, double value)
{
    NEED("masked_fill", a);
    ts_tensor_options opt = like(a, (ts_dtype)a->dtype);
    return ts_where(mask, ts_scalar(value, &opt), a);
}

/* lower: keep column - row <= diagonal, else >=. */
static ts_tensor *triangle(const char *op, ts_tensor *a, int64_t diagonal, bool lower)
{
    if (a->shape.ndim < 2)
        return ts_fail_tensor(TS_ESHAPE, "%s: needs at least two dimensions, not %d", op,
                              a->shape.ndim);
    int64_t rows = a->shape.dim[a->shape.ndim - 2], columns = a->shape.dim[a->shape.ndim - 1];
    ts_tensor *row = ts_unsqueeze(ts_add_scalar(numbers(a, rows), (double)diagonal), 1);
    ts_tensor *column = numbers(a, columns);
    ts_tensor *drop = lower ? ts_gt(column, row) : ts_lt(column, row);
    return ts_masked_fill(a, drop, 0);
}

ts_tensor *ts_tril(ts_tensor *a, int64_t diagonal)
{
    NEED("tril", a);
    return triangle("tril", a, diagonal, true);
}

ts_tensor *ts_triu(ts_tensor *a, int64_t diagonal)
{
    NEED("triu", a);
    return triangle("triu", a, diagonal, false);
}

ts_tensor *ts_flip(ts_tensor *a, const int *dims, int n)
{
    NEED("flip", a);
    for (int i = 0; i < n; i++) {
        int dim = ts_wrap_dim("flip", dims[i], a->shape.ndim);
        if (dim < 0) return ts_fail_tensor_last(TS_ESHAPE);
        int64_t size = a->shape.ndim > 0 ? a->shape.dim[dim] : 1;
        ts_tensor *backwards = ts_add_scalar(ts_neg(numbers(a, size)), (double)(size - 1));
        a = ts_index_select(a, dim, backwards);
        if (ts_failed(a)) return a;
    }
    return n > 0 ? a : ts_clone(a);
}

ts_tensor *ts_roll(ts_tensor *a, int64_t shift, int dim)
{
    NEED("roll", a);
    dim = ts_wrap_dim("roll", dim, a->shape.ndim);
    if (dim < 0) return ts_fail_tensor_last(TS_ESHAPE);
    int64_t size = a->shape.ndim > 0 ? a->shape.dim[dim] : 0;
    if (size == 0) return ts_clone(a);
    shift = (shift % size + size) % size;
    ts_tensor *parts[] = {ts_narrow(a, dim, size - shift, shift),
                          ts_narrow(a, dim, 0, size - shift)};
    return ts_cat(parts, 2, dim);
}

ts_tensor *ts_repeat(ts_tensor *a, ts_shape times)
{
    NEED("repeat", a);
    char text[TS_SHAPE_TEXT];
    if (times.ndim < a->shape.ndim || times.ndim > TS_MAX_DIMS)
        return ts_fail_tensor(TS_ESHAPE, "repeat: %s has fewer numbers than the tensor dimensions",
                              ts_shape_format(text, sizeof text, times));
    while (a->shape.ndim < times.ndim && !ts_failed(a)) a = ts_unsqueeze(a, 0);
    for (int i = 0; i < times.ndim && !ts_failed(a); i++) {
        if (times.dim[i] < 0)
            return ts_fail_tensor(TS_ESHAPE, "repeat: %lld times in dim %d",
                                  (long long)times.dim[i], i);
        if (times.dim[i] == 0) a = ts_narrow(a, i, 0, 0);
        ts_tensor *again = a; /* doubles until it is long enough */
        for (int64_t have = 1; have < times.dim[i] && !ts_failed(again); have *= 2) {
            int64_t left = times.dim[i] - have, more = left < have ? left : have;
            ts_tensor *part = ts_narrow(again, i, 0, more * a->shape.dim[i]);
            again = ts_cat((ts_tensor *[]){again, part}, 2, i);
        }
        a = again;
    }
    return ts_failed(a) ? a : ts_clone(a);
}

ts_tensor *ts_one_hot(ts_tensor *a, int64_t classes)
{
    NEED("one_hot", a);
    if (a->dtype != TS_INT64)
        return ts_fail_tensor(TS_EDTYPE, "one_hot: input is %s; needs int64",
                              ts_dtype_name((ts_dtype)a->dtype));
    if (a->device == TS_CPU && a->numel > 0) {
        int64_t least = 0, most = 0;
        if (ts_item_int(ts_min(a), &least) != TS_OK || ts_item_int(ts_max(a), &most) != TS_OK)
            return ts_fail_tensor_last(TS_EINVAL);
        if (least < 0 || most >= classes)
            return ts_fail_tensor(TS_EINVAL, "one_hot: class %lld is not in 0 .. %lld",
                                  (long long)(least < 0 ? least : most), (long long)classes - 1);
    }
    return ts_to_dtype(ts_eq(ts_unsqueeze(a, -1), numbers(a, classes)), TS_INT64);
}

/* A part of a to which `count` slices of value are added. */
static ts_tensor *margin(const ts_tensor *a, int dim, int64_t count, double value)
{
    ts_tensor_options opt = like(a, (ts_dtype)a->dtype);
    ts_shape shape = a->shape;
    shape.dim[dim] = count;
    return ts_full(shape, value, &opt);
}

ts_tensor *ts_pad(ts_tensor *a, const int64_t *pads, int n, double value)
{
    NEED("pad", a);
    if (n < 0 || n > a->shape.ndim)
        return ts_fail_tensor(TS_ESHAPE, "pad: margins for %d dimensions of a tensor with %d", n,
                              a->shape.ndim);
    for (int i = 0; i < n && !ts_failed(a); i++) {
        int64_t before = pads[2 * i], after = pads[2 * i + 1], size = a->shape.dim[i];
        if (size + before + after < 0)
            return ts_fail_tensor(TS_ESHAPE,
                                  "pad: %lld and %lld in dim %d of size %lld leave "
                                  "nothing",
                                  (long long)before, (long long)after, i, (long long)size);
        int64_t from = before < 0 ? -before : 0;
        int64_t to = after < 0 ? size + after : size;
        if (from > 0 || to < size) a = ts_narrow(a, i, from, to > from ? to - from : 0);
        ts_tensor *part[3];
        int count = 0;
        if (before > 0) part[count++] = margin(a, i, before, value);
        part[count++] = a;
        if (after > 0) part[count++] = margin(a, i, after, value);
        if (count > 1) a = ts_cat(part, count, i);
    }
    return ts_failed(a) ? a : ts_clone(a);
}
