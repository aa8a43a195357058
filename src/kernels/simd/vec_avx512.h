/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of TS_LANES numbers in AVX-512.  TS_F64 chooses the element type. */
#include <immintrin.h>

typedef __m512d D; /* doubles */
#ifdef TS_F64
typedef double T;
typedef __m512d V;
#define TS_LANES 8
#define PD(name) _mm512_##name##_pd
#define LANE_MASK(n) ((__mmask8)((1u << (n)) - 1))
#else
typedef float T;
typedef __m512 V;
#define TS_LANES 16
#define PD(name) _mm512_##name##_ps
#define LANE_MASK(n) ((__mmask16)((1u << (n)) - 1))
#endif

static inline V v_set(T x) { return PD(set1)(x); }
static inline V v_load(const T *p) { return PD(loadu)(p); }
static inline void v_store(T *p, V a) { PD(storeu)(p, a); }
/* The first n lanes, 0 in the others; n from 0 to TS_LANES. */
static inline V v_load_n(const T *p, int n) { return PD(maskz_loadu)(LANE_MASK(n), p); }
static inline void v_store_n(T *p, V a, int n) { PD(mask_storeu)(p, LANE_MASK(n), a); }
static inline V v_fma(V a, V b, V c) { return PD(fmadd)(a, b, c); }   /* a b + c */
static inline V v_fnma(V a, V b, V c) { return PD(fnmadd)(a, b, c); } /* c - a b */
static inline V v_sqrt(V a) { return PD(sqrt)(a); }
/* The second one if either is NaN. */
static inline V v_max(V a, V b) { return PD(max)(a, b); }
static inline V v_min(V a, V b) { return PD(min)(a, b); }
static inline V v_abs(V a) { return PD(abs)(a); }
static inline V v_round(V a) { return PD(roundscale)(a, _MM_FROUND_TO_NEAREST_INT); }
static inline V v_ldexp(V a, V n) { return PD(scalef)(a, n); } /* a 2^n, n whole */
#ifdef TS_F64
static inline V v_where_negative(V a, V yes, V no)
{
    return _mm512_mask_blend_pd(_mm512_cmp_pd_mask(a, v_set(0), _CMP_LT_OQ), no, yes);
}
static inline V v_first_n(V a, V rest, int n)
{
    return _mm512_mask_blend_pd(LANE_MASK(n), rest, a);
}
#else
static inline V v_where_negative(V a, V yes, V no)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, v_set(0), _CMP_LT_OQ), no, yes);
}
static inline V v_first_n(V a, V rest, int n)
{
    return _mm512_mask_blend_ps(LANE_MASK(n), rest, a);
}
#endif

#ifndef TS_F64
/* Of positive normal numbers: x = mantissa 2^exponent, 1 <= mantissa < 2. */
static inline V v_exponent(V x) { return _mm512_getexp_ps(x); }
static inline V v_mantissa(V x)
{
    return _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
}
#endif

/* Halves widened to double; of doubles themselves, the vector and zeros. */
#ifdef TS_F64
static inline D v_wide_low(V a) { return a; }
static inline D v_wide_high(V a) { return a - a; }
#else
static inline D v_wide_low(V a) { return _mm512_cvtps_pd(_mm512_castps512_ps256(a)); }
static inline D v_wide_high(V a) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1)); }
#endif

/* Lanes to one number by a fixed tree.  largest passes over NaN or gives it. */
static inline T v_sum(V a) { return PD(reduce_add)(a); }
static inline T v_largest(V a) { return PD(reduce_max)(a); }
