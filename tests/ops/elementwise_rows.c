/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#define ONE(name)                                                                                  \
    static ts_tensor *f_##name(ts_tensor *const *in) { return ts_##name(in[0]); }                  \
    static ts_tensor *i_##name(ts_tensor *const *in) { return ts_##name##_(in[0]); }
#define TWO(name)                                                                                  \
    static ts_tensor *f_##name(ts_tensor *const *in) { return ts_##name(in[0], in[1]); }           \
    static ts_tensor *i_##name(ts_tensor *const *in) { return ts_##name##_(in[0], in[1]); }
#define TEST(name)                                                                                 \
    static ts_tensor *f_##name(ts_tensor *const *in) { return ts_##name(in[0]); }
#define COMPARE(name)                                                                              \
    static ts_tensor *f_##name(ts_tensor *const *in) { return ts_##name(in[0], in[1]); }
#define NUMBER(name, label, value)                                                                 \
    static ts_tensor *f_##label(ts_tensor *const *in) { return ts_##name(in[0], value); }          \
    static ts_tensor *i_##label(ts_tensor *const *in) { return ts_##name##_(in[0], value); }
#define COMPARE_NUMBER(name, value)                                                                \
    static ts_tensor *f_##name(ts_tensor *const *in) { return ts_##name(in[0], value); }

#define UNARY(X)                                                                                   \
    X(neg)                                                                                         \
    X(abs)                                                                                         \
    X(sign)                                                                                        \
    X(relu)                                                                                        \
    X(exp)                                                                                         \
    X(expm1)                                                                                       \
    X(log)                                                                                         \
    X(log1p)                                                                                       \
    X(sqrt)                                                                                        \
    X(rsqrt)                                                                                       \
    X(reciprocal) X(sin) X(cos) X(tanh) X(erf) X(sigmoid) X(silu) X(floor) X(ceil) X(round) X(trunc)
#define BINARY(X) X(add) X(sub) X(mul) X(div) X(pow) X(maximum) X(minimum)
#define TESTS(X) X(logical_not) X(isnan) X(isfinite)
#define COMPARISONS(X)                                                                             \
    X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(logical_and) X(logical_or) X(logical_xor)
#define NUMBERED(X)                                                                                \
    X(add_scalar, add_scalar, 2)                                                                   \
    X(mul_scalar, mul_scalar, -3)                                                                  \
    X(pow_scalar, square, 2)                                                                       \
    X(pow_scalar, cube, 3)                                                                         \
    X(pow_scalar, power, 2.5)                                                                      \
    X(gelu, gelu, TS_GELU_ERF)                                                                     \
    X(gelu, gelu_tanh, TS_GELU_TANH)
#define AGAINST_NUMBER(X)                                                                          \
    X(sub_scalar, 2)                                                                               \
    X(div_scalar, 4)                                                                               \
    X(maximum_scalar, 1)                                                                           \
    X(minimum_scalar, 1)                                                                           \
    X(eq_scalar, 1)                                                                                \
    X(ne_scalar, 1)                                                                                \
    X(lt_scalar, 1)                                                                                \
    X(le_scalar, 1)                                                                                \
    X(gt_scalar, 1)                                                                                \
    X(ge_scalar, 1)
UNARY(ONE)
BINARY(TWO)
TESTS(TEST)
COMPARISONS(COMPARE)
NUMBERED(NUMBER)
AGAINST_NUMBER(COMPARE_NUMBER)
static ts_tensor *f_where(ts_tensor *const *in) { return ts_where(in[0], in[1], in[2]); }
static ts_tensor *f_clamp(ts_tensor *const *in) { return ts_clamp(in[0], -1, 2); }
static ts_tensor *i_clamp(ts_tensor *const *in) { return ts_clamp_(in[0], -1, 2); }
static ts_tensor *f_clamp_low(ts_tensor *const *in) { return ts_clamp(in[0], 0.5, INFINITY); }
static ts_tensor *f_lerp_scalar(ts_tensor *const *in) { return ts_lerp_scalar(in[0], in[1], 0.3); }
static ts_tensor *i_lerp_scalar(ts_tensor *const *in) { return ts_lerp_scalar_(in[0], in[1], 0.3); }

