/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and means over dimensions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/ops.h>

#include "base/memory.h"
#include "base/thread.h"
#include "kernels/reduce.h"
#include "ops/reduce.h"

/* ---- floating sums --------------------------------------------------------------------------- */

enum { BLOCK = 1 << 16, COLUMNS = 256, MAX_GROUPS = TS_MAX_DIMS };

/* Neighbouring dimensions of a row-major input that are all kept or all reduced are one. */
typedef struct job {
    const ts_reduce_kernels *kernels;
    const char *x;
    char *out;
    size_t size;
    int num_kept, num_reduced; /* without the innermost dimension */
    int64_t kept[MAX_GROUPS], kept_step[MAX_GROUPS];
    int64_t reduced[MAX_GROUPS], reduced_step[MAX_GROUPS];
    int64_t inner;   /* size of the innermost dimension */
    bool inner_kept; /* it is kept: columns are summed, otherwise lines */
    int64_t lines;   /* product of reduced[] */
    double divisor;
} job;

static int64_t offset_of(int64_t index, const int64_t *dim, const int64_t *step, int n)
{
    int64_t offset = 0;
    for (int i = n - 1; i >= 0; i--) {
        offset += index % dim[i] * step[i];
        index /= dim[i];
    }
    return offset;
}

static void put(const job *j, int64_t at, double value)
{
    if (j->size == sizeof(float))
        ((float *)(void *)j->out)[at] = (float)(value / j->divisor);
    else
        ((double *)(void *)j->out)[at] = value / j->divisor;
}

static const char *line_at(const job *j, int64_t kept, int64_t line)
{
    int64_t offset = offset_of(kept, j->kept, j->kept_step, j->num_kept) +
                     offset_of(line, j->reduced, j->reduced_step, j->num_reduced);
    return j->x + offset * (int64_t)j->size;
}

static void sum_lines(int64_t begin, int64_t end, void *user)
{
    const job *j = user;
    for (int64_t k = begin; k < end; k++) {
        double total = 0;
        for (int64_t line = 0; line < j->lines; line++)
            total += j->kernels->sum(line_at(j, k, line), j->inner);
        put(j, k, total);
    }
}

/* Pieces: each tile of columns at each position of the outer kept dimensions. */
static void sum_columns(int64_t begin, int64_t end, void *user)
{
    const job *j = user;
    int64_t tiles = (j->inner + COLUMNS - 1) / COLUMNS;
    for (int64_t piece = begin; piece < end; piece++) {
        double sums[COLUMNS] = {0};
        int64_t k = piece / tiles, c = piece % tiles * COLUMNS;
        int64_t n = j->inner - c < COLUMNS ? j->inner - c : COLUMNS;
        for (int64_t line = 0; line < j->lines; line++)
            j->kernels->add_to(sums, line_at(j, k, line) + c * (int64_t)j->size, n);
        for (int64_t i = 0; i < n; i++) put(j, k * j->inner + c + i, sums[i]);
    }
}

typedef struct blocks {
    const job *j;
    double *sum;
} blocks;

static void sum_blocks(int64_t begin, int64_t end, void *user)
{
    const blocks *b = user;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i * BLOCK, left = b->j->inner - at;
        b->sum[i] =
            b->j->kernels->sum(b->j->x + at * (int64_t)b->j->size, left < BLOCK ? left : BLOCK);
    }
}

/* One long line to one number: blocks on several threads, added in order. */
static ts_status sum_all(const job *j)
{
    int64_t n = (j->inner + BLOCK - 1) / BLOCK;
    blocks b = {j, ts_calloc((size_t)n, sizeof(double))};
    if (!b.sum) return ts_fail_memory((size_t)n * sizeof(double), "sum");
    ts_parallel_for(n, 1, sum_blocks, &b);
    double total = 0;
    for (int64_t i = 0; i < n; i++) total += b.sum[i];
    put(j, 0, total);
    free(b.sum);
    return TS_OK;
}

