/* SPDX-License-Identifier: Apache-2.0 */
/* What all optimizers share: life, the step, the learning rate. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/autograd.h>

#include "base/memory.h"
#include "base/thread.h"
#include "optim/optim_impl.h"
#include "tensor/tensor.h"

/* ---- life ------------------------------------------------------------------------------------ */

ts_status ts_optim_range(const char *rule, const char *name, double value, double low, double high)
{
    if (value >= low && value < high) return TS_OK;
    if (isinf(high))
        return ts_fail(TS_EINVAL, "%s: %s is %g; it must be a number >= %g", rule, name, value,
                       low);
    return ts_fail(TS_EINVAL, "%s: %s is %g; it must be in [%g, %g)", rule, name, value, low, high);
}

static ts_status check_parameter(const char *rule, const ts_tensor_list *list, int64_t i)
{
    const char *name = ts_tensor_list_name(list, i);
    const ts_tensor *t = ts_tensor_list_get(list, i);
    ts_dtype dtype = ts_tensor_dtype(t);
    TS_TRY(ts_tensor_check(t, name));
    if (dtype != TS_FLOAT32 && dtype != TS_FLOAT64)
        return ts_fail(TS_EDTYPE, "%s: '%s' is %s; needs float32 or float64", rule, name,
                       ts_dtype_name(dtype));
    if (ts_tensor_device(t) != TS_CPU)
        return ts_fail(TS_EUNSUPPORTED, "%s: '%s' is on device %s; needs cpu", rule, name,
                       ts_device_name(ts_tensor_device(t)));
    if (!ts_is_leaf(t))
        return ts_fail(TS_EINVAL, "%s: '%s' was made by an operation; only leaves can be trained",
                       rule, name);
    for (int64_t k = 0; k < i; k++)
        if (ts_tensor_list_get(list, k) == t)
            return ts_fail(TS_EINVAL, "%s: '%s' and '%s' are the same tensor", rule,
                           ts_tensor_list_name(list, k), name);
    return TS_OK;
}

static ts_status check_parameters(const char *rule, const ts_tensor_list *list)
{
    if (ts_tensor_list_count(list) == 0)
        return ts_fail(TS_EINVAL, "%s: the list of parameters is %s", rule,
                       list ? "empty" : "missing");
    for (int64_t i = 0; i < ts_tensor_list_count(list); i++) TS_TRY(check_parameter(rule, list, i));
    return TS_OK;
}

static ts_status fill(ts_optim *o)
{
    int64_t count = ts_tensor_list_count(o->parameters);
    TS_TRY(check_parameters(o->rule->name, o->parameters));
    o->param = ts_calloc((size_t)count, sizeof *o->param);
    if (!o->param) return ts_fail_memory((size_t)count * sizeof *o->param, "an optimizer");
    TS_TRY(ts_chunks_init(&o->chunks, count, "an optimizer"));
    ts_spec spec = {TS_SHAPE(count), TS_FLOAT32, TS_CPU};
    o->steps = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_OPTIMIZER);
    TS_TRY(ts_tensor_check(o->steps, "steps"));
    o->step = memset(ts_tensor_bytes(o->steps), 0, (size_t)count * sizeof *o->step);
    return TS_OK;
}

ts_status ts_optim_new(ts_optim **out, const ts_optim_rule *rule, ts_tensor_list *parameters,
                       double lr)
{
    ts_optim *o = ts_calloc(1, sizeof *o);
    if (!o) {
        ts_tensor_list_free(parameters);
        return ts_fail_memory(sizeof *o, "an optimizer");
    }
    o->rule = rule;
    o->parameters = parameters;
    o->lr = lr;
    ts_status status = fill(o);
    if (status != TS_OK) {
        ts_optim_free(o);
        return status;
    }
    *out = o;
    return TS_OK;
}

void ts_optim_drop_state(ts_optim *o, int64_t i)
{
    ts_optim_param *p = &o->param[i];
    for (int k = 0; k < TS_OPTIM_MAX_STATES; k++) {
        ts_release(p->state[k]);
        p->state[k] = NULL;
    }
    p->live = false;
    o->step[i] = 0.0f;
}

