/* SPDX-License-Identifier: Apache-2.0 */
/* Backward hooks of modules: one identity function takes the inputs into the module, one the output
 * out of it; their gradients are those of the module. */
#include <tessera/autograd.h>
#include <tessera/function.h>

#include "nn/module_impl.h"
#include "tensor/tensor.h"

/* One call of the module. */
struct ts_module_backward {
    _Atomic int64_t refs; /* of the call and of each of the two functions */
    ts_module *module;
    int num_in, num_there;
    int place[TS_MODULE_MAX_ARGS]; /* of each input that is there among all of them */
    bool inputs;                   /* one of them requires grad */
    ts_tensor *grad_out;           /* between the two functions */
};

static void call_release(void *user)
{
    ts_module_backward *call = user;
    if (!call || !ts_ref_release(&call->refs)) return;
    ts_release(call->grad_out);
    ts_small_free(call, sizeof *call);
}

static ts_status identity(ts_function_call *call, ts_tensor *const *in, int n, ts_tensor **out)
{
    (void)call, (void)n;
    out[0] = in[0];
    return TS_OK;
}

/* ---- hooks run ------------------------------------------------------------------------------- */

static ts_status run_post(ts_module_backward *call, ts_tensor **grad_in)
{
    ts_module *m = call->module;
    ts_status status = TS_OK;
    for (int64_t i = 0, n = m->num_hooks; i < n && status == TS_OK; i++) {
        ts_module_hook hook = m->hook[i];
        if (!hook.id || !hook.backward) continue;
        ts_thread()->error_status = TS_OK;
        status = hook.backward(m, grad_in, call->num_in, call->grad_out, hook.user);
        if (status != TS_OK && ts_thread()->error_status != status)
            ts_fail(status, "the backward hook of %s returned %s", m->klass->name,
                    ts_status_name(status));
    }
    return status;
}

static ts_status run_pre(ts_module_backward *call, ts_tensor **grad)
{
    ts_module *m = call->module;
    for (int64_t i = 0, n = m->num_hooks; i < n; i++) {
        ts_module_hook hook = m->hook[i];
        if (!hook.id || !hook.backward_pre) continue;
        ts_tensor *replaced = hook.backward_pre(m, *grad, hook.user);
        if (!replaced) continue;
        TS_TRY(ts_tensor_check(replaced, "backward pre-hook: gradient"));
        *grad = replaced;
    }
    return TS_OK;
}

static ts_status output_backward(ts_function_call *f, ts_tensor *const *grad_out,
                                 ts_tensor **grad_in)
{
    ts_module_backward *call = ts_function_user(f);
    ts_tensor *grad = grad_out[0], *none[TS_MODULE_MAX_ARGS] = {0};
    ts_module_hooks_begin(call->module);
    ts_status status = run_pre(call, &grad);
    if (status == TS_OK) {
        ts_release(call->grad_out);
        call->grad_out = ts_retain(grad);
        if (!call->inputs) status = run_post(call, none);
    }
    ts_module_hooks_end(call->module);
    grad_in[0] = grad;
    return status;
}

static ts_status inputs_backward(ts_function_call *f, ts_tensor *const *grad_out,
                                 ts_tensor **grad_in)
{
    ts_module_backward *call = ts_function_user(f);
    ts_tensor *all[TS_MODULE_MAX_ARGS] = {0};
    for (int i = 0; i < call->num_there; i++) all[call->place[i]] = grad_out[i];
    ts_module_hooks_begin(call->module);
    ts_status status = run_post(call, all);
    ts_module_hooks_end(call->module);
    for (int i = 0; i < call->num_there; i++) grad_in[i] = all[call->place[i]];
    ts_release(call->grad_out);
    call->grad_out = NULL;
    return status;
}

/* ---- the functions around a call ------------------------------------------------------------- */

static const ts_function_class output_class = {"module output", 1, identity, output_backward,
                                               call_release};

static ts_status inputs_forward(ts_function_call *f, ts_tensor *const *in, int n, ts_tensor **out)
{
    for (int i = 0; i < n; i++) {
        out[i] = in[i];
        if (!ts_function_needs(f, i)) ts_function_mark_non_differentiable(f, i);
    }
    return TS_OK;
}

/* A class for each number of inputs. */
#define INPUTS(n)                                                                                  \
    {                                                                                              \
        "module inputs", n, inputs_forward, inputs_backward, call_release                          \
    }
static const ts_function_class inputs_class[TS_MODULE_MAX_ARGS + 1] = {
    INPUTS(1), INPUTS(1), INPUTS(2), INPUTS(3), INPUTS(4),
    INPUTS(5), INPUTS(6), INPUTS(7), INPUTS(8)};

static bool has_backward_hooks(const ts_module *m)
{
    for (int64_t i = 0; i < m->num_hooks; i++)
        if (m->hook[i].id && (m->hook[i].backward || m->hook[i].backward_pre)) return true;
    return false;
}

/* Only inputs that are there can pass through the function. */
static ts_tensor *enter(ts_module_backward *call, ts_tensor **args, int n)
{
    ts_tensor *out[TS_MODULE_MAX_ARGS], *in[TS_MODULE_MAX_ARGS];
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (!args[i]) continue;
        call->place[count] = i;
        in[count++] = args[i];
    }
    ts_ref_retain(&call->refs);
    call->num_there = count;
    ts_tensor *first = ts_function_apply(&inputs_class[count], in, count, call, out);
    if (ts_failed(first)) return first;
    for (int i = 0; i < count; i++)
        if (ts_requires_grad(in[i])) args[call->place[i]] = out[i];
    return NULL;
}

ts_tensor *ts_module_hook_inputs(ts_module_backward **out, ts_module *m, ts_tensor **args, int n)
{
    if (!ts_grad_enabled() || !has_backward_hooks(m)) return NULL;
    ts_module_backward *call = ts_small_new(sizeof *call);
    if (!call) {
        ts_fail_memory(sizeof *call, "a call with backward hooks");
        return ts_fail_tensor_last(TS_ENOMEM);
    }
    atomic_init(&call->refs, 1);
    call->module = m;
    call->num_in = n;
    for (int i = 0; i < n; i++) call->inputs = call->inputs || ts_requires_grad(args[i]);
    *out = call;
    return call->inputs ? enter(call, args, n) : NULL;
}

ts_tensor *ts_module_hook_output(ts_module_backward *call, ts_tensor *out)
{
    if (!call) return out;
    if (ts_requires_grad(out)) {
        ts_ref_retain(&call->refs);
        out = ts_function_apply(&output_class, &out, 1, call, NULL);
    }
    call_release(call);
    return out;
}

int64_t ts_module_register_full_backward_pre_hook(ts_module *m, ts_full_backward_pre_hook hook,
                                                  void *user)
{
    return hook ? ts_module_register_hook(m, (ts_module_hook){.backward_pre = hook, .user = user})
                : 0;
}

int64_t ts_module_register_full_backward_hook(ts_module *m, ts_full_backward_hook hook, void *user)
{
    return hook ? ts_module_register_hook(m, (ts_module_hook){.backward = hook, .user = user}) : 0;
}
