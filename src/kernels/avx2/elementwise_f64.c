/* SPDX-License-Identifier: Apache-2.0 */
#define TS_F64
#include "kernels/simd/vec_avx2.h"

#include "kernels/simd/vec_common.h"

#include "kernels/simd/math.inc"

#include "kernels/simd/elementwise.inc"

#define FN(name) name
#define TABLE ts_elementwise_f64_avx2
#include "kernels/ref/elementwise_float.inc"
