/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of a module's tensors, and loading values back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/autograd.h>
#include <tessera/object.h>

#include "nn/module_impl.h"
#include "tensor/tensor.h"

/* ---- lists ----------------------------------------------------------------------------------- */

/* Addresses seen so far; open addressing, at most half full. */
typedef struct seen_set {
    const void **slot;
    size_t slots, count;
} seen_set;

static size_t seen_find(const seen_set *set, const void *address)
{
    size_t at = ((uintptr_t)address >> 5) * 0x9e3779b97f4a7c15u >> 20 & (set->slots - 1);
    while (set->slot[at] && set->slot[at] != address) at = (at + 1) & (set->slots - 1);
    return at;
}

static ts_status seen_grow(seen_set *set)
{
    seen_set larger = {.slots = set->slots ? 2 * set->slots : 64};
    larger.slot = ts_calloc(larger.slots, sizeof *larger.slot);
    if (!larger.slot)
        return ts_fail_memory(larger.slots * sizeof *larger.slot, "a list of tensors");
    for (size_t i = 0; i < set->slots; i++)
        if (set->slot[i]) larger.slot[seen_find(&larger, set->slot[i])] = set->slot[i];
    larger.count = set->count;
    free(set->slot);
    *set = larger;
    return TS_OK;
}

static ts_status seen_add(seen_set *set, const void *address, bool *is_new)
{
    if (2 * set->count >= set->slots) TS_TRY(seen_grow(set));
    size_t at = seen_find(set, address);
    *is_new = set->slot[at] == NULL;
    set->slot[at] = address;
    set->count += *is_new;
    return TS_OK;
}

typedef struct collector {
    ts_tensor_list *list;
    seen_set seen;
    bool buffers;
} collector;

static ts_status collect(const ts_named *named, void *user)
{
    collector *c = user;
    bool is_new;
    if (named->is_buffer != c->buffers) return TS_OK;
    TS_TRY(seen_add(&c->seen, named->tensor, &is_new));
    return is_new ? ts_tensor_list_add(c->list, named->path, named->tensor) : TS_OK;
}

static ts_status collect_state(const ts_named *named, void *user)
{
    collector *c = user;
    if (named->is_buffer && !named->persistent) return TS_OK;
    return ts_tensor_list_add(c->list, named->path, ts_detach(named->tensor));
}

static ts_tensor_list *list_of(const ts_module *m, bool buffers,
                               ts_status (*fn)(const ts_named *named, void *user))
{
    collector c = {.list = ts_tensor_list_new(), .buffers = buffers};
    if (!c.list) return NULL;
    ts_scope scope = ts_scope_begin();
    ts_status status = ts_module_visit_tensors(m, fn, &c);
    ts_scope_end(scope);
    free(c.seen.slot);
    if (status == TS_OK) return c.list;
    ts_tensor_list_free(c.list);
    return NULL;
}

ts_tensor_list *ts_module_parameters(const ts_module *m) { return list_of(m, false, collect); }
ts_tensor_list *ts_module_buffers(const ts_module *m) { return list_of(m, true, collect); }
ts_tensor_list *ts_module_state_dict(const ts_module *m)
{
    return list_of(m, false, collect_state);
}

int64_t ts_module_num_parameters(const ts_module *m)
{
    int64_t total = 0;
    ts_tensor_list *list = ts_module_parameters(m);
    for (int64_t i = 0; i < ts_tensor_list_count(list); i++)
        total += ts_numel(ts_tensor_list_get(list, i));
    ts_tensor_list_free(list);
    return total;
}

static ts_status clear_grad(const ts_named *named, void *user)
{
    (void)user;
    return named->is_buffer ? TS_OK : ts_set_grad(named->tensor, NULL);
}

