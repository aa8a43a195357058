/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the dispatcher: the layers that a call passes through. */
#ifndef TS_OPS_DISPATCH_H
#define TS_OPS_DISPATCH_H

#include "autograd/autograd.h"
#include "ops/op.h"

/* Runs the layers whose bits are set, outermost first, and the kernel.  A layer calls it again with
 * the bits of the layers below it. */
ts_status ts_dispatch_below(ts_op_call *call, uint32_t bits);

/* Can the call of a program be dispatched? (registry.c) */
ts_status ts_op_check(const ts_op_call *call);

/* A required input is NULL; shares the word with TS_KEY_ and TS_MODE_ bits. */
#define TS_KEY_MISSING (1u << 31)

ts_status ts_layer_inert(ts_op_call *call, uint32_t bits);    /* inert.c */
ts_status ts_layer_autograd(ts_op_call *call, uint32_t bits); /* record.c */
ts_status ts_layer_keep(ts_op_call *call, uint32_t bits);     /* keep.c */
ts_status ts_layer_kernel(ts_op_call *call);                  /* kernel.c */

/* ---- nodes of recorded operations (record.c) ------------------------------------------------- */

/* A node for def whose edges the caller fills (each with a reference taken). */
ts_node *ts_op_node_new(const ts_op_def *def, const ts_spec *in_spec, int num_in,
                        const ts_attr *attr, int num_attrs);

/* ---- in-place changes and views (inplace.c) -------------------------------------------------- */

/* May in[0] be changed in place by a recorded operation?  TS_ESTATE says why not. */
ts_status ts_inplace_check(const ts_op_call *call);

/* in[0] of call has been changed by node: gives it, and the base if it is a view, the new history.
 */
ts_status ts_inplace_rebase(ts_tensor *t, ts_node *node);

/* See ts_autograd_ops. */
ts_status ts_refresh_view(ts_tensor *view);

#endif
