/* SPDX-License-Identifier: Apache-2.0 */
/* Argument checks.  What is wrong on one rank is recorded in its call, which still takes part in
 * the agreement, so that the others learn the cause instead of waiting. */
#include <stdarg.h>
#include <stdio.h>

#include "base/memory.h"
#include "comm/group_impl.h"
#include "kernels/combine.h"

/* Keeps the calling thread's last error as the cause. */
static void record(ts_call *call, ts_status status)
{
    call->coll.status = status;
    call->cause = ts_strdup(ts_error_last());
    call->coll.cause = call->cause ? call->cause : "out of memory";
}

void ts_call_fail(ts_call *call, ts_status status, const char *format, ...)
{
    char text[TS_ERROR_MAX];
    va_list args;
    if (call->coll.status != TS_OK) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    record(call, ts_fail(status, "%s: %s", ts_collective_name(call->coll.op), text));
}

ts_status ts_tensor_usable(const ts_tensor *t, ts_use use, const char *op, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s: %s", op, what);
    TS_TRY(ts_tensor_check(t, name));
    if (t->device != TS_CPU)
        return ts_fail(TS_EUNSUPPORTED, "%s lies on device %s; only cpu tensors can be sent", name,
                       ts_device_name((ts_device)t->device));
    if (use == TS_USE_WRITE && t->storage->read_only)
        return ts_fail(TS_EINVAL, "%s is read-only (a file map); pass a copy", name);
    if (use == TS_USE_WRITE && !t->contiguous && ts_tensor_overlaps(t))
        return ts_fail(TS_EINVAL,
                       "%s has elements that share memory (an expanded view); pass a copy", name);
    return TS_OK;
}

static bool usable(ts_call *call, ts_tensor *t, ts_use use, const char *what)
{
    if (call->coll.status != TS_OK) return false;
    ts_status status = ts_tensor_usable(t, use, ts_collective_name(call->coll.op), what);
    if (status == TS_OK && use == TS_USE_WRITE) ts_tensor_bump(t);
    if (status != TS_OK) record(call, status);
    return status == TS_OK;
}

void ts_call_tensor(ts_call *call, ts_tensor *tensor, ts_use use)
{
    if (!usable(call, tensor, use, "tensor")) return;
    call->tensor = tensor;
    call->coll.dtype = (ts_dtype)tensor->dtype;
    call->coll.shape = tensor->shape;
}

void ts_call_reduce(ts_call *call, ts_reduce_op op)
{
    call->coll.reduce = op;
    if (call->coll.status != TS_OK) return;
    if (op < TS_SUM || op > TS_BXOR)
        ts_call_fail(call, TS_EINVAL, "%d is not a reduction", (int)op);
    else if (!ts_combine_allows(call->coll.dtype, op))
        ts_call_fail(call, TS_EDTYPE, "%s of %s is not defined", ts_reduce_name(op),
                     ts_dtype_name(call->coll.dtype));
}

void ts_call_root(ts_call *call, const ts_group *group, int root)
{
    call->coll.root = root;
    if (root < 0 || root >= group->size)
        ts_call_fail(call, TS_EINVAL, "rank %d is not in 0 .. %d", root, group->size - 1);
}

static bool same_dtype(ts_call *call, const ts_tensor *part)
{
    if (part->dtype == call->coll.dtype) return true;
    ts_call_fail(call, TS_EDTYPE, "tensors of %s and %s in one call",
                 ts_dtype_name(call->coll.dtype), ts_dtype_name((ts_dtype)part->dtype));
    return false;
}

void ts_call_whole(ts_issue *issue, ts_tensor *whole, ts_use use)
{
    ts_call *call = issue->call;
    if (!usable(call, whole, use, use == TS_USE_WRITE ? "output" : "input")) return;
    if (!same_dtype(call, whole)) return;
    int64_t wanted = call->tensor->numel * issue->group->size;
    if (whole->numel != wanted)
        ts_call_fail(call, TS_ESHAPE,
                     "one tensor has %lld elements, so the other must have %lld (times %d ranks), "
                     "not %lld",
                     (long long)call->tensor->numel, (long long)wanted, issue->group->size,
                     (long long)whole->numel);
    else
        call->whole = whole;
}

void ts_call_list(ts_issue *issue, ts_tensor *const *list, int n, ts_use use)
{
    ts_call *call = issue->call;
    const ts_group *group = issue->group;
    char what[32];
    if (n != group->size || (n > 0 && !list)) {
        ts_call_fail(call, TS_EINVAL, "the list has %d tensors, but the group %d ranks",
                     list ? n : 0, group->size);
        return;
    }
    for (int i = 0; i < n; i++) {
        snprintf(what, sizeof what, "tensor %d of the list", i);
        if (!usable(call, list[i], use, what) || !same_dtype(call, list[i])) return;
    }
    if (list[group->rank]->numel != call->tensor->numel)
        ts_call_fail(call, TS_ESHAPE,
                     "entry %d of the list has %lld elements, but the tensor of this rank %lld",
                     group->rank, (long long)list[group->rank]->numel,
                     (long long)call->tensor->numel);
    else
        call->list = list;
}
