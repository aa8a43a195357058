/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer's state by name: "<what>.<parameter>". */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "optim/optim_impl.h"
#include "tensor/tensor.h"

enum { STEP = TS_OPTIM_MAX_STATES, KINDS };

static const char *kind_name(const ts_optim *o, int kind)
{
    if (kind == STEP) return o->rule->counts_steps ? "step" : NULL;
    return o->rule->state_name[kind];
}

/* The state itself; a step is a view into the vector of steps, made in the scope. */
static ts_tensor *state_tensor(const ts_optim *o, int kind, int64_t i)
{
    static const int64_t no_strides[TS_MAX_DIMS];
    if (kind != STEP) return o->param[i].state[kind];
    return ts_tensor_view(o->steps, ts_shape_scalar(), no_strides, ts_storage_offset(o->steps) + i);
}

static char *state_name(const ts_optim *o, int kind, int64_t i)
{
    return ts_asprintf("%s.%s", kind_name(o, kind), ts_tensor_list_name(o->parameters, i));
}

static ts_status list_state(ts_tensor_list *list, const ts_optim *o, int64_t i)
{
    for (int kind = 0; kind < KINDS; kind++) {
        if (!kind_name(o, kind)) continue;
        char *name = state_name(o, kind, i);
        if (!name) return ts_fail_memory(sizeof name, "the name of a state");
        ts_status status = ts_tensor_list_add(list, name, state_tensor(o, kind, i));
        free(name);
        TS_TRY(status);
    }
    return TS_OK;
}

static ts_status list_states(ts_tensor_list *list, const ts_optim *o)
{
    for (int64_t i = 0; i < ts_tensor_list_count(o->parameters); i++)
        if (o->param[i].live) TS_TRY(list_state(list, o, i));
    return TS_OK;
}

ts_tensor_list *ts_optim_state_dict(const ts_optim *optim)
{
    ts_tensor_list *list = optim ? ts_tensor_list_new() : NULL;
    if (!list) return NULL;
    ts_scope scope = ts_scope_begin();
    ts_status status = list_states(list, optim);
    ts_scope_end(scope);
    if (status == TS_OK) return list;
    ts_tensor_list_free(list);
    return NULL;
}

/* ---- loading --------------------------------------------------------------------------------- */

static ts_status check_known(const ts_optim *o, const char *name)
{
    const char *dot = strchr(name, '.');
    for (int kind = 0; dot && kind < KINDS; kind++) {
        const char *known = kind_name(o, kind);
        if (known && strlen(known) == (size_t)(dot - name) &&
            memcmp(known, name, strlen(known)) == 0 && ts_tensor_list_find(o->parameters, dot + 1))
            return TS_OK;
    }
    return ts_fail(TS_EINVAL, "%s: load_state_dict: '%s' is not a state of this optimizer",
                   o->rule->name, name);
}

static ts_status check_given(const ts_optim *o, const char *name, const ts_tensor *given,
                             ts_shape shape)
{
    char a[TS_SHAPE_TEXT], b[TS_SHAPE_TEXT];
    if (!ts_shape_equal(ts_tensor_shape(given), shape))
        return ts_fail(TS_ESHAPE, "%s: load_state_dict: '%s' has shape %s, needs %s", o->rule->name,
                       name, ts_shape_format(a, sizeof a, ts_tensor_shape(given)),
                       ts_shape_format(b, sizeof b, shape));
    if (!ts_dtype_is_floating(ts_tensor_dtype(given)))
        return ts_fail(TS_EDTYPE, "%s: load_state_dict: '%s' is %s, needs a floating dtype",
                       o->rule->name, name, ts_dtype_name(ts_tensor_dtype(given)));
    return TS_OK;
}

/* What state says about parameter i: all kinds or none. */
typedef struct given_states {
    const ts_tensor *tensor[KINDS];
    int count;
} given_states;

static ts_status find_given(given_states *given, const ts_optim *o, const ts_tensor_list *state,
                            int64_t i)
{
    *given = (given_states){0};
    char *absent = NULL;
    ts_status status = TS_OK;
    for (int kind = 0; kind < KINDS && status == TS_OK; kind++) {
        if (!kind_name(o, kind)) continue;
        char *name = state_name(o, kind, i);
        if (!name) {
            status = ts_fail_memory(sizeof name, "the name of a state");
            break;
        }
        const ts_tensor *t = given->tensor[kind] = ts_tensor_list_find(state, name);
        given->count += t != NULL;
        if (t)
            status =
                check_given(o, name, t,
                            kind == STEP ? ts_shape_scalar()
                                         : ts_tensor_shape(ts_tensor_list_get(o->parameters, i)));
        if (!t && !absent)
            absent = name;
        else
            free(name);
    }
    if (status == TS_OK && absent && given->count > 0)
        status = ts_fail(TS_EINVAL, "%s: load_state_dict: '%s' is missing", o->rule->name, absent);
    free(absent);
    return status;
}

static ts_status copy_given(ts_optim *o, const given_states *given, int64_t i)
{
    for (int kind = 0; kind < KINDS; kind++)
        if (given->tensor[kind])
            TS_TRY(ts_tensor_copy_data(state_tensor(o, kind, i), given->tensor[kind]));
    o->param[i].live = true;
    return TS_OK;
}

/* First everything that can fail, then the change. */
static ts_status load(ts_optim *o, const ts_tensor_list *state)
{
    given_states given;
    int64_t count = ts_tensor_list_count(o->parameters);
    for (int64_t k = 0; k < ts_tensor_list_count(state); k++)
        TS_TRY(check_known(o, ts_tensor_list_name(state, k)));
    for (int64_t i = 0; i < count; i++) {
        TS_TRY(find_given(&given, o, state, i));
        if (given.count > 0) TS_TRY(ts_optim_make_state(o, i));
    }
    for (int64_t i = 0; i < count; i++) {
        TS_TRY(find_given(&given, o, state, i));
        if (given.count > 0)
            TS_TRY(copy_given(o, &given, i));
        else
            ts_optim_drop_state(o, i);
    }
    return TS_OK;
}

ts_status ts_optim_load_state_dict(ts_optim *optim, const ts_tensor_list *state)
{
    if (!optim || !state)
        return ts_fail(TS_EINVAL, "optim_load_state_dict: an optimizer and a state are needed");
    ts_scope scope = ts_scope_begin();
    ts_status status = load(optim, state);
    ts_scope_end(scope);
    return status;
}