void ts_module_zero_grad(ts_module *m)
{
    (void)ts_module_visit_tensors(m, clear_grad, NULL); /* clearing cannot fail */
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Another name of the same tensor may stand for it: files often hold tied weights once. */
static bool given_elsewhere(const ts_tensor_list *own, int64_t i, const ts_tensor_list *state)
{
    const ts_tensor *mine = ts_tensor_list_get(own, i);
    for (int64_t k = 0; k < ts_tensor_list_count(own); k++) {
        const ts_tensor *t = ts_tensor_list_get(own, k);
        if (t->storage == mine->storage && t->offset == mine->offset &&
            ts_shape_equal(t->shape, mine->shape) &&
            ts_tensor_list_find(state, ts_tensor_list_name(own, k)))
            return true;
    }
    return false;
}

/* {"missing": [...], "unexpected": [...]} */
static ts_object *compare_names(const ts_tensor_list *own, const ts_tensor_list *state)
{
    ts_object *missing = ts_object_list(), *unexpected = ts_object_list();
    for (int64_t i = 0; i < ts_tensor_list_count(own); i++) {
        const char *name = ts_tensor_list_name(own, i);
        if (!ts_tensor_list_find(state, name) && !given_elsewhere(own, i, state))
            ts_object_append(missing, ts_object_text(name));
    }
    for (int64_t i = 0; i < ts_tensor_list_count(state); i++) {
        const char *name = ts_tensor_list_name(state, i);
        if (!ts_tensor_list_find(own, name)) ts_object_append(unexpected, ts_object_text(name));
    }
    ts_object *report = ts_object_map();
    ts_object_set(report, "missing", missing);
    ts_object_set(report, "unexpected", unexpected);
    return report;
}

/* "missing: a, b, ..."; "" if there are none.  malloc'd; NULL: out of memory. */
static char *list_names(const ts_object *report, const char *what)
{
    enum { MOST_NAMES = 20 };
    const ts_object *names = ts_object_get(report, what);
    int64_t count = ts_object_count(names);
    char *text = ts_strdup("");
    for (int64_t i = 0; text && i < count && i < MOST_NAMES; i++) {
        const char *name = "";
        (void)ts_object_as_text(ts_object_at(names, i), &name);
        char *longer = i == 0 ? ts_asprintf("%s: %s", what, name)
                              : ts_asprintf("%s, %s", text, i + 1 < MOST_NAMES ? name : "...");
        free(text);
        text = longer;
    }
    return text;
}

static ts_status check_names(const ts_object *report)
{
    char *missing = list_names(report, "missing"), *unexpected = list_names(report, "unexpected");
    ts_status status = TS_OK;
    if (!missing || !unexpected)
        status = ts_fail_memory(64, "the names of a state");
    else if (*missing || *unexpected)
        status = ts_fail(TS_EINVAL, "load_state_dict: %s%s%s (strict)", missing,
                         *missing && *unexpected ? "; " : "", unexpected);
    free(missing);
    free(unexpected);
    return status;
}

static ts_status check_tensor(const char *name, const ts_tensor *mine, const ts_tensor *given)
{
    char a[TS_SHAPE_TEXT], b[TS_SHAPE_TEXT];
    if (!ts_shape_equal(ts_tensor_shape(mine), ts_tensor_shape(given)))
        return ts_fail(TS_ESHAPE,
                       "load_state_dict: '%s' has shape %s in the module, %s in the state", name,
                       ts_shape_format(a, sizeof a, ts_tensor_shape(mine)),
                       ts_shape_format(b, sizeof b, ts_tensor_shape(given)));
    if (ts_tensor_dtype(mine) != ts_tensor_dtype(given))
        return ts_fail(TS_EDTYPE, "load_state_dict: '%s' is %s in the module, %s in the state",
                       name, ts_dtype_name(ts_tensor_dtype(mine)),
                       ts_dtype_name(ts_tensor_dtype(given)));
    return TS_OK;
}

static ts_status check_all(const ts_tensor_list *own, const ts_tensor_list *state)
{
    for (int64_t i = 0; i < ts_tensor_list_count(own); i++) {
        const char *name = ts_tensor_list_name(own, i);
        const ts_tensor *given = ts_tensor_list_find(state, name);
        if (given) TS_TRY(check_tensor(name, ts_tensor_list_get(own, i), given));
    }
    return TS_OK;
}

static ts_status copy_all(const ts_tensor_list *own, const ts_tensor_list *state)
{
    for (int64_t i = 0; i < ts_tensor_list_count(own); i++) {
        ts_tensor *mine = ts_tensor_list_get(own, i);
        const ts_tensor *given = ts_tensor_list_find(state, ts_tensor_list_name(own, i));
        if (!given) continue;
        TS_TRY(ts_tensor_copy_data(mine, given));
        ts_tensor_bump(mine);
    }
    return TS_OK;
}

static ts_status load(const ts_tensor_list *own, const ts_tensor_list *state, bool strict,
                      ts_object *report)
{
    TS_TRY(ts_object_status(report));
    if (strict) TS_TRY(check_names(report));
    TS_TRY(check_all(own, state));
    return copy_all(own, state);
}

ts_status ts_module_load_reporting(ts_object **report, ts_module *m, const ts_tensor_list *state,
                                   bool strict)
{
    TS_TRY(ts_module_status(m));
    if (!state) return ts_fail(TS_EINVAL, "load_state_dict: the state is missing (NULL)");
    ts_tensor_list *own = ts_module_state_dict(m);
    if (!own) return TS_ENOMEM;
    ts_object *found = compare_names(own, state);
    ts_status status = load(own, state, strict, found);
    ts_tensor_list_free(own);
    if (report)
        *report = found;
    else
        ts_object_free(found);
    return status;
}

ts_status ts_module_load_state_dict(ts_module *m, const ts_tensor_list *state, bool strict)
{
    return ts_module_load_reporting(NULL, m, state, strict);
}
