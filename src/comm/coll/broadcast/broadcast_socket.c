/* SPDX-License-Identifier: Apache-2.0 */
/* The root sends to everyone. */
#include "comm/coll/broadcast/broadcast.h"

ts_status ts_broadcast_socket(ts_native *n, const ts_coll *coll)
{
    size_t bytes = ts_tensor_bytes_of(coll);
    TS_TRY(ts_native_agree(n, coll));
    ts_exchange exchange = ts_exchange_begin(n, coll);
    if (n->rank != coll->root)
        ts_exchange_recv(&exchange, coll->root, 1, coll->tensor.data, bytes);
    else
        for (int q = 0; q < n->size; q++)
            if (q != n->rank) ts_exchange_send(&exchange, q, 1, coll->tensor.data, bytes);
    return ts_exchange_wait(&exchange);
}
