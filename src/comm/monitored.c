/* SPDX-License-Identifier: Apache-2.0 */
/* A barrier over messages that tells who is missing.  Every rank tells rank 0 that it has arrived;
 * rank 0 tells every rank how it ended.  Both messages carry the number of the barrier: what came
 * too late for an earlier one is read and dropped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/group_impl.h"

enum { GRACE_MS = 2000 };

typedef struct verdict {
    uint64_t round;
    int32_t status, reserved;
    char text[240];
} verdict;

static ts_status transfer(ts_group *group, int peer, int tag, void *data, size_t bytes,
                          bool sending, ts_deadline deadline)
{
    void *request;
    int from, left = ts_deadline_left_ms(deadline);
    ts_p2p message = {.sending = sending,
                      .peer = peer,
                      .tag = tag,
                      .data = data,
                      .bytes = bytes,
                      .shared_offset = -1};
    TS_TRY(ts_group_start(group, &request, &message));
    /* What is there already is taken even when the time is over. */
    return ts_group_wait(group, request, left < 0 ? 0 : left > 0 ? left : 1, &from);
}

/* ---- rank 0 ---------------------------------------------------------------------------------- */

static ts_status await_arrival(ts_group *group, int peer, uint64_t round, ts_deadline deadline)
{
    uint64_t arrived = 0;
    while (arrived < round)
        TS_TRY(transfer(group, peer, TS_TAG_ARRIVED, &arrived, sizeof arrived, false, deadline));
    return TS_OK;
}

/* Fills the list of those who have not come; the first failure of another kind ends it. */
static ts_status collect(ts_group *group, uint64_t round, ts_deadline deadline, bool all,
                         char *missing, size_t size)
{
    size_t used = 0;
    missing[0] = '\0';
    for (int q = 1; q < group->size; q++) {
        ts_status status = await_arrival(group, q, round, deadline);
        if (status == TS_OK) continue;
        if (status != TS_ETIMEOUT) return status;
        if (used < size)
            used += (size_t)snprintf(missing + used, size - used, "%s%d", used ? ", " : "",
                                     ts_group_global(group, q));
        if (!all) break;
    }
    return TS_OK;
}

/* To those who are missing too: they learn it when they come. */
static ts_status release_all(ts_group *group, verdict *v)
{
    ts_status first = TS_OK;
    void **request = ts_calloc((size_t)group->size, sizeof *request);
    if (!request) return ts_fail_memory((size_t)group->size * sizeof *request, "a barrier");
    for (int q = 1; q < group->size; q++) {
        ts_p2p message = {.sending = true,
                          .peer = q,
                          .tag = TS_TAG_RELEASED,
                          .data = v,
                          .bytes = sizeof *v,
                          .shared_offset = -1};
        ts_status status = ts_group_start(group, &request[q], &message);
        if (status != TS_OK) request[q] = NULL;
        if (first == TS_OK) first = status;
    }
    for (int q = 1; q < group->size; q++) {
        ts_status status = request[q] ? ts_group_wait(group, request[q], GRACE_MS, NULL) : TS_OK;
        if (first == TS_OK) first = status;
    }
    free(request);
    return first;
}

static ts_status lead(ts_group *group, uint64_t round, int64_t timeout_ms, bool all)
{
    char missing[512];
    verdict v = {.round = round};
    ts_status status =
        collect(group, round, ts_deadline_in(timeout_ms), all, missing, sizeof missing);
    if (status == TS_OK && missing[0])
        status = ts_fail(TS_ETIMEOUT,
                         "monitored_barrier: rank%s %s of group '%s' did not come within %lld ms%s",
                         strchr(missing, ',') ? "s" : "", missing, group->name,
                         (long long)timeout_ms, all ? "" : " (wait_all_ranks names all)");
    if (status == TS_OK) return release_all(group, &v);
    char *text = ts_strdup(ts_error_last());
    v.status = status;
    snprintf(v.text, sizeof v.text, "%s", ts_error_last());
    release_all(group, &v);
    ts_fail_again(status, text ? text : ts_status_text(status));
    free(text);
    return status;
}

/* ---- the others ------------------------------------------------------------------------------ */

static ts_status follow(ts_group *group, uint64_t round, int64_t timeout_ms)
{
    verdict v = {.round = 0};
    ts_deadline deadline = ts_deadline_in(timeout_ms ? timeout_ms + GRACE_MS : 0);
    TS_TRY(transfer(group, 0, TS_TAG_ARRIVED, &round, sizeof round, true, deadline));
    while (v.round < round) {
        ts_status status = transfer(group, 0, TS_TAG_RELEASED, &v, sizeof v, false, deadline);
        if (status == TS_ETIMEOUT)
            return ts_fail(
                TS_ETIMEOUT,
                "monitored_barrier: rank %d of group '%s', which lets the others go, has "
                "not answered within %lld ms",
                ts_group_global(group, 0), group->name, (long long)(timeout_ms + GRACE_MS));
        if (status != TS_OK) return status;
    }
    v.text[sizeof v.text - 1] = '\0';
    return v.status == TS_OK ? TS_OK : ts_fail(TS_EREMOTE, "rank 0: %s", v.text);
}

ts_status ts_monitored_barrier(ts_group *group, int64_t timeout_ms, bool wait_all_ranks)
{
    TS_TRY(ts_group_find(&group, group, "monitored_barrier"));
    if (timeout_ms < 0)
        return ts_fail(TS_EINVAL, "monitored_barrier: the limit of %lld ms is negative",
                       (long long)timeout_ms);
    if (group->size == 1) return TS_OK;
    if (!group->ops->start)
        return ts_fail(TS_EUNSUPPORTED, "monitored_barrier: backend '%s' does not offer messages",
                       group->ops->name);
    if (timeout_ms == 0) timeout_ms = atomic_load(&group->timeout_ms);
    uint64_t round = atomic_fetch_add(&group->monitored, 1) + 1;
    return group->rank == 0 ? lead(group, round, timeout_ms, wait_all_ranks)
                            : follow(group, round, timeout_ms);
}
