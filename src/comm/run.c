/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one collective: tensors become contiguous buffers, the backend works on them, results go
 * back into strided tensors. */
#include <string.h>

#include "comm/pack.h"
#include "comm/timing.h"

/* Which buffers an operation reads and writes, on the root where roots are marked. */
enum { NONE = 0, IN = TS_PACK_IN, OUT = TS_PACK_OUT, ROOT_IN = 4, ROOT_OUT = 8, REST_OUT = 16 };
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

/* A call with its buffers. */
typedef struct job {
    ts_pack pack;
    ts_tensor *tensor; /* the call's own, or what stands for a bunch */
    ts_tensor *bunch_parts;
} job;

static ts_status prepare_side(const ts_buffer **out, ts_buffer *parts, ts_pack *pack,
                              const ts_side *side, int size, int use)
{
    ts_buffer whole;
    if (!use) return TS_OK;
    *out = parts;
    if (side->list) {
        for (int i = 0; i < size; i++) TS_TRY(ts_pack_tensor(&parts[i], pack, side->list[i], use));
        return TS_OK;
    }
    TS_TRY(ts_pack_tensor(&whole, pack, side->whole, use));
    bool widened = pack->scaled && ts_element_size(side->whole->dtype) == 2;
    size_t element =
        ts_element_size(side->whole->dtype) / (ts_is_complex(side->whole->dtype) ? 2 : 1);
    cut(parts, &whole, side, size, widened ? sizeof(float) : element);
    return TS_OK;
}

static ts_status prepare(job *j, ts_call *call, const ts_group *group)
{
    ts_coll *coll = &call->coll;
    const struct uses *u = &uses[coll->op];
    bool root = coll->root == group->rank;
    int tensor = use_on(u->tensor, root);
    ts_side parts = call->parts;
    j->tensor = call->tensor;
    if (call->bunch.n) {
        TS_TRY(ts_bunch_load(&j->tensor, &parts.whole, &j->pack, call, group->size));
        j->bunch_parts = parts.whole;
    }
    if (tensor) TS_TRY(ts_pack_tensor(&coll->tensor, &j->pack, j->tensor, tensor));
    if (call->scaled && ts_element_size(coll->dtype) == 2) coll->dtype = TS_FLOAT32;
    if (!u->parts) return TS_OK;
    TS_TRY(prepare_side(&coll->parts, j->pack.parts, &j->pack, &parts, group->size,
                        use_on(u->parts, root)));
    return prepare_side(&coll->received, j->pack.parts + group->size, &j->pack, &call->received,
                        group->size, use_on(u->received, root));
}

static ts_status store(const job *j, const ts_call *call, int size)
{
    if (call->bunch.n) return ts_bunch_store(j->tensor, j->bunch_parts, call, size);
    return ts_pack_results(&j->pack);
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
        return ts_fail(TS_EMISMATCH, "%s: rank 0 gives itself %lld element%s and takes %lld",
                       coll->name, (long long)from->count, ts_plural(from->count),
                       (long long)to->count);
    size_t bytes = (size_t)from->count * ts_element_size(coll->dtype);
    if (bytes > 0) memmove(to->data, from->data, bytes);
    return TS_OK;
}

static ts_status run_backend(ts_group *group, const ts_coll *coll)
{
    if (!group->ops->collective[coll->op])
        return ts_fail(TS_EUNSUPPORTED, "%s: backend '%s' does not offer it for cpu tensors",
                       coll->name, group->ops->name);
    return group->ops->collective[coll->op](group->state, coll);
}

static ts_status run_first(ts_group *group, const ts_coll *coll)
{
    ts_timing_mark(TS_MARK_CALLED);
    ts_status status = group->size == 1 ? run_alone(coll) : run_backend(group, coll);
    ts_timing_mark(TS_MARK_DONE);
    if (status == TS_OK) ts_timing_tell(group);
    return status;
}

ts_status ts_coll_run(ts_group *group, ts_coll *coll)
{
    coll->sequence = ++group->sequence;
    coll->global = group->ranks;
    coll->timeout_ms = atomic_load_explicit(&group->timeout_ms, memory_order_relaxed);
    if (coll->sequence == 1) return run_first(group, coll);
    return group->size == 1 ? run_alone(coll) : run_backend(group, coll);
}

ts_status ts_call_run(ts_group *group, ts_call *call, bool background)
{
    job j;
    ts_coll *coll = &call->coll;
    if (call->run) return call->run(group, call, background);
    coll->background = background;
    ts_status status = ts_pack_begin(&j.pack, call, group->size, uses[coll->op].parts);
    if (status == TS_OK && coll->status == TS_OK) status = prepare(&j, call, group);
    if (status != TS_OK) ts_call_fail(call, status, "%s", ts_error_last());
    if (coll->status != TS_OK) {
        coll->tensor = (ts_buffer){NULL, 0, -1};
        coll->parts = coll->received = NULL;
    }
    status = ts_coll_run(group, coll);
    if (coll->status != TS_OK)
        status = ts_fail_again(coll->status, coll->cause);
    else if (status == TS_OK)
        status = store(&j, call, group->size);
    ts_pack_end(&j.pack);
    return status;
}
