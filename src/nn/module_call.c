/* SPDX-License-Identifier: Apache-2.0 */
/* Calling modules, and hooks. */
#include <stdlib.h>
#include <string.h>
#include <tessera/scope.h>

#include "nn/module_impl.h"
#include "tensor/tensor.h"

/* The module whose forward runs on this thread; paths in errors are continued from it. */
static _Thread_local const ts_module *running;

/* ---- hooks ----------------------------------------------------------------------------------- */

int64_t ts_module_register_hook(ts_module *m, ts_module_hook hook)
{
    if (!m || m->status != TS_OK) return 0;
    if (m->num_hooks == m->hook_capacity) {
        int64_t capacity = m->hook_capacity ? 2 * m->hook_capacity : 4;
        void *grown = ts_grow(m->hook, (size_t)capacity, sizeof *m->hook);
        if (!grown) return 0;
        m->hook = grown;
        m->hook_capacity = capacity;
    }
    hook.id = ++m->last_hook;
    m->hook[m->num_hooks++] = hook;
    return hook.id;
}

int64_t ts_module_register_forward_pre_hook(ts_module *m, ts_forward_pre_hook hook, void *user)
{
    return hook ? ts_module_register_hook(m, (ts_module_hook){.pre = hook, .user = user}) : 0;
}

int64_t ts_module_register_forward_hook(ts_module *m, ts_forward_hook hook, void *user)
{
    return hook ? ts_module_register_hook(m, (ts_module_hook){.post = hook, .user = user}) : 0;
}

static void sweep_hooks(ts_module *m)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < m->num_hooks; i++)
        if (m->hook[i].id) m->hook[kept++] = m->hook[i];
    m->num_hooks = kept;
    m->hooks_removed = false;
}

void ts_module_remove_hook(ts_module *m, int64_t handle)
{
    if (!m || handle <= 0) return;
    for (int64_t i = 0; i < m->num_hooks; i++)
        if (m->hook[i].id == handle) {
            m->hook[i].id = 0;
            m->hooks_removed = true;
        }
    if (m->hooks_removed && m->calls_running == 0) sweep_hooks(m);
}

void ts_module_hooks_begin(ts_module *m) { m->calls_running++; }

void ts_module_hooks_end(ts_module *m)
{
    if (--m->calls_running == 0 && m->hooks_removed) sweep_hooks(m);
}

/* Hooks that a hook registers run from the next call on. */
static ts_tensor *run_pre_hooks(ts_module *m, ts_tensor **args, int n, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        ts_module_hook hook = m->hook[i];
        if (!hook.id || !hook.pre) continue;
        ts_tensor *before[TS_MODULE_MAX_ARGS];
        memcpy(before, args, (size_t)n * sizeof *args);
        ts_status status = hook.pre(m, args, n, hook.user);
        if (status != TS_OK) return ts_fail_tensor_last(status);
        for (int k = 0; k < n; k++)
            if (args[k] != before[k] && ts_failed(args[k])) return args[k];
    }
    return NULL;
}

static ts_tensor *run_post_hooks(ts_module *m, ts_tensor *const *args, int n, ts_tensor *out,
                                 int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        ts_module_hook hook = m->hook[i];
        if (!hook.id || !hook.post) continue;
        ts_tensor *replaced = hook.post(m, args, n, out, hook.user);
        if (replaced) out = replaced;
    }
    return out;
}

/* ---- the call -------------------------------------------------------------------------------- */

static ts_tensor *run_forward(ts_module *m, ts_tensor *const *args, int n)
{
    const ts_module_class *klass = m->klass;
    ts_tensor *out;
    if (klass->forward_args) {
        out = klass->forward_args(m, args, n);
    } else if (!klass->forward) {
        return ts_fail_tensor(TS_EUNSUPPORTED, "%s has no forward of its own; call its children",
                              klass->name);
    } else if (n != 1) {
        return ts_fail_tensor(TS_EINVAL, "%s takes 1 tensor, not %d", klass->name, n);
    } else {
        out = klass->forward(m, args[0]);
    }
    return out ? out : ts_fail_tensor(TS_EINVAL, "forward of %s returned none (NULL)", klass->name);
}

static ts_tensor *run_hooked(ts_module *m, ts_tensor *const *args, int n)
{
    ts_tensor *own[TS_MODULE_MAX_ARGS];
    int64_t count = m->num_hooks;
    memcpy(own, args, (size_t)n * sizeof *own);
    ts_module_backward *backward = NULL;
    ts_module_hooks_begin(m);
    ts_tensor *out = run_pre_hooks(m, own, n, count);
    if (!out) out = ts_module_hook_inputs(&backward, m, own, n);
    if (!out) out = run_post_hooks(m, own, n, run_forward(m, own, n), count);
    out = ts_module_hook_output(backward, out);
    ts_module_hooks_end(m);
    return out;
}

/* Adds the names between the running module and m to the path of error texts. */
static int push_path(const ts_module *m)
{
    char path[TS_WHERE_MAX];
    if (!m->parent || m == running) return ts_where_push("");
    if (m->parent == running) return ts_where_push(m->name);
    return ts_where_push(ts_module_path_below(path, sizeof path, m, running));
}

static ts_tensor *call(ts_module *m, ts_tensor *const *args, int n)
{
    const ts_module *caller = running;
    int mark = push_path(m);
    running = m;
    ts_scope scope = ts_scope_begin();
    ts_tensor *out = m->num_hooks ? run_hooked(m, args, n) : run_forward(m, args, n);
    out = ts_scope_end_keep(scope, out);
    running = caller;
    ts_where_pop(mark);
    return out;
}

ts_tensor *ts_module_call(ts_module *m, ts_tensor *const *args, int n)
{
    ts_status status = ts_module_status(m);
    if (status != TS_OK) return ts_fail_tensor_last(status);
    if (n < 0 || n > TS_MODULE_MAX_ARGS || (n > 0 && !args))
        return ts_fail_tensor(TS_EINVAL, "module_call: %d inputs; 0 to %d are possible", n,
                              TS_MODULE_MAX_ARGS);
    return call(m, args, n);
}

ts_tensor *ts_forward(ts_module *m, ts_tensor *x) { return ts_module_call(m, &x, 1); }
