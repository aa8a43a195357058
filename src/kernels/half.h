/* SPDX-License-Identifier: Apache-2.0 */
/* float16 and bfloat16 as bit patterns.  Rounding is to nearest even; NaN stays NaN (quiet). */
#ifndef TS_KERNELS_HALF_H
#define TS_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t ts_f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float ts_f32_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float ts_bf16_to_f32(uint16_t h) { return ts_f32_from_bits((uint32_t)h << 16); }

static inline uint16_t ts_bf16_from_f32(float value)
{
    uint32_t bits = ts_f32_bits(value);
    uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded);
}

/* The exponent moves by 112; subnormals are scaled by an exact multiplication. */
static inline float ts_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7FFF);
    uint32_t normal = (rest << 13) + (112u << 23);
    uint32_t special = rest << 13 | 0x7F800000 | (rest > 0x7C00 ? 0x400000u : 0);
    uint32_t small = ts_f32_bits((float)(int32_t)rest * 0x1p-24f);
    return ts_f32_from_bits(sign | (rest >= 0x7C00 ? special : rest < 0x400 ? small : normal));
}

/* Below the normal range the addition of 0.5 lets the hardware round at the right bit. */
static inline uint16_t ts_f16_from_f32(float value)
{
    uint32_t bits = ts_f32_bits(value);
    uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7FFFFFFF;
    uint32_t normal = (rest - (112u << 23) + 0xFFF + (rest >> 13 & 1)) >> 13;
    uint32_t small = ts_f32_bits(ts_f32_from_bits(rest) + 0.5f) - ts_f32_bits(0.5f);
    uint32_t quiet = 0x7E00 | (rest >> 13 & 0x3FF);
    uint32_t large = rest > 0x7F800000 ? quiet : 0x7C00;
    return (uint16_t)(sign | (rest >= 0x477FF000 ? large : rest < 0x38800000 ? small : normal));
}

/* float by rounding to odd: rounding the result once more to a narrower type, to nearest even, is
 * as good as rounding the double directly. */
static inline float ts_odd_f32(double value)
{
    float nearest = (float)value;
    uint32_t bits = ts_f32_bits(nearest);
    double back = nearest;
    uint32_t above = (value < 0 ? back < value : back > value) ? 1 : 0;
    uint32_t inexact = back != value && value == value ? 1 : 0;
    return ts_f32_from_bits((bits - above) | inexact);
}

/* double by rounding to odd, for integers that need more than 53 bits. */
static inline double ts_odd_f64(int64_t value)
{
    int64_t odd = (value & ~INT64_C(0xFFF)) | ((value & 0xFFF) != 0 ? 0x1000 : 0);
    int large = value > INT64_C(1) << 53 || value < -(INT64_C(1) << 53);
    return (double)(large ? odd : value);
}

#endif
