/* SPDX-License-Identifier: Apache-2.0 */
/* Several collectives as one operation: at once as lists, or noted one by one in a scope. */
#include <stdlib.h>

#include "base/memory.h"
#include "comm/group_impl.h"

/* ---- checks ---------------------------------------------------------------------------------- */

static bool same_dtype(ts_call *call, const ts_tensor *t, const ts_tensor *first)
{
    if (t->dtype == first->dtype) return true;
    ts_call_fail(call, TS_EDTYPE, "tensors of %s and %s in one call",
                 ts_dtype_name((ts_dtype)first->dtype), ts_dtype_name((ts_dtype)t->dtype));
    return false;
}

static bool check_tensor(ts_call *call, ts_tensor *t, ts_use use, const ts_tensor *first, int k)
{
    char what[48];
    snprintf(what, sizeof what, "tensor %d of the %s list", k,
             use == TS_USE_WRITE ? "output" : "input");
    return ts_call_usable(call, t, use, what) && same_dtype(call, t, first ? first : t);
}

/* Tensor k has `wanted` elements? */
static bool check_size(ts_call *call, const ts_tensor *t, int64_t wanted, int k)
{
    if (t->numel == wanted) return true;
    ts_call_fail(
        call, TS_ESHAPE,
        "pair %d: the longer tensor must have %lld element%s (those of the other times the "
        "number of ranks), not %lld",
        k, (long long)wanted, ts_plural(wanted), (long long)t->numel);
    return false;
}

static bool check_parts(ts_call *call, const ts_bunch *b, int k, int size, ts_use use)
{
    for (int r = 0; r < (b->whole ? 1 : size); r++) {
        int at = b->whole ? k : r * b->n + k;
        if (!check_tensor(call, b->parts[at], use, b->tensor[0], at)) return false;
        int64_t wanted = b->tensor[k]->numel * (b->whole ? size : 1);
        if (!check_size(call, b->parts[at], wanted, k)) return false;
    }
    return true;
}

/* The tensors of a bunch, all of one dtype. */
static void check_bunch(ts_issue *issue, const ts_bunch *b)
{
    ts_call *call = issue->call;
    bool gather = call->coll.op == TS_COLL_ALL_GATHER;
    bool parts = call->coll.op != TS_COLL_ALL_REDUCE;
    int64_t total = 0;
    if (b->n <= 0 || !b->tensor || (parts && !b->parts)) {
        ts_call_fail(call, TS_EINVAL, "the list is empty or missing");
        return;
    }
    for (int k = 0; k < b->n; k++) {
        ts_use use = gather ? TS_USE_READ : TS_USE_WRITE,
               other = gather ? TS_USE_WRITE : TS_USE_READ;
        if (!check_tensor(call, b->tensor[k], use, b->tensor[0], k)) return;
        if (parts && !check_parts(call, b, k, issue->group->size, other)) return;
        total += b->tensor[k]->numel;
    }
    call->bunch = *b;
    ts_call_adopt(call, (ts_dtype)b->tensor[0]->dtype, ts_shape_make(1, &total));
}

static ts_status run_bunch(ts_group *group, ts_collective op, const char *name, const void *site,
                           const ts_bunch *bunch, const ts_reduce_op *reduce, ts_work **work)
{
    ts_issue issue;
    TS_TRY(ts_issue_begin(&issue, group, op, name, site, work));
    check_bunch(&issue, bunch);
    if (reduce) ts_call_reduce(issue.call, *reduce);
    return ts_issue_end(&issue);
}

/* ---- lists ----------------------------------------------------------------------------------- */

ts_status ts_all_reduce_coalesced(ts_group *group, ts_tensor *const *tensors, int n,
                                  ts_reduce_op op, ts_work **work)
{
    ts_bunch bunch = {.n = n, .tensor = tensors};
    return run_bunch(group, TS_COLL_ALL_REDUCE, TS_CALLED, TS_CALL_SITE, &bunch, &op, work);
}

ts_status ts_all_gather_coalesced(ts_group *group, ts_tensor *const *out, ts_tensor *const *in,
                                  int n, ts_work **work)
{
    ts_bunch bunch = {.n = n, .tensor = in, .parts = out};
    return run_bunch(group, TS_COLL_ALL_GATHER, TS_CALLED, TS_CALL_SITE, &bunch, NULL, work);
}

ts_status ts_all_gather_into_tensor_coalesced(ts_group *group, ts_tensor *const *out,
                                              ts_tensor *const *in, int n, ts_work **work)
{
    ts_bunch bunch = {.n = n, .tensor = in, .parts = out, .whole = true};
    return run_bunch(group, TS_COLL_ALL_GATHER, TS_CALLED, TS_CALL_SITE, &bunch, NULL, work);
}

ts_status ts_reduce_scatter_tensor_coalesced(ts_group *group, ts_tensor *const *out,
                                             ts_tensor *const *in, int n, ts_reduce_op op,
                                             ts_work **work)
{
    ts_bunch bunch = {.n = n, .tensor = out, .parts = in, .whole = true};
    return run_bunch(group, TS_COLL_REDUCE_SCATTER, TS_CALLED, TS_CALL_SITE, &bunch, &op, work);
}

/* ---- the scope ------------------------------------------------------------------------------- */

/* Guarded by the group's lock while it hangs on the group. */
typedef struct ts_coalescing {
    ts_collective op; /* of the first call, as are: */
    const char *name;
    ts_reduce_op reduce;
    ts_status status; /* of the first that could not be noted */
    char *cause;
    ts_vec tensors, parts; /* with references */
} ts_coalescing;

