/* SPDX-License-Identifier: Apache-2.0 */
/* The wrapper module: options, the order of creation, and forward. */
#include <string.h>
#include <tessera/autograd.h>
#include <tessera/ddp.h>
#include <tessera/scope.h>

#include "base/error.h"
#include "base/memory.h"
#include "dist/ddp/agree.h"
#include "dist/ddp/reducer.h"
#include "tensor/tensor.h"

static const double DEFAULT_BUCKET_MB = 25.0;
static const int64_t DEFAULT_FIRST_BUCKET = 1 << 20;

typedef struct ddp_state {
    ts_module *module;
    ts_group *group;
    ts_reducer *reducer;
    bool broadcast_buffers;
    bool sync;         /* false between no_sync begin and end */
    bool sync_buffers; /* the last forward was one that synchronises */
} ddp_state;

/* ---- forward --------------------------------------------------------------------------------- */

/* Ranks differ in buffers (running statistics) after each step; rank 0's count.  Not after a
 * forward that did not synchronise. */
static ts_status broadcast_buffers(ddp_state *s)
{
    if (!s->broadcast_buffers || !s->sync_buffers) return TS_OK;
    ts_tensor_list *buffers = ts_module_buffers(s->module);
    if (!buffers) return ts_fail_memory(0, "ddp: the list of buffers");
    bool former = ts_no_grad_begin();
    ts_status status = ts_ddp_broadcast(s->group, buffers);
    ts_no_grad_end(former);
    ts_tensor_list_free(buffers);
    return status;
}

static ts_tensor *ddp_forward(ts_module *self, ts_tensor *const *args, int n)
{
    ddp_state *s = ts_module_state(self);
    bool record = ts_grad_enabled();
    ts_status status = record ? ts_reducer_prepare(s->reducer) : TS_OK;
    if (status == TS_OK) status = broadcast_buffers(s);
    if (status != TS_OK) return ts_fail_tensor_last(status);

    ts_tensor *out = ts_module_call(s->module, args, n);
    s->sync_buffers = record && s->sync;
    if (record && s->sync) {
        ts_reducer_arm(s->reducer);
        if (ts_failed(out)) ts_reducer_poison(s->reducer, out);
    }
    return out;
}

static void ddp_fini(ts_module *self)
{
    ddp_state *s = ts_module_state(self);
    ts_reducer_free(s->reducer);
}

static const ts_module_class ddp_class = {.name = "DistributedDataParallel",
                                          .state_size = sizeof(ddp_state),
                                          .forward_args = ddp_forward,
                                          .fini = ddp_fini};

/* ---- creation -------------------------------------------------------------------------------- */

static ts_status check_options(const ts_ddp_options *opt)
{
    if (opt->struct_size == 0)
        return ts_fail(TS_EINVAL, "ddp: options are not initialised; use TS_DDP_OPTIONS_INIT");
    if (!(opt->bucket_cap_mb >= 0) || opt->bucket_cap_mb > 1e9)
        return ts_fail(TS_EINVAL, "ddp: bucket_cap_mb is %g; it must be 0 (default) or positive",
                       opt->bucket_cap_mb);
    return TS_OK;
}

/* Parameters that require grad, in registration order, shared ones once. */
static ts_status trainable(ts_tensor_list **out, ts_module *module)
{
    ts_tensor_list *all = ts_module_parameters(module), *list = ts_tensor_list_new();
    ts_status status = all && list ? TS_OK : ts_fail_memory(0, "ddp: the list of parameters");
    for (int64_t i = 0; status == TS_OK && i < ts_tensor_list_count(all); i++)
        if (ts_requires_grad(ts_tensor_list_get(all, i)))
            status =
                ts_tensor_list_add(list, ts_tensor_list_name(all, i), ts_tensor_list_get(all, i));
    ts_tensor_list_free(all);
    if (status == TS_OK && ts_tensor_list_count(list) == 0)
        status = ts_fail(TS_EINVAL, "ddp: the module has no parameter that requires grad, so there "
                                    "is nothing to average");
    if (status == TS_OK)
        *out = list;
    else
        ts_tensor_list_free(list);
    return status;
}

static ts_status check_local(ts_tensor_list **parameters, ts_module **ddp, ts_module *module,
                             const ts_ddp_options *opt)
{
    TS_TRY(check_options(opt));
    if (!ddp) return ts_fail(TS_EINVAL, "ddp: the place for the result is missing");
    if (!module) return ts_fail(TS_EINVAL, "ddp: module is missing");
    TS_TRY(ts_module_status(module));
    return trainable(parameters, module);
}

