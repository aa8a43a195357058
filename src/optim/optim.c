/* SPDX-License-Identifier: Apache-2.0 */
/* What all optimizers share: life and the step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/autograd.h>
#include <tessera/ops.h>

#include "base/memory.h"
#include "base/thread.h"
#include "optim/optim_impl.h"
#include "tensor/tensor.h"

/* ---- life ------------------------------------------------------------------------------------ */

static ts_status check_parameter(const ts_optim *o, const ts_tensor_list *list, int64_t i)
{
    const char *name = ts_tensor_list_name(list, i), *rule = o->rule->name;
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
    if (o->rule->whole && ts_ndim(t) != 2)
        return ts_fail(TS_ESHAPE, "%s: '%s' has %d dimensions; needs matrices", rule, name,
                       ts_ndim(t));
    for (int64_t k = 0; k < ts_tensor_list_count(o->parameters); k++) {
        const char *other = ts_tensor_list_name(o->parameters, k);
        if (ts_tensor_list_get(o->parameters, k) == t)
            return ts_fail(TS_EINVAL, "%s: '%s' and '%s' are the same tensor", rule, other, name);
        if (strcmp(other, name) == 0)
            return ts_fail(TS_EINVAL, "%s: two parameters are called '%s'", rule, name);
    }
    return TS_OK;
}

/* All parameters with those of the new group behind, as a new list. */
static ts_status join_lists(ts_optim *o, const ts_tensor_list *added)
{
    if (ts_tensor_list_count(added) == 0)
        return ts_fail(TS_EINVAL, "%s: the list of parameters is %s", o->rule->name,
                       added ? "empty" : "missing");
    for (int64_t i = 0; i < ts_tensor_list_count(added); i++) {
        TS_TRY(check_parameter(o, added, i));
        TS_TRY(ts_tensor_list_add(o->parameters, ts_tensor_list_name(added, i),
                                  ts_tensor_list_get(added, i)));
    }
    return TS_OK;
}

/* The lists that are as long as there are parameters and groups. */
static ts_status make_room(ts_optim *o, int64_t count)
{
    ts_chunks chunks;
    ts_optim_param *param = realloc(o->param, (size_t)count * sizeof *param);
    if (!param) return ts_fail_memory((size_t)count * sizeof *param, "an optimizer");
    o->param = param;
    void **group = realloc(o->group, (size_t)(o->groups + 1) * sizeof *group);
    if (!group) return ts_fail_memory((size_t)(o->groups + 1) * sizeof *group, "an optimizer");
    o->group = group;
    double *initial = realloc(o->initial_lr, (size_t)(o->groups + 1) * sizeof *initial);
    if (!initial) return ts_fail_memory((size_t)(o->groups + 1) * sizeof *initial, "an optimizer");
    o->initial_lr = initial;
    TS_TRY(ts_chunks_init(&chunks, count, "an optimizer"));
    ts_chunks_fini(&o->chunks);
    o->chunks = chunks;
    return TS_OK;
}

static ts_status copy_list(ts_tensor_list *to, const ts_tensor_list *from)
{
    for (int64_t i = 0; i < ts_tensor_list_count(from); i++)
        TS_TRY(ts_tensor_list_add(to, ts_tensor_list_name(from, i), ts_tensor_list_get(from, i)));
    return TS_OK;
}

/* On error o->parameters is as it was. */
static ts_status extend_list(ts_optim *o, const ts_tensor_list *added)
{
    ts_tensor_list *former = o->parameters, *all = ts_tensor_list_new();
    if (!all) return ts_fail_memory(sizeof(void *), "an optimizer");
    ts_status status = copy_list(all, former);
    o->parameters = all;
    if (status == TS_OK) status = join_lists(o, added);
    if (status == TS_OK) status = make_room(o, ts_tensor_list_count(all));
    o->parameters = status == TS_OK ? all : former;
    ts_tensor_list_free(status == TS_OK ? former : all);
    return status;
}

