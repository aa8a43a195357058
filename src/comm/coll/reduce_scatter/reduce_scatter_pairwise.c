/* SPDX-License-Identifier: Apache-2.0 */
/* In step s rank r exchanges with the ranks r + s and r - s, and adds what it gets.  Sums start with
 * the own piece and go down the ranks, round and round. */
#include "comm/coll/reduce_scatter/reduce_scatter.h"

#include <string.h>

ts_status ts_reduce_scatter_pairwise(ts_team *t, char *const *piece, const size_t *bytes, char *out)
{
    size_t own = bytes[t->rank];
    char *scratch = ts_native_scratch(t->native, own + 1);
    if (!scratch) return ts_native_give_up(t->native, TS_ENOMEM);
    if (own > 0 && out != piece[t->rank]) memcpy(out, piece[t->rank], own);
    for (int i = 1; i < t->size; i++) {
        int to = (t->rank + i) % t->size, from = (t->rank + t->size - i) % t->size;
        TS_TRY(ts_team_swap(t, to, piece[to], bytes[to], from, scratch, own));
        if (own > 0) ts_team_combine(t, out, out, scratch, own);
    }
    if (own > 0) ts_team_finish(t, out, own);
    return TS_OK;
}
