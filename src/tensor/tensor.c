/* SPDX-License-Identifier: Apache-2.0 */
/* Life and geometry of tensors. */
#include "tensor/tensor.h"

#include <stdlib.h>

#include "base/memory.h"
#include "tensor/scope_impl.h"

void (*ts_autograd_free_hook)(ts_tensor *t);
ts_status (*ts_autograd_leaf_hook)(ts_tensor *t, bool requires_grad);

/* ---- geometry -------------------------------------------------------------------------------- */

static bool row_major(const ts_shape *shape, const int64_t *stride, int64_t numel)
{
    if (numel == 0) return true;
    int64_t step = 1;
    for (int i = shape->ndim - 1; i >= 0; i--) {
        if (shape->dim[i] == 1) continue;
        if (stride[i] != step) return false;
        step *= shape->dim[i];
    }
    return true;
}

static ts_status check_spec(const ts_spec *spec)
{
    if ((unsigned)spec->dtype >= TS_NUM_DTYPES)
        return ts_fail(TS_EDTYPE, "tensor: %d is not a dtype", (int)spec->dtype);
    if (spec->device != TS_CPU && spec->device != TS_META)
        return ts_fail(TS_EUNSUPPORTED, "tensor: device %s is not available",
                       ts_device_name(spec->device));
    return TS_OK;
}

static ts_status bad_shape(const ts_spec *spec)
{
    char text[TS_SHAPE_TEXT];
    return ts_fail(TS_ESHAPE, "tensor: shape %s of %s is negative or too large",
                   ts_shape_format(text, sizeof text, spec->shape), ts_dtype_name(spec->dtype));
}

/* Shape, strides and numel of a row-major tensor.  The bytes must fit in int64 too, and a zero size
 * hides no overflow. */
static ts_status lay_out(ts_tensor *t, const ts_spec *spec)
{
    int ndim = spec->shape.ndim;
    if ((unsigned)ndim > TS_MAX_DIMS) return bad_shape(spec);
    int64_t step = 1, bytes;
    bool empty = false;
    for (int i = ndim - 1; i >= 0; i--) {
        int64_t dim = spec->shape.dim[i];
        if (dim < 0) return bad_shape(spec);
        t->shape.dim[i] = dim;
        t->stride[i] = step;
        if (dim == 0)
            empty = true;
        else if (__builtin_mul_overflow(step, dim, &step))
            return bad_shape(spec);
    }
    if (__builtin_mul_overflow(step, (int64_t)ts_element_size(spec->dtype), &bytes))
        return bad_shape(spec);
    t->shape.ndim = ndim;
    t->numel = empty ? 0 : step;
    return TS_OK;
}

