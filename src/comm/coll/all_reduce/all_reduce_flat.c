/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "comm/coll/all_reduce/all_reduce.h"
#include "kernels/combine.h"

ts_status ts_all_reduce_flat(ts_native *n, const ts_coll *coll)
{
    size_t bytes = (size_t)coll->tensor.count * ts_dtype_size(coll->dtype);
    if (bytes > 0) memcpy(ts_native_room(n, coll, bytes), coll->tensor.data, bytes);
    TS_TRY(ts_native_agree(n, coll));
    if (bytes == 0) return TS_OK;
    for (int q = 0; q < n->size; q++) n->sources[q] = ts_native_payload(n, coll, q, bytes);
    ts_combine(coll->tensor.data, n->sources, n->size, coll->tensor.count, coll->dtype,
               coll->reduce);
    return TS_OK;
}
