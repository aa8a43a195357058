/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/coll/reduce_scatter/reduce_scatter.h"

#include <string.h>

#include "comm/group_impl.h"
#include "kernels/combine.h"

ts_status ts_reduce_scatter_flat(ts_native *n, const ts_coll *coll)
{
    size_t total = 0, before = 0;
    for (int q = 0; q < n->size; q++) {
        if (q == n->rank) before = total;
        total += ts_part_bytes(coll, q);
    }
    char *room = ts_native_room(n, coll, total);
    for (int q = 0; q < n->size; q++) {
        size_t bytes = ts_part_bytes(coll, q);
        if (bytes > 0) memcpy(room, coll->parts[q].data, bytes);
        room += bytes;
    }
    TS_TRY(ts_native_agree(n, coll));
    if (coll->tensor.count == 0) return TS_OK;
    for (int q = 0; q < n->size; q++)
        n->sources[q] = (const char *)ts_native_payload(n, coll, q, total) + before;
    ts_combine(coll->tensor.data, n->sources, n->size, coll->tensor.count, coll->dtype,
               coll->reduce);
    return TS_OK;
}

static ts_status pick(ts_native *n, const ts_coll *coll)
{
    size_t total = 0;
    if (coll->status != TS_OK) return ts_native_agree(n, coll);
    for (int q = 0; q < n->size; q++) total += ts_part_bytes(coll, q);
    if (total <= TS_INLINE_BYTES) return ts_reduce_scatter_flat(n, coll);
    if (!n->shared) return ts_reduce_scatter_socket(n, coll);
    return total <= TS_FLAT_BYTES ? ts_reduce_scatter_flat(n, coll)
                                  : ts_reduce_scatter_shm(n, coll);
}

ts_status ts_native_reduce_scatter(void *self, const ts_coll *coll)
{
    return ts_native_over(self, coll, pick(self, coll));
}

ts_status ts_reduce_scatter_tensor(ts_group *group, ts_tensor *out, ts_tensor *in, ts_reduce_op op,
                                   ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_REDUCE_SCATTER, work));
    ts_call_tensor(issue.call, out, TS_USE_WRITE);
    ts_call_reduce(issue.call, op);
    ts_call_whole(&issue, in, TS_USE_READ);
    return ts_issue_end(&issue);
}

ts_status ts_reduce_scatter(ts_group *group, ts_tensor *out, ts_tensor *const *in, int n,
                            ts_reduce_op op, ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_REDUCE_SCATTER, work));
    ts_call_tensor(issue.call, out, TS_USE_WRITE);
    ts_call_reduce(issue.call, op);
    ts_call_list(&issue, in, n, TS_USE_READ);
    return ts_issue_end(&issue);
}
