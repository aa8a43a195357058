/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/coll/all_to_all/pairs.h"
#include "comm/group_impl.h"

ts_status ts_native_all_to_all(void *self, const ts_coll *coll) { return ts_pairs_run(self, coll); }

ts_status ts_all_to_all_single(ts_group *group, ts_tensor *out, ts_tensor *in,
                               const int64_t *out_splits, const int64_t *in_splits, ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_ALL_TO_ALL, TS_CALLED, TS_CALL_SITE, work));
    ts_call *call = issue.call;
    ts_call_split(&issue, &call->parts, in, in_splits, TS_USE_READ);
    ts_call_split(&issue, &call->received, out, out_splits, TS_USE_WRITE);
    return ts_issue_end(&issue);
}

ts_status ts_all_to_all(ts_group *group, ts_tensor *const *out, ts_tensor *const *in, int n,
                        ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_ALL_TO_ALL, TS_CALLED, TS_CALL_SITE, work));
    ts_call *call = issue.call;
    ts_call_list(&issue, &call->parts, in, n, TS_USE_READ);
    ts_call_list(&issue, &call->received, out, n, TS_USE_WRITE);
    return ts_issue_end(&issue);
}
