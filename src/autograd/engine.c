/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a graph backwards.
 *
 * A pass first walks the graph from its roots and counts, for each node, the edges over which a
 * gradient will come.  A node is ready when all of them have; of the ready ones the latest made
 * runs first, accumulators before all, so that the order depends on the graph only.  Each node runs
 * in a scope of its own; sums of gradients are held by the pass. */
#include <stdlib.h>
#include <string.h>

#include "autograd/autograd_impl.h"
#include "base/memory.h"

_Thread_local ts_part ts_autograd_part;

typedef struct callback {
    ts_backward_callback run;
    void *user;
} callback;

/* What the first half of a split backward leaves for the second: nodes that have run for some of
 * their edges, with their gradients, and roots that do not lead to an input. */
typedef struct part {
    ts_node *node;
    bool *later; /* per edge: its gradient is still to be computed */
    ts_tensor **grad;
} part;

struct ts_backward_split {
    part *part;
    int64_t num_parts, parts_capacity;
    ts_edge *root;
    ts_tensor **root_grad;
    int num_roots;
    bool keep_graph, done;
};

typedef struct pass {
    ts_visits visits;
    int64_t *ready; /* heap of indices into visits */
    int64_t num_ready, ready_capacity;
    bool keep_graph, create_graph;
    const ts_edge *wanted; /* ts_grad_of: gradients to hand out; NULL in backward */
    ts_tensor **result;
    int num_wanted;
    ts_visits wanted_nodes;
    ts_backward_split *split;        /* the first half of a split backward fills it */
    const ts_backward_split *second; /* the second half does the rest of it */
    callback *callbacks;
    int num_callbacks, callbacks_capacity;
} pass;

/* ---- the queue of ready nodes ---------------------------------------------------------------- */

static bool runs_before(const pass *p, int64_t a, int64_t b)
{
    uint64_t sa = p->visits.visit[a].node->sequence, sb = p->visits.visit[b].node->sequence;
    return sa != sb ? sa > sb : a < b;
}

static ts_status make_ready(pass *p, int64_t index)
{
    if (p->num_ready == p->ready_capacity) {
        int64_t capacity = p->ready_capacity ? 2 * p->ready_capacity : 64;
        int64_t *grown = ts_grow(p->ready, (size_t)capacity, sizeof *grown);
        if (!grown) return ts_fail_memory((size_t)capacity * 8, "the queue of a backward pass");
        p->ready = grown;
        p->ready_capacity = capacity;
    }
    int64_t at = p->num_ready++;
    for (; at > 0 && runs_before(p, index, p->ready[(at - 1) / 2]); at = (at - 1) / 2)
        p->ready[at] = p->ready[(at - 1) / 2];
    p->ready[at] = index;
    return TS_OK;
}

static int64_t take_ready(pass *p)
{
    int64_t first = p->ready[0], last = p->ready[--p->num_ready], at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= p->num_ready) break;
        if (child + 1 < p->num_ready && runs_before(p, p->ready[child + 1], p->ready[child]))
            child++;
        if (!runs_before(p, p->ready[child], last)) break;
        p->ready[at] = p->ready[child];
        at = child;
    }
    p->ready[at] = last;
    return first;
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* ts_grad_of runs only what lies on a path to a wanted gradient. */
static void mark_needed(ts_visits *visits, int64_t index, void *user)
{
    const pass *p = user;
    ts_visit *visit = &visits->visit[index];
    visit->captured = p->wanted && ts_visits_find(&p->wanted_nodes, visit->node) >= 0;
    visit->needed = !p->wanted;
    for (int i = 0; i < visit->node->num_edges && !visit->needed; i++) {
        if (!visit->node->edge[i].node) continue;
        const ts_visit *next = &visits->visit[ts_visits_find(visits, visit->node->edge[i].node)];
        visit->needed = next->needed || next->captured;
    }
}

static void count_edges(pass *p)
{
    for (int64_t i = 0; i < p->visits.count; i++) {
        const ts_visit *visit = &p->visits.visit[i];
        for (int k = 0; visit->needed && k < visit->node->num_edges; k++) {
            ts_node *next = visit->node->edge[k].node;
            if (next) p->visits.visit[ts_visits_find(&p->visits, next)].waiting++;
        }
    }
}

