/* SPDX-License-Identifier: Apache-2.0 */
/* What groups tell the flight recorder and the program's hook. */
#include <string.h>
#include <unistd.h>

#include <tessera/process_group.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/dump.h"
#include "comm/group_impl.h"

/* ---- the hook -------------------------------------------------------------------------------- */

static _Atomic(ts_operation_hook) hook_fn;
static _Atomic(void *) hook_user;

void ts_set_operation_hook(ts_operation_hook fn, void *user)
{
    atomic_store(&hook_fn, NULL);
    atomic_store(&hook_user, user);
    atomic_store(&hook_fn, fn);
}

ts_status ts_group_set_completion_hook(ts_group *group, ts_operation_hook fn, void *user)
{
    TS_TRY(ts_group_find(&group, group, "group_set_completion_hook"));
    atomic_store(&group->hook, NULL);
    atomic_store(&group->hook_user, user);
    atomic_store(&group->hook, fn);
    return TS_OK;
}

/* Somebody listens to operations of the group. */
static bool is_heard(ts_group *group)
{
    return atomic_load_explicit(&hook_fn, memory_order_acquire) ||
           atomic_load_explicit(&group->hook, memory_order_acquire);
}

static void tell(ts_group *group, uint64_t id, const ts_recording *what,
                 const ts_operation_event *end)
{
    char name[80];
    ts_operation_event event = end ? *end : (ts_operation_event){.ended = false};
    ts_operation_hook of_all = atomic_load(&hook_fn), of_group = atomic_load(&group->hook);
    snprintf(name, sizeof name, "%s:%s", group->ops->name, what->name);
    event.name = name;
    event.group = group->name;
    event.id = id;
    event.sequence = what->sequence;
    event.rank = group->rank;
    event.peer = what->peer;
    event.shape = what->shape ? what->shape->dim : NULL;
    event.ndim = what->shape ? what->shape->ndim : 0;
    event.dtype = (ts_dtype)what->dtype;
    event.in = what->in;
    event.out = what->out;
    if (of_all) of_all(&event, atomic_load(&hook_user));
    if (of_group && end) of_group(&event, atomic_load(&group->hook_user));
}

/* began_ns 0: before anybody listened. */
static void tell_end(ts_group *group, uint64_t id, const ts_recording *what, ts_status status,
                     int64_t began_ns)
{
    ts_operation_event end = {.ended = true, .status = status, .ended_ns = ts_now_ns()};
    end.began_ns = began_ns ? began_ns : end.ended_ns;
    tell(group, id, what, &end);
}

/* Ids where nothing is recorded. */
static uint64_t spare_id(void)
{
    static _Atomic uint64_t last;
    return (UINT64_C(1) << 63) + atomic_fetch_add(&last, 1);
}

static uint64_t begin(ts_group *group, const ts_recording *what)
{
    uint64_t id = group->recorder ? ts_recorder_begin(group->recorder, what) : 0;
    if (!is_heard(group)) return id;
    if (!id) id = spare_id();
    tell(group, id, what, NULL);
    return id;
}

/* ---- collectives ----------------------------------------------------------------------------- */

static int64_t side_count(const ts_side *side, int size)
{
    int64_t n = 0;
    if (side->whole) return side->whole->numel;
    for (int i = 0; side->list && i < size; i++) n += side->list[i] ? side->list[i]->numel : 0;
    return side->list ? n : -1;
}

/* Elements that go in and come out; -1: none on this rank. */
static void count_sides(ts_recording *what, const ts_group *group, const ts_call *call)
{
    int64_t own = call->tensor ? call->tensor->numel : ts_shape_numel(call->coll.shape);
    int64_t parts = -1, received = -1;
    bool bad = call->coll.status != TS_OK;
    if (!bad && (call->parts.whole || call->parts.list))
        parts = side_count(&call->parts, group->size);
    if (!bad && (call->received.whole || call->received.list))
        received = side_count(&call->received, group->size);
    what->in = what->out = own;
    switch (call->coll.op) {
    case TS_COLL_BARRIER: what->in = what->out = -1; break;
    case TS_COLL_ALL_GATHER:
    case TS_COLL_GATHER: what->out = parts; break;
    case TS_COLL_REDUCE_SCATTER:
    case TS_COLL_SCATTER: what->in = parts; break;
    case TS_COLL_ALL_TO_ALL:
        what->in = parts;
        what->out = received;
        break;
    default: break;
    }
}

static bool has_root(ts_collective op)
{
    return op == TS_COLL_BROADCAST || op == TS_COLL_REDUCE || op == TS_COLL_GATHER ||
           op == TS_COLL_SCATTER;
}

