/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/coll/reduce/reduce.h"
#include "kernels/combine.h"

enum { STEP_BYTES = 1024 * 1024 };

static ts_status one_step(ts_native *n, const ts_coll *coll, uint32_t i, size_t bytes,
                          char *scratch)
{
    size_t length = bytes - (size_t)i * STEP_BYTES;
    char *own = (char *)coll->tensor.data + (size_t)i * STEP_BYTES;
    ts_exchange exchange = ts_exchange_begin(n, coll);
    if (length > STEP_BYTES) length = STEP_BYTES;
    if (n->rank != coll->root) {
        ts_exchange_send(&exchange, coll->root, i + 1, own, length);
        return ts_exchange_wait(&exchange);
    }
    for (int q = 0; q < n->size; q++) {
        n->sources[q] = q == n->rank ? own : scratch + (size_t)q * STEP_BYTES;
        if (q != n->rank)
            ts_exchange_recv(&exchange, q, i + 1, scratch + (size_t)q * STEP_BYTES, length);
    }
    TS_TRY(ts_exchange_wait(&exchange));
    ts_combine(own, n->sources, n->size, (int64_t)(length / ts_dtype_size(coll->dtype)),
               coll->dtype, coll->reduce);
    return TS_OK;
}

ts_status ts_reduce_socket(ts_native *n, const ts_coll *coll)
{
    size_t bytes = (size_t)coll->tensor.count * ts_dtype_size(coll->dtype);
    char *scratch = NULL;
    TS_TRY(ts_native_agree(n, coll));
    if (n->rank == coll->root && bytes > 0) {
        scratch = ts_native_scratch(n, (size_t)n->size * STEP_BYTES);
        if (!scratch) return ts_native_give_up(n, TS_ENOMEM);
    }
    for (uint32_t i = 0; (size_t)i * STEP_BYTES < bytes; i++)
        TS_TRY(one_step(n, coll, i, bytes, scratch));
    return TS_OK;
}
