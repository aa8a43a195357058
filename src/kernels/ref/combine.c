/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/half.h"

static void load_half(float *to, const uint16_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = ts_f16_to_f32(from[i]);
}

static void store_half(uint16_t *to, const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = ts_f16_from_f32(from[i]);
}

#define TABLE ts_combine_ref
#include "kernels/combine_types.inc"
