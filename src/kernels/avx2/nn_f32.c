/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/simd/vec_avx2.h"

#include "kernels/simd/vec_common.h"

#include "kernels/tables.h"

#include "kernels/simd/math.inc"

#include "kernels/simd/norm.inc"
#include "kernels/simd/softmax.inc"

#define NN_TABLE ts_nn_f32_avx2
#include "kernels/nn_table.inc"
