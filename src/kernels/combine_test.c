/* SPDX-License-Identifier: Apache-2.0 */
/* Every dtype and operation against arithmetic in double or int64, and the kernels of the
 * instruction sets against each other. */
#include "kernels/combine.h"

#include <stdlib.h>

#include "kernels/half.h"
#include "test.h"

enum { SOURCES = 5, MOST = 4999 };

typedef union value {
    unsigned char bytes[16];
    float f32;
    double f64;
    uint16_t half;
    int8_t i8;
    uint8_t u8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
} value;

static value from_number(double x, ts_dtype dtype)
{
    value v = {{0}};
    switch (dtype) {
    case TS_FLOAT32:
    case TS_COMPLEX64: v.f32 = (float)x; break;
    case TS_FLOAT64:
    case TS_COMPLEX128: v.f64 = x; break;
    case TS_FLOAT16: v.half = ts_f16_from_f32((float)x); break;
    case TS_BFLOAT16: v.half = ts_bf16_from_f32((float)x); break;
    case TS_INT8: v.i8 = (int8_t)x; break;
    case TS_UINT8: v.u8 = (uint8_t)x; break;
    case TS_BOOL: v.u8 = (int)x & 1; break;
    case TS_INT16: v.i16 = (int16_t)x; break;
    case TS_INT32: v.i32 = (int32_t)x; break;
    default: v.i64 = (int64_t)x; break;
    }
    return v;
}

static double to_number(const void *at, ts_dtype dtype)
{
    value v = {{0}};
    memcpy(&v, at, ts_dtype_size(dtype));
    switch (dtype) {
    case TS_FLOAT32:
    case TS_COMPLEX64: return v.f32;
    case TS_FLOAT64:
    case TS_COMPLEX128: return v.f64;
    case TS_FLOAT16: return ts_f16_to_f32(v.half);
    case TS_BFLOAT16: return ts_bf16_to_f32(v.half);
    case TS_INT8: return v.i8;
    case TS_UINT8:
    case TS_BOOL: return v.u8;
    case TS_INT16: return v.i16;
    case TS_INT32: return v.i32;
    default: return (double)v.i64;
    }
}

/* Small numbers, so that products of five fit every type; negative ones where they exist. */
static double number(ts_dtype dtype, int source, int64_t i)
{
    int64_t n = (i * 5 + source * 3) % 5;
    if (dtype == TS_BOOL) return (double)((i + source) % 2);
    return (double)(dtype == TS_UINT8 ? n % 3 : n - 2);
}

static double want(ts_dtype dtype, ts_reduce_op op, int n, int64_t i)
{
    double a = number(dtype, 0, i);
    for (int s = 1; s < n; s++) {
        double b = number(dtype, s, i);
        int64_t x = (int64_t)a, y = (int64_t)b;
        switch (op) {
        case TS_PRODUCT: a = a * b; break;
        case TS_MIN: a = b < a ? b : a; break;
        case TS_MAX: a = b > a ? b : a; break;
        case TS_BAND: a = (double)(x & y); break;
        case TS_BOR: a = (double)(x | y); break;
        case TS_BXOR: a = (double)(x ^ y); break;
        default: a = dtype == TS_BOOL ? (double)(x | y) : a + b;
        }
    }
    if (op != TS_AVG) return a;
    return ts_dtype_is_floating(dtype) ? a / n : trunc(a / n);
}

static bool close_enough(double got, double expected, ts_dtype dtype)
{
    double unit = dtype == TS_BFLOAT16 ? 1.0 / 256 : dtype == TS_FLOAT16 ? 1.0 / 2048 : 1e-7;
    return fabs(got - expected) <= unit * fabs(expected);
}

