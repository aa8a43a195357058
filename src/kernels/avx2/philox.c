/* SPDX-License-Identifier: Apache-2.0 */
/* Four blocks per vector, one in each 64-bit lane.  The 32 x 32 bit product reads the lower half of
 * a lane only, so nothing needs to clear the upper half before the end. */
#include <immintrin.h>

#include "kernels/philox_impl.h"

enum { CHAINS = 4 }; /* independent vectors hide the latency of the product */

typedef struct words {
    __m256i a[CHAINS], b[CHAINS], c[CHAINS], d[CHAINS];
} words;

static inline void start(words *w, uint64_t first, uint32_t stream)
{
    const __m256i lane = _mm256_set_epi64x(3, 2, 1, 0);
    for (int i = 0; i < CHAINS; i++) {
        __m256i block =
            _mm256_add_epi64(_mm256_set1_epi64x((long long)(first + 4 * (uint64_t)i)), lane);
        w->a[i] = block;
        w->b[i] = _mm256_srli_epi64(block, 32);
        w->c[i] = _mm256_set1_epi64x(stream);
        w->d[i] = _mm256_setzero_si256();
    }
}

static inline void ten_rounds(words *w, uint64_t seed)
{
    const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const __m256i k0 = _mm256_set1_epi64x(key0), k1 = _mm256_set1_epi64x(key1);
        for (int i = 0; i < CHAINS; i++) {
            __m256i x = _mm256_mul_epu32(w->a[i], m0), y = _mm256_mul_epu32(w->c[i], m1);
            w->a[i] = _mm256_xor_si256(_mm256_srli_epi64(y, 32), _mm256_xor_si256(w->b[i], k0));
            w->c[i] = _mm256_xor_si256(_mm256_srli_epi64(x, 32), _mm256_xor_si256(w->d[i], k1));
            w->b[i] = y;
            w->d[i] = x;
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

/* Words a, b, c, d of a block lie side by side. */
static inline void store(uint32_t *out, const words *w)
{
    for (int i = 0; i < CHAINS; i++, out += 16) {
        __m256i ab = _mm256_blend_epi32(w->a[i], _mm256_slli_epi64(w->b[i], 32), 0xAA);
        __m256i cd = _mm256_blend_epi32(w->c[i], _mm256_slli_epi64(w->d[i], 32), 0xAA);
        __m256i even = _mm256_unpacklo_epi64(ab, cd), odd = _mm256_unpackhi_epi64(ab, cd);
        _mm256_storeu_si256((__m256i *)(void *)out, _mm256_permute2x128_si256(even, odd, 0x20));
        _mm256_storeu_si256((__m256i *)(void *)(out + 8),
                            _mm256_permute2x128_si256(even, odd, 0x31));
    }
}

void ts_philox_batch_avx2(uint32_t *out, uint64_t seed, uint64_t first, uint32_t stream)
{
    for (int at = 0; at < TS_PHILOX_BATCH; at += 4 * CHAINS) {
        words w;
        start(&w, first + (uint64_t)at, stream);
        ten_rounds(&w, seed);
        store(out + 4 * at, &w);
    }
}
