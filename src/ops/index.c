/* SPDX-License-Identifier: Apache-2.0 */
/* Elements and slices by number.  Indices are int64; negative ones are an error in the operations and
 * count from the end in ts_index.  Sums run in the order of the index, so they are reproducible. */
#include <string.h>
#include <tessera/ops.h>

#include "base/thread.h"
#include "kernels/elementwise.h"
#include "ops/reduce.h"

enum { GRAIN = 1 << 14 };

static ts_status out_of_range(const char *op, int64_t index, int dim, int64_t size)
{
    return ts_fail(TS_EINVAL, "%s: index %lld is out of range for dim %d of size %lld", op,
                   (long long)index, dim, (long long)size);
}

static ts_status check_range(const char *op, const ts_tensor *index, int dim, int64_t size)
{
    const int64_t *at = (const int64_t *)(const void *)ts_tensor_bytes(index);
    for (int64_t i = 0; i < index->numel; i++)
        if (at[i] < 0 || at[i] >= size) return out_of_range(op, at[i], dim, size);
    return TS_OK;
}

static ts_tensor *dispatch(const ts_op_def *def, ts_tensor *const *in, int n, int dim)
{
    const ts_tensor *a = in[0];
    if (a && !ts_failed(a)) {
        dim = ts_wrap_dim(def->name, dim, a->shape.ndim);
        if (dim < 0) return ts_fail_tensor_last(TS_ESHAPE);
    }
    ts_op_call call = {.def = def, .in = in, .num_in = n, .num_attrs = 1, .attr = {{.i = dim}}};
    return ts_dispatch(&call);
}

/* ---- whole slices: index_select, index_add --------------------------------------------------- */

/* Seen as (outer, size, inner); a 0-dim tensor as (1, 1, 1). */
typedef struct slices {
    int64_t outer, size, inner;
} slices;

static slices slices_of(ts_shape shape, int dim)
{
    slices s = {1, 1, 1};
    for (int i = 0; i < shape.ndim; i++)
        *(i < dim ? &s.outer : i == dim ? &s.size : &s.inner) *= shape.dim[i];
    return s;
}

static ts_status need_one_dim(const char *op, const ts_tensor *index)
{
    TS_TRY(ts_need_dtype(op, "index", index, TS_INT64));
    if (index->shape.ndim <= 1) return TS_OK;
    return ts_fail(TS_ESHAPE, "%s: the index has %d dimensions; it must have one", op,
                   index->shape.ndim);
}

static ts_status index_select_infer(const ts_op_call *call, ts_spec *out)
{
    *out = ts_tensor_spec(call->in[0]);
    TS_TRY(need_one_dim("index_select", call->in[1]));
    if (out->shape.ndim > 0)
        out->shape.dim[call->attr[0].i] = call->in[1]->numel;
    else if (call->in[1]->numel != 1)
        return ts_fail(TS_ESHAPE, "index_select: a 0-dim tensor takes one index, not %lld",
                       (long long)call->in[1]->numel);
    return TS_OK;
}

typedef struct select_job {
    const char *from;
    char *to;
    const int64_t *index;
    int64_t count, size, bytes; /* of a slice of one outer position */
} select_job;

static void select_slices(int64_t begin, int64_t end, void *user)
{
    const select_job *j = user;
    for (int64_t i = begin; i < end; i++) {
        int64_t outer = i / j->count, at = j->index[i % j->count];
        memcpy(j->to + i * j->bytes, j->from + (outer * j->size + at) * j->bytes, (size_t)j->bytes);
    }
}

static ts_status index_select_kernel(ts_op_call *call)
{
    int dim = (int)call->attr[0].i;
    ts_tensor *a = ts_row_major(call->in[0]), *index = ts_row_major(call->in[1]);
    TS_TRY(ts_tensor_check(a, "index_select"));
    TS_TRY(ts_tensor_check(index, "index_select"));
    slices s = slices_of(a->shape, dim);
    TS_TRY(check_range("index_select", index, dim, s.size));
    select_job j = {.from = ts_tensor_bytes(a),
                    .to = ts_tensor_bytes(call->out[0]),
                    .index = (const int64_t *)(const void *)ts_tensor_bytes(index),
                    .count = index->numel,
                    .size = s.size,
                    .bytes = s.inner * (int64_t)ts_dtype_size((ts_dtype)a->dtype)};
    if (call->out[0]->numel == 0) return TS_OK;
    ts_parallel_for(s.outer * j.count, GRAIN / (j.bytes + 1) + 1, select_slices, &j);
    return TS_OK;
}

