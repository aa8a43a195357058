/* SPDX-License-Identifier: Apache-2.0 */
/* What is the same for every instruction set.  Include after vec_<isa>.h. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* For functions of a vector, which are large but must not be called in a loop. */
#define V_INLINE static inline __attribute__((always_inline))

/* A whole vector, or the rest of an array when fewer than TS_LANES are left. */
static inline V v_get(const T *p, int64_t left)
{
    return left >= TS_LANES ? v_load(p) : v_load_n(p, (int)left);
}

static inline void v_put(T *p, V a, int64_t left)
{
    if (left >= TS_LANES)
        v_store(p, a);
    else
        v_store_n(p, a, (int)left);
}

/* Lanes by a fixed tree. */
static inline double d_sum(D a)
{
    enum { LANES = sizeof(D) / sizeof(double) };
    double lane[LANES];
    for (int i = 0; i < LANES; i++) lane[i] = a[i];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];
    return lane[0];
}