static ts_status add_group(ts_optim *o, const ts_tensor_list *parameters, const void *opt)
{
    void *options;
    int64_t first = ts_tensor_list_count(o->parameters);
    TS_TRY(ts_optim_read_options(&options, o->rule, opt));
    ts_status status = extend_list(o, parameters);
    if (status != TS_OK) {
        free(options);
        return status;
    }
    for (int64_t i = first; i < ts_tensor_list_count(o->parameters); i++)
        o->param[i] = (ts_optim_param){.group = o->groups};
    o->initial_lr[o->groups] = NAN;
    o->group[o->groups++] = options;
    return TS_OK;
}

ts_status ts_optim_add_param_group(ts_optim *optim, ts_tensor_list *parameters, const void *opt)
{
    ts_status status = optim
                           ? add_group(optim, parameters, opt)
                           : ts_fail(TS_EINVAL, "optim_add_param_group: the optimizer is missing");
    ts_tensor_list_free(parameters);
    return status;
}

ts_status ts_optim_new(ts_optim **out, const ts_optim_rule *rule, ts_tensor_list *parameters,
                       const void *opt)
{
    ts_optim *o = ts_calloc(1, sizeof *o);
    if (!o) {
        ts_tensor_list_free(parameters);
        return ts_fail_memory(sizeof *o, "an optimizer");
    }
    o->rule = rule;
    ts_status status = ts_optim_add_param_group(o, parameters, opt);
    if (status != TS_OK) {
        ts_optim_free(o);
        return status;
    }
    *out = o;
    return TS_OK;
}

void ts_optim_free(ts_optim *optim)
{
    if (!optim) return;
    for (int64_t i = 0; i < ts_tensor_list_count(optim->parameters); i++)
        ts_optim_drop_state(optim, i);
    for (int g = 0; g < optim->groups; g++) free(optim->group[g]);
    ts_chunks_fini(&optim->chunks);
    ts_tensor_list_free(optim->parameters);
    free(optim->initial_lr);
    free(optim->group);
    free(optim->param);
    free(optim);
}

void ts_optim_zero_grad(ts_optim *optim)
{
    if (!optim) return;
    for (int64_t i = 0; i < ts_tensor_list_count(optim->parameters); i++)
        (void)ts_set_grad(ts_tensor_list_get(optim->parameters, i),
                          NULL); /* clearing cannot fail */
}

/* ---- the step -------------------------------------------------------------------------------- */

/* Counts the step of parameter i and sets its constants. */
static void prepare(ts_optim *o, int64_t i)
{
    ts_optim_param *p = &o->param[i];
    ts_tensor *counter = p->state[TS_OPTIM_MAX_STATES];
    int64_t step = 0;
    if (counter) {
        float *count = (float *)(void *)ts_tensor_bytes(counter);
        *count += 1.0f;
        step = (int64_t)*count;
    }
    p->live = p->state[0] || counter;
    if (o->rule->prepare) o->rule->prepare(o->group[p->group], p, step);
    p->fresh = false;
}

static void update_piece(const ts_chunk_item *item, int64_t begin, int64_t end, void *user)
{
    const ts_optim *o = user;
    const ts_optim_param *p = &o->param[item->param];
    int64_t skip = begin * (int64_t)ts_dtype_size(item->dtype);
    void *state[TS_OPTIM_MAX_STATES] = {NULL};
    for (int k = 0; k < TS_OPTIM_MAX_STATES; k++)
        if (p->state[k]) state[k] = ts_tensor_bytes(p->state[k]) + skip;
    ts_optim_kernels_for(item->dtype)
        ->update[o->rule->kernel]((char *)item->data + skip, (const char *)item->grad_data + skip,
                                  state, end - begin, &p->now);
}

static void update_chunks(int64_t begin, int64_t end, void *user)
{
    ts_optim *o = user;
    ts_chunks_walk(&o->chunks, begin, end, update_piece, o);
}

