/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive doubling: in step k pairs at distance 2^k exchange all they have and reduce it.  Both
 * sides reduce in the order of ranks, so they get the same bits.
 * (Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA
 * 19, 2005.) */
#include "comm/coll/all_reduce/all_reduce.h"

ts_status ts_all_reduce_doubling(ts_team *t, char *data, size_t bytes)
{
    ts_fold f = ts_fold_of(t);
    char *scratch = ts_native_scratch(t->native, bytes);
    if (!scratch) return ts_native_give_up(t->native, TS_ENOMEM);
    TS_TRY(ts_fold_in(t, &f, data, scratch, bytes));
    for (int distance = 1; distance < f.size && f.place >= 0; distance *= 2) {
        int place = f.place ^ distance, peer = ts_fold_rank(&f, place);
        TS_TRY(ts_team_swap(t, peer, data, bytes, peer, scratch, bytes));
        ts_team_combine(t, data, place < f.place ? scratch : data, place < f.place ? data : scratch,
                        bytes);
    }
    if (f.place >= 0) ts_team_finish(t, data, bytes);
    return ts_fold_out(t, &f, data, bytes);
}
