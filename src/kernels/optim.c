/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/optim.h"

#include <stddef.h>

#include "kernels/optim_tables.h"

static const ts_optim_kernels *const tables[TS_NUM_ISAS][2] = {
    [TS_ISA_REF] = {&ts_optim_f32_ref, &ts_optim_f64_ref},
#if defined(__x86_64__)
    [TS_ISA_AVX2] = {&ts_optim_f32_avx2, &ts_optim_f64_avx2},
    [TS_ISA_AVX512] = {&ts_optim_f32_avx512, &ts_optim_f64_avx512},
#endif
};

const ts_optim_kernels *ts_optim_kernels_of(ts_dtype dtype, ts_isa isa)
{
    if (isa > ts_isa_best() || (dtype != TS_FLOAT32 && dtype != TS_FLOAT64)) return NULL;
    return tables[isa][dtype == TS_FLOAT64];
}

const ts_optim_kernels *ts_optim_kernels_for(ts_dtype dtype)
{
    return ts_optim_kernels_of(dtype, ts_isa_in_use());
}
