/* SPDX-License-Identifier: Apache-2.0 */
/* An all-gather of bytes in the order of a group's collectives. */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/group_impl.h"

static ts_status run(ts_group *group, ts_call *call, bool background)
{
    const ts_parcel *parcel = call->extra;
    ts_coll *coll = &call->coll;
    ts_buffer *parts = ts_calloc((size_t)group->size, sizeof *parts);
    if (!parts) ts_call_fail(call, TS_ENOMEM, "out of memory for a group");
    coll->dtype = TS_UINT8;
    coll->background = background;
    coll->tensor = (ts_buffer){NULL, 0, -1};
    if (coll->status == TS_OK) {
        coll->tensor = (ts_buffer){(void *)(uintptr_t)parcel->own, (int64_t)parcel->bytes, -1};
        for (int q = 0; q < group->size; q++)
            parts[q] = (ts_buffer){(char *)parcel->all + (size_t)q * parcel->bytes,
                                   (int64_t)parcel->bytes, -1};
        coll->parts = parts;
    }
    ts_status status = ts_coll_run(group, coll);
    if (coll->status != TS_OK) status = ts_fail_again(coll->status, coll->cause);
    free(parts);
    return status;
}

static void keep(void *parcel) { (void)parcel; }

ts_status ts_group_exchange(ts_group *parent, const char *what, ts_parcel *parcel, ts_status status,
                            const char *cause)
{
    ts_issue issue;
    if (atomic_load(&parent->coalescing))
        return ts_fail(TS_ESTATE, "%s: not while operations of group '%s' are being coalesced",
                       what, parent->name);
    TS_TRY(ts_issue_begin(&issue, parent, TS_COLL_ALL_GATHER, what, parcel->site, NULL));
    if (status != TS_OK) ts_call_fail(issue.call, status, "%s", cause ? cause : "");
    issue.call->run = run;
    issue.call->extra = parcel;
    issue.call->extra_free = keep;
    return ts_issue_end(&issue);
}
