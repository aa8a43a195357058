/* SPDX-License-Identifier: Apache-2.0 */
/* The moving average of weights: two lists of tensors, the module's and ours. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/autograd.h>
#include <tessera/ema.h>
#include <tessera/ops.h>

#include "base/memory.h"
#include "base/options.h"
#include "tensor/tensor.h"

struct ts_ema {
    ts_ema_options opt;
    ts_tensor_list *module, *average; /* parameters, then buffers; named "module.<name>" */
    int64_t parameters, updates;
    bool swapped;
};

/* ---- life ------------------------------------------------------------------------------------ */

static ts_tensor *copy_of(ts_tensor *t)
{
    ts_spec spec = ts_tensor_spec(t);
    ts_tensor *copy = ts_tensor_new(&spec, TS_MEMORY_HEAP, TS_CATEGORY_OPTIMIZER);
    return ts_failed(copy) ? copy : ts_copy_(copy, ts_detach(t));
}

static ts_status add(ts_ema *ema, const char *name, ts_tensor *t)
{
    char *full = ts_asprintf("module.%s", name);
    if (!full) return ts_fail_memory(strlen(name), "a name");
    ts_status status = ts_tensor_check(t, name);
    if (status == TS_OK && ts_tensor_device(t) != TS_CPU)
        status = ts_fail(TS_EUNSUPPORTED, "ema: '%s' is on device %s; needs cpu", name,
                         ts_device_name(ts_tensor_device(t)));
    if (status == TS_OK) status = ts_tensor_list_add(ema->module, full, t);
    if (status == TS_OK) status = ts_tensor_list_add(ema->average, full, copy_of(t));
    free(full);
    return status;
}

static ts_status add_all(ts_ema *ema, ts_tensor_list *list)
{
    ts_status status = list ? TS_OK : ts_fail_memory(sizeof *ema, "a list of tensors");
    for (int64_t i = 0; i < ts_tensor_list_count(list) && status == TS_OK; i++)
        status = add(ema, ts_tensor_list_name(list, i), ts_tensor_list_get(list, i));
    ts_tensor_list_free(list);
    return status;
}

static ts_status fill(ts_ema *ema, const ts_module *module)
{
    ema->module = ts_tensor_list_new();
    ema->average = ts_tensor_list_new();
    if (!ema->module || !ema->average) return TS_ENOMEM;
    TS_TRY(add_all(ema, ts_module_parameters(module)));
    ema->parameters = ts_tensor_list_count(ema->module);
    return add_all(ema, ts_module_buffers(module));
}

ts_status ts_ema_new(ts_ema **out, const ts_module *module, const ts_ema_options *opt)
{
    ts_ema_options o = TS_EMA_OPTIONS_INIT;
    TS_TRY(ts_options_read(&o, sizeof o, opt, "ema"));
    if (!(o.decay >= 0 && o.decay <= 1))
        return ts_fail(TS_EINVAL, "ema: decay is %g; it must be in [0, 1]", o.decay);
    if (!module) return ts_fail(TS_EINVAL, "ema: the module is missing (NULL)");
    TS_TRY(ts_module_status(module));
    ts_ema *ema = ts_calloc(1, sizeof *ema);
    if (!ema) return ts_fail_memory(sizeof *ema, "an average of weights");
    ema->opt = o;
    ts_scope scope = ts_scope_begin();
    bool former = ts_no_grad_begin();
    ts_status status = fill(ema, module);
    ts_no_grad_end(former);
    ts_scope_end(scope);
    if (status == TS_OK)
        *out = ema;
    else
        ts_ema_free(ema);
    return status;
}

void ts_ema_free(ts_ema *ema)
{
    if (!ema) return;
    ts_tensor_list_free(ema->module);
    ts_tensor_list_free(ema->average);
    free(ema);
}

int64_t ts_ema_num_averaged(const ts_ema *ema) { return ema ? ema->updates : 0; }

/* ---- use ------------------------------------------------------------------------------------- */

static double decay_now(const ts_ema *ema)
{
    double n = (double)ema->updates, most = (1 + n) / (10 + n);
    return ema->opt.warmup && most < ema->opt.decay ? most : ema->opt.decay;
}

static ts_tensor *average(ts_tensor *to, ts_tensor *from, double decay)
{
    if (ts_dtype_is_floating(ts_tensor_dtype(to))) return ts_lerp_scalar_(to, from, 1 - decay);
    return ts_copy_(to, ts_add(ts_mul_scalar(to, decay), ts_mul_scalar(from, 1 - decay)));
}

/* Calls fn for every pair in a scope, with nothing recorded. */
static ts_status each_pair(ts_ema *ema, ts_status (*fn)(ts_ema *ema, int64_t i, ts_tensor *module,
                                                        ts_tensor *average))
{
    bool former = ts_no_grad_begin();
    ts_status status = TS_OK;
    for (int64_t i = 0; i < ts_tensor_list_count(ema->module) && status == TS_OK; i++) {
        ts_scope scope = ts_scope_begin();
        status =
            fn(ema, i, ts_tensor_list_get(ema->module, i), ts_tensor_list_get(ema->average, i));
        ts_scope_end(scope);
    }
    ts_no_grad_end(former);
    return status;
}

