/* SPDX-License-Identifier: Apache-2.0 */
/* Rank r gets piece r of every rank, all at once, and reduces them in the order of ranks. */
#include "comm/coll/reduce_scatter/reduce_scatter.h"
#include "kernels/combine.h"

ts_status ts_reduce_scatter_direct(ts_team *t, char *const *piece, const size_t *bytes, char *out)
{
    const void **sources = t->native->sources;
    size_t own = bytes[t->rank];
    char *scratch = ts_native_scratch(t->native, (size_t)t->size * own + 1);
    if (!scratch) return ts_native_give_up(t->native, TS_ENOMEM);
    ts_exchange e = ts_exchange_begin(t->native, t->coll);
    for (int q = 0; q < t->size; q++) {
        sources[q] = q == t->rank ? piece[q] : scratch + (size_t)q * own;
        if (q != t->rank) ts_team_recv(&e, t, q, scratch + (size_t)q * own, own);
    }
    for (int i = 1; i < t->size; i++) {
        int q = (t->rank + i) % t->size;
        ts_team_send(&e, t, q, piece[q], bytes[q]);
    }
    TS_TRY(ts_exchange_wait(&e));
    if (own == 0) return TS_OK;
    ts_combine(out, sources, t->size, (int64_t)(own / ts_dtype_size(t->coll->dtype)),
               t->coll->dtype, ts_partial_op(t->coll));
    ts_team_finish(t, out, own);
    return TS_OK;
}
