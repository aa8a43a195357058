/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/coll/all_to_all/pairs.h"
#include "comm/group_impl.h"

ts_status ts_native_scatter(void *self, const ts_coll *coll) { return ts_pairs_run(self, coll); }

ts_status ts_scatter(ts_group *group, ts_tensor *out, ts_tensor *const *in, int n, int src,
                     ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_SCATTER, TS_CALLED, TS_CALL_SITE, work));
    ts_call *call = issue.call;
    ts_call_root(call, issue.group, src);
    ts_call_tensor(call, out, TS_USE_WRITE);
    if (call->coll.root == issue.group->rank)
        ts_call_list(&issue, &call->parts, in, n, TS_USE_READ);
    else
        ts_call_no_list(call, in, n);
    return ts_issue_end(&issue);
}
