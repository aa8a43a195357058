/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a tensor as views: slice, narrow, select, split, chunk. */
#include <stdlib.h>
#include <string.h>
#include <tessera/ops.h>

#include "base/memory.h"
#include "ops/op.h"

/* The gradient of a part: zero elsewhere.  start and step are along dim of a row-major tensor. */
static ts_tensor *embed(ts_tensor *grad, ts_shape shape, int dim, int64_t start, int64_t step,
                        bool dropped)
{
    int64_t row_major[TS_MAX_DIMS], stride[TS_MAX_DIMS] = {0};
    ts_row_major_strides(row_major, shape);
    for (int i = 0, k = 0; i < shape.ndim; i++) {
        if (i == dim && dropped) continue;
        stride[k++] = row_major[i] * (i == dim ? step : 1);
    }
    return ts_view_embed(grad, shape, stride, start * row_major[dim]);
}

/* ---- slice: attributes dim, start, length, step (checked by ts_slice) ------------------------ */

enum { DIM, START, LENGTH, STEP, NUM_SLICE };

static ts_status slice_infer(const ts_op_call *call, ts_spec *out)
{
    *out = ts_tensor_spec(call->in[0]);
    out->shape.dim[call->attr[DIM].i] = call->attr[LENGTH].i;
    return TS_OK;
}

static ts_status slice_kernel(ts_op_call *call)
{
    ts_tensor *a = call->in[0];
    int dim = (int)call->attr[DIM].i;
    ts_shape shape = a->shape;
    int64_t stride[TS_MAX_DIMS];
    memcpy(stride, a->stride, sizeof stride);
    shape.dim[dim] = call->attr[LENGTH].i;
    stride[dim] *= call->attr[STEP].i;
    call->out[0] =
        ts_tensor_view(a, shape, stride, a->offset + call->attr[START].i * a->stride[dim]);
    return TS_OK;
}

static ts_status slice_backward(const ts_backward_call *call)
{
    call->grad_in[0] = embed(call->grad_out[0], call->in_spec[0].shape, (int)call->attr[DIM].i,
                             call->attr[START].i, call->attr[STEP].i, false);
    return TS_OK;
}

static const ts_op_def slice_row = {.name = "slice",
                                    .flags = TS_OP_VIEW,
                                    .num_out = 1,
                                    .infer = slice_infer,
                                    .kernel = {[TS_CPU] = slice_kernel},
                                    .backward = slice_backward};

static ts_tensor *call_slice(ts_tensor *a, int dim, int64_t start, int64_t length, int64_t step)
{
    ts_op_call call = {.def = &slice_row, .in = &a, .num_in = 1, .num_attrs = NUM_SLICE};
    call.attr[DIM].i = dim;
    call.attr[START].i = start;
    call.attr[LENGTH].i = length;
    call.attr[STEP].i = step;
    return ts_dispatch(&call);
}