static ts_tensor *f_addcmul(ts_tensor *const *in) { return ts_addcmul(in[0], in[1], in[2], 0.5); }
static ts_tensor *i_addcmul(ts_tensor *const *in) { return ts_addcmul_(in[0], in[1], in[2], 0.5); }
static ts_tensor *f_addcdiv(ts_tensor *const *in) { return ts_addcdiv(in[0], in[1], in[2], -2); }
static ts_tensor *i_addcdiv(ts_tensor *const *in) { return ts_addcdiv_(in[0], in[1], in[2], -2); }
static ts_tensor *f_lerp(ts_tensor *const *in) { return ts_lerp(in[0], in[1], in[2]); }
static ts_tensor *i_lerp(ts_tensor *const *in) { return ts_lerp_(in[0], in[1], in[2]); }

#define SHAPE                                                                                      \
    {                                                                                              \
        2, { 3, 4 }                                                                                \
    }
#define ROW                                                                                        \
    {                                                                                              \
        1, { 4 }                                                                                   \
    }
#define COLUMN                                                                                     \
    {                                                                                              \
        2, { 3, 1 }                                                                                \
    }
#define WIDE                                                                                       \
    {                                                                                              \
        SHAPE, -3, 3, TS_ROLE_VALUE                                                                \
    }
#define POSITIVE                                                                                   \
    {                                                                                              \
        SHAPE, 0.25, 2.75, TS_ROLE_VALUE                                                           \
    }
#define INNER                                                                                      \
    {                                                                                              \
        SHAPE, -0.9, 2.5, TS_ROLE_VALUE                                                            \
    }
#define MASK                                                                                       \
    {                                                                                              \
        SHAPE, 0, 1, TS_ROLE_MASK                                                                  \
    }
#define SMALL                                                                                      \
    {                                                                                              \
        SHAPE, 0, 5, TS_ROLE_VALUE                                                                 \
    }
enum {
    REAL = TS_ON_REAL | TS_EMPTY,
    NUMBERS = TS_ON_REAL | TS_ON_INTS | TS_EMPTY,
    ALL = TS_ON_REAL | TS_ON_INTS | TS_ON_BOOL | TS_EMPTY,
    LINEAR = TS_FIRST_ONLY, /* the second derivative is 0 */
    FLAT = TS_FIRST_ONLY    /* the first one too */
};
#define U(name, range, flags)                                                                      \
    {                                                                                              \
#name, f_##name, i_##name, flags, { range }                                                \
    }
#define T(name, range, flags)                                                                      \
    {                                                                                              \
#name, f_##name, NULL, (flags) | TS_NO_GRADIENT, { range }                                 \
    }
#define B(name, a, b, flags)                                                                       \
    {                                                                                              \
#name, f_##name, i_##name, flags, { a, b }                                                 \
    }
#define C(name, a, b, flags)                                                                       \
    {                                                                                              \
#name, f_##name, NULL, (flags) | TS_NO_GRADIENT, { a, b }                                  \
    }