static ts_status check_not_dropped(const pass *p)
{
    for (int64_t i = 0; i < p->visits.count; i++) {
        const ts_visit *visit = &p->visits.visit[i];
        if (visit->needed && visit->node->dropped)
            return ts_fail(TS_ESTATE,
                           "backward: what %s had saved was let go by an earlier backward; set "
                           "retain_graph there",
                           visit->node->name);
    }
    return TS_OK;
}

static ts_status start_at_roots(pass *p, const ts_edge *roots, int n)
{
    for (int i = 0; i < n; i++) {
        int64_t index = ts_visits_find(&p->visits, roots[i].node);
        ts_visit *visit = &p->visits.visit[index];
        if (visit->waiting == 0) TS_TRY(make_ready(p, index));
        visit->waiting += visit->waiting == 0 ? -1 : 0; /* a root given twice becomes ready once */
    }
    return TS_OK;
}

static ts_status plan(pass *p, const ts_edge *roots, int n)
{
    bool added;
    for (int i = 0; i < p->num_wanted; i++)
        if (p->wanted[i].node && ts_visits_add(&p->wanted_nodes, p->wanted[i].node, &added) < 0)
            return TS_ENOMEM;
    for (int i = 0; i < n; i++) TS_TRY(ts_visits_walk(&p->visits, roots[i].node, mark_needed, p));
    TS_TRY(check_not_dropped(p));
    count_edges(p);
    return start_at_roots(p, roots, n);
}

static ts_status start_at_part(pass *p, const part *kept)
{
    bool added;
    int64_t index = ts_visits_add(&p->visits, kept->node, &added);
    if (index < 0) return TS_ENOMEM;
    ts_visit *visit = &p->visits.visit[index];
    visit->needed = true;
    visit->only = kept->later;
    for (int i = 0; i < kept->node->num_out; i++)
        ts_visit_grad(visit)[i] = ts_retain(kept->grad[i]);
    for (int i = 0; i < kept->node->num_edges; i++)
        if (kept->later[i])
            p->visits.visit[ts_visits_find(&p->visits, kept->node->edge[i].node)].waiting++;
    return make_ready(p, index);
}

/* The rest of a split backward starts at the nodes that have run in part.  What lies beyond their
 * other edges leads to no input, so to none of them. */
static ts_status plan_second(pass *p)
{
    const ts_backward_split *s = p->second;
    for (int64_t k = 0; k < s->num_parts; k++)
        for (int i = 0; i < s->part[k].node->num_edges; i++)
            if (s->part[k].later[i])
                TS_TRY(ts_visits_walk(&p->visits, s->part[k].node->edge[i].node, mark_needed, p));
    for (int i = 0; i < s->num_roots; i++)
        TS_TRY(ts_visits_walk(&p->visits, s->root[i].node, mark_needed, p));
    TS_TRY(check_not_dropped(p));
    count_edges(p);
    for (int64_t k = 0; k < s->num_parts; k++) TS_TRY(start_at_part(p, &s->part[k]));
    return start_at_roots(p, s->root, s->num_roots);
}

/* ---- one node -------------------------------------------------------------------------------- */

/* Adds a gradient to the sum that waits at an edge. */
static ts_status deposit(pass *p, int64_t index, int slot, ts_tensor *grad)
{
    ts_visit *visit = &p->visits.visit[index];
    ts_tensor **place = &ts_visit_grad(visit)[slot], *former = *place;
    if (!former) {
        *place = ts_retain(grad);
        return TS_OK;
    }
    if (!p->create_graph && ((visit->own >> slot & 1) || ts_autograd_exclusive(former)) &&
        former->dtype == grad->dtype)
        return ts_tensor_check(ts_autograd_use->add_(former, grad), "gradient");
    ts_tensor *sum = ts_autograd_use->add(former, grad);
    TS_TRY(ts_tensor_check(sum, "gradient"));
    *place = ts_retain(sum);
    visit->own |= UINT32_C(1) << slot;
    ts_release(former);
    return TS_OK;
}

