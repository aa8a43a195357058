/* SPDX-License-Identifier: Apache-2.0 */
/* Functions with a gradient of their own, as nodes of the graph. */
#include <tessera/function.h>

#include <stdlib.h>

#include "autograd/autograd_impl.h"
#include "base/memory.h"

_Static_assert((int)TS_FUNCTION_MAX_OUTPUTS <= (int)TS_NODE_MAX_OUT, "outputs fit a node");

/* What forward saved; where its gradient goes when gradients are differentiated. */
typedef struct kept {
    ts_saved saved;
    int in, out; /* it is this input, or output; -1: neither */
} kept;

struct ts_function_call {
    ts_node node; /* specs of the inputs follow in the same block */
    const ts_function_class *klass;
    void *user;
    ts_spec *in_spec;
    kept *kept;
    int num_kept, kept_capacity;
    uint32_t inert;      /* bit i: output i never requires grad */
    bool made;           /* fini is due */
    ts_tensor **pending; /* in forward: what is to be saved when the outputs are known */
};

static ts_function_call *of(ts_node *node) { return (ts_function_call *)(void *)node; }

/* ---- backward -------------------------------------------------------------------------------- */

static ts_status check_gradient(const ts_function_call *c, int i, const ts_tensor *grad)
{
    char want[TS_SHAPE_TEXT], got[TS_SHAPE_TEXT];
    const ts_spec *spec = &c->in_spec[i];
    TS_TRY(ts_tensor_check(grad, "gradient"));
    if (grad->dtype != spec->dtype)
        return ts_fail(TS_EDTYPE, "the gradient of input %d is %s; the input is %s", i,
                       ts_dtype_name((ts_dtype)grad->dtype), ts_dtype_name(spec->dtype));
    if (ts_shape_equal(grad->shape, spec->shape)) return TS_OK;
    return ts_fail(TS_ESHAPE, "the gradient of input %d has shape %s; the input has %s", i,
                   ts_shape_format(got, sizeof got, grad->shape),
                   ts_shape_format(want, sizeof want, spec->shape));
}

static ts_status function_backward(ts_node *node, ts_tensor *const *grad_out, ts_tensor **grad_in)
{
    ts_function_call *c = of(node);
    TS_TRY(ts_hook_worded(c->klass->backward(c, grad_out, grad_in), "the function's backward"));
    for (int i = 0; i < node->num_edges; i++) {
        if (!node->edge[i].node) grad_in[i] = NULL;
        if (grad_in[i]) TS_TRY(check_gradient(c, i, grad_in[i]));
    }
    return TS_OK;
}

static void finish(ts_function_call *c)
{
    if (c->made && c->klass->fini) c->klass->fini(c->user);
    c->made = false;
}

static void function_drop_saved(ts_node *node)
{
    ts_function_call *c = of(node);
    kept *list = c->kept;
    int count = c->num_kept;
    node->dropped = node->dropped || count > 0 || (c->made && c->klass->fini);
    c->kept = NULL;
    c->num_kept = c->kept_capacity = 0;
    for (int i = 0; i < count; i++) ts_saved_drop(&list[i].saved);
    free(list);
    finish(c);
}

static const ts_node_class function_class = {function_backward, function_drop_saved};

/* ---- what forward and backward ask for ------------------------------------------------------- */

void *ts_function_user(const ts_function_call *call) { return call->user; }

bool ts_function_needs(const ts_function_call *call, int i)
{
    return i >= 0 && i < call->node.num_edges && ts_edge_wanted(&call->node, i);
}

ts_status ts_function_save(ts_function_call *call, ts_tensor *t)
{
    if (t) TS_TRY(ts_tensor_check(t, call->klass->name));
    if (call->num_kept == call->kept_capacity) {
        int capacity = call->kept_capacity ? 2 * call->kept_capacity : 4;
        kept *grown = ts_grow(call->kept, (size_t)capacity, sizeof *grown);
        if (grown) call->kept = grown;
        ts_tensor **pending = ts_grow(call->pending, (size_t)capacity, sizeof *pending);
        if (pending) call->pending = pending;
        if (!grown || !pending)
            return ts_fail_memory((size_t)capacity * sizeof *grown, "saved tensors");
        call->kept_capacity = capacity;
    }
    call->pending[call->num_kept] = ts_retain(t);
    call->kept[call->num_kept++] = (kept){.in = -1, .out = -1};
    return TS_OK;
}

