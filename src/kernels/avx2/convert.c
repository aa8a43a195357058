/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between float32 and the 16-bit types, with the same bits as the plain ones. */
#include <immintrin.h>

#include "kernels/convert_impl.h"
#include "kernels/half.h"

static void f16_from_f32(void *to, const void *from, int64_t n)
{
    uint16_t *restrict y = to;
    const float *restrict x = from;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(y + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++) y[i] = ts_f16_from_f32(x[i]);
}

static void f32_from_f16(void *to, const void *from, int64_t n)
{
    float *restrict y = to;
    const uint16_t *restrict x = from;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
    for (; i < n; i++) y[i] = ts_f16_to_f32(x[i]);
}

static void bf16_from_f32(void *to, const void *from, int64_t n)
{
    uint16_t *restrict y = to;
    const float *restrict x = from;
    for (int64_t i = 0; i < n; i++) y[i] = ts_bf16_from_f32(x[i]);
}

static void f32_from_bf16(void *to, const void *from, int64_t n)
{
    float *restrict y = to;
    const uint16_t *restrict x = from;
    for (int64_t i = 0; i < n; i++) y[i] = ts_bf16_to_f32(x[i]);
}

ts_convert_fn ts_convert_avx2(ts_dtype to, ts_dtype from)
{
    if (to == TS_FLOAT16 && from == TS_FLOAT32) return f16_from_f32;
    if (to == TS_FLOAT32 && from == TS_FLOAT16) return f32_from_f16;
    if (to == TS_BFLOAT16 && from == TS_FLOAT32) return bf16_from_f32;
    if (to == TS_FLOAT32 && from == TS_BFLOAT16) return f32_from_bf16;
    return NULL;
}
