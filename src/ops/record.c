/* SPDX-License-Identifier: Apache-2.0 */
/* The autograd layer: records an operation as a node of the graph. */
#include <stdlib.h>

#include "base/memory.h"
#include "ops/dispatch.h"

/* Arrays follow the struct in the same block. */
typedef struct op_node {
    ts_node node;
    const ts_op_def *def;
    int num_attrs;
    ts_attr *attr;
    ts_spec *in_spec;
    ts_saved *in; /* NULL if the row saves no inputs */
    ts_saved out[TS_OP_MAX_OUTPUTS];
} op_node;

static op_node *of(ts_node *node) { return (op_node *)(void *)node; }

/* ---- backward -------------------------------------------------------------------------------- */

/* What broadcasting and promotion did to the input is undone for its gradient. */
static ts_tensor *fit(ts_tensor *grad, const ts_spec *spec)
{
    if (!grad || ts_failed(grad)) return grad;
    if (!ts_shape_equal(grad->shape, spec->shape)) grad = ts_sum_to_shape(grad, spec->shape);
    return grad->dtype == spec->dtype ? grad : ts_autograd_use->convert(grad, spec->dtype);
}

static ts_status unpack(op_node *n, ts_backward_call *call, ts_tensor **in, ts_tensor **out,
                        bool *needs)
{
    for (int i = 0; i < n->node.num_edges; i++) {
        needs[i] = ts_edge_wanted(&n->node, i);
        in[i] = NULL;
        if (n->in) TS_TRY(ts_saved_get(&in[i], &n->in[i], n->node.name, n->node.edge[i]));
    }
    for (int i = 0; i < TS_OP_MAX_OUTPUTS; i++)
        TS_TRY(ts_saved_get(&out[i], &n->out[i], n->node.name, (ts_edge){&n->node, i}));
    *call = (ts_backward_call){.def = n->def,
                               .num_in = n->node.num_edges,
                               .num_attrs = n->num_attrs,
                               .attr = n->attr,
                               .in = in,
                               .in_spec = n->in_spec,
                               .out = out,
                               .needs = needs};
    return TS_OK;
}

static ts_status run_formula(op_node *n, ts_tensor *const *grad_out, ts_tensor **grad_in,
                             ts_tensor **in, bool *needs)
{
    ts_tensor *out[TS_OP_MAX_OUTPUTS];
    ts_backward_call call;
    TS_TRY(unpack(n, &call, in, out, needs));
    call.grad_out = grad_out;
    call.grad_in = grad_in;
    TS_TRY(n->def->backward(&call));
    for (int i = 0; i < call.num_in; i++)
        if (needs[i]) grad_in[i] = fit(grad_in[i], &n->in_spec[i]);
    return TS_OK;
}

static ts_status op_backward(ts_node *node, ts_tensor *const *grad_out, ts_tensor **grad_in)
{
    enum { FEW = 8 };
    ts_tensor *few_in[FEW];
    bool few_needs[FEW];
    op_node *n = of(node);
    if (!n->def->backward) return ts_fail(TS_EUNSUPPORTED, "it has no gradient");
    if (node->num_edges <= FEW) return run_formula(n, grad_out, grad_in, few_in, few_needs);
    size_t count = (size_t)node->num_edges;
    ts_tensor **in = ts_calloc(count, sizeof *in);
    bool *needs = ts_calloc(count, sizeof *needs);
    ts_status status = in && needs ? run_formula(n, grad_out, grad_in, in, needs)
                                   : ts_fail_memory(count * sizeof *in, "backward");
    free(in);
    free(needs);
    return status;
}

static void drop(ts_node *node, ts_saved *saved)
{
    if (!ts_saved_any(saved)) return;
    node->dropped = true;
    ts_saved_drop(saved);
}

static void op_drop_saved(ts_node *node)
{
    op_node *n = of(node);
    for (int i = 0; n->in && i < node->num_edges; i++) drop(node, &n->in[i]);
    for (int i = 0; i < n->def->num_out; i++) drop(node, &n->out[i]);
}

static const ts_node_class op_class = {op_backward, op_drop_saved};

/* ---- recording ------------------------------------------------------------------------------- */

static size_t align16(size_t n) { return (n + 15) & ~(size_t)15; }

ts_node *ts_op_node_new(const ts_op_def *def, const ts_spec *in_spec, int num_in,
                        const ts_attr *attr, int num_attrs)
{
    size_t specs = align16(sizeof(op_node));
    size_t attrs = specs + (size_t)num_in * sizeof(ts_spec);
    size_t saved = align16(attrs + (size_t)num_attrs * sizeof(ts_attr));
    size_t total = saved + (def->save_in ? (size_t)num_in * sizeof(ts_saved) : 0);
    ts_node *node = ts_node_new(&op_class, def->name, total, def->num_out, num_in);
    if (!node) return NULL;
    op_node *n = of(node);
    char *block = (char *)node;
    n->def = def;
    n->num_attrs = num_attrs;
    n->in_spec = (ts_spec *)(void *)(block + specs);
    n->attr = (ts_attr *)(void *)(block + attrs);
    if (def->save_in) n->in = (ts_saved *)(void *)(block + saved);
    for (int i = 0; in_spec && i < num_in; i++) n->in_spec[i] = in_spec[i];
    for (int i = 0; i < num_attrs; i++) n->attr[i] = attr[i];
    return node;
}

