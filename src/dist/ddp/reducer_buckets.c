/* SPDX-License-Identifier: Apache-2.0 */
/* Which gradients share a bucket, and how they come to lie in it. */
#include <stdlib.h>
#include <tessera/autograd.h>

#include "autograd/autograd.h"
#include "base/log.h"
#include "base/memory.h"
#include "dist/ddp/reducer_impl.h"

static bool lies_in(const ts_tensor *grad, const ts_tensor *view)
{
    return ts_same_storage(grad, view) && ts_storage_offset(grad) == ts_storage_offset(view);
}

ts_status reducer_attach_grad(ts_reducer *r, reducer_param *p)
{
    ts_tensor *grad = ts_grad(p->tensor), *view = reducer_view(r, p);
    if (!grad || lies_in(grad, view)) return TS_OK;
    if (ts_tensor_dtype(grad) != ts_tensor_dtype(view))
        return ts_fail(TS_EDTYPE, "ddp: gradient of '%s' is %s, its bucket %s", p->name,
                       ts_dtype_name(ts_tensor_dtype(grad)), ts_dtype_name(ts_tensor_dtype(view)));
    TS_TRY(ts_tensor_copy_data(view, grad));
    return ts_set_grad(p->tensor, view);
}

void reducer_drop_buckets(ts_reducer *r)
{
    for (int i = 0; i < r->num_params && r->buckets; i++)
        ts_autograd_set_grad_home(r->params[i].tensor, NULL);
    for (int b = 0; b < r->plan.num_buckets && r->buckets; b++) {
        if (r->buckets[b].work) {
            ts_work_wait(r->buckets[b].work, 0);
            ts_work_free(r->buckets[b].work);
        }
        ts_flat_fini(&r->buckets[b].flat);
    }
    free(r->buckets);
    r->buckets = NULL;
    ts_bucket_plan_fini(&r->plan);
}

static ts_status allocate(reducer_bucket *buckets, const ts_bucket_plan *plan,
                          ts_tensor *const *tensors)
{
    for (int b = 0; b < plan->num_buckets; b++) {
        buckets[b].params = plan->index + plan->start[b];
        TS_TRY(ts_flat_make(&buckets[b].flat, tensors, buckets[b].params,
                            plan->start[b + 1] - plan->start[b], TS_MEMORY_SHARED,
                            TS_CATEGORY_GRADIENT));
    }
    return TS_OK;
}

/* Adopts plan and buckets: every parameter learns its place, and gradients move there. */
static ts_status adopt(ts_reducer *r, ts_bucket_plan plan, reducer_bucket *buckets)
{
    ts_bucket_plan old_plan = r->plan;
    reducer_bucket *old_buckets = r->buckets;
    ts_status status = TS_OK;
    r->plan = plan;
    r->buckets = buckets;
    for (int b = 0; b < plan.num_buckets; b++)
        for (int slot = 0; slot < buckets[b].flat.n; slot++) {
            reducer_param *p = &r->params[buckets[b].params[slot]];
            p->bucket = b;
            p->slot = slot;
            if (status == TS_OK) status = reducer_attach_grad(r, p);
            if (status == TS_OK) status = ts_autograd_set_grad_home(p->tensor, reducer_view(r, p));
        }
    for (int b = 0; b < old_plan.num_buckets; b++) ts_flat_fini(&old_buckets[b].flat);
    free(old_buckets);
    ts_bucket_plan_fini(&old_plan);
    return status;
}

ts_status reducer_build(ts_reducer *r, const int *order)
{
    ts_tensor **tensors = ts_calloc((size_t)r->num_params, sizeof *tensors);
    if (!tensors) return ts_fail_memory((size_t)r->num_params * sizeof *tensors, "ddp buckets");
    for (int i = 0; i < r->num_params; i++) tensors[i] = r->params[i].tensor;
    ts_bucket_plan plan = {0};
    reducer_bucket *buckets = NULL;
    ts_status status = ts_bucket_plan_make(&plan, tensors, order, r->num_params, r->caps, 2);
    if (status == TS_OK) {
        buckets = ts_calloc((size_t)plan.num_buckets, sizeof *buckets);
        status = buckets
                     ? allocate(buckets, &plan, tensors)
                     : ts_fail_memory((size_t)plan.num_buckets * sizeof *buckets, "ddp buckets");
    }
    free(tensors);
    if (status == TS_OK) {
        TS_LOG(TS_LOG_DDP, TS_LEVEL_INFO, "%d parameters in %d buckets, the first of %zu bytes",
               r->num_params, plan.num_buckets, ts_nbytes(buckets[0].flat.buffer));
        return adopt(r, plan, buckets);
    }
    for (int b = 0; b < plan.num_buckets && buckets; b++) ts_flat_fini(&buckets[b].flat);
    free(buckets);
    ts_bucket_plan_fini(&plan);
    return status;
}
