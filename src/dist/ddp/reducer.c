/* SPDX-License-Identifier: Apache-2.0 */
/* When buckets are reduced, and how a backward ends on every rank. */
#include "dist/ddp/reducer.h"

#include <stdlib.h>
#include <string.h>
#include <tessera/autograd.h>

#include "autograd/autograd.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/group_impl.h"
#include "dist/ddp/reducer_impl.h"

/* ---- starting and finishing reductions ------------------------------------------------------- */

static ts_status launch(ts_reducer *r, ts_tensor *instead)
{
    if (r->next_bucket == 0) r->launched_ns = ts_now_ns();
    reducer_bucket *b = &r->buckets[r->next_bucket++];
    return ts_all_reduce(r->group, instead ? instead : b->flat.buffer, TS_AVG, &b->work);
}

/* Buckets start in index order; one that is complete early waits for those before it. */
static ts_status launch_complete(ts_reducer *r)
{
    while (r->next_bucket < r->plan.num_buckets && r->buckets[r->next_bucket].pending == 0)
        TS_TRY(launch(r, NULL));
    return TS_OK;
}

static ts_status wait_buckets(ts_reducer *r)
{
    ts_status first = TS_OK;
    char *text = NULL;
    for (int b = 0; b < r->plan.num_buckets; b++) {
        ts_work *work = r->buckets[b].work;
        r->buckets[b].work = NULL;
        ts_status status = work ? ts_work_wait(work, 0) : TS_OK;
        if (status != TS_OK && first == TS_OK) {
            first = status;
            text = ts_strdup(ts_error_last());
        }
        ts_work_free(work);
    }
    if (first != TS_OK) ts_fail_again(first, text ? text : "ddp: a reduction failed");
    free(text);
    return first;
}

/* A parameter that got no gradient in this backward adds what its gradient holds, or zeros. */
static ts_status fill_missing(ts_reducer *r)
{
    for (int i = 0; i < r->num_params; i++) {
        reducer_param *p = &r->params[i];
        if (p->ready) continue;
        ts_tensor *view = reducer_view(r, p);
        if (ts_grad(p->tensor))
            TS_TRY(reducer_attach_grad(r, p));
        else if (ts_nbytes(view) > 0)
            memset(ts_tensor_bytes(view), 0, ts_nbytes(view));
        r->buckets[p->bucket].pending--;
    }
    return launch_complete(r);
}

static ts_status exchange_use_map(ts_reducer *r, ts_tensor *instead)
{
    int32_t *used = ts_data_mut(r->use_map);
    for (int i = 0; i < r->num_params; i++) used[i] = r->params[i].ready;
    return ts_all_reduce(r->group, instead ? instead : r->use_map, TS_SUM, NULL);
}

static void disarm(ts_reducer *r) { r->armed = r->in_backward = false; }

void ts_reducer_poison(ts_reducer *r, ts_tensor *failed)
{
    ts_status status = ts_tensor_status(failed);
    while (r->next_bucket < r->plan.num_buckets && launch(r, failed) == status) {
    }
    exchange_use_map(r, failed);
    wait_buckets(r);
    disarm(r);
    ts_fail_again(status, ts_tensor_error(failed));
}

/* Queued by the first gradient of an armed backward; runs when backward has ended. */
static ts_status finish_backward(ts_status backward, void *user)
{
    ts_reducer *r = user;
    if (!r->armed) return TS_OK;
    int64_t last_gradient = ts_now_ns();
    r->backward_ns = last_gradient - r->armed_ns;
    ts_status status = backward == TS_OK ? fill_missing(r) : backward;
    if (status != TS_OK) {
        ts_reducer_poison(r, ts_fail_tensor_last(status));
        return status;
    }
    ts_status map = exchange_use_map(r, NULL);
    ts_status buckets = wait_buckets(r);
    int64_t reduced = ts_now_ns();
    r->wait_ns = reduced - last_gradient;
    disarm(r);
    TS_TRY(buckets);
    TS_TRY(map);
    reducer_log_times(r, last_gradient, reduced);
    r->iterations++;
    TS_TRY(reducer_check_use(r));
    r->order_known = true; /* every parameter became ready, on every rank */
    return TS_OK;
}

/* ---- the hook -------------------------------------------------------------------------------- */

static ts_status gradient_ready(ts_tensor *leaf, void *user)
{
    reducer_param *p = user;
    ts_reducer *r = p->reducer;
    (void)leaf;
    if (!r->armed) return TS_OK;
    if (!r->in_backward) {
        TS_TRY(ts_queue_backward_callback(finish_backward, r));
        r->in_backward = true;
    }
    if (p->ready)
        return ts_fail(TS_ESTATE,
                       "ddp: parameter '%s' got a second gradient in one backward; use the module "
                       "once between two forwards, or ts_ddp_no_sync_begin",
                       p->name);
    p->ready = true;
    if (r->num_ready < r->num_params) r->ready_order[r->num_ready++] = (int)(p - r->params);
    TS_TRY(reducer_attach_grad(r, p));
    r->buckets[p->bucket].pending--;
    return launch_complete(r);
}

void ts_reducer_arm(ts_reducer *r)
{
    r->armed = true;
    r->in_backward = false;
    r->next_bucket = 0;
    r->armed_ns = ts_now_ns();
    if (!r->order_known) r->num_ready = 0;
    for (int i = 0; i < r->num_params; i++) r->params[i].ready = false;
    for (int b = 0; b < r->plan.num_buckets; b++) r->buckets[b].pending = r->buckets[b].flat.n;
}

/* ---- rebuilding ------------------------------------------------------------------------------ */

