/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps collectives in the order of issue.  A synchronous call that finds the group idle claims it
 * and runs in place; anything else goes through the queue of the group's thread. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/settings.h"
#include "base/thread.h"
#include "comm/group_impl.h"

static bool is_coalescing(ts_group *group)
{
    return atomic_load_explicit(&group->coalescing, memory_order_relaxed) != NULL;
}

const char *ts_called(const char *name)
{
    const char *outer = ts_thread()->called;
    return outer ? outer : name;
}

const void *ts_called_at(const void *site)
{
    return ts_thread()->called ? ts_thread()->called_at : site;
}

const char *ts_called_begin(const char *name, const void *site)
{
    const char *before = ts_thread()->called;
    if (!before) ts_thread()->called_at = site;
    ts_thread()->called = ts_called(name);
    return before;
}

void ts_called_end(const char *before) { ts_thread()->called = before; }

ts_status ts_issue_begin(ts_issue *issue, ts_group *group, ts_collective op, const char *name,
                         const void *site, ts_work **work)
{
    name = ts_called(name);
    site = ts_called_at(site);
    TS_TRY(ts_group_find(&issue->group, group, name));
    if (work && is_coalescing(issue->group)) {
        *work = NULL;
        work = NULL;
    }
    memset(&issue->own, 0, sizeof issue->own);
    issue->out = work;
    issue->work = NULL;
    issue->call = &issue->own;
    issue->call->coll.op = op;
    issue->call->coll.name = name;
    issue->call->coll.site = site;
    if (!work) return TS_OK;
    issue->work = ts_work_new(issue->group);
    if (issue->work) {
        issue->call = &issue->work->call;
        issue->call->coll.op = op;
        issue->call->coll.name = name;
        issue->call->coll.site = site;
    } else {
        ts_call_fail(issue->call, TS_ENOMEM, "out of memory for a work");
    }
    return TS_OK;
}

void ts_call_fini(ts_call *call)
{
    free(call->cause);
    if (call->extra) call->extra_free(call->extra);
}

/* ---- running in place ------------------------------------------------------------------------ */

static bool claim(ts_group *group)
{
    int64_t idle = 0;
    return atomic_compare_exchange_strong(&group->active, &idle, TS_INLINE + 1);
}

static void unclaim(ts_group *group)
{
    if (atomic_fetch_sub(&group->active, TS_INLINE + 1) == TS_INLINE + 1) return;
    pthread_mutex_lock(&group->lock);
    pthread_cond_signal(&group->wake);
    pthread_mutex_unlock(&group->lock);
}

static ts_status run_claimed(ts_group *group, ts_call *call)
{
    ts_status status = ts_call_run(group, call, false);
    unclaim(group);
    return ts_call_recorded(group, call, status, 0);
}

/* ---- the queue ------------------------------------------------------------------------------- */

/* An array with references of its own; NULL stays NULL, as after a failure. */
static ts_status keep_list(ts_tensor *const **list, int64_t n)
{
    ts_tensor *const *caller = *list;
    *list = NULL;
    if (!caller) return TS_OK;
    ts_tensor **own = ts_calloc((size_t)n, sizeof *own);
    if (!own) return ts_fail_memory((size_t)n * sizeof *own, "a work");
    for (int64_t i = 0; i < n; i++) own[i] = ts_retain(caller[i]);
    *list = own;
    return TS_OK;
}

/* A side with references and arrays of its own. */
static ts_status keep_side(ts_side *side, int n)
{
    ts_side caller = *side;
    *side = (ts_side){.whole = ts_retain(caller.whole), .list = caller.list};
    TS_TRY(keep_list(&side->list, n));
    if (caller.splits) {
        int64_t *splits = ts_calloc((size_t)n, sizeof *splits);
        if (!splits) return ts_fail_memory((size_t)n * sizeof *splits, "a work");
        memcpy(splits, caller.splits, (size_t)n * sizeof *splits);
        side->splits = splits;
    }
    return TS_OK;
}

/* Takes references of its own to all that the call names. */
static ts_status keep(ts_work *work)
{
    ts_call *call = &work->call;
    ts_retain(call->tensor);
    ts_status parts = keep_side(&call->parts, work->group->size);
    ts_status received = keep_side(&call->received, work->group->size);
    ts_status first = keep_list(&call->bunch.tensor, call->bunch.n);
    ts_status second =
        keep_list(&call->bunch.parts, ts_bunch_parts(&call->bunch, work->group->size));
    return parts != TS_OK ? parts : received != TS_OK ? received : first != TS_OK ? first : second;
}

