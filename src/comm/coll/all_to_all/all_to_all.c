/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/coll/all_to_all/pairs.h"
#include "comm/group_impl.h"

ts_status ts_native_all_to_all(void *self, const ts_coll *coll) { return ts_pairs_run(self, coll); }

static bool overlap(const ts_tensor *a, const ts_tensor *b)
{
    return a->storage == b->storage && a->numel > 0 && b->numel > 0;
}

/* Others read the input while the output arrives. */
static void check_apart(ts_call *call, int size)
{
    if (call->coll.status != TS_OK) return;
    bool same = call->parts.whole && overlap(call->parts.whole, call->received.whole) &&
                call->parts.whole->offset == call->received.whole->offset;
    for (int i = 0; call->parts.list && i < size; i++)
        same |= call->parts.list[i] == call->received.list[i] && call->parts.list[i]->numel > 0;
    if (same)
        ts_call_fail(call, TS_EINVAL,
                     "input and output are the same memory; give it an output of its own");
}

ts_status ts_all_to_all_single(ts_group *group, ts_tensor *out, ts_tensor *in,
                               const int64_t *out_splits, const int64_t *in_splits, ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_ALL_TO_ALL, TS_CALLED, TS_CALL_SITE, work));
    ts_call *call = issue.call;
    ts_call_split(&issue, &call->parts, in, in_splits, TS_USE_READ);
    ts_call_split(&issue, &call->received, out, out_splits, TS_USE_WRITE);
    check_apart(call, issue.group->size);
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
    check_apart(call, issue.group->size);
    return ts_issue_end(&issue);
}