static ts_status update(ts_ema *ema, int64_t i, ts_tensor *from, ts_tensor *to)
{
    bool copy = ema->updates == 0 || (i >= ema->parameters && !ema->opt.use_buffers);
    return ts_tensor_check(copy ? ts_copy_(to, from) : average(to, from, decay_now(ema)), "ema");
}

static ts_status exchange(ts_ema *ema, int64_t i, ts_tensor *a, ts_tensor *b)
{
    ts_tensor *held = ts_clone(a);
    (void)ema, (void)i;
    TS_TRY(ts_tensor_check(held, "ema"));
    TS_TRY(ts_tensor_check(ts_copy_(a, b), "ema"));
    return ts_tensor_check(ts_copy_(b, held), "ema");
}

static ts_status check_home(const ts_ema *ema, const char *what)
{
    if (!ema) return ts_fail(TS_EINVAL, "%s: the average is missing (NULL)", what);
    if (!ema->swapped) return TS_OK;
    return ts_fail(TS_ESTATE, "%s: the module holds the average; swap it back first", what);
}

ts_status ts_ema_update(ts_ema *ema)
{
    TS_TRY(check_home(ema, "ema_update"));
    TS_TRY(each_pair(ema, update));
    ema->updates++;
    return TS_OK;
}

ts_status ts_ema_swap(ts_ema *ema)
{
    if (!ema) return ts_fail(TS_EINVAL, "ema_swap: the average is missing (NULL)");
    TS_TRY(each_pair(ema, exchange));
    ema->swapped = !ema->swapped;
    return TS_OK;
}

/* ---- state ----------------------------------------------------------------------------------- */

static ts_status list_state(ts_tensor_list *list, const ts_ema *ema)
{
    ts_tensor_options opt = TS_TENSOR_OPTIONS_INIT;
    opt.dtype = TS_INT64;
    TS_TRY(ts_tensor_list_add(list, "n_averaged",
                              ts_full(ts_shape_scalar(), (double)ema->updates, &opt)));
    for (int64_t i = 0; i < ts_tensor_list_count(ema->average); i++)
        TS_TRY(ts_tensor_list_add(list, ts_tensor_list_name(ema->average, i),
                                  ts_tensor_list_get(ema->average, i)));
    return TS_OK;
}

ts_tensor_list *ts_ema_state_dict(const ts_ema *ema)
{
    if (check_home(ema, "ema_state_dict") != TS_OK) return NULL;
    ts_tensor_list *list = ts_tensor_list_new();
    if (!list) return NULL;
    ts_scope scope = ts_scope_begin();
    ts_status status = list_state(list, ema);
    ts_scope_end(scope);
    if (status == TS_OK) return list;
    ts_tensor_list_free(list);
    return NULL;
}

static ts_status check_entry(const ts_tensor_list *state, const char *name, ts_shape shape,
                             ts_dtype dtype)
{
    char have[TS_SHAPE_TEXT], want[TS_SHAPE_TEXT];
    const ts_tensor *t = ts_tensor_list_find(state, name);
    if (!t) return ts_fail(TS_EINVAL, "ema_load_state_dict: '%s' is missing", name);
    if (ts_shape_equal(ts_tensor_shape(t), shape) && ts_tensor_dtype(t) == dtype) return TS_OK;
    return ts_fail(TS_ESHAPE, "ema_load_state_dict: '%s' is %s %s, not %s %s", name,
                   ts_dtype_name(ts_tensor_dtype(t)),
                   ts_shape_format(have, sizeof have, ts_tensor_shape(t)), ts_dtype_name(dtype),
                   ts_shape_format(want, sizeof want, shape));
}

static ts_status check_state(const ts_ema *ema, const ts_tensor_list *state)
{
    int64_t count = ts_tensor_list_count(ema->average);
    TS_TRY(check_entry(state, "n_averaged", ts_shape_scalar(), TS_INT64));
    for (int64_t i = 0; i < count; i++) {
        const ts_tensor *t = ts_tensor_list_get(ema->average, i);
        TS_TRY(check_entry(state, ts_tensor_list_name(ema->average, i), ts_tensor_shape(t),
                           ts_tensor_dtype(t)));
    }
    for (int64_t i = 0; i < ts_tensor_list_count(state); i++) {
        const char *name = ts_tensor_list_name(state, i);
        if (strcmp(name, "n_averaged") != 0 && !ts_tensor_list_find(ema->average, name))
            return ts_fail(TS_EINVAL, "ema_load_state_dict: '%s' is unexpected", name);
    }
    return TS_OK;
}

ts_status ts_ema_load_state_dict(ts_ema *ema, const ts_tensor_list *state)
{
    double updates;
    TS_TRY(check_home(ema, "ema_load_state_dict"));
    TS_TRY(check_state(ema, state));
    TS_TRY(ts_item(ts_tensor_list_find(state, "n_averaged"), &updates));
    if (!(updates >= 0))
        return ts_fail(TS_EINVAL, "ema_load_state_dict: n_averaged is %g; it must be at least 0",
                       updates);
    for (int64_t i = 0; i < ts_tensor_list_count(ema->average); i++)
        TS_TRY(
            ts_tensor_copy_data(ts_tensor_list_get(ema->average, i),
                                ts_tensor_list_find(state, ts_tensor_list_name(ema->average, i))));
    ema->updates = (int64_t)updates;
    return TS_OK;
}
