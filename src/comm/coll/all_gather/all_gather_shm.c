/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/coll/all_gather/all_gather.h"

ts_status ts_all_gather_flat(ts_shm *s, const ts_coll *coll, size_t most)
{
    size_t own = ts_gathered_bytes(coll, s->rank);
    if (own > 0) memcpy(ts_shm_room(s, coll, most), coll->tensor.data, own);
    TS_TRY(ts_shm_agree(s, coll));
    for (int q = 0; q < s->size; q++)
        if (q != s->rank && ts_gathered_bytes(coll, q) > 0)
            memcpy(coll->parts[q].data, ts_shm_payload(s, coll, q, most),
                   ts_gathered_bytes(coll, q));
    ts_all_gather_keep(coll, s->rank);
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
    size_t bytes = piece_bytes(ts_gathered_bytes(coll, pieces->shm->rank), i, step);
    TS_TRY(ts_pieces_claim(pieces, i, &slot));
    if (bytes > 0) memcpy(slot, (const char *)coll->tensor.data + i * step, bytes);
    ts_pieces_loaded(pieces, i);
    return TS_OK;
}

static ts_status copy(ts_pieces *pieces, const ts_coll *coll, uint64_t i)
{
    const ts_shm *s = pieces->shm;
    size_t step = (size_t)pieces->slot_bytes;
    for (int k = 1; k < s->size; k++) {
        int q = (s->rank + k) % s->size;
        size_t bytes = piece_bytes(ts_gathered_bytes(coll, q), i, step);
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

ts_status ts_all_gather_shm(ts_shm *s, const ts_coll *coll, size_t most)
{
    ts_pieces pieces;
    ts_shm_place(s, ts_shm_place_of(s, coll->tensor));
    TS_TRY(ts_shm_agree(s, coll));
    TS_TRY(ts_pieces_begin(&pieces, s, coll, false));
    ts_all_gather_keep(coll, s->rank);
    if (pieces.staged) return through_rings(&pieces, coll, most);
    for (int k = 1; k < s->size; k++) {
        int q = (s->rank + k) % s->size;
        size_t bytes = ts_gathered_bytes(coll, q);
        if (bytes > 0) TS_TRY(ts_pieces_copy(&pieces, q, 0, coll->parts[q].data, bytes));
    }
    return ts_pieces_end(&pieces, 1);
}