static bool is_permutation(const int32_t *order, int n)
{
    bool *seen = ts_calloc((size_t)n, sizeof *seen);
    bool good = seen != NULL;
    for (int i = 0; i < n && good; i++) {
        good = order[i] >= 0 && order[i] < n && !seen[order[i]];
        if (good) seen[order[i]] = true;
    }
    free(seen);
    return good;
}

/* Rank 0's order, on every rank. */
static ts_status agree_order(ts_reducer *r, int *order)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT32;
    opt.category = TS_CATEGORY_COMMUNICATION;
    ts_scope scope = ts_scope_begin();
    ts_tensor *t = ts_from_data(r->ready_order, TS_SHAPE(r->num_params), &opt);
    ts_status status = ts_broadcast(r->group, t, 0, NULL);
    if (status == TS_OK) status = ts_copy_out(t, order, (size_t)r->num_params * sizeof *order);
    ts_scope_end(scope);
    TS_TRY(status);
    if (!is_permutation(order, r->num_params))
        return ts_fail(TS_EREMOTE, "ddp: rank 0 sent an order that is not one of %d parameters",
                       r->num_params);
    return TS_OK;
}

static bool any_gradient(const ts_reducer *r)
{
    for (int i = 0; i < r->num_params; i++)
        if (ts_grad(r->params[i].tensor)) return true;
    return false;
}

ts_status ts_reducer_prepare(ts_reducer *r)
{
    if (!r->buckets)
        return ts_fail(TS_ESTATE,
                       "ddp: rebuilding the buckets failed before; wrap the module anew");
    r->forward_ns = ts_now_ns();
    if (r->rebuilt || !r->order_known) return TS_OK;
    r->rebuilt = true;
    int *order = ts_calloc((size_t)r->num_params, sizeof *order);
    if (!order) return ts_fail_memory((size_t)r->num_params * sizeof *order, "rebuilding buckets");
    ts_status status = agree_order(r, order);
    if (status == TS_OK && !any_gradient(r)) reducer_drop_buckets(r); /* the new ones fit there */
    if (status == TS_OK) status = reducer_build(r, order);
    free(order);
    if (status == TS_OK) reducer_log_rebuild(r);
    return status;
}

/* ---- life ------------------------------------------------------------------------------------ */

static ts_status add_hooks(ts_reducer *r)
{
    for (int i = 0; i < r->num_params; i++) {
        reducer_param *p = &r->params[i];
        p->hook = ts_register_post_accumulate_hook(p->tensor, gradient_ready, p);
        if (p->hook == 0) return ts_fail_memory(0, "a gradient hook");
    }
    return TS_OK;
}

static ts_status make_use_map(ts_reducer *r)
{
    ts_spec spec = {TS_SHAPE(r->num_params), TS_INT32, TS_CPU};
    r->use_map = ts_tensor_new_owned(&spec, TS_MEMORY_SHARED, TS_CATEGORY_COMMUNICATION);
    return ts_tensor_check(r->use_map, "ddp: map of used parameters");
}

static ts_status build_reversed(ts_reducer *r)
{
    int *order = ts_calloc((size_t)r->num_params, sizeof *order);
    if (!order) return ts_fail_memory((size_t)r->num_params * sizeof *order, "ddp buckets");
    for (int i = 0; i < r->num_params; i++) order[i] = r->num_params - 1 - i;
    ts_status status = reducer_build(r, order);
    free(order);
    return status;
}

ts_status ts_reducer_new(ts_reducer **out, ts_tensor_list *parameters,
                         const ts_reducer_options *opt)
{
    int n = (int)ts_tensor_list_count(parameters);
    ts_reducer *r = ts_calloc(1, sizeof *r);
    if (!r) {
        ts_tensor_list_free(parameters);
        return ts_fail_memory(sizeof *r, "a reducer");
    }
    *r = (ts_reducer){.group = opt->group,
                      .parameters = parameters,
                      .caps = {opt->first_bucket_bytes, opt->bucket_bytes},
                      .num_params = n,
                      .params = ts_calloc((size_t)n, sizeof *r->params),
                      .ready_order = ts_calloc((size_t)n, sizeof *r->ready_order)};
    ts_group_retain(r->group); /* outlives its destruction: a late backward must fail, not crash */
    ts_status status = r->params && r->ready_order ? TS_OK : ts_fail_memory(0, "a reducer");
    for (int i = 0; i < n && status == TS_OK; i++)
        r->params[i] = (reducer_param){.reducer = r,
                                       .tensor = ts_tensor_list_get(parameters, i),
                                       .name = ts_tensor_list_name(parameters, i)};
    if (status == TS_OK) status = make_use_map(r);
    if (status == TS_OK) status = build_reversed(r);
    if (status == TS_OK) status = add_hooks(r);
    if (status == TS_OK)
        *out = r;
    else
        ts_reducer_free(r);
    return status;
}

void ts_reducer_free(ts_reducer *r)
{
    if (!r) return;
    for (int i = 0; i < r->num_params && r->params; i++) {
        reducer_param *p = &r->params[i];
        if (p->hook) ts_hook_remove(p->tensor, p->hook);
    }
    reducer_drop_buckets(r);
    ts_release(r->use_map);
    free(r->ready_order);
    free(r->params);
    ts_tensor_list_free(r->parameters);
    ts_group_release(r->group);
    free(r);
}

void ts_reducer_stats(ts_ddp_stats *out, const ts_reducer *r)
{
    *out = (ts_ddp_stats){.iterations = r->iterations,
                          .num_buckets = r->plan.num_buckets,
                          .rebuilt_buckets = r->rebuilt,
                          .wait_ns = r->wait_ns,
                          .backward_ns = r->backward_ns};
    for (int b = 0; b < r->plan.num_buckets; b++)
        out->bucket_bytes_total += (int64_t)ts_nbytes(r->buckets[b].flat.buffer);
}
