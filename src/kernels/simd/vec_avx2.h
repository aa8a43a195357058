/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of TS_LANES numbers in AVX2 with FMA.  TS_F64 chooses the element type. */
#include <immintrin.h>
#include <stdint.h>

typedef __m256d D; /* doubles */
#ifdef TS_F64
typedef double T;
typedef __m256d V;
#define TS_LANES 4
#define PD(name) _mm256_##name##_pd
static inline __m256i lane_mask(int n)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
#define MASK_AS_V(mask) _mm256_castsi256_pd(mask)
#else
typedef float T;
typedef __m256 V;
#define TS_LANES 8
#define PD(name) _mm256_##name##_ps
static inline __m256i lane_mask(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#define MASK_AS_V(mask) _mm256_castsi256_ps(mask)
#endif

static inline V v_set(T x) { return PD(set1)(x); }
static inline V v_load(const T *p) { return PD(loadu)(p); }
static inline void v_store(T *p, V a) { PD(storeu)(p, a); }
/* The first n lanes, 0 in the others; n from 0 to TS_LANES. */
static inline V v_load_n(const T *p, int n) { return PD(maskload)(p, lane_mask(n)); }
static inline void v_store_n(T *p, V a, int n) { PD(maskstore)(p, lane_mask(n), a); }
static inline V v_fma(V a, V b, V c) { return PD(fmadd)(a, b, c); }   /* a b + c */
static inline V v_fnma(V a, V b, V c) { return PD(fnmadd)(a, b, c); } /* c - a b */
static inline V v_sqrt(V a) { return PD(sqrt)(a); }
/* The second one if either is NaN. */
static inline V v_max(V a, V b) { return PD(max)(a, b); }
static inline V v_min(V a, V b) { return PD(min)(a, b); }
static inline V v_abs(V a) { return PD(andnot)(v_set((T)-0.0), a); }
static inline V v_round(V a) { return PD(round)(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline V v_where_negative(V a, V yes, V no)
{
    return PD(blendv)(no, yes, PD(cmp)(a, v_set(0), _CMP_LT_OQ));
}
static inline V v_first_n(V a, V rest, int n)
{
    return PD(blendv)(rest, a, MASK_AS_V(lane_mask(n)));
}

/* a 2^n for whole n, in two factors so that results near the ends of the range stay right. */
#ifdef TS_F64
static inline V v_power_of_2(V n)
{
    __m256i i = _mm256_castpd_si256(_mm256_add_pd(n, v_set(6755399441055744.0 + 1023.0)));
    return _mm256_castsi256_pd(_mm256_slli_epi64(i, 52));
}
#else
static inline V v_power_of_2(V n)
{
    __m256i i = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(i, 23));
}
#endif
static inline V v_ldexp(V a, V n)
{
    V half = v_round(n * v_set((T)0.5));
    return a * v_power_of_2(half) * v_power_of_2(n - half);
}

#ifndef TS_F64
/* Of positive normal numbers: x = mantissa 2^exponent, 1 <= mantissa < 2. */
static inline V v_exponent(V x)
{
    __m256i bits = _mm256_srli_epi32(_mm256_castps_si256(x), 23);
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(bits, _mm256_set1_epi32(127)));
}
static inline V v_mantissa(V x)
{
    __m256i fraction = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7FFFFF));
    return _mm256_castsi256_ps(_mm256_or_si256(fraction, _mm256_set1_epi32(0x3F800000)));
}
#endif

/* Halves widened to double; of doubles themselves, the vector and zeros. */
#ifdef TS_F64
static inline D v_wide_low(V a) { return a; }
static inline D v_wide_high(V a) { return a - a; }
#else
static inline D v_wide_low(V a) { return _mm256_cvtps_pd(_mm256_castps256_ps128(a)); }
static inline D v_wide_high(V a) { return _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1)); }
#endif

/* Lanes to one number by a fixed tree.  largest passes over NaN or gives it. */
#ifdef TS_F64
#define LANES_BY(name, combine, combine_one)                                                       \
    static inline T name(V a)                                                                      \
    {                                                                                              \
        __m128d x = combine(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));               \
        return _mm_cvtsd_f64(combine_one(x, _mm_unpackhi_pd(x, x)));                               \
    }
LANES_BY(v_sum, _mm_add_pd, _mm_add_sd)
LANES_BY(v_largest, _mm_max_pd, _mm_max_sd)
#else
#define LANES_BY(name, combine, combine_one)                                                       \
    static inline T name(V a)                                                                      \
    {                                                                                              \
        __m128 x = combine(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));                \
        x = combine(x, _mm_movehl_ps(x, x));                                                       \
        return _mm_cvtss_f32(combine_one(x, _mm_shuffle_ps(x, x, 1)));                             \
    }
LANES_BY(v_sum, _mm_add_ps, _mm_add_ss)
LANES_BY(v_largest, _mm_max_ps, _mm_max_ss)
#endif
#undef LANES_BY
