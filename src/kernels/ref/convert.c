/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/convert.h"

#include <string.h>

#include "kernels/convert_impl.h"
#include "kernels/half.h"

/* Towards zero, beyond the range the limit, NaN 0.  limit: the first value above the range. */
#define SATURATE(name, type, low, high, limit)                                                     \
    static inline type name(double v)                                                              \
    {                                                                                              \
        return v != v ? 0 : v >= (limit) ? (high) : v <= (double)(low) ? (low) : (type)v;          \
    }
SATURATE(to_i8, int8_t, INT8_MIN, INT8_MAX, 128.0)
SATURATE(to_u8, uint8_t, 0, UINT8_MAX, 256.0)
SATURATE(to_i16, int16_t, INT16_MIN, INT16_MAX, 32768.0)
SATURATE(to_i32, int32_t, INT32_MIN, INT32_MAX, 2147483648.0)
SATURATE(to_i64, int64_t, INT64_MIN, INT64_MAX, 9223372036854775808.0)
#undef SATURATE

static inline uint16_t f16_of_f64(double v) { return ts_f16_from_f32(ts_odd_f32(v)); }
static inline uint16_t bf16_of_f64(double v) { return ts_bf16_from_f32(ts_odd_f32(v)); }
static inline uint16_t f16_of_i64(int64_t v) { return f16_of_f64(ts_odd_f64(v)); }
static inline uint16_t bf16_of_i64(int64_t v) { return bf16_of_f64(ts_odd_f64(v)); }

/* Floating sources; V is what LOAD gives. */
#define SATURATING(to) to_##to
#define WRAPPING_i8 (int8_t)
#define WRAPPING_u8 (uint8_t)
#define WRAPPING_i16 (int16_t)
#define WRAPPING_i32 (int32_t)
#define WRAPPING_i64 (int64_t)
#define WRAPPING(to) WRAPPING_##to

#define SOURCE f32
#define SOURCE_T float
#define LOAD(x) (x)
#define TO_F16 ts_f16_from_f32
#define TO_BF16 ts_bf16_from_f32
#define TO_INT SATURATING
#include "kernels/ref/convert.inc"

#define SOURCE f64
#define SOURCE_T double
#define LOAD(x) (x)
#define TO_F16 f16_of_f64
#define TO_BF16 bf16_of_f64
#define TO_INT SATURATING
#include "kernels/ref/convert.inc"

#define SOURCE f16
#define SOURCE_T uint16_t
#define LOAD(x) ts_f16_to_f32(x)
#define TO_F16 ts_f16_from_f32
#define TO_BF16 ts_bf16_from_f32
#define TO_INT SATURATING
#include "kernels/ref/convert.inc"

#define SOURCE bf16
#define SOURCE_T uint16_t
#define LOAD(x) ts_bf16_to_f32(x)
#define TO_F16 ts_f16_from_f32
#define TO_BF16 ts_bf16_from_f32
#define TO_INT SATURATING
#include "kernels/ref/convert.inc"

#define SOURCE i8
#define SOURCE_T int8_t
#define LOAD(x) (x)
#define TO_F16 ts_f16_from_f32
#define TO_BF16 ts_bf16_from_f32
#define TO_INT WRAPPING
#include "kernels/ref/convert.inc"

#define SOURCE u8
#define SOURCE_T uint8_t
#define LOAD(x) (x)
#define TO_F16 ts_f16_from_f32
#define TO_BF16 ts_bf16_from_f32
#define TO_INT WRAPPING
#include "kernels/ref/convert.inc"

#define SOURCE i16
#define SOURCE_T int16_t
#define LOAD(x) (x)
#define TO_F16 ts_f16_from_f32
#define TO_BF16 ts_bf16_from_f32
#define TO_INT WRAPPING
#include "kernels/ref/convert.inc"

#define SOURCE i32
#define SOURCE_T int32_t
#define LOAD(x) (x)
#define TO_F16 f16_of_f64
#define TO_BF16 bf16_of_f64
#define TO_INT WRAPPING
#include "kernels/ref/convert.inc"

#define SOURCE i64
#define SOURCE_T int64_t
#define LOAD(x) (x)
#define TO_F16 f16_of_i64
#define TO_BF16 bf16_of_i64
#define TO_INT WRAPPING
#include "kernels/ref/convert.inc"

#define SOURCE bool8
#define SOURCE_T uint8_t
#define LOAD(x) ((uint8_t)((x) != 0))
#define TO_F16 ts_f16_from_f32
#define TO_BF16 ts_bf16_from_f32
#define TO_INT WRAPPING
#include "kernels/ref/convert.inc"

static void copy1(void *to, const void *from, int64_t n) { memcpy(to, from, (size_t)n); }
static void copy2(void *to, const void *from, int64_t n) { memcpy(to, from, (size_t)n * 2); }
static void copy4(void *to, const void *from, int64_t n) { memcpy(to, from, (size_t)n * 4); }
static void copy8(void *to, const void *from, int64_t n) { memcpy(to, from, (size_t)n * 8); }
static void copy16(void *to, const void *from, int64_t n) { memcpy(to, from, (size_t)n * 16); }

/* A row: from one dtype to every real one, in the order of TS_DTYPES. */
#define ROW(s)                                                                                     \
    {                                                                                              \
        s##_f32, s##_f64, s##_f16, s##_bf16, s##_i8, s##_u8, s##_i16, s##_i32, s##_i64, s##_bool8  \
    }
enum { REAL = TS_BOOL + 1 };
static const ts_convert_fn table[REAL][REAL] = {ROW(f32), ROW(f64),  ROW(f16), ROW(bf16),
                                                ROW(i8),  ROW(u8),   ROW(i16), ROW(i32),
                                                ROW(i64), ROW(bool8)};

static ts_convert_fn copy_of_size(size_t size)
{
    return size == 1 ? copy1 : size == 2 ? copy2 : size == 4 ? copy4 : size == 8 ? copy8 : copy16;
}

ts_convert_fn ts_convert_ref(ts_dtype to, ts_dtype from)
{
    if (to == from) return copy_of_size(ts_dtype_size(to));
    return (int)to < REAL && (int)from < REAL ? table[from][to] : NULL;
}
