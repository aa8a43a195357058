/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one tensor, each with its gradient beside it. */
#include "ops/elementwise_rows.h"

TS_UNARY(neg, NEG, ts_infer_promoted, TS_SAVE_NOTHING, ts_neg(g))
TS_UNARY(sign, SIGN, ts_infer_promoted, TS_SAVE_NOTHING, NULL)
TS_UNARY(abs, ABS, ts_infer_promoted, TS_SAVE_A, ts_mul(g, ts_sign(a)))
TS_UNARY(exp, EXP, ts_infer_floating, TS_SAVE_Y, ts_mul(g, y))
TS_UNARY(expm1, EXPM1, ts_infer_floating, TS_SAVE_Y, ts_mul(g, ts_add_scalar(y, 1)))
TS_UNARY(log, LOG, ts_infer_floating, TS_SAVE_A, ts_div(g, a))
TS_UNARY(log1p, LOG1P, ts_infer_floating, TS_SAVE_A, ts_div(g, ts_add_scalar(a, 1)))
TS_UNARY(sqrt, SQRT, ts_infer_floating, TS_SAVE_Y, ts_div(g, ts_mul_scalar(y, 2)))
TS_UNARY(rsqrt, RSQRT, ts_infer_floating, TS_SAVE_Y,
         ts_mul_scalar(ts_mul(g, ts_pow_scalar(y, 3)), -0.5))
TS_UNARY(reciprocal, RECIPROCAL, ts_infer_floating, TS_SAVE_Y, ts_neg(ts_mul(g, ts_mul(y, y))))
TS_UNARY(sin, SIN, ts_infer_floating, TS_SAVE_A, ts_mul(g, ts_cos(a)))
TS_UNARY(cos, COS, ts_infer_floating, TS_SAVE_A, ts_neg(ts_mul(g, ts_sin(a))))
/* erf' = 2 / sqrt(pi) e^(-a a) */
TS_UNARY(erf, ERF, ts_infer_floating, TS_SAVE_A,
         ts_mul(g, ts_mul_scalar(ts_exp(ts_neg(ts_mul(a, a))), 1.1283791670955126)))
TS_UNARY(floor, FLOOR, ts_infer_floating, TS_SAVE_NOTHING, NULL)
TS_UNARY(ceil, CEIL, ts_infer_floating, TS_SAVE_NOTHING, NULL)
TS_UNARY(round, ROUND, ts_infer_floating, TS_SAVE_NOTHING, NULL)
TS_UNARY(trunc, TRUNC, ts_infer_floating, TS_SAVE_NOTHING, NULL)

/* ---- tests of one tensor --------------------------------------------------------------------- */

#define TEST(name, loop_id)                                                                        \
    TS_ELEMENTWISE_ROW(name##_row, #name, loop_id, ts_infer_bool, TS_SAVE_NOTHING, TS_OP_NO_GRAD,  \
                       NULL)                                                                       \
    ts_tensor *ts_##name(ts_tensor *a) { return ts_dispatch1(&name##_row, a); }

TEST(logical_not, NOT)
TEST(isnan, IS_NAN)
TEST(isfinite, IS_FINITE)
