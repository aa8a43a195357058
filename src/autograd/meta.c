/* SPDX-License-Identifier: Apache-2.0 */
/* What autograd keeps per tensor, and the grad mode of the thread. */
#include <string.h>

#include "autograd/autograd_impl.h"

#include "base/memory.h"

struct ts_autograd *ts_autograd_of(ts_tensor *t)
{
    if (t->autograd) return t->autograd;
    t->autograd = ts_small_new(sizeof *t->autograd);
    if (!t->autograd) ts_fail_memory(sizeof *t->autograd, "the gradient record of a tensor");
    return t->autograd;
}

/* The tensor goes away: its accumulator and the hook that keeps its gradient must not find it. */
static void autograd_free(ts_tensor *t)
{
    struct ts_autograd *autograd = t->autograd;
    t->autograd = NULL;
    if (autograd->accumulator) {
        ((ts_accumulator *)(void *)autograd->accumulator)->leaf = NULL;
        ts_node_release(autograd->accumulator);
    }
    if (autograd->node) {
        if (autograd->node->hooks) ts_hooks_forget_keeper(autograd->node, t);
        ts_node_release(autograd->node);
    }
    ts_release(autograd->grad);
    ts_release(autograd->home);
    ts_small_free(autograd, sizeof *autograd);
}

__attribute__((constructor)) static void install(void)
{
    ts_autograd_free_hook = autograd_free;
    ts_autograd_leaf_hook = ts_set_requires_grad;
}

ts_status ts_autograd_set_node(ts_tensor *t, ts_node *node, int slot)
{
    ts_ref_retain(&node->refs);
    return ts_autograd_give_node(t, node, slot);
}

ts_status ts_autograd_give_node(ts_tensor *t, ts_node *node, int slot)
{
    struct ts_autograd *autograd = ts_autograd_of(t);
    if (!autograd) {
        ts_node_release(node);
        return TS_ENOMEM;
    }
    ts_node *former = autograd->node;
    bool keeps = former && former->hooks && ts_hooks_forget_keeper(former, t);
    autograd->node = node;
    autograd->slot = slot;
    t->keys |= TS_KEY_AUTOGRAD;
    ts_node_release(former);
    return keeps ? ts_retain_grad(t) : TS_OK;
}

ts_status ts_autograd_edge(ts_edge *out, ts_tensor *t)
{
    *out = (ts_edge){NULL, 0};
    if (ts_autograd_stale(t)) TS_TRY(ts_autograd_use->refresh_view(t));
    struct ts_autograd *autograd = t->autograd;
    if (!autograd) return TS_OK;
    if (autograd->node) {
        *out = (ts_edge){autograd->node, autograd->slot};
    } else if (autograd->requires_grad) {
        out->node = ts_accumulator_of(t);
        if (!out->node) return TS_ENOMEM;
    }
    return TS_OK;
}

/* ---- leaves ---------------------------------------------------------------------------------- */

ts_status ts_set_requires_grad(ts_tensor *t, bool requires_grad)
{
    TS_TRY(ts_tensor_check(t, "set_requires_grad: tensor"));
    if (requires_grad && !ts_dtype_is_floating((ts_dtype)t->dtype))
        return ts_fail(TS_EDTYPE, "set_requires_grad: %s tensors have no gradient",
                       ts_dtype_name((ts_dtype)t->dtype));
    if (requires_grad && t->storage->inference && !ts_inference_mode_enabled())
        return ts_fail(TS_ESTATE, "set_requires_grad: the tensor was made in inference mode; "
                                  "clone it outside of that mode");
    if (t->autograd && t->autograd->node) {
        if (requires_grad) return TS_OK;
        return ts_fail(TS_ESTATE, "set_requires_grad: the tensor was made by %s; use ts_detach",
                       t->autograd->node->name);
    }
    if (!requires_grad && !t->autograd) return TS_OK;
    if (!ts_autograd_of(t)) return TS_ENOMEM;
    t->autograd->requires_grad = requires_grad;
    t->keys = requires_grad ? t->keys | TS_KEY_AUTOGRAD : t->keys & ~(uint32_t)TS_KEY_AUTOGRAD;
    return TS_OK;
}

