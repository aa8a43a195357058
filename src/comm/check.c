/* SPDX-License-Identifier: Apache-2.0 */
/* Argument checks.  What is wrong on one rank is recorded in its call, which still takes part in
 * the agreement, so that the others learn the cause instead of waiting. */
#include <stdarg.h>
#include <stdio.h>

#include "base/memory.h"
#include "comm/group_impl.h"
#include "kernels/combine.h"

void ts_call_fail_last(ts_call *call, ts_status status)
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
    ts_call_fail_last(call, ts_fail(status, "%s: %s", call->coll.name, text));
}

static bool is_fine(const ts_tensor *t, ts_use use)
{
    return t && t->status == TS_OK && t->device == TS_CPU &&
           (use == TS_USE_READ || (t->contiguous && !t->storage->read_only));
}

ts_status ts_tensor_usable(const ts_tensor *t, ts_use use, const char *op, const char *what)
{
    if (is_fine(t, use)) return TS_OK;
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

bool ts_call_usable(ts_call *call, ts_tensor *t, ts_use use, const char *what)
{
    if (call->coll.status != TS_OK) return false;
    ts_status status = ts_tensor_usable(t, use, call->coll.name, what);
    if (status == TS_OK && use == TS_USE_WRITE) ts_tensor_bump(t);
    if (status != TS_OK) ts_call_fail_last(call, status);
    return status == TS_OK;
}

static ts_dtype real_of(unsigned dtype)
{
    return dtype == TS_COMPLEX64    ? TS_FLOAT32
           : dtype == TS_COMPLEX128 ? TS_FLOAT64
                                    : (ts_dtype)dtype;
}

/* For messages. */
static const char *dtype_name(const ts_call *call)
{
    ts_dtype real = call->coll.dtype;
    if (!call->complex) return ts_dtype_name(real);
    return ts_dtype_name(real == TS_FLOAT32 ? TS_COMPLEX64 : TS_COMPLEX128);
}

void ts_call_adopt(ts_call *call, ts_dtype dtype, ts_shape shape)
{
    ts_shape *said = &call->coll.shape;
    call->coll.dtype = real_of(dtype);
    *said = shape;
    if (!ts_is_complex(dtype)) return;
    call->complex = true;
    if (said->ndim < TS_MAX_DIMS) said->dim[said->ndim++] = 2;
}

static void adopt(ts_call *call, const ts_tensor *t)
{
    ts_call_adopt(call, (ts_dtype)t->dtype, t->shape);
}

void ts_call_tensor(ts_call *call, ts_tensor *tensor, ts_use use)
{
    if (!ts_call_usable(call, tensor, use, "tensor")) return;
    call->tensor = tensor;
    adopt(call, tensor);
}

void ts_call_reduce(ts_call *call, ts_reduce_op op)
{
    call->coll.reduce = op;
    if (call->coll.status != TS_OK) return;
    if (op == TS_PREMUL_SUM)
        ts_call_fail(call, TS_EINVAL, "PREMUL_SUM needs a factor; call ts_%s%s_premul",
                     ts_collective_name(call->coll.op),
                     call->coll.op == TS_COLL_REDUCE_SCATTER ? "_tensor" : "");
    else if (op < TS_SUM || op > TS_BXOR)
        ts_call_fail(call, TS_EINVAL, "%d is not a reduction", (int)op);
    else if (!ts_combine_allows(call->coll.dtype, op) ||
             (call->complex && !ts_reduce_op_supports_complex(op)))
        ts_call_fail(call, TS_EDTYPE, "%s of %s is not defined", ts_reduce_name(op),
                     dtype_name(call));
}

void ts_call_premul(ts_call *call, double factor)
{
    call->coll.reduce = TS_SUM;
    call->scaled = true;
    call->factor = factor;
    if (call->coll.status != TS_OK) return;
    if (!ts_dtype_is_floating(call->coll.dtype))
        ts_call_fail(call, TS_EDTYPE, "PREMUL_SUM of %s is not defined", dtype_name(call));
}

void ts_call_root(ts_call *call, const ts_group *group, int root)
{
    call->coll.root = ts_group_local(group, root);
    if (call->coll.root >= 0) return;
    if (root <= TS_GROUP_RANK(0))
        ts_call_fail(call, TS_EINVAL, "TS_GROUP_RANK(%d) is not in 0 .. %d", TS_GROUP_RANK(root),
                     group->size - 1);
    else if (group->ranks)
        ts_call_fail(call, TS_EINVAL, "rank %d is not a member of group '%s'", root, group->name);
    else
        ts_call_fail(call, TS_EINVAL, "rank %d is not in 0 .. %d", root, group->size - 1);
}

static bool same_dtype(ts_call *call, const ts_tensor *part)
{
    if (real_of(part->dtype) != call->coll.dtype) {
        ts_call_fail(call, TS_EDTYPE, "tensors of %s and %s in one call", dtype_name(call),
                     ts_dtype_name((ts_dtype)part->dtype));
        return false;
    }
    call->complex |= ts_is_complex(part->dtype);
    return true;
}

bool ts_call_part(ts_call *call, ts_tensor *part, ts_use use, const char *what)
{
    return ts_call_usable(call, part, use, what) && same_dtype(call, part);
}

void ts_call_whole(ts_issue *issue, ts_tensor *whole, ts_use use)
{
    ts_call *call = issue->call;
    if (!ts_call_usable(call, whole, use, use == TS_USE_WRITE ? "output" : "input")) return;
    if (!same_dtype(call, whole)) return;
    int64_t wanted = ts_real_count(call->tensor) * issue->group->size;
    if (ts_real_count(whole) == wanted) {
        call->parts.whole = whole;
        return;
    }
    bool pairs = whole->dtype != call->tensor->dtype;
    bool output = use == TS_USE_WRITE;
    ts_call_fail(call, TS_ESHAPE,
                 "the %s has %lld element%s and the group %d ranks, so the %s must have %lld, not "
                 "%lld%s",
                 output ? "input" : "output", (long long)call->tensor->numel,
                 ts_plural(call->tensor->numel), issue->group->size, output ? "output" : "input",
                 (long long)(call->tensor->numel * issue->group->size), (long long)whole->numel,
                 pairs ? " (a complex number counts as two real ones)" : "");
}

/* Do the splits add up? */
static bool splits_fit(ts_call *call, const ts_tensor *whole, const int64_t *splits, int n,
                       const char *what)
{
    int64_t length = whole->shape.ndim > 0 ? whole->shape.dim[0] : 1, sum = 0;
    if (whole->shape.ndim == 0) {
        ts_call_fail(call, TS_ESHAPE, "%s has no dimension to split (0-dim)", what);
    } else if (!splits && length % n != 0) {
        ts_call_fail(call, TS_ESHAPE,
                     "dimension 0 of the %s is %lld, which %d ranks do not divide; give splits",
                     what, (long long)length, n);
    }
    for (int i = 0; splits && i < n; i++) {
        if (splits[i] < 0 || splits[i] > length)
            ts_call_fail(call, TS_EINVAL, "split %d of the %s is %lld, but dimension 0 is %lld", i,
                         what, (long long)splits[i], (long long)length);
        if (call->coll.status != TS_OK) return false;
        sum += splits[i];
    }
    if (splits && sum != length)
        ts_call_fail(call, TS_EINVAL,
                     "the splits of the %s add up to %lld, but dimension 0 is %lld", what,
                     (long long)sum, (long long)length);
    return call->coll.status == TS_OK;
}

void ts_call_split(ts_issue *issue, ts_side *side, ts_tensor *whole, const int64_t *splits,
                   ts_use use)
{
    ts_call *call = issue->call;
    const char *what = use == TS_USE_WRITE ? "output" : "input";
    if (!ts_call_usable(call, whole, use, what)) return;
    if (side == &call->parts)
        adopt(call, whole);
    else if (!same_dtype(call, whole))
        return;
    if (!splits_fit(call, whole, splits, issue->group->size, what)) return;
    side->whole = whole;
    side->splits = splits;
}

void ts_call_list(ts_issue *issue, ts_side *side, ts_tensor *const *list, int n, ts_use use)
{
    ts_call *call = issue->call;
    const ts_group *group = issue->group;
    char what[48];
    if (n != group->size || (n > 0 && !list)) {
        ts_call_fail(call, TS_EINVAL, "the list has %d tensors, but the group %d ranks",
                     list ? n : 0, group->size);
        return;
    }
    for (int i = 0; i < n; i++) {
        snprintf(what, sizeof what, "tensor %d of the %s list", i,
                 use == TS_USE_WRITE ? "output" : "input");
        if (!ts_call_usable(call, list[i], use, what)) return;
        if (i == 0 && !call->tensor && side == &call->parts) adopt(call, list[0]);
        if (!same_dtype(call, list[i])) return;
    }
    if (call->tensor && ts_real_count(list[group->rank]) != ts_real_count(call->tensor))
        ts_call_fail(call, TS_ESHAPE,
                     "entry %d of the list has %lld element%s, but the tensor of this rank %lld",
                     group->rank, (long long)list[group->rank]->numel,
                     ts_plural(list[group->rank]->numel), (long long)call->tensor->numel);
    else
        side->list = list;
}

void ts_call_no_list(ts_call *call, ts_tensor *const *list, int n)
{
    if (list || n != 0)
        ts_call_fail(call, TS_EINVAL,
                     "only the root (rank %d) gives a list; pass NULL and 0 on the others",
                     call->coll.root);
}