ts_tensor *ts_function_saved(ts_function_call *call, int i)
{
    if (i < 0 || i >= call->num_kept)
        return ts_fail_tensor(TS_EINVAL, "%s: saved tensor %d of %d", call->klass->name, i,
                              call->num_kept);
    const kept *k = &call->kept[i];
    ts_edge history = {NULL, 0};
    if (k->in >= 0) history = call->node.edge[k->in];
    if (k->out >= 0) history = (ts_edge){&call->node, k->out};
    ts_tensor *t;
    ts_status status = ts_saved_get(&t, &k->saved, call->klass->name, history);
    return status == TS_OK ? t : ts_fail_tensor_last(status);
}

void ts_function_mark_non_differentiable(ts_function_call *call, int i)
{
    if (i >= 0 && i < call->klass->num_out) call->inert |= UINT32_C(1) << i;
}

/* ---- the call -------------------------------------------------------------------------------- */

static ts_function_call *call_new(const ts_function_class *klass, ts_tensor *const *in, int num_in,
                                  void *user)
{
    size_t size = (sizeof(ts_function_call) + 15) & ~(size_t)15;
    ts_node *node = ts_node_new(&function_class, klass->name,
                                size + (size_t)num_in * sizeof(ts_spec), klass->num_out, num_in);
    if (!node) return NULL;
    ts_function_call *c = of(node);
    c->klass = klass;
    c->user = user;
    c->made = true;
    c->in_spec = (ts_spec *)(void *)((char *)node + size);
    for (int i = 0; i < num_in; i++)
        if (in[i]) c->in_spec[i] = ts_tensor_spec(in[i]);
    return c;
}

static ts_status connect(ts_function_call *c, ts_tensor *const *in, bool *any)
{
    *any = false;
    if (!c->klass->backward || !ts_grad_enabled()) return TS_OK;
    for (int i = 0; i < c->node.num_edges; i++) {
        if (!in[i]) continue;
        ts_edge *edge = &c->node.edge[i];
        TS_TRY(ts_autograd_edge(edge, in[i]));
        if (!edge->node) continue;
        ts_ref_retain(&edge->node->refs);
        *any = true;
    }
    return TS_OK;
}

static int index_of(ts_tensor *const *list, int n, const ts_tensor *t)
{
    for (int i = 0; i < n; i++)
        if (list[i] == t) return i;
    return -1;
}

/* An output that is an input becomes a view of it, so that the function has an output of its own;
 * one with a history of its own is cut from it. */
static ts_status own_output(ts_tensor **out, ts_tensor *const *in, int num_in)
{
    ts_tensor *t = *out;
    int input = index_of(in, num_in, t);
    if (input < 0 && !(t->keys & TS_KEY_AUTOGRAD)) return TS_OK;
    ts_tensor *alias = ts_autograd_alias(t);
    if (!alias) return TS_ENOMEM;
    if (input >= 0) alias->base = ts_retain(t->base ? t->base : t);
    *out = ts_scope_give(alias);
    return TS_OK;
}

static ts_status check_outputs(const ts_function_call *c, ts_tensor *const *in, ts_tensor **out)
{
    for (int i = 0; i < c->klass->num_out; i++) {
        if (!out[i]) return ts_fail(TS_EINVAL, "%s: forward gave no output %d", c->klass->name, i);
        TS_TRY(ts_tensor_check(out[i], c->klass->name));
        if (index_of(out, i, out[i]) >= 0)
            return ts_fail(TS_EINVAL, "%s: outputs %d and %d are one tensor; give a clone",
                           c->klass->name, index_of(out, i, out[i]), i);
    }
    for (int i = 0; i < c->klass->num_out; i++) TS_TRY(own_output(&out[i], in, c->node.num_edges));
    return TS_OK;
}

