/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/coll/reduce/reduce.h"

#include "comm/group_impl.h"

static ts_status pick(ts_native *n, const ts_coll *coll)
{
    if (coll->status != TS_OK) return ts_native_agree(n, coll);
    return n->shared ? ts_reduce_shm(&n->shm, coll) : ts_reduce_hosts(n, coll);
}

ts_status ts_native_reduce(void *self, const ts_coll *coll)
{
    return ts_native_over(self, coll, pick(self, coll));
}

/* The root, and the tensor with the use that it has there. */
static void check(ts_issue *issue, ts_tensor *tensor, int dst)
{
    ts_call_root(issue->call, issue->group, dst);
    bool root = issue->call->coll.root == issue->group->rank;
    ts_call_tensor(issue->call, tensor, root ? TS_USE_WRITE : TS_USE_READ);
}

ts_status ts_reduce(ts_group *group, ts_tensor *tensor, int dst, ts_reduce_op op, ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_REDUCE, TS_CALLED, TS_CALL_SITE, work));
    check(&issue, tensor, dst);
    ts_call_reduce(issue.call, op);
    return ts_issue_end(&issue);
}

ts_status ts_reduce_premul(ts_group *group, ts_tensor *tensor, int dst, double factor,
                           ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_REDUCE, TS_CALLED, TS_CALL_SITE, work));
    check(&issue, tensor, dst);
    ts_call_premul(issue.call, factor);
    return ts_issue_end(&issue);
}
