/* SPDX-License-Identifier: Apache-2.0 */
/* The root gets everyone's data at once and reduces it in the order of ranks. */
#include "comm/coll/reduce/reduce.h"
#include "kernels/combine.h"

ts_status ts_reduce_direct(ts_team *t, int root, char *data, size_t bytes)
{
    const void **sources = t->native->sources;
    if (t->rank != root) return ts_team_swap(t, root, data, bytes, 0, NULL, 0);
    char *scratch = ts_native_scratch(t->native, (size_t)t->size * bytes);
    if (!scratch) return ts_native_give_up(t->native, TS_ENOMEM);
    ts_exchange e = ts_exchange_begin(t->native, t->coll);
    for (int q = 0; q < t->size; q++) {
        sources[q] = q == root ? data : scratch + (size_t)q * bytes;
        if (q != root) ts_team_recv(&e, t, q, scratch + (size_t)q * bytes, bytes);
    }
    TS_TRY(ts_exchange_wait(&e));
    ts_combine(data, sources, t->size, (int64_t)(bytes / ts_dtype_size(t->coll->dtype)),
               t->coll->dtype, ts_partial_op(t->coll));
    ts_team_finish(t, data, bytes);
    return TS_OK;
}
