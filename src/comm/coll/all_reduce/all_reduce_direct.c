/* SPDX-License-Identifier: Apache-2.0 */
/* Block by block: rank r gets share r of all ranks, reduces it in the order of ranks, and sends the
 * result to all. */
#include "comm/coll/all_reduce/all_reduce.h"
#include "kernels/combine.h"

enum { BLOCK_BYTES = 4 * 1024 * 1024 };

typedef struct block {
    ts_team *t;
    char *data;
    int64_t length;
    size_t element;
} block;

static size_t share_bytes(const block *b, int q)
{
    ts_range share = ts_share_of(b->length, b->t->size, q, b->element);
    return (size_t)(share.end - share.begin) * b->element;
}

static char *share_of(const block *b, int q)
{
    return b->data + (size_t)ts_share_of(b->length, b->t->size, q, b->element).begin * b->element;
}

static ts_status reduce_own(const block *b, char *scratch)
{
    ts_team *t = b->t;
    const ts_coll *coll = t->coll;
    const void **sources = t->native->sources;
    size_t own = share_bytes(b, t->rank);
    ts_exchange e = ts_exchange_begin(t->native, coll);
    for (int q = 0; q < t->size; q++) {
        sources[q] = q == t->rank ? share_of(b, q) : scratch + (size_t)q * own;
        if (q != t->rank) ts_team_recv(&e, t, q, scratch + (size_t)q * own, own);
    }
    for (int i = 1; i < t->size; i++) {
        int q = (t->rank + i) % t->size;
        ts_team_send(&e, t, q, share_of(b, q), share_bytes(b, q));
    }
    TS_TRY(ts_exchange_wait(&e));
    ts_combine(share_of(b, t->rank), sources, t->size, (int64_t)(own / b->element), coll->dtype,
               ts_partial_op(coll));
    ts_team_finish(t, share_of(b, t->rank), own);
    return TS_OK;
}

static ts_status spread(const block *b)
{
    ts_team *t = b->t;
    ts_exchange e = ts_exchange_begin(t->native, t->coll);
    for (int i = 1; i < t->size; i++) {
        int to = (t->rank + i) % t->size, from = (t->rank + t->size - i) % t->size;
        ts_team_recv(&e, t, from, share_of(b, from), share_bytes(b, from));
        ts_team_send(&e, t, to, share_of(b, t->rank), share_bytes(b, t->rank));
    }
    return ts_exchange_wait(&e);
}

ts_status ts_all_reduce_direct(ts_team *t, char *data, size_t bytes, size_t segment)
{
    block b = {.t = t, .data = data, .element = ts_dtype_size(t->coll->dtype)};
    int64_t most = (int64_t)((segment ? segment : BLOCK_BYTES) / b.element);
    int64_t left = (int64_t)(bytes / b.element);
    if (most < 1) most = 1;
    for (; left > 0; left -= b.length) {
        b.length = left < most ? left : most;
        char *scratch = ts_native_scratch(t->native, (size_t)t->size * (share_bytes(&b, 0) + 1));
        if (!scratch) return ts_native_give_up(t->native, TS_ENOMEM);
        TS_TRY(reduce_own(&b, scratch));
        TS_TRY(spread(&b));
        b.data += (size_t)b.length * b.element;
    }
    return TS_OK;
}
