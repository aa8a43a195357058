/* SPDX-License-Identifier: Apache-2.0 */
/* The tensor is cut into blocks that stay in the cache, every block into one share per rank.  For
 * each block rank r reduces share r from all ranks' tensors, in place, and then copies the other
 * shares from those who reduced them.  While it would wait for them it reduces the next block.
 *
 * A tensor that cannot be read where it is passes through the staging ring: load a block, reduce the share
 * within the slot, copy all shares out.  Two ranks reduce whole blocks instead, from the own tensor
 * and the other's slot: as many bytes change cores, in one step. */
#include <string.h>

#include "comm/coll/all_reduce/all_reduce.h"
#include "kernels/combine.h"

enum {
    SLOTS_BYTES = 64 * 1024, /* of all ranks' tensors: short enough for the slots */
    PAIR_BYTES = 128 * 1024, /* four slots of both ranks stay in a core's cache */
    FETCHED_BYTES = 8 << 20, /* block of data that the kernel has to fetch */
    FETCH_FROM = 4 << 20     /* shorter data goes faster through the rings */
};

typedef struct job {
    ts_shm *shm;
    const ts_coll *coll;
    ts_pieces pieces;
    size_t element;
    int64_t block; /* elements */
    uint64_t blocks;
    char *slot[TS_RING_SLOTS]; /* own slot of block b at b % TS_RING_SLOTS */
} job;

static int64_t length_of(const job *j, uint64_t b)
{
    int64_t left = j->coll->tensor.count - (int64_t)b * j->block;
    return left < j->block ? left : j->block;
}

static size_t place_of(const job *j, uint64_t b)
{
    return (size_t)b * (size_t)j->block * j->element;
}

static char *own_block(const job *j, uint64_t b)
{
    return (char *)j->coll->tensor.data + place_of(j, b);
}

static ts_status load(job *j, uint64_t b)
{
    char **slot = &j->slot[b % TS_RING_SLOTS];
    if (!j->pieces.staged || b >= j->blocks) return TS_OK;
    TS_TRY(ts_pieces_claim(&j->pieces, b, slot));
    memcpy(*slot, own_block(j, b), (size_t)length_of(j, b) * j->element);
    ts_pieces_loaded(&j->pieces, b);
    return TS_OK;
}

static ts_status reduce_in_slots(job *j, uint64_t b, ts_range share)
{
    ts_shm *s = j->shm;
    size_t skip = (size_t)share.begin * j->element;
    char *to = j->slot[b % TS_RING_SLOTS] + skip;
    for (int q = 0; q < s->size; q++) {
        TS_TRY(ts_pieces_wait_loaded(&j->pieces, b, q));
        s->sources[q] = q == s->rank ? to : ts_pieces_slot(&j->pieces, b, q) + skip;
    }
    ts_combine(to, s->sources, s->size, share.end - share.begin, j->coll->dtype, j->coll->reduce);
    return TS_OK;
}

static ts_status reduce(job *j, uint64_t b)
{
    ts_range share = ts_share_of(length_of(j, b), j->shm->size, j->shm->rank, j->element);
    size_t skip = (size_t)share.begin * j->element;
    size_t bytes = (size_t)(share.end - share.begin) * j->element;
    char *own = own_block(j, b) + skip;
    TS_TRY(j->pieces.staged
               ? reduce_in_slots(j, b, share)
               : ts_pieces_combine(&j->pieces, own, own, place_of(j, b) + skip, bytes));
    ts_pieces_reduced(&j->pieces, b);
    return TS_OK;
}

