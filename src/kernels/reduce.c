/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/reduce.h"

#include <stddef.h>

#include "kernels/reduce_tables.h"

static const ts_reduce_kernels *const tables[TS_NUM_ISAS][2] = {
    [TS_ISA_REF] = {&ts_reduce_f32_ref, &ts_reduce_f64_ref},
#if defined(__x86_64__)
    [TS_ISA_AVX2] = {&ts_reduce_f32_avx2, &ts_reduce_f64_avx2},
    [TS_ISA_AVX512] = {&ts_reduce_f32_avx512, &ts_reduce_f64_avx512},
#endif
};

const ts_reduce_kernels *ts_reduce_kernels_of(ts_dtype dtype, ts_isa isa)
{
    if (isa > ts_isa_best() || (dtype != TS_FLOAT32 && dtype != TS_FLOAT64)) return NULL;
    return tables[isa][dtype == TS_FLOAT64];
}

const ts_reduce_kernels *ts_reduce_kernels_for(ts_dtype dtype)
{
    return ts_reduce_kernels_of(dtype, ts_isa_in_use());
}
