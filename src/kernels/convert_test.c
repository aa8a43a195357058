/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/convert.h"

#include <stdlib.h>

#include "kernels/convert_impl.h"
#include "kernels/half.h"
#include "kernels/isa.h"
#include "test.h"

/* A 16-bit format, for the slow reference. */
typedef struct format {
    int digits, min_exponent; /* of the significand; of the smallest normal number */
    double largest;
} format;
static const format f16 = {11, -14, 65504}, bf16 = {8, -126, 0x1.FEp127};

/* Rounds by looking at the distance to the multiples of the last place, ties to the even one. */
static double slow_round(double value, format f)
{
    if (value == 0 || !isfinite(value)) return value;
    int exponent;
    frexp(value, &exponent);
    if (exponent - 1 < f.min_exponent) exponent = f.min_exponent + 1;
    double ulp = ldexp(1, exponent - f.digits);
    double below = floor(value / ulp) * ulp, above = below + ulp;
    double to_below = value - below, to_above = above - value;
    double odd = fmod(fabs(below / ulp), 2);
    double rounded = to_below < to_above || (to_below == to_above && odd == 0) ? below : above;
    return copysign(fabs(rounded) > f.largest ? INFINITY : rounded, value);
}

TS_TEST(convert_all_16_bit_patterns_round_trip)
{
    static uint16_t all[65536], back[65536];
    static float wide[65536];
    static double f64[65536];
    for (int i = 0; i < 65536; i++) all[i] = (uint16_t)i;
    const ts_dtype dtypes[] = {TS_FLOAT16, TS_BFLOAT16};
    for (int d = 0; d < 2; d++) {
        uint32_t infinity = d == 0 ? 0x7C00 : 0x7F80, quiet = d == 0 ? 0x200 : 0x40;
        ts_kernel_convert(TS_FLOAT32, dtypes[d])(wide, all, 65536);
        ts_kernel_convert(dtypes[d], TS_FLOAT32)(back, wide, 65536);
        ts_kernel_convert(TS_FLOAT64, dtypes[d])(f64, all, 65536);
        for (uint32_t i = 0; i < 65536; i++) {
            bool nan = (i & 0x7FFF) > infinity;
            TS_EXPECT_INT(isnan(wide[i]), nan);
            TS_EXPECT_INT(back[i] | quiet * nan, i | quiet * nan);
            if (!nan) TS_EXPECT(f64[i] == (double)wide[i]);
        }
        ts_kernel_convert(dtypes[d], TS_FLOAT64)(back, f64, 65536);
        for (uint32_t i = 0; i < 65536; i++)
            if ((i & 0x7FFF) <= infinity) TS_EXPECT_INT(back[i], i);
    }
    TS_EXPECT_NEAR(ts_f16_to_f32(0x3555), 0.333251953125, 0);
    TS_EXPECT_NEAR(ts_f16_to_f32(0x0001), 0x1p-24, 0);
    TS_EXPECT_NEAR(ts_f16_to_f32(0xFBFF), -65504, 0);
}

static float to_16_and_back(ts_dtype dtype, ts_dtype from, const void *value)
{
    uint16_t half;
    float wide;
    ts_kernel_convert(dtype, from)(&half, value, 1);
    ts_kernel_convert(TS_FLOAT32, dtype)(&wide, &half, 1);
    return wide;
}

static bool same(float a, double b)
{
    return (isnan(a) && isnan(b)) || ((double)a == b && !signbit(a) == !signbit(b));
}

TS_TEST(convert_rounds_to_nearest_even_as_the_slow_reference)
{
    uint32_t state = 12345;
    for (int i = 0; i < 200000; i++) {
        state = state * 1664525u + 1013904223u;
        uint32_t bits = state;
        if (i % 4 == 1) bits = (bits & 0xFFFFE000u) | 0x1000;     /* halfway for float16 */
        if (i % 4 == 2) bits = (bits & 0xFFFF0000u) | 0x8000;     /* halfway for bfloat16 */
        if (i % 8 >= 4) bits = (bits & 0x8FFFFFFFu) | 0x30000000; /* the range of float16 */
        float value = ts_f32_from_bits(bits);
        double exact = isnan(value) ? NAN : (double)value;
        TS_EXPECT(same(to_16_and_back(TS_FLOAT16, TS_FLOAT32, &value), slow_round(exact, f16)));
        TS_EXPECT(same(to_16_and_back(TS_BFLOAT16, TS_FLOAT32, &value), slow_round(exact, bf16)));
    }
}

