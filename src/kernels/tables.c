/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of a family, by instruction set and dtype. */
#include "kernels/tables.h"

#include <stddef.h>

enum { f32, f64, i32, i64, NUM_COLUMNS };

/* The column of a dtype in every family's tables, -1 for dtypes that no family computes in. */
static int column_of(ts_dtype dtype)
{
    switch (dtype) {
    case TS_FLOAT32: return f32;
    case TS_FLOAT64: return f64;
    case TS_INT32: return i32;
    case TS_INT64: return i64;
    default: return -1;
    }
}

#define TABLE(family, dtype, isa) [dtype] = &ts_##family##_##dtype##_##isa,
#if defined(__x86_64__)
#define ROWS(family, dtypes)                                                                       \
    [TS_ISA_REF] = {dtypes(TABLE, family, ref)}, [TS_ISA_AVX2] = {dtypes(TABLE, family, avx2)},    \
    [TS_ISA_AVX512] = {dtypes(TABLE, family, avx512)}
#else
#define ROWS(family, dtypes) [TS_ISA_REF] = {dtypes(TABLE, family, ref)}
#endif

/* ts_FAMILY_kernels_of and ts_FAMILY_kernels_for, declared in the family's header. */
#define X(family, dtypes)                                                                          \
    static const ts_##family##_kernels *const family[TS_NUM_ISAS][NUM_COLUMNS] = {                 \
        ROWS(family, dtypes)};                                                                     \
                                                                                                   \
    const ts_##family##_kernels *ts_##family##_kernels_of(ts_dtype dtype, ts_isa isa)              \
    {                                                                                              \
        int column = column_of(dtype);                                                             \
        return column < 0 || isa > ts_isa_best() ? NULL : family[isa][column];                     \
    }                                                                                              \
                                                                                                   \
    const ts_##family##_kernels *ts_##family##_kernels_for(ts_dtype dtype)                         \
    {                                                                                              \
        return ts_##family##_kernels_of(dtype, ts_isa_in_use());                                   \
    }
TS_KERNEL_FAMILIES(X)
