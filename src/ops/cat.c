/* SPDX-License-Identifier: Apache-2.0 */
/* Joining tensors along a dimension. */
#include <string.h>
#include <tessera/ops.h>

#include "ops/op.h"

/* A 1-D tensor without elements joins anything, as in PyTorch. */
static bool skipped(const ts_shape *shape) { return shape->ndim == 1 && shape->dim[0] == 0; }

static ts_status add_size(const ts_op_call *call, ts_spec *out, int index, int dim)
{
    const ts_tensor *t = call->in[index];
    char first[TS_SHAPE_TEXT], other[TS_SHAPE_TEXT];
    ts_shape rest = t->shape;
    if (rest.ndim > dim) rest.dim[dim] = out->shape.dim[dim];
    if (!ts_shape_equal(rest, out->shape))
        return ts_fail(TS_ESHAPE, "cat: input %d of shape %s does not match %s outside dim %d",
                       index, ts_shape_format(other, sizeof other, t->shape),
                       ts_shape_format(first, sizeof first, out->shape), dim);
    out->shape.dim[dim] += t->shape.dim[dim];
    return TS_OK;
}

/* The dimension, counted from the start; -1 after ts_fail. */
static int cat_dim(const ts_op_call *call, const ts_shape *shape)
{
    if (shape->ndim > 0) return ts_wrap_dim("cat", (int)call->attr[0].i, shape->ndim);
    ts_fail(TS_ESHAPE, "cat: 0-dim tensors cannot be joined");
    return -1;
}

static const ts_tensor *first_of(const ts_op_call *call)
{
    for (int i = 0; i < call->num_in; i++)
        if (!skipped(&call->in[i]->shape)) return call->in[i];
    return call->in[0];
}

static ts_status cat_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *first = first_of(call);
    *out = ts_tensor_spec(first);
    int dim = cat_dim(call, &first->shape);
    if (dim < 0) return TS_ESHAPE;
    out->shape.dim[dim] = 0;
    for (int i = 0; i < call->num_in; i++) {
        if (call->in[i]->dtype != first->dtype)
            return ts_fail(TS_EDTYPE, "cat: input %d is %s, another one %s; convert one", i,
                           ts_dtype_name((ts_dtype)call->in[i]->dtype), ts_dtype_name(out->dtype));
        if (!skipped(&call->in[i]->shape)) TS_TRY(add_size(call, out, i, dim));
    }
    return TS_OK;
}

static ts_status cat_kernel(ts_op_call *call)
{
    ts_tensor *out = call->out[0];
    int dim = cat_dim(call, &out->shape);
    int64_t offset = out->offset;
    for (int i = 0; i < call->num_in; i++) {
        ts_tensor *t = call->in[i];
        if (t->numel == 0) {
            if (t->shape.ndim > dim && !skipped(&t->shape))
                offset += t->shape.dim[dim] * out->stride[dim];
            continue;
        }
        ts_tensor *part = ts_tensor_view(out, t->shape, out->stride, offset);
        TS_TRY(ts_tensor_check(part, "cat"));
        TS_TRY(ts_tensor_copy_data(part, t));
        offset += t->shape.dim[dim] * out->stride[dim];
    }
    return TS_OK;
}

/* Each input gets its part of the gradient. */
static ts_status cat_backward(const ts_backward_call *call)
{
    ts_tensor *g = call->grad_out[0];
    int dim = ts_wrap_dim("cat", (int)call->attr[0].i, g->shape.ndim);
    int64_t start = 0;
    for (int i = 0; i < call->num_in; i++) {
        const ts_shape *shape = &call->in_spec[i].shape;
        if (skipped(shape)) continue;
        if (call->needs[i]) call->grad_in[i] = ts_narrow(g, dim, start, shape->dim[dim]);
        start += shape->dim[dim];
    }
    return TS_OK;
}

static const ts_op_def cat_row = {.name = "cat",
                                  .num_out = 1,
                                  .infer = cat_infer,
                                  .kernel = {[TS_CPU] = cat_kernel},
                                  .backward = cat_backward};

ts_tensor *ts_cat(ts_tensor *const *tensors, int n, int dim)
{
    if (n <= 0 || !tensors) return ts_fail_tensor(TS_EINVAL, "cat: needs at least one tensor");
    ts_op_call call = {
        .def = &cat_row, .in = tensors, .num_in = n, .num_attrs = 1, .attr = {{.i = dim}}};
    return ts_dispatch(&call);
}
