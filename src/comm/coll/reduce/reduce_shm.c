/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "comm/coll/reduce/reduce.h"
#include "kernels/combine.h"

enum { IN_PLACE_BYTES = 32 << 20 }; /* longer data passes through the rings */

/* sources[] -> the root's tensor, from byte `at` on. */
static void combine(ts_shm *s, const ts_coll *coll, size_t at, size_t bytes)
{
    ts_combine((char *)coll->tensor.data + at, s->sources, s->size,
               (int64_t)(bytes / ts_dtype_size(coll->dtype)), coll->dtype, coll->reduce);
}

static ts_status flat(ts_shm *s, const ts_coll *coll, size_t bytes)
{
    if (bytes > 0) memcpy(ts_shm_room(s, coll, bytes), coll->tensor.data, bytes);
    TS_TRY(ts_shm_agree(s, coll));
    if (s->rank != coll->root || bytes == 0) return TS_OK;
    for (int q = 0; q < s->size; q++) s->sources[q] = ts_shm_payload(s, coll, q, bytes);
    combine(s, coll, 0, bytes);
    return TS_OK;
}

static ts_status one_piece(ts_pieces *pieces, const ts_coll *coll, uint64_t i, size_t bytes)
{
    char *slot;
    ts_shm *s = pieces->shm;
    size_t at = i * (size_t)pieces->slot_bytes, length = bytes - at;
    const char *own = (const char *)coll->tensor.data + at;
    if (length > (size_t)pieces->slot_bytes) length = (size_t)pieces->slot_bytes;
    if (s->rank != coll->root) {
        TS_TRY(ts_pieces_claim(pieces, i, &slot));
        memcpy(slot, own, length);
        ts_pieces_loaded(pieces, i);
    } else {
        for (int q = 0; q < s->size; q++) {
            TS_TRY(ts_pieces_wait_loaded(pieces, i, q));
            s->sources[q] = q == s->rank ? own : ts_pieces_slot(pieces, i, q);
        }
        combine(s, coll, at, length);
    }
    ts_pieces_copied(pieces, i);
    return TS_OK;
}

ts_status ts_reduce_shm(ts_shm *s, const ts_coll *coll)
{
    ts_pieces pieces;
    size_t bytes = (size_t)coll->tensor.count * ts_dtype_size(coll->dtype);
    if (bytes <= TS_FLAT_BYTES) return flat(s, coll, bytes);
    /* Through the rings all ranks work for the root, where it would do all of it alone.  That beats
     * fetching, and the mapping too where the memory is slower than the caches. */
    ts_shm_place(s, bytes < IN_PLACE_BYTES ? coll->tensor.shared_offset : -1);
    TS_TRY(ts_shm_agree(s, coll));
    TS_TRY(ts_pieces_begin(&pieces, s, coll, false));
    if (!pieces.staged) {
        if (s->rank == coll->root)
            TS_TRY(ts_pieces_combine(&pieces, coll->tensor.data, coll->tensor.data, 0, bytes));
        return ts_pieces_end(&pieces, 1);
    }
    uint64_t count = (bytes + (size_t)pieces.slot_bytes - 1) / (size_t)pieces.slot_bytes;
    for (uint64_t i = 0; i < count; i++) TS_TRY(one_piece(&pieces, coll, i, bytes));
    return ts_pieces_end(&pieces, count);
}
