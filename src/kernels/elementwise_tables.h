/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of every instruction set that is compiled in. */
#ifndef TS_KERNELS_ELEMENTWISE_TABLES_H
#define TS_KERNELS_ELEMENTWISE_TABLES_H

#include "kernels/elementwise.h"

extern const ts_elementwise_kernels ts_elementwise_f32_ref, ts_elementwise_f64_ref;
extern const ts_elementwise_kernels ts_elementwise_i32_ref, ts_elementwise_i64_ref;
extern const ts_elementwise_kernels ts_elementwise_f32_avx2, ts_elementwise_f64_avx2;
extern const ts_elementwise_kernels ts_elementwise_i32_avx2, ts_elementwise_i64_avx2;
extern const ts_elementwise_kernels ts_elementwise_f32_avx512, ts_elementwise_f64_avx512;
extern const ts_elementwise_kernels ts_elementwise_i32_avx512, ts_elementwise_i64_avx512;

#endif
