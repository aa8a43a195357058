/* SPDX-License-Identifier: Apache-2.0 */
/* a + b, a - b, a b, a / b, out of place and in place.  Gradients are in the broadcast shape; the
 * recorder sums them to the shape of the input. */
#include <tessera/ops.h>

#include "ops/elementwise_impl.h"

static ts_status add_kernel(ts_op_call *call) { return ts_binary_run(call, TS_BINARY_ADD); }
static ts_status sub_kernel(ts_op_call *call) { return ts_binary_run(call, TS_BINARY_SUB); }
static ts_status mul_kernel(ts_op_call *call) { return ts_binary_run(call, TS_BINARY_MUL); }
static ts_status div_kernel(ts_op_call *call) { return ts_binary_run(call, TS_BINARY_DIV); }

/* y = a + b    da = dy    db = dy */
static ts_status add_backward(const ts_backward_call *call)
{
    call->grad_in[0] = call->grad_in[1] = call->grad_out[0];
    return TS_OK;
}

/* y = a - b    da = dy    db = -dy */
static ts_status sub_backward(const ts_backward_call *call)
{
    call->grad_in[0] = call->grad_out[0];
    if (call->needs[1]) call->grad_in[1] = ts_neg(call->grad_out[0]);
    return TS_OK;
}

/* y = a b    da = dy b    db = dy a */
static ts_status mul_backward(const ts_backward_call *call)
{
    ts_tensor *g = call->grad_out[0];
    if (call->needs[0]) call->grad_in[0] = ts_mul(g, call->in[1]);
    if (call->needs[1]) call->grad_in[1] = ts_mul(g, call->in[0]);
    return TS_OK;
}

/* y = a / b    da = dy / b    db = -(dy / b) (a / b) */
static ts_status div_backward(const ts_backward_call *call)
{
    ts_tensor *b = call->in[1], *over = ts_div(call->grad_out[0], b);
    call->grad_in[0] = over;
    if (call->needs[1]) call->grad_in[1] = ts_neg(ts_mul(over, ts_div(call->in[0], b)));
    return TS_OK;
}

static const ts_op_def add_row = {.name = "add",
                                  .num_out = 1,
                                  .infer = ts_binary_infer,
                                  .kernel = {[TS_CPU] = add_kernel},
                                  .backward = add_backward};
static const ts_op_def sub_row = {.name = "sub",
                                  .num_out = 1,
                                  .infer = ts_binary_infer,
                                  .kernel = {[TS_CPU] = sub_kernel},
                                  .backward = sub_backward};
static const ts_op_def mul_row = {.name = "mul",
                                  .num_out = 1,
                                  .save_in = 3,
                                  .save_in_if = {2, 1},
                                  .infer = ts_binary_infer,
                                  .kernel = {[TS_CPU] = mul_kernel},
                                  .backward = mul_backward};
static const ts_op_def div_row = {.name = "div",
                                  .num_out = 1,
                                  .save_in = 3,
                                  .save_in_if = {2},
                                  .infer = ts_binary_float_infer,
                                  .kernel = {[TS_CPU] = div_kernel},
                                  .backward = div_backward};
static const ts_op_def add_inplace_row = {.name = "add_",
                                          .flags = TS_OP_INPLACE,
                                          .num_out = 1,
                                          .infer = ts_binary_infer,
                                          .kernel = {[TS_CPU] = add_kernel},
                                          .backward = add_backward};
static const ts_op_def sub_inplace_row = {.name = "sub_",
                                          .flags = TS_OP_INPLACE,
                                          .num_out = 1,
                                          .infer = ts_binary_infer,
                                          .kernel = {[TS_CPU] = sub_kernel},
                                          .backward = sub_backward};
static const ts_op_def mul_inplace_row = {.name = "mul_",
                                          .flags = TS_OP_INPLACE,
                                          .num_out = 1,
                                          .save_in = 3,
                                          .save_in_if = {2, 1},
                                          .infer = ts_binary_infer,
                                          .kernel = {[TS_CPU] = mul_kernel},
                                          .backward = mul_backward};
static const ts_op_def div_inplace_row = {.name = "div_",
                                          .flags = TS_OP_INPLACE,
                                          .num_out = 1,
                                          .save_in = 3,
                                          .save_in_if = {2},
                                          .infer = ts_binary_float_infer,
                                          .kernel = {[TS_CPU] = div_kernel},
                                          .backward = div_backward};

ts_tensor *ts_add(ts_tensor *a, ts_tensor *b) { return ts_dispatch2(&add_row, a, b); }
ts_tensor *ts_sub(ts_tensor *a, ts_tensor *b) { return ts_dispatch2(&sub_row, a, b); }
ts_tensor *ts_mul(ts_tensor *a, ts_tensor *b) { return ts_dispatch2(&mul_row, a, b); }
ts_tensor *ts_div(ts_tensor *a, ts_tensor *b) { return ts_dispatch2(&div_row, a, b); }
ts_tensor *ts_add_(ts_tensor *a, ts_tensor *b) { return ts_dispatch2(&add_inplace_row, a, b); }
ts_tensor *ts_sub_(ts_tensor *a, ts_tensor *b) { return ts_dispatch2(&sub_inplace_row, a, b); }
ts_tensor *ts_mul_(ts_tensor *a, ts_tensor *b) { return ts_dispatch2(&mul_inplace_row, a, b); }
ts_tensor *ts_div_(ts_tensor *a, ts_tensor *b) { return ts_dispatch2(&div_inplace_row, a, b); }

/* ---- a == b as a mask of 0 and 1 in the common dtype; no gradient ---------------------------- */

static ts_status mask_equal_kernel(ts_op_call *call)
{
    return ts_binary_run(call, TS_BINARY_MASK_EQUAL);
}

static const ts_op_def mask_equal_row = {.name = "mask_equal",
                                         .flags = TS_OP_NO_GRAD,
                                         .num_out = 1,
                                         .infer = ts_binary_float_infer,
                                         .kernel = {[TS_CPU] = mask_equal_kernel}};

ts_tensor *ts_mask_equal(ts_tensor *a, ts_tensor *b) { return ts_dispatch2(&mask_equal_row, a, b); }