static ts_status pass_on(pass *p, const ts_node *node, ts_tensor *const *grad_in, const bool *only)
{
    for (int i = 0; i < node->num_edges; i++) {
        if (!node->edge[i].node || (only && !only[i])) continue;
        int64_t index = ts_visits_find(&p->visits, node->edge[i].node);
        ts_visit *next = &p->visits.visit[index];
        if (grad_in[i] && (next->needed || next->captured))
            TS_TRY(deposit(p, index, node->edge[i].slot, grad_in[i]));
        if (--next->waiting == 0) TS_TRY(make_ready(p, index));
    }
    return TS_OK;
}

static bool leads_to_input(const pass *p, const ts_node *node)
{
    const ts_visit *visit = &p->visits.visit[ts_visits_find(&p->visits, node)];
    return visit->needed || visit->captured;
}

/* NULL: no memory. */
static part *split_add(ts_backward_split *split, ts_node *node)
{
    if (split->num_parts == split->parts_capacity) {
        int64_t capacity = split->parts_capacity ? 2 * split->parts_capacity : 32;
        part *grown = ts_grow(split->part, (size_t)capacity, sizeof *grown);
        if (!grown) return NULL;
        split->part = grown;
        split->parts_capacity = capacity;
    }
    part new = {NULL, ts_calloc((size_t)node->num_edges, sizeof(bool)),
                ts_calloc((size_t)node->num_out, sizeof(ts_tensor *))};
    if (!new.later || !new.grad) {
        free(new.later);
        free(new.grad);
        return NULL;
    }
    ts_ref_retain(&node->refs);
    new.node = node;
    split->part[split->num_parts] = new;
    return &split->part[split->num_parts++];
}

static void capture(pass *p, const ts_node *node, ts_tensor *const *grad)
{
    for (int i = 0; i < p->num_wanted; i++)
        if (p->wanted[i].node == node && grad[p->wanted[i].slot])
            p->result[i] = ts_retain(grad[p->wanted[i].slot]);
}

static ts_status call_backward(ts_node *node, ts_tensor *const *grad, ts_tensor **grad_in)
{
    ts_thread()->error_status = TS_OK;
    ts_status status = ts_hook_worded(node->klass->backward(node, grad, grad_in), "the function");
    for (int i = 0; i < node->num_edges && status == TS_OK; i++)
        if (grad_in[i]) status = ts_tensor_check(grad_in[i], "gradient");
    if (status == TS_OK && (ts_thread()->mode & TS_MODE_CHECK_NAN))
        status = ts_anomaly_check(node, grad_in);
    if (status == TS_OK) return TS_OK;
    if (strncmp(ts_error_last(), "backward of ", 12) != 0)
        ts_fail(status, "backward of %s: %s", node->name, ts_error_last());
    return ts_trace_explain(node, status);
}

/* Sorts the edges of a node: *now gets those (yours to free) on the way to an input, if there are
 * others too (*later), which are noted in the split with the node's gradients. */
static ts_status split_node(pass *p, ts_node *node, ts_tensor *const *grad, bool **now, bool *later)
{
    for (int i = 0; i < node->num_edges && !*later; i++)
        *later = node->edge[i].node && !leads_to_input(p, node->edge[i].node);
    if (!*later) return TS_OK;
    *now = ts_calloc((size_t)node->num_edges, sizeof **now);
    part *kept = *now ? split_add(p->split, node) : NULL;
    if (!kept) return ts_fail_memory((size_t)node->num_edges, "a split backward");
    for (int i = 0; i < node->num_edges; i++) {
        if (!node->edge[i].node) continue;
        (*now)[i] = leads_to_input(p, node->edge[i].node);
        kept->later[i] = !(*now)[i];
    }
    for (int i = 0; i < node->num_out; i++) kept->grad[i] = ts_retain(grad[i]);
    return TS_OK;
}

/* The same for the gradients of some edges; NULL: all. */
static ts_status call_backward_for(ts_node *node, const bool *edges, ts_tensor *const *grad,
                                   ts_tensor **grad_in)
{
    if (!edges) return call_backward(node, grad, grad_in);
    ts_part outer = ts_autograd_part;
    ts_autograd_part = (ts_part){node, edges};
    ts_status status = call_backward(node, grad, grad_in);
    ts_autograd_part = outer;
    return status;
}

