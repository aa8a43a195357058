/* SPDX-License-Identifier: Apache-2.0 */
/* Element by element: one line of n elements.
 *
 * at[0] is the output, at[1..] the inputs, with steps in elements (0 repeats one element); p has
 * the two scalars of those that take any.  The output may be an input with the same step.  Other
 * overlaps are not allowed.  Comparisons and tests give 1 and 0 in the type of the line. */
#ifndef TS_KERNELS_ELEMENTWISE_H
#define TS_KERNELS_ELEMENTWISE_H

#include <stdint.h>
#include <tessera/dtype.h>

#include "kernels/isa.h"

/* X(id, name), for numbers of every type. */
#define TS_LOOPS(X)                                                                                \
    X(ADD, add)                                                                                    \
    X(SUB, sub)                                                                                    \
    X(MUL, mul)                                                                                    \
    X(POW, pow)                                                                                    \
    X(MAXIMUM, maximum) /* NaN if either is */                                                     \
    X(MINIMUM, minimum)                                                                            \
    X(EQ, eq)                                                                                      \
    X(NE, ne)                                                                                      \
    X(LT, lt)                                                                                      \
    X(LE, le)                                                                                      \
    X(GT, gt)                                                                                      \
    X(GE, ge)                                                                                      \
    X(AND, and)                                                                                    \
    X(OR, or)                                                                                      \
    X(XOR, xor)                                                                                    \
    X(NOT, not )                                                                                   \
    X(IS_NAN, is_nan)                                                                              \
    X(IS_FINITE, is_finite)                                                                        \
    X(NEG, neg)                                                                                    \
    X(ABS, abs)                                                                                    \
    X(SIGN, sign)                                                                                  \
    X(RELU, relu)                                                                                  \
    X(ADD_SCALAR, add_scalar)                                                                      \
    X(MUL_SCALAR, mul_scalar)                                                                      \
    X(POW_SCALAR, pow_scalar)                                                                      \
    X(CLAMP, clamp)     /* to p[0] .. p[1]; p[1] if they are the wrong way round; NaN stays */     \
    X(WHERE, where)     /* c, a, b: a where c is not 0, else b */                                  \
    X(ADDCMUL, addcmul) /* a, b, c: a + p[0] b c */

/* X(id, name), for floating-point numbers. */
#define TS_FLOAT_LOOPS(X)                                                                          \
    X(DIV, div)                                                                                    \
    X(LERP, lerp)               /* a, b, w: a + w (b - a) */                                       \
    X(LERP_SCALAR, lerp_scalar) /* a, b: the same with w = p[0] */                                 \
    X(ADDCDIV, addcdiv)         /* a, b, c: a + p[0] b / c */                                      \
    X(EXP, exp)                                                                                    \
    X(EXPM1, expm1)                                                                                \
    X(LOG, log)                                                                                    \
    X(LOG1P, log1p)                                                                                \
    X(SQRT, sqrt)                                                                                  \
    X(RSQRT, rsqrt)                                                                                \
    X(RECIPROCAL, reciprocal)                                                                      \
    X(SIN, sin)                                                                                    \
    X(COS, cos)                                                                                    \
    X(TANH, tanh)                                                                                  \
    X(ERF, erf)                                                                                    \
    X(SIGMOID, sigmoid)                                                                            \
    X(SILU, silu)                                                                                  \
    X(GELU_ERF, gelu_erf)                                                                          \
    X(GELU_TANH, gelu_tanh)                                                                        \
    X(FLOOR, floor)                                                                                \
    X(CEIL, ceil)                                                                                  \
    X(ROUND, round) /* halves to even */                                                           \
    X(TRUNC, trunc)                                                                                \
    X(MAXIMUM_SHARE, maximum_share)           /* a, b: 1 where a > b, 1/2 where equal, else 0 */   \
    X(TANH_BACKWARD, tanh_backward)           /* g, y: g (1 - y y) */                              \
    X(SIGMOID_BACKWARD, sigmoid_backward)     /* g, y: g y (1 - y) */                              \
    X(RELU_BACKWARD, relu_backward)           /* g, y: g where y > 0, else 0 */                    \
    X(CLAMP_BACKWARD, clamp_backward)         /* g, x: g where p[0] <= x <= p[1], else 0 */        \
    X(SILU_BACKWARD, silu_backward)           /* g, x: g times the derivative at x */              \
    X(GELU_ERF_BACKWARD, gelu_erf_backward)   /* g, x */                                           \
    X(GELU_TANH_BACKWARD, gelu_tanh_backward) /* g, x */

typedef enum ts_loop_id {
#define X(id, name) TS_LOOP_##id,
    TS_LOOPS(X) TS_FLOAT_LOOPS(X)
#undef X
        TS_NUM_LOOPS
} ts_loop_id;

typedef void (*ts_loop)(char *const *at, const int64_t *step, int64_t n, const double *p);

typedef struct ts_elementwise_kernels {
    ts_loop loop[TS_NUM_LOOPS]; /* NULL: the dtype has none */
} ts_elementwise_kernels;

/* The table in use for float32, float64, int32 or int64; NULL for other dtypes. */
const ts_elementwise_kernels *ts_elementwise_kernels_for(ts_dtype dtype);
/* Of one instruction set, NULL if this build or processor lacks it. */
const ts_elementwise_kernels *ts_elementwise_kernels_of(ts_dtype dtype, ts_isa isa);

#endif
