/* SPDX-License-Identifier: Apache-2.0 */
/* The recorded graph, for the layers above.
 *
 * Ownership: an output owns its node; a node owns the nodes its edges lead to and what it saved; a
 * saved output is stored without history, so there are no cycles; a leaf owns its accumulator,
 * which knows the leaf weakly.  Destruction is iterative. */
#ifndef TS_AUTOGRAD_AUTOGRAD_H
#define TS_AUTOGRAD_AUTOGRAD_H

#include <tessera/autograd.h>

#include "tensor/tensor.h"

typedef struct ts_node ts_node;

/* Where the gradient of a value goes: slot-th gradient of node.  node NULL: nowhere. */
typedef struct ts_edge {
    ts_node *node;
    int slot;
} ts_edge;

typedef struct ts_node_class {
    /* grad_out: one per output, NULL is zero, at least one is there.  Fills grad_in (all NULL at
     * first), one per edge; the tensors belong to the current scope. */
    ts_status (*backward)(ts_node *node, ts_tensor *const *grad_out, ts_tensor **grad_in);
    /* Lets go of what was saved; sets dropped if there was something.  Also runs before the node is
     * freed; any number of times. */
    void (*drop_saved)(ts_node *node);
} ts_node_class;

/* The head of every node.  Sizes are fixed at creation. */
struct ts_node {
    _Atomic int64_t refs;
    const ts_node_class *klass;
    const char *name;  /* of the operation; static */
    uint64_t sequence; /* larger: made later.  Accumulators have the largest of all. */
    size_t size;
    int num_out, num_edges;
    bool dropped; /* what was saved is gone: it cannot run again */
    ts_edge *edge;
    struct ts_hook_list *hooks;
    ts_node *next_doomed;
    struct ts_trace *trace; /* in anomaly mode: where it was made */
};

/* A node of size bytes (its head included) with one reference; edges are NULL at first and owned by
 * the node.  NULL after ts_fail. */
ts_node *ts_node_new(const ts_node_class *klass, const char *name, size_t size, int num_out,
                     int num_edges);
void ts_node_release(ts_node *node); /* NULL is fine */

/* While a part of node's gradients is computed (split backward): which edges' they are. */
typedef struct ts_part {
    const ts_node *node;
    const bool *edge;
} ts_part;
extern _Thread_local ts_part ts_autograd_part;

/* Must node's backward compute the gradient for edge i? */
static inline bool ts_edge_wanted(const ts_node *node, int i)
{
    return node->edge[i].node && (ts_autograd_part.node != node || ts_autograd_part.edge[i]);
}

/* A tensor kept for backward.  Detached from history unless it is a leaf that requires grad. */
typedef struct ts_saved {
    ts_tensor *t;
    uint64_t version;
    struct ts_packed *packed; /* instead, where saved-tensor hooks were in force */
} ts_saved;

static inline bool ts_saved_any(const ts_saved *saved) { return saved->t || saved->packed; }

/* detach: store an alias even of a leaf (it is about to be changed in place). */
ts_status ts_saved_set(ts_saved *saved, ts_tensor *t, bool detach);
/* The tensor, in the current scope where it is a new handle; its gradient goes along history when
 * operations are recorded.  TS_ESTATE naming op and tensor if it has been changed in place since.
 */
ts_status ts_saved_get(ts_tensor **out, const ts_saved *saved, const char *op, ts_edge history);
void ts_saved_drop(ts_saved *saved);

/* What autograd knows about a tensor. */
struct ts_autograd {
    ts_node *node;      /* that made it; NULL: leaf */
    int slot;           /* which of the node's outputs */
    bool requires_grad; /* leaf that collects gradients */
    bool untracked;     /* a view that was made without recording: must not be changed in place */
    uint64_t version_shift; /* added to the version of the storage, see ts_set_data */
    uint32_t generation;    /* of a base: number of in-place changes through it or its views; of a
                           * view: the base's number when the view's history was made */
    ts_node *accumulator;   /* of a leaf, made when first needed */
    ts_tensor *grad;
    ts_tensor *home; /* see ts_autograd_set_grad_home */
};

/* t's record, made if it has none; NULL after ts_fail. */
struct ts_autograd *ts_autograd_of(ts_tensor *t);

/* Makes t the slot-th output of node; a former history is let go.  The gradient that
 * ts_retain_grad keeps moves along.  set takes a reference of node, give hands the caller's over
 * (also on failure). */
ts_status ts_autograd_set_node(ts_tensor *t, ts_node *node, int slot);
ts_status ts_autograd_give_node(ts_tensor *t, ts_node *node, int slot);

/* Where the gradient of t goes; the node is borrowed.  node NULL: t does not require grad. */
ts_status ts_autograd_edge(ts_edge *out, ts_tensor *t);

/* A new handle on t's storage with the same geometry, outside any scope, without history.  NULL
 * after ts_fail. */
ts_tensor *ts_autograd_alias(const ts_tensor *t);

/* Number of changes in place as t has seen them: exchanging its data (ts_set_data) is none. */
static inline uint64_t ts_autograd_version(const ts_tensor *t)
{
    uint64_t version = atomic_load_explicit(&t->storage->version, memory_order_relaxed);
    return t->autograd ? version + t->autograd->version_shift : version;
}

/* May nobody else see the memory of t, so that it can be taken over or changed? */
bool ts_autograd_exclusive(ts_tensor *t);

/* ---- gradients in buckets, unused parameters ------------------------------------------------- */

/* While home is set and leaf has no .grad, the first gradient is copied into home, which becomes
 * .grad; later ones are added in place.  home has leaf's shape, dtype and device; the leaf takes a
 * reference.  NULL: none any more. */
ts_status ts_autograd_set_grad_home(ts_tensor *leaf, ts_tensor *home_or_null);

/* Calls visit for every living leaf whose accumulator the graph of roots reaches, once each, in an
 * order that depends on the graph only; stops when visit returns false. */
ts_status ts_autograd_reachable(ts_tensor *const *roots, int n,
                                bool (*visit)(ts_tensor *leaf, void *user), void *user);

/* ---- what autograd needs from the operations ------------------------------------------------- */

typedef struct ts_autograd_ops {
    ts_tensor *(*add)(ts_tensor *a, ts_tensor *b);
    ts_tensor *(*add_)(ts_tensor *a, ts_tensor *b);
    ts_tensor *(*convert)(ts_tensor *t, ts_dtype dtype);
    /* Gives a view whose base was changed in place since the view's history was made a new one. */
    ts_status (*refresh_view)(ts_tensor *view);
} ts_autograd_ops;

extern const ts_autograd_ops *ts_autograd_use; /* installed by the ops layer */

/* The history of t is out of date: its base has been changed in place by a recorded operation.  A
 * view that was made a leaf, or without recording, goes its own way. */
static inline bool ts_autograd_stale(const ts_tensor *t)
{
    if (!t->base || !t->base->autograd) return false;
    const struct ts_autograd *own = t->autograd;
    if (own && (own->untracked || (own->requires_grad && !own->node))) return false;
    return (own ? own->generation : 0) != t->base->autograd->generation;
}

#endif
