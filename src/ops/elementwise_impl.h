/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the element-wise family. */
#ifndef TS_OPS_ELEMENTWISE_IMPL_H
#define TS_OPS_ELEMENTWISE_IMPL_H

#include "kernels/elementwise.h"
#include "ops/op.h"

/* Infer functions.  In-place rows use the same ones: they are told apart by their flag. */
ts_status ts_binary_infer(const ts_op_call *call, ts_spec *out);       /* promotes */
ts_status ts_binary_float_infer(const ts_op_call *call, ts_spec *out); /* integers become float32 */
ts_status ts_unary_infer(const ts_op_call *call, ts_spec *out);        /* keeps the dtype */
ts_status ts_unary_float_infer(const ts_op_call *call, ts_spec *out);  /* integers become float32 */
ts_status ts_unary_scalar_infer(const ts_op_call *call, ts_spec *out); /* attr 0 takes part */

/* Kernels: compute in float32, float64, int32 or int64 and convert from and to other dtypes. */
ts_status ts_binary_run(ts_op_call *call, ts_binary_loop_id id);
ts_status ts_unary_run(ts_op_call *call, ts_unary_loop_id id, double p);

/* Rows used by other backward formulas of the family. */
ts_tensor *ts_sign(ts_tensor *a);
ts_tensor *ts_mask_equal(ts_tensor *a, ts_tensor *b); /* 1 where equal, else 0 */

#endif