/* Values whose float32 neighbour lies on a tie: rounding twice would go the wrong way. */
TS_TEST(convert_rounds_once_from_wide_types)
{
    for (int i = 0; i < 2000; i++) {
        double tie16 = 1 + (2 * i + 1) * 0x1p-11, tie_b = 1 + (2 * i + 1) * 0x1p-8;
        for (int sign = -1; sign <= 1; sign++) {
            double value = tie16 + sign * 0x1p-40, value_b = tie_b + sign * 0x1p-40;
            TS_EXPECT(same(to_16_and_back(TS_FLOAT16, TS_FLOAT64, &value), slow_round(value, f16)));
            TS_EXPECT(
                same(to_16_and_back(TS_BFLOAT16, TS_FLOAT64, &value_b), slow_round(value_b, bf16)));
        }
    }
    for (int shift = 9; shift < 62; shift++) {
        for (int64_t delta = -1; delta <= 1; delta++) {
            int64_t value = (INT64_C(257) << (shift - 8)) + (shift > 9 ? delta : 0);
            double nudged = ldexp(257, shift - 8) * (1 + (shift > 9 ? (double)delta : 0) * 0x1p-30);
            TS_EXPECT(
                same(to_16_and_back(TS_BFLOAT16, TS_INT64, &value), slow_round(nudged, bf16)));
            value = -value;
            TS_EXPECT(
                same(to_16_and_back(TS_BFLOAT16, TS_INT64, &value), slow_round(-nudged, bf16)));
        }
    }
    int32_t above_tie = (257 << 20) + 1;
    TS_EXPECT_NEAR(to_16_and_back(TS_BFLOAT16, TS_INT32, &above_tie), 258 << 20, 0);
    const double extremes[] = {1e300,        -1e300,  1e-300, -1e-300,  INFINITY, -INFINITY,
                               NAN,          0.0,     -0.0,   65519.99, 65520,    0x1p-25,
                               0x1.0001p-25, 0x1p-24, 3.4e38, 3.3961e38};
    for (size_t i = 0; i < sizeof extremes / sizeof *extremes; i++) {
        TS_EXPECT(same(to_16_and_back(TS_FLOAT16, TS_FLOAT64, &extremes[i]),
                       slow_round(extremes[i], f16)));
        TS_EXPECT(same(to_16_and_back(TS_BFLOAT16, TS_FLOAT64, &extremes[i]),
                       slow_round(extremes[i], bf16)));
    }
}