static ts_status run_backward(pass *p, ts_node *node, ts_tensor *const *grad, const bool *only)
{
    enum { FEW = 16 };
    ts_tensor *few[FEW] = {0}, **grad_in = few;
    if (node->num_edges > FEW) grad_in = ts_calloc((size_t)node->num_edges, sizeof *grad_in);
    if (!grad_in) return ts_fail_memory((size_t)node->num_edges * 8, "gradients");
    bool any = false;
    for (int i = 0; i < node->num_out; i++) any = any || grad[i];
    bool *now = NULL, later = false;
    ts_status status = p->split && any ? split_node(p, node, grad, &now, &later) : TS_OK;
    if (any && status == TS_OK) status = call_backward_for(node, now ? now : only, grad, grad_in);
    if (status == TS_OK) status = pass_on(p, node, grad_in, only);
    if (grad_in != few) free(grad_in);
    free(now);
    bool drops = !p->keep_graph && !later && node->klass->drop_saved;
    if (status == TS_OK && drops) node->klass->drop_saved(node);
    return status;
}

/* Hooks may replace the gradients in grad; what they return belongs to the node's scope. */
static ts_status run_node(pass *p, int64_t index, ts_tensor **grad)
{
    ts_node *node = p->visits.visit[index].node;
    bool needed = p->visits.visit[index].needed, captured = p->visits.visit[index].captured;
    const bool *only = p->visits.visit[index].only;
    if (only) return run_backward(p, node, grad, only); /* its hooks have run */
    for (int i = 0; i < node->num_out; i++)
        if (grad[i]) TS_TRY(ts_hooks_on_grad(node, i, &grad[i]));
    if (captured) capture(p, node, grad);
    if (!needed) return TS_OK;
    if (!ts_node_is_accumulator(node)) return run_backward(p, node, grad, NULL);
    return grad[0] ? ts_accumulate(node, grad[0], p->create_graph) : TS_OK;
}

static ts_status run_in_scope(pass *p, int64_t index)
{
    ts_tensor *grad[TS_NODE_MAX_OUT], *held[TS_NODE_MAX_OUT];
    ts_tensor **sums = ts_visit_grad(&p->visits.visit[index]);
    int slots = p->visits.visit[index].node->num_out;
    for (int i = 0; i < slots; i++) {
        grad[i] = held[i] = sums[i];
        sums[i] = NULL;
    }
    ts_scope scope = ts_scope_begin();
    ts_status status = run_node(p, index, grad);
    if (status == TS_OK)
        status = ts_scope_end(scope);
    else
        ts_scope_end_keep(scope, NULL);
    for (int i = 0; i < slots; i++) ts_release(held[i]);
    return status;
}

/* ---- a pass ---------------------------------------------------------------------------------- */

static ts_status run_callbacks(pass *p, ts_status status)
{
    char first[TS_ERROR_MAX] = "";
    if (status != TS_OK) memcpy(first, ts_thread()->error, sizeof first);
    for (int i = 0; i < p->num_callbacks; i++) { /* a callback may queue more */
        ts_thread()->error_status = TS_OK;
        if (status != TS_OK) ts_fail_again(status, first); /* for the callback to read */
        ts_status mine = p->callbacks[i].run(status, p->callbacks[i].user);
        if (status == TS_OK) mine = ts_hook_worded(mine, "backward callback");
        if (status == TS_OK && mine != TS_OK) {
            status = mine;
            memcpy(first, ts_thread()->error, sizeof first);
        }
    }
    return status == TS_OK ? TS_OK : ts_fail_again(status, first);
}

/* Roots that lead to no input are left for the second half. */
static bool put_off(pass *p, ts_edge root, ts_tensor *grad)
{
    if (!p->split || leads_to_input(p, root.node)) return false;
    ts_ref_retain(&root.node->refs);
    p->split->root[p->split->num_roots] = root;
    p->split->root_grad[p->split->num_roots++] = ts_retain(grad);
    return true;
}

