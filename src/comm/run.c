/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one collective: tensors become contiguous buffers, the backend works on them, results go
 * back into strided tensors. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/group_impl.h"

/* Which buffers an operation reads and writes, on the root where roots are marked. */
enum { NONE = 0, IN = 1, OUT = 2, ROOT_IN = 4, ROOT_OUT = 8, REST_OUT = 16 };
static const struct uses {
    unsigned char tensor, parts, received;
} uses[TS_NUM_COLLECTIVES] = {
    [TS_COLL_BARRIER] = {NONE, NONE, NONE},
    [TS_COLL_ALL_REDUCE] = {IN | OUT, NONE, NONE},
    [TS_COLL_BROADCAST] = {ROOT_IN | REST_OUT, NONE, NONE},
    [TS_COLL_ALL_GATHER] = {IN, OUT, NONE},
    [TS_COLL_REDUCE_SCATTER] = {OUT, IN, NONE},
    [TS_COLL_REDUCE] = {IN | ROOT_OUT, NONE, NONE},
    [TS_COLL_GATHER] = {IN, ROOT_OUT, NONE},
    [TS_COLL_SCATTER] = {OUT, ROOT_IN, NONE},
    [TS_COLL_ALL_TO_ALL] = {NONE, IN, OUT},
};

/* What that comes to on this rank: NONE, IN, OUT or both. */
static int use_on(int use, bool root)
{
    int here = use & (IN | OUT);
    if (root && use & ROOT_IN) here |= IN;
    if ((root && use & ROOT_OUT) || (!root && use & REST_OUT)) here |= OUT;
    return here;
}

/* A contiguous stand-in for a strided tensor. */
typedef struct packed {
    ts_tensor *original, *copy;
    bool back; /* the copy is a result */
} packed;

enum { FEW = 16 };

typedef struct buffers {
    ts_buffer few_parts[2 * FEW], *parts; /* for both sides */
    packed few_packed[2 * FEW + 1], *packed;
    int num_packed;
} buffers;

static ts_status ready(buffers *b, const ts_coll *coll, int size)
{
    b->parts = b->few_parts;
    b->packed = b->few_packed;
    b->num_packed = 0;
    if (size <= FEW || !uses[coll->op].parts) return TS_OK;
    b->parts = ts_calloc(2 * (size_t)size, sizeof *b->parts);
    b->packed = ts_calloc(2 * (size_t)size + 1, sizeof *b->packed);
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
    size_t skip = (size_t)t->offset * ts_element_size(t->dtype);
    int64_t shared = t->storage->shared_offset;
    if (t->numel == 0) return (ts_buffer){NULL, 0, shared < 0 ? -1 : shared};
    return (ts_buffer){ts_tensor_bytes(t), ts_real_count(t),
                       shared < 0 ? -1 : shared + (int64_t)skip};
}

static ts_status pack(ts_buffer *out, buffers *b, ts_tensor *t, int use)
{
    if (t->contiguous) {
        *out = buffer_of(t);
        return TS_OK;
    }
    ts_spec spec = ts_tensor_spec(t);
    ts_tensor *copy = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_COMMUNICATION);
    b->packed[b->num_packed++] = (packed){t, copy, use & OUT};
    TS_TRY(ts_tensor_check(copy, "a contiguous copy"));
    if (use & IN) TS_TRY(ts_tensor_copy_data(copy, t));
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

/* Blocks of one tensor. */
static void cut(ts_buffer *parts, const ts_buffer *whole, const ts_side *side, int size,
                size_t element)
{
    const ts_shape *shape = &side->whole->shape;
    int64_t row = shape->ndim > 0 && shape->dim[0] > 0 ? whole->count / shape->dim[0] : 0, at = 0;
    for (int i = 0; i < size; i++) {
        size_t skip = (size_t)at * element;
        int64_t count = side->splits ? side->splits[i] * row : whole->count / size;
        parts[i].data = whole->data ? (char *)whole->data + skip : NULL;
        parts[i].count = count;
        parts[i].shared_offset =
            whole->shared_offset < 0 ? -1 : whole->shared_offset + (int64_t)skip;
        at += count;
    }
}

