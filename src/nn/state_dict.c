/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of a module's tensors, and loading values back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/autograd.h>

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

/* Text that grows; without memory it just stops growing. */
typedef struct report {
    char *text;
    int64_t names;
} report;

static void report_add(report *r, const char *format, const char *name)
{
    enum { MOST_NAMES = 20 };
    if (++r->names > MOST_NAMES) return;
    const char *shown = r->names == MOST_NAMES ? "..." : name;
    char *longer =
        ts_asprintf("%s%s%s", r->text ? r->text : format, r->names > 1 ? ", " : "", shown);
    if (!longer) return;
    free(r->text);
    r->text = longer;
}

static ts_status check_names(const ts_tensor_list *own, const ts_tensor_list *state)
{
    report missing = {0}, unexpected = {0};
    for (int64_t i = 0; i < ts_tensor_list_count(own); i++) {
        const char *name = ts_tensor_list_name(own, i);
        if (!ts_tensor_list_find(state, name)) report_add(&missing, "missing: ", name);
    }
    for (int64_t i = 0; i < ts_tensor_list_count(state); i++) {
        const char *name = ts_tensor_list_name(state, i);
        if (!ts_tensor_list_find(own, name)) report_add(&unexpected, "unexpected: ", name);
    }
    ts_status status = TS_OK;
    if (missing.names + unexpected.names > 0)
        status = ts_fail(
            TS_EINVAL, "load_state_dict: %s%s%s (strict)", missing.text ? missing.text : "",
            missing.text && unexpected.text ? "; " : "", unexpected.text ? unexpected.text : "");
    free(missing.text);
    free(unexpected.text);
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

static ts_status check_all(const ts_tensor_list *own, const ts_tensor_list *state, bool strict)
{
    if (strict) TS_TRY(check_names(own, state));
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

ts_status ts_module_load_state_dict(ts_module *m, const ts_tensor_list *state, bool strict)
{
    TS_TRY(ts_module_status(m));
    if (!state) return ts_fail(TS_EINVAL, "load_state_dict: the state is missing (NULL)");
    ts_tensor_list *own = ts_module_state_dict(m);
    if (!own) return TS_ENOMEM;
    ts_status status = check_all(own, state, strict);
    if (status == TS_OK) status = copy_all(own, state);
    ts_tensor_list_free(own);
    return status;
}
