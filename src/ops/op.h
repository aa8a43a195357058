/* SPDX-License-Identifier: Apache-2.0 */
/* An operation is one row (tessera/ext/op.h), and every call of every operation goes through
 * ts_dispatch.
 *
 * A public function packs its inputs and attributes into a ts_op_call and dispatches it.  The
 * dispatcher ORs the key bits of the inputs with the mode bits of the thread; zero goes straight to
 * the kernel, otherwise the layers run outermost first (see dispatch.c). */
#ifndef TS_OPS_OP_H
#define TS_OPS_OP_H

#include <tessera/ext/op.h>

#include "tensor/tensor.h"

/* Runs the call and returns out[0], which is failed if anything went wrong.  Failed inputs: the
 * first one is returned, inert. */
ts_tensor *ts_dispatch(ts_op_call *call);

/* Shorthands for rows with one, two or three inputs and no attributes. */
ts_tensor *ts_dispatch1(const ts_op_def *def, ts_tensor *a);
ts_tensor *ts_dispatch2(const ts_op_def *def, ts_tensor *a, ts_tensor *b);
ts_tensor *ts_dispatch3(const ts_op_def *def, ts_tensor *a, ts_tensor *b, ts_tensor *c);

/* ---- helpers for infer functions and kernels ------------------------------------------------- */

/* PyTorch's broadcasting; TS_ESHAPE names op and both shapes. */
ts_status ts_broadcast_shape(ts_shape *out, const char *op, ts_shape a, ts_shape b);
/* PyTorch's promotion among n tensors (0-dim tensors count by category only), and of two dtypes. */
ts_status ts_promote(ts_dtype *out, const char *op, ts_tensor *const *in, int n);
ts_dtype ts_promote_dtypes(ts_dtype a, ts_dtype b);
/* TS_EDTYPE "op: <what> is int64; needs float32 or float64" unless it is one of these. */
ts_status ts_need_float(const char *op, const char *what, const ts_tensor *t);
ts_status ts_need_dtype(const char *op, const char *what, const ts_tensor *t, ts_dtype dtype);
/* The gradient of a view: t's elements at stride and offset (in elements) of a row-major tensor of
 * base_shape that is zero elsewhere. */
ts_tensor *ts_view_embed(ts_tensor *t, ts_shape base_shape, const int64_t *stride, int64_t offset);
/* to += from element by element, where elements of to may share memory.  Equal shapes and dtypes.
 */
ts_status ts_add_overlapping(ts_tensor *to, const ts_tensor *from);
/* grad summed over the dimensions that broadcasting added, so that it has shape. */
ts_tensor *ts_sum_to_shape(ts_tensor *grad, ts_shape shape);

#endif
