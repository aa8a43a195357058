/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of every instruction set that is compiled in. */
#ifndef TS_KERNELS_GEMM_TABLES_H
#define TS_KERNELS_GEMM_TABLES_H

#include "kernels/gemm.h"

extern const ts_gemm_kernels ts_gemm_f32_ref, ts_gemm_f64_ref;
extern const ts_gemm_kernels ts_gemm_f32_avx2, ts_gemm_f64_avx2;
extern const ts_gemm_kernels ts_gemm_f32_avx512, ts_gemm_f64_avx512;

#endif