bool ts_requires_grad(const ts_tensor *t)
{
    if (!t || ts_failed(t)) return false;
    return (t->keys & TS_KEY_AUTOGRAD) || (ts_autograd_stale(t) && ts_requires_grad(t->base));
}

bool ts_is_leaf(const ts_tensor *t)
{
    if (!t || ts_failed(t)) return true;
    return !(t->autograd && t->autograd->node) && !(ts_autograd_stale(t) && ts_requires_grad(t));
}

ts_tensor *ts_detach(ts_tensor *t)
{
    if (!t) return ts_fail_tensor(TS_EINVAL, "detach: tensor is missing");
    if (ts_failed(t)) return t;
    ts_tensor *alias = ts_autograd_alias(t);
    return alias ? ts_scope_give(alias) : ts_fail_tensor_last(TS_ENOMEM);
}

/* ---- .grad ----------------------------------------------------------------------------------- */

ts_tensor *ts_grad(const ts_tensor *t) { return t && t->autograd ? t->autograd->grad : NULL; }

void ts_grad_replace(ts_tensor *t, ts_tensor *grad)
{
    ts_tensor *former = t->autograd->grad;
    t->autograd->grad = grad;
    ts_release(former);
}

static ts_status check_like(const char *op, const ts_tensor *t, const ts_tensor *grad)
{
    char want[TS_SHAPE_TEXT], got[TS_SHAPE_TEXT];
    TS_TRY(ts_tensor_check(grad, op));
    if (!ts_shape_equal(t->shape, grad->shape))
        return ts_fail(TS_ESHAPE, "%s: the gradient has shape %s, the tensor %s", op,
                       ts_shape_format(got, sizeof got, grad->shape),
                       ts_shape_format(want, sizeof want, t->shape));
    if (t->dtype != grad->dtype)
        return ts_fail(TS_EDTYPE, "%s: the gradient is %s, the tensor %s", op,
                       ts_dtype_name((ts_dtype)grad->dtype), ts_dtype_name((ts_dtype)t->dtype));
    if (t->device != grad->device)
        return ts_fail(TS_EINVAL, "%s: the gradient is on %s, the tensor on %s", op,
                       ts_device_name((ts_device)grad->device),
                       ts_device_name((ts_device)t->device));
    return TS_OK;
}

ts_status ts_set_grad(ts_tensor *t, ts_tensor *grad)
{
    TS_TRY(ts_tensor_check(t, "set_grad: tensor"));
    if (!grad && !t->autograd) return TS_OK;
    if (grad) TS_TRY(check_like("set_grad", t, grad));
    if (!ts_autograd_of(t)) return TS_ENOMEM;
    ts_grad_replace(t, ts_retain(grad));
    return TS_OK;
}

ts_status ts_autograd_set_grad_home(ts_tensor *leaf, ts_tensor *home_or_null)
{
    TS_TRY(ts_tensor_check(leaf, "gradient home: leaf"));
    if (home_or_null) TS_TRY(check_like("gradient home", leaf, home_or_null));
    if (!ts_autograd_of(leaf)) return TS_ENOMEM;
    ts_tensor *former = leaf->autograd->home;
    leaf->autograd->home = ts_retain(home_or_null);
    ts_release(former);
    return TS_OK;
}

ts_status ts_retain_grad(ts_tensor *t)
{
    TS_TRY(ts_tensor_check(t, "retain_grad: tensor"));
    if (!ts_requires_grad(t))
        return ts_fail(TS_ESTATE, "retain_grad: the tensor does not require grad");
    ts_edge edge;
    TS_TRY(ts_autograd_edge(&edge, t));
    if (ts_node_is_accumulator(edge.node)) return TS_OK;
    ts_hooks_forget_keeper(edge.node, t);
    ts_hook keep = {.slot = edge.slot, .keeper = t};
    return ts_hooks_add(edge.node, keep) ? TS_OK : TS_ENOMEM;
}

uint64_t ts_tensor_version(const ts_tensor *t)
{
    return t && t->storage ? ts_autograd_version(t) : 0;
}