/* da = dy added at the indices */
static ts_status index_select_backward(const ts_backward_call *call)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = (ts_dtype)call->grad_out[0]->dtype;
    opt.device = call->in_spec[0].device;
    call->grad_in[0] = ts_index_add(ts_zeros(call->in_spec[0].shape, &opt), (int)call->attr[0].i,
                                    call->in[1], call->grad_out[0]);
    return TS_OK;
}

static const ts_op_def index_select_row = {.name = "index_select",
                                           .num_out = 1,
                                           .save_in = 2,
                                           .infer = index_select_infer,
                                           .kernel = {[TS_CPU] = index_select_kernel},
                                           .backward = index_select_backward};

ts_tensor *ts_index_select(ts_tensor *a, int dim, ts_tensor *index)
{
    return dispatch(&index_select_row, (ts_tensor *[]){a, index}, 2, dim);
}

static ts_status index_add_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *a = call->in[0], *index = call->in[1], *src = call->in[2];
    char want[TS_SHAPE_TEXT], have[TS_SHAPE_TEXT];
    *out = ts_tensor_spec(a);
    TS_TRY(need_one_dim("index_add", index));
    TS_TRY(ts_need_dtype("index_add", "the source", src, out->dtype));
    ts_shape shape = a->shape;
    if (shape.ndim > 0) shape.dim[call->attr[0].i] = index->numel;
    if (ts_shape_equal(shape, src->shape)) return TS_OK;
    return ts_fail(TS_ESHAPE, "index_add: the source has shape %s; %lld indices of dim %d need %s",
                   ts_shape_format(have, sizeof have, src->shape), (long long)index->numel,
                   (int)call->attr[0].i, ts_shape_format(want, sizeof want, shape));
}

typedef struct add_job {
    char *to;
    const char *from;
    const int64_t *index;
    int64_t count, to_size, from_size, inner, bytes; /* of an element */
    ts_loop add;
} add_job;

static void add_slices(int64_t begin, int64_t end, void *user)
{
    static const int64_t ones[] = {1, 1, 1};
    static const double none[] = {0, 0};
    const add_job *j = user;
    for (int64_t outer = begin; outer < end; outer++)
        for (int64_t k = 0; k < j->count; k++) {
            char *to = j->to + (outer * j->to_size + j->index[k]) * j->inner * j->bytes;
            const char *from = j->from + (outer * j->from_size + k) * j->inner * j->bytes;
            j->add((char *[]){to, to, (char *)(uintptr_t)from}, ones, j->inner, none);
        }
}

/* Into sum, which holds a already. */
static ts_status add_at(const ts_op_call *call, ts_tensor *sum, ts_tensor *src)
{
    int dim = (int)call->attr[0].i;
    ts_tensor *index = ts_row_major(call->in[1]);
    TS_TRY(ts_tensor_check(index, "index_add"));
    slices to = slices_of(sum->shape, dim), from = slices_of(src->shape, dim);
    TS_TRY(check_range("index_add", index, dim, to.size));
    if (src->numel == 0) return TS_OK;
    add_job j = {.to = ts_tensor_bytes(sum),
                 .from = ts_tensor_bytes(src),
                 .index = (const int64_t *)(const void *)ts_tensor_bytes(index),
                 .count = index->numel,
                 .to_size = to.size,
                 .from_size = from.size,
                 .inner = to.inner,
                 .bytes = (int64_t)ts_dtype_size((ts_dtype)sum->dtype),
                 .add = ts_elementwise_kernels_for((ts_dtype)sum->dtype)->loop[TS_LOOP_ADD]};
    ts_parallel_for(to.outer, GRAIN / (from.size * from.inner + 1) + 1, add_slices, &j);
    return TS_OK;
}

/* Sums run in float32, float64 or int64 and are rounded once. */
static ts_status into_sum(ts_op_call *call,
                          ts_status (*add)(const ts_op_call *call, ts_tensor *sum, ts_tensor *src))
{
    ts_tensor *sum = ts_computable(call->in[0], true), *src = ts_computable(call->in[2], false);
    ts_status status = ts_tensor_check(sum, call->def->name);
    if (status == TS_OK) status = ts_tensor_check(src, call->def->name);
    if (status == TS_OK) status = add(call, sum, src);
    if (status == TS_OK) status = ts_tensor_copy_data(call->out[0], sum);
    ts_release(sum);
    ts_release(src);
    return status;
}

