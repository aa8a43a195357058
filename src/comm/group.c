/* SPDX-License-Identifier: Apache-2.0 */
/* Life of groups, and questions about them. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/settings.h"
#include "comm/group_impl.h"
#include "comm/init_barrier.h"
#include "comm/nccl_variables.h"

static void group_free(ts_group *group)
{
    pthread_mutex_destroy(&group->lock);
    pthread_cond_destroy(&group->wake);
    ts_store_free(group->users);
    ts_store_free(group->store);
    ts_coalescing_free(group);
    ts_alone_free(group->alone);
    ts_recorder_group_close(group->recorder, group->recorded);
    ts_recorder_release(group->recorder);
    free(group->state);
    free(group->ranks);
    free(group->description);
    free(group->device);
    free(group->name);
    free(group);
}

void ts_group_retain(ts_group *group) { ts_ref_retain(&group->refs); }

void ts_group_release(ts_group *group)
{
    if (ts_ref_release(&group->refs)) group_free(group);
}

/* Counted in the child of each fork. */
static _Atomic unsigned forks;

static void after_fork(void) { atomic_fetch_add(&forks, 1); }

static void register_fork_handler(void) { pthread_atfork(NULL, NULL, after_fork); }

ts_status ts_group_check(ts_group *group, const char *what)
{
    if (group == ts_group_not_member())
        return ts_fail(TS_ENOTMEMBER,
                       "%s: rank %d is not a member of this group; only the ranks that the group "
                       "was made of may use it",
                       what, ts_rank());
    if (group->forks != atomic_load_explicit(&forks, memory_order_relaxed))
        return ts_fail(
            TS_ESTATE,
            "%s: this process is a fork of rank %d and not a member of group '%s'; "
            "fork before ts_init_process_group, call ts_after_fork in the child, or exec a program",
            what, group->rank, group->name);
    if (atomic_load_explicit(&group->closing, memory_order_relaxed))
        return ts_fail(TS_ESTATE, "%s: group '%s' has been destroyed", what, group->name);
    return TS_OK;
}

static ts_group *allocate(const char *name, const ts_backend_ops *ops)
{
    ts_group *group = ts_calloc(1, sizeof *group);
    if (!group) return NULL;
    atomic_init(&group->refs, 1);
    pthread_mutex_init(&group->lock, NULL);
    pthread_cond_init(&group->wake, NULL);
    group->ops = ops;
    snprintf(group->config, sizeof group->config, "cpu:%s", ops->name);
    group->name = ts_strdup(name);
    group->state = ts_calloc(1, ops->state_size);
    if (group->name && group->state) return group;
    group_free(group);
    return NULL;
}

ts_status ts_group_start_backend(ts_group *group, const struct ts_backend_options *options)
{
    if (group->size == 1) return ts_alone_new(&group->alone);
    ts_backend_context context = {.group_name = group->name,
                                  .rank = group->rank,
                                  .size = group->size,
                                  .store = group->store,
                                  .timeout_ms = group->timeout_ms,
                                  .options = options};
    ts_status status = group->ops->init(group->state, &context);
    if (status == TS_OK) return TS_OK;
    char *why = ts_strdup(ts_error_last());
    group->ops->fini(group->state);
    ts_fail_again(status, why ? why : ts_status_text(status));
    free(why);
    return status;
}

ts_status ts_group_allocate(ts_group **out, const char *name, const ts_backend_ops *ops, int rank,
                            int size, ts_store *store, int64_t timeout_ms)
{
    ts_group *group = allocate(name, ops);
    if (!group) return ts_fail_memory(sizeof *group, "a group");
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handler);
    group->forks = atomic_load(&forks);
    group->rank = rank;
    group->size = size;
    group->timeout_ms = timeout_ms;
    group->store = store ? ts_store_retain(store) : NULL;
    *out = group;
    return TS_OK;
}

void ts_group_free_unstarted(ts_group *group) { group_free(group); }

ts_status ts_group_new(ts_group **out, const char *name, const ts_backend_ops *ops, int rank,
                       int size, ts_store *store, int64_t timeout_ms,
                       const struct ts_backend_options *options)
{
    ts_group *group;
    TS_TRY(ts_group_allocate(&group, name, ops, rank, size, store, timeout_ms));
    ts_status status = ts_group_start_backend(group, options);
    if (status == TS_OK) status = ts_init_barrier(group);
    if (status == TS_OK)
        *out = group;
    else
        group_free(group);
    return status;
}

void ts_group_begin_record(ts_group *group, const char *desc)
{
    if (group->recorder) return;
    group->checks_nan = ts_setting_bool(TS_SETTING_NAN_CHECK) || ts_env_flag(TS_ENV_NAN_CHECK);
    group->recorder = ts_recorder_of_rank();
    ts_recorder_retain(group->recorder);
    group->recorded = ts_recorder_group_open(group->recorder, group->name, desc, group->ops->name,
                                             group->rank, group->size, group->ranks);
}

void ts_group_close(ts_group *group)
{
    pthread_mutex_lock(&group->lock);
    group->closing = true;
    pthread_cond_signal(&group->wake);
    pthread_mutex_unlock(&group->lock);
    if (group->has_thread) pthread_join(group->thread, NULL);
    while (atomic_load(&group->active) > 0) sched_yield();
    if (group->alone)
        ts_alone_close(group->alone);
    else
        group->ops->fini(group->state);
    ts_group_release(group);
}

int ts_group_local(const ts_group *group, int rank)
{
    int local = rank <= TS_GROUP_RANK(0) ? TS_GROUP_RANK(rank) : rank;
    if (rank > TS_GROUP_RANK(0) && group->ranks)
        for (local = 0; local < group->size && group->ranks[local] != rank;) local++;
    return local >= 0 && local < group->size ? local : -1;
}

int ts_group_global(const ts_group *group, int rank)
{
    return group->ranks && rank >= 0 && rank < group->size ? group->ranks[rank] : rank;
}
