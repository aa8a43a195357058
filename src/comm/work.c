/* SPDX-License-Identifier: Apache-2.0 */
/* Works: what an asynchronous call leaves behind, to be waited for. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/futex.h"
#include "comm/group_impl.h"

enum { PENDING = 0, AWAITED = 1, DONE = 2, SLEEP_NS = 100000000 };

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

static void free_side(ts_side *side, int n)
{
    for (int i = 0; side->list && i < n; i++) ts_release(side->list[i]);
    free((void *)(uintptr_t)side->list);
    free((void *)(uintptr_t)side->splits);
    ts_release(side->whole);
}

static void free_call(ts_work *work)
{
    ts_call *call = &work->call;
    free_side(&call->parts, work->group->size);
    free_side(&call->received, work->group->size);
    ts_release(call->tensor);
    ts_call_fini(call);
}

void ts_work_free(ts_work *work)
{
    if (!work || !ts_ref_release(&work->refs)) return;
    if (work->request) work->group->ops->release(work->group->state, work->request);
    ts_release(work->packed);
    free_call(work);
    free(work->error);
    ts_group_release(work->group);
    ts_small_free(work, sizeof *work);
}

void ts_work_finish(ts_work *work, ts_status status, const char *error)
{
    work->status = status;
    if (status != TS_OK) work->error = ts_strdup(error ? error : ts_status_text(status));
    if (atomic_exchange(&work->done, DONE) == AWAITED) ts_futex_wake(&work->done, 0);
}

static bool is_done(const ts_work *work)
{
    return atomic_load_explicit(&work->done, memory_order_acquire) == DONE;
}

static bool can_help(const ts_work *work) { return work->request && work->group->ops->help; }

static bool wait_until(ts_work *work, ts_deadline deadline)
{
    if (can_help(work) && !is_done(work))
        return work->group->ops->help(work->group->state, work->request, deadline.timeout_ms);
    while (!is_done(work)) {
        uint32_t pending = PENDING;
        int left = ts_deadline_left_ms(deadline);
        if (left == 0) return false;
        atomic_compare_exchange_strong(&work->done, &pending, AWAITED);
        if (pending == DONE) break;
        int64_t ns = left < 0 || left > SLEEP_NS / 1000000 ? SLEEP_NS : (int64_t)left * 1000000;
        ts_futex_wait(&work->done, AWAITED, ns, 0);
    }
    return true;
}

ts_status ts_work_wait(ts_work *work, int64_t timeout_ms)
{
    if (!work) return ts_fail(TS_EINVAL, "work_wait: work is missing (NULL)");
    if (timeout_ms < 0) return ts_fail(TS_EINVAL, "work_wait: the limit is negative");
    /* A collective ends by the group's limit by itself, and knows better why. */
    bool limited = timeout_ms > 0 || work->message;
    if (timeout_ms == 0) timeout_ms = atomic_load(&work->group->timeout_ms);
    if (!wait_until(work, ts_deadline_in(limited ? timeout_ms : 0)))
        return ts_fail(TS_ETIMEOUT, "work_wait: %s is not done after %lld ms and goes on",
                       work->message ? "the message" : ts_collective_name(work->call.coll.op),
                       (long long)timeout_ms);
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

int ts_work_source_rank(const ts_work *work)
{
    return work && is_done(work) && work->receiving ? work->source : -1;
}
