/* SPDX-License-Identifier: Apache-2.0 */
/* Reduction of several buffers into one, element by element, in the order of the sources. */
#ifndef TS_KERNELS_COMBINE_H
#define TS_KERNELS_COMBINE_H

#include <tessera/collectives.h>
#include <tessera/dtype.h>

#include "kernels/isa.h"

/* Which operations an element type takes: averages need numbers, bitwise ones integers or bool, and
 * complex numbers take sums and averages only. */
bool ts_combine_allows(ts_dtype dtype, ts_reduce_op op);

/* to[i] = from[0][i] op from[1][i] op ... op from[n - 1][i].  16-bit types accumulate in float32
 * and round once; integers wrap; averages divide last.  An element's bits do not depend on where in
 * the buffers it lies.  to may be one of the sources, n is at least 1; no other overlap. */
void ts_combine(void *to, const void *const *from, int n, int64_t count, ts_dtype dtype,
                ts_reduce_op op);

/* The same with the kernels of one instruction set, for tests and benchmarks. */
void ts_combine_with(ts_isa isa, void *to, const void *const *from, int n, int64_t count,
                     ts_dtype dtype, ts_reduce_op op);

/* The last step of an average whose sum was made in several: data[i] /= n.  Integers truncate. */
void ts_combine_divide(void *data, int64_t count, ts_dtype dtype, int64_t n);

/* One function per element type and instruction set; dispatched by ts_combine. */
typedef void (*ts_combine_kernel)(void *to, const void *const *from, int n, int64_t count,
                                  ts_reduce_op op);
extern const ts_combine_kernel ts_combine_ref[TS_NUM_DTYPES];
extern const ts_combine_kernel ts_combine_avx2[TS_NUM_DTYPES];

#endif
