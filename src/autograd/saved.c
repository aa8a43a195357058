/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors kept for backward, as they are or as a program's hooks pack them. */
#include <tessera/checkpoint.h>

#include "autograd/autograd_impl.h"
#include "base/memory.h"

struct ts_packed {
    const ts_saved_hooks *hooks;
    void *user, *value;
    ts_spec spec;
};

static _Thread_local ts_saved_hooks_scope *innermost;

void ts_saved_hooks_begin(ts_saved_hooks_scope *scope, const ts_saved_hooks *hooks, void *user)
{
    *scope = (ts_saved_hooks_scope){hooks, user, innermost};
    innermost = scope;
}

void ts_saved_hooks_end(ts_saved_hooks_scope *scope) { innermost = scope->outer; }

/* ---- hooks run without recording and without hooks ------------------------------------------- */

static ts_status call_pack(struct ts_packed *packed, ts_tensor *t)
{
    ts_saved_hooks_scope plain;
    bool former = ts_no_grad_begin();
    ts_saved_hooks_begin(&plain, NULL, NULL);
    ts_thread()->error_status = TS_OK;
    ts_status status = packed->hooks->pack(&packed->value, t, packed->user);
    ts_saved_hooks_end(&plain);
    ts_no_grad_end(former);
    return ts_hook_worded(status, "the pack hook of saved tensors");
}

static ts_status pack(ts_saved *saved, ts_tensor *t)
{
    struct ts_packed *packed = ts_small_new(sizeof *packed);
    if (!packed) return ts_fail_memory(sizeof *packed, "a saved tensor");
    *packed = (struct ts_packed){innermost->hooks, innermost->user, NULL, ts_tensor_spec(t)};
    ts_tensor *alias = ts_autograd_alias(t);
    ts_status status = alias ? call_pack(packed, alias) : TS_ENOMEM;
    ts_release(alias);
    if (status == TS_OK)
        saved->packed = packed;
    else
        ts_small_free(packed, sizeof *packed);
    return status;
}

static ts_tensor *call_unpack(const struct ts_packed *packed)
{
    ts_saved_hooks_scope plain;
    bool former = ts_no_grad_begin();
    ts_saved_hooks_begin(&plain, NULL, NULL);
    ts_tensor *t = packed->hooks->unpack(packed->value, packed->user);
    ts_saved_hooks_end(&plain);
    ts_no_grad_end(former);
    return t;
}

static ts_status unpack(ts_tensor **out, const struct ts_packed *packed, const char *op)
{
    char want[TS_SHAPE_TEXT], got[TS_SHAPE_TEXT];
    const ts_spec *spec = &packed->spec;
    ts_tensor *t = call_unpack(packed);
    TS_TRY(ts_tensor_check(t, "the tensor that the unpack hook gives"));
    if (!ts_shape_equal(t->shape, spec->shape) || t->dtype != spec->dtype)
        return ts_fail(
            TS_ESHAPE,
            "backward of %s: the saved tensor was %s of shape %s, and comes back as %s "
            "of shape %s",
            op, ts_dtype_name(spec->dtype), ts_shape_format(want, sizeof want, spec->shape),
            ts_dtype_name((ts_dtype)t->dtype), ts_shape_format(got, sizeof got, t->shape));
    *out = t;
    return TS_OK;
}

/* ---- saving ---------------------------------------------------------------------------------- */

static ts_status refuse_inference(const ts_tensor *t)
{
    char shape[TS_SHAPE_TEXT];
    const char *name = ts_tensor_name(t);
    return ts_fail(TS_ESTATE,
                   "the tensor %s%sof shape %s was made in inference mode and cannot be saved for "
                   "backward; clone it outside of that mode, or use ts_no_grad_begin there",
                   name, *name ? " " : "", ts_shape_format(shape, sizeof shape, t->shape));
}

ts_status ts_saved_set(ts_saved *saved, ts_tensor *t, bool detach)
{
    if (!t) return TS_OK;
    if (t->storage->inference) return refuse_inference(t);
    bool leaf = !detach && t->autograd && t->autograd->requires_grad && !t->autograd->node;
    if (innermost && innermost->hooks && !leaf) return pack(saved, t);
    saved->t = leaf ? ts_retain(t) : ts_autograd_alias(t);
    if (!saved->t) return TS_ENOMEM;
    saved->version = ts_autograd_version(saved->t);
    return TS_OK;
}

static ts_status changed(const ts_saved *saved, const char *op, uint64_t now)
{
    char shape[TS_SHAPE_TEXT];
    const char *name = saved->t->name ? saved->t->name : "";
    return ts_fail(TS_ESTATE,
                   "backward of %s: the tensor %s%sof shape %s that it needs was changed in place "
                   "(version %llu, saved at %llu); change a clone instead",
                   op, name, *name ? " " : "",
                   ts_shape_format(shape, sizeof shape, saved->t->shape), (unsigned long long)now,
                   (unsigned long long)saved->version);
}

static ts_status check_version(const ts_saved *saved, const char *op)
{
    uint64_t now = ts_autograd_version(saved->t);
    return now == saved->version ? TS_OK : changed(saved, op, now);
}

ts_status ts_saved_get(ts_tensor **out, const ts_saved *saved, const char *op, ts_edge history)
{
    *out = saved->t;
    if (!ts_saved_any(saved)) return TS_OK;
    TS_TRY(saved->packed ? unpack(out, saved->packed, op) : check_version(saved, op));
    bool leaf = !saved->packed && saved->t->autograd;
    if (leaf || !history.node || !ts_grad_enabled()) return TS_OK;
    ts_tensor *alias = ts_autograd_alias(*out);
    if (!alias) return TS_ENOMEM;
    ts_scope_give(alias);
    TS_TRY(ts_autograd_set_node(alias, history.node, history.slot));
    *out = alias;
    return TS_OK;
}

void ts_saved_drop(ts_saved *saved)
{
    ts_tensor *t = saved->t;
    struct ts_packed *packed = saved->packed;
    saved->t = NULL;
    saved->packed = NULL;
    ts_release(t);
    if (!packed) return;
    if (packed->hooks->drop) packed->hooks->drop(packed->value, packed->user);
    ts_small_free(packed, sizeof *packed);
}
