/* SPDX-License-Identifier: Apache-2.0 */
/* Everyone sends its chunk to everyone, all at once. */
#include "comm/coll/all_gather/all_gather.h"

ts_status ts_all_gather_direct(ts_team *t, char *const *chunk, const size_t *bytes)
{
    ts_exchange e = ts_exchange_begin(t->native, t->coll);
    for (int i = 1; i < t->size; i++) {
        int from = (t->rank + t->size - i) % t->size;
        ts_team_recv(&e, t, from, chunk[from], bytes[from]);
        ts_team_send(&e, t, (t->rank + i) % t->size, chunk[t->rank], bytes[t->rank]);
    }
    return ts_exchange_wait(&e);
}
