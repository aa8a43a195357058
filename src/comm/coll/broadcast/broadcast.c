/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "comm/backend/native/native.h"
#include "comm/group_impl.h"

/* The data rides with the root's header or in its slot. */
static ts_status flat(ts_native *n, const ts_coll *coll, size_t bytes)
{
    bool root = n->rank == coll->root;
    if (root && bytes > 0) memcpy(ts_native_room(n, coll, bytes), coll->tensor.data, bytes);
    TS_TRY(ts_native_agree(n, coll));
    if (!root && bytes > 0)
        memcpy(coll->tensor.data, ts_native_payload(n, coll, coll->root, bytes), bytes);
    return TS_OK;
}

/* The root loads its ring, the others copy from it. */
static ts_status through_ring(ts_pieces *pieces, const ts_coll *coll, bool root, size_t bytes)
{
    size_t step = (size_t)pieces->slot_bytes;
    uint64_t count = (bytes + step - 1) / step;
    for (uint64_t i = 0; i < count; i++) {
        char *own = (char *)coll->tensor.data + i * step, *slot;
        size_t length = bytes - i * step < step ? bytes - i * step : step;
        if (root) {
            TS_TRY(ts_pieces_claim(pieces, i, &slot));
            memcpy(slot, own, length);
            ts_pieces_loaded(pieces, i);
        } else {
            TS_TRY(ts_pieces_wait_loaded(pieces, i, coll->root));
            memcpy(own, ts_pieces_slot(pieces, i, coll->root), length);
        }
        ts_pieces_copied(pieces, i);
    }
    return ts_pieces_end(pieces, count);
}

static ts_status in_memory(ts_native *n, const ts_coll *coll, size_t bytes)
{
    ts_pieces pieces;
    bool root = n->rank == coll->root;
    ts_native_place(n, coll, coll->tensor.shared_offset);
    TS_TRY(ts_native_agree(n, coll));
    TS_TRY(ts_pieces_begin(&pieces, n, coll, true));
    if (pieces.staged) return through_ring(&pieces, coll, root, bytes);
    if (!root) memcpy(coll->tensor.data, ts_pieces_direct(&pieces, coll->root), bytes);
    return ts_pieces_end(&pieces, 1);
}

static ts_status by_message(ts_native *n, const ts_coll *coll, size_t bytes)
{
    TS_TRY(ts_native_agree(n, coll));
    ts_exchange exchange = ts_exchange_begin(n, coll);
    if (n->rank != coll->root)
        ts_exchange_recv(&exchange, coll->root, 1, coll->tensor.data, bytes);
    else
        for (int q = 0; q < n->size; q++)
            if (q != n->rank) ts_exchange_send(&exchange, q, 1, coll->tensor.data, bytes);
    return ts_exchange_wait(&exchange);
}

static ts_status pick(ts_native *n, const ts_coll *coll)
{
    size_t bytes = (size_t)coll->tensor.count * ts_dtype_size(coll->dtype);
    if (coll->status != TS_OK) return ts_native_agree(n, coll);
    if (bytes <= TS_INLINE_BYTES) return flat(n, coll, bytes);
    if (!n->shared) return by_message(n, coll, bytes);
    return bytes <= TS_FLAT_BYTES ? flat(n, coll, bytes) : in_memory(n, coll, bytes);
}

ts_status ts_native_broadcast(void *self, const ts_coll *coll)
{
    return ts_native_over(self, coll, pick(self, coll));
}

ts_status ts_broadcast(ts_group *group, ts_tensor *tensor, int src, ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_BROADCAST, work));
    ts_call_tensor(issue.call, tensor, TS_USE_WRITE);
    ts_call_root(issue.call, issue.group, src);
    return ts_issue_end(&issue);
}
