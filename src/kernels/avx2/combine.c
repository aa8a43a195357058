/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <stdint.h>

static void load_half(float *to, const uint16_t *from, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
    for (; i < n; i++) to[i] = _cvtsh_ss(from[i]);
}

static void store_half(uint16_t *to, const float *from, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++) to[i] = (uint16_t)_cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
}

#define TABLE ts_combine_avx2
#include "kernels/combine_types.inc"
