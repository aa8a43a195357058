/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one collective: tensors become contiguous buffers, the backend works on them, results go
 * back into strided tensors. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/group_impl.h"

enum { FEW = 16 };

/* A contiguous stand-in for a strided tensor. */
typedef struct packed {
    ts_tensor *original, *copy;
    bool back; /* the copy is a result */
} packed;

typedef struct buffers {
    ts_buffer few_parts[FEW], *parts;
    packed few_packed[FEW + 1], *packed;
    int num_packed;
} buffers;

static ts_status ready(buffers *b, int size)
{
    b->parts = b->few_parts;
    b->packed = b->few_packed;
    b->num_packed = 0;
    if (size <= FEW) return TS_OK;
    b->parts = ts_calloc((size_t)size, sizeof *b->parts);
    b->packed = ts_calloc((size_t)size + 1, sizeof *b->packed);
    return b->parts && b->packed ? TS_OK
                                 : ts_fail_memory((size_t)size * sizeof *b->parts, "a collective");
}

static void free_buffers(buffers *b)
{
    for (int i = 0; i < b->num_packed; i++) ts_release(b->packed[i].copy);
    if (b->parts != b->few_parts) free(b->parts);
    if (b->packed != b->few_packed) free(b->packed);
}

static ts_buffer buffer_of(const ts_tensor *t)
{
    size_t skip = (size_t)t->offset * ts_dtype_size((ts_dtype)t->dtype);
    int64_t shared = t->storage->shared_offset;
    if (t->numel == 0) return (ts_buffer){NULL, 0, shared < 0 ? -1 : shared};
    return (ts_buffer){ts_tensor_bytes(t), t->numel, shared < 0 ? -1 : shared + (int64_t)skip};
}

static ts_status pack(ts_buffer *out, buffers *b, ts_tensor *t, bool in, bool back)
{
    if (t->contiguous) {
        *out = buffer_of(t);
        return TS_OK;
    }
    ts_spec spec = ts_tensor_spec(t);
    ts_tensor *copy = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_COMMUNICATION);
    b->packed[b->num_packed++] = (packed){t, copy, back};
    TS_TRY(ts_tensor_check(copy, "a contiguous copy"));
    if (in) TS_TRY(ts_tensor_copy_data(copy, t));
    *out = buffer_of(copy);
    return TS_OK;
}

static ts_status unpack(const buffers *b)
{
    for (int i = 0; i < b->num_packed; i++)
        if (b->packed[i].back)
            TS_TRY(ts_tensor_copy_data(b->packed[i].original, b->packed[i].copy));
    return TS_OK;
}

/* Equal blocks of one tensor. */
static ts_status cut(buffers *b, ts_call *call, int size, bool gather)
{
    ts_buffer whole;
    TS_TRY(pack(&whole, b, call->whole, !gather, gather));
    int64_t each = call->tensor->numel;
    size_t bytes = (size_t)each * ts_dtype_size(call->coll.dtype);
    for (int i = 0; i < size; i++) {
        size_t skip = (size_t)i * bytes;
        b->parts[i].data = whole.data ? (char *)whole.data + skip : NULL;
        b->parts[i].count = each;
        b->parts[i].shared_offset =
            whole.shared_offset < 0 ? -1 : whole.shared_offset + (int64_t)skip;
    }
    return TS_OK;
}

static ts_status prepare(buffers *b, ts_call *call, int size)
{
    ts_coll *coll = &call->coll;
    bool gather = coll->op == TS_COLL_ALL_GATHER, scatter = coll->op == TS_COLL_REDUCE_SCATTER;
    if (coll->op == TS_COLL_BARRIER) return TS_OK;
    TS_TRY(pack(&coll->tensor, b, call->tensor, !scatter, !gather));
    if (!gather && !scatter) return TS_OK;
    coll->parts = b->parts;
    if (call->whole) return cut(b, call, size, gather);
    for (int i = 0; i < size; i++) TS_TRY(pack(&b->parts[i], b, call->list[i], scatter, gather));
    return TS_OK;
}

/* A group of one: the tensor itself, or a copy. */
static ts_status run_alone(const ts_coll *coll)
{
    size_t bytes = (size_t)coll->tensor.count * ts_dtype_size(coll->dtype);
    if (coll->status != TS_OK || !coll->parts || bytes == 0) return TS_OK;
    bool gather = coll->op == TS_COLL_ALL_GATHER;
    memmove(gather ? coll->parts[0].data : coll->tensor.data,
            gather ? coll->tensor.data : coll->parts[0].data, bytes);
    return TS_OK;
}

static ts_status run_backend(ts_group *group, const ts_coll *coll)
{
    if (!group->ops->collective[coll->op])
        return ts_fail(TS_EUNSUPPORTED, "%s: backend '%s' does not offer it",
                       ts_collective_name(coll->op), group->ops->name);
    return group->ops->collective[coll->op](group->state, coll);
}

ts_status ts_call_run(ts_group *group, ts_call *call, bool background)
{
    buffers b;
    ts_coll *coll = &call->coll;
    coll->sequence = ++group->sequence;
    coll->timeout_ms = atomic_load_explicit(&group->timeout_ms, memory_order_relaxed);
    coll->background = background;
    ts_status status = ready(&b, group->size);
    if (status == TS_OK && coll->status == TS_OK) status = prepare(&b, call, group->size);
    if (status != TS_OK) ts_call_fail(call, status, "%s", ts_error_last());
    if (coll->status != TS_OK) {
        coll->tensor = (ts_buffer){NULL, 0, -1};
        coll->parts = NULL;
    }
    status = group->size == 1 ? run_alone(coll) : run_backend(group, coll);
    if (coll->status != TS_OK)
        status = ts_fail_again(coll->status, coll->cause);
    else if (status == TS_OK)
        status = unpack(&b);
    free_buffers(&b);
    return status;
}
