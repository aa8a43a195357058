/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion between dtypes, copying and filling of raw elements.
 *
 * Rules.  To floating types: round to nearest even, once; too large becomes infinity; NaN stays
 * NaN. Floating to integer: towards zero; beyond the range the nearest limit; NaN gives 0.  Integer
 * to narrower integer: the low bits.  To bool: not zero (NaN is true).  A bool byte other than 0 or
 * 1 reads as true. */
#ifndef TS_KERNELS_CONVERT_H
#define TS_KERNELS_CONVERT_H

#include <tessera/dtype.h>

/* n contiguous elements; to and from do not overlap. */
typedef void (*ts_convert_fn)(void *to, const void *from, int64_t n);

/* NULL: complex to or from another dtype.  Equal dtypes copy bits. */
ts_convert_fn ts_kernel_convert(ts_dtype to, ts_dtype from);

/* One line of n elements of size bytes (1, 2, 4, 8 or 16), steps in elements (0 and negative ones
 * too); to and from do not overlap. */
void ts_kernel_copy_line(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t n,
                         size_t size);
/* The same with every element equal to the one at value. */
void ts_kernel_fill_line(void *to, int64_t step, const void *value, int64_t n, size_t size);

#endif
