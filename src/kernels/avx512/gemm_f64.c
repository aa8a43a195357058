/* SPDX-License-Identifier: Apache-2.0 */
#define TS_F64
#include "kernels/simd/vec_avx512.h"

#include "kernels/simd/vec_common.h"

#include "kernels/tables.h"

enum { MR = 8 };
#define GEMM_TABLE ts_gemm_f64_avx512
#include "kernels/simd/gemm.inc"
