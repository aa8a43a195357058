/* SPDX-License-Identifier: Apache-2.0 */
#define T float
#define FN(name) name##f
#define TABLE ts_elementwise_f32_avx512
#include "kernels/ref/elementwise_float.inc"
