/* SPDX-License-Identifier: Apache-2.0 */
/* Several tensors as one operation: their elements lie one after the other in one buffer; so do, for
 * every rank, those of its parts. */
#include "comm/pack.h"

static ts_tensor *room_for(const ts_bunch *bunch, int64_t numel)
{
    ts_spec spec = {ts_shape_make(1, &numel), (ts_dtype)bunch->tensor[0]->dtype, TS_CPU};
    return ts_pack_room(&spec);
}

static int64_t total_of(const ts_bunch *bunch)
{
    int64_t total = 0;
    for (int k = 0; k < bunch->n; k++) total += bunch->tensor[k]->numel;
    return total;
}

/* Between t and the elements of a contiguous tensor from `at` on. */
static ts_status move(ts_tensor *t, const ts_tensor *flat, int64_t at, bool into_flat)
{
    ts_spec spec = ts_tensor_spec(t);
    if (t->numel == 0) return TS_OK;
    ts_tensor *piece = ts_tensor_over(flat->storage, &spec, flat->offset + at);
    ts_status status = ts_tensor_check(piece, "a piece of a contiguous copy");
    if (status == TS_OK)
        status = into_flat ? ts_tensor_copy_data(piece, t) : ts_tensor_copy_data(t, piece);
    ts_release(piece);
    return status;
}

static ts_status move_tensors(const ts_bunch *bunch, const ts_tensor *flat, bool into_flat)
{
    int64_t at = 0;
    for (int k = 0; k < bunch->n; k++) {
        TS_TRY(move(bunch->tensor[k], flat, at, into_flat));
        at += bunch->tensor[k]->numel;
    }
    return TS_OK;
}

/* Blocks of one contiguous tensor, one per rank; rank r's lies in flat at r * stride + at. */
static ts_status move_blocks(ts_tensor *whole, int size, const ts_tensor *flat, int64_t at,
                             int64_t stride, bool into_flat)
{
    int64_t numel = whole->numel / size;
    ts_spec spec = {ts_shape_make(1, &numel), (ts_dtype)whole->dtype, TS_CPU};
    for (int r = 0; r < size && numel > 0; r++) {
        ts_tensor *block = ts_tensor_over(whole->storage, &spec, whole->offset + r * numel);
        ts_status status = ts_tensor_check(block, "a block of a tensor");
        if (status == TS_OK) status = move(block, flat, r * stride + at, into_flat);
        ts_release(block);
        TS_TRY(status);
    }
    return TS_OK;
}

/* The same for a tensor that may be strided. */
static ts_status move_whole(ts_tensor *whole, int size, const ts_tensor *flat, int64_t at,
                            int64_t stride, bool into_flat)
{
    ts_spec spec = ts_tensor_spec(whole);
    if (whole->contiguous) return move_blocks(whole, size, flat, at, stride, into_flat);
    ts_tensor *copy = ts_pack_room(&spec);
    if (!copy) return TS_ENOMEM;
    ts_status status = into_flat ? ts_tensor_copy_data(copy, whole) : TS_OK;
    if (status == TS_OK) status = move_blocks(copy, size, flat, at, stride, into_flat);
    if (status == TS_OK && !into_flat) status = ts_tensor_copy_data(whole, copy);
    ts_release(copy);
    return status;
}

static ts_status move_parts(const ts_bunch *bunch, int size, const ts_tensor *flat, bool into_flat)
{
    int64_t at = 0, total = total_of(bunch);
    for (int k = 0; k < bunch->n; k++) {
        if (bunch->whole) TS_TRY(move_whole(bunch->parts[k], size, flat, at, total, into_flat));
        for (int r = 0; r < size && !bunch->whole; r++)
            TS_TRY(move(bunch->parts[r * bunch->n + k], flat, r * total + at, into_flat));
        at += bunch->tensor[k]->numel;
    }
    return TS_OK;
}

/* Released with the pack. */
static ts_status add_flat(ts_tensor **out, ts_pack *pack, const ts_bunch *bunch, int64_t numel)
{
    ts_tensor *flat = room_for(bunch, numel);
    if (!flat) return TS_ENOMEM;
    pack->packed[pack->num_packed++] = (ts_packed){.copy = flat};
    *out = flat;
    return TS_OK;
}

ts_status ts_bunch_load(ts_tensor **tensor, ts_tensor **parts, ts_pack *pack, const ts_call *call,
                        int size)
{
    const ts_bunch *bunch = &call->bunch;
    bool scatter = call->coll.op == TS_COLL_REDUCE_SCATTER;
    int64_t total = total_of(bunch);
    TS_TRY(add_flat(tensor, pack, bunch, total));
    if (bunch->parts) TS_TRY(add_flat(parts, pack, bunch, total * size));
    return scatter ? move_parts(bunch, size, *parts, true) : move_tensors(bunch, *tensor, true);
}

ts_status ts_bunch_store(const ts_tensor *tensor, const ts_tensor *parts, const ts_call *call,
                         int size)
{
    if (call->coll.op == TS_COLL_ALL_GATHER) return move_parts(&call->bunch, size, parts, false);
    return move_tensors(&call->bunch, tensor, false);
}
