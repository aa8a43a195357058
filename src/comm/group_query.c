/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about groups. */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "comm/group_plan.h"

/* Ends like an ordinary one that is never used. */
static ts_group not_member = {.rank = -1, .size = -1, .name = (char[]){""}};

ts_group *ts_group_not_member(void) { return &not_member; }

static const ts_group *known(const ts_group *group) { return group ? group : ts_default_group(); }

int ts_group_rank(const ts_group *group)
{
    group = known(group);
    return group ? group->rank : -1;
}

int ts_group_size(const ts_group *group)
{
    group = known(group);
    return group ? group->size : -1;
}

const char *ts_group_backend(const ts_group *group)
{
    group = known(group);
    return group && group->ops ? group->ops->name : "";
}

unsigned ts_group_capabilities(const ts_group *group)
{
    group = known(group);
    return group && group->ops ? group->ops->capabilities : 0;
}

const char *ts_group_name(const ts_group *group)
{
    group = known(group);
    return group ? group->name : "";
}

int64_t ts_group_timeout(const ts_group *group)
{
    group = known(group);
    return group ? atomic_load(&group->timeout_ms) : 0;
}

ts_status ts_group_set_timeout(ts_group *group, int64_t timeout_ms)
{
    TS_TRY(ts_group_find(&group, group, "group_set_timeout"));
    if (timeout_ms < 0)
        return ts_fail(TS_EINVAL, "group_set_timeout: %lld ms is negative", (long long)timeout_ms);
    atomic_store(&group->timeout_ms, timeout_ms);
    return TS_OK;
}

uint64_t ts_group_sequence(const ts_group *group)
{
    group = known(group);
    return group ? atomic_load(&group->issued) : 0;
}

bool ts_is_member(const ts_group *group)
{
    group = known(group);
    return group && group != &not_member;
}

const char *ts_group_description(const ts_group *group)
{
    group = known(group);
    if (!group) return "";
    return group->description ? group->description : group == &not_member ? "" : "default_pg";
}

const char *ts_group_backend_config(const ts_group *group)
{
    group = known(group);
    return group ? group->config : "";
}

const char *ts_group_device(const ts_group *group)
{
    group = known(group);
    return group && group->device ? group->device : "";
}

ts_status ts_group_set_device(ts_group *group, const char *device)
{
    TS_TRY(ts_group_find(&group, group, "group_set_device"));
    TS_TRY(ts_device_check(device));
    char *copy = device ? ts_strdup(device) : NULL;
    if (device && !copy) return ts_fail_memory(8, "a group");
    free(group->device);
    group->device = copy;
    return TS_OK;
}

int ts_group_ranks(const ts_group *group, int *ranks, int room)
{
    group = known(group);
    if (!group) return -1;
    for (int i = 0; ranks && i < group->size && i < room; i++) ranks[i] = ts_group_global(group, i);
    return group->size;
}

ts_status ts_group_rank_of(int *out, ts_group *group, int global_rank)
{
    TS_TRY(ts_group_find(&group, group, "group_rank_of"));
    int rank = global_rank < 0 ? -1 : ts_group_local(group, global_rank);
    if (rank < 0)
        return ts_fail(TS_EINVAL, "group_rank_of: rank %d is not in group '%s' of %d ranks",
                       global_rank, group->name, group->size);
    *out = rank;
    return TS_OK;
}

ts_status ts_global_rank_of(int *out, ts_group *group, int group_rank)
{
    TS_TRY(ts_group_find(&group, group, "global_rank_of"));
    if (group_rank < 0 || group_rank >= group->size)
        return ts_fail(TS_EINVAL, "global_rank_of: rank %d of group '%s' is not in 0 .. %d",
                       group_rank, group->name, group->size - 1);
    *out = ts_group_global(group, group_rank);
    return TS_OK;
}

ts_status ts_group_store(ts_store **out, ts_group *group)
{
    TS_TRY(ts_group_find(&group, group, "group_store"));
    if (!group->store)
        return ts_fail(TS_EUNSUPPORTED,
                       "group_store: group '%s' of backend '%s' was made without a store",
                       group->name, group->ops->name);
    pthread_mutex_lock(&group->lock);
    ts_status status =
        group->users ? TS_OK : ts_prefix_store_new(&group->users, "user", group->store);
    *out = group->users;
    pthread_mutex_unlock(&group->lock);
    return status;
}