static ts_status index_add_kernel(ts_op_call *call) { return into_sum(call, add_at); }

static ts_status index_add_backward(const ts_backward_call *call)
{
    call->grad_in[0] = call->grad_out[0];
    if (call->needs[2])
        call->grad_in[2] = ts_index_select(call->grad_out[0], (int)call->attr[0].i, call->in[1]);
    return TS_OK;
}

static const ts_op_def index_add_row = {.name = "index_add",
                                        .num_out = 1,
                                        .save_in = 2,
                                        .infer = index_add_infer,
                                        .kernel = {[TS_CPU] = index_add_kernel},
                                        .backward = index_add_backward};

ts_tensor *ts_index_add(ts_tensor *a, int dim, ts_tensor *index, ts_tensor *source)
{
    return dispatch(&index_add_row, (ts_tensor *[]){a, index, source}, 3, dim);
}

/* ---- single elements: gather, scatter_add ---------------------------------------------------- */

/* Apart from dim, the index must lie within a. */
static ts_status index_fits(const char *op, const ts_tensor *a, const ts_tensor *index, int dim)
{
    char own[TS_SHAPE_TEXT], other[TS_SHAPE_TEXT];
    TS_TRY(ts_need_dtype(op, "index", index, TS_INT64));
    bool fits = a->shape.ndim == index->shape.ndim;
    for (int i = 0; fits && i < a->shape.ndim; i++)
        fits = i == dim || index->shape.dim[i] <= a->shape.dim[i];
    if (fits || index->numel == 0) return TS_OK;
    return ts_fail(TS_ESHAPE,
                   "%s: the index has shape %s, which does not lie within %s outside "
                   "dim %d",
                   op, ts_shape_format(other, sizeof other, index->shape),
                   ts_shape_format(own, sizeof own, a->shape), dim);
}

static ts_status gather_infer(const ts_op_call *call, ts_spec *out)
{
    TS_TRY(index_fits("gather", call->in[0], call->in[1], (int)call->attr[0].i));
    *out = ts_tensor_spec(call->in[0]);
    out->shape = call->in[1]->shape;
    return TS_OK;
}

/* a cut to the index outside dim, with dim last. */
static ts_tensor *lines_of(ts_tensor *a, ts_shape shape, int dim)
{
    if (shape.ndim == 0) return a;
    shape.dim[dim] = a->shape.dim[dim];
    ts_tensor *part = ts_tensor_view(a, shape, a->stride, a->offset);
    return ts_failed(part) ? part : ts_dims_last(part, UINT64_C(1) << dim);
}

static int64_t last_size(const ts_tensor *t)
{
    return t->shape.ndim > 0 ? t->shape.dim[t->shape.ndim - 1] : 1;
}

/* Lines of the index with those of the tensor that it points into, and with the elements. */
typedef struct line_job {
    const int64_t *index;
    char *lines, *elements;
    int64_t n, size, bytes; /* length of the lines of both; of an element */
    ts_loop add;
} line_job;

static void gather_lines(int64_t begin, int64_t end, void *user)
{
    const line_job *j = user;
    for (int64_t i = begin * j->n; i < end * j->n; i++)
        memcpy(j->elements + i * j->bytes, j->lines + (i / j->n * j->size + j->index[i]) * j->bytes,
               (size_t)j->bytes);
}

static void scatter_lines(int64_t begin, int64_t end, void *user)
{
    static const int64_t ones[] = {1, 1, 1};
    static const double none[] = {0, 0};
    const line_job *j = user;
    for (int64_t i = begin * j->n; i < end * j->n; i++) {
        char *to = j->lines + (i / j->n * j->size + j->index[i]) * j->bytes;
        j->add((char *[]){to, to, j->elements + i * j->bytes}, ones, 1, none);
    }
}

static ts_status run_lines(line_job *j, ts_tensor *lines, ts_tensor *index, ts_tensor *elements,
                           void (*run)(int64_t begin, int64_t end, void *user))
{
    j->index = (const int64_t *)(const void *)ts_tensor_bytes(index);
    j->lines = ts_tensor_bytes(lines);
    j->elements = ts_tensor_bytes(elements);
    j->n = last_size(index);
    j->size = last_size(lines);
    j->bytes = (int64_t)ts_dtype_size((ts_dtype)lines->dtype);
    ts_parallel_for(index->numel / j->n, GRAIN / j->n + 1, run, j);
    return TS_OK;
}