static void free_scope(ts_coalescing *c)
{
    for (int64_t i = 0; i < c->tensors.count; i++) ts_release(c->tensors.item[i]);
    for (int64_t i = 0; i < c->parts.count; i++) ts_release(c->parts.item[i]);
    ts_vec_fini(&c->tensors);
    ts_vec_fini(&c->parts);
    free(c->cause);
    free(c);
}

void ts_coalescing_free(ts_group *group)
{
    ts_coalescing *c = atomic_exchange(&group->coalescing, NULL);
    if (c) free_scope(c);
}

ts_status ts_coalesce_begin(ts_group *group)
{
    TS_TRY(ts_group_find(&group, group, "coalesce_begin"));
    ts_coalescing *c = ts_calloc(1, sizeof *c), *none = NULL;
    if (!c) return ts_fail_memory(sizeof *c, "a coalescing scope");
    if (atomic_compare_exchange_strong(&group->coalescing, &none, c)) return TS_OK;
    free_scope(c);
    return ts_fail(TS_ESTATE, "coalesce_begin: group '%s' has an open scope; end it first",
                   group->name);
}

/* What keeps the call out of the scope. */
static void check_fit(const ts_coalescing *c, ts_call *call)
{
    const ts_tensor *first = c->tensors.count ? c->tensors.item[0] : call->tensor;
    bool kind = call->coll.op == TS_COLL_ALL_REDUCE || call->parts.whole;
    if (call->coll.status != TS_OK) return;
    if (!kind || !call->tensor || call->received.whole || call->scaled || call->bunch.n ||
        call->run)
        ts_call_fail(call, TS_EINVAL,
                     "not possible in a coalescing scope, which takes all_reduce, "
                     "all_gather_into_tensor and reduce_scatter_tensor");
    else if (c->tensors.count && call->coll.op != c->op)
        ts_call_fail(call, TS_EINVAL, "the coalescing scope has begun with %s; one kind only",
                     c->name);
    else if (c->tensors.count && call->coll.reduce != c->reduce)
        ts_call_fail(call, TS_EINVAL, "%s in a coalescing scope that has begun with %s",
                     ts_reduce_name(call->coll.reduce), ts_reduce_name(c->reduce));
    else if (same_dtype(call, call->tensor, first) && call->parts.whole)
        same_dtype(call, call->parts.whole, first);
}

static void note(ts_coalescing *c, ts_call *call)
{
    bool parts = call->parts.whole != NULL;
    if (c->tensors.count == 0) {
        c->op = call->coll.op;
        c->name = call->coll.name;
        c->reduce = call->coll.reduce;
    }
    check_fit(c, call);
    if (call->coll.status == TS_OK) {
        if (ts_vec_push(&c->tensors, call->tensor)) ts_retain(call->tensor);
        if (parts && ts_vec_push(&c->parts, call->parts.whole)) ts_retain(call->parts.whole);
        if (parts && c->parts.count != c->tensors.count)
            ts_call_fail(call, TS_ENOMEM, "out of memory for a coalescing scope");
    }
    if (call->coll.status == TS_OK || c->status != TS_OK) return;
    c->status = call->coll.status;
    c->cause = ts_strdup(call->coll.cause);
}

ts_status ts_coalescing_note(ts_issue *issue)
{
    ts_call *call = issue->call;
    pthread_mutex_lock(&issue->group->lock);
    ts_coalescing *c = atomic_load(&issue->group->coalescing);
    if (c) note(c, call);
    pthread_mutex_unlock(&issue->group->lock);
    if (!c)
        ts_call_fail(call, TS_ESTATE, "another thread has ended the coalescing scope meanwhile");
    ts_status status = call->coll.status;
    if (status != TS_OK) ts_fail_again(status, call->coll.cause);
    ts_call_fini(call);
    return status;
}

/* Nothing was noted: nothing is to be done, on no rank. */
static ts_status end_empty(ts_group *group, ts_work **out)
{
    if (!out) return TS_OK;
    ts_work *work = ts_work_new(group);
    if (!work) return ts_fail_memory(sizeof *work, "a work");
    ts_work_finish(work, TS_OK, NULL);
    *out = work;
    return TS_OK;
}

/* Runs what was noted; or, if some call could not be, only tells the others. */
static ts_status run_scope(ts_group *group, const ts_coalescing *c, const void *site,
                           ts_work **work)
{
    ts_issue issue;
    ts_bunch bunch = {.n = (int)c->tensors.count,
                      .tensor = (ts_tensor *const *)c->tensors.item,
                      .parts = (ts_tensor *const *)c->parts.item,
                      .whole = c->parts.count > 0};
    if (c->status == TS_OK && c->tensors.count == 0) return end_empty(group, work);
    TS_TRY(ts_issue_begin(&issue, group, c->op, "coalesce_end", site, work));
    if (c->status != TS_OK) {
        ts_fail_again(c->status, c->cause ? c->cause : ts_status_text(c->status));
        ts_call_fail_last(issue.call, c->status);
    } else {
        check_bunch(&issue, &bunch);
        if (c->op != TS_COLL_ALL_GATHER) ts_call_reduce(issue.call, c->reduce);
    }
    return ts_issue_end(&issue);
}

ts_status ts_coalesce_end(ts_group *group, ts_work **work)
{
    TS_TRY(ts_group_find(&group, group, "coalesce_end"));
    pthread_mutex_lock(&group->lock);
    ts_coalescing *c = atomic_exchange(&group->coalescing, NULL);
    pthread_mutex_unlock(&group->lock);
    if (!c)
        return ts_fail(TS_ESTATE, "coalesce_end: group '%s' has no open scope; begin one first",
                       group->name);
    ts_status status = run_scope(group, c, TS_CALL_SITE, work);
    free_scope(c);
    return status;
}
