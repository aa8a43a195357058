/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/init_barrier.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"

enum { SLICE_MS = 10000 };

static ts_status wait_for_last(const ts_group *group, const char *key, const char *last)
{
    int64_t joined = 0, slice = SLICE_MS + group->size, limit = group->timeout_ms;
    ts_deadline deadline = ts_deadline_in(limit);
    for (;;) {
        int left = ts_deadline_left_ms(deadline);
        ts_status status =
            ts_store_wait(group->store, &last, 1, left > 0 && left < slice ? left : slice);
        if (status != TS_ETIMEOUT) return status;
        TS_TRY(ts_store_add(group->store, key, 0, &joined));
        if (ts_deadline_passed(deadline)) break;
        TS_LOG(TS_LOG_COMM, TS_LEVEL_INFO, "group '%s': %lld of %d ranks are in the barrier",
               group->name, (long long)joined, group->size);
    }
    return ts_fail(TS_ESTORE,
                   "group '%s': %lld of %d ranks have come to the barrier of its start within %lld "
                   "ms",
                   group->name, (long long)joined, group->size, (long long)limit);
}

ts_status ts_init_barrier(const ts_group *group)
{
    static const char *const names[] = {"TS_DIST_INIT_BARRIER", "TORCH_DIST_INIT_BARRIER", NULL};
    char key[160], last[200];
    bool wanted = false, found;
    int64_t joined;
    TS_TRY(ts_env_bool(&wanted, &found, names, NULL));
    if (!wanted || group->size == 1 || !group->store) return TS_OK;
    snprintf(key, sizeof key, "store_based_barrier_key:%.100s", group->name);
    snprintf(last, sizeof last, "%s:last_worker", key);
    TS_TRY(ts_store_add(group->store, key, 1, &joined));
    if (joined == group->size) TS_TRY(ts_store_set(group->store, last, "1", 1));
    return wait_for_last(group, key, last);
}
