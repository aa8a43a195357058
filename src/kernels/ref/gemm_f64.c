/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tables.h"

typedef double T;
#define GEMM_TABLE ts_gemm_f64_ref
#include "kernels/ref/gemm.inc"
