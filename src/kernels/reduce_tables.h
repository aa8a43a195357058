/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of every instruction set that is compiled in. */
#ifndef TS_KERNELS_REDUCE_TABLES_H
#define TS_KERNELS_REDUCE_TABLES_H

#include "kernels/reduce.h"

extern const ts_reduce_kernels ts_reduce_f32_ref, ts_reduce_f64_ref;
extern const ts_reduce_kernels ts_reduce_f32_avx2, ts_reduce_f64_avx2;
extern const ts_reduce_kernels ts_reduce_f32_avx512, ts_reduce_f64_avx512;

#endif