/* The wrapped dim, or -1 after ts_fail. */
static int part_dim(const char *op, const ts_tensor *a, int dim)
{
    if (a->shape.ndim > 0) return ts_wrap_dim(op, dim, a->shape.ndim);
    ts_fail(TS_ESHAPE, "%s: a 0-dim tensor has no parts", op);
    return -1;
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

ts_tensor *ts_slice(ts_tensor *a, int dim, int64_t start, int64_t end, int64_t step)
{
    if (!a || ts_failed(a)) return call_slice(a, 0, 0, 0, 1);
    int at = part_dim("slice", a, dim);
    if (at < 0) return ts_fail_tensor_last(TS_ESHAPE);
    if (step <= 0)
        return ts_fail_tensor(TS_EINVAL, "slice: step is %lld; it must be positive",
                              (long long)step);
    int64_t size = a->shape.dim[at];
    start = clamp(start < 0 ? start + size : start, 0, size);
    end = clamp(end < 0 ? end + size : end, start, size);
    int64_t length = (end - start) / step + ((end - start) % step != 0);
    return call_slice(a, at, start, length, step);
}

ts_tensor *ts_narrow(ts_tensor *a, int dim, int64_t start, int64_t length)
{
    if (!a || ts_failed(a)) return call_slice(a, 0, 0, 0, 1);
    int at = part_dim("narrow", a, dim);
    if (at < 0) return ts_fail_tensor_last(TS_ESHAPE);
    int64_t size = a->shape.dim[at], from = start < 0 ? start + size : start;
    if (from < 0 || length < 0 || from > size || length > size - from)
        return ts_fail_tensor(TS_ESHAPE,
                              "narrow: start %lld and length %lld do not fit size %lld of dim %d",
                              (long long)start, (long long)length, (long long)size, dim);
    return call_slice(a, at, from, length, 1);
}

/* ---- select: attributes dim, index ----------------------------------------------------------- */

static ts_status select_infer(const ts_op_call *call, ts_spec *out)
{
    int dim = (int)call->attr[0].i;
    *out = ts_tensor_spec(call->in[0]);
    out->shape.ndim--;
    for (int i = dim; i < out->shape.ndim; i++) out->shape.dim[i] = out->shape.dim[i + 1];
    return TS_OK;
}

static ts_status select_kernel(ts_op_call *call)
{
    ts_tensor *a = call->in[0];
    int dim = (int)call->attr[0].i;
    ts_spec spec;
    int64_t stride[TS_MAX_DIMS];
    TS_TRY(select_infer(call, &spec));
    for (int i = 0; i < spec.shape.ndim; i++) stride[i] = a->stride[i < dim ? i : i + 1];
    call->out[0] =
        ts_tensor_view(a, spec.shape, stride, a->offset + call->attr[1].i * a->stride[dim]);
    return TS_OK;
}

static ts_status select_backward(const ts_backward_call *call)
{
    call->grad_in[0] = embed(call->grad_out[0], call->in_spec[0].shape, (int)call->attr[0].i,
                             call->attr[1].i, 1, true);
    return TS_OK;
}

static const ts_op_def select_row = {.name = "select",
                                     .flags = TS_OP_VIEW,
                                     .num_out = 1,
                                     .infer = select_infer,
                                     .kernel = {[TS_CPU] = select_kernel},
                                     .backward = select_backward};

ts_tensor *ts_select(ts_tensor *a, int dim, int64_t index)
{
    ts_op_call call = {.def = &select_row, .in = &a, .num_in = 1, .num_attrs = 2};
    if (!a || ts_failed(a)) return ts_dispatch(&call);
    int at = part_dim("select", a, dim);
    if (at < 0) return ts_fail_tensor_last(TS_ESHAPE);
    int64_t size = a->shape.dim[at], from = index < 0 ? index + size : index;
    if (from < 0 || from >= size)
        return ts_fail_tensor(TS_ESHAPE,
                              "select: index %lld is out of range for size %lld of dim %d",
                              (long long)index, (long long)size, dim);
    call.attr[0].i = at;
    call.attr[1].i = from;
    return ts_dispatch(&call);
}

/* ---- split: attributes dim and the sizes; up to as many pieces as a row has outputs ---------- */

static ts_status split_infer(const ts_op_call *call, ts_spec *out)
{
    for (int i = 0; i < call->def->num_out; i++) {
        out[i] = ts_tensor_spec(call->in[0]);
        out[i].shape.dim[call->attr[0].i] = call->attr[1 + i].i;
    }
    return TS_OK;
}

static ts_status split_kernel(ts_op_call *call)
{
    ts_tensor *a = call->in[0];
    int dim = (int)call->attr[0].i;
    int64_t offset = a->offset;
    for (int i = 0; i < call->def->num_out; i++) {
        ts_shape shape = a->shape;
        shape.dim[dim] = call->attr[1 + i].i;
        call->out[i] = ts_tensor_view(a, shape, a->stride, offset);
        offset += shape.dim[dim] * a->stride[dim];
    }
    return TS_OK;
}

static ts_status split_backward(const ts_backward_call *call)
{
    ts_tensor *grad[TS_OP_MAX_OUTPUTS];
    int dim = (int)call->attr[0].i, n = call->def->num_out;
    for (int i = 0; i < n; i++) {
        grad[i] = call->grad_out[i];
        if (grad[i]) continue;
        ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
        opt.dtype = call->in_spec[0].dtype;
        opt.device = call->in_spec[0].device;
        ts_shape shape = call->in_spec[0].shape;
        shape.dim[dim] = call->attr[1 + i].i;
        grad[i] = ts_zeros(shape, &opt);
    }
    call->grad_in[0] = ts_cat(grad, n, dim);
    return TS_OK;
}

#define SPLIT_ROW(n)                                                                               \
    {                                                                                              \
        .name = "split", .flags = TS_OP_VIEW, .num_out = n, .infer = split_infer,                  \
        .kernel = {[TS_CPU] = split_kernel}, .backward = split_backward                            \
    }
static const ts_op_def split_rows[TS_OP_MAX_OUTPUTS] = {SPLIT_ROW(1), SPLIT_ROW(2), SPLIT_ROW(3)};

static void fail_pieces(ts_tensor **out, int n, ts_tensor *failed)
{
    for (int i = 0; i < n; i++) out[i] = failed;
}

static void call_split(ts_tensor **out, ts_tensor *a, const int64_t *sizes, int n, int dim)
{
    ts_op_call call = {.def = &split_rows[n - 1], .in = &a, .num_in = 1, .num_attrs = 1 + n};
    call.attr[0].i = dim;
    for (int i = 0; i < n; i++) call.attr[1 + i].i = sizes[i];
    ts_dispatch(&call);
    for (int i = 0; i < n; i++) out[i] = call.out[i];
}

static ts_tensor *check_split(int *at, ts_tensor *a, const int64_t *sizes, int n, int dim)
{
    if (!a || ts_failed(a)) return ts_dispatch1(&split_rows[0], a);
    if (!sizes) return ts_fail_tensor(TS_EINVAL, "split: the sizes are missing");
    int64_t sum = 0;
    *at = part_dim("split", a, dim);
    if (*at < 0) return ts_fail_tensor_last(TS_ESHAPE);
    for (int i = 0; i < n; i++) {
        if (sizes[i] < 0 || sizes[i] > a->shape.dim[*at] - sum)
            return ts_fail_tensor(TS_ESHAPE,
                                  "split: piece %d of size %lld does not fit size %lld of "
                                  "dim %d",
                                  i, (long long)sizes[i], (long long)a->shape.dim[*at], dim);
        sum += sizes[i];
    }
    if (sum == a->shape.dim[*at]) return NULL;
    return ts_fail_tensor(TS_ESHAPE, "split: the sizes add up to %lld, not to size %lld of dim %d",
                          (long long)sum, (long long)a->shape.dim[*at], dim);
}

int ts_split(ts_tensor **out, ts_tensor *a, const int64_t *sizes, int n, int dim)
{
    int at = 0;
    if (n <= 0 || !out) return 0;
    ts_tensor *failed = check_split(&at, a, sizes, n, dim);
    if (failed) {
        fail_pieces(out, n, failed);
    } else if (n <= TS_OP_MAX_OUTPUTS) {
        call_split(out, a, sizes, n, at);
    } else {
        int64_t start = 0;
        for (int i = 0; i < n; start += sizes[i++]) out[i] = call_slice(a, at, start, sizes[i], 1);
    }
    return n;
}

int ts_chunk(ts_tensor **out, ts_tensor *a, int n, int dim)
{
    int at = a && !ts_failed(a) ? part_dim("chunk", a, dim) : 0;
    if (n <= 0 || !out) return 0;
    if (!a || ts_failed(a) || at < 0) {
        fail_pieces(out, n,
                    at < 0 ? ts_fail_tensor_last(TS_ESHAPE) : ts_dispatch1(&split_rows[0], a));
        return n;
    }
    int64_t size = a->shape.dim[at], each = (size + n - 1) / n;
    int pieces = each > 0 ? (int)((size + each - 1) / each) : n; /* of nothing: n empty pieces */
    int64_t *sizes = ts_calloc((size_t)pieces, sizeof *sizes);
    for (int i = 0; i < n; i++) out[i] = NULL;
    if (!sizes) {
        ts_fail_memory((size_t)pieces * sizeof *sizes, "chunk");
        fail_pieces(out, pieces, ts_fail_tensor_last(TS_ENOMEM));
        return pieces;
    }
    for (int i = 0; i < pieces; i++) sizes[i] = i < pieces - 1 ? each : size - each * (pieces - 1);
    ts_split(out, a, sizes, pieces, at);
    free(sizes);
    return pieces;
}