static ts_status run(pass *p, const ts_edge *roots, ts_tensor *const *grads, int n)
{
    TS_TRY(p->second ? plan_second(p) : plan(p, roots, n));
    for (int i = 0; i < n; i++)
        if (!put_off(p, roots[i], grads[i]))
            TS_TRY(deposit(p, ts_visits_find(&p->visits, roots[i].node), roots[i].slot, grads[i]));
    while (p->num_ready > 0) TS_TRY(run_in_scope(p, take_ready(p)));
    return TS_OK;
}

/* A backward pass may start inside another one (from a hook); then it runs to its end first. */
static ts_status execute(pass *p, const ts_edge *roots, ts_tensor *const *grads, int n)
{
    ts_thread_ctx *thread = ts_thread();
    void *outer = thread->graph_task;
    bool former = p->create_graph ? ts_enable_grad_begin() : ts_no_grad_begin();
    thread->graph_task = p;
    thread->backward_depth++;
    ts_status status = run(p, roots, grads, n);
    status = run_callbacks(p, status);
    thread->backward_depth--;
    thread->graph_task = outer;
    ts_no_grad_end(former);
    ts_visits_fini(&p->visits);
    ts_visits_fini(&p->wanted_nodes);
    free(p->ready);
    free(p->callbacks);
    return status;
}

ts_status ts_queue_backward_callback(ts_backward_callback run_later, void *user)
{
    pass *p = ts_thread()->graph_task;
    if (!p) return ts_fail(TS_ESTATE, "queue_backward_callback: no backward runs on this thread");
    if (!run_later) return ts_fail(TS_EINVAL, "queue_backward_callback: callback is missing");
    if (p->num_callbacks == p->callbacks_capacity) {
        int capacity = p->callbacks_capacity ? 2 * p->callbacks_capacity : 8;
        callback *grown = ts_grow(p->callbacks, (size_t)capacity, sizeof *grown);
        if (!grown) return ts_fail_memory((size_t)capacity * sizeof *grown, "backward callbacks");
        p->callbacks = grown;
        p->callbacks_capacity = capacity;
    }
    p->callbacks[p->num_callbacks++] = (callback){run_later, user};
    return TS_OK;
}

/* ---- roots ----------------------------------------------------------------------------------- */

static ts_status root_gradient(ts_tensor **out, const char *op, ts_tensor *root, ts_tensor *given)
{
    char want[TS_SHAPE_TEXT], got[TS_SHAPE_TEXT];
    if (!given) {
        if (root->numel != 1)
            return ts_fail(
                TS_ESHAPE,
                "%s: the root has shape %s; only one-element roots do without a gradient", op,
                ts_shape_format(got, sizeof got, root->shape));
        *out = ts_ones_like(root);
        return ts_tensor_check(*out, op);
    }
    TS_TRY(ts_tensor_check(given, op));
    if (!ts_shape_equal(given->shape, root->shape))
        return ts_fail(TS_ESHAPE, "%s: the gradient has shape %s, the root %s", op,
                       ts_shape_format(got, sizeof got, given->shape),
                       ts_shape_format(want, sizeof want, root->shape));
    *out = given->dtype == root->dtype ? given
                                       : ts_autograd_use->convert(given, (ts_dtype)root->dtype);
    return ts_tensor_check(*out, op);
}

typedef struct root_list {
    ts_edge *edge;
    ts_tensor **grad;
} root_list;

static ts_status fill_roots(root_list *list, const char *op, ts_tensor *const *roots,
                            ts_tensor *const *gradients, int n)
{
    for (int i = 0; i < n; i++) {
        TS_TRY(ts_tensor_check(roots[i], op));
        TS_TRY(ts_autograd_edge(&list->edge[i], roots[i]));
        if (!list->edge[i].node)
            return ts_fail(TS_ESTATE,
                           "%s: root %d does not require grad; compute it from a tensor that does, "
                           "with gradients enabled",
                           op, i);
        TS_TRY(root_gradient(&list->grad[i], op, roots[i], gradients ? gradients[i] : NULL));
    }
    return TS_OK;
}

