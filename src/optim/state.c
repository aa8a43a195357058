/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer's state by name: "<what>.<parameter>", "param_groups.<number>.<option>". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "optim/optim_impl.h"
#include "tensor/tensor.h"

const char *ts_optim_kind(const ts_optim *o, int64_t i, int kind)
{
    const ts_optim_rule *rule = o->rule;
    if (kind >= TS_OPTIM_MAX_STATES) return rule->scalar_name[kind - TS_OPTIM_MAX_STATES];
    if (rule->states && !(rule->states(o->group[o->param[i].group]) >> kind & 1)) return NULL;
    return rule->state_name[kind];
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* What a new state of this kind holds. */
static double first_value(const ts_optim *o, int64_t i, int kind)
{
    if (kind >= TS_OPTIM_MAX_STATES) return kind == TS_OPTIM_MAX_STATES ? 0.0 : 1.0;
    return o->rule->initial ? o->rule->initial(o->group[o->param[i].group], kind) : 0.0;
}

static void fill(ts_tensor *t, double value)
{
    float *f = (float *)(void *)ts_tensor_bytes(t);
    double *d = (double *)(void *)ts_tensor_bytes(t);
    for (int64_t i = 0; i < ts_numel(t); i++) {
        if (ts_tensor_dtype(t) == TS_FLOAT32)
            f[i] = (float)value;
        else
            d[i] = value;
    }
}

ts_status ts_optim_make_state(ts_optim *o, int64_t i)
{
    ts_optim_param *p = &o->param[i];
    for (int kind = 0; kind < TS_OPTIM_KINDS; kind++) {
        const char *name = ts_optim_kind(o, i, kind);
        if (!name || p->state[kind]) continue;
        ts_spec spec = ts_tensor_spec(ts_tensor_list_get(o->parameters, i));
        if (kind >= TS_OPTIM_MAX_STATES) spec = (ts_spec){ts_shape_scalar(), TS_FLOAT32, TS_CPU};
        ts_tensor *state = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_OPTIMIZER);
        ts_status status = ts_tensor_check(state, name);
        if (status != TS_OK) {
            ts_release(state);
            return status;
        }
        if (ts_nbytes(state)) fill(state, first_value(o, i, kind));
        p->state[kind] = state;
        p->fresh = true;
    }
    return TS_OK;
}

void ts_optim_drop_state(ts_optim *o, int64_t i)
{
    ts_optim_param *p = &o->param[i];
    for (int kind = 0; kind < TS_OPTIM_KINDS; kind++) {
        ts_release(p->state[kind]);
        p->state[kind] = NULL;
    }
    p->live = false;
}

/* ---- listing --------------------------------------------------------------------------------- */

static char *state_name(const ts_optim *o, int kind, int64_t i)
{
    return ts_asprintf("%s.%s", ts_optim_kind(o, i, kind), ts_tensor_list_name(o->parameters, i));
}

/* Adds t under name, which is freed. */
static ts_status add_named(ts_tensor_list *list, char *name, ts_tensor *t)
{
    if (!name) return ts_fail_memory(sizeof name, "the name of a state");
    ts_status status = ts_tensor_list_add(list, name, t);
    free(name);
    return status;
}

static ts_status list_state(ts_tensor_list *list, const ts_optim *o, int64_t i)
{
    for (int kind = 0; kind < TS_OPTIM_KINDS; kind++)
        if (ts_optim_kind(o, i, kind) && o->param[i].state[kind])
            TS_TRY(add_named(list, state_name(o, kind, i), o->param[i].state[kind]));
    return TS_OK;
}

static char *option_name(int group, const ts_option_row *option)
{
    return ts_asprintf("param_groups.%d.%s", group, option->name);
}

static ts_status list_options(ts_tensor_list *list, const ts_optim *o)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_FLOAT64;
    for (int g = 0; g < o->groups; g++)
        for (const ts_option_row *option = o->rule->option; option->name; option++) {
            double value = ts_option_get(o->group[g], option);
            TS_TRY(
                add_named(list, option_name(g, option), ts_full(ts_shape_scalar(), value, &opt)));
        }
    return TS_OK;
}

