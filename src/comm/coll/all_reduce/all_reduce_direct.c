/* SPDX-License-Identifier: Apache-2.0 */
/* Block by block: rank r gets share r of all ranks, reduces it in the order of ranks, and sends the
 * result to all.  The shares of the next block are on their way meanwhile. */
#include "comm/coll/all_reduce/all_reduce.h"
#include "kernels/combine.h"

enum { BLOCK_BYTES = 1024 * 1024, SPREAD = 2 };

typedef struct job {
    ts_team *t;
    char *data, *scratch; /* scratch: of two blocks, in turn */
    size_t bytes, element, scratch_bytes;
    int64_t block, blocks;         /* block: elements */
    ts_exchange gather[2], spread; /* gather of block b at b % 2 */
} job;

static int64_t length_of(const job *j, int64_t b)
{
    int64_t left = (int64_t)(j->bytes / j->element) - b * j->block;
    return left < j->block ? left : j->block;
}

static size_t share_bytes(const job *j, int64_t b, int q)
{
    ts_range share = ts_share_of(length_of(j, b), j->t->size, q, j->element);
    return (size_t)(share.end - share.begin) * j->element;
}

static char *share_of(const job *j, int64_t b, int q)
{
    ts_range share = ts_share_of(length_of(j, b), j->t->size, q, j->element);
    return j->data + (size_t)(b * j->block + share.begin) * j->element;
}

static char *scratch_of(const job *j, int64_t b, int q)
{
    return j->scratch + (size_t)(b % 2) * j->scratch_bytes +
           (size_t)q * share_bytes(j, b, j->t->rank);
}

static void start_gather(job *j, int64_t b)
{
    ts_team *t = j->t;
    if (b >= j->blocks) return;
    ts_exchange *e = &j->gather[b % 2];
    *e = ts_exchange_begin_beside(t->native, t->coll, (int)(b % 2));
    for (int i = 1; i < t->size; i++) {
        int to = (t->rank + i) % t->size, from = (t->rank + t->size - i) % t->size;
        ts_team_recv(e, t, from, scratch_of(j, b, from), share_bytes(j, b, t->rank));
        ts_team_send(e, t, to, share_of(j, b, to), share_bytes(j, b, to));
    }
}

static void reduce(job *j, int64_t b)
{
    const ts_team *t = j->t;
    const void **sources = t->native->sources;
    size_t own = share_bytes(j, b, t->rank);
    char *to = share_of(j, b, t->rank);
    for (int q = 0; q < t->size; q++) sources[q] = q == t->rank ? to : scratch_of(j, b, q);
    ts_combine(to, sources, t->size, (int64_t)(own / j->element), t->coll->dtype,
               ts_partial_op(t->coll));
    ts_team_finish(t, to, own);
}

static void start_spread(job *j, int64_t b)
{
    ts_team *t = j->t;
    ts_exchange *e = &j->spread;
    *e = ts_exchange_begin_beside(t->native, t->coll, SPREAD);
    for (int i = 1; i < t->size; i++) {
        int to = (t->rank + i) % t->size, from = (t->rank + t->size - i) % t->size;
        ts_team_recv(e, t, from, share_of(j, b, from), share_bytes(j, b, from));
        ts_team_send(e, t, to, share_of(j, b, t->rank), share_bytes(j, b, t->rank));
    }
}

static ts_status run(job *j)
{
    start_gather(j, 0);
    for (int64_t b = 0; b < j->blocks; b++) {
        start_gather(j, b + 1);
        TS_TRY(ts_exchange_wait(&j->gather[b % 2]));
        reduce(j, b);
        if (b > 0) TS_TRY(ts_exchange_wait(&j->spread));
        start_spread(j, b);
    }
    return j->blocks > 0 ? ts_exchange_wait(&j->spread) : TS_OK;
}

ts_status ts_all_reduce_direct(ts_team *t, char *data, size_t bytes, size_t segment)
{
    job j = {.t = t, .data = data, .bytes = bytes, .element = ts_dtype_size(t->coll->dtype)};
    int64_t count = (int64_t)(bytes / j.element);
    j.block = (int64_t)((segment ? segment : BLOCK_BYTES) / j.element);
    if (j.block < 1) j.block = 1;
    j.blocks = (count + j.block - 1) / j.block;
    j.scratch_bytes = j.blocks > 0 ? (size_t)t->size * share_bytes(&j, 0, 0) : 0;
    j.scratch = ts_native_scratch(t->native, 2 * j.scratch_bytes);
    if (!j.scratch) return ts_native_give_up(t->native, TS_ENOMEM);
    ts_status status = run(&j);
    if (status == TS_OK) return TS_OK;
    ts_exchange_drop(&j.gather[0]);
    ts_exchange_drop(&j.gather[1]);
    ts_exchange_drop(&j.spread);
    return status;
}
