/* SPDX-License-Identifier: Apache-2.0 */
/* What the operations of layers share. */
#include "ops/nn_impl.h"

ts_status ts_scratch_new(ts_storage **out, size_t bytes)
{
    *out = ts_storage_new(bytes ? bytes : 1, TS_CPU, TS_MEMORY_HEAP, TS_CATEGORY_OTHER);
    return *out ? TS_OK : TS_ENOMEM;
}

ts_status ts_need_same_float(const char *op, const char *what_a, const ts_tensor *a,
                             const char *what_b, const ts_tensor *b)
{
    TS_TRY(ts_need_float(op, what_a, a));
    if (a->dtype == b->dtype) return TS_OK;
    return ts_fail(TS_EDTYPE, "%s: %s is %s but %s is %s; convert one of them with ts_to_dtype", op,
                   what_a, ts_dtype_name((ts_dtype)a->dtype), what_b,
                   ts_dtype_name((ts_dtype)b->dtype));
}

ts_status ts_row_major_data(const char **out, ts_tensor *t, const char *what)
{
    *out = NULL;
    if (!t) return TS_OK;
    t = ts_row_major(t);
    TS_TRY(ts_tensor_check(t, what));
    *out = ts_tensor_bytes(t);
    return TS_OK;
}

ts_status ts_gemm_run(const ts_gemm_call *call)
{
    if (call->m == 0 || call->n == 0) return TS_OK;
    size_t bytes = ts_gemm_scratch(call);
    ts_storage *scratch = NULL;
    if (bytes > 0) TS_TRY(ts_scratch_new(&scratch, bytes));
    ts_status status = ts_gemm(call, scratch ? scratch->data : NULL);
    if (scratch) ts_storage_release(scratch);
    return status;
}