static ts_status list_states(ts_tensor_list *list, const ts_optim *o)
{
    for (int64_t i = 0; i < ts_tensor_list_count(o->parameters); i++)
        if (o->param[i].live) TS_TRY(list_state(list, o, i));
    return list_options(list, o);
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

/* ---- loading: options ------------------------------------------------------------------------ */

static bool is_option(const ts_optim *o, const char *name)
{
    int group, length = 0;
    if (sscanf(name, "param_groups.%d.%n", &group, &length) != 1 || length == 0) return false;
    if (group < 0 || group >= o->groups) return false;
    for (const ts_option_row *option = o->rule->option; option->name; option++)
        if (strcmp(option->name, name + length) == 0) return true;
    return false;
}

/* Sets the options of a copy of group g that state names. */
static ts_status read_options(void *opt, const ts_optim *o, int g, const ts_tensor_list *state)
{
    for (const ts_option_row *option = o->rule->option; option->name; option++) {
        double value;
        char *name = option_name(g, option);
        if (!name) return ts_fail_memory(sizeof name, "the name of an option");
        ts_tensor *t = ts_tensor_list_find(state, name);
        free(name);
        if (!t) continue;
        TS_TRY(ts_item(t, &value));
        /* Not ts_option_set: single options may contradict those that are read later. */
        ts_optim_rule alone = *o->rule;
        alone.check = NULL;
        TS_TRY(ts_option_set(opt, &alone, option, value));
    }
    return o->rule->check ? o->rule->check(opt) : TS_OK;
}

/* New options of all groups; *out[g] may be NULL where memory ran out. */
static ts_status read_groups(void **out, const ts_optim *o, const ts_tensor_list *state)
{
    for (int g = 0; g < o->groups; g++) {
        TS_TRY(ts_optim_read_options(&out[g], o->rule, o->group[g]));
        TS_TRY(read_options(out[g], o, g, state));
    }
    return TS_OK;
}

/* ---- loading: states ------------------------------------------------------------------------- */

/* Is name a state that some parameter can have? */
static bool is_state(const ts_optim *o, const char *name)
{
    for (int kind = 0; kind < TS_OPTIM_KINDS; kind++) {
        const char *known = kind < TS_OPTIM_MAX_STATES
                                ? o->rule->state_name[kind]
                                : o->rule->scalar_name[kind - TS_OPTIM_MAX_STATES];
        size_t length = known ? strlen(known) : 0;
        if (known && strncmp(known, name, length) == 0 && name[length] == '.' &&
            ts_tensor_list_find(o->parameters, name + length + 1))
            return true;
    }
    return false;
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
    const ts_tensor *tensor[TS_OPTIM_KINDS];
    int count;
} given_states;

static ts_status find_given(given_states *given, const ts_optim *o, const ts_tensor_list *state,
                            int64_t i)
{
    *given = (given_states){0};
    char *absent = NULL;
    ts_status status = TS_OK;
    for (int kind = 0; kind < TS_OPTIM_KINDS && status == TS_OK; kind++) {
        if (!ts_optim_kind(o, i, kind)) continue;
        char *name = state_name(o, kind, i);
        if (!name) {
            status = ts_fail_memory(sizeof name, "the name of a state");
            break;
        }
        const ts_tensor *t = given->tensor[kind] = ts_tensor_list_find(state, name);
        given->count += t != NULL;
        if (t)
            status = check_given(o, name, t,
                                 kind >= TS_OPTIM_MAX_STATES
                                     ? ts_shape_scalar()
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
    for (int kind = 0; kind < TS_OPTIM_KINDS; kind++)
        if (given->tensor[kind])
            TS_TRY(ts_tensor_copy_data(o->param[i].state[kind], given->tensor[kind]));
    o->param[i].live = true;
    o->param[i].fresh = false;
    return TS_OK;
}

/* Everything that can fail; the options are in place already. */
static ts_status make_loaded(ts_optim *o, const ts_tensor_list *state)
{
    given_states given;
    for (int64_t i = 0; i < ts_tensor_list_count(o->parameters); i++) {
        TS_TRY(find_given(&given, o, state, i));
        if (given.count > 0) TS_TRY(ts_optim_make_state(o, i));
    }
    return TS_OK;
}

static ts_status load_states(ts_optim *o, const ts_tensor_list *state)
{
    given_states given;
    TS_TRY(make_loaded(o, state));
    for (int64_t i = 0; i < ts_tensor_list_count(o->parameters); i++) {
        TS_TRY(find_given(&given, o, state, i));
        if (given.count > 0)
            TS_TRY(copy_given(o, &given, i));
        else
            ts_optim_drop_state(o, i);
    }
    return TS_OK;
}

/* Which states there are follows from the options, so these change places first, and back if the
 * states do not fit. */
static ts_status load(ts_optim *o, const ts_tensor_list *state)
{
    for (int64_t k = 0; k < ts_tensor_list_count(state); k++) {
        const char *name = ts_tensor_list_name(state, k);
        if (!is_option(o, name) && !is_state(o, name))
            return ts_fail(TS_EINVAL, "%s: load_state_dict: '%s' is not a state of this optimizer",
                           o->rule->name, name);
    }
    void **group = ts_calloc((size_t)o->groups, sizeof *group), **former = o->group;
    if (!group) return ts_fail_memory((size_t)o->groups * sizeof *group, "options");
    ts_status status = read_groups(group, o, state);
    if (status == TS_OK) {
        o->group = group;
        status = load_states(o, state);
        o->group = status == TS_OK ? group : former;
    }
    void **unused = status == TS_OK ? former : group;
    for (int g = 0; g < o->groups; g++) free(unused[g]);
    free(unused);
    return status;
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
