/* SPDX-License-Identifier: Apache-2.0 */
/* Views: other geometry on the same storage. */
#include <string.h>
#include <tessera/ops.h>

#include "ops/op.h"

/* Kernels of view rows compute the geometry; infer has checked the arguments and given the shape.
 */

static ts_tensor *with_ints(const ts_op_def *def, ts_tensor *a, const int64_t *value, int n)
{
    ts_op_call call = {.def = def, .in = &a, .num_in = 1, .num_attrs = n};
    for (int i = 0; i < n; i++) call.attr[i].i = value[i];
    return ts_dispatch(&call);
}

static ts_tensor *with_shape(const ts_op_def *def, ts_tensor *a, ts_shape shape)
{
    if (shape.ndim < 0 || shape.ndim > TS_MAX_DIMS)
        return ts_fail_tensor(TS_ESHAPE, "%s: a shape has at most %d dimensions", def->name,
                              TS_MAX_DIMS);
    return with_ints(def, a, shape.dim, shape.ndim);
}

static ts_shape attr_shape(const ts_op_call *call)
{
    ts_shape shape = {.ndim = call->num_attrs};
    for (int i = 0; i < shape.ndim; i++) shape.dim[i] = call->attr[i].i;
    return shape;
}

/* ---- view ------------------------------------------------------------------------------------ */

/* Replaces a size of -1 by what is left of numel. */
static ts_status resolve_shape(ts_shape *shape, const char *op, const ts_tensor *a)
{
    char want[TS_SHAPE_TEXT], have[TS_SHAPE_TEXT];
    int unknown = -1;
    ts_shape rest = *shape;
    for (int i = 0; i < rest.ndim; i++) {
        if (rest.dim[i] != -1) continue;
        if (unknown >= 0) return ts_fail(TS_ESHAPE, "%s: only one size may be -1", op);
        unknown = i;
        rest.dim[i] = 1;
    }
    int64_t known = ts_shape_numel(rest);
    if (unknown >= 0 && known > 0) rest.dim[unknown] = a->numel / known;
    if (known < 0 || ts_shape_numel(rest) != a->numel || (unknown >= 0 && known == 0))
        return ts_fail(TS_ESHAPE, "%s: shape %s does not fit the %lld element%s of shape %s", op,
                       ts_shape_format(want, sizeof want, *shape), (long long)a->numel,
                       ts_plural(a->numel), ts_shape_format(have, sizeof have, a->shape));
    *shape = rest;
    return TS_OK;
}

/* Strides for shape on a's memory; false if they do not exist.  Dimensions of a that can be walked
 * as one form a group, and each new dimension must lie within one group. */
static bool view_strides(int64_t *stride, const ts_tensor *a, const ts_shape *shape)
{
    if (a->numel == 0 || a->contiguous) {
        ts_row_major_strides(stride, *shape);
        return true;
    }
    int to = shape->ndim - 1;
    int64_t group = 1, step = a->shape.ndim > 0 ? a->stride[a->shape.ndim - 1] : 1, filled = 1;
    for (int i = a->shape.ndim - 1; i >= 0; i--) {
        group *= a->shape.dim[i];
        bool goes_on = i > 0 && (a->shape.dim[i - 1] == 1 || a->stride[i - 1] == group * step);
        if (goes_on) continue;
        while (to >= 0 && (filled < group || shape->dim[to] == 1)) {
            stride[to] = filled * step;
            filled *= shape->dim[to--];
        }
        if (filled != group) return false;
        group = filled = 1;
        if (i > 0) step = a->stride[i - 1];
    }
    return to < 0;
}

static ts_status view_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *a = call->in[0];
    *out = ts_tensor_spec(a);
    out->shape = attr_shape(call);
    return resolve_shape(&out->shape, "view", a);
}

static ts_status view_kernel(ts_op_call *call)
{
    ts_tensor *a = call->in[0];
    char want[TS_SHAPE_TEXT], have[TS_SHAPE_TEXT];
    int64_t stride[TS_MAX_DIMS];
    ts_shape shape = attr_shape(call);
    TS_TRY(resolve_shape(&shape, "view", a));
    if (!view_strides(stride, a, &shape))
        return ts_fail(TS_ESHAPE,
                       "view: shape %s needs a copy of this strided tensor of shape %s; "
                       "use ts_reshape",
                       ts_shape_format(want, sizeof want, shape),
                       ts_shape_format(have, sizeof have, a->shape));
    call->out[0] = ts_tensor_view(a, shape, stride, a->offset);
    return TS_OK;
}