/* ---- grad mode ------------------------------------------------------------------------------- */

bool ts_grad_enabled(void) { return !(ts_thread()->mode & TS_MODE_NO_GRAD); }

/* Inference mode lets nothing be recorded, whatever is asked for inside. */
static bool set_enabled(bool enabled)
{
    ts_thread_ctx *thread = ts_thread();
    bool former = !(thread->mode & TS_MODE_NO_GRAD);
    thread->mode &= ~(uint32_t)TS_MODE_NO_GRAD;
    if (!enabled || (thread->mode & TS_MODE_INFERENCE)) thread->mode |= TS_MODE_NO_GRAD;
    return former;
}

bool ts_no_grad_begin(void) { return set_enabled(false); }
void ts_no_grad_end(bool former) { set_enabled(former); }
bool ts_enable_grad_begin(void) { return set_enabled(true); }
void ts_enable_grad_end(bool former) { set_enabled(former); }

static uint32_t set_mode(uint32_t which, uint32_t value)
{
    ts_thread_ctx *thread = ts_thread();
    uint32_t former = thread->mode & which;
    thread->mode = (thread->mode & ~which) | (value & which);
    return former;
}

enum { INFERENCE = TS_MODE_INFERENCE | TS_MODE_NO_GRAD };

uint32_t ts_inference_mode_begin(bool on) { return set_mode(INFERENCE, on ? INFERENCE : 0); }
void ts_inference_mode_end(uint32_t former) { set_mode(INFERENCE, former); }
bool ts_inference_mode_enabled(void) { return ts_thread()->mode & TS_MODE_INFERENCE; }
bool ts_is_inference(const ts_tensor *t) { return t && t->storage && t->storage->inference; }

/* ---- anomaly mode ---------------------------------------------------------------------------- */

enum { ANOMALY = TS_MODE_ANOMALY | TS_MODE_CHECK_NAN };

uint32_t ts_detect_anomaly_begin(bool check_nan)
{
    return set_mode(ANOMALY, check_nan ? ANOMALY : TS_MODE_ANOMALY);
}
void ts_detect_anomaly_end(uint32_t former) { set_mode(ANOMALY, former); }

void ts_set_detect_anomaly(bool on, bool check_nan)
{
    if (on)
        ts_detect_anomaly_begin(check_nan);
    else
        set_mode(ANOMALY, 0);
}
bool ts_is_anomaly_enabled(void) { return ts_thread()->mode & TS_MODE_ANOMALY; }

/* ---- exchanging the data of a leaf ----------------------------------------------------------- */

static ts_status check_set_data(const ts_tensor *t, const ts_tensor *data)
{
    TS_TRY(ts_tensor_check(t, "set_data: tensor"));
    TS_TRY(ts_tensor_check(data, "set_data: data"));
    if (!ts_is_leaf(t) || t->base)
        return ts_fail(TS_ESTATE, "set_data: only leaves that are no views can have their data "
                                  "exchanged");
    if (t->dtype != data->dtype || t->device != data->device)
        return ts_fail(TS_EDTYPE, "set_data: the data is %s on %s, the tensor %s on %s",
                       ts_dtype_name((ts_dtype)data->dtype),
                       ts_device_name((ts_device)data->device), ts_dtype_name((ts_dtype)t->dtype),
                       ts_device_name((ts_device)t->device));
    return TS_OK;
}

ts_status ts_set_data(ts_tensor *t, ts_tensor *data)
{
    TS_TRY(check_set_data(t, data));
    if (!ts_autograd_of(t)) return TS_ENOMEM;
    ts_storage *former = t->storage;
    uint64_t version = ts_autograd_version(t);
    ts_storage_retain(data->storage);
    t->storage = data->storage;
    t->shape = data->shape;
    memcpy(t->stride, data->stride, sizeof t->stride);
    t->offset = data->offset;
    t->numel = data->numel;
    t->contiguous = data->contiguous;
    t->autograd->version_shift += version - ts_autograd_version(t);
    ts_storage_release(former);
    return TS_OK;
}