static ts_status update_wholes(ts_optim *o)
{
    bool former = ts_no_grad_begin();
    ts_status status = TS_OK;
    for (int64_t k = 0; k < o->chunks.items && status == TS_OK; k++) {
        const ts_chunk_item *item = &o->chunks.item[k];
        ts_optim_param *p = &o->param[item->param];
        if (item->numel > 0)
            status = o->rule->whole(o->group[p->group], p, item->copy ? item->copy : item->tensor,
                                    item->grad);
    }
    ts_no_grad_end(former);
    return status;
}

/* The step of the parameters in o->chunks. */
static ts_status run(ts_optim *o)
{
    for (int64_t k = 0; k < o->chunks.items; k++)
        TS_TRY(ts_optim_make_state(o, o->chunks.item[k].param));
    for (int64_t k = 0; k < o->chunks.items; k++) prepare(o, o->chunks.item[k].param);
    if (o->rule->whole)
        TS_TRY(update_wholes(o));
    else if (o->chunks.chunks > 0)
        ts_parallel_for(o->chunks.chunks, 1, update_chunks, o);
    return ts_chunks_finish(&o->chunks);
}

static ts_status step(ts_optim *o)
{
    TS_TRY(ts_chunks_collect(&o->chunks, o->parameters, false, o->rule->name));
    return run(o);
}

ts_status ts_optim_step(ts_optim *optim)
{
    if (!optim) return ts_fail(TS_EINVAL, "optim_step: the optimizer is missing (NULL)");
    ts_scope scope = ts_scope_begin();
    ts_status status = step(optim);
    ts_scope_end(scope);
    return status;
}

static ts_status step_closure(ts_optim *o, ts_optim_closure closure, void *user, double *loss)
{
    double value;
    bool former = ts_enable_grad_begin();
    ts_tensor *result = closure(user);
    ts_enable_grad_end(former);
    if (!result) return ts_fail(TS_EINVAL, "optim_step_closure: the closure returned no loss");
    TS_TRY(ts_item(result, &value));
    TS_TRY(step(o));
    if (loss) *loss = value;
    return TS_OK;
}

ts_status ts_optim_step_closure(ts_optim *optim, ts_optim_closure closure, void *user, double *loss)
{
    if (!optim || !closure)
        return ts_fail(TS_EINVAL, "optim_step_closure: an optimizer and a closure are needed");
    ts_scope scope = ts_scope_begin();
    ts_status status = step_closure(optim, closure, user, loss);
    ts_scope_end(scope);
    return status;
}

/* ---- the step of given tensors --------------------------------------------------------------- */

static ts_status add_given(ts_optim *o, ts_tensor *t, ts_tensor *grad)
{
    TS_TRY(ts_tensor_check(t, "a parameter"));
    for (int64_t k = 0; k < o->chunks.items; k++)
        if (o->chunks.item[k].tensor == t)
            return ts_fail(TS_EINVAL, "%s: step_with: '%s' is given twice", o->rule->name,
                           ts_tensor_list_name(o->parameters, o->chunks.item[k].param));
    for (int64_t i = 0; i < ts_tensor_list_count(o->parameters); i++)
        if (ts_tensor_list_get(o->parameters, i) == t)
            return ts_chunks_add(&o->chunks, o->parameters, i, grad, o->rule->name);
    return ts_fail(TS_EINVAL, "%s: step_with: a tensor is not a parameter of this optimizer",
                   o->rule->name);
}

static ts_status step_with(ts_optim *o, ts_tensor *const *parameters, ts_tensor *const *gradients,
                           int n)
{
    ts_chunks_clear(&o->chunks, false);
    for (int i = 0; i < n; i++)
        if (gradients[i]) TS_TRY(add_given(o, parameters[i], gradients[i]));
    return run(o);
}

ts_status ts_optim_step_with(ts_optim *optim, ts_tensor *const *parameters,
                             ts_tensor *const *gradients, int n)
{
    if (!optim || n < 0 || (n > 0 && (!parameters || !gradients)))
        return ts_fail(TS_EINVAL,
                       "optim_step_with: an optimizer, parameters and gradients are needed");
    ts_scope scope = ts_scope_begin();
    ts_status status = step_with(optim, parameters, gradients, n);
    ts_scope_end(scope);
    return status;
}
