/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tables.h"

typedef float T;
#define GEMM_TABLE ts_gemm_f32_ref
#include "kernels/ref/gemm.inc"
