/* SPDX-License-Identifier: Apache-2.0 */
/* Rank r reduces share r of all ranks' tensors in their order, a page at a time, and stores the result
 * into all of them: every byte is read where it was made and written where it belongs, in one
 * phase.  Bytes that must not be stored from outside (ts_shm_storable) each rank copies in a second
 * one, which all have if any has. */
#include <string.h>

#include "comm/coll/all_reduce/all_reduce.h"
#include "kernels/combine.h"

enum { STEP_BYTES = 4096 }; /* of every rank's tensor; all of it stays in the first-level cache */

typedef struct job {
    ts_pieces *pieces;
    ts_shm *shm;
    const ts_coll *coll;
    char *own;
    size_t bytes, element;
} job;

static ts_span share_of(const job *j, int q)
{
    ts_range share = ts_share_of(j->coll->tensor.count, j->shm->size, q, j->element);
    return (ts_span){(size_t)share.begin * j->element, (size_t)share.end * j->element};
}

static ts_span overlap(ts_span a, ts_span b)
{
    size_t begin = a.begin > b.begin ? a.begin : b.begin, end = a.end < b.end ? a.end : b.end;
    return begin < end ? (ts_span){begin, end} : (ts_span){0, 0};
}

static void store(const job *j, ts_span step)
{
    ts_shm *s = j->shm;
    for (int q = 0; q < s->size; q++) {
        if (q == s->rank) continue;
        ts_span to = overlap(step, ts_shm_storable(s->place[q], j->bytes));
        memcpy(s->peer[q].store + s->place[q] + to.begin, j->own + to.begin, to.end - to.begin);
    }
}

static void reduce_and_store(const job *j)
{
    ts_shm *s = j->shm;
    ts_span share = share_of(j, s->rank);
    for (size_t at = share.begin, next; at < share.end; at = next) {
        next = share.end - at < STEP_BYTES ? share.end : at + STEP_BYTES;
        for (int q = 0; q < s->size; q++)
            s->sources[q] = (q == s->rank ? j->own : s->peer[q].store + s->place[q]) + at;
        ts_combine(j->own + at, s->sources, s->size, (int64_t)((next - at) / j->element),
                   j->coll->dtype, j->coll->reduce);
        store(j, (ts_span){at, next});
    }
}

static void copy(const job *j, int q, ts_span part)
{
    const ts_shm *s = j->shm;
    memcpy(j->own + part.begin, s->peer[q].heap + s->place[q] + part.begin, part.end - part.begin);
}

/* What the others have reduced but could not store here. */
static ts_status copy_edges(const job *j)
{
    ts_shm *s = j->shm;
    ts_span inside = ts_shm_storable(s->place[s->rank], j->bytes);
    for (int q = 0; q < s->size; q++) {
        ts_span share = share_of(j, q);
        if (q == s->rank) continue;
        TS_TRY(ts_pieces_wait_reduced(j->pieces, 0, q));
        copy(j, q, overlap(share, (ts_span){0, inside.begin}));
        copy(j, q, overlap(share, (ts_span){inside.end, j->bytes}));
    }
    return TS_OK;
}

static bool has_edges(const job *j)
{
    for (int q = 0; q < j->shm->size; q++) {
        ts_span inside = ts_shm_storable(j->shm->place[q], j->bytes);
        if (inside.end - inside.begin < j->bytes) return true;
    }
    return false;
}

ts_status ts_all_reduce_push(ts_pieces *p)
{
    const ts_coll *coll = p->coll;
    size_t element = ts_dtype_size(coll->dtype);
    job j = {.pieces = p,
             .shm = p->shm,
             .coll = coll,
             .own = coll->tensor.data,
             .bytes = (size_t)coll->tensor.count * element,
             .element = element};
    reduce_and_store(&j);
    if (has_edges(&j)) {
        ts_pieces_reduced(p, 0);
        TS_TRY(copy_edges(&j));
    }
    return ts_pieces_end(p, 1);
}
