/* SPDX-License-Identifier: Apache-2.0 */
#define T double
#define TABLE ts_reduce_f64_avx2
#include "kernels/ref/reduce.inc"
