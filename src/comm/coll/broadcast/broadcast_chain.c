/* SPDX-License-Identifier: Apache-2.0 */
/* From rank to rank in segments: while one is passed on, the next ones arrive.  That is a ring in
 * which the ranks that have nothing yet start with empty chunks. */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/coll/broadcast/broadcast.h"

ts_status ts_broadcast_chain(ts_team *t, int root, char *data, size_t bytes, int shares,
                             size_t segment)
{
    char **chunk = ts_calloc((size_t)t->size, sizeof *chunk);
    size_t *lengths = ts_calloc((size_t)t->size, sizeof *lengths);
    ts_ring ring = {chunk, lengths, .gather = true, .segment = segment, .full = root + 1};
    for (int v = 0; chunk && lengths && v < shares; v++) {
        ts_range share = ts_share_of((int64_t)bytes, shares, v, 1);
        chunk[(root + v) % t->size] = data + share.begin;
        lengths[(root + v) % t->size] = (size_t)(share.end - share.begin);
    }
    ts_status status = TS_OK;
    if (chunk && lengths)
        status = ts_ring_run(t, &ring);
    else
        status = ts_native_give_up(t->native, ts_fail_memory((size_t)t->size * 8, "a broadcast"));
    free(chunk);
    free(lengths);
    return status;
}
