/* SPDX-License-Identifier: Apache-2.0 */
/* Operations, as the library's own are made and as programs make theirs.
 *
 * An operation is one row: infer describes the outputs, a kernel per device computes them, backward
 * is written with operations.  A program's row is recorded, checked and run as any other: it works
 * on meta tensors, under no_grad, in checkpoints, in double backward, and its name stands in errors.
 *
 *     static const ts_op_def cube = {.name = "cube", .num_out = 1, .save_in = 1, .infer = ...,
 *                                    .kernel = {[TS_CPU] = ...}, .backward = ...};
 *     ts_tensor *my_cube(ts_tensor *x)
 *     {
 *         ts_op_call call = {.def = &cube, .in = &x, .num_in = 1};
 *         return ts_op_run(&call);
 *     }
 */
#ifndef TESSERA_EXT_OP_H
#define TESSERA_EXT_OP_H

#include <tessera/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

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
    TS_OP_VIEW = 1 << 0,    /* the output shares storage with input 0; the library's own only */
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

    int loop; /* 0; the library's element-wise rows use it */

    /* Per device; the meta device needs none.  Outputs are row-major and uninitialised.  The CPU
     * kernel of a view row serves every device. */
    ts_status (*kernel[TS_NUM_DEVICES])(ts_op_call *call);

    /* Written with operations, so that gradients can be differentiated, captured and distributed.
     */
    ts_status (*backward)(const ts_backward_call *call);

    /* Floating-point operations of a call and bytes it must move; NULL: counted as bytes only. */
    void (*cost)(const ts_op_call *call, double *flops, double *bytes);
} ts_op_def;

/* ---- for programs ---------------------------------------------------------------------------- */

/* Checks a row and enters its name: TS_EINVAL for a row that cannot run or a name that another row
 * has.  Optional; def must live as long as the process.  Any thread. */
TS_API ts_status ts_op_register(const ts_op_def *def);
TS_API const ts_op_def *ts_op_find(const char *name); /* a registered one; NULL: none */

/* Runs the call and returns out[0], which is failed if anything went wrong (then all of call->out
 * are).  Failed inputs: the first one is returned, inert.  Rows with TS_OP_VIEW are refused. */
TS_API ts_tensor *ts_op_run(ts_op_call *call);

/* For infer and backward: words the error ("cube: the input has ...") and returns status. */
TS_API ts_status ts_op_fail(ts_status status, const char *format, ...) TS_PRINTF(2, 3);
TS_API ts_spec ts_spec_of(const ts_tensor *t);
/* For kernels: t itself if row-major, else a row-major copy in the scope, not recorded. */
TS_API ts_tensor *ts_row_major(ts_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
