/* SPDX-License-Identifier: Apache-2.0 */
/* Datasets: callbacks, and rows of tensors. */
#include <stdlib.h>
#include <string.h>
#include <tessera/ops.h>

#include "data/loader_impl.h"
#include "tensor/tensor.h"

static ts_status check_class(const ts_dataset_class *c, int64_t size)
{
    if (!c || !c->name || c->fields < 1 || c->fields > TS_SAMPLE_FIELDS)
        return ts_fail(TS_EINVAL, "dataset_new: a class has a name and 1 to %d fields",
                       TS_SAMPLE_FIELDS);
    bool map = c->get || c->get_batch;
    if (map == (c->next != NULL))
        return ts_fail(TS_EINVAL, "dataset_new: '%s' has either get or next", c->name);
    if (map ? size < 0 : size != -1)
        return ts_fail(TS_EINVAL, "dataset_new: '%s' cannot have %lld samples", c->name,
                       (long long)size);
    return TS_OK;
}

ts_status ts_dataset_new(ts_dataset **out, const ts_dataset_class *klass, int64_t size, void *state)
{
    TS_TRY(check_class(klass, size));
    ts_dataset *d = ts_calloc(1, sizeof *d);
    if (!d) return ts_fail_memory(sizeof *d, "a dataset");
    *d = (ts_dataset){klass, size, state};
    *out = d;
    return TS_OK;
}

void ts_dataset_free(ts_dataset *d)
{
    if (!d) return;
    if (d->klass->fini) d->klass->fini(d->state);
    free(d);
}

int64_t ts_dataset_size(const ts_dataset *d) { return d ? d->size : 0; }

/* ---- rows of tensors ------------------------------------------------------------------------- */

typedef struct rows {
    ts_dataset_class klass; /* of that many fields */
    ts_tensor *tensor[TS_SAMPLE_FIELDS];
} rows;

static ts_status take_rows(ts_tensor **out, ts_tensor *from, const ts_sample_id *id, int64_t n)
{
    ts_spec spec = ts_tensor_spec(from);
    spec.shape.dim[0] = n;
    *out = ts_tensor_new(&spec, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION);
    TS_TRY(ts_tensor_check(*out, "a batch"));
    size_t row = from->shape.dim[0] > 0 ? ts_nbytes(from) / (size_t)from->shape.dim[0] : 0;
    char *to = ts_tensor_bytes(*out);
    for (int64_t i = 0; row > 0 && i < n; i++)
        memcpy(to + (size_t)i * row, ts_tensor_bytes(from) + (size_t)id[i].index * row, row);
    return TS_OK;
}

static ts_status get_rows(ts_tensor **batch, const ts_sample_id *id, int64_t n, void *state)
{
    rows *r = state;
    for (int f = 0; f < r->klass.fields; f++) TS_TRY(take_rows(&batch[f], r->tensor[f], id, n));
    return TS_OK;
}

static ts_status get_row(ts_tensor **sample, const ts_sample_id *id, void *state)
{
    rows *r = state;
    for (int f = 0; f < r->klass.fields; f++) sample[f] = ts_select(r->tensor[f], 0, id->index);
    return TS_OK;
}

static void free_rows(void *state)
{
    rows *r = state;
    for (int f = 0; f < r->klass.fields; f++) ts_release(r->tensor[f]);
    free(r);
}

static ts_status check_rows(ts_tensor *const *tensors, int n)
{
    if (!tensors || n < 1 || n > TS_SAMPLE_FIELDS)
        return ts_fail(TS_EINVAL, "tensor_dataset_new: 1 to %d tensors are needed",
                       TS_SAMPLE_FIELDS);
    for (int f = 0; f < n; f++) {
        TS_TRY(ts_tensor_check(tensors[f], "tensor_dataset_new: a tensor"));
        if (tensors[f]->shape.ndim < 1)
            return ts_fail(TS_ESHAPE, "tensor_dataset_new: tensor %d has no rows", f);
        if (tensors[f]->shape.dim[0] != tensors[0]->shape.dim[0])
            return ts_fail(TS_ESHAPE, "tensor_dataset_new: tensor %d has %lld rows, the first %lld",
                           f, (long long)tensors[f]->shape.dim[0],
                           (long long)tensors[0]->shape.dim[0]);
    }
    return TS_OK;
}

ts_status ts_tensor_dataset_new(ts_dataset **out, ts_tensor *const *tensors, int n)
{
    TS_TRY(check_rows(tensors, n));
    rows *r = ts_calloc(1, sizeof *r);
    if (!r) return ts_fail_memory(sizeof *r, "a dataset");
    r->klass = (ts_dataset_class){
        .name = "tensors", .get = get_row, .get_batch = get_rows, .fini = free_rows};
    ts_status status = TS_OK;
    for (int f = 0; f < n && status == TS_OK; f++) {
        ts_tensor *t = ts_contiguous(tensors[f]);
        status = ts_tensor_check(t, "tensor_dataset_new: a tensor");
        if (status == TS_OK) r->tensor[r->klass.fields++] = ts_retain(t);
    }
    if (status == TS_OK) status = ts_dataset_new(out, &r->klass, tensors[0]->shape.dim[0], r);
    if (status != TS_OK) free_rows(r);
    return status;
}
