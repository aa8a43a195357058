/* SPDX-License-Identifier: Apache-2.0 */
/* What a tensor is.  NULL and failed values give 0, NULL or "". */
#include <stdlib.h>

#include "base/memory.h"
#include "tensor/tensor.h"

static bool good(const ts_tensor *t) { return t && t->status == TS_OK; }

bool ts_failed(const ts_tensor *t) { return t && t->status != TS_OK; }

ts_status ts_tensor_status(const ts_tensor *t) { return t ? t->status : TS_OK; }

const char *ts_tensor_error(const ts_tensor *t) { return ts_failed(t) ? t->error : ""; }

int ts_ndim(const ts_tensor *t) { return good(t) ? t->shape.ndim : 0; }

ts_shape ts_tensor_shape(const ts_tensor *t) { return good(t) ? t->shape : ts_shape_scalar(); }

/* Index of dim, or -1. */
static int dim_index(const ts_tensor *t, int dim)
{
    if (!good(t)) return -1;
    if (dim < 0) dim += t->shape.ndim;
    return dim >= 0 && dim < t->shape.ndim ? dim : -1;
}

int64_t ts_size(const ts_tensor *t, int dim)
{
    int i = dim_index(t, dim);
    return i < 0 ? 0 : t->shape.dim[i];
}

int64_t ts_stride(const ts_tensor *t, int dim)
{
    int i = dim_index(t, dim);
    return i < 0 ? 0 : t->stride[i];
}

int64_t ts_numel(const ts_tensor *t) { return good(t) ? t->numel : 0; }

size_t ts_nbytes(const ts_tensor *t)
{
    return good(t) ? (size_t)t->numel * ts_element_size(t->dtype) : 0;
}

ts_dtype ts_tensor_dtype(const ts_tensor *t) { return t ? (ts_dtype)t->dtype : TS_FLOAT32; }

ts_device ts_tensor_device(const ts_tensor *t) { return t ? (ts_device)t->device : TS_CPU; }

int64_t ts_storage_offset(const ts_tensor *t) { return good(t) ? t->offset : 0; }

bool ts_is_contiguous(const ts_tensor *t) { return good(t) && t->contiguous; }

bool ts_is_shared(const ts_tensor *t) { return good(t) && t->storage->shared_offset >= 0; }

bool ts_same_storage(const ts_tensor *a, const ts_tensor *b)
{
    return good(a) && good(b) && a->storage == b->storage;
}

const void *ts_data(const ts_tensor *t)
{
    return good(t) && t->storage->data && t->numel > 0 ? ts_tensor_bytes(t) : NULL;
}

void *ts_data_mut(ts_tensor *t)
{
    if (!good(t)) return NULL;
    if (t->storage->read_only) {
        ts_fail(TS_ESTATE, "data_mut: tensor %s lies in read-only memory", ts_tensor_name(t));
        return NULL;
    }
    ts_tensor_bump(t);
    return (void *)ts_data(t);
}

ts_status ts_tensor_check_writable(const char *op, const ts_tensor *t)
{
    if (t->storage->read_only)
        return ts_fail(TS_ESTATE, "%s: the tensor lies in read-only memory; clone it first", op);
    if (t->storage->inference && !(ts_thread()->mode & TS_MODE_INFERENCE))
        return ts_fail(TS_ESTATE,
                       "%s: the tensor was made in inference mode and cannot be changed in place "
                       "outside of it; clone it first",
                       op);
    if (ts_tensor_overlaps(t))
        return ts_fail(TS_ESTATE,
                       "%s: elements of the tensor share memory (an expanded view); clone it first",
                       op);
    return TS_OK;
}

/* Without memory there is no name. */
void ts_tensor_set_name(ts_tensor *t, const char *name)
{
    if (!good(t)) return;
    char *copy = name && *name ? ts_strdup(name) : NULL;
    free(t->name);
    t->name = copy;
}

const char *ts_tensor_name(const ts_tensor *t) { return t && t->name ? t->name : ""; }
