/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting along a dimension: stable, NaN last (first when descending). */
#include <stdlib.h>
#include <string.h>
#include <tessera/ops.h>

#include "base/memory.h"
#include "base/thread.h"
#include "ops/reduce.h"

/* Attributes: dim, descending?, how many are kept (-1: all). */
enum { DIM, DESCENDING, KEPT, NUM_ATTRS };
enum { GRAIN = 1 << 12, SHORT = 16 };

static int64_t line_length(const ts_op_call *call)
{
    const ts_tensor *a = call->in[0];
    return a->shape.ndim > 0 ? a->shape.dim[call->attr[DIM].i] : 1;
}

static ts_status sort_infer(const ts_op_call *call, ts_spec *out)
{
    *out = ts_tensor_spec(call->in[0]);
    if (out->dtype >= TS_COMPLEX64)
        return ts_fail(TS_EDTYPE, "%s: %s; complex numbers have no order", call->def->name,
                       ts_dtype_name(out->dtype));
    int64_t kept = call->attr[KEPT].i, n = line_length(call);
    if (kept > n)
        return ts_fail(TS_ESHAPE, "%s: %lld of %lld elements of dim %lld", call->def->name,
                       (long long)kept, (long long)n, (long long)call->attr[DIM].i);
    if (kept >= 0 && out->shape.ndim > 0) out->shape.dim[call->attr[DIM].i] = kept;
    out[1] = out[0];
    out[1].dtype = TS_INT64;
    return TS_OK;
}

