/* SPDX-License-Identifier: Apache-2.0 */
/* Element by element: one line of n elements, steps in elements (0 repeats one element).  The
 * output may be an input with the same step.  Other overlaps are not allowed. */
#ifndef TS_KERNELS_ELEMENTWISE_H
#define TS_KERNELS_ELEMENTWISE_H

#include <stdint.h>
#include <tessera/dtype.h>

#include "kernels/isa.h"

/* X(id, name).  Integers have the first three. */
#define TS_BINARY_LOOPS(X)                                                                         \
    X(ADD, add)                                                                                    \
    X(SUB, sub)                                                                                    \
    X(MUL, mul)                                                                                    \
    X(DIV, div)                                                                                    \
    X(TANH_BACKWARD, tanh_backward)       /* g, y: g (1 - y y) */                                  \
    X(SIGMOID_BACKWARD, sigmoid_backward) /* g, y: g y (1 - y) */                                  \
    X(RELU_BACKWARD, relu_backward)       /* g, y: g where y > 0, else 0 */                        \
    X(MASK_EQUAL, mask_equal)             /* 1 where a == b, else 0 */

/* X(id, name).  p is the scalar of those that take one.  Integers have the first four. */
#define TS_UNARY_LOOPS(X)                                                                          \
    X(NEG, neg)                                                                                    \
    X(ABS, abs)                                                                                    \
    X(ADD_SCALAR, add_scalar)                                                                      \
    X(MUL_SCALAR, mul_scalar)                                                                      \
    X(POW_SCALAR, pow_scalar)                                                                      \
    X(SIGN, sign)                                                                                  \
    X(EXP, exp)                                                                                    \
    X(LOG, log)                                                                                    \
    X(SQRT, sqrt)                                                                                  \
    X(TANH, tanh)                                                                                  \
    X(SIGMOID, sigmoid)                                                                            \
    X(RELU, relu)

typedef enum ts_binary_loop_id {
#define X(id, name) TS_BINARY_##id,
    TS_BINARY_LOOPS(X)
#undef X
        TS_NUM_BINARY
} ts_binary_loop_id;

typedef enum ts_unary_loop_id {
#define X(id, name) TS_UNARY_##id,
    TS_UNARY_LOOPS(X)
#undef X
        TS_NUM_UNARY
} ts_unary_loop_id;

typedef void (*ts_binary_loop)(void *out, int64_t out_step, const void *a, int64_t a_step,
                               const void *b, int64_t b_step, int64_t n);
typedef void (*ts_unary_loop)(void *out, int64_t out_step, const void *a, int64_t a_step, int64_t n,
                              double p);

typedef struct ts_elementwise_kernels {
    ts_binary_loop binary[TS_NUM_BINARY]; /* NULL: the dtype has none */
    ts_unary_loop unary[TS_NUM_UNARY];
} ts_elementwise_kernels;

/* The table in use for float32, float64, int32 or int64; NULL for other dtypes. */
const ts_elementwise_kernels *ts_elementwise_kernels_for(ts_dtype dtype);
/* Of one instruction set, NULL if this build or processor lacks it. */
const ts_elementwise_kernels *ts_elementwise_kernels_of(ts_dtype dtype, ts_isa isa);

#endif