/* With the group locked. */
static ts_status start_thread(ts_group *group)
{
    if (group->has_thread) return TS_OK;
    TS_TRY(ts_thread_start(&group->thread, "ts-group", ts_group_main, group));
    group->has_thread = true;
    return TS_OK;
}

static ts_status enqueue(ts_group *group, ts_work *work)
{
    pthread_mutex_lock(&group->lock);
    ts_status status = start_thread(group);
    if (status == TS_OK) {
        ts_work_retain(work);
        if (group->last)
            group->last->next = work;
        else
            group->first = work;
        group->last = work;
        atomic_fetch_add(&group->active, 1);
        pthread_cond_signal(&group->wake);
    }
    pthread_mutex_unlock(&group->lock);
    return status;
}

/* Queues the work; without a thread to run it, runs it here. */
static void hand_over(ts_group *group, ts_work *work)
{
    ts_status status = keep(work);
    if (status != TS_OK) ts_call_fail(&work->call, status, "%s", ts_error_last());
    if (enqueue(group, work) == TS_OK) return;
    while (!claim(group)) sched_yield();
    work->began_ns = ts_now_ns();
    ts_call_started(group, &work->call, work->began_ns);
    status = run_claimed(group, &work->call);
    ts_work_finish(work, status, ts_error_last());
}

static ts_work *pop(ts_group *group)
{
    pthread_mutex_lock(&group->lock);
    for (;;) {
        bool claimed = atomic_load(&group->active) >= TS_INLINE;
        if (group->first && !claimed) break;
        if (!group->first && group->closing) break;
        pthread_cond_wait(&group->wake, &group->lock);
    }
    ts_work *work = group->first;
    if (work) {
        group->first = work->next;
        if (!group->first) group->last = NULL;
    }
    pthread_mutex_unlock(&group->lock);
    return work;
}

static _Thread_local const ts_group *served;

bool ts_group_served_here(const ts_group *group) { return served == group; }

/* What TESSERA_ASYNC_ERROR_HANDLING says. */
static void handle_failure(ts_group *group, const ts_work *work, ts_status status)
{
    enum { TEAR_DOWN = 1, ABORT = 2, END = 3 };
    int64_t mode = ts_setting_int(TS_SETTING_ASYNC_ERROR_HANDLING);
    if (mode < TEAR_DOWN || mode > END || !ts_status_is(status, TS_EDIST)) return;
    if (mode != END && group->size > 1)
        group->ops->abort(group->state, TS_EABORTED, "an asynchronous operation failed");
    if (mode == ABORT) return;
    TS_LOG(TS_LOG_COMM, TS_LEVEL_ERROR,
           "%s; the process ends, for TESSERA_ASYNC_ERROR_HANDLING is %lld", work->error,
           (long long)mode);
    abort();
}

void ts_group_main(void *arg)
{
    ts_group *group = arg;
    served = group;
    for (ts_work *work = pop(group); work; work = pop(group)) {
        work->began_ns = ts_now_ns();
        ts_call_started(group, &work->call, work->began_ns);
        ts_status status = ts_call_run(group, &work->call, true);
        atomic_fetch_sub(&group->active, 1);
        ts_call_recorded(group, &work->call, status, ts_now_ns());
        ts_work_finish(work, status, status == TS_OK ? NULL : ts_error_last());
        if (status != TS_OK) handle_failure(group, work, status);
        ts_work_free(work);
    }
}

/* A synchronous call behind others. */
static ts_status run_queued(ts_group *group, ts_call *call)
{
    ts_work *work = ts_work_new(group);
    if (!work) {
        while (!claim(group)) sched_yield();
        return run_claimed(group, call);
    }
    work->call = *call;
    call->cause = NULL;
    call->extra = NULL;
    hand_over(group, work);
    ts_status status = ts_work_wait(work, 0);
    ts_work_free(work);
    return status;
}

ts_status ts_issue_end(ts_issue *issue)
{
    ts_group *group = issue->group;
    ts_call_apart(issue->call, group);
    if (is_coalescing(group)) return ts_coalescing_note(issue);
    if (group->checks_nan) ts_call_check_nan(group, issue->call);
    uint64_t before = atomic_fetch_add_explicit(&group->issued, 1, memory_order_relaxed);
    if (issue->work) {
        issue->work->sequence = before + 1;
        ts_call_record(group, issue->call, before + 1, false);
        hand_over(group, issue->work);
        *issue->out = issue->work;
        return TS_OK;
    }
    bool here = claim(group);
    ts_call_record(group, issue->call, before + 1, here);
    ts_status status = here ? run_claimed(group, issue->call) : run_queued(group, issue->call);
    ts_call_fini(issue->call);
    return status;
}