/* Numbers of the elements in order: merges of runs, from b to a and back. */
#define SORT(name, type)                                                                           \
    static bool before_##name(const type *x, int64_t i, int64_t k, bool down)                      \
    {                                                                                              \
        type a = x[i], b = x[k];                                                                   \
        if (down) return b < a || (a != a && b == b);                                              \
        return a < b || (b != b && a == a);                                                        \
    }                                                                                              \
    static void insert_##name(int64_t *at, const type *x, int64_t from, int64_t to, bool down)     \
    {                                                                                              \
        for (int64_t i = from + 1; i < to; i++) {                                                  \
            int64_t moved = at[i], k = i;                                                          \
            for (; k > from && before_##name(x, moved, at[k - 1], down); k--) at[k] = at[k - 1];   \
            at[k] = moved;                                                                         \
        }                                                                                          \
    }                                                                                              \
    static void sort_##name(int64_t *at, int64_t *spare, const void *line, int64_t n, bool down)   \
    {                                                                                              \
        const type *x = line;                                                                      \
        int64_t *from = at, *to = spare;                                                           \
        for (int64_t i = 0; i < n; i++) at[i] = i;                                                 \
        for (int64_t i = 0; i < n; i += SHORT)                                                     \
            insert_##name(at, x, i, i + SHORT < n ? i + SHORT : n, down);                          \
        for (int64_t run = SHORT; run < n; run *= 2) {                                             \
            for (int64_t start = 0; start < n; start += 2 * run) {                                 \
                int64_t middle = start + run < n ? start + run : n;                                \
                int64_t end = start + 2 * run < n ? start + 2 * run : n;                           \
                int64_t i = start, k = middle, o = start;                                          \
                while (i < middle && k < end)                                                      \
                    to[o++] = before_##name(x, from[k], from[i], down) ? from[k++] : from[i++];    \
                while (i < middle) to[o++] = from[i++];                                            \
                while (k < end) to[o++] = from[k++];                                               \
            }                                                                                      \
            int64_t *former = from;                                                                \
            from = to;                                                                             \
            to = former;                                                                           \
        }                                                                                          \
        if (from != at) memcpy(at, from, (size_t)n * sizeof *at);                                  \
    }
SORT(f32, float)
SORT(f64, double)
SORT(i64, int64_t)

typedef struct job {
    const char *x;
    char *value; /* of kept elements per line */
    int64_t *place;
    int64_t *scratch; /* 2 n per line */
    int64_t n, kept, size;
    ts_dtype dtype;
    bool down;
} job;

static void sort_lines(int64_t begin, int64_t end, void *user)
{
    const job *j = user;
    for (int64_t i = begin; i < end; i++) {
        int64_t *at = j->scratch + i * 2 * j->n;
        const char *x = j->x + i * j->n * j->size;
        if (j->dtype == TS_FLOAT32) sort_f32(at, at + j->n, x, j->n, j->down);
        if (j->dtype == TS_FLOAT64) sort_f64(at, at + j->n, x, j->n, j->down);
        if (j->dtype == TS_INT64) sort_i64(at, at + j->n, x, j->n, j->down);
        for (int64_t k = 0; k < j->kept; k++) {
            j->place[i * j->kept + k] = at[k];
            memcpy(j->value + (i * j->kept + k) * j->size, x + at[k] * j->size, (size_t)j->size);
        }
    }
}

/* x: lines in the last dimension. */
static ts_status sort_into(ts_op_call *call, ts_tensor *x, ts_tensor *value, ts_tensor *place)
{
    int64_t n = line_length(call), lines = x->numel / n;
    size_t scratch = (size_t)(2 * x->numel) * sizeof(int64_t);
    job j = {.x = ts_tensor_bytes(x),
             .value = ts_tensor_bytes(value),
             .place = (int64_t *)(void *)ts_tensor_bytes(place),
             .scratch = ts_calloc(1, scratch),
             .n = n,
             .kept = call->attr[KEPT].i < 0 ? n : call->attr[KEPT].i,
             .size = (int64_t)ts_dtype_size((ts_dtype)x->dtype),
             .dtype = (ts_dtype)x->dtype,
             .down = call->attr[DESCENDING].i};
    if (!j.scratch) return ts_fail_memory(scratch, call->def->name);
    ts_parallel_for(lines, GRAIN / n + 1, sort_lines, &j);
    free(j.scratch);
    return TS_OK;
}

static ts_status sort_kernel(ts_op_call *call)
{
    ts_tensor *a = call->in[0];
    if (call->out[0]->numel == 0) return TS_OK;
    uint64_t dim = a->shape.ndim > 0 ? UINT64_C(1) << call->attr[DIM].i : 0;
    ts_tensor *to[] = {ts_dims_last(call->out[0], dim), ts_dims_last(call->out[1], dim)};
    ts_tensor *x = ts_computable(ts_dims_last(a, dim), false), *value = NULL, *place = NULL;
    ts_status status = ts_tensor_check(x, call->def->name);
    for (int i = 0; i < 2 && status == TS_OK; i++) status = ts_tensor_check(to[i], call->def->name);
    if (status == TS_OK) {
        ts_spec spec = {to[0]->shape, (ts_dtype)x->dtype, TS_CPU};
        value = ts_tensor_new(&spec, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION);
        spec.dtype = TS_INT64;
        place = ts_tensor_new(&spec, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION);
        status = ts_tensor_check(value, call->def->name);
    }
    if (status == TS_OK) status = ts_tensor_check(place, call->def->name);
    if (status == TS_OK) status = sort_into(call, x, value, place);
    if (status == TS_OK) status = ts_tensor_copy_data(to[0], value);
    if (status == TS_OK) status = ts_tensor_copy_data(to[1], place);
    ts_release(x);
    return status;
}

/* Each gradient goes back to the place that its element came from. */
static ts_status sort_backward(const ts_backward_call *call)
{
    ts_tensor *g = call->grad_out[0];
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    if (!g) return TS_OK;
    opt.dtype = (ts_dtype)g->dtype;
    opt.device = call->in_spec[0].device;
    call->grad_in[0] = ts_scatter_add(ts_zeros(call->in_spec[0].shape, &opt),
                                      (int)call->attr[DIM].i, call->out[1], g);
    return TS_OK;
}

#define ROW(row_name, text)                                                                        \
    static const ts_op_def row_name = {.name = text,                                               \
                                       .num_out = 2,                                               \
                                       .save_out = 2,                                              \
                                       .infer = sort_infer,                                        \
                                       .kernel = {[TS_CPU] = sort_kernel},                         \
                                       .backward = sort_backward};
ROW(sort_row, "sort")
ROW(topk_row, "topk")

static ts_tensor *sorted(const ts_op_def *def, ts_tensor *a, int dim, bool descending, int64_t kept,
                         ts_tensor **indices)
{
    ts_op_call call = {.def = def, .in = &a, .num_in = 1, .num_attrs = NUM_ATTRS};
    if (a && !ts_failed(a)) dim = ts_wrap_dim(def->name, dim, a->shape.ndim);
    call.attr[DIM].i = dim;
    call.attr[DESCENDING].i = descending;
    call.attr[KEPT].i = kept;
    if (a && !ts_failed(a) && dim < 0)
        call.out[0] = call.out[1] = ts_fail_tensor_last(TS_ESHAPE);
    else
        ts_dispatch(&call);
    if (indices) *indices = call.out[1];
    return call.out[0];
}

ts_tensor *ts_sort(ts_tensor *a, int dim, bool descending, ts_tensor **indices)
{
    return sorted(&sort_row, a, dim, descending, -1, indices);
}

ts_tensor *ts_topk(ts_tensor *a, int64_t k, int dim, bool largest, ts_tensor **indices)
{
    if (k < 0) {
        ts_tensor *failed = ts_fail_tensor(TS_EINVAL, "topk: k is %lld", (long long)k);
        if (indices) *indices = failed;
        return failed;
    }
    return sorted(&topk_row, a, dim, largest, k, indices);
}
