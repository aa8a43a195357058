/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the element-wise family. */
#ifndef TS_OPS_ELEMENTWISE_IMPL_H
#define TS_OPS_ELEMENTWISE_IMPL_H

#include "kernels/elementwise.h"
#include "ops/op.h"

/* Infer functions, for any number of inputs.  In-place rows use the same ones: they are told apart
 * by their flag. */
ts_status ts_infer_promoted(const ts_op_call *call, ts_spec *out);
ts_status ts_infer_floating(const ts_op_call *call, ts_spec *out); /* integers become float32 */
ts_status ts_infer_only_floating(const ts_op_call *call, ts_spec *out); /* TS_EDTYPE of others */
ts_status ts_infer_scalar(const ts_op_call *call, ts_spec *out); /* the attributes take part */
ts_status ts_infer_bool(const ts_op_call *call, ts_spec *out);
ts_status ts_infer_where(const ts_op_call *call, ts_spec *out); /* input 0 is a bool */

/* The kernel of every row with a loop.  Computes in float32, float64, int32 or int64 and converts
 * from and to other dtypes piece by piece.  Attributes 0 and 1 are the scalars of the loop. */
ts_status ts_elementwise_kernel(ts_op_call *call);

/* A scalar as a 0-dim tensor that leaves the dtype of a as it is, unless a is whole and the scalar
 * is not: then float32. */
ts_tensor *ts_scalar_like(ts_tensor *a, double value);

#endif