void ts_optim_free(ts_optim *optim)
{
    if (!optim) return;
    for (int64_t i = 0; optim->step && i < ts_tensor_list_count(optim->parameters); i++)
        ts_optim_drop_state(optim, i);
    ts_release(optim->steps);
    ts_chunks_fini(&optim->chunks);
    ts_tensor_list_free(optim->parameters);
    free(optim->param);
    free(optim);
}

double ts_optim_lr(const ts_optim *optim) { return optim ? optim->lr : NAN; }

void ts_optim_set_lr(ts_optim *optim, double lr)
{
    if (optim) optim->lr = lr;
}

void ts_optim_zero_grad(ts_optim *optim)
{
    if (!optim) return;
    for (int64_t i = 0; i < ts_tensor_list_count(optim->parameters); i++)
        (void)ts_set_grad(ts_tensor_list_get(optim->parameters, i),
                          NULL); /* clearing cannot fail */
}

/* ---- the step -------------------------------------------------------------------------------- */

ts_status ts_optim_make_state(ts_optim *o, int64_t i)
{
    ts_optim_param *p = &o->param[i];
    ts_spec spec = ts_tensor_spec(ts_tensor_list_get(o->parameters, i));
    for (int k = 0; k < TS_OPTIM_MAX_STATES && o->rule->state_name[k]; k++) {
        if (p->state[k]) continue;
        ts_tensor *state = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_OPTIMIZER);
        ts_status status = ts_tensor_check(state, o->rule->state_name[k]);
        if (status != TS_OK) {
            ts_release(state);
            return status;
        }
        if (ts_nbytes(state)) memset(ts_tensor_bytes(state), 0, ts_nbytes(state));
        p->state[k] = state;
    }
    return TS_OK;
}

static ts_status make_states(ts_optim *o)
{
    if (!o->rule->needs_state(o)) return TS_OK;
    for (int64_t k = 0; k < o->chunks.items; k++)
        TS_TRY(ts_optim_make_state(o, o->chunks.item[k].param));
    return TS_OK;
}

static void prepare(ts_optim *o)
{
    bool states = o->rule->needs_state(o);
    for (int64_t k = 0; k < o->chunks.items; k++) {
        int64_t i = o->chunks.item[k].param;
        ts_optim_param *p = &o->param[i];
        o->step[i] += 1.0f;
        p->fresh = states && !p->live;
        p->live = p->live || states;
        o->rule->prepare(o, p, (int64_t)o->step[i]);
    }
}

static void update_piece(const ts_chunk_item *item, int64_t begin, int64_t end, void *user)
{
    const ts_optim *o = user;
    const ts_optim_param *p = &o->param[item->param];
    int64_t skip = begin * (int64_t)ts_dtype_size(item->dtype);
    void *state[TS_OPTIM_MAX_STATES] = {NULL};
    for (int k = 0; k < TS_OPTIM_MAX_STATES; k++)
        if (p->state[k]) state[k] = ts_tensor_bytes(p->state[k]) + skip;
    o->rule->update(p, ts_optim_kernels_for(item->dtype), (char *)item->data + skip,
                    (const char *)item->grad_data + skip, state, end - begin);
}

static void update_chunks(int64_t begin, int64_t end, void *user)
{
    ts_optim *o = user;
    ts_chunks_walk(&o->chunks, begin, end, update_piece, o);
}

static ts_status step(ts_optim *o)
{
    TS_TRY(ts_chunks_collect(&o->chunks, o->parameters, false, o->rule->name));
    TS_TRY(make_states(o));
    prepare(o);
    if (o->chunks.chunks > 0) ts_parallel_for(o->chunks.chunks, 1, update_chunks, o);
    return ts_chunks_finish(&o->chunks);
}

ts_status ts_optim_step(ts_optim *optim)
{
    if (!optim) return ts_fail(TS_EINVAL, "optim_step: the optimizer is missing (NULL)");
    ts_scope scope = ts_scope_begin();
    ts_status status = step(optim);
    ts_scope_end(scope);
    return status;
}
