/* SPDX-License-Identifier: Apache-2.0 */
/* What infer functions share: broadcasting, promotion, checks. */
#include <string.h>

#include "ops/op.h"

static bool same_shape(const ts_shape *a, const ts_shape *b)
{
    if (a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

ts_status ts_broadcast_shape(ts_shape *out, const char *op, ts_shape a, ts_shape b)
{
    *out = a;
    if (same_shape(&a, &b)) return TS_OK;
    int ndim = a.ndim > b.ndim ? a.ndim : b.ndim;
    out->ndim = ndim;
    for (int i = 1; i <= ndim; i++) {
        int64_t x = i <= a.ndim ? a.dim[a.ndim - i] : 1, y = i <= b.ndim ? b.dim[b.ndim - i] : 1;
        if (x != y && x != 1 && y != 1) {
            char at[TS_SHAPE_TEXT], bt[TS_SHAPE_TEXT];
            return ts_fail(TS_ESHAPE,
                           "%s: shapes %s and %s do not broadcast: sizes %lld and %lld "
                           "in dimension %d from the end",
                           op, ts_shape_format(at, sizeof at, a), ts_shape_format(bt, sizeof bt, b),
                           (long long)x, (long long)y, i);
        }
        out->dim[ndim - i] = x == 1 ? y : x;
    }
    return TS_OK;
}

/* bool < integers < floating < complex */
static int category(ts_dtype dtype)
{
    if (dtype == TS_BOOL) return 0;
    if (dtype == TS_COMPLEX64 || dtype == TS_COMPLEX128) return 3;
    return ts_dtype_is_floating(dtype) ? 2 : 1;
}

static ts_dtype promote_floats(ts_dtype a, ts_dtype b)
{
    if (a == TS_FLOAT64 || b == TS_FLOAT64) return TS_FLOAT64;
    return TS_FLOAT32; /* float16 with bfloat16 too */
}

static ts_dtype promote_ints(ts_dtype a, ts_dtype b)
{
    size_t sa = ts_dtype_size(a), sb = ts_dtype_size(b);
    if (sa == 1 && sb == 1) return TS_INT16; /* int8 with uint8 */
    return sa > sb ? a : b;
}

ts_dtype ts_promote_dtypes(ts_dtype a, ts_dtype b)
{
    if (a == b) return a;
    int ca = category(a), cb = category(b);
    if (ca != cb) return ca > cb ? a : b;
    return ca == 2 ? promote_floats(a, b) : promote_ints(a, b);
}

ts_status ts_promote(ts_dtype *out, const char *op, ts_tensor *const *in, int n)
{
    ts_dtype common[2] = {TS_BOOL, TS_BOOL}; /* of tensors without and with dimensions */
    bool any[2] = {false, false};
    for (int i = 0; i < n; i++) {
        ts_dtype dtype = (ts_dtype)in[i]->dtype;
        int k = in[i]->shape.ndim > 0;
        if (category(dtype) == 3)
            return ts_fail(TS_EDTYPE, "%s: %s; complex numbers are stored and communicated only",
                           op, ts_dtype_name(dtype));
        common[k] = any[k] ? ts_promote_dtypes(common[k], dtype) : dtype;
        any[k] = true;
    }
    if (!any[0] || (any[1] && category(common[1]) >= category(common[0])))
        *out = common[1];
    else
        *out = any[1] ? ts_promote_dtypes(common[0], common[1]) : common[0];
    return TS_OK;
}

ts_status ts_need_float(const char *op, const char *what, const ts_tensor *t)
{
    if (t->dtype == TS_FLOAT32 || t->dtype == TS_FLOAT64) return TS_OK;
    return ts_fail(TS_EDTYPE, "%s: %s is %s; needs float32 or float64", op, what,
                   ts_dtype_name((ts_dtype)t->dtype));
}

ts_status ts_need_dtype(const char *op, const char *what, const ts_tensor *t, ts_dtype dtype)
{
    if (t->dtype == (uint8_t)dtype) return TS_OK;
    return ts_fail(TS_EDTYPE, "%s: %s is %s; needs %s", op, what, ts_dtype_name((ts_dtype)t->dtype),
                   ts_dtype_name(dtype));
}

ts_tensor *ts_row_major(ts_tensor *t)
{
    if (ts_failed(t) || t->contiguous) return t;
    ts_spec spec = ts_tensor_spec(t);
    ts_tensor *copy = ts_tensor_new(&spec, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION);
    if (ts_failed(copy)) return copy;
    ts_status status = ts_tensor_copy_data(copy, t);
    return status == TS_OK ? copy : ts_fail_tensor_last(status);
}
