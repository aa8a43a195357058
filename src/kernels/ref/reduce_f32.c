/* SPDX-License-Identifier: Apache-2.0 */
#define T float
#define TABLE ts_reduce_f32_ref
#include "kernels/ref/reduce.inc"