const ts_case ts_cases_elementwise[] = {
    U(neg, WIDE, NUMBERS | LINEAR),
    U(abs, WIDE, NUMBERS | LINEAR),
    U(sign, WIDE, NUMBERS | FLAT),
    U(relu, WIDE, NUMBERS | LINEAR),
    U(exp, WIDE, REAL),
    U(expm1, WIDE, REAL),
    U(log, POSITIVE, REAL),
    U(log1p, INNER, REAL),
    U(sqrt, POSITIVE, REAL),
    U(rsqrt, POSITIVE, REAL),
    U(reciprocal, POSITIVE, REAL),
    U(sin, WIDE, REAL),
    U(cos, WIDE, REAL),
    U(tanh, WIDE, REAL),
    U(erf, WIDE, REAL),
    U(sigmoid, WIDE, REAL),
    U(silu, WIDE, REAL),
    U(gelu, WIDE, REAL),
    U(gelu_tanh, WIDE, REAL),
    U(floor, WIDE, REAL | FLAT),
    U(ceil, WIDE, REAL | FLAT),
    U(round, WIDE, REAL | FLAT),
    U(trunc, WIDE, REAL | FLAT),
    U(add_scalar, WIDE, ALL | LINEAR),
    U(mul_scalar, WIDE, ALL | LINEAR),
    U(square, WIDE, NUMBERS),
    U(cube, WIDE, NUMBERS),
    U(power, POSITIVE, REAL),
    U(clamp, WIDE, NUMBERS | LINEAR),
    {"clamp_low", f_clamp_low, NULL, REAL | LINEAR, {WIDE}},
    {"sub_scalar", f_sub_scalar, NULL, NUMBERS | LINEAR, {WIDE}},
    {"div_scalar", f_div_scalar, NULL, ALL | LINEAR, {WIDE}},
    {"maximum_scalar", f_maximum_scalar, NULL, NUMBERS | LINEAR, {WIDE}},
    {"minimum_scalar", f_minimum_scalar, NULL, NUMBERS | LINEAR, {WIDE}},
    T(eq_scalar, SMALL, ALL),
    T(ne_scalar, SMALL, ALL),
    T(lt_scalar, SMALL, ALL),
    T(le_scalar, SMALL, ALL),
    T(gt_scalar, SMALL, ALL),
    T(ge_scalar, SMALL, ALL),
    T(logical_not, SMALL, ALL),
    T(isnan, WIDE, ALL),
    T(isfinite, WIDE, ALL),
    B(add, WIDE, WIDE, ALL | LINEAR),
    B(sub, WIDE, WIDE, NUMBERS | LINEAR),
    B(mul, WIDE, WIDE, ALL),
    B(div, WIDE, POSITIVE, REAL),
    B(pow, POSITIVE, WIDE, REAL),
    {"pow_whole", f_pow, i_pow, TS_ON_INTS | TS_NO_GRADIENT, {WIDE, SMALL}},
    B(maximum, WIDE, WIDE, NUMBERS | LINEAR),
    B(minimum, WIDE, WIDE, NUMBERS | LINEAR),
    {"add_row", f_add, i_add, NUMBERS | LINEAR, {WIDE, {ROW, -2, 2, TS_ROLE_VALUE}}},
    {"mul_column", f_mul, i_mul, TS_ON_REAL, {WIDE, {COLUMN, -2, 2, TS_ROLE_VALUE}}},
    {"sub_outer",
     f_sub,
     NULL,
     TS_ON_REAL | LINEAR,
     {{COLUMN, -2, 2, TS_ROLE_VALUE}, {ROW, -3, 1, TS_ROLE_VALUE}}},
    {"div_scalar_tensor", f_div, i_div, TS_ON_REAL, {WIDE, {{0}, 1, 3, TS_ROLE_VALUE}}},
    C(eq, SMALL, SMALL, ALL),
    C(ne, SMALL, SMALL, ALL),
    C(lt, SMALL, SMALL, ALL),
    C(le, SMALL, SMALL, ALL),
    C(gt, SMALL, SMALL, ALL),
    C(ge, SMALL, SMALL, ALL),
    C(logical_and, SMALL, SMALL, ALL),
    C(logical_or, SMALL, SMALL, ALL),
    C(logical_xor, SMALL, SMALL, ALL),
    {"where", f_where, NULL, ALL | LINEAR, {MASK, WIDE, WIDE}},
    {"addcmul", f_addcmul, i_addcmul, REAL, {WIDE, WIDE, WIDE}},
    {"addcdiv", f_addcdiv, i_addcdiv, REAL, {WIDE, WIDE, POSITIVE}},
    {"lerp", f_lerp, i_lerp, REAL, {WIDE, WIDE, {SHAPE, 0, 1, TS_ROLE_VALUE}}},
    {"lerp_scalar", f_lerp_scalar, i_lerp_scalar, REAL | LINEAR, {WIDE, WIDE}},
    {.name = NULL},
};
