/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/coll/all_to_all/pairs.h"
#include "comm/group_impl.h"

ts_status ts_native_gather(void *self, const ts_coll *coll) { return ts_pairs_run(self, coll); }

ts_status ts_gather(ts_group *group, ts_tensor *in, ts_tensor *const *out, int n, int dst,
                    ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_GATHER, TS_CALLED, TS_CALL_SITE, work));
    ts_call *call = issue.call;
    ts_call_root(call, issue.group, dst);
    ts_call_tensor(call, in, TS_USE_READ);
    if (call->coll.root == issue.group->rank)
        ts_call_list(&issue, &call->parts, out, n, TS_USE_WRITE);
    else
        ts_call_no_list(call, out, n);
    return ts_issue_end(&issue);
}
