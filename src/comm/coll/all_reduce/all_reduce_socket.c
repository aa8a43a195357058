/* SPDX-License-Identifier: Apache-2.0 */
/* Block by block: rank r gets share r of all ranks, reduces it in the order of ranks, and sends the
 * result to all.  The same bits as in shared memory. */
#include "comm/coll/all_reduce/all_reduce.h"
#include "kernels/combine.h"

enum { BLOCK_BYTES = 4 * 1024 * 1024 };

typedef struct block {
    ts_native *n;
    const ts_coll *coll;
    char *data;
    int64_t length;
    size_t element;
    uint32_t step;
} block;

static size_t share_bytes(const block *b, int q)
{
    ts_range share = ts_share_of(b->length, b->n->size, q, b->element);
    return (size_t)(share.end - share.begin) * b->element;
}

static char *share_of(const block *b, int q)
{
    return b->data + (size_t)ts_share_of(b->length, b->n->size, q, b->element).begin * b->element;
}

static ts_status reduce_own(const block *b, char *scratch)
{
    ts_native *n = b->n;
    size_t own = share_bytes(b, n->rank);
    ts_exchange exchange = ts_exchange_begin(n, b->coll);
    for (int q = 0; q < n->size; q++) {
        n->sources[q] = q == n->rank ? share_of(b, q) : scratch + (size_t)q * own;
        if (q == n->rank) continue;
        ts_exchange_recv(&exchange, q, b->step, scratch + (size_t)q * own, own);
        ts_exchange_send(&exchange, q, b->step, share_of(b, q), share_bytes(b, q));
    }
    TS_TRY(ts_exchange_wait(&exchange));
    ts_combine(share_of(b, n->rank), n->sources, n->size, (int64_t)(own / b->element),
               b->coll->dtype, b->coll->reduce);
    return TS_OK;
}

static ts_status spread(const block *b)
{
    ts_native *n = b->n;
    ts_exchange exchange = ts_exchange_begin(n, b->coll);
    for (int q = 0; q < n->size; q++) {
        if (q == n->rank) continue;
        ts_exchange_recv(&exchange, q, b->step + 1, share_of(b, q), share_bytes(b, q));
        ts_exchange_send(&exchange, q, b->step + 1, share_of(b, n->rank), share_bytes(b, n->rank));
    }
    return ts_exchange_wait(&exchange);
}

ts_status ts_all_reduce_socket(ts_native *n, const ts_coll *coll)
{
    block b = {.n = n, .coll = coll, .element = ts_dtype_size(coll->dtype), .step = 1};
    int64_t most = BLOCK_BYTES / (int64_t)b.element, left = coll->tensor.count;
    TS_TRY(ts_native_agree(n, coll));
    b.data = coll->tensor.data;
    for (; left > 0; left -= b.length, b.step += 2) {
        b.length = left < most ? left : most;
        char *scratch = ts_native_scratch(n, (size_t)n->size * (share_bytes(&b, 0) + 1));
        if (!scratch) return ts_native_give_up(n, TS_ENOMEM);
        TS_TRY(reduce_own(&b, scratch));
        TS_TRY(spread(&b));
        b.data += (size_t)b.length * b.element;
    }
    return TS_OK;
}