static ts_status view_backward(const ts_backward_call *call)
{
    call->grad_in[0] = ts_reshape(call->grad_out[0], call->in_spec[0].shape);
    return TS_OK;
}

static const ts_op_def view_row = {.name = "view",
                                   .flags = TS_OP_VIEW,
                                   .num_out = 1,
                                   .infer = view_infer,
                                   .kernel = {[TS_CPU] = view_kernel},
                                   .backward = view_backward};

ts_tensor *ts_view(ts_tensor *a, ts_shape shape) { return with_shape(&view_row, a, shape); }

ts_tensor *ts_reshape(ts_tensor *a, ts_shape shape)
{
    int64_t stride[TS_MAX_DIMS];
    ts_shape resolved = shape;
    if (!a || ts_failed(a) || shape.ndim < 0) return ts_view(a, shape);
    if (resolve_shape(&resolved, "reshape", a) != TS_OK) return ts_fail_tensor_last(TS_ESHAPE);
    return ts_view(view_strides(stride, a, &resolved) ? a : ts_clone(a), resolved);
}

ts_tensor *ts_flatten(ts_tensor *a, int start_dim, int end_dim)
{
    if (!a || ts_failed(a)) return ts_view(a, ts_shape_scalar());
    int start = ts_wrap_dim("flatten", start_dim, a->shape.ndim);
    int end = start < 0 ? -1 : ts_wrap_dim("flatten", end_dim, a->shape.ndim);
    if (end < 0) return ts_fail_tensor_last(TS_ESHAPE);
    if (a->shape.ndim == 0) return ts_view(a, TS_SHAPE(1));
    if (start > end)
        return ts_fail_tensor(TS_ESHAPE, "flatten: dim %d lies behind dim %d", start_dim, end_dim);
    ts_shape shape = {.ndim = start + 1};
    memcpy(shape.dim, a->shape.dim, (size_t)start * sizeof *shape.dim);
    shape.dim[start] = 1;
    for (int i = start; i <= end; i++) shape.dim[start] *= a->shape.dim[i];
    for (int i = end + 1; i < a->shape.ndim; i++) shape.dim[shape.ndim++] = a->shape.dim[i];
    return ts_reshape(a, shape);
}

static ts_tensor *dim_failed(ts_tensor *a) /* wording is done, unless there is no tensor */
{
    return a && ts_failed(a) ? a : ts_fail_tensor_last(TS_ESHAPE);
}

ts_tensor *ts_squeeze(ts_tensor *a, int dim)
{
    if (!a || ts_failed(a)) return ts_view(a, ts_shape_scalar());
    int at = ts_wrap_dim("squeeze", dim, a->shape.ndim);
    if (at < 0) return dim_failed(a);
    ts_shape shape = a->shape;
    if (shape.ndim == 0 || shape.dim[at] != 1) return ts_view(a, shape);
    shape.ndim--;
    memmove(&shape.dim[at], &shape.dim[at + 1], (size_t)(shape.ndim - at) * sizeof *shape.dim);
    return ts_view(a, shape);
}

ts_tensor *ts_unsqueeze(ts_tensor *a, int dim)
{
    if (!a || ts_failed(a)) return ts_view(a, ts_shape_scalar());
    int at = ts_wrap_dim("unsqueeze", dim, a->shape.ndim + 1);
    if (at < 0) return dim_failed(a);
    ts_shape shape = a->shape;
    if (shape.ndim == TS_MAX_DIMS)
        return ts_fail_tensor(TS_ESHAPE, "unsqueeze: a shape has at most %d dimensions",
                              TS_MAX_DIMS);
    memmove(&shape.dim[at + 1], &shape.dim[at], (size_t)(shape.ndim - at) * sizeof *shape.dim);
    shape.dim[at] = 1;
    shape.ndim++;
    return ts_view(a, shape);
}

/* ---- permute: attributes are the dimensions in their new order ------------------------------- */

static ts_status permute_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *a = call->in[0];
    unsigned seen = 0;
    *out = ts_tensor_spec(a);
    if (call->num_attrs != a->shape.ndim)
        return ts_fail(TS_ESHAPE, "permute: %d dimensions were given for a tensor with %d",
                       call->num_attrs, a->shape.ndim);
    for (int i = 0; i < call->num_attrs; i++) {
        int dim = ts_wrap_dim("permute", (int)call->attr[i].i, a->shape.ndim);
        if (dim < 0) return TS_ESHAPE;
        if (seen >> dim & 1) return ts_fail(TS_ESHAPE, "permute: dim %d is given twice", dim);
        seen |= 1u << dim;
        out->shape.dim[i] = a->shape.dim[dim];
    }
    return TS_OK;
}