static void group_dims(job *j, const ts_tensor *a, uint64_t dims)
{
    int64_t step = 1, size = 1;
    bool kept = false, first = true;
    for (int i = a->shape.ndim - 1; i >= -1; i--) {
        bool this_kept = i >= 0 && !(dims >> i & 1);
        if (i >= 0 && (a->shape.dim[i] == 1 || (this_kept == kept && size > 1))) {
            size *= a->shape.dim[i];
            if (a->shape.dim[i] != 1) kept = this_kept;
            continue;
        }
        if (size > 1 || i < 0) {
            int64_t *dim = kept ? j->kept : j->reduced,
                    *steps = kept ? j->kept_step : j->reduced_step;
            int *count = kept ? &j->num_kept : &j->num_reduced;
            if (first) {
                j->inner = size;
                j->inner_kept = kept;
            } else {
                memmove(dim + 1, dim, (size_t)*count * sizeof *dim);
                memmove(steps + 1, steps, (size_t)*count * sizeof *steps);
                dim[0] = size;
                steps[0] = step;
                ++*count;
            }
            first = false;
            step *= size;
        }
        if (i >= 0) {
            size = a->shape.dim[i];
            kept = this_kept;
        }
    }
}

static ts_status sum_floats(ts_tensor *out, const ts_tensor *a, uint64_t dims, double divisor)
{
    job j = {.kernels = ts_reduce_kernels_for((ts_dtype)a->dtype),
             .x = ts_tensor_bytes(a),
             .out = ts_tensor_bytes(out),
             .size = ts_dtype_size((ts_dtype)a->dtype),
             .lines = 1,
             .divisor = divisor};
    group_dims(&j, a, dims);
    for (int i = 0; i < j.num_reduced; i++) j.lines *= j.reduced[i];
    int64_t outer = 1;
    for (int i = 0; i < j.num_kept; i++) outer *= j.kept[i];
    int64_t work = j.lines * (j.inner_kept ? COLUMNS : j.inner), grain = BLOCK / (work + 1) + 1;
    if (j.inner_kept) {
        ts_parallel_for(outer * ((j.inner + COLUMNS - 1) / COLUMNS), grain, sum_columns, &j);
    } else if (outer == 1 && j.lines == 1 && j.inner > 2 * BLOCK) {
        return sum_all(&j);
    } else {
        ts_parallel_for(outer, grain, sum_lines, &j);
    }
    return TS_OK;
}

/* ---- whole numbers: wrap around in int64 ----------------------------------------------------- */

static void sum_ints(ts_tensor *out, const ts_tensor *a, uint64_t dims)
{
    const int64_t *x = (const int64_t *)(const void *)ts_tensor_bytes(a);
    uint64_t *sums = (uint64_t *)(void *)ts_tensor_bytes(out);
    int64_t step[TS_MAX_DIMS], index[TS_MAX_DIMS] = {0};
    ts_shape keep = ts_reduced_shape(a->shape, dims, true);
    ts_row_major_strides(step, keep);
    memset(sums, 0, (size_t)out->numel * sizeof *sums);
    for (int64_t i = 0; i < a->numel; i++) {
        int64_t at = 0;
        for (int k = 0; k < a->shape.ndim; k++)
            if (!(dims >> k & 1)) at += index[k] * step[k];
        sums[at] += (uint64_t)x[i];
        for (int k = a->shape.ndim - 1; k >= 0 && ++index[k] == a->shape.dim[k]; k--) index[k] = 0;
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static ts_status sum_infer(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_reduce_infer(call, out));
    if (!ts_dtype_is_floating((ts_dtype)call->in[0]->dtype)) out->dtype = TS_INT64;
    return TS_OK;
}

static ts_status mean_infer(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(ts_reduce_infer(call, out));
    return ts_reduce_need_floating(call);
}

static ts_status reduce_into(ts_tensor *out, ts_tensor *a, uint64_t dims, double divisor)
{
    if (a->numel == 0) return ts_tensor_fill_data(out, 0 / divisor);
    if (a->dtype != TS_INT64) return sum_floats(out, a, dims, divisor);
    sum_ints(out, a, dims);
    return TS_OK;
}

static ts_status run_sum(ts_op_call *call, double divisor)
{
    ts_tensor *out = call->out[0], *a = ts_computable(call->in[0], false);
    ts_status status = ts_tensor_check(a, call->def->name);
    if (status == TS_OK && out->dtype == a->dtype) {
        status = reduce_into(out, a, (uint64_t)call->attr[TS_REDUCE_DIMS].i, divisor);
    } else if (status == TS_OK) {
        ts_spec spec = {out->shape, (ts_dtype)a->dtype, TS_CPU};
        ts_tensor *wide = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION);
        status = ts_tensor_check(wide, call->def->name);
        if (status == TS_OK)
            status = reduce_into(wide, a, (uint64_t)call->attr[TS_REDUCE_DIMS].i, divisor);
        if (status == TS_OK) status = ts_tensor_copy_data(out, wide);
        ts_release(wide);
    }
    ts_release(a);
    return status;
}

