/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/elementwise.h"

#include <stddef.h>

#include "kernels/elementwise_tables.h"

enum { F32, F64, I32, I64, NUM_TABLES };

static const ts_elementwise_kernels *const tables[TS_NUM_ISAS][NUM_TABLES] = {
    [TS_ISA_REF] = {&ts_elementwise_f32_ref, &ts_elementwise_f64_ref, &ts_elementwise_i32_ref,
                    &ts_elementwise_i64_ref},
#if defined(__x86_64__)
    [TS_ISA_AVX2] = {&ts_elementwise_f32_avx2, &ts_elementwise_f64_avx2, &ts_elementwise_i32_avx2,
                     &ts_elementwise_i64_avx2},
    [TS_ISA_AVX512] = {&ts_elementwise_f32_avx512, &ts_elementwise_f64_avx512,
                       &ts_elementwise_i32_avx512, &ts_elementwise_i64_avx512},
#endif
};

const ts_elementwise_kernels *ts_elementwise_kernels_of(ts_dtype dtype, ts_isa isa)
{
    if (isa > ts_isa_best()) return NULL;
    switch (dtype) {
    case TS_FLOAT32: return tables[isa][F32];
    case TS_FLOAT64: return tables[isa][F64];
    case TS_INT32: return tables[isa][I32];
    case TS_INT64: return tables[isa][I64];
    default: return NULL;
    }
}

const ts_elementwise_kernels *ts_elementwise_kernels_for(ts_dtype dtype)
{
    return ts_elementwise_kernels_of(dtype, ts_isa_in_use());
}
