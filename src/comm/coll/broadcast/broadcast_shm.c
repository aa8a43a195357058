/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "comm/coll/broadcast/broadcast.h"

ts_status ts_broadcast_flat(ts_shm *s, const ts_coll *coll)
{
    size_t bytes = ts_tensor_bytes_of(coll);
    bool root = s->rank == coll->root;
    if (root && bytes > 0) memcpy(ts_shm_room(s, coll, bytes), coll->tensor.data, bytes);
    TS_TRY(ts_shm_agree(s, coll));
    if (!root && bytes > 0)
        memcpy(coll->tensor.data, ts_shm_payload(s, coll, coll->root, bytes), bytes);
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

ts_status ts_broadcast_shm(ts_shm *s, const ts_coll *coll)
{
    ts_pieces pieces;
    size_t bytes = ts_tensor_bytes_of(coll);
    bool root = s->rank == coll->root;
    ts_shm_place(s, ts_shm_place_of(s, coll->tensor));
    TS_TRY(ts_shm_agree(s, coll));
    TS_TRY(ts_pieces_begin(&pieces, s, coll, true));
    if (pieces.staged) return through_ring(&pieces, coll, root, bytes);
    if (!root) TS_TRY(ts_pieces_copy(&pieces, coll->root, 0, coll->tensor.data, bytes));
    return ts_pieces_end(&pieces, 1);
}
