/* SPDX-License-Identifier: Apache-2.0 */
/* Rank r reduces part r from all ranks' tensors, in place if they lie in the shared heap.
 * Otherwise a slot of the ring holds a piece of every part. */
#include <string.h>

#include "comm/coll/reduce_scatter/reduce_scatter.h"
#include "kernels/combine.h"

/* Tells where the parts are.  The least place: -1 if one of them is out of reach, less than -1 if
 * only those who read addresses can have them all. */
static int64_t announce_parts(ts_shm *s, const ts_coll *coll)
{
    int64_t *place = s->control->parts + (coll->sequence & 1) * (size_t)s->size;
    int64_t all = 0;
    for (int q = 0; q < s->size; q++) {
        place[q] = ts_shm_place_of(s, coll->parts[q]);
        if (place[q] < all) all = place[q];
    }
    return all;
}

static ts_status reduce_in_place(ts_shm *s, const ts_coll *coll)
{
    size_t slot = (coll->sequence & 1) * (size_t)s->size + (size_t)s->rank;
    if (coll->tensor.count == 0) return TS_OK;
    for (int q = 0; q < s->size; q++) s->place[q] = s->peer[q].control->parts[slot];
    return ts_shm_combine(s, coll, coll->tensor.data, coll->parts[s->rank].data, 0,
                          ts_part_bytes(coll, s->rank));
}

static ts_status load(ts_pieces *pieces, const ts_coll *coll, uint64_t i, size_t step)
{
    char *slot;
    const ts_shm *s = pieces->shm;
    TS_TRY(ts_pieces_claim(pieces, i, &slot));
    for (int q = 0; q < s->size; q++) {
        size_t bytes = ts_piece_bytes(ts_part_bytes(coll, q), i, step);
        if (bytes > 0)
            memcpy(slot + (size_t)q * step, (const char *)coll->parts[q].data + i * step, bytes);
    }
    ts_pieces_loaded(pieces, i);
    return TS_OK;
}

static ts_status reduce(ts_pieces *pieces, const ts_coll *coll, uint64_t i, size_t step)
{
    ts_shm *s = pieces->shm;
    size_t bytes = ts_piece_bytes(ts_part_bytes(coll, s->rank), i, step);
    for (int q = 0; q < s->size; q++) {
        TS_TRY(ts_pieces_wait_loaded(pieces, i, q));
        s->sources[q] = ts_pieces_slot(pieces, i, q) + (size_t)s->rank * step;
    }
    if (bytes > 0)
        ts_combine((char *)coll->tensor.data + i * step, s->sources, s->size,
                   (int64_t)(bytes / ts_dtype_size(coll->dtype)), coll->dtype, coll->reduce);
    ts_pieces_copied(pieces, i);
    return TS_OK;
}

static ts_status through_rings(ts_pieces *pieces, const ts_coll *coll)
{
    const ts_shm *s = pieces->shm;
    size_t step = (size_t)pieces->slot_bytes / (size_t)s->size / 64 * 64, most = 0;
    for (int q = 0; q < s->size; q++)
        if (ts_part_bytes(coll, q) > most) most = ts_part_bytes(coll, q);
    uint64_t count = (most + step - 1) / step;
    TS_TRY(load(pieces, coll, 0, step));
    for (uint64_t i = 0; i < count; i++) {
        if (i + 1 < count) TS_TRY(load(pieces, coll, i + 1, step));
        TS_TRY(reduce(pieces, coll, i, step));
    }
    return ts_pieces_end(pieces, count);
}

ts_status ts_reduce_scatter_shm(ts_shm *s, const ts_coll *coll)
{
    ts_pieces pieces;
    ts_shm_place(s, announce_parts(s, coll));
    TS_TRY(ts_shm_agree(s, coll));
    TS_TRY(ts_pieces_begin(&pieces, s, coll, false));
    if (pieces.staged) return through_rings(&pieces, coll);
    TS_TRY(reduce_in_place(s, coll));
    return ts_pieces_end(&pieces, 1);
}
