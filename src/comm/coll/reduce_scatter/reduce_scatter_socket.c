/* SPDX-License-Identifier: Apache-2.0 */
/* Step by step every rank sends the others a piece of their parts and reduces what it gets. */
#include "comm/coll/reduce_scatter/reduce_scatter.h"
#include "kernels/combine.h"

enum { STEP_BYTES = 1024 * 1024 };

static ts_status one_step(ts_native *n, const ts_coll *coll, uint64_t i, char *scratch)
{
    size_t bytes = ts_piece_bytes(ts_part_bytes(coll, n->rank), i, STEP_BYTES), at = i * STEP_BYTES;
    ts_exchange exchange = ts_exchange_begin(n, coll);
    for (int q = 0; q < n->size; q++) {
        size_t theirs = ts_piece_bytes(ts_part_bytes(coll, q), i, STEP_BYTES);
        const char *part = (const char *)coll->parts[q].data;
        n->sources[q] = q == n->rank ? part + at : scratch + (size_t)q * STEP_BYTES;
        if (q == n->rank) continue;
        if (bytes > 0)
            ts_exchange_recv(&exchange, q, (uint32_t)i + 1, scratch + (size_t)q * STEP_BYTES,
                             bytes);
        if (theirs > 0) ts_exchange_send(&exchange, q, (uint32_t)i + 1, part + at, theirs);
    }
    TS_TRY(ts_exchange_wait(&exchange));
    if (bytes > 0)
        ts_combine((char *)coll->tensor.data + at, n->sources, n->size,
                   (int64_t)(bytes / ts_dtype_size(coll->dtype)), coll->dtype, coll->reduce);
    return TS_OK;
}

ts_status ts_reduce_scatter_socket(ts_native *n, const ts_coll *coll)
{
    size_t most = 0;
    TS_TRY(ts_native_agree(n, coll));
    for (int q = 0; q < n->size; q++)
        if (ts_part_bytes(coll, q) > most) most = ts_part_bytes(coll, q);
    char *scratch = ts_native_scratch(n, (size_t)n->size * STEP_BYTES);
    if (!scratch) return ts_native_give_up(n, TS_ENOMEM);
    for (uint64_t i = 0; i * STEP_BYTES < most; i++) TS_TRY(one_step(n, coll, i, scratch));
    return TS_OK;
}