bool ts_tensor_overlaps(const ts_tensor *t)
{
    if (t->contiguous || t->numel <= 1) return false;
    int order[TS_MAX_DIMS], n = 0;
    for (int i = 0; i < t->shape.ndim; i++) {
        if (t->shape.dim[i] == 1) continue;
        int at = n++;
        for (; at > 0 && llabs(t->stride[order[at - 1]]) > llabs(t->stride[i]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    int64_t reach = 0; /* of the dimensions with smaller strides, in elements */
    for (int i = 0; i < n; i++) {
        int64_t step = llabs(t->stride[order[i]]);
        if (step <= reach) return true;
        reach += step * (t->shape.dim[order[i]] - 1);
    }
    return false;
}

int ts_wrap_dim(const char *op, int dim, int ndim)
{
    int range = ndim > 0 ? ndim : 1; /* a 0-dim tensor accepts -1 and 0 */
    if (dim >= -range && dim < range) return dim < 0 ? dim + range : dim;
    ts_fail(TS_ESHAPE, "%s: dim %d is out of range for %d dimensions (%d .. %d)", op, dim, ndim,
            -range, range - 1);
    return -1;
}

/* ---- making and freeing ---------------------------------------------------------------------- */

static ts_tensor *new_object(const ts_spec *spec)
{
    ts_tensor *t = ts_small_new(sizeof *t);
    if (!t) {
        ts_fail_memory(sizeof *t, "a tensor");
        return NULL;
    }
    atomic_init(&t->refs, 1);
    t->dtype = (uint8_t)spec->dtype;
    t->device = (uint8_t)spec->device;
    return t;
}

/* NULL after ts_fail. */
static ts_tensor *make(const ts_spec *spec, ts_memory memory, ts_category category)
{
    if (check_spec(spec) != TS_OK) return NULL;
    ts_tensor *t = new_object(spec);
    if (!t) return NULL;
    if (lay_out(t, spec) == TS_OK) {
        size_t bytes = (size_t)t->numel * ts_element_size(spec->dtype);
        t->contiguous = true;
        t->storage = ts_storage_new(bytes, spec->device, memory, category);
        if (t->storage) return t;
    }
    ts_small_free(t, sizeof *t);
    return NULL;
}

ts_tensor *ts_tensor_new_owned(const ts_spec *spec, ts_memory memory, ts_category category)
{
    ts_tensor *t = make(spec, memory, category);
    return t ? t : ts_retain(ts_fail_tensor_last(ts_thread()->error_status));
}

ts_tensor *ts_tensor_new(const ts_spec *spec, ts_memory memory, ts_category category)
{
    ts_tensor *t = make(spec, memory, category);
    return t ? ts_scope_give(t) : ts_fail_tensor_last(ts_thread()->error_status);
}

/* A row-major tensor over part of a storage; NULL after ts_fail. */
static ts_tensor *over(ts_storage *storage, const ts_spec *spec, int64_t offset)
{
    if (check_spec(spec) != TS_OK) return NULL;
    ts_tensor *t = new_object(spec);
    if (!t) return NULL;
    if (lay_out(t, spec) != TS_OK) {
        ts_small_free(t, sizeof *t);
        return NULL;
    }
    ts_storage_retain(storage);
    t->storage = storage;
    t->offset = offset;
    t->contiguous = true;
    return t;
}

ts_tensor *ts_tensor_over(ts_storage *storage, const ts_spec *spec, int64_t offset)
{
    ts_tensor *t = over(storage, spec, offset);
    return t ? t : ts_retain(ts_fail_tensor_last(ts_thread()->error_status));
}

ts_tensor *ts_tensor_view(ts_tensor *t, ts_shape shape, const int64_t *stride, int64_t offset)
{
    if (ts_failed(t)) return t;
    ts_spec spec = ts_tensor_spec(t);
    ts_tensor *view = new_object(&spec);
    if (!view) return ts_fail_tensor_last(TS_ENOMEM);
    view->shape = shape;
    for (int i = 0; i < shape.ndim; i++) view->stride[i] = stride[i];
    view->offset = offset;
    view->numel = ts_shape_numel(shape);
    view->contiguous = row_major(&shape, stride, view->numel);
    ts_storage_retain(t->storage);
    view->storage = t->storage;
    view->base = ts_retain(t->base ? t->base : t);
    return ts_scope_give(view);
}

static void destroy(ts_tensor *t)
{
    if (t->autograd && ts_autograd_free_hook) ts_autograd_free_hook(t);
    ts_tensor *base = t->base;
    ts_storage_release(t->storage);
    free(t->error);
    free(t->name);
    ts_small_free(t, sizeof *t);
    ts_release(base);
}

ts_tensor *ts_retain(ts_tensor *t)
{
    if (t && t != &ts_no_memory_value) ts_ref_retain(&t->refs);
    return t;
}

/* When the only reference is the caller's, nobody else can take one: no atomic decrement then. */
void ts_release(ts_tensor *t)
{
    if (!t || t == &ts_no_memory_value) return;
    if (atomic_load_explicit(&t->refs, memory_order_acquire) == 1)
        atomic_store_explicit(&t->refs, 0, memory_order_relaxed);
    else if (!ts_ref_release(&t->refs))
        return;
    destroy(t);
}