static ts_status broadcast_state(ts_group *group, ts_module *module, bool with_buffers)
{
    ts_tensor_list *parameters = ts_module_parameters(module);
    ts_tensor_list *buffers = ts_module_buffers(module);
    ts_status status = parameters && buffers ? TS_OK : ts_fail_memory(0, "ddp: lists of tensors");
    bool former = ts_no_grad_begin();
    if (status == TS_OK) status = ts_ddp_broadcast(group, parameters);
    if (status == TS_OK && with_buffers) status = ts_ddp_broadcast(group, buffers);
    ts_no_grad_end(former);
    ts_tensor_list_free(parameters);
    ts_tensor_list_free(buffers);
    return status;
}

static ts_reducer_options reducer_options(ts_group *group, double bucket_cap_mb)
{
    double mb = bucket_cap_mb > 0 ? bucket_cap_mb : DEFAULT_BUCKET_MB;
    int64_t bytes = (int64_t)(mb * 1048576.0);
    return (ts_reducer_options){.group = group,
                                .bucket_bytes = bytes,
                                .first_bucket_bytes =
                                    bucket_cap_mb > 0 ? bytes : DEFAULT_FIRST_BUCKET};
}

/* Everything up to the reducer, which takes the list of parameters over.  A rank whose options were
 * not set up (all zero) tells the others, as by default. */
static ts_status create(ts_reducer **out, ts_group *group, ts_module **ddp, ts_module *module,
                        const ts_ddp_options *opt)
{
    ts_tensor_list *parameters = NULL;
    ts_status status = check_local(&parameters, ddp, module, opt);
    if (opt->init_sync || opt->struct_size == 0) status = ts_ddp_agree(group, parameters, status);
    if (status == TS_OK && opt->init_sync)
        status = broadcast_state(group, module, opt->broadcast_buffers);
    if (status != TS_OK) {
        ts_tensor_list_free(parameters);
        return status;
    }
    ts_reducer_options reducer = reducer_options(group, opt->bucket_cap_mb);
    return ts_reducer_new(out, parameters, &reducer);
}

ts_status ts_ddp_new(ts_module **ddp, ts_module *module, const ts_ddp_options *opt)
{
    const ts_ddp_options defaults = TS_DDP_OPTIONS_INIT;
    if (!opt) opt = &defaults;
    ts_group *group = opt->process_group ? opt->process_group : ts_default_group();
    ts_reducer *reducer = NULL;
    ts_status status =
        group ? create(&reducer, group, ddp, module, opt)
              : ts_fail(TS_ESTATE, "ddp: no process group; call ts_init_process_group first");
    if (status != TS_OK) {
        ts_module_free(module);
        return status;
    }
    ts_module *self = ts_module_new(&ddp_class);
    ddp_state *s = ts_module_state(self);
    s->reducer = reducer;
    s->group = group;
    s->broadcast_buffers = opt->broadcast_buffers;
    s->sync = s->sync_buffers = true;
    s->module = ts_module_add(self, "module", module);
    status = ts_module_status(self);
    if (status != TS_OK) {
        ts_module_free(self);
        return status;
    }
    ts_reducer_log_creation(reducer, ts_module_class_of(module)->name, opt->broadcast_buffers);
    *ddp = self;
    return TS_OK;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static ddp_state *state_of(ts_module *ddp)
{
    return ddp && ts_module_class_of(ddp) == &ddp_class ? ts_module_state(ddp) : NULL;
}

ts_module *ts_ddp_module(ts_module *ddp)
{
    ddp_state *s = state_of(ddp);
    return s ? s->module : NULL;
}

bool ts_ddp_no_sync_begin(ts_module *ddp)
{
    ddp_state *s = state_of(ddp);
    if (!s) return true;
    bool former = s->sync;
    s->sync = false;
    return former;
}

void ts_ddp_no_sync_end(ts_module *ddp, bool former)
{
    ddp_state *s = state_of(ddp);
    if (s) s->sync = former;
}

ts_status ts_ddp_get_stats(ts_ddp_stats *out, ts_module *ddp)
{
    ddp_state *s = state_of(ddp);
    if (!s) return ts_fail(TS_EINVAL, "ddp_get_stats: not a module made by ts_ddp_new");
    ts_reducer_stats(out, s->reducer);
    return TS_OK;
}
