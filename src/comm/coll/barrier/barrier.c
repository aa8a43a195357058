/* SPDX-License-Identifier: Apache-2.0 */
/* A barrier is an agreement on nothing. */
#include "comm/backend/native/native.h"
#include "comm/group_impl.h"

ts_status ts_native_barrier(void *self, const ts_coll *coll)
{
    return ts_native_over(self, coll, ts_native_agree(self, coll));
}

ts_status ts_barrier(ts_group *group, ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, TS_COLL_BARRIER, TS_CALLED, TS_CALL_SITE, work));
    return ts_issue_end(&issue);
}
