/* SPDX-License-Identifier: Apache-2.0 */
/* Binomial tree: counted from the root, rank v gets the data from v without its lowest bit, and
 * hands it to v + 2^k for all smaller 2^k, the largest first. */
#include "comm/coll/broadcast/broadcast.h"

ts_status ts_broadcast_tree(ts_team *t, int root, char *data, size_t bytes)
{
    int v = (t->rank - root + t->size) % t->size, bit = 1;
    while (bit < t->size && !(v & bit)) bit *= 2;
    if (v > 0)
        TS_TRY(ts_team_swap(t, 0, NULL, 0, (t->rank - bit + t->size) % t->size, data, bytes));
    ts_exchange e = ts_exchange_begin(t->native, t->coll);
    while ((bit /= 2) > 0)
        if (v + bit < t->size) ts_team_send(&e, t, (t->rank + bit) % t->size, data, bytes);
    return ts_exchange_wait(&e);
}
