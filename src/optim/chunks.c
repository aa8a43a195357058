/* SPDX-License-Identifier: Apache-2.0 */
/* All parameters as one sequence of chunks, so that one parallel loop updates them. */
#include "optim/chunks.h"

#include <stdlib.h>
#include <tessera/autograd.h>

#include "base/memory.h"
#include "ops/op.h"
#include "tensor/tensor.h"

ts_status ts_chunks_init(ts_chunks *chunks, int64_t count, const char *op)
{
    *chunks = (ts_chunks){.item = ts_calloc((size_t)count, sizeof *chunks->item)};
    return chunks->item ? TS_OK : ts_fail_memory((size_t)count * sizeof *chunks->item, op);
}

void ts_chunks_fini(ts_chunks *chunks)
{
    free(chunks->item);
    *chunks = (ts_chunks){0};
}

static ts_status check_pair(const char *op, const char *name, const ts_tensor *t,
                            const ts_tensor *grad)
{
    TS_TRY(ts_tensor_check(grad, name));
    ts_dtype dtype = ts_tensor_dtype(grad);
    if (dtype != TS_FLOAT32 && dtype != TS_FLOAT64)
        return ts_fail(TS_EDTYPE, "%s: the gradient of '%s' is %s; needs float32 or float64", op,
                       name, ts_dtype_name(dtype));
    if (dtype != ts_tensor_dtype(t) || !ts_shape_equal(ts_tensor_shape(t), ts_tensor_shape(grad)))
        return ts_fail(TS_ESHAPE, "%s: the gradient of '%s' differs from it in shape or dtype", op,
                       name);
    if (ts_tensor_device(grad) != TS_CPU)
        return ts_fail(TS_EUNSUPPORTED, "%s: the gradient of '%s' is on device %s; needs cpu", op,
                       name, ts_device_name(ts_tensor_device(grad)));
    return TS_OK;
}

static ts_status fill_item(ts_chunk_item *item, bool write_grad)
{
    ts_tensor *written = write_grad ? item->grad : item->tensor;
    ts_tensor *dense = ts_row_major(written);
    TS_TRY(ts_tensor_check(dense, "a row-major copy"));
    item->copy = dense == written ? NULL : dense;
    item->data = item->numel ? ts_tensor_bytes(dense) : NULL;
    if (write_grad) return TS_OK;
    ts_tensor *grad = ts_row_major(item->grad);
    TS_TRY(ts_tensor_check(grad, "a row-major copy"));
    item->grad_data = item->numel ? ts_tensor_bytes(grad) : NULL;
    return TS_OK;
}

void ts_chunks_clear(ts_chunks *chunks, bool write_grad)
{
    chunks->items = chunks->chunks = 0;
    chunks->write_grad = write_grad;
}

ts_status ts_chunks_add(ts_chunks *chunks, const ts_tensor_list *parameters, int64_t i,
                        ts_tensor *grad, const char *op)
{
    ts_tensor *t = ts_tensor_list_get(parameters, i);
    TS_TRY(check_pair(op, ts_tensor_list_name(parameters, i), t, grad));
    ts_chunk_item *item = &chunks->item[chunks->items++];
    *item = (ts_chunk_item){.tensor = t,
                            .grad = grad,
                            .dtype = ts_tensor_dtype(t),
                            .numel = ts_numel(t),
                            .first = chunks->chunks,
                            .param = i};
    TS_TRY(fill_item(item, chunks->write_grad));
    chunks->chunks += (item->numel + TS_CHUNK - 1) / TS_CHUNK;
    return TS_OK;
}

ts_status ts_chunks_collect(ts_chunks *chunks, const ts_tensor_list *parameters, bool write_grad,
                            const char *op)
{
    ts_chunks_clear(chunks, write_grad);
    for (int64_t i = 0; i < ts_tensor_list_count(parameters); i++) {
        ts_tensor *grad = ts_grad(ts_tensor_list_get(parameters, i));
        if (grad) TS_TRY(ts_chunks_add(chunks, parameters, i, grad, op));
    }
    return TS_OK;
}

ts_status ts_chunks_finish(const ts_chunks *chunks)
{
    for (int64_t i = 0; i < chunks->items; i++) {
        const ts_chunk_item *item = &chunks->item[i];
        ts_tensor *written = chunks->write_grad ? item->grad : item->tensor;
        if (item->copy) TS_TRY(ts_tensor_copy_data(written, item->copy));
        ts_tensor_bump(written);
    }
    return TS_OK;
}

/* The last item whose chunks begin at or before chunk. */
static int64_t item_at(const ts_chunks *chunks, int64_t chunk)
{
    int64_t low = 0, high = chunks->items - 1;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (chunks->item[middle].first <= chunk)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

void ts_chunks_walk(const ts_chunks *chunks, int64_t first, int64_t last,
                    void (*fn)(const ts_chunk_item *item, int64_t begin, int64_t end, void *user),
                    void *user)
{
    for (int64_t at = item_at(chunks, first); first < last; at++) {
        const ts_chunk_item *item = &chunks->item[at];
        for (int64_t k = first - item->first; first < last && k * TS_CHUNK < item->numel;
             k++, first++) {
            int64_t end = (k + 1) * TS_CHUNK;
            fn(item, k * TS_CHUNK, end < item->numel ? end : item->numel, user);
        }
    }
}