static void one_case(ts_test *test, ts_isa isa, ts_dtype dtype, ts_reduce_op op, int n,
                     int64_t count)
{
    size_t size = ts_dtype_size(dtype);
    const void *from[SOURCES];
    char *data = malloc((size_t)n * MOST * size);
    for (int s = 0; s < n; s++) {
        from[s] = data + (size_t)s * MOST * size;
        for (int64_t i = 0; i < count; i++) {
            value v = from_number(number(dtype, s, i), dtype);
            memcpy(data + ((size_t)s * MOST + (size_t)i) * size, &v, size);
        }
    }
    char *to = data + (size_t)(n / 2) * MOST * size; /* in place of one of the sources */
    ts_combine_with(isa, to, from, n, count, dtype, op);
    for (int64_t i = 0; i < count; i++) {
        double got = to_number(to + (size_t)i * size, dtype), expected = want(dtype, op, n, i);
        if (close_enough(got, expected, dtype)) continue;
        ts_test_fail(test, __FILE__, __LINE__, "%s %d of %d sources, element %lld: %g, expected %g",
                     ts_dtype_name(dtype), op, n, (long long)i, got, expected);
        break;
    }
    free(data);
}

static void all_cases(ts_test *test, ts_isa isa)
{
    static const int64_t counts[] = {0, 1, 7, 33, 513, 1500, MOST};
    for (int dtype = 0; dtype < TS_COMPLEX64; dtype++)
        for (int op = TS_SUM; op <= TS_BXOR; op++)
            for (int n = 1; n <= SOURCES; n++)
                for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                    if (ts_combine_allows((ts_dtype)dtype, (ts_reduce_op)op))
                        one_case(test, isa, (ts_dtype)dtype, (ts_reduce_op)op, n, counts[c]);
}

TS_TEST(combine_plain_c) { all_cases(test, TS_ISA_REF); }

TS_TEST(combine_vectors)
{
    if (ts_isa_best() == TS_ISA_REF) ts_test_skip(test, "this processor has no AVX2");
    all_cases(test, TS_ISA_AVX2);
}

TS_TEST(combine_allows_what_makes_sense)
{
    TS_EXPECT(ts_combine_allows(TS_COMPLEX64, TS_SUM) && ts_combine_allows(TS_COMPLEX128, TS_AVG));
    TS_EXPECT(!ts_combine_allows(TS_COMPLEX64, TS_MAX) && !ts_combine_allows(TS_BOOL, TS_AVG));
    TS_EXPECT(!ts_combine_allows(TS_FLOAT16, TS_BOR) && ts_combine_allows(TS_INT8, TS_BOR));
    TS_EXPECT(!ts_combine_allows(TS_FLOAT32, (ts_reduce_op)8));
}

TS_TEST(combine_complex_as_pairs)
{
    float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {10, 20, 30, 40, 50, 60};
    const void *from[] = {a, b};
    ts_combine(a, from, 2, 3, TS_COMPLEX64, TS_SUM);
    for (int i = 0; i < 6; i++) TS_EXPECT_NEAR(a[i], (i + 1) * 11, 0);
}

/* 256 + seven ones is 263, which bfloat16 rounds to 264; a chain in bfloat16 would stay at 256. */
TS_TEST(combine_rounds_once)
{
    uint16_t data[8];
    const void *from[8];
    for (int i = 0; i < 8; i++) {
        data[i] = ts_bf16_from_f32(i == 0 ? 256.0f : 1.0f);
        from[i] = &data[i];
    }
    ts_combine(data, from, 8, 1, TS_BFLOAT16, TS_SUM);
    TS_EXPECT_NEAR(ts_bf16_to_f32(data[0]), 264, 0);
}

TS_TEST(combine_keeps_nan_and_wraps)
{
    for (int isa = TS_ISA_REF; isa <= (int)ts_isa_best(); isa++) {
        static const float third[] = {[TS_SUM] = 5, [TS_PRODUCT] = 6, [TS_MIN] = 2, [TS_MAX] = 3};
        for (int op = TS_SUM; op <= TS_MAX; op++) {
            float a[3] = {NAN, 1, 2}, b[3] = {1, NAN, 3};
            const void *from[] = {a, b};
            ts_combine_with((ts_isa)isa, a, from, 2, 3, TS_FLOAT32, (ts_reduce_op)op);
            TS_EXPECT(isnan(a[0]) && isnan(a[1]));
            if (op != TS_AVG) TS_EXPECT_NEAR(a[2], third[op], 0);
        }
        int64_t c[1] = {INT64_MAX}, d[1] = {1};
        const void *ints[] = {c, d};
        ts_combine_with((ts_isa)isa, c, ints, 2, 1, TS_INT64, TS_SUM);
        TS_EXPECT(c[0] == INT64_MIN);
    }
}