static ts_status copy(job *j, uint64_t b)
{
    ts_shm *s = j->shm;
    for (int i = 0; i < s->size; i++) {
        int q = (s->rank + i) % s->size;
        ts_range share = ts_share_of(length_of(j, b), s->size, q, j->element);
        size_t skip = (size_t)share.begin * j->element;
        size_t bytes = (size_t)(share.end - share.begin) * j->element;
        if (q == s->rank && !j->pieces.staged) continue;
        TS_TRY(ts_pieces_wait_reduced(&j->pieces, b, q));
        char *own = own_block(j, b) + skip;
        if (j->pieces.staged)
            memcpy(own, ts_pieces_slot(&j->pieces, b, q) + skip, bytes);
        else
            TS_TRY(ts_pieces_copy(&j->pieces, q, place_of(j, b) + skip, own, bytes));
    }
    ts_pieces_copied(&j->pieces, b);
    return TS_OK;
}

static ts_status run(job *j)
{
    TS_TRY(load(j, 0));
    for (uint64_t b = 0; b < j->blocks; b++) {
        TS_TRY(load(j, b + 1));
        TS_TRY(reduce(j, b));
        if (b > 0) TS_TRY(copy(j, b - 1));
    }
    return copy(j, j->blocks - 1);
}

static ts_status reduce_whole(job *j, uint64_t b)
{
    ts_shm *s = j->shm;
    int other = 1 - s->rank;
    TS_TRY(ts_pieces_wait_loaded(&j->pieces, b, other));
    s->sources[s->rank] = own_block(j, b);
    s->sources[other] = ts_pieces_slot(&j->pieces, b, other);
    ts_combine(own_block(j, b), s->sources, s->size, length_of(j, b), j->coll->dtype,
               j->coll->reduce);
    ts_pieces_copied(&j->pieces, b);
    return TS_OK;
}

static ts_status run_pair(job *j)
{
    TS_TRY(load(j, 0));
    for (uint64_t b = 0; b < j->blocks; b++) {
        TS_TRY(load(j, b + 1));
        TS_TRY(reduce_whole(j, b));
    }
    return TS_OK;
}

static bool has_addresses(const ts_shm *s)
{
    for (int q = 0; q < s->size; q++)
        if (s->place[q] < 0) return true;
    return false;
}

static bool all_in_slots(const ts_shm *s, const ts_coll *coll)
{
    for (int q = 0; q < s->size; q++)
        if (ts_shm_header(s, coll, q)->payload.place != TS_PLACE_SLOT) return false;
    return true;
}

ts_status ts_all_reduce_shm(ts_shm *s, const ts_coll *coll, bool push)
{
    job j = {.shm = s, .coll = coll, .element = ts_dtype_size(coll->dtype)};
    bool is_short = coll->tensor.count < FETCH_FROM / (int64_t)j.element;
    int64_t place = is_short ? coll->tensor.shared_offset : ts_shm_place_of(s, coll->tensor);
    size_t bytes = (size_t)coll->tensor.count * j.element;
    if (push && place == -1 && bytes * (size_t)s->size <= SLOTS_BYTES) {
        memcpy(ts_shm_room(s, coll, bytes), coll->tensor.data, bytes);
        place = TS_PLACE_SLOT;
    }
    ts_shm_place(s, place);
    TS_TRY(ts_shm_agree(s, coll));
    if (all_in_slots(s, coll)) {
        ts_all_reduce_slots(s, coll, bytes);
        return TS_OK;
    }
    TS_TRY(ts_pieces_begin(&j.pieces, s, coll, false));
    if (push && ts_shm_all_store(s, coll)) return ts_all_reduce_push(&j.pieces);
    bool pair = j.pieces.staged && s->size == 2;
    int64_t block = j.pieces.staged ? j.pieces.slot_bytes : TS_BLOCK_BYTES;
    if (!j.pieces.staged && has_addresses(s)) block = FETCHED_BYTES;
    if (pair && block > PAIR_BYTES) block = PAIR_BYTES;
    j.block = block / (int64_t)j.element;
    j.blocks = (uint64_t)((coll->tensor.count + j.block - 1) / j.block);
    TS_TRY(pair ? run_pair(&j) : run(&j));
    return ts_pieces_end(&j.pieces, j.blocks);
}
