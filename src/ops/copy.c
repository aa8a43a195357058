/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, conversions and fills. */
#include <tessera/ops.h>

#include "autograd/autograd.h"
#include "ops/dispatch.h"

/* ---- clone, contiguous, to_dtype ------------------------------------------------------------- */

static ts_status same_infer(const ts_op_call *call, ts_spec *out)
{
    *out = ts_tensor_spec(call->in[0]);
    return TS_OK;
}

static ts_status copy_kernel(ts_op_call *call)
{
    return ts_tensor_copy_data(call->out[0], call->in[0]);
}

static ts_status pass_backward(const ts_backward_call *call)
{
    call->grad_in[0] = call->grad_out[0]; /* converted by the recorder */
    return TS_OK;
}

static const ts_op_def clone_row = {.name = "clone",
                                    .num_out = 1,
                                    .infer = same_infer,
                                    .kernel = {[TS_CPU] = copy_kernel},
                                    .backward = pass_backward};

ts_tensor *ts_clone(ts_tensor *a) { return ts_dispatch1(&clone_row, a); }

ts_tensor *ts_contiguous(ts_tensor *a)
{
    return a && (a->contiguous || ts_failed(a)) ? a : ts_clone(a);
}

static ts_status to_dtype_infer(const ts_op_call *call, ts_spec *out)
{
    *out = ts_tensor_spec(call->in[0]);
    out->dtype = (ts_dtype)call->attr[0].i;
    bool from_complex = call->in[0]->dtype >= TS_COMPLEX64, to_complex = out->dtype >= TS_COMPLEX64;
    if (from_complex == to_complex) return TS_OK;
    return ts_fail(TS_EDTYPE, "to_dtype: %s cannot be converted to %s",
                   ts_dtype_name((ts_dtype)call->in[0]->dtype), ts_dtype_name(out->dtype));
}

static const ts_op_def to_dtype_row = {.name = "to_dtype",
                                       .num_out = 1,
                                       .infer = to_dtype_infer,
                                       .kernel = {[TS_CPU] = copy_kernel},
                                       .backward = pass_backward};

ts_tensor *ts_to_dtype(ts_tensor *a, ts_dtype dtype)
{
    if (a && (a->dtype == (uint8_t)dtype || ts_failed(a))) return a;
    if ((unsigned)dtype >= TS_NUM_DTYPES)
        return ts_fail_tensor(TS_EDTYPE, "to_dtype: %d is not a dtype", (int)dtype);
    ts_op_call call = {
        .def = &to_dtype_row, .in = &a, .num_in = 1, .num_attrs = 1, .attr = {{.i = dtype}}};
    return ts_dispatch(&call);
}

/* ---- copy_ ----------------------------------------------------------------------------------- */

static ts_status copy_inplace_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *a = call->in[0], *b = call->in[1];
    char to[TS_SHAPE_TEXT], from[TS_SHAPE_TEXT];
    *out = ts_tensor_spec(a);
    TS_TRY(ts_broadcast_shape(&out->shape, "copy_", a->shape, b->shape));
    if (ts_shape_equal(out->shape, a->shape)) return TS_OK;
    return ts_fail(TS_ESHAPE, "copy_: shape %s does not broadcast to %s",
                   ts_shape_format(from, sizeof from, b->shape),
                   ts_shape_format(to, sizeof to, a->shape));
}

static ts_status copy_inplace_kernel(ts_op_call *call)
{
    ts_tensor *a = call->in[0], *b = call->in[1];
    int64_t stride[TS_MAX_DIMS];
    if (ts_shape_equal(a->shape, b->shape)) return ts_tensor_copy_data(a, b);
    int added = a->shape.ndim - b->shape.ndim;
    for (int i = 0; i < a->shape.ndim; i++)
        stride[i] = i < added || b->shape.dim[i - added] == 1 ? 0 : b->stride[i - added];
    ts_tensor *view = ts_tensor_view(b, a->shape, stride, b->offset);
    TS_TRY(ts_tensor_check(view, "copy_"));
    return ts_tensor_copy_data(a, view);
}

/* a = b    da = 0    db = dy */
static ts_status copy_inplace_backward(const ts_backward_call *call)
{
    call->grad_in[1] = call->grad_out[0];
    return TS_OK;
}

static const ts_op_def copy_inplace_row = {.name = "copy_",
                                           .flags = TS_OP_INPLACE,
                                           .num_out = 1,
                                           .infer = copy_inplace_infer,
                                           .kernel = {[TS_CPU] = copy_inplace_kernel},
                                           .backward = copy_inplace_backward};

ts_tensor *ts_copy_(ts_tensor *a, ts_tensor *b) { return ts_dispatch2(&copy_inplace_row, a, b); }

/* ---- fill_ ----------------------------------------------------------------------------------- */

static ts_status fill_kernel(ts_op_call *call)
{
    return ts_tensor_fill_data(call->in[0], call->attr[0].f);
}

/* a = value    da = 0 */
static ts_status fill_backward(const ts_backward_call *call)
{
    (void)call;
    return TS_OK;
}

static const ts_op_def fill_row = {.name = "fill_",
                                   .flags = TS_OP_INPLACE,
                                   .num_out = 1,
                                   .infer = same_infer,
                                   .kernel = {[TS_CPU] = fill_kernel},
                                   .backward = fill_backward};

ts_tensor *ts_fill_(ts_tensor *a, double value)
{
    ts_op_call call = {
        .def = &fill_row, .in = &a, .num_in = 1, .num_attrs = 1, .attr = {{.f = value}}};
    return ts_dispatch(&call);
}

ts_tensor *ts_zero_(ts_tensor *a) { return ts_fill_(a, 0); }

/* ---- what the gradient engine uses ----------------------------------------------------------- */

static const ts_autograd_ops engine_ops = {
    .add = ts_add, .add_ = ts_add_, .convert = ts_to_dtype, .refresh_view = ts_refresh_view};

__attribute__((constructor)) static void install(void) { ts_autograd_use = &engine_ops; }