static ts_status save_all(ts_function_call *c, ts_tensor *const *in, ts_tensor *const *given,
                          bool any)
{
    for (int i = 0; i < c->num_kept && any; i++) {
        kept *k = &c->kept[i];
        k->in = index_of(in, c->node.num_edges, c->pending[i]);
        if (k->in < 0) k->out = index_of(given, c->klass->num_out, c->pending[i]);
        if (k->out >= 0 && (c->inert >> k->out & 1)) k->out = -1;
        TS_TRY(ts_saved_set(&k->saved, c->pending[i], false));
    }
    return TS_OK;
}

static ts_status attach(ts_function_call *c, ts_tensor *const *out)
{
    for (int i = 0; i < c->klass->num_out; i++) {
        if ((c->inert >> i & 1) || !ts_dtype_is_floating((ts_dtype)out[i]->dtype)) continue;
        TS_TRY(ts_autograd_set_node(out[i], &c->node, i));
        out[i]->autograd->untracked = false;
        const ts_tensor *base = out[i]->base;
        if (base && base->autograd) out[i]->autograd->generation = base->autograd->generation;
    }
    return TS_OK;
}

static ts_status run_forward(ts_function_call *c, ts_tensor *const *in, ts_tensor **out)
{
    bool former = ts_no_grad_begin();
    ts_thread()->error_status = TS_OK;
    ts_status status = c->klass->forward(c, in, c->node.num_edges, out);
    ts_no_grad_end(former);
    return ts_hook_worded(status, c->klass->name);
}

static void forget_pending(ts_function_call *c)
{
    for (int i = 0; i < c->num_kept; i++) ts_release(c->pending[i]);
    free(c->pending);
    c->pending = NULL;
}

static ts_status run(ts_function_call *c, ts_tensor *const *in, ts_tensor **out)
{
    bool any;
    ts_tensor *given[TS_FUNCTION_MAX_OUTPUTS];
    TS_TRY(connect(c, in, &any));
    ts_status status = run_forward(c, in, out);
    for (int i = 0; i < c->klass->num_out; i++) given[i] = out[i];
    if (status == TS_OK) status = check_outputs(c, in, out);
    if (status == TS_OK) status = save_all(c, in, given, any);
    forget_pending(c);
    TS_TRY(status);
    return any ? attach(c, out) : TS_OK;
}

static ts_status check_call(const ts_function_class *klass, ts_tensor *const *in, int num_in)
{
    if (!klass || !klass->name || !klass->forward || klass->num_out < 1 ||
        klass->num_out > TS_FUNCTION_MAX_OUTPUTS)
        return ts_fail(TS_EINVAL, "function_apply: needs a name, a forward and 1 to %d outputs",
                       TS_FUNCTION_MAX_OUTPUTS);
    if (num_in < 0 || (num_in > 0 && !in))
        return ts_fail(TS_EINVAL, "%s: inputs are missing", klass->name);
    return TS_OK;
}

static ts_tensor *fail_all(const ts_function_class *klass, ts_tensor *failed, ts_tensor **out)
{
    for (int i = 0; out && klass && i < klass->num_out && i < TS_FUNCTION_MAX_OUTPUTS; i++)
        out[i] = failed;
    return failed;
}

ts_tensor *ts_function_apply(const ts_function_class *klass, ts_tensor *const *in, int num_in,
                             void *user, ts_tensor **out)
{
    ts_tensor *own[TS_FUNCTION_MAX_OUTPUTS] = {0};
    ts_status status = check_call(klass, in, num_in);
    if (status != TS_OK) return fail_all(klass, ts_fail_tensor_last(status), out);
    for (int i = 0; i < num_in; i++)
        if (ts_failed(in[i])) {
            if (klass->fini) klass->fini(user);
            return fail_all(klass, in[i], out);
        }
    ts_function_call *c = call_new(klass, in, num_in, user);
    if (!c && klass->fini) klass->fini(user);
    status = c ? run(c, in, own) : TS_ENOMEM;
    if (status != TS_OK) { /* the text is taken before fini can fail in its own way */
        ts_tensor *failed = fail_all(klass, ts_fail_tensor_last(status), out);
        if (c) ts_node_release(&c->node);
        return failed;
    }
    for (int i = 0; out && i < klass->num_out; i++) out[i] = own[i];
    ts_node_release(&c->node);
    return own[0];
}
