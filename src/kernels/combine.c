/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of the reduction kernel by dtype and instruction set. */
#include "kernels/combine.h"

bool ts_combine_allows(ts_dtype dtype, ts_reduce_op op)
{
    bool sum = op == TS_SUM || op == TS_AVG;
    if (op < TS_SUM || op > TS_BXOR) return false;
    if (dtype == TS_COMPLEX64 || dtype == TS_COMPLEX128) return sum;
    if (dtype == TS_BOOL) return op != TS_AVG;
    return op < TS_BAND || !ts_dtype_is_floating(dtype);
}

void ts_combine_with(ts_isa isa, void *to, const void *const *from, int n, int64_t count,
                     ts_dtype dtype, ts_reduce_op op)
{
    if (dtype == TS_COMPLEX64 || dtype == TS_COMPLEX128) {
        dtype = dtype == TS_COMPLEX64 ? TS_FLOAT32 : TS_FLOAT64;
        count *= 2;
    }
#if defined(__x86_64__)
    if (isa != TS_ISA_REF) {
        ts_combine_avx2[dtype](to, from, n, count, op);
        return;
    }
#endif
    (void)isa;
    ts_combine_ref[dtype](to, from, n, count, op);
}

void ts_combine(void *to, const void *const *from, int n, int64_t count, ts_dtype dtype,
                ts_reduce_op op)
{
    ts_combine_with(ts_isa_in_use(), to, from, n, count, dtype, op);
}
