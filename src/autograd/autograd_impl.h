/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the autograd folder. */
#ifndef TS_AUTOGRAD_IMPL_H
#define TS_AUTOGRAD_IMPL_H

#include "autograd/autograd.h"

/* ---- accumulators ---------------------------------------------------------------------------- */

#define TS_ACCUMULATOR_SEQUENCE UINT64_MAX

typedef struct ts_accumulator {
    ts_node node;
    ts_tensor *leaf; /* weak; NULL once the leaf is gone */
} ts_accumulator;

bool ts_node_is_accumulator(const ts_node *node);

/* leaf's accumulator, made at the first call and owned by the leaf; NULL after ts_fail. */
ts_node *ts_accumulator_of(ts_tensor *leaf);

/* Adds grad to the leaf's .grad, then runs its post-accumulate hooks. */
ts_status ts_accumulate(ts_node *accumulator, ts_tensor *grad, bool create_graph);

/* ---- hooks of a node ------------------------------------------------------------------------- */

typedef struct ts_hook {
    int64_t handle; /* 0: removed while the list was running */
    int slot;       /* which gradient of the node */
    ts_tensor_hook on_grad;
    ts_accumulate_hook on_accumulate;
    void *user;
    ts_tensor *keeper; /* ts_retain_grad: the (weak) tensor that keeps the gradient */
} ts_hook;

typedef struct ts_hook_list {
    ts_hook *hook;
    int count, capacity;
    int running;
    int64_t last_handle;
} ts_hook_list;

/* The handle, > 0; 0 after ts_fail. */
int64_t ts_hooks_add(ts_node *node, ts_hook hook);
void ts_hooks_remove(ts_node *node, int64_t handle);
/* Removes the hook that keeps gradients for t; true if there was one. */
bool ts_hooks_forget_keeper(ts_node *node, const ts_tensor *t);
void ts_hooks_free(ts_node *node);

/* Passes a complete gradient through the tensor hooks of slot. */
ts_status ts_hooks_on_grad(ts_node *node, int slot, ts_tensor **grad);
ts_status ts_hooks_on_accumulate(ts_node *node, ts_tensor *leaf);

/* status of a user's hook; words it if the hook's own calls have not (error_status was cleared
 * before it ran). */
ts_status ts_hook_worded(ts_status status, const char *what);

/* Replaces t's .grad; takes over the reference to grad. */
void ts_grad_replace(ts_tensor *t, ts_tensor *grad);

/* ---- anomaly mode (anomaly.c) ---------------------------------------------------------------- */

/* The calls that lead here; freed by free.  NULL: no memory. */
struct ts_trace *ts_trace_new(void);
/* Adds to the last error where node was made, if that is known; returns status. */
ts_status ts_trace_explain(const ts_node *node, ts_status status);
/* TS_ESTATE naming node and the first of its gradients that is not finite. */
ts_status ts_anomaly_check(const ts_node *node, ts_tensor *const *grad_in);

/* ---- a set of nodes with what a pass knows about each ---------------------------------------- */

enum { TS_VISIT_FEW_SLOTS = 3, TS_NODE_MAX_OUT = 32 };

typedef struct ts_visit {
    ts_node *node;
    int64_t waiting;                    /* parents that have not run yet */
    bool needed;                        /* gradients must flow through it */
    bool captured;                      /* ts_grad_of wants (one of) its gradients */
    uint32_t own;                       /* bit i: gradient i is a sum that only this pass holds */
    ts_tensor *few[TS_VISIT_FEW_SLOTS]; /* sums so far; each a reference */
    const bool *only;                   /* second half of a split backward: of these edges */
    ts_tensor **many;                   /* instead, of a node with more outputs */
} ts_visit;

static inline ts_tensor **ts_visit_grad(ts_visit *visit)
{
    return visit->many ? visit->many : visit->few;
}

typedef struct ts_visits {
    ts_visit *visit; /* in order of discovery */
    int64_t count, capacity;
    int64_t *bucket; /* index + 1 by hash of the node */
    int64_t buckets;
} ts_visits;

int64_t ts_visits_find(const ts_visits *visits, const ts_node *node); /* -1: absent */
/* Index of node's entry, made if absent (*added tells); -1 after ts_fail. */
int64_t ts_visits_add(ts_visits *visits, ts_node *node, bool *added);
void ts_visits_fini(ts_visits *visits);

/* Enters root and everything it reaches.  finish, if not NULL, is called for each entry made when
 * all that it reaches is finished. */
typedef void (*ts_visit_finish)(ts_visits *visits, int64_t index, void *user);
ts_status ts_visits_walk(ts_visits *visits, ts_node *root, ts_visit_finish finish, void *user);

#endif
