/* SPDX-License-Identifier: Apache-2.0 */
/* Every rank sends every other what is for it, all at once. */
#include <string.h>

#include "comm/coll/all_to_all/pairs.h"

ts_status ts_pairs_socket(ts_native *n, const ts_coll *coll)
{
    size_t element = ts_dtype_size(coll->dtype);
    TS_TRY(ts_native_agree(n, coll));
    ts_exchange exchange = ts_exchange_begin(n, coll);
    for (int q = 0; q < n->size; q++) {
        ts_buffer given = ts_pairs_given(coll, n->rank, q);
        ts_buffer taken = ts_pairs_taken(coll, n->rank, q);
        if (q == n->rank) continue;
        if (taken.count > 0)
            ts_exchange_recv(&exchange, q, 1, taken.data, (size_t)taken.count * element);
        if (given.count > 0)
            ts_exchange_send(&exchange, q, 1, given.data, (size_t)given.count * element);
    }
    ts_pairs_keep_own(coll, n->rank);
    return ts_exchange_wait(&exchange);
}
