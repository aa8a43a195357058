/* SPDX-License-Identifier: Apache-2.0 */
/* Copying elements between any two layouts, with conversion. */
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "kernels/convert.h"
#include "tensor/loop_impl.h"

enum { STAGE = 256, TILE = 32, GRAIN = 1 << 15 };

typedef struct job {
    ts_loop loop;
    char *to;
    const char *from;
    size_t to_size, from_size;
    ts_convert_fn convert;
    bool same;    /* dtypes are equal */
    int64_t tile; /* the last dimension is walked in pieces of this length */
} job;

/* Strided elements of different dtypes: gathered, converted and scattered in short pieces. */
static void staged_line(const job *j, char *to, int64_t to_step, const char *from,
                        int64_t from_step, int64_t n)
{
    _Alignas(64) char gathered[STAGE * 16], converted[STAGE * 16];
    for (int64_t at = 0; at < n; at += STAGE) {
        int64_t count = n - at < STAGE ? n - at : STAGE;
        ts_kernel_copy_line(gathered, 1, from + at * from_step * (int64_t)j->from_size, from_step,
                            count, j->from_size);
        j->convert(converted, gathered, count);
        ts_kernel_copy_line(to + at * to_step * (int64_t)j->to_size, to_step, converted, 1, count,
                            j->to_size);
    }
}

static void line(const job *j, char *to, int64_t to_step, const char *from, int64_t from_step,
                 int64_t n)
{
    if (to_step == 1 && from_step == 1)
        j->convert(to, from, n);
    else if (j->same)
        ts_kernel_copy_line(to, to_step, from, from_step, n, j->to_size);
    else
        staged_line(j, to, to_step, from, from_step, n);
}

/* Pieces: each tile of columns of each plane. */
static void run_pieces(int64_t begin, int64_t end, void *user)
{
    const job *j = user;
    const ts_loop *l = &j->loop;
    int col = l->ndim - 1, row = l->ndim - 2;
    int64_t tiles = (l->dim[col] + j->tile - 1) / j->tile;
    ts_loop_at at;
    ts_loop_seek(l, &at, begin / tiles);
    for (int64_t piece = begin, tile = begin % tiles; piece < end; piece++) {
        int64_t c = tile * j->tile;
        int64_t n = l->dim[col] - c < j->tile ? l->dim[col] - c : j->tile;
        char *to = j->to + (at.to + c * l->to[col]) * (int64_t)j->to_size;
        const char *from = j->from + (at.from + c * l->from[col]) * (int64_t)j->from_size;
        for (int64_t r = 0; r < l->dim[row]; r++)
            line(j, to + r * l->to[row] * (int64_t)j->to_size, l->to[col],
                 from + r * l->from[row] * (int64_t)j->from_size, l->from[col], n);
        if (++tile == tiles) {
            tile = 0;
            ts_loop_next(l, &at);
        }
    }
}

/* A transposition: if `from` runs fastest along another dimension than the last, that one becomes
 * the row, and narrow tiles keep the lines of `from` in the cache while the rows pass. */
static void choose_tile(job *j)
{
    ts_loop *l = &j->loop;
    int row = l->ndim - 2;
    j->tile = l->dim[row + 1];
    if (llabs(l->from[row + 1]) <= 1) return;
    for (int i = 0; i <= row; i++) {
        if (l->from[i] != 1) continue;
        int64_t dim = l->dim[i], to = l->to[i], from = l->from[i];
        for (int k = i; k < row; k++) {
            l->dim[k] = l->dim[k + 1];
            l->to[k] = l->to[k + 1];
            l->from[k] = l->from[k + 1];
        }
        l->dim[row] = dim;
        l->to[row] = to;
        l->from[row] = from;
        if (j->tile > TILE) j->tile = TILE;
    }
}

static void copy_strided(job *j, const ts_tensor *to, const ts_tensor *from)
{
    ts_loop_init(&j->loop, &to->shape, to->stride, from->stride);
    choose_tile(j);
    const ts_loop *l = &j->loop;
    int64_t tiles = (l->dim[l->ndim - 1] + j->tile - 1) / j->tile;
    int64_t piece = j->tile * l->dim[l->ndim - 2];
    ts_parallel_for(ts_loop_planes(l) * tiles, piece < GRAIN ? GRAIN / piece : 1, run_pieces, j);
}

static void run_flat(int64_t begin, int64_t end, void *user)
{
    const job *j = user;
    j->convert(j->to + begin * (int64_t)j->to_size, j->from + begin * (int64_t)j->from_size,
               end - begin);
}

/* ---- overlap --------------------------------------------------------------------------------- */

