/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of the graph, what they save, and their end. */
#include <stdlib.h>

#include "autograd/autograd_impl.h"

#include "base/memory.h"

const ts_autograd_ops *ts_autograd_use;

/* Later nodes run first in backward.  Counted per thread: order between threads comes from edges.
 */
static _Thread_local uint64_t last_sequence;

ts_node *ts_node_new(const ts_node_class *klass, const char *name, size_t size, int num_out,
                     int num_edges)
{
    size_t head = (size + 15) & ~(size_t)15;
    size_t total = head + (size_t)num_edges * sizeof(ts_edge);
    ts_node *node = ts_small_new(total);
    if (!node) {
        ts_fail_memory(total, "a node of the graph");
        return NULL;
    }
    atomic_init(&node->refs, 1);
    node->klass = klass;
    node->name = name;
    node->sequence = ++last_sequence;
    node->size = total;
    node->num_out = num_out;
    node->num_edges = num_edges;
    node->edge = (ts_edge *)(void *)((char *)node + head);
    if (ts_thread()->mode & TS_MODE_ANOMALY) node->trace = ts_trace_new();
    return node;
}

static void node_free(ts_node *node)
{
    if (node->klass->drop_saved) node->klass->drop_saved(node);
    for (int i = 0; i < node->num_edges; i++) ts_node_release(node->edge[i].node);
    ts_hooks_free(node);
    free(node->trace);
    ts_small_free(node, node->size);
}

/* Freeing a node lets go of others.  They wait in a list of the thread instead of nesting, so that
 * a graph of any depth needs no stack. */
static _Thread_local ts_node *doomed;
static _Thread_local bool freeing;

void ts_node_release(ts_node *node)
{
    if (!node) return;
    /* The only reference is ours: nobody else can take one, no need to decrement. */
    if (atomic_load_explicit(&node->refs, memory_order_acquire) != 1 &&
        !ts_ref_release(&node->refs))
        return;
    node->next_doomed = doomed;
    doomed = node;
    if (freeing) return;
    freeing = true;
    while (doomed) {
        ts_node *next = doomed;
        doomed = next->next_doomed;
        node_free(next);
    }
    freeing = false;
}

ts_tensor *ts_autograd_alias(const ts_tensor *t)
{
    ts_tensor *alias = ts_small_new(sizeof *alias);
    if (!alias) {
        ts_fail_memory(sizeof *alias, "a tensor handle");
        return NULL;
    }
    atomic_init(&alias->refs, 1);
    alias->dtype = t->dtype;
    alias->device = t->device;
    alias->contiguous = t->contiguous;
    alias->shape = t->shape;
    for (int i = 0; i < t->shape.ndim; i++) alias->stride[i] = t->stride[i];
    alias->offset = t->offset;
    alias->numel = t->numel;
    alias->storage = t->storage;
    ts_storage_retain(t->storage);
    if (t->name) alias->name = ts_strdup(t->name);
    return alias;
}

bool ts_autograd_exclusive(ts_tensor *t)
{
    return atomic_load_explicit(&t->refs, memory_order_acquire) == 1 && t->contiguous && !t->base &&
           !t->storage->read_only && !t->storage->release &&
           atomic_load_explicit(&t->storage->refs, memory_order_acquire) == 1;
}