/* Nodes are held over the pass: a hook may drop the tensors that own them. */
static ts_status with_roots(pass *p, const char *op, ts_tensor *const *roots,
                            ts_tensor *const *gradients, int n)
{
    if (ts_inference_mode_enabled())
        return ts_fail(TS_ESTATE, "%s: inference mode is on; leave it first", op);
    if (n < 0 || (n > 0 && !roots)) return ts_fail(TS_EINVAL, "%s: roots are missing", op);
    root_list list = {ts_calloc((size_t)n, sizeof *list.edge),
                      ts_calloc((size_t)n, sizeof *list.grad)};
    ts_status status = list.edge && list.grad ? TS_OK : ts_fail_memory((size_t)n * 24, "roots");
    ts_scope scope = ts_scope_begin();
    if (status == TS_OK) status = fill_roots(&list, op, roots, gradients, n);
    if (status == TS_OK) {
        for (int i = 0; i < n; i++) ts_ref_retain(&list.edge[i].node->refs);
        status = execute(p, list.edge, list.grad, n);
        for (int i = 0; i < n; i++) ts_node_release(list.edge[i].node);
    }
    ts_scope_end_keep(scope, NULL);
    free(list.edge);
    free(list.grad);
    return status;
}

static ts_status read_options(pass *p, const char *op, const ts_backward_options *opt)
{
    if (!opt) return TS_OK;
    if (opt->struct_size == 0)
        return ts_fail(TS_EINVAL, "%s: options must start from TS_BACKWARD_OPTIONS_INIT", op);
    p->create_graph = opt->create_graph;
    p->keep_graph = opt->retain_graph || opt->create_graph;
    return TS_OK;
}

ts_status ts_backward_ex(ts_tensor *const *roots, ts_tensor *const *gradients, int n,
                         const ts_backward_options *opt)
{
    pass p = {0};
    TS_TRY(read_options(&p, "backward", opt));
    return with_roots(&p, "backward", roots, gradients, n);
}

ts_status ts_backward(ts_tensor *root) { return ts_backward_ex(&root, NULL, 1, NULL); }

/* ---- ts_grad_of ------------------------------------------------------------------------------ */

static ts_status wanted_edges(const char *op, ts_edge *wanted, ts_tensor *const *inputs, int n)
{
    for (int i = 0; i < n; i++) {
        TS_TRY(ts_tensor_check(inputs[i], op));
        TS_TRY(ts_autograd_edge(&wanted[i], inputs[i]));
        if (!wanted[i].node) return ts_fail(TS_ESTATE, "%s: input %d does not require grad", op, i);
    }
    return TS_OK;
}

static void hand_out(ts_tensor **out, ts_tensor **result, int n, ts_status status)
{
    for (int i = 0; i < n; i++) {
        if (status == TS_OK)
            out[i] = result[i] ? ts_scope_give(result[i]) : NULL;
        else
            ts_release(result[i]);
    }
}

static ts_status gradients_of(const char *op, ts_backward_split *split, ts_tensor **out,
                              ts_tensor *const *outputs, ts_tensor *const *grad_outputs,
                              int num_outputs, ts_tensor *const *inputs, int num_inputs,
                              const ts_backward_options *opt)
{
    pass p = {.num_wanted = num_inputs, .split = split};
    TS_TRY(read_options(&p, op, opt));
    if (num_inputs <= 0 || !inputs || !out) return ts_fail(TS_EINVAL, "%s: inputs are missing", op);
    ts_edge *wanted = ts_calloc((size_t)num_inputs, sizeof *wanted);
    p.result = ts_calloc((size_t)num_inputs, sizeof *p.result);
    p.wanted = wanted;
    ts_status status = wanted && p.result ? wanted_edges(op, wanted, inputs, num_inputs)
                                          : ts_fail_memory((size_t)num_inputs * 24, op);
    if (status == TS_OK) status = with_roots(&p, op, outputs, grad_outputs, num_outputs);
    if (p.result) hand_out(out, p.result, num_inputs, status);
    free(wanted);
    free(p.result);
    return status;
}

