/* SPDX-License-Identifier: Apache-2.0 */
/* Running sums along a dimension; attributes dim, backwards? */
#include <tessera/ops.h>

#include "base/thread.h"
#include "ops/reduce.h"

enum { GRAIN = 1 << 15 };

static ts_status cumsum_infer(const ts_op_call *call, ts_spec *out)
{
    *out = ts_tensor_spec(call->in[0]);
    if (out->dtype >= TS_COMPLEX64)
        return ts_fail(TS_EDTYPE, "cumsum: %s; complex numbers are stored and communicated only",
                       ts_dtype_name(out->dtype));
    if (!ts_dtype_is_floating(out->dtype)) out->dtype = TS_INT64;
    return TS_OK;
}

/* Floating sums run in double. */
#define SCAN(name, type, wide)                                                                     \
    static void scan_##name(type *x, int64_t n, bool backwards)                                    \
    {                                                                                              \
        wide sum = 0;                                                                              \
        for (int64_t k = 0; k < n; k++) {                                                          \
            int64_t i = backwards ? n - 1 - k : k;                                                 \
            sum += (wide)x[i];                                                                     \
            x[i] = (type)sum;                                                                      \
        }                                                                                          \
    }
SCAN(f32, float, double)
SCAN(f64, double, double)
SCAN(i64, int64_t, uint64_t)

typedef struct job {
    void *x;
    int64_t n;
    ts_dtype dtype;
    bool backwards;
} job;

static void scan_lines(int64_t begin, int64_t end, void *user)
{
    const job *j = user;
    for (int64_t i = begin * j->n; i < end * j->n; i += j->n) {
        if (j->dtype == TS_FLOAT32) scan_f32((float *)j->x + i, j->n, j->backwards);
        if (j->dtype == TS_FLOAT64) scan_f64((double *)j->x + i, j->n, j->backwards);
        if (j->dtype == TS_INT64) scan_i64((int64_t *)j->x + i, j->n, j->backwards);
    }
}

static ts_status cumsum_kernel(ts_op_call *call)
{
    ts_tensor *a = call->in[0], *out = call->out[0];
    if (a->numel == 0 || a->shape.ndim == 0) return ts_tensor_copy_data(out, a);
    uint64_t dim = UINT64_C(1) << call->attr[0].i;
    ts_tensor *x = ts_computable(ts_dims_last(a, dim), true), *place = ts_dims_last(out, dim);
    ts_status status = ts_tensor_check(x, "cumsum");
    if (status == TS_OK) status = ts_tensor_check(place, "cumsum");
    if (status == TS_OK) {
        job j = {ts_tensor_bytes(x), a->shape.dim[call->attr[0].i], (ts_dtype)x->dtype,
                 call->attr[1].i};
        ts_parallel_for(a->numel / j.n, GRAIN / j.n + 1, scan_lines, &j);
        status = ts_tensor_copy_data(place, x);
    }
    ts_release(x);
    return status;
}

static ts_tensor *cumsum(ts_tensor *a, int dim, bool backwards);

static ts_status cumsum_backward(const ts_backward_call *call)
{
    call->grad_in[0] = cumsum(call->grad_out[0], (int)call->attr[0].i, !call->attr[1].i);
    return TS_OK;
}

static const ts_op_def cumsum_row = {.name = "cumsum",
                                     .num_out = 1,
                                     .infer = cumsum_infer,
                                     .kernel = {[TS_CPU] = cumsum_kernel},
                                     .backward = cumsum_backward};

static ts_tensor *cumsum(ts_tensor *a, int dim, bool backwards)
{
    if (a && !ts_failed(a)) dim = ts_wrap_dim("cumsum", dim, a->shape.ndim);
    if (a && !ts_failed(a) && dim < 0) return ts_fail_tensor_last(TS_ESHAPE);
    ts_op_call call = {.def = &cumsum_row,
                       .in = &a,
                       .num_in = 1,
                       .num_attrs = 2,
                       .attr = {{.i = dim}, {.i = backwards}}};
    return ts_dispatch(&call);
}

ts_tensor *ts_cumsum(ts_tensor *a, int dim) { return cumsum(a, dim, false); }