static ts_status gather_kernel(ts_op_call *call)
{
    ts_tensor *a = call->in[0], *index = call->in[1], *out = call->out[0];
    int dim = (int)call->attr[0].i;
    if (index->numel == 0) return TS_OK;
    ts_tensor *lines = ts_row_major(lines_of(a, index->shape, dim));
    ts_tensor *at = ts_row_major(lines_of(index, index->shape, dim));
    TS_TRY(ts_tensor_check(lines, "gather"));
    TS_TRY(ts_tensor_check(at, "gather"));
    TS_TRY(check_range("gather", at, dim, last_size(lines)));
    ts_spec spec = {at->shape, (ts_dtype)out->dtype, TS_CPU};
    ts_tensor *found = ts_tensor_new(&spec, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION);
    TS_TRY(ts_tensor_check(found, "gather"));
    line_job j = {.add = NULL};
    TS_TRY(run_lines(&j, lines, at, found, gather_lines));
    ts_tensor *place = lines_of(out, index->shape, dim);
    TS_TRY(ts_tensor_check(place, "gather"));
    return ts_tensor_copy_data(place, found);
}

static ts_status gather_backward(const ts_backward_call *call)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = (ts_dtype)call->grad_out[0]->dtype;
    opt.device = call->in_spec[0].device;
    call->grad_in[0] = ts_scatter_add(ts_zeros(call->in_spec[0].shape, &opt), (int)call->attr[0].i,
                                      call->in[1], call->grad_out[0]);
    return TS_OK;
}

static const ts_op_def gather_row = {.name = "gather",
                                     .num_out = 1,
                                     .save_in = 2,
                                     .infer = gather_infer,
                                     .kernel = {[TS_CPU] = gather_kernel},
                                     .backward = gather_backward};

ts_tensor *ts_gather_dim(ts_tensor *a, int dim, ts_tensor *index)
{
    return dispatch(&gather_row, (ts_tensor *[]){a, index}, 2, dim);
}

static ts_status scatter_add_infer(const ts_op_call *call, ts_spec *out)
{
    const ts_tensor *a = call->in[0], *index = call->in[1], *src = call->in[2];
    char own[TS_SHAPE_TEXT], other[TS_SHAPE_TEXT];
    *out = ts_tensor_spec(a);
    TS_TRY(index_fits("scatter_add", a, index, (int)call->attr[0].i));
    TS_TRY(ts_need_dtype("scatter_add", "the source", src, out->dtype));
    bool fits = src->shape.ndim == index->shape.ndim;
    for (int i = 0; fits && i < src->shape.ndim; i++)
        fits = index->shape.dim[i] <= src->shape.dim[i];
    if (fits || index->numel == 0) return TS_OK;
    return ts_fail(TS_ESHAPE,
                   "scatter_add: the source of shape %s has no element for each of the "
                   "index of shape %s",
                   ts_shape_format(own, sizeof own, src->shape),
                   ts_shape_format(other, sizeof other, index->shape));
}

static ts_status scatter_into(const ts_op_call *call, ts_tensor *sum, ts_tensor *src)
{
    ts_tensor *index = call->in[1];
    int dim = (int)call->attr[0].i;
    if (index->numel == 0) return TS_OK;
    ts_tensor *place = lines_of(sum, index->shape, dim);
    ts_tensor *lines = ts_row_major(place), *at = ts_row_major(lines_of(index, index->shape, dim));
    ts_tensor *cut = ts_tensor_view(src, index->shape, src->stride, src->offset);
    TS_TRY(ts_tensor_check(cut, "scatter_add"));
    ts_tensor *elements = ts_row_major(lines_of(cut, index->shape, dim));
    TS_TRY(ts_tensor_check(lines, "scatter_add"));
    TS_TRY(ts_tensor_check(at, "scatter_add"));
    TS_TRY(ts_tensor_check(elements, "scatter_add"));
    TS_TRY(check_range("scatter_add", at, dim, last_size(lines)));
    line_job j = {.add = ts_elementwise_kernels_for((ts_dtype)sum->dtype)->loop[TS_LOOP_ADD]};
    TS_TRY(run_lines(&j, lines, at, elements, scatter_lines));
    return lines == place ? TS_OK : ts_tensor_copy_data(place, lines);
}

