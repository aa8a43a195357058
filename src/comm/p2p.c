/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two ranks. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/site.h"
#include "comm/group_impl.h"

/* ---- where they go --------------------------------------------------------------------------- */

ts_status ts_group_start(ts_group *group, void **request, const ts_p2p *message)
{
    if (group->alone) return ts_alone_start(group->alone, request, message);
    if (!group->ops->start)
        return ts_fail(TS_EUNSUPPORTED, "%s: backend '%s' does not offer messages of cpu tensors",
                       message->sending ? "send" : "recv", group->ops->name);
    return group->ops->start(request, group->state, message);
}

ts_status ts_group_wait(ts_group *group, void *request, int64_t timeout_ms, int *peer)
{
    if (!group->alone) return group->ops->wait(group->state, request, timeout_ms, peer);
    if (peer) *peer = 0;
    return ts_alone_wait(group->alone, request, timeout_ms);
}

void ts_group_let_go(ts_group *group, void *request)
{
    if (group->alone)
        ts_alone_let_go(group->alone, request);
    else
        group->ops->release(group->state, request);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static ts_status find_peer(int *local, const ts_group *group, int peer, const char *op)
{
    *local = ts_group_local(group, peer);
    if (*local >= 0) return TS_OK;
    if (peer <= TS_GROUP_RANK(0))
        return ts_fail(TS_EINVAL, "%s: TS_GROUP_RANK(%d) is not in 0 .. %d", op,
                       TS_GROUP_RANK(peer), group->size - 1);
    if (group->ranks)
        return ts_fail(TS_EINVAL, "%s: rank %d is not a member of group '%s'", op, peer,
                       group->name);
    return ts_fail(TS_EINVAL, "%s: rank %d is not in 0 .. %d", op, peer, group->size - 1);
}

/* What the program has called. */
static const char *name_of(bool sending, bool blocking)
{
    if (blocking) return ts_called(sending ? "send" : "recv");
    return ts_called(sending ? "isend" : "irecv");
}

/* Gives the peer's rank in the group. */
static ts_status check(int *local, const ts_group *group, const ts_tensor *tensor, int peer,
                       int tag, bool sending, bool blocking)
{
    const char *op = name_of(sending, blocking);
    TS_TRY(ts_tensor_usable(tensor, sending ? TS_USE_READ : TS_USE_WRITE, op, "tensor"));
    if (sending && group->checks_nan)
        TS_TRY(ts_tensor_check_nan(group, (ts_tensor *)(uintptr_t)tensor, op));
    if (tag < 0) return ts_fail(TS_EINVAL, "%s: tag %d is negative", op, tag);
    *local = TS_ANY_SOURCE;
    if (peer == TS_ANY_SOURCE && !sending) return TS_OK;
    TS_TRY(find_peer(local, group, peer, op));
    if (blocking && *local == group->rank)
        return ts_fail(TS_EINVAL,
                       "%s: rank %d is this rank itself, which would wait for ever; "
                       "use ts_isend and ts_irecv",
                       op, ts_group_global(group, *local));
    return TS_OK;
}

/* The tensor itself, or a contiguous copy that is the caller's. */
static ts_status contiguous(ts_tensor **copy, ts_tensor *tensor, bool sending)
{
    *copy = NULL;
    if (tensor->contiguous) return TS_OK;
    ts_spec spec = ts_tensor_spec(tensor);
    ts_tensor *c = ts_pack_room(&spec);
    if (!c) return TS_ENOMEM;
    ts_status status = sending ? ts_tensor_copy_data(c, tensor) : TS_OK;
    if (status == TS_OK)
        *copy = c;
    else
        ts_release(c);
    return status;
}

static ts_p2p describe(ts_tensor *t, int peer, int tag, bool sending)
{
    bool empty = t->numel == 0;
    size_t element = ts_element_size(t->dtype);
    size_t bytes = (size_t)t->numel * element;
    return (ts_p2p){.sending = sending,
                    .peer = peer,
                    .tag = tag,
                    .data = empty ? NULL : ts_tensor_bytes(t),
                    .bytes = bytes,
                    .shared_offset =
                        ts_storage_place(t->storage, (size_t)t->offset * element, bytes)};
}

/* What does not fit names the call; its text tells of the other side. */
static ts_status name_call(ts_status status, const char *error, const char *name, const void *site)
{
    char text[TS_ERROR_MAX - 256], where[200];
    if (status != TS_EMISMATCH) return status;
    snprintf(text, sizeof text, "%s", error);
    ts_site_text(where, sizeof where, site);
    return ts_fail(status, "%s%s%s: %s", name, *where ? " at " : "", where, text);
}

/* ---- blocking -------------------------------------------------------------------------------- */

static ts_status transfer(ts_group *group, ts_tensor *tensor, int peer, int tag, bool sending,
                          int *from, const void *site)
{
    ts_tensor *copy;
    void *request;
    int local, source = -1;
    TS_TRY(ts_group_find(&group, group, name_of(sending, true)));
    TS_TRY(check(&local, group, tensor, peer, tag, sending, true));
    TS_TRY(contiguous(&copy, tensor, sending));
    ts_p2p p2p = describe(copy ? copy : tensor, local, tag, sending);
    ts_noted noted;
    ts_message_record(&noted, group, &p2p, tensor, name_of(sending, true), site);
    ts_status status = ts_group_start(group, &request, &p2p);
    if (status == TS_OK)
        status = ts_group_wait(group, request, atomic_load(&group->timeout_ms), &source);
    status = name_call(status, ts_error_last(), name_of(sending, true), ts_called_at(site));
    if (status == TS_OK && !sending) {
        ts_tensor_bump(tensor);
        if (from) *from = ts_group_global(group, source);
        if (copy) status = ts_tensor_copy_data(tensor, copy);
    }
    if (status == TS_OK && !sending) noted.peer = source;
    ts_message_recorded(group, &noted, status);
    ts_release(copy);
    return status;
}

ts_status ts_send(ts_group *group, ts_tensor *tensor, int dst, int tag)
{
    return transfer(group, tensor, dst, tag, true, NULL, TS_CALL_SITE);
}

ts_status ts_recv(ts_group *group, ts_tensor *tensor, int src, int tag, int *from)
{
    return transfer(group, tensor, src, tag, false, from, TS_CALL_SITE);
}

/* ---- asynchronous ---------------------------------------------------------------------------- */

static void message_done(void *user, ts_status status, const char *error, int peer)
{
    ts_work *work = user;
    if (status == TS_OK && work->receiving) {
        work->source = work->noted.peer = peer;
        if (work->packed) status = ts_tensor_copy_data(work->call.tensor, work->packed);
        if (status != TS_OK) error = ts_error_last();
    }
    if (status == TS_EMISMATCH) {
        name_call(status, error, work->call.coll.name, work->call.coll.site);
        error = ts_error_last();
    }
    ts_message_recorded(work->group, &work->noted, status);
    ts_work_finish(work, status, error);
    ts_work_free(work);
}

static ts_status start(ts_work *work, ts_tensor *tensor, int peer, int tag, const void *site)
{
    ts_group *group = work->group;
    TS_TRY(contiguous(&work->packed, tensor, !work->receiving));
    ts_p2p p2p = describe(work->packed ? work->packed : tensor, peer, tag, !work->receiving);
    p2p.done = message_done;
    p2p.user = work;
    work->began_ns = ts_now_ns();
    work->call.tensor = ts_retain(tensor);
    work->call.coll.name = name_of(!work->receiving, false);
    work->call.coll.site = ts_called_at(site);
    ts_work_retain(work);
    void *request = NULL;
    ts_message_record(&work->noted, group, &p2p, tensor, work->call.coll.name, site);
    ts_status status = ts_group_start(group, &request, &p2p);
    atomic_store(&work->request, request);
    if (status == TS_OK) return TS_OK;
    ts_message_recorded(group, &work->noted, status);
    atomic_store(&work->request, NULL);
    ts_work_free(work);
    return status;
}

static ts_status begin(ts_group *group, ts_tensor *tensor, int peer, int tag, bool sending,
                       ts_work **out, const void *site)
{
    int local;
    TS_TRY(ts_group_find(&group, group, name_of(sending, false)));
    TS_TRY(check(&local, group, tensor, peer, tag, sending, false));
    ts_work *work = ts_work_new(group);
    if (!work) return ts_fail_memory(sizeof *work, "a message");
    work->message = true;
    work->receiving = !sending;
    work->peer = local;
    if (!sending) ts_tensor_bump(tensor);
    ts_status status = start(work, tensor, local, tag, site);
    if (status == TS_OK)
        *out = work;
    else
        ts_work_free(work);
    return status;
}

ts_status ts_isend(ts_group *group, ts_tensor *tensor, int dst, int tag, ts_work **work)
{
    if (!work) return transfer(group, tensor, dst, tag, true, NULL, TS_CALL_SITE);
    return begin(group, tensor, dst, tag, true, work, TS_CALL_SITE);
}

ts_status ts_irecv(ts_group *group, ts_tensor *tensor, int src, int tag, ts_work **work)
{
    if (!work) return transfer(group, tensor, src, tag, false, NULL, TS_CALL_SITE);
    return begin(group, tensor, src, tag, false, work, TS_CALL_SITE);
}

void ts_message_cancel(ts_work *work)
{
    void *request = atomic_exchange(&work->request, NULL);
    if (!request) return;
    ts_group_let_go(work->group, request);
    if (ts_work_is_completed(work)) return;
    ts_message_recorded(work->group, &work->noted, TS_EABORTED);
    ts_work_finish(work, TS_EABORTED, "the message was cancelled");
    ts_work_free(work); /* what message_done would have let go of */
}

/* ---- several --------------------------------------------------------------------------------- */

static ts_status check_batch(const ts_p2p_op *ops, int n, ts_work *const *works)
{
    if (n <= 0 || !ops || !works)
        return ts_fail(TS_EINVAL, "batch_isend_irecv: the list is empty, or an argument missing");
    for (int i = 1; i < n; i++)
        if (ops[i].group != ops[0].group)
            return ts_fail(TS_EINVAL,
                           "batch_isend_irecv: entry %d is of another group than the first", i);
    return TS_OK;
}

static void cancel_all(ts_work **works, int n)
{
    for (int i = 0; i < n; i++) {
        ts_message_cancel(works[i]);
        ts_work_free(works[i]);
        works[i] = NULL;
    }
}

ts_status ts_batch_isend_irecv(const ts_p2p_op *ops, int n, ts_work **works)
{
    TS_TRY(check_batch(ops, n, works));
    for (int i = 0; i < n; i++) {
        const ts_p2p_op *op = &ops[i];
        ts_status status =
            begin(op->group, op->tensor, op->peer, op->tag, op->sending, &works[i], TS_CALL_SITE);
        if (status == TS_OK) continue;
        char *text = ts_asprintf("batch_isend_irecv: entry %d: %s", i, ts_error_last());
        cancel_all(works, i);
        for (int k = i; k < n; k++) works[k] = NULL;
        status = ts_fail_again(status, text ? text : ts_status_text(status));
        free(text);
        return status;
    }
    return TS_OK;
}

/* What is left of the limit for messages, which are under way all at once. */
static int64_t time_left(const ts_work *work, int64_t began_ns)
{
    int64_t limit = atomic_load(&work->group->timeout_ms);
    int64_t gone = (ts_now_ns() - began_ns) / 1000000;
    if (!work->message || limit == 0) return 0;
    return limit > gone ? limit - gone : 1;
}

ts_status ts_wait_all(ts_work **works, int n)
{
    ts_status first = TS_OK;
    char *text = NULL;
    if (n < 0 || (n > 0 && !works))
        return ts_fail(TS_EINVAL, "wait_all: the list is missing (NULL)");
    int64_t began_ns = ts_now_ns();
    for (int i = 0; i < n; i++) {
        ts_status status = works[i] ? ts_work_wait(works[i], time_left(works[i], began_ns)) : TS_OK;
        if (status != TS_OK && first == TS_OK) {
            first = status;
            text = ts_strdup(ts_error_last());
        }
        ts_work_free(works[i]);
        works[i] = NULL;
    }
    if (first != TS_OK) ts_fail_again(first, text ? text : ts_status_text(first));
    free(text);
    return first;
}
