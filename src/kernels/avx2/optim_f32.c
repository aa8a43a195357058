/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/simd/vec_avx2.h"

#include "kernels/simd/vec_common.h"

#include "kernels/tables.h"

#define OPTIM_TABLE ts_optim_f32_avx2
#include "kernels/simd/optim.inc"
