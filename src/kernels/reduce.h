/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of contiguous lines.  Sums accumulate in double, in 16 lanes that are added by a fixed
 * tree. */
#ifndef TS_KERNELS_REDUCE_H
#define TS_KERNELS_REDUCE_H

#include <stdint.h>
#include <tessera/dtype.h>

#include "kernels/isa.h"

typedef struct ts_reduce_kernels {
    double (*sum)(const void *x, int64_t n);
    void (*add_to)(double *sums, const void *x, int64_t n); /* sums[i] += x[i] */
    /* n > 0.  NaN if any element is. */
    double (*max)(const void *x, int64_t n);
    double (*min)(const void *x, int64_t n);
    double (*sum_pow)(const void *x, int64_t n, double p); /* of |x|^p */
} ts_reduce_kernels;

/* The table in use for float32 or float64; NULL for other dtypes. */
const ts_reduce_kernels *ts_reduce_kernels_for(ts_dtype dtype);
/* Of one instruction set, NULL if this build or processor lacks it. */
const ts_reduce_kernels *ts_reduce_kernels_of(ts_dtype dtype, ts_isa isa);

#endif
