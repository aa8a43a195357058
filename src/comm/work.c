/* SPDX-License-Identifier: Apache-2.0 */
/* Works: what an asynchronous call leaves behind, to be waited for. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/group_impl.h"

ts_work *ts_work_new(ts_group *group)
{
    ts_work *work = ts_small_new(sizeof *work);
    if (!work) return NULL;
    atomic_init(&work->refs, 1);
    ts_group_retain(group);
    work->group = group;
    work->source = -1;
    return work;
}

void ts_work_retain(ts_work *work) { ts_ref_retain(&work->refs); }

static void free_list(ts_tensor *const *list, int64_t n)
{
    for (int64_t i = 0; list && i < n; i++) ts_release(list[i]);
    free((void *)(uintptr_t)list);
}

static void free_side(ts_side *side, int n)
{
    free_list(side->list, n);
    free((void *)(uintptr_t)side->splits);
    ts_release(side->whole);
}

static void free_call(ts_work *work)
{
    ts_call *call = &work->call;
    free_side(&call->parts, work->group->size);
    free_side(&call->received, work->group->size);
    free_list(call->bunch.tensor, call->bunch.n);
    free_list(call->bunch.parts, ts_bunch_parts(&call->bunch, work->group->size));
    ts_release(call->tensor);
    ts_call_fini(call);
}

void ts_work_free(ts_work *work)
{
    if (!work || !ts_ref_release(&work->refs)) return;
    void *request = atomic_load(&work->request);
    if (request) ts_group_let_go(work->group, request);
    ts_future_free(atomic_load(&work->future));
    ts_release(work->packed);
    free_call(work);
    free(work->error);
    ts_group_release(work->group);
    ts_small_free(work, sizeof *work);
}

static bool is_done(const ts_work *work) { return ts_flag_raised(&work->done); }

/* ---- the future of a work -------------------------------------------------------------------- */

/* The tensors that hold the result, *n of them. */
static ts_tensor *const *results(const ts_work *work, int *n)
{
    const ts_call *call = &work->call;
    const ts_side *out = NULL;
    int size = work->group->size;
    bool gathers = call->coll.op == TS_COLL_ALL_GATHER;
    *n = 0;
    if (work->message ? !work->receiving : call->coll.op == TS_COLL_BARRIER) return NULL;
    if (!work->message && call->bunch.n) {
        *n = gathers ? (int)ts_bunch_parts(&call->bunch, size) : call->bunch.n;
        return gathers ? call->bunch.parts : call->bunch.tensor;
    }
    if (!work->message && (gathers || call->coll.op == TS_COLL_GATHER)) out = &call->parts;
    if (!work->message && call->coll.op == TS_COLL_ALL_TO_ALL) out = &call->received;
    if (out && out->list) {
        *n = size;
        return out->list;
    }
    ts_tensor *const *one = out ? &out->whole : &call->tensor;
    *n = *one ? 1 : 0;
    return one;
}

/* Guards who ends a work's future: whoever takes it out of the work. */
static pthread_mutex_t futures = PTHREAD_MUTEX_INITIALIZER;

static void end_with(ts_future *future, const ts_work *work)
{
    int n;
    ts_tensor *const *out = results(work, &n);
    if (work->status == TS_OK)
        ts_future_set(future, out, n);
    else
        ts_future_set_error(future, work->status, work->error);
}

/* Of a work that is done. */
static void end_future(ts_work *work)
{
    pthread_mutex_lock(&futures);
    ts_future *future = atomic_exchange(&work->future, NULL);
    pthread_mutex_unlock(&futures);
    if (!future) return;
    end_with(future, work);
    ts_future_free(future);
}

ts_status ts_work_future(ts_future **out, ts_work *work)
{
    if (!out || !work) return ts_fail(TS_EINVAL, "work_future: an argument is missing (NULL)");
    if (work->message)
        return ts_fail(TS_EUNSUPPORTED, "work_future: messages have none; call ts_work_wait");
    pthread_mutex_lock(&futures);
    ts_future *future = atomic_load(&work->future);
    ts_status status = future ? TS_OK : ts_future_new(&future);
    if (status == TS_OK) {
        ts_future_retain(future);
        atomic_store(&work->future, future);
    }
    pthread_mutex_unlock(&futures);
    if (status != TS_OK) return status;
    *out = future;
    if (is_done(work)) end_future(work);
    return TS_OK;
}

