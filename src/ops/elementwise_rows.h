/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise rows in short: an operation with its gradient is one line of a table.
 *
 * In a gradient, g is the gradient of the output, a, b, c the inputs, y the output, p and q the
 * scalars.  NULL stands for 0.  What saves does not name is NULL there. */
#ifndef TS_OPS_ELEMENTWISE_ROWS_H
#define TS_OPS_ELEMENTWISE_ROWS_H

#include <tessera/ops.h>

#include "ops/elementwise_impl.h"

/* What backward needs: bit i of inputs is input i; each only if an input whose bit is set in if_a,
 * if_b or if_c needs a gradient (0: always). */
#define TS_SAVE(inputs, if_a, if_b, if_c) ((inputs) | (if_a) << 4 | (if_b) << 8 | (if_c) << 12)
enum {
    TS_SAVE_NOTHING = 0,
    TS_SAVE_A = TS_SAVE(1, 0, 0, 0),
    TS_SAVE_BOTH = TS_SAVE(3, 0, 0, 0),
    TS_SAVE_OTHER = TS_SAVE(3, 2, 1, 0), /* a for b's gradient, b for a's */
    TS_SAVE_FOR_B = TS_SAVE(3, 2, 0, 0), /* b, and a for b's gradient */
    TS_SAVE_Y = 8
};

#define TS_ELEMENTWISE_ROW(row_name, text, loop_id, infer_fn, saves, row_flags, backward_fn)       \
    static const ts_op_def row_name = {                                                            \
        .name = text,                                                                              \
        .flags = row_flags,                                                                        \
        .num_out = 1,                                                                              \
        .save_in = (saves)&7,                                                                      \
        .save_out = (saves) >> 3 & 1,                                                              \
        .save_in_if = {(saves) >> 4 & 7, (saves) >> 8 & 7, (saves) >> 12 & 7},                     \
        .infer = infer_fn,                                                                         \
        .loop = TS_LOOP_##loop_id,                                                                 \
        .kernel = {[TS_CPU] = ts_elementwise_kernel},                                              \
        .backward = backward_fn};

/* NAME_row and NAME_inplace_row. */
#define TS_UNARY_ROWS(name, loop_id, infer_fn, saves, gradient)                                    \
    static ts_status name##_backward(const ts_backward_call *call)                                 \
    {                                                                                              \
        ts_tensor *g = call->grad_out[0], *a = call->in[0], *y = call->out[0];                     \
        double p = call->num_attrs > 0 ? call->attr[0].f : 0;                                      \
        (void)g, (void)a, (void)y, (void)p;                                                        \
        call->grad_in[0] = gradient;                                                               \
        return TS_OK;                                                                              \
    }                                                                                              \
    TS_ELEMENTWISE_ROW(name##_row, #name, loop_id, infer_fn, saves, 0, name##_backward)            \
    TS_ELEMENTWISE_ROW(name##_inplace_row, #name "_", loop_id, infer_fn, saves, TS_OP_INPLACE,     \
                       name##_backward)

/* The same of two inputs, with a gradient for each. */
#define TS_BINARY_ROWS(name, loop_id, infer_fn, saves, gradient_a, gradient_b)                     \
    static ts_status name##_backward(const ts_backward_call *call)                                 \
    {                                                                                              \
        ts_tensor *g = call->grad_out[0], *a = call->in[0], *b = call->in[1], *y = call->out[0];   \
        (void)g, (void)a, (void)b, (void)y;                                                        \
        if (call->needs[0]) call->grad_in[0] = gradient_a;                                         \
        if (call->needs[1]) call->grad_in[1] = gradient_b;                                         \
        return TS_OK;                                                                              \
    }                                                                                              \
    TS_ELEMENTWISE_ROW(name##_row, #name, loop_id, infer_fn, saves, 0, name##_backward)            \
    TS_ELEMENTWISE_ROW(name##_inplace_row, #name "_", loop_id, infer_fn, saves, TS_OP_INPLACE,     \
                       name##_backward)

/* ts_NAME and ts_NAME_ with their rows. */
#define TS_UNARY(name, loop_id, infer_fn, saves, gradient)                                         \
    TS_UNARY_ROWS(name, loop_id, infer_fn, saves, gradient)                                        \
    ts_tensor *ts_##name(ts_tensor *a) { return ts_dispatch1(&name##_row, a); }                    \
    ts_tensor *ts_##name##_(ts_tensor *a) { return ts_dispatch1(&name##_inplace_row, a); }

#define TS_BINARY(name, loop_id, infer_fn, saves, gradient_a, gradient_b)                          \
    TS_BINARY_ROWS(name, loop_id, infer_fn, saves, gradient_a, gradient_b)                         \
    ts_tensor *ts_##name(ts_tensor *a, ts_tensor *b) { return ts_dispatch2(&name##_row, a, b); }   \
    ts_tensor *ts_##name##_(ts_tensor *a, ts_tensor *b)                                            \
    {                                                                                              \
        return ts_dispatch2(&name##_inplace_row, a, b);                                            \
    }

/* slope_NAME(g, x) = g f'(x), or of the output of f; its gradient along x is given in terms of
 * h = dy, g and x. */
#define TS_SLOPE(name, loop_id, along_x)                                                           \
    static ts_tensor *slope_##name(ts_tensor *g, ts_tensor *x);                                    \
    static ts_status slope_##name##_backward(const ts_backward_call *call)                         \
    {                                                                                              \
        ts_tensor *h = call->grad_out[0], *g = call->in[0], *x = call->in[1];                      \
        (void)g;                                                                                   \
        if (call->needs[0]) call->grad_in[0] = slope_##name(h, x);                                 \
        if (call->needs[1]) call->grad_in[1] = along_x;                                            \
        return TS_OK;                                                                              \
    }                                                                                              \
    TS_ELEMENTWISE_ROW(slope_##name##_row, #name "_backward", loop_id, ts_infer_floating,          \
                       TS_SAVE_FOR_B, 0, slope_##name##_backward)                                  \
    static ts_tensor *slope_##name(ts_tensor *g, ts_tensor *x)                                     \
    {                                                                                              \
        return ts_dispatch2(&slope_##name##_row, g, x);                                            \
    }

#endif
