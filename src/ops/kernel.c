/* SPDX-License-Identifier: Apache-2.0 */
/* The innermost layer: describes the outputs, allocates them and computes. */
#include "ops/dispatch.h"

static ts_status check_inputs(const ts_op_call *call)
{
    const ts_tensor *first = NULL;
    for (int i = 0; i < call->num_in; i++) {
        const ts_tensor *t = call->in[i];
        if (!t) continue;
        if (!first) first = t;
        if (t->device != first->device)
            return ts_fail(TS_EINVAL, "%s: inputs are on different devices, %s and %s",
                           call->def->name, ts_device_name((ts_device)first->device),
                           ts_device_name((ts_device)t->device));
        if (t->device == TS_CPU && t->numel > 0 && !t->storage->data)
            return ts_fail(TS_ESTATE, "%s: the memory of input %d has been let go", call->def->name,
                           i);
    }
    return TS_OK;
}

/* A view keeps the tensor that it views in the end, for changes in place.  The engine's own views
 * are never changed by a recorded operation; without a base their memory can be taken over. */
static void forget_base(ts_tensor *view, const ts_tensor *viewed)
{
    if (view == viewed) return;
    ts_release(view->base);
    view->base = NULL;
}

static ts_status run_view(ts_op_call *call)
{
    const ts_thread_ctx *thread = ts_thread();
    bool engine = thread->backward_depth > 0 && (thread->mode & TS_MODE_NO_GRAD);
    TS_TRY(call->def->kernel[TS_CPU](call));
    for (int i = 0; i < call->def->num_out; i++) {
        if (call->out[i]->status != TS_OK) return ts_tensor_check(call->out[i], call->def->name);
        if (engine) forget_base(call->out[i], call->in[0]);
    }
    return TS_OK;
}

static ts_status run_kernel(ts_op_call *call, ts_device device)
{
    if (device == TS_META) return TS_OK;
    if (!call->def->kernel[device])
        return ts_fail(TS_EUNSUPPORTED, "%s: not offered on %s", call->def->name,
                       ts_device_name(device));
    return call->def->kernel[device](call);
}

static ts_status run_inplace(ts_op_call *call)
{
    ts_tensor *t = call->in[0];
    TS_TRY(ts_tensor_check_writable(call->def->name, t));
    call->out[0] = t;
    TS_TRY(run_kernel(call, (ts_device)t->device));
    ts_tensor_bump(t);
    return TS_OK;
}

ts_status ts_layer_kernel(ts_op_call *call)
{
    const ts_op_def *def = call->def;
    ts_spec spec[TS_OP_MAX_OUTPUTS];
    TS_TRY(check_inputs(call));
    TS_TRY(def->infer(call, spec));
    if (def->flags & TS_OP_VIEW) return run_view(call);
    if (def->flags & TS_OP_INPLACE) return run_inplace(call);
    for (int i = 0; i < def->num_out; i++) {
        call->out[i] = ts_tensor_new(&spec[i], TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION);
        if (call->out[i]->status != TS_OK) return ts_tensor_check(call->out[i], def->name);
    }
    return run_kernel(call, spec[0].device);
}
