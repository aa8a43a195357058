/* SPDX-License-Identifier: Apache-2.0 */
#define T int32_t
#define U uint32_t
#define LEAST INT32_MIN
#define MOST INT32_MAX
#define TABLE ts_elementwise_i32_avx512
#include "kernels/ref/elementwise_int.inc"