/* First and last byte that the elements touch. */
static void extent(const ts_tensor *t, uintptr_t *first, uintptr_t *last)
{
    int64_t low = 0, high = 0, size = (int64_t)ts_element_size(t->dtype);
    for (int i = 0; i < t->shape.ndim; i++) {
        int64_t reach = (t->shape.dim[i] - 1) * t->stride[i];
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    *first = (uintptr_t)(ts_tensor_bytes(t) + low * size);
    *last = (uintptr_t)(ts_tensor_bytes(t) + (high + 1) * size - 1);
}

static bool may_share_bytes(const ts_tensor *a, const ts_tensor *b)
{
    uintptr_t a_first, a_last, b_first, b_last;
    extent(a, &a_first, &a_last);
    extent(b, &b_first, &b_last);
    return a_first <= b_last && b_first <= a_last;
}

static bool same_elements(const ts_tensor *a, const ts_tensor *b)
{
    if (ts_tensor_bytes(a) != ts_tensor_bytes(b) || a->dtype != b->dtype) return false;
    for (int i = 0; i < a->shape.ndim; i++)
        if (a->stride[i] != b->stride[i] && a->shape.dim[i] != 1) return false;
    return true;
}

static ts_status copy_apart(ts_tensor *to, const ts_tensor *from)
{
    job j = {.to = ts_tensor_bytes(to),
             .from = ts_tensor_bytes(from),
             .to_size = ts_element_size(to->dtype),
             .from_size = ts_element_size(from->dtype),
             .convert = ts_kernel_convert((ts_dtype)to->dtype, (ts_dtype)from->dtype),
             .same = to->dtype == from->dtype};
    if (!j.convert)
        return ts_fail(TS_EDTYPE, "copy: %s cannot be converted to %s",
                       ts_dtype_name((ts_dtype)from->dtype), ts_dtype_name((ts_dtype)to->dtype));
    if (to->contiguous && from->contiguous)
        ts_parallel_for(to->numel, GRAIN, run_flat, &j);
    else
        copy_strided(&j, to, from);
    return TS_OK;
}

static ts_status copy_through(ts_tensor *to, const ts_tensor *from)
{
    ts_spec spec = ts_tensor_spec(from);
    ts_tensor *between = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_OTHER);
    ts_status status = ts_tensor_check(between, "copy");
    if (status == TS_OK) status = copy_apart(between, from);
    if (status == TS_OK) status = copy_apart(to, between);
    ts_release(between);
    return status;
}

ts_status ts_tensor_copy_data(ts_tensor *to, const ts_tensor *from)
{
    TS_TRY(ts_tensor_check(to, "copy: the destination"));
    TS_TRY(ts_tensor_check(from, "copy: the source"));
    if (!ts_shape_equal(to->shape, from->shape)) {
        char a[TS_SHAPE_TEXT], b[TS_SHAPE_TEXT];
        return ts_fail(TS_ESHAPE, "copy: shape %s cannot be copied to %s",
                       ts_shape_format(b, sizeof b, from->shape),
                       ts_shape_format(a, sizeof a, to->shape));
    }
    if (to->numel == 0 || to->device == TS_META) return TS_OK;
    if (from->device == TS_META)
        return ts_fail(TS_EINVAL, "copy: the source is a meta tensor and has no data");
    if (same_elements(to, from)) return TS_OK;
    return may_share_bytes(to, from) ? copy_through(to, from) : copy_apart(to, from);
}

/* ---- filling --------------------------------------------------------------------------------- */

typedef struct fill_job {
    ts_loop loop;
    char *to;
    size_t size;
    const void *value;
} fill_job;

static void fill_planes(int64_t begin, int64_t end, void *user)
{
    const fill_job *j = user;
    const ts_loop *l = &j->loop;
    int col = l->ndim - 1, row = l->ndim - 2;
    ts_loop_at at;
    ts_loop_seek(l, &at, begin);
    for (int64_t plane = begin; plane < end; plane++, ts_loop_next(l, &at))
        for (int64_t r = 0; r < l->dim[row]; r++)
            ts_kernel_fill_line(j->to + (at.to + r * l->to[row]) * (int64_t)j->size, l->to[col],
                                j->value, l->dim[col], j->size);
}

static void fill_flat(int64_t begin, int64_t end, void *user)
{
    const fill_job *j = user;
    ts_kernel_fill_line(j->to + begin * (int64_t)j->size, 1, j->value, end - begin, j->size);
}

ts_status ts_tensor_fill_data(ts_tensor *to, double value)
{
    TS_TRY(ts_tensor_check(to, "fill: the tensor"));
    ts_dtype dtype = (ts_dtype)to->dtype;
    _Alignas(16) char element[16] = {0};
    if (dtype == TS_COMPLEX64)
        ts_kernel_convert(TS_FLOAT32, TS_FLOAT64)(element, &value, 1); /* the imaginary part is 0 */
    else
        ts_kernel_convert(dtype == TS_COMPLEX128 ? TS_FLOAT64 : dtype, TS_FLOAT64)(element, &value,
                                                                                   1);
    if (to->numel == 0 || to->device == TS_META) return TS_OK;
    fill_job j = {.to = ts_tensor_bytes(to), .size = ts_dtype_size(dtype), .value = element};
    if (to->contiguous) {
        ts_parallel_for(to->numel, GRAIN, fill_flat, &j);
        return TS_OK;
    }
    ts_loop_init(&j.loop, &to->shape, to->stride, to->stride);
    ts_parallel_for(ts_loop_planes(&j.loop), 1, fill_planes, &j);
    return TS_OK;
}
