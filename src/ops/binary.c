/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on two tensors, out of place and in place.  Gradients are in the broadcast shape; the
 * recorder sums them to the shape of the input. */
#include "ops/elementwise_rows.h"

TS_BINARY(add, ADD, ts_infer_promoted, TS_SAVE_NOTHING, g, g)
TS_BINARY(sub, SUB, ts_infer_promoted, TS_SAVE_NOTHING, g, ts_neg(g))
TS_BINARY(mul, MUL, ts_infer_promoted, TS_SAVE_OTHER, ts_mul(g, b), ts_mul(g, a))
TS_BINARY(div, DIV, ts_infer_floating, TS_SAVE_FOR_B, ts_div(g, b),
          ts_neg(ts_mul(ts_div(g, b), ts_div(a, b))))

/* Ties share. */
TS_ELEMENTWISE_ROW(share_row, "maximum_share", MAXIMUM_SHARE, ts_infer_floating, TS_SAVE_NOTHING,
                   TS_OP_NO_GRAD, NULL)
static ts_tensor *share(ts_tensor *g, ts_tensor *a, ts_tensor *b)
{
    return ts_mul(g, ts_dispatch2(&share_row, a, b));
}
TS_BINARY(maximum, MAXIMUM, ts_infer_promoted, TS_SAVE_BOTH, share(g, a, b), share(g, b, a))
TS_BINARY(minimum, MINIMUM, ts_infer_promoted, TS_SAVE_BOTH, share(g, b, a), share(g, a, b))

/* a^b:  da = g b a^(b-1), 0 where b is 0;  db = g y log a, 0 where a is 0 and b is not negative. */
static ts_tensor *zero_where(ts_tensor *mask, ts_tensor *value)
{
    return ts_where(mask, ts_scalar_like(value, 0), value);
}
static ts_tensor *pow_along_a(ts_tensor *g, ts_tensor *a, ts_tensor *b)
{
    ts_tensor *slope = ts_mul(b, ts_pow(a, ts_sub_scalar(b, 1)));
    return zero_where(ts_eq_scalar(b, 0), ts_mul(g, slope));
}
static ts_tensor *pow_along_b(ts_tensor *g, ts_tensor *a, ts_tensor *b, ts_tensor *y)
{
    ts_tensor *flat = ts_logical_and(ts_eq_scalar(a, 0), ts_ge_scalar(b, 0));
    return zero_where(flat, ts_mul(g, ts_mul(y, ts_log(a))));
}
TS_BINARY(pow, POW, ts_infer_promoted, TS_SAVE_BOTH | TS_SAVE_Y, pow_along_a(g, a, b),
          pow_along_b(g, a, b, y))

/* ---- comparisons: bool, no gradient ---------------------------------------------------------- */

#define COMPARISON(name, loop_id)                                                                  \
    TS_ELEMENTWISE_ROW(name##_row, #name, loop_id, ts_infer_bool, TS_SAVE_NOTHING, TS_OP_NO_GRAD,  \
                       NULL)                                                                       \
    ts_tensor *ts_##name(ts_tensor *a, ts_tensor *b) { return ts_dispatch2(&name##_row, a, b); }

COMPARISON(eq, EQ)
COMPARISON(ne, NE)
COMPARISON(lt, LT)
COMPARISON(le, LE)
COMPARISON(gt, GT)
COMPARISON(ge, GE)
COMPARISON(logical_and, AND)
COMPARISON(logical_or, OR)
COMPARISON(logical_xor, XOR)