TS_TEST(convert_floating_to_integer_saturates)
{
    static const struct {
        double value;
        int64_t i8, u8, i16, i32, i64;
        bool truth;
    } known[] = {
        {NAN, 0, 0, 0, 0, 0, true},
        {INFINITY, 127, 255, 32767, INT32_MAX, INT64_MAX, true},
        {-INFINITY, -128, 0, -32768, INT32_MIN, INT64_MIN, true},
        {-1.9, -1, 0, -1, -1, -1, true},
        {0.9, 0, 0, 0, 0, 0, true},
        {-0.0, 0, 0, 0, 0, 0, false},
        {127.5, 127, 127, 127, 127, 127, true},
        {-128.5, -128, 0, -128, -128, -128, true},
        {300, 127, 255, 300, 300, 300, true},
        {4294967296.0, 127, 255, 32767, INT32_MAX, INT64_C(4294967296), true},
        {-9.3e18, -128, 0, -32768, INT32_MIN, INT64_MIN, true},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (int narrow = 0; narrow < 2; narrow++) {
            float f32 = (float)known[i].value;
            const void *from = narrow ? (const void *)&f32 : &known[i].value;
            ts_dtype dtype = narrow ? TS_FLOAT32 : TS_FLOAT64;
            int8_t i8;
            uint8_t u8, truth;
            int16_t i16;
            int32_t i32;
            int64_t i64;
            ts_kernel_convert(TS_INT8, dtype)(&i8, from, 1);
            ts_kernel_convert(TS_UINT8, dtype)(&u8, from, 1);
            ts_kernel_convert(TS_INT16, dtype)(&i16, from, 1);
            ts_kernel_convert(TS_INT32, dtype)(&i32, from, 1);
            ts_kernel_convert(TS_INT64, dtype)(&i64, from, 1);
            ts_kernel_convert(TS_BOOL, dtype)(&truth, from, 1);
            TS_EXPECT_INT(i8, known[i].i8);
            TS_EXPECT_INT(u8, known[i].u8);
            TS_EXPECT_INT(i16, known[i].i16);
            TS_EXPECT_INT(i32, known[i].i32);
            TS_EXPECT_INT(i64, known[i].i64);
            TS_EXPECT_INT(truth, known[i].truth);
        }
}

TS_TEST(convert_between_integers_and_bool)
{
    int64_t wide = INT64_C(0x1234567890ABCDEF);
    int32_t i32;
    int8_t i8;
    uint8_t byte = 7, truth;
    float f32;
    ts_kernel_convert(TS_INT32, TS_INT64)(&i32, &wide, 1);
    ts_kernel_convert(TS_INT8, TS_INT64)(&i8, &wide, 1);
    TS_EXPECT_INT(i32, (int32_t)0x90ABCDEF);
    TS_EXPECT_INT(i8, (int8_t)0xEF);
    ts_kernel_convert(TS_BOOL, TS_INT64)(&truth, &wide, 1);
    TS_EXPECT_INT(truth, 1);
    ts_kernel_convert(TS_FLOAT32, TS_BOOL)(&f32, &byte, 1); /* any byte but 0 is true */
    TS_EXPECT_NEAR(f32, 1, 0);
    TS_EXPECT(ts_kernel_convert(TS_COMPLEX64, TS_FLOAT32) == NULL);
    TS_EXPECT(ts_kernel_convert(TS_FLOAT32, TS_COMPLEX128) == NULL);
    TS_EXPECT(ts_kernel_convert(TS_COMPLEX64, TS_COMPLEX64) != NULL);
}

#if defined(__x86_64__)
TS_TEST(convert_avx2_gives_the_bits_of_the_plain_loops)
{
    if (ts_isa_best() < TS_ISA_AVX2) ts_test_skip(test, "no AVX2 here");
    enum { N = 65536 + 5 };
    static uint32_t from[N];
    static uint32_t plain[N], fast[N];
    uint32_t state = 99;
    for (int i = 0; i < N; i++) {
        state = state * 1664525u + 1013904223u;
        from[i] = i % 2 ? state : (state & 0xBFFFFFFFu) | 0x30000000;
    }
    for (int d = 0; d < TS_NUM_DTYPES; d++)
        for (int s = 0; s < TS_NUM_DTYPES; s++) {
            ts_convert_fn convert = ts_convert_avx2((ts_dtype)d, (ts_dtype)s);
            if (!convert) continue;
            size_t bytes = N * ts_dtype_size((ts_dtype)d);
            convert(fast, from, N);
            ts_convert_ref((ts_dtype)d, (ts_dtype)s)(plain, from, N);
            TS_EXPECT(memcmp(plain, fast, bytes) == 0);
        }
}
#endif

TS_TEST(copy_and_fill_lines_with_any_step)
{
    for (size_t size = 1; size <= 16; size *= 2) {
        char from[16 * 20], to[16 * 20], value[16];
        for (size_t i = 0; i < sizeof from; i++) from[i] = (char)i;
        memset(value, 'v', sizeof value);
        memset(to, 0, sizeof to);
        ts_kernel_copy_line(to, 3, from, 2, 5, size);
        for (size_t i = 0; i < 5; i++)
            TS_EXPECT(memcmp(to + 3 * i * size, from + 2 * i * size, size) == 0);
        ts_kernel_copy_line(to, 1, from, 0, 5, size);
        for (size_t i = 0; i < 5; i++) TS_EXPECT(memcmp(to + i * size, from, size) == 0);
        memset(to, 0, sizeof to);
        ts_kernel_fill_line(to, 2, value, 4, size);
        for (size_t i = 0; i < 8 * size; i++) TS_EXPECT_INT(to[i], (i / size) % 2 ? 0 : 'v');
    }
}
