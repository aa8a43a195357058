/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/coll/all_reduce/all_reduce.h"

#include "comm/group_impl.h"

ts_status ts_all_reduce_local(ts_shm *s, const ts_coll *coll)
{
    size_t bytes = (size_t)coll->tensor.count * ts_dtype_size(coll->dtype);
    const ts_choice *choice = ts_choose(&s->selection, TS_COLL_ALL_REDUCE, bytes);
    bool flat = choice->algorithm == TS_ALGORITHM_FLAT && bytes <= TS_FLAT_BYTES;
    if (flat || bytes <= TS_INLINE_BYTES) /* what rides in the header leaves no room for a place */
        return ts_all_reduce_flat(s, coll);
    if (choice->algorithm != TS_ALGORITHM_PUSH) return ts_all_reduce_shm(s, coll, false);
    ts_status status = ts_all_reduce_shm(s, coll, true);
    return status == TS_OK ? TS_OK : ts_shm_detach(s, coll, status);
}

static ts_status pick(ts_native *n, const ts_coll *coll)
{
    if (coll->status != TS_OK) return ts_native_agree(n, coll);
    return n->shared ? ts_all_reduce_local(&n->shm, coll) : ts_all_reduce_hosts(n, coll);
}

ts_status ts_native_all_reduce(void *self, const ts_coll *coll)
{
    return ts_native_over(self, coll, pick(self, coll));
}

ts_status ts_all_reduce(ts_group *group, ts_tensor *tensor, ts_reduce_op op, ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_ALL_REDUCE, TS_CALLED, TS_CALL_SITE, work));
    ts_call_tensor(issue.call, tensor, TS_USE_WRITE);
    ts_call_reduce(issue.call, op);
    return ts_issue_end(&issue);
}

ts_status ts_all_reduce_premul(ts_group *group, ts_tensor *tensor, double factor, ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_ALL_REDUCE, TS_CALLED, TS_CALL_SITE, work));
    ts_call_tensor(issue.call, tensor, TS_USE_WRITE);
    ts_call_premul(issue.call, factor);
    return ts_issue_end(&issue);
}