static ts_status permute_kernel(ts_op_call *call)
{
    ts_tensor *a = call->in[0];
    ts_shape shape = a->shape;
    int64_t stride[TS_MAX_DIMS];
    for (int i = 0; i < shape.ndim; i++) {
        int dim = ts_wrap_dim("permute", (int)call->attr[i].i, shape.ndim);
        shape.dim[i] = a->shape.dim[dim];
        stride[i] = a->stride[dim];
    }
    call->out[0] = ts_tensor_view(a, shape, stride, a->offset);
    return TS_OK;
}

static ts_status permute_backward(const ts_backward_call *call)
{
    int inverse[TS_MAX_DIMS], n = call->num_attrs;
    for (int i = 0; i < n; i++) inverse[ts_wrap_dim("permute", (int)call->attr[i].i, n)] = i;
    call->grad_in[0] = ts_permute(call->grad_out[0], inverse, n);
    return TS_OK;
}

static const ts_op_def permute_row = {.name = "permute",
                                      .flags = TS_OP_VIEW,
                                      .num_out = 1,
                                      .infer = permute_infer,
                                      .kernel = {[TS_CPU] = permute_kernel},
                                      .backward = permute_backward};

ts_tensor *ts_permute(ts_tensor *a, const int *dims, int n)
{
    int64_t value[TS_MAX_DIMS];
    if (n < 0 || n > TS_MAX_DIMS || (n > 0 && !dims))
        return ts_fail_tensor(TS_EINVAL, "permute: dims are missing or too many");
    for (int i = 0; i < n; i++) value[i] = dims[i];
    return with_ints(&permute_row, a, value, n);
}

ts_tensor *ts_transpose(ts_tensor *a, int dim0, int dim1)
{
    if (!a || ts_failed(a)) return ts_permute(a, NULL, 0);
    int x = ts_wrap_dim("transpose", dim0, a->shape.ndim);
    int y = x < 0 ? -1 : ts_wrap_dim("transpose", dim1, a->shape.ndim);
    if (y < 0) return dim_failed(a);
    int64_t value[TS_MAX_DIMS];
    for (int i = 0; i < a->shape.ndim; i++) value[i] = i == x ? y : i == y ? x : i;
    return with_ints(&permute_row, a, value, a->shape.ndim);
}

/* ---- expand ---------------------------------------------------------------------------------- */

static ts_status expand_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *a = call->in[0];
    char want[TS_SHAPE_TEXT], have[TS_SHAPE_TEXT];
    *out = ts_tensor_spec(a);
    out->shape = attr_shape(call);
    int added = out->shape.ndim - a->shape.ndim;
    bool good = added >= 0;
    for (int i = 0; i < out->shape.ndim && good; i++) {
        int64_t size = i < added ? 1 : a->shape.dim[i - added], *wanted = &out->shape.dim[i];
        if (*wanted == -1 && i >= added) *wanted = size;
        good = *wanted >= 0 && (size == 1 || size == *wanted);
    }
    if (good) return TS_OK;
    return ts_fail(TS_ESHAPE, "expand: shape %s cannot be expanded to %s",
                   ts_shape_format(have, sizeof have, a->shape),
                   ts_shape_format(want, sizeof want, attr_shape(call)));
}

static ts_status expand_kernel(ts_op_call *call)
{
    ts_tensor *a = call->in[0];
    ts_spec spec;
    int64_t stride[TS_MAX_DIMS];
    TS_TRY(expand_infer(call, &spec));
    int added = spec.shape.ndim - a->shape.ndim;
    for (int i = 0; i < spec.shape.ndim; i++) {
        bool repeats = i < added || (a->shape.dim[i - added] == 1 && spec.shape.dim[i] != 1);
        stride[i] = repeats ? 0 : a->stride[i - added];
    }
    call->out[0] = ts_tensor_view(a, spec.shape, stride, a->offset);
    return TS_OK;
}

static ts_status expand_backward(const ts_backward_call *call)
{
    call->grad_in[0] = call->grad_out[0]; /* summed to the input's shape by the recorder */
    return TS_OK;
}

static const ts_op_def expand_row = {.name = "expand",
                                     .flags = TS_OP_VIEW,
                                     .num_out = 1,
                                     .infer = expand_infer,
                                     .kernel = {[TS_CPU] = expand_kernel},
                                     .backward = expand_backward};

ts_tensor *ts_expand(ts_tensor *a, ts_shape shape) { return with_shape(&expand_row, a, shape); }
