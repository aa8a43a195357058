/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two ranks. */
#include "base/memory.h"
#include "comm/group_impl.h"

static ts_status check(const ts_group *group, const ts_tensor *tensor, int peer, int tag,
                       bool sending)
{
    const char *op = sending ? "send" : "recv";
    TS_TRY(ts_tensor_usable(tensor, sending ? TS_USE_READ : TS_USE_WRITE, op, "tensor"));
    if (tag < 0) return ts_fail(TS_EINVAL, "%s: tag %d is negative", op, tag);
    if (peer == group->rank) return ts_fail(TS_EINVAL, "%s: rank %d is this rank itself", op, peer);
    if ((peer < 0 || peer >= group->size) && (sending || peer != TS_ANY_SOURCE))
        return ts_fail(TS_EINVAL, "%s: rank %d is not in 0 .. %d", op, peer, group->size - 1);
    if (group->size == 1)
        return ts_fail(TS_EINVAL, "%s: group '%s' has no other rank", op, group->name);
    if (!group->ops->start)
        return ts_fail(TS_EUNSUPPORTED, "%s: backend '%s' does not offer it", op, group->ops->name);
    return TS_OK;
}

/* The tensor itself, or a contiguous copy that is the caller's. */
static ts_status contiguous(ts_tensor **copy, ts_tensor *tensor, bool sending)
{
    *copy = NULL;
    if (tensor->contiguous) return TS_OK;
    ts_spec spec = ts_tensor_spec(tensor);
    ts_tensor *c = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_COMMUNICATION);
    ts_status status = ts_tensor_check(c, "a contiguous copy");
    if (status == TS_OK && sending) status = ts_tensor_copy_data(c, tensor);
    if (status == TS_OK)
        *copy = c;
    else
        ts_release(c);
    return status;
}

static ts_p2p describe(ts_tensor *t, int peer, int tag, bool sending)
{
    bool empty = t->numel == 0;
    return (ts_p2p){.sending = sending,
                    .peer = peer,
                    .tag = tag,
                    .data = empty ? NULL : ts_tensor_bytes(t),
                    .bytes = (size_t)t->numel * ts_dtype_size((ts_dtype)t->dtype)};
}

/* ---- blocking -------------------------------------------------------------------------------- */

static ts_status transfer(ts_group *group, ts_tensor *tensor, int peer, int tag, bool sending,
                          int *from)
{
    ts_tensor *copy;
    void *request;
    TS_TRY(ts_group_find(&group, group, sending ? "send" : "recv"));
    TS_TRY(check(group, tensor, peer, tag, sending));
    TS_TRY(contiguous(&copy, tensor, sending));
    ts_p2p p2p = describe(copy ? copy : tensor, peer, tag, sending);
    ts_status status = group->ops->start(&request, group->state, &p2p);
    if (status == TS_OK)
        status = group->ops->wait(group->state, request, atomic_load(&group->timeout_ms), from);
    if (status == TS_OK && !sending) {
        ts_tensor_bump(tensor);
        if (copy) status = ts_tensor_copy_data(tensor, copy);
    }
    ts_release(copy);
    return status;
}

ts_status ts_send(ts_group *group, ts_tensor *tensor, int dst, int tag)
{
    return transfer(group, tensor, dst, tag, true, NULL);
}

ts_status ts_recv(ts_group *group, ts_tensor *tensor, int src, int tag, int *from)
{
    return transfer(group, tensor, src, tag, false, from);
}

/* ---- asynchronous ---------------------------------------------------------------------------- */

static void message_done(void *user, ts_status status, const char *error, int peer)
{
    ts_work *work = user;
    if (status == TS_OK && work->receiving) {
        work->source = peer;
        if (work->packed) status = ts_tensor_copy_data(work->call.tensor, work->packed);
        if (status != TS_OK) error = ts_error_last();
    }
    ts_work_finish(work, status, error);
    ts_work_free(work);
}

static ts_status start(ts_work *work, ts_tensor *tensor, int peer, int tag)
{
    ts_group *group = work->group;
    TS_TRY(contiguous(&work->packed, tensor, !work->receiving));
    ts_p2p p2p = describe(work->packed ? work->packed : tensor, peer, tag, !work->receiving);
    p2p.done = message_done;
    p2p.user = work;
    work->call.tensor = ts_retain(tensor);
    ts_work_retain(work);
    ts_status status = group->ops->start(&work->request, group->state, &p2p);
    if (status == TS_OK) return TS_OK;
    work->request = NULL;
    ts_work_free(work);
    return status;
}

static ts_status begin(ts_group *group, ts_tensor *tensor, int peer, int tag, bool sending,
                       ts_work **out)
{
    TS_TRY(ts_group_find(&group, group, sending ? "isend" : "irecv"));
    TS_TRY(check(group, tensor, peer, tag, sending));
    ts_work *work = ts_work_new(group);
    if (!work) return ts_fail_memory(sizeof *work, "a message");
    work->message = true;
    work->receiving = !sending;
    if (!sending) ts_tensor_bump(tensor);
    ts_status status = start(work, tensor, peer, tag);
    if (status == TS_OK)
        *out = work;
    else
        ts_work_free(work);
    return status;
}

ts_status ts_isend(ts_group *group, ts_tensor *tensor, int dst, int tag, ts_work **work)
{
    if (!work) return ts_send(group, tensor, dst, tag);
    return begin(group, tensor, dst, tag, true, work);
}

ts_status ts_irecv(ts_group *group, ts_tensor *tensor, int src, int tag, ts_work **work)
{
    if (!work) return ts_recv(group, tensor, src, tag, NULL);
    return begin(group, tensor, src, tag, false, work);
}
