/* SPDX-License-Identifier: Apache-2.0 */
/* A ring that sums up, then gathers (ring.c).  Long data goes round in blocks, so that segments and
 * what they touch stay in the cache. */
#include "base/memory.h"
#include "comm/coll/all_reduce/all_reduce.h"

#include <stdlib.h>

enum { CHUNK_BYTES = 1024 * 1024 };

static ts_status one_block(ts_team *t, ts_ring *ring, char **chunk, size_t *bytes, char *data,
                           size_t length)
{
    size_t element = ts_dtype_size(t->coll->dtype);
    for (int q = 0; q < t->size; q++) {
        ts_range share = ts_share_of((int64_t)(length / element), t->size, q, element);
        chunk[q] = data + (size_t)share.begin * element;
        bytes[q] = (size_t)(share.end - share.begin) * element;
    }
    return ts_ring_run(t, ring);
}

ts_status ts_all_reduce_ring(ts_team *t, char *data, size_t bytes, size_t segment)
{
    size_t size = (size_t)t->size, block = size * CHUNK_BYTES;
    char **chunk = ts_calloc(size, sizeof *chunk);
    size_t *lengths = ts_calloc(size, sizeof *lengths);
    ts_ring ring = {chunk, lengths, .sum = true, .gather = true, .segment = segment};
    ts_status status = chunk && lengths ? TS_OK : TS_ENOMEM;
    if (status != TS_OK) status = ts_native_give_up(t->native, ts_fail_memory(size * 8, "a ring"));
    for (size_t at = 0; at < bytes && status == TS_OK; at += block)
        status =
            one_block(t, &ring, chunk, lengths, data + at, bytes - at < block ? bytes - at : block);
    free(chunk);
    free(lengths);
    return status;
}
