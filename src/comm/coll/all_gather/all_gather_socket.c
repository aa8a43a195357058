/* SPDX-License-Identifier: Apache-2.0 */
/* Everyone sends to everyone. */
#include "comm/coll/all_gather/all_gather.h"

ts_status ts_all_gather_socket(ts_native *n, const ts_coll *coll)
{
    TS_TRY(ts_native_agree(n, coll));
    ts_exchange exchange = ts_exchange_begin(n, coll);
    for (int q = 0; q < n->size; q++) {
        if (q == n->rank) continue;
        ts_exchange_recv(&exchange, q, 1, coll->parts[q].data, ts_gathered_bytes(coll, q));
        ts_exchange_send(&exchange, q, 1, coll->tensor.data, ts_gathered_bytes(coll, n->rank));
    }
    ts_all_gather_keep(coll, n->rank);
    return ts_exchange_wait(&exchange);
}