ts_status ts_grad_of(ts_tensor **out, ts_tensor *const *outputs, ts_tensor *const *grad_outputs,
                     int num_outputs, ts_tensor *const *inputs, int num_inputs,
                     const ts_backward_options *opt)
{
    return gradients_of("grad_of", NULL, out, outputs, grad_outputs, num_outputs, inputs,
                        num_inputs, opt);
}

/* ---- split backward -------------------------------------------------------------------------- */

static void split_clear(ts_backward_split *split)
{
    for (int64_t k = 0; k < split->num_parts; k++) {
        part *kept = &split->part[k];
        for (int i = 0; i < kept->node->num_out; i++) ts_release(kept->grad[i]);
        ts_node_release(kept->node);
        free(kept->grad);
        free(kept->later);
    }
    for (int i = 0; i < split->num_roots; i++) {
        ts_node_release(split->root[i].node);
        ts_release(split->root_grad[i]);
    }
    split->num_parts = 0;
    split->num_roots = 0;
}

void ts_backward_split_free(ts_backward_split *split)
{
    if (!split) return;
    split_clear(split);
    free(split->part);
    free(split->root);
    free(split->root_grad);
    free(split);
}

/* NULL after ts_fail. */
static ts_backward_split *split_new(int num_roots)
{
    ts_backward_split *split = ts_calloc(1, sizeof *split);
    size_t count = num_roots > 0 ? (size_t)num_roots : 1;
    if (split) {
        split->root = ts_calloc(count, sizeof *split->root);
        split->root_grad = ts_calloc(count, sizeof *split->root_grad);
        if (split->root && split->root_grad) return split;
    }
    ts_backward_split_free(split);
    ts_fail_memory(count * sizeof(ts_edge), "a split backward");
    return NULL;
}

ts_status ts_backward_input(ts_backward_split **out, ts_tensor **grad_in, ts_tensor *const *roots,
                            ts_tensor *const *gradients, int n, ts_tensor *const *inputs,
                            int num_inputs, const ts_backward_options *opt)
{
    if (!out) return ts_fail(TS_EINVAL, "backward_input: the place for the split is missing");
    if (opt && opt->create_graph)
        return ts_fail(TS_EUNSUPPORTED, "backward_input: create_graph is not offered");
    ts_backward_split *split = split_new(n);
    if (!split) return TS_ENOMEM;
    split->keep_graph = opt && opt->retain_graph;
    ts_status status = gradients_of("backward_input", split, grad_in, roots, gradients, n, inputs,
                                    num_inputs, opt);
    if (status == TS_OK)
        *out = split;
    else
        ts_backward_split_free(split);
    return status;
}

ts_status ts_backward_weight(ts_backward_split *split)
{
    if (!split) return ts_fail(TS_EINVAL, "backward_weight: the split is missing");
    if (split->done)
        return ts_fail(TS_ESTATE, "backward_weight: this has run; each split runs once");
    if (ts_inference_mode_enabled())
        return ts_fail(TS_ESTATE, "backward_weight: inference mode is on; leave it first");
    pass p = {.second = split, .keep_graph = split->keep_graph};
    split->done = true;
    ts_status status = execute(&p, split->root, split->root_grad, split->num_roots);
    split_clear(split);
    return status;
}

/* ---- reachable leaves ------------------------------------------------------------------------ */

ts_status ts_autograd_reachable(ts_tensor *const *roots, int n,
                                bool (*visit)(ts_tensor *leaf, void *user), void *user)
{
    ts_visits visits = {0};
    ts_status status = TS_OK;
    for (int i = 0; i < n && status == TS_OK; i++) {
        ts_edge edge;
        status = ts_tensor_check(roots[i], "reachable: root");
        if (status == TS_OK) status = ts_autograd_edge(&edge, roots[i]);
        if (status == TS_OK && edge.node) status = ts_visits_walk(&visits, edge.node, NULL, NULL);
    }
    for (int64_t i = 0; i < visits.count && status == TS_OK; i++) {
        ts_node *node = visits.visit[i].node;
        if (!ts_node_is_accumulator(node)) continue;
        ts_tensor *leaf = ((ts_accumulator *)(void *)node)->leaf;
        if (leaf && !visit(leaf, user)) break;
    }
    ts_visits_fini(&visits);
    return status;
}
