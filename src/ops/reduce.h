/* SPDX-License-Identifier: Apache-2.0 */
/* What reductions share: their attributes, shapes, and the loop over lines. */
#ifndef TS_OPS_REDUCE_H
#define TS_OPS_REDUCE_H

#include "ops/op.h"

/* Attributes: bits of the reduced dimensions, keep them as size 1?, one more of the row. */
enum { TS_REDUCE_DIMS, TS_REDUCE_KEEP, TS_REDUCE_EXTRA, TS_REDUCE_ATTRS };

ts_shape ts_reduced_shape(ts_shape shape, uint64_t dims, bool keep);
int64_t ts_reduced_count(ts_shape shape, uint64_t dims);

/* Describes out[0] with the dtype of the input; TS_EDTYPE for complex numbers. */
ts_status ts_reduce_infer(const ts_op_call *call, ts_spec *out);
/* The same; TS_ESHAPE where there is nothing to choose from. */
ts_status ts_choose_infer(const ts_op_call *call, ts_spec *out);
/* TS_EDTYPE unless input 0 is floating. */
ts_status ts_reduce_need_floating(const ts_op_call *call);

/* dims NULL or n = 0 means all. */
ts_tensor *ts_reduce_dispatch(const ts_op_def *def, ts_tensor *a, const int *dims, int n,
                              bool keepdim, ts_attr extra);

/* One line of n elements to one; attr are those of the call. */
typedef void (*ts_line_fn)(void *out, const void *x, int64_t n, const ts_attr *attr);

/* A function for each dtype that lines are computed in; float16 and bfloat16 become float32, whole
 * numbers int64.  result: the dtype that the functions write, TS_NUM_DTYPES for that of x. */
typedef struct ts_line_fns {
    ts_line_fn f32, f64, i64;
    ts_dtype result;
} ts_line_fns;

/* The input's lines along the reduced dimensions into out. */
ts_status ts_reduce_lines(const ts_op_call *call, ts_tensor *out, const ts_line_fns *fns);

/* t with the dimensions of the bits moved to the end, in their order. */
ts_tensor *ts_dims_last(ts_tensor *t, uint64_t dims);
/* Row-major, in the dtype that lines are computed in; to be released.  fresh: always a copy. */
ts_tensor *ts_computable(ts_tensor *a, bool fresh);

/* In backward: t, which has the reduced shape, with the reduced dimensions kept; and the gradient of
 * the output so. */
ts_tensor *ts_with_dims(const ts_backward_call *call, ts_tensor *t);

#endif