void ts_work_finish(ts_work *work, ts_status status, const char *error)
{
    work->status = status;
    if (status != TS_OK) work->error = ts_strdup(error ? error : ts_status_text(status));
    work->ended_ns = ts_now_ns();
    ts_flag_raise(&work->done);
    if (atomic_load(&work->future)) end_future(work);
}

static bool can_help(const ts_work *work)
{
    return atomic_load_explicit(&work->request, memory_order_relaxed) && !work->group->alone &&
           work->group->ops->help;
}

static bool wait_until(ts_work *work, ts_deadline deadline)
{
    if (can_help(work) && !atomic_exchange(&work->helped, true)) {
        const ts_group *group = work->group;
        bool done = group->ops->help(group->state, work->request, deadline.timeout_ms);
        atomic_store_explicit(&work->helped, false, memory_order_release);
        return done;
    }
    return ts_flag_wait(&work->done, deadline);
}

static ts_status not_done(const ts_work *work, int64_t timeout_ms)
{
    char what[48];
    if (!work->message)
        snprintf(what, sizeof what, "%s", ts_work_name(work));
    else if (work->peer < 0)
        snprintf(what, sizeof what, "the receive from any rank");
    else
        snprintf(what, sizeof what, "the %s rank %d", work->receiving ? "receive from" : "send to",
                 ts_group_global(work->group, work->peer));
    return ts_fail(TS_ETIMEOUT, "work_wait: %s is not done after %lld ms and goes on", what,
                   (long long)timeout_ms);
}

ts_status ts_work_wait(ts_work *work, int64_t timeout_ms)
{
    if (!work) return ts_fail(TS_EINVAL, "work_wait: work is missing (NULL)");
    if (timeout_ms < 0) return ts_fail(TS_EINVAL, "work_wait: the limit is negative");
    if (!work->message && !is_done(work) && ts_group_served_here(work->group))
        return ts_fail(
            TS_ESTATE,
            "work_wait: a callback waits for %s, which runs after it on the same thread; "
            "give the work's future a callback instead",
            ts_work_name(work));
    /* A collective ends by the group's limit by itself, and knows better why. */
    bool limited = timeout_ms > 0 || work->message;
    if (timeout_ms == 0) timeout_ms = atomic_load(&work->group->timeout_ms);
    if (!is_done(work) && !wait_until(work, ts_deadline_in(limited ? timeout_ms : 0)))
        return not_done(work, timeout_ms);
    if (work->status == TS_OK) return TS_OK;
    return ts_fail_again(work->status, work->error ? work->error : ts_status_text(work->status));
}

bool ts_work_is_completed(const ts_work *work)
{
    if (!work) return false;
    if (can_help(work) && !is_done(work))
        work->group->ops->help(work->group->state, work->request, -1);
    return is_done(work);
}

bool ts_work_is_success(const ts_work *work)
{
    return work && is_done(work) && work->status == TS_OK;
}

ts_status ts_work_status(const ts_work *work)
{
    if (!work) return ts_fail(TS_EINVAL, "work_status: work is missing (NULL)");
    if (!is_done(work))
        return ts_fail(TS_ESTATE, "work_status: %s is under way; wait for it", ts_work_name(work));
    if (work->status == TS_OK) return TS_OK;
    return ts_fail_again(work->status, work->error ? work->error : ts_status_text(work->status));
}

ts_status ts_work_result(const ts_work *work, ts_tensor *const **out, int *n)
{
    if (!out || !n) return ts_fail(TS_EINVAL, "work_result: an output is missing (NULL)");
    TS_TRY(ts_work_status(work));
    *out = results(work, n);
    return TS_OK;
}

const char *ts_work_name(const ts_work *work)
{
    if (!work) return "";
    if (!work->message) return work->call.coll.name;
    return work->receiving ? "recv" : "send";
}

uint64_t ts_work_sequence(const ts_work *work) { return work ? work->sequence : 0; }

int64_t ts_work_duration_ns(const ts_work *work)
{
    return work && is_done(work) ? work->ended_ns - work->began_ns : -1;
}

ts_status ts_work_abort(ts_work *work)
{
    if (!work) return ts_fail(TS_EINVAL, "work_abort: work is missing (NULL)");
    if (!work->message)
        return ts_fail(TS_EUNSUPPORTED,
                       "work_abort: other ranks take part in %s; ts_abort_process_group ends the "
                       "group",
                       ts_work_name(work));
    ts_message_cancel(work);
    return TS_OK;
}

int ts_work_source_rank(const ts_work *work)
{
    return work && is_done(work) && work->receiving ? work->source : -1;
}
