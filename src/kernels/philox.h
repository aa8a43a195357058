/* SPDX-License-Identifier: Apache-2.0 */
/* Philox4x32-10 (Salmon et al., SC 2011) and numbers made of its words.
 *
 * Element e of a random sequence takes word e % 4 of block e / 4.  A block is Philox of the counter
 * (block, stream) under the key `seed`.  Numbers of one word use stream 0; numbers of two words
 * take the high one from stream 0 and the low one from stream 1.  So a number depends on (seed, e)
 * alone, and the float32 number of an element is the leading part of the float64 one. */
#ifndef TS_KERNELS_PHILOX_H
#define TS_KERNELS_PHILOX_H

#include <stdint.h>

/* Upper half of a product: random bits to a number below range. */
static inline uint64_t ts_scale_bits(uint64_t bits, uint64_t range)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)((wide)bits * range >> 64);
}

void ts_philox4x32(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);

/* Words of elements first .. first + n - 1 of a stream. */
void ts_kernel_random_words(uint32_t *out, int64_t n, uint64_t seed, uint64_t first,
                            uint32_t stream);

/* Elements first .. first + n - 1, uniform in [0, 1): 24 and 53 bits. */
void ts_kernel_uniform_f32(float *out, int64_t n, uint64_t seed, uint64_t first);
void ts_kernel_uniform_f64(double *out, int64_t n, uint64_t seed, uint64_t first);

/* Normal (0, 1) by Box and Muller: elements 2k and 2k + 1 are cosine and sine of one pair. */
void ts_kernel_normal_f32(float *out, int64_t n, uint64_t seed, uint64_t first);
void ts_kernel_normal_f64(double *out, int64_t n, uint64_t seed, uint64_t first);

/* Integers low .. low + range - 1 (range 0: all of them) by the upper half of a product: the
 * deviation from uniform is below range / 2^64. */
void ts_kernel_uniform_i64(int64_t *out, int64_t n, uint64_t seed, uint64_t first, int64_t low,
                           uint64_t range);

#endif