/* Member by member: clearing the whole first costs as much as all the rest. */
static void describe(ts_recording *what, const ts_group *group, const ts_call *call,
                     uint64_t sequence, bool started)
{
    const ts_coll *coll = &call->coll;
    what->group = group->recorded;
    what->name = coll->name;
    what->op = (int)coll->op;
    what->dtype = (int)coll->dtype;
    what->peer = has_root(coll->op) ? coll->root : -1;
    what->tag = 0;
    what->sequence = sequence;
    what->site = coll->site;
    what->timeout_ms = atomic_load_explicit(&group->timeout_ms, memory_order_relaxed);
    what->shape = &coll->shape;
    what->started = started;
    count_sides(what, group, call);
}

void ts_call_record(ts_group *group, ts_call *call, uint64_t sequence, bool started)
{
    if (!group->recorder && !is_heard(group)) return;
    ts_recording what;
    describe(&what, group, call, sequence, started);
    call->sequence = sequence;
    call->began_ns = started && is_heard(group) ? ts_now_ns() : 0;
    call->record = begin(group, &what);
    TS_LOG(TS_LOG_COMM, TS_LEVEL_DEBUG, "%s #%llu of group '%s'", what.name,
           (unsigned long long)sequence, group->name);
}

static bool recorded(const ts_group *group, uint64_t record)
{
    return group->recorder && record && record >> 63 == 0;
}

void ts_call_started(ts_group *group, ts_call *call, int64_t now_ns)
{
    call->began_ns = now_ns;
    if (!recorded(group, call->record)) return;
    ts_recorder_start(group->recorder, call->record, now_ns);
    if (group->recorded) atomic_store(&group->recorded->started, call->sequence);
}

/* Where each rank is can be seen as long as others still wait. */
static void point_at_doctor(ts_status status)
{
    char text[TS_ERROR_MAX];
    if (status != TS_ETIMEOUT || strstr(ts_error_last(), "tessera doctor")) return;
    snprintf(text, sizeof text, "%s; `tessera doctor %d` shows where each rank is", ts_error_last(),
             (int)getpid());
    ts_fail_again(status, text);
}

ts_status ts_call_recorded(ts_group *group, const ts_call *call, ts_status status, int64_t ended_ns)
{
    if (recorded(group, call->record)) {
        ts_recorder_end(group->recorder, call->record, status, ended_ns);
        if (group->recorded)
            atomic_store_explicit(&group->recorded->completed, call->sequence,
                                  memory_order_relaxed);
    }
    if (call->record && is_heard(group)) {
        ts_recording what;
        describe(&what, group, call, call->sequence, true);
        tell_end(group, call->record, &what, status, call->began_ns);
    }
    if (status == TS_OK) return TS_OK;
    point_at_doctor(status);
    ts_dump_after_failure(group->recorder, status);
    return status;
}

/* ---- messages ------------------------------------------------------------------ */

static void describe_message(ts_recording *what, ts_group *group, const ts_noted *noted)
{
    const ts_tensor *tensor = noted->tensor;
    *what = (ts_recording){.group = group->recorded,
                           .name = noted->name,
                           .op = noted->sending ? TS_RECORD_SEND : TS_RECORD_RECV,
                           .dtype = tensor->dtype,
                           .peer = noted->peer,
                           .tag = noted->tag,
                           .sequence = noted->number,
                           .timeout_ms = atomic_load(&group->timeout_ms),
                           .in = noted->sending ? tensor->numel : -1,
                           .out = noted->sending ? -1 : tensor->numel,
                           .shape = &tensor->shape,
                           .started = true};
}

void ts_message_record(ts_noted *noted, ts_group *group, const ts_p2p *p2p, const ts_tensor *tensor,
                       const char *name, const void *site)
{
    *noted = (ts_noted){.name = name,
                        .tensor = tensor,
                        .peer = p2p->peer,
                        .tag = p2p->tag,
                        .sending = p2p->sending};
    bool heard = is_heard(group);
    if (!group->recorder && !heard) return;
    ts_recording what;
    noted->number = atomic_fetch_add(&group->messages, 1) + 1;
    noted->began_ns = heard ? ts_now_ns() : 0;
    describe_message(&what, group, noted);
    what.site = ts_called_at(site);
    noted->record = begin(group, &what);
}

ts_status ts_message_recorded(ts_group *group, const ts_noted *noted, ts_status status)
{
    if (recorded(group, noted->record)) ts_recorder_end(group->recorder, noted->record, status, 0);
    if (noted->record && is_heard(group)) {
        ts_recording what;
        describe_message(&what, group, noted);
        tell_end(group, noted->record, &what, status, noted->began_ns);
    }
    if (status != TS_OK && status != TS_EABORTED) ts_dump_after_failure(group->recorder, status);
    return status;
}
