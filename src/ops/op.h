/* SPDX-License-Identifier: Apache-2.0 */
/* An operation is one row, and every call of every operation goes through ts_dispatch.
 *
 * A public function packs its inputs and attributes into a ts_op_call and dispatches it.  The
 * dispatcher ORs the key bits of the inputs with the mode bits of the thread; zero goes straight to
 * the kernel, otherwise the layers run outermost first (see dispatch.c). */
#ifndef TS_OPS_OP_H
#define TS_OPS_OP_H

#include "tensor/tensor.h"

enum { TS_OP_MAX_OUTPUTS = 3, TS_OP_MAX_ATTRS = 20 };

typedef union ts_attr {
    int64_t i;
    double f;
} ts_attr;

typedef struct ts_op_call {
    const struct ts_op_def *def;
    ts_tensor *const *in; /* entries may be NULL where the operation allows "none" */
    int num_in;
    int num_attrs;
    ts_attr attr[TS_OP_MAX_ATTRS];
    ts_tensor *out[TS_OP_MAX_OUTPUTS]; /* allocated by the dispatcher from infer's specs; a view
                                        * operation's kernel makes its own; an in-place operation's
                                        * out[0] is in[0] */
} ts_op_call;

/* What backward sees.  in[i] / out[i] are valid if the row saves them (save_in, save_out), else
 * NULL; in_spec describes every input in any case. */
typedef struct ts_backward_call {
    const struct ts_op_def *def;
    int num_in, num_attrs;
    const ts_attr *attr;
    ts_tensor *const *in;
    const ts_spec *in_spec;
    ts_tensor *const *out;
    const bool *needs;          /* per input: is its gradient wanted? */
    ts_tensor *const *grad_out; /* NULL entry: zero; at least one is there */
    ts_tensor **grad_in;        /* to be filled where needs is set; NULL: zero.  The caller sums
                                 * what broadcasting had added and converts to the input's dtype. */
} ts_backward_call;

enum {
    TS_OP_VIEW = 1 << 0,    /* the output shares storage with input 0 */
    TS_OP_INPLACE = 1 << 1, /* writes input 0 and returns it */
    TS_OP_RANDOM = 1 << 2,  /* draws from the generator */
    TS_OP_NO_GRAD = 1 << 3  /* outputs never require grad */
};

typedef struct ts_op_def {
    const char *name;
    uint32_t flags;
    int num_out;
    uint32_t save_in, save_out; /* bit i: keep input / output i for backward */
    /* Input i is saved only if one of the inputs whose bits are set here needs a gradient; 0:
     * always.  in[i] is NULL in backward if it was not saved. */
    uint32_t save_in_if[4];
    uint32_t optional_in; /* bit i: input i may be NULL; elsewhere NULL is TS_EINVAL */

    /* Checks inputs and attributes, and describes the outputs.  Errors by ts_fail.  Also serves
     * meta tensors.  View and in-place rows describe what their kernel will give. */
    ts_status (*infer)(const ts_op_call *call, ts_spec *out);

    int loop; /* element-wise rows: a ts_loop_id */

    /* Per device; the meta device needs none.  Outputs are row-major and uninitialised.  The CPU
     * kernel of a view row serves every device. */
    ts_status (*kernel[TS_NUM_DEVICES])(ts_op_call *call);

    /* Written with operations, so that gradients can be differentiated, captured and distributed.
     */
    ts_status (*backward)(const ts_backward_call *call);

    /* Floating-point operations of a call and bytes it must move; NULL: counted as bytes only. */
    void (*cost)(const ts_op_call *call, double *flops, double *bytes);
} ts_op_def;

/* Runs the call and returns out[0], which is failed if anything went wrong.  Failed inputs: the
 * first one is returned, inert. */
ts_tensor *ts_dispatch(ts_op_call *call);

/* Shorthands for rows with one, two or three inputs and no attributes. */
ts_tensor *ts_dispatch1(const ts_op_def *def, ts_tensor *a);
ts_tensor *ts_dispatch2(const ts_op_def *def, ts_tensor *a, ts_tensor *b);
ts_tensor *ts_dispatch3(const ts_op_def *def, ts_tensor *a, ts_tensor *b, ts_tensor *c);

/* ---- helpers for infer functions and kernels ------------------------------------------------- */

/* PyTorch's broadcasting; TS_ESHAPE names op and both shapes. */
ts_status ts_broadcast_shape(ts_shape *out, const char *op, ts_shape a, ts_shape b);
/* PyTorch's promotion among n tensors (0-dim tensors count by category only), and of two dtypes. */
ts_status ts_promote(ts_dtype *out, const char *op, ts_tensor *const *in, int n);
ts_dtype ts_promote_dtypes(ts_dtype a, ts_dtype b);
/* TS_EDTYPE "op: <what> is int64; needs float32 or float64" unless it is one of these. */
ts_status ts_need_float(const char *op, const char *what, const ts_tensor *t);
ts_status ts_need_dtype(const char *op, const char *what, const ts_tensor *t, ts_dtype dtype);
/* t itself if row-major, else a row-major copy in the scope (no autograd). */
ts_tensor *ts_row_major(ts_tensor *t);
/* The gradient of a view: t's elements at stride and offset (in elements) of a row-major tensor of
 * base_shape that is zero elsewhere. */
ts_tensor *ts_view_embed(ts_tensor *t, ts_shape base_shape, const int64_t *stride, int64_t offset);
/* to += from element by element, where elements of to may share memory.  Equal shapes and dtypes.
 */
ts_status ts_add_overlapping(ts_tensor *to, const ts_tensor *from);
/* grad summed over the dimensions that broadcasting added, so that it has shape. */
ts_tensor *ts_sum_to_shape(ts_tensor *grad, ts_shape shape);

#endif
