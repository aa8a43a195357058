/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/simd/vec_avx2.h"

#include "kernels/simd/vec_common.h"

#include "kernels/tables.h"

enum { MR = 6 };
#define GEMM_TABLE ts_gemm_f32_avx2
#include "kernels/simd/gemm.inc"