static bool saves_input(const ts_op_def *def, int i, const ts_node *node)
{
    if (i >= 32 || !(def->save_in >> i & 1)) return false;
    if (i >= 4 || !def->save_in_if[i]) return true;
    for (int k = 0; k < node->num_edges; k++)
        if ((def->save_in_if[i] >> k & 1) && node->edge[k].node) return true;
    return false;
}

/* Fills edges; *any tells whether one leads somewhere. */
static ts_status connect(const ts_op_call *call, ts_edge *edge, bool *any)
{
    *any = false;
    for (int i = 0; i < call->num_in; i++) {
        if (!call->in[i]) continue;
        TS_TRY(ts_autograd_edge(&edge[i], call->in[i]));
        if (!edge[i].node) continue;
        ts_ref_retain(&edge[i].node->refs);
        *any = true;
    }
    return TS_OK;
}

/* The value before a change in place. */
static ts_status save_copy(ts_saved *saved, ts_tensor *t)
{
    ts_spec spec = ts_tensor_spec(t);
    ts_tensor *copy = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_ACTIVATION);
    ts_status status = ts_tensor_check(copy, "copy");
    if (status == TS_OK && t->device != TS_META) status = ts_tensor_copy_data(copy, t);
    if (status == TS_OK) status = ts_saved_set(saved, copy, false);
    ts_release(copy);
    return status;
}

static ts_status save_inputs(const ts_op_call *call, ts_node *node)
{
    op_node *n = of(node);
    bool inplace = call->def->flags & TS_OP_INPLACE;
    for (int i = 0; i < call->num_in; i++) {
        if (!call->in[i]) continue;
        n->in_spec[i] = ts_tensor_spec(call->in[i]);
        if (!saves_input(call->def, i, node)) continue;
        TS_TRY(inplace && i == 0 ? save_copy(&n->in[i], call->in[i])
                                 : ts_saved_set(&n->in[i], call->in[i], false));
    }
    return TS_OK;
}

/* The last output takes the caller's reference (*node is then NULL), which spares two
 * atomic operations. */
static ts_status attach_output(ts_tensor *t, const ts_op_call *call, ts_node **node, int slot)
{
    if (call->def->save_out >> slot & 1) TS_TRY(ts_saved_set(&of(*node)->out[slot], t, true));
    if (!ts_dtype_is_floating((ts_dtype)t->dtype)) return TS_OK;
    if (call->def->flags & TS_OP_INPLACE) return ts_inplace_rebase(t, *node);
    if (slot + 1 == call->def->num_out) {
        ts_node *last = *node;
        *node = NULL;
        TS_TRY(ts_autograd_give_node(t, last, slot));
    } else {
        TS_TRY(ts_autograd_set_node(t, *node, slot));
    }
    if (t->base && t->base->autograd) t->autograd->generation = t->base->autograd->generation;
    return TS_OK;
}

static ts_status record(ts_op_call *call, uint32_t below, ts_node **node)
{
    bool any;
    TS_TRY(connect(call, (*node)->edge, &any));
    if (!any) return ts_dispatch_below(call, below);
    TS_TRY(save_inputs(call, *node)); /* before the kernel, for the versions */
    TS_TRY(ts_dispatch_below(call, below));
    for (int i = 0; i < call->def->num_out; i++) TS_TRY(attach_output(call->out[i], call, node, i));
    return TS_OK;
}

/* Without recording, a view of a tensor with history must not be changed in place later. */
static ts_status mark_untracked(ts_op_call *call, uint32_t below)
{
    TS_TRY(ts_dispatch_below(call, below));
    for (int i = 0; i < call->def->num_out; i++) {
        if (!call->out[i]->base) continue;
        if (!ts_autograd_of(call->out[i])) return TS_ENOMEM;
        call->out[i]->autograd->untracked = true;
    }
    return TS_OK;
}

ts_status ts_layer_autograd(ts_op_call *call, uint32_t below)
{
    const ts_op_def *def = call->def;
    const ts_tensor *first = call->in[0];
    if (def->flags & TS_OP_INPLACE) TS_TRY(ts_inplace_check(call));
    bool untracked = first && first->autograd && first->autograd->untracked;
    if ((def->flags & TS_OP_VIEW) && (untracked || !ts_grad_enabled()))
        return mark_untracked(call, below);
    if (def->flags & TS_OP_NO_GRAD) return ts_dispatch_below(call, below);
    ts_node *node = ts_op_node_new(def, NULL, call->num_in, call->attr, call->num_attrs);
    if (!node) return TS_ENOMEM;
    ts_status status = record(call, below, &node);
    ts_node_release(node);
    return status;
}
