/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/coll/reduce_scatter/reduce_scatter.h"

#include "comm/group_impl.h"

ts_status ts_reduce_scatter_local(ts_shm *s, const ts_coll *coll)
{
    size_t total = 0;
    for (int q = 0; q < s->size; q++) total += ts_part_bytes(coll, q);
    const ts_choice *choice = ts_choose(&s->selection, TS_COLL_REDUCE_SCATTER, total);
    if (choice->algorithm == TS_ALGORITHM_FLAT && total <= TS_FLAT_BYTES)
        return ts_reduce_scatter_flat(s, coll);
    return ts_reduce_scatter_shm(s, coll);
}

static ts_status pick(ts_native *n, const ts_coll *coll)
{
    if (coll->status != TS_OK) return ts_native_agree(n, coll);
    return n->shared ? ts_reduce_scatter_local(&n->shm, coll) : ts_reduce_scatter_hosts(n, coll);
}

ts_status ts_native_reduce_scatter(void *self, const ts_coll *coll)
{
    return ts_native_over(self, coll, pick(self, coll));
}

ts_status ts_reduce_scatter_tensor(ts_group *group, ts_tensor *out, ts_tensor *in, ts_reduce_op op,
                                   ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_REDUCE_SCATTER, TS_CALLED, TS_CALL_SITE, work));
    ts_call_tensor(issue.call, out, TS_USE_WRITE);
    ts_call_whole(&issue, in, TS_USE_READ);
    ts_call_reduce(issue.call, op);
    return ts_issue_end(&issue);
}

ts_status ts_reduce_scatter(ts_group *group, ts_tensor *out, ts_tensor *const *in, int n,
                            ts_reduce_op op, ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_REDUCE_SCATTER, TS_CALLED, TS_CALL_SITE, work));
    ts_call_tensor(issue.call, out, TS_USE_WRITE);
    ts_call_list(&issue, &issue.call->parts, in, n, TS_USE_READ);
    ts_call_reduce(issue.call, op);
    return ts_issue_end(&issue);
}

ts_status ts_reduce_scatter_tensor_premul(ts_group *group, ts_tensor *out, ts_tensor *in,
                                          double factor, ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_REDUCE_SCATTER, TS_CALLED, TS_CALL_SITE, work));
    ts_call_tensor(issue.call, out, TS_USE_WRITE);
    ts_call_whole(&issue, in, TS_USE_READ);
    ts_call_premul(issue.call, factor);
    return ts_issue_end(&issue);
}
