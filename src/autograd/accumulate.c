/* SPDX-License-Identifier: Apache-2.0 */
/* The node at the end of every path: adds what arrives to the leaf's .grad. */
#include "autograd/autograd_impl.h"

#include "base/memory.h"

static const ts_node_class accumulator_class = {NULL, NULL};

bool ts_node_is_accumulator(const ts_node *node) { return node->klass == &accumulator_class; }

ts_node *ts_accumulator_of(ts_tensor *leaf)
{
    struct ts_autograd *autograd = ts_autograd_of(leaf);
    if (!autograd || autograd->accumulator) return autograd ? autograd->accumulator : NULL;
    ts_node *node = ts_node_new(&accumulator_class, "leaf", sizeof(ts_accumulator), 1, 0);
    if (!node) return NULL;
    node->sequence = TS_ACCUMULATOR_SEQUENCE;
    ((ts_accumulator *)(void *)node)->leaf = leaf;
    autograd->accumulator = node;
    return node;
}

/* Copies grad to home, which becomes .grad. */
static ts_status move_home(ts_tensor *leaf, ts_tensor *grad)
{
    ts_tensor *home = leaf->autograd->home;
    if (grad != home && home->device != TS_META) {
        TS_TRY(ts_tensor_copy_data(home, grad));
        ts_tensor_bump(home);
    }
    ts_grad_replace(leaf, ts_retain(home));
    return TS_OK;
}

/* A row-major copy outside any scope, counted as gradient. */
static ts_status adopt_copy(ts_tensor *leaf, ts_tensor *grad)
{
    ts_spec spec = ts_tensor_spec(grad);
    ts_tensor *copy = ts_tensor_new_owned(&spec, TS_MEMORY_HEAP, TS_CATEGORY_GRADIENT);
    ts_status status = ts_tensor_check(copy, "gradient");
    if (status == TS_OK && spec.device != TS_META) status = ts_tensor_copy_data(copy, grad);
    if (status != TS_OK) {
        ts_release(copy);
        return status;
    }
    ts_grad_replace(leaf, copy);
    return TS_OK;
}

static ts_status adopt(ts_tensor *leaf, ts_tensor *grad, bool create_graph)
{
    if (create_graph) { /* the history of the gradient must stay */
        ts_grad_replace(leaf, ts_retain(grad));
        return TS_OK;
    }
    if (leaf->autograd->home) return move_home(leaf, grad);
    if (!ts_autograd_exclusive(grad)) return adopt_copy(leaf, grad);
    ts_storage_set_category(grad->storage, TS_CATEGORY_GRADIENT);
    ts_grad_replace(leaf, ts_retain(grad));
    return TS_OK;
}

static ts_status add_to(ts_tensor *leaf, ts_tensor *grad, bool create_graph)
{
    ts_tensor *sum = leaf->autograd->grad;
    if (create_graph) {
        sum = ts_autograd_use->add(sum, grad);
        TS_TRY(ts_tensor_check(sum, "gradient"));
        ts_grad_replace(leaf, ts_retain(sum));
        return TS_OK;
    }
    return ts_tensor_check(ts_autograd_use->add_(sum, grad), "gradient");
}

ts_status ts_accumulate(ts_node *accumulator, ts_tensor *grad, bool create_graph)
{
    ts_tensor *leaf = ((ts_accumulator *)(void *)accumulator)->leaf;
    if (!leaf) return TS_OK;
    ts_retain(leaf); /* a hook may drop the last reference */
    ts_status status =
        leaf->autograd->grad ? add_to(leaf, grad, create_graph) : adopt(leaf, grad, create_graph);
    if (status == TS_OK) status = ts_hooks_on_accumulate(accumulator, leaf);
    ts_release(leaf);
    return status;
}
