/* SPDX-License-Identifier: Apache-2.0 */
/* Binomial tree: counted from the root, rank v gets what v + 2^k has summed up, for k = 0, 1, ...,
 * until it hands its sum to v without its lowest bit. */
#include "comm/coll/reduce/reduce.h"

ts_status ts_reduce_tree(ts_team *t, int root, char *data, size_t bytes)
{
    int v = (t->rank - root + t->size) % t->size;
    char *scratch = ts_native_scratch(t->native, bytes);
    if (!scratch) return ts_native_give_up(t->native, TS_ENOMEM);
    for (int bit = 1; bit < t->size; bit *= 2) {
        int up = (t->rank - bit + t->size) % t->size, down = (t->rank + bit) % t->size;
        if (v & bit) return ts_team_swap(t, up, data, bytes, 0, NULL, 0);
        if (v + bit >= t->size) continue;
        TS_TRY(ts_team_swap(t, 0, NULL, 0, down, scratch, bytes));
        ts_team_combine(t, data, data, scratch, bytes);
    }
    ts_team_finish(t, data, bytes);
    return TS_OK;
}