static ts_status scatter_add_kernel(ts_op_call *call) { return into_sum(call, scatter_into); }

/* The source may be larger than the index: there its gradient is 0. */
static ts_status scatter_add_backward(const ts_backward_call *call)
{
    call->grad_in[0] = call->grad_out[0];
    if (!call->needs[2]) return TS_OK;
    ts_tensor *g = ts_gather_dim(call->grad_out[0], (int)call->attr[0].i, call->in[1]);
    ts_shape shape = call->in_spec[2].shape;
    int64_t pads[2 * TS_MAX_DIMS] = {0};
    if (ts_failed(g)) return ts_tensor_check(g, "scatter_add");
    for (int i = 0; i < shape.ndim; i++) pads[2 * i + 1] = shape.dim[i] - g->shape.dim[i];
    call->grad_in[2] = ts_shape_equal(shape, g->shape) ? g : ts_pad(g, pads, shape.ndim, 0);
    return TS_OK;
}

static const ts_op_def scatter_add_row = {.name = "scatter_add",
                                          .num_out = 1,
                                          .save_in = 2,
                                          .infer = scatter_add_infer,
                                          .kernel = {[TS_CPU] = scatter_add_kernel},
                                          .backward = scatter_add_backward};

ts_tensor *ts_scatter_add(ts_tensor *a, int dim, ts_tensor *index, ts_tensor *source)
{
    return dispatch(&scatter_add_row, (ts_tensor *[]){a, index, source}, 3, dim);
}

/* ---- several indices at once ----------------------------------------------------------------- */

ts_tensor *ts_index(ts_tensor *a, int dim, ts_tensor *const *indices, int n)
{
    if (!a) return ts_fail_tensor(TS_EINVAL, "index: input 0 is missing (NULL)");
    if (ts_failed(a)) return a;
    int first = ts_wrap_dim("index", dim, a->shape.ndim);
    if (first < 0) return ts_fail_tensor_last(TS_ESHAPE);
    if (n < 1 || first + n > a->shape.ndim)
        return ts_fail_tensor(TS_ESHAPE,
                              "index: %d indices from dim %d on do not fit %d dimensions", n, first,
                              a->shape.ndim);
    ts_tensor *flat = NULL; /* number of the element among the indexed dimensions */
    int64_t count = 1;
    for (int i = 0; i < n; i++) {
        int64_t size = a->shape.dim[first + i];
        ts_tensor *at = indices[i];
        at = ts_where(ts_lt_scalar(at, 0), ts_add_scalar(at, (double)size), at);
        if (ts_failed(at)) return at;
        if (at->device == TS_CPU && at->numel > 0) {
            ts_tensor *plain = ts_row_major(at);
            if (ts_failed(plain)) return plain;
            if (plain->dtype != TS_INT64 || check_range("index", plain, first + i, size) != TS_OK)
                return plain->dtype != TS_INT64
                           ? ts_fail_tensor(TS_EDTYPE, "index: index %d is %s; needs int64", i,
                                            ts_dtype_name((ts_dtype)plain->dtype))
                           : ts_fail_tensor_last(TS_EINVAL);
        }
        flat = flat ? ts_add(ts_mul_scalar(flat, (double)size), at) : at;
        count *= size;
    }
    if (ts_failed(flat)) return flat;
    ts_shape joined = {0}, result = {0};
    if (a->shape.ndim - n + flat->shape.ndim > TS_MAX_DIMS)
        return ts_fail_tensor(TS_ESHAPE, "index: the result has more than %d dimensions",
                              TS_MAX_DIMS);
    for (int i = 0; i < a->shape.ndim; i++) {
        bool indexed = i >= first && i < first + n;
        if (i == first) {
            joined.dim[joined.ndim++] = count;
            for (int k = 0; k < flat->shape.ndim; k++)
                result.dim[result.ndim++] = flat->shape.dim[k];
        }
        if (indexed) continue;
        joined.dim[joined.ndim++] = a->shape.dim[i];
        result.dim[result.ndim++] = a->shape.dim[i];
    }
    ts_tensor *rows = ts_reshape(a, joined);
    return ts_reshape(ts_index_select(rows, first, ts_reshape(flat, TS_SHAPE(-1))), result);
}
