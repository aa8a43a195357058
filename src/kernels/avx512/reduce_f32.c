/* SPDX-License-Identifier: Apache-2.0 */
#define T float
#define TABLE ts_reduce_f32_avx512
#include "kernels/ref/reduce.inc"