static ts_status sum_kernel(ts_op_call *call) { return run_sum(call, 1); }

static ts_status mean_kernel(ts_op_call *call)
{
    return run_sum(
        call, (double)ts_reduced_count(call->in[0]->shape, (uint64_t)call->attr[TS_REDUCE_DIMS].i));
}

/* y = sum a    da = dy at every element that was summed */
static ts_status sum_backward(const ts_backward_call *call)
{
    call->grad_in[0] = ts_expand(ts_with_dims(call, call->grad_out[0]), call->in_spec[0].shape);
    return TS_OK;
}

/* y = sum a / n    da = dy / n */
static ts_status mean_backward(const ts_backward_call *call)
{
    ts_shape shape = call->in_spec[0].shape;
    double n = (double)ts_reduced_count(shape, (uint64_t)call->attr[TS_REDUCE_DIMS].i);
    ts_tensor *g = ts_with_dims(call, call->grad_out[0]);
    call->grad_in[0] = ts_expand(ts_mul_scalar(g, 1 / n), shape);
    return TS_OK;
}

static const ts_op_def sum_row = {.name = "sum",
                                  .num_out = 1,
                                  .infer = sum_infer,
                                  .kernel = {[TS_CPU] = sum_kernel},
                                  .backward = sum_backward};
static const ts_op_def mean_row = {.name = "mean",
                                   .num_out = 1,
                                   .infer = mean_infer,
                                   .kernel = {[TS_CPU] = mean_kernel},
                                   .backward = mean_backward};

static ts_tensor *over_dims(const ts_op_def *def, ts_tensor *a, const int *dims, int n,
                            bool keepdim)
{
    return ts_reduce_dispatch(def, a, dims, n, keepdim, (ts_attr){.i = 0});
}

ts_tensor *ts_sum(ts_tensor *a) { return over_dims(&sum_row, a, NULL, 0, false); }
ts_tensor *ts_mean(ts_tensor *a) { return over_dims(&mean_row, a, NULL, 0, false); }
ts_tensor *ts_sum_dim(ts_tensor *a, int dim, bool keepdim)
{
    return over_dims(&sum_row, a, &dim, 1, keepdim);
}
ts_tensor *ts_mean_dim(ts_tensor *a, int dim, bool keepdim)
{
    return over_dims(&mean_row, a, &dim, 1, keepdim);
}
ts_tensor *ts_sum_dims(ts_tensor *a, const int *dims, int n, bool keepdim)
{
    return over_dims(&sum_row, a, dims, n, keepdim);
}

ts_tensor *ts_sum_to_shape(ts_tensor *grad, ts_shape shape)
{
    if (ts_failed(grad) || ts_shape_equal(grad->shape, shape)) return grad;
    char want[TS_SHAPE_TEXT], have[TS_SHAPE_TEXT];
    int added = grad->shape.ndim - shape.ndim;
    int dims[TS_MAX_DIMS], n = 0;
    bool fits = added >= 0;
    for (int i = 0; i < grad->shape.ndim && fits; i++) {
        int64_t size = i < added ? 1 : shape.dim[i - added];
        fits = size == 1 || size == grad->shape.dim[i];
        if (i < added || (size == 1 && grad->shape.dim[i] != 1)) dims[n++] = i;
    }
    if (!fits)
        return ts_fail_tensor(TS_ESHAPE, "a gradient of shape %s does not fit the input's shape %s",
                              ts_shape_format(have, sizeof have, grad->shape),
                              ts_shape_format(want, sizeof want, shape));
    ts_tensor *sum = ts_sum_dims(grad, dims, n, true);
    return added == 0 ? sum : ts_reshape(sum, shape);
}