static ts_status prepare_side(const ts_buffer **out, ts_buffer *parts, buffers *b,
                              const ts_side *side, const ts_coll *coll, int size, int use)
{
    ts_buffer whole;
    if (!use) return TS_OK;
    *out = parts;
    if (side->whole) {
        TS_TRY(pack(&whole, b, side->whole, use));
        cut(parts, &whole, side, size, ts_element_size(coll->dtype));
        return TS_OK;
    }
    for (int i = 0; i < size; i++) TS_TRY(pack(&parts[i], b, side->list[i], use));
    return TS_OK;
}

static ts_status prepare(buffers *b, ts_call *call, const ts_group *group)
{
    ts_coll *coll = &call->coll;
    const struct uses *u = &uses[coll->op];
    bool root = coll->root == group->rank;
    int tensor = use_on(u->tensor, root);
    if (tensor) TS_TRY(pack(&coll->tensor, b, call->tensor, tensor));
    if (!u->parts) return TS_OK;
    TS_TRY(prepare_side(&coll->parts, b->parts, b, &call->parts, coll, group->size,
                        use_on(u->parts, root)));
    return prepare_side(&coll->received, b->parts + group->size, b, &call->received, coll,
                        group->size, use_on(u->received, root));
}

/* ---- running --------------------------------------------------------------------------------- */

/* A group of one: the tensor itself, or a copy. */
static ts_status run_alone(const ts_coll *coll)
{
    if (coll->status != TS_OK || !coll->parts) return TS_OK;
    const ts_buffer *from = &coll->parts[0], *to = &coll->tensor;
    if (coll->received) to = &coll->received[0];
    if (uses[coll->op].tensor & IN) {
        from = &coll->tensor;
        to = &coll->parts[0];
    }
    if (from->count != to->count)
        return ts_fail(TS_EMISMATCH, "%s: rank 0 gives itself %lld elements and takes %lld",
                       ts_collective_name(coll->op), (long long)from->count, (long long)to->count);
    size_t bytes = (size_t)from->count * ts_element_size(coll->dtype);
    if (bytes > 0) memmove(to->data, from->data, bytes);
    return TS_OK;
}

static ts_status run_backend(ts_group *group, const ts_coll *coll)
{
    if (!group->ops->collective[coll->op])
        return ts_fail(TS_EUNSUPPORTED, "%s: backend '%s' does not offer it",
                       ts_collective_name(coll->op), group->ops->name);
    return group->ops->collective[coll->op](group->state, coll);
}

ts_status ts_coll_run(ts_group *group, ts_coll *coll)
{
    coll->sequence = ++group->sequence;
    coll->timeout_ms = atomic_load_explicit(&group->timeout_ms, memory_order_relaxed);
    return group->size == 1 ? run_alone(coll) : run_backend(group, coll);
}

ts_status ts_call_run(ts_group *group, ts_call *call, bool background)
{
    buffers b;
    ts_coll *coll = &call->coll;
    if (call->run) return call->run(group, call, background);
    coll->background = background;
    ts_status status = ready(&b, coll, group->size);
    if (status == TS_OK && coll->status == TS_OK) status = prepare(&b, call, group);
    if (status != TS_OK) ts_call_fail(call, status, "%s", ts_error_last());
    if (coll->status != TS_OK) {
        coll->tensor = (ts_buffer){NULL, 0, -1};
        coll->parts = coll->received = NULL;
    }
    status = ts_coll_run(group, coll);
    if (coll->status != TS_OK)
        status = ts_fail_again(coll->status, coll->cause);
    else if (status == TS_OK)
        status = unpack(&b);
    free_buffers(&b);
    return status;
}
