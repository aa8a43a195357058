/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the neural-network operations of this folder. */
#ifndef TS_OPS_NN_IMPL_H
#define TS_OPS_NN_IMPL_H

#include <string.h>
#include <tessera/autograd.h>
#include <tessera/ops.h>

#include "base/thread.h"
#include "kernels/gemm.h"
#include "kernels/nn.h"
#include "ops/op.h"

/* Memory for the time of a kernel; given back with ts_storage_release. */
ts_status ts_scratch_new(ts_storage **out, size_t bytes);

/* Rows of a parallel loop over rows of n values: enough work for a piece, from n alone. */
static inline int64_t ts_row_grain(int64_t n)
{
    int64_t grain = 16384 / (n > 0 ? n : 1);
    return grain > 0 ? grain : 1;
}

static inline int64_t ts_esize(const ts_tensor *t)
{
    return (int64_t)ts_dtype_size((ts_dtype)t->dtype);
}

/* Element i of float32 or float64 data. */
static inline double ts_read_at(const void *data, bool f64, int64_t i)
{
    return f64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}
static inline void ts_write_at(void *data, bool f64, int64_t i, double value)
{
    if (f64)
        ((double *)data)[i] = value;
    else
        ((float *)data)[i] = (float)value;
}

/* Address of a row-major copy of t, which may be NULL; what names it in errors. */
ts_status ts_row_major_data(const char **out, ts_tensor *t, const char *what);

/* Do both have float32 or float64?  TS_EDTYPE names both. */
ts_status ts_need_same_float(const char *op, const char *what_a, const ts_tensor *a,
                             const char *what_b, const ts_tensor *b);

/* float16 and bfloat16 are computed in float32 by the public functions. */
static inline bool ts_is_half(const ts_tensor *t)
{
    return t && !ts_failed(t) && (t->dtype == TS_FLOAT16 || t->dtype == TS_BFLOAT16);
}
static inline ts_tensor *ts_half_up(ts_tensor *t)
{
    return ts_is_half(t) ? ts_to_dtype(t, TS_FLOAT32) : t;
}

/* Runs a product with scratch memory of its own. */
ts_status ts_gemm_run(const ts_gemm_call *call);

/* Sum over all but the last dimension. */
ts_tensor *ts_column_sum(ts_tensor *t);

#endif
