/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "comm/coll/all_reduce/all_reduce.h"
#include "kernels/combine.h"

ts_status ts_all_reduce_flat(ts_shm *s, const ts_coll *coll)
{
    size_t bytes = (size_t)coll->tensor.count * ts_dtype_size(coll->dtype);
    if (bytes > 0) memcpy(ts_shm_room(s, coll, bytes), coll->tensor.data, bytes);
    TS_TRY(ts_shm_agree(s, coll));
    if (bytes > 0) ts_all_reduce_slots(s, coll, bytes);
    return TS_OK;
}

void ts_all_reduce_slots(ts_shm *s, const ts_coll *coll, size_t bytes)
{
    for (int q = 0; q < s->size; q++)
        s->sources[q] = q == s->rank ? coll->tensor.data : ts_shm_payload(s, coll, q, bytes);
    ts_combine(coll->tensor.data, s->sources, s->size, coll->tensor.count, coll->dtype,
               coll->reduce);
}
