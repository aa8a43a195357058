/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "comm/coll/reduce_scatter/reduce_scatter.h"
#include "kernels/combine.h"

ts_status ts_reduce_scatter_flat(ts_shm *s, const ts_coll *coll)
{
    size_t total = 0, before = 0;
    for (int q = 0; q < s->size; q++) {
        if (q == s->rank) before = total;
        total += ts_part_bytes(coll, q);
    }
    char *room = ts_shm_room(s, coll, total);
    for (int q = 0; q < s->size; q++) {
        size_t bytes = ts_part_bytes(coll, q);
        if (bytes > 0) memcpy(room, coll->parts[q].data, bytes);
        room += bytes;
    }
    TS_TRY(ts_shm_agree(s, coll));
    if (coll->tensor.count == 0) return TS_OK;
    for (int q = 0; q < s->size; q++)
        s->sources[q] = (const char *)ts_shm_payload(s, coll, q, total) + before;
    ts_combine(coll->tensor.data, s->sources, s->size, coll->tensor.count, coll->dtype,
               coll->reduce);
    return TS_OK;
}
