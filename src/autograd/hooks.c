/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks live on nodes, so that they outlast the tensor handle they were registered on. */
#include <stdlib.h>

#include "autograd/autograd_impl.h"
#include "base/memory.h"

int64_t ts_hooks_add(ts_node *node, ts_hook hook)
{
    if (!node->hooks) node->hooks = ts_small_new(sizeof *node->hooks);
    ts_hook_list *list = node->hooks;
    if (list && list->count == list->capacity) {
        int capacity = list->capacity ? 2 * list->capacity : 4;
        ts_hook *grown = ts_grow(list->hook, (size_t)capacity, sizeof *grown);
        if (grown) {
            list->hook = grown;
            list->capacity = capacity;
        }
    }
    if (!list || list->count == list->capacity) {
        ts_fail_memory(sizeof hook, "a hook");
        return 0;
    }
    hook.handle = ++list->last_handle;
    list->hook[list->count++] = hook;
    return hook.handle;
}

static void compact(ts_hook_list *list)
{
    int kept = 0;
    for (int i = 0; i < list->count; i++)
        if (list->hook[i].handle) list->hook[kept++] = list->hook[i];
    list->count = kept;
}

static void remove_at(ts_hook_list *list, int i)
{
    list->hook[i] = (ts_hook){.handle = 0};
    if (!list->running) compact(list);
}

void ts_hooks_remove(ts_node *node, int64_t handle)
{
    if (!node->hooks || handle <= 0) return;
    for (int i = 0; i < node->hooks->count; i++) {
        if (node->hooks->hook[i].handle != handle) continue;
        remove_at(node->hooks, i);
        return;
    }
}

bool ts_hooks_forget_keeper(ts_node *node, const ts_tensor *t)
{
    for (int i = 0; node->hooks && i < node->hooks->count; i++) {
        if (node->hooks->hook[i].keeper != t) continue;
        remove_at(node->hooks, i);
        return true;
    }
    return false;
}

void ts_hooks_free(ts_node *node)
{
    if (!node->hooks) return;
    free(node->hooks->hook);
    ts_small_free(node->hooks, sizeof *node->hooks);
    node->hooks = NULL;
}

static void end_run(ts_hook_list *list)
{
    if (--list->running == 0) compact(list);
}

static ts_status call_on_grad(ts_node *node, const ts_hook *hook, ts_tensor **grad)
{
    ts_tensor *replacement = hook->on_grad(*grad, hook->user);
    if (!replacement) return TS_OK;
    TS_TRY(ts_tensor_check(replacement, "tensor hook: gradient"));
    char want[TS_SHAPE_TEXT], got[TS_SHAPE_TEXT];
    if (!ts_shape_equal(replacement->shape, (*grad)->shape))
        return ts_fail(TS_ESHAPE, "hook on %s: it returned shape %s for a gradient of shape %s",
                       node->name, ts_shape_format(got, sizeof got, replacement->shape),
                       ts_shape_format(want, sizeof want, (*grad)->shape));
    *grad = replacement;
    return TS_OK;
}

static ts_status keep_grad(ts_tensor *keeper, ts_tensor *grad)
{
    ts_tensor *former = keeper->autograd->grad;
    ts_tensor *sum = former ? ts_autograd_use->add(former, grad) : grad;
    TS_TRY(ts_tensor_check(sum, "gradient"));
    ts_grad_replace(keeper, ts_retain(sum));
    return TS_OK;
}

ts_status ts_hooks_on_grad(ts_node *node, int slot, ts_tensor **grad)
{
    ts_hook_list *list = node->hooks;
    if (!list) return TS_OK;
    ts_status status = TS_OK;
    list->running++;
    for (int i = 0, n = list->count; i < n && status == TS_OK; i++) {
        ts_hook hook = list->hook[i];
        if (hook.handle && hook.slot == slot && hook.on_grad)
            status = call_on_grad(node, &hook, grad);
    }
    /* The gradient that is kept is the one that flows on. */
    for (int i = 0, n = list->count; i < n && status == TS_OK; i++)
        if (list->hook[i].keeper && list->hook[i].slot == slot)
            status = keep_grad(list->hook[i].keeper, *grad);
    end_run(list);
    return status;
}

ts_status ts_hook_worded(ts_status status, const char *what)
{
    if (status == TS_OK || ts_thread()->error_status == status) return status;
    return ts_fail(status, "%s returned %s", what, ts_status_name(status));
}

static ts_status call_on_accumulate(const ts_hook *hook, ts_tensor *leaf)
{
    ts_thread()->error_status = TS_OK;
    return ts_hook_worded(hook->on_accumulate(leaf, hook->user), "post-accumulate hook");
}

ts_status ts_hooks_on_accumulate(ts_node *node, ts_tensor *leaf)
{
    ts_hook_list *list = node->hooks;
    if (!list) return TS_OK;
    ts_status status = TS_OK;
    list->running++;
    for (int i = 0, n = list->count; i < n && status == TS_OK; i++) {
        ts_hook hook = list->hook[i];
        if (hook.handle && hook.on_accumulate) status = call_on_accumulate(&hook, leaf);
    }
    end_run(list);
    return status;
}

/* ---- public ---------------------------------------------------------------------------------- */

int64_t ts_tensor_register_hook(ts_tensor *t, ts_tensor_hook hook, void *user)
{
    if (ts_tensor_check(t, "register_hook: tensor") != TS_OK) return 0;
    ts_edge edge;
    if (!hook || !ts_requires_grad(t)) {
        ts_fail(TS_ESTATE, hook ? "register_hook: the tensor does not require grad"
                                : "register_hook: hook is missing");
        return 0;
    }
    if (ts_autograd_edge(&edge, t) != TS_OK) return 0;
    return ts_hooks_add(edge.node, (ts_hook){.slot = edge.slot, .on_grad = hook, .user = user});
}

int64_t ts_register_post_accumulate_hook(ts_tensor *leaf, ts_accumulate_hook hook, void *user)
{
    if (ts_tensor_check(leaf, "register_post_accumulate_hook: leaf") != TS_OK) return 0;
    if (!hook || !ts_requires_grad(leaf) || !ts_is_leaf(leaf)) {
        ts_fail(TS_ESTATE, hook ? "register_post_accumulate_hook: only leaves that require grad "
                                  "accumulate gradients"
                                : "register_post_accumulate_hook: hook is missing");
        return 0;
    }
    ts_node *accumulator = ts_accumulator_of(leaf);
    if (!accumulator) return 0;
    return ts_hooks_add(accumulator, (ts_hook){.on_accumulate = hook, .user = user});
}

void ts_hook_remove(ts_tensor *t, int64_t handle)
{
    if (!t || !t->autograd) return;
    ts_node *node = t->autograd->node ? t->autograd->node : t->autograd->accumulator;
    if (node) ts_hooks_remove(node, handle);
}
