/* SPDX-License-Identifier: Apache-2.0 */
#define T double
#define FN(name) name
#define TABLE ts_elementwise_f64_avx2
#include "kernels/ref/elementwise_float.inc"
