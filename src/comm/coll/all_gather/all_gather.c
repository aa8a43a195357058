/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "comm/backend/native/native.h"
#include "comm/group_impl.h"

static size_t bytes_of(const ts_coll *coll, int q)
{
    return (size_t)coll->parts[q].count * ts_dtype_size(coll->dtype);
}

static size_t largest(const ts_native *n, const ts_coll *coll)
{
    size_t most = 0;
    for (int q = 0; q < n->size; q++)
        if (bytes_of(coll, q) > most) most = bytes_of(coll, q);
    return most;
}

/* in may be out[rank] itself. */
static void keep_own(const ts_native *n, const ts_coll *coll)
{
    size_t bytes = bytes_of(coll, n->rank);
    void *to = coll->parts[n->rank].data;
    if (bytes > 0 && to != coll->tensor.data) memmove(to, coll->tensor.data, bytes);
}

/* most: of any rank, which all know. */
static ts_status flat(ts_native *n, const ts_coll *coll, size_t most)
{
    size_t own = bytes_of(coll, n->rank);
    if (own > 0) memcpy(ts_native_room(n, coll, most), coll->tensor.data, own);
    TS_TRY(ts_native_agree(n, coll));
    for (int q = 0; q < n->size; q++)
        if (q != n->rank && bytes_of(coll, q) > 0)
            memcpy(coll->parts[q].data, ts_native_payload(n, coll, q, most), bytes_of(coll, q));
    keep_own(n, coll);
    return TS_OK;
}

static size_t piece_bytes(size_t bytes, uint64_t i, size_t step)
{
    size_t begin = i * step;
    return begin >= bytes ? 0 : bytes - begin < step ? bytes - begin : step;
}

static ts_status load(ts_pieces *pieces, const ts_coll *coll, uint64_t i)
{
    char *slot;
    size_t step = (size_t)pieces->slot_bytes;
    size_t bytes = piece_bytes(bytes_of(coll, pieces->native->rank), i, step);
    TS_TRY(ts_pieces_claim(pieces, i, &slot));
    if (bytes > 0) memcpy(slot, (const char *)coll->tensor.data + i * step, bytes);
    ts_pieces_loaded(pieces, i);
    return TS_OK;
}

static ts_status copy(ts_pieces *pieces, const ts_coll *coll, uint64_t i)
{
    const ts_native *n = pieces->native;
    size_t step = (size_t)pieces->slot_bytes;
    for (int k = 1; k < n->size; k++) {
        int q = (n->rank + k) % n->size;
        size_t bytes = piece_bytes(bytes_of(coll, q), i, step);
        TS_TRY(ts_pieces_wait_loaded(pieces, i, q));
        if (bytes > 0)
            memcpy((char *)coll->parts[q].data + i * step, ts_pieces_slot(pieces, i, q), bytes);
    }
    ts_pieces_copied(pieces, i);
    return TS_OK;
}

static ts_status through_rings(ts_pieces *pieces, const ts_coll *coll, size_t most)
{
    size_t step = (size_t)pieces->slot_bytes;
    uint64_t count = (most + step - 1) / step;
    TS_TRY(load(pieces, coll, 0));
    for (uint64_t i = 0; i < count; i++) {
        if (i + 1 < count) TS_TRY(load(pieces, coll, i + 1));
        TS_TRY(copy(pieces, coll, i));
    }
    return ts_pieces_end(pieces, count);
}

static ts_status in_memory(ts_native *n, const ts_coll *coll, size_t most)
{
    ts_pieces pieces;
    bool empty = coll->tensor.count == 0; /* no data, no matter where */
    ts_native_place(n, coll, empty ? 0 : coll->tensor.shared_offset);
    TS_TRY(ts_native_agree(n, coll));
    TS_TRY(ts_pieces_begin(&pieces, n, coll, false));
    keep_own(n, coll);
    if (pieces.staged) return through_rings(&pieces, coll, most);
    for (int k = 1; k < n->size; k++) {
        int q = (n->rank + k) % n->size;
        if (bytes_of(coll, q) > 0)
            memcpy(coll->parts[q].data, ts_pieces_direct(&pieces, q), bytes_of(coll, q));
    }
    return ts_pieces_end(&pieces, 1);
}

static ts_status by_message(ts_native *n, const ts_coll *coll)
{
    TS_TRY(ts_native_agree(n, coll));
    ts_exchange exchange = ts_exchange_begin(n, coll);
    for (int q = 0; q < n->size; q++) {
        if (q == n->rank) continue;
        ts_exchange_recv(&exchange, q, 1, coll->parts[q].data, bytes_of(coll, q));
        ts_exchange_send(&exchange, q, 1, coll->tensor.data, bytes_of(coll, n->rank));
    }
    keep_own(n, coll);
    return ts_exchange_wait(&exchange);
}

static ts_status pick(ts_native *n, const ts_coll *coll)
{
    if (coll->status != TS_OK) return ts_native_agree(n, coll);
    size_t most = largest(n, coll);
    if (most <= TS_INLINE_BYTES) return flat(n, coll, most);
    if (!n->shared) return by_message(n, coll);
    return most <= TS_FLAT_BYTES ? flat(n, coll, most) : in_memory(n, coll, most);
}

ts_status ts_native_all_gather(void *self, const ts_coll *coll)
{
    return ts_native_over(self, coll, pick(self, coll));
}

ts_status ts_all_gather_into_tensor(ts_group *group, ts_tensor *out, ts_tensor *in, ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_ALL_GATHER, work));
    ts_call_tensor(issue.call, in, TS_USE_READ);
    ts_call_whole(&issue, out, TS_USE_WRITE);
    return ts_issue_end(&issue);
}

ts_status ts_all_gather(ts_group *group, ts_tensor *const *out, int n, ts_tensor *in,
                        ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_ALL_GATHER, work));
    ts_call_tensor(issue.call, in, TS_USE_READ);
    ts_call_list(&issue, out, n, TS_USE_WRITE);
    return ts_issue_end(&issue);
}
