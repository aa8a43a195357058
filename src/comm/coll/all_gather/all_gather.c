/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/coll/all_gather/all_gather.h"

#include "comm/group_impl.h"

ts_status ts_all_gather_local(ts_shm *s, const ts_coll *coll)
{
    size_t most = 0; /* of any rank, which all know */
    for (int q = 0; q < s->size; q++)
        if (ts_gathered_bytes(coll, q) > most) most = ts_gathered_bytes(coll, q);
    const ts_choice *choice = ts_choose(&s->selection, TS_COLL_ALL_GATHER, most);
    if (choice->algorithm == TS_ALGORITHM_FLAT && most <= TS_FLAT_BYTES)
        return ts_all_gather_flat(s, coll, most);
    return ts_all_gather_shm(s, coll, most);
}

static ts_status pick(ts_native *n, const ts_coll *coll)
{
    if (coll->status != TS_OK) return ts_native_agree(n, coll);
    return n->shared ? ts_all_gather_local(&n->shm, coll) : ts_all_gather_hosts(n, coll);
}

ts_status ts_native_all_gather(void *self, const ts_coll *coll)
{
    return ts_native_over(self, coll, pick(self, coll));
}

ts_status ts_all_gather_into_tensor(ts_group *group, ts_tensor *out, ts_tensor *in, ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_ALL_GATHER, TS_CALLED, TS_CALL_SITE, work));
    ts_call_tensor(issue.call, in, TS_USE_READ);
    ts_call_whole(&issue, out, TS_USE_WRITE);
    return ts_issue_end(&issue);
}

ts_status ts_all_gather(ts_group *group, ts_tensor *const *out, int n, ts_tensor *in,
                        ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_ALL_GATHER, TS_CALLED, TS_CALL_SITE, work));
    ts_call_tensor(issue.call, in, TS_USE_READ);
    ts_call_list(&issue, &issue.call->parts, out, n, TS_USE_WRITE);
    return ts_issue_end(&issue);
}
