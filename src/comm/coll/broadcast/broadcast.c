/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/coll/broadcast/broadcast.h"

#include "comm/group_impl.h"

ts_status ts_broadcast_local(ts_shm *s, const ts_coll *coll)
{
    size_t bytes = ts_tensor_bytes_of(coll);
    const ts_choice *choice = ts_choose(&s->selection, TS_COLL_BROADCAST, bytes);
    if (choice->algorithm == TS_ALGORITHM_FLAT && bytes <= TS_FLAT_BYTES)
        return ts_broadcast_flat(s, coll);
    return ts_broadcast_shm(s, coll);
}

static ts_status pick(ts_native *n, const ts_coll *coll)
{
    if (coll->status != TS_OK) return ts_native_agree(n, coll);
    return n->shared ? ts_broadcast_local(&n->shm, coll) : ts_broadcast_hosts(n, coll);
}

ts_status ts_native_broadcast(void *self, const ts_coll *coll)
{
    return ts_native_over(self, coll, pick(self, coll));
}

ts_status ts_broadcast(ts_group *group, ts_tensor *tensor, int src, ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_BROADCAST, TS_CALLED, TS_CALL_SITE, work));
    ts_call_root(issue.call, issue.group, src);
    bool root = issue.call->coll.root == issue.group->rank;
    ts_call_tensor(issue.call, tensor, root ? TS_USE_READ : TS_USE_WRITE);
    return ts_issue_end(&issue);
}
